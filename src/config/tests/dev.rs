//! What `--dev` adds.

use selfsame_interfaces::interface::Interface;

use super::{check_problems, load_with};
use crate::config::{Config, Environment, EnvironmentKeys, RelyingPartyId, StagingKey};

#[test]
fn dev_adds_example_settings() {
    let config = Config::load(None, std::iter::empty(), true, None).unwrap();
    assert!(config.dev);
    assert_eq!(config.registry.chain_id, 31337);
    assert_eq!(
        config.registry.verifying_contract.unwrap().to_string().to_lowercase(),
        "0xcf7ed3acca5a467e9e704c703e8d87f634fb0fc9"
    );
    assert_eq!(config.verifier.keys.staging.current, StagingKey::Simulator);
    assert_eq!(config.verifier.keys.production, EnvironmentKeys::default());
    assert_eq!(config.issuers[0].environments(), [Environment::Staging]);
    let summary = config.dev_summary(&config.public_urls(&config.listen), |_| true);
    for part in [
        "sign-in           http://127.0.0.1:8080",
        "verification      http://127.0.0.1:8081",
        "gateway           http://127.0.0.1:8082",
        "indexer           http://127.0.0.1:8083",
        "operator          http://127.0.0.1:8084",
        "app_staging_5e1f5a3e000000000000000000000001 (staging)",
        "app_5e1f5a3e000000000000000000000002 (production)",
        "sk_dev_only",
        "http://localhost:3000/callback",
        "http://127.0.0.1:3000/callback",
        &RelyingPartyId::derived_from("app_staging_5e1f5a3e000000000000000000000001").to_string(),
        &RelyingPartyId::derived_from("app_5e1f5a3e000000000000000000000002").to_string(),
        "1 (staging)",
        "11 (staging)",
        "current proofs (staging)",
    ] {
        assert!(summary.contains(part), "{part:?} is not in\n{summary}");
    }
}

#[test]
fn a_file_overrides_the_settings_of_dev() {
    let text = "
        registry.chain_id = 7
        verifier.keys.staging.current = 'builtin'
        [[apps]]
        id = 'app_5e1f5a3e000000000000000000000002'
        [[apps]]
        id = 'app_mine'
    ";
    let config = load_with(text, &[], true).unwrap();
    assert_eq!(config.registry.chain_id, 7);
    assert!(config.registry.verifying_contract.is_some());
    assert_eq!(config.verifier.keys.staging.current, StagingKey::default());
    let ids: Vec<&str> = config.apps.iter().map(|app| app.id.as_str()).collect();
    assert_eq!(
        ids,
        ["app_5e1f5a3e000000000000000000000002", "app_mine", "app_staging_5e1f5a3e000000000000000000000001"]
    );
    assert_eq!(config.apps[0].client_secret_hash, None);
    // Without a key of the simulator there is no seed for its attestation issuer.
    assert_eq!(config.integrity, []);
}

#[test]
fn dev_adds_the_simulators_attestation_issuer_where_no_other_is() {
    let of = |text: &str| -> Vec<(String, Vec<&'static str>)> {
        let entries = load_with(text, &[], true).unwrap().integrity.into_iter();
        let names = |entry: &crate::config::Integrity| entry.environments.iter().map(|place| place.name()).collect();
        entries.map(|entry| (entry.issuer.clone(), names(&entry))).collect()
    };
    let simulator = |environments| ("attestation.simulator".to_owned(), environments);
    assert_eq!(of(""), [simulator(vec!["staging", "sandbox"])]);
    let own = "[[integrity]]\nissuer = 'a'\njwks_file = 'jwks.json'\nenvironments = ['production', 'staging']";
    assert_eq!(of(own), [("a".to_owned(), vec!["production", "staging"]), simulator(vec!["sandbox"])]);
}

#[test]
fn dev_accepts_only_loopback_listeners() {
    for address in ["0.0.0.0:1", "192.0.2.1:1", "[::]:1"] {
        for key in Interface::ALL.map(Interface::listen_key) {
            let text = format!("listen.{key} = '{address}'");
            check_problems(
                load_with(&text, &[], true),
                &[&[&format!("listen.{key}: {address} is not loopback"), "127.0.0.1"]],
            );
        }
    }
    load_with("listen.gateway = '[::1]:0'\nlisten.indexer = '127.0.0.2:0'", &[], true).unwrap();
}
