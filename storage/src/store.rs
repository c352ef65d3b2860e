//! The store: opening it for one registry, and reading it.
//!
//! The functions that read one kind of record are defined beside its writer:
//! [`crate::RequestWriter`], [`crate::BlockWriter`], [`crate::VerificationRecords`].

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::ledger::Seal;
use selfsame_protocol::registry::Account;
use selfsame_protocol::tree::{Node, PAGE_LEVELS};

use crate::database::{Changes, Database, RecordSource};
use crate::error::StoreError;
use crate::faults::FaultScope;
use crate::metrics::Samples;
use crate::migration::MIGRATIONS;
use crate::recent::Recent;
use crate::resources::Resources;
use crate::schema::family::{self, Layout};
use crate::schema::records::{AppliedTip, Restoration};
use crate::sealed_head::SealedHead;
use crate::upper_pages::NewestUpperPages;
use crate::{facts, log_check};

/// Number of the last applied blocks whose results are looked up when a store is opened. Sealing a
/// block syncs every commit before it, and at most two blocks are sealed ahead of the applied ones,
/// so a power failure can undo only the last few applied blocks.
const RECENT_BLOCKS: u64 = 8;

/// Memory for the cache of a store whose files are in memory, in bytes.
const MEMORY_CACHE: usize = 8 << 20;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// The registry that the store belongs to, or will belong to when it is created.
    pub domain: RegistryDomain,
    /// Whether a store that exists may belong to another contract of the same chain; it keeps its
    /// own then ([`Store::domain`]). For a contract that the caller made up.
    pub keeps_contract: bool,
    /// What it may take of the machine.
    pub resources: Resources,
    /// Keeps all files in memory, for tests and simulations. They last as long as a clone of this
    /// [`MemoryDisk`] or a store on it. The path of the store is made as an empty folder on the
    /// machine's disk all the same.
    pub in_memory: Option<MemoryDisk>,
}

impl OpenOptions {
    /// Options with [`Resources::default`], which suit a small machine.
    pub fn new(domain: RegistryDomain) -> Self {
        Self { domain, keeps_contract: false, resources: Resources::default(), in_memory: None }
    }

    /// The place of the store's files; `None` for the machine's disks.
    fn environment(&self) -> Option<&rocksdb::Env> {
        self.in_memory.as_ref().map(|MemoryDisk(environment)| environment)
    }
}

/// A disk in memory, for tests: everything that is written to it is lost with the process. A store
/// that is opened on a clone finds the files of the store before it.
#[derive(Clone)]
pub struct MemoryDisk(rocksdb::Env);

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> Result<Self, StoreError> {
        Ok(Self(rocksdb::Env::mem_env()?))
    }
}

impl std::fmt::Debug for MemoryDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoryDisk")
    }
}

/// An open store. Cheap to clone; closed when the last clone is dropped.
///
/// A `Store` only reads. Each kind of write has a type of its own: [`crate::BlockWriter`],
/// [`crate::RequestWriter`], [`crate::VerificationRecords`], [`crate::EmbeddedRecords`],
/// [`crate::EmbeddedLedger`].
#[derive(Clone)]
pub struct Store {
    inner: Arc<StoreInner>,
}

struct StoreInner {
    database: Database,
    domain: RegistryDomain,
    /// See [`Store::block_commit`].
    block_commit: Mutex<()>,
    /// See [`Store::sealed_head`].
    sealed_head: SealedHead,
    /// See [`Store::upper_pages`].
    upper_pages: NewestUpperPages,
    /// See [`Store::recent_accounts`].
    recent_accounts: Recent<Account>,
    /// See [`Store::recent_siblings`].
    recent_siblings: Recent<[Node; PAGE_LEVELS]>,
    /// See [`Store::claim`].
    claimed_by: Arc<Mutex<Option<String>>>,
    /// See [`Store::check_files`]; `None` unless [`Store::open`] has opened it on a disk.
    files: Option<StoreFiles>,
}

/// The right to run a service on an open store; see [`Store::claim`]. It does not keep the store
/// open.
#[derive(Debug)]
pub struct StoreClaim {
    claimed_by: Arc<Mutex<Option<String>>>,
}

impl Drop for StoreClaim {
    fn drop(&mut self) {
        *self.claimed_by.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Device and inode of the store's folder and of its lock file.
#[derive(PartialEq, Eq)]
struct StoreFiles([(u64, u64); 2]);

impl StoreFiles {
    fn of(folder: &Path) -> io::Result<Self> {
        let id = |file: Metadata| (file.dev(), file.ino());
        Ok(Self([id(fs::metadata(folder)?), id(fs::metadata(folder.join("LOCK"))?)]))
    }
}

impl Store {
    /// Opens the store in `path`; creates it when there is none. A store of an older schema is
    /// migrated, and a copy of it as it was is kept beside it.
    ///
    /// # Errors
    /// [`StoreError::Open`] (not writable, damaged), [`StoreError::InUse`],
    /// [`StoreError::OtherLayout`], [`StoreError::OtherRegistry`], [`StoreError::Unconfirmed`]
    /// when it was restored from a backup, [`StoreError::NotRestored`] when it was taken out of
    /// one, [`StoreError::RebuildInterrupted`], and [`StoreError::Gap`]; for a replica's store
    /// [`crate::ReplicaError::LostEntry`] and [`crate::ReplicaError::LostBlock`].
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, StoreError> {
        check_no_rebuild(path)?;
        let mut database = Database::open_with(path, &options.resources, true, options.environment())?;
        let domain = match facts::stored_domain(&database)? {
            None => {
                database.create_missing_families()?;
                bind_to_registry(&database, &options.domain)?;
                options.domain
            }
            Some(stored) => {
                MIGRATIONS.ensure_usable(&database)?;
                check_registry(stored, options)?;
                MIGRATIONS.bring_up_to_date(&mut database, path)?;
                database.create_missing_families()?;
                stored
            }
        };
        match facts::stored_restoration(&database)? {
            Some(restoration) if restoration.confirmation.is_none() => {
                let (path, restoration) = (path.to_owned(), Box::new(restoration));
                return Err(match restoration.is_only_copied() {
                    true => StoreError::NotRestored { path, restoration },
                    false => StoreError::Unconfirmed { path, restoration },
                });
            }
            _ => {}
        }
        check_for_gaps(&database)?;
        facts::check_journal(&database)?;
        let files = match options.in_memory {
            Some(_) => None,
            None => {
                let refused = |error: io::Error| StoreError::Open { path: path.to_owned(), reason: error.to_string() };
                Some(StoreFiles::of(path).map_err(refused)?)
            }
        };
        Ok(Self::with_files(database, domain, files))
    }

    /// Makes a new store in memory, for the tests of programs that embed a service. Nothing of it
    /// is kept: what is acknowledged is lost when the last clone is dropped. For a store that can
    /// be opened again, set [`OpenOptions::in_memory`].
    ///
    /// # Errors
    /// [`StoreError::Database`] and [`StoreError::Open`].
    pub fn in_memory(domain: RegistryDomain) -> Result<Self, StoreError> {
        let in_memory = Some(MemoryDisk::new()?);
        let resources = Resources::with_cache(MEMORY_CACHE);
        let options = OpenOptions { in_memory, resources, ..OpenOptions::new(domain) };
        // The binding of RocksDB makes the folder on the machine's disk, so it must be one that is
        // there. No file is written to it.
        Self::open(&std::env::temp_dir(), &options)
    }

    /// Opens a store that must exist, for the registry that it was created for.
    ///
    /// # Errors
    /// [`StoreError::Empty`] when the store's first start ended before anything was written;
    /// [`StoreError::Open`], [`StoreError::InUse`], [`StoreError::OtherLayout`],
    /// [`StoreError::NeedsMigration`] and [`StoreError::RebuildInterrupted`];
    /// [`StoreError::Missing`] when the store does not name its registry.
    pub fn open_existing(path: &Path, block_cache: usize) -> Result<Self, StoreError> {
        check_no_rebuild(path)?;
        // RocksDB would create the folder.
        if !path.exists() {
            return Err(StoreError::Open { path: path.to_owned(), reason: "there is no such folder".to_owned() });
        }
        let empty = || StoreError::Empty { path: path.to_owned() };
        // RocksDB creates LOCK first and CURRENT last.
        let is_begun = path.join("LOCK").is_file() && !path.join("CURRENT").exists();
        let database = Database::open(path, block_cache, false, None);
        let database = match database {
            Err(StoreError::Open { .. }) if is_begun => log_check::check(path).and(Err(empty()))?,
            database => database?,
        };
        let mut database = database;
        if database.is_empty()? {
            return Err(empty());
        }
        MIGRATIONS.ensure_present(&database)?;
        database.create_missing_families()?;
        Self::from_existing(database)
    }

    /// Opens a store that must exist, and changes none of its files.
    ///
    /// # Errors
    /// [`StoreError::Open`], [`StoreError::OtherLayout`], [`StoreError::NeedsMigration`], and
    /// [`StoreError::Missing`] when the store does not name its registry.
    pub fn open_read_only(path: &Path, block_cache: usize) -> Result<Self, StoreError> {
        Self::from_existing(Database::open_read_only(path, block_cache)?)
    }

    /// Makes a store that exists look like that of another build of the program, for tests.
    ///
    /// # Errors
    /// [`StoreError::Open`] and [`StoreError::Database`].
    #[cfg(feature = "fault-injection")]
    pub fn pretend_layout(path: &Path, layout: Layout) -> Result<(), StoreError> {
        let mut changes = Changes::default();
        facts::put_layout(&mut changes, layout);
        Database::open(path, MEMORY_CACHE, false, None)?.write(changes, true)
    }

    /// Calls `visit` with the family, the key and the value of every record as it is stored, in the
    /// order of the layout and of the keys: what a reader of the files has, for tests.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    #[cfg(feature = "fault-injection")]
    pub fn visit_records(&self, mut visit: impl FnMut(&'static str, &[u8], &[u8])) -> Result<(), StoreError> {
        for family in self.database().families() {
            for record in self.database().raw_records(family)? {
                let (key, value) = record?;
                visit(family, &key, &value);
            }
        }
        Ok(())
    }

    /// Makes an empty store for a registry, which is gone when the process ends.
    pub(crate) fn create_scratch(path: &Path, block_cache: usize, domain: RegistryDomain) -> Result<Self, StoreError> {
        Ok(Self::from_database(Database::create_scratch(path, block_cache)?, domain))
    }

    pub(crate) fn from_existing(database: Database) -> Result<Self, StoreError> {
        MIGRATIONS.ensure_present(&database)?;
        let domain = facts::stored_domain(&database)?.ok_or_else(|| StoreError::Missing {
            family: family::META,
            what: "the registry that the store belongs to".to_owned(),
        })?;
        Ok(Self::from_database(database, domain))
    }

    fn from_database(database: Database, domain: RegistryDomain) -> Self {
        Self::with_files(database, domain, None)
    }

    fn with_files(database: Database, domain: RegistryDomain, files: Option<StoreFiles>) -> Self {
        let cache = database.block_cache();
        Self {
            inner: Arc::new(StoreInner {
                database,
                domain,
                block_commit: Mutex::default(),
                sealed_head: SealedHead::default(),
                upper_pages: NewestUpperPages::default(),
                recent_accounts: Recent::beside_cache(cache),
                recent_siblings: Recent::beside_cache(cache),
                claimed_by: Arc::default(),
                files,
            }),
        }
    }

    /// The registry that the store belongs to.
    pub fn domain(&self) -> RegistryDomain {
        self.inner.domain
    }

    /// That the store was restored from a backup; `None` when it was not.
    pub fn restoration(&self) -> Result<Option<Restoration>, StoreError> {
        facts::stored_restoration(self.database())
    }

    /// Takes the right to run a service on this store, for a service of this name. It is held until
    /// the claim is dropped, and is the same for all clones of the store: two services would give
    /// the same sequence numbers and heights to different requests and blocks.
    ///
    /// # Errors
    /// [`StoreError::Claimed`] while another service has the right.
    pub fn claim(&self, service: &str) -> Result<StoreClaim, StoreError> {
        let claimed_by = &self.inner.claimed_by;
        let mut holder = claimed_by.lock().unwrap_or_else(PoisonError::into_inner);
        match &*holder {
            Some(holder) => Err(StoreError::Claimed { holder: holder.clone(), service: service.to_owned() }),
            None => {
                *holder = Some(service.to_owned());
                Ok(StoreClaim { claimed_by: Arc::clone(claimed_by) })
            }
        }
    }

    /// Checks that the store's path still leads to the folder and the lock file that were opened.
    /// RocksDB continues to write to files whose folder was removed, and no later start finds what
    /// it wrote. Blocks the thread. A file system that gives no answer is no reason to refuse.
    ///
    /// # Errors
    /// [`StoreError::Replaced`] when the folder was removed, renamed or replaced.
    pub fn check_files(&self) -> Result<(), StoreError> {
        let Some((files, folder)) = self.inner.files.as_ref().zip(self.folder()) else { return Ok(()) };
        let is_there = match StoreFiles::of(folder) {
            Ok(found) => found == *files,
            Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        };
        if is_there { Ok(()) } else { Err(StoreError::Replaced { path: folder.to_owned() }) }
    }

    /// The scope in which the fault points of the store, of its group commit and of its ledger are
    /// passed: that of the last service that was started on the store.
    #[inline]
    pub fn fault_scope(&self) -> FaultScope {
        self.database().fault_scope()
    }

    /// Sets the scope. A service that is started on the store does so.
    #[inline]
    pub fn set_fault_scope(&self, scope: FaultScope) {
        self.database().set_fault_scope(scope);
    }

    /// Writes everything that is only in the log and in memory into files, so that the next start
    /// has no log to read: for the end of a process. Without it nothing is lost. Blocks the thread
    /// until it is done, or until another thread calls [`Store::stop_flushing`].
    ///
    /// # Errors
    /// [`StoreError::Database`]; then the log still has what is in no file.
    /// [`StoreError::Replaced`]: new files would lie at the store's path, and the list of files
    /// that names them in the folder that was taken away, which then lacks them.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.check_files()?;
        self.database().flush_all()
    }

    /// Ends a [`Store::flush`] that takes too long; it returns an error. From now on nothing is
    /// written into files any more, so the store has to be closed.
    pub fn stop_flushing(&self) {
        self.database().cancel_background_work();
    }

    pub(crate) fn database(&self) -> &Database {
        &self.inner.database
    }

    /// A lock for the commit of a block: the tree maintainer that ends and the one that a restart
    /// starts cannot interleave their commits.
    pub(crate) fn block_commit(&self) -> &Mutex<()> {
        &self.inner.block_commit
    }

    /// The upper pages of the tree after the last committed block, shared by its writer and the
    /// snapshots.
    pub(crate) fn upper_pages(&self) -> &NewestUpperPages {
        &self.inner.upper_pages
    }

    /// Accounts by leaf index that were read more than once lately, shared by the writer of blocks
    /// and the snapshots.
    pub(crate) fn recent_accounts(&self) -> &Recent<Account> {
        &self.inner.recent_accounts
    }

    /// The same for the siblings of leaves, those in the leaf's own page.
    pub(crate) fn recent_siblings(&self) -> &Recent<[Node; PAGE_LEVELS]> {
        &self.inner.recent_siblings
    }

    /// The end of the store's own ledger, shared by its readers and by the group commit, which
    /// appends to it.
    pub(crate) fn sealed_head(&self) -> &SealedHead {
        &self.inner.sealed_head
    }

    /// The seal of the last block of the store's own ledger; zeros before the first.
    pub(crate) fn ledger_head(&self) -> Result<Seal, StoreError> {
        self.inner.sealed_head.current(&self.inner.database)
    }
}

/// Where a rebuild keeps the old store: beside its folder.
pub fn replaced_store(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".replaced");
    PathBuf::from(name)
}

/// Whether a folder has a store. RocksDB writes CURRENT last.
pub(crate) fn has_store(path: &Path) -> bool {
    path.join("CURRENT").exists()
}

/// Refuses a folder without a store while a rebuild keeps the old one beside it: a new store would
/// take its place.
fn check_no_rebuild(path: &Path) -> Result<(), StoreError> {
    match !has_store(path) && has_store(&replaced_store(path)) {
        true => Err(StoreError::RebuildInterrupted { path: path.to_owned() }),
        false => Ok(()),
    }
}

/// Writes the registry's domain and the layout into a new store.
fn bind_to_registry(database: &Database, domain: &RegistryDomain) -> Result<(), StoreError> {
    let mut changes = Changes::default();
    facts::put_layout(&mut changes, Layout::PRESENT);
    facts::put_domain(&mut changes, domain);
    database.write(changes, true)
}

/// Refuses a store of another registry than the caller's.
fn check_registry(stored: RegistryDomain, options: &OpenOptions) -> Result<(), StoreError> {
    let domain = &options.domain;
    let keeps_contract = options.keeps_contract && stored.chain_id == domain.chain_id;
    if keeps_contract || stored == *domain {
        return Ok(());
    }
    Err(StoreError::OtherRegistry {
        stored_chain_id: stored.chain_id,
        stored_contract: stored.verifying_contract,
        chain_id: domain.chain_id,
        contract: domain.verifying_contract,
    })
}

/// Refuses a store that lacks the result of one of the last applied blocks although a later block
/// was applied.
///
/// Applied blocks are not synced. When a new log file is begun between two of them, a power failure
/// can undo the end of the first file and leave the second, and RocksDB does not notice.
fn check_for_gaps(database: &Database) -> Result<(), StoreError> {
    let applied: AppliedTip = database.get(&family::APPLIED, &())?.unwrap_or_default();
    let height = applied.tip.seal.height;
    for height in height.saturating_sub(RECENT_BLOCKS) + 1..=height {
        if database.get(&family::RESULTS, &height)?.is_none() {
            return Err(StoreError::Gap { height });
        }
    }
    Ok(())
}

// What the families of a store take, for operators.

/// One family of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilyInfo {
    /// Its name.
    pub name: &'static str,
    /// RocksDB's estimate of the number of records. It counts a record again that was written again
    /// and not compacted since.
    pub records: u64,
    /// Bytes in the files of the family, compressed; records that are only in the log are not
    /// counted.
    pub file_bytes: u64,
}

/// RocksDB's number of levels.
const LEVELS: usize = 7;

impl Store {
    /// Writes how RocksDB does. Reads counters, no files; what cannot be read is left out.
    pub fn write_metrics(&self, samples: &mut Samples<'_>) -> fmt::Result {
        let database = self.database();
        // These count for the whole database, whichever family is asked.
        let of_one = |property| database.property(family::ALL[0], property).ok();
        let of_all =
            |property| database.families().map(|name| database.property(name, property)).sum::<Result<u64, _>>().ok();
        if let Ok(files) = database.files() {
            let mut levels: [_; LEVELS] = std::array::from_fn(|level| (level.to_string(), 0));
            for (level, bytes) in files {
                if let Some((_, sum)) = levels.get_mut(level) {
                    *sum += bytes;
                }
            }
            let by_level = levels.iter().map(|(level, bytes)| ([("level", level.as_str())], *bytes));
            samples.gauges("selfsame_store_level_bytes", "Bytes in the files of a level of RocksDB", by_level)?;
        }
        for (name, help, value) in [
            (
                "selfsame_store_write_buffer_bytes",
                "Bytes in RocksDB's write buffers",
                of_all("rocksdb.cur-size-all-mem-tables"),
            ),
            (
                "selfsame_store_block_cache_bytes",
                "Bytes in RocksDB's cache of blocks",
                of_one("rocksdb.block-cache-usage"),
            ),
            (
                "selfsame_store_pending_compaction_bytes",
                "Bytes that RocksDB's compactions still have to rewrite, an estimate",
                of_all("rocksdb.estimate-pending-compaction-bytes"),
            ),
            (
                "selfsame_store_running_compactions",
                "Compactions of RocksDB that run now",
                of_one("rocksdb.num-running-compactions"),
            ),
            (
                "selfsame_store_write_stopped",
                "1 while RocksDB has stopped writes until its compactions catch up",
                of_one("rocksdb.is-write-stopped").map(|stopped| u64::from(stopped != 0)),
            ),
        ] {
            if let Some(value) = value {
                samples.gauge(name, help, value)?;
            }
        }
        let Some(errors) = of_one("rocksdb.background-errors") else { return Ok(()) };
        samples.counter("selfsame_store_background_errors", "Failures of RocksDB's background work", errors)
    }

    /// What each family takes, in the order of the layout.
    pub fn families(&self) -> Result<Vec<FamilyInfo>, StoreError> {
        let info = |name| {
            let number = |property| self.database().property(name, property);
            let (records, file_bytes) = (number("rocksdb.estimate-num-keys")?, number("rocksdb.total-sst-files-size")?);
            Ok(FamilyInfo { name, records, file_bytes })
        };
        self.database().families().map(info).collect()
    }

    /// How many accounts there are.
    pub fn accounts(&self) -> Result<u64, StoreError> {
        let last = self.database().last_key(&family::ACCOUNTS)?;
        Ok(last.map_or(0, |leaf_index| leaf_index.0))
    }
}
