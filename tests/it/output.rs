//! What the commands print: to a reader that closes its end, to a full disk, and for programs.

use std::fs::OpenOptions;
use std::process::Stdio;

use selfsame::config::{Config, SecretHash};
use serde_json::{Value, json};

use crate::harness::{DaemonProcess, folder, program, run, run_for_status, run_with, until};
use crate::sign_in_client::wait_for_signing_keys;

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/protocol/vectors/registry_trace_1.json");
const NEW_APP: [&str; 6] = ["app", "new", "--name", "N", "--redirect-uri", "https://a.example/"];

/// Commands that print and need no daemon.
fn commands() -> Vec<Vec<&'static str>> {
    vec![
        NEW_APP.to_vec(),
        vec!["app", "secret"],
        vec!["app", "list", "--dev"],
        vec!["app", "list", "--dev", "--json"],
        vec!["config", "check"],
        vec!["config", "dump"],
        vec!["config", "dump", "--json"],
        vec!["chain", "check"],
        vec!["completions", "bash"],
        vec!["registry", "replay", TRACE],
        vec!["registry", "replay", TRACE, "--json"],
        vec!["registry", "compare-heads", TRACE, TRACE],
        vec!["--help"],
        vec!["--version"],
    ]
}

/// As `grep` and other programs of Unix, which end by SIGPIPE; a shell shows that as 141.
#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    for arguments in commands() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = program().args(&arguments).stdout(writer).output().expect("the program runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), errors.as_str()), (Some(141), ""), "{arguments:?}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    for arguments in commands() {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("opened");
        let output = program().args(&arguments).stdout(full).output().expect("the program runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        let expected = "selfsame: the output cannot be written: No space left on device (os error 28)\n";
        assert_eq!(errors, expected, "{arguments:?}");
    }
    // A command that fails says so also when nobody reads its errors.
    let full = || OpenOptions::new().write(true).open("/dev/full").expect("opened");
    let status = program().args(["serve", "--config", "/nowhere"]).stdout(full()).stderr(full()).status();
    assert_eq!(status.expect("the program runs").code(), Some(78));
}

#[tokio::test]
async fn the_daemon_serves_when_its_table_cannot_be_printed() {
    let folder = folder();
    let log = folder.path().join("log");
    let full = OpenOptions::new().write(true).open("/dev/full").expect("opened");
    let mut command = program();
    command.args(["serve", "--dev", "--data"]).arg(folder.path().join("data")).stdout(full);
    for interface in ["GATEWAY", "INDEXER", "OPERATOR", "VERIFY", "SIGN_IN", "BRIDGE", "WALLET"] {
        command.env(format!("SELFSAME_LISTEN__{interface}"), "127.0.0.1:0");
    }
    let mut child = command.stderr(std::fs::File::create(&log).expect("a file")).spawn().expect("it starts");
    until("a line of the log", async || {
        let log = std::fs::read_to_string(&log).expect("text");
        assert!(child.try_wait().expect("asked").is_none(), "{log}");
        if log.contains("the table of --dev cannot be printed") { Ok(()) } else { Err(log) }
    })
    .await;
    child.kill().expect("killed");
    child.wait().expect("ended");
}

fn as_json(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, Value) {
    let (status, text) = run_for_status(&[arguments, &["--json"]].concat(), variables);
    (status.code(), serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}")))
}

/// The fields that docs/operations/running.md promises.
#[tokio::test]
async fn every_reading_command_prints_json() {
    let folder = folder();
    let data = folder.path().join("data");
    let process = DaemonProcess::start(&data, &[], &[]);
    wait_for_signing_keys(&process.sign_in).await;
    // The folder comes from the variable that the daemon reads, too.
    let variables = [("SELFSAME_DATA_DIR", data.to_str().expect("text"))];
    let (status, value) = as_json(&["status"], &variables);
    assert_eq!((status, &value["ready"]), (Some(0), &json!(true)));
    assert!(value["version"] == env!("CARGO_PKG_VERSION") && value.get("commit").is_some(), "{value}");
    assert!(value["actors"][0]["name"].is_string() && value["registry"]["accounts"].is_u64(), "{value}");
    let (status, value) = as_json(&["keys", "list"], &variables);
    assert_eq!((status, &value[0]["state"], &value[1]["state"]), (Some(0), &json!("current"), &json!("next")));
    assert!(value[0]["kid"].is_string() && value[0]["published_at"].is_string(), "{value}");
    let add = ["roots", "add", "0x12", "--kind", "current", "--environment", "production"];
    let time = ["--time", "2026-01-31T12:00:00Z"];
    let (added, text) = run_with(&[&add[..], &time].concat(), &variables);
    assert!(added, "{text}");
    let root = json!({
        "root": "0x12", "kind": "current", "environment": "production", "identifiers": [],
        "time": "2026-01-31T12:00:00Z",
    });
    assert_eq!(as_json(&["roots", "list"], &variables), (Some(0), json!([root])));
    assert_eq!(as_json(&["chain", "status"], &variables), (Some(0), json!([])));
    // Another address than the default and no socket: the variable of the daemon's address.
    let copy = folder.path().join("token");
    std::fs::create_dir(&copy).expect("a folder");
    std::fs::copy(data.join("operator.token"), copy.join("operator.token")).expect("copied");
    let address = process.operator.trim_start_matches("http://");
    let by_address = [("SELFSAME_DATA_DIR", copy.to_str().expect("text")), ("SELFSAME_LISTEN__OPERATOR", address)];
    assert_eq!(as_json(&["status"], &by_address).0, Some(0));
    let socket = data.join("operator.socket");
    let by_socket = [
        ("SELFSAME_DATA_DIR", copy.to_str().expect("text")),
        ("SELFSAME_OPERATOR__SOCKET", socket.to_str().expect("text")),
    ];
    assert_eq!(as_json(&["status"], &by_socket).0, Some(0));
    process.terminate();

    let (status, value) = as_json(&["registry", "fsck"], &variables);
    let nothing = json!({"blocks": 0, "applied": 0, "operations": 0, "accounts": 0, "queued": 0, "groups": 0, "members": 0, "findings": [], "unlisted": 0});
    assert_eq!((status, value), (Some(0), nothing));
    assert_eq!(as_json(&["registry", "replay", TRACE], &[]), (Some(0), json!({"rows": 600, "differences": []})));
    let (status, value) = as_json(&["registry", "compare-heads", TRACE, TRACE], &[]);
    assert_eq!((status, &value["result"], value["reason"].is_string()), (Some(2), &json!("not_comparable"), true));
    let (status, value) = as_json(&["app", "list", "--dev"], &[]);
    assert_eq!(status, Some(0));
    let staging = json!({
        "id": "app_staging_5e1f5a3e000000000000000000000001", "name": "Example application", "status": "active",
        "environments": ["staging"], "rp_id": "rp_ae569966006aca98", "is_public": false, "secrets": 1,
        "redirect_uris": ["http://localhost:3000/callback", "http://127.0.0.1:3000/callback"],
    });
    assert_eq!((&value[0], value.as_array().map(Vec::len)), (&staging, Some(2)));
    let (listed, text) = run(&["app", "list", "--dev"]);
    let line = "app_staging_5e1f5a3e000000000000000000000001 active staging rp_ae569966006aca98 1 secret \"Example application\"\n";
    assert!(listed && text.starts_with(line), "{text}");
}

#[test]
fn a_secret_can_be_changed_and_a_wrong_redirect_uri_is_refused() {
    let folder = folder();
    let (made, app) = run(&NEW_APP);
    assert!(made && app.contains("relying party id at the verification interface: rp_"), "{app}");
    let (printed, text) = run(&["app", "secret"]);
    assert!(printed, "{text}");
    let secret = text.lines().find_map(|line| line.strip_prefix("# The client secret, shown this once: "));
    let hash: toml::Table = text.parse().expect("TOML");
    let hash = hash["client_secret_hash"].as_str().expect("a text");
    let old: toml::Table = app.parse().expect("TOML");
    let old = old["apps"][0]["client_secret_hash"].as_str().expect("a text").to_owned();
    let both = format!("client_secret_hashes = [\"{old}\", \"{hash}\"]");
    let changed = app.replace(&format!("client_secret_hash = \"{old}\""), &both);
    let file = folder.path().join("selfsame.toml");
    std::fs::write(&file, changed).expect("written");
    let config = Config::load(Some(&file), std::iter::empty(), false, None).expect("it loads");
    let hashes: Vec<_> = config.apps[0].secret_hashes().collect();
    assert_eq!(hashes.len(), 2);
    assert!(*hashes[1] == SecretHash::of(hashes[1].salt(), secret.expect("a secret")));
    for (uri, expected) in [("notaurl", "does not begin with https://"), ("http://example.com/cb", "write https")] {
        let (made, text) = run(&["app", "new", "--name", "N", "--redirect-uri", uri]);
        assert!(!made && text.contains(expected), "{text}");
    }
}

/// What is in the brackets depends on who built the program, as `src/process.rs` tests.
#[test]
fn the_version_is_that_of_the_package_and_names_a_commit() {
    let (printed, text) = run(&["--version"]);
    let commit = text.strip_prefix(concat!("selfsame ", env!("CARGO_PKG_VERSION"), " (")).expect("the version");
    assert!(printed && commit.ends_with(")\n") && commit.len() > 3, "{text}");
}

#[test]
fn shells_and_man_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (printed, script) = run(&["completions", shell]);
        assert!(printed && script.contains("fsck") && script.contains("completions"), "{shell}: {script}");
    }
    let (status, text) = run_for_status(&["completions", "sh"], &[]);
    assert_eq!(status.code(), Some(2), "{text}");
    let folder = folder();
    let (written, text) = run(&["man", folder.path().to_str().expect("text")]);
    assert!(written && text.is_empty(), "{text}");
    for page in ["selfsame.1", "selfsame-config-check.1", "selfsame-registry-fsck.1"] {
        let text = std::fs::read_to_string(folder.path().join(page)).expect(page);
        assert!(text.contains(".SH OPTIONS"), "{page}: {text}");
    }
    let (written, text) = run(&["man", "/no/such/folder"]);
    assert!(!written && text.contains("/no/such/folder"), "{text}");
    let (_, help) = run(&["--help"]);
    assert!(!help.contains("man pages"), "the command is for packagers: {help}");
}

/// A file for people, a terminal for programs: the setting decides, not the kind of the output.
#[test]
fn the_format_of_the_log_can_be_chosen() {
    for (format, is_json) in [("auto", true), ("json", true), ("text", false)] {
        let folder = folder();
        let log = folder.path().join("log");
        let process = DaemonProcess::start_with_log(
            &folder.path().join("data"),
            &[],
            &[("SELFSAME_LOG__FORMAT", format)],
            Stdio::from(std::fs::File::create(&log).expect("a file")),
        );
        process.terminate();
        let text = std::fs::read_to_string(&log).expect("text");
        assert!(!text.contains('\u{1b}'), "{format}: control characters in a file");
        for line in text.lines() {
            assert_eq!(serde_json::from_str::<Value>(line).is_ok(), is_json, "{format}: {line}");
        }
        assert!(text.lines().any(|line| line.contains("serving")), "{format}: {text}");
    }
}
