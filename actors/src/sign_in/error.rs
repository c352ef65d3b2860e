//! Why a step of a sign-in failed.

use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
use selfsame_protocol::time::RetryAfter;
use selfsame_protocol::verification::items::ItemError;
use selfsame_storage::StoreError;

use super::signing_keys::SigningError;
use crate::support::replica::AwaitError;
use crate::support::slot::CallError;
use crate::support::source_limits::TooManyRequests;
use crate::verification::error::VerificationError;

/// Why a step of a sign-in failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SignInError {
    /// The request is not valid.
    #[error(transparent)]
    Rejected(#[from] SignInRejection),
    /// A code that has given a token was used again: the code or the client's secret is in other
    /// hands, or the client is faulty. The token is revoked.
    #[error(transparent)]
    CodeReused(SignInRejection),
    /// The proof does not hold.
    #[error("{0}")]
    Proof(ItemError),
    /// The source address has used up its limit of requests that
    /// [`SignInHandle::charge_source`](crate::SignInHandle::charge_source) counts.
    #[error(transparent)]
    TooMany(#[from] TooManyRequests),
    /// The service cannot take the step now.
    #[error("{reason}; try again in {retry_after}")]
    Unavailable {
        /// Why the service cannot take the step, for the client.
        reason: String,
        /// Time until another attempt may succeed. When too many sign-ins are open, time until one
        /// of them no longer counts; otherwise [`RetryAfter::SOON`].
        retry_after: RetryAfter,
    },
    /// The signing keys cannot be used.
    #[error(transparent)]
    Signing(#[from] SigningError),
    /// The store could not be read or written. After a failed write the records may have been
    /// written all the same.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SignInError {
    /// The error as a client gets it, without the details of a failure in the service.
    pub fn to_rejection(&self) -> SignInRejection {
        match self {
            Self::Rejected(rejection) | Self::CodeReused(rejection) => rejection.clone(),
            Self::Proof(failed) => {
                let detail = format!("the proof is not accepted ({}): {failed}", failed.code());
                SignInRejection::of("responses[0]", ErrorKind::InvalidRequest, detail)
            }
            Self::TooMany(_) | Self::Unavailable { .. } => {
                SignInRejection::new(ErrorKind::TemporarilyUnavailable, self.to_string())
            }
            // Without the leader every sign-in is answered so; the status says it once.
            Self::Store(StoreError::Replica(error)) if error.is_transient() => {
                let detail = format!("{}; try again", error.for_clients());
                SignInRejection::new(ErrorKind::TemporarilyUnavailable, detail)
            }
            Self::Store(_) => {
                let detail = "the state cannot be read or written at the moment; try again";
                SignInRejection::new(ErrorKind::TemporarilyUnavailable, detail)
            }
            Self::Signing(_) => SignInRejection::new(ErrorKind::ServerError, "tokens cannot be signed at the moment"),
        }
    }

    /// The service cannot take the step now; a retry after [`RetryAfter::SOON`] may succeed.
    pub(super) fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into(), retry_after: RetryAfter::SOON }
    }

    /// There is no such transaction, or the caller may not use it.
    pub(super) fn no_transaction(reason: &'static str) -> Self {
        let detail = "no such sign-in is under way; it may have expired";
        SignInRejection::new(ErrorKind::NotFound, detail).with_reason(reason).into()
    }

    /// The transaction was answered before.
    pub(super) fn already_answered() -> Self {
        let detail = "this sign-in has been answered; begin another one";
        SignInRejection::new(ErrorKind::InvalidRequest, detail).into()
    }
}

impl From<AwaitError> for SignInError {
    fn from(error: AwaitError) -> Self {
        match error {
            AwaitError::TooMany(error) => error.into(),
            AwaitError::Store(error) => error.into(),
        }
    }
}

impl From<CallError> for SignInError {
    fn from(error: CallError) -> Self {
        Self::unavailable(format!("the session registry cannot be asked ({error})"))
    }
}

impl From<VerificationError> for SignInError {
    fn from(error: VerificationError) -> Self {
        match error {
            VerificationError::Unavailable { reason } => Self::unavailable(reason),
            VerificationError::Store(error) => error.into(),
            error => SignInRejection::new(ErrorKind::InvalidRequest, error.to_string()).into(),
        }
    }
}
