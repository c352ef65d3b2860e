//! Why a verification request is not answered with success.

use std::borrow::Cow;

use selfsame_protocol::verification::answer::ItemResult;
use selfsame_protocol::verification::directory::{AdmissionError, OtherSignal};
use selfsame_protocol::verification::identity::MaxVerificationsReached;
use selfsame_protocol::verification::items::OTHER_ENVIRONMENT;
use selfsame_protocol::verification::rp_signature::RpSignatureError;
use selfsame_storage::StoreError;

/// Why a verification request is not answered with success.
#[derive(Clone, Debug, thiserror::Error)]
pub enum VerificationError {
    /// The request is refused before its proofs are checked.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// The relying party's signature is missing or not accepted.
    #[error("{error}")]
    RpSignature {
        /// Id of the application, also when the request named its relying party.
        app_id: String,
        /// What is wrong with the signature.
        error: RpSignatureError,
    },
    /// The signal of a legacy proof is not the signed nonce.
    #[error("{error}")]
    Signal {
        /// Id of the application, also when the request named its relying party.
        app_id: String,
        /// Which proof it is.
        error: OtherSignal,
    },
    /// A request with the same signed nonce was answered with success.
    #[error("the nonce was used already; sign another one for each request")]
    UsedNonce {
        /// Id of the application, also when the request named its relying party.
        app_id: String,
    },
    /// No proof verified. When a legacy proof holds in the application's other environment, the
    /// answer has a code of its own.
    #[error("no proof of the request verified; results says why for each")]
    AllFailed {
        /// Id of the application, also when the request named its relying party.
        app_id: String,
        /// The failure of each item, in the order of the request.
        results: Vec<ItemResult>,
    },
    /// A nullifier has been verified as often as its action allows.
    #[error("{limit}")]
    MaxVerifications {
        /// Id of the application, also when the request named its relying party.
        app_id: String,
        /// How often the action allows a nullifier to be verified.
        limit: MaxVerificationsReached,
    },
    /// Too many proofs or requests wait; or the verifier is not running or did not answer; or the
    /// checks or the recording took longer than the deadline allows. When the recording took too
    /// long, the nullifiers may have been recorded. `reason` says which.
    #[error("{reason}; try again")]
    Unavailable {
        /// Which of these causes applies, for the client.
        reason: String,
    },
    /// The store could not be read or written. After a failed write the nullifiers may have been
    /// recorded all the same.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl VerificationError {
    /// The code of the answer (interface description, section 7.3).
    pub fn code(&self) -> &'static str {
        match self {
            Self::Admission(error) => error.code(),
            Self::RpSignature { error, .. } => error.code(),
            Self::Signal { .. } => "invalid_signal",
            Self::UsedNonce { .. } => "duplicate_nonce",
            Self::AllFailed { results, .. } if has_other_environment(results) => OTHER_ENVIRONMENT,
            Self::AllFailed { .. } => "all_verifications_failed",
            Self::MaxVerifications { .. } => "max_verifications_reached",
            Self::Unavailable { .. } | Self::Store(_) => "verifier_unavailable",
        }
    }

    /// The part of the request that is refused; `None` for the request as a whole.
    pub fn attribute(&self) -> Option<Cow<'static, str>> {
        let attribute = match self {
            Self::Signal { error, .. } => return Some(format!("responses[{}].signal_hash", error.index).into()),
            Self::Admission(error) => error.attribute(),
            Self::RpSignature { .. } => Some("rp_signature"),
            Self::UsedNonce { .. } => Some("nonce"),
            Self::MaxVerifications { .. } => Some("action"),
            Self::AllFailed { results, .. } if has_other_environment(results) => Some("environment"),
            Self::AllFailed { .. } | Self::Unavailable { .. } | Self::Store(_) => None,
        };
        attribute.map(Cow::Borrowed)
    }

    /// Id of the application that the request is refused for, if there is one.
    pub fn app_id(&self) -> Option<&str> {
        match self {
            Self::Admission(error) => error.app_id(),
            Self::RpSignature { app_id, .. }
            | Self::Signal { app_id, .. }
            | Self::UsedNonce { app_id }
            | Self::AllFailed { app_id, .. }
            | Self::MaxVerifications { app_id, .. } => Some(app_id),
            Self::Unavailable { .. } | Self::Store(_) => None,
        }
    }

    /// The failure of each item, when no proof verified.
    pub fn results(&self) -> Option<&[ItemResult]> {
        if let Self::AllFailed { results, .. } = self { Some(results) } else { None }
    }

    /// The verifier cannot answer now.
    pub(super) fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into() }
    }
}

/// Whether one of the proofs holds in the application's other environment.
fn has_other_environment(results: &[ItemResult]) -> bool {
    results.iter().any(|result| result.code == Some(OTHER_ENVIRONMENT))
}
