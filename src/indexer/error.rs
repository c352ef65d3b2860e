//! The errors of the indexer and its answers to them.

use hyper::StatusCode;
use selfsame_protocol::Address;
use selfsame_protocol::commitment::SlotError;
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::indexer::IndexerErrorCode;
use selfsame_protocol::json::BodyError;
use selfsame_storage::StoreError;

use crate::http::{ErrorCodes, InterfaceError, Rejection, Response, json};

/// A rejected request to the indexer.
#[derive(Debug, thiserror::Error)]
pub enum IndexerError {
    /// The request was rejected for a reason that all interfaces share: path, method, size, content
    /// type, time.
    #[error(transparent)]
    Http(#[from] Rejection),
    /// The body is not a JSON object with the fields of the query.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// Leaf 0 is reserved.
    #[error("leaf_index: leaf 0 is reserved and belongs to no account")]
    InvalidLeafIndex,
    /// The leaf index is not assigned, at an endpoint that calls this `not_found`.
    #[error("no account has leaf index {0:#x}")]
    NotFound(LeafIndex),
    /// The leaf index is not assigned, at an endpoint that calls this `account_does_not_exist`.
    #[error("no account has leaf index {0:#x}")]
    NoSuchAccount(LeafIndex),
    /// The address is not an authenticator, or was revoked by a recovery.
    #[error("{0:#x} is not an authenticator of any account")]
    NoSuchAuthenticator(Address),
    /// A stored public key cannot be shown as a point.
    #[error(transparent)]
    InvalidAuthenticatorPubkey(#[from] SlotError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl InterfaceError for IndexerError {
    fn reason(&self) -> String {
        match self {
            Self::Http(rejection) => rejection.reason(),
            Self::Body(error) => error.reason(),
            other => other.to_string(),
        }
    }

    fn into_response(self) -> Response {
        let (status, code) = match &self {
            Self::Http(rejection) => return ErrorCodes::INDEXER.respond(rejection),
            Self::Store(error) => {
                // The log has the details for the operator; the client gets an internal error.
                tracing::error!(%error, "the store failed");
                return ErrorCodes::INDEXER.respond(&Rejection::Internal);
            }
            Self::Body(_) => (StatusCode::BAD_REQUEST, IndexerErrorCode::BadRequest),
            Self::InvalidLeafIndex => (StatusCode::BAD_REQUEST, IndexerErrorCode::InvalidLeafIndex),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, IndexerErrorCode::NotFound),
            Self::NoSuchAccount(_) | Self::NoSuchAuthenticator(_) => {
                (StatusCode::BAD_REQUEST, IndexerErrorCode::AccountDoesNotExist)
            }
            Self::InvalidAuthenticatorPubkey(_) => (StatusCode::CONFLICT, IndexerErrorCode::InvalidAuthenticatorPubkey),
        };
        json(status, &ServiceApiError { code, message: self.to_string() })
    }
}
