//! The records of requests: the durable queue, states, idempotency keys.

use selfsame_protocol::ledger::{Entry, RequestId};
use selfsame_protocol::registry::{GatewayErrorCode, OperationKind};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::{B256, encode_fields};

use super::registry::Place;

/// A request's kind, its place in the queue, and why it failed.
///
/// Whether a request is final is not in it: it is when the block that it is in was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// Kind of its operation.
    pub kind: OperationKind,
    /// Position in the order of admission, from 1 on; 0 when this store did not admit the request.
    pub sequence: u64,
    /// Why applying its operation failed; `None` while the request is open, and when the operation
    /// was applied.
    pub failure: Option<RequestFailure>,
}

encode_fields!(RequestRecord { kind, sequence, failure } version 1 of "request record");

/// How a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFailure {
    /// Height of the request's block.
    pub height: u64,
    /// The code of the broken rule.
    pub code: GatewayErrorCode,
    /// The broken rule and the values, as a text for a person.
    pub message: String,
}

encode_fields!(RequestFailure { height, code, message });

/// How far the records of final requests are deleted, in the order of their blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SweptRequests {
    /// Height of the last block of whose requests every record is deleted.
    pub height: u64,
    /// The first so many requests of the next block have no record, either.
    pub of_next: u32,
}

encode_fields!(SweptRequests { height, of_next } version 1 of "progress of the deletion of requests");

impl SweptRequests {
    /// Whether the record of the request at a place is deleted.
    pub fn contains(&self, Place { height, position }: Place) -> bool {
        height <= self.height || (height == self.height + 1 && position < self.of_next)
    }
}

/// A request in the durable queue. It stays there until its block is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedEntry {
    /// The request's id and operation.
    pub entry: Entry,
}

encode_fields!(QueuedEntry { entry } version 1 of "queued request");

/// What an idempotency key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyRecord {
    /// The request that the key was accepted with.
    pub request_id: RequestId,
    /// Hash of the operation.
    pub body_hash: B256,
    /// When the key was accepted; its retention counts from then.
    pub accepted_at: UnixSeconds,
}

encode_fields!(IdempotencyRecord { request_id, body_hash, accepted_at } version 1 of "idempotency record");

/// Hash of an idempotency key, and the record to store for it.
pub type IdempotencyKey = (B256, IdempotencyRecord);
