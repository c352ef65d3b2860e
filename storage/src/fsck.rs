//! Checks a stopped store: rebuilds everything that is derived from the blocks, and compares.

use std::path::Path;

use alloy_primitives::hex;
use selfsame_protocol::ledger::{Block, BlockEffects, Entry, Seal, apply_block, recover_signers};

use crate::applied_blocks::BlockWriter;
use crate::database::RecordSource;
use crate::error::StoreError;
use crate::schema::family;
use crate::schema::registry::AppliedTip;
use crate::schema::requests::FinalState;
use crate::store::{OpenOptions, Store};

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsckReport {
    /// Blocks in the ledger.
    pub blocks: u64,
    /// Blocks that were applied; the next start of the daemon applies the others.
    pub applied: u64,
    /// Operations in the applied blocks.
    pub operations: u64,
    /// Accounts.
    pub accounts: u64,
    /// Requests in the queue.
    pub queued: u64,
    /// What is wrong, one text per finding: the first [`FsckReport::MAX_FINDINGS`].
    pub findings: Vec<String>,
}

impl FsckReport {
    /// Most findings that a report lists. A damaged store can have millions.
    pub const MAX_FINDINGS: usize = 100;

    fn add_finding(&mut self, finding: String) {
        if self.findings.len() < Self::MAX_FINDINGS {
            self.findings.push(finding);
        }
    }
}

/// Rebuilds accounts, tree and roots of `store` from its blocks into a new store in the empty
/// directory `scratch`, compares them byte by byte, and checks that queue, locks, places and
/// request states agree with the blocks.
///
/// # Errors
/// A [`StoreError`] when a record of `store` cannot be read, or `scratch` cannot be written.
pub fn fsck(store: &Store, scratch: &Path) -> Result<FsckReport, StoreError> {
    let mut report = FsckReport::default();
    read_all(store)?;
    let rebuilt = Store::open(scratch, &OpenOptions::new(store.domain()))?;
    let applied: AppliedTip = store.database().get(&family::APPLIED, &())?.unwrap_or_default();
    report.applied = applied.tip.seal.height;
    report.accounts = applied.next_leaf_index.0.saturating_sub(1);
    rebuild(store, &rebuilt, &mut report)?;
    for family in family::DERIVED {
        compare(store, &rebuilt, family, &mut report)?;
    }
    check_queue(store, &mut report)?;
    Ok(report)
}

/// Checks each block's link, places and hash, and applies to `rebuilt` the blocks that `store` has
/// applied.
fn rebuild(store: &Store, rebuilt: &Store, report: &mut FsckReport) -> Result<(), StoreError> {
    let database = store.database();
    let block_writer = BlockWriter::new(rebuilt.clone());
    let mut head = Seal::default();
    for record in database.records(&family::BLOCKS)? {
        let (height, block) = record?;
        if !block.follows(&head) {
            report.add_finding(format!(
                "block {height} does not follow block {}, or its header does not fit its operations",
                head.height
            ));
            return Ok(());
        }
        if !block.belongs_to(&store.domain()) {
            report.add_finding(format!("block {height} belongs to another registry"));
        }
        head = Seal::of(&block.header);
        report.blocks = height;
        if database.get(&family::BLOCK_HASHES, &head.hash)? != Some(height) {
            report.add_finding(format!("block {height} is not found by its hash {:#x}", head.hash));
        }
        for (position, entry) in (0u32..).zip(&block.entries) {
            let request_id = entry.request_id;
            let place = database.get(&family::PLACES, &request_id)?;
            if place
                .is_none_or(|place| (place.height, place.position, place.block_hash) != (height, position, head.hash))
            {
                report.add_finding(format!(
                    "request {request_id} is operation {position} of block {height}, its place is {place:?}"
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
        block_writer.commit(&block, &effects)?;
        check_states(store, &block, &effects, report)?;
    }
    if report.blocks < report.applied {
        report.add_finding(format!(
            "block {} was applied, but the ledger ends at block {}",
            report.applied, report.blocks
        ));
    }
    Ok(())
}

/// Compares the final states that `store` still holds (they expire) with those of the block that
/// was applied again.
fn check_states(
    store: &Store,
    block: &Block,
    effects: &BlockEffects,
    report: &mut FsckReport,
) -> Result<(), StoreError> {
    let seal = effects.tip.seal;
    for (position, (entry, outcome)) in block.entries.iter().zip(&effects.outcomes).enumerate() {
        let request_id = entry.request_id;
        let Some(record) = store.request(&request_id)? else { continue };
        let message = effects.messages.get(&position).cloned().unwrap_or_default();
        let end = FinalState { height: seal.height, block_hash: seal.hash, outcome: outcome.clone(), message };
        if record.kind != entry.operation.kind() {
            let kind = entry.operation.kind();
            report.add_finding(format!("request {request_id} is of kind {kind:?}, its record holds {:?}", record.kind));
        }
        if record.final_state.as_ref() != Some(&end) {
            report.add_finding(format!(
                "request {request_id} ended as {end:?}, its record holds {:?}",
                record.final_state
            ));
        }
    }
    Ok(())
}

/// Reads every record, so that an unreadable one, or one with a wrong checksum, is an error now and
/// not later in a running daemon.
fn read_all(store: &Store) -> Result<(), StoreError> {
    for family in family::ALL {
        for record in store.database().raw_records(family)? {
            record?;
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
        let difference = match (&left, &right) {
            (None, None) => return Ok(()),
            (Some(left), Some(right)) if left == right => None,
            (Some(left), Some(right)) if left.0 == right.0 => Some(("differs from", &left.0)),
            (Some(left), Some(right)) if left.0 > right.0 => Some(("is missing, but follows from", &right.0)),
            (None, Some(right)) => Some(("is missing, but follows from", &right.0)),
            (Some(left), _) => Some(("does not follow from", &left.0)),
        };
        if let Some((what, key)) = difference {
            report.add_finding(format!("{family}: record {} {what} the blocks", hex::encode(key)));
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

/// Checks that every queued request is open and holds its locks, and that no other request holds a
/// lock.
fn check_queue(store: &Store, report: &mut FsckReport) -> Result<(), StoreError> {
    let mut expected_locks = 0;
    for record in store.database().records(&family::QUEUE)? {
        let (sequence, queued) = record?;
        report.queued += 1;
        let Entry { request_id, operation } = queued.entry;
        let open = store
            .request(&request_id)?
            .is_some_and(|record| record.final_state.is_none() && record.sequence == sequence);
        if !open {
            report.add_finding(format!(
                "request {request_id} waits in the queue as {sequence}, but its record is not that of an open request"
            ));
        }
        for lock in operation.locks() {
            expected_locks += 1;
            if store.database().get(&family::LOCKS, &lock)? != Some(request_id) {
                report.add_finding(format!(
                    "request {request_id} waits in the queue, but does not hold the lock on {lock}"
                ));
            }
        }
    }
    let held = store.database().raw_records(family::LOCKS.name)?.count();
    if held != expected_locks {
        report.add_finding(format!("{held} locks are held, the queued requests need {expected_locks}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, B256, U256};
    use selfsame_protocol::ids::{CompressedKey, LeafIndex, PubkeyId};
    use selfsame_protocol::ledger::{Outcome, RootRecord, Tip};
    use selfsame_protocol::registry::{Lock, OperationKind, PackedAccount, RegistryView};
    use selfsame_protocol::time::UnixSeconds;
    use selfsame_protocol::tree::Root;
    use tempfile::TempDir;

    use super::*;
    use crate::database::Changes;
    use crate::ledger::LedgerReader;
    use crate::schema::registry::AppliedBlock;
    use crate::schema::requests::RequestRecord;
    use crate::tests::{admit, commit, folder, open, request_id, seal};
    use crate::{EmbeddedLedger, Place};

    /// A store with two applied blocks, a sealed block and a queued request.
    fn populated_store() -> (TempDir, Store) {
        let folder = folder();
        let store = open(&folder);
        let ledger = EmbeddedLedger::open(store.clone()).expect("the ledger opens");
        for (sequence, time) in [(1, 1000), (2, 2000)] {
            admit(&store, sequence, sequence as u8);
            let block = seal(&store, &ledger, time);
            commit(&store, &block).expect("the block is committed");
        }
        admit(&store, 3, 3);
        seal(&store, &ledger, 3000);
        admit(&store, 4, 4);
        (folder, store)
    }

    fn check(store: &Store) -> FsckReport {
        let scratch = folder();
        fsck(store, scratch.path()).expect("fsck runs")
    }

    fn damage(store: &Store, change: impl FnOnce(&mut Changes)) {
        let mut changes = Changes::default();
        change(&mut changes);
        store.database().write(changes, true).expect("the changes are written");
    }

    /// Changes the first request's record.
    fn change_request(store: &Store, changes: &mut Changes, change: impl FnOnce(&mut RequestRecord)) {
        let mut record = store.request(&request_id(1)).expect("the read succeeds").expect("a request");
        change(&mut record);
        changes.put(&family::REQUESTS, &request_id(1), &record);
    }

    fn final_state_of(record: &mut RequestRecord) -> &mut FinalState {
        record.final_state.as_mut().expect("the request is final")
    }

    #[test]
    fn an_undamaged_store_has_no_findings() {
        let (_folder, store) = populated_store();
        let report = check(&store);
        assert_eq!(report.findings, Vec::<String>::new());
        let FsckReport { blocks, applied, operations, accounts, queued, .. } = report;
        assert_eq!((blocks, applied, operations, accounts, queued), (3, 2, 2, 2, 2));
        assert_eq!(check(&open(&folder())), FsckReport::default(), "an empty store");
    }

    #[test]
    fn every_damaged_record_is_a_finding() {
        type Damage = fn(&Store, &mut Changes);
        let table: [(&str, Damage, &str); 28] = [
            (
                "an account is missing",
                |_, changes| changes.delete(&family::ACCOUNTS, &LeafIndex(1)),
                "accounts: record",
            ),
            (
                "an account has the record of another account",
                |store, changes| {
                    let other = store
                        .snapshot()
                        .and_then(|snapshot| snapshot.account(LeafIndex(2)))
                        .expect("the read succeeds");
                    changes.put(&family::ACCOUNTS, &LeafIndex(1), &other.expect("an account"));
                },
                "differs from the blocks",
            ),
            (
                "an account has another key",
                |store, changes| {
                    let account = store
                        .snapshot()
                        .and_then(|snapshot| snapshot.account(LeafIndex(1)))
                        .expect("the read succeeds");
                    let mut account = account.expect("an account");
                    account.slots[0].as_mut().expect("an authenticator").public_key = CompressedKey(U256::from(9));
                    changes.put(&family::ACCOUNTS, &LeafIndex(1), &account);
                },
                "accounts: record 0000000000000001 differs from the blocks",
            ),
            (
                "an account that no block creates",
                |store, changes| {
                    let other = store
                        .snapshot()
                        .and_then(|snapshot| snapshot.account(LeafIndex(2)))
                        .expect("the read succeeds");
                    changes.put(&family::ACCOUNTS, &LeafIndex(3), &other.expect("an account"));
                },
                "does not follow from the blocks",
            ),
            (
                "an address is missing",
                |_, changes| changes.delete(&family::ADDRESSES, &Address::repeat_byte(1)),
                "addresses: record",
            ),
            (
                "an address that no account has",
                |_, changes| {
                    let packed =
                        PackedAccount { recovery_counter: 0, pubkey_id: PubkeyId(0), leaf_index: LeafIndex(1) };
                    changes.put(&family::ADDRESSES, &Address::repeat_byte(9), &packed);
                },
                "addresses: record",
            ),
            (
                "a tree page is missing",
                |store, changes| {
                    let mut pages = store.database().records(&family::TREE_PAGES).expect("the read succeeds");
                    changes.delete(&family::TREE_PAGES, &pages.next().expect("a page").expect("the read succeeds").0);
                },
                "tree_pages: record",
            ),
            (
                "a tree page has the content of another page",
                |store, changes| {
                    let mut pages = store.database().records(&family::TREE_PAGES).expect("the read succeeds");
                    let mut page = || pages.next().expect("a page").expect("the read succeeds");
                    let (first, second) = (page(), page());
                    changes.put(&family::TREE_PAGES, &first.0, &second.1);
                },
                "tree_pages: record",
            ),
            (
                "a root is missing",
                |store, changes| {
                    let applied: AppliedBlock =
                        store.applied_block(1).expect("the read succeeds").expect("the block is applied");
                    changes.delete(&family::ROOTS, &applied.result.root_after);
                },
                "is missing, but follows from the blocks",
            ),
            (
                "a root has another time of replacement",
                |store, changes| {
                    let root = store
                        .applied_block(1)
                        .expect("the read succeeds")
                        .expect("the block is applied")
                        .result
                        .root_after;
                    let record =
                        store.database().get(&family::ROOTS, &root).expect("the read succeeds").expect("a root");
                    changes.put(&family::ROOTS, &root, &RootRecord { replaced_at: Some(UnixSeconds(2001)), ..record });
                },
                "roots: record",
            ),
            (
                "a root that the tree never had",
                |_, changes| {
                    let record = RootRecord { height: 1, replaced_at: None };
                    changes.put(&family::ROOTS, &Root(B256::repeat_byte(9)), &record);
                },
                "roots: record",
            ),
            (
                "a result differs from the blocks",
                |store, changes| {
                    let applied: AppliedBlock =
                        store.applied_block(1).expect("the read succeeds").expect("the block is applied");
                    changes.put(&family::RESULTS, &2, &applied);
                },
                "results: record",
            ),
            ("a result is missing", |_, changes| changes.delete(&family::RESULTS, &2), "results: record"),
            (
                "the tip is missing",
                |store, changes| {
                    let next_leaf_index = store.snapshot().expect("the read succeeds").next_leaf_index();
                    changes.put(&family::APPLIED, &(), &AppliedTip { tip: Tip::default(), next_leaf_index });
                },
                "applied: record",
            ),
            ("a block is missing", |_, changes| changes.delete(&family::BLOCKS, &1), "block 2 does not follow block 0"),
            (
                "the last applied block is missing",
                |_, changes| {
                    changes.delete(&family::BLOCKS, &2);
                    changes.delete(&family::BLOCKS, &3);
                },
                "block 2 was applied, but the ledger ends at block 1",
            ),
            (
                "a block has other operations",
                |store, changes| {
                    let block = |height| {
                        store.database().get(&family::BLOCKS, &height).expect("the read succeeds").expect("a block")
                    };
                    let (mut first, second): (Block, Block) = (block(1), block(2));
                    first.entries = second.entries;
                    changes.put(&family::BLOCKS, &1, &first);
                },
                "block 1 does not follow block 0, or its header does not fit its operations",
            ),
            (
                "a block has another time",
                |store, changes| {
                    let block = store.database().get(&family::BLOCKS, &1).expect("the read succeeds").expect("a block");
                    let mut block: Block = block;
                    block.header.time.0 += 1;
                    changes.put(&family::BLOCKS, &1, &block);
                },
                "block 2 does not follow block 1",
            ),
            (
                "the last block has another time",
                |store, changes| {
                    let block = store.database().get(&family::BLOCKS, &3).expect("the read succeeds").expect("a block");
                    let mut block: Block = block;
                    block.header.time.0 += 1;
                    changes.put(&family::BLOCKS, &3, &block);
                },
                "block 3 is not found by its hash",
            ),
            (
                "a hash is not found",
                |store, changes| {
                    let block: Block =
                        store.database().get(&family::BLOCKS, &2).expect("the read succeeds").expect("a block");
                    changes.delete(&family::BLOCK_HASHES, &block.header.hash());
                },
                "block 2 is not found by its hash",
            ),
            (
                "a request has another place",
                |_, changes| {
                    let place = Place { height: 2, position: 0, block_hash: B256::ZERO };
                    changes.put(&family::PLACES, &request_id(1), &place);
                },
                "is operation 0 of block 1, its place is",
            ),
            (
                "a request has no place",
                |_, changes| changes.delete(&family::PLACES, &request_id(1)),
                "is operation 0 of block 1, its place is None",
            ),
            (
                "a request has another final state",
                |store, changes| {
                    change_request(store, changes, |record| {
                        final_state_of(record).outcome = Outcome::Applied { leaf_index: LeafIndex(9) }
                    });
                },
                "ended as",
            ),
            (
                "a final request has the record of an open request",
                |store, changes| {
                    let record = store.request(&request_id(1)).expect("the read succeeds").expect("a request");
                    changes.put(&family::REQUESTS, &request_id(1), &RequestRecord { final_state: None, ..record });
                },
                "its record holds None",
            ),
            (
                "a queued request has the record of a final request",
                |store, changes| {
                    let record = store.request(&request_id(1)).expect("the read succeeds").expect("a request");
                    changes.put(&family::REQUESTS, &request_id(4), &RequestRecord { sequence: 4, ..record });
                },
                "its record is not that of an open request",
            ),
            (
                "a queued request has no record",
                |_, changes| changes.delete(&family::REQUESTS, &request_id(4)),
                "its record is not that of an open request",
            ),
            (
                "a lock is missing",
                |_, changes| changes.delete(&family::LOCKS, &Lock::Address(Address::repeat_byte(4))),
                "does not hold the lock on",
            ),
            (
                "a lock that no request needs",
                |_, changes| changes.put(&family::LOCKS, &Lock::LeafIndex(LeafIndex(1)), &request_id(1)),
                "3 locks are held, the queued requests need 2",
            ),
        ];
        for (what, change, expected) in table {
            let (_folder, store) = populated_store();
            damage(&store, |changes| change(&store, changes));
            let findings = check(&store).findings;
            assert!(findings.iter().any(|finding| finding.contains(expected)), "{what}: {findings:?}");
        }
    }

    #[test]
    fn every_field_of_a_final_request_is_checked() {
        type Change = fn(&mut RequestRecord);
        let table: [(&str, Change); 3] = [
            ("block hash", |record| final_state_of(record).block_hash = B256::ZERO),
            ("message", |record| final_state_of(record).message = "because".to_owned()),
            ("kind", |record| record.kind = OperationKind::RecoverAccount),
        ];
        let mut missed = Vec::new();
        for (what, change) in table {
            let (_folder, store) = populated_store();
            damage(&store, |changes| change_request(&store, changes, change));
            if check(&store).findings.is_empty() {
                missed.push(what);
            }
        }
        assert_eq!(missed, Vec::<&str>::new());
    }

    #[test]
    fn the_list_of_findings_is_bounded() {
        let (_folder, store) = populated_store();
        damage(&store, |changes| {
            for number in 0..200u64 {
                changes.put(
                    &family::ROOTS,
                    &Root::from_number(U256::from(number)),
                    &RootRecord { height: 1, replaced_at: None },
                );
            }
        });
        assert_eq!(check(&store).findings.len(), FsckReport::MAX_FINDINGS);
    }

    #[test]
    fn checking_a_store_changes_nothing() {
        let (_folder, store) = populated_store();
        let head = EmbeddedLedger::open(store.clone()).expect("the ledger opens").head();
        assert_eq!(check(&store), check(&store));
        assert_eq!(EmbeddedLedger::open(store.clone()).expect("the ledger opens").head(), head);
        assert_eq!(store.queued_after(0, 10).expect("the read succeeds").len(), 2);
    }
}
