//! `selfsame config …` and `selfsame app …`: the configuration without a start, and its
//! applications, new ones and new secrets.

use std::io::Write;
use std::process::ExitCode;

use alloy_primitives::hex;
use selfsame_actors::{Clock, Random, SystemClock, SystemRandom};
use serde::Serialize;
use serde_json::json;

use super::outcome::{self, CommandError, Output};
use crate::cli::{App, ConfigCommand, NewApp};
use crate::config::{
    self, Config, ConfigError, Environment, RelyingPartyId, SecretHash, SignInProof, Status, check_redirect_uri,
};
use crate::prepared::{Problems, Warning};

/// Runs the command.
pub fn run(command: ConfigCommand, out: &mut Output) -> Result<ExitCode, CommandError> {
    match command {
        ConfigCommand::Check { source, json } => {
            let checked = source.prepare(SystemClock.unix_seconds());
            if json {
                return print_check(checked.map(|(config, _)| warnings_without_store(&config)), out);
            }
            let (config, _) = checked?;
            for warning in warnings_without_store(&config) {
                // A warning that cannot be shown changes nothing about the answer.
                let _ = writeln!(std::io::stderr(), "warning: {warning}");
            }
            writeln!(out, "ok")?;
        }
        ConfigCommand::Dump { source, json } => {
            let loaded = source.load()?;
            if !loaded.errors.is_empty() {
                return Err(ConfigError::Invalid(loaded.errors).into());
            }
            let dump = loaded.dump()?;
            match json {
                true => out.print_json(&dump)?,
                false => out.print(&dump.to_toml())?,
            }
        }
        ConfigCommand::Schema => out.print_json(&config::schema())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The warnings that a configuration alone gives rise to.
fn warnings_without_store(config: &Config) -> Vec<Warning> {
    Warning::all(config, |_| false)
}

/// Prints what a check found as JSON.
fn print_check(checked: Result<Vec<Warning>, Problems>, out: &mut Output) -> Result<ExitCode, CommandError> {
    let (status, problems, warnings) = match checked {
        Ok(warnings) => (ExitCode::SUCCESS, Vec::new(), warnings),
        Err(problems) => (ExitCode::from(outcome::CONFIGURATION), problems.lines(), Vec::new()),
    };
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    out.print_json(&json!({"problems": problems, "warnings": warnings}))?;
    Ok(status)
}

// `selfsame app …`: the applications of the configuration, new ones and new secrets.

/// Runs the command.
pub fn run_app(command: App, out: &mut Output) -> Result<ExitCode, CommandError> {
    match command {
        App::New(app) => {
            for uri in app.redirect_uri.iter().chain(&app.post_logout_redirect_uri) {
                check_redirect_uri(uri)?;
            }
            if app.rp_id.is_some() && !app.has_relying_party_key() {
                return Err("--rp-id needs a key of the relying party: --signing-key-file or --oprf-public-key".into());
            }
            out.print(&block(&app, &SystemRandom))?;
        }
        App::List { json, source } => {
            let loaded = source.load()?;
            if !loaded.errors.is_empty() {
                return Err(ConfigError::Invalid(loaded.errors).into());
            }
            let apps: Vec<ListedApp> = loaded.config.apps.iter().map(|app| listed(&loaded.config, app)).collect();
            match json {
                true => out.print_json(&apps)?,
                false => out.print(&apps.iter().map(line).collect::<String>())?,
            }
        }
        App::Secret => {
            let (secret, hash) = new_secret(&SystemRandom);
            writeln!(out, "# The client secret, shown this once: {secret}")?;
            writeln!(
                out,
                "# To change a secret without an outage, keep the hash of the old one until the application"
            )?;
            writeln!(out, "# uses the new one: client_secret_hashes = [\"the old hash\", \"the new hash\"]")?;
            writeln!(out, "client_secret_hash = \"{hash}\"")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// An application as `app list --json` prints it.
#[derive(Debug, Serialize)]
struct ListedApp {
    id: String,
    name: String,
    /// `active` or `inactive`.
    status: Status,
    environments: Vec<Environment>,
    /// The relying party id at the verification interface.
    rp_id: String,
    is_public: bool,
    /// How many secrets are accepted.
    secrets: usize,
    redirect_uris: Vec<String>,
}

fn listed(config: &Config, app: &crate::config::App) -> ListedApp {
    ListedApp {
        id: app.id.clone(),
        name: app.name().to_owned(),
        status: app.status,
        environments: app.environments().to_vec(),
        rp_id: config.relying_party_id(&app.id).to_string(),
        is_public: app.public,
        secrets: app.secret_hashes().count(),
        redirect_uris: app.redirect_uris.iter().map(ToString::to_string).collect(),
    }
}

fn line(app: &ListedApp) -> String {
    let ListedApp { id, name, status, environments, rp_id, is_public, secrets, .. } = app;
    let status = match status {
        Status::Active => "active",
        Status::Inactive => "inactive",
    };
    let environments: Vec<_> = environments.iter().map(|environment| environment.name()).collect();
    let secrets = match (is_public, secrets) {
        (true, _) => "public".to_owned(),
        (false, 1) => "1 secret".to_owned(),
        (false, secrets) => format!("{secrets} secrets"),
    };
    format!("{id} {status} {} {rp_id} {secrets} {name:?}\n", environments.join(","))
}

/// A new secret of 256 random bits, and its hash as the configuration has it.
fn new_secret(random: &dyn Random) -> (String, String) {
    let (mut salt, mut secret) = ([0; 16], [0; 32]);
    random.fill(&mut salt);
    random.fill(&mut secret);
    let secret = format!("sk_{}", hex::encode(secret));
    let hash = SecretHash::of(salt, &secret).to_text();
    (secret, hash)
}

/// The block to paste into the configuration. A comment in it shows the secret of a confidential
/// client, for the only time; the configuration holds its hash.
fn block(app: &NewApp, random: &dyn Random) -> String {
    let mut id = [0; 16];
    random.fill(&mut id);
    let id = format!("app_{}{}", if app.staging { "staging_" } else { "" }, hex::encode(id));
    let rp_id = app.rp_id.unwrap_or_else(|| RelyingPartyId::derived_from(&id));
    let relying_party = app.has_relying_party_key().then(|| relying_party(app, &id));
    let mut block = toml::Table::new();
    block.insert("id".to_owned(), id.into());
    block.insert("name".to_owned(), app.name.clone().into());
    let mut text = String::new();
    if app.public {
        block.insert("public".to_owned(), true.into());
    } else {
        let (secret, hash) = new_secret(random);
        text = format!("# The client secret, shown this once: {secret}\n");
        block.insert("client_secret_hash".to_owned(), hash.into());
    }
    block.insert("redirect_uris".to_owned(), app.redirect_uri.clone().into());
    if !app.post_logout_redirect_uri.is_empty() {
        block.insert("post_logout_redirect_uris".to_owned(), app.post_logout_redirect_uri.clone().into());
    }
    if !app.public {
        // A public client has to use PKCE in any case.
        block.insert("require_pkce".to_owned(), true.into());
    }
    if relying_party.is_some() {
        block.insert("proof".to_owned(), SignInProof::Account.name().into());
    }
    let relying_party = relying_party.unwrap_or_default();
    format!("{text}# The relying party id at the verification interface: {rp_id}\n[[apps]]\n{block}{relying_party}")
}

/// The block of an application's relying party.
fn relying_party(app: &NewApp, id: &str) -> String {
    let mut party = toml::Table::new();
    party.insert("app_id".to_owned(), id.into());
    if let Some(rp_id) = app.rp_id {
        party.insert("rp_id".to_owned(), rp_id.to_string().into());
    }
    if let Some(file) = &app.signing_key_file {
        party.insert("signing_key_file".to_owned(), file.clone().into());
    }
    let mut comment = "";
    match app.oprf_public_key {
        Some(key) => {
            let (x, y) = key.to_text();
            let key = toml::Table::from_iter([("x".to_owned(), x.into()), ("y".to_owned(), y.into())]);
            party.insert("oprf_public_key".to_owned(), key.into());
        }
        None => {
            comment = "# Its OPRF public key is followed from a chain, or is written here: \
                       oprf_public_key = { x = …, y = … }\n"
        }
    }
    let parties = toml::Value::Array(vec![party.into()]);
    format!("\n{comment}{}", toml::Table::from_iter([("relying_parties".to_owned(), parties)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::values::CurvePoint;

    struct FixedRandom;

    impl Random for FixedRandom {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(7);
        }
    }

    #[test]
    fn the_printed_block_is_valid_configuration() {
        let uris = ["https://app.example/callback?\"x\"".to_owned()];
        let name = "An \"example\"\n[[apps]]".to_owned();
        let app = NewApp { name, redirect_uri: uris.to_vec(), staging: true, ..NewApp::default() };
        let text = block(&app, &FixedRandom);
        let table: toml::Table = text.parse().expect("TOML");
        let app = &table["apps"][0];
        assert!(text.contains("]]\nid = "), "the id comes first: {text}");
        assert_eq!(app["id"].as_str(), Some(format!("app_staging_{}", "07".repeat(16)).as_str()));
        assert_eq!(app["name"].as_str(), Some("An \"example\"\n[[apps]]"));
        assert_eq!(app["require_pkce"].as_bool(), Some(true));
        assert_eq!(app["redirect_uris"][0].as_str(), Some(uris[0].as_str()));
        let hash: SecretHash = app["client_secret_hash"].as_str().expect("text").parse().expect("a hash");
        assert!(hash == SecretHash::of(hash.salt(), &format!("sk_{}", "07".repeat(32))));
        assert!(text.starts_with(&format!("# The client secret, shown this once: sk_{}", "07".repeat(32))));
        assert!(app.get("public").is_none() && app.get("post_logout_redirect_uris").is_none(), "{text}");
    }

    #[test]
    fn people_get_accounts_that_last_where_the_relying_party_has_a_key() {
        let (x, y) = (
            "5299619240641551281634865583518297030282874472190772894086521144482721001553",
            "16950150798460657717958625567821834550301663161624707787222815936182638968203",
        );
        let point = || Some(format!("{x},{y}").parse::<CurvePoint>().expect("a point"));
        let (file, rp_id) = (Some("rp.key".to_owned()), "rp_00000000000000ff".parse::<RelyingPartyId>().ok());
        let app = |signing_key_file, oprf_public_key, rp_id| NewApp {
            name: "A page".to_owned(),
            redirect_uri: vec!["https://app.example/".to_owned()],
            signing_key_file,
            oprf_public_key,
            rp_id,
            ..NewApp::default()
        };
        #[rustfmt::skip]
        let table = [
            ("neither key", app(None, None, None), false),
            ("the key that signs requests", app(file.clone(), None, None), true),
            ("the OPRF key", app(None, point(), None), true),
            ("both, and an id", app(file, point(), rp_id), true),
        ];
        for (what, app, has_accounts) in table {
            let text = block(&app, &FixedRandom);
            let config: Config = toml::from_str(&text).unwrap_or_else(|error| panic!("{what}: {error}: {text}"));
            assert_eq!(config.apps[0].proof == SignInProof::Account, has_accounts, "{what}: {text}");
            assert_eq!(config.relying_parties.len(), usize::from(has_accounts), "{what}: {text}");
            assert_eq!(text.contains("oprf_public_key = {"), has_accounts && app.oprf_public_key.is_none(), "{text}");
            for party in &config.relying_parties {
                assert_eq!(party.app_id, config.apps[0].id, "{what}");
                assert_eq!(
                    party.signing_key_file.as_ref().map(|file| file.display().to_string()),
                    app.signing_key_file
                );
                assert_eq!(party.oprf_public_key, app.oprf_public_key, "{what}");
                assert_eq!(party.rp_id(), app.rp_id.unwrap_or_else(|| RelyingPartyId::derived_from(&party.app_id)));
                assert!(text.contains(&format!("interface: {}\n", party.rp_id())), "{what}: {text}");
            }
        }
        for wrong in ["", "1", "1,", "1,2", &format!("{x};{y}"), &format!("{x},{y},")] {
            assert!(wrong.parse::<CurvePoint>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_public_client_has_no_secret() {
        let home = vec!["https://app.example/".to_owned()];
        let app = NewApp {
            name: "A page".to_owned(),
            redirect_uri: home.clone(),
            post_logout_redirect_uri: home.clone(),
            public: true,
            ..NewApp::default()
        };
        let text = block(&app, &FixedRandom);
        let table: toml::Table = text.parse().expect("TOML");
        let app = &table["apps"][0];
        assert!(!text.contains("secret"), "{text}");
        assert_eq!(app["public"].as_bool(), Some(true));
        for key in ["redirect_uris", "post_logout_redirect_uris"] {
            assert_eq!(app[key].as_array().map(Vec::as_slice), Some(&[home[0].as_str().into()][..]), "{key}");
        }
    }
}
