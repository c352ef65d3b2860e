//! Backups at regular times, and which of them are kept.

use std::path::{Path, PathBuf};
use std::time::Duration;

use selfsame::config::Config;
use serde_json::{Value, json};

use super::BackupWorkplace;
use crate::harness::{START, TestDaemon, operator_token, refused_start, until};

const HOUR: Duration = Duration::from_secs(3600);

fn every_hour(folder: PathBuf, keep: usize) -> impl FnOnce(&mut Config) {
    move |config| {
        config.backup.every = Some(HOUR.into());
        config.backup.keep = keep;
        config.backup.folder = Some(folder);
    }
}

/// The names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The daemon's backups, as soon as `is_wanted`.
async fn backups(daemon: &TestDaemon, data: &Path, is_wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let token = operator_token(data);
    let http = reqwest::Client::new();
    until("backups", async || {
        let request = http.get(daemon.operator("/status")).bearer_auth(&token);
        let mut status: Value = request.send().await.expect("an answer").json().await.expect("JSON");
        let backups: Vec<Value> = serde_json::from_value(status["backups"].take()).expect("a list");
        if is_wanted(&backups) { Ok(backups) } else { Err(backups) }
    })
    .await
}

/// Waits until the schedule has made as many backups as this, and removed the old ones.
async fn made(daemon: &TestDaemon, data: &Path, count: usize, folder: &Path, expected: &[&str]) {
    let has_ended = |backup: &Value| backup["state"] != "running";
    let backups = backups(daemon, data, |backups| backups.len() == count && backups.iter().all(has_ended)).await;
    assert!(backups.iter().all(|backup| backup["state"] == "complete"), "{backups:?}");
    assert!(backups.iter().all(|backup| backup["begun_by"] == "schedule"), "{backups:?}");
    until(format!("{expected:?} in the folder"), async || {
        let names = names(folder);
        if names == expected { Ok(()) } else { Err(names) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scheduled_backups_are_made_at_their_times_and_the_newest_are_kept() {
    let workplace = BackupWorkplace::new();
    let (data, folder) = (workplace.path("data"), workplace.path("backups"));
    std::fs::create_dir(&folder).expect("a folder");
    // Nothing of this is a backup of the schedule, except what is left of one that was cut off.
    for name in ["notes", "selfsame-2026-06-01T00-00-00Z", "selfsame-2026-06-02T00-00-00Z.unfinished/store"] {
        std::fs::create_dir_all(folder.join(name)).expect("a folder");
    }
    std::fs::write(folder.join("selfsame-2026-06-01T00-00-00Z/manifest.json"), "{}").expect("written");
    let mine = ["notes", "selfsame-2026-06-01T00-00-00Z"];
    let with = |own: &[&'static str]| [&mine[..], own].concat();

    let daemon = TestDaemon::start_with(&data, every_hour(folder.clone(), 2)).await;
    made(&daemon, &data, 1, &folder, &with(&["selfsame-2026-07-01T00-00-00Z"])).await;
    daemon.clock.advance(HOUR - Duration::from_secs(1));
    daemon.clock.advance(Duration::from_secs(1));
    let two = with(&["selfsame-2026-07-01T00-00-00Z", "selfsame-2026-07-01T01-00-00Z"]);
    made(&daemon, &data, 2, &folder, &two).await;
    daemon.clock.advance(HOUR);
    let last = with(&["selfsame-2026-07-01T01-00-00Z", "selfsame-2026-07-01T02-00-00Z"]);
    made(&daemon, &data, 3, &folder, &last).await;
    let metrics = reqwest::get(daemon.operator("/metrics")).await.expect("an answer").text().await.expect("text");
    for event in ["backup_begun", "backup_made"] {
        let sample = format!("\nselfsame_audit_events_total{{event=\"{event}\",outcome=\"success\"}} 3\n");
        assert!(metrics.contains(&sample), "{sample}: {metrics}");
    }
    daemon.stop().await;
    assert!(
        workplace.run_ok(&["backup", "verify", "@backups/selfsame-2026-07-01T02-00-00Z"]).ends_with("\n0 problems\n")
    );

    // A restart makes none before its time, and one at its time.
    let daemon = TestDaemon::start_at(&data, START + 2 * HOUR + HOUR / 2, every_hour(folder.clone(), 2)).await;
    daemon.clock.advance(HOUR / 2);
    let next = with(&["selfsame-2026-07-01T02-00-00Z", "selfsame-2026-07-01T03-00-00Z"]);
    made(&daemon, &data, 1, &folder, &next).await;
    daemon.stop().await;

    // Backups of another registry in the same folder are left alone.
    let other = workplace.path("other");
    let daemon = TestDaemon::start_at(&other, START + 9 * HOUR, |config| {
        config.registry.verifying_contract = Some(alloy_primitives::Address::repeat_byte(9).into());
        every_hour(folder.clone(), 1)(config);
    })
    .await;
    let both = [next, vec!["selfsame-2026-07-01T09-00-00Z"]].concat();
    made(&daemon, &other, 1, &folder, &both).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduled_backup_that_fails_is_shown_and_tried_again() {
    let workplace = BackupWorkplace::new();
    let (data, folder) = (workplace.path("data"), workplace.path("backups"));
    let daemon = TestDaemon::start_with(&data, every_hour(folder.clone(), 2)).await;
    let failed = backups(&daemon, &data, |backups| !backups.is_empty()).await;
    let message = failed[0]["message"].as_str().expect("a message");
    assert!(message.contains("the folder that it is to be made in does not exist; make that one first"), "{message}");
    assert_eq!((&failed[0]["state"], &failed[0]["begun_by"]), (&json!("failed"), &json!("schedule")));
    let metrics = reqwest::get(daemon.operator("/metrics")).await.expect("an answer").text().await.expect("text");
    for sample in [
        "selfsame_backup_failed_total 1",
        "selfsame_backup_last_timestamp_seconds 0",
        r#"selfsame_audit_events_total{event="backup_begun",outcome="refused"} 1"#,
    ] {
        assert!(metrics.contains(&format!("\n{sample}\n")), "{sample}: {metrics}");
    }
    std::fs::create_dir(&folder).expect("a folder");
    daemon.clock.advance(Duration::from_secs(300));
    let retried = backups(&daemon, &data, |backups| backups.iter().any(|backup| backup["state"] == "complete")).await;
    assert_eq!(retried.len(), 2, "{retried:?}");
    assert_eq!(names(&folder), ["selfsame-2026-07-01T00-05-00Z"]);
    daemon.stop().await;
}

#[tokio::test]
async fn a_schedule_needs_a_folder() {
    let workplace = BackupWorkplace::new();
    for (variables, expected) in [
        (&[("SELFSAME_BACKUP__EVERY", "1h")][..], "backup.folder: is missing; backup.every needs it"),
        (&[("SELFSAME_BACKUP__EVERY", "1s"), ("SELFSAME_BACKUP__FOLDER", "/x")], "backup.every: 1s is out of range"),
        (&[("SELFSAME_BACKUP__KEEP", "0")], "backup.keep: 0 is out of range; give 1 to 10000"),
    ] {
        let message = refused_start(&workplace.path("data"), variables).await;
        assert!(message.contains(expected), "{message:?} should contain {expected:?}");
    }
}
