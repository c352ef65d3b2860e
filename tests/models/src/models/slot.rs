//! `actors/src/support/occupancy.rs` and `waiting_calls.rs`: calls wait for an actor that starts,
//! and their number has a limit. An actor is a number here.

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::planted::{Fault, assert_found};
use crate::support::occupancy::{Ended, Occupancy};
use crate::support::waiting_calls::WaitingCalls;
use crate::waiting::{WAITS_FOR_EVER, finish, join};

fn spawn(occupancy: &Arc<Occupancy<u8>>, work: impl FnOnce(&Occupancy<u8>) + 'static) -> thread::JoinHandle<()> {
    let occupancy = Arc::clone(occupancy);
    thread::spawn(move || work(&occupancy))
}

fn call_while_an_actor_starts() {
    let occupancy = Arc::new(Occupancy::new());
    let start = spawn(&occupancy, |occupancy| occupancy.occupy(1));
    let actor = finish(occupancy.wait_until_running(|_| true), [start]);
    assert_eq!(*actor.expect("an actor runs"), 1);
}

#[test]
fn a_call_never_misses_an_actor_that_starts() {
    loom::model(call_while_an_actor_starts);
}

#[test]
fn a_call_that_looks_before_it_registers_would_miss_an_actor() {
    assert_found(Fault::LateRegistration, WAITS_FOR_EVER, call_while_an_actor_starts);
}

fn call_while_the_service_ends() {
    let occupancy = Arc::new(Occupancy::<u8>::new());
    let end = spawn(&occupancy, Occupancy::end);
    assert_eq!(finish(occupancy.wait_until_running(|_| true), [end]), Err(Ended));
}

#[test]
fn a_call_never_misses_the_end_of_the_service() {
    loom::model(call_while_the_service_ends);
}

#[test]
fn a_call_that_looks_before_it_registers_would_miss_the_end() {
    assert_found(Fault::LateRegistration, WAITS_FOR_EVER, call_while_the_service_ends);
}

#[test]
fn a_call_waits_for_the_successor_of_a_stopped_actor() {
    loom::model(|| {
        let occupancy = Arc::new(Occupancy::new());
        let starts = spawn(&occupancy, |occupancy| {
            occupancy.occupy(1);
            occupancy.occupy(2);
        });
        let actor = finish(occupancy.wait_until_running(|actor| *actor == 2), [starts]);
        assert_eq!(*actor.expect("an actor runs"), 2);
        assert_eq!(occupancy.restarts(), 1);
    });
}

#[test]
fn no_more_calls_wait_than_the_limit_allows() {
    loom::model(|| {
        let (calls, waiting) = (Arc::new(WaitingCalls::new(1)), Arc::new(AtomicUsize::new(0)));
        let callers = [(); 2].map(|()| {
            let (calls, waiting) = (Arc::clone(&calls), Arc::clone(&waiting));
            thread::spawn(move || {
                let call = calls.begin();
                if call.is_some() {
                    assert_eq!(waiting.fetch_add(1, Ordering::Relaxed), 0, "two calls wait");
                    waiting.fetch_sub(1, Ordering::Relaxed);
                }
            })
        });
        callers.into_iter().for_each(join);
        assert_eq!(calls.count(), 0, "a call is counted that has ended");
        assert!(calls.begin().is_some());
    });
}
