//! The ledger: a store of blocks in their order.

use selfsame_protocol::B256;
use selfsame_protocol::ledger::{Block, RequestId, Seal};

use crate::error::StoreError;
use crate::schema::registry::Place;

/// Why a block was not appended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LedgerError {
    /// Another block was appended first; the caller continues from the new head.
    #[error("block {found} does not follow block {head}, the ledger's last")]
    NotNext {
        /// Height of the block that was to be appended. It is `head` + 1 when only the block's
        /// previous hash differs from the head's hash.
        found: u64,
        /// Height of the ledger's last block; 0 while the ledger is empty.
        head: u64,
    },
    /// The header names another registry than that of the ledger.
    #[error("block {height} belongs to another registry: its header names another chain or contract")]
    OtherRegistry {
        /// Height of the block that was to be appended.
        height: u64,
    },
    /// The ledger's own store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Blocks in order, for readers.
///
/// The embedded ledger ([`crate::EmbeddedLedger`]) is a column family of the local store. Users of
/// this trait may not assume that: other appenders can add blocks. A follower that is notified of a
/// new height therefore reads every block after the last one that it has applied.
///
/// The calls block on I/O; call them from a thread that may block.
pub trait LedgerReader: Send + Sync + 'static {
    /// The seal of the last block, which the next block is linked to.
    fn head(&self) -> Seal;

    /// The block at a height, counted from 1. A block that this returns is durable, and the only
    /// one of its height for all time.
    fn block(&self, height: u64) -> Result<Option<Block>, StoreError>;

    /// The height of the block with this hash.
    fn height_of(&self, block_hash: &B256) -> Result<Option<u64>, StoreError>;

    /// The place of a request; `None` when it is not in a block.
    fn place(&self, request_id: &RequestId) -> Result<Option<Place>, StoreError>;

    /// Registers a listener. The ledger calls it with the height of each block that becomes
    /// durable. The listener must return quickly and must not call this ledger.
    fn listen(&self, listener: Box<dyn Fn(u64) + Send + Sync>);
}

/// A ledger that blocks can be appended to. A service gives it to its batcher only; the other parts
/// get a [`LedgerReader`].
pub trait Ledger: LedgerReader {
    /// Appends the block that follows the head. When this returns `Ok`, the block is durable and
    /// every listener was notified.
    ///
    /// # Errors
    /// [`LedgerError::NotNext`] when another block was appended first. After
    /// [`LedgerError::Store`], the block may be in the ledger nevertheless.
    fn append(&self, block: &Block) -> Result<(), LedgerError>;
}
