//! How far a request is, and the clients that wait for it to become final.

use std::sync::{Mutex, MutexGuard, PoisonError};

use selfsame_protocol::B256;
use selfsame_protocol::ledger::{Block, RequestId};
use tokio::sync::watch;

use crate::support::notify::Notifiers;

// How far a request is, and the hashes of the blocks that requests are in.

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestProgress {
    /// It is in no block.
    Waiting,
    /// It is in a block whose effects are not published.
    Submitted {
        /// Height of the block.
        height: u64,
    },
    /// It is in a published block.
    Final {
        /// Height of the block.
        height: u64,
    },
}

/// The hashes of blocks that were asked for last. The block at a height is the same for all time,
/// unless the ledger loses blocks.
pub(super) struct BlockHashes(Mutex<[(u64, B256); Self::KEPT]>);

impl BlockHashes {
    /// Clients mostly ask for the states of requests in the newest blocks.
    const KEPT: usize = 256;

    fn slots(&self) -> MutexGuard<'_, [(u64, B256); Self::KEPT]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, height: u64) -> Option<B256> {
        let (kept, hash) = self.slots()[height as usize % Self::KEPT];
        (kept == height && height > 0).then_some(hash)
    }

    pub fn put(&self, height: u64, hash: B256) {
        self.slots()[height as usize % Self::KEPT] = (height, hash);
    }

    /// Forgets all of them.
    pub fn clear(&self) {
        *self.slots() = [(0, B256::ZERO); Self::KEPT];
    }
}

impl Default for BlockHashes {
    fn default() -> Self {
        Self(Mutex::new([(0, B256::ZERO); Self::KEPT]))
    }
}

// Clients that wait for a request to become final.

/// The clients that wait for a final state. Their number is bounded.
pub(crate) struct Waiters {
    waiting: Mutex<WaiterTable>,
}

struct WaiterTable {
    limit: usize,
    count: usize,
    notifiers: Notifiers<RequestId>,
}

/// A registered waiter; dropping it ends the wait.
pub(crate) struct Waiter<'all> {
    waiters: &'all Waiters,
    request_id: RequestId,
    /// `None` once it is dropped, so that its key can be released.
    changes: Option<watch::Receiver<()>>,
}

impl Waiters {
    /// An empty list, for at most `limit` waiters at a time.
    pub fn new(limit: usize) -> Self {
        Self { waiting: Mutex::new(WaiterTable { limit, count: 0, notifiers: Notifiers::default() }) }
    }

    /// Registers a waiter; `None` when the limit is reached. The caller registers first and then
    /// reads the state, so that it misses no change.
    pub fn register(&self, request_id: RequestId) -> Option<Waiter<'_>> {
        let mut waiting = self.lock();
        if waiting.count >= waiting.limit {
            return None;
        }
        waiting.count += 1;
        let changes = Some(waiting.notifiers.register(request_id));
        Some(Waiter { waiters: self, request_id, changes })
    }

    /// Changes how many clients may wait at a time. Registered waiters stay.
    pub fn set_limit(&self, limit: usize) {
        self.lock().limit = limit;
    }

    /// How many clients wait.
    pub fn count(&self) -> usize {
        self.lock().count
    }

    /// Wakes the waiters for the requests of a block.
    pub fn notify_block(&self, block: &Block) {
        let waiting = self.lock();
        if waiting.count > 0 {
            block.entries.iter().for_each(|entry| waiting.notifiers.notify(&entry.request_id));
        }
    }

    /// Wakes every waiter to read the state again.
    pub fn notify_all(&self) {
        self.lock().notifiers.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, WaiterTable> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter<'_> {
    /// Waits until the state may have changed since the waiter was registered, or since the last
    /// call.
    pub async fn changed(&mut self) {
        if let Some(changes) = &mut self.changes {
            // The channel exists while it has receivers, so an error cannot occur.
            let _ = changes.changed().await;
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.waiters.lock();
        waiting.count -= 1;
        self.changes = None;
        waiting.notifiers.release(&self.request_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_another_block_is_never_given() {
        let hashes = BlockHashes::default();
        assert_eq!((hashes.get(0), hashes.get(1)), (None, None));
        let kept = BlockHashes::KEPT as u64;
        let hash = |height: u64| B256::repeat_byte(height as u8 + 1);
        for height in 1..=2 * kept {
            hashes.put(height, hash(height));
        }
        for height in 1..=2 * kept {
            assert_eq!(hashes.get(height), (height > kept).then(|| hash(height)), "{height}");
        }
        hashes.clear();
        assert_eq!(hashes.get(2 * kept), None);
    }
}
