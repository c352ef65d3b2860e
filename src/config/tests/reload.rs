//! What a reload changes.

use std::collections::BTreeSet;

use super::dump::everything;
use super::load;
use crate::config::{Config, CreateAccount, Reloaded, SecretHash};

#[test]
fn reloading_applies_some_sections_and_names_the_others() {
    let old = load("apps = [{ id = 'app_a' }]").unwrap();
    let new = "
        registry = { max_authenticators = 3, chain_id = 1, create_account = 'token', create_account_token_hash = 'HASH' }
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
        "
    .replace("HASH", &format!("sha256:{}:{}", "01".repeat(16), "02".repeat(32)));
    let new = load(&new).unwrap();
    let Reloaded { config, changed, needs_restart } = old.with_reloaded(new.clone()).unwrap();
    let creation = ["registry.create_account", "registry.create_account_token_hash"];
    let others = ["cors.allowed_origins", "apps", "actions", "trusted_roots"];
    assert_eq!(changed, [&["limits.in_flight"][..], &others, &creation].concat());
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
    let Config { limits, registry, cors, apps, actions, trusted_roots, .. } = new.clone();
    let mut expected = Config { limits, cors, apps, actions, trusted_roots, ..old.clone() };
    expected.registry.create_account = registry.create_account;
    expected.registry.create_account_token_hash = registry.create_account_token_hash;
    assert_eq!(config, expected);
    let unchanged = Reloaded { config: old.clone(), changed: Vec::new(), needs_restart: Vec::new() };
    assert_eq!(old.with_reloaded(old.clone()).unwrap(), unchanged);
    // The files of a certificate may move, but a listener does not begin to speak TLS.
    let moved = load("tls = { certificate = 'c', private_key = 'b' }").unwrap();
    let Reloaded { config, changed, .. } = new.with_reloaded(moved.clone()).unwrap();
    assert_eq!(config.tls, moved.tls);
    assert!(changed.contains(&"tls".to_owned()), "{changed:?}");
}

/// `docs/operations/running.md` lists the settings that a reload takes over.
#[test]
fn the_page_names_what_a_reload_takes_over() {
    // Chains wait for a restart, and what is followed from them must not change before.
    let everything = everything();
    let (settings, _) = everything.split_once("[[chains]]").unwrap();
    let webhook = "[[webhooks]]\nid = 'w'\nurl = 'https://w.example/'\nsecret_file = 'w'\nevents = ['root.added']\n";
    let mut new = load(&format!("bridge.lifetime = '20m'\nevents.streams = true\n{settings}\n{webhook}")).unwrap();
    new.registry.create_account = CreateAccount::Token;
    new.registry.create_account_token_hash = Some(SecretHash::of([1; 16], "a token"));
    let old = load("tls = { certificate = 'a', private_key = 'b' }").unwrap();
    let Reloaded { changed, .. } = old.with_reloaded(new).unwrap();
    let page = include_str!("../../../docs/operations/running.md");
    let (_, list) = page.split_once("These settings are taken over: ").unwrap();
    let list = list.split_once("The other ones wait").unwrap().0;
    let named: BTreeSet<_> = list.split('`').skip(1).step_by(2).map(|name| name.trim_matches(['[', ']'])).collect();
    for key in &changed {
        let section = key.split('.').next().unwrap();
        assert!(named.contains(section) || named.contains(key.as_str()), "the page does not name {key}");
    }
    for name in named {
        let is_taken = changed.iter().any(|key| key == name || key.starts_with(&format!("{name}.")));
        assert!(is_taken, "{name} waits for a restart: {changed:?}");
    }
}
