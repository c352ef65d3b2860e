//! Blocks after they were sealed: those that this service sealed last, the applied blocks as a
//! stream, and the receipts of their requests.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::Stream;
use futures_util::stream::unfold;
use selfsame_protocol::ledger::{Block, BlockReceipts, BlockResult, Outcome, Receipt, RequestId, Seal, Tip};
use selfsame_storage::StoreError;
use tokio::sync::watch;

use super::handle::RegistryHandle;
use crate::registry::reader::Reads;
use crate::registry::submit::ReceiptError;

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

// The applied blocks as a stream, and the tip of the published state, for embedders.

/// A block and what applying it gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedBlock {
    /// The block as it is in the ledger.
    pub block: Block,
    /// The roots of the tree before and after it, and its place in the chain of results.
    pub result: BlockResult,
    /// One for each entry of the block, in its order: the account that the operation created or
    /// changed, or the rule that it broke.
    pub outcomes: Vec<Outcome>,
}

impl RegistryHandle {
    /// The applied blocks from a height on, in their order and without a gap; the first block has
    /// height 1. The stream waits for blocks that are not applied yet, and does not end.
    ///
    /// Every block comes from the store, so a reader that noted the last height that it handled
    /// goes on with the next one after any pause, in another process as well. A slow reader does
    /// not delay the others. Each block is read when the stream is polled, on a thread that may
    /// block.
    ///
    /// After an error, the next item is the same block again. The stream holds this handle: drop it
    /// when the service ends, because no block comes any more.
    pub fn follow(
        &self,
        from_height: u64,
    ) -> impl Stream<Item = Result<FollowedBlock, StoreError>> + Send + Unpin + use<> {
        let registry = self.clone();
        Box::pin(unfold(from_height.max(1), move |height| {
            let registry = registry.clone();
            async move {
                registry.wait_for_height(height).await;
                let read = registry.reading(move |registry| registry.applied_block(height)).await;
                match read.transpose() {
                    Some(Ok((block, applied))) => {
                        let followed = FollowedBlock { block, result: applied.result, outcomes: applied.outcomes };
                        Some((Ok(followed), height + 1))
                    }
                    Some(Err(error)) => Some((Err(error), height)),
                    // A published block is in the ledger, and its result in the store.
                    None => Some((Err(StoreError::Gap { height }), height)),
                }
            }
        }))
    }

    /// The tip of the published state, and every later one: the height, hash and time of the last
    /// applied block and the tree's root after it. A receiver that is slow sees the newest tip and
    /// misses those between; [`RegistryHandle::follow`] misses none.
    pub fn watch_tip(&self) -> watch::Receiver<Tip> {
        self.publication().watch_tip()
    }
}

// Receipts of final requests.

/// The most blocks that are kept with their receipts. A large block takes a few megabytes.
const BLOCKS_WITH_RECEIPTS: usize = 4;

impl RegistryHandle {
    /// The receipt of a final request; `None` when the request is unknown or not final. Receipts
    /// never expire. Blocks the thread: see [`RegistryHandle::reading`].
    ///
    /// # Errors
    /// [`ReceiptError::RateLimited`] when the receipt has to be computed, which takes the hashes of
    /// its whole block, and `source` has had as many computed as the limit of requests by source
    /// allows. An embedder's own calls pass no source.
    pub fn receipt(&self, request_id: &RequestId, source: Option<IpAddr>) -> Result<Option<Receipt>, ReceiptError> {
        let reader = &self.inner.reader;
        let Some(place) = reader.place(request_id, Reads::Disk)? else { return Ok(None) };
        if place.height > reader.publication.height() {
            return Ok(None);
        }
        let receipts = self.receipts_of(place.height, source)?;
        Ok(receipts.and_then(|receipts| receipts.receipt(place.position)))
    }

    /// The receipts of a block. Clients usually ask for them one after the other, so the handle
    /// keeps those of the last blocks.
    fn receipts_of(&self, height: u64, source: Option<IpAddr>) -> Result<Option<Arc<BlockReceipts>>, ReceiptError> {
        let lock = || self.inner.receipts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, receipts)) = lock().iter().find(|(kept, _)| *kept == height) {
            return Ok(Some(Arc::clone(receipts)));
        }
        if let Some(source) = source {
            let charged = self.inner.receipts_per_source.charge(source, self.inner.reader.clock.now());
            charged.map_err(ReceiptError::RateLimited)?;
        }
        let block = self.inner.reader.block(height)?;
        let Some((block, applied)) = block.zip(self.inner.reader.applied_block(height)?) else { return Ok(None) };
        let receipts = Arc::new(BlockReceipts::new(block, applied.result, applied.outcomes));
        let mut kept = lock();
        // Another caller may have added the block in the meantime.
        if kept.iter().all(|(kept, _)| *kept != height) {
            kept.truncate(BLOCKS_WITH_RECEIPTS - 1);
            kept.push_front((height, Arc::clone(&receipts)));
        }
        Ok(Some(receipts))
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
