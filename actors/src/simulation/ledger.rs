//! A ledger that fails, and a ledger in memory that several services share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use selfsame_protocol::B256;
use selfsame_protocol::ledger::{Block, RequestId, Seal};
use selfsame_storage::{GroupCommit, Ledger, LedgerError, LedgerReader, OnAppended, Place, StoreError};

use super::faults::{Faults, INJECTED};

/// A ledger with the faults of a run: [`super::Run::faulty_ledger`].
pub struct FaultyLedger {
    inner: Arc<dyn Ledger>,
    faults: Faults,
}

impl FaultyLedger {
    pub(super) fn new(inner: Arc<dyn Ledger>, faults: Faults) -> Self {
        Self { inner, faults }
    }
}

impl LedgerReader for FaultyLedger {
    fn head(&self) -> Seal {
        self.inner.head()
    }

    fn block(&self, height: u64) -> Result<Option<Block>, StoreError> {
        if self.faults.strikes(self.faults.rates.failed_reads) {
            return Err(INJECTED);
        }
        self.inner.block(height)
    }

    fn height_of(&self, block_hash: &B256) -> Result<Option<u64>, StoreError> {
        self.inner.height_of(block_hash)
    }

    fn place(&self, request_id: &RequestId) -> Result<Option<Place>, StoreError> {
        if self.faults.strikes(self.faults.rates.failed_lookups) {
            return Err(INJECTED);
        }
        self.inner.place(request_id)
    }

    fn listen(&self, listener: Box<dyn Fn(u64) + Send + Sync>) {
        let faults = self.faults.clone();
        self.inner.listen(Box::new(move |height| {
            if !faults.strikes(faults.rates.lost_notifications) {
                listener(height);
            }
        }));
    }
}

impl Ledger for FaultyLedger {
    fn append(&self, block: &Block, commits: &GroupCommit, appended: OnAppended) {
        let rates = &self.faults.rates;
        if self.faults.strikes(rates.failed_appends) {
            return appended(Err(INJECTED.into()));
        }
        if self.faults.strikes(rates.doubtful_appends) {
            let failed = move |result: Result<(), LedgerError>| appended(result.and(Err(INJECTED.into())));
            return self.inner.append(block, commits, Box::new(failed));
        }
        self.inner.append(block, commits, appended);
    }
}

/// A ledger in memory, which outlives the runs of a history. Several services may append to it;
/// each of them follows the blocks of all. Clones are the same ledger.
#[derive(Clone, Default)]
pub struct MemoryLedger(Arc<Inner>);

type Listener = Box<dyn Fn(u64) + Send + Sync>;

#[derive(Default)]
struct Inner {
    blocks: Mutex<Blocks>,
    listeners: Mutex<Vec<Listener>>,
}

#[derive(Default)]
struct Blocks {
    blocks: Vec<Block>,
    heights: HashMap<B256, u64>,
    places: HashMap<RequestId, Place>,
    head: Seal,
}

impl Blocks {
    fn append(&mut self, block: &Block) -> Result<u64, LedgerError> {
        if !block.follows(&self.head) {
            return Err(LedgerError::NotNext { found: block.header.height, head: self.head.height });
        }
        let seal = Seal::of(&block.header);
        for (position, entry) in (0..).zip(&block.entries) {
            let place = Place { height: seal.height, position };
            self.places.insert(entry.request_id, place);
        }
        self.heights.insert(seal.hash, seal.height);
        self.blocks.push(block.clone());
        self.head = seal;
        Ok(seal.height)
    }
}

impl MemoryLedger {
    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.0.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LedgerReader for MemoryLedger {
    fn head(&self) -> Seal {
        self.blocks().head
    }

    fn block(&self, height: u64) -> Result<Option<Block>, StoreError> {
        let index = height.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        Ok(index.and_then(|index| self.blocks().blocks.get(index).cloned()))
    }

    fn height_of(&self, block_hash: &B256) -> Result<Option<u64>, StoreError> {
        Ok(self.blocks().heights.get(block_hash).copied())
    }

    fn place(&self, request_id: &RequestId) -> Result<Option<Place>, StoreError> {
        Ok(self.blocks().places.get(request_id).copied())
    }

    fn listen(&self, listener: Box<dyn Fn(u64) + Send + Sync>) {
        self.listeners().push(listener);
    }
}

impl Ledger for MemoryLedger {
    fn append(&self, block: &Block, _: &GroupCommit, appended: OnAppended) {
        let outcome = self.blocks().append(block);
        let height = outcome.as_ref().ok().copied();
        appended(outcome.map(drop));
        if let Some(height) = height {
            self.listeners().iter().for_each(|listener| listener(height));
        }
    }
}
