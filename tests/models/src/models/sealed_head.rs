//! `storage/src/sealed_head.rs`: the end of the ledger in memory, while blocks are written and
//! readers ask.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use crate::database::Database;
use crate::ledger::Seal;
use crate::planted::assert_fails;
use crate::sealed_head::SealedHead;
use crate::waiting::join;

#[derive(Default)]
struct Store {
    database: Database,
    head: SealedHead,
}

impl Store {
    /// The height of the ledger's last block, as a reader learns it.
    fn height(&self) -> u64 {
        self.head.current(&self.database).expect("the store is readable").height
    }

    /// Writes a block in the steps of the group commit.
    fn append(&self, height: u64) {
        self.head.begin(height);
        self.database.write(height);
        self.head.advance(Seal { height });
    }

    /// Writes a block, but the write reports an error.
    fn append_with_an_error(&self, height: u64) {
        self.head.begin(height);
        self.database.write(height);
        self.head.forget();
    }
}

fn spawn(store: &Arc<Store>, work: impl FnOnce(&Store) + 'static) -> thread::JoinHandle<()> {
    let store = Arc::clone(store);
    thread::spawn(move || work(&store))
}

/// Keeps the greatest height that listeners were notified of.
fn listen(store: &Store) -> Arc<AtomicU64> {
    let heard = Arc::new(AtomicU64::new(0));
    let listener = Arc::clone(&heard);
    store.head.listen(Box::new(move |height| _ = listener.fetch_max(height, Ordering::AcqRel)));
    heard
}

#[test]
fn the_end_of_the_ledger_never_goes_back() {
    loom::model(|| {
        let store = Arc::new(Store::default());
        let writer = spawn(&store, |store| {
            store.append(1);
            store.append(2);
        });
        let (before, after) = (store.height(), store.height());
        assert!(before <= after, "height {before} was followed by {after}");
        join(writer);
        assert_eq!(store.height(), 2);
    });
}

#[test]
fn a_listener_that_hears_of_a_block_finds_it() {
    loom::model(|| {
        let store = Arc::new(Store::default());
        let heard = listen(&store);
        let writer = spawn(&store, |store| store.append(1));
        let reader = spawn(&store, |store| _ = store.height());
        let told = heard.load(Ordering::Acquire);
        assert!(store.height() >= told, "the listeners heard of block {told}");
        [writer, reader].into_iter().for_each(join);
        assert_eq!(heard.load(Ordering::Acquire), 1);
    });
}

/// A reader asks while the block is written, and keeps what it reads as current.
#[test]
fn a_block_whose_write_failed_but_is_there_is_found() {
    loom::model(|| {
        let store = Arc::new(Store::default());
        let heard = listen(&store);
        let writer = spawn(&store, |store| store.append_with_an_error(1));
        store.height();
        join(writer);
        assert_eq!(store.height(), 1);
        assert_eq!(heard.load(Ordering::Acquire), 1);
    });
}

/// Callbacks run between the write of a block and the move of the end, and so do those who hear of
/// them; another reader asked while the block was written.
fn written_block_before_the_move(begin: fn(&SealedHead)) {
    let store = Arc::new(Store::default());
    let reader = spawn(&store, |store| _ = store.height());
    begin(&store.head);
    store.database.write(1);
    assert_eq!(store.height(), 1, "the block is hidden");
    store.head.advance(Seal { height: 1 });
    join(reader);
    assert_eq!(store.height(), 1);
}

#[test]
fn a_written_block_is_found_before_the_end_is_moved() {
    loom::model(|| written_block_before_the_move(|head| head.begin(1)));
}

#[test]
fn an_end_that_is_only_forgotten_would_hide_the_block_until_it_is_moved() {
    assert_fails("the block is hidden", || written_block_before_the_move(SealedHead::forget));
}

/// A replica applies the next block as a follower before the thread that appended the one before
/// has moved the end.
#[test]
fn a_late_move_to_an_earlier_block_changes_nothing() {
    loom::model(|| {
        let store = Arc::new(Store::default());
        let heard = listen(&store);
        store.database.write(1);
        let late = spawn(&store, |store| store.head.advance(Seal { height: 1 }));
        store.append(2);
        assert_eq!(store.height(), 2);
        join(late);
        assert_eq!(store.height(), 2);
        assert_eq!(heard.load(Ordering::Acquire), 2);
    });
}
