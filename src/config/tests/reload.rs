//! What a reload changes.

use std::collections::BTreeSet;

use super::dump::everything;
use super::{defaults, load};
use crate::config::values::with_fingerprints;
use crate::config::{Config, HIDDEN, Reloaded, SecretHash, TAKEN_OVER};

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

/// A dump hides secrets, and a reload compares them all the same.
#[test]
fn a_changed_secret_is_a_changed_setting() {
    let with = |secret: u8| {
        let hash = SecretHash::of([secret; 16], "a token").to_text();
        let text = format!(
            "registry = {{ create_account = 'token', create_account_token_hash = '{hash}' }}\n\
             verifier.simulator_seed = 'seed {secret}'\n\
             [[apps]]\nid = 'app_a'\nclient_secret_hash = '{hash}'\n\
             [[apps]]\nid = 'app_b'\nclient_secret_hashes = ['{hash}']\n\
             [[chains]]\nname = 'c'\npreset = 'ethereum'\nrpc = ['https://node.example/key-{secret}']\n"
        );
        load(&text).unwrap()
    };
    let Reloaded { changed, needs_restart, .. } = with(1).with_reloaded(with(2)).unwrap();
    assert_eq!(changed, ["apps", "registry.create_account_token_hash"]);
    assert_eq!(needs_restart, ["verifier.simulator_seed", "chains"]);
    for node in ["http://node.example/key-1", "https://a@node.example/key-1", "https://node.example:443/key-1"] {
        let mut moved = with(1);
        moved.chains[0].rpc[0] = node.parse().unwrap();
        assert_eq!(with(1).with_reloaded(moved).unwrap().needs_restart, ["chains"], "{node}");
    }
    // What a comparison writes stays inside it, also after a panic.
    let panicked = std::panic::catch_unwind(|| with_fingerprints(|| panic!("planted")));
    assert!(panicked.is_err());
    let dump = super::dump::loaded("verifier.simulator_seed = 'a seed'", &[], false).dump().unwrap();
    assert_eq!(dump.settings["verifier"]["simulator_seed"].as_str(), Some(HIDDEN));
}

/// Each setting is taken over, or waits for a restart; none is left out.
#[test]
fn every_changed_setting_is_named() {
    let everything = everything();
    let (settings, _) = everything.split_once("[[chains]]").unwrap();
    let webhook = "[[webhooks]]\nid = 'w'\nurl = 'https://w.example/'\nsecret_file = 'w'\nevents = ['root.added']\n";
    let new = load(&format!("bridge.lifetime = '20m'\nevents.streams = true\n{settings}\n{webhook}")).unwrap();
    let Reloaded { config, changed, needs_restart } = defaults().with_reloaded(new.clone()).unwrap();
    let names: BTreeSet<&str> =
        changed.iter().chain(&needs_restart).map(|name| name.split('.').next().unwrap()).collect();
    let table = toml::Table::try_from(&new).unwrap();
    let unchanged = ["chains", "data_dir", "storage"];
    assert_eq!(names, table.keys().map(String::as_str).filter(|name| !unchanged.contains(name)).collect());
    // A restart takes over the rest.
    let again = config.with_reloaded(new).unwrap();
    assert_eq!((again.changed, again.needs_restart), (Vec::new(), needs_restart));
}

/// `docs/operations/running.md` lists the settings that a reload takes over, and
/// `docs/configuration/` says it of each of their sections.
#[test]
fn the_pages_name_what_a_reload_takes_over() {
    let taken: BTreeSet<&str> = TAKEN_OVER.iter().map(|setting| setting.name).collect();
    let page = include_str!("../../../docs/operations/running.md");
    let (_, list) = page.split_once("These settings are taken over: ").unwrap();
    let list = list.split_once("The other ones wait").unwrap().0;
    let named: BTreeSet<&str> = list.split('`').skip(1).step_by(2).map(|name| name.trim_matches(['[', ']'])).collect();
    assert_eq!(named, taken);
    let pages = super::documentation::pages();
    let sections = pages.split("\n## `").skip(1).filter(|section| section.contains("Read again by a reload"));
    let described: BTreeSet<&str> =
        sections.map(|section| section.split('`').next().unwrap().trim_matches(['[', ']'])).collect();
    assert_eq!(described, taken.iter().map(|name| name.split('.').next().unwrap()).collect());
}
