//! The message bridge, as applications and authenticators call it.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, RETRY_AFTER};
use reqwest::{Method, StatusCode};
use selfsame_interfaces::interface::Interface;
use serde_json::{Value, json};

use crate::harness::{DaemonProcess, Folder, TestDaemon, exclusive, folder, in_time};

/// A bridge and a client of it.
struct BridgeClient {
    http: reqwest::Client,
    url: String,
    daemon: TestDaemon,
    _folder: Folder,
}

impl BridgeClient {
    async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    async fn start_with(change: impl FnOnce(&mut selfsame::config::Config)) -> Self {
        let folder = folder();
        let daemon = TestDaemon::start_with(folder.path(), change).await;
        let url = format!("http://{}", daemon.addresses[Interface::Bridge]);
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { http, url, daemon, _folder: folder }
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let request = self.request(method, path);
        let request = match &body {
            Some(body) => request.json(body),
            None => request,
        };
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.headers()[CACHE_CONTROL], "no-store", "{path}");
        let (status, text) = (answer.status(), answer.text().await.expect("text"));
        (status, if text.is_empty() { Value::Null } else { serde_json::from_str(&text).expect("JSON") })
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.send(Method::GET, path, None).await
    }

    async fn head(&self, path: &str) -> StatusCode {
        self.send(Method::HEAD, path, None).await.0
    }

    async fn create(&self, payload: u8) -> String {
        let (status, created) = self.send(Method::POST, "/request", Some(message(payload))).await;
        assert_eq!(status, StatusCode::OK, "{created}");
        created["request_id"].as_str().expect("an id").to_owned()
    }

    async fn stop(self) {
        self.daemon.stop().await;
    }
}

/// An encrypted message; its content differs by `payload`.
fn message(payload: u8) -> Value {
    json!({"iv": base64([payload; 12]), "payload": base64([payload; 40])})
}

fn base64(bytes: impl AsRef<[u8]>) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[track_caller]
fn refused((status, answer): (StatusCode, Value), expected: StatusCode, code: &str) {
    assert_eq!((status, answer["code"].as_str()), (expected, Some(code)), "{answer}");
    assert!(answer["message"].as_str().is_some_and(|message| !message.is_empty()), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_and_its_answer_are_each_handed_out_once() {
    let client = BridgeClient::start().await;
    let id = client.create(1).await;
    assert_eq!(id.len(), 36, "{id}");
    let (request, response) = (format!("/request/{id}"), format!("/response/{id}"));
    assert_eq!(client.get(&response).await, (StatusCode::OK, json!({"status": "initialized", "response": null})));
    // Looking uses nothing up, and ids are the same in any case.
    assert_eq!(client.head(&request).await, StatusCode::OK);
    let looked = client.request(Method::HEAD, &request).send().await.expect("an answer");
    assert!(!looked.headers().contains_key("content-length"), "it is not that of the message: {looked:?}");
    assert_eq!(client.head(&request.to_uppercase().replace("REQUEST", "request")).await, StatusCode::OK);
    assert_eq!(client.get(&request).await, (StatusCode::OK, message(1)));
    refused(client.get(&request).await, StatusCode::NOT_FOUND, "not_found");
    assert_eq!(client.head(&request).await, StatusCode::NOT_FOUND);
    assert_eq!(client.get(&response).await, (StatusCode::OK, json!({"status": "retrieved", "response": null})));
    assert_eq!(client.send(Method::PUT, &response, Some(message(2))).await, (StatusCode::CREATED, Value::Null));
    refused(client.send(Method::PUT, &response, Some(message(3))).await, StatusCode::CONFLICT, "already_answered");
    assert_eq!(client.head(&response).await, StatusCode::OK);
    let answered = json!({"status": "completed", "response": message(2)});
    assert_eq!(client.get(&response).await, (StatusCode::OK, answered));
    refused(client.get(&response).await, StatusCode::NOT_FOUND, "not_found");
    assert_eq!(client.head(&response).await, StatusCode::NOT_FOUND);
    refused(client.send(Method::PUT, &response, Some(message(3))).await, StatusCode::BAD_REQUEST, "no_such_request");
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_can_be_chosen_flows_named_and_answers_given_without_a_request() {
    let client = BridgeClient::start().await;
    let mut chosen = message(1);
    chosen["request_id"] = json!("A.chosen_id-0123456789");
    chosen["supports_app_overrides"] = json!(true);
    let created = client.send(Method::POST, "/request", Some(chosen.clone())).await;
    assert_eq!(created, (StatusCode::OK, json!({"request_id": "a.chosen_id-0123456789"})));
    refused(client.send(Method::POST, "/request", Some(chosen)).await, StatusCode::CONFLICT, "request_id_taken");
    let taken = client.request(Method::GET, "/request/a.chosen_id-0123456789").header("accept-idkit-flow-id", "True");
    let taken: Value = taken.send().await.expect("an answer").json().await.expect("JSON");
    assert_eq!((&taken["iv"], &taken["payload"]), (&message(1)["iv"], &message(1)["payload"]));
    let flow = taken["idkit_flow_id"].as_str().expect("a flow");
    assert!(flow.starts_with("idkitflow_") && flow.len() == 46, "{flow}");

    let (status, created) = client.send(Method::POST, "/response", Some(message(7))).await;
    assert_eq!(status, StatusCode::CREATED);
    let path = format!("/response/{}", created["request_id"].as_str().expect("an id"));
    assert_eq!(client.get(&path).await.1, json!({"status": "completed", "response": message(7)}));
    assert_eq!(client.get(&path).await.0, StatusCode::NOT_FOUND);
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_requests_are_refused_with_their_reason() {
    let client = BridgeClient::start().await;
    let id = client.create(1).await;
    for path in ["/request/short", "/response/short", "/request/0123456789abcdef%20", "/response/%ff123456789abcdef"] {
        refused(client.get(path).await, StatusCode::BAD_REQUEST, "bad_request");
        assert_eq!(client.head(path).await, StatusCode::BAD_REQUEST, "{path}");
    }
    refused(client.get("/request/unknown-0123456789").await, StatusCode::NOT_FOUND, "not_found");
    refused(client.get("/other").await, StatusCode::NOT_FOUND, "not_found");
    let response = format!("/response/{id}");
    for wait in ["61", "-1", "+1", "x", ""] {
        refused(client.get(&format!("{response}?wait={wait}")).await, StatusCode::BAD_REQUEST, "bad_request");
    }
    for body in
        [json!({}), json!([]), json!({"iv": "AAAA", "payload": base64([0; 16])}), json!({"iv": base64([0; 12])})]
    {
        refused(
            client.send(Method::POST, "/request", Some(body.clone())).await,
            StatusCode::BAD_REQUEST,
            "bad_request",
        );
        refused(client.send(Method::PUT, &response, Some(body.clone())).await, StatusCode::BAD_REQUEST, "bad_request");
        refused(client.send(Method::POST, "/response", Some(body)).await, StatusCode::BAD_REQUEST, "bad_request");
    }
    let plain = client.request(Method::POST, "/request").body(message(1).to_string()).send().await.expect("an answer");
    assert_eq!(plain.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let removed = client.send(Method::DELETE, &response, None).await;
    refused(removed, StatusCode::METHOD_NOT_ALLOWED, "bad_request");
    // Nothing of it has used the request up.
    assert_eq!(client.get(&format!("/request/{id}")).await.0, StatusCode::OK);
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_five_mebibytes_pass_and_longer_ones_do_not() {
    let client = BridgeClient::start().await;
    let of_length = |bytes: usize| json!({"iv": base64([0; 12]), "payload": base64(vec![7; bytes])});
    let largest = of_length((5 << 20) / 4 * 3 - 64);
    let (status, created) = client.send(Method::POST, "/request", Some(largest.clone())).await;
    assert_eq!(status, StatusCode::OK, "{created}");
    let id = created["request_id"].as_str().expect("an id");
    assert_eq!(client.get(&format!("/request/{id}")).await, (StatusCode::OK, largest));
    // The refusal may come before the body is sent, which a client can see as a broken connection.
    let too_long = client.request(Method::POST, "/request").json(&of_length((5 << 20) / 4 * 3)).send().await;
    match too_long {
        Ok(answer) => assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE),
        Err(error) => assert!(error.is_request(), "{error:?}"),
    }
    let metrics = client.http.get(client.daemon.operator("/metrics")).send().await.expect("an answer");
    let metrics = metrics.text().await.expect("text");
    assert!(metrics.contains("\nselfsame_bridge_entries 1\n"), "only the first one is kept: {metrics}");
    client.stop().await;
}

/// An upgrade to a daemon with a bridge does not keep it from starting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_goes_on_without_the_bridge_when_its_default_address_is_taken() {
    let (folder, log) = (folder(), folder());
    let log = log.path().join("log");
    // Without success, a program that is no test has it, which serves as well.
    let _alone = exclusive("default-address-of-the-bridge");
    let _taken = std::net::TcpListener::bind("127.0.0.1:8085");
    let variables = [("SELFSAME_LISTEN__BRIDGE", "127.0.0.1:8085")];
    let output = std::fs::File::create(&log).expect("a file");
    let daemon = DaemonProcess::start_with_log(folder.path(), &[], &variables, output.into());
    assert!(daemon.client().root().await.is_ok(), "the other interfaces are served");
    let log = std::fs::read_to_string(log).expect("a log");
    assert!(log.contains("the bridge interface is not served"), "{log}");
    drop(daemon);

    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = other.local_addr().expect("an address");
    let error = TestDaemon::start_error(folder.path(), |config| config.listen[Interface::Bridge] = taken).await;
    assert!(error.contains("listen.bridge: cannot listen on"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_expire_a_lifetime_after_their_last_change() {
    let client = BridgeClient::start().await;
    let almost = Duration::from_secs(899);
    let (taken, left) = (client.create(1).await, client.create(2).await);
    client.daemon.clock.advance(almost);
    assert_eq!(client.get(&format!("/request/{taken}")).await.0, StatusCode::OK);
    client.daemon.clock.advance(Duration::from_secs(1));
    refused(client.get(&format!("/request/{left}")).await, StatusCode::NOT_FOUND, "not_found");
    refused(client.get(&format!("/response/{left}")).await, StatusCode::NOT_FOUND, "not_found");
    client.daemon.clock.advance(almost - Duration::from_secs(1));
    let answered = client.send(Method::PUT, &format!("/response/{taken}"), Some(message(3))).await;
    assert_eq!(answered.0, StatusCode::CREATED);
    client.daemon.clock.advance(almost);
    assert_eq!(client.get(&format!("/response/{taken}")).await.1["status"], "completed");
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_request_is_answered_when_the_status_changes() {
    let client = BridgeClient::start().await;
    let id = client.create(1).await;
    let (request, response) = (format!("/request/{id}"), format!("/response/{id}"));
    let by_header = client.request(Method::GET, &response).header("Prefer", "respond-async, wait=60");
    let by_parameter = client.request(Method::GET, &format!("{response}?wait=60"));
    let held = [by_header, by_parameter].map(|held| {
        tokio::spawn(async move {
            let answer = held.send().await.expect("an answer");
            (answer.status(), answer.json::<Value>().await.expect("JSON"))
        })
    });
    assert_eq!(client.get(&request).await.0, StatusCode::OK);
    assert_eq!(client.send(Method::PUT, &response, Some(message(2))).await.0, StatusCode::CREATED);
    // Each has seen one of the two changes, long before its time is over. One that came after the
    // other one had taken the answer finds nothing.
    let completed = json!({"status": "completed", "response": message(2)});
    let mut taken = 0;
    for held in held {
        let answered = in_time("a change to end the wait", held).await;
        match answered.expect("no panic") {
            (StatusCode::OK, answer) if answer == completed => taken += 1,
            (StatusCode::OK, answer) => assert_eq!(answer, json!({"status": "retrieved", "response": null})),
            late => refused(late, StatusCode::NOT_FOUND, "not_found"),
        }
    }
    assert!(taken <= 1, "an answer is handed out once");
    let left = client.get(&response).await;
    assert_eq!(left.0, if taken == 1 { StatusCode::NOT_FOUND } else { StatusCode::OK }, "{left:?}");
    client.stop().await;
}

/// Of callers at the same time, one gets a request, one answers it, one gets the answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_racing_callers_one_wins_each_step() {
    const ROUNDS: usize = 20;
    const RACERS: u8 = 8;
    let client = BridgeClient::start().await;
    for _ in 0..ROUNDS {
        let id = client.create(1).await;
        let race = async |method: Method, path: String, body: fn(u8) -> Option<Value>| {
            let racers = (0..RACERS).map(|racer| client.send(method.clone(), &path, body(racer)));
            futures_util::future::join_all(racers.collect::<Vec<_>>()).await
        };
        let taken = race(Method::GET, format!("/request/{id}"), |_| None).await;
        expect_one_winner(&taken, StatusCode::OK, &[StatusCode::NOT_FOUND]);
        let answers = race(Method::PUT, format!("/response/{id}"), |racer| Some(message(racer))).await;
        expect_one_winner(&answers, StatusCode::CREATED, &[StatusCode::CONFLICT]);
        let winner = answers.iter().position(|(status, _)| *status == StatusCode::CREATED).expect("a winner");
        let given = race(Method::GET, format!("/response/{id}?wait=5"), |_| None).await;
        // As many as may wait for one request at a time; the others are refused.
        expect_one_winner(&given, StatusCode::OK, &[StatusCode::NOT_FOUND, StatusCode::TOO_MANY_REQUESTS]);
        let answer = given.iter().find(|(status, _)| *status == StatusCode::OK).expect("a winner");
        assert_eq!(answer.1["response"], message(winner as u8), "the first answer wins");
    }
    client.stop().await;
}

#[track_caller]
fn expect_one_winner(answers: &[(StatusCode, Value)], winning: StatusCode, losing: &[StatusCode]) {
    let mut counts = BTreeMap::new();
    answers.iter().for_each(|(status, _)| *counts.entry(*status).or_insert(0) += 1);
    assert_eq!(counts.remove(&winning), Some(1), "{answers:?}");
    assert!(counts.keys().all(|status| losing.contains(status)), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_messages_is_bounded_and_leaves_room_for_others() {
    let client = BridgeClient::start_with(|config| config.bridge.memory_mib = 32).await;
    let large = json!({"iv": base64([0; 12]), "payload": base64(vec![7; 1 << 20])});
    let mut kept = 0;
    let refusal = loop {
        let answer = client.request(Method::POST, "/request").json(&large).send().await.expect("an answer");
        if answer.status() != StatusCode::OK {
            break answer;
        }
        kept += 1;
    };
    assert_eq!(kept, 7, "a quarter of 32 MiB has room for seven messages of 1 MiB and their entries");
    assert_eq!(refusal.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refusal.headers().contains_key(RETRY_AFTER));
    // Another source has its own quarter, but long messages have no more together.
    let other = reqwest::Client::builder().no_proxy().local_address(Some([127, 9, 8, 7].into())).build();
    let other = other.expect("a client");
    let post = async |body: &Value| {
        other.post(format!("{}/request", client.url)).json(body).send().await.expect("an answer").status()
    };
    assert_eq!(post(&large).await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(post(&message(1)).await, StatusCode::OK);
    let metrics = client.http.get(client.daemon.operator("/metrics")).send().await.expect("an answer");
    let metrics = metrics.text().await.expect("text");
    assert!(metrics.contains("\nselfsame_bridge_entries 8\n"), "{metrics}");
    let limit = "selfsame_source_limit_refusals_total{limit=\"memory_mib\",endpoints=\"bridge\"} 1";
    assert!(metrics.lines().any(|line| line == limit), "{metrics}");
    // Their time passes, and everything is free again.
    client.daemon.clock.advance(Duration::from_secs(900));
    assert_eq!(client.send(Method::POST, "/request", Some(large)).await.0, StatusCode::OK);
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_hands_in_and_fetches_as_many_messages_as_its_rate_allows() {
    let limit = |config: &mut selfsame::config::Config| {
        let window = Duration::from_secs(60);
        config.limits.bridge_per_source = Some(selfsame::config::RateLimit { requests: 4, window: window.into() });
    };
    let client = BridgeClient::start_with(limit).await;
    let id = client.create(1).await;
    let (request, response) = (format!("/request/{id}"), format!("/response/{id}"));
    assert_eq!(client.get(&request).await.0, StatusCode::OK);
    assert_eq!(client.send(Method::PUT, &response, Some(message(2))).await.0, StatusCode::CREATED);
    client.create(3).await;
    for (method, path) in [(Method::POST, "/request"), (Method::POST, "/response"), (Method::PUT, &response)] {
        let answer = client.request(method.clone(), path).json(&message(4)).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS, "{method} {path}");
        assert_eq!(answer.headers()[RETRY_AFTER], "60", "{method} {path}");
    }
    refused(client.get(&request).await, StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded");
    // Looking and asking for the answer count for nothing: pages do so each second.
    assert_eq!(client.head(&response).await, StatusCode::OK);
    assert_eq!(client.get(&response).await.1["response"], message(2));
    let metrics = client.http.get(client.daemon.operator("/metrics")).send().await.expect("an answer");
    let metrics = metrics.text().await.expect("text");
    let refused = "selfsame_source_limit_refusals_total{limit=\"bridge_per_source\",endpoints=\"bridge\"} 4";
    assert!(metrics.lines().any(|line| line == refused), "{metrics}");
    client.daemon.clock.advance(Duration::from_secs(63));
    client.create(5).await;
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_bridge_takes_the_answers_to_its_requests() {
    let client = BridgeClient::start_with(|config| config.bridge.memory_mib = 32).await;
    let id = client.create(1).await;
    let of_length = |bytes: usize| json!({"iv": base64([0; 12]), "payload": base64(vec![7; bytes])});
    // Long messages fill their part, and shorter ones the rest, until not even 4 KiB have room.
    for length in [1 << 20, 60 << 10, 4 << 10] {
        let mut last = StatusCode::OK;
        for source in [[127, 1, 0, 1], [127, 2, 0, 1], [127, 3, 0, 1], [127, 4, 0, 1], [127, 5, 0, 1]] {
            let stranger = reqwest::Client::builder().no_proxy().local_address(Some(source.into())).build();
            let stranger = stranger.expect("a client");
            loop {
                let body = of_length(length);
                let kept = stranger.post(format!("{}/request", client.url)).json(&body).send().await;
                last = kept.expect("an answer").status();
                if last != StatusCode::OK {
                    break;
                }
            }
        }
        assert_eq!(last, StatusCode::SERVICE_UNAVAILABLE, "no room for messages of {length} bytes");
    }
    let answered = client.send(Method::PUT, &format!("/response/{id}"), Some(of_length(8192))).await;
    assert_eq!(answered, (StatusCode::CREATED, Value::Null), "an honest wallet's answer");
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lifetime_and_memory_can_change_while_the_daemon_runs() {
    let (mut config, folder) = (selfsame::config::Config::default(), folder());
    let daemon = TestDaemon::start_with(folder.path(), |settings| config = settings.clone()).await;
    let url = format!("http://{}", daemon.addresses[Interface::Bridge]);
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let client = BridgeClient { http, url, daemon, _folder: folder };
    let before = client.create(1).await;
    config.bridge.lifetime = Duration::from_secs(60).into();
    config.bridge.memory_mib = 32;
    client.daemon.reloading.apply(&config).expect("the settings are taken over");
    let after = client.create(2).await;
    client.daemon.clock.advance(Duration::from_secs(60));
    assert_eq!(client.head(&format!("/request/{before}")).await, StatusCode::OK, "it keeps its time");
    assert_eq!(client.head(&format!("/request/{after}")).await, StatusCode::NOT_FOUND);
    let large = json!({"iv": base64([0; 12]), "payload": base64(vec![7; 3 << 20])});
    let statuses = [
        client.send(Method::POST, "/request", Some(large.clone())).await.0,
        client.send(Method::POST, "/request", Some(large.clone())).await.0,
        client.send(Method::POST, "/request", Some(large)).await.0,
    ];
    assert_eq!(statuses, [StatusCode::OK, StatusCode::OK, StatusCode::TOO_MANY_REQUESTS]);
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_of_every_origin_may_call() {
    let client = BridgeClient::start().await;
    let preflight =
        client.request(Method::OPTIONS, "/response/0123456789abcdef").header("Origin", "https://any.example");
    let preflight = preflight.header("Access-Control-Request-Method", "PUT").send().await.expect("an answer");
    assert_eq!(preflight.status(), StatusCode::NO_CONTENT);
    let allowed = |name: &str| preflight.headers()[name].to_str().expect("text").to_ascii_lowercase();
    assert_eq!(allowed("access-control-allow-origin"), "*");
    assert_eq!(allowed("access-control-allow-methods"), "put, get, head, options");
    for header in ["content-type", "prefer", "accept-idkit-flow-id"] {
        assert!(allowed("access-control-allow-headers").contains(header), "{header}");
    }
    let unknown = client.request(Method::GET, "/response/0123456789abcdef").send().await.expect("an answer");
    assert_eq!(unknown.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
    client.stop().await;
}
