//! What a reload changes.

use super::load;
use crate::config::{Config, Reloaded};

#[test]
fn reloading_applies_some_sections_and_names_the_others() {
    let old = load("apps = [{ id = 'app_a' }]").unwrap();
    let new = load(
        "
        registry = { max_authenticators = 3, chain_id = 1 }
        limits.in_flight = 5
        listen.gateway = '127.0.0.1:1'
        apps = [{ id = 'app_b' }]
        actions = [{ app_id = 'app_b', action = 'x' }]
        cors.allowed_origins = ['https://a.example']
        tls = { certificate = 'a', private_key = 'b' }
        log.format = 'json'
        sign_in.signing_algorithm = 'ES256'
        data_dir = 'elsewhere'
        trusted_roots = [{ root = '1', time = 2026-01-31T12:00:00Z, kind = 'current' }]
        ",
    )
    .unwrap();
    let Reloaded { config, changed, needs_restart } = old.with_reloaded(new.clone()).unwrap();
    assert_eq!(changed, ["limits.in_flight", "cors.allowed_origins", "apps", "actions", "trusted_roots"]);
    assert_eq!(
        needs_restart,
        [
            "tls",
            "data_dir",
            "listen.gateway",
            "registry.chain_id",
            "registry.max_authenticators",
            "log.format",
            "sign_in.signing_algorithm",
        ]
    );
    let Config { limits, cors, apps, actions, trusted_roots, .. } = new.clone();
    let expected = Config { limits, cors, apps, actions, trusted_roots, ..old.clone() };
    assert_eq!(config, expected);
    let unchanged = Reloaded { config: old.clone(), changed: Vec::new(), needs_restart: Vec::new() };
    assert_eq!(old.with_reloaded(old.clone()).unwrap(), unchanged);
    // The files of a certificate may move, but a listener does not begin to speak TLS.
    let moved = load("tls = { certificate = 'c', private_key = 'b' }").unwrap();
    let Reloaded { config, changed, .. } = new.with_reloaded(moved.clone()).unwrap();
    assert_eq!(config.tls, moved.tls);
    assert!(changed.contains(&"tls".to_owned()), "{changed:?}");
}
