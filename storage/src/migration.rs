//! Migrations: the store of an older version of the program gets the present layout of records.
//!
//! | file | what |
//! |---|---|
//! | this one | the steps of a migration, and which schemas can be migrated |
//! | `mark.rs` | the record that says how far a migration is |
//! | `to_N.rs` | what schema N changed: a function from an old record to a new one |
//!
//! A migration is one pass over the records that change:
//!
//! 1. A copy of the store (hard links) is made beside it, under a temporary name.
//! 2. One synced write puts the mark of the migration into the store and takes the schema version
//!    away. From then on every program but one that migrates refuses the store.
//! 3. The copy gets its name, such as `store.schema-4`. The operator removes it.
//! 4. Records are changed, some at a time. Each write is synced and has the mark with the last
//!    changed key, so that no record is changed twice.
//! 5. What follows from several records is written, together with the mark. Then the families that
//!    the new schema does not have are dropped.
//! 6. One synced write puts the new schema version in the place of the mark.
//!
//! A process that ends before step 2 leaves the old store, and after it a store that the next start
//! goes on with. Both end in the same records.

mod mark;
#[cfg(test)]
mod tests;
mod to_5;
mod to_6;
mod to_7;
mod to_8;
mod to_9;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use selfsame_protocol::encoding::DecodeError;

use crate::database::{Changes, Database};
use crate::error::{RoomFor, StoreError};
use crate::facts::{self, SCHEMA_VERSION};
use crate::faults::FaultScope;
use crate::progress::{Phase, Progress, ensure_wanted};
use crate::room::ensure_room;

use mark::Mark;

/// The oldest schema that a store can be migrated from.
pub const OLDEST_MIGRATABLE: u32 = 4;

/// The migrations in their order, the first one from [`OLDEST_MIGRATABLE`].
static MIGRATIONS: [SchemaChange; 5] = [to_5::CHANGE, to_6::CHANGE, to_7::CHANGE, to_8::CHANGE, to_9::CHANGE];

const _: () = assert!(
    OLDEST_MIGRATABLE as usize + MIGRATIONS.len() == SCHEMA_VERSION as usize,
    "each schema from the oldest one on has a migration to the next"
);

const COPYING: Phase = Phase { name: "copying the store as it is", unit: "copies" };
const MIGRATING: Phase = Phase { name: "migrating records", unit: "records" };

/// Records that are changed in one write.
const BATCH: usize = 10_000;

/// Room for RocksDB's files of a copy, and for write buffers that are flushed.
const FIXED_BYTES: u64 = 64 << 20;

/// What a schema changes, in this order.
struct SchemaChange {
    /// The families whose records change.
    families: &'static [FamilyChange],
    /// Makes records that follow from those of the schema before, once.
    conclude: Option<Conclude>,
    /// The families that the schema does not have any more.
    dropped: &'static [&'static str],
}

type Conclude = fn(&Database, &mut Changes) -> Result<(), StoreError>;

impl SchemaChange {
    /// Nothing of what the store has changes.
    const NONE: Self = Self { families: &[], conclude: None, dropped: &[] };
}

/// How a schema changes the records of a family. Their keys stay.
struct FamilyChange {
    family: &'static str,
    /// The new value for an old one.
    change: fn(&[u8]) -> Result<Vec<u8>, DecodeError>,
}

/// How the schema of a store stands to that of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaStanding {
    /// It is the same.
    Present,
    /// The next start of the daemon migrates the store from this schema.
    Migratable {
        /// The schema of the store.
        from: u32,
    },
    /// A migration was interrupted; the next start of the daemon continues it.
    Interrupted {
        /// The schema that the store had before.
        from: u32,
    },
    /// This program cannot use the store.
    Foreign {
        /// The schema of the store; 0 when it has none.
        found: u32,
    },
}

impl SchemaStanding {
    /// The schema of the store; that before the migration when it was interrupted.
    pub fn schema(self) -> u32 {
        match self {
            Self::Present => SCHEMA_VERSION,
            Self::Migratable { from } | Self::Interrupted { from } => from,
            Self::Foreign { found } => found,
        }
    }

    /// Whether a store or a backup with this schema, and no interrupted migration, can be used.
    pub fn of_schema(schema: u32) -> Self {
        match schema {
            SCHEMA_VERSION => Self::Present,
            OLDEST_MIGRATABLE..SCHEMA_VERSION => Self::Migratable { from: schema },
            found => Self::Foreign { found },
        }
    }

    /// # Errors
    /// [`StoreError::NeedsMigration`] or [`StoreError::SchemaVersion`], unless the schema is the
    /// present one.
    pub(crate) fn ensure_present(self) -> Result<(), StoreError> {
        match self {
            Self::Present => Ok(()),
            Self::Migratable { from } | Self::Interrupted { from } => {
                Err(StoreError::NeedsMigration { found: from, known: SCHEMA_VERSION })
            }
            Self::Foreign { found } => {
                Err(StoreError::SchemaVersion { found, known: SCHEMA_VERSION, oldest: OLDEST_MIGRATABLE })
            }
        }
    }
}

/// How a database stands to the schema of this program.
pub(crate) fn standing(database: &Database) -> Result<SchemaStanding, StoreError> {
    Ok(match Mark::read(database)? {
        None => SchemaStanding::of_schema(facts::stored_schema_version(database)?.unwrap_or_default()),
        Some(mark) if mark.to <= SCHEMA_VERSION && mark.from >= OLDEST_MIGRATABLE => {
            SchemaStanding::Interrupted { from: mark.original }
        }
        // A newer program began it.
        Some(mark) => SchemaStanding::Foreign { found: mark.to },
    })
}

/// Whether the store as it was is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// As a copy beside the store.
    Beside,
    /// Not at all: something else has it.
    Nothing,
}

/// Gives a store the present schema if it has an older one. `path` is its folder.
pub(crate) fn bring_up_to_date(
    database: &mut Database,
    path: &Path,
    keep: Keep,
    progress: &dyn Progress,
) -> Result<(), StoreError> {
    Migration { database, path, batch: BATCH }.run(keep, progress)
}

/// The migration of an open database.
struct Migration<'a> {
    database: &'a mut Database,
    path: &'a Path,
    /// Records that are changed in one write.
    batch: usize,
}

impl Migration<'_> {
    fn run(&mut self, keep: Keep, progress: &dyn Progress) -> Result<(), StoreError> {
        let mark = match standing(self.database)? {
            SchemaStanding::Present => return Ok(()),
            SchemaStanding::Migratable { from } => self.begin(from, keep, progress)?,
            SchemaStanding::Interrupted { .. } => match Mark::read(self.database)? {
                Some(mark) => mark,
                None => return Ok(()),
            },
            foreign @ SchemaStanding::Foreign { .. } => return foreign.ensure_present(),
        };
        self.name_copy(&mark)?;
        fault_point!(FaultScope::PROCESS, MigrationMarked);
        let copy = mark.copy.clone();
        let from = mark.original;
        self.change_all(mark, progress)?;
        let kept = copy.map(|name| self.beside(&name).display().to_string());
        tracing::info!(from, to = SCHEMA_VERSION, kept, "the store is migrated; remove what is kept when all is well");
        Ok(())
    }

    /// Copies the store, and marks it.
    fn begin(&self, from: u32, keep: Keep, progress: &dyn Progress) -> Result<Mark, StoreError> {
        self.ensure_room(from, keep)?;
        let copy = match keep {
            Keep::Nothing => None,
            Keep::Beside => {
                progress.report(COPYING, 0, 1);
                let name = self.free_name(from);
                let kept = self.beside(&name).display().to_string();
                tracing::info!(from, to = SCHEMA_VERSION, kept, "migrating the store; it is kept as it was");
                self.copy(&name)?;
                progress.report(COPYING, 1, 1);
                Some(name)
            }
        };
        fault_point!(FaultScope::PROCESS, MigrationCopied);
        ensure_wanted(progress)?;
        let mark = Mark { original: from, from, to: SCHEMA_VERSION, copy, family: 0, after: None };
        let mut changes = Changes::default();
        mark.put(&mut changes);
        facts::delete_schema_version(&mut changes);
        self.database.write(changes, true)?;
        Ok(mark)
    }

    /// Asks for room for what may be written: the changed records twice, because RocksDB writes a
    /// file anew before it removes the old ones, and the whole store when its copy cannot be hard
    /// links.
    fn ensure_room(&self, from: u32, keep: Keep) -> Result<(), StoreError> {
        let bytes = |family| self.database.property(family, "rocksdb.total-sst-files-size");
        let changed = changes_from(from).map(|change| bytes(change.family)).sum::<Result<u64, StoreError>>()?;
        ensure_room(RoomFor::Migration, self.path, 2 * changed + FIXED_BYTES)?;
        let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).map_err(failed(path));
        let parent = parent(self.path);
        if keep == Keep::Nothing || device(self.path)? == device(parent)? {
            return Ok(());
        }
        let dropped = migrations_from(from).iter().flat_map(|schema| schema.dropped.iter().copied());
        let dropped = dropped.filter(|family| self.database.has_family(family));
        let all = self.database.families().chain(dropped).map(bytes).sum::<Result<u64, StoreError>>()?;
        ensure_room(RoomFor::Migration, parent, all + FIXED_BYTES)
    }

    /// A name for the copy that nothing beside the store has: an earlier migration may have left
    /// its copy.
    fn free_name(&self, from: u32) -> String {
        let stem = self.path.file_name().unwrap_or_default().to_string_lossy();
        let name = |number: u32| match number {
            1 => format!("{stem}.schema-{from}"),
            _ => format!("{stem}.schema-{from}-{number}"),
        };
        (1..).map(name).find(|name| !self.beside(name).exists()).unwrap_or_else(|| name(0))
    }

    fn beside(&self, name: &str) -> PathBuf {
        parent(self.path).join(name)
    }

    /// Where the copy is until the store has its mark.
    fn unfinished(&self, name: &str) -> PathBuf {
        let mut unfinished = OsString::from(name);
        unfinished.push(".unfinished");
        parent(self.path).join(unfinished)
    }

    /// Makes the copy under its temporary name, durably.
    fn copy(&self, name: &str) -> Result<(), StoreError> {
        let folder = self.unfinished(name);
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(&folder)(error)),
            _ => {}
        }
        self.database.checkpoint(&folder)?;
        for entry in std::fs::read_dir(&folder).map_err(failed(&folder))? {
            let path = entry.map_err(failed(&folder))?.path();
            File::open(&path).and_then(|file| file.sync_all()).map_err(failed(&path))?;
        }
        sync_folder(&folder)?;
        sync_folder(parent(self.path))
    }

    /// Gives the copy its name, unless it has it.
    fn name_copy(&self, mark: &Mark) -> Result<(), StoreError> {
        let Some(name) = &mark.copy else { return Ok(()) };
        let unfinished = self.unfinished(name);
        match std::fs::rename(&unfinished, self.beside(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            renamed => {
                renamed.map_err(failed(&unfinished))?;
                sync_folder(parent(self.path))
            }
        }
    }

    /// Changes the records that are left, and gives the store its schema.
    fn change_all(&mut self, mut mark: Mark, progress: &dyn Progress) -> Result<(), StoreError> {
        self.database.create_missing_families()?;
        let count = |change: &FamilyChange| self.database.property(change.family, "rocksdb.estimate-num-keys");
        let total = changes_from(mark.from).map(count).sum::<Result<u64, StoreError>>()?;
        let mut done = 0;
        progress.report(MIGRATING, done, total);
        for schema in migrations_from(mark.from) {
            for change in schema.families.iter().skip(mark.family as usize) {
                loop {
                    ensure_wanted(progress)?;
                    let changed = self.change_some(change, &mut mark)?;
                    done += changed as u64;
                    progress.report(MIGRATING, done, total);
                    if changed < self.batch {
                        break;
                    }
                }
                (mark.family, mark.after) = (mark.family + 1, None);
            }
            ensure_wanted(progress)?;
            if let Some(conclude) = schema.conclude.filter(|_| mark.family as usize == schema.families.len()) {
                let mut changes = Changes::default();
                conclude(self.database, &mut changes)?;
                mark.family += 1;
                self.write(changes, &mark)?;
            }
            for family in schema.dropped {
                self.database.drop_family(family)?;
                fault_point!(FaultScope::PROCESS, MigrationWritten);
            }
            (mark.from, mark.family) = (mark.from + 1, 0);
            let mut changes = Changes::default();
            if mark.from == SCHEMA_VERSION {
                Mark::delete(&mut changes);
                facts::put_schema_version(&mut changes);
                self.database.write(changes, true)?;
                fault_point!(FaultScope::PROCESS, MigrationWritten);
            } else {
                self.write(changes, &mark)?;
            }
        }
        Ok(())
    }

    /// Writes changes and how far the migration is.
    fn write(&self, mut changes: Changes, mark: &Mark) -> Result<(), StoreError> {
        mark.put(&mut changes);
        self.database.write(changes, true)?;
        fault_point!(FaultScope::PROCESS, MigrationWritten);
        Ok(())
    }

    /// Changes the next records of a family, at most a batch. Returns how many.
    fn change_some(&self, change: &FamilyChange, mark: &mut Mark) -> Result<usize, StoreError> {
        let mut changes = Changes::default();
        let mut changed = 0;
        for record in self.database.raw_records_after(change.family, mark.after.as_deref())?.take(self.batch) {
            let (key, value) = record?;
            let new =
                (change.change)(&value).map_err(|reason| StoreError::Damaged { family: change.family, reason })?;
            changes.put_raw(change.family, &key, new);
            mark.after = Some(key.into());
            changed += 1;
        }
        if changed > 0 {
            self.write(changes, mark)?;
        }
        Ok(changed)
    }
}

/// The migrations of a store of this schema, in their order.
fn migrations_from(schema: u32) -> &'static [SchemaChange] {
    let first = schema.saturating_sub(OLDEST_MIGRATABLE) as usize;
    MIGRATIONS.get(first..).unwrap_or_default()
}

/// The changes to the families of a store of this schema.
fn changes_from(schema: u32) -> impl Iterator<Item = &'static FamilyChange> {
    migrations_from(schema).iter().flat_map(|schema| schema.families)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn sync_folder(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(failed(path))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    |error| StoreError::Folder { path: path.to_owned(), reason: error.to_string() }
}
