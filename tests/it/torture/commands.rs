//! Power that fails while a backup is made, while one is restored, and during a rebuild: what was
//! reported as done is there afterwards, and what was not can be done again.
//!
//! A round runs the command until it dies at a random line of the journal of `power_loss.c`, or
//! ends. Then the power fails.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use super::USUAL_KILLS;
use super::choices::CrashChoices;
use super::power_loss::UnreliableDisk;
use crate::harness::{DaemonProcess, Folder, folder, run_for_status, seeds, variable};
use crate::test_accounts::{create, key, registry};

/// The accounts of the store.
const ACCOUNTS: usize = 3;

/// A disk with the data folder of a daemon, which ran and was stopped.
struct Workplace {
    disk: UnreliableDisk,
    choices: CrashChoices,
    seed: u64,
    folder: Folder,
}

impl Workplace {
    async fn new(name: &str, seed: u64) -> Self {
        let folder = folder();
        let disk = UnreliableDisk::new(folder.path());
        let mut workplace = Self { disk, choices: CrashChoices::of(seed, name), seed, folder };
        let process = DaemonProcess::start(&workplace.path("data"), &[], &[]);
        let client = registry(process.client()).await;
        for number in 0..ACCOUNTS {
            create(&client, &key(&format!("account {number}")), key("agent").address()).await;
        }
        let made = workplace.run(&["backup", "@backup", "--data", "@data"], None);
        assert!(made.0.success(), "{}", made.1);
        assert!(process.terminate().success());
        workplace.disk.begin_again();
        workplace
    }

    fn rounds() -> usize {
        variable("TEST_TORTURE_KILLS").unwrap_or(USUAL_KILLS)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.disk.path().join(name)
    }

    /// Runs `selfsame` on the disk; names that begin with `@` are on it. With `death` the process
    /// dies at that line of the journal.
    fn run(&self, arguments: &[&str], death: Option<usize>) -> (ExitStatus, String) {
        let text = |argument: &&str| match argument.strip_prefix('@') {
            Some(name) => self.path(name).to_str().expect("text").to_owned(),
            None => (*argument).to_owned(),
        };
        let arguments: Vec<String> = arguments.iter().map(text).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let variables = self.disk.variables(death);
        let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        run_for_status(&arguments, &variables)
    }

    /// Runs a command that must succeed.
    #[track_caller]
    fn run_ok(&self, arguments: &[&str]) -> String {
        let (status, text) = self.run(arguments, None);
        assert!(status.success(), "with seed {}, {arguments:?} ends with {status}: {text}", self.seed);
        text
    }

    /// A line of the journal at which a process dies, when it writes so many.
    fn death(&mut self, lines: usize) -> Option<usize> {
        // Some live to the end.
        Some(1 + self.choices.below(lines + lines / 4 + 1))
    }

    fn lose_power(&mut self) {
        self.disk.lose_power(&mut self.choices);
    }

    #[track_caller]
    fn expect_sound(&self, data: &str) {
        let text = self.run_ok(&["registry", "fsck", "--data", data]);
        assert!(text.contains(&format!(" {ACCOUNTS} accounts, ")) && text.contains(", 0 findings"), "{text}");
    }

    /// Whether a folder is there and has something in it.
    fn has(&self, name: &str) -> bool {
        std::fs::read_dir(self.path(name)).is_ok_and(|mut entries| entries.next().is_some())
    }

    fn remove(&mut self, name: &str) {
        let path = self.path(name);
        if path.exists() {
            std::fs::remove_dir_all(path).expect("removed");
        }
        self.disk.begin_again();
    }

    /// The names in a folder.
    fn names(&self, folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("a folder");
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
        entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect()
    }

    /// Says what was lost; without a loss the test has shown nothing.
    fn finish(self) {
        eprintln!("{} ({} files on the disk)", self.disk.losses, self.names(&self.disk.path()).len());
        assert!(self.disk.losses.times > 0);
        drop(self.folder);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_that_loses_power_goes_on() {
    for seed in seeds("torture", "commands::a_rebuild_that_loses_power_goes_on") {
        let mut workplace = Workplace::new("rebuilds", seed).await;
        let rebuild = ["registry", "rebuild", "--data", "@data"];
        workplace.run_ok(&rebuild);
        let lines = workplace.disk.journal_lines();
        workplace.disk.begin_again();
        for _ in 0..Workplace::rounds() {
            let death = workplace.death(lines);
            let (status, text) = workplace.run(&rebuild, death);
            workplace.lose_power();
            if status.success() {
                workplace.expect_sound("@data");
            } else {
                assert_eq!(status.code(), None, "it died, with seed {}: {text}", workplace.seed);
                let (status, text) = workplace.run(&["registry", "fsck", "--data", "@data"], None);
                let is_interrupted = text.contains("rebuild") && !status.success();
                assert!(status.success() || is_interrupted, "with seed {}: {text}", workplace.seed);
            }
            workplace.run_ok(&rebuild);
            workplace.expect_sound("@data");
            let stores = workplace.names(&workplace.path("data")).into_iter().filter(|name| name.starts_with("store"));
            assert_eq!(stores.collect::<Vec<_>>(), ["store"], "with seed {}", workplace.seed);
        }
        workplace.finish();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_that_loses_power_is_whole_or_can_be_done_again() {
    for seed in seeds("torture", "commands::a_restore_that_loses_power_is_whole_or_can_be_done_again") {
        let mut workplace = Workplace::new("restores", seed).await;
        let seen = ACCOUNTS.to_string();
        let restore = ["restore", "@backup", "--data", "@restored", "--clients-have-seen", &seen];
        workplace.run_ok(&restore);
        let lines = workplace.disk.journal_lines();
        workplace.remove("restored");
        for _ in 0..Workplace::rounds() {
            let death = workplace.death(lines);
            let (status, text) = workplace.run(&restore, death);
            workplace.lose_power();
            assert!(status.success() || status.code().is_none(), "with seed {}: {text}", workplace.seed);
            if status.success() || workplace.has("restored") {
                workplace.expect_sound("@restored");
            } else {
                workplace.run_ok(&restore);
                workplace.expect_sound("@restored");
            }
            // The daemon starts: the store is confirmed.
            let process = DaemonProcess::start(&workplace.path("restored"), &[], &[]);
            assert!(process.terminate().success());
            workplace.run_ok(&["backup", "verify", "@backup", "--deep"]);
            workplace.remove("restored");
        }
        workplace.finish();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_loses_power_is_whole_or_is_none() {
    for seed in seeds("torture", "commands::a_backup_that_loses_power_is_whole_or_is_none") {
        let mut workplace = Workplace::new("backups", seed).await;
        let start = |workplace: &Workplace, death: Option<usize>| {
            let variables = workplace.disk.variables(death);
            let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
            DaemonProcess::try_start(&workplace.path("data"), &[], &variables, Stdio::null())
        };
        let back_up = ["backup", "@made", "--data", "@data"];
        let process = start(&workplace, None).expect("it starts");
        let at_start = workplace.disk.journal_lines();
        workplace.run_ok(&back_up);
        let lines = workplace.disk.journal_lines() - at_start;
        assert!(process.terminate().success());
        workplace.remove("made");
        for _ in 0..Workplace::rounds() {
            // A start after a loss may write more lines than the first, so the process may die
            // before it serves.
            let death = workplace.death(lines).map(|line| at_start + line);
            let is_made = match start(&workplace, death) {
                Ok(process) => {
                    let (status, _) = workplace.run(&back_up, None);
                    process.kill();
                    status.success()
                }
                Err(_) => false,
            };
            workplace.lose_power();
            if is_made || workplace.has("made") {
                let text = workplace.run_ok(&["backup", "verify", "@made", "--deep"]);
                assert!(text.ends_with("\n0 problems\n"), "with seed {}: {text}", workplace.seed);
            } else {
                let process = start(&workplace, None).expect("it starts");
                workplace.run_ok(&back_up);
                assert!(process.terminate().success());
                workplace.run_ok(&["backup", "verify", "@made", "--deep"]);
            }
            workplace.expect_sound("@data");
            workplace.remove("made");
        }
        workplace.finish();
    }
}

/// Tests the checks: on a disk that ignores syncs of files, what was reported as done is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_checks_detect_commands_on_a_disk_that_ignores_syncs() {
    let mut workplace = Workplace::new("commands without syncs", 1).await;
    let is_sound = |workplace: &Workplace, data: &str| {
        let (status, text) = workplace.run(&["registry", "fsck", "--data", data], None);
        status.success() && text.contains(&format!(" {ACCOUNTS} accounts, "))
    };
    assert!(is_sound(&workplace, "@data"));
    // The name of every file ends like this.
    workplace.disk.unsynced_ending = Some("");
    let seen = ACCOUNTS.to_string();
    workplace.run_ok(&["restore", "@backup", "--data", "@restored", "--clients-have-seen", &seen]);
    workplace.lose_power();
    assert!(!is_sound(&workplace, "@restored"), "the restored store was not synced");
    workplace.run_ok(&["registry", "rebuild", "--data", "@data"]);
    workplace.lose_power();
    assert!(!is_sound(&workplace, "@data"), "the rebuilt store was not synced");
    workplace.finish();
}
