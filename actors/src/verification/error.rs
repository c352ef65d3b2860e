//! Why a verification request is not answered with success.

use selfsame_protocol::verification::answer::ItemResult;
use selfsame_protocol::verification::directory::AdmissionError;
use selfsame_protocol::verification::nullifiers::MaxVerificationsReached;
use selfsame_storage::StoreError;

/// Why a verification request is not answered with success.
#[derive(Clone, Debug, thiserror::Error)]
pub enum VerificationError {
    /// The request is refused before its proofs are checked.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// No proof verified.
    #[error("no proof of the request verified; results says why for each")]
    AllFailed { app_id: String, results: Vec<ItemResult> },
    /// A nullifier has been verified as often as its action allows.
    #[error("{limit}")]
    MaxVerifications { app_id: String, limit: MaxVerificationsReached },
    /// Too many proofs wait, or the verifier is restarting, or it took too long. In the last case the nullifiers may have been
    /// recorded.
    #[error("{reason}; try again")]
    Unavailable { reason: String },
    /// The state could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl VerificationError {
    /// The verifier cannot answer now.
    pub(super) fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into() }
    }
}
