//! `actors/src/registry/wakeup.rs` and the marks of `publication.rs`: the committing thread marks
//! requests as durable and wakes the batcher.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use crate::planted::{Fault, assert_found};
use crate::queue::Intake;
use crate::registry::actors::BatcherMessage;
use crate::registry::publication::Publication;
use crate::registry::wakeup::Wakeup;
use crate::stand_ins::Snapshot;
use crate::support::slot::Slot;
use crate::waiting::{WAITS_FOR_EVER, finish, join};

/// The job that marks nothing.
const SETTLE: u64 = 0;

/// What the batcher and the committers share.
struct Registry {
    publication: Publication,
    wakeup: Wakeup,
}

impl Registry {
    fn new() -> Arc<Self> {
        let publication = Publication::new(Snapshot::at(0), 0, 0);
        Arc::new(Self { publication, wakeup: Wakeup::new(Arc::new(Slot::new())) })
    }

    fn mark_durable(&self, sequence: u64) {
        self.wakeup.mark_durable(&self.publication, sequence);
    }

    /// The batcher: handles messages until requests up to `sequence` are durable for it.
    async fn run_batcher(&self, sequence: u64) {
        loop {
            self.wakeup.slot.receive().await;
            if self.wakeup.take(&self.publication) >= sequence {
                return;
            }
        }
    }
}

fn spawn(registry: &Arc<Registry>, work: impl FnOnce(&Registry) + 'static) -> thread::JoinHandle<()> {
    let registry = Arc::clone(registry);
    thread::spawn(move || work(&registry))
}

/// Two commits end while the batcher handles messages.
fn wake_up_of_a_batcher_that_is_about_to_sleep() {
    let registry = Registry::new();
    let committers = [1, 2].map(|sequence| spawn(&registry, move |registry| registry.mark_durable(sequence)));
    finish(registry.run_batcher(2), committers);
}

#[test]
fn a_request_that_became_durable_wakes_a_batcher_that_is_about_to_sleep() {
    loom::model(wake_up_of_a_batcher_that_is_about_to_sleep);
}

#[test]
fn a_relaxed_wake_flag_would_lose_a_request() {
    assert_found(Fault::RelaxedFlags, WAITS_FOR_EVER, wake_up_of_a_batcher_that_is_about_to_sleep);
}

/// A request's record is written, then marked. The batcher reads the mark, then the record.
fn mark_and_record() {
    let (registry, record) = (Registry::new(), Arc::new(AtomicU64::new(0)));
    let committer = {
        let record = Arc::clone(&record);
        spawn(&registry, move |registry| {
            record.store(7, Ordering::Relaxed);
            registry.mark_durable(1);
        })
    };
    if registry.publication.durable() == 1 {
        assert_eq!(record.load(Ordering::Relaxed), 7, "the mark is there and the record is not");
    }
    join(committer);
}

#[test]
fn a_batcher_that_sees_a_mark_finds_the_request() {
    loom::model(mark_and_record);
}

#[test]
fn a_relaxed_mark_would_show_a_request_before_its_record() {
    assert_found(Fault::RelaxedNumbers, "the mark is there and the record is not", mark_and_record);
}

#[test]
fn a_mark_never_goes_back() {
    loom::model(|| {
        let registry = Registry::new();
        let markers =
            [1, 2].map(|sequence| spawn(&registry, move |registry| registry.publication.mark_batching(sequence)));
        let (before, after) = (registry.publication.batching(), registry.publication.batching());
        assert!(before <= after, "{before} was followed by {after}");
        markers.into_iter().for_each(join);
        assert_eq!(registry.publication.batching(), 2);
    });
}

/// The batcher is killed with its mailbox while commits end. Its successor occupies the slot and
/// hands in what settles: the committing thread casts `Settled` after the commits before it.
#[test]
fn the_wake_up_that_a_killed_batcher_did_not_take_hides_no_request() {
    loom::model(|| {
        let registry = Registry::new();
        let (intake, mut jobs) = Intake::new();
        for sequence in 1..=2 {
            assert!(intake.hand_in(sequence).is_ok());
        }
        let committing = spawn(&registry, move |registry| {
            while let Some(sequence) = jobs.wait() {
                match sequence {
                    SETTLE => registry.wakeup.slot.cast(BatcherMessage::Settled),
                    sequence => registry.mark_durable(sequence),
                }
            }
        });
        registry.wakeup.slot.occupy();
        assert!(intake.hand_in(SETTLE).is_ok());
        intake.close();
        finish(registry.run_batcher(2), [committing]);
    });
}
