//! Damaged backups, each with its message.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use selfsame::backup::{FileDigest, Manifest};
use selfsame_protocol::B256;
#[cfg(feature = "fault-injection")]
use selfsame_storage::{Layout, SCHEMA_DRAFT, Store};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{BackupWorkplace, contents, expect_final, submit};
use crate::harness::{DaemonProcess, copy_folder, write_secret};

/// Changes a manifest and gives it the digest of its new content.
fn reseal(backup: &Path, change: impl FnOnce(&mut Manifest)) {
    let mut manifest = Manifest::read(backup).expect("a manifest");
    change(&mut manifest);
    // The HMAC is over the digest, and stays as it was.
    let mac = manifest.mac.take();
    manifest.digest = B256::ZERO;
    manifest.digest = B256::from_slice(&Sha256::digest(serde_json::to_vec(&manifest).expect("JSON")));
    manifest.mac = mac;
    std::fs::write(backup.join("manifest.json"), serde_json::to_vec(&manifest).expect("JSON")).expect("written");
}

/// The first file of a backup's store with an ending.
fn stored(backup: &Path, ending: &str) -> std::path::PathBuf {
    let mut found: Vec<_> = std::fs::read_dir(backup.join("store"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    found.sort();
    found.swap_remove(0)
}

fn flip_byte(path: &Path) {
    let mut bytes = std::fs::read(path).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).expect("written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_damage_of_a_backup_is_a_problem_of_its_own() {
    let workplace = BackupWorkplace::new();
    let http = reqwest::Client::new();
    let daemon = workplace.start("data");
    let request_id = submit(&http, &daemon.gateway, 0).await.expect("accepted");
    expect_final(&http, &daemon.gateway, &request_id).await;
    workplace.back_up("data", "older");
    let request_id = submit(&http, &daemon.gateway, 1).await.expect("accepted");
    expect_final(&http, &daemon.gateway, &request_id).await;
    workplace.back_up("data", "good");
    daemon.kill();

    type Damage = fn(&Path);
    let table: &[(&str, Damage, &[&str])] = &[
        (
            "a missing file of the store",
            |backup| std::fs::remove_file(stored(backup, ".sst")).expect("removed"),
            &["store/", ".sst is missing"],
        ),
        (
            "a missing secret",
            |backup| std::fs::remove_file(backup.join("audit.key")).expect("removed"),
            &["audit.key is missing"],
        ),
        (
            "a changed byte",
            |backup| flip_byte(&stored(backup, ".sst")),
            &["store/", ".sst was changed: its SHA-256 is ", ", the manifest has "],
        ),
        (
            "a shorter file",
            |backup| {
                let file = stored(backup, ".sst");
                let bytes = std::fs::read(&file).expect("read");
                std::fs::write(file, &bytes[1..]).expect("written");
            },
            &[".sst has ", " bytes, the manifest has "],
        ),
        (
            "a surplus file",
            |backup| std::fs::write(backup.join("store/999999.sst"), "x").expect("written"),
            &["store/999999.sst is not in the manifest"],
        ),
        (
            "a surplus link",
            |backup| std::os::unix::fs::symlink("/etc/passwd", backup.join("passwd")).expect("a link"),
            &["passwd is neither a file nor a folder"],
        ),
        (
            "no manifest",
            |backup| std::fs::remove_file(backup.join("manifest.json")).expect("removed"),
            &["manifest.json is missing: the backup was not completed, or the folder is not a backup"],
        ),
        (
            "a manifest with another height",
            |backup| {
                let path = backup.join("manifest.json");
                let text = std::fs::read_to_string(&path).expect("read");
                std::fs::write(path, text.replace("\"ledger_height\": 2", "\"ledger_height\": 3")).expect("written");
            },
            &["manifest.json: it was changed: it does not have the digest that it names"],
        ),
        (
            "a manifest that is cut off",
            |backup| {
                let path = backup.join("manifest.json");
                let text = std::fs::read(&path).expect("read");
                std::fs::write(path, &text[..text.len() / 2]).expect("written");
            },
            &["manifest.json: EOF while parsing"],
        ),
        (
            "another format",
            |backup| {
                let path = backup.join("manifest.json");
                let text = std::fs::read_to_string(&path).expect("read");
                std::fs::write(path, text.replace("\"format\": 2", "\"format\": 3")).expect("written");
            },
            &["manifest.json has format 3, this program reads format 2; use the program that wrote it"],
        ),
        (
            "another schema",
            |backup| reseal(backup, |manifest| manifest.schema_version = 99),
            &[
                "the store of the backup has schema 99, and this program reads schema 0; use the build of selfsame 0.1.0 that \
                 made it",
            ],
        ),
        #[cfg(feature = "fault-injection")]
        (
            "the store of a build with another format",
            |backup| {
                let store = backup.join("store");
                let other = Layout { draft: Some(SCHEMA_DRAFT + 1), ..Layout::PRESENT };
                Store::pretend_layout(&store, other).expect("written");
                let files = std::fs::read_dir(&store).expect("a folder").map(|entry| {
                    let path = entry.expect("an entry").path();
                    let content = std::fs::read(&path).expect("read");
                    let digest =
                        FileDigest { size: content.len() as u64, sha256: B256::from_slice(&Sha256::digest(content)) };
                    (format!("store/{}", path.file_name().expect("a name").to_string_lossy()), digest)
                });
                let files: Vec<_> = files.collect();
                reseal(backup, |manifest| {
                    manifest.files.retain(|name, _| !name.starts_with("store/"));
                    manifest.files.extend(files);
                });
            },
            &[
                "the store has schema 0, draft ",
                ", and this program reads schema 0, draft ",
                " alone; start with an empty",
            ],
        ),
        (
            "a manifest that is forged",
            |backup| reseal(backup, |manifest| manifest.ledger_height = 7),
            &["the store of the backup has ledger height 2, the manifest has 7"],
        ),
        (
            "the store of another backup",
            |backup| {
                let older = backup.with_file_name("older");
                std::fs::remove_dir_all(backup.join("store")).expect("removed");
                copy_folder(&older.join("store"), &backup.join("store"));
                let files = Manifest::read(&older).expect("a manifest").files;
                reseal(backup, |manifest| manifest.files = files);
            },
            &[
                "the store of the backup has ledger height 1, the manifest has 2",
                "last block hash 0x",
                "applied height 1",
            ],
        ),
    ];
    for &(what, damage, expected) in table {
        copy_folder(&workplace.path("good"), &workplace.path("bad"));
        assert!(workplace.run_ok(&["backup", "verify", "@bad"]).ends_with("\n0 problems\n"), "{what}: a copy is good");
        damage(&workplace.path("bad"));
        let before = contents(&workplace.path("bad"));
        let (status, text) = workplace.run(&["backup", "verify", "@bad"]);
        assert_eq!(status, 1, "{what}: {text}");
        for part in expected {
            assert!(text.contains(part), "{what}: {text:?} should contain {part:?}");
        }
        // The same problems keep it from being restored, and nothing is left of the attempt.
        let (status, text) = workplace.run(&["restore", "@bad", "--data", "@restored"]);
        assert_eq!(status, 1, "{what}: {text}");
        for part in expected.iter().chain(&["is not restored, because it is not as it was made:\n"]) {
            assert!(text.contains(part), "{what}: {text:?} should contain {part:?}");
        }
        assert_eq!(workplace.names(), ["bad", "data", "good", "older"], "{what}");
        assert_eq!(contents(&workplace.path("bad")), before, "{what}");
        std::fs::remove_dir_all(workplace.path("bad")).expect("removed");
    }
    workplace.expect_refused(&["backup", "verify", "@nowhere"], "manifest.json is missing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_prints_its_result_for_programs() {
    let workplace = BackupWorkplace::new();
    let daemon = workplace.start("data");
    workplace.back_up("data", "backup");
    daemon.kill();
    let check = |expected: i32| {
        let (status, text) = workplace.run(&["backup", "verify", "@backup", "--deep", "--json"]);
        assert_eq!(status, expected, "{text}");
        serde_json::from_str::<Value>(&text).expect("nothing but JSON")
    };
    let good = check(0);
    assert_eq!(good["problems"], serde_json::json!([]));
    let manifest = Manifest::read(&workplace.path("backup")).expect("a manifest");
    let backup = &good["backup"];
    assert_eq!((&backup["files"], &backup["size"]), (&manifest.files.len().into(), &manifest.total_size().into()));
    assert_eq!(backup["made_at"], manifest.made_at);
    std::fs::remove_file(workplace.path("backup/audit.key")).expect("removed");
    assert_eq!(check(1)["problems"], serde_json::json!(["audit.key is missing"]));
    std::fs::remove_file(workplace.path("backup/manifest.json")).expect("removed");
    assert_eq!(check(1)["backup"], Value::Null);
}

/// `--deep` finds what the digests cannot: a store that was damaged before the backup was made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deep_check_rebuilds_the_store_of_the_backup() {
    let workplace = BackupWorkplace::new();
    let http = reqwest::Client::new();
    let daemon = workplace.start("data");
    let request_id = submit(&http, &daemon.gateway, 0).await.expect("accepted");
    expect_final(&http, &daemon.gateway, &request_id).await;
    daemon.kill();
    // Two queued requests hold one lock, which a daemon never admits.
    crate::commands::queue_two_requests_with_one_lock(&workplace.path("data"));
    let variables = [("SELFSAME_BATCHER__MIN_WAIT", "10s"), ("SELFSAME_BATCHER__MAX_WAIT", "10s")];
    let daemon = crate::harness::DaemonProcess::start(&workplace.path("data"), &[], &variables);
    workplace.back_up("data", "backup");
    daemon.kill();
    assert!(workplace.run_ok(&["backup", "verify", "@backup"]).ends_with("\n0 problems\n"));
    std::fs::create_dir(workplace.path("scratch")).expect("a folder");
    let before = contents(&workplace.path("backup"));
    for more in [&[][..], &["--scratch", "@scratch"]] {
        let (status, text) = workplace.run(&[&["backup", "verify", "@backup", "--deep"], more].concat());
        assert!(status == 1 && text.contains("both hold the lock on"), "{status} {text}");
    }
    assert_eq!(contents(&workplace.path("backup")), before);
    assert_eq!(std::fs::read_dir(workplace.path("scratch")).expect("a folder").count(), 0);
    assert_eq!(workplace.names(), ["backup", "data", "scratch"]);
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(workplace.path("backup/manifest.json")).expect("read")).expect("JSON");
    assert_eq!(manifest["ledger_height"], 1, "{manifest}");
}

/// Who can write backups and does not have the key cannot have one restored in the place of
/// another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_a_daemon_with_another_key_or_none_is_not_taken_for_a_genuine_one() {
    let workplace = BackupWorkplace::new();
    for (name, byte) in [("own.key", "0f"), ("other.key", "1f")] {
        write_secret(&workplace.path(name), byte.repeat(32));
    }
    for (data, key) in [("genuine", Some("own.key")), ("other", Some("other.key")), ("none", None)] {
        let key = key.map(|key| ("SELFSAME_SIGN_IN__KEY_ENCRYPTION_KEY_FILE", workplace.text(key)));
        let variables: Vec<(&str, &str)> = key.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let daemon = DaemonProcess::start(&workplace.path(data), &[], &variables);
        workplace.back_up(data, &format!("backup-{data}"));
        daemon.kill();
    }
    // The HMAC of a genuine backup under the files of another one.
    let manifest = |name: &str| workplace.path(&format!("backup-{name}/manifest.json"));
    let read = |name| serde_json::from_slice::<Value>(&std::fs::read(manifest(name)).expect("read")).expect("JSON");
    let (genuine, mut forged) = (read("genuine"), read("none"));
    assert!(genuine["mac"].is_string() && forged["mac"].is_null(), "{genuine} {forged}");
    let with_key = ["--key-encryption-key-file", "@own.key"];
    let verify = |name: &str, more: &[&str]| workplace.run(&[&["backup", "verify", name], more].concat());
    let (status, text) = verify("@backup-genuine", &with_key);
    assert_eq!((status, text.ends_with("\nmade by a daemon with this key\n0 problems\n")), (0, true), "{text}");
    let (status, text) = verify("@backup-genuine", &[]);
    assert!(
        status == 0 && text.contains("\nauthenticated, and not checked: give --key-encryption-key-file\n"),
        "{text}"
    );
    let (status, text) = verify("@backup-none", &[]);
    assert!(
        status == 0 && text.contains("\nnot authenticated: who can write the files could have made them\n"),
        "{text}"
    );
    let expect_refused = |name: &str, reason: &str| {
        let (status, text) = verify(name, &with_key);
        assert_eq!((status, text.contains(reason)), (1, true), "{text}");
        let restore = ["restore", name, "--data", "@restored"];
        workplace.expect_refused(&[&restore[..], &with_key].concat(), reason);
        assert!(!workplace.path("restored").exists(), "{name}");
    };
    expect_refused("@backup-other", "does not have the HMAC of this key");
    expect_refused("@backup-none", "has no HMAC");
    forged["mac"] = genuine["mac"].clone();
    std::fs::write(manifest("none"), forged.to_string()).expect("written");
    expect_refused("@backup-none", "does not have the HMAC of this key");
    // A changed file, and a manifest that goes with it.
    copy_folder(&workplace.path("backup-genuine"), &workplace.path("backup-changed"));
    std::fs::write(workplace.path("backup-changed/audit.key"), "00".repeat(32)).expect("written");
    let size = 64;
    let sha256 = B256::from_slice(&Sha256::digest("00".repeat(32)));
    reseal(&workplace.path("backup-changed"), |manifest| {
        manifest.files.insert("audit.key".to_owned(), FileDigest { size, sha256 });
    });
    assert_eq!(verify("@backup-changed", &[]).0, 0, "nothing but the key tells");
    expect_refused("@backup-changed", "does not have the HMAC of this key");
    let restore = ["restore", "@backup-genuine", "--data", "@restored"];
    workplace.run_ok(&[&restore[..], &with_key].concat());
    // The key's file is a secret, like the daemon's.
    std::fs::set_permissions(workplace.path("own.key"), Permissions::from_mode(0o644)).expect("set");
    let (status, text) = verify("@backup-genuine", &with_key);
    assert!(status != 0 && text.contains("chmod 600"), "{text}");
}
