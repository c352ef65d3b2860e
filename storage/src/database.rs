//! RocksDB: opening it, reading typed records, writing changes.

mod changes;
mod copies;
mod options;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rocksdb::{
    ColumnFamily, ColumnFamilyDescriptor, DB, DBPinnableSlice, ErrorKind, FlushOptions, IteratorMode, ReadOptions,
    ReadTier, WriteBatch, WriteOptions,
};
use selfsame_protocol::encoding::{Encoding, decode, encode};

pub(crate) use self::changes::Changes;
use self::options::OpenedWith;
use crate::error::StoreError;
use crate::faults::{FaultScope, ScopeCell};
use crate::log_check::{self, TornLog};
use crate::resources::Resources;
use crate::schema::family::{self, Family};

/// The database with its column families.
pub(crate) struct Database {
    db: DB,
    opened_with: OpenedWith,
    reads: Reads,
    synced: WriteOptions,
    unsynced: WriteOptions,
    fault_scope: ScopeCell,
    /// The folder of the files; `None` in memory.
    folder: Option<PathBuf>,
    /// Whether a write failed after which none was seen to succeed.
    has_failed: AtomicBool,
    /// RocksDB's count of failed flushes and compactions at the last look.
    background_errors: AtomicU64,
}

/// RocksDB's name for its count of failed flushes and compactions.
const BACKGROUND_ERRORS: &str = "rocksdb.background-errors";

/// Lets the process of a test end before RocksDB's static destructors run. A test may return while
/// threads still use a store; they then lock mutexes that are destroyed already, and a test that
/// has passed is aborted: 3 of 3,500 on sixteen cores. A daemon ends by `_exit`, and an embedder
/// stops its services first.
#[cfg(all(feature = "fault-injection", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the C library has the only hook that gets the exit status")]
fn skip_static_destructors() {
    use std::ffi::{c_int, c_void};

    unsafe extern "C" {
        fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    }

    extern "C" fn end(status: c_int, _: *mut c_void) {
        // SAFETY: `_exit` ends the process at any time and takes any status.
        unsafe { libc::_exit(status) }
    }

    // Functions run in the reverse of the order in which they were registered, and RocksDB
    // registers some destructors at the first use of what they destroy: this is called after each
    // open. SAFETY: `end` uses no argument, and may be registered any number of times.
    unsafe { on_exit(end, std::ptr::null_mut()) };
}

/// Where a read may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadFrom {
    /// The write buffers and the cache alone.
    Memory,
    /// The files, too.
    Disk,
}

/// The options of single reads, which are made once. Each of them is an allocation of RocksDB's.
struct Reads {
    from_memory: ReadOptions,
    from_disk: ReadOptions,
}

impl Reads {
    fn new() -> Self {
        let mut from_memory = ReadOptions::default();
        from_memory.set_read_tier(ReadTier::BlockCache);
        Self { from_memory, from_disk: ReadOptions::default() }
    }

    fn options(&self, from: ReadFrom) -> &ReadOptions {
        match from {
            ReadFrom::Memory => &self.from_memory,
            ReadFrom::Disk => &self.from_disk,
        }
    }
}

/// A state of the database that later writes do not change, with the options for reading it.
pub(crate) struct PinnedReads<'database> {
    /// Declared first, because the options refer to the snapshot.
    reads: Reads,
    snapshot: rocksdb::Snapshot<'database>,
    database: &'database Database,
}

impl<'database> PinnedReads<'database> {
    /// Reads a record.
    ///
    /// # Errors
    /// [`StoreError::NotInMemory`] when it would have to be read from the disk, and `from` does not
    /// allow it.
    pub(crate) fn read(
        &self,
        from: ReadFrom,
        family: &'static str,
        key: &[u8],
    ) -> Result<Option<DBPinnableSlice<'database>>, StoreError> {
        fault_point!(self.database.fault_scope(), SnapshotRead);
        self.database.get_pinned(&self.reads, from, family, key)
    }

    /// The records of a family whose encoded keys are below `end`, in the order of their keys. They
    /// do not take the place of others in the cache.
    pub(crate) fn records_before<Key: Encoding, Value: Encoding>(
        &self,
        family: &Family<Key, Value>,
        end: Vec<u8>,
    ) -> Result<impl Iterator<Item = Result<(Key, Value), StoreError>> + use<'_, 'database, Key, Value>, StoreError>
    {
        let name = family.name;
        let range = KeyRange { family: name, start: None, end: Some(end) };
        let handle = self.database.handle(name)?;
        let records = self.snapshot.iterator_cf_opt(handle, range.options(), IteratorMode::Start);
        Ok(records.map(move |record| decode_record(name, record)))
    }
}

/// A source of records: the database as it is now, or a snapshot.
pub(crate) trait RecordSource {
    fn read(&self, family: &'static str, key: &[u8]) -> Result<Option<DBPinnableSlice<'_>>, StoreError>;

    fn get<Key: Encoding, Value: Encoding>(
        &self,
        family: &Family<Key, Value>,
        key: &Key,
    ) -> Result<Option<Value>, StoreError> {
        let Some(bytes) = self.read(family.name, &encode(key))? else { return Ok(None) };
        decode(&bytes).map(Some).map_err(|reason| StoreError::Damaged { family: family.name, reason })
    }
}

impl RecordSource for Database {
    fn read(&self, family: &'static str, key: &[u8]) -> Result<Option<DBPinnableSlice<'_>>, StoreError> {
        fault_point!(self.fault_scope(), StoreRead);
        self.get_pinned(&self.reads, ReadFrom::Disk, family, key)
    }
}

/// The database as it is now, from memory alone. Reads return [`StoreError::NotInMemory`] where the
/// disk has to be read.
pub(crate) struct InMemory<'a>(&'a Database);

impl RecordSource for InMemory<'_> {
    fn read(&self, family: &'static str, key: &[u8]) -> Result<Option<DBPinnableSlice<'_>>, StoreError> {
        let Self(database) = self;
        fault_point!(database.fault_scope(), StoreRead);
        database.get_pinned(&database.reads, ReadFrom::Memory, family, key)
    }
}

impl Database {
    /// Reads from memory alone.
    pub(crate) fn in_memory(&self) -> InMemory<'_> {
        InMemory(self)
    }

    /// Opens a database with a cache of this size, in bytes, and the rest as by default.
    pub(crate) fn open(
        path: &Path,
        block_cache: usize,
        create: bool,
        environment: Option<&rocksdb::Env>,
    ) -> Result<Self, StoreError> {
        Self::open_with(path, &Resources::with_cache(block_cache), create, environment)
    }

    pub(crate) fn open_with(
        path: &Path,
        resources: &Resources,
        create: bool,
        environment: Option<&rocksdb::Env>,
    ) -> Result<Self, StoreError> {
        let torn = if environment.is_none() { log_check::check(path)? } else { Vec::new() };
        let opened_with = OpenedWith::new(resources);
        let mut options = opened_with.database();
        options.create_if_missing(create);
        // RocksDB creates families one after the other: an interrupted first start leaves some
        // missing.
        options.create_missing_column_families(true);
        if let Some(environment) = environment {
            options.set_env(environment);
        }
        // One of another schema is opened with the families that it has, so that the program which
        // made it can still read it.
        let existing = DB::list_cf(&options, path).unwrap_or_default();
        let is_begun = existing.iter().any(|name| name == family::META);
        let names = if is_begun { existing } else { family::ALL.map(str::to_owned).into() };
        let db = match DB::open_cf_descriptors(&options, path, opened_with.families(&names)) {
            Err(error) if !torn.is_empty() && !is_locked(error.as_ref()) => {
                torn.iter().try_for_each(TornLog::cut).map_err(|error| StoreError::Open {
                    path: path.to_owned(),
                    reason: format!("a log with a write that was cut off cannot be cut: {error}"),
                })?;
                DB::open_cf_descriptors(&options, path, opened_with.families(&names))
            }
            opened => opened,
        };
        let mut database = Self::from_rocksdb(db.map_err(|error| open_error(path, error))?, opened_with);
        database.folder = environment.is_none().then(|| path.to_owned());
        Ok(database)
    }

    /// Opens a database that exists, and changes none of its files. Records that are only in its
    /// log are read into memory. A process that has it open for writing does not notice.
    pub(crate) fn open_read_only(path: &Path, block_cache: usize) -> Result<Self, StoreError> {
        log_check::check(path)?;
        let opened_with = OpenedWith::new(&Resources::with_cache(block_cache));
        let options = opened_with.database();
        // An older store lacks the families that came later; its schema says so.
        let existing = DB::list_cf(&options, path).map_err(|error| open_error(path, error))?;
        let names = family::ALL.into_iter().filter(|name| existing.iter().any(|existing| existing == name));
        let db = DB::open_cf_descriptors_read_only(&options, path, opened_with.families(names), false);
        Ok(Self::from_rocksdb(db.map_err(|error| open_error(path, error))?, opened_with))
    }

    /// Opens a database that exists, in which RocksDB may not be able to read every record: it
    /// reads none by itself. Not for a database in use, which needs its compactions.
    pub(crate) fn open_without_compaction(path: &Path, block_cache: usize) -> Result<Self, StoreError> {
        log_check::check(path)?;
        let opened_with = OpenedWith::new(&Resources::with_cache(block_cache));
        let options = opened_with.database();
        let existing = DB::list_cf(&options, path).map_err(|error| open_error(path, error))?;
        let families = existing.iter().map(|name| {
            let mut options = opened_with.family(name);
            options.set_disable_auto_compactions(true);
            ColumnFamilyDescriptor::new(name, options)
        });
        let db = DB::open_cf_descriptors(&options, path, families);
        Ok(Self::from_rocksdb(db.map_err(|error| open_error(path, error))?, opened_with))
    }

    /// Creates the families that the database lacks: an older schema did not have them, or a first
    /// start was interrupted.
    pub(crate) fn create_missing_families(&mut self) -> Result<(), StoreError> {
        for name in family::ALL {
            if self.db.cf_handle(name).is_none() {
                self.db.create_cf(name, &self.opened_with.family(name))?;
            }
        }
        Ok(())
    }

    /// Whether the database has a family, which may be one of an older schema.
    pub(crate) fn has_family(&self, name: &str) -> bool {
        self.db.cf_handle(name).is_some()
    }

    /// Removes a family and its records, if the database has it.
    pub(crate) fn drop_family(&mut self, name: &str) -> Result<(), StoreError> {
        if self.has_family(name) {
            self.db.drop_cf(name)?;
        }
        Ok(())
    }

    /// Creates a family that only an older schema has.
    #[cfg(all(test, feature = "fault-injection"))]
    pub(crate) fn create_family(&mut self, name: &str) -> Result<(), StoreError> {
        Ok(self.db.create_cf(name, &rocksdb::Options::default())?)
    }

    /// Empties families without reading them, so also when their files are damaged.
    pub(crate) fn clear(&mut self, families: &[&'static str]) -> Result<(), StoreError> {
        for name in families {
            self.db.drop_cf(name)?;
            self.db.create_cf(name, &self.opened_with.family(name))?;
        }
        Ok(())
    }

    /// Creates a database that nothing of is kept when the process ends: it has no log.
    pub(crate) fn create_scratch(path: &Path, block_cache: usize) -> Result<Self, StoreError> {
        let mut database = Self::open(path, block_cache, true, None)?;
        database.unsynced.disable_wal(true);
        Ok(database)
    }

    fn from_rocksdb(db: DB, opened_with: OpenedWith) -> Self {
        #[cfg(all(feature = "fault-injection", target_env = "gnu"))]
        skip_static_destructors();
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        Self {
            db,
            opened_with,
            reads: Reads::new(),
            synced,
            unsynced: WriteOptions::default(),
            fault_scope: ScopeCell::default(),
            folder: None,
            has_failed: AtomicBool::new(false),
            background_errors: AtomicU64::new(0),
        }
    }

    /// The folder of the files; `None` for a database in memory or one that is only read.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Notes a failure after which RocksDB may take no writes; see [`Self::refused_write`].
    fn note<T>(&self, outcome: Result<T, rocksdb::Error>) -> Result<T, StoreError> {
        Ok(outcome.inspect_err(|_| self.has_failed.store(true, Ordering::Relaxed))?)
    }

    /// Why RocksDB takes no writes; `None` when it does. While nothing failed, nothing is tried.
    /// Otherwise an empty write is: RocksDB refuses it, too, as long as it has stopped.
    pub(crate) fn refused_write(&self) -> Option<StoreError> {
        let errors = self.db.property_int_value(BACKGROUND_ERRORS).ok().flatten().unwrap_or_default();
        let has_new = self.background_errors.swap(errors, Ordering::Relaxed) != errors;
        // Reset before the write, so that a failure of another thread meanwhile is not forgotten.
        if !self.has_failed.swap(false, Ordering::Relaxed) && !has_new {
            return None;
        }
        self.note(self.db.write_opt(WriteBatch::default(), &self.synced)).err()
    }

    /// The scope of the service that uses the database; before the first one, of the process.
    #[inline]
    pub(crate) fn fault_scope(&self) -> FaultScope {
        self.fault_scope.get()
    }

    /// Another service uses the database from now on.
    #[inline]
    pub(crate) fn set_fault_scope(&self, scope: FaultScope) {
        self.fault_scope.set(scope);
    }

    /// The families that the database has. One of an older schema lacks some.
    pub(crate) fn families(&self) -> impl Iterator<Item = &'static str> + '_ {
        family::ALL.into_iter().filter(|name| self.db.cf_handle(name).is_some())
    }

    /// Whether the database holds no record.
    pub(crate) fn is_empty(&self) -> Result<bool, StoreError> {
        for family in self.families() {
            if self.raw_records(family)?.next().is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes all write buffers into files. What was written before the call is in the log no more.
    pub(crate) fn flush_all(&self) -> Result<(), StoreError> {
        let handles: Vec<_> = self.families().filter_map(|name| self.db.cf_handle(name)).collect();
        self.note(self.db.flush_cfs_opt(&handles, &FlushOptions::default()))
    }

    /// Ends flushes and compactions at the next occasion, and begins no others.
    pub(crate) fn cancel_background_work(&self) {
        self.db.cancel_all_background_work(false);
    }

    /// Flushes a family and starts another log, as a full write buffer does.
    #[cfg(test)]
    pub(crate) fn flush(&self, family: &'static str) {
        self.db.flush_cf(self.handle(family).expect("a family")).expect("flushed");
    }

    /// Deletes one record.
    #[cfg(test)]
    pub(crate) fn delete_raw(&self, family: &'static str, key: &[u8]) {
        self.db.delete_cf(self.handle(family).expect("a family"), key).expect("deleted");
    }

    /// A number that RocksDB knows about a family; 0 when it does not.
    pub(crate) fn property(&self, family: &'static str, name: &str) -> Result<u64, StoreError> {
        Ok(self.db.property_int_value_cf(self.handle(family)?, name)?.unwrap_or_default())
    }

    /// The level and the length in bytes of each file of records.
    pub(crate) fn files(&self) -> Result<impl Iterator<Item = (usize, u64)>, StoreError> {
        let files = self.db.live_files()?;
        Ok(files.into_iter().map(|file| (usize::try_from(file.level).unwrap_or_default(), file.size as u64)))
    }

    /// The size of the cache, in bytes.
    pub(crate) fn block_cache(&self) -> usize {
        self.opened_with.block_cache()
    }

    fn handle(&self, family: &'static str) -> Result<&ColumnFamily, StoreError> {
        let missing = || StoreError::Missing { family, what: "its column family".to_owned() };
        self.db.cf_handle(family).ok_or_else(missing)
    }

    /// Writes changes atomically.
    ///
    /// With `sync` they are on disk when this returns. Without it they survive the end of the
    /// process, but a power failure may undo all of them, together with what was written later.
    /// Later unsynced writes can survive when a new log was begun in between; see `check_for_gaps`
    /// in `store.rs`.
    pub(crate) fn write(&self, changes: Changes, sync: bool) -> Result<(), StoreError> {
        let mut batch = WriteBatch::default();
        for (family, key, value) in changes.items() {
            let handle = self.handle(family)?;
            match value {
                Some(value) => batch.put_cf(handle, key, value),
                None => batch.delete_cf(handle, key),
            }
        }
        self.note(self.db.write_opt(batch, if sync { &self.synced } else { &self.unsynced }))
    }

    /// The database as it is now, unchanged by later writes.
    pub(crate) fn pin(&self) -> PinnedReads<'_> {
        let (snapshot, mut reads) = (self.db.snapshot(), Reads::new());
        reads.from_memory.set_snapshot(&snapshot);
        reads.from_disk.set_snapshot(&snapshot);
        PinnedReads { reads, snapshot, database: self }
    }

    fn get_pinned(
        &self,
        reads: &Reads,
        from: ReadFrom,
        family: &'static str,
        key: &[u8],
    ) -> Result<Option<DBPinnableSlice<'_>>, StoreError> {
        self.db.get_pinned_cf_opt(self.handle(family)?, key, reads.options(from)).map_err(|error| match from {
            // RocksDB's word for it.
            ReadFrom::Memory if error.kind() == ErrorKind::Incomplete => StoreError::NotInMemory,
            _ => error.into(),
        })
    }

    /// The raw records of a family in the order of their keys.
    pub(crate) fn raw_records(&self, family: &'static str) -> Result<RawRecords<'_>, StoreError> {
        let records = self.db.iterator_cf(self.handle(family)?, IteratorMode::Start);
        Ok(Box::new(records.map(|record| record.map_err(StoreError::from))))
    }

    /// The raw records of a range in the order of their keys. They do not take the place of others
    /// in the cache.
    pub(crate) fn raw_records_in(&self, range: &KeyRange) -> Result<RawRecords<'_>, StoreError> {
        let records = self.db.iterator_cf_opt(self.handle(range.family)?, range.options(), IteratorMode::Start);
        Ok(Box::new(records.map(|record| record.map_err(StoreError::from))))
    }

    /// The records of a range in the order of their keys, which has to be one of this family.
    pub(crate) fn records_in<'a, Key: Encoding + 'a, Value: Encoding + 'a>(
        &'a self,
        family: &Family<Key, Value>,
        range: &KeyRange,
    ) -> Result<impl Iterator<Item = Result<(Key, Value), StoreError>> + use<'a, Key, Value>, StoreError> {
        let name = family.name;
        debug_assert_eq!(name, range.family);
        let records = self.db.iterator_cf_opt(self.handle(name)?, range.options(), IteratorMode::Start);
        Ok(records.map(move |record| decode_record(name, record)))
    }

    /// The raw records of a family behind a key (exclusive), in the order of their keys; without a
    /// key all of them.
    pub(crate) fn raw_records_after(
        &self,
        family: &'static str,
        after: Option<&[u8]>,
    ) -> Result<RawRecords<'_>, StoreError> {
        // The next possible key is the same with one more byte.
        let start = after.map(|after| [after, &[0]].concat());
        self.raw_records_in(&KeyRange { family, start, end: None })
    }

    /// Each family cut into ranges that can be read at the same time, in the order of their keys.
    /// A cut is where a file of records begins, so a range has about the size of a file.
    pub(crate) fn key_ranges(&self) -> Result<KeyRanges, StoreError> {
        let mut cuts: BTreeMap<String, BTreeSet<Vec<u8>>> = BTreeMap::new();
        for file in self.db.live_files()? {
            cuts.entry(file.column_family_name).or_default().extend(file.start_key);
        }
        Ok(KeyRanges { cuts })
    }

    /// The records of a family in the order of their keys.
    pub(crate) fn records<'a, Key: Encoding + 'a, Value: Encoding + 'a>(
        &'a self,
        family: &Family<Key, Value>,
    ) -> Result<impl Iterator<Item = Result<(Key, Value), StoreError>> + use<'a, Key, Value>, StoreError> {
        let name = family.name;
        Ok(self.db.iterator_cf(self.handle(name)?, IteratorMode::Start).map(move |record| decode_record(name, record)))
    }

    /// The records of a family in the order of their keys, from `start` on.
    pub(crate) fn records_from<'a, Key: Encoding + 'a, Value: Encoding + 'a>(
        &'a self,
        family: &Family<Key, Value>,
        start: &Key,
    ) -> Result<impl Iterator<Item = Result<(Key, Value), StoreError>> + use<'a, Key, Value>, StoreError> {
        let name = family.name;
        let start = encode(start);
        let mode = IteratorMode::From(&start, rocksdb::Direction::Forward);
        Ok(self.db.iterator_cf(self.handle(name)?, mode).map(move |record| decode_record(name, record)))
    }

    /// The record with the greatest key.
    pub(crate) fn last<Key: Encoding, Value: Encoding>(
        &self,
        family: &Family<Key, Value>,
    ) -> Result<Option<(Key, Value)>, StoreError> {
        let mut records = self.db.iterator_cf(self.handle(family.name)?, IteratorMode::End);
        records.next().map(|record| decode_record(family.name, record)).transpose()
    }

    /// The greatest key, whatever schema its record has.
    pub(crate) fn last_key<Key: Encoding, Value: Encoding>(
        &self,
        family: &Family<Key, Value>,
    ) -> Result<Option<Key>, StoreError> {
        let mut records = self.db.iterator_cf(self.handle(family.name)?, IteratorMode::End);
        let Some(record) = records.next() else { return Ok(None) };
        let (key, _) = record?;
        decode(&key).map(Some).map_err(|reason| StoreError::Damaged { family: family.name, reason })
    }
}

fn open_error(path: &Path, error: rocksdb::Error) -> StoreError {
    let (path, reason) = (PathBuf::from(path), error.into_string());
    if is_locked(&reason) { StoreError::InUse { path } } else { StoreError::Open { path, reason } }
}

/// Whether RocksDB's error text says that another process, or this one, has the store open. RocksDB
/// has no error kind for it.
fn is_locked(reason: &str) -> bool {
    reason.contains("While lock file") || reason.contains("lock hold by current process")
}

/// A key and a value as they are stored.
type RawRecord = (Box<[u8]>, Box<[u8]>);

/// Records as they are stored.
pub(crate) type RawRecords<'a> = Box<dyn Iterator<Item = Result<RawRecord, StoreError>> + 'a>;

fn decode_record<Key: Encoding, Value: Encoding>(
    family: &'static str,
    record: Result<RawRecord, rocksdb::Error>,
) -> Result<(Key, Value), StoreError> {
    let (key, value) = record?;
    let damaged = |reason| StoreError::Damaged { family, reason };
    Ok((decode(&key).map_err(damaged)?, decode(&value).map_err(damaged)?))
}

/// The records of one family from a key on (inclusive) up to another one (exclusive); `None` is the
/// first or the last record.
#[derive(Clone, Debug)]
pub(crate) struct KeyRange {
    pub family: &'static str,
    start: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
}

impl KeyRange {
    fn options(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        if let Some(start) = &self.start {
            options.set_iterate_lower_bound(start.clone());
        }
        if let Some(end) = &self.end {
            options.set_iterate_upper_bound(end.clone());
        }
        options
    }
}

/// Where the families of a database can be cut.
pub(crate) struct KeyRanges {
    cuts: BTreeMap<String, BTreeSet<Vec<u8>>>,
}

impl KeyRanges {
    /// The ranges of a family: at least one, in the order of their keys, with every record in
    /// exactly one of them.
    pub(crate) fn of(&self, family: &'static str) -> Vec<KeyRange> {
        // Nothing is before the first cut, or what is there is only in the log.
        let cuts = self.cuts.get(family).into_iter().flatten().skip(1).cloned();
        let starts: Vec<Option<Vec<u8>>> = std::iter::once(None).chain(cuts.map(Some)).collect();
        let ends = starts.iter().skip(1).cloned().chain([None]);
        starts.iter().cloned().zip(ends).map(|(start, end)| KeyRange { family, start, end }).collect()
    }
}
