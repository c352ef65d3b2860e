//! The records of the verification endpoint: nullifiers, actions that their first proof made,
//! nonces that relying parties signed, and the operator's decisions about trusted roots.

use selfsame_protocol::events::record::RecordedEvent;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::directory::ActionKey;
use selfsame_protocol::verification::identity::{ActionRecord, NullifierKey, NullifierRecord, SessionProof};
use selfsame_protocol::verification::roots::{RootDecision, RootKey};
use selfsame_protocol::verification::rp_signature::SignedNonce;

use crate::database::{Changes, RecordSource};
use crate::error::StoreError;
use crate::faults::FaultScope;
use crate::group_commit::{Conditions, GroupCommit, OnDecided, OnDurable};
use crate::schema::events::UnloggedKey;
use crate::schema::family;
use crate::schema::records::{RecordKey, RecordKind, StoredRecord};
use crate::store::Store;

/// What a verified request writes if the records are still as they were when it was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerificationWrite {
    /// Each nullifier with its record as it was read, and its new record.
    pub nullifiers: Vec<(NullifierKey, Option<NullifierRecord>, NullifierRecord)>,
    /// The action, when there was no record of it.
    pub new_action: Option<(ActionKey, ActionRecord)>,
    /// The signed nonce of the request, of which there was no record, and the time from which its
    /// record may be deleted.
    pub used_nonce: Option<(SignedNonce, UnixSeconds)>,
    /// The proofs of a session that receivers of events are told of: the end of the record as it
    /// was read, and the time from which the new one may be deleted.
    pub told_sessions: Vec<(SessionProof, Option<UnixSeconds>, UnixSeconds)>,
    /// What receivers of events are told of it.
    pub event: Option<(UnloggedKey, RecordedEvent)>,
}

/// Reads and writes the verification endpoint's records.
pub struct VerificationRecords {
    store: Store,
    group_commit: GroupCommit,
}

impl VerificationRecords {
    /// The records in `store`, written by its committing thread.
    pub fn new(store: Store, group_commit: GroupCommit) -> Self {
        Self { store, group_commit }
    }

    /// The scope in which the store's fault points are passed.
    #[inline]
    pub fn fault_scope(&self) -> FaultScope {
        self.store.fault_scope()
    }

    /// The record of a nullifier; `None` when no proof has shown it yet.
    pub fn nullifier(&self, key: &NullifierKey) -> Result<Option<NullifierRecord>, StoreError> {
        self.store.database().get(&family::NULLIFIERS, key)
    }

    /// The record of an action; `None` when no proof has made it.
    pub fn action(&self, key: &ActionKey) -> Result<Option<ActionRecord>, StoreError> {
        self.store.database().get(&family::ACTIONS, key)
    }

    /// Whether a request with a signed nonce was answered with success.
    pub fn is_used(&self, nonce: &SignedNonce) -> Result<bool, StoreError> {
        Ok(self.store.database().get(&family::RECORDS, &nonce_key(nonce))?.is_some())
    }

    /// Until when it is remembered that receivers of events were told of a session's proof; `None`
    /// when they were not.
    pub fn told_until(&self, proof: &SessionProof) -> Result<Option<UnixSeconds>, StoreError> {
        let record = self.store.database().get(&family::RECORDS, &told_key(proof))?;
        Ok(record.map(|record| record.expires_at))
    }

    /// Writes nullifiers, their action if it is new, and the used nonce, when every record is still
    /// as it was read; otherwise writes nothing. `decided` gets the outcome.
    pub fn write(&self, write: &VerificationWrite, decided: OnDecided) {
        let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
        for (key, before, after) in &write.nullifiers {
            conditions.expect(&family::NULLIFIERS, key, before.as_ref());
            changes.put(&family::NULLIFIERS, key, after);
        }
        if let Some((key, record)) = &write.new_action {
            conditions.expect(&family::ACTIONS, key, None);
            changes.put(&family::ACTIONS, key, record);
        }
        if let Some((nonce, expires_at)) = &write.used_nonce {
            let key = nonce_key(nonce);
            put_mark(&mut conditions, &mut changes, key, None, *expires_at);
        }
        for (proof, before, expires_at) in &write.told_sessions {
            put_mark(&mut conditions, &mut changes, told_key(proof), *before, *expires_at);
        }
        if let Some((key, event)) = &write.event {
            changes.put(&family::UNLOGGED_EVENTS, key, event);
        }
        self.group_commit.commit_if(conditions, changes, decided);
    }

    /// What the operator decided about roots.
    pub fn root_decisions(&self) -> Result<Vec<(RootKey, RootDecision)>, StoreError> {
        self.store.database().records(&family::TRUSTED_ROOTS)?.collect()
    }

    /// Writes a decision about a root, which replaces an earlier one, and forgets those about
    /// `outdated` roots. Receivers of events are told of `event`. `durable` is called when this is
    /// on disk or could not be written.
    pub fn decide_root(
        &self,
        key: &RootKey,
        decision: &RootDecision,
        outdated: &[RootKey],
        event: Option<&(UnloggedKey, RecordedEvent)>,
        durable: OnDurable,
    ) {
        let mut changes = Changes::default();
        for root in outdated {
            changes.delete(&family::TRUSTED_ROOTS, root);
        }
        changes.put(&family::TRUSTED_ROOTS, key, decision);
        if let Some((key, event)) = event {
            changes.put(&family::UNLOGGED_EVENTS, key, event);
        }
        self.group_commit.commit_if(Conditions::default(), changes, Box::new(|decided| durable(decided.map(drop))));
    }
}

/// Puts a record without a value in the place of one that ended `before`, or of none.
fn put_mark(
    conditions: &mut Conditions,
    changes: &mut Changes,
    key: RecordKey,
    before: Option<UnixSeconds>,
    expires_at: UnixSeconds,
) {
    let mark = |expires_at| StoredRecord { expires_at, value: Vec::new() };
    conditions.expect(&family::RECORDS, &key, before.map(mark).as_ref());
    if let Some(before) = before {
        changes.delete(&family::RECORD_EXPIRIES, &(before, key));
    }
    changes.put(&family::RECORDS, &key, &mark(expires_at));
    changes.put(&family::RECORD_EXPIRIES, &(expires_at, key), &());
}

fn told_key(proof: &SessionProof) -> RecordKey {
    RecordKey { kind: RecordKind::ToldSessionProof, id: proof.record_id() }
}

fn nonce_key(nonce: &SignedNonce) -> RecordKey {
    RecordKey { kind: RecordKind::SignedNonce, id: nonce.record_id() }
}
