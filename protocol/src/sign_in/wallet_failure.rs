//! Why a wallet gave no proof for a sign-in, when the person did not refuse.

use crate::encode_enum;

/// Why a wallet gave no proof. The codes are those of the public client kits, in each spelling that
/// wallets and the libraries behind them use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WalletFailure {
    /// The wallet has given the proof of this person for this application before, and gives none
    /// again for a time.
    NullifierReplayed,
    /// The wallet cannot make a current proof.
    NoCurrentProof,
    /// The wallet cannot make a legacy proof.
    NoLegacyProof,
    /// The wallet has no credential that the application accepts.
    CredentialUnavailable,
    /// Anything else: the wallet, or the nodes behind it, failed.
    Broken,
}

encode_enum!(WalletFailure {
    NullifierReplayed = 0,
    NoCurrentProof = 1,
    NoLegacyProof = 2,
    CredentialUnavailable = 3,
    Broken = 4,
} of "a failure of a wallet");

impl WalletFailure {
    /// All failures.
    pub const ALL: [Self; 5] =
        [Self::NullifierReplayed, Self::NoCurrentProof, Self::NoLegacyProof, Self::CredentialUnavailable, Self::Broken];

    /// What an error code of a wallet says.
    pub fn of_code(code: &str) -> Self {
        match code {
            "nullifier_replayed" | "nullifier_replay" => Self::NullifierReplayed,
            "world_id_4_not_available" => Self::NoCurrentProof,
            "world_id_3_not_available" => Self::NoLegacyProof,
            "credential_unavailable" | "unfulfillable_request" => Self::CredentialUnavailable,
            _ => Self::Broken,
        }
    }

    /// The name in the audit trail.
    pub fn name(self) -> &'static str {
        match self {
            Self::NullifierReplayed => "nullifier_replayed",
            Self::NoCurrentProof => "current_proof_not_available",
            Self::NoLegacyProof => "legacy_proof_not_available",
            Self::CredentialUnavailable => "credential_unavailable",
            Self::Broken => "something_broke",
        }
    }

    /// The error of the authorization response (OpenID Connect Core, section 3.1.2.6, and RFC 6749,
    /// section 4.1.2.1): what the person can mend needs the person, and what only time can mend is
    /// not available for the moment. It is never `access_denied`, because the person refused
    /// nothing.
    pub fn error(self) -> &'static str {
        match self {
            Self::Broken => "temporarily_unavailable",
            _ => "interaction_required",
        }
    }

    /// The description of that error, for the people who run the application.
    pub fn description(self) -> &'static str {
        match self {
            Self::NullifierReplayed => {
                "the authenticator gave this person's proof before and gives none again for a time (nullifier_replayed)"
            }
            Self::NoCurrentProof => "the authenticator cannot make a current proof (world_id_4_not_available)",
            Self::NoLegacyProof => "the authenticator cannot make a legacy proof (world_id_3_not_available)",
            Self::CredentialUnavailable => {
                "the authenticator has no credential that is accepted (credential_unavailable)"
            }
            Self::Broken => "the authenticator failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_own_words_and_is_no_refusal() {
        #[rustfmt::skip]
        let table = [
            ("nullifier_replayed", WalletFailure::NullifierReplayed, "interaction_required"),
            ("nullifier_replay", WalletFailure::NullifierReplayed, "interaction_required"),
            ("world_id_4_not_available", WalletFailure::NoCurrentProof, "interaction_required"),
            ("world_id_3_not_available", WalletFailure::NoLegacyProof, "interaction_required"),
            ("credential_unavailable", WalletFailure::CredentialUnavailable, "interaction_required"),
            ("unfulfillable_request", WalletFailure::CredentialUnavailable, "interaction_required"),
            ("invalid_rp_signature", WalletFailure::Broken, "temporarily_unavailable"),
            ("generic_error", WalletFailure::Broken, "temporarily_unavailable"),
            ("", WalletFailure::Broken, "temporarily_unavailable"),
        ];
        for (code, failure, error) in table {
            assert_eq!(WalletFailure::of_code(code), failure, "{code}");
            assert_eq!(failure.error(), error, "{code}");
        }
        let names: std::collections::HashSet<_> = WalletFailure::ALL.iter().map(|failure| failure.name()).collect();
        let descriptions: std::collections::HashSet<_> =
            WalletFailure::ALL.iter().map(|failure| failure.description()).collect();
        assert_eq!((names.len(), descriptions.len()), (5, 5));
    }
}
