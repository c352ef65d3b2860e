//! The facts about a store: its layout, its registry, that it was restored, that it is being
//! migrated, how far it has a journal.

mod journal;

use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::encoding::{Encoding, decode, encode};

use crate::database::{Changes, Database, RecordSource};
use crate::error::StoreError;
use crate::schema::family;
use crate::schema::layout::Layout;
use crate::schema::restoration::Restoration;

pub use journal::Membership;
pub(crate) use journal::{
    LastEntry, Synced, check_journal, delete_journal, journal_synced, last_journal_entry, membership,
    put_journal_synced, put_last_journal_entry, put_membership,
};

const SCHEMA_VERSION_KEY: &[u8] = b"schema_version";
const SCHEMA_DRAFT_KEY: &[u8] = b"schema_draft";
const REGISTRY_DOMAIN_KEY: &[u8] = b"registry_domain";
const RESTORATION_KEY: &[u8] = b"restoration";

/// Key of the mark of a migration; see `migration.rs`.
pub(crate) const MIGRATION_KEY: &[u8] = b"migration";

/// The layout of a store; `None` while it is migrated, and for a new one.
pub(crate) fn stored_layout(database: &Database) -> Result<Option<Layout>, StoreError> {
    let Some(schema) = meta(database, SCHEMA_VERSION_KEY)? else { return Ok(None) };
    Ok(Some(Layout { schema, draft: meta(database, SCHEMA_DRAFT_KEY)? }))
}

/// Gives a store a layout in the place of the one that it says.
pub(crate) fn put_layout(changes: &mut Changes, Layout { schema, draft }: Layout) {
    changes.put_raw(family::META, SCHEMA_VERSION_KEY, encode(&schema));
    match draft {
        Some(draft) => changes.put_raw(family::META, SCHEMA_DRAFT_KEY, encode(&draft)),
        None => changes.delete_raw(family::META, SCHEMA_DRAFT_KEY),
    }
}

/// Takes the layout of a store away.
pub(crate) fn delete_layout(changes: &mut Changes) {
    changes.delete_raw(family::META, SCHEMA_VERSION_KEY);
    changes.delete_raw(family::META, SCHEMA_DRAFT_KEY);
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
        SCHEMA_VERSION_KEY | SCHEMA_DRAFT_KEY => decode::<u32>(value).map(drop),
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
