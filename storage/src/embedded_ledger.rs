//! The ledger in the local store.

use std::sync::{Mutex, PoisonError, RwLock};

use selfsame_protocol::B256;
use selfsame_protocol::ledger::{Block, RequestId, Seal};

use crate::database::{Changes, Read, Store};
use crate::error::StoreError;
use crate::family;
use crate::ledger::{Ledger, LedgerError, Place};

type Listener = Box<dyn Fn(u64) + Send + Sync>;

/// Blocks in a column family.
pub struct EmbeddedLedger {
    store: Store,
    /// The last block's seal. The lock makes appending one at a time.
    head: Mutex<Seal>,
    listeners: RwLock<Vec<Listener>>,
}

impl EmbeddedLedger {
    /// The ledger of a store.
    pub fn open(store: Store) -> Result<Self, StoreError> {
        let ledger = Self { store, head: Mutex::default(), listeners: RwLock::default() };
        let last = ledger.last()?;
        Ok(Self { head: Mutex::new(last), ..ledger })
    }

    /// The seal of the last block in the store.
    fn last(&self) -> Result<Seal, StoreError> {
        let last = self.store.database().last(&family::BLOCKS)?;
        Ok(last.map_or_else(Seal::default, |(_, block)| Seal::of(&block.header)))
    }

    fn write(&self, changes: Changes) -> Result<(), StoreError> {
        fault_point!(LedgerAppendBefore);
        self.store.database().write(changes, true)?;
        fault_point!(LedgerAppendAfter);
        Ok(())
    }
}

impl Ledger for EmbeddedLedger {
    fn head(&self) -> Seal {
        *self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, block: &Block) -> Result<(), LedgerError> {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        let header = &block.header;
        if header.height != head.height + 1 || header.previous_hash != head.hash {
            return Err(LedgerError::NotNext { found: header.height, head: head.height });
        }
        let seal = Seal::of(header);
        let mut changes = Changes::default();
        changes.put(&family::BLOCKS, &seal.height, block);
        changes.put(&family::BLOCK_HASHES, &seal.hash, &seal.height);
        for (position, entry) in (0u32..).zip(&block.entries) {
            let place = Place { height: seal.height, position, block_hash: seal.hash };
            changes.put(&family::PLACES, &entry.request_id, &place);
        }
        let before = *head;
        let written = self.write(changes);
        *head = match &written {
            Ok(()) => seal,
            // Nobody knows what a failed write left: what is there counts.
            Err(_) => self.last().unwrap_or(before),
        };
        let (height, is_new) = (head.height, *head != before);
        drop(head);
        if is_new {
            for listener in self.listeners.read().unwrap_or_else(PoisonError::into_inner).iter() {
                listener(height);
            }
        }
        Ok(written?)
    }

    fn block(&self, height: u64) -> Result<Option<Block>, StoreError> {
        fault_point!(LedgerRead);
        self.store.database().get(&family::BLOCKS, &height)
    }

    fn height_of(&self, block_hash: &B256) -> Result<Option<u64>, StoreError> {
        self.store.database().get(&family::BLOCK_HASHES, block_hash)
    }

    fn place(&self, request_id: &RequestId) -> Result<Option<Place>, StoreError> {
        self.store.database().get(&family::PLACES, request_id)
    }

    fn listen(&self, listener: Listener) {
        self.listeners.write().unwrap_or_else(PoisonError::into_inner).push(listener);
    }
}
