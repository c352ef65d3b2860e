//! The daemon as a process with injected faults: it ends itself when it has to, and says why.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use alloy_primitives::Address;
use selfsame_wallet::client::ClientError;
use selfsame_wallet::operations::create_account;
use tokio::task::block_in_place;

use crate::harness::{DaemonProcess, PATIENCE, folder, in_time, program, until};
use crate::test_accounts::{key, seed};

/// Starts `selfsame serve --dev` with a plan of faults; returns its exit status and its output when
/// it ends by itself.
async fn run_until_end(plan: &str) -> (Option<i32>, String) {
    let data = folder();
    let mut command = tokio::process::Command::from(program());
    command.args(["serve", "--dev", "--data"]).arg(data.path()).env("FAILPOINTS", plan).kill_on_drop(true);
    for interface in ["GATEWAY", "INDEXER", "OPERATOR", "VERIFY", "SIGN_IN", "BRIDGE", "WALLET"] {
        command.env(format!("SELFSAME_LISTEN__{interface}"), "127.0.0.1:0");
    }
    let ended = command.stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let output = in_time(format!("the end of a daemon under {plan}"), ended).await.expect("the program runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_actors_fail_too_often_says_so_and_ends() {
    let (status, text) = run_until_end("tree-maintainer.handle=return(panic)").await;
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("the supervisors gave up, actors failed too often"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_with_a_stuck_actor_says_so_and_ends() {
    let (status, text) = run_until_end("selfsame-0/batcher.handle=5*off->return(stall)").await;
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("registry/batcher is stuck"), "{text}");
}

/// A daemon of which no commit after those of its start ends, once it has said so.
async fn with_a_stalled_commit(data: &Path, log: &Path) -> DaemonProcess {
    let stderr = File::create(log).expect("a file");
    // The start makes five commits.
    let variables = [("FAILPOINTS", "group-commit.before=5*off->return(stall)")];
    let daemon = DaemonProcess::start_with_log(data, &[], &variables, stderr.into());
    let (client, ready) = (daemon.client(), format!("{}/ready", daemon.operator));
    // They end with the daemon.
    tokio::spawn(async move {
        for number in 0.. {
            let name = format!("owner {number}");
            let operation = create_account(&[key(&name).authenticator()], Address::ZERO).operation;
            if client.submit(&operation, &seed(&name)).await.is_err() {
                return;
            }
        }
    });
    // From the tenth second of the commit to the thirtieth, at which the daemon ends.
    until("a reason of /ready that names the commit", async || {
        let answer = reqwest::get(&ready).await.expect("the daemon still answers").text().await.expect("text");
        if answer.contains("a commit has been taking ") { Ok(()) } else { Err(answer) }
    })
    .await;
    daemon
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_disk_never_answers_a_commit_says_so_and_ends() {
    let data = folder();
    let log = data.path().join("log");
    let daemon = with_a_stalled_commit(data.path(), &log).await;
    assert_eq!(block_in_place(|| daemon.wait()).code(), Some(1));
    let text = std::fs::read_to_string(&log).expect("text");
    assert!(text.contains("group-commit is stuck"), "{text}");
}

/// A stop does not wait for the disk for ever, and is no crash: the thread of the commit is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_disk_never_answers_a_commit_stops_when_it_is_asked_to() {
    let data = folder();
    let daemon = with_a_stalled_commit(data.path(), &data.path().join("log")).await;
    daemon.ask_to_stop();
    assert_eq!(block_in_place(|| daemon.wait()).code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_stops_serving_an_address_says_so_and_ends() {
    let data = folder();
    let log = data.path().join("log");
    let stderr = File::create(&log).expect("a file");
    let variables = [("FAILPOINTS", "http.accept=return(panic)")];
    let daemon = DaemonProcess::start_with_log(data.path(), &[], &variables, stderr.into());
    assert!(daemon.client().root().await.is_err(), "the gateway's address is closed");
    assert_eq!(block_in_place(|| daemon.wait()).code(), Some(1));
    let text = std::fs::read_to_string(&log).expect("text");
    assert!(text.contains("a server ended by itself: task") && text.contains("panicked"), "{text}");
    assert!(text.contains("\"event\":\"stopped\",\"outcome\":\"failed\""), "{text}");
    assert!(text.lines().last().is_some_and(|line| line.starts_with("selfsame: a server ended by itself")), "{text}");
}

/// The log is on a full disk, or goes into a pipe that has no reader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_cannot_be_written_does_not_stop_the_daemon() {
    let data = folder();
    let full = File::options().write(true).open("/dev/full").expect("a device that is always full");
    let plan = "group-commit.before=10*off->3*return(error)->off;ledger.append.before=3*off->2*return(error)->off";
    let variables = [("RUST_LOG", "debug"), ("FAILPOINTS", plan)];
    let daemon = DaemonProcess::start_with_log(data.path(), &[], &variables, full.into());
    let client = daemon.client();
    for number in 0..20 {
        let name = format!("owner {number}");
        let operation = create_account(&[key(&name).authenticator()], Address::ZERO).operation;
        // The client retries when the daemon answers that it is busy.
        let accepted = until("an accepted request", async || match client.submit(&operation, &seed(&name)).await {
            Ok(accepted) => Ok(accepted),
            Err(busy @ ClientError::Service { status: 503, .. }) => Err(busy),
            Err(error) => panic!("{error}"),
        })
        .await;
        client.wait_final(accepted.request_id, PATIENCE).await.expect("a final state");
    }
    assert!(daemon.terminate().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_fault_plan_is_refused() {
    for (plan, reason) in [
        ("batcher.handel=return(panic)", "\"batcher.handel\" is not a fault point"),
        ("batcher.handle", "is not a step of a plan"),
        ("batcher.handle=explode", "batcher.handle: "),
        ("selfsame-0/batcher.handle=return(explode)", "selfsame-0/batcher.handle: \"explode\" is not a fault"),
    ] {
        let (status, text) = run_until_end(plan).await;
        assert_eq!(status, Some(1), "{text}");
        assert!(text.contains(reason), "{plan}: {text}");
    }
}
