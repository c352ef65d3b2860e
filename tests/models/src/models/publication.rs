//! `actors/src/registry/publication.rs`: the blocking work of a tree maintainer that was killed may
//! publish at the same time as its successor.

use std::sync::Arc;

use loom::thread;

use crate::bounded::check_with_three_interruptions;
use crate::planted::{Fault, assert_found};
use crate::registry::publication::Publication;
use crate::stand_ins::Snapshot;
use crate::waiting::{finish, join};

fn publication() -> Arc<Publication> {
    Arc::new(Publication::new(Snapshot::at(0), 0, 0))
}

fn publish(publication: &Arc<Publication>, height: u64) -> thread::JoinHandle<()> {
    let publication = Arc::clone(publication);
    thread::spawn(move || publication.publish(Snapshot::at(height)))
}

fn two_publishers_and_a_reader() {
    let publication = publication();
    let publishers = [1, 2].map(|height| publish(&publication, height));
    let (before, after) = (publication.height(), publication.snapshot().tip().seal.height);
    assert!(before <= after, "height {before} was followed by {after}");
    publishers.into_iter().for_each(join);
    assert_eq!(publication.height(), 2, "an older snapshot replaced a newer one");
    assert_eq!(publication.watch_tip().get().seal.height, 2);
}

#[test]
fn the_published_height_never_goes_back() {
    check_with_three_interruptions(two_publishers_and_a_reader);
}

#[test]
fn a_publication_without_a_look_at_the_one_before_would_go_back() {
    assert_found(Fault::BlindReplacement, "an older snapshot replaced a newer one", two_publishers_and_a_reader);
}

#[test]
fn a_reader_that_waited_for_a_block_finds_it() {
    check_with_three_interruptions(|| {
        let publication = publication();
        let publishers = [1, 2].map(|height| publish(&publication, height));
        let reader = Arc::clone(&publication);
        let height = async move {
            reader.wait_for_height(1).await;
            reader.height()
        };
        assert!(finish(height, publishers) >= 1);
    });
}

#[test]
fn a_follower_that_sees_a_tip_finds_its_snapshot() {
    check_with_three_interruptions(|| {
        let publication = publication();
        let tip = publication.watch_tip();
        let publishers = [1, 2].map(|height| publish(&publication, height));
        let followed = tip.get().seal.height;
        assert!(publication.height() >= followed, "the tip {followed} has no snapshot");
        publishers.into_iter().for_each(join);
    });
}

/// The batcher marks the requests of a block before it hands the block on.
fn marked_and_published_block() {
    let publication = publication();
    let registry = {
        let publication = Arc::clone(&publication);
        thread::spawn(move || {
            for height in 1..=2 {
                publication.mark_batching(10 * height);
                publication.publish(Snapshot::at(height));
            }
        })
    };
    let height = publication.height();
    let batching = publication.batching();
    assert!(batching >= 10 * height, "a block is published, and its requests are not marked");
    join(registry);
}

#[test]
fn a_reader_that_sees_a_block_sees_its_marks() {
    loom::model(marked_and_published_block);
}

#[test]
fn a_relaxed_pointer_would_show_a_block_before_its_marks() {
    let expected = "a block is published, and its requests are not marked";
    assert_found(Fault::RelaxedPointers, expected, marked_and_published_block);
}
