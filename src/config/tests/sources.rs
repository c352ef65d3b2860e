//! Where settings come from: the file, the variables, the command line.

use std::path::{Path, PathBuf};

use selfsame_interfaces::interface::Interface;
use selfsame_protocol::registry::CommitmentCheck;

use super::{check_problems, defaults, load, load_with};
use crate::config::{Config, RateLimit, StagingKey, TimeSpan};

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
    assert_eq!(config.limits.per_source, Some(RateLimit { requests: 5, window: TimeSpan::from_secs(60) }));
    assert_eq!(config.limits.trusted_proxies.len(), 2);
    assert_eq!(config.verifier.keys.staging.current, StagingKey::Simulator);
    assert_eq!(config.apps.iter().map(|app| app.id.as_str()).collect::<Vec<_>>(), ["app_variable"]);
}

/// The variables that Kubernetes documents for Services, and nothing else.
#[test]
fn variables_of_kubernetes_are_not_settings() {
    let variables = [
        ("SELFSAME_PORT", "tcp://10.0.0.1:8080"),
        ("SELFSAME_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
        ("SELFSAME_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("SELFSAME_PORT_8080_TCP_PORT", "8080"),
        ("SELFSAME_PORT_8080_TCP_PROTO", "tcp"),
        ("SELFSAME_PORT_53_UDP", "udp://10.0.0.1:53"),
        ("SELFSAME_PORT_5000_SCTP_PROTO", "sctp"),
        ("SELFSAME_SERVICE_HOST", "10.0.0.1"),
        ("SELFSAME_SERVICE_PORT", "8080"),
        ("SELFSAME_SERVICE_PORT_HTTP", "8080"),
        ("SELFSAME_SERVICE_PORT_SIGN_IN", "8080"),
        // A Service named selfsame-sign-in.
        ("SELFSAME_SIGN_IN_SERVICE_HOST", "10.0.0.2"),
        ("SELFSAME_SIGN_IN_SERVICE_PORT", "8080"),
        ("SELFSAME_SIGN_IN_SERVICE_PORT_HTTP", "8080"),
        ("SELFSAME_SIGN_IN_PORT", "tcp://10.0.0.2:8080"),
        ("SELFSAME_SIGN_IN_PORT_8080_TCP", "tcp://10.0.0.2:8080"),
        ("SELFSAME_SIGN_IN_PORT_8080_TCP_ADDR", "10.0.0.2"),
    ];
    assert_eq!(load_with("", &variables, false).unwrap(), defaults());
    for (name, text) in [
        ("SELFSAME_PORTS", "1"),
        ("SELFSAME_PORT", "8080"),
        ("SELFSAME_LISTEN_PORT", "8080"),
        ("SELFSAME_LISTEN__PORT", "tcp://10.0.0.1:8080"),
        ("SELFSAME_PORT_HTTP", "8080"),
        ("SELFSAME_PORT_8080", "8080"),
        ("SELFSAME_PORT_8080_QUIC", "8080"),
        ("SELFSAME_PORT_8080_TCP_HOST", "8080"),
        ("SELFSAME_PORT_8080_TCP_ADDR_X", "8080"),
        ("SELFSAME_PORT_808080_TCP", "8080"),
        ("SELFSAME_SERVICE_PORT_", "8080"),
        ("SELFSAME_SERVICE_PORTS", "8080"),
        ("SELFSAME_SERVICE", "x"),
        ("SELFSAME__SERVICE_HOST", "x"),
    ] {
        check_problems(load_with("", &[(name, text)], false), &[&["is not a known key", name]]);
    }
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
        (
            "SELFSAME_LISTEN__GATWAY",
            "1",
            &["listen.gatway: ", "(did you mean SELFSAME_LISTEN__GATEWAY?)", "gateway, indexer"],
        ),
        (
            "SELFSAME_LISTEN_GATEWAY",
            "1",
            &["listen_gateway: is not a known key (did you mean SELFSAME_LISTEN__GATEWAY?)"],
        ),
        ("SELFSAME_SIGN_IN_KEY_ROTATION", "1d", &["is not a known key (did you mean SELFSAME_SIGN_IN__KEY_ROTATION?)"]),
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
