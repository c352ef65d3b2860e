//! Writes and reads that fail for a while: the daemon says so, refuses what it cannot do, and goes on by itself.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{Daemon, PATIENCE, PAUSE, assert_sound};
use crate::harness::folder;

/// Makes accounts while a point fails a few times, until the trouble was seen and is over.
async fn goes_on_by_itself(point: &'static str, says: &'static str) {
    let folder = folder();
    let plan = format!("{point}=12*off->4*return(error)->off");
    let daemon = Daemon::try_start(folder.path(), &[("FAILPOINTS", &plan)]).expect("it starts");
    let mut accepted = Vec::new();
    let mut was_seen = false;
    let deadline = Instant::now() + PATIENCE;
    loop {
        // What is refused is sent again under its key.
        accepted.extend(daemon.submit(accepted.len() as u64).await);
        let reasons = daemon.reasons().await;
        for reason in &reasons {
            assert_eq!(*reason, format!("{says}: a fault was injected at {point}"));
        }
        assert_eq!(daemon.root().await.status, 200, "{point}");
        if was_seen && reasons.is_empty() {
            break;
        }
        was_seen |= !reasons.is_empty();
        assert!(Instant::now() < deadline, "{point}: seen: {was_seen}, {reasons:?}");
        sleep(PAUSE).await;
    }
    accepted.push(daemon.submit(accepted.len() as u64).await.expect("accepted"));
    daemon.each_is_final_once(&accepted).await;
    daemon.stop();
    assert_sound(folder.path());
}

async fn all(points: &[(&'static str, &'static str)]) {
    let daemons: JoinSet<()> = points.iter().map(|(point, says)| goes_on_by_itself(point, says)).collect();
    daemons.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sealing_and_applying_are_tried_again() {
    all(&[
        ("batcher.seal", "sealing a block fails"),
        ("ledger.append.before", "sealing a block fails"),
        ("ledger.append.after", "sealing a block fails"),
        ("ledger.read", "applying a block fails"),
        ("tree-maintainer.apply", "applying a block fails"),
        ("block-commit.before", "applying a block fails"),
        ("block-commit.after", "applying a block fails"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_fail_are_refused_and_come_back() {
    all(&[("group-commit.before", "committing fails"), ("group-commit.after", "committing fails")]).await;
}

/// The commit of a request failed, and yet it is on disk. Sent again it is accepted, and then it has to be carried out, also when
/// nobody else asks for anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_was_recorded_after_all_is_carried_out_when_it_is_sent_again() {
    let folder = folder();
    let plan = [("FAILPOINTS", "group-commit.after=10*off->1*return(error)->off")];
    let daemon = Daemon::try_start(folder.path(), &plan).expect("it starts");
    let url = format!("{}/create-account", daemon.gateway);
    let deadline = Instant::now() + PATIENCE;
    for number in 0u64.. {
        let send = async || {
            let request = daemon.http.post(&url).header("Idempotency-Key", number.to_string());
            daemon.ask(request.json(&super::creation(number))).await
        };
        let mut answer = send().await;
        let was_refused = answer.status != 200;
        if was_refused {
            answer = send().await;
        }
        let status = daemon.gateway(&format!("/status/{}?wait=5", answer.request_id())).await;
        assert_eq!(status.body["status"]["state"], "finalized", "refused first: {was_refused}");
        if was_refused {
            break;
        }
        assert!(Instant::now() < deadline, "no commit failed");
    }
    daemon.stop();
    assert_sound(folder.path());
}

/// Reads that fail are errors, one by one; what can be read is right.
async fn answers_or_says_that_it_cannot(point: &'static str) {
    let folder = folder();
    let plan = format!("{point}=3000*off->100*return(error)->off");
    let daemon = Daemon::try_start(folder.path(), &[("FAILPOINTS", &plan)]).expect("it starts");
    let mut questions: Vec<(String, Option<Value>)> = Vec::new();
    for number in 0..3 {
        let request_id = daemon.submit(number).await.expect("accepted");
        daemon.is_final(&request_id).await;
        questions.push((format!("/status/{request_id}"), None));
        questions.push((format!("/receipt/{request_id}"), None));
        questions.push(("/inclusion-proof".to_owned(), Some(json!({"leaf_index": (number + 1).to_string()}))));
        questions.push(("/authenticators".to_owned(), Some(json!({"leaf_index": (number + 1).to_string()}))));
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
                answer.refused(500, "internal_server_error");
                (errors, right_since) = (errors + 1, 0);
            }
        }
        assert!(Instant::now() < deadline, "{point}: {errors} errors, {right_since} right answers since");
    }
    daemon.is_ready().await;
    daemon.is_final(&daemon.submit(3).await.expect("accepted")).await;
    assert_eq!(daemon.accounts().await, 4);
    daemon.stop();
    assert_sound(folder.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_cannot_be_read_for_a_while() {
    tokio::join!(answers_or_says_that_it_cannot("store.read"), answers_or_says_that_it_cannot("snapshot.read"));
}

/// A write that never works again is not a reason to die, or to stop answering.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_takes_nothing_more_leaves_a_daemon_that_reads() {
    let folder = folder();
    let plan = [("FAILPOINTS", "ledger.append.before=10*off->return(error)")];
    let daemon = Daemon::try_start(folder.path(), &plan).expect("it starts");
    let mut accepted = Vec::new();
    while let Some(request_id) = daemon.submit(accepted.len() as u64).await {
        accepted.push(request_id);
        sleep(PAUSE).await;
    }
    // As many looks as several turns of trying again take.
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        assert_eq!(daemon.reasons().await.len(), 1);
        assert_eq!(daemon.indexer("/inclusion-proof", &json!({"leaf_index": "1"})).await.status, 200);
        assert_eq!(daemon.submit(accepted.len() as u64).await, None);
        sleep(PAUSE).await;
    }
    daemon.kill();
    let daemon = Daemon::start(folder.path());
    daemon.each_is_final_once(&accepted).await;
    daemon.stop();
    assert_sound(folder.path());
}
