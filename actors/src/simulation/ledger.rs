//! A ledger that fails, and to which another appender adds blocks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use selfsame_protocol::B256;
use selfsame_protocol::ledger::{Block, Entry, RequestId, Seal};
use selfsame_protocol::registry::RuleParameters;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{EmbeddedLedger, Ledger, LedgerError, LedgerReader, Place, StoreError};

use super::clients;
use super::seeded_random::SeededRandom;

/// The error of every simulated fault.
pub(super) const INJECTED: StoreError = StoreError::Injected { point: "the simulation" };

/// An embedded ledger with injected faults.
pub(super) struct FaultyLedger {
    pub inner: EmbeddedLedger,
    pub random: SeededRandom,
    /// No faults are injected while this is true.
    pub is_fault_free: Arc<AtomicBool>,
    /// The entries of the blocks that another appender added.
    pub foreign_entries: Arc<Mutex<Vec<Entry>>>,
    pub listeners: Mutex<Vec<Listener>>,
    /// Listeners are not called while this is true.
    pub is_silent: Arc<AtomicBool>,
    /// The height of a block that listeners were not called for; 0 if there is none.
    pub unannounced: AtomicU64,
}

type Listener = Arc<dyn Fn(u64) + Send + Sync>;

impl FaultyLedger {
    fn injects_no_fault(&self) -> bool {
        self.is_fault_free.load(Ordering::Relaxed)
    }

    /// Appends a block of another appender before the service's own block.
    fn append_foreign_block(&self, time: UnixSeconds) {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.random.next().to_le_bytes());
        let entry = Entry { request_id: RequestId::from_random(id), operation: clients::random_creation(&self.random) };
        let block =
            Block::seal(&self.inner.head(), super::DOMAIN, time, RuleParameters::default(), vec![entry.clone()]);
        if self.inner.append(&block).is_ok() {
            self.foreign_entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        }
    }
}

impl LedgerReader for FaultyLedger {
    fn head(&self) -> Seal {
        // Calls the listeners for the unannounced block, as the embedded ledger does when it reads
        // its head after an append whose result it does not have.
        match self.unannounced.swap(0, Ordering::Relaxed) {
            0 => {}
            height => {
                for listener in self.listeners.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                    listener(height);
                }
            }
        }
        self.inner.head()
    }

    fn block(&self, height: u64) -> Result<Option<Block>, StoreError> {
        if !self.injects_no_fault() && self.random.once_in(16) {
            return Err(INJECTED);
        }
        self.inner.block(height)
    }

    fn height_of(&self, block_hash: &B256) -> Result<Option<u64>, StoreError> {
        self.inner.height_of(block_hash)
    }

    fn place(&self, request_id: &RequestId) -> Result<Option<Place>, StoreError> {
        if !self.injects_no_fault() && self.random.once_in(40) {
            return Err(INJECTED);
        }
        self.inner.place(request_id)
    }

    fn listen(&self, listener: Box<dyn Fn(u64) + Send + Sync>) {
        let listener: Listener = Arc::from(listener);
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&listener));
        let is_silent = Arc::clone(&self.is_silent);
        self.inner.listen(Box::new(move |height| {
            if !is_silent.load(Ordering::Relaxed) {
                listener(height);
            }
        }));
    }
}

impl Ledger for FaultyLedger {
    fn append(&self, block: &Block) -> Result<(), LedgerError> {
        if self.injects_no_fault() {
            return self.inner.append(block);
        }
        match self.random.below(16) {
            0 => Err(INJECTED.into()),
            1 => {
                self.is_silent.store(true, Ordering::Relaxed);
                let appended = self.inner.append(block);
                self.is_silent.store(false, Ordering::Relaxed);
                appended?;
                self.unannounced.store(block.header.height, Ordering::Relaxed);
                Err(INJECTED.into())
            }
            2 => {
                self.append_foreign_block(block.header.time);
                self.inner.append(block)
            }
            _ => self.inner.append(block),
        }
    }
}
