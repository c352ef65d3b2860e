//! The ledger in the local store.

use std::sync::mpsc::channel;

use selfsame_protocol::B256;
use selfsame_protocol::encoding::{Encoding, encode};
use selfsame_protocol::ledger::{Block, BlockHeader, RequestId, Seal};

use crate::database::RecordSource;
use crate::error::{LedgerError, StoreError};
use crate::group_commit::{GroupCommit, OnAppended};
use crate::ledger::{Ledger, LedgerReader};
use crate::schema::family;
use crate::schema::registry::Place;
use crate::store::Store;

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
