//! The audit trail: every audited request has exactly one event, with its outcome and without
//! secrets.

use reqwest::RequestBuilder;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::harness::operator_token;
use crate::logs::{LoggingDaemon, lines};
use crate::test_accounts::PATIENCE;
use crate::verification_client::{DEV_APP, legacy};

const SECRET: &str = "a-secret-that-no-event-may-show";

/// The events of the audit trail among the lines of a log.
fn events(log: &[Value]) -> Vec<&Value> {
    log.iter().filter(|line| line["target"] == "audit").collect()
}

/// Sends requests, each with its name as request id, and expects of each exactly one event with the
/// event's name, its outcome and these fields.
async fn expect_events(daemon: LoggingDaemon, requests: Vec<(&str, RequestBuilder, &str, &str, Value)>) -> Vec<Value> {
    let mut expected = Vec::new();
    for (name, request, event, outcome, fields) in requests {
        let answer = request.header("x-request-id", name).send().await.expect("an answer");
        drop(answer.bytes().await);
        expected.push((name, event, outcome, fields));
    }
    let log = daemon.end();
    for (name, event, outcome, fields) in expected {
        let mut found = events(&log);
        found.retain(|line| line["span"]["request_id"] == name);
        let [line] = found[..] else { panic!("{name}: {found:#?}") };
        assert_eq!(
            (&line["fields"]["event"], &line["fields"]["outcome"]),
            (&json!(event), &json!(outcome)),
            "{line:#}"
        );
        assert_eq!(line["fields"]["source"], "127.0.0.0/24", "{line:#}");
        for (field, value) in fields.as_object().expect("an object") {
            assert_eq!(line["fields"][field], *value, "{name}: {field}: {line:#}");
        }
    }
    assert!(!log.iter().any(|line| line.to_string().contains(SECRET)), "{log:#?}");
    log
}

#[tokio::test]
async fn calls_of_the_operator_have_one_event_each() {
    let daemon = LoggingDaemon::start(&[]);
    let token = operator_token(daemon.data.path());
    let http = reqwest::Client::new();
    let post = |path: &str, body: Value| http.post(format!("{}{path}", daemon.process.operator)).json(&body);
    let root = json!({"root": "0x2a", "kind": "legacy", "environment": "staging", "identifiers": ["orb", "face"]});
    let concerns = json!({"concerns": "legacy staging 0x2a orb, face", "status": 200});
    let removed = json!({"concerns": "legacy staging 0x2a"});
    let simulated = json!({"root": "0x2b", "environment": "staging", "identifier": "orb"});
    let why = json!({"reason": "the operator's token is missing or wrong", "status": 401});
    let requests = vec![
        ("add", post("/roots", root.clone()).bearer_auth(&token), "root_trusted", "success", concerns),
        ("forged", post("/roots", root.clone()).bearer_auth(SECRET), "root_trusted", "refused", why),
        ("remove", post("/roots/remove", root.clone()).bearer_auth(&token), "root_removed", "success", removed.clone()),
        ("again", post("/roots/remove", root).bearer_auth(&token), "root_removed", "refused", removed),
        ("wallet", post("/simulator/roots", simulated).bearer_auth(&token), "root_trusted", "success", json!({})),
        (
            "rotate",
            post("/keys/rotate", json!({"now": true})).bearer_auth(&token),
            "keys_rotated",
            "success",
            json!({}),
        ),
        ("early", post("/keys/rotate", json!({})).bearer_auth(&token), "keys_rotated", "refused", json!({})),
    ];
    let log = expect_events(daemon, requests).await;
    let without_request: Vec<_> =
        events(&log).into_iter().filter(|line| line["span"].is_null()).map(|line| &line["fields"]["event"]).collect();
    assert_eq!(without_request, ["started", "stopped"]);
    let rotated = events(&log).into_iter().find(|line| line["fields"]["event"] == "keys_rotated").expect("an event");
    assert_eq!(rotated["fields"]["concerns"].as_str().map(str::len), Some(22), "the new key's id: {rotated:#}");
}

#[tokio::test]
async fn verifications_have_one_event_each_without_the_nullifier() {
    let daemon = LoggingDaemon::start(&[]);
    let http = reqwest::Client::new();
    let url = format!("{}/api/v4/verify/{DEV_APP}", daemon.process.verification);
    let good = prove(&daemon, "vote");
    let nullifier = good["responses"][0]["nullifier"].as_str().expect("text").to_owned();
    let mut bad = good.clone();
    bad["action"] = json!("another vote");
    let post = |body: &Value| http.post(&url).json(body);
    let requests = vec![
        ("first", post(&good), "proofs_verified", "success", json!({"client": DEV_APP, "status": 200})),
        ("again", post(&good), "proofs_verified", "success_again", json!({"client": DEV_APP})),
        ("bad", post(&bad), "proofs_verified", "refused", json!({"reason": "no proof verified: invalid_proof"})),
        (
            "foreign",
            post(&legacy()),
            "proofs_verified",
            "refused",
            json!({"concerns": DEV_APP, "reason": "no proof verified: invalid_merkle_root", "status": 400}),
        ),
        (
            "malformed",
            http.post(&url).header(CONTENT_TYPE, "application/json").body(format!("{{\"{SECRET}\"")),
            "proofs_verified",
            "refused",
            json!({"reason": "the body is not valid JSON"}),
        ),
    ];
    let log = expect_events(daemon, requests).await;
    let persons: Vec<_> =
        events(&log).into_iter().filter_map(|line| line["fields"]["person"].as_str().map(str::to_owned)).collect();
    assert_eq!(persons.len(), 2, "{log:#?}");
    assert!(persons[0] == persons[1] && persons[0].len() == 32, "{persons:?}");
    let digits = nullifier.trim_start_matches("0x").trim_start_matches('0');
    assert!(!log.iter().any(|line| line.to_string().contains(digits)), "a nullifier in clear: {log:#?}");
}

/// A current proof of a new wallet, made by the program.
fn prove(daemon: &LoggingDaemon, action: &str) -> Value {
    use crate::harness::run;

    let wallet = daemon.data.path().join("wallet.json").to_str().expect("text").to_owned();
    let process = &daemon.process;
    let data = daemon.data.path().to_str().expect("text");
    let services = ["--gateway", &process.gateway, "--indexer", &process.indexer, "--wallet", &wallet];
    let (made, text) = run(&[&["wallet", "new"], &services[..]].concat());
    assert!(made, "{text}");
    let arguments = ["wallet", "prove", "--wallet", &wallet, "--app", DEV_APP, "--kind", "uniqueness"];
    let daemon = ["--action", action, "--operator", &process.operator, "--data", data];
    let (proved, text) = run(&[&arguments[..], &daemon].concat());
    assert!(proved, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

#[tokio::test]
async fn a_reload_has_an_event() {
    let daemon = LoggingDaemon::start(&[]);
    let log = daemon.data.path().join("log");
    daemon.process.hang_up();
    // The log is the only place that shows when the daemon has done it.
    let started = std::time::Instant::now();
    loop {
        let log = lines(&log);
        let reloads: Vec<_> =
            events(&log).into_iter().filter(|line| line["fields"]["event"] == "configuration_reloaded").collect();
        if let [reload] = reloads[..] {
            assert_eq!(reload["fields"]["outcome"], "success", "{reload:#}");
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{log:#?}");
        tokio::task::yield_now().await;
    }
    daemon.end();
}
