//! `selfsame config …`, run as a program: what it prints and its exit status.

use std::path::Path;

use selfsame_interfaces::interface::Interface;
use serde_json::Value;

use crate::harness::{DaemonProcess, folder, run, run_for_status, run_with, write_secret};
use crate::tls::certificate;

/// Runs `selfsame config check` on a file; its exit status and output.
fn check(file: &Path, variables: &[(&str, &str)]) -> (i32, String) {
    let (status, text) = run_for_status(&["config", "check", "--config", file.to_str().expect("text")], variables);
    (status.code().expect("an exit status"), text)
}

#[test]
fn a_good_configuration_is_ok_and_nothing_is_made() {
    let folder = folder();
    let (tls, _) = certificate(&folder);
    let (file, data) = (folder.path().join("selfsame.toml"), folder.path().join("data"));
    let text = format!(
        "data_dir = '{}'\n[tls]\ncertificate = '{}'\nprivate_key = '{}'\n",
        data.display(),
        tls.certificate.display(),
        tls.private_key.display()
    );
    std::fs::write(&file, &text).expect("written");
    assert_eq!(check(&file, &[]), (0, "ok\n".to_owned()));
    let app = "[[apps]]\nid = 'app_a'\nclient_secret_hash = 'sha256:00000000000000000000000000000000:\
               0000000000000000000000000000000000000000000000000000000000000000'\n\
               redirect_uris = ['https://a.example/']\n";
    std::fs::write(&file, text + app).expect("written");
    let (status, text) = check(&file, &[]);
    assert_eq!(status, 0);
    assert!(text.starts_with("ok\nwarning: these applications") && text.ends_with(": app_a\n"), "{text}");
    let legacy: Vec<&str> = text.lines().filter(|line| line.contains("legacy proofs at sign-in")).collect();
    let [legacy] = legacy[..] else { panic!("one warning in {text}") };
    assert!(["2026-06-01", "2027-04-01", "app_a"].iter().all(|part| legacy.contains(part)), "{legacy}");
    assert!(!data.exists(), "the data folder was made");
    // The production sample, with the defaults for what it leaves out.
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/production.toml");
    let (status, text) = check(&sample, &[("SELFSAME_DATA_DIR", data.to_str().expect("text"))]);
    assert_eq!(status, 0, "{text}");
}

/// Everything that a start refuses, in one answer, and the start refuses it in the same words
/// before it makes the store.
#[test]
fn all_problems_are_found_at_once_and_a_start_refuses_the_same() {
    let folder = folder();
    let (file, data) = (folder.path().join("selfsame.toml"), folder.path().join("data"));
    std::fs::create_dir(&data).expect("a folder");
    write_secret(&data.join("operator.token"), "\n");
    let (key, nodes, short) =
        (folder.path().join("key.json"), folder.path().join("nodes"), folder.path().join("short"));
    std::fs::write(&key, "{}").expect("written");
    write_secret(&nodes, "https://node.example/key\nftp://node.example/secret-of-the-node\n");
    write_secret(&short, "00");
    let text = format!(
        "data_dir = '{}'
registry.max_authenticators = 9
verifier.keys.production.current = '{}'
sign_in.key_encryption_key_file = '{}'
[tls]
certificate = '/nowhere/chain.pem'
private_key = '/nowhere/key.pem'
[[chains]]
name = 'ethereum'
preset = 'ethereum'
rpc_file = '{}'
[[trusted_roots]]
root = '1'
time = 2999-01-01T00:00:00Z
kind = 'current'
",
        data.display(),
        key.display(),
        short.display(),
        nodes.display()
    );
    std::fs::write(&file, text).expect("written");
    let expected = [
        "selfsame: registry.max_authenticators: 9 is out of range",
        "RUST_LOG is \"selfsame=loud\"",
        "tls.certificate: /nowhere/chain.pem: ",
        "operator.token: the file is empty; remove it",
        "verifier.keys.production.current: ",
        "trusted_roots[0].time: is in the future",
        "sign_in.key_encryption_key_file: ",
        "chains.ethereum.rpc_file: ",
    ];
    let variables = [("RUST_LOG", "selfsame=loud")];
    let (status, text) = check(&file, &variables);
    assert_eq!(status, 78, "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{text}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.contains(expected), "{expected:?} is not in {line:?}");
    }
    assert!(!text.contains("secret-of-the-node"), "{text}");
    let arguments = ["config", "check", "--json", "--config", file.to_str().expect("text")];
    let (status, json) = run_for_status(&arguments, &variables);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let problems: Vec<_> = json["problems"].as_array().expect("a list").iter().map(|line| line.as_str()).collect();
    let printed: Vec<_> = text.trim_start_matches("selfsame: ").lines().map(Some).collect();
    assert_eq!((status.code(), problems, &json["warnings"]), (Some(78), printed, &serde_json::json!([])));
    let (status, refused) = run_for_status(&["serve", "--config", file.to_str().expect("text")], &variables);
    assert_eq!((status.code(), refused), (Some(78), text));
    assert!(!data.join("store").exists(), "the store was made");
}

#[test]
fn the_effective_configuration_is_printed_and_loads_again() {
    let folder = folder();
    let file = folder.path().join("dumped.toml");
    let variables = [("SELFSAME_LISTEN__GATEWAY", "127.0.0.1:9000")];
    let (printed, text) = run_with(&["config", "dump", "--data", "/srv/selfsame"], &variables);
    assert!(printed && text.contains("gateway = \"127.0.0.1:9000\" # variable SELFSAME_LISTEN__GATEWAY\n"), "{text}");
    assert!(text.contains("data_dir = \"/srv/selfsame\" # command line\n"), "{text}");
    std::fs::write(&file, &text).expect("written");
    let (_, again) = run(&["config", "dump", "--config", file.to_str().expect("text"), "--json"]);
    let again: Value = serde_json::from_str(&again).expect("JSON");
    assert_eq!(again["settings"]["listen"]["gateway"], "127.0.0.1:9000");
    assert_eq!(again["settings"]["sign_in"]["key_rotation"], "30days");
    let line = text.lines().position(|line| line.starts_with("gateway = ")).expect("a line") + 1;
    assert_eq!(again["origins"]["listen.gateway"], format!("{}, line {line}", file.display()));
    let (status, text) = run_for_status(&["config", "dump", "--config", "/no/such/file"], &[]);
    assert_eq!(status.code(), Some(78), "{text}");
}

/// The schema, printed without a configuration, is the one that is beside the samples.
#[test]
fn the_schema_for_editors_is_printed() {
    let (printed, text) = run_with(&["config", "schema"], &[("SELFSAME_REGISTRY__CHAIN_ID", "not read")]);
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/selfsame.schema.json");
    assert!(printed && text == std::fs::read_to_string(committed).expect("the schema"), "{text}");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    let validator = jsonschema::Validator::new(&schema).expect("a schema");
    let (_, dump) = run(&["config", "dump", "--dev", "--json"]);
    let dump: Value = serde_json::from_str(&dump).expect("JSON");
    let found: Vec<_> = validator.iter_errors(&dump["settings"]).map(|error| error.to_string()).collect();
    assert_eq!(found, [""; 0]);
}

#[test]
fn the_exit_status_says_whether_a_start_may_succeed_later() {
    let folder = folder();
    let data = folder.path().join("data");
    let process = DaemonProcess::start(&data, &[], &[]);
    let start = |data: &Path, variables: &[(&str, &str)]| {
        let (status, text) = run_for_status(&["serve", "--dev", "--data", data.to_str().expect("text")], variables);
        (status.code(), text)
    };
    let listen: Vec<_> =
        Interface::ALL.map(|interface| format!("SELFSAME_LISTEN__{}", interface.listen_key().to_uppercase())).into();
    let anywhere: Vec<_> = listen.iter().map(|name| (name.as_str(), "127.0.0.1:0")).collect();
    let (status, text) = start(&data, &anywhere);
    assert!(status == Some(75) && text.contains("is in use by another process"), "{status:?} {text}");
    let used = process.gateway.trim_start_matches("http://");
    let variables: Vec<_> = listen.iter().map(|name| (name.as_str(), used)).collect();
    let (status, text) = start(&folder.path().join("other"), &variables);
    assert!(status == Some(75) && text.contains("cannot listen on"), "{status:?} {text}");
    process.terminate();
    // The store belongs to the registry of --dev.
    let (status, text) = start(&data, &[&anywhere[..], &[("SELFSAME_REGISTRY__CHAIN_ID", "5")]].concat());
    assert!(status == Some(78) && text.contains("belongs to the registry"), "{status:?} {text}");
    let (status, text) = run_for_status(&["serve", "--no-such-option"], &[]);
    assert_eq!(status.code(), Some(2), "{text}");
}
