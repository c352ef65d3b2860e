//! Applied blocks: each is one commit.

use std::sync::PoisonError;

use selfsame_protocol::ledger::{Block, BlockEffects, RootRecord, Tip};

use crate::database::{Changes, RecordSource};
use crate::error::StoreError;
use crate::schema::family;
use crate::schema::registry::{AppliedBlock, AppliedTip};
use crate::schema::requests::{FinalState, RequestRecord};
use crate::store::Store;

impl Store {
    /// The result of the block at `height`; `None` when it is not applied.
    pub fn applied_block(&self, height: u64) -> Result<Option<AppliedBlock>, StoreError> {
        self.database().get(&family::RESULTS, &height)
    }
}

/// The right to change accounts, addresses, tree and roots: the only type that commits applied
/// blocks.
pub struct BlockWriter {
    store: Store,
}

impl BlockWriter {
    /// Commits applied blocks to `store`. A service makes one and gives it to its tree maintainer.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Commits an applied block atomically: accounts, addresses, tree pages, roots and the result.
    /// For each of its requests, it writes the final state, releases the locks and deletes the
    /// entry in the queue.
    ///
    /// The commit is not synced: the sealed block is, and applying it again gives the same result.
    ///
    /// # Errors
    /// [`StoreError::StaleCommit`] when another block was committed after the effects were
    /// computed.
    pub fn commit(&self, block: &Block, effects: &BlockEffects) -> Result<(), StoreError> {
        let mut changes = Changes::default();
        self.finish_requests(&mut changes, block, effects)?;
        self.commit_with(changes, effects)
    }

    /// Commits a block that was applied before, in a store whose accounts, addresses, tree, roots
    /// and results end before it, with further changes. Of its requests, only those that have a
    /// record get a final state: the records of the others have expired.
    pub(crate) fn commit_again(
        &self,
        block: &Block,
        effects: &BlockEffects,
        mut changes: Changes,
    ) -> Result<(), StoreError> {
        let mut last_sequence = self.store.finished_sequence()?;
        for (position, entry) in block.entries.iter().enumerate() {
            let Some(record) = self.store.request(&entry.request_id)? else { continue };
            let state = final_state(effects, position);
            if record.sequence != 0 {
                changes.delete(&family::QUEUE, &record.sequence);
            }
            last_sequence = last_sequence.max(record.sequence);
            let record = RequestRecord { kind: entry.operation.kind(), final_state: Some(state), ..record };
            changes.put(&family::REQUESTS, &entry.request_id, &record);
            changes.put(&family::FINAL_REQUESTS, &(effects.tip.seal.time, entry.request_id), &());
        }
        if last_sequence > 0 {
            changes.put(&family::FINISHED_SEQUENCE, &(), &last_sequence);
        }
        self.commit_with(changes, effects)
    }

    /// Commits the effects of a block and further changes.
    fn commit_with(&self, mut changes: Changes, effects: &BlockEffects) -> Result<(), StoreError> {
        let _one_at_a_time = self.store.block_commit().lock().unwrap_or_else(PoisonError::into_inner);
        let applied: AppliedTip = self.store.database().get(&family::APPLIED, &())?.unwrap_or_default();
        let seal = effects.tip.seal;
        if effects.result.previous_result_hash != applied.tip.result_hash || seal.height != applied.tip.seal.height + 1
        {
            let (height, applied) = (seal.height, applied.tip.seal.height);
            return Err(StoreError::StaleCommit { height, computed_on: height - 1, applied });
        }
        for (leaf_index, account) in &effects.accounts {
            changes.put(&family::ACCOUNTS, leaf_index, account);
        }
        for (address, mapping) in &effects.addresses {
            match mapping {
                Some(packed) => changes.put(&family::ADDRESSES, address, packed),
                None => changes.delete(&family::ADDRESSES, address),
            }
        }
        for (id, page) in &effects.pages {
            changes.put(&family::TREE_PAGES, id, page);
        }
        put_roots(&mut changes, &applied.tip, &effects.tip);
        let result = AppliedBlock { result: effects.result.clone(), outcomes: effects.outcomes.clone() };
        changes.put(&family::RESULTS, &seal.height, &result);
        let tip = AppliedTip { tip: effects.tip, next_leaf_index: effects.next_leaf_index };
        changes.put(&family::APPLIED, &(), &tip);
        fault_point!(self.store.fault_scope(), BlockCommitBefore);
        self.store.database().write(changes, false)?;
        self.store.upper_pages().extend(&applied.tip, &effects.tip, &effects.pages);
        fault_point!(self.store.fault_scope(), BlockCommitAfter);
        Ok(())
    }

    /// Writes the final state of each request, releases its locks and deletes its entry in the
    /// queue.
    fn finish_requests(&self, changes: &mut Changes, block: &Block, effects: &BlockEffects) -> Result<(), StoreError> {
        let seal = &effects.tip.seal;
        let mut last_sequence = 0;
        for (position, entry) in block.entries.iter().enumerate() {
            // A block that came from elsewhere may carry requests that were never admitted here.
            let sequence = self.store.request(&entry.request_id)?.map_or(0, |record| record.sequence);
            last_sequence = last_sequence.max(sequence);
            if sequence != 0 {
                changes.delete(&family::QUEUE, &sequence);
            }
            for lock in entry.operation.locks() {
                changes.delete(&family::LOCKS, &lock);
            }
            let final_state = Some(final_state(effects, position));
            let record = RequestRecord { kind: entry.operation.kind(), sequence, final_state };
            changes.put(&family::REQUESTS, &entry.request_id, &record);
            changes.put(&family::FINAL_REQUESTS, &(seal.time, entry.request_id), &());
        }
        if last_sequence > self.store.finished_sequence()? {
            changes.put(&family::FINISHED_SEQUENCE, &(), &last_sequence);
        }
        Ok(())
    }
}

/// How the request at a position of a block ended.
fn final_state(effects: &BlockEffects, position: usize) -> FinalState {
    let seal = &effects.tip.seal;
    let message = effects.messages.get(&position).cloned().unwrap_or_default();
    FinalState { height: seal.height, block_hash: seal.hash, outcome: effects.outcomes[position].clone(), message }
}

/// Writes the time of replacement to the replaced root's record. The newest root gets a record
/// without that time, even when it was the newest root once before.
fn put_roots(changes: &mut Changes, before: &Tip, after: &Tip) {
    if before.root == after.root {
        return;
    }
    let replaced = RootRecord { height: before.seal.height, replaced_at: Some(after.seal.time) };
    changes.put(&family::ROOTS, &before.root, &replaced);
    changes.put(&family::ROOTS, &after.root, &RootRecord { height: after.seal.height, replaced_at: None });
}
