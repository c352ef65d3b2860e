//! Checking a stopped store: everything derived is rebuilt from the blocks and compared.

use std::path::Path;

use alloy_primitives::hex;
use selfsame_protocol::ledger::{Block, Outcome, Seal, apply_block, recover_signers};

use crate::database::{OpenOptions, Read, Store};
use crate::error::StoreError;
use crate::family;
use crate::registry_store::AppliedTip;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsckReport {
    /// Blocks in the ledger.
    pub blocks: u64,
    /// Blocks that were applied; the others will be at the next start.
    pub applied: u64,
    /// Operations in the applied blocks.
    pub operations: u64,
    /// Accounts.
    pub accounts: u64,
    /// Requests waiting in the queue.
    pub queued: u64,
    /// What is wrong, a line each, the first [`FsckReport::MAX_FAULTS`].
    pub faults: Vec<String>,
}

impl FsckReport {
    /// Faults listed in a report; a damaged store can have millions.
    pub const MAX_FAULTS: usize = 100;

    fn fault(&mut self, fault: String) {
        if self.faults.len() < Self::MAX_FAULTS {
            self.faults.push(fault);
        }
    }
}

/// Rebuilds accounts, tree and roots of `store` from its blocks into a new store in the empty directory `scratch`, compares all
/// of it byte by byte, and checks that queue, locks, places and request states agree with the blocks.
pub fn fsck(store: &Store, scratch: &Path) -> Result<FsckReport, StoreError> {
    let mut report = FsckReport::default();
    let rebuilt = Store::open(scratch, &OpenOptions::new(store.domain()))?;
    let applied: AppliedTip = store.database().get(&family::APPLIED, &())?.unwrap_or_default();
    report.applied = applied.tip.seal.height;
    report.accounts = applied.next_leaf_index.saturating_sub(1);
    rebuild(store, &rebuilt, &mut report)?;
    for family in family::DERIVED {
        compare(store, &rebuilt, family, &mut report)?;
    }
    check_queue(store, &mut report)?;
    Ok(report)
}

/// Walks the blocks: their links, places and hashes, and applies those that `store` has applied.
fn rebuild(store: &Store, rebuilt: &Store, report: &mut FsckReport) -> Result<(), StoreError> {
    let database = store.database();
    let mut head = Seal::default();
    for record in database.records_from(&family::BLOCKS, &0)? {
        let (height, block) = record?;
        if !block.follows(&head) {
            report.fault(format!(
                "block {height} does not follow block {}, or its header does not fit its operations",
                head.height
            ));
            return Ok(());
        }
        head = Seal::of(&block.header);
        report.blocks = height;
        if database.get(&family::BLOCK_HASHES, &head.hash)? != Some(height) {
            report.fault(format!("block {height} is not found by its hash {:#x}", head.hash));
        }
        for (position, entry) in (0u32..).zip(&block.entries) {
            let request_id = entry.request_id;
            let place = database.get(&family::PLACES, &request_id)?;
            if place
                .is_none_or(|place| (place.height, place.position, place.block_hash) != (height, position, head.hash))
            {
                report.fault(format!(
                    "request {request_id} is operation {position} of block {height}, its place says {place:?}"
                ));
            }
        }
        if height > report.applied {
            continue;
        }
        report.operations += u64::from(block.header.count);
        let snapshot = rebuilt.snapshot()?;
        let signers = recover_signers(&block.entries, &store.domain());
        let effects = apply_block(&block, &signers, &snapshot, snapshot.tip())?;
        rebuilt.commit_block(&block, &effects)?;
        check_states(store, &block, &effects.outcomes, report)?;
    }
    if report.blocks < report.applied {
        report.fault(format!("block {} was applied, but the ledger ends at block {}", report.applied, report.blocks));
    }
    Ok(())
}

/// Compares the final states that are kept (they expire) with the outcomes of a block that was applied again.
fn check_states(store: &Store, block: &Block, outcomes: &[Outcome], report: &mut FsckReport) -> Result<(), StoreError> {
    for (entry, outcome) in block.entries.iter().zip(outcomes) {
        let Some(record) = store.request(&entry.request_id)? else { continue };
        if record.final_state.as_ref().map(|state| (state.height, &state.outcome))
            != Some((block.header.height, outcome))
        {
            let request_id = entry.request_id;
            report
                .fault(format!("request {request_id} ended as {outcome:?}, its record says {:?}", record.final_state));
        }
    }
    Ok(())
}

/// Compares a family of two stores record by record.
fn compare(store: &Store, rebuilt: &Store, family: &'static str, report: &mut FsckReport) -> Result<(), StoreError> {
    let mut found = store.database().raw_records(family)?;
    let mut expected = rebuilt.database().raw_records(family)?;
    let (mut left, mut right) = (found.next().transpose()?, expected.next().transpose()?);
    loop {
        let fault = match (&left, &right) {
            (None, None) => return Ok(()),
            (Some(left), Some(right)) if left == right => None,
            (Some(left), Some(right)) if left.0 == right.0 => Some(("differs from", &left.0)),
            (Some(left), Some(right)) if left.0 > right.0 => Some(("is missing, but follows from", &right.0)),
            (None, Some(right)) => Some(("is missing, but follows from", &right.0)),
            (Some(left), _) => Some(("does not follow from", &left.0)),
        };
        if let Some((what, key)) = fault {
            report.fault(format!("{family}: record {} {what} the blocks", hex::encode(key)));
        }
        let order = match (&left, &right) {
            (Some(left), Some(right)) => left.0.cmp(&right.0),
            (None, _) => std::cmp::Ordering::Greater,
            (_, None) => std::cmp::Ordering::Less,
        };
        if order.is_le() {
            left = found.next().transpose()?;
        }
        if order.is_ge() {
            right = expected.next().transpose()?;
        }
    }
}

/// Every queued request is open and holds its locks, and nobody else holds any.
fn check_queue(store: &Store, report: &mut FsckReport) -> Result<(), StoreError> {
    let mut expected_locks = 0;
    for record in store.database().records_from(&family::QUEUE, &0)? {
        let (sequence, queued) = record?;
        report.queued += 1;
        let request_id = queued.request_id;
        let open = store
            .request(&request_id)?
            .is_some_and(|record| record.final_state.is_none() && record.sequence == sequence);
        if !open {
            report.fault(format!(
                "request {request_id} waits in the queue as {sequence}, but its record is not that of an open request"
            ));
        }
        for lock in queued.operation.locks() {
            expected_locks += 1;
            if store.database().get(&family::LOCKS, &lock)? != Some(request_id) {
                report.fault(format!("request {request_id} waits in the queue, but does not hold the lock on {lock}"));
            }
        }
    }
    let held = store.database().raw_records(family::LOCKS.name)?.count();
    if held != expected_locks {
        report.fault(format!("{held} locks are held, the queued requests need {expected_locks}"));
    }
    Ok(())
}
