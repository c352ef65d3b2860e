//! Requests that a replica forwards to the one that leads, and the leader's answers.
//!
//! The replica has charged the client's address and checked what needs no state; the leader checks
//! everything but that limit, and admits. Its refusal travels as it is, so that a client gets the
//! same answer from every replica.

use selfsame_protocol::encode_fields;
use selfsame_protocol::encoding::{DecodeError, decode, encode};
use selfsame_protocol::gateway::{GatewayStatusResponse, RequestError};
use selfsame_protocol::ledger::RequestId;
use selfsame_protocol::registry::{Lock, Operation, RuleViolation};
use selfsame_protocol::time::RetryAfter;
use serde::{Deserialize, Serialize};

use super::submission::{RateLimitScope, Submission, SubmitError};
use crate::support::replica::{Forwarding, QuestionKind};

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
pub(crate) async fn submit(
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
