//! What the gateway answers when something is wrong.

use std::time::Duration;

use hyper::StatusCode;
use selfsame_actors::{SubmitError, WaitError};
use selfsame_protocol::gateway::{GatewayErrorCode, ServiceApiError};
use selfsame_protocol::json::BodyError;
use selfsame_storage::StoreError;

use crate::http::{ErrorCodes, InterfaceError, Refusal, Response, json};

/// How long a client should wait when the registry takes no more at the moment.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A refused request to the gateway.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// HTTP itself: path, method, size, content type, time.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// The body is not the object it should be.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// A query parameter, header or path segment is malformed.
    #[error("{field}: {problem}")]
    Parameter { field: &'static str, problem: String },
    /// The registry does not take the request.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// No such request, receipt or block.
    #[error("{0}")]
    NotFound(String),
    /// Waiting for a final state was refused or failed.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// The registry's rules have no such operation.
    #[error("the registry's rules (v1) have no {operation}")]
    MethodNotAvailable { operation: &'static str },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl InterfaceError for GatewayError {
    fn into_response(self) -> Response {
        let message = self.to_string();
        let bad_request = |code| answer(StatusCode::BAD_REQUEST, code, &message);
        match self {
            Self::Refusal(refusal) => ErrorCodes::GATEWAY.respond(&refusal),
            Self::Body(_) | Self::Parameter { .. } => bad_request(GatewayErrorCode::BadRequest),
            Self::NotFound(_) => answer(StatusCode::NOT_FOUND, GatewayErrorCode::NotFound, &message),
            Self::MethodNotAvailable { .. } => {
                answer(StatusCode::NOT_IMPLEMENTED, GatewayErrorCode::MethodNotAvailable, &message)
            }
            Self::Submit(error) => match error {
                SubmitError::Request(_) | SubmitError::IdempotencyKeyReused => {
                    bad_request(GatewayErrorCode::BadRequest)
                }
                SubmitError::Rule(violation) => bad_request(violation.code()),
                SubmitError::Duplicate { .. } => bad_request(GatewayErrorCode::DuplicateRequestInFlight),
                SubmitError::RateLimited { retry_after, .. } => {
                    let code = GatewayErrorCode::RateLimitExceeded;
                    Refusal::TooManyRequests { retry_after }.respond(&body(code, &message))
                }
                SubmitError::QueueFull { .. } | SubmitError::Unavailable { .. } => unavailable(&message),
                // In the log already, once and not for each request.
                SubmitError::Store(error) if error.is_passing() => {
                    unavailable("requests cannot be recorded at the moment; try again")
                }
                SubmitError::Store(error) => store_failed(&error),
            },
            Self::Wait(WaitError::TooMany) => unavailable(&message),
            Self::Wait(WaitError::Store(error)) | Self::Store(error) => store_failed(&error),
        }
    }
}

fn body(code: GatewayErrorCode, message: &str) -> ServiceApiError<GatewayErrorCode> {
    ServiceApiError { code, message: message.to_owned() }
}

fn answer(status: StatusCode, code: GatewayErrorCode, message: &str) -> Response {
    json(status, &body(code, message))
}

fn unavailable(message: &str) -> Response {
    Refusal::Unavailable { retry_after: RETRY_AFTER }.respond(&body(GatewayErrorCode::BatcherUnavailable, message))
}

/// A fault of ours: the details are the operator's business.
fn store_failed(error: &StoreError) -> Response {
    tracing::error!(%error, "the store failed");
    ErrorCodes::GATEWAY.respond(&Refusal::Internal)
}
