//! Reads how sign-in opens authenticators: the links of the configuration, and what a request on
//! the message bridge asks for.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use alloy_primitives::{Address, hex};
use selfsame_interfaces::sign_in::wallet_links::{AppLink, WalletLinks};
use selfsame_protocol::address;
use selfsame_protocol::bridge::request::{Level, MOST_CREDENTIALS};
use selfsame_protocol::bridge::sign_in::{RequestedCredential, SigningParty};
use selfsame_protocol::groups::names::GroupId;
use selfsame_protocol::signature::{SecretKey, SecretKeyError};
use selfsame_protocol::verification::{Environment, LegacyIdentifier, ProofKind};
use zeroize::Zeroizing;

use crate::config::{App, Config, CrossDevice, SignInProof, WalletLink};
use crate::data_files::{SecretFileError, read_secret};

/// A setting that sign-in over the message bridge cannot be set up with.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct WalletLinkError {
    key: String,
    problem: WalletLinkProblem,
}

/// Why sign-in over the message bridge cannot be set up.
#[derive(Debug, thiserror::Error)]
enum WalletLinkProblem {
    #[error(transparent)]
    File(#[from] SecretFileError),
    #[error("{path}: it has to contain 64 hex digits; make one with: openssl rand -hex 32")]
    NotHex { path: String },
    #[error("{path}: {error}")]
    NotAKey { path: String, error: SecretKeyError },
    #[error("{path} has the key of {}, and signing_key is {}", address::text(.found), address::text(.expected))]
    Another { path: String, found: Address, expected: Address },
    #[error(
        "\"deny\" cannot be kept with wallet_link = \"bridge\": an answer over the bridge does not say which device it \
         comes from; give the application a link of its own"
    )]
    CrossDevice,
    #[error(
        "\"current\" with wallet_link = \"bridge\" needs signing_key_file in the [[relying_parties]] entry of {app_id}: \
         authenticators answer only signed requests"
    )]
    Unsigned { app_id: String },
    #[error(
        "\"current\" with wallet_link = \"bridge\" needs an issuer in [[issuers]] whose credentials count for {app_id} \
         in {}", environment.name()
    )]
    NoIssuer { app_id: String, environment: Environment },
    #[error(
        "\"current\" with wallet_link = \"bridge\" asks for one of {count} credentials, and a request names at most \
         {MOST_CREDENTIALS}; choose them with accepted_identifiers"
    )]
    TooManyCredentials { count: usize },
    #[error(
        "a group alone with wallet_link = \"bridge\": authenticators on the bridge answer with a public credential, and \
         the group {group} has no legacy_identifier that they are asked for (orb, secure_document, document, device or \
         selfie); give the group one, or the application a link of its own"
    )]
    Group { group: GroupId },
}

/// Reads the links, and the keys that the configuration names.
///
/// # Errors
/// All settings that cannot be used.
pub fn read(config: &Config) -> Result<WalletLinks, Vec<WalletLinkError>> {
    let mut errors = Vec::new();
    // `None` for a file that cannot be used.
    let mut keys: HashMap<&str, Option<SecretKey>> = HashMap::new();
    for (index, party) in config.relying_parties.iter().enumerate() {
        let Some(path) = &party.signing_key_file else { continue };
        let key = signing_key(path, party.signing_key.map(|key| key.0)).map_err(|problem| {
            let key = format!("relying_parties[{index}].signing_key_file");
            errors.push(WalletLinkError { key, problem });
        });
        keys.insert(&party.app_id, key.ok());
    }
    let mut apps = HashMap::new();
    for (index, app) in config.apps.iter().enumerate().filter(|(_, app)| app.signs_in()) {
        let link = &app.wallet_link;
        let is_bridged = link.as_ref().or(config.sign_in.wallet_link.as_ref()) == Some(&WalletLink::Bridge);
        let key = keys.get(app.id.as_str());
        let bridged = bridged(config, app, key.and_then(Option::as_ref)).map_err(|(setting, problem)| {
            // A key that cannot be read is reported already.
            if is_bridged && !matches!(key, Some(None)) {
                errors.push(WalletLinkError { key: format!("apps[{index}].{setting}"), problem });
            }
        });
        let Bridged { legacy, current } = bridged.unwrap_or_default();
        apps.insert(
            app.id.clone(),
            Arc::new(AppLink {
                link: link.as_ref().map(WalletLink::to_link),
                accepts_group: !config.sign_in_sources(app).groups.is_empty(),
                legacy,
                current,
            }),
        );
    }
    let service = config.sign_in.wallet_link.as_ref().map(WalletLink::to_link);
    let connector_base = config.sign_in.connector_base.as_ref().map(ToString::to_string);
    if errors.is_empty() { Ok(WalletLinks::new(service, connector_base, apps)) } else { Err(errors) }
}

fn signing_key(path: &Path, expected: Option<Address>) -> Result<SecretKey, WalletLinkProblem> {
    let text = Zeroizing::new(read_secret(path)?);
    let path = || path.display().to_string();
    let mut bytes = Zeroizing::new([0; 32]);
    let digits = text.strip_prefix("0x").unwrap_or(&text);
    hex::decode_to_slice(digits, bytes.as_mut_slice()).map_err(|_| WalletLinkProblem::NotHex { path: path() })?;
    let key = SecretKey::from_bytes(&bytes).map_err(|error| WalletLinkProblem::NotAKey { path: path(), error })?;
    match expected {
        Some(expected) if expected != key.address() => {
            Err(WalletLinkProblem::Another { path: path(), found: key.address(), expected })
        }
        _ => Ok(key),
    }
}

/// What sign-in can ask for on the message bridge.
#[derive(Default)]
struct Bridged {
    legacy: Option<Level>,
    current: Option<Arc<SigningParty>>,
}

/// What sign-in can ask for on the message bridge. An application with accounts may ask for legacy
/// proofs as well, as one with a legacy history.
///
/// # Errors
/// The setting with which no authenticator could answer.
fn bridged(config: &Config, app: &App, key: Option<&SecretKey>) -> Result<Bridged, (&'static str, WalletLinkProblem)> {
    if app.cross_device == CrossDevice::Deny {
        return Err(("cross_device", WalletLinkProblem::CrossDevice));
    }
    let counts = |name: &str| config.counts_for(app, app.sign_in_environment(), name);
    let level = Level::weakest(|identifier: LegacyIdentifier| counts(identifier.name()));
    let only_group = config.sign_in_sources(app).only_group();
    if let Some(group) = only_group.filter(|_| !counts(level.credential().name())) {
        return Err(("accepted_identifiers", WalletLinkProblem::Group { group: group.id }));
    }
    match app.proof.kind() {
        ProofKind::Legacy => Ok(Bridged { legacy: Some(level), current: None }),
        ProofKind::Current => {
            let app_id = || app.id.clone();
            let key = key.ok_or_else(|| ("proof", WalletLinkProblem::Unsigned { app_id: app_id() }))?.clone();
            let environment = app.sign_in_environment();
            let credentials = credentials(config, environment, counts);
            if credentials.is_empty() {
                return Err(("proof", WalletLinkProblem::NoIssuer { app_id: app_id(), environment }));
            }
            if credentials.len() > MOST_CREDENTIALS {
                return Err(("proof", WalletLinkProblem::TooManyCredentials { count: credentials.len() }));
            }
            let party = SigningParty { rp_id: config.relying_party_id(&app.id), key, credentials };
            let legacy = (app.proof == SignInProof::Account).then_some(level);
            Ok(Bridged { legacy, current: Some(Arc::new(party)) })
        }
    }
}

/// The credential of people who have no legacy account: a proof of human, or the first one that
/// counts; `None` when no issuer is configured whose credentials count.
pub fn first_credential(config: &Config, app: &App) -> Option<String> {
    let environment = app.sign_in_environment();
    let credentials = credentials(config, environment, |identifier| config.counts_for(app, environment, identifier));
    let is_human = |credential: &&RequestedCredential| credential.identifier == PROOF_OF_HUMAN;
    let found = credentials.iter().find(is_human).or(credentials.first());
    found.map(|credential| credential.identifier.clone())
}

/// The credential that most people have.
const PROOF_OF_HUMAN: &str = "proof_of_human";

/// The credentials that a current proof may be of: one of each issuer. A request names each
/// credential once, so an issuer has none in it whose credentials are those of issuers before it.
fn credentials(config: &Config, environment: Environment, counts: impl Fn(&str) -> bool) -> Vec<RequestedCredential> {
    let mut credentials: Vec<RequestedCredential> = Vec::new();
    for issuer in config.issuers.iter().filter(|issuer| issuer.environments().contains(&environment)) {
        let is_free = |identifier: &str| credentials.iter().all(|credential| credential.identifier != identifier);
        let identifier = issuer.identifiers().into_iter().find(|identifier| counts(identifier) && is_free(identifier));
        if let Some(identifier) = identifier {
            let identifier = identifier.to_owned();
            credentials.push(RequestedCredential { identifier, issuer_schema_id: issuer.id });
        }
    }
    credentials
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use selfsame_interfaces::sign_in::wallet_links::Way;

    use super::*;
    use crate::data_files::write_secret;

    const APPS: &str = "[[apps]]\nid = 'app_a'\nredirect_uris = ['https://a.example/']\n";

    fn read(text: &str) -> Result<WalletLinks, Vec<WalletLinkError>> {
        super::read(&toml::from_str(text).unwrap())
    }

    /// The link that opens an authenticator.
    fn link(links: &WalletLinks, app_id: &str) -> String {
        match links.way(app_id, ProofKind::Legacy, "https://x") {
            Way::Link(link) => link,
            Way::Bridge(proof) => panic!("{proof:?}"),
        }
    }

    fn shown(way: impl Debug) -> String {
        format!("{way:?}")
    }

    #[test]
    fn the_link_of_an_application_comes_before_that_of_the_service() {
        let two = format!("{APPS}wallet_link = 'a:{{request}}'\n{}", APPS.replace("app_a", "app_b"));
        let links = read(&format!("sign_in.wallet_link = 'service:{{request}}'\n{two}")).ok().unwrap();
        assert_eq!(link(&links, "app_a"), "a:https%3A%2F%2Fx");
        assert_eq!(link(&links, "app_b"), "service:https%3A%2F%2Fx");
        assert_eq!(link(&read(&two).ok().unwrap(), "app_b"), "https://x");
        let other = format!("{}wallet_link = 'b:{{request}}'\n", APPS.replace("app_a", "app_b"));
        links.replace_apps(&read(&other).ok().unwrap());
        assert_eq!(link(&links, "app_a"), "service:https%3A%2F%2Fx");
        assert_eq!(link(&links, "app_b"), "b:https%3A%2F%2Fx");
    }

    #[test]
    fn a_newer_credential_is_a_proof_of_human_where_that_counts() {
        let first = |accepted: &str, issuers: &str| {
            let config: Config = toml::from_str(&format!("{APPS}{accepted}\n{issuers}")).unwrap();
            first_credential(&config, &config.apps[0])
        };
        let (passport, human) = ("[[issuers]]\nid = 9303\n", "[[issuers]]\nid = 1\n");
        for (what, accepted, issuers, expected) in [
            ("both, in whatever order", "", format!("{passport}{human}"), Some("proof_of_human")),
            (
                "only the other one counts",
                "accepted_identifiers = ['passport']",
                format!("{passport}{human}"),
                Some("passport"),
            ),
            ("there is only the other one", "", passport.to_owned(), Some("passport")),
            ("none counts", "accepted_identifiers = ['orb']", human.to_owned(), None),
            ("there is none", "", String::new(), None),
        ] {
            assert_eq!(first(accepted, &issuers).as_deref(), expected, "{what}");
        }
    }

    #[test]
    fn the_bridge_asks_for_the_weakest_proof_that_counts() {
        for (settings, expected) in [
            ("", "Legacy(Device)"),
            ("accepted_identifiers = ['orb']", "Legacy(Orb)"),
            ("accepted_identifiers = ['document', 'secure_document', 'orb']", "Legacy(Document)"),
        ] {
            let links = read(&format!("sign_in.wallet_link = 'bridge'\n{APPS}{settings}")).ok().unwrap();
            assert_eq!(shown(links.way("app_a", ProofKind::Legacy, "https://x")), format!("Bridge({expected})"));
        }
    }

    #[test]
    fn a_current_proof_is_asked_for_in_signed_requests() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rp.key");
        let current = |party: &str, issuers: &str| {
            let party = party.replace("FILE", path.to_str().unwrap());
            format!("sign_in.wallet_link = 'bridge'\n{APPS}proof = 'current'\n{party}{issuers}")
        };
        let party = "[[relying_parties]]\napp_id = 'app_a'\nrp_id = 'rp_0000000000000007'\nsigning_key_file = 'FILE'\n";
        let issuers = "[[issuers]]\nid = 1\n[[issuers]]\nid = 9303\n[[issuers]]\nid = 128\n";
        write_secret(&path, format!("0x{}\n", "07".repeat(32)));
        let links = read(&current(party, issuers)).ok().unwrap();
        let way = shown(links.way("app_a", ProofKind::Current, "https://x"));
        // Issuer 128 issues for staging alone.
        for part in ["rp_id: RelyingPartyId(7)", "proof_of_human", "passport", "issuer_schema_id: 9303"] {
            assert!(way.contains(part) && !way.contains("128"), "{way}");
        }
        assert!(!way.contains("0707"), "the key is not shown: {way}");
        // In staging it does; its only credential is that of issuer 1, and a request names it once.
        let staging = current(party, issuers).replace("app_a", "app_staging_a");
        let way = shown(read(&staging).ok().unwrap().way("app_staging_a", ProofKind::Current, "https://x"));
        assert_eq!(way.matches("proof_of_human").count(), 1, "{way}");
        assert!(way.contains("issuer_schema_id: 1 ") && way.contains("9303") && !way.contains("128"), "{way}");
        let many = |count: u64| -> String {
            (1..=count).map(|id| format!("[[issuers]]\nid = {}\nidentifiers = ['c{id}']\n", 1000 + id)).collect()
        };
        assert!(read(&current(party, &many(MOST_CREDENTIALS as u64))).is_ok());
        let too_many = many(MOST_CREDENTIALS as u64 + 1);

        let other_key = format!("{party}signing_key = '0x00000000000000000000000000000000000000aa'\n");
        let passport = "[[issuers]]\nid = 128\n";
        #[rustfmt::skip]
        let table = [
            (current("", issuers), "apps[0].proof: ", "needs signing_key_file in the [[relying_parties]] entry of app_a"),
            (current(party, ""), "apps[0].proof: ", "needs an issuer in [[issuers]] whose credentials count for app_a"),
            (current(party, passport), "apps[0].proof: ", "for app_a in production"),
            (current(party, &too_many), "apps[0].proof: ", "asks for one of 12 credentials, and a request names at most 11"),
            (current(&other_key, issuers), "relying_parties[0].signing_key_file: ", "and signing_key is 0x0000"),
            (format!("{APPS}wallet_link = 'bridge'\ncross_device = 'deny'"), "apps[0].cross_device: ", "link of its own"),
        ];
        for (text, key, reason) in table {
            let errors = read(&text).err().unwrap();
            let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            assert!(errors.len() == 1 && text.starts_with(key) && text.contains(reason), "{text}");
        }
        for (content, reason) in [("", "empty"), ("07", "64 hex digits"), (&"00".repeat(32), "neither zero")] {
            write_secret(&path, content);
            let errors = read(&current(party, issuers)).err().unwrap();
            assert!(errors[0].to_string().contains(reason), "{}", errors[0]);
        }
    }
}
