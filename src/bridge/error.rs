//! The errors of the bridge and its answers to them.

use hyper::StatusCode;
use selfsame_actors::BridgeError;
use selfsame_protocol::bridge::entries::EntryError;
use selfsame_protocol::bridge::{BridgeErrorCode, InvalidEntryId};
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::json::BodyError;
use selfsame_protocol::time::RetryAfter;
use utoipa::IntoResponses;

use crate::http::{ErrorCodes, InterfaceError, Rejection, Response, json};

/// When a client may try again that has too many messages here.
const ROOM_RETRY: RetryAfter = RetryAfter(std::time::Duration::from_secs(30));

/// A rejected request to the bridge.
#[derive(Debug, thiserror::Error)]
pub enum BridgeEndpointError {
    /// The request was rejected for a reason that all interfaces share.
    #[error(transparent)]
    Http(#[from] Rejection),
    /// The body is not a message.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The id in the path is not one.
    #[error("request_id: {0}")]
    Id(#[from] InvalidEntryId),
    /// Nothing is kept under the id.
    #[error("nothing is kept under this id; it was handed out, or has expired")]
    NotFound,
    /// The bridge refuses it.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
}

impl InterfaceError for BridgeEndpointError {
    fn reason(&self) -> String {
        match self {
            Self::Http(rejection) => rejection.reason(),
            Self::Body(error) => error.reason(),
            other => other.to_string(),
        }
    }

    fn into_response(self) -> Response {
        let (status, code) = match &self {
            Self::Http(rejection) => return ErrorCodes::BRIDGE.respond(rejection),
            Self::Body(_) | Self::Id(_) => (StatusCode::BAD_REQUEST, BridgeErrorCode::BadRequest),
            Self::NotFound => (StatusCode::NOT_FOUND, BridgeErrorCode::NotFound),
            Self::Bridge(BridgeError::Entry(error)) => match error {
                EntryError::Taken => (StatusCode::CONFLICT, BridgeErrorCode::RequestIdTaken),
                EntryError::AlreadyAnswered => (StatusCode::CONFLICT, BridgeErrorCode::AlreadyAnswered),
                EntryError::TooLong => (StatusCode::PAYLOAD_TOO_LARGE, BridgeErrorCode::BadRequest),
                // As the public bridge answers it.
                EntryError::NoSuchRequest => (StatusCode::BAD_REQUEST, BridgeErrorCode::NoSuchRequest),
                EntryError::SourceFull => {
                    return ErrorCodes::BRIDGE.respond(&Rejection::TooManyRequests { retry_after: ROOM_RETRY });
                }
                EntryError::Full => {
                    return ErrorCodes::BRIDGE.respond(&Rejection::Unavailable { retry_after: ROOM_RETRY });
                }
            },
            Self::Bridge(BridgeError::TooMany(too_many)) => {
                let retry_after = too_many.retry_after;
                return ErrorCodes::BRIDGE.respond(&Rejection::TooManyRequests { retry_after });
            }
            Self::Bridge(BridgeError::Unavailable { retry_after, .. }) => {
                return ErrorCodes::BRIDGE.respond(&Rejection::Unavailable { retry_after: *retry_after });
            }
        };
        json(status, &ServiceApiError { code, message: self.to_string() })
    }
}

/// The errors that all routes share, as `/openapi.json` describes them.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "describes the answers that BridgeEndpointError makes")]
pub enum SharedErrors {
    /// The source address has as much here as it may, see Retry-After: `rate_limit_exceeded`
    #[response(status = 429)]
    TooMany(ServiceApiError<BridgeErrorCode>),
    /// An error of the service; the log has it under the X-Request-Id of the answer:
    /// `internal_server_error`
    #[response(status = 500)]
    Internal(ServiceApiError<BridgeErrorCode>),
    /// No room, or overloaded, see Retry-After: `bridge_unavailable`
    #[response(status = 503)]
    Unavailable(ServiceApiError<BridgeErrorCode>),
    /// The answer took longer than the request timeout: `request_timeout`
    #[response(status = 504)]
    TimedOut(ServiceApiError<BridgeErrorCode>),
}

/// The further errors of routes with a body, as `/openapi.json` describes them.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "describes the answers that BridgeEndpointError makes")]
pub enum BodyErrors {
    /// The body is longer than 5 MiB, or the answer to a sign-in longer than 64 KiB: `bad_request`
    #[response(status = 413)]
    TooLong(ServiceApiError<BridgeErrorCode>),
    /// The body is not JSON by its Content-Type: `bad_request`
    #[response(status = 415)]
    OtherMediaType(ServiceApiError<BridgeErrorCode>),
}
