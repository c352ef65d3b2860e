//! Writes and reads that fail for a while: the daemon reports it, refuses what it cannot do, and
//! continues without a restart.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{DiskTestDaemon, PATIENCE, PAUSE, assert_sound};
use crate::harness::folder;
use crate::test_accounts::creation;

/// Creates accounts while a fault point fails a few times, until the daemon has reported the
/// failure and is ready again.
async fn assert_recovers(point: &'static str, says: &'static [&'static str]) {
    let folder = folder();
    let plan = format!("{point}=12*off->4*return(error)->off");
    let daemon = DiskTestDaemon::try_start(folder.path(), &[("FAILPOINTS", &plan)]).expect("it starts");
    let mut accepted = Vec::new();
    let mut was_seen = false;
    let deadline = Instant::now() + PATIENCE;
    loop {
        // A refused request is sent again under its key.
        accepted.extend(daemon.submit(accepted.len() as u64).await);
        let reasons = daemon.reasons().await;
        for reason in &reasons {
            let step = reason.strip_suffix(&format!(": a fault was injected at {point}"));
            assert!(step.is_some_and(|step| says.contains(&step)), "{point}: {reason}");
        }
        assert_eq!(daemon.root().await.status, 200, "{point}");
        if was_seen && reasons.is_empty() {
            break;
        }
        was_seen |= !reasons.is_empty();
        assert!(Instant::now() < deadline, "{point}: seen: {was_seen}, {reasons:?}");
        sleep(PAUSE).await;
    }
    // One more fault may be left; after it every request is accepted.
    let last = accepted.len() as u64;
    let last = loop {
        match daemon.submit(last).await {
            Some(request_id) => break request_id,
            None => assert!(Instant::now() < deadline, "{point}: requests are still refused"),
        }
        sleep(PAUSE).await;
    };
    accepted.push(last);
    daemon.assert_each_final_once(&accepted).await;
    daemon.stop();
    assert_sound(folder.path());
}

/// What says that a group of commits failed: with a sealed block in it, sealing did.
const COMMITTING: &[&str] = &["committing fails", "sealing a block fails"];

async fn assert_all_recover(points: &[(&'static str, &'static [&'static str])]) {
    let daemons: JoinSet<()> = points.iter().map(|(point, says)| assert_recovers(point, says)).collect();
    daemons.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_sealing_and_applying_are_retried() {
    assert_all_recover(&[
        ("batcher.seal", &["sealing a block fails"]),
        ("ledger.append.before", &["sealing a block fails"]),
        ("ledger.append.after", COMMITTING),
        ("ledger.read", &["applying a block fails"]),
        ("tree-maintainer.apply", &["applying a block fails"]),
        ("block-commit.before", &["applying a block fails"]),
        ("block-commit.after", &["applying a block fails"]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_with_failed_commits_are_refused_and_accepted_later() {
    assert_all_recover(&[("group-commit.before", COMMITTING), ("group-commit.after", COMMITTING)]).await;
}

/// What a request is told between the failure of a block's commit and the next attempt.
const SEALING_FAILS: &str = "the registry is not accepting requests at the moment (the registry is read-only: \
                             sealing a block fails); try again";

/// The commit of a request fails although it is on disk. Sent again, the request is accepted. Then
/// it has to be carried out even when no other request comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_request_that_was_refused_is_carried_out_when_sent_again() {
    let folder = folder();
    // A commit that fails may be that of a block, which is made again without a refusal. Of several
    // with one or two between them, one is a request's.
    let errors = "->1*return(error)->1*off->1*return(error)->2*off".repeat(10);
    let plan = format!("group-commit.after=10*off{errors}->off");
    let plan = [("FAILPOINTS", plan.as_str())];
    let daemon = DiskTestDaemon::try_start(folder.path(), &plan).expect("it starts");
    let url = format!("{}/create-account", daemon.gateway);
    let deadline = Instant::now() + PATIENCE;
    for number in 0u64.. {
        let send = async || {
            let request = daemon.http.post(&url).header("Idempotency-Key", number.to_string());
            daemon.ask(request.json(&creation(number))).await
        };
        let mut answer = send().await;
        let mut messages = Vec::new();
        while answer.status != 200 {
            assert!(Instant::now() < deadline, "request {number} is still refused: {answer:?}");
            let message = answer.body["message"].as_str().expect("a message").to_owned();
            // The commit of an earlier block may have failed just before. Such a request is refused
            // before anything is recorded, and its refusal is not the one that is wanted.
            if message != SEALING_FAILS {
                messages.push(message);
            }
            answer = send().await;
        }
        // A refusal does not claim that nothing was recorded, and names the request.
        let expected = format!("it is not known whether request {} was recorded", answer.request_id());
        for message in &messages {
            assert!(message.starts_with(&expected), "{message}");
        }
        daemon.wait_until_final(answer.request_id()).await;
        if !messages.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "no commit failed");
    }
    daemon.stop();
    assert_sound(folder.path());
}

/// Single reads after the first `passed` ones fail with an error; every answer of success is right.
async fn assert_answers_or_errors(point: &'static str, passed: u32) {
    let folder = folder();
    let plan = format!("{point}={passed}*off->100*return(error)->off");
    let daemon = DiskTestDaemon::try_start(folder.path(), &[("FAILPOINTS", &plan)]).expect("it starts");
    let mut questions: Vec<(String, Option<Value>)> = Vec::new();
    for number in 0..3 {
        let request_id = daemon.submit(number).await.expect("accepted");
        daemon.wait_until_final(&request_id).await;
        questions.push((format!("/status/{request_id}"), None));
        questions.push((format!("/receipt/{request_id}"), None));
        questions.push(("/inclusion-proof".to_owned(), Some(json!({"leaf_index": (number + 1).to_string()}))));
        questions.push(("/authenticators".to_owned(), Some(json!({"leaf_index": (number + 1).to_string()}))));
        // An account and its path are in memory once they were read twice; an address is read anew.
        let address = &json!(creation(number))["authenticator_addresses"][0];
        questions.push(("/packed-account".to_owned(), Some(json!({"authenticator_address": address}))));
    }
    let ask = async |(path, body): &(String, Option<Value>)| match body {
        None => daemon.gateway(path).await,
        Some(body) => daemon.indexer(path, body).await,
    };
    let mut expected = Vec::new();
    for question in &questions {
        let answer = ask(question).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        expected.push(answer.body);
    }
    let (mut errors, mut right_since) = (0, 0);
    let deadline = Instant::now() + PATIENCE;
    while errors == 0 || right_since < 500 {
        for (question, expected) in questions.iter().zip(&expected) {
            let answer = ask(question).await;
            if answer.status == 200 {
                assert_eq!(answer.body, *expected, "{question:?}");
                right_since += 1;
            } else {
                answer.expect_error(500, "internal_server_error");
                (errors, right_since) = (errors + 1, 0);
            }
        }
        assert!(Instant::now() < deadline, "{point}: {errors} errors, {right_since} right answers since");
    }
    daemon.wait_until_ready().await;
    daemon.wait_until_final(&daemon.submit(3).await.expect("accepted")).await;
    assert_eq!(daemon.accounts().await, 4);
    daemon.stop();
    assert_sound(folder.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_reads_are_answered_with_errors() {
    tokio::join!(assert_answers_or_errors("store.read", 3000), assert_answers_or_errors("snapshot.read", 300));
}

/// A disk that accepts no write any more does not end the daemon, and does not stop its answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_disk_accepts_no_writes_still_reads() {
    let folder = folder();
    let plan = [("FAILPOINTS", "ledger.append.before=10*off->return(error)")];
    let daemon = DiskTestDaemon::try_start(folder.path(), &plan).expect("it starts");
    let mut accepted = Vec::new();
    while let Some(request_id) = daemon.submit(accepted.len() as u64).await {
        accepted.push(request_id);
        sleep(PAUSE).await;
    }
    // Longer than several retries take.
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        assert_eq!(daemon.reasons().await.len(), 1);
        assert_eq!(daemon.indexer("/inclusion-proof", &json!({"leaf_index": "1"})).await.status, 200);
        assert_eq!(daemon.submit(accepted.len() as u64).await, None);
        sleep(PAUSE).await;
    }
    daemon.kill();
    let daemon = DiskTestDaemon::start(folder.path());
    daemon.assert_each_final_once(&accepted).await;
    daemon.stop();
    assert_sound(folder.path());
}
