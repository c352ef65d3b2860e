//! `storage/src/reached.rs`: who waits for a number is woken when it is reached.

use std::sync::Arc;

use loom::thread;

use crate::Reached;
use crate::waiting::finish;

fn advance(reached: &Arc<Reached>, number: u64) -> thread::JoinHandle<()> {
    let reached = Arc::clone(reached);
    thread::spawn(move || reached.advance(number))
}

#[test]
fn a_wait_that_begins_while_the_number_grows_ends() {
    loom::model(|| {
        let reached = Arc::new(Reached::new(0));
        let advances = [1, 2].map(|number| advance(&reached, number));
        finish(reached.wait_for(2), advances);
        assert_eq!(reached.waiting(), 0);
    });
}

#[test]
fn two_waits_end_when_their_numbers_are_reached() {
    loom::model(|| {
        let reached = Arc::new(Reached::new(0));
        let other = {
            let reached = Arc::clone(&reached);
            thread::spawn(move || finish(reached.wait_for(1), [advance(&reached, 1)]))
        };
        finish(reached.wait_for(1), [other]);
        assert_eq!(reached.waiting(), 0);
    });
}
