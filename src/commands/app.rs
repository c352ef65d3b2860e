//! `selfsame app new`: a new application's block for the configuration.

use std::process::ExitCode;

use alloy_primitives::hex;
use selfsame_actors::{Random, SystemRandom};

use super::error::CommandError;
use super::output::Output;
use crate::cli::App;
use crate::config::SecretHash;

/// Runs the command.
pub fn run(command: App, out: &mut Output) -> Result<ExitCode, CommandError> {
    let App::New { name, redirect_uri, staging } = command;
    out.print(&block(&name, &redirect_uri, staging, &SystemRandom))?;
    Ok(ExitCode::SUCCESS)
}

/// The block to paste into the configuration. A comment in it shows the secret, for the only time;
/// the configuration holds its hash.
fn block(name: &str, redirect_uris: &[String], staging: bool, random: &dyn Random) -> String {
    let mut id = [0; 16];
    let mut salt = [0; 16];
    let mut secret = [0; 32];
    random.fill(&mut id);
    random.fill(&mut salt);
    random.fill(&mut secret);
    let id = format!("app_{}{}", if staging { "staging_" } else { "" }, hex::encode(id));
    let secret = format!("sk_{}", hex::encode(secret));
    let hash = SecretHash::of(salt, &secret).to_text();
    let mut block = toml::Table::new();
    block.insert("id".to_owned(), id.into());
    block.insert("name".to_owned(), name.into());
    block.insert("client_secret_hash".to_owned(), hash.into());
    block.insert("redirect_uris".to_owned(), redirect_uris.to_vec().into());
    block.insert("require_pkce".to_owned(), true.into());
    format!("# The client secret, shown this once: {secret}\n[[apps]]\n{block}")
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
        let text = block("An \"example\"\n[[apps]]", &uris, true, &FixedRandom);
        let table: toml::Table = text.parse().expect("TOML");
        let app = &table["apps"][0];
        assert_eq!(app["id"].as_str(), Some(format!("app_staging_{}", "07".repeat(16)).as_str()));
        assert_eq!(app["name"].as_str(), Some("An \"example\"\n[[apps]]"));
        assert_eq!(app["require_pkce"].as_bool(), Some(true));
        assert_eq!(app["redirect_uris"][0].as_str(), Some(uris[0].as_str()));
        let hash: SecretHash = app["client_secret_hash"].as_str().expect("text").parse().expect("a hash");
        assert!(hash == SecretHash::of(hash.salt(), &format!("sk_{}", "07".repeat(32))));
        assert!(text.starts_with(&format!("# The client secret, shown this once: sk_{}", "07".repeat(32))));
    }
}
