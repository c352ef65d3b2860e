//! Requests: reads the durable queue and the states, admits requests, and deletes expired ones.

use selfsame_protocol::B256;
use selfsame_protocol::ledger::{Entry, RequestId};
use selfsame_protocol::time::UnixSeconds;

use crate::applied_blocks::admission_changes;
use crate::database::{Changes, RecordSource};
use crate::error::StoreError;
use crate::group_commit::{GroupCommit, OnDurable, Write};
use crate::ledger::LedgerReader;
use crate::schema::family;
use crate::schema::journal::{Admitted, JournalItem};
use crate::schema::records::{
    AppliedTip, IdempotencyKey, IdempotencyRecord, QueuedEntry, RequestRecord, SweptRequests,
};
use crate::store::Store;

impl Store {
    /// A request's record; `None` when the request is unknown or its record has expired.
    pub fn request(&self, request_id: &RequestId) -> Result<Option<RequestRecord>, StoreError> {
        self.database().get(&family::REQUESTS, request_id)
    }

    /// The same from memory alone, for a thread that must not block.
    ///
    /// # Errors
    /// [`StoreError::NotInMemory`] when the disk has to be read.
    pub fn request_in_memory(&self, request_id: &RequestId) -> Result<Option<RequestRecord>, StoreError> {
        self.database().in_memory().get(&family::REQUESTS, request_id)
    }

    /// The record of an idempotency key, even when its retention is over and it is not swept yet.
    pub fn idempotency(&self, key_hash: &B256) -> Result<Option<IdempotencyRecord>, StoreError> {
        self.database().get(&family::IDEMPOTENCY, key_hash)
    }

    /// The durable queue: every open request with its sequence number, in order.
    pub fn open_requests(&self) -> Result<Vec<(u64, Entry)>, StoreError> {
        self.database().records(&family::QUEUE)?.map(to_entry).collect()
    }

    /// Up to `limit` queued requests with sequence numbers above `after` (exclusive), in order.
    pub fn queued_after(&self, after: u64, limit: usize) -> Result<Vec<(u64, Entry)>, StoreError> {
        self.database().records_from(&family::QUEUE, &(after + 1))?.take(limit).map(to_entry).collect()
    }

    /// The greatest sequence number that a request ever got, 0 before the first; the next request
    /// gets a greater one.
    pub fn last_sequence(&self) -> Result<u64, StoreError> {
        let queued = self.database().last(&family::QUEUE)?.map_or(0, |(sequence, _)| sequence);
        Ok(queued.max(self.finished_sequence()?))
    }

    /// The greatest sequence number among the requests that left the queue.
    pub(crate) fn finished_sequence(&self) -> Result<u64, StoreError> {
        Ok(self.database().get(&family::FINISHED_SEQUENCE, &())?.unwrap_or_default())
    }

    /// How far the records of final requests are deleted.
    pub(crate) fn swept_requests(&self) -> Result<SweptRequests, StoreError> {
        Ok(self.database().get(&family::SWEPT_REQUESTS, &())?.unwrap_or_default())
    }
}

fn to_entry(record: Result<(u64, QueuedEntry), StoreError>) -> Result<(u64, Entry), StoreError> {
    record.map(|(sequence, queued)| (sequence, queued.entry))
}

/// Progress of a sweep of idempotency keys: the time of acceptance and the hash of the last one
/// that it read.
pub type SweepPosition = (UnixSeconds, B256);

/// The right to admit requests and to delete expired ones. A service gives it to its request
/// tracker.
pub struct RequestWriter {
    store: Store,
    group_commit: GroupCommit,
}

impl RequestWriter {
    /// Writes requests to `store` through its committing thread.
    pub fn new(store: Store, group_commit: GroupCommit) -> Self {
        Self { store, group_commit }
    }

    /// Makes a request durable: its record, its entry in the queue, and its idempotency key if it
    /// has one. `durable` is called when all of these are on disk or could not be written.
    pub fn admit(&self, sequence: u64, entry: Entry, idempotency: Option<IdempotencyKey>, durable: OnDurable) {
        let item =
            self.group_commit.item(|| JournalItem::Admitted(Admitted { sequence, entry: entry.clone(), idempotency }));
        self.group_commit.commit(Write { changes: admission_changes(sequence, entry, idempotency), item }, durable);
    }

    /// Calls `durable` when every request that was admitted before is on disk or could not be
    /// written.
    pub fn after_admitted(&self, durable: OnDurable) {
        self.group_commit.commit(Write::default(), durable);
    }

    /// Whether this store admits requests: see [`GroupCommit::leads`].
    pub fn leads(&self) -> bool {
        self.group_commit.leads()
    }

    /// Deletes the records of requests in applied blocks from before `time` (exclusive): at most
    /// `limit`, after those that were deleted before. Returns whether there were any. Blocks the
    /// thread.
    pub fn sweep_requests(
        &self,
        time: UnixSeconds,
        ledger: &dyn LedgerReader,
        limit: usize,
    ) -> Result<bool, StoreError> {
        self.group_commit.beside(|| self.sweep_requests_now(time, ledger, limit))
    }

    fn sweep_requests_now(
        &self,
        time: UnixSeconds,
        ledger: &dyn LedgerReader,
        limit: usize,
    ) -> Result<bool, StoreError> {
        fault_point!(self.store.fault_scope(), SweepBefore);
        let database = self.store.database();
        let applied: AppliedTip = database.get(&family::APPLIED, &())?.unwrap_or_default();
        let before = self.store.swept_requests()?;
        let (mut swept, mut left) = (before, limit);
        let mut changes = Changes::default();
        while left > 0 && swept.height < applied.tip.seal.height {
            let Some(block) = ledger.block(swept.height + 1)?.filter(|block| block.header.time < time) else { break };
            let mut deleted = 0;
            for entry in block.entries.iter().skip(swept.of_next as usize).take(left) {
                changes.delete(&family::REQUESTS, &entry.request_id);
                deleted += 1;
            }
            swept = match swept.of_next + deleted {
                end if end as usize >= block.entries.len() => SweptRequests { height: swept.height + 1, of_next: 0 },
                of_next => SweptRequests { of_next, ..swept },
            };
            // A block without requests takes time, too.
            left = left.saturating_sub(deleted.max(1) as usize);
        }
        if swept != before {
            changes.put(&family::SWEPT_REQUESTS, &(), &swept);
            database.write(changes, false)?;
        }
        fault_point!(self.store.fault_scope(), SweepAfter);
        Ok(swept != before)
    }

    /// Deletes idempotency keys that were accepted before `time` (exclusive): at most `limit` of
    /// those after `swept`. Returns the position of the last record that it read; `None` when there
    /// was no such record. A key that is `in_use` stays; a later sweep from the beginning reads it
    /// again. Blocks the thread.
    ///
    /// A sweep that continues from that position does not read over the records deleted before,
    /// which RocksDB keeps until compaction.
    pub fn sweep_idempotency_keys(
        &self,
        time: UnixSeconds,
        swept: Option<SweepPosition>,
        limit: usize,
        in_use: impl Fn(&B256) -> bool,
    ) -> Result<Option<SweepPosition>, StoreError> {
        // An entry of the journal may bring a key anew: its record must not be written between the
        // look at it and the deletion.
        self.group_commit.beside_without_applying(|| {
            fault_point!(self.store.fault_scope(), SweepBefore);
            let database = self.store.database();
            let mut changes = Changes::default();
            let mut last = None;
            let records: Box<dyn Iterator<Item = _>> = match &swept {
                Some(swept) => Box::new(database.records_from(&family::ACCEPTED_KEYS, swept)?),
                None => Box::new(database.records(&family::ACCEPTED_KEYS)?),
            };
            // The record at `swept` itself is still there when its key was in use.
            let is_after_swept = |key: &SweepPosition| swept.as_ref().is_none_or(|swept| key != swept);
            let unseen = records.filter(|record| record.as_ref().map_or(true, |(key, ())| is_after_swept(key)));
            for record in unseen.take(limit) {
                let (position, ()) = record?;
                let (accepted_at, key_hash) = position;
                if accepted_at >= time {
                    break;
                }
                last = Some(position);
                if in_use(&key_hash) {
                    continue;
                }
                // The key may have been used again since; its newer record has an entry of its own
                // in ACCEPTED_KEYS.
                if self.store.idempotency(&key_hash)?.is_some_and(|record| record.accepted_at == accepted_at) {
                    changes.delete(&family::IDEMPOTENCY, &key_hash);
                }
                changes.delete(&family::ACCEPTED_KEYS, &position);
            }
            database.write(changes, false)?;
            fault_point!(self.store.fault_scope(), SweepAfter);
            Ok(last)
        })
    }
}
