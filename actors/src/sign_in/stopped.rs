//! What can be done to the signing keys of a stopped service: a service does not start with keys
//! that it cannot decrypt.

use std::sync::mpsc::channel;

use selfsame_protocol::encoding::decode;
use selfsame_protocol::sign_in::records::SigningKeys;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{Decision, EmbeddedRecords, GroupCommit, RecordWrite, Records, Store, StoreError};

use super::keys::KEYS;
use super::state::write;
use crate::registry::head_signer;

/// Removes all signing keys from a store that no service uses, also keys that cannot be decrypted;
/// the service makes new ones when it needs them. With `end_sessions`, all sign-ins up to `now`
/// end: their codes, access tokens and browser sessions are worth nothing. Blocks the thread.
///
/// With `registry_key`, the key that signs the registry's heads is removed, too. Clients that know
/// it refuse the registry then.
///
/// Returns the ids of the removed signing keys.
///
/// # Errors
/// The store cannot be read or written.
pub fn revoke_stored_keys(
    store: &Store,
    now: UnixSeconds,
    end_sessions: bool,
    registry_key: bool,
) -> Result<Vec<String>, StoreError> {
    let (group_commit, committing) = GroupCommit::start(store.clone())?;
    let revoked = revoke_all(&EmbeddedRecords::new(store.clone(), group_commit), now, end_sessions, registry_key);
    // The last handle of the group commit is dropped, so its thread ends.
    committing.join().map_err(|_| StoreError::Panicked)?;
    revoked
}

fn revoke_all(
    records: &dyn Records,
    now: UnixSeconds,
    end_sessions: bool,
    registry_key: bool,
) -> Result<Vec<String>, StoreError> {
    let stored = records.get(&KEYS)?;
    let damaged = |reason| StoreError::Damaged { family: "records", reason };
    let keys = stored.as_ref().map(|stored| decode::<SigningKeys>(&stored.value)).transpose().map_err(damaged)?;
    let keys = keys.unwrap_or_default();
    let mut writes = vec![write(KEYS, stored.as_ref(), &keys.revoke_all(now, end_sessions), UnixSeconds::NEVER)];
    if registry_key && let Some(before) = records.get(&head_signer::KEY)? {
        writes.push(RecordWrite { key: head_signer::KEY, before: Some(before), after: None });
    }
    let (decided, decision) = channel();
    records.compare_and_write(writes, Box::new(move |outcome| drop(decided.send(outcome))));
    match decision.recv().unwrap_or(Err(StoreError::Panicked))? {
        Decision::Written => Ok(keys.keys.into_iter().map(|key| key.id).collect()),
        // Another writer uses the store, against this function's condition.
        Decision::Changed => Err(StoreError::Closing),
    }
}
