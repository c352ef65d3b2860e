//! Each error at each call that makes something durable, in a store in use, a start and a backup.
//!
//! The daemon runs under a stand-in for the service manager, which starts it again as
//! `packaging/selfsame.service` does, so an exit status that ends the restarts fails the test. The
//! calls fail for two seconds. Afterwards everything that was acknowledged is there once, and what
//! was refused is accepted when it is sent again.
//!
//! The gate draws a few cases of each table from its seed; with the variable `LONG` all are tried.

use std::time::Duration;

use rustix::io::Errno;
use tokio::time::{Instant, sleep, sleep_until};

use super::errno::FaultyDisk;
use super::{DamageChoices, DiskTestDaemon, assert_sound, side_by_side};
use crate::harness::{in_time, run, variable};

/// How long the calls fail.
const FAILING: Duration = Duration::from_secs(2);

/// Creations that are sent in that time at most: enough for several tables.
const MOST_CREATIONS: u64 = 300;

/// Time after a refusal, and between two starts.
const PAUSE: Duration = Duration::from_millis(100);

/// Cases of a table that run side by side.
const SIDE_BY_SIDE: usize = 4;

/// Cases of a table in the gate.
const IN_THE_GATE: usize = 3;

/// A call, and what the paths of its files contain.
type Step = (&'static str, &'static str);

/// What a store in use does: the log takes each write, tables are made of full buffers, the
/// manifest names them, and obsolete files go.
const STEPS_OF_A_STORE: [Step; 13] = [
    ("write", ".log"),
    ("fsync", ".log"),
    ("create", ".log"),
    ("allocate", ".log"),
    ("truncate", ".log"),
    ("write", ".sst"),
    ("fsync", ".sst"),
    ("create", ".sst"),
    ("write", "MANIFEST-"),
    ("fsync", "MANIFEST-"),
    ("fsync", "store$"),
    ("rename", "store/"),
    ("unlink", "store/"),
];

/// What a start does besides: it begins a manifest and a log, and points to the manifest.
const STEPS_OF_A_START: [Step; 11] = [
    ("create", "MANIFEST-"),
    ("write", "MANIFEST-"),
    ("fsync", "MANIFEST-"),
    ("create", ".dbtmp"),
    ("write", ".dbtmp"),
    ("fsync", ".dbtmp"),
    ("rename", ".dbtmp"),
    ("create", ".log"),
    ("create", ".sst"),
    ("fsync", "store$"),
    ("create", "data/"),
];

/// What a backup does: a checkpoint of the store, copies of the other files, a manifest, a rename.
const STEPS_OF_A_BACKUP: [Step; 8] = [
    ("mkdir", "backup"),
    ("link", "store/"),
    ("create", "backup"),
    ("write", "backup"),
    ("fsync", "backup"),
    ("rename", "backup"),
    ("write", "manifest.json"),
    ("fsync", "manifest.json"),
];

/// Calls that a store in use seldom or never makes on these files; the case is played all the same.
const SELDOM: [Step; 2] = [("truncate", ".log"), ("rename", "store/")];

/// Each step with each error that its call can have.
fn cases(test: &str, steps: &[Step]) -> Vec<(Step, Errno)> {
    let errors = [Errno::IO, Errno::DQUOT, Errno::ROFS, Errno::NOSPC, Errno::MFILE];
    let of_step = |step: &Step| {
        let opens = matches!(step.0, "create" | "mkdir");
        let step = *step;
        errors.into_iter().filter(move |error| *error != Errno::MFILE || opens).map(move |error| (step, error))
    };
    let all: Vec<_> = steps.iter().flat_map(of_step).collect();
    if variable::<u8>("LONG").is_some() {
        return all;
    }
    let draws = |mut choices: DamageChoices| (0..IN_THE_GATE).map(|_| choices.below(all.len())).collect::<Vec<_>>();
    DamageChoices::of(test).flat_map(draws).map(|at| all[at]).collect()
}

/// The daemon of a case, which is started again when it has ended.
struct Managed<'a> {
    disk: &'a FaultyDisk,
    daemon: Option<DiskTestDaemon>,
    /// When the calls work again.
    mended_at: Instant,
    case: &'a str,
}

impl Managed<'_> {
    fn daemon(&self) -> &DiskTestDaemon {
        self.daemon.as_ref().expect("it runs")
    }

    fn mend_in_time(&self) {
        if Instant::now() >= self.mended_at {
            self.disk.mend();
        }
    }

    /// Waits for the end of a daemon that answers no more, and starts it as the service manager
    /// does.
    async fn start_again(&mut self) {
        if let Some(DiskTestDaemon { process, log, .. }) = self.daemon.take() {
            let status = process.wait();
            let text = log.text();
            assert!(status.code() == Some(75) && !text.contains("panicked"), "{}: {status}: {text}", self.case);
        }
        while self.daemon.is_none() {
            self.mend_in_time();
            match self.disk.start_or_refusal(&[]) {
                Ok(daemon) => self.daemon = Some(daemon),
                Err((78, message)) => panic!("{}: no service manager tries again after 78: {message}", self.case),
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// Sends a creation until it is accepted.
    async fn submit(&mut self, number: u64) -> String {
        loop {
            self.mend_in_time();
            match self.daemon().try_submit(number).await {
                Ok(Some(request_id)) => return request_id,
                Ok(None) => sleep(PAUSE).await,
                Err(_) => self.start_again().await,
            }
        }
    }
}

/// Plays a case; returns whether a call has failed.
async fn assert_survives((call, files): Step, error: Errno, is_at_start: bool) -> bool {
    let disk = FaultyDisk::new();
    let case = format!("{call} of {files:?}: {error}");
    let daemon = disk.start();
    let mut accepted = daemon.create_first(3).await;
    let mut managed = Managed { disk: &disk, daemon: Some(daemon), mended_at: Instant::now() + FAILING, case: &case };
    if is_at_start {
        managed.daemon.take().expect("it runs").kill();
        disk.fail_on([(call, error, files)]);
        managed.start_again().await;
    }
    disk.fail_on([(call, error, files)]);
    // Each creation is sent once while the calls fail; what was acknowledged then has to be there.
    let mut acknowledged = Vec::new();
    let mut number = 3;
    while number < MOST_CREATIONS && Instant::now() < managed.mended_at {
        match managed.daemon().try_submit(number).await {
            Ok(answer) => acknowledged.push(answer),
            Err(_) => {
                acknowledged.push(None);
                managed.start_again().await;
            }
        }
        if acknowledged.last().is_some_and(Option::is_none) {
            sleep(PAUSE).await;
        }
        number += 1;
    }
    sleep_until(managed.mended_at).await;
    disk.mend();
    for (number, before) in (3..).zip(acknowledged) {
        let request_id = managed.submit(number).await;
        assert!(before.is_none_or(|before| before == request_id), "{case}: creation {number} was acknowledged");
        accepted.push(request_id);
    }
    accepted.push(managed.submit(number).await);
    let daemon = managed.daemon.take().expect("it runs");
    daemon.wait_until_ready().await;
    daemon.assert_each_final_once(&accepted).await;
    daemon.stop();
    assert_sound(&disk.data());
    disk.struck() > 0
}

fn assert_all_survive(test: &str, steps: &[Step], is_at_start: bool) {
    for cases in cases(test, steps).chunks(SIDE_BY_SIDE) {
        side_by_side(cases.iter().map(|(step, error)| {
            async move || {
                let case = format!("{} of {:?}: {error}", step.0, step.1);
                let has_struck = in_time(&case, assert_survives(*step, *error, is_at_start)).await;
                assert!(has_struck || SELDOM.contains(step), "{case}: no call has failed");
            }
        }));
    }
}

#[test]
fn a_store_in_use_heals_after_each_error_at_each_step() {
    assert_all_survive("a_store_in_use_heals_after_each_error_at_each_step", &STEPS_OF_A_STORE, false);
}

#[test]
fn a_start_is_tried_again_after_each_error_at_each_step() {
    assert_all_survive("a_start_is_tried_again_after_each_error_at_each_step", &STEPS_OF_A_START, true);
}

/// A backup that fails says which call failed and leaves nothing; the store goes on, and the next
/// backup is good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_fails_and_the_next_is_good_after_each_error_at_each_step() {
    let disk = FaultyDisk::new();
    let daemon = disk.start();
    // Enough for several tables.
    let mut accepted = daemon.create_first(100).await;
    let (data, target) = (disk.data().display().to_string(), disk.beside("backup").display().to_string());
    let make = || run(&["backup", &target, "--data", &data, "--operator", &daemon.operator]);
    let test = "a_backup_fails_and_the_next_is_good_after_each_error_at_each_step";
    for ((call, files), error) in cases(test, &STEPS_OF_A_BACKUP) {
        let case = format!("{call} of {files:?}: {error}");
        let struck = disk.struck();
        disk.fail_on([(call, error, files)]);
        let (is_made, said) = make();
        disk.mend();
        assert!(disk.struck() > struck, "{case}: no call has failed");
        // Where links are refused, files are copied.
        assert!(!is_made || call == "link", "{case}: {said}");
        assert!(is_made || said.contains(&target) && !said.contains("panicked"), "{case}: {said}");
        if is_made {
            std::fs::remove_dir_all(&target).expect("removed");
        }
        assert!(!disk.beside("backup").exists() && !disk.beside("backup.unfinished").exists(), "{case}: {said}");
        accepted.push(daemon.submit(accepted.len() as u64).await.expect("accepted"));
        daemon.wait_until_ready().await;
        let (is_made, said) = make();
        assert!(is_made, "{case}: {said}");
        let (is_good, said) = run(&["backup", "verify", &target, "--deep"]);
        assert!(is_good, "{case}: {said}");
        std::fs::remove_dir_all(&target).expect("removed");
    }
    daemon.assert_each_final_once(&accepted).await;
    daemon.stop();
}
