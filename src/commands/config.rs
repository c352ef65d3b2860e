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
use crate::config::{self, Config, ConfigError, Environment, RelyingPartyId, SecretHash, Status, check_redirect_uri};
use crate::prepared::{Problems, Warning};

/// Runs the command.
pub fn run(command: ConfigCommand, out: &mut Output) -> Result<ExitCode, CommandError> {
    match command {
        ConfigCommand::Check { source, json } => {
            let checked = source.prepare(SystemClock.unix_seconds());
            if json {
                return print_check(checked.map(|(config, _)| Warning::all(&config)), out);
            }
            let (config, _) = checked?;
            for warning in Warning::all(&config) {
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
    let rp_id = RelyingPartyId::derived_from(&id);
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
    format!("{text}# The relying party id at the verification interface: {rp_id}\n[[apps]]\n{block}")
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_public_client_has_no_secret() {
        let home = vec!["https://app.example/".to_owned()];
        let app = NewApp {
            name: "A page".to_owned(),
            redirect_uri: home.clone(),
            post_logout_redirect_uri: home.clone(),
            public: true,
            staging: false,
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
