//! Migrations of a store with a real RocksDB, stopped after each of their writes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use alloy_primitives::{Address, B256};
use selfsame_protocol::encoding::{decode, encode};
use selfsame_protocol::ledger::{Block, Entry, Outcome};
use selfsame_protocol::registry::{Account, GatewayErrorCode};
use selfsame_protocol::time::UnixSeconds;
use tempfile::TempDir;

use super::*;
use crate::database::RecordSource;
use crate::facts::{MIGRATION_KEY, write_schema_version};
use crate::fsck::fsck;
use crate::recorded::admission_changes;
use crate::schema::chain::SourceId;
use crate::schema::family;
use crate::schema::registry::{AppliedBlock, AppliedTip, Place};
use crate::schema::requests::{RequestFailure, RequestRecord, SweptRequests};
use crate::tests::{DOMAIN, admit, commit, create, folder, request_id, seal};
use crate::{EmbeddedLedger, NoProgress, OpenOptions, Store, rebuild};

const CACHE: usize = 1 << 20;

/// Contracts whose code the old store has.
const CONTRACTS: u8 = 5;

/// Requests in blocks, and all.
const PLACES: u64 = 5;
const REQUESTS: u64 = 6;

/// Accounts of applied blocks.
const ACCOUNTS: u64 = 3;

fn store_in(folder: &TempDir) -> PathBuf {
    folder.path().join("store")
}

/// A contract's code as schema 4 has it, and as schema 5 has it.
fn code(number: u8) -> (Vec<u8>, Vec<u8>) {
    let address = encode(&Address::repeat_byte(number));
    let proof_verifier = encode(&number.is_multiple_of(2).then_some(Address::repeat_byte(100 + number)));
    let old = [&[1][..], &address, &proof_verifier].concat();
    let new = [&[1, 1][..], &address, &proof_verifier].concat();
    (old, new)
}

/// A folder with a store of schema 4: two applied blocks with a request that failed, a sealed
/// block, a queued request, and the code of contracts.
fn old_store() -> TempDir {
    old_store_with(|_, _| ())
}

/// The same, with another change of the records of schema 7 at the end.
fn old_store_with(change: impl FnOnce(&Database, &mut Changes)) -> TempDir {
    let folder = folder();
    let store = Store::open(&store_in(&folder), &OpenOptions::new(DOMAIN)).expect("the store opens");
    let ledger = EmbeddedLedger::open(store.clone()).expect("the ledger opens");
    admit(&store, 1, 1);
    let block = seal(&store, &ledger, 1000);
    commit(&store, &block).expect("the block is committed");
    for (sequence, byte, operation) in [(2, 2, create(2)), (3, 3, create(3)), (4, 4, create(1))] {
        let entry = Entry { request_id: request_id(byte), operation };
        store.database().write(admission_changes(sequence, entry, None), true).expect("admitted");
    }
    let block = seal(&store, &ledger, 2000);
    commit(&store, &block).expect("the block is committed");
    admit(&store, 5, 5);
    seal(&store, &ledger, 3000);
    admit(&store, 6, 6);
    drop((store, ledger));
    make_old(&store_in(&folder), change);
    folder
}

/// Gives a store the records that a program of schema 4 makes.
fn make_old(path: &Path, change: impl FnOnce(&Database, &mut Changes)) {
    let mut database = Database::open(path, CACHE, false, None).expect("it opens");
    database.drop_family(family::SWEPT_REQUESTS.name).expect("dropped");
    database.create_family(to_8::FINAL_REQUESTS.name);
    database.create_family(to_8::LOCKS);
    let mut changes = Changes::default();
    for record in database.records(&family::PLACES).expect("a family") {
        let (request_id, Place { height, position }) = record.expect("the read succeeds");
        let old = to_8::Place7 { height, position, block_hash: B256::repeat_byte(7) };
        changes.put_raw(family::PLACES.name, encode(&request_id), encode(&old));
    }
    let applied: AppliedTip = database.get(&family::APPLIED, &()).expect("read").expect("a tip");
    for height in 1..=applied.tip.seal.height {
        let block: Block = database.get(&family::BLOCKS, &height).expect("read").expect("a block");
        let result: AppliedBlock = database.get(&family::RESULTS, &height).expect("read").expect("a result");
        for (entry, outcome) in block.entries.iter().zip(result.outcomes) {
            let record: Option<RequestRecord> = database.get(&family::REQUESTS, &entry.request_id).expect("read");
            let RequestRecord { kind, sequence, failure } = record.expect("a record");
            let message = failure.map(|failure| failure.message).unwrap_or_default();
            let block_hash = block.header.hash();
            let final_state = Some(to_8::FinalState7 { height, block_hash, outcome, message });
            let old = to_8::RequestRecord7 { kind, sequence, final_state };
            changes.put_raw(family::REQUESTS.name, encode(&entry.request_id), encode(&old));
            changes.put(&to_8::FINAL_REQUESTS, &(block.header.time, entry.request_id), &());
        }
    }
    changes.put_raw(to_8::LOCKS, [1], [2]);
    for record in database.records(&family::ACCOUNTS).expect("a family") {
        let (leaf_index, account) = record.expect("the read succeeds");
        let Account { commitment, slots, recovery_agent, pending_recovery_agent, nonce, recovery_counter } = account;
        let old = to_9::Account8 { commitment, slots, recovery_agent, pending_recovery_agent, nonce, recovery_counter };
        changes.put_raw(family::ACCOUNTS.name, encode(&leaf_index), encode(&old));
    }
    for number in 1..=CONTRACTS {
        let key = encode(&SourceId { hash: B256::repeat_byte(number) });
        changes.put_raw(family::CONTRACT_CODE.name, key, code(number).0);
    }
    change(&database, &mut changes);
    database.write(changes, true).expect("written");
    write_schema_version(&database, 4);
}

type AllRecords = BTreeMap<(&'static str, Vec<u8>), Vec<u8>>;

/// Every record of a store of any schema, but those of the families that went.
fn records(path: &Path) -> AllRecords {
    let database = Database::open_read_only(path, CACHE).expect("the database opens");
    let mut all = BTreeMap::new();
    for family in database.families() {
        for record in database.raw_records(family).expect("a family") {
            let (key, value) = record.expect("the read succeeds");
            all.insert((family, key.to_vec()), value.to_vec());
        }
    }
    all
}

/// The records of a migrated store, from those of the old one.
fn migrated(old: &AllRecords) -> AllRecords {
    migrated_and_swept(old, 0)
}

/// The same of a store whose requests were deleted up to a height.
fn migrated_and_swept(old: &AllRecords, height: u64) -> AllRecords {
    let mut new = old.clone();
    for ((family, _), value) in &mut new {
        if *family == family::PLACES.name {
            value.truncate(12);
        }
        if *family == family::REQUESTS.name {
            let to_8::RequestRecord7 { kind, sequence, final_state } = decode(value).expect("a record");
            let failure = final_state.filter(|state| matches!(state.outcome, Outcome::Failed { .. })).map(|state| {
                let code = GatewayErrorCode::AuthenticatorAlreadyExists;
                RequestFailure { height: state.height, code, message: state.message }
            });
            *value = encode(&RequestRecord { kind, sequence, failure });
        }
        if *family == family::ACCOUNTS.name {
            // Four bytes are the count of the slots, and the last 33 are those of no recovery
            // agent, no pending one, the nonce 0 and the counter 0.
            let (begin, slots) = (&value[..32], &value[36..value.len() - 33]);
            *value = [begin, &[1], slots, &[0, 0, 0, 0]].concat();
        }
    }
    let swept = encode(&SweptRequests { height, of_next: 0 });
    new.insert((family::SWEPT_REQUESTS.name, Vec::new()), swept);
    new.insert((family::META, b"schema_version".to_vec()), encode(&SCHEMA_VERSION));
    for number in 1..=CONTRACTS {
        let key = encode(&SourceId { hash: B256::repeat_byte(number) });
        new.insert((family::CONTRACT_CODE.name, key), code(number).1);
    }
    new
}

fn names(folder: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Stops the work when it has asked so many times.
struct StopAt(AtomicU64);

impl StopAt {
    fn question(number: u64) -> Self {
        Self(AtomicU64::new(number))
    }
}

impl Progress for StopAt {
    fn report(&self, _: Phase, _: u64, _: u64) {}

    fn is_stopped(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Relaxed) == 0
    }
}

/// Migrates as a start does, with so many records in a write.
fn migrate(folder: &TempDir, batch: usize, progress: &dyn Progress) -> Result<(), StoreError> {
    let path = store_in(folder);
    let mut database = Database::open(&path, CACHE, false, None)?;
    Migration { database: &mut database, path: &path, batch }.run(Keep::Beside, progress)
}

#[test]
fn a_start_migrates_an_old_store_and_keeps_it_as_it_was() {
    let folder = old_store();
    let old = records(&store_in(&folder));
    let store = Store::open(&store_in(&folder), &OpenOptions::new(DOMAIN)).expect("the store opens");
    assert_eq!(store.last_sequence().expect("the read succeeds"), 6);
    drop(store);
    assert_eq!(names(&folder), ["store", "store.schema-4"]);
    assert_eq!(records(&store_in(&folder)), migrated(&old));
    assert_eq!(records(&folder.path().join("store.schema-4")), old);
    // The next start has nothing to do.
    drop(Store::open(&store_in(&folder), &OpenOptions::new(DOMAIN)).expect("the store opens"));
    assert_eq!(names(&folder), ["store", "store.schema-4"]);
    let database = Database::open(&store_in(&folder), CACHE, false, None).expect("it opens");
    assert!([to_8::FINAL_REQUESTS.name, to_8::LOCKS].iter().all(|family| !database.has_family(family)));
    drop(database);
    assert_eq!(findings(&folder), Vec::<String>::new());
}

fn findings(folder: &TempDir) -> Vec<String> {
    let scratch = crate::tests::folder();
    let store = Store::open_existing(&store_in(folder), CACHE).expect("the store opens");
    fsck(&store, scratch.path(), &NoProgress).expect("fsck runs").findings
}

/// In schema 7 the records of requests were deleted in the order of time and id.
#[test]
fn a_store_is_swept_as_far_as_before_and_to_the_end_of_a_second() {
    let sweep = |time: u64, bytes: &'static [u8]| {
        move |_: &Database, changes: &mut Changes| {
            for byte in bytes {
                changes.delete(&family::REQUESTS, &request_id(*byte));
                changes.delete(&to_8::FINAL_REQUESTS, &(UnixSeconds(time), request_id(*byte)));
            }
        }
    };
    // The second block has the requests 2, 3 and 4.
    for (first, second, height) in
        [(&[][..], &[][..], 0), (&[1], &[], 1), (&[1], &[2], 2), (&[1], &[2, 3], 2), (&[1], &[2, 3, 4], 2)]
    {
        let folder = old_store_with(|database, changes| {
            sweep(1000, first)(database, changes);
            sweep(2000, second)(database, changes);
        });
        let mut old = records(&store_in(&folder));
        migrate(&folder, BATCH, &NoProgress).expect("migrated");
        if height == 2 {
            old.retain(|(family, key), _| {
                *family != family::REQUESTS.name || ![2, 3, 4].map(|byte| encode(&request_id(byte))).contains(key)
            });
        }
        assert_eq!(records(&store_in(&folder)), migrated_and_swept(&old, height), "{second:?}");
        assert_eq!(findings(&folder), Vec::<String>::new(), "{second:?}");
    }
}

/// The process can end after each write: everything behind it is left to the next start.
#[test]
fn a_migration_that_ends_after_any_write_is_continued_to_the_same_result() {
    let (mut stops, mut refusals) = (0, 0);
    for question in 0.. {
        let folder = old_store();
        let path = store_in(&folder);
        let old = records(&path);
        match migrate(&folder, 1, &StopAt::question(question)) {
            Ok(()) => break,
            Err(StoreError::Stopped) => stops += 1,
            Err(error) => panic!("{error}"),
        }
        // Meanwhile nothing else uses the store.
        let error = Store::open_existing(&path, CACHE).err().expect("the store is refused");
        assert!(matches!(error, StoreError::NeedsMigration { found: 4, known: SCHEMA_VERSION }), "{error}");
        let database = Database::open_read_only(&path, CACHE).expect("the database opens");
        let version = facts::stored_schema_version(&database).expect("the read succeeds");
        let is_marked = Mark::read(&database).expect("the read succeeds").is_some();
        assert_eq!(version, (!is_marked).then_some(4), "a program of schema 4 refuses what was begun with");
        refusals += u64::from(is_marked);
        drop(database);
        drop(Store::open(&path, &OpenOptions::new(DOMAIN)).expect("the next start continues"));
        assert_eq!(records(&path), migrated(&old), "stopped at question {question}");
        assert_eq!(names(&folder), ["store", "store.schema-4"], "stopped at question {question}");
        assert_eq!(records(&folder.path().join("store.schema-4")), old);
    }
    // Before the mark, before each of the records, before the end of each family, and before what
    // follows from them in each of five schemas.
    let records = u64::from(CONTRACTS) + PLACES + REQUESTS + ACCOUNTS + 4;
    assert_eq!((stops, refusals), (records + 6, records + 5));
}

#[test]
fn the_copy_of_an_earlier_migration_stays() {
    let folder = old_store();
    std::fs::create_dir(folder.path().join("store.schema-4")).expect("a folder");
    std::fs::write(folder.path().join("store.schema-4/CURRENT"), "earlier").expect("written");
    // What a migration left that ended while it copied.
    std::fs::create_dir(folder.path().join("store.schema-4-2.unfinished")).expect("a folder");
    let old = records(&store_in(&folder));
    migrate(&folder, BATCH, &NoProgress).expect("migrated");
    assert_eq!(names(&folder), ["store", "store.schema-4", "store.schema-4-2"]);
    assert_eq!(std::fs::read_to_string(folder.path().join("store.schema-4/CURRENT")).expect("read"), "earlier");
    assert_eq!(records(&folder.path().join("store.schema-4-2")), old);
}

#[test]
fn the_copy_of_a_backup_is_migrated_in_place() {
    let folder = old_store();
    let old = records(&store_in(&folder));
    for _ in 0..2 {
        Store::migrate_copy(&store_in(&folder), CACHE, &NoProgress).expect("migrated");
        assert_eq!(records(&store_in(&folder)), migrated(&old));
        assert_eq!(names(&folder), ["store"]);
    }
}

#[test]
fn stores_that_cannot_be_migrated_are_refused_by_their_schema_and_left_alone() {
    for schema in [OLDEST_MIGRATABLE - 1, SCHEMA_VERSION + 1] {
        let folder = old_store();
        let path = store_in(&folder);
        write_schema_version(&Database::open(&path, CACHE, false, None).expect("it opens"), schema);
        let old = records(&path);
        for refused in [
            Store::open(&path, &OpenOptions::new(DOMAIN)).err(),
            Store::open_existing(&path, CACHE).err(),
            Store::look(&path, CACHE).err(),
            Store::migrate_copy(&path, CACHE, &NoProgress).err(),
        ] {
            let text = refused.expect("the store is refused").to_string();
            let expected = format!(
                "the store has schema version {schema}, this program reads version {SCHEMA_VERSION} and migrates from \
                 version {OLDEST_MIGRATABLE} on; use the program that wrote it"
            );
            assert_eq!(text, expected);
        }
        assert_eq!((names(&folder), records(&path)), (vec!["store".to_owned()], old));
    }
}

#[test]
fn a_migration_that_a_newer_program_began_is_left_to_it() {
    let folder = old_store();
    assert!(migrate(&folder, 1, &StopAt::question(1)).is_err());
    let database = Database::open(&store_in(&folder), CACHE, false, None).expect("it opens");
    let mark = Mark::read(&database).expect("the read succeeds").expect("a mark");
    let mut changes = Changes::default();
    Mark { to: SCHEMA_VERSION + 1, ..mark }.put(&mut changes);
    database.write(changes, true).expect("written");
    drop(database);
    let error = Store::open(&store_in(&folder), &OpenOptions::new(DOMAIN)).err().expect("the store is refused");
    assert!(matches!(error, StoreError::SchemaVersion { found, .. } if found == SCHEMA_VERSION + 1), "{error}");
}

#[test]
fn nothing_but_a_start_migrates_and_only_for_the_right_registry() {
    let folder = old_store();
    let path = store_in(&folder);
    let old = records(&path);
    let other = selfsame_protocol::eip712::RegistryDomain { chain_id: 1, ..DOMAIN };
    let error = Store::open(&path, &OpenOptions::new(other)).err().expect("the store is refused");
    assert!(matches!(error, StoreError::OtherRegistry { .. }), "{error}");
    for refused in [
        Store::open_existing(&path, CACHE).err(),
        Store::open_read_only(&path, CACHE).err(),
        rebuild(&path, CACHE, &NoProgress).err(),
    ] {
        let text = refused.expect("the store is refused").to_string();
        assert!(text.ends_with("; start the daemon once, which migrates the store"), "{text}");
    }
    let (store, standing) = Store::look(&path, CACHE).expect("it can be looked at");
    assert_eq!(standing, SchemaStanding::Migratable { from: 4 });
    let summary = store.summary().expect("the read succeeds");
    assert_eq!((summary.schema_version, summary.head.height), (4, 3));
    assert_eq!(store.accounts().expect("the read succeeds"), ACCOUNTS);
    drop(store);
    assert_eq!((names(&folder), records(&path)), (vec!["store".to_owned()], old));
}

#[test]
fn a_record_that_is_none_of_its_schema_stops_the_migration() {
    let folder = old_store();
    let path = store_in(&folder);
    let database = Database::open(&path, CACHE, false, None).expect("it opens");
    let mut changes = Changes::default();
    let key = encode(&SourceId { hash: B256::repeat_byte(3) });
    changes.put_raw(family::CONTRACT_CODE.name, key, [9]);
    database.write(changes, true).expect("written");
    drop(database);
    for _ in 0..2 {
        let text = Store::open(&path, &OpenOptions::new(DOMAIN)).err().expect("the store is refused").to_string();
        assert!(text.starts_with("a record of contract_code is damaged ("), "{text}");
    }
}

/// [`Store::look`] reads these in a store of any of the schemas, and of accounts the last key.
#[test]
fn no_migration_changes_what_is_looked_at_in_old_stores() {
    let looked_at = [family::META, family::BLOCKS.name, family::BLOCK_HASHES.name, family::APPLIED.name];
    for change in changes_from(OLDEST_MIGRATABLE) {
        assert!(!looked_at.contains(&change.family), "{}", change.family);
    }
    let folder = old_store();
    migrate(&folder, BATCH, &NoProgress).expect("migrated");
    let database = Database::open_read_only(&store_in(&folder), CACHE).expect("it opens");
    assert!(database.read(family::META, MIGRATION_KEY).expect("the read succeeds").is_none());
}
