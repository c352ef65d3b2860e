//! The facts about a store: its schema, its registry, that it was restored, that it is being
//! migrated, how far it has a journal.

mod journal;

use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::encoding::{Encoding, decode, encode};

use crate::database::{Changes, Database, RecordSource};
use crate::error::StoreError;
use crate::schema::family;
use crate::schema::restoration::Restoration;

pub use journal::Membership;
pub(crate) use journal::{
    LastEntry, Synced, check_journal, delete_journal, journal_synced, last_journal_entry, membership,
    put_journal_synced, put_last_journal_entry, put_membership,
};

/// Version of the records' layout. A change of the layout raises it; opening a store checks it.
pub const SCHEMA_VERSION: u32 = 9;

const SCHEMA_VERSION_KEY: &[u8] = b"schema_version";
const REGISTRY_DOMAIN_KEY: &[u8] = b"registry_domain";
const RESTORATION_KEY: &[u8] = b"restoration";

/// Key of the mark of a migration; see `migration/mark.rs`.
pub(crate) const MIGRATION_KEY: &[u8] = b"migration";

/// The schema of a store; `None` while it is migrated.
pub(crate) fn stored_schema_version(database: &Database) -> Result<Option<u32>, StoreError> {
    meta(database, SCHEMA_VERSION_KEY)
}

/// Gives a store the schema of this program.
pub(crate) fn put_schema_version(changes: &mut Changes) {
    changes.put_raw(family::META, SCHEMA_VERSION_KEY, encode(&SCHEMA_VERSION));
}

/// Takes the schema of a store away.
pub(crate) fn delete_schema_version(changes: &mut Changes) {
    changes.delete_raw(family::META, SCHEMA_VERSION_KEY);
}

/// The registry that a store belongs to; `None` for a new one.
pub(crate) fn stored_domain(database: &Database) -> Result<Option<RegistryDomain>, StoreError> {
    meta(database, REGISTRY_DOMAIN_KEY)
}

/// A fact about the store.
pub(crate) fn meta<Value: Encoding>(database: &Database, key: &[u8]) -> Result<Option<Value>, StoreError> {
    let Some(bytes) = database.read(family::META, key)? else { return Ok(None) };
    decode(&bytes).map(Some).map_err(|reason| StoreError::Damaged { family: family::META, reason })
}

/// Decodes a record of [`family::META`].
///
/// # Errors
/// Says why the record is none of this version of the program.
pub(crate) fn decode_meta(key: &[u8], value: &[u8]) -> Result<(), String> {
    let decoded = match key {
        SCHEMA_VERSION_KEY => decode::<u32>(value).map(drop),
        REGISTRY_DOMAIN_KEY => decode::<RegistryDomain>(value).map(drop),
        RESTORATION_KEY => decode::<Restoration>(value).map(drop),
        MIGRATION_KEY => return Err("the store is being migrated".to_owned()),
        _ => match journal::decode_record(key, value) {
            Some(decoded) => decoded,
            None => return Err("its key is unknown".to_owned()),
        },
    };
    decoded.map_err(|reason| reason.to_string())
}

/// Marks a store as restored; replaces an earlier mark.
pub(crate) fn put_restoration(changes: &mut Changes, restoration: &Restoration) {
    changes.put_raw(family::META, RESTORATION_KEY, encode(restoration));
}

/// Gives a new store its registry.
pub(crate) fn put_domain(changes: &mut Changes, domain: &RegistryDomain) {
    changes.put_raw(family::META, REGISTRY_DOMAIN_KEY, encode(domain));
}

/// That the store was restored from a backup, or is the copy of one; `None` when it is neither.
pub(crate) fn stored_restoration(database: &Database) -> Result<Option<Restoration>, StoreError> {
    meta(database, RESTORATION_KEY)
}

/// Makes the store look like one of another version of the program.
#[cfg(test)]
pub(crate) fn write_schema_version(database: &Database, version: u32) {
    let mut changes = Changes::default();
    changes.put_raw(family::META, SCHEMA_VERSION_KEY, encode(&version));
    database.write(changes, true).expect("the version is written");
}
