//! The records of requests: the durable queue, states, idempotency keys.

use selfsame_protocol::ledger::{Entry, Outcome, RequestId};
use selfsame_protocol::registry::OperationKind;
use selfsame_protocol::{B256, encode_fields};

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
    /// What to tell people about a failure: the rule and the values. Empty when the operation was applied.
    pub message: String,
}

encode_fields!(FinalState { height, block_hash, outcome, message });

/// A request in the durable queue. It stays there until its block is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedEntry {
    pub entry: Entry,
}

encode_fields!(QueuedEntry { entry } version 1 of "queued request");

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
