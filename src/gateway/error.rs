//! The errors of the gateway and its answers to them.

use hyper::StatusCode;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use selfsame_actors::{AwaitError, HeadSigningError, ReceiptError, SubmitError, TooManyRequests, WaitError};
use selfsame_protocol::gateway::{GatewayErrorCode, ServiceApiError};
use selfsame_protocol::json::BodyError;
use selfsame_protocol::time::RetryAfter;
use selfsame_storage::StoreError;
use utoipa::IntoResponses;

use crate::http::{ErrorCodes, InterfaceError, Rejection, Response, challenge, json};

/// A rejected request to the gateway.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The request was rejected for a reason that all interfaces share: path, method, size, content
    /// type, time.
    #[error(transparent)]
    Http(#[from] Rejection),
    /// The body is not a JSON object with the fields of the operation.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The slot that the body names does not fit 32 bits.
    #[error("PubkeyIdOutOfBounds: pubkey_id is 2^32 or greater; an account has {max} slots, counted from 0")]
    Slot { max: u32 },
    /// A query parameter, header or path segment is malformed.
    #[error("{field}: {problem}")]
    Parameter { field: &'static str, problem: String },
    /// The token that a new account needs is missing or wrong.
    #[error(
        "CreationTokenRequired: accounts are created with a token of this service's operator; send it as \
         Authorization: Bearer"
    )]
    CreationToken,
    /// The registry does not accept the request.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// No such request, receipt or block.
    #[error("{0}")]
    NotFound(String),
    /// A receipt is refused, or could not be read.
    #[error(transparent)]
    Receipt(#[from] ReceiptError),
    /// The head cannot be signed.
    #[error(transparent)]
    Head(#[from] HeadSigningError),
    /// It is not known whether another replica has the request.
    #[error(transparent)]
    Await(#[from] AwaitError),
    /// Waiting for a final state was refused or failed.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// The registry's rules have no such operation.
    #[error("the registry's rules (v1) have no {operation}; {instead}")]
    MethodNotAvailable { operation: &'static str, instead: &'static str },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl InterfaceError for GatewayError {
    fn reason(&self) -> String {
        match self {
            Self::Http(rejection) => rejection.reason(),
            Self::Body(error) => error.reason(),
            Self::Parameter { field, .. } => format!("{field} is malformed"),
            other => other.to_string(),
        }
    }

    fn into_response(self) -> Response {
        let message = self.to_string();
        let bad_request = |code| answer(StatusCode::BAD_REQUEST, code, &message);
        match self {
            Self::Http(rejection) => ErrorCodes::GATEWAY.respond(&rejection),
            Self::Body(_) | Self::Parameter { .. } => bad_request(GatewayErrorCode::BadRequest),
            Self::Slot { .. } => bad_request(GatewayErrorCode::PubkeyIdOutOfBounds),
            Self::CreationToken => {
                let mut response = answer(StatusCode::UNAUTHORIZED, GatewayErrorCode::BadRequest, &message);
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge::BEARER));
                response
            }
            Self::NotFound(_) => answer(StatusCode::NOT_FOUND, GatewayErrorCode::NotFound, &message),
            Self::MethodNotAvailable { .. } => {
                answer(StatusCode::NOT_IMPLEMENTED, GatewayErrorCode::MethodNotAvailable, &message)
            }
            Self::Submit(error) => match error {
                SubmitError::Request(error) => bad_request(error.code()),
                SubmitError::IdempotencyKeyReused => bad_request(GatewayErrorCode::BadRequest),
                SubmitError::Rule(violation) => bad_request(violation.code()),
                SubmitError::Duplicate { .. } => bad_request(GatewayErrorCode::DuplicateRequestInFlight),
                SubmitError::RateLimited { retry_after, .. } => {
                    let code = GatewayErrorCode::RateLimitExceeded;
                    Rejection::TooManyRequests { retry_after }.respond(&body(code, &message))
                }
                SubmitError::QueueFull { .. } | SubmitError::Unavailable { .. } | SubmitError::Unknown { .. } => {
                    unavailable(&message)
                }
                // The daemon logs once that commits fail, and not again for each request.
                SubmitError::Store(error) if error.is_transient() => {
                    unavailable("requests cannot be recorded at the moment; try again")
                }
                SubmitError::Store(error) => store_error_response(&error),
            },
            Self::Receipt(ReceiptError::RateLimited(TooManyRequests { retry_after }))
            | Self::Await(AwaitError::TooMany(TooManyRequests { retry_after })) => {
                let code = GatewayErrorCode::RateLimitExceeded;
                Rejection::TooManyRequests { retry_after }.respond(&body(code, &message))
            }
            // A new store, which cannot be written at the moment, has no key yet.
            Self::Head(HeadSigningError::Store(error)) if error.is_transient() => {
                unavailable("the head cannot be signed at the moment; try again")
            }
            Self::Head(error) => {
                tracing::error!(%error, "the head cannot be signed");
                ErrorCodes::GATEWAY.respond(&Rejection::Internal)
            }
            Self::Wait(WaitError::TooMany) => unavailable(&message),
            // Another replica may know the request.
            Self::Await(AwaitError::Store(StoreError::Replica(error))) | Self::Store(StoreError::Replica(error))
                if error.is_transient() =>
            {
                unavailable(&format!("{}; try again", error.for_clients()))
            }
            // A ledger of an embedder, which may come back.
            Self::Wait(WaitError::Store(error @ (StoreError::Ledger { .. } | StoreError::LedgerDiverged { .. })))
            | Self::Await(AwaitError::Store(error @ (StoreError::Ledger { .. } | StoreError::LedgerDiverged { .. })))
            | Self::Store(error @ (StoreError::Ledger { .. } | StoreError::LedgerDiverged { .. })) => {
                tracing::error!(%error, "the ledger gives no answer");
                unavailable("the registry's blocks cannot be read at the moment; try again")
            }
            Self::Wait(WaitError::Store(error))
            | Self::Receipt(ReceiptError::Store(error))
            | Self::Await(AwaitError::Store(error))
            | Self::Store(error) => store_error_response(&error),
        }
    }
}

/// The errors that all submitting endpoints share, as `/openapi.json` describes them, beside those
/// of every endpoint.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "describes the answers that GatewayError makes")]
pub enum SubmissionErrors {
    /// The rate limit of the source or of the account is exceeded, see Retry-After:
    /// `rate_limit_exceeded`
    #[response(status = 429)]
    RateLimited(ServiceApiError<GatewayErrorCode>),
    /// No request is accepted at the moment, see Retry-After: `batcher_unavailable`
    #[response(status = 503)]
    Unavailable(ServiceApiError<GatewayErrorCode>),
    /// The answer took longer than the request timeout. The request may have been accepted; submit
    /// it again with its Idempotency-Key: `request_timeout`
    #[response(status = 504)]
    TimedOut(ServiceApiError<GatewayErrorCode>),
}

fn body(code: GatewayErrorCode, message: &str) -> ServiceApiError<GatewayErrorCode> {
    ServiceApiError { code, message: message.to_owned() }
}

fn answer(status: StatusCode, code: GatewayErrorCode, message: &str) -> Response {
    json(status, &body(code, message))
}

fn unavailable(message: &str) -> Response {
    Rejection::Unavailable { retry_after: RetryAfter::SOON }
        .respond(&body(GatewayErrorCode::BatcherUnavailable, message))
}

/// The log has the details for the operator; the client gets an internal error.
fn store_error_response(error: &StoreError) -> Response {
    tracing::error!(%error, "the store failed");
    ErrorCodes::GATEWAY.respond(&Rejection::Internal)
}
