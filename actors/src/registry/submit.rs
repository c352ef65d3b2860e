//! Submitting requests: a request and why it is refused, the checks before the request tracker, and
//! the way to the replica that leads.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use selfsame_protocol::encode_fields;
use selfsame_protocol::encoding::{DecodeError, decode, encode};
use selfsame_protocol::gateway::{GatewayRequestState, GatewayStatusResponse, RequestError, check_request};
use selfsame_protocol::ledger::{RequestId, check_signature};
use selfsame_protocol::registry::{Lock, Operation, RecoveredSigner, RuleViolation};
use selfsame_protocol::time::RetryAfter;
use selfsame_storage::StoreError;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::handle::RegistryHandle;
use crate::registry::actors::RequestTrackerMessage;
use crate::support::replica::{Forwarding, QuestionKind};
use crate::support::slot::{CallError, RESTART_PATIENCE};
use crate::support::source_limits::TooManyRequests;
use crate::support::tasks::Panicked;

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

// Submitting requests: the checks before the request tracker, and the way to the replica that
// leads.

impl RegistryHandle {
    /// Submits a request. When this returns success, the request is durable: it becomes final even
    /// when the process ends now. If the idempotency key stands for an earlier request with the
    /// same operation, this returns the present state of that request.
    ///
    /// A replica that does not lead checks the limit by source, the rules that need no state and
    /// the signature, and forwards the request to the leader.
    ///
    /// Checks in this order: whether sealing or applying fails, limit by source, rules that need no
    /// state, signature, calls that wait for the request tracker, idempotency key, queue, locks,
    /// rules on the published state, limit by account. Without an idempotency key a full queue is
    /// refused before the signature is checked.
    ///
    /// # Errors
    /// See [`SubmitError`]. After [`SubmitError::Unknown`] the request may have been recorded, and
    /// after all others it was not. Where the error has no request id, the caller finds out by
    /// submitting the same operation again: with the same idempotency key this returns the state of
    /// the recorded request; without a key it returns [`SubmitError::Duplicate`] with the id in
    /// `same_as` while the recorded request is open.
    pub async fn submit(&self, submission: Submission) -> Result<GatewayStatusResponse, SubmitError> {
        self.check_steps()?;
        if let Some(source) = submission.source {
            self.charge_source(source)?;
        }
        let forwarding = self.inner.forwarding.as_deref().filter(|_| !self.inner.group_commit.leads());
        let Some(forwarding) = forwarding else { return self.submit_at_leader(submission).await };
        check_request(&submission.operation, &self.inner.reader.rules)?;
        let (submission, _) = self.recover(submission).await?;
        forward(forwarding, submission).await
    }

    /// The same without the limit by source, for a request that another replica forwards. It is not
    /// forwarded again.
    ///
    /// # Errors
    /// See [`RegistryHandle::submit`].
    pub(crate) async fn submit_forwarded(&self, submission: Submission) -> Result<GatewayStatusResponse, SubmitError> {
        self.check_steps()?;
        self.submit_at_leader(submission).await
    }

    /// Submits a request whose source is charged. A replica that leads may know less than another
    /// one: of its own last entries, when the journal's answer is late, and of those of a
    /// successor. What it refuses for the registry's state, it therefore looks at once more when it
    /// has everything that the journal has.
    async fn submit_at_leader(&self, submission: Submission) -> Result<GatewayStatusResponse, SubmitError> {
        if !self.is_replica() {
            return self.submit_charged(submission).await;
        }
        match self.submit_charged(submission.clone()).await {
            Err(SubmitError::Rule(_) | SubmitError::Duplicate { .. }) => {}
            submitted => return submitted,
        }
        match self.catch_up().await {
            Ok(()) => self.submit_charged(submission).await,
            Err(error) => Err(SubmitError::Unavailable { reason: error.to_string() }),
        }
    }

    fn check_steps(&self) -> Result<(), SubmitError> {
        match self.inner.steps.iter().find_map(|step| step.failing()) {
            Some(step) => Err(SubmitError::Unavailable { reason: format!("the registry is read-only: {step} fails") }),
            None => Ok(()),
        }
    }

    async fn submit_charged(&self, submission: Submission) -> Result<GatewayStatusResponse, SubmitError> {
        let reader = &self.inner.reader;
        check_request(&submission.operation, &reader.rules)?;
        let has_key = submission.idempotency_key.is_some();
        if !has_key {
            self.check_queue()?;
        }
        let (submission, signer) = self.recover(submission).await?;
        let kind = submission.operation.kind();
        let admit = |reply| RequestTrackerMessage::Admit(Box::new(submission), signer, reply);
        let admitted = self.inner.request_tracker.call(admit, Instant::now() + RESTART_PATIENCE).await;
        let request_id = admitted.map_err(|error| match error {
            CallError::NoAnswer => SubmitError::Unknown { request_id: None, reason: error.to_string() },
            CallError::Overloaded | CallError::Restarting | CallError::Ended => {
                SubmitError::Unavailable { reason: error.to_string() }
            }
        })??;
        if has_key {
            // The key may stand for an earlier request. When the commit of that request failed in
            // the meantime, nothing was recorded.
            let reason = || "an earlier request with this Idempotency-Key was not recorded".to_owned();
            return match self.status(&request_id) {
                Ok(status) => status.ok_or_else(|| SubmitError::Unavailable { reason: reason() }),
                Err(error) => Err(SubmitError::Unknown {
                    request_id: Some(request_id),
                    reason: format!("reading it fails: {error}"),
                }),
            };
        }
        Ok(GatewayStatusResponse { request_id, kind, status: GatewayRequestState::Queued })
    }

    /// Recovers the signer of a submission, if it is signed: not on a thread that serves
    /// connections, and at most as many at a time as there are cores, so that a flood of signatures
    /// leaves room for what is quick.
    async fn recover(&self, submission: Submission) -> Result<(Submission, RecoveredSigner), SubmitError> {
        if submission.operation.signature().is_none() {
            return Ok((submission, None));
        }
        let domain = self.inner.reader.domain();
        let recovering = move || {
            let signer = check_signature(&submission.operation, &domain);
            (submission, signer)
        };
        let recovered = self.inner.recovering.run(recovering).await;
        let (submission, signer) = recovered.map_err(|Panicked| StoreError::Panicked)?;
        Ok((submission, signer?))
    }

    /// Counts a request of `source` that its front-end refuses and does not submit, so that a
    /// client cannot try secrets without end.
    ///
    /// # Errors
    /// [`SubmitError::RateLimited`].
    pub fn charge_source(&self, source: IpAddr) -> Result<(), SubmitError> {
        let charged = self.inner.per_source.charge(source, self.inner.reader.clock.now());
        charged.map_err(|TooManyRequests { retry_after }| SubmitError::RateLimited {
            scope: RateLimitScope::Source,
            retry_after,
        })
    }

    /// Refuses a request early when the queue is full. The request tracker repeats the check
    /// exactly. This check avoids signature recovery under overload, which costs far more than
    /// everything else. A request with an idempotency key is not checked here, because the key may
    /// stand for a request that was admitted before.
    fn check_queue(&self) -> Result<(), SubmitError> {
        let limit = self.inner.reader.limits.load().queue_length;
        let is_full = self.inner.reader.counters.open_requests.load(Ordering::Relaxed) >= limit;
        if is_full { Err(SubmitError::QueueFull { limit }) } else { Ok(()) }
    }
}

// Requests that a replica forwards to the one that leads, and the leader's answers.
//
// The replica has charged the client's address and checked what needs no state; the leader checks
// everything but that limit, and admits. Its refusal travels as it is, so that a client gets the
// same answer from every replica.

/// A submission as it travels.
struct ForwardedSubmission {
    operation: Operation,
    /// The client's address; idempotency keys of operations without a signature belong to it.
    source: Option<String>,
    idempotency_key: Option<String>,
}

encode_fields!(ForwardedSubmission { operation, source, idempotency_key });

/// Encodes a submission for the leader.
fn encode_submission(submission: Submission) -> Vec<u8> {
    let Submission { operation, source, idempotency_key } = submission;
    let source = source.map(|address| address.to_string());
    encode(&ForwardedSubmission { operation, source, idempotency_key })
}

/// Reads a submission of another replica.
///
/// # Errors
/// The bytes are none of this version of the program.
pub(crate) fn decode_submission(content: &[u8]) -> Result<Submission, DecodeError> {
    let ForwardedSubmission { operation, source, idempotency_key } = decode(content)?;
    let source = source.map(|text| text.parse().map_err(|_| DecodeError::OutOfRange("an address"))).transpose()?;
    Ok(Submission { operation, source, idempotency_key })
}

/// The leader's answer to a submission, in JSON.
#[derive(Debug, Serialize, Deserialize)]
enum SubmissionAnswer {
    Accepted(GatewayStatusResponse),
    Rule(RuleViolation),
    /// It breaks a rule that needs no state, which the leader knows with other parameters.
    Request(RuleViolation),
    Duplicate {
        lock: Lock,
        same_as: Option<RequestId>,
    },
    IdempotencyKeyReused,
    RateLimited {
        scope: RateLimitScope,
        retry_after: std::time::Duration,
    },
    QueueFull {
        limit: usize,
    },
    Unavailable {
        reason: String,
    },
    Unknown {
        request_id: Option<RequestId>,
        reason: String,
    },
}

/// Encodes what became of a submission at the leader.
pub(crate) fn encode_answer(outcome: Result<GatewayStatusResponse, SubmitError>) -> Vec<u8> {
    let answer = match outcome {
        Ok(accepted) => SubmissionAnswer::Accepted(accepted),
        Err(SubmitError::Rule(violation)) => SubmissionAnswer::Rule(violation),
        Err(SubmitError::Request(RequestError::Rule(violation))) => SubmissionAnswer::Request(violation),
        Err(SubmitError::Duplicate { lock, same_as }) => SubmissionAnswer::Duplicate { lock, same_as },
        Err(SubmitError::IdempotencyKeyReused) => SubmissionAnswer::IdempotencyKeyReused,
        Err(SubmitError::RateLimited { scope, retry_after: RetryAfter(retry_after) }) => {
            SubmissionAnswer::RateLimited { scope, retry_after }
        }
        Err(SubmitError::QueueFull { limit }) => SubmissionAnswer::QueueFull { limit },
        Err(SubmitError::Unavailable { reason }) => SubmissionAnswer::Unavailable { reason },
        Err(SubmitError::Unknown { request_id, reason }) => SubmissionAnswer::Unknown { request_id, reason },
        // The replica that asks has checked the fields.
        Err(error @ (SubmitError::Request(_) | SubmitError::Store(_))) => {
            SubmissionAnswer::Unavailable { reason: error.to_string() }
        }
    };
    serde_json::to_vec(&answer).unwrap_or_default()
}

/// Reads an answer. One that cannot be read leaves open what became of the submission.
fn decode_answer(content: &[u8]) -> Result<GatewayStatusResponse, SubmitError> {
    let answer = serde_json::from_slice(content).map_err(|error| SubmitError::Unknown {
        request_id: None,
        reason: format!("the answer of the replica that leads cannot be read: {error}"),
    })?;
    Err(match answer {
        SubmissionAnswer::Accepted(accepted) => return Ok(accepted),
        SubmissionAnswer::Rule(violation) => SubmitError::Rule(violation),
        SubmissionAnswer::Request(violation) => SubmitError::Request(RequestError::Rule(violation)),
        SubmissionAnswer::Duplicate { lock, same_as } => SubmitError::Duplicate { lock, same_as },
        SubmissionAnswer::IdempotencyKeyReused => SubmitError::IdempotencyKeyReused,
        SubmissionAnswer::RateLimited { scope, retry_after } => {
            SubmitError::RateLimited { scope, retry_after: RetryAfter(retry_after) }
        }
        SubmissionAnswer::QueueFull { limit } => SubmitError::QueueFull { limit },
        SubmissionAnswer::Unavailable { reason } => SubmitError::Unavailable { reason },
        SubmissionAnswer::Unknown { request_id, reason } => SubmitError::Unknown { request_id, reason },
    })
}

/// Has the leader admit a request. Returns its answer when this replica has recorded the request.
pub(crate) async fn forward(
    forwarding: &Forwarding,
    submission: Submission,
) -> Result<GatewayStatusResponse, SubmitError> {
    match forwarding.ask(QuestionKind::Submit, encode_submission(submission)).await {
        Ok(content) => decode_answer(&content),
        Err(error) if error.is_certain() => Err(SubmitError::Unavailable { reason: error.for_clients().to_owned() }),
        Err(error) => Err(SubmitError::Unknown { request_id: None, reason: error.for_clients().to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use selfsame_protocol::gateway::GatewayRequestState;
    use selfsame_protocol::ids::{LeafIndex, Nonce};
    use selfsame_protocol::registry::OperationKind;

    use super::*;

    #[test]
    fn the_leaders_answer_arrives_as_it_was_given() {
        let request_id = RequestId::from_random([7; 16]);
        let violation = || RuleViolation::MismatchedSignatureNonce { stated: Nonce::from(4u64), expected: 6 };
        let refusals = [
            SubmitError::Rule(violation()),
            SubmitError::Rule(RuleViolation::RecoveryNotEnabled),
            SubmitError::Request(RequestError::Rule(violation())),
            SubmitError::Duplicate { lock: Lock::LeafIndex(LeafIndex(3)), same_as: Some(request_id) },
            SubmitError::IdempotencyKeyReused,
            SubmitError::RateLimited {
                scope: RateLimitScope::LeafIndex,
                retry_after: RetryAfter(Duration::from_millis(1500)),
            },
            SubmitError::QueueFull { limit: 9 },
            SubmitError::Unavailable { reason: "sealing fails".to_owned() },
            SubmitError::Unknown { request_id: Some(request_id), reason: "its commit failed".to_owned() },
        ];
        for refusal in refusals {
            let arrived = decode_answer(&encode_answer(Err(refusal.clone()))).expect_err("a refusal");
            assert_eq!(format!("{arrived:?}"), format!("{refusal:?}"));
        }
        let kind = OperationKind::CreateAccount;
        let accepted = GatewayStatusResponse { request_id, kind, status: GatewayRequestState::Queued };
        assert_eq!(decode_answer(&encode_answer(Ok(accepted.clone()))).expect("accepted"), accepted);
        assert!(matches!(decode_answer(b"{}"), Err(SubmitError::Unknown { request_id: None, .. })));
    }
}
