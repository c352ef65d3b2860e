//! What `--dev` adds to the configuration, and the table that it prints.
//!
//! Everything here is public: the secret of the example applications, the simulator's key, and the
//! key of issuer 1 and of the relying party, which is the generator of BabyJubJub and so has the
//! private key 1. The keys count in staging only, and the daemon listens on loopback only.

use std::fmt::Write;

use serde::Deserialize;

use super::error::Source;
use super::sections::{App, ProofKind, PublicUrls};
use super::tree::Node;
use super::values::{SecretHash, StagingKey};
use super::whole::Config;
use crate::interface::Interface;

/// The secret of the example applications.
pub const DEV_SECRET: &str = "sk_dev_only";
const DEV_SALT: [u8; 16] = [0; 16];

/// The defaults of `--dev`, in the form of a configuration file.
const SETTINGS: &str = r#"
[registry]
chain_id = 31337
verifying_contract = "0xcf7ed3acca5a467e9e704c703e8d87f634fb0fc9"
[verifier.keys.staging]
current = "simulator"
"#;

/// Entries that are added to the lists. An entry of the configuration with the same id stays as it
/// is.
const ENTRIES: &str = r#"
[[apps]]
id = "app_staging_5e1f5a3e000000000000000000000001"
name = "Example application"
accept_legacy = true
redirect_uris = ["http://localhost:3000/callback", "http://127.0.0.1:3000/callback"]
response_types = ["code", "id_token", "id_token token", "code id_token", "code token", "code id_token token"]
post_logout_redirect_uris = ["http://localhost:3000/", "http://127.0.0.1:3000/"]
[[apps]]
id = "app_5e1f5a3e000000000000000000000002"
name = "Example application (production)"
redirect_uris = ["http://localhost:3000/callback", "http://127.0.0.1:3000/callback"]
response_types = ["code", "id_token", "id_token token", "code id_token", "code token", "code id_token token"]
post_logout_redirect_uris = ["http://localhost:3000/", "http://127.0.0.1:3000/"]
[[relying_parties]]
app_id = "app_staging_5e1f5a3e000000000000000000000001"
[relying_parties.oprf_public_key]
x = "5299619240641551281634865583518297030282874472190772894086521144482721001553"
y = "16950150798460657717958625567821834550301663161624707787222815936182638968203"
[[issuers]]
id = 1
environments = ["staging"]
[issuers.public_key]
x = "5299619240641551281634865583518297030282874472190772894086521144482721001553"
y = "16950150798460657717958625567821834550301663161624707787222815936182638968203"
"#;

/// The defaults of `--dev`; configured settings replace them.
pub(super) fn settings() -> Node {
    document(SETTINGS)
}

/// Adds the example applications with their secret, their relying party and issuer 1.
pub(super) fn add_entries(config: &mut Config) {
    let secret = Some(SecretHash::of(DEV_SALT, DEV_SECRET));
    // Both constants are valid, which a test checks, so the defaults are never used.
    let added = Config::deserialize(document(ENTRIES)).unwrap_or_default();
    for app in added.apps {
        if config.apps.iter().all(|other| other.id != app.id) {
            config.apps.push(App { client_secret_hash: secret.clone(), ..app });
        }
    }
    for party in added.relying_parties {
        if config.relying_parties.iter().all(|other| other.app_id != party.app_id) {
            config.relying_parties.push(party);
        }
    }
    for issuer in added.issuers {
        if config.issuers.iter().all(|other| other.id != issuer.id) {
            config.issuers.push(issuer);
        }
    }
}

fn document(text: &str) -> Node {
    Node::document(text.parse().unwrap_or_default(), &Source::Development)
}

impl Config {
    /// The table that `--dev` prints: the URL of each interface that is served, then what the
    /// configuration has for trying them out.
    pub fn dev_summary(&self, urls: &PublicUrls, serves: impl Fn(Interface) -> bool) -> String {
        let mut text = String::from("Development mode: every key and secret below is public.\n");
        let mut row = |name: &str, value: &str| _ = writeln!(text, "  {name:<18}{value}");
        for (interface, url) in urls.iter().filter(|(interface, _)| serves(*interface)) {
            row(interface.name(), url);
        }
        for app in &self.apps {
            let environments: Vec<_> = app.environments().iter().map(|environment| environment.name()).collect();
            row("application", &format!("{} ({})", app.id, environments.join(", ")));
            match app.secret_hashes().next() {
                Some(hash) if *hash == SecretHash::of(hash.salt(), DEV_SECRET) => row("  secret", DEV_SECRET),
                Some(_) => row("  secret", "as configured"),
                None => row("  secret", "none"),
            }
            for uri in &app.redirect_uris {
                row("  redirect URI", uri);
            }
            row("  relying party", &self.relying_party_id(&app.id).to_string());
        }
        for issuer in &self.issuers {
            let environments: Vec<_> = issuer.environments().iter().map(|environment| environment.name()).collect();
            row("issuer", &format!("{} ({})", issuer.id, environments.join(", ")));
        }
        for kind in ProofKind::ALL {
            if *self.verifier.keys.staging.of(kind) == StagingKey::Simulator {
                row("simulator key", &format!("{} proofs (staging)", kind.name()));
            }
        }
        text
    }
}
