//! The blocks that this service sealed last: they are applied without a read of the ledger.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use selfsame_protocol::ledger::{Block, Seal};

/// The most sealed blocks that wait to be applied. The batcher seals a block while the one before
/// is applied, but not a third, so that the next block takes the requests that come in the
/// meantime.
pub(super) const BLOCKS_AHEAD: usize = 2;

/// A block that this service sealed from its queue.
pub(super) struct OwnBlock {
    pub block: Arc<Block>,
    /// The sequence numbers of its requests, in the order of the block.
    pub sequences: Vec<u64>,
}

/// The last blocks that this service appended to the ledger, in order.
#[derive(Default)]
pub(super) struct OwnBlocks(Mutex<VecDeque<Arc<OwnBlock>>>);

impl OwnBlocks {
    /// Keeps a block that was appended. The oldest makes room for it when none was applied for
    /// long: the ledger still has it.
    pub fn keep(&self, own: OwnBlock) {
        let mut blocks = self.lock();
        if blocks.len() > BLOCKS_AHEAD {
            blocks.pop_front();
        }
        blocks.push_back(Arc::new(own));
    }

    /// The block after `seal`, if this service appended it. Forgets those before it.
    pub fn after(&self, seal: &Seal) -> Option<Arc<OwnBlock>> {
        let mut blocks = self.lock();
        blocks.retain(|own| own.block.header.height > seal.height);
        blocks.iter().find(|own| own.block.is_linked_to(seal)).cloned()
    }

    /// Whether the block with this seal is one of them.
    pub fn has(&self, seal: &Seal) -> bool {
        self.lock().iter().any(|own| Seal::of(&own.block.header) == *seal)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<OwnBlock>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use selfsame_protocol::eip712::RegistryDomain;
    use selfsame_protocol::registry::RuleParameters;
    use selfsame_protocol::time::UnixSeconds;

    use super::*;

    const DOMAIN: RegistryDomain =
        RegistryDomain { chain_id: 31337, verifying_contract: selfsame_protocol::Address::ZERO };

    /// A chain of empty blocks. The time tells it from other chains.
    fn chain(time: u64, length: usize) -> Vec<Block> {
        let mut seal = Seal::default();
        let next = |_| {
            let block = Block::seal(&seal, DOMAIN, UnixSeconds(time), RuleParameters::default(), vec![]);
            seal = Seal::of(&block.header);
            block
        };
        (0..length).map(next).collect()
    }

    fn keep(blocks: &OwnBlocks, block: &Block) {
        blocks.keep(OwnBlock { block: Arc::new(block.clone()), sequences: vec![] });
    }

    /// The height of the block after one of a chain.
    fn height_after(blocks: &OwnBlocks, block: &Block) -> Option<u64> {
        blocks.after(&Seal::of(&block.header)).map(|own| own.block.header.height)
    }

    #[test]
    fn blocks_that_wait_to_be_applied_are_found_in_any_number_up_to_the_bound() {
        let (blocks, chain) = (OwnBlocks::default(), chain(1000, 6));
        assert!(blocks.after(&Seal::default()).is_none());
        chain[..3].iter().for_each(|block| keep(&blocks, block));
        assert_eq!(blocks.after(&Seal::default()).map(|own| own.block.header.height), Some(1));
        assert_eq!([0, 1, 2].map(|at| height_after(&blocks, &chain[at])), [Some(2), Some(3), None]);

        // The first of more blocks than may wait is in the ledger alone.
        chain[2..].iter().for_each(|block| keep(&blocks, block));
        assert_eq!([1, 2, 3, 4].map(|at| height_after(&blocks, &chain[at])), [None, Some(4), Some(5), Some(6)]);
    }

    #[test]
    fn a_block_of_another_chain_is_not_found() {
        let (blocks, own, other) = (OwnBlocks::default(), chain(1000, 2), chain(2000, 2));
        keep(&blocks, &own[1]);
        assert_eq!(height_after(&blocks, &other[0]), None);
        assert_eq!(height_after(&blocks, &own[0]), Some(2));
        assert_eq!(height_after(&blocks, &other[1]), None);
        keep(&blocks, &own[0]);
        keep(&blocks, &other[1]);
        assert_eq!(height_after(&blocks, &other[0]), Some(2), "behind a block that was replaced");
    }
}
