//! Rebuilds what follows from the blocks of a stopped store: accounts, addresses, tree, roots,
//! results, the ledger's indexes, and the states of the requests in the blocks.
//!
//! The old store is moved aside, and a copy of it (hard links) is rebuilt and gets its name. A
//! process that ends in between leaves no store under that name: opening it is refused
//! ([`StoreError::RebuildInterrupted`]), and the next rebuild begins again with the old store,
//! which does not change. When the rebuild fails, the old store gets its name back.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use selfsame_protocol::ledger::{Seal, apply_block_with, recover_signers};

use crate::applied_blocks::{AllCores, BlockWriter, put_indexes};
use crate::database::{Changes, Database};
use crate::error::StoreError;
use crate::faults::FaultScope;
use crate::migration::sync_folder;
use crate::progress::{Counter, Phase, Progress, ensure_wanted};
use crate::schema::family;
use crate::store::{Store, has_store, replaced_store};

const READING: Phase = Phase { name: "reading what does not follow from the blocks", unit: "records" };
const APPLYING: Phase = Phase { name: "applying blocks", unit: "blocks" };

/// Result of a rebuild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RebuildReport {
    /// Blocks in the ledger; all of them are applied.
    pub blocks: u64,
    /// Operations in the blocks.
    pub operations: u64,
    /// Accounts.
    pub accounts: u64,
    /// Requests in the queue, which are in no block.
    pub queued: u64,
}

/// Rebuilds the store in `path`, which no process uses.
///
/// # Errors
/// [`StoreError::NotRebuildable`] when the blocks, or records that do not follow from them, are
/// damaged; [`StoreError::Open`] when a file is missing or the log is damaged;
/// [`StoreError::InUse`], [`StoreError::Empty`], [`StoreError::OtherLayout`],
/// [`StoreError::NeedsMigration`]; [`StoreError::Stopped`]. The store is then as it was.
pub fn rebuild(path: &Path, block_cache: usize, progress: &dyn Progress) -> Result<RebuildReport, StoreError> {
    let (old, new) = (replaced_store(path), with_ending(path, ".rebuilding"));
    remove(&new)?;
    if has_store(path) || !has_store(&old) {
        // The last step of an earlier rebuild may be missing.
        remove(&old)?;
        // Says what is wrong with the folder before anything is moved. Opening it as a store would
        // read records, and any of them may be damaged.
        if !path.exists() {
            return Err(StoreError::Open { path: path.to_owned(), reason: "there is no such folder".to_owned() });
        }
        drop(Database::open_without_compaction(path, block_cache)?);
        rename(path, &old)?;
    }
    let rebuilt = rebuild_beside(&old, &new, block_cache, progress);
    match rebuilt {
        Ok((report, locked)) => {
            fault_point!(FaultScope::PROCESS, RebuildSwap);
            rename(&new, path)?;
            // The old store is open until here, so that no other process opens it.
            drop(locked);
            remove(&old)?;
            Ok(report)
        }
        Err(error) => {
            remove(&new)?;
            rename(&old, path)?;
            Err(error)
        }
    }
}

/// Makes a rebuilt copy of `old` in `new`. Returns the open old store, too.
fn rebuild_beside(
    old: &Path,
    new: &Path,
    block_cache: usize,
    progress: &dyn Progress,
) -> Result<(RebuildReport, Database), StoreError> {
    let database = Database::open_without_compaction(old, block_cache)?;
    let kept = || database.families().filter(|family| !family::REBUILT.contains(family));
    let count = |family| database.property(family, "rocksdb.estimate-num-keys");
    let counter = Counter::new(progress, READING, kept().map(count).sum::<Result<u64, StoreError>>()?);
    for family in kept() {
        check_readable(&database, family, &counter)?;
    }
    counter.finish();
    if database.raw_records(family::META)?.next().is_none() {
        return Err(StoreError::Empty { path: old.to_owned() });
    }
    fault_point!(FaultScope::PROCESS, CheckpointBefore);
    database.checkpoint(new)?;
    let mut copied = Database::open_without_compaction(new, block_cache)?;
    copied.clear(&family::REBUILT)?;
    let store = Store::from_existing(copied)?;
    let report = derive(&store, progress)?;
    drop(store);
    sync_folder(new)?;
    Ok((report, database))
}

/// Reads a family, so that a record that cannot be read stops the rebuild and not a later daemon.
fn check_readable(database: &Database, family: &'static str, counter: &Counter<'_>) -> Result<(), StoreError> {
    for record in database.raw_records(family)? {
        counter.add_one()?;
        record.map_err(|error| StoreError::NotRebuildable {
            reason: format!("a record of {family} does not follow from them and cannot be read: {error}"),
        })?;
    }
    Ok(())
}

/// Applies all blocks of a store whose families [`family::REBUILT`] are empty. Durable when it
/// returns.
fn derive(store: &Store, progress: &dyn Progress) -> Result<RebuildReport, StoreError> {
    let database = store.database();
    let block_writer = BlockWriter::new(store.clone());
    let last = database.last(&family::BLOCKS)?.map_or(0, |(height, _)| height);
    let mut report = RebuildReport::default();
    let mut head = Seal::default();
    for record in database.records(&family::BLOCKS)? {
        let (height, block) = record.map_err(|error| match error {
            StoreError::Damaged { reason, .. } => {
                let reason = format!("the block after block {} does not decode ({reason})", head.height);
                StoreError::NotRebuildable { reason }
            }
            error => error,
        })?;
        if height != head.height + 1 || !block.follows(&head) || !block.belongs_to(&store.domain()) {
            let reason = format!("block {height} does not follow block {}, or was changed", head.height);
            return Err(StoreError::NotRebuildable { reason });
        }
        head = Seal::of(&block.header);
        let mut changes = Changes::default();
        put_indexes(&mut changes, &block, &head);
        let snapshot = store.snapshot()?;
        let signers = recover_signers(&block.entries, &store.domain());
        let effects = apply_block_with(&AllCores, &block, &signers, &snapshot, snapshot.tip())?;
        block_writer.commit_together(&block, &effects, changes)?;
        report.blocks = height;
        report.operations += u64::from(block.header.count);
        report.accounts = effects.next_leaf_index.0.saturating_sub(1);
        fault_point!(FaultScope::PROCESS, RebuildBlock);
        progress.report(APPLYING, height, last);
        ensure_wanted(progress)?;
    }
    for record in database.records(&family::QUEUE)? {
        record?;
        report.queued += 1;
    }
    // A synced write makes the unsynced ones before it durable, too.
    database.write(Changes::default(), true)?;
    Ok(report)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> StoreError {
    |error| StoreError::Open { path: path.to_owned(), reason: error.to_string() }
}

/// Removes a folder if it is there.
fn remove(path: &Path) -> Result<(), StoreError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(failed(path)),
    }
}

/// Renames a folder durably. An empty folder with the new name is replaced.
fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    std::fs::rename(from, to).map_err(failed(from))?;
    sync_folder(to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use selfsame_protocol::ids::LeafIndex;
    use selfsame_protocol::registry::GatewayErrorCode;
    use selfsame_protocol::tree::Root;
    use tempfile::TempDir;

    use super::*;
    use crate::database::RecordSource;
    use crate::fsck::fsck;
    use crate::schema::records::SweptRequests;
    use crate::store::OpenOptions;
    use crate::tests::{DOMAIN, admit, commit, folder, request_id, seal};
    use crate::{EmbeddedLedger, NoProgress, Place, RequestFailure, RequestRecord};

    const CACHE: usize = 1 << 20;

    /// The heights that a rebuild reports.
    #[derive(Default)]
    struct Heights(Mutex<Vec<(u64, u64)>>);

    impl Progress for Heights {
        fn report(&self, phase: Phase, done: u64, total: u64) {
            if phase == APPLYING {
                self.0.lock().expect("no panic").push((done, total));
            }
        }
    }

    /// Stops the work after so many blocks.
    struct StopAfter(u64, AtomicU64);

    impl Progress for StopAfter {
        fn report(&self, phase: Phase, done: u64, _: u64) {
            if phase == APPLYING {
                self.1.store(done, Ordering::Relaxed);
            }
        }

        fn is_stopped(&self) -> bool {
            self.1.load(Ordering::Relaxed) >= self.0
        }
    }

    fn store_in(folder: &TempDir) -> PathBuf {
        folder.path().join("store")
    }

    fn open(folder: &TempDir) -> Store {
        Store::open(&store_in(folder), &OpenOptions::new(DOMAIN)).expect("the store opens")
    }

    /// A folder with a store: three applied blocks, a sealed block and a queued request.
    fn populated() -> TempDir {
        let folder = folder();
        let store = open(&folder);
        let ledger = EmbeddedLedger::open(store.clone()).expect("the ledger opens");
        for number in 1..=3 {
            admit(&store, number, number as u8);
            let block = seal(&store, &ledger, 1000 * number);
            commit(&store, &block).expect("the block is committed");
        }
        admit(&store, 4, 4);
        seal(&store, &ledger, 4000);
        admit(&store, 5, 5);
        folder
    }

    fn damage(folder: &TempDir, change: impl FnOnce(&Store, &mut Changes)) {
        let store = open(folder);
        let mut changes = Changes::default();
        change(&store, &mut changes);
        store.database().write(changes, true).expect("the changes are written");
    }

    fn findings(folder: &TempDir) -> Vec<String> {
        let scratch = crate::tests::folder();
        let store = Store::open_existing(&store_in(folder), CACHE).expect("the store opens");
        fsck(&store, scratch.path(), &NoProgress).expect("fsck runs").findings
    }

    fn names(folder: &TempDir) -> Vec<String> {
        let entries = std::fs::read_dir(folder.path()).expect("a folder");
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Deletes every record of a family.
    fn empty(store: &Store, family: &'static str) {
        let handle = store.database().raw_records(family).expect("the read succeeds");
        let keys: Vec<_> = handle.map(|record| record.expect("the read succeeds").0).collect();
        for key in keys {
            store.database().delete_raw(family, &key);
        }
    }

    #[test]
    fn a_rebuild_mends_everything_that_follows_from_the_blocks() {
        type Damage = fn(&Store, &mut Changes);
        let table: [(&str, Damage); 10] = [
            ("nothing", |_, _| ()),
            ("an account is missing", |_, changes| changes.delete(&family::ACCOUNTS, &LeafIndex(2))),
            ("everything derived is missing", |store, _| {
                family::REBUILT.into_iter().for_each(|family| empty(store, family));
            }),
            ("a result between others is missing", |_, changes| changes.delete(&family::RESULTS, &2)),
            ("a hash is not found", |store, changes| {
                let block = store.database().get(&family::BLOCKS, &2).expect("the read succeeds").expect("a block");
                changes.delete(&family::BLOCK_HASHES, &block.header.hash());
            }),
            ("a place of a request that is in no block", |_, changes| {
                let place = Place { height: 2, position: 7 };
                changes.put(&family::PLACES, &request_id(5), &place);
            }),
            ("the record of a request that has not expired is missing", |_, changes| {
                changes.delete(&family::REQUESTS, &request_id(1));
            }),
            // A loss of power can undo the commit of an applied block and keep later ones.
            ("a block's whole commit is missing", |_, changes| {
                changes.delete(&family::RESULTS, &2);
                changes.delete(&family::ACCOUNTS, &LeafIndex(2));
                let entry = crate::tests::entry(2);
                changes.put(&family::QUEUE, &2, &crate::schema::records::QueuedEntry { entry });
            }),
            ("a final state is another one", |store, changes| {
                let record = store.request(&request_id(1)).expect("the read succeeds").expect("a request");
                let failure =
                    RequestFailure { height: 1, code: GatewayErrorCode::BadRequest, message: "other".to_owned() };
                let record = RequestRecord { failure: Some(failure), ..record };
                changes.put(&family::REQUESTS, &request_id(1), &record);
            }),
            ("a root that the registry never had", |_, changes| {
                let record = selfsame_protocol::ledger::RootRecord { height: 1, replaced_at: None };
                let root = Root::from_number(alloy_primitives::U256::from(9));
                changes.put(&family::ROOTS, &root, &record);
            }),
        ];
        for (what, change) in table {
            let folder = populated();
            damage(&folder, change);
            let heights = Heights::default();
            let report = rebuild(&store_in(&folder), CACHE, &heights);
            let expected = RebuildReport { blocks: 4, operations: 4, accounts: 4, queued: 1 };
            assert_eq!(report.map_err(|error| error.to_string()), Ok(expected), "{what}");
            assert_eq!(heights.0.into_inner().expect("no panic"), [(1, 4), (2, 4), (3, 4), (4, 4)], "{what}");
            assert_eq!(names(&folder), ["store"], "{what}");
            assert_eq!(findings(&folder), Vec::<String>::new(), "{what}");
            let store = open(&folder);
            assert_eq!(store.last_sequence().expect("the read succeeds"), 5, "{what}");
            let ledger = EmbeddedLedger::open(store.clone()).expect("the ledger opens");
            let block = seal(&store, &ledger, 5000);
            commit(&store, &block).expect("the next block is committed");
        }
    }

    #[test]
    fn a_rebuild_does_not_bring_expired_requests_back() {
        let folder = populated();
        damage(&folder, |_, changes| {
            changes.delete(&family::REQUESTS, &request_id(1));
            changes.put(&family::SWEPT_REQUESTS, &(), &SweptRequests { height: 1, of_next: 0 });
        });
        rebuild(&store_in(&folder), CACHE, &NoProgress).expect("the store is rebuilt");
        let store = open(&folder);
        assert_eq!(store.request(&request_id(1)).expect("the read succeeds"), None);
        let kept = store.database().records(&family::REQUESTS).expect("the read succeeds").count();
        assert_eq!(kept, 4);
        drop(store);
        assert_eq!(findings(&folder), Vec::<String>::new());
    }

    #[test]
    fn a_store_with_damaged_blocks_is_left_as_it_is() {
        for height in 1..=3u64 {
            let folder = populated();
            damage(&folder, |store, changes| {
                let block = store.database().get(&family::BLOCKS, &height).expect("the read succeeds");
                let mut block = block.expect("a block");
                block.header.time.0 += 1;
                changes.put(&family::BLOCKS, &height, &block);
            });
            let before = findings(&folder);
            let error =
                rebuild(&store_in(&folder), CACHE, &NoProgress).expect_err("the rebuild is refused").to_string();
            let expected = format!("block {} does not follow block {height}, or was changed; restore it", height + 1);
            assert!(error.contains(&expected), "{error}");
            assert_eq!((names(&folder), findings(&folder)), (vec!["store".to_owned()], before));
        }
        let folder = populated();
        damage(&folder, |_, changes| changes.delete(&family::BLOCKS, &2));
        let error = rebuild(&store_in(&folder), CACHE, &NoProgress).expect_err("the rebuild is refused").to_string();
        assert!(
            error.contains("block 3 does not follow block 1") && error.ends_with("with `selfsame restore`"),
            "{error}"
        );
    }

    #[test]
    fn an_interrupted_rebuild_is_refused_at_the_start_and_begins_again() {
        let folder = populated();
        let path = store_in(&folder);
        std::fs::rename(&path, folder.path().join("store.replaced")).expect("renamed");
        for is_folder_there in [false, true] {
            if is_folder_there {
                // A daemon creates the folder before it opens the store.
                std::fs::create_dir(&path).expect("a folder");
                std::fs::create_dir(folder.path().join("store.rebuilding")).expect("a folder");
            }
            let options = OpenOptions::new(DOMAIN);
            for refused in [Store::open(&path, &options).err(), Store::open_existing(&path, CACHE).err()] {
                assert!(matches!(refused, Some(StoreError::RebuildInterrupted { .. })), "{refused:?}");
            }
        }
        rebuild(&path, CACHE, &NoProgress).expect("the store is rebuilt");
        assert_eq!((names(&folder), findings(&folder)), (vec!["store".to_owned()], Vec::new()));

        // The process ended after the new store had its name.
        std::fs::create_dir(folder.path().join("store.replaced")).expect("a folder");
        std::fs::write(folder.path().join("store.replaced/CURRENT"), "").expect("written");
        drop(open(&folder));
        rebuild(&path, CACHE, &NoProgress).expect("the store is rebuilt");
        assert_eq!(names(&folder), ["store"]);

        let none = folder.path().join("none");
        let error = rebuild(&none, CACHE, &NoProgress).expect_err("there is no store").to_string();
        assert!(error.ends_with("there is no such folder"), "{error}");
        let store = open(&folder);
        let error = rebuild(&path, CACHE, &NoProgress).expect_err("the store is in use");
        assert!(matches!(error, StoreError::InUse { .. }), "{error}");
        drop(store);
    }

    #[test]
    fn a_stopped_rebuild_leaves_the_store_as_it_was() {
        let folder = populated();
        damage(&folder, |_, changes| changes.delete(&family::ACCOUNTS, &LeafIndex(2)));
        let before = findings(&folder);
        for blocks in 1..=4 {
            let error = rebuild(&store_in(&folder), CACHE, &StopAfter(blocks, AtomicU64::new(0))).expect_err("stopped");
            assert!(matches!(error, StoreError::Stopped), "{error}");
            assert_eq!((names(&folder), findings(&folder)), (vec!["store".to_owned()], before.clone()));
        }
    }

    #[test]
    fn a_gap_between_applied_blocks_names_the_rebuild() {
        let folder = populated();
        damage(&folder, |_, changes| changes.delete(&family::RESULTS, &2));
        let error = Store::open(&store_in(&folder), &OpenOptions::new(DOMAIN)).err().expect("the store is refused");
        let expected = "the store lacks the result of block 2, though later blocks were applied; it follows from the \
                        blocks: run `selfsame registry rebuild`";
        assert_eq!(error.to_string(), expected);
        rebuild(&store_in(&folder), CACHE, &NoProgress).expect("the store is rebuilt");
        drop(open(&folder));
    }
}
