//! Environments, kinds of proof, credentials, identifiers of relying parties.

use std::fmt::{self, Display};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use strum::EnumCount;
use utoipa::ToSchema;

use crate::encoding::{DecodeError, Encoding};
use crate::{encode_enum, keccak256};

/// The environment of proofs, roots and keys. A request for `sandbox` is treated as staging.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumCount,
    JsonSchema,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Environment {
    /// Proofs of real credentials; the default.
    #[default]
    Production,
    /// Proofs for tests, such as the simulator's.
    Staging,
}

impl Environment {
    /// Both values.
    pub const ALL: [Self; Self::COUNT] = [Self::Production, Self::Staging];

    /// The name in configuration and requests.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The environment of an application of which nothing else is known: staging for ids that begin
    /// with `app_staging_`, production for others.
    pub fn of_application(app_id: &str) -> Self {
        if app_id.starts_with("app_staging_") { Self::Staging } else { Self::Production }
    }
}

encode_enum!(Environment { Production = 0, Staging = 1 } of "an environment");

/// The two kinds of proof, and of roots.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumCount,
    JsonSchema,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ProofKind {
    /// Protocol version 3.0.
    #[default]
    Legacy,
    /// Protocol version 4.0.
    Current,
}

impl ProofKind {
    /// Both values.
    pub const ALL: [Self; Self::COUNT] = [Self::Legacy, Self::Current];

    /// The name in configuration and commands.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The protocol version of requests with proofs of this kind.
    pub fn protocol_version(self) -> &'static str {
        match self {
            Self::Legacy => "3.0",
            Self::Current => "4.0",
        }
    }
}

encode_enum!(ProofKind { Legacy = 0, Current = 1 } of "a kind of proof");

/// The credential that a legacy proof is for. In the public
/// system each has an identity tree of its own.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumString,
    strum::EnumCount,
    JsonSchema,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LegacyIdentifier {
    /// `orb`: a person whose uniqueness was verified by an orb.
    Orb,
    /// `secure_document`.
    SecureDocument,
    /// `document`.
    Document,
    /// `device`.
    Device,
    /// `face`.
    Face,
    /// `selfie`.
    Selfie,
}

impl LegacyIdentifier {
    /// Every value.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Orb, Self::SecureDocument, Self::Document, Self::Device, Self::Face, Self::Selfie];

    /// The name in requests and configuration.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Parses a name; `None` when no credential has it.
    pub fn from_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    /// The names of several values, joined with `, `.
    pub fn names(identifiers: &[Self]) -> String {
        identifiers.iter().map(|identifier| identifier.name()).collect::<Vec<_>>().join(", ")
    }
}

encode_enum!(LegacyIdentifier {
    Orb = 0,
    SecureDocument = 1,
    Document = 2,
    Device = 3,
    Face = 4,
    Selfie = 5,
} of "a credential");

/// A relying party's identifier, `rp_` and 16 hex digits; the number in the digits is the numeric
/// id that proofs carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ToSchema)]
#[schema(value_type = String, pattern = "^rp_[0-9a-f]{16}$", example = "rp_6765160973bf7042")]
pub struct RelyingPartyId(pub u64);

impl RelyingPartyId {
    /// The identifier that belongs to an application: the first 8 bytes of keccak256 of its id.
    pub fn derived_from(app_id: &str) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = keccak256(app_id).0;
        Self(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }
}

impl Encoding for RelyingPartyId {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Encoding::decode(input).map(Self)
    }
}

impl Display for RelyingPartyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rp_{:016x}", self.0)
    }
}

impl FromStr for RelyingPartyId {
    type Err = String;

    /// Reads `rp_` and 16 hex digits of either case.
    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("rp_").filter(|digits| digits.len() == 16);
        digits
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .map(Self)
            .ok_or_else(|| format!("{text:?} is not a relying-party id: rp_ and 16 hex digits"))
    }
}

impl Serialize for RelyingPartyId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RelyingPartyId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The environment as the request names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedEnvironment {
    /// `production`, or no environment in the body.
    Production,
    /// `staging`.
    Staging,
    /// Staging under another name.
    Sandbox,
}

impl From<Environment> for RequestedEnvironment {
    fn from(environment: Environment) -> Self {
        match environment {
            Environment::Production => Self::Production,
            Environment::Staging => Self::Staging,
        }
    }
}

impl RequestedEnvironment {
    /// The environment whose keys, roots and records the request uses.
    pub fn environment(self) -> Environment {
        match self {
            Self::Production => Environment::Production,
            Self::Staging | Self::Sandbox => Environment::Staging,
        }
    }

    /// The name that the answer repeats.
    pub fn name(self) -> &'static str {
        match self {
            Self::Production => "production",
            Self::Staging => "staging",
            Self::Sandbox => "sandbox",
        }
    }
}
