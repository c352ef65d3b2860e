//! A ledger that fails, and to which another appender adds blocks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use selfsame_protocol::B256;
use selfsame_protocol::ledger::{Block, Entry, RequestId, Seal};
use selfsame_protocol::registry::RuleParameters;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{EmbeddedLedger, GroupCommit, Ledger, LedgerError, LedgerReader, OnAppended, Place, StoreError};

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
    /// The entries of the blocks that another appender added, or tried to.
    pub foreign_entries: Arc<Mutex<Vec<ForeignEntry>>>,
}

/// An entry of another appender's block.
#[derive(Clone)]
pub(super) struct ForeignEntry {
    pub entry: Entry,
    /// Whether the append was reported as done. A block may be in the ledger without.
    pub is_reported: bool,
}

impl FaultyLedger {
    fn injects_no_fault(&self) -> bool {
        self.is_fault_free.load(Ordering::Relaxed)
    }

    /// Appends a block of another appender before the service's own block.
    fn append_foreign_block(&self, time: UnixSeconds, commits: &GroupCommit) {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.random.next().to_le_bytes());
        let entry = Entry { request_id: RequestId::from_random(id), operation: clients::random_creation(&self.random) };
        let block =
            Block::seal(&self.inner.head(), super::DOMAIN, time, RuleParameters::default(), vec![entry.clone()]);
        let number = {
            let mut entries = self.foreign_entries.lock().unwrap_or_else(PoisonError::into_inner);
            entries.push(ForeignEntry { entry, is_reported: false });
            entries.len() - 1
        };
        let foreign_entries = Arc::clone(&self.foreign_entries);
        let appended = move |appended: Result<(), LedgerError>| {
            let mut entries = foreign_entries.lock().unwrap_or_else(PoisonError::into_inner);
            entries[number].is_reported = appended.is_ok();
        };
        self.inner.append(&block, commits, Box::new(appended));
    }
}

impl LedgerReader for FaultyLedger {
    fn head(&self) -> Seal {
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
        self.inner.listen(listener);
    }
}

impl Ledger for FaultyLedger {
    fn append(&self, block: &Block, commits: &GroupCommit, appended: OnAppended) {
        if self.injects_no_fault() {
            return self.inner.append(block, commits, appended);
        }
        match self.random.below(16) {
            0 => appended(Err(INJECTED.into())),
            1 => {
                // Appended, and reported as failed.
                let failed = move |result: Result<(), LedgerError>| appended(result.and(Err(INJECTED.into())));
                self.inner.append(block, commits, Box::new(failed));
            }
            2 => {
                self.append_foreign_block(block.header.time, commits);
                self.inner.append(block, commits, appended);
            }
            _ => self.inner.append(block, commits, appended),
        }
    }
}
