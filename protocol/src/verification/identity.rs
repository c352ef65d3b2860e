//! What a proof is about: environments, credentials, relying parties, the hashes of signals and
//! actions, and the records of nullifiers.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use alloy_primitives::hex;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use strum::EnumCount;
use utoipa::ToSchema;

use super::directory::ActionKey;
use crate::encoding::{DecodeError, Encoding};
use crate::groups::names::GroupId;
use crate::ids::Nullifier;
use crate::time::UnixMillis;
use crate::{B256, U256, encode_enum, encode_fields, keccak256};

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

/// The credential that a legacy proof names: a public one, or that of a group of this service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LegacyCredential {
    /// A public credential. In an environment it can be a group's ([`super::groups`]).
    Public(LegacyIdentifier),
    /// The credential of a group's members, by the group's id.
    Group(GroupId),
}

impl LegacyCredential {
    /// The name in requests, answers and the configuration.
    pub fn name(&self) -> &str {
        match self {
            Self::Public(identifier) => identifier.name(),
            Self::Group(group) => group.as_str(),
        }
    }
}

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(rename_all = "snake_case")]
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

// Hashing texts to elements of the field.

/// keccak256 as a big-endian number, shifted right by 8 bits. The result has at most 248 bits, so
/// it is below the modulus of the scalar field.
pub fn hash_to_field(bytes: &[u8]) -> U256 {
    U256::from_be_bytes(keccak256(bytes).0) >> 8
}

/// The bytes that a signal or an action stands for. `0x` and a non-empty, even number of hex digits
/// stand for the bytes that they write; any other text stands for its UTF-8.
pub fn text_bytes(text: &str) -> Vec<u8> {
    let digits = text.strip_prefix("0x").filter(|digits| !digits.is_empty());
    digits.and_then(|digits| hex::decode(only_digits(digits)?).ok()).unwrap_or_else(|| text.as_bytes().to_vec())
}

/// The digits if they have no prefix; `None` otherwise. `hex::decode` would strip a second `0x`.
fn only_digits(digits: &str) -> Option<&str> {
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(digits)
}

/// The hash of a signal or of an action of the current protocol.
pub fn hash_text(text: &str) -> U256 {
    hash_to_field(&text_bytes(text))
}

/// The external nullifier of a legacy proof: the hash of the application id's hash (32 bytes,
/// big-endian) followed by the action's bytes.
pub fn external_nullifier(app_id: &str, action: &str) -> U256 {
    let mut bytes = hash_to_field(app_id.as_bytes()).to_be_bytes::<32>().to_vec();
    bytes.extend(text_bytes(action));
    hash_to_field(&bytes)
}

// Records of nullifiers and actions: whether a person has proved an action before.

/// The key of a nullifier's record: an action of an application in an environment, and the
/// nullifier, compared as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NullifierKey {
    /// The action that the nullifier was proved for.
    pub action: ActionKey,
    /// The verified nullifier.
    pub nullifier: Nullifier,
}

encode_fields!(NullifierKey { action, nullifier });

/// The record of a verified nullifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullifierRecord {
    /// When it was first verified.
    pub created_at: UnixMillis,
    /// Number of requests that verified it.
    pub verifications: u64,
    /// Whether the sender of the first of them said that the person's app completed the presence
    /// check.
    pub user_presence_completed: bool,
    /// When receivers of events were last told of it; `None` while they were not.
    pub told_at: Option<UnixMillis>,
}

encode_fields!(NullifierRecord { created_at, verifications, user_presence_completed, told_at } version 2 of "nullifier record");

impl NullifierRecord {
    /// Whether receivers of events are told of a verification at `now`: a nullifier that is sent
    /// again within `window` makes no other event, so that a proof that is repeated for ever fills
    /// no log.
    pub fn is_news(&self, now: UnixMillis, window: Duration) -> bool {
        self.told_at.is_none_or(|told_at| Duration::from_millis(now.0.saturating_sub(told_at.0)) >= window)
    }
}

/// The most bytes of an action's text that its record keeps. Every verified proof
/// can create an action, and its record is never deleted.
pub const RECORDED_TEXT: usize = 256;

/// The record of an action that was created by its first verified proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionRecord {
    /// The first [`RECORDED_TEXT`] bytes of the action's text in the request that created it.
    pub action: String,
    /// When its first proof verified.
    pub created_at: UnixMillis,
}

impl ActionRecord {
    /// The record of an action that is created at `created_at`.
    pub fn new(action: &str, created_at: UnixMillis) -> Self {
        Self { action: action[..action.floor_char_boundary(RECORDED_TEXT)].to_owned(), created_at }
    }
}

encode_fields!(ActionRecord { action, created_at } version 2 of "action record");

/// A nullifier has been verified as often as its action allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a nullifier of this request has been verified {max_verifications} times already, which is all that its action allows"
)]
pub struct MaxVerificationsReached {
    /// The limit of the action, at least 1.
    pub max_verifications: u64,
}

/// A proof of a session, of which receivers of events were told. The same proof that is sent again
/// has the same nonce, which it binds, and the same nullifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionProof(B256);

impl SessionProof {
    /// The proof with this nullifier for the nonce of an application's request.
    pub fn new(app_id: &str, environment: Environment, nonce: U256, nullifier: Nullifier) -> Self {
        let mut text = keccak256(app_id).to_vec();
        environment.encode(&mut text);
        text.extend(nonce.to_be_bytes::<32>());
        text.extend(nullifier.0.to_be_bytes::<32>());
        Self(keccak256(text))
    }

    /// The id of its record.
    pub fn record_id(&self) -> B256 {
        self.0
    }
}

/// The record of a nullifier after one more request that verified it. `before` is the record before
/// the request; a `max_verifications` of 0 means no limit.
///
/// # Errors
/// The nullifier has been verified `max_verifications` times already.
pub fn count_verification(
    before: Option<&NullifierRecord>,
    max_verifications: u64,
    now: UnixMillis,
    user_presence_completed: bool,
) -> Result<NullifierRecord, MaxVerificationsReached> {
    let Some(before) = before else {
        return Ok(NullifierRecord { created_at: now, verifications: 1, user_presence_completed, told_at: None });
    };
    if max_verifications != 0 && before.verifications >= max_verifications {
        return Err(MaxVerificationsReached { max_verifications });
    }
    Ok(NullifierRecord { verifications: before.verifications.saturating_add(1), ..*before })
}

#[cfg(test)]
mod tests {
    mod hash {
        use serde_json::Value;

        use super::super::*;

        fn vectors(text: &str) -> Vec<Value> {
            let file: Value = serde_json::from_str(text).expect("JSON");
            file["vectors"].as_array().expect("a list").clone()
        }

        fn padded(value: U256) -> Value {
            format!("{value:#066x}").into()
        }

        #[test]
        fn signal_hashes_match_the_recorded_vectors() {
            for vector in vectors(include_str!("../../vectors/hash_signal.json")) {
                let hash = match vector["bytes_hex"].as_str() {
                    Some(digits) => hash_to_field(&hex::decode(digits).expect("hex")),
                    None => hash_text(vector["signal"].as_str().expect("text")),
                };
                assert_eq!(padded(hash), vector["out"], "{vector}");
            }
        }

        #[test]
        fn external_nullifiers_match_the_recorded_vectors() {
            for vector in vectors(include_str!("../../vectors/hash_external_nullifier.json")) {
                let action = vector["action"].as_str().unwrap_or_default();
                let hash = external_nullifier(vector["app_id"].as_str().expect("text"), action);
                assert_eq!(padded(hash), vector["out"], "{vector}");
            }
        }

        #[test]
        fn only_pairs_of_hex_digits_after_0x_are_hashed_as_bytes() {
            for text in ["0x", "0x1", "0xzz", "1234", "0X12", "0x0x12", "0x12 ", ""] {
                assert_eq!(text_bytes(text), text.as_bytes(), "{text:?}");
            }
            for text in ["0xAb", "0xaB"] {
                assert_eq!(text_bytes(text), [0xab], "{text:?}");
            }
        }
    }

    mod nullifiers {
        use super::super::*;

        #[test]
        fn the_record_of_an_action_has_a_bounded_part_of_its_text() {
            for (text, recorded) in [
                ("a".repeat(2048), "a".repeat(256)),
                (format!("{}é", "b".repeat(255)), "b".repeat(255)),
                ("vote".to_owned(), "vote".to_owned()),
            ] {
                assert_eq!(ActionRecord::new(&text, UnixMillis(1)).action, recorded);
            }
        }

        #[test]
        fn a_nullifier_is_news_once_in_a_window() {
            let record = |told_at| {
                let first =
                    count_verification(None, 0, UnixMillis(0), false).expect("the first verification is allowed");
                NullifierRecord { told_at, ..first }
            };
            let window = Duration::from_secs(10);
            for (told_at, now, is_news) in [
                (None, 0, true),
                (Some(5), 10_004, false),
                (Some(5), 10_005, true),
                // The clock was set back.
                (Some(10_000), 5, false),
            ] {
                let found = record(told_at.map(UnixMillis)).is_news(UnixMillis(now), window);
                assert_eq!(found, is_news, "{told_at:?} {now}");
            }
            assert!(record(Some(UnixMillis(5))).is_news(UnixMillis(5), Duration::ZERO), "no window");
        }

        #[test]
        fn verifications_are_counted_up_to_the_limit() {
            let first = count_verification(None, 2, UnixMillis(1000), true).expect("the first verification is allowed");
            assert_eq!(
                first,
                NullifierRecord {
                    created_at: UnixMillis(1000),
                    verifications: 1,
                    user_presence_completed: true,
                    told_at: None
                }
            );
            let second = count_verification(Some(&first), 2, UnixMillis(2000), false)
                .expect("the second verification is allowed");
            assert_eq!(second, NullifierRecord { verifications: 2, ..first });
            let refused = count_verification(Some(&second), 2, UnixMillis(3000), false);
            assert_eq!(refused, Err(MaxVerificationsReached { max_verifications: 2 }));
            assert!(count_verification(Some(&second), 0, UnixMillis(3000), false).is_ok());
        }
    }
}
