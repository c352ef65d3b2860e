//! A migration of a store with a real RocksDB, which ends after each of its writes. Each write is
//! synced and nothing is written after it, so the store is as after a kill.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use selfsame_protocol::encoding::DecodeError;
use tempfile::TempDir;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

use super::*;
use crate::faults::FaultPoint;
use crate::tests::{DOMAIN, admit, folder};
use crate::{OpenOptions, Store};

const CACHE: usize = 1 << 20;

const ACTIONS: &str = family::ACTIONS.name;
const CODE: &str = family::CONTRACT_CODE.name;
/// A family that no program has any more.
const GONE: &str = "gone";

/// The layout before the migrations of this test, which have a step of every kind.
const OLD: Layout = Layout { schema: 10, draft: Some(0) };
const MIGRATIONS: Migrations = Migrations {
    steps: &[
        SchemaChange {
            families: &[
                FamilyChange { family: ACTIONS, change: |old| append(old, 11) },
                FamilyChange { family: CODE, change: |old| append(old, 11) },
            ],
            conclude: None,
            dropped: &[],
        },
        SchemaChange {
            families: &[FamilyChange { family: ACTIONS, change: |old| append(old, 12) }],
            conclude: Some(conclude),
            dropped: &[GONE],
        },
    ],
    to: Layout { schema: 12, draft: Some(3) },
};

/// A change that shows when it is made twice.
fn append(old: &[u8], byte: u8) -> Result<Vec<u8>, DecodeError> {
    Ok([old, &[byte]].concat())
}

/// Makes a record that follows from all of [`ACTIONS`], and deletes what it replaces.
fn conclude(database: &Database, changes: &mut Changes) -> Result<(), StoreError> {
    let values = database.raw_records(ACTIONS)?.map(|record| record.map(|(_, value)| value));
    changes.put_raw(CODE, b"all", values.collect::<Result<Vec<_>, _>>()?.concat());
    changes.delete_raw(CODE, b"1");
    Ok(())
}

type AllRecords = BTreeMap<(&'static str, Vec<u8>), Vec<u8>>;

/// Every record of a store, but those of [`GONE`].
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

/// A folder with the folder `store`, a store of the old layout, beside the copy of an earlier
/// migration, and what is left of one that ended while it copied.
fn old_store() -> (TempDir, PathBuf) {
    let folder = folder();
    let path = folder.path().join("store");
    let store = Store::open(&path, &OpenOptions::new(DOMAIN)).expect("the store opens");
    admit(&store, 1, 1);
    drop(store);
    let mut database = Database::open(&path, CACHE, false, None).expect("it opens");
    database.create_family(GONE).expect("created");
    let mut changes = Changes::default();
    for (family, keys) in [(ACTIONS, [b"1", b"2", b"3"]), (CODE, [b"1", b"2", b"3"]), (GONE, [b"1", b"2", b"3"])] {
        keys.iter().for_each(|key| changes.put_raw(family, *key, vec![0]));
    }
    facts::put_layout(&mut changes, OLD);
    database.write(changes, true).expect("written");
    std::fs::create_dir(folder.path().join("store.schema-10")).expect("a folder");
    std::fs::create_dir(folder.path().join("store.schema-10-2.unfinished")).expect("a folder");
    (folder, path)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Migrates a store as a start does, with one record in a write.
fn migrate(path: &Path) -> Result<(), StoreError> {
    let mut database = Database::open(path, CACHE, false, None).expect("it opens");
    Migration { migrations: &MIGRATIONS, database: &mut database, path, batch: 1 }.run()
}

/// Notes the texts of the events of a thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.lock().expect("no panic").push_str(&format!("{field}={value:?} "));
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "selfsame_storage::migration"
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[test]
fn a_migration_that_ends_after_any_write_is_continued_to_the_same_result() {
    let (folder, path) = old_store();
    let old = records(&path);
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || migrate(&path)).expect("migrated");
    let log = log.0.lock().expect("no panic").clone();
    for expected in ["message=migrating the store; it is kept as it was from=10 to=12", "the store is migrated;"] {
        assert!(log.contains(expected) && log.contains("store.schema-10-2"), "{log}");
    }
    let migrated = records(&path);
    let value = |family, key: &[u8]| migrated.get(&(family, key.to_vec())).map(Vec::as_slice);
    assert_eq!(value(ACTIONS, b"3"), Some(&[0, 11, 12][..]));
    assert_eq!((value(CODE, b"1"), value(CODE, b"3")), (None, Some(&[0, 11][..])));
    assert_eq!(value(CODE, b"all"), Some(&[0, 11, 12, 0, 11, 12, 0, 11, 12][..]));
    assert_eq!(migrated.len(), old.len(), "one record more, one less");
    let expect_complete = |folder: &TempDir, path: &Path, when: &str| {
        assert_eq!(records(path), migrated, "{when}");
        let copy = folder.path().join("store.schema-10-2");
        assert_eq!(names(folder.path()), ["store", "store.schema-10", "store.schema-10-2"], "{when}");
        assert_eq!(records(&copy), old, "{when}");
        let [new, old] = [path, &copy].map(|path| Database::open(path, CACHE, false, None).expect("it opens"));
        assert!(!new.has_family(GONE) && old.has_family(GONE), "{when}");
        MIGRATIONS.ensure_present(&new).expect("it is complete");
    };
    expect_complete(&folder, &path, "at once");

    let (mut ends, process) = (Vec::new(), FaultScope::PROCESS);
    for point in [FaultPoint::MigrationCopied, FaultPoint::MigrationMarked, FaultPoint::MigrationWritten] {
        for passed in 0.. {
            let (folder, path) = old_store();
            let before = if passed == 0 { String::new() } else { format!("{passed}*off->") };
            let step = process.begin_step(point, &format!("{before}1*return(error)")).expect("well formed");
            let result = migrate(&path);
            process.end_step(point, &step);
            if result.is_ok() {
                break;
            }
            let when = format!("{} {passed}", point.name());
            let database = Database::open(&path, CACHE, false, None).expect("it opens");
            let is_complete = records(&path) == migrated;
            let is_marked = facts::stored_layout(&database).expect("the read succeeds").is_none();
            assert_eq!(is_marked, point != FaultPoint::MigrationCopied && !is_complete, "{when}");
            // Until it is complete, only a start of this program uses the store.
            if !is_complete {
                let refusal = MIGRATIONS.ensure_present(&database).expect_err("it is refused").to_string();
                let expected = "the store has schema 10, and this program reads schema 12; start the daemon once, which \
                                migrates the store";
                assert_eq!(refusal, expected, "{when}");
            }
            drop(database);
            let found = if is_marked || is_complete { MIGRATIONS.to } else { OLD };
            let refusal = Store::open(&path, &OpenOptions::new(DOMAIN)).err().expect("it is refused").to_string();
            assert!(
                refusal.starts_with(&format!("the store has {found}, and this program reads ")),
                "{when}: {refusal}"
            );
            migrate(&path).expect("the next start continues");
            expect_complete(&folder, &path, &when);
            ends.push(point);
        }
    }
    // The records of three families, what follows from them, the family that goes, each of the two
    // schemas, the layout.
    let written = ends.iter().filter(|point| **point == FaultPoint::MigrationWritten).count();
    assert_eq!((written, ends.len()), (3 * 3 + 1 + 1 + 2 + 1, written + 2));
}
