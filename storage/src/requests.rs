//! Requests: the durable queue, states, locks, idempotency keys, expiry.

use selfsame_protocol::B256;
use selfsame_protocol::encoding::Encoding;
use selfsame_protocol::ledger::RequestId;
use selfsame_protocol::registry::{Lock, Operation};

use crate::database::{Changes, Read, Store};
use crate::error::StoreError;
use crate::schema::family::{self, Family};
use crate::schema::requests::{IdempotencyRecord, QueuedRequest, RequestRecord};

/// Everything that accepting a request writes.
#[derive(Clone, Debug)]
pub struct Admission {
    pub request_id: RequestId,
    pub sequence: u64,
    pub operation: Operation,
    pub locks: Vec<Lock>,
    /// Hash of the idempotency key and what it stands for.
    pub idempotency: Option<(B256, IdempotencyRecord)>,
}

impl Admission {
    /// The changes that make the request durable.
    pub fn changes(self) -> Changes {
        let Self { request_id, sequence, operation, locks, idempotency } = self;
        let mut changes = Changes::default();
        let record = RequestRecord { kind: operation.kind(), sequence, final_state: None };
        changes.put(&family::REQUESTS, &request_id, &record);
        for lock in &locks {
            changes.put(&family::LOCKS, lock, &request_id);
        }
        if let Some((key_hash, record)) = &idempotency {
            changes.put(&family::IDEMPOTENCY, key_hash, record);
            changes.put(&family::ACCEPTED_KEYS, &(record.accepted_at, *key_hash), &());
        }
        changes.put(&family::QUEUE, &sequence, &QueuedRequest { request_id, operation });
        changes
    }
}

impl Store {
    /// A request's record.
    pub fn request(&self, request_id: &RequestId) -> Result<Option<RequestRecord>, StoreError> {
        self.database().get(&family::REQUESTS, request_id)
    }

    /// What an idempotency key stands for, whether or not it is old.
    pub fn idempotency(&self, key_hash: &B256) -> Result<Option<IdempotencyRecord>, StoreError> {
        self.database().get(&family::IDEMPOTENCY, key_hash)
    }

    /// Every open request: the durable queue, in order.
    pub fn open_requests(&self) -> Result<Vec<QueuedRequest>, StoreError> {
        self.database().records(&family::QUEUE)?.map(|record| record.map(|(_, queued)| queued)).collect()
    }

    /// Up to `limit` queued requests with sequence numbers above `after`, in order.
    pub fn queued_after(&self, after: u64, limit: usize) -> Result<Vec<(u64, QueuedRequest)>, StoreError> {
        self.database().records_from(&family::QUEUE, &(after + 1))?.take(limit).collect()
    }

    /// The greatest sequence number that was ever given: the next request gets a greater one.
    pub fn last_sequence(&self) -> Result<u64, StoreError> {
        let queued = self.database().last(&family::QUEUE)?.map_or(0, |(sequence, _)| sequence);
        Ok(queued.max(self.finished_sequence()?))
    }

    /// The greatest sequence number among the requests that left the queue.
    pub(crate) fn finished_sequence(&self) -> Result<u64, StoreError> {
        Ok(self.database().get(&family::FINISHED_SEQUENCE, &())?.unwrap_or_default())
    }

    /// Deletes final requests that ended before `time` (Unix seconds), at most `limit` of those behind `swept`. Returns the last one
    /// that it came to; `None` when there was none.
    ///
    /// Whoever goes on from there does not read over what was deleted before, which the database does not forget at once.
    pub fn sweep_requests(
        &self,
        time: u64,
        swept: Option<(u64, RequestId)>,
        limit: usize,
    ) -> Result<Option<(u64, RequestId)>, StoreError> {
        self.sweep(&family::FINAL_REQUESTS, time, swept, limit, |changes, _, request_id| {
            changes.delete(&family::REQUESTS, request_id);
            Ok(true)
        })
    }

    /// The same for idempotency keys accepted before `time`, but for those that are `in_use` again: they wait for the next time.
    pub fn sweep_idempotency_keys(
        &self,
        time: u64,
        swept: Option<(u64, B256)>,
        limit: usize,
        in_use: impl Fn(&B256) -> bool,
    ) -> Result<Option<(u64, B256)>, StoreError> {
        self.sweep(&family::ACCEPTED_KEYS, time, swept, limit, |changes, accepted_at, key_hash| {
            if in_use(key_hash) {
                return Ok(false);
            }
            // A key may have been used again since; its newer record waits for its own turn.
            if self.idempotency(key_hash)?.is_some_and(|record| record.accepted_at == accepted_at) {
                changes.delete(&family::IDEMPOTENCY, key_hash);
            }
            Ok(true)
        })
    }

    fn sweep<Id: Encoding + Copy + PartialEq>(
        &self,
        times: &Family<(u64, Id), ()>,
        before: u64,
        swept: Option<(u64, Id)>,
        limit: usize,
        delete: impl Fn(&mut Changes, u64, &Id) -> Result<bool, StoreError>,
    ) -> Result<Option<(u64, Id)>, StoreError> {
        fault_point!(SweepBefore);
        let mut changes = Changes::default();
        let mut last = None;
        let records: Box<dyn Iterator<Item = _>> = match &swept {
            Some(swept) => Box::new(self.database().records_from(times, swept)?),
            None => Box::new(self.database().records(times)?),
        };
        // It may be there still, if its key is in use.
        let is_behind = |key: &(u64, Id)| swept.as_ref().is_none_or(|swept| key != swept);
        for record in records.filter(|record| record.as_ref().map_or(true, |(key, ())| is_behind(key))).take(limit) {
            let ((time, id), ()) = record?;
            if time >= before {
                break;
            }
            if delete(&mut changes, time, &id)? {
                changes.delete(times, &(time, id));
            }
            last = Some((time, id));
        }
        self.database().write(changes, false)?;
        fault_point!(SweepAfter);
        Ok(last)
    }
}
