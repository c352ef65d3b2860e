//! What SIGHUP changes.

use super::load;
use crate::config::Config;

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
        data_dir = 'elsewhere'
        trusted_roots = [{ root = '1', time = 2026-01-31T12:00:00Z, kind = 'current' }]
        ",
    )
    .unwrap();
    let (merged, waiting) = old.with_reloaded(new.clone()).unwrap();
    assert_eq!(
        waiting,
        ["data_dir", "listen.gateway", "registry.chain_id", "registry.max_authenticators", "trusted_roots"]
    );
    let expected =
        Config { limits: new.limits.clone(), apps: new.apps.clone(), actions: new.actions.clone(), ..old.clone() };
    assert_eq!(merged, expected);
    assert_eq!(old.with_reloaded(old.clone()).unwrap(), (old, Vec::new()));
}
