//! The ledger: a store of blocks in their order, and the one in the local store.

use std::sync::mpsc::channel;

use selfsame_protocol::B256;
use selfsame_protocol::encoding::{Encoding, encode};
use selfsame_protocol::ledger::{Block, BlockHeader, RequestId, Seal};

use crate::database::RecordSource;
use crate::error::{LedgerError, StoreError};
use crate::group_commit::{GroupCommit, OnAppended};
use crate::schema::family;
use crate::schema::records::Place;
use crate::store::Store;

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

// The ledger in the local store.

/// A ledger whose blocks are a column family of a store. Blocks are appended by the group commit,
/// together with what else is acknowledged at that time.
pub struct EmbeddedLedger {
    store: Store,
}

impl EmbeddedLedger {
    /// The ledger of a store.
    pub fn open(store: Store) -> Result<Self, StoreError> {
        store.ledger_head()?;
        Ok(Self { store })
    }

    /// Appends a block to the ledger of a store that no service uses, for programs that make
    /// stores: through a group commit of its own. Blocks the thread until the outcome is known.
    ///
    /// # Errors
    /// Those of [`Ledger::append`].
    pub fn append_alone(&self, block: &Block) -> Result<(), LedgerError> {
        let (commits, committing) = GroupCommit::start(self.store.clone())?;
        let (sender, outcome) = channel();
        self.append(block, &commits, Box::new(move |appended| drop(sender.send(appended))));
        drop(commits);
        // The thread moves the end of the ledger after its callbacks.
        let _ = committing.join();
        outcome.recv().unwrap_or(Err(StoreError::Panicked.into()))
    }
}

impl LedgerReader for EmbeddedLedger {
    fn head(&self) -> Seal {
        // When the store cannot be read, the next append returns the error.
        self.store.ledger_head().unwrap_or_else(|_| self.store.sealed_head().last_known())
    }

    fn block(&self, height: u64) -> Result<Option<Block>, StoreError> {
        fault_point!(self.store.fault_scope(), LedgerRead);
        self.store.database().get(&family::BLOCKS, &height)
    }

    fn hash_at(&self, height: u64) -> Result<Option<B256>, StoreError> {
        fault_point!(self.store.fault_scope(), LedgerRead);
        let Some(block) = self.store.database().read(family::BLOCKS.name, &encode(&height))? else { return Ok(None) };
        // A block begins with its header.
        let header = BlockHeader::decode(&mut &block[..]);
        let header = header.map_err(|reason| StoreError::Damaged { family: family::BLOCKS.name, reason })?;
        Ok(Some(header.hash()))
    }

    fn height_of(&self, block_hash: &B256) -> Result<Option<u64>, StoreError> {
        self.store.database().get(&family::BLOCK_HASHES, block_hash)
    }

    fn place(&self, request_id: &RequestId) -> Result<Option<Place>, StoreError> {
        self.store.database().get(&family::PLACES, request_id)
    }

    fn place_in_memory(&self, request_id: &RequestId) -> Result<Option<Place>, StoreError> {
        self.store.database().in_memory().get(&family::PLACES, request_id)
    }

    fn listen(&self, listener: Box<dyn Fn(u64) + Send + Sync>) {
        self.store.sealed_head().listen(listener);
    }
}

impl Ledger for EmbeddedLedger {
    fn append(&self, block: &Block, commits: &GroupCommit, appended: OnAppended) {
        let refused = if block.belongs_to(&self.store.domain()) {
            pass_fault_point(&self.store).err().map(LedgerError::from)
        } else {
            Some(LedgerError::OtherRegistry { height: block.header.height })
        };
        match refused {
            None => commits.append(block, appended),
            Some(error) => appended(Err(error)),
        }
    }
}

fn pass_fault_point(store: &Store) -> Result<(), StoreError> {
    fault_point!(store.fault_scope(), LedgerAppendBefore);
    Ok(())
}
