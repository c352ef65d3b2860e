//! Migrations: the store of an older released version of the program gets the present layout of
//! records. No version is released yet, so the list of migrations is empty.
//!
//! A migration is one pass over the records that change:
//!
//! 1. A copy of the store (hard links) is made beside it, under a temporary name.
//! 2. One synced write puts the mark of the migration into the store and takes the layout away.
//!    From then on every program but one that migrates to the same layout refuses the store.
//! 3. The copy gets its name, such as `store.schema-4`. The operator removes it.
//! 4. Records are changed, some at a time. Each write is synced and has the mark with the last
//!    changed key, so that no record is changed twice.
//! 5. What follows from several records is written, together with the mark. Then the families that
//!    the new schema does not have are dropped.
//! 6. One synced write puts the new layout in the place of the mark.
//!
//! A process that ends before step 2 leaves the old store, and after it a store that the next start
//! goes on with. Both end in the same records.

#[cfg(test)]
#[cfg(feature = "fault-injection")]
mod tests;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use selfsame_protocol::encode_fields;
use selfsame_protocol::encoding::{DecodeError, encode};

use crate::database::{Changes, Database};
use crate::error::StoreError;
use crate::facts::{self, MIGRATION_KEY};
use crate::faults::FaultScope;
use crate::schema::family::{self, Layout};

/// Records that are changed in one write.
const BATCH: usize = 10_000;

/// What a program can do with stores of other layouts.
pub(crate) struct Migrations {
    /// What each schema up to the present one changed, in their order. A store of the schema before
    /// the first of them is the oldest that can be migrated.
    steps: &'static [SchemaChange],
    /// The layout of the program.
    to: Layout,
}

/// The migrations of this program: each released schema after the first has one from the schema
/// before.
pub(crate) const MIGRATIONS: Migrations = Migrations { steps: &[], to: Layout::PRESENT };

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

/// How a schema changes the records of a family. Their keys stay.
struct FamilyChange {
    family: &'static str,
    /// The new value for an old one.
    change: fn(&[u8]) -> Result<Vec<u8>, DecodeError>,
}

/// How far a migration is. A store with this mark does not say its layout.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    /// The schema before the migration began.
    original: u32,
    /// The schema of the records that are not changed yet.
    from: u32,
    /// The layout of the program that began.
    to: Layout,
    /// Name of the folder beside the store that keeps it as it was.
    copy: String,
    /// How many of the steps from `from` to the next schema are complete: its families, one after
    /// the other, and what follows from several records.
    family: u32,
    /// The last changed key of the family after them; `None` before the first.
    after: Option<Vec<u8>>,
}

encode_fields!(Mark { original, from, to, copy, family, after } version 2 of "migration");

impl Mark {
    fn put(&self, changes: &mut Changes) {
        changes.put_raw(family::META, MIGRATION_KEY, encode(self));
    }
}

/// How the layout of a store stands to that of a program.
enum Standing {
    /// It is the same.
    Present,
    /// The store can be migrated from this schema.
    Migratable { from: u32 },
    /// A migration was interrupted.
    Interrupted(Mark),
    /// The program cannot use the store.
    Foreign(Layout),
}

impl Migrations {
    fn standing(&self, database: &Database) -> Result<Standing, StoreError> {
        let mark = match facts::meta::<Mark>(database, MIGRATION_KEY) {
            // A build before this one was interrupted.
            Err(StoreError::Damaged { reason: DecodeError::UnknownVersion { found, known, .. }, .. })
                if found < known =>
            {
                return Ok(Standing::Foreign(Layout { schema: 0, draft: None }));
            }
            mark => mark?,
        };
        if let Some(mark) = mark {
            return Ok(if mark.to == self.to { Standing::Interrupted(mark) } else { Standing::Foreign(mark.to) });
        }
        let found = facts::stored_layout(database)?.unwrap_or(Layout { schema: 0, draft: None });
        let oldest = self.to.schema.saturating_sub(self.steps.len() as u32);
        Ok(match found {
            found if found == self.to => Standing::Present,
            Layout { schema, draft: Some(0) } if (oldest..self.to.schema).contains(&schema) => {
                Standing::Migratable { from: schema }
            }
            found => Standing::Foreign(found),
        })
    }

    fn refusal(&self, found: Layout) -> StoreError {
        StoreError::OtherLayout { found, known: self.to }
    }

    /// Refuses a store that this program can neither use nor migrate.
    ///
    /// # Errors
    /// [`StoreError::OtherLayout`].
    pub(crate) fn ensure_usable(&self, database: &Database) -> Result<(), StoreError> {
        match self.standing(database)? {
            Standing::Foreign(found) => Err(self.refusal(found)),
            _ => Ok(()),
        }
    }

    /// Refuses a store of another layout, for what does not migrate it.
    ///
    /// # Errors
    /// [`StoreError::NeedsMigration`] or [`StoreError::OtherLayout`].
    pub(crate) fn ensure_present(&self, database: &Database) -> Result<(), StoreError> {
        match self.standing(database)? {
            Standing::Present => Ok(()),
            Standing::Migratable { from: found } | Standing::Interrupted(Mark { original: found, .. }) => {
                Err(StoreError::NeedsMigration { found, known: self.to.schema })
            }
            Standing::Foreign(found) => Err(self.refusal(found)),
        }
    }

    /// Gives a store the present layout if it has that of an older schema, and keeps a copy of it
    /// as it was beside it. `path` is its folder.
    pub(crate) fn bring_up_to_date(&self, database: &mut Database, path: &Path) -> Result<(), StoreError> {
        Migration { migrations: self, database, path, batch: BATCH }.run()
    }

    /// The migrations of a store of this schema, in their order.
    fn steps_from(&self, schema: u32) -> &'static [SchemaChange] {
        let left = self.to.schema.saturating_sub(schema) as usize;
        self.steps.get(self.steps.len().saturating_sub(left)..).unwrap_or_default()
    }
}

/// The migration of an open database.
struct Migration<'a> {
    migrations: &'a Migrations,
    database: &'a mut Database,
    path: &'a Path,
    /// Records that are changed in one write.
    batch: usize,
}

impl Migration<'_> {
    fn run(&mut self) -> Result<(), StoreError> {
        let mark = match self.migrations.standing(self.database)? {
            Standing::Present => return Ok(()),
            Standing::Migratable { from } => self.begin(from)?,
            Standing::Interrupted(mark) => mark,
            Standing::Foreign(found) => return Err(self.migrations.refusal(found)),
        };
        self.name_copy(&mark)?;
        fault_point!(FaultScope::PROCESS, MigrationMarked);
        let (from, to) = (mark.original, mark.to.schema);
        let kept = self.beside(&mark.copy).display().to_string();
        self.change_all(mark)?;
        tracing::info!(from, to, kept, "the store is migrated; remove what is kept when all is well");
        Ok(())
    }

    /// Copies the store, and marks it.
    fn begin(&self, from: u32) -> Result<Mark, StoreError> {
        let (to, copy) = (self.migrations.to, self.free_name(from));
        let kept = self.beside(&copy).display().to_string();
        tracing::info!(from, to = to.schema, kept, "migrating the store; it is kept as it was");
        self.copy(&copy)?;
        fault_point!(FaultScope::PROCESS, MigrationCopied);
        let mark = Mark { original: from, from, to, copy, family: 0, after: None };
        let mut changes = Changes::default();
        mark.put(&mut changes);
        facts::delete_layout(&mut changes);
        self.database.write(changes, true)?;
        Ok(mark)
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
        let unfinished = self.unfinished(&mark.copy);
        match std::fs::rename(&unfinished, self.beside(&mark.copy)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            renamed => {
                renamed.map_err(failed(&unfinished))?;
                sync_folder(parent(self.path))
            }
        }
    }

    /// Changes the records that are left, and gives the store its layout.
    fn change_all(&mut self, mut mark: Mark) -> Result<(), StoreError> {
        self.database.create_missing_families()?;
        for schema in self.migrations.steps_from(mark.from) {
            for change in schema.families.iter().skip(mark.family as usize) {
                while self.change_some(change, &mut mark)? == self.batch {}
                (mark.family, mark.after) = (mark.family + 1, None);
            }
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
            self.write(Changes::default(), &mark)?;
        }
        let mut changes = Changes::default();
        changes.delete_raw(family::META, MIGRATION_KEY);
        facts::put_layout(&mut changes, mark.to);
        self.database.write(changes, true)?;
        fault_point!(FaultScope::PROCESS, MigrationWritten);
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

fn parent(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes earlier changes of names in a folder durable. Some file systems have no sync of a folder,
/// and answer `EINVAL`.
pub(crate) fn sync_folder(path: &Path) -> Result<(), StoreError> {
    match File::open(path).and_then(|folder| folder.sync_all()) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        synced => synced.map_err(failed(path)),
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    |error| StoreError::Folder { path: path.to_owned(), reason: error.to_string() }
}
