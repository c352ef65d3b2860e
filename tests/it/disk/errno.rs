//! System calls that fail with one error and then work again, below RocksDB: after each of them the
//! store takes writes again without a person, by itself or by a new start, and keeps what it
//! acknowledged. `errno.c` makes the calls fail. `docs/operations/incidents.md` has the table.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::io::Errno;

use super::{DiskTestDaemon, assert_sound, side_by_side};
use crate::harness::{Folder, folder, run, until};

/// A folder whose files can fail.
pub(super) struct FaultyDisk {
    folder: Folder,
}

impl FaultyDisk {
    pub(super) fn new() -> Self {
        let folder = folder();
        std::fs::create_dir(folder.path().join("disk")).expect("a folder");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/disk/errno.c");
        let mut compiler = Command::new("c++");
        compiler.args(["-x", "c", "-Wall", "-Wextra", "-shared", "-fPIC", "-O1", "-o"]);
        compiler.arg(folder.path().join("errno.so")).arg(source);
        assert!(compiler.status().expect("a C compiler, as RocksDB needs one").success(), "{compiler:?}");
        Self { folder }
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.path().join("disk/data")
    }

    /// A place beside the data folder whose files can fail, too.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join("disk").join(name)
    }

    /// Makes calls fail from now on: `write`, `fsync`, `create`, `allocate`, `truncate`, `rename`,
    /// `unlink`, `mkdir`, `link`, `chmod`, `bind`; those on some files only with their text behind
    /// the error, as `errno.c` says.
    fn fail(&self, calls: &[(&str, Errno)]) {
        self.fail_on(calls.iter().map(|(call, error)| (*call, *error, "")));
    }

    pub(super) fn fail_on<'a>(&self, calls: impl IntoIterator<Item = (&'a str, Errno, &'a str)>) {
        let line = |(call, error, files): (&str, Errno, &str)| format!("{call} {} {files}\n", error.raw_os_error());
        let lines: String = calls.into_iter().map(line).collect();
        let next = self.folder.path().join("faults.next");
        std::fs::write(&next, lines).expect("written");
        std::fs::rename(next, self.folder.path().join("faults")).expect("renamed");
    }

    /// How many calls have failed.
    pub(super) fn struck(&self) -> u64 {
        std::fs::metadata(self.folder.path().join("struck")).map_or(0, |file| file.len())
    }

    /// All calls work from now on.
    pub(super) fn mend(&self) {
        self.fail(&[]);
    }

    fn try_start(&self, variables: &[(&str, &str)]) -> Result<DiskTestDaemon, String> {
        self.start_or_refusal(variables).map_err(|(_, message)| message)
    }

    /// Starts a daemon whose write buffers are small, so that it makes files soon. A refusal has
    /// the exit status and the message.
    pub(super) fn start_or_refusal(&self, variables: &[(&str, &str)]) -> Result<DiskTestDaemon, (i32, String)> {
        let text = |path: PathBuf| path.to_str().expect("text").to_owned();
        let path = |name: &str| text(self.folder.path().join(name));
        let [library, faults, struck, disk] = ["errno.so", "faults", "struck", "disk"].map(path);
        let mut all = vec![
            ("LD_PRELOAD", library.as_str()),
            ("FAULTS", faults.as_str()),
            ("STRUCK", struck.as_str()),
            ("FAULTY_FOLDER", disk.as_str()),
            ("SELFSAME_STORAGE__WRITE_BUFFER_KIB", "64"),
            ("SELFSAME_STORAGE__LOG_MIB", "1"),
        ];
        all.extend(variables);
        DiskTestDaemon::start_or_refusal(&self.data(), &all)
    }

    pub(super) fn start(&self) -> DiskTestDaemon {
        self.try_start(&[]).unwrap_or_else(|message| panic!("the daemon refuses to start: {message}"))
    }
}

/// Waits until a line of the log has these texts: another thread writes the log.
async fn expect_log(daemon: &DiskTestDaemon, texts: &[&str]) {
    until("a line of the log", async || {
        let log = daemon.log.text();
        if log.lines().any(|line| texts.iter().all(|text| line.contains(text))) { Ok(()) } else { Err(log) }
    })
    .await;
}

/// How a store takes writes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Healed {
    ByItself,
    ByNewStart,
    /// RocksDB may resume, or not: it depends on which file the call was for.
    Either,
}

async fn assert_heals(call: &str, error: Errno, expected: Healed) {
    let disk = FaultyDisk::new();
    let daemon = disk.start();
    let mut accepted = daemon.create_first(3).await;
    disk.fail(&[(call, error)]);
    while let Some(request_id) = daemon.submit(accepted.len() as u64).await {
        accepted.push(request_id);
    }
    let case = format!("{call} {error}");
    until(format!("the report of {case}"), async || {
        let reasons = daemon.reasons().await;
        if reasons.iter().any(|reason| reason.starts_with("the store takes no writes: ")) {
            Ok(())
        } else {
            Err(reasons)
        }
    })
    .await;
    // The cause is there, so the daemon stays and reads.
    assert_eq!(daemon.root().await.status, 200, "{case}");
    assert_eq!(daemon.submit(accepted.len() as u64).await, None, "{case}");
    disk.mend();
    let healed = until(format!("a store that takes writes after {case}"), async || {
        match daemon.client.http.get(format!("{}/ready", daemon.operator)).send().await {
            Ok(answer) if answer.status().is_success() => Ok(Healed::ByItself),
            Ok(answer) => Err(answer.text().await.unwrap_or_default()),
            // It does not serve any more.
            Err(_) => Ok(Healed::ByNewStart),
        }
    })
    .await;
    assert!(expected == Healed::Either || healed == expected, "{case}: {healed:?}");
    let daemon = match healed {
        Healed::ByItself => daemon,
        _ => {
            let DiskTestDaemon { process, log, .. } = daemon;
            let status = process.wait();
            let text = log.text();
            assert!(status.code() == Some(75) && !text.contains("panicked"), "{case}: {status}: {text}");
            assert!(text.contains("the store takes no writes although its disk does"), "{case}: {text}");
            disk.start()
        }
    };
    daemon.wait_until_ready().await;
    accepted.push(daemon.submit(accepted.len() as u64).await.expect("accepted"));
    daemon.assert_each_final_once(&accepted).await;
    daemon.stop();
    assert_sound(&disk.data());
}

#[test]
fn each_error_of_a_write_heals_without_a_person() {
    let cases = [
        ("write", Errno::IO, Healed::ByNewStart),
        ("fsync", Errno::IO, Healed::ByNewStart),
        ("write", Errno::DQUOT, Healed::ByNewStart),
        ("write", Errno::ROFS, Healed::ByNewStart),
        ("create", Errno::MFILE, Healed::ByNewStart),
        ("create", Errno::NOSPC, Healed::Either),
        ("write", Errno::NOSPC, Healed::Either),
    ];
    side_by_side(cases.map(|(call, error, expected)| move || assert_heals(call, error, expected)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_copies_files_that_cannot_have_links() {
    for error in [Errno::PERM, Errno::MLINK, Errno::OPNOTSUPP, Errno::XDEV] {
        let disk = FaultyDisk::new();
        let daemon = disk.start();
        // Enough for several tables.
        daemon.create_first(100).await;
        disk.fail(&[("link", error)]);
        let text = |path: &Path| path.to_str().expect("text").to_owned();
        let (data, target) = (text(&disk.data()), text(&disk.folder.path().join("disk/backup")));
        let (is_made, said) = run(&["backup", &target, "--data", &data, "--operator", &daemon.operator]);
        assert!(is_made, "{error}: {said}");
        let (is_good, said) = run(&["backup", "verify", &target, "--deep"]);
        assert!(is_good, "{error}: {said}");
        assert!(!Path::new(&format!("{target}.unfinished")).exists());
        // RocksDB copies the files by itself after the others.
        if matches!(error, Errno::PERM | Errno::MLINK) {
            expect_log(&daemon, &["so they are copied"]).await;
        }
        daemon.submit(100).await.expect("accepted");
        daemon.stop();
    }
}

#[tokio::test]
async fn a_data_folder_without_unix_sockets_is_served_without_one() {
    let disk = FaultyDisk::new();
    for (call, error) in [("bind", Errno::OPNOTSUPP), ("bind", Errno::PERM), ("chmod", Errno::PERM)] {
        disk.fail(&[(call, error)]);
        let daemon = disk.start();
        daemon.submit(0).await.expect("accepted");
        expect_log(&daemon, &[&format!("{call} of "), "has no unix socket"]).await;
        assert!(!disk.data().join("operator.socket").exists());
        daemon.stop();
        // A place that is configured has to be usable.
        let socket = disk.folder.path().join("disk/socket").display().to_string();
        let refused = disk.try_start(&[("SELFSAME_OPERATOR__SOCKET", &socket)]).err().expect("refused");
        let parts = ["operator.socket: ", &format!("{call} of {socket}: "), "operator.socket = \"off\""];
        assert!(parts.iter().all(|part| refused.contains(part)), "{refused}");
        disk.mend();
    }
}

#[tokio::test]
async fn a_start_without_room_says_whether_the_disk_or_a_quota_is_used_up() {
    for (error, expected) in [(Errno::NOSPC, "the disk is full"), (Errno::DQUOT, "the quota of the daemon's user")] {
        let disk = FaultyDisk::new();
        let daemon = disk.start();
        daemon.submit(0).await.expect("accepted");
        daemon.kill();
        disk.fail(&[("write", error)]);
        let refused = disk.try_start(&[]).err().expect("refused");
        assert!(refused.contains("cannot open the store in ") && refused.contains(expected), "{refused}");
        disk.mend();
        disk.start().stop();
    }
}
