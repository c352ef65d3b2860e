//! The mark of a store that is being migrated.

use selfsame_protocol::encode_fields;
use selfsame_protocol::encoding::encode;

use crate::database::{Changes, Database};
use crate::error::StoreError;
use crate::facts::{self, MIGRATION_KEY};
use crate::schema::family;

/// How far a migration is. A store with this mark has no schema version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The schema before the migration began.
    pub original: u32,
    /// The schema of the records that are not changed yet.
    pub from: u32,
    /// The schema of the program that began.
    pub to: u32,
    /// Name of the folder beside the store that keeps it as it was; `None` when nothing does.
    pub copy: Option<String>,
    /// How many of the steps from `from` to the next schema are complete: its families, one after
    /// the other, and what follows from several records.
    pub family: u32,
    /// The last changed key of the family after them; `None` before the first.
    pub after: Option<Vec<u8>>,
}

encode_fields!(Mark { original, from, to, copy, family, after } version 1 of "migration");

impl Mark {
    pub fn read(database: &Database) -> Result<Option<Self>, StoreError> {
        facts::meta(database, MIGRATION_KEY)
    }

    pub fn put(&self, changes: &mut Changes) {
        changes.put_raw(family::META, MIGRATION_KEY, encode(self));
    }

    pub fn delete(changes: &mut Changes) {
        changes.delete_raw(family::META, MIGRATION_KEY);
    }
}
