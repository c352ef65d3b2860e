//! A check that reports what it has done, and one that is stopped.

use super::*;

/// Stops a check when it has asked so many times.
struct StopAt(std::sync::atomic::AtomicU64);

impl Progress for StopAt {
    fn report(&self, _: Phase, _: u64, _: u64) {}

    fn is_stopped(&self) -> bool {
        self.0.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) == 0
    }
}

#[test]
fn a_stopped_check_leaves_nothing_behind() {
    let (_folder, store) = populated_store();
    let scratch = folder();
    let mut question = 1u64;
    loop {
        let checked = fsck(&store, scratch.path(), &StopAt(question.into()));
        assert_eq!(std::fs::read_dir(scratch.path()).expect("a folder").count(), 0);
        match checked {
            Ok(report) => {
                assert_eq!(report.findings, Vec::<String>::new());
                break;
            }
            Err(error) => assert!(matches!(error, StoreError::Stopped), "{error}"),
        }
        question *= 2;
    }
    assert!(question > 16, "each record is counted");
}

#[test]
fn a_check_reports_what_it_has_done() {
    #[derive(Default)]
    struct Last(std::sync::Mutex<std::collections::BTreeMap<&'static str, (u64, u64)>>);

    impl Progress for Last {
        fn report(&self, phase: Phase, done: u64, total: u64) {
            self.0.lock().expect("no panic").insert(phase.name, (done, total));
        }
    }

    let (_folder, store) = populated_store();
    let (scratch, last) = (folder(), Last::default());
    fsck(&store, scratch.path(), &last).expect("fsck runs");
    let last = last.0.into_inner().expect("no panic");
    assert_eq!(last["applying blocks"], (3, 3));
    for phase in ["reading records", "comparing with the blocks"] {
        let (done, total) = last[phase];
        assert!(done > 10 && done == total, "{phase}: {done} of {total}");
    }
}
