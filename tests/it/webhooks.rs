//! Webhooks and streams of events: who is told of what, also after failures, restarts, reloads.

use std::collections::BTreeSet;
use std::time::Duration;

use alloy_primitives::Address;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Response, StatusCode};
use selfsame::config::Config;
use selfsame_protocol::number;
use selfsame_protocol::verification::Environment;
use selfsame_wallet::operations::create_account;
use selfsame_wallet::prove::{self, ProofParameters, SimulatedParty};
use serde_json::{Value, json};

use crate::harness::{DaemonProcess, TestDaemon, folder, in_time, operator_token, run, until};
use crate::registry_client::hold;
use crate::sign_in_client::{SECRET as CLIENT_SECRET, random};
use crate::test_accounts::{create, key, person_of, registry};
use crate::verification_client::{DEV_APP, LEGACY_APP, SESSION_PARTY, VerificationClient, legacy, session};
use crate::webhook_receiver::{Arrived, Reply, WebhookReceiver};

const VERIFIED: &str = "verification.succeeded";
const FINALIZED: &str = "request.finalized";
const FAILED: &str = "request.failed";
const ROOT: &str = "root.added";

fn types(arrived: &[Arrived]) -> Vec<&str> {
    arrived.iter().map(|webhook| webhook.body["type"].as_str().expect("a type")).collect()
}

fn ids(arrived: &[Arrived]) -> BTreeSet<&str> {
    arrived.iter().map(|webhook| &*webhook.id).collect()
}

/// A proof of a person for the example application.
fn proof(person: &str, party: &SimulatedParty) -> Value {
    let asked =
        ProofParameters { app_id: DEV_APP, action: "vote", signal: "", environment: Environment::Staging, nonce: None };
    prove::uniqueness(&person_of(person), &asked, party, &mut random()).expect("a proof")
}

impl VerificationClient {
    async fn webhooks(&self) -> Value {
        let request = self.http.get(self.daemon.operator("/webhooks")).bearer_auth(operator_token(self.folder.path()));
        request.send().await.expect("an answer").json().await.expect("JSON")
    }

    async fn operator_post(&self, path: &str) -> (u16, Value) {
        let request = self.http.post(self.daemon.operator(path)).bearer_auth(operator_token(self.folder.path()));
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verification_is_told_to_its_application_and_to_the_operator() {
    let receivers = [WebhookReceiver::start().await, WebhookReceiver::start().await, WebhookReceiver::start().await];
    let [own, other, all] = &receivers;
    let secrets = folder();
    let of = |app_id: &str| format!("app_id = '{app_id}'");
    let webhooks = vec![
        own.webhook(secrets.path(), "own", &[VERIFIED], &of(DEV_APP)),
        other.webhook(secrets.path(), "other", &[VERIFIED], &of(LEGACY_APP)),
        all.webhook(secrets.path(), "all", &[VERIFIED], ""),
    ];
    let client = VerificationClient::start_with(|config| config.webhooks = webhooks).await;
    let request = proof("alice", &client.simulated().await);
    let answer = client.ask(DEV_APP, &request).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let [told] = &own.until(1).await[..] else { panic!("one webhook") };
    let data = &told.body["data"];
    assert_eq!(told.body["type"], VERIFIED);
    for name in ["nullifier", "action", "environment", "protocol_version", "created_at"] {
        assert_eq!(data[name], answer.body[name], "{name}");
    }
    assert_eq!((&data["app_id"], &data["uses"]), (&json!(DEV_APP), &json!(1)));
    let nonce =
        |value: &Value| number::parse::<selfsame_protocol::U256>(value.as_str().expect("text")).expect("a number");
    assert_eq!(nonce(&data["nonce"]), nonce(&request["nonce"]), "the application finds its request");
    assert_eq!(data["identifiers"], json!([request["responses"][0]["identifier"]]));

    // Of the same person later, of another application, of a session; and none of what fails.
    client.daemon.clock.advance(Duration::from_secs(6 * 3600));
    assert_eq!(client.ask(DEV_APP, &proof("alice", &client.simulated().await)).await.status, 200);
    assert_eq!(client.ask(LEGACY_APP, &legacy()).await.status, 200);
    assert_eq!(client.ask(SESSION_PARTY, &session()).await.status, 200);
    assert_eq!(client.ask(LEGACY_APP, &json!({"protocol_version": "3.0"})).await.status, 400);
    let told = all.until(4).await;
    let find =
        |app_id: &str| told.iter().filter(|webhook| webhook.body["data"]["app_id"] == app_id).collect::<Vec<_>>();
    assert_eq!(find(DEV_APP).len(), 2);
    assert!(find(DEV_APP).iter().any(|webhook| webhook.body["data"]["uses"] == 2));
    assert_eq!(find(LEGACY_APP)[0].body["data"]["nonce"], Value::Null);
    let of_session = &find("app_session")[0].body["data"];
    assert_eq!((&of_session["session_id"], &of_session["action"]), (&session()["session_id"], &Value::Null));
    assert_eq!(of_session["nullifier"], Value::Null);
    assert_eq!((own.until(2).await.len(), other.until(1).await.len()), (2, 1));
    assert_eq!(ids(&told).len(), 4);

    // A delivery is counted when its answer has come back.
    let listed = until("seven deliveries", async || {
        let listed = client.webhooks().await;
        let webhooks = listed.as_array().expect("a list").iter();
        let delivered: u64 = webhooks.map(|webhook| webhook["delivered"].as_u64().expect("a number")).sum();
        if delivered == 7 { Ok(listed) } else { Err(listed) }
    })
    .await;
    assert_eq!((&listed[0]["id"], &listed[0]["app_id"]), (&json!("own"), &json!(DEV_APP)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_and_roots_are_told_to_the_operator() {
    let receiver = WebhookReceiver::start().await;
    let data = folder();
    let webhook = receiver.webhook(data.path(), "all", &[FINALIZED, FAILED, ROOT], "");
    let daemon = TestDaemon::start_with(data.path(), |config| config.webhooks = vec![webhook]).await;
    let open = registry(daemon.client()).await;
    create(&open, &key("alice"), Address::ZERO).await;
    let told = receiver.until(2).await;
    assert_eq!(types(&told).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([FINALIZED, ROOT]));
    let finalized = told.iter().find(|webhook| webhook.body["type"] == FINALIZED).expect("one");
    let request_id = finalized.body["data"]["request_id"].as_str().expect("an id");
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let status: Value = http
        .get(daemon.gateway(&format!("/status/{request_id}")))
        .send()
        .await
        .expect("an answer")
        .json()
        .await
        .expect("JSON");
    for name in ["request_id", "kind", "status"] {
        assert_eq!(finalized.body["data"][name], status[name], "{name}");
    }
    let root = told.iter().find(|webhook| webhook.body["type"] == ROOT).expect("one");
    let served: Value = http.get(daemon.indexer("/root")).send().await.expect("an answer").json().await.expect("JSON");
    assert_eq!(root.body["data"]["root"], served["root"]);

    let body = json!({"root": "0x5", "kind": "legacy", "environment": "staging", "identifiers": ["orb"]});
    let trusted = http.post(daemon.operator("/roots")).bearer_auth(operator_token(data.path())).json(&body);
    assert_eq!(trusted.send().await.expect("an answer").status(), StatusCode::OK);
    let told = receiver.until(3).await;
    let data = &told[2].body["data"];
    assert_eq!((&data["root"], &data["source"]), (&json!("0x5"), &json!("operator")));
    assert_eq!((&data["environment"], &data["protocol_version"]), (&json!("staging"), &json!("3.0")));
    drop(open);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_fails_later_is_told() {
    let receiver = WebhookReceiver::start().await;
    let (data, http) = (folder(), reqwest::Client::new());
    let webhook = receiver.webhook(data.path(), "all", &[FINALIZED, FAILED], "");
    let operation = create_account(&["alice", "tablet"].map(|name| key(name).authenticator()), Address::ZERO).operation;
    let start = async |change: fn(&mut Config)| {
        TestDaemon::start_with(data.path(), |config| {
            config.webhooks = vec![webhook.clone()];
            change(config);
        })
        .await
    };
    let daemon = start(|config| hold(config, 2)).await;
    let accepted = http.post(daemon.gateway("/create-account")).json(&operation).send().await.expect("an answer");
    assert_eq!(accepted.status(), StatusCode::OK);
    daemon.stop().await;
    // The next start allows one authenticator only.
    let daemon = start(|config| config.registry.max_authenticators = 1).await;
    let told = receiver.until(1).await;
    assert_eq!(types(&told), [FAILED]);
    let status = json!({"state": "failed", "error": "PubkeyIdOutOfBounds", "error_code": "pubkey_id_out_of_bounds"});
    assert_eq!((&told[0].body["data"]["status"], &told[0].body["data"]["leaf_index"]), (&status, &Value::Null));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_is_refused_is_sent_again_when_it_is_due() {
    let receiver = WebhookReceiver::start().await;
    let secrets = folder();
    let webhook = receiver.webhook(secrets.path(), "own", &[VERIFIED], "");
    let client = VerificationClient::start_with(|config| config.webhooks = vec![webhook]).await;
    receiver.reply([Reply::RetryAfter(503, 60)]);
    let party = client.simulated().await;
    assert_eq!(client.ask(DEV_APP, &proof("alice", &party)).await.status, 200);
    receiver.until(1).await;
    let waiting = until("an event that waits", async || {
        let listed = client.webhooks().await;
        if listed[0]["waiting"] == 1 { Ok(listed) } else { Err(listed) }
    })
    .await;
    assert_eq!(waiting[0]["last_failure"], "it answered 503 Service Unavailable");
    // Not before the minute that the receiver has asked for.
    client.daemon.clock.advance(Duration::from_secs(30));
    assert_eq!(client.ask(DEV_APP, &proof("bob", &party)).await.status, 200);
    let told = receiver.until(2).await;
    assert_eq!(ids(&told).len(), 2);
    client.daemon.clock.advance(Duration::from_secs(31));
    let told = receiver.until(3).await;
    assert_eq!(told[2].id, told[0].id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_wants_no_more_gets_dead_letters() {
    let receiver = WebhookReceiver::start().await;
    let secrets = folder();
    let webhook = receiver.webhook(secrets.path(), "own", &[VERIFIED], "");
    let client = VerificationClient::start_with(|config| config.webhooks = vec![webhook]).await;
    receiver.reply([Reply::Status(410)]);
    assert_eq!(client.ask(DEV_APP, &proof("alice", &client.simulated().await)).await.status, 200);
    receiver.until(1).await;
    until("a dead letter", async || {
        let listed = client.webhooks().await;
        if listed[0]["dead_letters"] == 1 { Ok(()) } else { Err(listed) }
    })
    .await;
    let (data, url) = (client.folder.path().display().to_string(), client.daemon.operator(""));
    let command = |words: &[&str]| run(&[&["webhooks"], words, &["--operator", &url, "--data", &data]].concat());
    let (is_success, text) = command(&["list"]);
    assert!(
        is_success && text.contains("dead letters: 1") && text.contains("verification.succeeded (operator)"),
        "{text}"
    );
    let (is_success, text) = command(&["dead-letters", "own"]);
    assert!(is_success && text.contains("verification.succeeded attempts: 1") && text.contains("410 Gone"), "{text}");
    let (is_success, text) = command(&["dead-letters", "another"]);
    assert!(!is_success && text.contains("there is no webhook \"another\""), "{text}");
    let (is_success, text) = command(&["retry", "own"]);
    assert!(is_success && text.contains("dead letters of own that are sent again: 1"), "{text}");
    let told = receiver.until(2).await;
    assert_eq!(told[0].id, told[1].id);
    let discarded = client.operator_post("/webhooks/own/dead-letters/discard").await;
    assert_eq!(discarded, (200, json!({"count": 0})));
    assert_eq!(client.operator_post("/webhooks/another/dead-letters/retry").await.0, 404);
}

/// What a receiver has not answered when the daemon is killed is sent again, with the same id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_killed_while_it_sends_loses_no_webhook() {
    let receiver = WebhookReceiver::start().await;
    let folder = folder();
    let (file, data) = (folder.path().join("selfsame.toml"), folder.path().join("data"));
    std::fs::write(&file, receiver.configuration(folder.path(), "all", &[FINALIZED], "")).expect("written");
    let arguments = ["--config", file.to_str().expect("text")];
    let mut count = 0;
    for life in 0..3 {
        let daemon = DaemonProcess::start(&data, &arguments, &[]);
        let open = registry(daemon.client()).await;
        // The second one of each life is not answered.
        receiver.reply([Reply::Status(204), Reply::Hang]);
        for number in 0..3 {
            create(&open, &key(&format!("account {life}.{number}")), Address::ZERO).await;
            count += 1;
        }
        receiver.until(count).await;
        daemon.kill();
    }
    let daemon = DaemonProcess::start(&data, &arguments, &[]);
    let leaf_indexes = |arrived: &[Arrived]| -> BTreeSet<String> {
        arrived.iter().map(|webhook| webhook.body["data"]["leaf_index"].as_str().expect("text").to_owned()).collect()
    };
    let mut expected = count;
    let arrived = loop {
        let arrived = receiver.until(expected).await;
        if leaf_indexes(&arrived).len() == count {
            break arrived;
        }
        expected = arrived.len() + 1;
    };
    assert_eq!(ids(&arrived).len(), count, "an event has one id, however often it is sent");
    daemon.kill();
}

/// Reads a stream up to its next event.
async fn next_event(stream: &mut Response) -> (String, String, Value) {
    let mut text = String::new();
    while !text.ends_with("\n\n") || !text.contains("data: ") {
        // Where the client is, without an event.
        if text.ends_with("\n\n") {
            text.clear();
        }
        let chunk = in_time("an event", stream.chunk()).await.expect("read").expect("not the end");
        text.push_str(std::str::from_utf8(&chunk).expect("text"));
    }
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} is not in {text}")).to_owned()
    };
    (field("id: "), field("event: "), serde_json::from_str(&field("data: ")).expect("JSON"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_show_an_application_its_own_events_and_the_operator_all() {
    let client = VerificationClient::start_with(|config| config.events.streams = true).await;
    let token = operator_token(client.folder.path());
    let of_operator =
        |query: &str| client.http.get(client.daemon.operator(&format!("/events{query}"))).bearer_auth(&token);
    let of_application = |query: &str| {
        client
            .http
            .get(client.daemon.sign_in(&format!("/application/events{query}")))
            .basic_auth(DEV_APP, Some(CLIENT_SECRET))
    };
    let mut all = of_operator("").send().await.expect("an answer");
    let mut own = of_application("?types=verification.succeeded").send().await.expect("an answer");
    for stream in [&all, &own] {
        assert_eq!(
            (stream.status(), &stream.headers()[CONTENT_TYPE]),
            (StatusCode::OK, &"text/event-stream".parse().unwrap())
        );
    }
    assert_eq!(client.ask(LEGACY_APP, &legacy()).await.status, 200);
    let party = client.simulated().await;
    assert_eq!(client.ask(DEV_APP, &proof("alice", &party)).await.status, 200);
    let (first, kind, event) = next_event(&mut all).await;
    assert_eq!((&*kind, &event["data"]["app_id"]), (VERIFIED, &json!(LEGACY_APP)));
    let (second, _, event) = next_event(&mut all).await;
    assert_eq!(event["data"]["app_id"], DEV_APP);
    let (seen, kind, told) = next_event(&mut own).await;
    assert_eq!((&seen, &*kind, &told), (&second, VERIFIED, &event), "it does not get the other application's");

    // A client that connects again gets what it has missed.
    drop(own);
    assert_eq!(client.ask(DEV_APP, &proof("bob", &party)).await.status, 200);
    let mut own = of_application("").header("Last-Event-ID", &seen).send().await.expect("an answer");
    let (third, _, event) = next_event(&mut own).await;
    assert_eq!((third != seen, &event["data"]["uses"]), (true, &json!(1)));
    let mut again = of_operator(&format!("?after={first}")).send().await.expect("an answer");
    assert_eq!(next_event(&mut again).await.0, second);

    for (query, problem) in [
        ("?types=verification.failed", "\"verification.failed\" is no type of event"),
        ("?after=12", "after: a position is two numbers"),
    ] {
        for request in [of_operator(query), of_application(query)] {
            let answer = request.send().await.expect("an answer");
            assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{query}");
            let text = answer.text().await.expect("text").replace("\\\"", "\"").replace('\'', "\"");
            assert!(text.contains(problem), "{text}");
        }
    }
    let stranger = client.http.get(client.daemon.sign_in("/application/events")).basic_auth(DEV_APP, Some("wrong"));
    assert_eq!(stranger.send().await.expect("an answer").status(), StatusCode::UNAUTHORIZED);
    let stranger = client.http.get(client.daemon.operator("/events"));
    assert_eq!(stranger.send().await.expect("an answer").status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_setting_there_are_no_streams() {
    let client = VerificationClient::start().await;
    let request = client.http.get(client.daemon.operator("/events")).bearer_auth(operator_token(client.folder.path()));
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    let request =
        client.http.get(client.daemon.sign_in("/application/events")).basic_auth(DEV_APP, Some(CLIENT_SECRET));
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    assert!(answer.text().await.expect("text").contains("streams = true"));
    assert_eq!(client.webhooks().await, json!([]));
}

/// A reload adds a webhook, which gets what happens from then on, and takes one away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_takes_over_webhooks() {
    let (first, second) = (WebhookReceiver::start().await, WebhookReceiver::start().await);
    let folder = folder();
    let (file, data) = (folder.path().join("selfsame.toml"), folder.path().join("data"));
    let write = |text: String| std::fs::write(&file, text).expect("written");
    write(first.configuration(folder.path(), "first", &[FINALIZED], ""));
    let daemon = DaemonProcess::start(&data, &["--config", file.to_str().expect("text")], &[]);
    let open = registry(daemon.client()).await;
    create(&open, &key("alice"), Address::ZERO).await;
    first.until(1).await;
    let reload = || run(&["reload", "--data", data.to_str().expect("text")]);
    write(second.configuration(folder.path(), "second", &[FINALIZED], "app_id = 'app_nobody'"));
    let (is_success, text) = reload();
    assert!(
        !is_success && text.contains("webhooks[0].app_id: \"app_nobody\" is not the id of an application"),
        "{text}"
    );
    write(second.configuration(folder.path(), "second", &[FINALIZED], ""));
    let (is_success, text) = reload();
    assert!(is_success && text.contains("webhooks"), "{text}");
    create(&open, &key("bob"), Address::ZERO).await;
    let told = second.until(1).await;
    assert_eq!(told[0].body["data"]["leaf_index"], "0x2");
    assert_eq!(first.arrived().len(), 1);
    daemon.kill();
}
