//! Tables of accepted and refused configurations.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use selfsame_protocol::registry::CommitmentCheck;

use super::*;
use crate::interface::Interface;

const CERTAIN_KEY: &str = r#"{ x = "5299619240641551281634865583518297030282874472190772894086521144482721001553", y = "16950150798460657717958625567821834550301663161624707787222815936182638968203" }"#;

/// Loads a file with this text, and variables.
fn load_with(text: &str, variables: &[(&str, &str)], dev: bool) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("selfsame.toml");
    std::fs::write(&file, text).unwrap();
    let variables = variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    Config::load(Some(&file), variables, dev, None)
}

fn load(text: &str) -> Result<Config, ConfigError> {
    load_with(text, &[], false)
}

fn defaults() -> Config {
    Config::load(None, std::iter::empty(), false, None).unwrap()
}

/// Checks that the configuration has exactly these problems: each entry lists parts of one line of
/// the message, in the order of the lines.
#[track_caller]
fn check_problems(result: Result<Config, ConfigError>, parts: &[&[&str]]) {
    let message = result.expect_err("the configuration is refused").to_string();
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines.len(), parts.len(), "{message}");
    for (line, parts) in lines.iter().zip(parts) {
        for part in *parts {
            assert!(line.contains(part), "{part:?} is not in {line:?}");
        }
    }
}

#[test]
fn the_defaults_apply_without_any_configuration() {
    let config = defaults();
    assert_eq!(config, Config::default());
    assert_eq!(config.data_dir, PathBuf::from("selfsame-data"));
    assert_eq!(config.registry.chain_id, 480);
    assert_eq!(config.registry.verifying_contract, None);
    let urls = config.public_urls(&config.listen);
    assert_eq!(urls[Interface::SignIn], "http://127.0.0.1:8080");
    assert_eq!(urls[Interface::Indexer], "http://127.0.0.1:8083");
}

#[test]
fn every_kind_of_value_is_read_from_a_file() {
    let config = load(&format!(
        r#"
        data_dir = "/srv"
        listen = {{ gateway = "[::1]:1", indexer = "[::1]:1" }}
        urls.gateway_url = "https://example.org/gateway"
        registry = {{ verifying_contract = "0x00000000000000000000000000000000000000FF", recovery_agent_update_cooldown = "0s" }}
        batcher.max_wait = "1500us"
        limits.per_source = {{ requests = 60, window = "1m" }}
        verifier.keys.staging = {{ legacy = "keys/mine.json", current = "simulator" }}
        [[apps]]
        id = "app_staging_a"
        [[apps]]
        id = "app_b"
        environments = ["staging", "production"]
        public = true
        redirect_uris = ["https://b.example/callback?x=1", "http://[::1]:3000/", "http://localhost/"]
        [[actions]]
        app_id = "app_b"
        action = "vote"
        max_verifications = 2
        [[issuers]]
        id = 11
        public_key = {CERTAIN_KEY}
        [[issuers]]
        id = 128
        public_key = {CERTAIN_KEY}
        [[relying_parties]]
        app_id = "app_b"
        rp_id = "rp_0387DF34f862cd4e"
        oprf_public_key = {CERTAIN_KEY}
        [[trusted_roots]]
        root = "0x12"
        time = 2026-01-31T12:00:00Z
        kind = "legacy"
        identifiers = ["orb"]
        [[trusted_roots]]
        root = "18"
        time = "2026-01-31T12:00:00Z"
        environment = "staging"
        kind = "legacy"
        identifiers = ["device", "face"]
        "#
    ))
    .unwrap();
    assert_eq!(config.public_urls(&config.listen)[Interface::Indexer], "http://[::1]:1");
    assert_eq!(config.public_urls(&config.listen)[Interface::Gateway], "https://example.org/gateway");
    assert_eq!(config.registry.recovery_agent_update_cooldown, Duration::ZERO);
    assert_eq!(config.batcher.max_wait, Duration::from_micros(1500));
    assert_eq!(config.limits.per_source, Some(RateLimit { requests: 60, window: Duration::from_secs(60) }));
    assert_eq!(config.verifier.keys.staging.legacy, StagingKey::Real(ProductionKey::File("keys/mine.json".into())));
    assert_eq!(config.apps[0].environments(), [Environment::Staging]);
    assert_eq!(config.apps[0].name(), "app_staging_a");
    assert_eq!(config.issuers[0].identifiers(), ["selfie", "face"]);
    assert_eq!(config.issuers[1].environments(), [Environment::Staging]);
    assert_eq!(config.relying_party_id("app_b").to_string(), "rp_0387df34f862cd4e");
    assert_eq!(config.trusted_roots[0].time, config.trusted_roots[1].time);
    assert_eq!(config.trusted_roots[0].root, config.trusted_roots[1].root);
}

#[test]
fn relying_party_ids_are_derived_from_applications() {
    for (app, id) in [
        ("app_969d38c8ba9adf22a4ac3b2d4400575a", "rp_6765160973bf7042"),
        ("app_staging_169e21f6afc84b304749830067809632", "rp_ef0e09d685261981"),
    ] {
        assert_eq!(defaults().relying_party_id(app).to_string(), id);
    }
}

#[test]
fn errors_in_a_file_name_the_key_and_the_accepted_values() {
    let cases: &[(&str, &[&str])] = &[
        ("data_dir = ''", &["data_dir: ", "path of a folder"]),
        ("data_dir = 5", &["data_dir: ", "integer `5` is not a text in quotes", "selfsame.toml)"]),
        ("dtaa_dir = 'x'", &["dtaa_dir: is not a known key", "data_dir, listen", "selfsame.toml)"]),
        ("dev = true", &["dev: is not a known key"]),
        ("[listen]\ngatway = 1", &["listen.gatway: ", "gateway, indexer"]),
        ("listen = 5", &["listen: ", "a table of keys"]),
        ("listen.gateway = 'localhost:80'", &["listen.gateway: \"localhost:80\" is not an IP address and port"]),
        ("listen.gateway = 8082", &["listen.gateway: "]),
        ("urls.id_url = 'https://id.example/'", &["urls.id_url: ", "write \"https://id.example\""]),
        ("urls.id_url = 'id.example'", &["urls.id_url: ", "does not begin with https://"]),
        ("urls.id_url = 'ftp://id.example'", &["urls.id_url: ", "does not begin with https://"]),
        ("urls.id_url = 'https://id.example?'", &["urls.id_url: ", "has a query"]),
        ("urls.id_url = 'https://id.example#a'", &["urls.id_url: ", "has a fragment"]),
        ("urls.id_url = 'https://id@id:1'", &["urls.id_url: ", "has a user"]),
        ("urls.id_url = 'https://id.example:99999'", &["urls.id_url: ", "has no proper host and port"]),
        ("urls.id_url = 'https://id.example:'", &["urls.id_url: ", "has no proper host and port"]),
        ("urls.id_url = 'https://'", &["urls.id_url: "]),
        ("urls.id_url = 'https://i d'", &["urls.id_url: ", "printable ASCII"]),
        ("[tls]\ncertificate = 'a'", &["tls: the key private_key is missing"]),
        ("registry.chain_id = 0", &["registry.chain_id: ", "1 or more"]),
        ("registry.chain_id = -1", &["registry.chain_id: ", "a whole number of 0 or more"]),
        ("registry.chain_id = '480'", &["registry.chain_id: string \"480\" is not a whole number"]),
        (
            "registry.verifying_contract = '0x0000000000000000000000000000000000000000'",
            &["registry.verifying_contract: is the zero address", "leave the key out"],
        ),
        ("registry.verifying_contract = '0xff'", &["registry.verifying_contract: \"0xff\"", "40 hex digits"]),
        ("registry.max_authenticators = 0", &["registry.max_authenticators: 0", "1 to 7"]),
        ("registry.max_authenticators = 8", &["registry.max_authenticators: 8", "1 to 7"]),
        ("registry.max_authenticators = 7.0", &["registry.max_authenticators: ", "a whole number"]),
        ("registry.max_authenticators = 5000000000", &["registry.max_authenticators: ", "0 to 4294967295"]),
        ("registry.root_validity_window = '1500ms'", &["registry.root_validity_window: ", "whole number of seconds"]),
        ("registry.root_validity_window = 3600", &["registry.root_validity_window: "]),
        ("registry.root_validity_window = '3600'", &["registry.root_validity_window: ", "such as 5ms, 10s"]),
        (
            "registry.recovery_agent_update_cooldown = '9999d'",
            &["registry.recovery_agent_update_cooldown: ", "0s to 10years"],
        ),
        ("registry.commitment_check = 'on'", &["registry.commitment_check: \"on\"", "\"off\", \"enforce\""]),
        ("registry.commitment_check = true", &["registry.commitment_check: ", "\"off\", \"enforce\""]),
        ("registry.request_retention = '0s'", &["registry.request_retention: ", "give 1s"]),
        ("batcher.max_operations = 10001", &["batcher.max_operations: 10001", "1 to 10000"]),
        ("batcher.max_wait = '11s'", &["batcher.max_wait: 11s", "0s to 10s"]),
        ("limits.max_connections = 0", &["limits.max_connections: 0", "1 to "]),
        ("limits.request_timeout = '0s'", &["limits.request_timeout: 0s", "1ms to 1h"]),
        ("limits.per_source = { requests = 5 }", &["limits.per_source: the key window is missing"]),
        ("limits.per_source = { requests = 5, window = 1 }", &["limits.per_source.window: "]),
        ("limits.per_source = { requests = 0, window = '1m' }", &["limits.per_source.requests: 0", "1 to 100000"]),
        (
            "limits.per_leaf_index = { requests = 1, window = '2d' }",
            &["limits.per_leaf_index.window: 2days", "1s to 1day"],
        ),
        ("limits.trusted_proxies = '10.0.0.0/8'", &["limits.trusted_proxies: ", "is not a list"]),
        (
            "limits.trusted_proxies = ['::1', '10.0.0.1/8']",
            &["limits.trusted_proxies[1]: ", "the network is 10.0.0.0/8"],
        ),
        ("cors.allowed_origins = ['*']", &["cors.allowed_origins[0]: ", "name every origin"]),
        (
            "cors.allowed_origins = ['https://a.example/']",
            &["cors.allowed_origins[0]: ", "write \"https://a.example\""],
        ),
        ("cors.allowed_origins = ['https://A.example:443']", &["cors.allowed_origins[0]: ", "\"https://a.example\""]),
        ("sign_in.introspection_inactive_status = 400", &["sign_in.introspection_inactive_status: 400", "401 nor 200"]),
        ("sign_in.key_rotation = '1m'", &["sign_in.key_rotation: 1m", "1h"]),
        ("verifier.workers = 0", &["verifier.workers: 0", "1 to 1024"]),
        (
            "verifier.keys.production.current = 'simulator'",
            &["verifier.keys.production.current: ", "verifier.keys.staging"],
        ),
        (
            "verifier.keys.production.legacy = 'simulator'",
            &["verifier.keys.production.legacy: ", "verifier.keys.staging"],
        ),
        (
            "verifier.keys.staging.legacy = 'other'",
            &["verifier.keys.staging.legacy: \"other\"", "\"builtin\", \"simulator\""],
        ),
        ("verifier.keys.sandbox.legacy = 'builtin'", &["verifier.keys.sandbox: ", "production, staging"]),
    ];
    for (text, parts) in cases {
        check_problems(load(text), &[parts]);
    }
}

#[test]
fn errors_in_lists_name_the_position_of_the_entry() {
    let apps = "[[apps]]\nid = 'app_a'\n[[apps]]\nid = 'app_staging_b'\n";
    let key = format!("public_key = {CERTAIN_KEY}\n");
    let with = |more: &str| format!("{apps}{more}").replace("KEY", &key);
    let cases: &[(&str, &[&str])] = &[
        ("apps = 5\n#", &["apps: ", "a list"]),
        ("[[apps]]\nname = 'x'", &["apps[2]: the key id is missing"]),
        ("[[apps]]\nid = 'app_a'", &["apps[2].id: app_a is the id of apps[0] already"]),
        ("[[apps]]\nid = 'x'", &["apps[2].id: \"x\"", "app_ and"]),
        ("[[apps]]\nid = 'app_/'", &["apps[2].id: \"app_/\""]),
        ("[[apps]]\nid = 'app_c'\nsecret = 'x'", &["apps[2].secret: is not a known key"]),
        (
            "[[apps]]\nid = 'app_c'\nenvironments = ['production', 'prod']",
            &["apps[2].environments[1]: \"prod\"", "\"staging\""],
        ),
        ("[[apps]]\nid = 'app_c'\nenvironments = []", &["apps[2].environments: is empty"]),
        ("[[apps]]\nid = 'app_c'\nproof = 'v3'", &["apps[2].proof: \"v3\"", "\"legacy\", \"current\""]),
        ("[[apps]]\nid = 'app_c'\nredirect_uris = ['https://a']", &["apps[2].client_secret_hash: is missing"]),
        (
            "[[apps]]\nid = 'app_c'\npublic = true\nredirect_uris = ['http://a/']",
            &["apps[2].redirect_uris[0]: ", "localhost"],
        ),
        (
            "[[apps]]\nid = 'app_c'\npublic = true\nredirect_uris = ['https://a/#b']",
            &["apps[2].redirect_uris[0]: ", "fragment"],
        ),
        ("[[apps]]\nid = 'app_c'\npublic = 'yes'", &["apps[2].public: ", "true or false"]),
        ("[[actions]]\napp_id = 'app_c'\naction = 'x'", &["actions[0].app_id: \"app_c\"", "[[apps]]"]),
        ("[[actions]]\napp_id = 'app_a'\naction = ''", &["actions[0].action: is empty"]),
        (
            "[[actions]]\napp_id = 'app_staging_b'\naction = 'x'",
            &["actions[0].environment: ", "not accept production, only staging"],
        ),
        (
            "actions = [{ app_id = 'app_a', action = 'x' }, { app_id = 'app_a', action = 'x' }]\n",
            &["actions[1].action: \"x\"", "actions[0]"],
        ),
        ("[[issuers]]\nid = 1", &["issuers[0]: the key public_key is missing"]),
        ("[[issuers]]\nid = 5\nKEY", &["issuers[0].identifiers: issuer 5"]),
        (
            "[[issuers]]\nid = 1\nKEY[[issuers]]\nid = 1\nenvironments = ['staging']\nKEY",
            &["issuers[1].id: 1 is the id of issuers[0]"],
        ),
        ("[[issuers]]\nid = 1\npublic_key = { x = '0', y = '1' }", &["issuers[0].public_key: is the identity"]),
        ("[[issuers]]\nid = 1\npublic_key = { x = '1', y = '1' }", &["issuers[0].public_key: is not a point"]),
        (
            "[[issuers]]\nid = 1\npublic_key = { x = '0', y = '0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000000' }",
            &["issuers[0].public_key: ", "outside its prime-order subgroup"],
        ),
        (
            "[[issuers]]\nid = 1\npublic_key = { x = '0', y = '0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001' }",
            &["issuers[0].public_key.y: "],
        ),
        (
            "[[issuers]]\nid = 1\npublic_key = { x = '1_0', y = '1' }",
            &["issuers[0].public_key.x: \"1_0\"", "decimal digits"],
        ),
        ("[[relying_parties]]\napp_id = 'app_c'", &["relying_parties[0].app_id: \"app_c\""]),
        (
            "[[relying_parties]]\napp_id = 'app_a'\nrp_id = 'rp_1'",
            &["relying_parties[0].rp_id: \"rp_1\"", "16 hex digits"],
        ),
        (
            "[[relying_parties]]\napp_id = 'app_a'\n[[relying_parties]]\napp_id = 'app_a'",
            &["relying_parties[1].app_id: ", "relying_parties[0]"],
        ),
        (
            "[[relying_parties]]\napp_id = 'app_a'\nrp_id = 'rp_0000000000000001'\n[[relying_parties]]\napp_id = 'app_staging_b'\nrp_id = 'rp_0000000000000001'",
            &["relying_parties[1].rp_id: rp_0000000000000001 is the id of app_a"],
        ),
        ("[[trusted_roots]]\nroot = '1'\nkind = 'legacy'", &["trusted_roots[0]: the key time is missing"]),
        (
            "[[trusted_roots]]\nroot = '1'\nkind = 'legacy'\ntime = 2026-01-31T12:00:00Z",
            &["trusted_roots[0].identifiers: is missing", "[\"orb\"]"],
        ),
        (
            "[[trusted_roots]]\nroot = '1'\nkind = 'current'\ntime = 2026-01-31T12:00:00Z\nidentifiers = ['orb']",
            &["trusted_roots[0].identifiers: is for legacy roots only"],
        ),
        (
            "[[actions]]\napp_id = 'app_a'\naction = 'sign-in'",
            &["actions[0].action: \"sign-in\" is the action of sign-ins"],
        ),
        (
            "[[actions]]\napp_id = 'app_a'\naction = 'vote'\naccepted_identifiers = ['iris']",
            &["actions[0].accepted_identifiers: \"iris\"", "device, document, face, orb, secure_document, selfie"],
        ),
        (
            "[[actions]]\napp_id = 'app_a'\naction = 'vote'\naccepted_identifiers = []",
            &["actions[0].accepted_identifiers: is empty"],
        ),
        (
            "[[trusted_roots]]\nroot = '1'\nkind = 'legacy'\ntime = 'now'",
            &["trusted_roots[0].time: \"now\"", "2026-01-31T12:00:00Z"],
        ),
        (
            "[[trusted_roots]]\nroot = '0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001'\nkind = 'legacy'\ntime = 2026-01-31T12:00:00Z",
            &["trusted_roots[0].root: ", "modulus"],
        ),
    ];
    for (text, parts) in cases {
        let text = if text.starts_with("apps") {
            (*text).to_owned()
        } else if text.starts_with("actions =") {
            format!("{text}{apps}")
        } else {
            with(text)
        };
        check_problems(load(&text), &[parts]);
    }
    let derived = defaults().relying_party_id("app_staging_b");
    let text = with(&format!("[[relying_parties]]\napp_id = 'app_a'\nrp_id = '{derived}'"));
    check_problems(load(&text), &[&["relying_parties[0].rp_id: ", "is the id of app_staging_b already"]]);
}

#[test]
fn an_unsafe_start_must_be_asked_for() {
    let everywhere = "listen.gateway = '0.0.0.0:8082'";
    let cases: [(&str, &[&str]); 10] = [
        (everywhere, &["urls.gateway_url: is missing", "every address of this machine"]),
        ("listen.gateway = '[::]:8082'", &["urls.gateway_url: is missing"]),
        ("listen.gateway = '10.0.0.7:8082'", &["listen.gateway: is plain HTTP", "insecure_http = true"]),
        ("urls.id_url = 'http://id.example.org'", &["urls.id_url: is plain HTTP", "https URL of the proxy"]),
        (
            "listen.operator = '0.0.0.0:8084'",
            &["listen.operator: 0.0.0.0:8084 is not loopback", "operator.allow_public"],
        ),
        ("listen.operator = '10.0.0.7:8084'", &["listen.operator: ", "other machines"]),
        ("listen.operator = '127.0.0.1:8082'", &["listen.operator: 127.0.0.1:8082 is also the address of gateway"]),
        (
            "listen.gateway = '0.0.0.0:8082'\nurls.gateway_url = 'http://localhost:8082'",
            &["urls.gateway_url: is plain HTTP"],
        ),
        (
            "listen.operator = '10.0.0.7:8084'\noperator.allow_public = true",
            &["listen.operator: 10.0.0.7:8084 is plain HTTP", "insecure_http = true"],
        ),
        ("operator.host = 'x'", &["operator.host: is not a known key", "hosts, allow_public"]),
    ];
    for (text, parts) in cases {
        check_problems(load(text), &[parts]);
    }
    for text in [
        "listen.gateway = '0.0.0.0:8082'\nurls.gateway_url = 'https://gateway.example.org'",
        "listen.gateway = '10.0.0.7:8082'\ninsecure_http = true",
        "listen.gateway = '10.0.0.7:8082'\n[tls]\ncertificate = 'a'\nprivate_key = 'b'",
        "urls.id_url = 'http://id.example.org'\ninsecure_http = true",
        "urls.id_url = 'http://localhost:8080'",
        "urls.id_url = 'http://[::1]:8080'",
        "listen.operator = '0.0.0.0:8084'\noperator.allow_public = true\ninsecure_http = true",
        "listen.operator = '0.0.0.0:8084'\noperator.allow_public = true\n[tls]\ncertificate = 'a'\nprivate_key = 'b'",
        "listen.operator = '127.0.0.1:8082'\noperator.allow_public = true",
        "listen.operator = '[::1]:8084'",
    ] {
        assert!(load(text).is_ok(), "{text}: {:?}", load(text));
    }
}

#[test]
fn variables_of_kubernetes_are_not_settings() {
    let variables = [
        ("SELFSAME_PORT", "tcp://10.0.0.1:8080"),
        ("SELFSAME_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("SELFSAME_SERVICE_HOST", "10.0.0.1"),
        ("SELFSAME_SERVICE_PORT", "8080"),
        ("SELFSAME_SERVICE_PORT_HTTP", "8080"),
    ];
    assert_eq!(load_with("", &variables, false).unwrap(), defaults());
    check_problems(load_with("", &[("SELFSAME_PORTS", "1")], false), &[&["ports: is not a known key"]]);
}

#[test]
fn a_limited_action_takes_one_kind_of_proof_unless_the_configuration_says_otherwise() {
    let config = |app: &str, action: &str, key: bool| {
        let key = if key { format!("oprf_public_key = {CERTAIN_KEY}") } else { String::new() };
        load(&format!(
            "[[apps]]\nid = 'app_a'\n{app}\n[[relying_parties]]\napp_id = 'app_a'\n{key}\n\
             [[actions]]\napp_id = 'app_a'\naction = 'vote'\n{action}\n"
        ))
    };
    let accepts_legacy = |app: &str, key| {
        let config = config(app, "", key).expect("a good configuration");
        config.accepts_legacy(&config.apps[0])
    };
    for (app, key, expected) in [
        ("", false, true),
        ("", true, false),
        ("accept_legacy = true", true, true),
        ("accept_legacy = false", false, false),
    ] {
        assert_eq!(accepts_legacy(app, key), expected, "{app:?} {key}");
    }
    let both = "accept_legacy = true";
    let expected: &[&str] = &["actions[0].max_verifications: 1 limits", "counts_kinds_separately = true"];
    check_problems(config(both, "max_verifications = 1", true), &[expected]);
    for (app, action, key) in [
        (both, "max_verifications = 0", true),
        (both, "max_verifications = 1", false),
        (both, "max_verifications = 1\naccept_legacy = false", true),
        (both, "max_verifications = 1\ncounts_kinds_separately = true", true),
        ("", "max_verifications = 1", true),
    ] {
        assert!(config(app, action, key).is_ok(), "{app:?} {action:?} {key}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_refused() {
    let missing = Config::load(Some(Path::new("/nowhere.toml")), std::iter::empty(), false, None);
    check_problems(missing, &[&["/nowhere.toml: "]]);
    check_problems(load("[apps]\nid = 1\n  id = 2\n"), &[&["selfsame.toml: line 3, column 3: "]]);
    check_problems(load("é = = 'hash'"), &[&["line 1, column "]]);
    check_problems(load("x = 'never shown"), &[&["line 1, column "]]);
    assert!(!load("x = 'never shown").unwrap_err().to_string().contains("never"));
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = "
        nonsense = 1
        [batcher]
        max_wait = 'soon'
        max_operations = 0
        [[apps]]
        id = 5
        environments = 5
        [[apps]]
        idd = 'app_x'
    ";
    let variables = [("SELFSAME_LISTEN__GATEWAY", "here"), ("SELFSAME_LIMITS__IN_FLIGHT", "0")];
    let message = load_with(text, &variables, false).unwrap_err().to_string();
    let keys: std::collections::BTreeSet<&str> = message.lines().filter_map(|line| line.split(": ").next()).collect();
    let expected = [
        "apps[0].environments",
        "apps[1].idd",
        "batcher.max_operations",
        "batcher.max_wait",
        "limits.in_flight",
        "listen.gateway",
        "nonsense",
    ];
    assert_eq!(keys.into_iter().collect::<Vec<_>>(), expected, "{message}");
    assert_eq!(message.lines().count(), expected.len(), "{message}");
}

#[test]
fn variables_are_parsed_by_the_type_of_their_setting() {
    let config = load_with(
        "data_dir = 'file'\nlimits.in_flight = 1\nlimits.queue_length = 2\napps = [{ id = 'app_file' }]",
        &[
            ("HOME", "/root"),
            ("SELFSAME_DATA_DIR", "42"),
            ("SELFSAME_SIGN_IN__NAME", "[\"true\"]"),
            ("SELFSAME_SIGN_IN__GIVEN_NAME", ""),
            ("SELFSAME_LISTEN__GATEWAY", "127.0.0.1:9000"),
            ("SELFSAME_REGISTRY__CHAIN_ID", "0x1e0"),
            ("SELFSAME_REGISTRY__VERIFYING_CONTRACT", "0x1111111111111111111111111111111111111111"),
            ("SELFSAME_REGISTRY__COMMITMENT_CHECK", "enforce"),
            ("SELFSAME_LIMITS__IN_FLIGHT", "1_000"),
            ("SELFSAME_LIMITS__PER_SOURCE__REQUESTS", "5"),
            ("SELFSAME_LIMITS__PER_SOURCE__WINDOW", "1m"),
            ("SELFSAME_LIMITS__TRUSTED_PROXIES", "['::1', '10.0.0.0/8']"),
            ("SELFSAME_VERIFIER__KEYS__STAGING__CURRENT", "simulator"),
            ("SELFSAME_APPS", "[{ id = 'app_variable', public = true }]"),
        ],
        false,
    )
    .unwrap();
    assert_eq!(config.data_dir, PathBuf::from("42"));
    assert_eq!(config.sign_in.name, "[\"true\"]");
    assert_eq!(config.sign_in.given_name, "");
    assert_eq!(config.listen[Interface::Gateway], "127.0.0.1:9000".parse().unwrap());
    assert_eq!(config.registry.chain_id, 480);
    assert_eq!(config.registry.commitment_check, CommitmentCheck::Enforce);
    assert_eq!((config.limits.in_flight, config.limits.queue_length), (1000, 2));
    assert_eq!(config.limits.per_source, Some(RateLimit { requests: 5, window: Duration::from_secs(60) }));
    assert_eq!(config.limits.trusted_proxies.len(), 2);
    assert_eq!(config.verifier.keys.staging.current, StagingKey::Simulator);
    assert_eq!(config.apps.iter().map(|app| app.id.as_str()).collect::<Vec<_>>(), ["app_variable"]);
}

#[test]
fn the_command_line_overrides_variables_and_file() {
    let variables = [("SELFSAME_DATA_DIR".to_owned(), "variable".to_owned())];
    let config = Config::load(None, variables.clone().into_iter(), false, Some("line".into())).unwrap();
    assert_eq!(config.data_dir, PathBuf::from("line"));
    let result = Config::load(None, variables.into_iter(), false, Some(PathBuf::new()));
    check_problems(result, &[&["data_dir: is empty", "(command line)"]]);
}

#[test]
fn errors_in_variables_name_the_variable() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("SELFSAME_", "1", &["is not a known key"]),
        ("SELFSAME_LISTEN__GATWAY", "1", &["listen.gatway: ", "gateway, indexer"]),
        ("SELFSAME_LISTEN_GATEWAY", "1", &["listen_gateway: is not a known key"]),
        ("SELFSAME_listen__gateway", "127.0.0.1:1", &["listen.gateway: ", "upper case"]),
        ("SELFSAME_LISTEN", "{ gateway = '127.0.0.1:1' }", &["listen: is a section", "sign_in, verify"]),
        ("SELFSAME_DATA_DIR__X", "1", &["data_dir: "]),
        ("SELFSAME_LISTEN__GATEWAY", "8082", &["listen.gateway: \"8082\"", "127.0.0.1:8080"]),
        (
            "SELFSAME_BATCHER__MAX_OPERATIONS",
            "many",
            &["batcher.max_operations: string \"many\" is not a whole number"],
        ),
        ("SELFSAME_BATCHER__MAX_OPERATIONS", "", &["batcher.max_operations: "]),
        ("SELFSAME_BATCHER__MAX_OPERATIONS", "0", &["batcher.max_operations: 0 is out of range; give 1 to 10000"]),
        ("SELFSAME_CORS__ALLOWED_ORIGINS", "https://a.example", &["cors.allowed_origins: is not a TOML list"]),
        ("SELFSAME_CORS__ALLOWED_ORIGINS", "['https://a.example/']", &["cors.allowed_origins[0]: "]),
        ("SELFSAME_APPS", "[{ id = 5 }]", &["apps[0].id: integer `5`"]),
        ("SELFSAME_APPS", "[{ id = 'x' }]", &["apps[0].id: \"x\""]),
        ("SELFSAME_DATA_DIR", "a\u{fffd}", &["data_dir: ", "Unicode"]),
    ];
    for (name, text, parts) in cases {
        let all: Vec<&str> = parts.iter().copied().chain([&*format!("(variable {name})").leak()]).collect();
        check_problems(load_with("", &[(name, text)], false), &[&all]);
    }
    let below = [("SELFSAME_APPS", "[]"), ("SELFSAME_APPS__0__ID", "app_a")];
    check_problems(load_with("", &below, false), &[&["apps: ", "no keys below it", "SELFSAME_APPS__0__ID"]]);
    check_problems(
        load_with("data_dir = 'x'", &[("SELFSAME_DATA_DIR__X", "1")], false),
        &[&["data_dir: ", "no keys below it"]],
    );
}

#[test]
fn secrets_do_not_appear_in_errors_or_debug_output() {
    let hash = SecretHash::of([7; 16], "secret");
    let text = hash.to_text();
    assert_eq!(text.parse(), Ok(hash.clone()));
    assert_ne!(SecretHash::of([8; 16], "secret").digest(), hash.digest());
    // Computed with another program: (head -c16 /dev/zero | tr '\0' '\1'; printf secret) |
    // sha256sum
    assert_eq!(
        SecretHash::of([1; 16], "secret").to_text(),
        "sha256:01010101010101010101010101010101:a65192f8d645bc4d19765b8ea61bfbb896dc999cb88a4be419518c5493f92c9d"
    );
    let digits = text.split(':').next_back().unwrap();
    let config = load(&format!("[[apps]]\nid = 'app_a'\nclient_secret_hash = '{text}'")).unwrap();
    assert_eq!(config.apps[0].client_secret_hash, Some(hash));
    assert!(!format!("{config:?}").contains(&digits[..8]));
    for wrong in ["sk_plain", &text[..text.len() - 2], &text.replace("sha256", "md5"), &format!("{text}00")] {
        let error = load(&format!("[[apps]]\nid = 'app_a'\nclient_secret_hash = '{wrong}'")).unwrap_err().to_string();
        assert!(error.contains("apps[0].client_secret_hash: is not sha256:<salt") && !error.contains(wrong), "{error}");
    }
    let broken = format!("[{{ client_secret_hash = '{text}' ");
    let error = load_with("", &[("SELFSAME_APPS", &broken)], false).unwrap_err().to_string();
    assert!(!error.contains(&digits[..8]), "{error}");
}

#[test]
fn networks_contain_their_addresses() {
    let cases = [
        ("10.0.0.0/8", "10.255.0.1", true),
        ("10.0.0.0/8", "11.0.0.0", false),
        ("10.0.0.0/8", "::ffff:10.1.2.3", true),
        ("::ffff:10.0.0.0/104", "10.1.2.3", true),
        ("192.0.2.1", "192.0.2.1", true),
        ("192.0.2.1", "192.0.2.2", false),
        ("192.0.2.128/25", "192.0.2.127", false),
        ("192.0.2.0/31", "192.0.2.1", true),
        ("0.0.0.0/0", "203.0.113.9", true),
        ("0.0.0.0/0", "2001:db8::1", false),
        ("::/0", "2001:db8::1", true),
        ("::/0", "203.0.113.9", false),
        ("::/0", "::ffff:203.0.113.9", false),
        ("2001:db8::/33", "2001:db8:7fff::1", true),
        ("2001:db8::/33", "2001:db8:8000::1", false),
        ("::1", "::1", true),
        ("::1/128", "::2", false),
    ];
    for (network, address, inside) in cases {
        let address: IpAddr = address.parse().unwrap();
        assert_eq!(network.parse::<Network>().unwrap().contains(address), inside, "{address} in {network}");
    }
    let wrong = [
        "",
        "/8",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/+8",
        "::/129",
        "10.0.0/8",
        "10.0.0.1/8",
        "host",
        "::ffff:0.0.0.0/95",
        "10.0.0.0/8/8",
        " 10.0.0.1",
    ];
    for text in wrong {
        assert!(text.parse::<Network>().is_err(), "{text:?}");
    }
}

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
    let summary = config.dev_summary(&config.public_urls(&config.listen));
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
    let (merged, waiting) = old.with_reloaded(new.clone());
    assert_eq!(
        waiting,
        ["data_dir", "listen.gateway", "registry.chain_id", "registry.max_authenticators", "trusted_roots"]
    );
    let expected =
        Config { limits: new.limits.clone(), apps: new.apps.clone(), actions: new.actions.clone(), ..old.clone() };
    assert_eq!(merged, expected);
    assert_eq!(old.with_reloaded(old.clone()), (old, Vec::new()));
}

#[test]
fn the_production_sample_loads() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/production.toml");
    let config = Config::load(Some(&sample), std::iter::empty(), false, None).unwrap();
    assert_eq!(config.registry.commitment_check, CommitmentCheck::Enforce);
    assert!(config.limits.per_source.is_some() && config.limits.per_leaf_index.is_some());
    assert_eq!(config.verifier.keys, VerificationKeys::default());
}

/// The keys of a section, taken from the error for an unknown key; `None` when the path is not a
/// section.
fn keys_of(section: &str) -> Option<Vec<String>> {
    let text = match section {
        "" => "zzz = 1".to_owned(),
        section if section.contains("[0]") => {
            let (list, rest) = section.split_once("[0]").unwrap();
            let entry = rest.strip_prefix('.').map_or("zzz = 1".to_owned(), |key| format!("{key} = {{ zzz = 1 }}"));
            format!("[[{list}]]\n{entry}")
        }
        section => format!("{section}.zzz = 1"),
    };
    let message = load(&text).unwrap_err().to_string();
    let unknown = message.lines().find(|line| line.contains("zzz: is not a known key"))?;
    let keys = unknown.split_once("the keys here are ")?.1.split(" (in ").next()?;
    Some(keys.split(", ").map(str::to_owned).collect())
}

#[test]
fn every_key_is_in_the_documentation() {
    let page = include_str!("../../docs/configuration.md");
    let mut sections = vec![String::new()];
    let mut seen = 0;
    while let Some(section) = sections.pop() {
        let mut part = page;
        let name = section.replace("[0]", "");
        if !name.is_empty() && !name.contains(".keys") && !name.ends_with("public_key") && !name.starts_with("limits.")
        {
            let heading = if section.ends_with("[0]") { format!("## `[[{name}]]`") } else { format!("## `[{name}]`") };
            part = page.split_once(&heading).unwrap_or_else(|| panic!("{heading} is not on the page")).1;
            part = part.split("\n## ").next().unwrap_or(part);
        }
        for key in keys_of(&section).unwrap() {
            let path = if section.is_empty() { key.clone() } else { format!("{section}.{key}") };
            seen += 1;
            let nested = [path.clone(), format!("{path}[0]")].into_iter().find(|path| keys_of(path).is_some());
            let heading = section.is_empty() && nested.is_some() || section == "verifier.keys";
            assert!(heading || part.contains(&format!("\n| `{key}` | ")), "{path} is not on the page");
            sections.extend(nested);
        }
    }
    assert!(seen > 80, "only {seen} keys were found");
}
