//! A ledger to which another appender adds blocks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use selfsame_protocol::B256;
use selfsame_protocol::ledger::{Block, Entry, RequestId, Seal};
use selfsame_protocol::registry::RuleParameters;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{EmbeddedLedger, GroupCommit, Ledger, LedgerError, LedgerReader, OnAppended, Place, StoreError};

use super::{DOMAIN, clients};
use crate::simulation::SeededRandom;

/// One block in so many is preceded by one of another appender.
const INTRUSIONS: u64 = 16;

/// The embedded ledger of a store, with another appender.
pub(super) struct IntrudedLedger {
    pub inner: EmbeddedLedger,
    pub random: SeededRandom,
    pub foreign_entries: ForeignEntries,
    /// Whether the other appender is there.
    pub is_intruded: bool,
}

/// The entries of the blocks that another appender added, or tried to.
#[derive(Clone, Default)]
pub(super) struct ForeignEntries(Arc<Mutex<Vec<ForeignEntry>>>);

/// An entry of another appender's block.
#[derive(Clone)]
pub(super) struct ForeignEntry {
    pub entry: Entry,
    /// Whether the append was reported as done. A block may be in the ledger without.
    pub is_reported: bool,
}

impl ForeignEntries {
    pub fn all(&self) -> Vec<ForeignEntry> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ForeignEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IntrudedLedger {
    /// Appends a block of another appender before the service's own block.
    fn append_foreign_block(&self, time: UnixSeconds, commits: &GroupCommit) {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.random.draw().to_le_bytes());
        let entry = Entry {
            request_id: RequestId::from_random(id),
            operation: clients::random_creation(&self.random).operation,
        };
        let block = Block::seal(&self.inner.head(), DOMAIN, time, RuleParameters::default(), vec![entry.clone()]);
        let number = {
            let mut entries = self.foreign_entries.lock();
            entries.push(ForeignEntry { entry, is_reported: false });
            entries.len() - 1
        };
        let foreign_entries = self.foreign_entries.clone();
        let appended = move |appended: Result<(), LedgerError>| {
            foreign_entries.lock()[number].is_reported = appended.is_ok();
        };
        self.inner.append(&block, commits, Box::new(appended));
    }
}

impl LedgerReader for IntrudedLedger {
    fn head(&self) -> Seal {
        self.inner.head()
    }

    fn block(&self, height: u64) -> Result<Option<Block>, StoreError> {
        self.inner.block(height)
    }

    fn height_of(&self, block_hash: &B256) -> Result<Option<u64>, StoreError> {
        self.inner.height_of(block_hash)
    }

    fn place(&self, request_id: &RequestId) -> Result<Option<Place>, StoreError> {
        self.inner.place(request_id)
    }

    fn listen(&self, listener: Box<dyn Fn(u64) + Send + Sync>) {
        self.inner.listen(listener);
    }
}

impl Ledger for IntrudedLedger {
    fn append(&self, block: &Block, commits: &GroupCommit, appended: OnAppended) {
        if self.is_intruded && self.random.once_in(INTRUSIONS) {
            self.append_foreign_block(block.header.time, commits);
        }
        self.inner.append(block, commits, appended);
    }
}
