//! The records of requests: the durable queue, states, idempotency keys.

use selfsame_protocol::ledger::{Entry, Outcome, RequestId};
use selfsame_protocol::registry::OperationKind;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::{B256, encode_fields};

/// A request's kind, its place in the queue and its final state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// Kind of its operation.
    pub kind: OperationKind,
    /// Position in the order of admission, from 1 on; 0 when this store did not admit the request.
    pub sequence: u64,
    /// How it ended; `None` while it is open.
    pub final_state: Option<FinalState>,
}

encode_fields!(RequestRecord { kind, sequence, final_state } version 1 of "request record");

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalState {
    /// Height of the request's block.
    pub height: u64,
    /// Hash of the request's block.
    pub block_hash: B256,
    /// What applying the operation did.
    pub outcome: Outcome,
    /// Why the operation failed, as a text for a person: the broken rule and the values. Empty when
    /// the operation was applied.
    pub message: String,
}

encode_fields!(FinalState { height, block_hash, outcome, message });

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
