//! A ledger that fails, and that others append to.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use selfsame_protocol::B256;
use selfsame_protocol::ledger::{Block, Entry, RequestId, Seal};
use selfsame_protocol::registry::RuleParameters;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{EmbeddedLedger, Ledger, LedgerError, LedgerReader, Place, StoreError};

use super::chance::Chance;
use super::people;

/// What a simulated fault is called in errors.
pub(super) const INJECTED: StoreError = StoreError::Injected { point: "the simulation" };

/// An embedded ledger with faults in front.
pub(super) struct FaultyLedger {
    pub inner: EmbeddedLedger,
    pub chance: Chance,
    /// Nothing fails any more.
    pub calm: Arc<AtomicBool>,
    /// What strangers put into blocks of theirs.
    pub strangers: Arc<Mutex<Vec<Entry>>>,
    pub listeners: Mutex<Vec<Listener>>,
    /// Listeners are told of nothing.
    pub is_silent: Arc<AtomicBool>,
    /// The height of a block that they were not told of; 0 if there is none.
    pub untold: AtomicU64,
}

type Listener = Arc<dyn Fn(u64) + Send + Sync>;

impl FaultyLedger {
    fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    /// A stranger appends a block before ours.
    fn intrude(&self, time: UnixSeconds) {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.chance.next().to_le_bytes());
        let entry = Entry { request_id: RequestId::from_random(id), operation: people::some_creation(&self.chance) };
        let block = Block::seal(&self.inner.head(), time, RuleParameters::default(), vec![entry.clone()]);
        if self.inner.append(&block).is_ok() {
            self.strangers.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        }
    }
}

impl LedgerReader for FaultyLedger {
    fn head(&self) -> Seal {
        // As the embedded ledger does, which looks at what is there when it does not know what became of a block.
        match self.untold.swap(0, Ordering::Relaxed) {
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
        if !self.is_calm() && self.chance.once_in(16) {
            return Err(INJECTED);
        }
        self.inner.block(height)
    }

    fn height_of(&self, block_hash: &B256) -> Result<Option<u64>, StoreError> {
        self.inner.height_of(block_hash)
    }

    fn place(&self, request_id: &RequestId) -> Result<Option<Place>, StoreError> {
        if !self.is_calm() && self.chance.once_in(40) {
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
        if self.is_calm() {
            return self.inner.append(block);
        }
        match self.chance.below(16) {
            0 => Err(INJECTED.into()),
            1 => {
                self.is_silent.store(true, Ordering::Relaxed);
                let appended = self.inner.append(block);
                self.is_silent.store(false, Ordering::Relaxed);
                appended?;
                self.untold.store(block.header.height, Ordering::Relaxed);
                Err(INJECTED.into())
            }
            2 => {
                self.intrude(block.header.time);
                self.inner.append(block)
            }
            _ => self.inner.append(block),
        }
    }
}
