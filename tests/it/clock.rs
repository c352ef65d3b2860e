//! Wrong clocks: one that is set forward while the daemon runs, and one that is wrong at a start.

use std::path::Path;
use std::time::Duration;

use alloy_primitives::Address;
use selfsame_protocol::gateway::GatewayRequestState;
use selfsame_wallet::operations::create_account;
use serde_json::{Value, json};

use selfsame_actors::Clock;

use crate::harness::{DaemonProcess, START, TestDaemon, folder, operator_token, until};
use crate::sign_in_client::wait_for_signing_keys;
use crate::test_accounts::{final_state, key, seed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_block_is_sealed_with_a_clock_that_was_set_far_forward() {
    let folder = folder();
    let daemon = TestDaemon::start(folder.path()).await;
    let client = daemon.client();
    let create = |name: &str| create_account(&[key(name).authenticator()], Address::ZERO).operation;
    let first = client.submit(&create("first"), &seed("first")).await.expect("accepted").request_id;
    assert!(matches!(final_state(&client, first).await, GatewayRequestState::Finalized { .. }));

    // A fortnight ends every waiting period for a recovery agent.
    daemon.clock.step_forward(Duration::from_secs(14 * 24 * 3600));
    let second = client.submit(&create("second"), &seed("second")).await.expect("accepted").request_id;
    let reason = until("a daemon that is not ready", async || {
        let ready = reqwest::get(daemon.operator("/ready")).await.expect("an answer");
        if ready.status() == 503 { Ok(ready.text().await.expect("text")) } else { Err(ready.status()) }
    })
    .await;
    let expected =
        "sealing a block fails: the clock was set forward by 1209600 seconds while the service ran; correct it";
    assert!(reason.contains(expected), "{reason}");
    let refused = client.submit(&create("third"), &seed("third")).await.expect_err("read-only").to_string();
    assert!(refused.contains("read-only: sealing a block fails"), "{refused}");
    assert!(!client.status(second, 0).await.expect("an answer").status.is_final());

    // The clock is corrected. The request that waited is carried out, in the present.
    daemon.clock.step_back();
    assert!(matches!(final_state(&client, second).await, GatewayRequestState::Finalized { .. }));
    let now = daemon.clock.unix_seconds();
    let block = client.receipt(second).await.expect("a receipt");
    let time = serde_json::to_value(&block).expect("JSON")["block"]["time"].clone();
    let time = time.as_u64().or_else(|| time.as_str().and_then(|text| text.parse().ok())).expect("a number");
    assert!(time <= now.0, "{time} is after {}", now.0);
    let token = operator_token(folder.path());
    let status: Value = {
        let request = reqwest::Client::new().get(daemon.operator("/status")).bearer_auth(token);
        request.send().await.expect("an answer").json().await.expect("JSON")
    };
    assert_eq!(status["ready"], true, "{status}");
    daemon.stop().await;
}

/// What needs attention of one subject, as text.
async fn attention(daemon: &TestDaemon, data: &Path, subject: &str) -> Vec<String> {
    let request = reqwest::Client::new().get(daemon.operator("/status")).bearer_auth(operator_token(data));
    let status: Value = request.send().await.expect("an answer").json().await.expect("JSON");
    assert_eq!(status["ready"], true, "{status}");
    let reasons = status["attention"].as_array().unwrap_or_else(|| panic!("no list: {status}")).iter();
    let reasons = reasons.filter(|reason| reason["subject"] == subject);
    reasons.map(|reason| format!("{} {}", reason["text"], reason["remedy"])).collect()
}

/// Creates an account, and waits until it is in a block.
async fn seal_a_block(daemon: &TestDaemon, name: &str) {
    let create = create_account(&[key(name).authenticator()], Address::ZERO).operation;
    let client = daemon.client();
    let request = client.submit(&create, &seed(name)).await.expect("accepted").request_id;
    assert!(matches!(final_state(&client, request).await, GatewayRequestState::Finalized { .. }));
}

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_block_from_the_future_is_told_and_keys_of_the_future_rotate_again() {
    let folder = folder();
    let daemon = TestDaemon::start_at(folder.path(), START + 3650 * DAY, |_| {}).await;
    seal_a_block(&daemon, "first").await;
    daemon.sign_in.published_keys().await.expect("keys");
    daemon.stop().await;

    let daemon = TestDaemon::start_at(folder.path(), START, |_| {}).await;
    let [told] = &attention(&daemon, folder.path(), "clock").await[..] else { panic!("one reason") };
    for part in ["2036-06-28T00:00:00Z", "2026-07-01T00:00:00Z", "3650 days ahead", "restore a backup"] {
        assert!(told.contains(part), "{told} should contain {part:?}");
    }
    let http = reqwest::Client::new();
    let rotate = async || {
        let request = http.post(daemon.operator("/keys/rotate")).bearer_auth(operator_token(folder.path()));
        let answer = request.json(&json!({})).send().await.expect("an answer");
        (answer.status().as_u16(), answer.json::<Value>().await.expect("JSON"))
    };
    // It is unknown when the next key was published, so its time counts from now on.
    let (status, refused) = rotate().await;
    assert!(status == 400 && refused.to_string().contains("published 0 s ago"), "{status} {refused}");
    daemon.clock.advance(Duration::from_secs(3599));
    assert_eq!(rotate().await.0, 400);
    daemon.clock.advance(Duration::from_secs(1));
    let (status, keys) = rotate().await;
    assert_eq!(status, 200, "{keys}");
    let published: Vec<_> = keys.as_array().expect("a list").iter().map(|key| &key["published_at"]).collect();
    assert_eq!(published, ["2026-07-01T00:00:00Z", "2026-07-01T00:00:00Z", "2026-07-01T01:00:00Z"], "{keys}");
    daemon.stop().await;
}

/// The clock of the start may be years ahead: the next block would have its time for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_a_year_from_the_last_block_is_told_in_both_directions() {
    let folder = folder();
    let daemon = TestDaemon::start_at(folder.path(), START, |_| {}).await;
    assert!(attention(&daemon, folder.path(), "clock").await.is_empty(), "a new store has no block");
    seal_a_block(&daemon, "first").await;
    daemon.stop().await;
    for (now, times) in [
        (START + 400 * DAY, ["2026-07-01T00:00:00Z", "2027-08-05T00:00:00Z"]),
        (START - 400 * DAY, ["2026-07-01T00:00:00Z", "2025-05-27T00:00:00Z"]),
    ] {
        let daemon = TestDaemon::start_at(folder.path(), now, |_| {}).await;
        let [told] = &attention(&daemon, folder.path(), "clock").await[..] else { panic!("one reason at {now:?}") };
        assert!(times.iter().all(|time| told.contains(time)), "{told}");
        daemon.stop().await;
    }
    for now in [START, START + 300 * DAY, START - Duration::from_secs(60)] {
        let daemon = TestDaemon::start_at(folder.path(), now, |_| {}).await;
        assert!(attention(&daemon, folder.path(), "clock").await.is_empty(), "{now:?}");
        daemon.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_of_a_start_with_a_wrong_clock_has_both_times() {
    let folder = folder();
    let log = |name: &str| std::fs::File::create(folder.path().join(name)).expect("a file");
    let at = |time: &str, name: &str| {
        let data = folder.path().join("data");
        DaemonProcess::start_with_log(&data, &["--clock", time], &[], log(name).into())
    };
    let process = at("2036-01-01T00:00:00Z", "first");
    let create = create_account(&[key("first").authenticator()], Address::ZERO).operation;
    let client = process.client();
    let request = client.submit(&create, &seed("first")).await.expect("accepted").request_id;
    assert!(matches!(final_state(&client, request).await, GatewayRequestState::Finalized { .. }));
    wait_for_signing_keys(&process.sign_in).await;
    assert!(process.terminate().success());

    let process = at("2026-01-01T00:00:00Z", "second");
    let warnings = until("warnings of both", async || {
        let text = std::fs::read_to_string(folder.path().join("second")).expect("text");
        let warnings = text.lines().filter(|line| line.contains("\"WARN\"")).collect::<Vec<_>>().join("\n");
        let is_told = |part: &str| warnings.lines().any(|line| line.contains(part) && line.contains("2036-01-01T"));
        if is_told("last block") && is_told("signing keys") { Ok(warnings) } else { Err(text) }
    })
    .await;
    assert!(warnings.lines().all(|line| !line.contains("last block") || line.contains("2026-01-01T")), "{warnings}");
    assert!(process.terminate().success());
}
