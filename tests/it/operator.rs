//! The operator interface: health, readiness, actors, page and metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use alloy_primitives::Address;
use selfsame::config::{RateLimit, TimeSpan};
use selfsame_interfaces::interface::Interface;
use selfsame_wallet::operations::create_account;
use serde_json::{Value, json};

use crate::harness::{folder, in_time, operator_token, program, until, until_true, write_secret};
use crate::registry_client::{RegistryClient, hold};
use crate::sign_in_client::{APP, parameters};
use crate::test_accounts::key;
use crate::webhook_receiver::SECRET as WEBHOOK_SECRET;

/// The samples of `/metrics` by name and labels.
pub async fn metrics(client: &RegistryClient) -> BTreeMap<String, f64> {
    let answer = client.http.get(client.daemon.operator("/metrics")).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let text = answer.text().await.expect("text");
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a sample");
            (name.to_owned(), value.parse().expect("a number"))
        })
        .collect()
}

#[tokio::test]
async fn health_and_actors_are_listed() {
    let client = RegistryClient::start().await;
    let answer = client.get(client.daemon.operator("/health")).await;
    assert_eq!((answer.status, answer.body), (200, json!({"success": true})));
    let answer = client.operator("/actors").await;
    let actors = answer.body.as_array().expect("a list");
    for part in ["tree", "batcher", "request"] {
        let actor = actors.iter().find(|actor| actor["name"].as_str().is_some_and(|name| name.contains(part)));
        let actor = actor.unwrap_or_else(|| panic!("no {part} in {actors:?}"));
        assert_eq!((&actor["state"], &actor["restarts"]), (&json!("running"), &json!(0)), "{actor}");
        assert!(actor["waiting_calls"].is_u64() && actor["silent_ms"].is_u64(), "{actor}");
    }
    client.get(client.daemon.operator("/nowhere")).await.expect_error(404, "not_found");
    let answer = client.post(client.daemon.operator("/health"), "{}").await;
    answer.expect_error(405, "bad_request");
}

/// A page of another site reaches a loopback address when its name resolves to it.
#[tokio::test]
async fn calls_need_the_token_and_a_name_that_no_other_site_has() {
    let client = RegistryClient::start_with(|config| config.operator.hosts.push("selfsame.internal".to_owned())).await;
    let token = operator_token(client.folder.path());
    let host = client.daemon.addresses[Interface::Operator].to_string();
    let own_origin = format!("http://{host}");
    let ask = async |path: &str, host: &str, origin: Option<&str>, token: Option<&str>| {
        let mut request = client.http.get(client.daemon.operator(path)).header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        request.send().await.expect("an answer").status().as_u16()
    };
    let good = Some(token.as_str());
    client.daemon.sign_in.published_keys().await.expect("keys");
    for path in ["/status", "/actors", "/history", "/blocks", "/apps", "/roots", "/keys"] {
        for (host, origin, token, expected) in [
            (host.as_str(), None, good, 200),
            (host.as_str(), Some(own_origin.as_str()), good, 200),
            ("localhost:1", None, good, 200),
            ("Selfsame.Internal:8084", None, good, 200),
            (host.as_str(), None, None, 401),
            (host.as_str(), None, Some("wrong"), 401),
            ("evil.example", None, good, 403),
            ("evil.example", None, None, 403),
            (host.as_str(), Some("http://evil.example"), good, 403),
            (host.as_str(), Some("null"), good, 403),
        ] {
            assert_eq!(ask(path, host, origin, token).await, expected, "{path} {host} {origin:?} {token:?}");
        }
    }
    for path in ["/", "/page.js", "/curves.js", "/simulator"] {
        assert_eq!(ask(path, &host, None, None).await, 200, "{path}");
        assert_eq!(ask(path, "evil.example", None, None).await, 403, "{path}");
    }
    for path in ["/health", "/ready", "/metrics"] {
        assert_eq!(ask(path, "prometheus.example", None, None).await, 200, "{path}");
    }
}

#[tokio::test]
async fn the_page_loads_only_its_own_files() {
    let client = RegistryClient::start().await;
    client.create(&[&key("alice")], Address::ZERO).await;
    // The request tracker is notified of a final request after its clients.
    until_true("a registry without open requests", async || client.daemon.registry.statistics().open_requests == 0)
        .await;
    let status = client.operator("/status").await;
    assert_eq!((status.status, &status.body["ready"], &status.body["reasons"]), (200, &json!(true), &json!([])));
    let registry = json!({
        "accounts": 1, "accepted": 1, "finalized": 1, "failed": 0, "open_requests": 0, "queue_length": 100_000,
        "status_waiters": 0, "ledger_height": 1, "applied_height": 1,
    });
    assert_eq!(status.body["registry"], registry);
    let actors = status.body["actors"].as_array().expect("a list");
    let of = |part: &str, actor: &Value| actor["name"].as_str().is_some_and(|name| name.contains(part));
    let count = |part: &str| actors.iter().filter(|actor| of(part, actor)).count();
    assert_eq!((count("/registry/"), count("/verifier") > 1), (3, true), "{actors:?}");
    let page = client.http.get(client.daemon.operator("/")).send().await.expect("an answer");
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    let policy = page.headers()["content-security-policy"].to_str().expect("text").to_owned();
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
    // Every reference of the page is served, and nothing is inline or on another host.
    let text = page.text().await.expect("text");
    assert!(!text.contains("style=") && !text.contains("<style") && !text.contains("://"), "{text}");
    let references = text.split(['"']).skip(1).step_by(2).collect::<Vec<_>>();
    for (reference, content_type) in [
        ("page.css", "text/css; charset=utf-8"),
        ("page.js", "text/javascript; charset=utf-8"),
        ("curves.js", "text/javascript; charset=utf-8"),
        ("ready", "application/json"),
    ] {
        assert!(references.contains(&reference), "{references:?}");
        let answer = client.http.get(client.daemon.operator(&format!("/{reference}"))).send().await.expect("an answer");
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["content-type"]),
            (200, &content_type.parse().expect("a value"))
        );
    }
}

#[tokio::test]
async fn a_daemon_whose_queue_is_full_is_not_ready() {
    let client = RegistryClient::start_with(|config| {
        hold(config, 2);
        config.limits.queue_length = 1;
    })
    .await;
    let answer = client.get(client.daemon.operator("/ready")).await;
    assert_eq!((answer.status, answer.body), (200, json!({"ready": true, "reasons": []})));
    let create = create_account(&[key("alice").authenticator()], Address::ZERO).operation;
    assert_eq!(client.submit(&create).await.status, 200);
    let answer = client.http.get(client.daemon.operator("/ready")).send().await.expect("an answer");
    assert_eq!(answer.status(), 503);
    let body: serde_json::Value = answer.json().await.expect("JSON");
    assert_eq!(body, json!({"ready": false, "reasons": ["1 requests are open, the queue is full"]}));
}

#[tokio::test]
async fn the_newest_blocks_and_the_applications_are_listed() {
    let client = RegistryClient::start().await;
    assert_eq!(client.operator("/blocks").await.body, json!([]));
    for name in ["alice", "bob"] {
        client.create(&[&key(name)], Address::ZERO).await;
    }
    let blocks = client.operator("/blocks").await.body;
    let newest = client.get(client.daemon.gateway("/block/2")).await.body;
    let expected = json!({
        "height": 2, "hash": newest["result"]["block_hash"], "time": newest["block"]["time"], "operations": 1,
        "root": newest["result"]["root_after"],
    });
    assert_eq!((&blocks[0], blocks.as_array().expect("a list").len()), (&expected, 2));
    // A block is read once; the answer stays the same.
    assert_eq!(client.operator("/blocks").await.body, blocks);

    let apps = client.operator("/apps").await.body;
    let app = apps.as_array().expect("a list").iter().find(|app| app["id"] == APP).expect("the application");
    assert_eq!((&app["environment"], &app["public"]), (&json!("staging"), &json!(false)), "{app}");
    assert!(!apps.to_string().contains("secret"), "{apps}");
}

#[tokio::test]
async fn the_history_has_a_sample_each_five_seconds() {
    let client = RegistryClient::start().await;
    client.create(&[&key("alice")], Address::ZERO).await;
    let history = until("a sample with an operation", async || {
        let history = client.operator("/history").await.body;
        let mut samples = history["samples"].as_array().expect("a list").iter();
        if samples.any(|sample| sample["operations"].as_f64() > Some(0.0)) { Ok(history) } else { Err(history) }
    })
    .await;
    assert_eq!(history["interval_seconds"], 5);
    let samples = history["samples"].as_array().expect("a list");
    // What belongs together may fall into two samples: the commit is before the final state.
    for number in ["requests", "operations", "operation_p99", "commit_p99", "request_p50", "request_p99"] {
        assert!(samples.iter().any(|sample| sample[number].as_f64() > Some(0.0)), "{number}: {samples:?}");
    }
    let last = samples.last().expect("a sample");
    assert_eq!(
        (&last["sign_ins"], &last["proof_wait_p99"], &last["open_requests"]),
        (&json!(0.0), &json!(null), &json!(0))
    );
}

/// Probes that cannot reach the operator interface learn whether, and not why.
#[tokio::test]
async fn every_interface_answers_ready_when_the_configuration_says_so() {
    let client = RegistryClient::start_with(|config| {
        config.operator.ready_everywhere = true;
        config.limits.queue_length = 1;
        hold(config, 2);
    })
    .await;
    let answers = async |expected: u16, body: Value| {
        for interface in [Interface::SignIn, Interface::Verification, Interface::Gateway, Interface::Indexer] {
            let url = format!("http://{}/ready", client.daemon.addresses[interface]);
            let answer = client.http.get(url).send().await.expect("an answer");
            assert_eq!(answer.status(), expected, "{}", interface.name());
            assert_eq!(answer.json::<Value>().await.expect("JSON"), body, "{}", interface.name());
        }
    };
    answers(200, json!({"ready": true})).await;
    let waiting = create_account(&[key("waiting").authenticator()], Address::ZERO).operation;
    assert_eq!(client.submit(&waiting).await.status, 200);
    answers(503, json!({"ready": false})).await;

    let client = RegistryClient::start().await;
    client.get(client.daemon.gateway("/ready")).await.expect_error(404, "not_found");
}

#[tokio::test]
async fn metrics_count_events_and_have_bounded_labels() {
    let client = RegistryClient::start().await;
    let before = metrics(&client).await;
    let rejected = client.query("/inclusion-proof", json!({"leaf_index": "1"})).await;
    assert_eq!(rejected.status, 404);
    client.create(&[&key("alice")], Address::ZERO).await;
    let after = metrics(&client).await;
    let difference = |name: &str| {
        // A sample of a route appears with its first request.
        after.get(name).unwrap_or_else(|| panic!("no {name}")) - before.get(name).unwrap_or(&0.0)
    };
    for (name, expected) in [
        ("selfsame_registry_requests_total{state=\"accepted\"}", 1.0),
        ("selfsame_registry_requests_total{state=\"finalized\"}", 1.0),
        ("selfsame_registry_requests_total{state=\"failed\"}", 0.0),
        ("selfsame_registry_open_requests", 0.0),
        ("selfsame_registry_status_waiters", 0.0),
        ("selfsame_registry_ledger_height", 1.0),
        ("selfsame_registry_applied_height", 1.0),
        ("selfsame_registry_accounts", 1.0),
        (r#"selfsame_http_requests_total{interface="gateway",route="/create-account",status="200"}"#, 1.0),
        (r#"selfsame_http_requests_total{interface="gateway",route="/status/{request_id}",status="200"}"#, 1.0),
        (r#"selfsame_http_requests_total{interface="indexer",route="/inclusion-proof",status="404"}"#, 1.0),
        (r#"selfsame_http_requests_total{interface="indexer",route="/packed-account",status="200"}"#, 1.0),
        (r#"selfsame_http_request_duration_seconds_count{interface="gateway",route="/create-account"}"#, 1.0),
        (r#"selfsame_http_requests_total{interface="operator",route="/metrics",status="200"}"#, 1.0),
    ] {
        assert_eq!(difference(name), expected, "{name}");
    }
    // No value that clients choose becomes a label.
    for number in 0..50 {
        client.get(client.daemon.gateway(&format!("/nowhere/{number}"))).await.expect_error(404, "not_found");
        client.get(client.daemon.gateway(&format!("/status/{number}"))).await.expect_error(404, "not_found");
    }
    let names = |of: &BTreeMap<String, f64>| of.keys().cloned().collect::<Vec<_>>();
    let once = metrics(&client).await;
    for number in 50..100 {
        client.get(client.daemon.gateway(&format!("/nowhere/{number}"))).await.expect_error(404, "not_found");
        client.get(client.daemon.gateway(&format!("/status/{number}"))).await.expect_error(404, "not_found");
    }
    let later = metrics(&client).await;
    assert_eq!(names(&later), names(&once));
    let unmatched = r#"selfsame_http_requests_total{interface="gateway",route="unmatched",status="404"}"#;
    assert_eq!(later[unmatched], 100.0);
    assert!(later.len() < 500, "{} samples", later.len());
}

/// Begins a sign-in of the JSON form; the status of the answer.
async fn begin_sign_in(client: &RegistryClient) -> u16 {
    let url = reqwest::Url::parse_with_params(&client.daemon.sign_in("/authorize"), parameters(&[])).expect("a URL");
    client.http.get(url).header("accept", "application/json").send().await.expect("an answer").status().as_u16()
}

#[tokio::test]
async fn refusals_by_limits_of_a_source_are_counted_by_limit_and_endpoints() {
    let limit = |requests| Some(RateLimit { requests, window: TimeSpan::from_secs(60) });
    let client = RegistryClient::start_with(|config| {
        config.limits.per_source = limit(1);
        config.limits.verifications_per_source = limit(16);
        config.limits.sign_ins_per_source = limit(2);
        // One source may have begun a quarter of them.
        config.limits.open_sign_ins = 4;
    })
    .await;
    let counted = async || {
        let mut samples = metrics(&client).await;
        samples.retain(|name, _| name.starts_with("selfsame_source_limit_refusals_total"));
        samples
    };
    let before = counted().await;
    let create = |name: &str| create_account(&[key(name).authenticator()], Address::ZERO).operation;
    for (name, status) in [("one", 200), ("two", 429), ("three", 429)] {
        assert_eq!(client.submit(&create(name)).await.status, status);
    }
    let verify = client.daemon.verify(&format!("/api/v4/verify/{APP}"));
    for status in [vec![400; 16], vec![429; 3]].concat() {
        let answer = client.http.post(&verify).json(&json!({})).send().await.expect("an answer");
        assert_eq!(answer.status(), status);
    }
    // The first is begun; the second is beyond the share of open sign-ins, the third beyond the
    // rate.
    for status in [200, 429, 429] {
        assert_eq!(begin_sign_in(&client).await, status);
    }
    let after = counted().await;
    let grown: Vec<_> = after.iter().map(|(name, count)| (name.as_str(), count - before[name])).collect();
    let sample = |limit: &str, endpoints: &str| {
        format!("selfsame_source_limit_refusals_total{{limit=\"{limit}\",endpoints=\"{endpoints}\"}}")
    };
    let expected = [
        ("answer_bytes", "all", 0.0),
        ("body_bytes", "all", 0.0),
        ("bridge_per_source", "bridge", 0.0),
        ("followers_per_source", "bridge", 0.0),
        ("followers_per_source", "sign-in", 0.0),
        ("groups_per_source", "wallet", 0.0),
        ("max_connections_per_source", "all", 0.0),
        ("memory_mib", "bridge", 0.0),
        ("open_sign_ins", "sign-in", 1.0),
        ("per_source", "gateway", 2.0),
        ("per_source", "receipts", 0.0),
        ("requests", "all", 0.0),
        ("sign_ins_per_source", "sign-in", 1.0),
        ("verifications_per_application", "verification", 0.0),
        ("verifications_per_source", "verification", 3.0),
        ("verifier_queue", "sign-in", 0.0),
        ("verifier_queue", "verification", 0.0),
    ];
    let expected: Vec<_> = expected.map(|(limit, endpoints, count)| (sample(limit, endpoints), count)).into();
    assert_eq!(grown, expected.iter().map(|(name, count)| (name.as_str(), *count)).collect::<Vec<_>>());
}

/// A daemon whose backups and webhooks fail serves its clients, so it is ready; its operator is
/// told all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_says_what_needs_attention_since_when_and_what_to_do() {
    let files = folder();
    let secret = files.path().join("secret");
    write_secret(&secret, WEBHOOK_SECRET);
    let webhook = format!(
        "id = 'orders'\nurl = 'http://127.0.0.1:1/'\nsecret_file = '{}'\nevents = ['request.finalized']",
        secret.display()
    );
    let backups = files.path().join("backups");
    let client = RegistryClient::start_with(|config| {
        config.backup.every = Some(Duration::from_secs(3600).into());
        config.backup.folder = Some(backups.clone());
        config.webhooks = vec![toml::from_str(&webhook).expect("a webhook")];
    })
    .await;
    client.create(&[&key("alice")], Address::ZERO).await;
    let data = client.folder.path().to_str().expect("text").to_owned();
    let subjects = async || {
        let status = client.operator("/status").await.body;
        let list = status["attention"].as_array().unwrap_or_else(|| panic!("no list: {status}")).clone();
        assert_eq!(status["degraded"], json!(!list.is_empty()), "{status}");
        assert_eq!((&status["ready"], &status["reasons"]), (&json!(true), &json!([])), "{status}");
        for reason in &list {
            for (name, least) in [("subject", 4), ("since", 20), ("text", 10), ("remedy", 10)] {
                assert!(reason[name].as_str().is_some_and(|text| text.len() >= least), "{name}: {reason}");
            }
        }
        list
    };
    // A webhook that has failed once may only wait for a receiver that restarts.
    let list = until("a failed backup", async || {
        let list = subjects().await;
        if list.iter().any(|reason| reason["subject"] == "backups") { Ok(list) } else { Err(list) }
    })
    .await;
    let backup = list.iter().find(|reason| reason["subject"] == "backups").expect("a failed backup");
    let text = backup["text"].as_str().expect("text");
    assert!(text.contains(backups.to_str().expect("text")), "{backup}");
    assert_eq!(backup["since"], "2026-07-01T00:00:00Z", "{backup}");
    until("webhooks that wait", async || {
        let listed = client.operator("/webhooks").await.body;
        if listed[0]["waiting"] == 1 { Ok(()) } else { Err(listed) }
    })
    .await;
    subjects().await;
    client.daemon.clock.advance(Duration::from_secs(60));
    let list = until("a webhook that needs attention", async || {
        let list = subjects().await;
        if list.iter().any(|reason| reason["subject"] == "webhooks") { Ok(list) } else { Err(list) }
    })
    .await;
    let webhook = list.iter().find(|reason| reason["subject"] == "webhooks").expect("a reason");
    assert!(webhook["text"].as_str().is_some_and(|text| text.contains("orders")), "{webhook}");
    assert_eq!(client.get(client.daemon.operator("/ready")).await.status, 200);

    let command = async |arguments: &[&str]| {
        let mut command = tokio::process::Command::from(program());
        let operator = client.daemon.operator("");
        command.args(arguments).args(["--data", &data, "--operator", &operator]).kill_on_drop(true);
        let output = in_time("the end of the command", command.output()).await.expect("the program runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (status, text) = command(&["status"]).await;
    assert!(status == Some(1) && text.starts_with("ready, and needs attention\n"), "{status:?} {text}");
    for part in ["  backups since 2026-07-01T00:00:00Z: ", "\nwebhooks\n  orders ", "\nlast backup\n"] {
        assert!(text.contains(part), "{text:?} should contain {part:?}");
    }

    assert_eq!(command(&["status", "--ready"]).await.0, Some(0));

    // The cause is gone.
    std::fs::create_dir(&backups).expect("a folder");
    client.daemon.clock.advance(Duration::from_secs(300));
    until("a good backup", async || {
        let list = subjects().await;
        if list.iter().all(|reason| reason["subject"] != "backups") { Ok(()) } else { Err(list) }
    })
    .await;
}

/// A daemon that does well is not said to need anything.
#[tokio::test]
async fn a_daemon_that_does_well_needs_no_attention() {
    let client = RegistryClient::start().await;
    client.create(&[&key("alice")], Address::ZERO).await;
    let status = client.operator("/status").await.body;
    let list = status["attention"].as_array().unwrap_or_else(|| panic!("no list: {status}"));
    assert_eq!(status["degraded"], json!(!list.is_empty()), "{status}");
    // The disk of a developer's machine may be nearly full.
    assert!(list.iter().all(|reason| reason["subject"] == "disk"), "{status}");
}
