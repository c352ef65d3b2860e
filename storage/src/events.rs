//! The records of events. What happens is written with its cause as an *unlogged* event, in no
//! order. One writer moves unlogged events and the heights of applied blocks into the *log*, which
//! gives every event a position; receivers are counted along it.
//!
//! Every write here is a compare-and-write, so that two writers, of which one is late, never undo
//! what the other has done, and so that all replicas have the records. Only what is too old is
//! removed from the log without a condition.

use selfsame_protocol::events::record::{EventPosition, LogEntry, RecordedEvent};

use crate::database::{Changes, RecordSource};
use crate::error::StoreError;
use crate::group_commit::{Conditions, GroupCommit, OnDecided};
use crate::schema::events::{DeliveryRecord, LogProgress, ReceiverKey, ReceiverRecord, UnloggedKey};
use crate::schema::family;
use crate::store::Store;

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
