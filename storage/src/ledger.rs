//! The ledger: where blocks are kept in order.

use selfsame_protocol::B256;
use selfsame_protocol::ledger::{Block, RequestId, Seal};

use crate::error::StoreError;
use crate::schema::registry::Place;

/// Why a block was not appended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LedgerError {
    /// Another block was appended in the meantime; read on from the new head.
    #[error("block {found} does not follow block {head}, the ledger's last")]
    NotNext { found: u64, head: u64 },
    /// The ledger's own store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Blocks in order, for readers.
///
/// The embedded ledger ([`crate::EmbeddedLedger`]) is a column family of the local store. Nothing above this trait may assume that:
/// other appenders can add blocks, so a follower reads on from the last height it knows whenever it is notified of a new one.
///
/// The calls block on I/O; call them from a thread that may block.
pub trait LedgerReader: Send + Sync + 'static {
    /// The seal of the last block, which the next block is linked to.
    fn head(&self) -> Seal;

    /// The block at a height, counted from 1.
    fn block(&self, height: u64) -> Result<Option<Block>, StoreError>;

    /// The height of the block with this hash.
    fn height_of(&self, block_hash: &B256) -> Result<Option<u64>, StoreError>;

    /// Where a request stands, if it is in a block.
    fn place(&self, request_id: &RequestId) -> Result<Option<Place>, StoreError>;

    /// Calls `listener` with its height whenever a block has become durable. The listener must return quickly and must not call this
    /// ledger.
    fn listen(&self, listener: Box<dyn Fn(u64) + Send + Sync>);
}

/// A ledger that blocks can be appended to. A service gives it to its batcher; every other part gets a [`LedgerReader`].
pub trait Ledger: LedgerReader {
    /// Appends the block that follows the head. When this returns, the block is durable and every listener was notified.
    ///
    /// # Errors
    /// [`LedgerError::NotNext`] when another block was appended first.
    fn append(&self, block: &Block) -> Result<(), LedgerError>;
}
