//! The unix socket of the operator interface: who can connect, what it answers, and that the
//! commands use it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::harness::{DaemonProcess, Folder, TestDaemon, folder, in_time, operator_token, refused_start, run};
use crate::logs::LoggingDaemon;
use crate::sign_in_client::wait_for_signing_keys;

fn socket_of(data: &Path) -> PathBuf {
    data.join("operator.socket")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Sends a `GET` through a socket with these header lines; returns the status of the answer.
async fn get(socket: &Path, path: &str, lines: &str) -> u16 {
    let asking = async {
        let mut stream = UnixStream::connect(socket).await.expect("connected");
        let request = format!("GET {path} HTTP/1.1\r\nconnection: close\r\n{lines}\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer.split(' ').nth(1).expect("a status").parse().expect("a number")
    };
    in_time("an answer", asking).await
}

/// The TCP address of the daemon is not the commands' default, so they reach it by the socket only.
#[tokio::test]
async fn commands_call_the_daemon_through_the_socket_in_its_data_folder() {
    let daemon = LoggingDaemon::start(&[]);
    let data = text(daemon.data.path()).to_owned();
    wait_for_signing_keys(&daemon.process.sign_in).await;
    // Also when the disk of the tests is nearly full, which needs attention.
    let (is_ready, status) = run(&["status", "--ready", "--data", &data]);
    assert!(is_ready && status.starts_with("ready"), "{status}");
    let (listed, keys) = run(&["keys", "list", "--data", &data]);
    assert!(listed && keys.lines().count() == 2, "{keys}");
    let add = ["roots", "add", "0x12", "--kind", "current", "--environment", "production", "--data", &data];
    let (added, root) = run(&add);
    assert!(added && root.ends_with(" - 0x12\n"), "{root}");
    // An address that is given is called.
    let (is_ready, status) = run(&["status", "--data", &data, "--operator", "http://127.0.0.1:1"]);
    assert!(!is_ready && status.contains("no answer from http://127.0.0.1:1"), "{status}");
    let (is_ready, status) = run(&["status", "--data", &data, "--operator", &daemon.process.operator]);
    assert!(is_ready, "{status}");
    let log = daemon.end();
    let event = log.iter().find(|line| line["fields"]["event"] == "root_trusted").expect("an event");
    assert_eq!(event["fields"]["source"], "unix", "{event:#}");
}

/// The names are checked against pages in browsers, which cannot call a socket.
#[tokio::test]
async fn calls_through_the_socket_need_the_token_under_every_name() {
    let folder = folder();
    let daemon = TestDaemon::start(folder.path()).await;
    daemon.sign_in.published_keys().await.expect("keys");
    let (socket, token) = (socket_of(folder.path()), operator_token(folder.path()));
    let good = format!("authorization: Bearer {token}\r\n");
    for path in ["/status", "/actors", "/roots", "/keys"] {
        for (lines, expected) in [
            (format!("host: localhost\r\n{good}"), 200),
            (format!("host: evil.example\r\norigin: http://evil.example\r\n{good}"), 200),
            ("host: localhost\r\n".to_owned(), 401),
            ("host: localhost\r\nauthorization: Bearer wrong\r\n".to_owned(), 401),
            // HTTP/1.1 needs the header.
            (good.clone(), 400),
        ] {
            assert_eq!(get(&socket, path, &lines).await, expected, "{path} {lines}");
        }
    }
    for path in ["/health", "/ready", "/metrics", "/"] {
        assert_eq!(get(&socket, path, "host: localhost\r\n").await, 200, "{path}");
    }
    assert_eq!(get(&socket, "/root", "host: localhost\r\n").await, 404, "only the operator interface is there");
    daemon.stop().await;
}

#[tokio::test]
async fn the_socket_is_for_its_owner_alone_and_ends_with_the_daemon() {
    let folder = folder();
    let daemon = TestDaemon::start(folder.path()).await;
    let socket = socket_of(folder.path());
    assert_eq!(std::fs::metadata(&socket).expect("a socket").permissions().mode() & 0o777, 0o600);
    daemon.stop().await;
    assert!(!socket.exists());
}

#[test]
fn the_socket_of_a_killed_daemon_is_replaced() {
    let folder = folder();
    let data = text(folder.path());
    DaemonProcess::start(folder.path(), &[], &[]).kill();
    assert!(socket_of(folder.path()).exists(), "a killed daemon leaves its socket");
    let (is_ready, status) = run(&["status", "--data", data]);
    assert!(!is_ready && status.contains("no answer from unix:") && status.contains("is running"), "{status}");
    let daemon = DaemonProcess::start(folder.path(), &[], &[]);
    let (is_ready, status) = run(&["status", "--data", data]);
    assert!(is_ready, "{status}");
    assert!(daemon.terminate().success());
    assert!(!socket_of(folder.path()).exists());
}

#[tokio::test]
async fn a_socket_that_is_in_use_is_not_replaced() {
    let (first, second) = (folder(), folder());
    let daemon = TestDaemon::start(first.path()).await;
    let socket = socket_of(first.path());
    let variable = ("SELFSAME_OPERATOR__SOCKET", text(&socket));
    let message = refused_start(second.path(), &[variable]).await;
    assert!(message.contains("operator.socket: another process listens at"), "{message}");
    assert_eq!(get(&socket, "/ready", "host: localhost\r\n").await, 200);
    daemon.stop().await;
    std::fs::write(&socket, "a text").expect("written");
    let message = refused_start(second.path(), &[variable]).await;
    assert!(message.contains("is not a socket"), "{message}");
    assert_eq!(std::fs::read_to_string(&socket).expect("the file stays"), "a text");
}

/// A data folder, a folder for a socket, and the daemon.
fn start_with_socket(setting: &str) -> (Folder, DaemonProcess) {
    let data = folder();
    let daemon = DaemonProcess::start(data.path(), &[], &[("SELFSAME_OPERATOR__SOCKET", setting)]);
    (data, daemon)
}

#[test]
fn the_socket_can_be_moved_or_turned_off() {
    let elsewhere = folder();
    let socket = elsewhere.path().join("selfsame");
    let (data, daemon) = start_with_socket(text(&socket));
    let operator = format!("unix:{}", socket.display());
    let (is_ready, status) = run(&["status", "--data", text(data.path()), "--operator", &operator]);
    assert!(is_ready, "{status}");
    assert!(!socket_of(data.path()).exists());
    daemon.terminate();
    let (data, daemon) = start_with_socket("off");
    assert!(!socket_of(data.path()).exists());
    let (is_ready, status) = run(&["status", "--data", text(data.path())]);
    assert!(!is_ready && status.contains("http://127.0.0.1:8084"), "{status}");
    let (is_ready, status) = run(&["status", "--data", text(data.path()), "--operator", &daemon.operator]);
    assert!(is_ready, "{status}");
    let (succeeded, message) = run(&["status", "--data", text(data.path()), "--operator", "ftp://127.0.0.1"]);
    assert!(!succeeded && message.contains("or unix:/path/to/operator.socket"), "{message}");
}

#[tokio::test]
async fn a_path_that_is_too_long_for_a_socket_is_refused_with_its_length() {
    let folder = folder();
    let long = folder.path().join("a".repeat(120));
    let message = refused_start(folder.path(), &[("SELFSAME_OPERATOR__SOCKET", text(&long))]).await;
    let length = text(&long).len();
    assert!(message.contains(&format!("operator.socket: {} has {length} bytes", long.display())), "{message}");
    assert!(message.contains("at most 107 (sun_path)") && message.contains("or \"off\""), "{message}");
    // The default path is in the data folder.
    let message = refused_start(&long, &[]).await;
    assert!(message.contains("operator.socket: ") && message.contains("at most 107"), "{message}");
}

/// A request that a proxy on this machine forwards to the socket has no source but the socket.
#[tokio::test]
async fn headers_of_proxies_name_no_source_at_the_socket() {
    let daemon = LoggingDaemon::start(&[("SELFSAME_LIMITS__TRUSTED_PROXIES", "['127.0.0.0/8']")]);
    let socket = socket_of(daemon.data.path());
    let lines = "host: localhost\r\nx-forwarded-for: 192.0.2.1\r\nx-request-id: forwarded\r\n";
    let mut stream = UnixStream::connect(&socket).await.expect("connected");
    let request = format!("POST /keys/rotate HTTP/1.1\r\nconnection: close\r\ncontent-length: 0\r\n{lines}\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let log = daemon.end();
    let event = log.iter().find(|line| line["span"]["request_id"] == "forwarded").expect("an event");
    assert_eq!((&event["fields"]["source"], &event["fields"]["outcome"]), (&json!("unix"), &json!("refused")));
}
