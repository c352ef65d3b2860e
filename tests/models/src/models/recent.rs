//! `storage/src/recent.rs`: values in memory, while blocks change them and readers have snapshots
//! of different blocks.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::thread;

use crate::planted::assert_fails;
use crate::recent::Recent;
use crate::waiting::join;

/// The number whose value each block changes.
const NUMBER: u64 = 7;

struct Store {
    /// The height of the last block, which is the value of [`NUMBER`] after it, too. RocksDB
    /// promises that a snapshot that is taken after a write has what was written; the lock promises
    /// the same.
    written: Mutex<u64>,
    recent: Recent<u64>,
}

impl Store {
    fn new() -> Arc<Self> {
        Arc::new(Self { written: Mutex::new(0), recent: Recent::with_slots(1) })
    }

    fn snapshot(&self) -> u64 {
        *self.written.lock().expect("no thread panics")
    }

    fn write(&self, height: u64) {
        *self.written.lock().expect("no thread panics") = height;
    }

    /// Reads the value in the steps of a snapshot's reader.
    fn read(&self, snapshot: u64) {
        match self.recent.get(NUMBER, snapshot) {
            Some(value) => assert_eq!(value, snapshot, "a value of another block"),
            None => self.recent.offer(NUMBER, snapshot, &snapshot),
        }
    }
}

/// A reader reads again and again while two blocks are committed.
fn reads_beside_blocks(commit: fn(&Store, u64)) {
    let store = Store::new();
    let writer = thread::spawn({
        let store = Arc::clone(&store);
        move || [1, 2].into_iter().for_each(|height| commit(&store, height))
    });
    let earlier = store.snapshot();
    store.read(earlier);
    store.read(earlier);
    let later = store.snapshot();
    store.read(later);
    store.read(earlier);
    join(writer);
    store.read(store.snapshot());
}

#[test]
fn a_snapshot_never_gets_a_value_of_another_block() {
    loom::model(|| {
        reads_beside_blocks(|store, height| {
            store.recent.announce(height, [NUMBER]);
            store.write(height);
        });
    });
}

#[test]
fn a_block_that_is_announced_after_its_write_would_be_hidden() {
    assert_fails("a value of another block", || {
        reads_beside_blocks(|store, height| {
            store.write(height);
            store.recent.announce(height, [NUMBER]);
        });
    });
}

/// Two readers with snapshots of different blocks.
#[test]
fn what_a_later_snapshot_keeps_is_not_for_an_earlier_one() {
    loom::model(|| {
        let store = Store::new();
        let earlier = store.snapshot();
        store.recent.announce(1, [NUMBER]);
        store.write(1);
        let reader = thread::spawn({
            let store = Arc::clone(&store);
            move || [1, 1, 1].into_iter().for_each(|snapshot| store.read(snapshot))
        });
        store.read(earlier);
        store.read(earlier);
        join(reader);
        assert_eq!(store.recent.get(NUMBER, 1), Some(1), "it is kept");
    });
}
