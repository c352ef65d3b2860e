//! The ledger: a store of blocks in their order.

use selfsame_protocol::B256;
use selfsame_protocol::ledger::{Block, RequestId, Seal};

use crate::error::StoreError;
use crate::group_commit::{GroupCommit, OnAppended};
use crate::schema::registry::Place;

/// Blocks in order, for readers.
///
/// The embedded ledger ([`crate::EmbeddedLedger`]) is a column family of the local store. Users of
/// this trait may not assume that: other appenders can add blocks. A follower that is notified of a
/// new height therefore reads every block after the last one that it has applied. It also looks
/// every few seconds without a notification, which may have been lost on its way.
///
/// The calls block on I/O; call them from a thread that may block. A ledger says its own errors
/// with [`StoreError::Ledger`].
pub trait LedgerReader: Send + Sync + 'static {
    /// The seal of the last block, which the next block is linked to.
    fn head(&self) -> Seal;

    /// The block at a height, counted from 1. A block that this returns is durable, and the only
    /// one of its height for all time.
    fn block(&self, height: u64) -> Result<Option<Block>, StoreError>;

    /// The hash of the block at a height. Implementations that can read a header without the
    /// block's operations should do so here: it is asked for by the states of requests.
    fn hash_at(&self, height: u64) -> Result<Option<B256>, StoreError> {
        Ok(self.block(height)?.map(|block| block.header.hash()))
    }

    /// The height of the block with this hash.
    fn height_of(&self, block_hash: &B256) -> Result<Option<u64>, StoreError>;

    /// The place of a request; `None` when it is not in a block.
    fn place(&self, request_id: &RequestId) -> Result<Option<Place>, StoreError>;

    /// The same without I/O, for a thread that must not block.
    ///
    /// # Errors
    /// [`StoreError::NotInMemory`] when the place is not at hand; the caller then asks
    /// [`LedgerReader::place`] on another thread. A ledger without this method always says so.
    fn place_in_memory(&self, _request_id: &RequestId) -> Result<Option<Place>, StoreError> {
        Err(StoreError::NotInMemory)
    }

    /// Registers a listener. The ledger calls it with the height of each block that becomes
    /// durable. The listener must return quickly and must not call this ledger.
    fn listen(&self, listener: Box<dyn Fn(u64) + Send + Sync>);
}

/// A ledger that blocks can be appended to. A service gives it to its batcher only; the other parts
/// get a [`LedgerReader`].
pub trait Ledger: LedgerReader {
    /// Appends the block that follows the head, and gives `appended` the outcome, now or later.
    /// When it is `Ok`, the block is durable; the listeners are notified after that. May block on
    /// I/O.
    ///
    /// `commits` is the group commit of the service: the ledger in the service's own store appends
    /// through it; another one ignores it. When `appended` is dropped without a call, the block may
    /// be in the ledger or not.
    ///
    /// # Errors
    /// [`crate::LedgerError::NotNext`] when another block was appended first. After
    /// [`crate::LedgerError::Store`], the block may be in the ledger nevertheless.
    fn append(&self, block: &Block, commits: &GroupCommit, appended: OnAppended);
}
