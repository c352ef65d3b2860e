//! A group: writes that are decided one after the other, and written together; and the writes that
//! a replica takes to the leader.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use selfsame_protocol::encoding::{DecodeError, Encoding, decode, encode};
use selfsame_protocol::ledger::Seal;
use selfsame_protocol::{B256, encode_fields};

use crate::database::{Changes, RecordSource};
use crate::error::{LedgerError, StoreError};
use crate::faults::FaultScope;
use crate::journal::{Position, ReplicaError};
use crate::replica::{AppliedEntry, Pending, Replica};
use crate::schema::family::Family;
use crate::schema::journal::{WrittenRecord, begin_entry};
use crate::store::Store;

/// Callback that gets the outcome when the changes are durable or could not be written. It runs on
/// the committing thread and must not block.
pub type OnDurable = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Callback that gets the outcome when the changes are durable, could not be written, or were
/// dropped because a condition did not hold. It runs on the committing thread and must not block.
pub type OnDecided = Box<dyn FnOnce(Result<Decision, StoreError>) + Send>;

/// Callback that gets the outcome of an append. It may run on the committing thread and must not
/// block.
pub type OnAppended = Box<dyn FnOnce(Result<(), LedgerError>) + Send>;

/// Outcome of changes under conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The changes are durable.
    Written,
    /// A record differs from its condition, and nothing was written: the caller reads again.
    Changed,
}

/// What one caller writes.
#[derive(Default)]
pub(crate) struct Write {
    pub changes: Changes,
    /// What the other replicas of the journal derive the same changes from, encoded. Empty without
    /// a journal, and for changes that are this store's own.
    pub item: Vec<u8>,
}

impl Write {
    fn scope(&self) -> Scope {
        if self.item.is_empty() { Scope::Local } else { Scope::Shared }
    }
}

/// Who gets the changes of a job.
#[derive(Clone, Copy)]
enum Scope {
    /// This store only.
    Local,
    /// Every replica of the journal.
    Shared,
}

/// What became of a group.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Of the jobs that change this store only; without a journal, all.
    pub local: Result<(), StoreError>,
    /// Of the jobs that every replica gets.
    pub shared: Result<(), StoreError>,
}

impl Outcome {
    /// The same outcome for all jobs.
    pub fn of(result: Result<(), StoreError>) -> Self {
        Self { local: result.clone(), shared: result }
    }

    fn get(&self, scope: Scope) -> Result<(), StoreError> {
        match scope {
            Scope::Local => self.local.clone(),
            Scope::Shared => self.shared.clone(),
        }
    }

    /// What keeps this store from writing. That another replica leads does not, nor that the
    /// journal has too little room, which is so for every replica.
    pub fn failure(&self) -> Option<StoreError> {
        let is_of_others = |error: &&StoreError| {
            matches!(error, StoreError::Replica(ReplicaError::NotLeading | ReplicaError::Held { .. }))
        };
        let mut failures = [&self.local, &self.shared].into_iter().filter_map(|result| result.as_ref().err());
        failures.find(|error| !is_of_others(error)).cloned()
    }
}

/// One caller's part of a group.
pub(super) enum Job {
    Commit { write: Write, durable: OnDurable },
    CommitIf { conditions: Conditions, write: Write, decided: OnDecided },
    Append { parent: Parent, seal: Seal, write: Write, appended: OnAppended },
}

impl Job {
    pub fn refuse(self, error: StoreError) {
        match self {
            Self::Commit { durable, .. } => durable(Err(error)),
            Self::CommitIf { decided, .. } => decided(Err(error)),
            Self::Append { appended, .. } => appended(Err(error.into())),
        }
    }

    /// Bytes that it adds to an entry of the journal.
    pub fn length(&self) -> usize {
        self.write().item.len()
    }

    /// Whether only the leader of a journal decides about it.
    pub fn is_for_leader(&self) -> bool {
        matches!(self.write().scope(), Scope::Shared)
    }

    fn write(&self) -> &Write {
        let (Self::Commit { write, .. } | Self::CommitIf { write, .. } | Self::Append { write, .. }) = self;
        write
    }
}

/// The block that a new block says it follows.
#[derive(Clone, Copy)]
pub(crate) struct Parent {
    pub height: u64,
    pub hash: B256,
}

/// Records as a caller read them, which must be unchanged when its changes are written.
#[derive(Default)]
pub(crate) struct Conditions {
    items: Vec<Condition>,
}

/// A record as a caller read it, as it is stored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub family: &'static str,
    pub key: Vec<u8>,
    /// `None` when there is no such record.
    pub value: Option<Vec<u8>>,
}

impl Conditions {
    pub(crate) fn expect<Key: Encoding, Value: Encoding>(
        &mut self,
        family: &Family<Key, Value>,
        key: &Key,
        value: Option<&Value>,
    ) {
        self.add(Condition { family: family.name, key: encode(key), value: value.map(encode) });
    }

    pub(crate) fn add(&mut self, condition: Condition) {
        self.items.push(condition);
    }

    pub(crate) fn items(&self) -> &[Condition] {
        &self.items
    }
}

/// Jobs that share a sync, or an entry of the journal.
pub(super) struct Group {
    store: Store,
    /// Changes of this store only; without a journal, all.
    local: Changes,
    /// Changes that every replica gets.
    shared: Changes,
    /// The entry of the journal.
    pub entry: Vec<u8>,
    /// Records that this group's conditional jobs change, with their new values (`None` when
    /// deleted). The conditions of later jobs are compared with these.
    decided: HashMap<(&'static str, Vec<u8>), Option<Vec<u8>>>,
    /// The last block that this group appends to the ledger.
    sealed: Option<Seal>,
    callbacks: Vec<(Scope, Callback)>,
}

enum Callback {
    Commit(OnDurable),
    CommitIf(OnDecided, Result<Decision, StoreError>),
    Append(OnAppended, Result<(), LedgerError>),
    Refused(Job, StoreError),
}

impl Group {
    pub fn new(store: Store) -> Self {
        Self {
            store,
            local: Changes::default(),
            shared: Changes::default(),
            entry: begin_entry(),
            decided: HashMap::new(),
            sealed: None,
            callbacks: Vec::new(),
        }
    }

    /// The scope in which it passes fault points: that of the store's service.
    #[inline]
    pub fn fault_scope(&self) -> FaultScope {
        self.store.fault_scope()
    }

    /// Number of its jobs.
    pub fn len(&self) -> usize {
        self.callbacks.len()
    }

    /// Whether it has jobs that the leader alone decides.
    pub fn is_for_leader(&self) -> bool {
        self.callbacks.iter().any(|(scope, _)| matches!(scope, Scope::Shared))
    }

    /// Whether the journal gets anything of it: no job may have been decided for.
    pub fn has_entry(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Whether it appends a block to the ledger.
    pub fn appends(&self) -> bool {
        self.sealed.is_some()
    }

    /// Decides about a job, on the store as the jobs before it leave it.
    pub fn add(&mut self, job: Job) {
        match job {
            Job::Commit { write, durable } => {
                self.callbacks.push((write.scope(), Callback::Commit(durable)));
                self.take(write);
            }
            Job::CommitIf { conditions, write, decided } => {
                // A panic fails this job only.
                let deciding = AssertUnwindSafe(|| self.decide(&conditions));
                let decision = catch_unwind(deciding).unwrap_or(Err(StoreError::Panicked));
                self.callbacks.push((write.scope(), Callback::CommitIf(decided, decision.clone())));
                if let Ok(Decision::Written) = decision {
                    for (family, key, value) in write.changes.items() {
                        self.decided.insert((family, key.to_vec()), value.map(<[u8]>::to_vec));
                    }
                    self.take(write);
                }
            }
            Job::Append { parent, seal, write, appended } => {
                let deciding = AssertUnwindSafe(|| self.check_parent(parent));
                let result = catch_unwind(deciding).unwrap_or(Err(StoreError::Panicked.into()));
                self.callbacks.push((write.scope(), Callback::Append(appended, result.clone())));
                if result.is_ok() {
                    self.sealed = Some(seal);
                    self.take(write);
                }
            }
        }
    }

    /// Refuses a job together with the outcome of the others.
    pub fn refuse(&mut self, job: Job, error: StoreError) {
        self.callbacks.push((Scope::Local, Callback::Refused(job, error)));
    }

    fn take(&mut self, write: Write) {
        let changes = match write.scope() {
            Scope::Local => &mut self.local,
            Scope::Shared => &mut self.shared,
        };
        changes.append(write.changes);
        self.entry.extend_from_slice(&write.item);
    }

    fn decide(&self, conditions: &Conditions) -> Result<Decision, StoreError> {
        for Condition { family, key, value } in &conditions.items {
            let is_as_expected = match self.decided.get(&(*family, key.clone())) {
                Some(written) => written == value,
                None => self.store.database().read(family, key)?.as_deref() == value.as_deref(),
            };
            if !is_as_expected {
                return Ok(Decision::Changed);
            }
        }
        Ok(Decision::Written)
    }

    /// Whether the ledger's last block is the parent of a new one.
    fn check_parent(&self, parent: Parent) -> Result<(), LedgerError> {
        let head = match self.sealed {
            Some(seal) => seal,
            None => self.store.ledger_head()?,
        };
        match (parent.height, parent.hash) == (head.height, head.hash) {
            true => Ok(()),
            false => Err(LedgerError::NotNext { found: parent.height + 1, head: head.height }),
        }
    }

    /// Writes everything with a sync.
    pub fn write_synced(&mut self) -> Result<(), StoreError> {
        self.before_write();
        self.store.database().write(std::mem::take(&mut self.local), true)
    }

    /// Writes what is this store's own, with a sync.
    pub fn write_local(&mut self) -> Result<(), StoreError> {
        let changes = std::mem::take(&mut self.local);
        if changes.is_empty() { Ok(()) } else { self.store.database().write(changes, true) }
    }

    /// Writes what the journal has, unsynced, together with its position.
    pub fn record(&mut self, replica: &Replica, pending: &Pending) -> Result<(), StoreError> {
        self.before_write();
        replica.record(&self.store, pending, std::mem::take(&mut self.shared))
    }

    /// Until the outcome is known, only the store knows the end of the ledger.
    fn before_write(&self) {
        if let Some(seal) = self.sealed {
            self.store.sealed_head().begin(seal.height);
        }
    }

    /// Calls the callbacks. They run after the write, so that a caller whose condition failed on a
    /// change of the same group finds that change when it reads again. Then moves the end of the
    /// ledger: who appended a block hears of it before those who apply it.
    pub fn finish(self, outcome: &Outcome) {
        let Self { store, sealed, callbacks, .. } = self;
        let is_appended = callbacks.iter().any(|(scope, callback)| match callback {
            Callback::Append(_, decision) => outcome.get(*scope).is_ok() && decision.is_ok(),
            _ => false,
        });
        for (scope, callback) in callbacks {
            let result = outcome.get(scope);
            let calling = AssertUnwindSafe(|| match callback {
                Callback::Commit(durable) => durable(result),
                Callback::CommitIf(decided, decision) => decided(result.and(decision)),
                Callback::Append(appended, decision) => appended(result.map_err(LedgerError::from).and(decision)),
                Callback::Refused(job, error) => job.refuse(error),
            });
            if catch_unwind(calling).is_err() {
                tracing::error!("a callback of a group commit panicked");
            }
        }
        if let Some(seal) = sealed {
            let moving = AssertUnwindSafe(|| match is_appended {
                true => store.sealed_head().advance(seal),
                false => store.sealed_head().forget(),
            });
            if catch_unwind(moving).is_err() {
                tracing::error!("a listener of the ledger panicked");
            }
        }
    }
}

// Writes that a replica takes to the leader, which decides about them.
//
// A replica that does not lead decides nothing. What one of its callers wants to write under
// conditions is data: the records as the caller read them, and what they become. The leader
// compares and writes ([`crate::GroupCommit::decide_forwarded`]), and names the position of the
// journal that has the outcome.

/// Takes writes of this replica to the one that leads.
pub trait Forward: Send + Sync + 'static {
    /// Takes an encoded write to the leader. Calls `decided` once: with the leader's decision when
    /// the store of this replica has everything that the decision depends on, or with an error.
    fn forward(&self, write: Vec<u8>, decided: OnDecided);
}

/// What the leader decided about a forwarded write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedDecision {
    /// The decision.
    pub decision: Decision,
    /// A store shows what the decision depends on when it has the journal up to here.
    pub position: Position,
    /// What was written, for those of the leader's service who wait for it.
    pub applied: AppliedEntry,
}

/// Callback of the leader for a forwarded write.
pub type OnForwarded = Box<dyn FnOnce(Result<ForwardedDecision, StoreError>) + Send>;

/// A write under conditions, as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ForwardedWrite {
    /// The records as the caller read them; without a value, there was none.
    conditions: Vec<WrittenRecord>,
    /// What they become.
    records: Vec<WrittenRecord>,
}

encode_fields!(ForwardedWrite { conditions, records } version 1 of "forwarded write");

/// A write under conditions, encoded for the leader.
///
/// # Panics
/// When the records of a family do not travel: see [`WrittenRecord::of`].
pub(crate) fn encode_write(conditions: &Conditions, changes: &Changes) -> Vec<u8> {
    let expected = conditions.items().iter();
    let expected = expected.map(|Condition { family, key, value }| WrittenRecord::of(family, key, value.as_deref()));
    let records = changes.items().map(|(family, key, value)| WrittenRecord::of(family, key, value));
    encode(&ForwardedWrite { conditions: expected.collect(), records: records.collect() })
}

/// Reads what [`encode_write`] wrote.
///
/// # Errors
/// Another version of the program wrote it, or it is damaged.
pub(crate) fn decode_write(input: &[u8]) -> Result<(Conditions, Changes), DecodeError> {
    let ForwardedWrite { conditions: expected, records } = decode(input)?;
    let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
    for record in expected {
        conditions.add(Condition { family: record.family()?, key: record.key, value: record.value });
    }
    for record in records {
        match (record.family()?, record.value) {
            (family, Some(value)) => changes.put_raw(family, record.key, value),
            (family, None) => changes.delete_raw(family, record.key),
        }
    }
    Ok((conditions, changes))
}

/// Whether nothing was written, or will be, after this error of a write. Who waits for a callback
/// that is dropped without a call must not take that for [`StoreError::Closing`]: the write may
/// have been on its way.
pub fn is_certainly_unwritten(error: &StoreError) -> bool {
    match error {
        StoreError::Closing => true,
        StoreError::Replica(error) => error.is_certain(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::family;

    /// A callback that is dropped without a call says nothing about the write; who waits for it
    /// gets [`StoreError::Panicked`].
    #[test]
    fn only_what_was_refused_before_it_was_tried_is_certainly_unwritten() {
        assert!(is_certainly_unwritten(&StoreError::Closing));
        assert!(!is_certainly_unwritten(&StoreError::Panicked));
    }

    #[test]
    fn a_write_arrives_as_it_was_sent() {
        let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
        conditions.add(Condition { family: family::RECORDS.name, key: vec![1], value: None });
        conditions.add(Condition { family: family::NULLIFIERS.name, key: vec![2, 3], value: Some(vec![4]) });
        changes.put_raw(family::RECORDS.name, [1], [5, 6]);
        changes.delete_raw(family::NULLIFIERS.name, [2, 3]);
        let encoded = encode_write(&conditions, &changes);
        let (read, read_changes) = decode_write(&encoded).expect("it is read");
        assert_eq!(read.items(), conditions.items());
        assert_eq!(read_changes.items().collect::<Vec<_>>(), changes.items().collect::<Vec<_>>());
        for wrong in [&encoded[..encoded.len() - 1], &[&encoded[..], &[0]].concat(), &[2], &[]] {
            assert!(decode_write(wrong).is_err(), "{wrong:?}");
        }
        // No condition, and one deletion in a family that no version has.
        let unknown = [&[1][..], &encode(&0u32), &encode(&1u32), &[99], &encode(&0u32), &[0]].concat();
        assert!(matches!(decode_write(&unknown), Err(DecodeError::UnknownTag { tag: 99, .. })));
    }
}
