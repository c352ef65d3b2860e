//! The settings that the rules depend on.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::encoding::{DecodeError, Encoding};
use crate::{commitment, encode_enum};

/// Whether a stated commitment is compared with the account's public keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommitmentCheck {
    /// Commitments are not compared, as in the public registry.
    #[default]
    Off,
    /// The rules refuse a commitment that is not the hash of the slots' public keys, and a public
    /// key that does not decode.
    Enforce,
}

encode_enum!(CommitmentCheck { Off = 0, Enforce = 1 } of "commitment check");

/// The rule parameters in force. Every block carries its own, so that applying it again needs no
/// configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleParameters {
    /// Number of authenticator slots of an account, 1 to 7.
    #[serde(deserialize_with = "max_authenticators")]
    #[schema(example = 7)]
    pub max_authenticators: u32,
    /// Seconds from the block that starts an update of the recovery agent to its earliest
    /// execution.
    #[schema(example = 1_209_600)]
    pub recovery_agent_update_cooldown: u64,
    /// Seconds for which a replaced root stays valid, the last second included.
    #[schema(example = 3600)]
    pub root_validity_window: u64,
    /// Whether commitments are compared with public keys.
    pub commitment_check: CommitmentCheck,
}

/// A commitment has seven slots, and an account needs at least one authenticator.
const AUTHENTICATORS: RangeInclusive<u32> = 1..=commitment::MAX_AUTHENTICATORS as u32;

fn max_authenticators<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let max = u32::deserialize(deserializer)?;
    if AUTHENTICATORS.contains(&max) {
        return Ok(max);
    }
    Err(D::Error::invalid_value(Unexpected::Unsigned(max.into()), &"1 to 7 authenticators"))
}

impl Encoding for RuleParameters {
    fn encode(&self, out: &mut Vec<u8>) {
        let Self { max_authenticators, recovery_agent_update_cooldown, root_validity_window, commitment_check } = self;
        max_authenticators.encode(out);
        recovery_agent_update_cooldown.encode(out);
        root_validity_window.encode(out);
        commitment_check.encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let rules = Self {
            max_authenticators: Encoding::decode(input)?,
            recovery_agent_update_cooldown: Encoding::decode(input)?,
            root_validity_window: Encoding::decode(input)?,
            commitment_check: Encoding::decode(input)?,
        };
        let is_possible = AUTHENTICATORS.contains(&rules.max_authenticators);
        if is_possible { Ok(rules) } else { Err(DecodeError::OutOfRange("max_authenticators")) }
    }
}

impl Default for RuleParameters {
    /// The parameters of the public registry: 7 authenticators, 14 days of cooldown, 1 hour of
    /// validity, commitments not compared.
    fn default() -> Self {
        Self {
            max_authenticators: commitment::MAX_AUTHENTICATORS as u32,
            recovery_agent_update_cooldown: 14 * 24 * 3600,
            root_validity_window: 3600,
            commitment_check: CommitmentCheck::Off,
        }
    }
}
