//! The store with a real RocksDB.

mod logs;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use alloy_primitives::{Address, B256, U256};
use futures_executor::block_on;
use futures_util::future::{Either, join, select};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::encoding::encode;
use selfsame_protocol::ids::{Commitment, CompressedKey, LeafIndex, Nullifier};
use selfsame_protocol::ledger::{Block, BlockEffects, Entry, Outcome, RequestId, apply_block, recover_signers};
use selfsame_protocol::registry::{CreateAccount, Operation, RegistryView, RuleParameters};
use selfsame_protocol::time::{UnixMillis, UnixSeconds};
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::Environment;
use selfsame_protocol::verification::directory::ActionKey;
use selfsame_protocol::verification::identity::{NullifierKey, NullifierRecord};
use tempfile::TempDir;

use crate::applied_blocks::admission_changes;
use crate::database::{Changes, Database};
use crate::facts::{MIGRATION_KEY, put_layout};
use crate::schema::family;
use crate::*;

pub(crate) const DOMAIN: RegistryDomain =
    RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder for temporary files")
}

pub(crate) fn open(folder: &TempDir) -> Store {
    Store::open(folder.path(), &OpenOptions::new(DOMAIN)).expect("the store opens")
}

/// The creation of an account whose only authenticator has an address made of `byte`.
pub(crate) fn create(byte: u8) -> Operation {
    let operation = CreateAccount {
        recovery_address: Address::ZERO,
        authenticator_addresses: vec![Address::repeat_byte(byte)],
        authenticator_pubkeys: vec![CompressedKey(U256::from(byte))],
        offchain_signer_commitment: Commitment(U256::from(byte)),
    };
    operation.into()
}

pub(crate) fn request_id(byte: u8) -> RequestId {
    RequestId::from_random([byte; 16])
}

pub(crate) fn entry(byte: u8) -> Entry {
    Entry { request_id: request_id(byte), operation: create(byte) }
}

/// Applies a block to the store's state and commits it.
pub(crate) fn commit(store: &Store, block: &Block) -> Result<(), StoreError> {
    BlockWriter::new(store.clone()).commit(block, &effects(store, block))
}

/// Makes a request durable as the request tracker does.
pub(crate) fn admit(store: &Store, sequence: u64, byte: u8) {
    let changes = admission_changes(sequence, entry(byte), None);
    store.database().write(changes, true).expect("the admission is written");
}

/// A writer of requests, and the thread that commits its changes.
fn request_writer(store: &Store) -> (RequestWriter, JoinHandle<()>) {
    let (group_commit, committing) = GroupCommit::start(store.clone()).expect("the committing thread starts");
    (RequestWriter::new(store.clone(), group_commit), committing)
}

/// The records of verification, with their own committing thread.
fn records_of(store: &Store) -> VerificationRecords {
    let (group_commit, _committing) = GroupCommit::start(store.clone()).expect("the committing thread starts");
    VerificationRecords::new(store.clone(), group_commit)
}

/// Seals the queued requests into the ledger's next block.
pub(crate) fn seal(store: &Store, ledger: &EmbeddedLedger, time: u64) -> Block {
    let queued = store.queued_after(0, 1000).expect("the queue is read");
    let entries = queued
        .into_iter()
        .filter(|(_, entry)| ledger.place(&entry.request_id).expect("places are read").is_none())
        .map(|(_, entry)| entry);
    let block =
        Block::seal(&ledger.head(), store.domain(), UnixSeconds(time), RuleParameters::default(), entries.collect());
    ledger.append_alone(&block).expect("the block is appended");
    block
}

/// The effects of applying a block to the store's state.
pub(crate) fn effects(store: &Store, block: &Block) -> BlockEffects {
    let snapshot = store.snapshot().expect("a snapshot");
    let signers = recover_signers(&block.entries, &store.domain());
    apply_block(block, &signers, &snapshot, snapshot.tip()).expect("the state is read")
}

#[test]
fn a_store_belongs_to_one_registry_and_one_process() {
    let folder = folder();
    let store = open(&folder);
    let again = Store::open(folder.path(), &OpenOptions::new(DOMAIN)).err().expect("the store is refused");
    assert!(matches!(again, StoreError::InUse { .. }), "{again}");
    drop(store);

    let made_up = RegistryDomain { verifying_contract: Address::repeat_byte(8), ..DOMAIN };
    let keeping = |domain| OpenOptions { keeps_contract: true, ..OpenOptions::new(domain) };
    let other = RegistryDomain { chain_id: 480, ..DOMAIN };
    let error = Store::open(folder.path(), &OpenOptions::new(other)).err().expect("the store is refused");
    assert!(matches!(error, StoreError::OtherRegistry { stored_chain_id: 31337, chain_id: 480, .. }), "{error}");
    let error = Store::open(folder.path(), &OpenOptions::new(made_up)).err().expect("the store is refused");
    assert!(matches!(error, StoreError::OtherRegistry { .. }), "{error}");
    let error = Store::open(folder.path(), &keeping(other)).err().expect("the store is refused");
    assert!(matches!(error, StoreError::OtherRegistry { .. }), "{error}");
    assert_eq!(Store::open(folder.path(), &keeping(made_up)).expect("the store opens").domain(), DOMAIN);
    assert_eq!(Store::open_existing(folder.path(), 1 << 20).expect("the store opens").domain(), DOMAIN);
}

/// Such a write is a task's, which may be aborted while its thread goes on.
#[test]
fn a_claim_is_released_after_the_writes_beside_the_commits_also_by_a_panic() {
    use std::sync::mpsc::channel;

    for panics in [false, true] {
        let folder = folder();
        let store = open(&folder);
        let claim = store.claim("one").expect("the store is free");
        let (commits, committing) = GroupCommit::start_claimed(store.clone(), claim).expect("the thread starts");
        let ((begin, begun), (end, ended)) = (channel(), channel::<()>());
        let writer = commits.clone();
        let writing = std::thread::spawn(move || {
            writer.beside(|| {
                begin.send(()).expect("the test waits");
                ended.recv().expect("the test ends it");
                if panics { std::panic::panic_any("a writer that panics") } else { Ok(()) }
            })
        });
        begun.recv().expect("the write begins");
        commits.close();
        for _ in 0..10_000 {
            assert!(!committing.is_finished() && store.claim("two").is_err(), "the write still runs");
            std::thread::yield_now();
        }
        end.send(()).expect("the write waits");
        assert_eq!(writing.join().is_err(), panics);
        committing.join().expect("the thread ends");
        let _claim = store.claim("two").expect("the store is free");
        let late = commits.beside(|| -> Result<(), StoreError> { panic!("another service has the store") });
        assert!(matches!(late, Err(StoreError::Closing)), "{late:?}");
    }
}

/// `/proc` is a file system of its own, and never has room.
#[test]
fn a_copy_is_not_begun_on_a_file_system_without_room_for_it() {
    let folder = folder();
    let error = open(&folder).checkpoint(std::path::Path::new("/proc/copy")).expect_err("there is no room");
    assert!(matches!(error, StoreError::NoRoomForCopy { free: 0, needed: 1.., .. }), "{error}");
}

#[test]
fn a_store_has_one_claim_which_ends_with_its_holder_also_by_a_panic() {
    let folder = folder();
    let store = open(&folder);
    let claim = store.claim("one").expect("the store is free");
    let refused = store.clone().claim("two").expect_err("`one` has it");
    assert!(refused.to_string().contains("the service `one` runs on this store, so `two` is not started"), "{refused}");
    let panicked = std::thread::spawn(move || {
        let _claim = claim;
        std::panic::panic_any("a holder that panics");
    });
    panicked.join().expect_err("it panics");
    let claim = store.claim("two").expect("the store is free again");
    drop(store);
    // A claim does not keep the store open.
    open(&folder).claim("three").expect("another store");
    drop(claim);
}

#[test]
fn a_store_notices_that_its_folder_is_gone() {
    type Change = fn(&Path, &Path);
    let changes: [(&str, Change); 5] = [
        ("removed", |store, _| std::fs::remove_dir_all(store).unwrap()),
        ("renamed", |store, other| std::fs::rename(store, other).unwrap()),
        ("renamed above", |store, other| std::fs::rename(store.parent().unwrap(), other).unwrap()),
        ("replaced by an empty folder", |store, other| {
            std::fs::rename(store, other).unwrap();
            std::fs::create_dir(store).unwrap();
        }),
        ("replaced by a copy", |store, other| {
            std::fs::rename(store, other).unwrap();
            std::fs::create_dir(store).unwrap();
            for file in std::fs::read_dir(other).unwrap() {
                let file = file.unwrap();
                std::fs::copy(file.path(), store.join(file.file_name())).unwrap();
            }
        }),
    ];
    for (case, change) in changes {
        let folder = folder();
        let path = folder.path().join("data").join("store");
        std::fs::create_dir_all(&path).unwrap();
        let store = Store::open(&path, &OpenOptions::new(DOMAIN)).expect("the store opens");
        store.check_files().expect("nothing has changed");
        change(&path, &folder.path().join("other"));
        let error = store.check_files().expect_err(case);
        assert!(matches!(&error, StoreError::Replaced { path: told } if *told == path), "{case}: {error}");
    }
    Store::in_memory(DOMAIN).expect("it opens").check_files().expect("it has no files");
}

#[test]
fn a_store_whose_first_start_was_interrupted_is_empty_and_opens() {
    let folder = folder();
    drop(Database::open(folder.path(), 1 << 20, true, None).expect("the database is created"));
    let error = Store::open_existing(folder.path(), 1 << 20).err().expect("the store is refused");
    assert!(matches!(error, StoreError::Empty { .. }), "{error}");
    drop(open(&folder));
    assert_eq!(Store::open_existing(folder.path(), 1 << 20).expect("the store opens").domain(), DOMAIN);
}

/// The name of a family, a key and a value.
type RawRecord = (&'static str, Box<[u8]>, Box<[u8]>);

/// Every record of a store.
fn all_records(path: &Path) -> Vec<RawRecord> {
    let database = Database::open_read_only(path, 1 << 20).expect("the database opens");
    let records = |family| {
        let records = database.raw_records(family).expect("a family");
        records.map(move |record| record.map(|(key, value)| (family, key, value)).expect("the read succeeds"))
    };
    database.families().flat_map(records).collect()
}

#[test]
fn a_store_of_another_build_is_refused_and_left_as_it_is() {
    let other = |schema, draft| Layout { schema, draft };
    let table = [
        (other(9, None), "schema 9"),
        (other(0, None), "schema 0"),
        (other(0, Some(SCHEMA_DRAFT + 1)), &format!("schema 0, draft {}", SCHEMA_DRAFT + 1)),
        (other(1, Some(0)), "schema 1"),
    ];
    for (layout, name) in table {
        let folder = folder();
        let path = folder.path().join("store");
        let store = Store::open(&path, &OpenOptions::new(DOMAIN)).expect("the store opens");
        let mut changes = Changes::default();
        put_layout(&mut changes, layout);
        if layout == other(0, None) {
            // Its migration was interrupted: a mark with another version.
            changes.put_raw(family::META, MIGRATION_KEY, vec![1]);
        }
        store.database().write(changes, true).expect("written");
        admit(&store, 1, 1);
        drop(store);
        let before = all_records(&path);
        for refused in [
            Store::open(&path, &OpenOptions::new(DOMAIN)).err(),
            Store::open(&path, &OpenOptions::new(RegistryDomain { chain_id: 480, ..DOMAIN })).err(),
            Store::open_existing(&path, 1 << 20).err(),
            Store::open_read_only(&path, 1 << 20).err(),
            Store::mark_as_copy(&path, 1 << 20, UnixSeconds(1)).err(),
            rebuild(&path, 1 << 20, &NoProgress).err(),
        ] {
            let expected = format!(
                "the store has {name}, and this program reads schema {SCHEMA_VERSION}, draft {SCHEMA_DRAFT} alone; start \
                 with an empty data folder, or use the build that wrote the store: until 0.1.0 is released, the format \
                 changes without migrations"
            );
            assert_eq!(refused.expect("the store is refused").to_string(), expected);
        }
        assert_eq!(all_records(&path), before);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is beside the store");
    }
}

#[test]
fn opening_a_missing_store_for_reading_does_not_create_it() {
    let folder = folder();
    let path = folder.path().join("nothing");
    assert!(matches!(Store::open_existing(&path, 1 << 20).err(), Some(StoreError::Open { .. })));
    assert!(!path.exists());
}

#[test]
fn a_block_is_committed_whole_and_once() {
    let folder = folder();
    let store = open(&folder);
    let ledger = EmbeddedLedger::open(store.clone()).expect("the ledger opens");
    admit(&store, 1, 1);
    admit(&store, 2, 2);
    let before = store.snapshot().expect("a snapshot");
    let block = seal(&store, &ledger, 1000);
    let effects = effects(&store, &block);
    let writer = BlockWriter::new(store.clone());
    writer.commit(&block, &effects).expect("the block is committed");

    let after = store.snapshot().expect("a snapshot");
    assert_eq!((before.next_leaf_index(), after.next_leaf_index()), (LeafIndex(1), LeafIndex(3)));
    assert_eq!(before.account(LeafIndex(1)).expect("the read succeeds"), None, "a snapshot does not move");
    assert_eq!(
        after.account(LeafIndex(2)).expect("the read succeeds").map(|account| account.commitment),
        Some(Commitment(U256::from(2)))
    );
    assert_eq!(after.tip(), &effects.tip);
    assert_eq!(store.queued_after(0, 10).expect("the read succeeds"), vec![]);
    assert_eq!(store.open_requests().expect("the read succeeds"), vec![]);
    assert_eq!(store.last_sequence().expect("the read succeeds"), 2);
    let record = store.request(&request_id(2)).expect("the read succeeds").expect("the request has a record");
    assert_eq!((record.sequence, record.failure), (2, None));
    assert_eq!(store.applied_block_hash(1).expect("the read succeeds"), Some(block.header.hash()));
    assert_eq!(store.applied_block_hash(2).expect("the read succeeds"), None);

    let again = writer.commit(&block, &effects);
    assert!(matches!(again, Err(StoreError::StaleCommit { height: 1, computed_on: 0, applied: 1 })), "{again:?}");
}

#[test]
fn a_request_that_fails_keeps_why_and_the_others_stay_as_they_were_admitted() {
    let folder = folder();
    let store = open(&folder);
    let ledger = EmbeddedLedger::open(store.clone()).expect("the ledger opens");
    admit(&store, 1, 1);
    let again = Entry { request_id: request_id(2), operation: create(1) };
    store.database().write(admission_changes(2, again, None), true).expect("the admission is written");
    let admitted = store.request(&request_id(1)).expect("the read succeeds");
    let block = seal(&store, &ledger, 1000);
    let effects = effects(&store, &block);
    commit(&store, &block).expect("the block is committed");
    assert_eq!(store.request(&request_id(1)).expect("the read succeeds"), admitted);
    let failure = store.request(&request_id(2)).expect("the read succeeds").and_then(|record| record.failure);
    let failure = failure.expect("the address is in use");
    let Outcome::Failed { code, .. } = effects.outcomes[1] else { panic!("{:?}", effects.outcomes) };
    assert_eq!(failure, RequestFailure { height: 1, code, message: effects.messages[&1].clone() });
}

/// A block from elsewhere has requests that were never admitted here.
#[test]
fn a_request_that_was_not_admitted_here_gets_a_record_with_its_block() {
    let folder = folder();
    let store = open(&folder);
    let ledger = EmbeddedLedger::open(store.clone()).expect("the ledger opens");
    let time = UnixSeconds(1000);
    let block = Block::seal(&ledger.head(), DOMAIN, time, RuleParameters::default(), vec![entry(1)]);
    ledger.append_alone(&block).expect("the block is appended");
    commit(&store, &block).expect("the block is committed");
    let record = store.request(&request_id(1)).expect("the read succeeds").expect("it has a record");
    assert_eq!((record.sequence, record.failure), (0, None));
}

#[test]
fn replaced_roots_keep_the_time_of_their_replacement() {
    let folder = folder();
    let store = open(&folder);
    let ledger = EmbeddedLedger::open(store.clone()).expect("the ledger opens");
    let empty = store.snapshot().expect("a snapshot").tip().root;
    for (sequence, time) in [(1, 1000), (2, 2000)] {
        admit(&store, sequence, sequence as u8);
        let block = seal(&store, &ledger, time);
        commit(&store, &block).expect("the block is committed");
    }
    let snapshot = store.snapshot().expect("a snapshot");
    let record =
        |root| snapshot.root(root).expect("the read succeeds").map(|record| (record.height, record.replaced_at));
    assert_eq!(record(empty), Some((0, Some(UnixSeconds(1000)))));
    assert_eq!(record(snapshot.tip().root), Some((2, None)));
    let first = store.applied_block(1).expect("the read succeeds").expect("the block is applied").result.root_after;
    assert_eq!(record(first), Some((1, Some(UnixSeconds(2000)))));
    assert_eq!(record(Root(B256::repeat_byte(9))), None);
}

#[test]
fn the_ledger_accepts_only_the_next_block_and_finds_its_head_after_a_restart() {
    let folder = folder();
    let store = open(&folder);
    let ledger = EmbeddedLedger::open(store.clone()).expect("the ledger opens");
    let (sender, receiver) = channel();
    ledger.listen(Box::new(move |height| sender.send(height).expect("the test receives the height")));
    admit(&store, 1, 1);
    let block = seal(&store, &ledger, 1000);
    assert_eq!(receiver.recv(), Ok(1));
    let again = ledger.append_alone(&block);
    assert!(matches!(again, Err(LedgerError::NotNext { found: 1, head: 1 })), "{again:?}");
    let after = |domain| {
        Block::seal(&ledger.head(), domain, UnixSeconds(1000), RuleParameters::default(), block.entries.clone())
    };
    let mut unlinked = after(DOMAIN);
    unlinked.header.previous_hash = selfsame_protocol::B256::ZERO;
    assert!(matches!(ledger.append_alone(&unlinked), Err(LedgerError::NotNext { found: 2, head: 1 })));
    let foreign = after(RegistryDomain { chain_id: 480, ..DOMAIN });
    assert!(matches!(ledger.append_alone(&foreign), Err(LedgerError::OtherRegistry { height: 2 })));

    let head = ledger.head();
    drop((ledger, store));
    let ledger = EmbeddedLedger::open(open(&folder)).expect("the ledger opens");
    assert_eq!(ledger.head(), head);
    assert_eq!(ledger.block(1).expect("the read succeeds"), Some(block));
    assert_eq!(ledger.height_of(&head.hash).expect("the read succeeds"), Some(1));
    let place = ledger.place(&request_id(1)).expect("the read succeeds").expect("the request is in a block");
    assert_eq!((place.height, place.position), (1, 0));
    assert_eq!(ledger.hash_at(1).expect("the read succeeds"), Some(head.hash));
    assert_eq!(ledger.hash_at(2).expect("the read succeeds"), None);
}

#[test]
fn group_commit_keeps_the_order_and_ends_after_the_last_commit() {
    let folder = folder();
    let store = open(&folder);
    let (group_commit, thread) = GroupCommit::start(store.clone()).expect("the committing thread starts");
    let requests = RequestWriter::new(store.clone(), group_commit);
    let (sender, receiver) = channel();
    for sequence in 1..=200u64 {
        let sender = sender.clone();
        let durable = move |result: Result<(), StoreError>| {
            sender.send(result.map(|()| sequence)).expect("the test receives the result")
        };
        requests.admit(sequence, entry(sequence as u8), None, Box::new(durable));
    }
    let (settled, settling) = channel();
    requests.after_admitted(Box::new(move |result| settled.send(result).expect("the test waits")));
    settling.recv().expect("it is settled").expect("everything is durable");
    let order: Vec<u64> = receiver.try_iter().map(|result| result.expect("the request is durable")).collect();
    assert_eq!(order, (1..=200).collect::<Vec<_>>());
    drop(requests);
    thread.join().expect("the committing thread ends");
    assert_eq!(store.queued_after(0, 1000).expect("the read succeeds").len(), 200);
}

/// A group commit ends although handles of it are held: what came before is durable, what comes
/// later is refused, and each callback is called once.
#[test]
fn a_closed_group_commit_writes_what_it_has_and_refuses_the_rest() {
    let folder = folder();
    let store = open(&folder);
    let (group_commit, thread) = GroupCommit::start(store.clone()).expect("the committing thread starts");
    let requests = RequestWriter::new(store.clone(), group_commit.clone());
    let (sender, receiver) = channel();
    let admit = |sequence: u64| {
        let sender = sender.clone();
        let durable = move |result| sender.send((sequence, result)).expect("the test receives the result");
        requests.admit(sequence, entry(sequence as u8), None, Box::new(durable));
    };
    (1..=100).for_each(admit);
    group_commit.clone().close();
    (101..=103).for_each(admit);
    thread.join().expect("the committing thread ends");
    let mut results: Vec<(u64, Result<(), StoreError>)> = receiver.try_iter().collect();
    results.sort_by_key(|(sequence, _)| *sequence);
    assert_eq!(results.iter().map(|(sequence, _)| *sequence).collect::<Vec<_>>(), (1..=103).collect::<Vec<_>>());
    let (durable, refused) = results.split_at(100);
    assert!(durable.iter().all(|(_, result)| result.is_ok()), "{durable:?}");
    assert!(refused.iter().all(|(_, result)| matches!(result, Err(StoreError::Closing))), "{refused:?}");
    assert_eq!(store.queued_after(0, 1000).expect("the read succeeds").len(), 100);
    // Another one continues on the same store.
    let (requests, thread) = request_writer(&store);
    requests.admit(104, entry(104), None, Box::new(|result| result.expect("the request is durable")));
    drop(requests);
    thread.join().expect("the committing thread ends");
    assert_eq!(store.queued_after(0, 1000).expect("the read succeeds").len(), 101);
}

#[test]
fn sweeping_deletes_only_expired_requests() {
    let folder = folder();
    let store = open(&folder);
    let ledger = EmbeddedLedger::open(store.clone()).expect("the ledger opens");
    // The second block has three requests.
    for (time, sequences) in [(1000, 1..=1), (2000, 2..=4), (3000, 5..=5)] {
        sequences.for_each(|sequence| admit(&store, sequence, sequence as u8));
        let block = seal(&store, &ledger, time);
        commit(&store, &block).expect("the block is committed");
    }
    // One that is sealed and not applied.
    admit(&store, 6, 6);
    seal(&store, &ledger, 4000);
    let (requests, _committing) = request_writer(&store);
    let sweep = |time, limit| requests.sweep_requests(UnixSeconds(time), &ledger, limit).expect("the sweep succeeds");
    let kept = || {
        let is_kept = |byte: &u8| store.request(&request_id(*byte)).expect("the read succeeds").is_some();
        (1..=6).filter(is_kept).collect::<Vec<u8>>()
    };
    assert!(!sweep(1000, 10), "the time is exclusive");
    assert!(sweep(2000, 10));
    assert_eq!(kept(), [2, 3, 4, 5, 6]);
    assert!(sweep(9000, 2));
    assert_eq!(kept(), [4, 5, 6], "part of a block");
    assert!(!sweep(2000, 2), "the rest of the block is not expired");
    assert!(sweep(9000, 2));
    assert_eq!(kept(), [6]);
    assert!(!sweep(9000, 10), "a block that is not applied");
    assert!(ledger.place(&request_id(1)).expect("the read succeeds").is_some(), "the receipt remains");
}

#[test]
fn an_idempotency_key_that_was_used_again_is_kept() {
    let folder = folder();
    let store = open(&folder);
    let key = selfsame_protocol::B256::repeat_byte(5);
    for (sequence, accepted_at) in [(1, 1000), (2, 5000)] {
        let operation = create(sequence as u8);
        let request_id = request_id(sequence as u8);
        let record = IdempotencyRecord {
            request_id,
            body_hash: selfsame_protocol::keccak256(encode(&operation)),
            accepted_at: UnixSeconds(accepted_at),
        };
        let changes = admission_changes(sequence, Entry { request_id, operation }, Some((key, record)));
        store.database().write(changes, true).expect("the changes are written");
    }
    let (requests, _committing) = request_writer(&store);
    let not_in_use = |_: &_| false;
    let sweep = |time, in_use: &dyn Fn(&_) -> bool| {
        requests.sweep_idempotency_keys(time, None, 10, in_use).expect("the sweep succeeds")
    };
    assert_eq!(sweep(UnixSeconds(2000), &not_in_use), Some((UnixSeconds(1000), key)));
    assert_eq!(
        store.idempotency(&key).expect("the read succeeds").map(|record| record.accepted_at),
        Some(UnixSeconds(5000))
    );
    // A client uses the key again at this moment.
    assert_eq!(sweep(UnixSeconds(6000), &|in_use| *in_use == key), Some((UnixSeconds(5000), key)));
    assert_eq!(
        store.idempotency(&key).expect("the read succeeds").map(|record| record.accepted_at),
        Some(UnixSeconds(5000))
    );
    let behind = requests
        .sweep_idempotency_keys(UnixSeconds(6000), Some((UnixSeconds(5000), key)), 10, |_| true)
        .expect("the sweep succeeds");
    assert_eq!(behind, None, "a sweep that continues does not visit the key again");
    assert_eq!(sweep(UnixSeconds(6000), &not_in_use), Some((UnixSeconds(5000), key)));
    assert_eq!(store.idempotency(&key).expect("the read succeeds"), None);
}

fn nullifier(number: u64) -> NullifierKey {
    let action = ActionKey::new("app_a", Environment::Staging, "vote");
    NullifierKey { action, nullifier: Nullifier(U256::from(number)) }
}

fn record(verifications: u64) -> NullifierRecord {
    NullifierRecord { created_at: UnixMillis(1000), verifications, user_presence_completed: false, told_at: None }
}

/// Queues a change of a nullifier's record that was read as `before`.
fn change(records: &VerificationRecords, before: Option<NullifierRecord>, after: u64) -> Receiver<Decision> {
    let nullifiers = vec![(nullifier(1), before, record(after))];
    let write = VerificationWrite { nullifiers, ..VerificationWrite::default() };
    let (decided, decision) = channel();
    let decided = move |result: Result<Decision, StoreError>| {
        decided.send(result.expect("no fault")).expect("the test receives the decision")
    };
    records.write(&write, Box::new(decided));
    decision
}

#[test]
fn conditional_changes_see_the_changes_before_them() {
    let folder = folder();
    let store = open(&folder);
    let (group_commit, committing) = GroupCommit::start(store.clone()).expect("the committing thread starts");
    let records = VerificationRecords::new(store.clone(), group_commit);
    // All changes are queued at once, so that they share groups. Of the changes that expect the
    // same record, the first one is written.
    let decisions: Vec<_> = [
        (None, 1, Decision::Written),
        (None, 2, Decision::Changed),
        (Some(record(2)), 3, Decision::Changed),
        (Some(record(1)), 4, Decision::Written),
        (Some(record(1)), 5, Decision::Changed),
        (Some(record(4)), 6, Decision::Written),
    ]
    .into_iter()
    .map(|(before, after, expected)| (change(&records, before, after), expected))
    .collect();
    for (decision, expected) in decisions {
        assert_eq!(decision.recv().expect("the decision arrives"), expected);
    }
    assert_eq!(records.nullifier(&nullifier(1)).expect("the read succeeds"), Some(record(6)));
    assert_eq!(records.nullifier(&nullifier(2)).expect("the read succeeds"), None);
    drop((records, store));
    committing.join().expect("the committing thread ends");
    let records = records_of(&open(&folder));
    assert_eq!(records.nullifier(&nullifier(1)).expect("the read succeeds"), Some(record(6)));
}

#[test]
fn racing_conditional_changes_lose_no_update() {
    const THREADS: u64 = 4;
    const EACH: u64 = 50;
    let folder = folder();
    let store = open(&folder);
    let records = records_of(&store);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut done = 0;
                while done < EACH {
                    let before = records.nullifier(&nullifier(1)).expect("the read succeeds");
                    let after = before.map_or(1, |record| record.verifications + 1);
                    let decision = change(&records, before, after).recv().expect("the decision arrives");
                    done += u64::from(decision == Decision::Written);
                }
            });
        }
    });
    assert_eq!(records.nullifier(&nullifier(1)).expect("the read succeeds"), Some(record(THREADS * EACH)));
}

#[test]
fn those_who_wait_are_woken_when_the_number_is_there() {
    let reached = Reached::new(3);
    block_on(reached.wait_for(3));
    let given_up = Box::pin(reached.wait_for(9));
    match block_on(select(given_up, std::future::ready(()))) {
        Either::Left(_) => panic!("the number is not 9"),
        Either::Right(((), given_up)) => drop(given_up),
    }
    let waiting = join(reached.wait_for(5), async {
        reached.advance(4);
        assert_eq!(reached.waiting(), 1, "who has given up is forgotten");
        reached.advance(7);
        reached.advance(6);
    });
    block_on(waiting);
    block_on(reached.wait_for(7));
    assert_eq!(reached.waiting(), 0);
}

#[test]
fn stores_in_memory_write_no_file_and_share_nothing() {
    let stores = [DOMAIN, RegistryDomain { chain_id: 1, ..DOMAIN }].map(|domain| {
        let store = Store::in_memory(domain).expect("the store opens");
        assert_eq!(store.domain(), domain);
        store
    });
    admit(&stores[0], 1, 1);
    let last = stores.each_ref().map(|store| store.last_sequence().expect("the read succeeds"));
    assert_eq!(last, [1, 0]);
    assert!(!std::env::temp_dir().join("CURRENT").exists(), "RocksDB has this file in every store");
}
