//! The ledger in the local store.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use selfsame_protocol::B256;
use selfsame_protocol::ledger::{Block, RequestId, Seal};

use crate::database::{Changes, RecordSource};
use crate::error::StoreError;
use crate::ledger::{Ledger, LedgerError, LedgerReader};
use crate::schema::family;
use crate::schema::registry::Place;
use crate::store::Store;

type Listener = Box<dyn Fn(u64) + Send + Sync>;

/// A ledger whose blocks are a column family of a store.
pub struct EmbeddedLedger {
    store: Store,
    /// The lock is held during an append, so that appends are serial.
    head: Mutex<Head>,
    listeners: RwLock<Vec<Listener>>,
}

/// The last block's seal.
#[derive(Default)]
struct Head {
    seal: Seal,
    /// False while a block is written, and after a write that failed or panicked: the head is then
    /// read from the store again.
    is_current: bool,
}

impl EmbeddedLedger {
    /// The ledger of a store.
    pub fn open(store: Store) -> Result<Self, StoreError> {
        let ledger = Self { store, head: Mutex::default(), listeners: RwLock::default() };
        drop(ledger.lock_current_head()?);
        Ok(ledger)
    }

    /// The head; when it is not current, it is read from the store again, and a changed one is
    /// reported to the listeners.
    fn lock_current_head(&self) -> Result<MutexGuard<'_, Head>, StoreError> {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        if !head.is_current {
            let last = self.store.database().last(&family::BLOCKS)?;
            let seal = last.map_or_else(Seal::default, |(_, block)| Seal::of(&block.header));
            let is_new = seal != head.seal;
            *head = Head { seal, is_current: true };
            if is_new {
                self.notify_listeners(seal.height);
            }
        }
        Ok(head)
    }

    fn notify_listeners(&self, height: u64) {
        for listener in self.listeners.read().unwrap_or_else(PoisonError::into_inner).iter() {
            listener(height);
        }
    }

    fn write(&self, changes: Changes) -> Result<(), StoreError> {
        fault_point!(LedgerAppendBefore);
        self.store.database().write(changes, true)?;
        fault_point!(LedgerAppendAfter);
        Ok(())
    }
}

impl LedgerReader for EmbeddedLedger {
    fn head(&self) -> Seal {
        match self.lock_current_head() {
            Ok(head) => head.seal,
            // The next append reads the store again and returns the error.
            Err(_) => self.head.lock().unwrap_or_else(PoisonError::into_inner).seal,
        }
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

impl Ledger for EmbeddedLedger {
    fn append(&self, block: &Block) -> Result<(), LedgerError> {
        let mut head = self.lock_current_head()?;
        let header = &block.header;
        if header.height != head.seal.height + 1 || header.previous_hash != head.seal.hash {
            return Err(LedgerError::NotNext { found: header.height, head: head.seal.height });
        }
        if !block.belongs_to(&self.store.domain()) {
            return Err(LedgerError::OtherRegistry { height: header.height });
        }
        let seal = Seal::of(header);
        let mut changes = Changes::default();
        changes.put(&family::BLOCKS, &seal.height, block);
        put_indexes(&mut changes, block, &seal);
        head.is_current = false;
        self.write(changes)?;
        *head = Head { seal, is_current: true };
        drop(head);
        self.notify_listeners(seal.height);
        Ok(())
    }
}

/// Writes where a block and its requests are found.
pub(crate) fn put_indexes(changes: &mut Changes, block: &Block, seal: &Seal) {
    changes.put(&family::BLOCK_HASHES, &seal.hash, &seal.height);
    for (position, entry) in (0u32..).zip(&block.entries) {
        let place = Place { height: seal.height, position, block_hash: seal.hash };
        changes.put(&family::PLACES, &entry.request_id, &place);
    }
}
