//! What the operator interface answers when something is wrong.

use crate::http::{ErrorCodes, InterfaceError, Refusal, Response};

/// A refused request to the operator interface.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// HTTP itself.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// The metrics could not be written out.
    #[error("the metrics could not be written: {0}")]
    Metrics(#[from] std::fmt::Error),
}

impl InterfaceError for OperatorError {
    fn into_response(self) -> Response {
        match self {
            Self::Refusal(refusal) => ErrorCodes::OPERATOR.respond(&refusal),
            Self::Metrics(error) => {
                tracing::error!(%error, "the metrics could not be written");
                ErrorCodes::OPERATOR.respond(&Refusal::Internal)
            }
        }
    }
}
