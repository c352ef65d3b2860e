//! Applied blocks: each is one commit.

use std::sync::PoisonError;

use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::{ParallelSlice, ParallelSliceMut};
use selfsame_protocol::B256;
use selfsame_protocol::encoding::encode;
use selfsame_protocol::ledger::{Block, BlockEffects, Entry, Outcome, RootRecord, Seal, Tip};
use selfsame_protocol::tree::{HashPairs, Node, hash_pairs};

use crate::database::{Changes, RecordSource};
use crate::error::StoreError;
use crate::schema::family;
use crate::schema::records::{
    AppliedBlock, AppliedTip, IdempotencyKey, Place, QueuedEntry, RequestFailure, RequestRecord,
};
use crate::store::Store;

impl Store {
    /// The result of the block at `height`; `None` when it is not applied.
    pub fn applied_block(&self, height: u64) -> Result<Option<AppliedBlock>, StoreError> {
        self.database().get(&family::RESULTS, &height)
    }

    /// The hash of the applied block at `height`; `None` when it is not applied. No outcome is
    /// decoded.
    pub fn applied_block_hash(&self, height: u64) -> Result<Option<B256>, StoreError> {
        let Some(bytes) = self.database().read(family::RESULTS.name, &encode(&height))? else { return Ok(None) };
        let result = AppliedBlock::decode_result(&bytes);
        let damaged = |reason| StoreError::Damaged { family: family::RESULTS.name, reason };
        result.map(|result| Some(result.block_hash)).map_err(damaged)
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
    /// For each of its requests, it writes why the request failed, if it did, and deletes the entry
    /// in the queue.
    ///
    /// The commit is not synced: the sealed block is, and applying it again gives the same result.
    ///
    /// # Errors
    /// [`StoreError::StaleCommit`] when another block was committed after the effects were
    /// computed.
    pub fn commit(&self, block: &Block, effects: &BlockEffects) -> Result<(), StoreError> {
        self.commit_together(block, effects, Changes::default())
    }

    /// [`BlockWriter::commit`] of a block that was sealed from this store's queue and was never
    /// applied. `sequences` are those under which its requests were queued, in the order of the
    /// block: their records need not be read.
    ///
    /// # Errors
    /// Those of [`BlockWriter::commit`].
    pub fn commit_queued(&self, block: &Block, effects: &BlockEffects, sequences: &[u64]) -> Result<(), StoreError> {
        debug_assert_eq!(block.entries.len(), sequences.len());
        let mut changes = Changes::default();
        self.finish_requests(&mut changes, block, effects, sequences)?;
        self.commit_with(changes, effects)
    }

    /// Commits an applied block and further changes.
    ///
    /// The block may have been applied before, in a store whose accounts, addresses, tree, roots
    /// and results end before it. Requests whose records were deleted get none.
    pub(crate) fn commit_together(
        &self,
        block: &Block,
        effects: &BlockEffects,
        mut changes: Changes,
    ) -> Result<(), StoreError> {
        self.finish_requests(&mut changes, block, effects, &[])?;
        self.commit_with(changes, effects)
    }

    /// Commits the effects of a block and further changes.
    pub(crate) fn commit_with(&self, mut changes: Changes, effects: &BlockEffects) -> Result<(), StoreError> {
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
        self.announce(effects);
        self.store.database().write(changes, false)?;
        self.store.upper_pages().extend(&applied.tip, &effects.tip, &effects.pages);
        fault_point!(self.store.fault_scope(), BlockCommitAfter);
        Ok(())
    }

    /// Has the values forgotten that the block changes.
    fn announce(&self, effects: &BlockEffects) {
        let height = effects.tip.seal.height;
        self.store.recent_accounts().announce(height, effects.accounts.keys().map(|leaf_index| leaf_index.0));
        // A leaf's siblings change with its page.
        let leaves = effects.pages.iter().flat_map(|(id, _)| id.leaves());
        self.store.recent_siblings().announce(height, leaves);
    }

    /// Ends the requests of a block: deletes their entries in the queue, and writes why they
    /// failed. The record of a request whose operation was applied stays as it was admitted.
    ///
    /// Requests without a sequence number in `queued` are looked up.
    fn finish_requests(
        &self,
        changes: &mut Changes,
        block: &Block,
        effects: &BlockEffects,
        queued: &[u64],
    ) -> Result<(), StoreError> {
        let swept = self.store.swept_requests()?;
        let height = block.header.height;
        let mut last_sequence = 0;
        for (position, entry) in (0u32..).zip(&block.entries) {
            let kind = entry.operation.kind();
            let known = match queued.get(position as usize) {
                Some(sequence) => Some(RequestRecord { kind, sequence: *sequence, failure: None }),
                None => self.store.request(&entry.request_id)?,
            };
            if known.is_none() && swept.contains(Place { height, position }) {
                continue;
            }
            // A block that came from elsewhere may carry requests that were never admitted here.
            let sequence = known.as_ref().map_or(0, |record| record.sequence);
            last_sequence = last_sequence.max(sequence);
            if sequence != 0 {
                changes.delete(&family::QUEUE, &sequence);
            }
            let failure = failure_of(effects, position as usize);
            let record = RequestRecord { kind, sequence, failure };
            if known.as_ref() != Some(&record) {
                changes.put(&family::REQUESTS, &entry.request_id, &record);
            }
        }
        if last_sequence > self.store.finished_sequence()? {
            changes.put(&family::FINISHED_SEQUENCE, &(), &last_sequence);
        }
        Ok(())
    }
}

/// Why the request at a position of a block failed; `None` when its operation was applied.
pub(crate) fn failure_of(effects: &BlockEffects, position: usize) -> Option<RequestFailure> {
    match &effects.outcomes[position] {
        Outcome::Applied { .. } => None,
        Outcome::Failed { code, .. } => {
            let message = effects.messages.get(&position).cloned().unwrap_or_default();
            Some(RequestFailure { height: effects.tip.seal.height, code: *code, message })
        }
    }
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

// What a store records of a request that is admitted, and of a block that is sealed: the same in
// the store where it was decided and in every replica.

/// Everything that admitting a request writes.
pub(crate) fn admission_changes(sequence: u64, entry: Entry, idempotency: Option<IdempotencyKey>) -> Changes {
    let mut changes = Changes::default();
    let record = RequestRecord { kind: entry.operation.kind(), sequence, failure: None };
    changes.put(&family::REQUESTS, &entry.request_id, &record);
    if let Some((key_hash, record)) = &idempotency {
        changes.put(&family::IDEMPOTENCY, key_hash, record);
        changes.put(&family::ACCEPTED_KEYS, &(record.accepted_at, *key_hash), &());
    }
    changes.put(&family::QUEUE, &sequence, &QueuedEntry { entry });
    changes
}

/// What appending a block writes: the block, and where it and its requests are found.
pub(crate) fn append_changes(block: &Block, seal: &Seal) -> Changes {
    let mut changes = Changes::default();
    changes.put(&family::BLOCKS, &seal.height, block);
    put_indexes(&mut changes, block, seal);
    changes
}

/// Writes where a block and its requests are found.
pub(crate) fn put_indexes(changes: &mut Changes, block: &Block, seal: &Seal) {
    changes.put(&family::BLOCK_HASHES, &seal.hash, &seal.height);
    for (position, entry) in (0u32..).zip(&block.entries) {
        changes.put(&family::PLACES, &entry.request_id, &Place { height: seal.height, position });
    }
}

// The hashes of a large update of the tree, on all cores.

/// Fewer pairs than this are hashed on the calling thread. They take half a millisecond with the
/// instructions that hash eight at once, and waking a thread takes some microseconds.
const LEAST_PAIRS: usize = 512;

/// Pairs that a thread takes at a time.
const CHUNK: usize = 128;

/// Hashes many pairs on the threads of the rayon pool that it is called in, few on the calling
/// thread.
#[derive(Clone, Copy, Debug)]
pub struct AllCores;

impl HashPairs for AllCores {
    fn hash_pairs(&self, pairs: &[[Node; 2]]) -> Vec<Node> {
        if pairs.len() < LEAST_PAIRS || rayon::current_num_threads() < 2 {
            return hash_pairs(pairs);
        }
        let mut parents = vec![Node::ZERO; pairs.len()];
        let chunks = parents.par_chunks_mut(CHUNK).zip(pairs.par_chunks(CHUNK));
        chunks.for_each(|(parents, pairs)| parents.copy_from_slice(&hash_pairs(pairs)));
        parents
    }
}

#[cfg(test)]
mod tests {
    use selfsame_protocol::ledger::Entry;

    use super::admission_changes;
    use super::*;
    use crate::ledger::EmbeddedLedger;
    use crate::tests::{admit, create, effects, folder, open, request_id, seal};

    #[test]
    fn sequence_numbers_that_are_known_leave_the_same_records() {
        let [looked_up, known] = [&[][..], &[1, 2, 3]].map(|sequences| {
            let folder = folder();
            let store = open(&folder);
            let ledger = EmbeddedLedger::open(store.clone()).expect("a ledger");
            admit(&store, 1, 1);
            // The same address once more, which the rules refuse.
            let again = Entry { request_id: request_id(2), operation: create(1) };
            store.database().write(admission_changes(2, again, None), true).expect("the admission is written");
            admit(&store, 3, 3);
            let block = seal(&store, &ledger, 1000);
            let (writer, effects) = (BlockWriter::new(store.clone()), effects(&store, &block));
            assert!(matches!(effects.outcomes[1], Outcome::Failed { .. }), "{:?}", effects.outcomes);
            match sequences {
                [] => writer.commit(&block, &effects),
                known => writer.commit_queued(&block, &effects, known),
            }
            .expect("the block is committed");
            assert_eq!(store.open_requests().expect("the read succeeds"), vec![]);
            let database = store.database();
            let records = database.families().flat_map(|family| database.raw_records(family).expect("a family"));
            records.map(|record| record.expect("a record")).collect::<Vec<_>>()
        });
        assert_eq!(looked_up, known);
    }

    mod hashing {
        use super::super::*;

        #[test]
        fn the_hashes_of_batches_of_each_size_are_those_of_one_thread() {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().expect("threads start");
            for count in [0, 1, LEAST_PAIRS - 1, LEAST_PAIRS, 3 * CHUNK + LEAST_PAIRS + 5] {
                let node = |number: usize| Node::left_padding_from(&number.to_be_bytes());
                let pairs: Vec<_> = (0..count).map(|index| [node(index), node(7 * index + 1)]).collect();
                assert_eq!(pool.install(|| AllCores.hash_pairs(&pairs)), hash_pairs(&pairs));
            }
        }
    }
}
