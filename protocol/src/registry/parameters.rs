//! The settings that the rules depend on.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::encode_fields;
use crate::encoding::{DecodeError, Encoding};

/// Whether a stated commitment is compared with the account's public keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommitmentCheck {
    /// Never compared, as in the public registry.
    #[default]
    Off,
    /// A commitment that is not the hash of the slots' public keys is refused, and so is a public key that does not decode.
    Enforce,
}

impl Encoding for CommitmentCheck {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(match self {
            Self::Off => 0,
            Self::Enforce => 1,
        });
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Ok(Self::Off),
            1 => Ok(Self::Enforce),
            tag => Err(DecodeError::UnknownTag { kind: "commitment check", tag }),
        }
    }
}

/// The rule parameters in force. Every block carries its own, so that applying it again needs no configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleParameters {
    /// How many authenticator slots an account has, at most seven.
    #[schema(example = 7)]
    pub max_authenticators: u32,
    /// Seconds between asking for a new recovery agent and the earliest execution.
    #[schema(example = 1_209_600)]
    pub recovery_agent_update_cooldown: u64,
    /// Seconds for which a replaced root stays valid.
    #[schema(example = 3600)]
    pub root_validity_window: u64,
    /// Whether commitments are compared with public keys.
    pub commitment_check: CommitmentCheck,
}

encode_fields!(RuleParameters {
    max_authenticators,
    recovery_agent_update_cooldown,
    root_validity_window,
    commitment_check
});

impl Default for RuleParameters {
    /// The public registry's: seven authenticators, fourteen days, one hour, commitments not compared.
    fn default() -> Self {
        Self {
            max_authenticators: crate::commitment::MAX_AUTHENTICATORS as u32,
            recovery_agent_update_cooldown: 14 * 24 * 3600,
            root_validity_window: 3600,
            commitment_check: CommitmentCheck::Off,
        }
    }
}
