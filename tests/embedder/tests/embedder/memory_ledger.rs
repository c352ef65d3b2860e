//! A ledger of an embedder: blocks in memory, which can fail, forget and stay silent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use selfsame_actors::protocol::B256;
use selfsame_actors::protocol::ledger::{Block, RequestId, Seal};
use selfsame_actors::storage::{GroupCommit, Ledger, LedgerError, LedgerReader, OnAppended, Place, StoreError};

/// Is called with the height of each new block.
type Listener = Box<dyn Fn(u64) + Send + Sync>;

#[derive(Default)]
pub struct MemoryLedger {
    blocks: Mutex<Vec<Block>>,
    listeners: Mutex<Vec<Listener>>,
    /// The listeners are not notified of new blocks.
    pub is_silent: AtomicBool,
    /// Nothing can be appended.
    pub refuses_appends: AtomicBool,
    /// No block can be read.
    pub refuses_reads: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryLedger {
    /// Forgets the blocks after a height, as an engine does that loses its tail.
    pub fn forget_after(&self, height: usize) {
        lock(&self.blocks).truncate(height);
    }

    /// Appends a block as another appender does.
    pub fn append_foreign(&self, block: Block) {
        lock(&self.blocks).push(block);
    }

    pub fn blocks(&self) -> Vec<Block> {
        lock(&self.blocks).clone()
    }

    fn find<T>(&self, found: impl Fn(&Block, u64) -> Option<T>) -> Option<T> {
        let blocks = lock(&self.blocks);
        blocks.iter().zip(1..).find_map(|(block, height)| found(block, height))
    }
}

/// An error while `refuses` is set.
fn check(refuses: &AtomicBool) -> Result<(), StoreError> {
    match refuses.load(Ordering::Relaxed) {
        true => Err(StoreError::Ledger { reason: "its machine is away".to_owned() }),
        false => Ok(()),
    }
}

impl LedgerReader for MemoryLedger {
    fn head(&self) -> Seal {
        lock(&self.blocks).last().map_or_else(Seal::default, |block| Seal::of(&block.header))
    }

    fn block(&self, height: u64) -> Result<Option<Block>, StoreError> {
        check(&self.refuses_reads)?;
        Ok(self.find(|block, at| (at == height).then(|| block.clone())))
    }

    fn height_of(&self, block_hash: &B256) -> Result<Option<u64>, StoreError> {
        check(&self.refuses_reads)?;
        Ok(self.find(|block, height| (block.header.hash() == *block_hash).then_some(height)))
    }

    fn place(&self, request_id: &RequestId) -> Result<Option<Place>, StoreError> {
        Ok(self.find(|block, height| {
            let position = block.entries.iter().position(|entry| entry.request_id == *request_id)?;
            Some(Place { height, position: position as u32 })
        }))
    }

    fn listen(&self, listener: Box<dyn Fn(u64) + Send + Sync>) {
        lock(&self.listeners).push(listener);
    }
}

impl Ledger for MemoryLedger {
    fn append(&self, block: &Block, _: &GroupCommit, appended: OnAppended) {
        if let Err(error) = check(&self.refuses_appends) {
            return appended(Err(error.into()));
        }
        let height = {
            let mut blocks = lock(&self.blocks);
            let head = blocks.last().map_or_else(Seal::default, |block| Seal::of(&block.header));
            if !block.follows(&head) {
                drop(blocks);
                return appended(Err(LedgerError::NotNext { found: block.header.height, head: head.height }));
            }
            blocks.push(block.clone());
            block.header.height
        };
        appended(Ok(()));
        if !self.is_silent.load(Ordering::Relaxed) {
            lock(&self.listeners).iter().for_each(|listener| listener(height));
        }
    }
}
