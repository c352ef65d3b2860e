//! The daemon's process with faults in it: it ends by itself when it has to, and says why.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::task::spawn_blocking;

use crate::harness::folder;

/// Starts `selfsame serve --dev` with a plan of faults; its exit status and what it said, once it ends by itself.
async fn end_of(plan: &str) -> (Option<i32>, String) {
    let data = folder();
    let mut command = Command::new(env!("CARGO_BIN_EXE_selfsame"));
    command.args(["serve", "--dev", "--data"]).arg(data.path()).env("FAILPOINTS", plan);
    for interface in ["GATEWAY", "INDEXER", "OPERATOR", "VERIFY", "SIGN_IN"] {
        command.env(format!("SELFSAME_LISTEN__{interface}"), "127.0.0.1:0");
    }
    let child: Child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let id = child.id();
    let ended = spawn_blocking(move || child.wait_with_output().expect("waited"));
    let Ok(output) = tokio::time::timeout(Duration::from_secs(90), ended).await else {
        let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
        panic!("it does not end by itself under {plan}");
    };
    let output = output.expect("no panic");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_actors_fail_too_often_says_so_and_ends() {
    let (status, text) = end_of("tree-maintainer.handle=return(panic)").await;
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("the supervisors gave up, actors failed too often"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_with_a_stuck_actor_says_so_and_ends() {
    let (status, text) = end_of("batcher.handle=5*off->return(stall)").await;
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("registry/batcher is stuck"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_cannot_be_understood_is_refused() {
    for (plan, reason) in [
        ("batcher.handel=return(panic)", "\"batcher.handel\" is no fault point"),
        ("batcher.handle", "is no step of a plan"),
        ("batcher.handle=explode", "batcher.handle: "),
    ] {
        let (status, text) = end_of(plan).await;
        assert_eq!(status, Some(1), "{text}");
        assert!(text.contains(reason), "{plan}: {text}");
    }
}
