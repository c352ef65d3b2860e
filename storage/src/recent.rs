//! Values that were read more than once lately, in memory: accounts, and the siblings of leaves.
//!
//! RocksDB takes 1 to 5 µs for a record that is in its cache. An account and its whole path, whose
//! values are here, take 1.6 µs together (docs/benchmarks.md, "Ten million accounts").
//!
//! Readers of every block share the values. Each value says after which block it was read, and a
//! block announces what it changes before it is written, so a reader never gets a value of another
//! block than its snapshot's.

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, PoisonError};

/// Bytes of RocksDB's cache for each slot. A slot of accounts and one of siblings take 480 bytes
/// when both keep a value of an account with one authenticator, so all of them take 6 % of the
/// cache; with the most authenticators, seven, they take 11 % (both computed).
const CACHE_OF_SLOT: usize = 8 << 10;

/// Values by number, at most one in each slot. A number has one slot, which it shares with others.
pub(crate) struct Recent<Value> {
    slots: Box<[Mutex<Slot<Value>>]>,
    /// The height of the newest block that has announced its changes.
    announced: AtomicU64,
}

struct Slot<Value> {
    /// The number that was offered last. One that is offered twice in a row is kept, so that
    /// reading everything once leaves the values in place that are read all the time.
    offered: Option<u64>,
    kept: Option<Box<Kept<Value>>>,
}

struct Kept<Value> {
    number: u64,
    /// The height of the block after which it was read. No block since has changed it.
    since: u64,
    value: Value,
}

impl<Value: Clone> Recent<Value> {
    /// Nothing is kept yet. The number of slots follows from the size of RocksDB's cache, in bytes.
    pub fn beside_cache(cache: usize) -> Self {
        Self::with_slots(cache / CACHE_OF_SLOT)
    }

    /// Nothing is kept yet. There is at least one slot.
    pub fn with_slots(count: usize) -> Self {
        let slot = || Mutex::new(Slot { offered: None, kept: None });
        Self { slots: (0..count.max(1)).map(|_| slot()).collect(), announced: AtomicU64::new(0) }
    }

    fn slot(&self, number: u64) -> MutexGuard<'_, Slot<Value>> {
        let index = number % self.slots.len() as u64;
        self.slots[index as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a number after the block at `height`; `None` when it is not kept.
    pub fn get(&self, number: u64, height: u64) -> Option<Value> {
        let slot = self.slot(number);
        let kept = slot.kept.as_ref().filter(|kept| kept.number == number && kept.since <= height);
        kept.map(|kept| kept.value.clone())
    }

    /// Offers the value of a number that was read from the state after the block at `height`. It is
    /// kept when no later block has announced its changes, and no other number was offered to the
    /// slot since the number was offered last.
    pub fn offer(&self, number: u64, height: u64, value: &Value) {
        let mut slot = self.slot(number);
        // Relaxed is enough. A reader that gets the slot after the announcement had it sees the new
        // height, and what a reader keeps before is removed by the announcement.
        if self.announced.load(Ordering::Relaxed) > height {
            return;
        }
        if slot.offered.replace(number) == Some(number) {
            slot.kept = Some(Box::new(Kept { number, since: height, value: value.clone() }));
        }
    }

    /// Announces that the block at `height` changes the values of these numbers: none of them is
    /// kept any more. It must be called before the block is written.
    pub fn announce(&self, height: u64, numbers: impl IntoIterator<Item = u64>) {
        self.announced.store(height, Ordering::Relaxed);
        for number in numbers {
            let mut slot = self.slot(number);
            slot.kept.take_if(|kept| kept.number == number);
        }
    }
}
