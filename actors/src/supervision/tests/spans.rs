//! The spans that the log lines of actors are in.

use std::process::Command;

use serde_json::Value;
use tracing::Instrument;

use super::*;

/// Set for the process whose log is read: a log of all threads is one for the whole process.
const WRITES_LOG: &str = "SELFSAME_TEST_WRITES_LOG";

const INSTANCES: [&str; 2] = ["told-apart-one", "told-apart-two"];

/// Two services, each with a request inside a span of its caller and with a restarted actor.
async fn run_two_services() {
    let services = [start(INSTANCES[0]).await, start(INSTANCES[1]).await];
    for running in &services {
        let request = tracing::error_span!("request", request_id = running.instance);
        let registry = running.service.registry();
        let accepted = registry.submit(create(1).into()).instrument(request).await.expect("it is admitted");
        expect_finalized(&registry, &accepted.request_id).await;
        drop(registry);
        running.kill("request-tracker").await;
        wait_until("it is started again", || running.restarts("request-tracker") > 0).await;
    }
    for running in services {
        running.stop().await;
    }
}

/// The field of the innermost span that has it.
fn field<'l>(line: &'l Value, name: &str) -> Option<&'l str> {
    let mut spans = line["spans"].as_array().into_iter().flatten().rev();
    spans.find_map(|span| span[name].as_str())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lines_of_two_services_can_be_told_apart() {
    if std::env::var_os(WRITES_LOG).is_some() {
        tracing_subscriber::fmt().json().with_max_level(tracing::Level::DEBUG).init();
        return run_two_services().await;
    }
    let test = "supervision::tests::spans::the_lines_of_two_services_can_be_told_apart";
    let mut writing = Command::new(std::env::current_exe().expect("this program"));
    writing.args(["--exact", test, "--nocapture"]).env(WRITES_LOG, "1");
    let output = tokio::task::block_in_place(|| writing.output()).expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}");
    let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();

    for instance in INSTANCES {
        let tracker = Some("registry/request-tracker");
        let (batcher, maintainer) = (Some("registry/batcher"), Some("registry/tree-maintainer"));
        for (message, actor, is_of_request) in [
            ("admitted a request", tracker, true),
            ("sealed a request into a block", batcher, true),
            ("sealed a block", batcher, false),
            ("finalized a request", maintainer, true),
            ("applied a block", maintainer, false),
            ("an actor ended and is started again", Some("registry"), false),
        ] {
            let is_here = |line: &&Value| {
                line["fields"]["message"] == message
                    && field(line, "instance") == Some(instance)
                    && field(line, "actor") == actor
            };
            let found: Vec<&Value> = lines.iter().filter(is_here).collect();
            assert_eq!(found.len(), 1, "{instance}: {message}: {text}");
            assert_eq!(field(found[0], "request_id"), Some(instance).filter(|_| is_of_request), "{}", found[0]);
        }
    }
    // Every line about something that matters says whose it is.
    let is_of_actors = |line: &&Value| {
        let target = line["target"].as_str().unwrap_or_default();
        target.starts_with("selfsame_actors") && line["level"] != "DEBUG"
    };
    for line in lines.iter().filter(is_of_actors) {
        assert!(field(line, "instance").is_some_and(|instance| INSTANCES.contains(&instance)), "{line}");
    }
}
