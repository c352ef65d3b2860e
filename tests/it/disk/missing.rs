//! Files that are missing, that are not files, or that cannot be opened: the daemon refuses to
//! start and says why.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use selfsame::daemon::store_folder;
use tokio::task::block_in_place;

use super::{DiskTestDaemon, assert_sound, copy, fsck, store_files};
use crate::harness::{Folder, PATIENCE, folder};

/// The data folder of a daemon that has created three accounts and ended; the log is empty.
async fn data_with_accounts() -> Folder {
    let data = folder();
    let daemon = DiskTestDaemon::start(data.path());
    for number in 0..3 {
        daemon.wait_until_final(&daemon.submit(number).await.expect("accepted")).await;
    }
    daemon.kill();
    DiskTestDaemon::start(data.path()).stop();
    assert_sound(data.path());
    data
}

fn refusal(data: &Path) -> String {
    match DiskTestDaemon::try_start(data, &[]) {
        Ok(_) => panic!("the daemon serves"),
        Err(message) => message,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_lacks_a_file_is_refused() {
    let lived = data_with_accounts().await;
    type Change = fn(&Path);
    let table: [(&str, Change, &str); 7] = [
        (
            "the list of files",
            |data| store_files(data, "").iter().filter(|file| is_list(file)).for_each(|file| delete(file)),
            "No such file or directory",
        ),
        ("the name of the list is empty", |data| write(&store_folder(data).join("CURRENT"), ""), "CURRENT"),
        (
            "the list of files is empty",
            |data| store_files(data, "").iter().filter(|file| is_list(file)).for_each(|file| write(file, "")),
            "Corruption",
        ),
        ("the first file of records", |data| delete(&store_files(data, ".sst")[0]), "No such file or directory"),
        (
            "the last file of records",
            |data| delete(store_files(data, ".sst").last().expect("a file")),
            "No such file or directory",
        ),
        (
            "the end of a file of records",
            |data| {
                let file = &store_files(data, ".sst")[0];
                let bytes = std::fs::read(file).expect("read");
                std::fs::write(file, &bytes[..bytes.len() - 1]).expect("written");
            },
            "Corruption",
        ),
        (
            "the store is a file",
            |data| {
                std::fs::remove_dir_all(store_folder(data)).expect("removed");
                write(&store_folder(data), "");
            },
            "File exists",
        ),
    ];
    for (what, change, expected) in table {
        let copied = copy(lived.path());
        change(copied.path());
        // A second start refuses too.
        for _ in 0..2 {
            let message = refusal(copied.path());
            assert!(message.starts_with("selfsame: ") && message.contains(expected), "{what}: {message}");
            assert!(message.contains(&copied.path().display().to_string()), "{what}: {message}");
        }
        let (is_sound, text) = fsck(copied.path());
        assert!(!is_sound && text.contains(expected), "{what}: {text}");
    }
    let file = folder();
    let path = file.path().join("data");
    write(&path, "");
    let message = refusal(&path);
    assert!(message.ends_with(&format!("data_dir: {} is not a folder", path.display())), "{message}");
}

fn is_list(file: &Path) -> bool {
    file.to_string_lossy().contains("MANIFEST-")
}

fn delete(file: &Path) {
    std::fs::remove_file(file).expect("removed");
}

fn write(file: &Path, text: &str) {
    std::fs::write(file, text).expect("written");
}

/// RocksDB takes a folder without the file that names the list of files for a new store, and
/// deletes the files that it does not expect. A supervisor that restarts the daemon must not turn
/// the store into an empty registry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_its_current_file_is_not_replaced_by_an_empty_one() {
    let lived = data_with_accounts().await;
    let copied = copy(lived.path());
    let current = store_folder(copied.path()).join("CURRENT");
    let text = std::fs::read_to_string(&current).expect("read");
    let records = store_files(copied.path(), ".sst");
    delete(&current);
    for time in 1..=3 {
        match DiskTestDaemon::try_start(copied.path(), &[]) {
            Ok(daemon) => panic!("start {time} serves {} accounts of 3", daemon.accounts().await),
            Err(message) => assert!(message.contains("cannot open the store"), "{message}"),
        }
        assert!(!fsck(copied.path()).0);
        assert_eq!(store_files(copied.path(), ".sst"), records, "start {time}");
    }
    write(&current, &text);
    let daemon = DiskTestDaemon::start(copied.path());
    assert_eq!(daemon.accounts().await, 3);
    daemon.stop();
    assert_sound(copied.path());
}

/// Runs a daemon for which file permissions count, even when root runs the tests; it must refuse to
/// start.
fn refusal_without_privileges(data: &Path) -> String {
    // `timeout` ends a daemon that does not end; the exit status shows it.
    let mut command = Command::new("timeout");
    command.arg(PATIENCE.as_secs().to_string());
    let is_root = std::fs::metadata("/proc/self").expect("this process").uid() == 0;
    if is_root {
        command.args(["setpriv", "--bounding-set=-all", "--inh-caps=-all"]);
    }
    command.args([env!("CARGO_BIN_EXE_selfsame"), "serve", "--dev", "--data"]).arg(data);
    for interface in ["GATEWAY", "INDEXER", "OPERATOR", "VERIFY", "SIGN_IN", "BRIDGE", "WALLET"] {
        command.env(format!("SELFSAME_LISTEN__{interface}"), "127.0.0.1:0");
    }
    let output = command.output().expect("the program runs");
    // The permission is still missing after a restart.
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned()
}

fn set_rights(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("permissions are set");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_cannot_be_opened_is_refused() {
    let data = folder();
    set_rights(data.path(), 0o500);
    let message = refusal_without_privileges(data.path());
    assert!(message.contains("Permission denied"), "{message}");
    assert!(message.contains(&data.path().display().to_string()), "{message}");
    set_rights(data.path(), 0o700);

    let lived = data_with_accounts().await;
    for file in [store_folder(lived.path()).join("LOCK"), store_files(lived.path(), ".sst")[0].clone()] {
        set_rights(&file, 0o000);
        let message = refusal_without_privileges(lived.path());
        assert!(message.contains("Permission denied"), "{message}");
        assert!(message.contains(&file.display().to_string()), "{message}");
        set_rights(&file, 0o600);
    }
    // Only root can change the owner of a file.
    const OTHER_USER: u32 = 12345;
    if chown(store_folder(lived.path()), Some(OTHER_USER), Some(OTHER_USER)).is_ok() {
        let message = refusal_without_privileges(lived.path());
        assert!(message.contains("Permission denied"), "{message}");
        assert!(message.contains(&lived.path().display().to_string()), "{message}");
    } else {
        eprintln!("SKIPPED: a store of another user; only root can make one");
    }
    assert_sound(lived.path());
}

/// The next start would find none of what was acknowledged from then on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_store_is_taken_away_ends() {
    type Change = fn(&Path, &Path);
    let changes: [(&str, Change); 4] = [
        ("the store is removed", |data, _| std::fs::remove_dir_all(store_folder(data)).expect("removed")),
        ("the data folder is removed", |data, _| std::fs::remove_dir_all(data).expect("removed")),
        ("the data folder is renamed", |data, other| std::fs::rename(data, other).expect("renamed")),
        ("the data folder is replaced by a copy", |data, other| {
            std::fs::rename(data, other).expect("renamed");
            let copied = Command::new("cp").arg("-r").args([other, data]).status().expect("cp runs");
            assert!(copied.success());
        }),
    ];
    for (what, change) in changes {
        let folder = folder();
        let (data, other) = (folder.path().join("data"), folder.path().join("other"));
        let daemon = DiskTestDaemon::start(&data);
        daemon.wait_until_final(&daemon.submit(1).await.expect("accepted")).await;
        change(&data, &other);
        let status = block_in_place(|| daemon.process.wait());
        let log = daemon.log.text();
        assert_eq!(status.code(), Some(78), "{what}: {log}");
        let last = log.lines().last().unwrap_or_default();
        let expected = format!("selfsame: the store's folder {} was removed", store_folder(&data).display());
        assert!(last.starts_with(&expected), "{what}: {last}");
        if other.exists() {
            // Nothing that was acknowledged before is lost.
            let daemon = DiskTestDaemon::start(&other);
            assert_eq!(daemon.accounts().await, 1, "{what}");
            daemon.stop();
        }
    }
}

/// A disk that is not mounted, or a folder that was removed, must not become an empty registry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_folder_whose_store_is_gone_is_refused() {
    let lived = data_with_accounts().await;
    let (token, audit_key) = (lived.path().join("operator.token"), lived.path().join("audit.key"));
    std::fs::remove_dir_all(store_folder(lived.path())).expect("removed");
    let expect_refusal = |left: &Path| {
        let message = refusal(lived.path());
        let expected = format!(
            "selfsame: {} is there, so this data folder had a store, and {} has none",
            left.display(),
            store_folder(lived.path()).display()
        );
        assert!(message.starts_with(&expected), "{message}");
    };
    expect_refusal(&token);
    assert!(store_folder(lived.path()).is_dir(), "an empty folder, as of a mount: it is refused, too");
    expect_refusal(&token);
    delete(&token);
    expect_refusal(&audit_key);
    delete(&audit_key);
    let daemon = DiskTestDaemon::start(lived.path());
    assert_eq!(daemon.accounts().await, 0);
    daemon.stop();
}
