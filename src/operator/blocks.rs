//! `GET /blocks`: the newest blocks.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::StatusCode;
use selfsame_actors::LedgerBlock;
use selfsame_protocol::ledger::Tip;
use serde::Serialize;

use super::error::OperatorError;
use super::state::Operator;
use crate::http::{Request, Response, json};

/// How many blocks the answer has at most.
const NEWEST: usize = 20;

/// A block, in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Summary {
    height: u64,
    hash: String,
    /// Unix seconds.
    time: u64,
    operations: u32,
    /// The tree's root after the block.
    root: String,
}

/// The newest applied blocks that were asked for, the newest first. A large block takes megabytes,
/// so each is read once.
#[derive(Default)]
pub struct NewestBlocks(Mutex<VecDeque<Summary>>);

impl NewestBlocks {
    /// The height of the newest block that is known here.
    fn height(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).front().map_or(0, |newest| newest.height)
    }

    /// Adds later blocks, in ascending order, and returns all.
    fn add(&self, later: Vec<Summary>) -> Vec<Summary> {
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

fn summary(LedgerBlock { block, result }: LedgerBlock) -> Option<Summary> {
    let result = result?;
    Some(Summary {
        height: block.header.height,
        hash: result.block_hash.to_string(),
        time: block.header.time.0,
        operations: block.header.count,
        root: result.root_after.to_string(),
    })
}

/// The newest applied blocks, the newest first.
pub async fn blocks(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let registry = operator.service.registry();
    let Tip { seal, .. } = *registry.snapshot().tip();
    let first = (operator.newest_blocks.height() + 1).max((seal.height + 1).saturating_sub(NEWEST as u64));
    let later = registry.reading(move |registry| {
        let blocks = (first..=seal.height).filter_map(|height| registry.block(height).transpose());
        blocks.map(|block| block.map(summary)).collect::<Result<Vec<_>, _>>()
    });
    let later = later.await?.into_iter().flatten().collect();
    Ok(json(StatusCode::OK, &operator.newest_blocks.add(later)))
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
