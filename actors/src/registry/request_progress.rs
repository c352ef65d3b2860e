//! How far a request is, and the hashes of the blocks that requests are in.

use std::sync::{Mutex, MutexGuard, PoisonError};

use selfsame_protocol::B256;

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
