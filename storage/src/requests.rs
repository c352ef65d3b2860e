//! Requests: the durable queue, states, locks, idempotency keys, expiry.

use selfsame_protocol::encoding::{DecodeError, Encoding};
use selfsame_protocol::ledger::{Outcome, RequestId};
use selfsame_protocol::registry::{Lock, Operation, OperationKind};
use selfsame_protocol::{B256, encode_fields};

use crate::database::{Changes, Read, Store};
use crate::error::StoreError;
use crate::family;

/// What is known about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    pub kind: OperationKind,
    /// Its place in the order of admission.
    pub sequence: u64,
    /// How it ended; `None` while it is open.
    pub final_state: Option<FinalState>,
}

encode_fields!(RequestRecord { kind, sequence, final_state } version 1 of "request record");

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalState {
    pub height: u64,
    pub block_hash: B256,
    pub outcome: Outcome,
}

encode_fields!(FinalState { height, block_hash, outcome });

/// A request in the durable queue. It stays there until its block is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedRequest {
    pub request_id: RequestId,
    pub operation: Operation,
}

encode_fields!(QueuedRequest { request_id, operation } version 1 of "queued request");

/// What an idempotency key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyRecord {
    pub request_id: RequestId,
    /// Hash of the operation.
    pub body_hash: B256,
    /// Unix seconds.
    pub accepted_at: u64,
}

encode_fields!(IdempotencyRecord { request_id, body_hash, accepted_at } version 1 of "idempotency record");

/// A record that is deleted once it is old enough. Sorted by time, so a sweep reads only what it deletes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expiry {
    /// Unix seconds of the event that the retention counts from.
    pub since: u64,
    pub record: Expiring,
}

encode_fields!(Expiry { since, record });

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expiring {
    /// A request that became final.
    Request(RequestId),
    /// An idempotency key, by its hash.
    IdempotencyKey(B256),
}

impl Encoding for Expiring {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Request(request_id) => {
                out.push(0);
                request_id.encode(out);
            }
            Self::IdempotencyKey(hash) => {
                out.push(1);
                hash.encode(out);
            }
        }
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Encoding::decode(input).map(Self::Request),
            1 => Encoding::decode(input).map(Self::IdempotencyKey),
            tag => Err(DecodeError::UnknownTag { kind: "expiring record", tag }),
        }
    }
}

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
            let expiry = Expiry { since: record.accepted_at, record: Expiring::IdempotencyKey(*key_hash) };
            changes.put(&family::EXPIRY, &expiry, &());
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
        self.database().records_from(&family::QUEUE, &0)?.map(|record| record.map(|(_, queued)| queued)).collect()
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

    /// Deletes final requests that ended before `requests_before` and idempotency keys accepted before `keys_before` (Unix
    /// seconds), at most `limit` records. Returns how many went; call again while it is `limit`.
    pub fn sweep(&self, requests_before: u64, keys_before: u64, limit: usize) -> Result<usize, StoreError> {
        let newest = requests_before.max(keys_before);
        let start = Expiry { since: 0, record: Expiring::Request(RequestId::from_random([0; 16])) };
        let mut changes = Changes::default();
        let mut swept = 0;
        for record in self.database().records_from(&family::EXPIRY, &start)? {
            let (expiry, ()) = record?;
            if expiry.since >= newest || swept == limit {
                break;
            }
            match &expiry.record {
                Expiring::Request(request_id) if expiry.since < requests_before => {
                    changes.delete(&family::REQUESTS, request_id);
                }
                Expiring::IdempotencyKey(hash) if expiry.since < keys_before => {
                    // A key may have been used again since; its newer record has its own expiry.
                    if self.idempotency(hash)?.is_some_and(|record| record.accepted_at == expiry.since) {
                        changes.delete(&family::IDEMPOTENCY, hash);
                    }
                }
                _ => continue,
            }
            changes.delete(&family::EXPIRY, &expiry);
            swept += 1;
        }
        if swept > 0 {
            self.database().write(changes, false)?;
        }
        Ok(swept)
    }
}
