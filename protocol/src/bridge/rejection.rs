//! Why a wallet does not answer a request with a proof, in the words of the public client kits.

use std::fmt;

use crate::printable::to_printable;

/// The error codes of the public client kits, as far as this project's wallet uses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionCode {
    /// The person does not want to answer.
    UserRejected,
    /// The wallet has no credential that satisfies the request.
    CredentialUnavailable,
    /// The request asks for what this wallet cannot do.
    FeatureUnavailable,
    /// Only a current proof is accepted, and none can be made.
    NoCurrentProof,
    /// The request cannot be read, or contradicts itself.
    MalformedRequest,
    /// The request is for an environment that the wallet makes no proofs for.
    InvalidNetwork,
    /// The root of the legacy proof cannot be made known to the daemon.
    InclusionProofFailed,
    /// Nothing shows that a person is present.
    UserPresenceFailed,
    /// The request is not signed with the relying party's key.
    InvalidRpSignature,
    /// The daemon does not know the relying party.
    UnknownRp,
    /// The request was signed later than now.
    TimestampTooFarInFuture,
    /// The request ends before it begins.
    InvalidTimestamp,
    /// The request has expired.
    RpSignatureExpired,
    /// The wallet has given the same nullifier before, and does not give it again.
    NullifierReplayed,
    /// The wallet failed.
    GenericError,
}

/// Which codes the client kit of a request knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeSet {
    /// Those of the client kits 1 and 2.
    Early,
    /// Those of the client kit 4.
    Present,
}

impl RejectionCode {
    /// The code on the wire. The early client kits do not know every code; they get the nearest one
    /// of theirs.
    pub fn name(self, codes: CodeSet) -> &'static str {
        match (self, codes) {
            (Self::UserRejected, CodeSet::Early) => "verification_rejected",
            (Self::UserRejected, CodeSet::Present) => "user_rejected",
            (Self::CredentialUnavailable, _) => "credential_unavailable",
            (Self::MalformedRequest, _) => "malformed_request",
            (Self::InvalidNetwork, _) => "invalid_network",
            (Self::InclusionProofFailed, _) => "inclusion_proof_failed",
            (Self::GenericError, _) | (_, CodeSet::Early) => "generic_error",
            (Self::FeatureUnavailable, _) => "feature_unavailable",
            (Self::NoCurrentProof, _) => "world_id_4_not_available",
            (Self::UserPresenceFailed, _) => "user_presence_failed",
            (Self::InvalidRpSignature, _) => "invalid_rp_signature",
            (Self::UnknownRp, _) => "unknown_rp",
            (Self::TimestampTooFarInFuture, _) => "timestamp_too_far_in_future",
            (Self::InvalidTimestamp, _) => "invalid_timestamp",
            (Self::RpSignatureExpired, _) => "rp_signature_expired",
            (Self::NullifierReplayed, _) => "nullifier_replayed",
        }
    }
}

/// Whether an error code says that the person does not want to answer, in the words of any client
/// kit. Every other one says that the wallet cannot.
pub fn is_of_person(code: &str) -> bool {
    [CodeSet::Early, CodeSet::Present].iter().any(|codes| RejectionCode::UserRejected.name(*codes) == code)
}

/// The wallet's refusal of a request: a code for the application, and a sentence for the person at
/// the wallet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Rejection {
    /// What the application is told.
    pub code: RejectionCode,
    /// Why, without control characters.
    pub reason: String,
}

impl Rejection {
    /// A refusal with its reason.
    pub fn new(code: RejectionCode, reason: impl fmt::Display) -> Self {
        Self { code, reason: to_printable(&reason.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_client_kits_get_codes_that_they_know() {
        use CodeSet::{Early, Present};
        #[rustfmt::skip]
        let table = [
            (RejectionCode::UserRejected, "verification_rejected", "user_rejected"),
            (RejectionCode::CredentialUnavailable, "credential_unavailable", "credential_unavailable"),
            (RejectionCode::FeatureUnavailable, "generic_error", "feature_unavailable"),
            (RejectionCode::NoCurrentProof, "generic_error", "world_id_4_not_available"),
            (RejectionCode::MalformedRequest, "malformed_request", "malformed_request"),
            (RejectionCode::InvalidNetwork, "invalid_network", "invalid_network"),
            (RejectionCode::InclusionProofFailed, "inclusion_proof_failed", "inclusion_proof_failed"),
            (RejectionCode::UserPresenceFailed, "generic_error", "user_presence_failed"),
            (RejectionCode::InvalidRpSignature, "generic_error", "invalid_rp_signature"),
            (RejectionCode::UnknownRp, "generic_error", "unknown_rp"),
            (RejectionCode::TimestampTooFarInFuture, "generic_error", "timestamp_too_far_in_future"),
            (RejectionCode::InvalidTimestamp, "generic_error", "invalid_timestamp"),
            (RejectionCode::RpSignatureExpired, "generic_error", "rp_signature_expired"),
            (RejectionCode::NullifierReplayed, "generic_error", "nullifier_replayed"),
            (RejectionCode::GenericError, "generic_error", "generic_error"),
        ];
        for (code, early, present) in table {
            assert_eq!((code.name(Early), code.name(Present)), (early, present), "{code:?}");
            assert_eq!(is_of_person(present), code == RejectionCode::UserRejected, "{code:?}");
            assert_eq!(is_of_person(early), code == RejectionCode::UserRejected, "{code:?}");
        }
    }
}
