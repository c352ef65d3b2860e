//! The texts and numbers that name a group, its rolls, its members, a day and its byte strings.
//!
//! Each is read in one form only: another spelling is an error, so that a thing has one name.

use std::fmt::{self, Display};
use std::str::FromStr;

use alloy_primitives::{U256, hex};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::encoding::{DecodeError, Encoding};
use crate::time::UnixSeconds;
use crate::tree::is_below_field;

/// A text that is not in the form that its field needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FormError(pub &'static str);

/// Makes a name type: a checked text.
macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $pattern:literal, $example:literal, $problem:literal, $is_valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, ToSchema)]
        #[serde(transparent)]
        #[schema(value_type = String, pattern = $pattern, example = $example)]
        pub struct $name(Box<str>);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = FormError;

            fn from_str(text: &str) -> Result<Self, FormError> {
                let is_valid: fn(&str) -> bool = $is_valid;
                if is_valid(text) { Ok(Self(text.into())) } else { Err(FormError($problem)) }
            }
        }

        impl Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }

        impl Encoding for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                self.0.to_string().encode(out);
            }

            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                String::decode(input)?.parse().map_err(|_| DecodeError::OutOfRange(stringify!($name)))
            }
        }
    };
}

/// The most bytes of a group's id.
const LONGEST_GROUP_ID: usize = 32;

/// Id of a group, which is also the name of its credential. It is as small as a hash, and copied as
/// freely.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ToSchema)]
#[schema(value_type = String, pattern = "^[a-z0-9_-]{1,32}$", example = "members")]
pub struct GroupId(
    /// The text, with zeros behind it.
    [u8; LONGEST_GROUP_ID],
);

impl GroupId {
    /// The text.
    pub fn as_str(&self) -> &str {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(LONGEST_GROUP_ID);
        std::str::from_utf8(&self.0[..length]).unwrap_or_default()
    }
}

impl FromStr for GroupId {
    type Err = FormError;

    fn from_str(text: &str) -> Result<Self, FormError> {
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        if !is_made_of(text, LONGEST_GROUP_ID, is_allowed) {
            return Err(FormError("must have 1 to 32 characters, each a lower-case letter, a digit, '_' or '-'"));
        }
        let mut bytes = [0; LONGEST_GROUP_ID];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Ok(Self(bytes))
    }
}

impl Display for GroupId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.as_str())
    }
}

impl Serialize for GroupId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for GroupId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for GroupId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "GroupId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[a-z0-9_-]{1,32}$" })
    }
}

impl Encoding for GroupId {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_str().to_owned().encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        String::decode(input)?.parse().map_err(|_| DecodeError::OutOfRange("ids of groups"))
    }
}

name_type! {
    /// Name of a roll of a group.
    RollName, "^[a-z0-9._-]{1,64}$", "2026-assembly",
    "must have 1 to 64 characters, each a lower-case letter, a digit, '.', '_' or '-'",
    |text| is_made_of(text, 64, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte))
}

name_type! {
    /// The number under which an organization knows a member: any text. Compared as bytes, never
    /// normalized.
    MemberNumber, "^([^\\u0000-\\u001f\\u007f\\s]|[^\\u0000-\\u001f\\u007f\\s][^\\u0000-\\u001f\\u007f]{0,62}[^\\u0000-\\u001f\\u007f\\s])$", "417",
    "must have 1 to 64 bytes, no control characters, and no space at either end",
    |text| {
        // A space of another script at an end would make a second member of the same number.
        !text.is_empty() && text.len() <= 64 && !text.chars().any(char::is_control) && text.trim() == text
    }
}

fn is_made_of(text: &str, most: usize, is_allowed: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.len() <= most && text.bytes().all(is_allowed)
}

/// A day in UTC. Members, codes and sealed copies have days only, so that records cannot be joined
/// by their times. In JSON and for people `YYYY-MM-DD`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, ToSchema)]
#[schema(value_type = String, pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2026-12-01")]
pub struct Day(
    /// Days since the Unix epoch.
    pub u32,
);

const DAY_SECONDS: u64 = 86_400;

/// 9999-12-31.
const LAST_DAY: Day = Day(2_932_896);

impl Day {
    /// The day that a time is in.
    pub fn of(time: UnixSeconds) -> Self {
        Self(u32::try_from(time.0 / DAY_SECONDS).unwrap_or(u32::MAX))
    }

    /// The first second of the day.
    pub fn begins_at(self) -> UnixSeconds {
        UnixSeconds(u64::from(self.0) * DAY_SECONDS)
    }

    /// So many days later.
    pub fn plus(self, days: u32) -> Self {
        Self(self.0.saturating_add(days))
    }
}

impl Display for Day {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Later days have no text of this form; a damaged record, or days without end, may give
        // one.
        let time = std::time::UNIX_EPOCH + Self(self.0.min(LAST_DAY.0)).begins_at().since_epoch();
        let text = humantime::format_rfc3339_seconds(time).to_string();
        formatter.write_str(text.split('T').next().unwrap_or_default())
    }
}

impl Serialize for Day {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl FromStr for Day {
    type Err = FormError;

    fn from_str(text: &str) -> Result<Self, FormError> {
        let wrong = FormError("must be a day in UTC, as in 2026-12-01");
        let is_day = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        let time = humantime::parse_rfc3339(&format!("{text}T00:00:00Z")).ok().filter(|_| is_day).ok_or(wrong)?;
        let passed = time.duration_since(std::time::UNIX_EPOCH).map_err(|_| wrong)?;
        Ok(Self::of(UnixSeconds(passed.as_secs())))
    }
}

impl Encoding for Day {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Encoding::decode(input).map(Self)
    }
}

/// Makes a type of a fixed number of bytes, whose text is lower-case hex without `0x`.
macro_rules! bytes_type {
    ($(#[$doc:meta])* $name:ident, $length:literal, $pattern:literal, $problem:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ToSchema)]
        #[schema(value_type = String, pattern = $pattern)]
        pub struct $name(pub [u8; $length]);

        impl FromStr for $name {
            type Err = FormError;

            fn from_str(text: &str) -> Result<Self, FormError> {
                let is_lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
                let mut bytes = [0; $length];
                match text.len() == 2 * $length && text.bytes().all(is_lower) {
                    true => hex::decode_to_slice(text, &mut bytes).map_err(|_| FormError($problem))?,
                    false => return Err(FormError($problem)),
                }
                Ok(Self(bytes))
            }
        }

        impl Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&hex::encode(self.0))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }

        impl Encoding for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                self.0.encode(out);
            }

            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                Encoding::decode(input).map(Self)
            }
        }
    };
}

/// Bytes whose text an error or a log line may show.
macro_rules! public_debug {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{}({self})", stringify!($name))
            }
        }
    )*};
}

/// Bytes that nothing shows but their owner.
macro_rules! secret_debug {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(concat!(stringify!($name), "(hidden)"))
            }
        }
    )*};
}

bytes_type! {
    /// The group key: 32 random bytes that are made with the group and published with it.
    GroupKey, 32, "^[0-9a-f]{64}$", "must be 64 lower-case hex digits without 0x"
}
bytes_type! {
    /// SHA-256 of the bytes of a code, a secret, a write key or a handle, as it is stored.
    SecretHash, 32, "^[0-9a-f]{64}$", "must be 64 lower-case hex digits without 0x"
}
bytes_type! {
    /// What a member has to know to replace the leaf, beside the seed: 32 random bytes, another one
    /// after each replacement.
    ReplacementSecret, 32, "^[0-9a-f]{64}$", "must be 64 lower-case hex digits without 0x"
}
bytes_type! {
    /// What finds a sealed copy: 32 bytes.
    SealedHandle, 32, "^[0-9a-f]{64}$", "must be 64 lower-case hex digits without 0x"
}
bytes_type! {
    /// What its owner shows to change a sealed copy: 32 random bytes.
    WriteKey, 32, "^[0-9a-f]{64}$", "must be 64 lower-case hex digits without 0x"
}
public_debug!(GroupKey, SecretHash);
secret_debug!(ReplacementSecret, SealedHandle, WriteKey);

impl SecretHash {
    /// The hash of the bytes of a secret.
    pub fn of(secret: &[u8]) -> Self {
        Self(Sha256::digest(secret).into())
    }
}

/// A number of the tree or of a proof: below the modulus of the scalar field. In JSON `0x` and
/// exactly 64 lower-case hex digits.
///
/// It is a leaf (an identity commitment, or 0 for a removed one), the root of a page, or an
/// enrolment nullifier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, ToSchema)]
#[schema(
    value_type = String,
    pattern = "^0x[0-9a-f]{64}$",
    example = "0x115cc0f5e7d690413df64c6b9662e9cf2a3617f2743245519e19607a4417189a"
)]
pub struct FieldNumber(pub U256);

impl FieldNumber {
    /// The leaf of a position without a member, or that a member lost.
    pub const ZERO: Self = Self(U256::ZERO);

    /// As 32 bytes, big-endian.
    pub fn to_bytes(self) -> [u8; 32] {
        self.0.to_be_bytes()
    }
}

impl Display for FieldNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#066x}", self.0)
    }
}

impl FromStr for FieldNumber {
    type Err = FormError;

    fn from_str(text: &str) -> Result<Self, FormError> {
        let number = padded_number(text)?;
        if is_below_field(&number) {
            Ok(Self(number))
        } else {
            Err(FormError("must be below the modulus of the field"))
        }
    }
}

impl Serialize for FieldNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FieldNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Encoding for FieldNumber {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let number = U256::decode(input)?;
        if is_below_field(&number) { Ok(Self(number)) } else { Err(DecodeError::OutOfRange("the scalar field")) }
    }
}

/// `0x` and exactly 64 lower-case hex digits, whatever the value.
pub(super) fn padded_number(text: &str) -> Result<U256, FormError> {
    let wrong = FormError("must be 0x and 64 lower-case hex digits");
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 64).ok_or(wrong)?;
    let is_lower = digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    U256::from_str_radix(digits, 16).ok().filter(|_| is_lower).ok_or(wrong)
}
