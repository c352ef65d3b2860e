//! Submitting a request: the input, and why it can be refused.

use std::net::IpAddr;

use selfsame_protocol::gateway::RequestError;
use selfsame_protocol::ledger::RequestId;
use selfsame_protocol::registry::{Lock, Operation, RuleViolation};
use selfsame_protocol::time::RetryAfter;
use selfsame_storage::StoreError;

/// A request for the registry.
#[derive(Clone, Debug)]
pub struct Submission {
    pub operation: Operation,
    /// The client's address, for the limit by source. `None` is never limited: an embedder's own request.
    pub source: Option<IpAddr>,
    /// The client's idempotency key, if it sent one.
    pub idempotency_key: Option<String>,
}

impl From<Operation> for Submission {
    fn from(operation: Operation) -> Self {
        Self { operation, source: None, idempotency_key: None }
    }
}

/// Why a request was not accepted. Nothing was recorded.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SubmitError {
    /// The operation is refused whatever the registry's state is.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A rule of the registry is broken, on the state that readers see now.
    #[error("{}", .0.message())]
    Rule(#[from] RuleViolation),
    /// An open request holds a lock that this one needs.
    #[error("{}", duplicate_message(*.lock, *.same_as))]
    Duplicate {
        /// The lock that the open request holds.
        lock: Lock,
        /// The open request, when its operation is the same as this one's.
        same_as: Option<RequestId>,
    },
    /// The idempotency key was used for another request.
    #[error("the Idempotency-Key was used with another body; use a new key for a new request")]
    IdempotencyKeyReused,
    /// Too many requests from this source, or for this account.
    #[error("{scope}; try again in {retry_after}")]
    RateLimited { scope: RateLimitScope, retry_after: RetryAfter },
    /// The queue is full.
    #[error("{limit} requests are waiting, the queue is full; try again")]
    QueueFull { limit: usize },
    /// Too many calls wait, a step of the registry fails, or the request tracker is restarting or stopping.
    #[error("the registry is not accepting requests at the moment ({reason}); try again")]
    Unavailable { reason: String },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whose limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateLimitScope {
    #[error("too many requests from this address")]
    Source,
    #[error("too many requests for this account")]
    LeafIndex,
}

fn duplicate_message(lock: Lock, same_as: Option<RequestId>) -> String {
    match same_as {
        Some(request_id) => format!("request {request_id} asks for the same and is still open; follow its status"),
        None => format!("another open request holds {lock}; try again when it is final"),
    }
}
