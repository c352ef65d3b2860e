//! A daemon whose log has a reader that stalls, as a collector of logs that hangs: it serves, ends
//! when it is asked to, and says afterwards what the log lacks.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, ErrorKind, PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;

use reqwest::header::CONTENT_TYPE;
use rustix::fs::OFlags;
use serde_json::{Value, json};

use crate::harness::{DaemonProcess, PATIENCE, folder, in_time, program, until, wait_for_end};
use crate::logs::LoggingDaemon;
use crate::sign_in_client::Form;

/// A pipe in which there is room for nothing more.
struct StalledPipe {
    reader: PipeReader,
    writer: PipeWriter,
}

impl StalledPipe {
    fn new() -> Self {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        fill(&writer);
        Self { reader, writer }
    }

    /// The end that a daemon writes to.
    fn stderr(&self) -> Stdio {
        self.writer.try_clone().expect("a descriptor").into()
    }

    /// The lines that come from now on, until the daemon ends.
    fn read(self) -> impl Iterator<Item = String> {
        drop(self.writer);
        BufReader::new(self.reader).lines().map_while(Result::ok).filter(|line| !line.is_empty())
    }
}

/// Fills a pipe with empty lines. The descriptors of others stay blocking ones, because the pipe is
/// opened anew.
fn fill(pipe: &PipeWriter) {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("a flag");
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let mut pipe = OpenOptions::new().write(true).custom_flags(flags).open(path).expect("the pipe");
    loop {
        match pipe.write(b"\n") {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// All lines until the end, each a JSON object.
fn parse(lines: impl Iterator<Item = String>) -> Vec<Value> {
    lines.map(|line| serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().timeout(PATIENCE).build().expect("a client")
}

/// Asks each interface whether it serves.
async fn expect_healthy(daemon: &DaemonProcess) {
    let urls =
        [&daemon.gateway, &daemon.indexer, &daemon.operator, &daemon.verification, &daemon.sign_in, &daemon.bridge];
    for url in urls {
        let answer =
            client().get(format!("{url}/health")).send().await.unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(answer.status(), 200, "{url}");
    }
}

/// A token request with a wrong secret, which leaves an event in the audit trail.
async fn send_wrong_secret(daemon: &DaemonProcess) {
    let form = [("grant_type", "authorization_code"), ("code", "c"), ("redirect_uri", "http://localhost/")];
    let request = client().post(format!("{}/token", daemon.sign_in)).form(&form).basic_auth("app_0", Some("wrong"));
    let answer = request.send().await.expect("an answer to a wrong secret");
    assert_eq!(answer.status(), 401);
}

async fn lost_lines(daemon: &DaemonProcess, kind: &str) -> u64 {
    let metrics = client().get(format!("{}/metrics", daemon.operator)).send().await.expect("an answer");
    let metrics = metrics.text().await.expect("text");
    let name = format!("selfsame_log_lost_lines_total{{kind=\"{kind}\"}} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&name));
    value.unwrap_or_else(|| panic!("{name}: {metrics}")).parse().expect("a number")
}

/// Ends the daemon and returns its exit status, on a thread that may block.
async fn terminate_soon(daemon: DaemonProcess) -> Option<i32> {
    let ended = tokio::task::spawn_blocking(move || daemon.terminate());
    tokio::time::timeout(PATIENCE, ended).await.expect("an end in time").expect("no panic").code()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_the_log_that_stalls_stops_no_interface() {
    let (data, pipe) = (folder(), StalledPipe::new());
    let variables = [("SELFSAME_LOG__ACCESS", "network")];
    let daemon = DaemonProcess::start_with_log(data.path(), &[], &variables, pipe.stderr());
    for _ in 0..3 {
        send_wrong_secret(&daemon).await;
        expect_healthy(&daemon).await;
    }
    assert_eq!(lost_lines(&daemon, "ordinary").await, 0, "so few lines have room in memory");
    let reading = tokio::task::spawn_blocking(move || parse(pipe.read()));
    assert_eq!(terminate_soon(daemon).await, Some(0));
    let lines = reading.await.expect("no panic");
    let count = |target: &str| lines.iter().filter(|line| line["target"] == target).count();
    // The events of the start and of the stop, too.
    assert_eq!((count("audit"), count("access")), (5, 22), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_that_the_log_lacks_are_counted_and_said() {
    let (data, pipe) = (folder(), StalledPipe::new());
    // Some two hundred lines for each request.
    let daemon = DaemonProcess::start_with_log(data.path(), &[], &[("RUST_LOG", "trace")], pipe.stderr());
    until("lines that are lost", async || {
        send_wrong_secret(&daemon).await;
        match lost_lines(&daemon, "ordinary").await {
            0 => Err("none"),
            _ => Ok(()),
        }
    })
    .await;
    assert_eq!(lost_lines(&daemon, "audit_or_error").await, 0, "they have room of their own");
    let (sender, mut said) = tokio::sync::mpsc::unbounded_channel();
    let reading = tokio::task::spawn_blocking(move || {
        let is_said = |line: &Value| line["fields"]["message"] == "the log lacks lines";
        parse(pipe.read().inspect(|line| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            if is_said(&line) {
                let _ = sender.send(line);
            }
        }))
    });
    let line = in_time("the line about the loss", said.recv()).await.expect("a line");
    assert_eq!((&line["level"], &line["fields"]["audit_or_error"]), (&json!("ERROR"), &json!(0)), "{line:#}");
    assert!(line["fields"]["ordinary"].as_u64() > Some(0), "{line:#}");
    assert_eq!(terminate_soon(daemon).await, Some(0));
    let lines = reading.await.expect("no panic");
    assert!(lines.iter().any(|line| line["fields"]["event"] == "stopped"), "the last event of the audit trail");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_does_not_wait_for_a_reader_of_the_log_that_stalls() {
    let (data, pipe) = (folder(), StalledPipe::new());
    let daemon = DaemonProcess::start_with_log(data.path(), &[], &[], pipe.stderr());
    assert_eq!(terminate_soon(daemon).await, Some(0));
}

/// A panic is written by the same way.
#[cfg(feature = "fault-injection")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_by_an_error_does_not_wait_for_a_reader_of_the_log_that_stalls() {
    let (data, pipe) = (folder(), StalledPipe::new());
    let variables = [("FAILPOINTS", "http.accept=10*off->return(panic)")];
    let daemon = DaemonProcess::start_with_log(data.path(), &[], &variables, pipe.stderr());
    while client().get(format!("{}/health", daemon.gateway)).send().await.is_ok() {}
    let ended = tokio::task::spawn_blocking(move || daemon.wait());
    assert_eq!(tokio::time::timeout(PATIENCE, ended).await.expect("an end in time").expect("no panic").code(), Some(1));
}

#[test]
fn a_refused_start_does_not_wait_for_a_reader_of_the_log_that_stalls() {
    let pipe = StalledPipe::new();
    let mut child = program().args(["serve", "--config", "/nowhere"]).stderr(pipe.stderr()).spawn().expect("it starts");
    assert_eq!(wait_for_end(&mut child).code(), Some(78));
}

/// The log is on a full disk, or its reader has gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_that_cannot_be_written_are_counted() {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("a device that is always full");
    let (reader, broken) = std::io::pipe().expect("a pipe");
    drop(reader);
    for log in [Stdio::from(full), Stdio::from(broken)] {
        let data = folder();
        let daemon = DaemonProcess::start_with_log(data.path(), &[], &[], log);
        until("lost lines of both kinds", async || {
            send_wrong_secret(&daemon).await;
            match (lost_lines(&daemon, "ordinary").await, lost_lines(&daemon, "audit_or_error").await) {
                (0, _) | (_, 0) => Err("none"),
                _ => Ok(()),
            }
        })
        .await;
        assert_eq!(terminate_soon(daemon).await, Some(0));
    }
}

/// Each of them is refused before its client is known.
#[tokio::test]
async fn a_flood_of_refused_requests_does_not_flood_the_log() {
    let daemon = LoggingDaemon::start(&[]);
    let url = |path: &str| format!("{}{path}", daemon.process.sign_in);
    let client = client();
    for _ in 0..100 {
        for path in ["/token", "/introspect", "/revoke"] {
            let repeated = client.post(url(path)).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
            for request in [client.post(url(path)).json(&json!({})), repeated.body("client_id=a&client_id=b")] {
                let answer = request.send().await.expect("an answer");
                assert_eq!(answer.status(), 400, "{path}");
            }
        }
    }
    let lines = daemon.end();
    for event in ["tokens_issued", "token_introspected", "token_revoked"] {
        let written: Vec<_> = lines.iter().filter(|line| line["fields"]["event"] == event).collect();
        let suppressed: u64 = written.iter().filter_map(|line| line["fields"]["suppressed"].as_u64()).sum();
        // Ten at once, and then one each second. The next line would have the number of the others.
        assert!((10..150).contains(&written.len()), "{event}: {} lines", written.len());
        assert!(written.len() as u64 + suppressed <= 200, "{event}: {} and {suppressed}", written.len());
    }
}

/// They name no client, so they count for the network that they come from.
#[tokio::test]
async fn requests_that_cannot_be_read_count_for_their_source() {
    let limits = [
        ("SELFSAME_LIMITS__SIGN_INS_PER_SOURCE__REQUESTS", "6"),
        ("SELFSAME_LIMITS__SIGN_INS_PER_SOURCE__WINDOW", "1h"),
    ];
    for path in ["/token", "/introspect", "/revoke"] {
        let data = folder();
        let daemon = DaemonProcess::start(data.path(), &[], &limits);
        let send = async |content_type: &str, body: &'static str| {
            let request = client().post(format!("{}{path}", daemon.sign_in)).header(CONTENT_TYPE, content_type);
            request.body(body).send().await.expect("an answer").status().as_u16()
        };
        let form = "application/x-www-form-urlencoded";
        for _ in 0..3 {
            assert_eq!(send("application/json", "{}").await, 400);
            assert_eq!(send(form, "client_id=a&client_id=b").await, 400);
        }
        assert_eq!(send("application/json", "{}").await, 429, "{path}");
    }
}
