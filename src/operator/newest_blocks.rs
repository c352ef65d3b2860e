//! The newest blocks in short, each read once.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use utoipa::ToSchema;

/// How many blocks the answer has at most.
pub(super) const NEWEST: usize = 20;

/// A block, in short.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = BlockSummary)]
pub(super) struct Summary {
    /// Its height.
    pub height: u64,
    /// Its hash.
    #[schema(pattern = "^0x[0-9a-f]{64}$")]
    pub hash: String,
    /// Its time, in Unix seconds.
    pub time: u64,
    /// How many operations it has.
    pub operations: u32,
    /// The tree's root after the block.
    #[schema(pattern = "^0x[0-9a-f]{64}$")]
    pub root: String,
}

/// The newest applied blocks that were asked for, the newest first. A large block takes megabytes,
/// so each is read once.
#[derive(Default)]
pub struct NewestBlocks(Mutex<VecDeque<Summary>>);

impl NewestBlocks {
    /// The height of the newest block that is known here.
    pub(super) fn height(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).front().map_or(0, |newest| newest.height)
    }

    /// Adds later blocks, in ascending order, and returns all.
    pub(super) fn add(&self, later: Vec<Summary>) -> Vec<Summary> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for block in later {
            // Another call may have added it meanwhile.
            if known.front().is_none_or(|newest| newest.height < block.height) {
                known.push_front(block);
            }
        }
        known.truncate(NEWEST);
        known.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_blocks_are_kept_once_each() {
        let block = |height| {
            let (hash, root) = (String::new(), String::new());
            Summary { height, hash, time: 0, operations: 1, root }
        };
        let newest = NewestBlocks::default();
        assert_eq!(newest.height(), 0);
        newest.add((1..=3).map(block).collect());
        // Another call read the last two as well.
        let all = newest.add((2..=30).map(block).collect());
        let heights: Vec<u64> = all.iter().map(|block| block.height).collect();
        assert_eq!(heights, (11..=30).rev().collect::<Vec<_>>());
    }
}
