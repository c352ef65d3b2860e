//! What `fsck` finds in stores that were damaged on purpose.

mod groups;
mod progress;
mod room;

use alloy_primitives::{Address, B256, U256};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::encoding::encode;
use selfsame_protocol::ids::{CompressedKey, LeafIndex, PubkeyId};
use selfsame_protocol::ledger::{Block, Entry, Head, RequestId, RootRecord, Tip};
use selfsame_protocol::registry::{GatewayErrorCode, OperationKind, PackedAccount, RegistryView, RuleParameters};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use tempfile::TempDir;

use super::*;
use crate::applied_blocks::admission_changes;
use crate::database::{Changes, RecordSource};
use crate::ledger::LedgerReader;
use crate::requests::RequestWriter;
use crate::schema::records::{
    AppliedBlock, AppliedTip, IdempotencyRecord, QueuedEntry, RecordKey, RecordKind, RequestRecord, SourceId,
    StoredRecord, SweptRequests,
};
use crate::tests::{admit, commit, create, entry, folder, open, request_id, seal};
use crate::{EmbeddedLedger, EmbeddedRecords, GroupCommit, NoProgress, Place, Records, RequestFailure};

/// The hash of the idempotency key of the queued request.
const KEY_HASH: B256 = B256::repeat_byte(5);

/// The key of the one record of sign-in.
const CODE: RecordKey = RecordKey { kind: RecordKind::AuthorizationCode, id: B256::repeat_byte(6) };

/// A store with two applied blocks, of which the second has a request that failed, a sealed block,
/// a queued request with an idempotency key, and a record of sign-in.
fn populated_store() -> (TempDir, Store) {
    let folder = folder();
    let store = open(&folder);
    let ledger = EmbeddedLedger::open(store.clone()).expect("the ledger opens");
    for (sequence, time) in [(1, 1000), (2, 2000)] {
        admit(&store, sequence, sequence as u8);
        if sequence == 2 {
            let changes = admission_changes(FAILED_SEQUENCE, failing(), None);
            store.database().write(changes, true).expect("the changes are written");
        }
        let block = seal(&store, &ledger, time);
        commit(&store, &block).expect("the block is committed");
    }
    admit(&store, 4, 3);
    seal(&store, &ledger, 3000);
    let idempotency =
        IdempotencyRecord { request_id: request_id(4), body_hash: B256::ZERO, accepted_at: UnixSeconds(3000) };
    let mut changes = admission_changes(5, entry(4), Some((KEY_HASH, idempotency)));
    changes.put(&family::RECORDS, &CODE, &StoredRecord { expires_at: UnixSeconds(3600), value: vec![1] });
    changes.put(&family::RECORD_EXPIRIES, &(UnixSeconds(3600), CODE), &());
    store.database().write(changes, true).expect("the changes are written");
    (folder, store)
}

/// The sequence number of the request that failed.
const FAILED_SEQUENCE: u64 = 3;

/// The id of the request that failed.
fn failed_id() -> RequestId {
    request_id(0xf)
}

/// A request whose address the first account has.
fn failing() -> Entry {
    Entry { request_id: failed_id(), operation: create(1) }
}

fn check(store: &Store) -> FsckReport {
    let scratch = folder();
    fsck(store, scratch.path(), &NoProgress).expect("fsck runs")
}

/// What is done to a store, and a part of the finding that must tell of it.
type Damage = (&'static str, fn(&Store, &mut Changes), &'static str);

/// Damages a populated store in each way by itself; returns the ways that no finding tells of, with
/// the findings.
fn missed(table: &[Damage]) -> Vec<(&'static str, Vec<String>)> {
    let mut missed = Vec::new();
    for (what, change, expected) in table {
        let (_folder, store) = populated_store();
        damage(&store, |changes| change(&store, changes));
        let findings = check(&store).findings;
        if !findings.iter().any(|finding| finding.contains(expected)) {
            missed.push((*what, findings));
        }
    }
    missed
}

fn damage(store: &Store, change: impl FnOnce(&mut Changes)) {
    let mut changes = Changes::default();
    change(&mut changes);
    store.database().write(changes, true).expect("the changes are written");
}

/// Changes the record of the request that failed.
fn change_request(store: &Store, changes: &mut Changes, change: impl FnOnce(&mut RequestRecord)) {
    let mut record = store.request(&failed_id()).expect("the read succeeds").expect("a request");
    change(&mut record);
    changes.put(&family::REQUESTS, &failed_id(), &record);
}

fn failure_of(record: &mut RequestRecord) -> &mut RequestFailure {
    record.failure.as_mut().expect("the request has failed")
}

/// The record of the request that failed.
fn failed_record(store: &Store) -> RequestRecord {
    store.request(&failed_id()).expect("the read succeeds").expect("a request")
}

#[test]
fn an_undamaged_store_has_no_findings() {
    let (_folder, store) = populated_store();
    let report = check(&store);
    assert_eq!(report.findings, Vec::<String>::new());
    let FsckReport { blocks, applied, operations, accounts, queued, .. } = report;
    assert_eq!((blocks, applied, operations, accounts, queued), (3, 2, 3, 2, 2));
    assert_eq!(check(&open(&folder())), FsckReport::default(), "an empty store");
}

#[test]
fn every_damaged_record_is_a_finding() {
    let table: &[Damage] = &[
        ("an account is missing", |_, changes| changes.delete(&family::ACCOUNTS, &LeafIndex(1)), "accounts: record"),
        (
            "an account has the record of another account",
            |store, changes| {
                let other =
                    store.snapshot().and_then(|snapshot| snapshot.account(LeafIndex(2))).expect("the read succeeds");
                changes.put(&family::ACCOUNTS, &LeafIndex(1), &other.expect("an account"));
            },
            "differs from the blocks",
        ),
        (
            "an account has another key",
            |store, changes| {
                let account =
                    store.snapshot().and_then(|snapshot| snapshot.account(LeafIndex(1))).expect("the read succeeds");
                let mut account = account.expect("an account");
                account.slots[0].as_mut().expect("an authenticator").public_key = CompressedKey(U256::from(9));
                changes.put(&family::ACCOUNTS, &LeafIndex(1), &account);
            },
            "accounts: record 0000000000000001 differs from the blocks",
        ),
        (
            "an account that no block creates",
            |store, changes| {
                let other =
                    store.snapshot().and_then(|snapshot| snapshot.account(LeafIndex(2))).expect("the read succeeds");
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
                let packed = PackedAccount { recovery_counter: 0, pubkey_id: PubkeyId(0), leaf_index: LeafIndex(1) };
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
                let root =
                    store.applied_block(1).expect("the read succeeds").expect("the block is applied").result.root_after;
                let record = store.database().get(&family::ROOTS, &root).expect("the read succeeds").expect("a root");
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
                let place = Place { height: 2, position: 0 };
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
            "a request that failed has failed for another reason",
            |store, changes| {
                change_request(store, changes, |record| failure_of(record).code = GatewayErrorCode::BadRequest);
            },
            "ended as",
        ),
        (
            "a request that failed has the record of another one",
            |store, changes| change_request(store, changes, |record| record.failure = None),
            "its record holds None",
        ),
        (
            "a request whose operation was applied has the record of one that failed",
            |store, changes| changes.put(&family::REQUESTS, &request_id(1), &failed_record(store)),
            "ended as None, its record holds Some",
        ),
        (
            "a queued request has the record of one that failed",
            |store, changes| {
                let record = RequestRecord { sequence: 5, ..failed_record(store) };
                changes.put(&family::REQUESTS, &request_id(4), &record);
            },
            "its record is not that of an open request",
        ),
        (
            "a request of an applied block is in the queue",
            |_, changes| changes.put(&family::QUEUE, &1, &QueuedEntry { entry: entry(1) }),
            "waits in the queue as 1, but block 1, which was applied, has it",
        ),
        (
            "a queued request has no record",
            |_, changes| changes.delete(&family::REQUESTS, &request_id(4)),
            "its record is not that of an open request",
        ),
        (
            "an acknowledged request is lost",
            |_, changes| changes.delete(&family::QUEUE, &5),
            "was accepted as 5, but is neither in the queue nor in a block: it is lost",
        ),
        (
            "a request left the queue before its block was applied",
            |_, changes| changes.delete(&family::QUEUE, &4),
            "is open and in block 3, but not in the queue",
        ),
        (
            "a request waits in the queue under two numbers",
            |_, changes| changes.put(&family::QUEUE, &9, &QueuedEntry { entry: entry(4) }),
            "waits in the queue as 9, but its record is not that of an open request",
        ),
        (
            "two queued requests hold one lock",
            |_, changes| {
                let other = Entry { request_id: request_id(9), operation: create(4) };
                changes.append(admission_changes(6, other, None));
            },
            "wait in the queue, and both hold the lock on",
        ),
        (
            "a queued request has a place",
            |store, changes| {
                let place: Option<Place> =
                    store.database().get(&family::PLACES, &request_id(1)).expect("the read succeeds");
                changes.put(&family::PLACES, &request_id(4), &place.expect("a place"));
            },
            "but no block has it there",
        ),
        (
            "an unknown request has a place",
            |_, changes| {
                let place = Place { height: 9, position: 0 };
                changes.put(&family::PLACES, &request_id(9), &place);
            },
            "has the place 0 in block 9, but no block has it there",
        ),
        (
            "a hash that no block has",
            |_, changes| changes.put(&family::BLOCK_HASHES, &B256::repeat_byte(9), &2),
            "0x0909090909090909090909090909090909090909090909090909090909090909 is kept as the hash of block 2",
        ),
        (
            "a block is found at another height",
            |store, changes| {
                let block: Option<Block> = store.database().get(&family::BLOCKS, &2).expect("the read succeeds");
                changes.put(&family::BLOCK_HASHES, &block.expect("a block").header.hash(), &1);
            },
            "block 2 is not found by its hash",
        ),
        (
            "a request of a block that is not applied has failed",
            |store, changes| {
                changes.put(&family::REQUESTS, &request_id(3), &RequestRecord { sequence: 4, ..failed_record(store) });
            },
            "but no applied block has the request",
        ),
        (
            "an unknown request has failed",
            |store, changes| changes.put(&family::REQUESTS, &request_id(9), &failed_record(store)),
            "but no applied block has the request",
        ),
        (
            "the record of a request is deleted too early",
            |_, changes| changes.delete(&family::REQUESTS, &request_id(1)),
            "is in block 1 and has no record, but the records are deleted only up to block 0",
        ),
        (
            "a record is left in a block whose requests' records are deleted",
            |_, changes| changes.put(&family::SWEPT_REQUESTS, &(), &SweptRequests { height: 1, of_next: 0 }),
            "is in block 1, whose requests' records are deleted, and has one: it never expires",
        ),
        (
            "a record is left of the first requests of a block",
            |_, changes| {
                changes.delete(&family::REQUESTS, &request_id(1));
                changes.put(&family::SWEPT_REQUESTS, &(), &SweptRequests { height: 1, of_next: 1 });
            },
            "is in block 2, whose requests' records are deleted, and has one: it never expires",
        ),
        (
            "a lost request beside a record that was deleted too early",
            |_, changes| {
                changes.delete(&family::REQUESTS, &request_id(1));
                changes.delete(&family::QUEUE, &5);
            },
            "was accepted as 5, but is neither in the queue nor in a block: it is lost",
        ),
        (
            "an idempotency key has no time of expiry",
            |_, changes| changes.delete(&family::ACCEPTED_KEYS, &(UnixSeconds(3000), KEY_HASH)),
            "was accepted at 3000, but accepted_keys lacks it: it never expires",
        ),
        (
            "a time of expiry has no idempotency key",
            |_, changes| changes.delete(&family::IDEMPOTENCY, &KEY_HASH),
            "at 3000, but it has no record",
        ),
        (
            "a record has no time of expiry",
            |_, changes| changes.delete(&family::RECORD_EXPIRIES, &(UnixSeconds(3600), CODE)),
            "expires at 3600, but record_expiries lacks it: it is never deleted",
        ),
        (
            "a time of expiry has no record",
            |_, changes| changes.delete(&family::RECORDS, &CODE),
            "at 3600, but no record expires then",
        ),
        (
            "a record has another time of expiry",
            |_, changes| changes.put(&family::RECORD_EXPIRIES, &(UnixSeconds(10), CODE), &()),
            "at 10, but no record expires then",
        ),
        (
            "sequence numbers begin again",
            |_, changes| changes.delete(&family::FINISHED_SEQUENCE, &()),
            "has left the queue as 1, but the greatest number that left it is 0",
        ),
        (
            "the queue is behind the requests that left it",
            |_, changes| changes.put(&family::FINISHED_SEQUENCE, &(), &5),
            "waits in the queue as 5, but the numbers up to 5 have left it",
        ),
    ];
    assert_eq!(missed(table), []);
}

#[test]
fn every_field_of_a_request_that_failed_is_checked() {
    type Change = fn(&mut RequestRecord);
    let table: [(&str, Change); 3] = [
        ("height", |record| failure_of(record).height = 1),
        ("message", |record| failure_of(record).message = "because".to_owned()),
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

#[test]
fn a_lost_request_is_named() {
    let (_folder, store) = populated_store();
    damage(&store, |changes| changes.delete(&family::QUEUE, &5));
    let id = request_id(4);
    let lost = format!("request {id} was accepted as 5, but is neither in the queue nor in a block: it is lost");
    assert_eq!(check(&store).findings, [lost]);
}

#[test]
fn a_request_in_two_blocks_is_a_finding() {
    let (_folder, store) = populated_store();
    let ledger = EmbeddedLedger::open(store.clone()).expect("the ledger opens");
    let again =
        Block::seal(&ledger.head(), store.domain(), UnixSeconds(4000), RuleParameters::default(), vec![entry(1)]);
    ledger.append_alone(&again).expect("the block is appended");
    let findings = check(&store).findings;
    let expected = format!("request {} is in block 1 and again in block 4", request_id(1));
    assert!(findings.contains(&expected), "{findings:?}");
}

#[test]
fn every_record_of_every_family_is_decoded() {
    for family in family::ALL {
        let (_folder, store) = populated_store();
        damage(&store, |changes| changes.put_raw(family, [0xff; 3], [0xfe; 3]));
        let findings = check(&store).findings;
        let expected = format!("{family}: record ffffff does not decode: ");
        assert!(findings.iter().any(|finding| finding.starts_with(&expected)), "{expected} {findings:?}");
    }
    let key = encode(&SourceId { hash: B256::ZERO });
    let nullifier = encode(&LeafIndex(1));
    for (family, key) in [("key_sources", key), ("accounts", nullifier)] {
        let (_folder, store) = populated_store();
        damage(&store, |changes| changes.put_raw(family, &key, [0xfe; 3]));
        let findings = check(&store).findings;
        let expected = format!("{family}: record {} does not decode: ", hex::encode(key));
        assert!(findings.iter().any(|finding| finding.starts_with(&expected)), "{expected} {findings:?}");
    }
}

#[test]
fn records_that_do_not_decode_are_counted_and_do_not_hide_other_damage() {
    let (_folder, store) = populated_store();
    damage(&store, |changes| {
        for number in 0..30 {
            changes.put_raw(family::NULLIFIERS.name, [number], []);
        }
        changes.put_raw(family::REQUESTS.name, encode(&request_id(2)), []);
        changes.delete(&family::ADDRESSES, &Address::repeat_byte(1));
    });
    let findings = check(&store).findings;
    let of = |family: &str| findings.iter().filter(|finding| finding.starts_with(family)).collect::<Vec<_>>();
    let nullifiers = of("nullifiers: ");
    assert_eq!(nullifiers.len(), 11, "{findings:?}");
    assert_eq!(nullifiers[10], "nullifiers: 20 more records do not decode");
    assert_eq!((of("requests: record").len(), of("addresses: record").len()), (1, 1), "{findings:?}");
}

/// What a daemon that stops in the middle of its sweeps leaves, and a key that a client has used
/// again after its time.
#[test]
fn a_half_swept_store_has_no_findings() {
    let (_folder, store) = populated_store();
    let (group_commit, _committing) = GroupCommit::start(store.clone()).expect("the committing thread starts");
    let requests = RequestWriter::new(store.clone(), group_commit.clone());
    let again = IdempotencyRecord { request_id: request_id(5), body_hash: B256::ZERO, accepted_at: UnixSeconds(9000) };
    let changes = admission_changes(6, entry(5), Some((KEY_HASH, again)));
    store.database().write(changes, true).expect("the changes are written");
    assert_eq!(check(&store).findings, Vec::<String>::new(), "a key that was used again");
    let ledger = EmbeddedLedger::open(store.clone()).expect("the ledger opens");
    for (limit, what) in [(1, "one request of three is swept"), (1, "and another one"), (9, "all are")] {
        assert!(requests.sweep_requests(UnixSeconds(9000), &ledger, limit).expect("the sweep succeeds"));
        assert_eq!(check(&store).findings, Vec::<String>::new(), "{what}");
    }
    requests.sweep_idempotency_keys(UnixSeconds(4000), None, 1, |_| false).expect("the sweep succeeds");
    assert_eq!(check(&store).findings, Vec::<String>::new(), "the key is swept");
    let records = EmbeddedRecords::new(store.clone(), group_commit);
    assert_eq!(records.expire(UnixSeconds(9000), 10).expect("the sweep succeeds"), 1);
    assert_eq!(check(&store).findings, Vec::<String>::new(), "the records are swept");
}

#[test]
fn a_head_shows_that_the_last_blocks_were_removed() {
    let (_folder, store) = populated_store();
    let head_of = |store: &Store| Head::new(store.domain(), store.snapshot().expect("a snapshot").tip());
    let head = head_of(&store);
    assert_eq!(head.height, 2);
    let compare = |store: Option<&Store>, head: &Head| {
        let mut report = store.map(check).unwrap_or_default();
        report.compare_with_head(store, head).expect("the store is read");
        report.findings
    };
    let none = Vec::<String>::new();
    assert_eq!(compare(Some(&store), &head), none);

    let shorter_folder = folder();
    let shorter = open(&shorter_folder);
    let before = head_of(&shorter);
    assert_eq!((compare(Some(&shorter), &before), compare(None, &before)), (none.clone(), none.clone()));
    let ledger = EmbeddedLedger::open(shorter.clone()).expect("the ledger opens");
    admit(&shorter, 1, 1);
    let block = seal(&shorter, &ledger, 1000);
    commit(&shorter, &block).expect("the block is committed");
    let hash = format!("the head of block 2 has the hash {:#x}, but", head.block_hash);
    let ends = |height| format!("{hash} the store lacks block 2; its ledger ends at block {height}");
    assert_eq!(compare(Some(&shorter), &head), [ends(1)]);
    assert_eq!(compare(None, &head), [ends(0)]);
    assert_eq!(compare(Some(&store), &head_of(&shorter)), none, "an earlier head");

    admit(&shorter, 2, 9);
    let other = seal(&shorter, &ledger, 2000);
    let found = format!("{hash} the store has the hash {:#x}", other.header.hash());
    assert_eq!(compare(Some(&shorter), &head), [found], "another block 2");
    let of_other_results = Head { result_hash: B256::ZERO, ..head };
    let findings = compare(Some(&store), &of_other_results);
    assert!(findings.len() == 1 && findings[0].starts_with("the head of block 2 has the result 0x00"), "{findings:?}");
    let domain = RegistryDomain { chain_id: 1, ..store.domain() };
    let findings = compare(Some(&store), &Head { domain, ..head });
    assert_eq!(findings, ["the head of block 2 is that of another registry"]);
}

/// Each family is in several files, so that a check reads it in several ranges.
#[test]
fn findings_have_the_order_of_the_keys_whichever_thread_is_first() {
    let folder = folder();
    let store = open(&folder);
    let ledger = EmbeddedLedger::open(store.clone()).expect("the ledger opens");
    for number in 1..=8 {
        admit(&store, number, number as u8);
        let block = seal(&store, &ledger, 1000 * number);
        commit(&store, &block).expect("the block is committed");
        for family in [family::ACCOUNTS.name, family::BLOCKS.name, family::REQUESTS.name] {
            store.database().flush(family);
        }
    }
    let ranges = store.database().key_ranges().expect("the files are listed");
    assert!(ranges.of(family::ACCOUNTS.name).len() >= 8, "a range for each file");
    let report = check(&store);
    assert_eq!((report.findings, report.operations), (Vec::new(), 8));

    damage(&store, |changes| {
        for number in [7, 2, 5] {
            changes.delete(&family::ACCOUNTS, &LeafIndex(number));
        }
        changes.put_raw(family::RESULTS.name, encode(&4u64), [9]);
    });
    let findings = check(&store).findings;
    let account = |number: u64| {
        let key = alloy_primitives::hex::encode(encode(&LeafIndex(number)));
        format!("accounts: record {key} is missing, but follows from the blocks")
    };
    let missing: Vec<&String> = findings.iter().filter(|finding| finding.contains("is missing")).collect();
    assert_eq!(missing, [&account(2), &account(5), &account(7)], "{findings:?}");
    assert!(findings[0].starts_with("results: record 0000000000000004 does not decode"), "{findings:?}");
}
