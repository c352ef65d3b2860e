//! How far a store has a journal, and whether it has everything before.
//!
//! A replica's batches are not synced. RocksDB can begin a new log file between two of them, and a
//! power failure can then take the end of the older file and leave the newer one, which RocksDB
//! does not notice. Each batch therefore leaves a mark, and a sync removes the marks before it: the
//! marks after the last sync must be without a gap.

use alloy_primitives::B256;
use selfsame_protocol::encode_fields;
use selfsame_protocol::encoding::{DecodeError, decode, encode};

use super::meta;
use crate::database::{Changes, Database, RecordSource};
use crate::error::StoreError;
use crate::journal::{Position, ReplicaError};
use crate::schema::family;
use crate::schema::registry::AppliedTip;

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
