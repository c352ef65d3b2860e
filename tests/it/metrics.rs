//! The numbers of `/metrics`: their names, formats and documentation, and that they count what they
//! say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use alloy_primitives::Address;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use selfsame_wallet::sign_in::SignInSession;
use serde_json::{Value, json};

use crate::harness::{folder, until, until_true};
use crate::operator::metrics;
use crate::registry_client::RegistryClient;
use crate::sign_in_client::SignInTestClient;
use crate::test_accounts::key;
use crate::verification_client::{LEGACY_APP, VerificationClient, legacy, with};
use crate::webhook_receiver::WebhookReceiver;

/// The page that describes each metric.
const PAGE: &str = "docs/operations/metrics.md";

/// The metrics of a daemon with TLS alone.
const OF_TLS: &str = "selfsame_tls_certificate_expiry_timestamp_seconds";

/// What the metrics of a replica alone begin with.
const OF_CLUSTER: &str = "selfsame_cluster_";

/// The metrics that the page describes for replicas.
pub fn documented_of_cluster() -> BTreeSet<String> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE)).expect("the page");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows.filter_map(|row| row.split('`').next()).filter(|name| name.starts_with(OF_CLUSTER));
    names.map(str::to_owned).collect()
}

/// A metric as `/metrics` describes it.
#[derive(Debug, Default)]
struct Described {
    help: String,
    kind: String,
}

async fn text(client: &RegistryClient, accept: &str) -> (String, String) {
    let request = client.http.get(client.daemon.operator("/metrics")).header(ACCEPT, accept);
    let answer = request.send().await.expect("an answer");
    let content_type = answer.headers()[CONTENT_TYPE].to_str().expect("text").to_owned();
    (content_type, answer.text().await.expect("text"))
}

/// The descriptions in Prometheus's text format, by name.
fn described(text: &str) -> BTreeMap<String, Described> {
    let mut found = BTreeMap::<String, Described>::new();
    for line in text.lines() {
        let words: Vec<_> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, help] => found.entry(name.to_owned()).or_default().help = help.to_owned(),
            ["#", "TYPE", name, kind] => found.entry(name.to_owned()).or_default().kind = kind.to_owned(),
            _ => assert!(!line.starts_with('#'), "{line}"),
        }
    }
    found
}

#[tokio::test]
async fn the_format_is_the_one_that_the_client_asks_for() {
    let client = RegistryClient::start().await;
    let prometheus = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.2";
    let (content_type, open_metrics) = text(&client, prometheus).await;
    assert_eq!(content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(open_metrics.ends_with("# EOF\n"));
    assert!(open_metrics.contains("# TYPE selfsame_registry_requests counter\n"), "{open_metrics}");
    let (content_type, plain) = text(&client, "*/*").await;
    assert_eq!(content_type, "text/plain; version=0.0.4; charset=utf-8");
    assert!(plain.contains("# TYPE selfsame_registry_requests_total counter\n"), "{plain}");
}

/// The rules that `promtool check metrics` has for names.
#[tokio::test]
async fn names_follow_the_conventions_of_prometheus() {
    let client = RegistryClient::start().await;
    client.create(&[&key("alice")], Address::ZERO).await;
    let (_, text) = text(&client, "*/*").await;
    let described = described(&text);
    for (name, Described { help, kind }) in &described {
        assert!(!help.is_empty(), "{name} has no help");
        assert!(["counter", "gauge", "histogram"].contains(&kind.as_str()), "{name} is a {kind}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
        let is_plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(is_plain && !name.contains("__"), "{name}");
        for unit in ["_milliseconds", "_ms", "_micros", "_minutes", "_kilobytes", "_percent"] {
            assert!(!name.contains(unit), "{name} is not in base units");
        }
        for suffix in ["_count", "_sum", "_bucket"] {
            assert!(!name.ends_with(suffix), "{name} has the suffix of a histogram's part");
        }
    }
    // Every sample is of a described metric.
    for sample in text.lines().filter(|line| !line.starts_with('#')) {
        let name = sample.split(['{', ' ']).next().expect("a name");
        let parts = ["_count", "_sum", "_bucket"];
        let of_histogram = parts.iter().filter_map(|part| name.strip_suffix(part));
        let is_described = described.contains_key(name)
            || of_histogram
                .into_iter()
                .any(|name| described.get(name).is_some_and(|metric| metric.kind == "histogram"));
        assert!(is_described, "{sample}");
    }
}

/// The page has a table with a row for each metric: its name, and its labels, and what it says.
#[tokio::test]
async fn the_page_describes_exactly_the_metrics_that_there_are() {
    let (receiver, secrets) = (WebhookReceiver::start().await, folder());
    let webhook = receiver.webhook(secrets.path(), "all", &["root.added"], "");
    let client = RegistryClient::start_with(|config| config.webhooks = vec![webhook]).await;
    // The signing keys are made when they are needed first.
    client.daemon.sign_in.published_keys().await.expect("keys");
    // The events of the audit trail are shown from the first one on.
    let refused = client.http.post(client.daemon.operator("/keys/rotate")).send().await.expect("an answer");
    assert_eq!(refused.status(), 401);
    let (_, text) = text(&client, "*/*").await;
    let mut served: BTreeSet<String> = described(&text).into_keys().collect();
    served.insert(OF_TLS.to_owned());
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE)).expect("the page");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented = rows.filter_map(|row| row.split('`').next()).map(str::to_owned);
    let documented: BTreeSet<String> = documented.filter(|name| !name.starts_with(OF_CLUSTER)).collect();
    let missing: Vec<_> = served.difference(&documented).collect();
    let stray: Vec<_> = documented.difference(&served).collect();
    assert!(missing.is_empty() && stray.is_empty(), "{PAGE} lacks {missing:#?} and should not have {stray:#?}");
}

#[tokio::test]
async fn the_steps_of_the_registry_are_measured() {
    let client = RegistryClient::start().await;
    client.create(&[&key("alice")], Address::ZERO).await;
    client.create(&[&key("bob")], Address::ZERO).await;
    // The request tracker is notified of a final request after its clients.
    until_true("a registry without open requests", async || client.daemon.registry.statistics().open_requests == 0)
        .await;
    let samples = metrics(&client).await;
    for (name, expected) in [
        (concat!("selfsame_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\",commit=\"\"}"), 1.0),
        ("selfsame_ready", 1.0),
        ("selfsame_registry_request_duration_seconds_count", 2.0),
        ("selfsame_registry_block_operations_count", 2.0),
        ("selfsame_registry_block_operations_sum", 2.0),
        (r#"selfsame_registry_block_operations_bucket{le="1.0"}"#, 2.0),
        (r#"selfsame_registry_block_operations_bucket{le="+Inf"}"#, 2.0),
        ("selfsame_registry_block_seal_duration_seconds_count", 2.0),
        ("selfsame_registry_block_apply_duration_seconds_count", 2.0),
        ("selfsame_registry_oldest_open_request_age_seconds", 0.0),
        (r#"selfsame_actor_restarts_total{actor="registry/batcher"}"#, 0.0),
        (r#"selfsame_actor_restarts_total{actor="verifier/worker-0"}"#, 0.0),
    ] {
        assert_eq!(samples.get(name), Some(&expected), "{name}");
    }
    for name in [
        "selfsame_registry_last_block_timestamp_seconds",
        "selfsame_store_commit_duration_seconds_sum",
        "selfsame_store_commit_changes_count",
        "selfsame_store_write_buffer_bytes",
        "selfsame_store_disk_free_bytes",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_open_fds",
        "process_start_time_seconds",
    ] {
        assert!(samples.get(name).is_some_and(|value| *value > 0.0), "{name}: {:?}", samples.get(name));
    }
}

#[tokio::test]
async fn the_age_of_the_oldest_open_request_grows_until_it_is_final() {
    let client = RegistryClient::start_holding(2).await;
    let operation =
        |name: &str| selfsame_wallet::operations::create_account(&[key(name).authenticator()], Address::ZERO).operation;
    assert_eq!(client.submit(&operation("first")).await.status, 200);
    let oldest = async || metrics(&client).await["selfsame_registry_oldest_open_request_age_seconds"];
    let before = oldest().await;
    let after = oldest().await;
    assert!(0.0 < before && before < after, "{before} {after}");
    // The second fills the block.
    assert_eq!(client.submit(&operation("second")).await.status, 200);
    until_true("the final state of both requests", async || oldest().await == 0.0).await;
    assert_eq!(metrics(&client).await["selfsame_registry_block_operations_sum"], 2.0);
}

/// A sign-in whose ID token comes without a request to `/token` counts, too.
#[tokio::test]
async fn the_history_counts_sign_ins_of_every_flow() {
    let client = SignInTestClient::start().await;
    client.sign_in("alice", &[("response_type", "id_token")]).await;
    until("a sample with a sign-in", async || {
        let asked = client.http.get(client.daemon.operator("/history")).bearer_auth(client.operator_token());
        let history: Value = asked.send().await.expect("an answer").json().await.expect("JSON");
        let mut samples = history["samples"].as_array().expect("a list").iter();
        if samples.any(|sample| sample["sign_ins"].as_f64() > Some(0.0)) { Ok(()) } else { Err(history) }
    })
    .await;
    client.stop().await;
}

#[tokio::test]
async fn proofs_are_counted_by_what_came_of_them() {
    let client = VerificationClient::start().await;
    assert_eq!(client.ask(LEGACY_APP, &legacy()).await.status, 200);
    let unknown_root = with(legacy(), "/responses/0/merkle_root", json!("0x1"));
    assert_eq!(client.ask(LEGACY_APP, &unknown_root).await.status, 400);
    let text = client.http.get(client.daemon.operator("/metrics")).send().await.expect("an answer");
    let text = text.text().await.expect("text");
    let environment = legacy()["environment"].as_str().expect("text").to_owned();
    for (outcome, count) in [("verified", 1), ("invalid_merkle_root", 1)] {
        let labels = format!("environment=\"{environment}\",kind=\"legacy\",outcome=\"{outcome}\"");
        let line = format!("selfsame_verifier_verdicts_total{{{labels}}} {count}\n");
        assert!(text.contains(&line), "{line} is missing in {text}");
    }
    for line in ["selfsame_verifier_batch_proofs_count 1\n", "selfsame_verifier_wait_duration_seconds_count 1\n"] {
        assert!(text.contains(line), "{line} is missing in {text}");
    }
}

/// A sign-in that waits for a person is counted while it waits. One that expires unanswered is
/// counted once; one that was answered is not.
#[tokio::test]
async fn sign_ins_that_wait_or_expire_unanswered_are_counted() {
    let client = SignInTestClient::start().await;
    let url = client.authorization_url(&[]);
    for _ in 0..2 {
        SignInSession::open(&url).await.expect("the sign-in starts");
    }
    let refused = SignInSession::open(&url).await.expect("the sign-in starts");
    let text = async || client.get(&client.daemon.operator("/metrics"), "text/plain").await.text().await.expect("text");
    let waiting = async |count: u32| text().await.contains(&format!("\nselfsame_sign_in_unanswered {count}\n"));
    until_true("three sign-ins that wait", async || waiting(3).await).await;
    refused.refuse(refused.request()).await.expect("refused");
    until_true("two sign-ins that wait", async || waiting(2).await).await;
    let expired = || client.daemon.sign_in.statistics().expired_unanswered;
    // The sweeps run by tokio's clock, the records expire by the daemon's.
    let pass_a_sweep = async || {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(11)).await;
        tokio::time::resume();
    };
    let past_the_end = client.daemon.sign_in.transaction_lifetime() + Duration::from_secs(1);
    client.daemon.clock.advance(past_the_end);
    pass_a_sweep().await;
    until_true("two expired sign-ins", async || expired() == 2).await;
    // The sweep after that one finds the answered sign-in deleted, and counts a later one alone.
    SignInSession::open(&url).await.expect("the sign-in starts");
    client.daemon.clock.advance(past_the_end);
    pass_a_sweep().await;
    until_true("three expired sign-ins", async || expired() == 3).await;
    let text = text().await;
    assert!(text.contains("\nselfsame_sign_in_expired_unanswered_total 3\n"), "{text}");
    assert!(text.contains("\nselfsame_sign_in_unanswered 0\n"), "{text}");
    client.stop().await;
}
