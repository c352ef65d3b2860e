//! The applied blocks as a stream, and the tip of the published state, for embedders.

use futures_util::Stream;
use futures_util::stream::unfold;
use selfsame_protocol::ledger::{Block, BlockResult, Outcome, Tip};
use selfsame_storage::StoreError;
use tokio::sync::watch;

use super::handle::RegistryHandle;

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
