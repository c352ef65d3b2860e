//! The facts about a store: its layout, its registry, that it was restored, that it is being
//! migrated, that it is a replica of a cluster, how far it has a journal.

use alloy_primitives::B256;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::encode_fields;
use selfsame_protocol::encoding::{DecodeError, Encoding, decode, encode};

use crate::database::{Changes, Database, RecordSource};
use crate::error::StoreError;
use crate::journal::{Position, ReplicaError};
use crate::schema::family::{self, Layout};
use crate::schema::records::{AppliedTip, Restoration};

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
        _ => match decode_record(key, value) {
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

// How far a store has a journal, and whether it has everything before.
//
// A replica's batches are not synced. RocksDB can begin a new log file between two of them, and a
// power failure can then take the end of the older file and leave the newer one, which RocksDB
// does not notice. Each batch therefore leaves a mark, and a sync removes the marks before it: the
// marks after the last sync must be without a gap.

const MEMBERSHIP_KEY: &[u8] = b"journal_membership";
const LAST_ENTRY_KEY: &[u8] = b"journal_last_entry";
const SYNCED_KEY: &[u8] = b"journal_synced";
const MARK_PREFIX: &[u8] = b"journal_entry/";

/// Which cluster a store is a replica of, and which of its replicas it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Chosen at random when the cluster began.
    pub cluster: [u8; 16],
    /// Chosen at random when this store became a replica. A copy of it is another replica.
    pub store: [u8; 16],
}

encode_fields!(Membership { cluster, store });

/// What is known to survive a power failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Synced {
    /// The entries up to here.
    pub position: u64,
    /// The applied blocks up to here.
    pub height: u64,
}

encode_fields!(Synced { position, height });

/// The last entry of the journal that a store has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastEntry {
    pub position: u64,
    /// [`JournalEntry::digest`]: two journals may have other entries at one place.
    ///
    /// [`JournalEntry::digest`]: crate::JournalEntry::digest
    pub digest: B256,
}

encode_fields!(LastEntry { position, digest });

fn mark_key(position: u64) -> Vec<u8> {
    [MARK_PREFIX, &encode(&position)].concat()
}

/// The cluster that a store is a replica of; `None` when it is alone.
pub(crate) fn membership(database: &Database) -> Result<Option<Membership>, StoreError> {
    meta(database, MEMBERSHIP_KEY)
}

/// Makes a store a replica.
pub(crate) fn put_membership(changes: &mut Changes, membership: &Membership) {
    changes.put_raw(family::META, MEMBERSHIP_KEY, encode(membership));
}

/// Removes everything that a store has of a journal.
pub(crate) fn delete_journal(database: &Database, changes: &mut Changes) -> Result<(), StoreError> {
    for key in [MEMBERSHIP_KEY, LAST_ENTRY_KEY, SYNCED_KEY] {
        changes.delete_raw(family::META, key);
    }
    let (last, synced) = (last_journal_entry(database)?, journal_synced(database)?);
    for position in synced.position + 1..=last.unwrap_or_default().position {
        changes.delete_raw(family::META, mark_key(position));
    }
    Ok(())
}

/// The last entry of the journal that a store has; `None` when the store is no replica's.
pub(crate) fn last_journal_entry(database: &Database) -> Result<Option<LastEntry>, StoreError> {
    meta(database, LAST_ENTRY_KEY)
}

/// Records that a store has an entry, in the batch of the entry's changes.
pub(crate) fn put_last_journal_entry(changes: &mut Changes, last: LastEntry) {
    changes.put_raw(family::META, LAST_ENTRY_KEY, encode(&last));
    changes.put_raw(family::META, mark_key(last.position), []);
}

/// What was recorded as synced last.
pub(crate) fn journal_synced(database: &Database) -> Result<Synced, StoreError> {
    Ok(meta(database, SYNCED_KEY)?.unwrap_or_default())
}

/// Records what a sync has made durable, and removes the marks that are no longer needed.
pub(crate) fn put_journal_synced(changes: &mut Changes, before: Synced, synced: Synced) {
    changes.put_raw(family::META, SYNCED_KEY, encode(&synced));
    for position in before.position + 1..=synced.position {
        changes.delete_raw(family::META, mark_key(position));
    }
}

/// Refuses a store that has an entry or an applied block, and lacks one before it.
///
/// # Errors
/// [`ReplicaError::LostEntry`] or [`ReplicaError::LostBlock`].
pub(crate) fn check_journal(database: &Database) -> Result<(), StoreError> {
    let Some(LastEntry { position, .. }) = last_journal_entry(database)? else { return Ok(()) };
    let synced = journal_synced(database)?;
    for lost in synced.position + 1..=position {
        if database.read(family::META, &mark_key(lost))?.is_none() {
            return Err(ReplicaError::LostEntry { position: Position(lost), last: Position(position) }.into());
        }
    }
    let applied: AppliedTip = database.get(&family::APPLIED, &())?.unwrap_or_default();
    let applied = applied.tip.seal.height;
    let sealed = database.last(&family::BLOCKS)?.map_or(0, |(height, _)| height);
    if applied > sealed {
        return Err(ReplicaError::LostBlock { height: sealed + 1, applied }.into());
    }
    for height in synced.height + 1..=applied {
        if database.get(&family::RESULTS, &height)?.is_none() {
            return Err(StoreError::Gap { height });
        }
    }
    Ok(())
}

/// Decodes a record whose key this file defines; `None` for other keys.
pub(super) fn decode_record(key: &[u8], value: &[u8]) -> Option<Result<(), DecodeError>> {
    match key {
        MEMBERSHIP_KEY => Some(decode::<Membership>(value).map(drop)),
        LAST_ENTRY_KEY => Some(decode::<LastEntry>(value).map(drop)),
        SYNCED_KEY => Some(decode::<Synced>(value).map(drop)),
        _ => {
            let position = key.strip_prefix(MARK_PREFIX)?;
            Some(decode::<u64>(position).and_then(|_| decode::<()>(value)))
        }
    }
}
