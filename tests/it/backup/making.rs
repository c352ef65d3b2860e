//! What a backup has, under load and with kills at each step; where none is made.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use selfsame_interfaces::interface::Interface;
use selfsame_storage::SCHEMA_VERSION;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::{BackupWorkplace, contents, expect_final, height, submit};
use crate::harness::{in_time, operator_token, until_true};

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_a_running_daemon_has_what_a_restore_needs_and_no_more() {
    let workplace = BackupWorkplace::new();
    let http = reqwest::Client::new();
    let daemon = workplace.start("data");
    for number in 0..3 {
        let request_id = submit(&http, &daemon.gateway, number).await.expect("accepted");
        expect_final(&http, &daemon.gateway, &request_id).await;
    }
    // An empty folder is as good as none.
    std::fs::create_dir(workplace.path("backup")).expect("a folder");
    let text = workplace.back_up("data", "backup");
    assert!(text.starts_with("backup of 20") && text.contains("\nblock 3, 0x"), "{text}");
    assert!(text.contains(&format!("in {}, on the daemon's machine\n", workplace.text("backup"))), "{text}");
    let made = contents(&workplace.path("backup"));
    let names: Vec<String> = std::fs::read_dir(workplace.path("backup"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    for (name, expected) in [("store", true), ("manifest.json", true), ("audit.key", true), ("simulator.seed", true)] {
        assert_eq!(names.iter().any(|found| found == name), expected, "{name}: {names:?}");
    }
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!((mode(&workplace.path("backup")), mode(&workplace.path("backup/store"))), (0o700, 0o700));
    for secret in ["audit.key", "simulator.seed", "manifest.json"] {
        assert_eq!(mode(&workplace.path("backup").join(secret)), 0o600, "{secret}");
    }
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(workplace.path("backup/manifest.json")).expect("read")).expect("JSON");
    assert_eq!((&manifest["format"], &manifest["schema_version"]), (&json!(2), &json!(SCHEMA_VERSION)));
    assert_eq!((&manifest["ledger_height"], &manifest["applied_height"]), (&json!(3), &json!(3)));
    assert_eq!(manifest["verifying_contract"], "0xcf7ed3acca5a467e9e704c703e8d87f634fb0fc9");
    // The daemon goes on with what it has linked.
    let request_id = submit(&http, &daemon.gateway, 3).await.expect("accepted");
    expect_final(&http, &daemon.gateway, &request_id).await;
    for arguments in [&["backup", "verify", "@backup"][..], &["backup", "verify", "@backup", "--deep"]] {
        let text = workplace.run_ok(arguments);
        assert!(text.starts_with("backup of 20") && text.ends_with("\n0 problems\n"), "{text}");
        let registry = "registry 0xcf7ed3acca5a467e9e704c703e8d87f634fb0fc9 on chain 31337";
        assert!(text.contains(&format!("schema {SCHEMA_VERSION}, {registry}")), "{text}");
    }
    assert!(daemon.terminate().success());
    assert_eq!(contents(&workplace.path("backup")), made, "neither the daemon nor a check changes a backup");
    assert_eq!(workplace.names(), ["backup", "data"]);
}

/// On the file system of the store the files that never change are hard links; on another one
/// everything is copied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_on_another_file_system_is_a_copy() {
    use std::os::unix::fs::MetadataExt;

    let workplace = BackupWorkplace::new();
    let http = reqwest::Client::new();
    let daemon = workplace.start("data");
    let request_id = submit(&http, &daemon.gateway, 0).await.expect("accepted");
    expect_final(&http, &daemon.gateway, &request_id).await;
    let links = |backup: &std::path::Path| {
        let files = std::fs::read_dir(backup.join("store")).expect("a folder").map(|entry| entry.expect("an entry"));
        let stored = files.filter(|entry| entry.file_name().to_string_lossy().ends_with(".sst"));
        stored.map(|entry| entry.metadata().expect("metadata").nlink()).collect::<Vec<_>>()
    };
    workplace.back_up("data", "backup");
    let linked = links(&workplace.path("backup"));
    // The store may have replaced a file since: then only the backup has it.
    assert!(linked.contains(&2), "{linked:?}");
    let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("SKIPPED: a backup on another file system; there is no /dev/shm");
        return;
    };
    let device = |path: &std::path::Path| std::fs::metadata(path).expect("metadata").dev();
    if device(elsewhere.path()) == device(workplace.folder.path()) {
        eprintln!("SKIPPED: a backup on another file system; /dev/shm is none");
        return;
    }
    let backup = elsewhere.path().join("backup");
    let text = backup.to_str().expect("text");
    workplace.run_ok(&["backup", text, "--data", "@data"]);
    daemon.kill();
    let copied = links(&backup);
    assert!(!copied.is_empty() && copied.iter().all(|links| *links == 1), "{copied:?}");
    assert!(workplace.run_ok(&["backup", "verify", text, "--deep"]).ends_with("\n0 problems\n"));
    workplace.run_ok(&["restore", text, "--data", "@restored", "--clients-have-seen", "1"]);
    let daemon = workplace.start("restored");
    expect_final(&http, &daemon.gateway, &request_id).await;
    daemon.kill();
}

/// What was acknowledged before a backup began is in it, while others write, and when the daemon is
/// killed between and after the backups. `TEST_BACKUPS` is the number of backups.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_acknowledged_before_a_backup_is_in_it() {
    let backups = std::env::var("TEST_BACKUPS").map_or(4, |text| text.parse().expect("a number"));
    let workplace = BackupWorkplace::new();
    let http = reqwest::Client::new();
    let (next, acknowledged) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
    let mut expected = Vec::new();
    for number in 0..backups {
        let daemon = workplace.start("data");
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let (http, gateway) = (http.clone(), daemon.gateway.clone());
                let (next, acknowledged) = (Arc::clone(&next), Arc::clone(&acknowledged));
                tokio::spawn(async move {
                    while let Some(id) = submit(&http, &gateway, next.fetch_add(1, Ordering::Relaxed)).await {
                        acknowledged.lock().await.push(id);
                    }
                })
            })
            .collect();
        let enough = acknowledged.lock().await.len() + 100;
        until_true("acknowledged requests", async || acknowledged.lock().await.len() >= enough).await;
        expected.push(acknowledged.lock().await.clone());
        workplace.back_up("data", &format!("backup-{number}"));
        daemon.kill();
        for client in clients {
            client.await.expect("the client does not panic");
        }
    }
    let mut heights = Vec::new();
    for (number, expected) in expected.iter().enumerate() {
        let (backup, data) = (format!("@backup-{number}"), format!("@restored-{number}"));
        assert!(workplace.run_ok(&["backup", "verify", &backup, "--deep"]).ends_with("\n0 problems\n"));
        let manifest = std::fs::read(workplace.path(&format!("backup-{number}/manifest.json"))).expect("read");
        let manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
        let seen = manifest["ledger_height"].to_string();
        workplace.run_ok(&["restore", &backup, "--data", &data, "--clients-have-seen", &seen]);
        let daemon = workplace.start(&format!("restored-{number}"));
        for request_id in expected {
            expect_final(&http, &daemon.gateway, request_id).await;
        }
        heights.push(height(&http, &daemon.indexer).await);
        assert!(daemon.terminate().success());
        let text = workplace.run_ok(&["registry", "fsck", "--data", &data]);
        assert!(text.contains(", 0 findings"), "{text}");
    }
    assert!(heights.is_sorted() && heights[0] > 0, "{heights:?}");
}

/// A daemon that dies while it makes a backup leaves nothing under the backup's name; the next
/// backup removes what is left.
#[cfg(feature = "fault-injection")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_was_cut_off_is_removed_by_the_next_one() {
    let workplace = BackupWorkplace::new();
    let http = reqwest::Client::new();
    let steps = [("checkpoint.before", true), ("checkpoint.after", true), ("backup.manifest", false)];
    for (number, (point, lacks_manifest)) in steps.into_iter().enumerate() {
        let plan = format!("{point}=return(crash)");
        let daemon = crate::harness::DaemonProcess::start(&workplace.path("data"), &[], &[("FAILPOINTS", &plan)]);
        let request_id = submit(&http, &daemon.gateway, number as u64).await.expect("accepted");
        expect_final(&http, &daemon.gateway, &request_id).await;
        let (status, text) = workplace.run(&["backup", "@backup", "--data", "@data"]);
        assert!(status == 1 && text.contains("no answer from unix:"), "{point}: {text}");
        assert!(!daemon.wait().success());
        assert_eq!(workplace.names(), ["backup.unfinished", "data"], "{point}");
        let is_missing = !workplace.path("backup.unfinished/manifest.json").exists();
        assert_eq!(is_missing, lacks_manifest, "{point}");
        if lacks_manifest {
            let expected =
                "manifest.json is missing: the backup was not completed, or the folder is not a backup\n0 problems";
            let expected = expected.replace("\n0", "\n1");
            workplace.expect_refused(&["backup", "verify", "@backup.unfinished"], &expected);
        }
        let daemon = workplace.start("data");
        workplace.back_up("data", "backup");
        assert_eq!(workplace.names(), ["backup", "data"], "{point}");
        assert!(workplace.run_ok(&["backup", "verify", "@backup", "--deep"]).ends_with("\n0 problems\n"));
        std::fs::remove_dir_all(workplace.path("backup")).expect("removed");
        daemon.kill();
    }
}

#[cfg(feature = "fault-injection")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_fails_leaves_nothing_and_is_counted() {
    let workplace = BackupWorkplace::new();
    let variables = [("FAILPOINTS", "checkpoint.after=1*return(error)->1*return(panic)->off")];
    let daemon = crate::harness::DaemonProcess::start(&workplace.path("data"), &[], &variables);
    let command = ["backup", "@backup", "--data", "@data"];
    workplace.expect_refused(&command, "the backup was not made: a fault was injected at checkpoint.after");
    assert_eq!(workplace.names(), ["data"]);
    workplace.expect_refused(&command, "the backup was not made: making it panicked; see the log for the place");
    assert_eq!(workplace.names(), ["data"]);
    workplace.run_ok(&command);
    let http = reqwest::Client::new();
    let token = operator_token(&workplace.path("data"));
    let request = http.get(format!("{}/backups", daemon.operator)).bearer_auth(token);
    let backups: Value = request.send().await.expect("an answer").json().await.expect("JSON");
    let states: Vec<&Value> = backups.as_array().expect("a list").iter().map(|backup| &backup["state"]).collect();
    assert_eq!(states, ["failed", "failed", "complete"]);
    let metrics = http.get(format!("{}/metrics", daemon.operator)).send().await.expect("an answer");
    let metrics = metrics.text().await.expect("text");
    for sample in [
        "selfsame_backup_failed_total 2",
        "selfsame_backup_made_total 1",
        r#"selfsame_audit_events_total{event="backup_begun",outcome="success"} 3"#,
    ] {
        assert!(metrics.contains(&format!("\n{sample}\n")), "{sample}: {metrics}");
    }
    for gauge in ["selfsame_backup_last_timestamp_seconds", "selfsame_backup_last_size_bytes"] {
        let sample = metrics.lines().find_map(|line| line.strip_prefix(gauge)).expect("a sample");
        assert!(sample.trim().parse::<f64>().expect("a number") > 0.0, "{gauge} {sample}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_made_only_in_a_missing_or_empty_folder() {
    let workplace = BackupWorkplace::new();
    let daemon = workplace.start("data");
    std::fs::create_dir(workplace.path("full")).expect("a folder");
    std::fs::write(workplace.path("full/file"), "kept").expect("written");
    std::fs::write(workplace.path("file"), "kept").expect("written");
    std::fs::create_dir(workplace.path("taken.unfinished")).expect("a folder");
    std::fs::write(workplace.path("taken.unfinished/mine"), "kept").expect("written");
    std::os::unix::fs::symlink(workplace.path("nowhere"), workplace.path("link")).expect("a link");
    let before = contents(&workplace.path("full"));
    for (target, expected) in [
        ("@full", "it is not empty; name a folder that is missing or empty"),
        ("@file", "there is something that is not a folder; name another one"),
        ("@link", "there is something that is not a folder; name another one"),
        ("@none/backup", "the folder that it is to be made in does not exist; make that one first"),
        ("@data/store/backup", "it is inside the store; name a folder elsewhere, best on another disk"),
        ("@data/../data/store/backup", "it is inside the store"),
        ("@backup.unfinished", "names that end with .unfinished are for folders that are not complete"),
        ("@taken", "it is in the way, and has \"mine\", which no backup has; remove it"),
        ("/", "it has no name; name a folder that does not exist"),
    ] {
        workplace.expect_refused(&["backup", target, "--data", "@data"], expected);
    }
    assert_eq!(contents(&workplace.path("full")), before);
    assert_eq!(workplace.names(), ["data", "file", "full", "link", "taken.unfinished"]);
    // A relative path counts from where the command runs; over HTTP there is no such place.
    let http = reqwest::Client::new();
    let post = |token: &str, body: Value| {
        http.post(format!("{}/backups", daemon.operator)).bearer_auth(token).json(&body).send()
    };
    let token = operator_token(&workplace.path("data"));
    for (token, body, status, expected) in [
        (&*token, json!({"folder": "backup"}), 400, "it must be an absolute path on the daemon's machine"),
        (&*token, json!({"path": "backup"}), 400, "folder"),
        ("wrong", json!({"folder": workplace.text("backup")}), 401, "this call needs `Authorization: Bearer`"),
    ] {
        let answer = post(token, body).await.expect("an answer");
        let (found, text) = (answer.status().as_u16(), answer.text().await.expect("text"));
        assert!(found == status && text.contains(expected), "{found} {text}");
    }
    assert!(!workplace.path("backup").exists());
    let request = http.get(format!("{}/backups/7", daemon.operator)).bearer_auth(token);
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), 404);
}

/// One backup is made at a time, and a stopping daemon ends it and leaves nothing of it.
#[cfg(feature = "fault-injection")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backups_are_made_one_at_a_time_and_end_with_the_daemon() {
    use selfsame_actors::faults::{Fault, FaultPoint, Plan};

    use crate::registry_client::RegistryClient;

    let client = RegistryClient::start().await;
    let elsewhere = crate::harness::folder();
    let stalled =
        Plan::for_instance(&client.daemon.instance).strike_always(FaultPoint::CheckpointAfter, Fault::Stall).run();
    let token = operator_token(client.folder.path());
    let begin = async |name: &str| {
        let body = json!({"folder": elsewhere.path().join(name)});
        let request = client.http.post(client.daemon.operator("/backups")).bearer_auth(&token).json(&body);
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.json::<Value>().await.expect("JSON"))
    };
    let first = begin("first").await;
    assert_eq!((first.0, &first.1["state"], &first.1["id"]), (202, &json!("running"), &json!(1)));
    in_time("the stall", stalled.struck(FaultPoint::CheckpointAfter, 1)).await;
    let second = begin("second").await;
    assert_eq!((second.0, &second.1["code"]), (409, &json!("conflict")), "{second:?}");
    let expected =
        format!("a backup is being made in {}; wait until it has ended", elsewhere.path().join("first").display());
    assert_eq!(second.1["message"], json!(expected));
    // The registry goes on meanwhile.
    client.assert_works().await;
    let address = client.daemon.addresses[Interface::Operator];
    let going_on = async {
        // The backup is told before the listeners close.
        until_true("the listener to close", async || TcpStream::connect(address).await.is_err()).await;
        drop(stalled);
    };
    tokio::join!(client.daemon.stop(), going_on);
    let left = std::fs::read_dir(elsewhere.path()).expect("a folder").count();
    assert_eq!(left, 0, "nothing is left of the backup");
}
