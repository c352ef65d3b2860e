//! `storage/src/group_commit/queue.rs`: handles hand jobs in, one of them closes, and the
//! committing thread takes what was handed in. A job is a number here.

use std::sync::Arc;

use loom::thread;

use crate::bounded::check_with_three_interruptions;
use crate::planted::{Fault, assert_found};
use crate::queue::{Intake, Queue};

/// The committing thread without commits: takes jobs until the queue ends.
fn commit_all(mut queue: Queue<u8>) -> Vec<u8> {
    std::iter::from_fn(|| queue.wait()).collect()
}

/// Two callers hand in a job each while the intake is closed.
fn close_while_jobs_are_handed_in() {
    let (intake, queue) = Intake::new();
    let intake = Arc::new(intake);
    let committing = thread::spawn(move || commit_all(queue));
    let caller = {
        let intake = Arc::clone(&intake);
        thread::spawn(move || intake.hand_in(1).is_ok())
    };
    let before_close = intake.hand_in(2).is_ok();
    intake.close();
    let after_close = intake.hand_in(3);
    let concurrent = caller.join().expect("no thread panics");
    let committed = committing.join().expect("no thread panics");
    assert!(before_close, "a job was refused before the close");
    assert_eq!(after_close, Err(3));
    assert!(committed.contains(&2), "a job that was handed in before the close was left");
    assert_eq!(committed.contains(&1), concurrent, "a job is committed or given back");
}

#[test]
fn nothing_that_was_handed_in_before_close_is_left() {
    check_with_three_interruptions(close_while_jobs_are_handed_in);
}

#[test]
fn a_channel_that_ends_with_its_last_sender_would_leave_a_job() {
    let expected = "a job that was handed in before the close was left";
    assert_found(Fault::EarlyEndOfChannel, expected, close_while_jobs_are_handed_in);
}

/// `GroupCommit::settle` hands in an empty job and waits for its callback.
#[test]
fn what_a_caller_handed_in_is_committed_before_what_settles_it() {
    loom::model(|| {
        let (intake, queue) = Intake::new();
        let committing = thread::spawn(move || commit_all(queue));
        for job in 1..=3 {
            assert!(intake.hand_in(job).is_ok());
        }
        drop(intake);
        assert_eq!(committing.join().expect("no thread panics"), [1, 2, 3]);
    });
}

/// A group takes one job and holds the next one back, as when a group has no room.
#[test]
fn a_job_that_is_held_back_keeps_its_place() {
    loom::model(|| {
        let (intake, mut queue) = Intake::new();
        let committing = thread::spawn(move || {
            let mut committed = Vec::new();
            while let Some(job) = queue.wait() {
                committed.push(job);
                if let Some(next) = queue.take() {
                    queue.hold_back(next);
                }
            }
            committed
        });
        for job in 1..=3 {
            assert!(intake.hand_in(job).is_ok());
        }
        intake.close();
        assert_eq!(committing.join().expect("no thread panics"), [1, 2, 3]);
    });
}

#[test]
fn a_job_is_given_back_when_the_committing_thread_is_gone() {
    loom::model(|| {
        let (intake, queue) = Intake::new();
        let ending = thread::spawn(move || drop(queue));
        let early = intake.hand_in(1);
        ending.join().expect("no thread panics");
        assert_eq!(intake.hand_in(2), Err(2));
        assert!(early.is_ok() || early == Err(1));
    });
}
