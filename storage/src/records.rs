//! Records of services beside the registry: sign-in's, verification's, those of events and of
//! followed chains. Each has a type that is its only writer.

use std::collections::HashSet;
use std::sync::mpsc::channel;

use selfsame_protocol::B256;
use selfsame_protocol::chain::deployment::ContractCode;
use selfsame_protocol::chain::followed::{Position, PublishedRoot};
use selfsame_protocol::encoding::Encoding;
use selfsame_protocol::events::record::{EventPosition, LogEntry, RecordedEvent};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::directory::ActionKey;
use selfsame_protocol::verification::identity::{ActionRecord, NullifierKey, NullifierRecord, SessionProof};
use selfsame_protocol::verification::integrity::BundleUse;
use selfsame_protocol::verification::roots::{RootDecision, RootKey};
use selfsame_protocol::verification::rp_signature::SignedNonce;

use crate::database::{Changes, RecordSource};
use crate::error::StoreError;
use crate::faults::FaultScope;
use crate::group_commit::{Conditions, GroupCommit, OnDecided, OnDurable, Write};
use crate::schema::family::{self, Family};
use crate::schema::records::{
    DeliveryRecord, DeploymentRecord, KeySourceRecord, LogProgress, ReceiverKey, ReceiverRecord, RecordKey, RecordKind,
    RootSourceRecord, SourceId, StoredRecord, UnloggedKey,
};
use crate::store::Store;

// Records with an expiry: sign-in's transactions, codes, tokens, sessions and signing keys, and
// the registry's key.
//
// The interface is small on purpose (get, compare and write, expire), so that an embedder can keep
// the records in another store. The embedded implementation has two column families: the records,
// and their expiries.

/// A write of one record: the record as the caller read it, and its new form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordWrite {
    /// The record that is written.
    pub key: RecordKey,
    /// The record as it was read; `None` when there was no such record.
    pub before: Option<StoredRecord>,
    /// The new record; `None` deletes.
    pub after: Option<StoredRecord>,
}

/// A store of records with an expiry.
///
/// What sign-in promises rests on this contract: a code is redeemed once, of two racing steps one
/// succeeds, and nothing that was answered is lost. An implementation reports its own failures as
/// [`StoreError::Records`].
pub trait Records: Send + Sync + 'static {
    /// A record, even when it has expired and is not deleted yet. May block the thread for as long
    /// as a read of a local disk takes: it is also called on threads that run async code.
    ///
    /// Every write is seen whose `decided` has got [`Decision::Written`](crate::Decision::Written),
    /// by whichever caller it was.
    fn get(&self, key: &RecordKey) -> Result<Option<StoredRecord>, StoreError>;

    /// Writes all of `writes` if every record is still as it was read; otherwise writes none of
    /// them. Both the comparison and the write are one step, which no other write comes between.
    /// Returns without waiting for the outcome.
    ///
    /// `decided` is called once, on any thread, also before this returns:
    /// - with `Written` when the writes are durable, so that a crash or a loss of power after it
    ///   loses none of them;
    /// - with `Changed` when a record differs from `before`. Nothing was written;
    /// - with an error when it is unknown whether they were written. Later reads show it.
    ///
    /// Writes that one thread hands in are decided in the order in which it handed them in. A
    /// `decided` that is dropped without a call counts as [`StoreError::Closing`].
    fn compare_and_write(&self, writes: Vec<RecordWrite>, decided: OnDecided);

    /// The same, and in the same step an event that receivers are told of. Another store than the
    /// service's own has no log of events: there the event is not told.
    fn compare_and_write_telling(
        &self,
        writes: Vec<RecordWrite>,
        event: (UnloggedKey, RecordedEvent),
        decided: OnDecided,
    ) {
        drop(event);
        self.compare_and_write(writes, decided);
    }

    /// Whether this store decides what is written. While another replica leads it does not: every
    /// write is refused, and that replica deletes what has expired.
    fn leads(&self) -> bool {
        true
    }

    /// Deletes at most `limit` records that expired before `time` (exclusive), and reads no others.
    /// Returns how many it found; they are deleted when this returns, except those that were
    /// written again. Blocks the thread.
    fn expire(&self, time: UnixSeconds, limit: usize) -> Result<usize, StoreError>;
}

/// Records in the local store.
#[derive(Clone)]
pub struct EmbeddedRecords {
    store: Store,
    group_commit: GroupCommit,
}

impl EmbeddedRecords {
    /// Records in `store`, written by its committing thread.
    pub fn new(store: Store, group_commit: GroupCommit) -> Self {
        Self { store, group_commit }
    }

    /// Writes records, and an event, if the records are as they were read.
    fn write(&self, writes: &[RecordWrite], event: Option<&(UnloggedKey, RecordedEvent)>, decided: OnDecided) {
        let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
        for RecordWrite { key, before, after } in writes {
            conditions.expect(&family::RECORDS, key, before.as_ref());
            if let Some(before) = before {
                changes.delete(&family::RECORD_EXPIRIES, &(before.expires_at, *key));
            }
            match after {
                Some(after) => {
                    changes.put(&family::RECORDS, key, after);
                    changes.put(&family::RECORD_EXPIRIES, &(after.expires_at, *key), &());
                }
                None => changes.delete(&family::RECORDS, key),
            }
        }
        if let Some((key, event)) = event {
            changes.put(&family::UNLOGGED_EVENTS, key, event);
        }
        self.group_commit.commit_if(conditions, changes, decided);
    }
}

impl Records for EmbeddedRecords {
    fn get(&self, key: &RecordKey) -> Result<Option<StoredRecord>, StoreError> {
        self.store.database().get(&family::RECORDS, key)
    }

    fn compare_and_write(&self, writes: Vec<RecordWrite>, decided: OnDecided) {
        self.write(&writes, None, decided);
    }

    fn compare_and_write_telling(
        &self,
        writes: Vec<RecordWrite>,
        event: (UnloggedKey, RecordedEvent),
        decided: OnDecided,
    ) {
        self.write(&writes, Some(&event), decided);
    }

    fn leads(&self) -> bool {
        self.group_commit.leads()
    }

    fn expire(&self, time: UnixSeconds, limit: usize) -> Result<usize, StoreError> {
        let (mut found, mut handed_in) = (0, 0);
        let (sender, decisions) = channel();
        for expiry in self.store.database().records(&family::RECORD_EXPIRIES)?.take(limit) {
            let ((expires_at, key), ()) = expiry?;
            if expires_at >= time {
                break;
            }
            found += 1;
            // One compare-and-write per record: a concurrent write of a record spares only that
            // record.
            let before = self.get(&key)?;
            if before.as_ref().is_none_or(|before| before.expires_at != expires_at) {
                // The record was written again after the iterator was made, and has another expiry.
                continue;
            }
            handed_in += 1;
            let sender = sender.clone();
            let decided = Box::new(move |decision| drop(sender.send(decision)));
            self.compare_and_write(vec![RecordWrite { key, before, after: None }], decided);
        }
        drop(sender);
        // Wait for the deletions: the caller's next call would find the same records otherwise.
        let decisions = decisions.into_iter().collect::<Result<Vec<_>, _>>()?;
        if decisions.len() == handed_in { Ok(found) } else { Err(StoreError::Closing) }
    }
}

// The records of the verification endpoint: nullifiers, actions that their first proof made,
// nonces that relying parties signed, used integrity bundles, and the operator's decisions about
// trusted roots.

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
    /// The use of the request's integrity bundle, of which there was no record.
    pub used_bundle: Option<BundleUse>,
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

    /// The hash of the nullifiers that an integrity bundle was used for, by the hash of the
    /// device's key and of what it signed; `None` when it was not used.
    pub fn nullifiers_of_bundle(&self, pair: B256) -> Result<Option<B256>, StoreError> {
        let record = self.store.database().get(&family::RECORDS, &bundle_key(pair))?;
        // A value of another length is of no nullifiers, so that the bundle is not used again.
        Ok(record.map(|record| B256::try_from(record.value.as_slice()).unwrap_or_default()))
    }

    /// Until when it is remembered that receivers of events were told of a session's proof; `None`
    /// when they were not.
    pub fn told_until(&self, proof: &SessionProof) -> Result<Option<UnixSeconds>, StoreError> {
        let record = self.store.database().get(&family::RECORDS, &told_key(proof))?;
        Ok(record.map(|record| record.expires_at))
    }

    /// Writes nullifiers, their action if it is new, the used nonce and the used bundle, when every
    /// record is still as it was read; otherwise writes nothing. `decided` gets the outcome.
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
        if let Some(BundleUse { pair, nullifiers, forgotten_at }) = write.used_bundle {
            let record = StoredRecord { expires_at: forgotten_at, value: nullifiers.to_vec() };
            put_record(&mut conditions, &mut changes, bundle_key(pair), None, &record);
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
    put_record(conditions, changes, key, before.map(mark).as_ref(), &mark(expires_at));
}

/// Puts a record in the place of one that was read, or of none.
fn put_record(
    conditions: &mut Conditions,
    changes: &mut Changes,
    key: RecordKey,
    before: Option<&StoredRecord>,
    after: &StoredRecord,
) {
    conditions.expect(&family::RECORDS, &key, before);
    if let Some(before) = before {
        changes.delete(&family::RECORD_EXPIRIES, &(before.expires_at, key));
    }
    changes.put(&family::RECORDS, &key, after);
    changes.put(&family::RECORD_EXPIRIES, &(after.expires_at, key), &());
}

fn told_key(proof: &SessionProof) -> RecordKey {
    RecordKey { kind: RecordKind::ToldSessionProof, id: proof.record_id() }
}

fn bundle_key(pair: B256) -> RecordKey {
    RecordKey { kind: RecordKind::IntegrityBundle, id: pair }
}

fn nonce_key(nonce: &SignedNonce) -> RecordKey {
    RecordKey { kind: RecordKind::SignedNonce, id: nonce.record_id() }
}

// The records of events. What happens is written with its cause as an *unlogged* event, in no
// order. One writer moves unlogged events and the heights of applied blocks into the *log*, which
// gives every event a position; receivers are counted along it.
//
// Every write here is a compare-and-write, so that two writers, of which one is late, never undo
// what the other has done, and so that all replicas have the records. Only what is too old is
// removed from the log without a condition.

/// Reads and writes the records of events.
#[derive(Clone)]
pub struct EventRecords {
    store: Store,
    group_commit: GroupCommit,
}

/// New records of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogWrite {
    /// How far the log is, as it was read.
    pub before: Option<LogProgress>,
    /// How far it is then.
    pub after: LogProgress,
    /// The new records, each with its number.
    pub entries: Vec<(u64, LogEntry)>,
    /// The unlogged events that are in the log then.
    pub logged: Vec<UnloggedKey>,
}

/// What changes at a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverWrite {
    /// The receiver as it was read; `None` for a new one.
    pub before: Option<ReceiverRecord>,
    /// The receiver from now on.
    pub after: ReceiverRecord,
    /// Events with their new records; `None` for events that were delivered or given up.
    pub deliveries: Vec<(EventPosition, Option<DeliveryRecord>)>,
}

impl EventRecords {
    /// The records in `store`, written by its committing thread.
    pub fn new(store: Store, group_commit: GroupCommit) -> Self {
        Self { store, group_commit }
    }

    /// Whether this store decides what is written.
    pub fn leads(&self) -> bool {
        self.group_commit.leads()
    }

    /// The oldest events that are not in the log yet, at most `limit`.
    pub fn unlogged(&self, limit: usize) -> Result<Vec<(UnloggedKey, RecordedEvent)>, StoreError> {
        self.store.database().records(&family::UNLOGGED_EVENTS)?.take(limit).collect()
    }

    /// How far the log is; `None` when it was never begun.
    pub fn progress(&self) -> Result<Option<LogProgress>, StoreError> {
        self.store.database().get(&family::EVENT_LOG_PROGRESS, &())
    }

    /// Writes new records of the log if it is as far as it was.
    pub fn append(&self, write: &LogWrite, decided: OnDecided) {
        let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
        conditions.expect(&family::EVENT_LOG_PROGRESS, &(), write.before.as_ref());
        changes.put(&family::EVENT_LOG_PROGRESS, &(), &write.after);
        for (sequence, entry) in &write.entries {
            changes.put(&family::EVENT_LOG, sequence, entry);
        }
        for key in &write.logged {
            changes.delete(&family::UNLOGGED_EVENTS, key);
        }
        self.group_commit.commit_if(conditions, changes, decided);
    }

    /// The records of the log from a number on, at most `limit`.
    pub fn log_from(&self, sequence: u64, limit: usize) -> Result<Vec<(u64, LogEntry)>, StoreError> {
        self.store.database().records_from(&family::EVENT_LOG, &sequence)?.take(limit).collect()
    }

    /// Removes records of the log. It does not move on for that.
    pub fn forget(&self, sequences: &[u64], decided: OnDecided) {
        let mut changes = Changes::default();
        for sequence in sequences {
            changes.delete(&family::EVENT_LOG, sequence);
        }
        self.group_commit.commit_if(Conditions::default(), changes, decided);
    }

    /// A receiver; `None` when it is new.
    pub fn receiver(&self, key: ReceiverKey) -> Result<Option<ReceiverRecord>, StoreError> {
        self.store.database().get(&family::EVENT_RECEIVERS, &key)
    }

    /// All receivers.
    pub fn receivers(&self) -> Result<Vec<(ReceiverKey, ReceiverRecord)>, StoreError> {
        self.store.database().records(&family::EVENT_RECEIVERS)?.collect()
    }

    /// The events of a receiver that were sent and not accepted, behind a position (exclusive), at
    /// most `limit`.
    pub fn deliveries(
        &self,
        receiver: ReceiverKey,
        after: Option<EventPosition>,
        limit: usize,
    ) -> Result<Vec<(EventPosition, DeliveryRecord)>, StoreError> {
        let first = after.map_or_else(EventPosition::default, EventPosition::next);
        let records = self.store.database().records_from(&family::DELIVERIES, &(receiver, first))?;
        let own = records.take_while(|record| record.as_ref().map_or(true, |((of, _), _)| *of == receiver));
        own.take(limit).map(|record| record.map(|((_, position), delivery)| (position, delivery))).collect()
    }

    /// Writes a change of a receiver if it is as it was read.
    pub fn write_receiver(&self, write: &ReceiverWrite, decided: OnDecided) {
        let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
        let key = ReceiverKey::new(&write.after.id);
        conditions.expect(&family::EVENT_RECEIVERS, &key, write.before.as_ref());
        changes.put(&family::EVENT_RECEIVERS, &key, &write.after);
        for (position, delivery) in &write.deliveries {
            match delivery {
                Some(delivery) => changes.put(&family::DELIVERIES, &(key, *position), delivery),
                None => changes.delete(&family::DELIVERIES, &(key, *position)),
            }
        }
        self.group_commit.commit_if(conditions, changes, decided);
    }

    /// Removes a receiver and what is kept for it, if it is as it was read. `limit` bounds the
    /// events of one call; returns whether all are removed then.
    pub fn remove_receiver(
        &self,
        before: &ReceiverRecord,
        limit: usize,
        decided: OnDecided,
    ) -> Result<bool, StoreError> {
        let receiver = ReceiverKey::new(&before.id);
        let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
        conditions.expect(&family::EVENT_RECEIVERS, &receiver, Some(before));
        let deliveries = self.deliveries(receiver, None, limit)?;
        let is_last = deliveries.len() < limit;
        for (position, _) in deliveries {
            changes.delete(&family::DELIVERIES, &(receiver, position));
        }
        if is_last {
            changes.delete(&family::EVENT_RECEIVERS, &receiver);
        }
        self.group_commit.commit_if(conditions, changes, decided);
        Ok(is_last)
    }
}

// The records of what is followed from chains. Each replica of a cluster follows them by itself:
// its records are its own.

/// A change of a contract's roots, and how far they are followed after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootSourceWrite {
    /// How far the contract is followed; `None` to start again from nothing.
    pub record: Option<RootSourceRecord>,
    /// New roots.
    pub added: Vec<(Position, PublishedRoot)>,
    /// Roots that a reorganization took back, or that no proof can use any more.
    pub removed: Vec<Position>,
}

/// Reads and writes what is followed from chains.
pub struct ChainRecords {
    store: Store,
    group_commit: GroupCommit,
}

impl ChainRecords {
    /// The records in `store`, written by its committing thread.
    pub fn new(store: Store, group_commit: GroupCommit) -> Self {
        Self { store, group_commit }
    }

    /// The scope in which the store's fault points are passed.
    #[inline]
    pub fn fault_scope(&self) -> FaultScope {
        self.store.fault_scope()
    }

    /// How far a contract's roots were followed; `None` when they were not.
    pub fn root_source(&self, source: SourceId) -> Result<Option<RootSourceRecord>, StoreError> {
        self.store.database().get(&family::ROOT_SOURCES, &source)
    }

    /// The roots that a contract published, in their order.
    pub fn published_roots(&self, source: SourceId) -> Result<Vec<(Position, PublishedRoot)>, StoreError> {
        let first = (source, Position { block: 0, log_index: 0 });
        let records = self.store.database().records_from(&family::PUBLISHED_ROOTS, &first)?;
        let own = records.take_while(|record| record.as_ref().map_or(true, |((of, _), _)| *of == source));
        own.map(|record| record.map(|((_, position), published)| (position, published))).collect()
    }

    /// Writes a change of a contract's roots, all or nothing. `durable` is called when it is on
    /// disk or could not be written.
    pub fn write_roots(&self, source: SourceId, write: &RootSourceWrite, durable: OnDurable) {
        let mut changes = Changes::default();
        for (position, published) in &write.added {
            changes.put(&family::PUBLISHED_ROOTS, &(source, *position), published);
        }
        // After the others: one step can add a root and forget it.
        for position in &write.removed {
            changes.delete(&family::PUBLISHED_ROOTS, &(source, *position));
        }
        match &write.record {
            Some(record) => changes.put(&family::ROOT_SOURCES, &source, record),
            None => changes.delete(&family::ROOT_SOURCES, &source),
        }
        self.group_commit.commit(Write { changes, item: Vec::new() }, durable);
    }

    /// The keys of a contract as they were last read; `None` when they were not.
    pub fn key_source(&self, source: SourceId) -> Result<Option<KeySourceRecord>, StoreError> {
        self.store.database().get(&family::KEY_SOURCES, &source)
    }

    /// Writes the keys of a contract. `durable` is called when they are on disk or could not be
    /// written.
    pub fn write_keys(&self, source: SourceId, record: &KeySourceRecord, durable: OnDurable) {
        self.put(&family::KEY_SOURCES, source, record, durable);
    }

    /// Where the contracts of a deployment were at the last look; `None` before the first one.
    pub fn deployment(&self, verifier: SourceId) -> Result<Option<DeploymentRecord>, StoreError> {
        self.store.database().get(&family::DEPLOYMENTS, &verifier)
    }

    /// Writes where the contracts of a deployment are. `durable` is called when it is on disk or
    /// could not be written.
    pub fn write_deployment(&self, verifier: SourceId, record: &DeploymentRecord, durable: OnDurable) {
        self.put(&family::DEPLOYMENTS, verifier, record, durable);
    }

    /// The code of a contract when it was first seen; `None` when it was not seen.
    pub fn first_code(&self, contract: SourceId) -> Result<Option<ContractCode>, StoreError> {
        self.store.database().get(&family::CONTRACT_CODE, &contract)
    }

    /// Writes the code of a contract that is seen for the first time. `durable` is called when it
    /// is on disk or could not be written.
    pub fn write_first_code(&self, contract: SourceId, code: &ContractCode, durable: OnDurable) {
        self.put(&family::CONTRACT_CODE, contract, code, durable);
    }

    /// Removes what was followed of all contracts but these. The code that was seen first stays: a
    /// contract that is followed again later is compared with it.
    pub fn forget_others(&self, followed: &[SourceId], durable: OnDurable) -> Result<(), StoreError> {
        let followed: HashSet<&SourceId> = followed.iter().collect();
        let is_other = |source: &SourceId| !followed.contains(source);
        let mut changes = Changes::default();
        for source in self.sources(&family::ROOT_SOURCES)?.into_iter().filter(is_other) {
            changes.delete(&family::ROOT_SOURCES, &source);
            for (position, _) in self.published_roots(source)? {
                changes.delete(&family::PUBLISHED_ROOTS, &(source, position));
            }
        }
        for source in self.sources(&family::KEY_SOURCES)?.into_iter().filter(is_other) {
            changes.delete(&family::KEY_SOURCES, &source);
        }
        for source in self.sources(&family::DEPLOYMENTS)?.into_iter().filter(is_other) {
            changes.delete(&family::DEPLOYMENTS, &source);
        }
        if changes.items().next().is_none() {
            durable(Ok(()));
            return Ok(());
        }
        self.group_commit.commit(Write { changes, item: Vec::new() }, durable);
        Ok(())
    }

    fn put<Record: Encoding>(
        &self,
        family: &Family<SourceId, Record>,
        source: SourceId,
        record: &Record,
        durable: OnDurable,
    ) {
        let mut changes = Changes::default();
        changes.put(family, &source, record);
        self.group_commit.commit(Write { changes, item: Vec::new() }, durable);
    }

    fn sources<Record: Encoding>(&self, family: &Family<SourceId, Record>) -> Result<Vec<SourceId>, StoreError> {
        let records = self.store.database().records_from(family, &SourceId { hash: B256::ZERO })?;
        records.map(|record| record.map(|(source, _)| source)).collect()
    }
}
