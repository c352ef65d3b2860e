//! What the log says about a request: every line carries the request's id, a failure of the service
//! is logged with its cause whatever the filter, a rejection at debug level with its reason, and no
//! line carries a secret.

use std::fs::File;
use std::path::Path;

use alloy_primitives::Address;
use reqwest::header::CONTENT_TYPE;
use selfsame_wallet::operations::create_account;
use serde_json::{Value, json};

use crate::harness::{DaemonProcess, Folder, PATIENCE, folder, until_true};
use crate::test_accounts::key;

/// A daemon in a process of its own, with its log in a file.
pub struct LoggingDaemon {
    pub process: DaemonProcess,
    pub data: Folder,
}

impl LoggingDaemon {
    pub fn start(variables: &[(&str, &str)]) -> Self {
        let data = folder();
        let log = File::create(data.path().join("log")).expect("a file");
        let process = DaemonProcess::start_with_log(data.path(), &[], variables, log.into());
        Self { process, data }
    }

    /// Ends the daemon; the lines of its log.
    pub fn end(self) -> Vec<Value> {
        self.process.terminate();
        lines(&self.data.path().join("log"))
    }
}

/// The lines of a log, each a JSON object.
pub fn lines(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).expect("text");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// The lines that carry a request's id, as level and message.
pub fn about<'a>(lines: &'a [Value], request_id: &'a str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let carries = move |line: &&Value| {
        let mut spans = line["spans"].as_array().into_iter().flatten();
        spans.any(|span| span["name"] == "request" && span["request_id"] == request_id)
    };
    lines.iter().filter(carries).map(|line| (line["level"].as_str().expect("a level"), &line["fields"]))
}

/// Posts the creation of an account under a request id; status and `X-Request-Id` of the answer.
async fn create(process: &DaemonProcess, request_id: &str) -> (u16, String) {
    let operation = create_account(&[key("alice").authenticator()], Address::ZERO).operation;
    let body = serde_json::to_string(&operation).expect("JSON");
    let request = reqwest::Client::new().post(format!("{}/create-account", process.gateway));
    let request = request.header(CONTENT_TYPE, "application/json").header("x-request-id", request_id);
    let answer = request.body(body).send().await.expect("an answer");
    let request_id = answer.headers()["x-request-id"].to_str().expect("text").to_owned();
    (answer.status().as_u16(), request_id)
}

/// The fault strikes reads of the store after those of the start.
#[cfg(feature = "fault-injection")]
#[tokio::test]
async fn an_internal_error_is_logged_with_the_request_id_of_the_answer() {
    let fault = ("FAILPOINTS", "store.read=300*off->return(error)");
    for filter in [None, Some("error"), Some("warn")] {
        let variables: Vec<_> = filter.map(|filter| ("RUST_LOG", filter)).into_iter().chain([fault]).collect();
        let daemon = LoggingDaemon::start(&variables);
        let request_id = internal_error(&daemon.process).await;
        let lines = daemon.end();
        let errors: Vec<_> = about(&lines, &request_id).filter(|(level, _)| *level == "ERROR").collect();
        let cause = errors.iter().find(|(_, fields)| fields["error"] == "a fault was injected at store.read");
        assert!(cause.is_some(), "RUST_LOG={filter:?}: no line of {request_id} has the cause: {lines:#?}");
    }
}

/// Asks for a request's state until the daemon fails; the `X-Request-Id` of that answer.
#[cfg(feature = "fault-injection")]
async fn internal_error(process: &DaemonProcess) -> String {
    let http = reqwest::Client::new();
    for _ in 0..1000 {
        let unknown = format!("{}/status/gw_0189b2f4-6c0e-4c62-9d0a-0242ac120002", process.gateway);
        let answer = http.get(unknown).send().await.expect("an answer");
        let request_id = answer.headers()["x-request-id"].to_str().expect("text").to_owned();
        if answer.status() == 500 {
            let body: Value = answer.json().await.expect("JSON");
            assert!(body["message"].as_str().is_some_and(|text| text.contains("X-Request-Id")), "{body}");
            return request_id;
        }
    }
    panic!("no read of the store fails");
}

#[tokio::test]
async fn events_inside_the_actors_carry_the_request_id() {
    let daemon = LoggingDaemon::start(&[("RUST_LOG", "debug")]);
    let (status, request_id) = create(&daemon.process, "id-of-the-client").await;
    assert_eq!((status, request_id.as_str()), (200, "id-of-the-client"));
    // The operation goes on after the answer.
    until_true("the final state of the request", async || {
        let metrics = reqwest::get(format!("{}/metrics", daemon.process.operator)).await.expect("an answer");
        let metrics = metrics.text().await.expect("text");
        metrics.lines().any(|line| line == "selfsame_registry_requests_total{state=\"finalized\"} 1")
    })
    .await;
    let lines = daemon.end();
    let found: Vec<_> = about(&lines, "id-of-the-client").map(|(_, fields)| fields.clone()).collect();
    let with_message = |message: &str| {
        let found = found.iter().find(|fields| fields["message"] == message);
        found.unwrap_or_else(|| panic!("{message}: {found:?}"))
    };
    with_message("admitted a request");
    with_message("answered");
    let sealed = with_message("sealed a request into a block");
    assert_eq!((&sealed["height"], &sealed["position"]), (&json!(1), &json!(0)));
    assert_eq!(with_message("finalized a request")["height"], 1);
    // The last lines have the id of the client's answer, too, by which its state is asked for.
    let last = lines.iter().find(|line| line["fields"]["message"] == "finalized a request").expect("a line");
    let spans = last["spans"].as_array().expect("spans");
    let actor = spans.last().expect("the actor's span");
    assert_eq!((&actor["name"], &actor["actor"]), (&json!("actor"), &json!("registry/tree-maintainer")), "{actor}");
    assert!(actor["instance"].as_str().is_some_and(|instance| instance.starts_with("selfsame")), "{actor}");
    let operation = spans.iter().find(|span| span["name"] == "operation").expect("the operation's span");
    assert!(operation["id"].as_str().is_some_and(|id| id.starts_with("gw_")), "{operation}");
    assert_eq!(operation["height"], 1);
}

#[tokio::test]
async fn the_access_log_has_a_line_for_each_request_with_its_source() {
    for (access, source) in [("network", "127.0.0.0/24"), ("address", "127.0.0.1")] {
        let daemon = LoggingDaemon::start(&[("SELFSAME_LOG__ACCESS", access)]);
        let url = format!("{}/status/gw_secret?query=secret", daemon.process.gateway);
        let request = reqwest::Client::new().get(url).header("x-request-id", "asked");
        assert_eq!(request.send().await.expect("an answer").status(), 404);
        let lines = daemon.end();
        let found: Vec<_> = lines.iter().filter(|line| line["target"] == "access").collect();
        let line = found.iter().find(|line| line["span"]["request_id"] == "asked");
        let line = line.unwrap_or_else(|| panic!("{found:#?}"));
        let fields = &line["fields"];
        assert_eq!(
            (&fields["source"], &fields["status"], &fields["method"]),
            (&json!(source), &json!(404), &json!("GET"))
        );
        assert!(fields["bytes"].as_u64() > Some(0) && fields["micros"].is_u64(), "{fields}");
        assert_eq!((&line["level"], &line["span"]["route"]), (&json!("INFO"), &json!("/status/{request_id}")));
        assert!(!line.to_string().contains("secret"), "{line}");
    }
    let daemon = LoggingDaemon::start(&[]);
    reqwest::get(format!("{}/health", daemon.process.gateway)).await.expect("an answer");
    assert!(daemon.end().iter().all(|line| line["target"] != "access"));
}

#[tokio::test]
async fn rejections_are_logged_at_debug_level_with_their_reason_and_without_secrets() {
    const SECRET: &str = "a-secret-that-no-log-may-show";
    let daemon = LoggingDaemon::start(&[("RUST_LOG", "debug")]);
    let process = &daemon.process;
    let http = reqwest::Client::new();
    let form = "application/x-www-form-urlencoded";
    let code = format!("grant_type=authorization_code&code={SECRET}&redirect_uri=http://localhost/callback");
    let token = http.post(format!("{}/token", process.sign_in)).basic_auth("app_0", Some(SECRET));
    let requests = [
        ("gateway", http.post(format!("{}/create-account", process.gateway)).body(format!("{{\"{SECRET}\""))),
        ("indexer", http.post(format!("{}/packed-account", process.indexer)).body("[]")),
        ("token", token.header(CONTENT_TYPE, form).body(code)),
        ("userinfo", http.get(format!("{}/userinfo", process.sign_in)).bearer_auth(SECRET)),
        ("authorize", http.get(format!("{}/authorize?client_id=app_0&state={SECRET}", process.sign_in))),
        ("verify", http.post(format!("{}/api/v4/verify/rp_0", process.verification)).body("{}")),
        ("rotate", http.post(format!("{}/keys/rotate", process.operator)).bearer_auth(SECRET)),
        ("nowhere", http.get(format!("{}/nowhere", process.gateway))),
    ];
    let mut names = Vec::new();
    for (name, request) in requests {
        let request = request.header("x-request-id", name).timeout(PATIENCE);
        let status = request.send().await.expect("an answer").status();
        assert!(status.is_client_error(), "{name}: {status}");
        names.push(name);
    }
    let lines = daemon.end();
    for name in names {
        let reasons: Vec<_> = about(&lines, name).filter(|(_, fields)| fields["message"] == "rejected").collect();
        let [(level, fields)] = reasons[..] else { panic!("{name}: {reasons:?}") };
        assert_eq!(level, "DEBUG", "{name}");
        assert!(fields["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{name}: {fields}");
    }
    let shown: Vec<_> = lines.iter().filter(|line| line.to_string().contains(SECRET)).collect();
    assert!(shown.is_empty(), "{shown:#?}");
}
