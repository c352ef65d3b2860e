//! Writes and reads that fail for a while: the daemon reports it, refuses what it cannot do, and
//! continues without a restart.
//!
//! These daemons run in this process: a test says when the faults begin and end, and sees that they
//! have struck.

use futures_util::future::join_all;
use selfsame_actors::faults::{Fault, FaultPoint, Plan};
use serde_json::{Value, json};

use super::{DiskTestClient, DiskTestDaemon, assert_sound};
use crate::harness::{Folder, TestDaemon, folder, until, until_true};
use crate::test_accounts::creation;

/// A daemon whose disk can fail.
struct FaultTestDaemon {
    daemon: TestDaemon,
    client: DiskTestClient,
    folder: Folder,
}

impl FaultTestDaemon {
    async fn start() -> Self {
        let folder = folder();
        let daemon = TestDaemon::start(folder.path()).await;
        let client = DiskTestClient::new(&daemon.gateway(""), &daemon.indexer(""), &daemon.operator(""));
        Self { daemon, client, folder }
    }

    /// A plan of faults for this daemon alone.
    fn plan(&self) -> Plan {
        Plan::for_instance(&self.daemon.instance)
    }

    /// Waits until no request is on its way, so that the next commit belongs to the next request.
    async fn wait_until_idle(&self) {
        until_true("an idle registry", async || self.daemon.registry.statistics().open_requests == 0).await;
    }

    /// Stops the daemon; its store must agree with its ledger.
    async fn stop_and_check(self) -> Folder {
        self.daemon.stop().await;
        assert_sound(self.folder.path());
        self.folder
    }
}

/// Creates accounts while a fault point fails, until the daemon has reported the failure; then it
/// is ready again.
async fn assert_recovers(point: FaultPoint, says: &'static [&'static str]) {
    let target = FaultTestDaemon::start().await;
    let client = &target.client;
    let mut accepted = Vec::new();
    for number in 0..3 {
        accepted.push(client.submit(number).await.expect("accepted"));
    }
    let name = point.name();
    let failing = target.plan().strike_always(point, Fault::Error).run();
    until(format!("the report of a failure at {name}"), async || {
        // A refused request is sent again under its key.
        accepted.extend(client.submit(accepted.len() as u64).await);
        let reasons = client.reasons().await;
        for reason in &reasons {
            let step = reason.strip_suffix(&format!(": a fault was injected at {name}"));
            assert!(step.is_some_and(|step| says.contains(&step)), "{name}: {reason}");
        }
        assert_eq!(client.root().await.status, 200, "{name}");
        if reasons.is_empty() { Err("it is ready") } else { Ok(()) }
    })
    .await;
    drop(failing);
    client.wait_until_ready().await;
    accepted.push(client.submit(accepted.len() as u64).await.expect("accepted"));
    client.assert_each_final_once(&accepted).await;
    target.stop_and_check().await;
}

/// What says that a group of commits failed: with a sealed block in it, sealing did.
const COMMITTING: &[&str] = &["committing fails", "sealing a block fails"];

async fn assert_all_recover(points: &[(FaultPoint, &'static [&'static str])]) {
    join_all(points.iter().map(|(point, says)| assert_recovers(*point, says))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_sealing_and_applying_are_retried() {
    assert_all_recover(&[
        (FaultPoint::BatcherSeal, &["sealing a block fails"]),
        (FaultPoint::LedgerAppendBefore, &["sealing a block fails"]),
        (FaultPoint::LedgerAppendAfter, COMMITTING),
        (FaultPoint::LedgerRead, &["applying a block fails"]),
        (FaultPoint::TreeMaintainerApply, &["applying a block fails"]),
        (FaultPoint::BlockCommitBefore, &["applying a block fails"]),
        (FaultPoint::BlockCommitAfter, &["applying a block fails"]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_with_failed_commits_are_refused_and_accepted_later() {
    assert_all_recover(&[(FaultPoint::GroupCommitBefore, COMMITTING), (FaultPoint::GroupCommitAfter, COMMITTING)])
        .await;
}

/// The commit of a request fails although it is on disk. Sent again, the request is accepted. Then
/// it has to be carried out even when no other request comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_request_that_was_refused_is_carried_out_when_sent_again() {
    let target = FaultTestDaemon::start().await;
    let client = &target.client;
    let url = format!("{}/create-account", client.gateway);
    let send = async |number: u64| {
        let request = client.http.post(&url).header("Idempotency-Key", number.to_string());
        client.ask(request.json(&creation(number))).await
    };
    let mut number = 0;
    let refused = until("a commit of a request that fails", async || {
        number += 1;
        target.wait_until_idle().await;
        let failing = target.plan().strike_times(FaultPoint::GroupCommitAfter, Fault::Error, 0, 1).run();
        let answer = send(number).await;
        drop(failing);
        if answer.status == 200 {
            // Another commit came before it.
            client.wait_until_final(answer.request_id()).await;
            return Err(answer);
        }
        Ok(answer)
    })
    .await;
    let answer = until("the request to be accepted", async || {
        let answer = send(number).await;
        if answer.status == 200 { Ok(answer) } else { Err(answer) }
    })
    .await;
    // The refusal does not claim that nothing was recorded, and names the request.
    let message = refused.text("message");
    let expected = format!("it is not known whether request {} was recorded", answer.request_id());
    assert!(message.starts_with(&expected), "{message}");
    client.wait_until_final(answer.request_id()).await;
    assert_eq!(client.accounts().await, number);
    target.stop_and_check().await;
}

/// Reads fail with an error for a while; every answer of success is right.
async fn assert_answers_or_errors(point: FaultPoint) {
    const FAILURES: usize = 100;
    let target = FaultTestDaemon::start().await;
    let client = &target.client;
    let mut questions: Vec<(String, Option<Value>)> = Vec::new();
    for number in 0..3 {
        let request_id = client.submit(number).await.expect("accepted");
        client.wait_until_final(&request_id).await;
        questions.push((format!("/status/{request_id}"), None));
        questions.push((format!("/receipt/{request_id}"), None));
        questions.push(("/inclusion-proof".to_owned(), Some(json!({"leaf_index": (number + 1).to_string()}))));
        questions.push(("/authenticators".to_owned(), Some(json!({"leaf_index": (number + 1).to_string()}))));
        // An account and its path are in memory once they were read twice; an address is read anew.
        let address = &json!(creation(number))["authenticator_addresses"][0];
        questions.push(("/packed-account".to_owned(), Some(json!({"authenticator_address": address}))));
    }
    let ask = async |(path, body): &(String, Option<Value>)| match body {
        None => client.gateway(path).await,
        Some(body) => client.indexer(path, body).await,
    };
    let mut expected = Vec::new();
    for question in &questions {
        let answer = ask(question).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        expected.push(answer.body);
    }
    let failing = target.plan().strike_times(point, Fault::Error, 0, FAILURES).run();
    let mut errors = 0;
    until(format!("{FAILURES} failures at {}", point.name()), async || {
        for (question, expected) in questions.iter().zip(&expected) {
            let answer = ask(question).await;
            if answer.status == 200 {
                assert_eq!(answer.body, *expected, "{question:?}");
            } else {
                answer.expect_error(500, "internal_server_error");
                errors += 1;
            }
        }
        let strikes = failing.strikes(point);
        if strikes == FAILURES as u64 { Ok(()) } else { Err(strikes) }
    })
    .await;
    assert!(errors > 0, "the failures at {} are not noticed", point.name());
    for (question, expected) in questions.iter().zip(&expected) {
        assert_eq!(ask(question).await.body, *expected, "{question:?}");
    }
    client.wait_until_ready().await;
    client.wait_until_final(&client.submit(3).await.expect("accepted")).await;
    assert_eq!(client.accounts().await, 4);
    target.stop_and_check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_reads_are_answered_with_errors() {
    tokio::join!(assert_answers_or_errors(FaultPoint::StoreRead), assert_answers_or_errors(FaultPoint::SnapshotRead));
}

/// A disk that accepts no write any more does not end the daemon, and does not stop its answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_disk_accepts_no_writes_still_reads() {
    const RETRIES: u64 = 5;
    let target = FaultTestDaemon::start().await;
    let client = &target.client;
    let mut accepted = vec![client.submit(0).await.expect("accepted")];
    client.wait_until_final(&accepted[0]).await;
    let failing = target.plan().strike_always(FaultPoint::LedgerAppendBefore, Fault::Error).run();
    until("a refusal", async || match client.submit(accepted.len() as u64).await {
        None => Ok(()),
        Some(request_id) => {
            accepted.push(request_id);
            Err(accepted.len())
        }
    })
    .await;
    let before = failing.strikes(FaultPoint::LedgerAppendBefore);
    until(format!("{RETRIES} retries"), async || {
        assert_eq!(client.reasons().await.len(), 1);
        assert_eq!(client.indexer("/inclusion-proof", &json!({"leaf_index": "1"})).await.status, 200);
        assert_eq!(client.submit(accepted.len() as u64).await, None);
        let retries = failing.strikes(FaultPoint::LedgerAppendBefore) - before;
        if retries >= RETRIES { Ok(()) } else { Err(retries) }
    })
    .await;
    let folder = target.stop_and_check().await;
    drop(failing);
    let daemon = DiskTestDaemon::start(folder.path());
    daemon.assert_each_final_once(&accepted).await;
    daemon.stop();
    assert_sound(folder.path());
}
