//! A request as it is submitted, and why it is refused.

use std::net::IpAddr;

use selfsame_protocol::gateway::RequestError;
use selfsame_protocol::ledger::RequestId;
use selfsame_protocol::registry::{Lock, Operation, RuleViolation};
use selfsame_protocol::time::RetryAfter;
use selfsame_storage::StoreError;
use serde::{Deserialize, Serialize};

use crate::support::source_limits::TooManyRequests;

/// A request for the registry.
#[derive(Clone, Debug)]
pub struct Submission {
    /// What the request asks for, with its signature where the operation has one.
    pub operation: Operation,
    /// The client's address, for the limit by source. `None` is exempt from the limit: for an
    /// embedder's own requests.
    pub source: Option<IpAddr>,
    /// The client's idempotency key, if it sent one. It stands for a request of the same signer, or
    /// of the same source when the operation has no signature.
    pub idempotency_key: Option<String>,
}

impl From<Operation> for Submission {
    fn from(operation: Operation) -> Self {
        Self { operation, source: None, idempotency_key: None }
    }
}

/// Why a submission was not answered with success.
///
/// After [`SubmitError::Unknown`] the request may have been recorded all the same. After every
/// other error it was not.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SubmitError {
    /// The operation is refused in every state of the registry.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The operation violates a rule of the registry on the published state.
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
    /// The idempotency key stands for an earlier request with another operation.
    #[error("the Idempotency-Key was used with another body; use a new key for a new request")]
    IdempotencyKeyReused,
    /// The source address, or the account, has used up its limit.
    #[error("{scope}; try again in {retry_after}")]
    RateLimited {
        /// Which of the two limits was reached.
        scope: RateLimitScope,
        /// Time until the next request is within the limit.
        retry_after: RetryAfter,
    },
    /// As many requests are open as the limit allows.
    #[error("{limit} requests are waiting, the queue is full; try again")]
    QueueFull {
        /// The most requests that may be open: [`crate::AdmissionLimits::queue_length`].
        limit: usize,
    },
    /// Sealing or applying fails; or too many calls wait for the request tracker; or the tracker is
    /// not running; or the service is closing; or the earlier request that the idempotency key
    /// stands for was not recorded, or the one whose lock this one needed. `reason` says which.
    #[error("the registry is not accepting requests at the moment ({reason}); try again")]
    Unavailable {
        /// Which of these causes applies, for the client.
        reason: String,
    },
    /// The request was handed in, and it is not known whether it was recorded: its commit failed,
    /// which may have written it; or the request tracker stopped, or did not answer in time. A
    /// request that was recorded is applied like any other.
    #[error("{}", unknown_message(*.request_id, .reason))]
    Unknown {
        /// The request's id, under which its status is found if it was recorded; `None` when the
        /// tracker has not answered.
        request_id: Option<RequestId>,
        /// What happened, for the client.
        reason: String,
    },
    /// The store could not be read before the request was handed in.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SubmitError {
    /// What the failed commit of a request means.
    pub(crate) fn of_commit(request_id: RequestId, error: &StoreError) -> Self {
        match error {
            // The commit never began.
            StoreError::Closing => Self::Unavailable { reason: error.to_string() },
            StoreError::Replica(refused) if refused.is_certain() => {
                Self::Unavailable { reason: refused.for_clients().to_owned() }
            }
            _ => Self::Unknown { request_id: Some(request_id), reason: "its commit failed".to_owned() },
        }
    }
}

/// Whose limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum RateLimitScope {
    /// The limit by source address.
    #[error("too many requests from this address")]
    Source,
    /// The limit by account.
    #[error("too many requests for this account")]
    LeafIndex,
}

/// Why a receipt is not answered.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReceiptError {
    /// The source address has used up its limit of receipts that are computed.
    #[error("too many receipts of different blocks from this address; try again in {}", .0.retry_after)]
    RateLimited(TooManyRequests),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn duplicate_message(lock: Lock, same_as: Option<RequestId>) -> String {
    match same_as {
        Some(request_id) => format!("request {request_id} asks for the same and is still open; follow its status"),
        None => format!("another open request holds {lock}; try again when it is final"),
    }
}

fn unknown_message(request_id: Option<RequestId>, reason: &str) -> String {
    match request_id {
        Some(request_id) => format!(
            "it is not known whether request {request_id} was recorded ({reason}); ask for its status, and submit the \
             operation again when the request is not found"
        ),
        None => format!(
            "it is not known whether the request was recorded ({reason}); submit the operation again with the same \
             Idempotency-Key, or without one: the answer names the request if it was recorded and is open"
        ),
    }
}
