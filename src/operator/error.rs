//! What the operator interface answers when something is wrong.

use hyper::StatusCode;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use selfsame_actors::SignInFailure;
use selfsame_protocol::json::BodyError;
use selfsame_storage::StoreError;

use crate::http::{ErrorBody, ErrorCodes, InterfaceError, Refusal, Response, json};

/// A refused request to the operator interface.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// HTTP itself.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// A changing call without the token.
    #[error("changing calls need `Authorization: Bearer` and the text of operator.token in the data folder")]
    Unauthorized,
    /// The body is not the object it should be.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// A field has a value that it cannot have.
    #[error("{0}")]
    Field(String),
    /// No verification key is the simulator's.
    #[error("no verification key of staging is the simulator's; set verifier.keys.staging")]
    NoSimulator,
    /// The metrics could not be written out.
    #[error("the metrics could not be written: {0}")]
    Metrics(#[from] std::fmt::Error),
    /// The signing keys cannot be read or changed.
    #[error(transparent)]
    SignIn(#[from] SignInFailure),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl InterfaceError for OperatorError {
    fn into_response(self) -> Response {
        let message = self.to_string();
        let answer = |status, code| json(status, &ErrorBody { code, message: &message });
        match self {
            Self::Refusal(refusal) => ErrorCodes::OPERATOR.respond(&refusal),
            Self::Unauthorized => {
                let mut response = answer(StatusCode::UNAUTHORIZED, "unauthorized");
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                response
            }
            Self::Body(_) | Self::Field(_) => answer(StatusCode::BAD_REQUEST, "bad_request"),
            Self::NoSimulator => answer(StatusCode::NOT_FOUND, "not_found"),
            Self::Metrics(error) => {
                tracing::error!(%error, "the metrics could not be written");
                ErrorCodes::OPERATOR.respond(&Refusal::Internal)
            }
            Self::SignIn(error) => {
                tracing::error!(%error, "the signing keys cannot be read or changed");
                ErrorCodes::OPERATOR.respond(&Refusal::Internal)
            }
            Self::Store(error) => {
                tracing::error!(%error, "the store failed");
                ErrorCodes::OPERATOR.respond(&Refusal::Internal)
            }
        }
    }
}
