//! Migrations of a golden store by the program: kills, commands, backups.

use std::path::Path;

use selfsame::backup::Manifest;
use selfsame_protocol::B256;
use selfsame_storage::{OLDEST_MIGRATABLE, SCHEMA_VERSION};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::asking::Expected;
use super::{assert_sound, names, unpacked};
use crate::harness::{DaemonProcess, copy_folder, refused_start, run, run_for_status};

fn store_info(data: &Path) -> Value {
    let (success, text) = run(&["store", "info", "--json", "--data", &data.display().to_string()]);
    assert!(success, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

/// Starts a daemon that leaves the queue alone, and stops it.
fn start_and_stop(data: &Path) {
    let daemon = DaemonProcess::start(
        data,
        &["--clock", "2027-01-15T08:01:00Z"],
        &[("SELFSAME_BATCHER__MIN_WAIT", "10s"), ("SELFSAME_BATCHER__MAX_WAIT", "10s")],
    );
    assert!(daemon.terminate().success());
}

#[test]
fn the_commands_say_what_an_old_store_needs() {
    let (_folder, data, Expected { answers, .. }) = unpacked(OLDEST_MIGRATABLE);
    let text = data.display().to_string();
    let info = store_info(&data);
    assert_eq!(info["schema_version"], OLDEST_MIGRATABLE);
    assert_eq!(info["program_schema_version"], SCHEMA_VERSION);
    assert_eq!((&info["oldest_migratable"], &info["migration"]), (&OLDEST_MIGRATABLE.into(), &"at_next_start".into()));
    assert_eq!(info["ledger_height"], answers["head"]["height"]);
    let (success, shown) = run(&["store", "info", "--data", &text]);
    let expected = format!(
        "schema version {OLDEST_MIGRATABLE} (this program reads {SCHEMA_VERSION}, and migrates from {OLDEST_MIGRATABLE} \
         on: the next start of the daemon migrates the store)\n"
    );
    assert!(success && shown.starts_with(&expected), "{shown}");
    let before = names(&data);
    for command in [&["registry", "fsck"][..], &["registry", "rebuild"], &["keys", "revoke", "--all"]] {
        let (success, refusal) = run(&[command, &["--data", &text]].concat());
        let remedy = "; start the daemon once, which migrates the store\n";
        assert!(!success && refusal.ends_with(remedy), "{command:?}: {refusal}");
    }
    assert_eq!(names(&data), before, "nothing was changed");
}

/// A kill before, between and after the writes of a migration leaves a store that the next start
/// goes on with.
#[cfg(feature = "fault-injection")]
#[test]
fn a_migration_that_is_killed_is_continued_by_the_next_start() {
    use std::process::Stdio;

    // From schema 4 on: the code of contracts, four schemas, places, requests, what follows from
    // them, two families that go, accounts, and the last schema.
    const WRITES: usize = 12;
    let plan = |point: &str, visits: usize| match visits {
        0 => format!("migration.{point}=return(crash)"),
        _ => format!("migration.{point}={visits}*off->return(crash)"),
    };
    let written = (0..WRITES).map(|visits| plan("written", visits));
    let (copied, last) = (plan("copied", 0), plan("written", WRITES - 1));
    for plan in [copied.clone(), plan("marked", 0)].into_iter().chain(written) {
        let (_folder, data, _) = unpacked(OLDEST_MIGRATABLE);
        let started = DaemonProcess::try_start(&data, &[], &[("FAILPOINTS", &plan)], Stdio::null());
        assert!(started.is_err(), "{plan}: the daemon is killed");
        let info = store_info(&data);
        let expected = match &plan {
            plan if *plan == copied => "at_next_start",
            plan if *plan == last => "none",
            _ => "interrupted",
        };
        assert_eq!(info["migration"], expected, "{plan}");
        start_and_stop(&data);
        let beside: Vec<_> = names(&data).into_iter().filter(|name| name.starts_with("store")).collect();
        assert_eq!(beside, ["store", "store.schema-4"], "{plan}");
        assert_eq!(store_info(&data)["schema_version"], SCHEMA_VERSION, "{plan}");
        assert_sound(&data);
    }
}

/// The program that made the store can go back to the copy: it has no family that came later.
#[test]
fn the_copy_that_a_migration_keeps_has_only_the_old_families() {
    let family_names = |info: &Value| -> Vec<String> {
        let families = info["families"].as_array().expect("a list").iter();
        families.map(|family| family["name"].as_str().expect("a name").to_owned()).collect()
    };
    for schema in OLDEST_MIGRATABLE..SCHEMA_VERSION {
        let (folder, data, _) = unpacked(schema);
        let before = store_info(&data);
        start_and_stop(&data);
        let back = folder.path().join("back");
        copy_folder(&data.join(format!("store.schema-{schema}")), &back.join("store"));
        let kept = store_info(&back);
        assert_eq!(kept["schema_version"], schema);
        assert_eq!(family_names(&kept), family_names(&before), "schema {schema}");
        assert!(family_names(&store_info(&data)).contains(&"event_log".to_owned()), "schema {schema}");
    }
}

/// A backup of a golden store, as the program that made the store makes it.
fn back_up(data: &Path, backup: &Path) {
    copy_folder(&data.join("store"), &backup.join("store"));
    let info = store_info(data);
    let number = |name: &str| info[name].as_u64().expect("a number");
    let mut files = std::collections::BTreeMap::new();
    for name in names(&backup.join("store")) {
        let content = std::fs::read(backup.join("store").join(&name)).expect("read");
        let digest = serde_json::json!({
            "size": content.len(), "sha256": B256::from_slice(&Sha256::digest(&content)),
        });
        files.insert(format!("store/{name}"), digest);
    }
    let manifest = serde_json::json!({
        "format": 1, "program_version": "0.1.0", "schema_version": number("schema_version"),
        "chain_id": number("chain_id"), "verifying_contract": info["verifying_contract"],
        "ledger_height": number("ledger_height"), "last_block_hash": info["last_block_hash"],
        "applied_height": number("applied_height"), "made_at": "2027-01-15T08:01:00Z", "files": files,
        "digest": B256::ZERO,
    });
    let mut manifest: Manifest = serde_json::from_value(manifest).expect("a manifest");
    manifest.digest = B256::from_slice(&Sha256::digest(serde_json::to_vec(&manifest).expect("JSON")));
    std::fs::write(backup.join("manifest.json"), serde_json::to_vec(&manifest).expect("JSON")).expect("written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_an_older_schema_is_checked_and_restored() {
    let (folder, data, _) = unpacked(OLDEST_MIGRATABLE);
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::create_dir(folder.path().join("backup")).expect("a folder");
    back_up(&data, &folder.path().join("backup"));
    let (success, text) = run(&["backup", "verify", &path("backup"), "--json"]);
    let checked: Value = serde_json::from_str(&text).expect("JSON");
    assert!(success && checked["problems"] == serde_json::json!([]), "{text}");
    assert_eq!(checked["backup"]["schema_version"], OLDEST_MIGRATABLE);
    let (status, text) = run_for_status(&["backup", "verify", &path("backup"), "--deep"], &[]);
    let remedy = "restore the backup, which migrates the copy, and check that with `selfsame registry fsck`";
    assert!(status.code() == Some(1) && text.contains(remedy), "{text}");

    let (success, text) = run(&["restore", &path("backup"), "--data", &path("restored")]);
    assert!(success, "{text}");
    let restored = folder.path().join("restored");
    assert_eq!(store_info(&restored)["schema_version"], SCHEMA_VERSION);
    let message = refused_start(&restored, &[]).await;
    assert!(message.contains("it is not confirmed which block clients have seen last"), "{message}");
    let height = store_info(&restored)["ledger_height"].to_string();
    let (success, text) =
        run(&["restore", &path("backup"), "--data", &path("restored"), "--clients-have-seen", &height]);
    assert!(success, "{text}");
    start_and_stop(&restored);
    assert_sound(&restored);
    assert!(!names(&restored).contains(&"store.schema-4".to_owned()), "the backup is the copy");
}
