//! The formats of single values: how a text becomes a typed setting, and what the message says when
//! it does not.

use std::fmt::{self, Display};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use alloy_primitives::{Address, U256, hex};
use ipnet::{IpNet, Ipv4Net};
use schemars::JsonSchema;
use selfsame_protocol::client_secret::ClientSecret;
use selfsame_protocol::commitment::{PublicKey, PublicKeyError};
use selfsame_protocol::sign_in::ResponseType;
use selfsame_protocol::tree::{Root, is_below_field};
pub use selfsame_protocol::verification::RelyingPartyId;
use serde::de::{Deserialize, Deserializer, Error as _};
use sha2::{Digest, Sha256};

use super::formats;

/// Reads a text with `parse`; `right` describes a valid text for the error.
fn read<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    right: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).ok_or_else(|| D::Error::custom(format!("{text:?} is not {right}")))
}

/// Reads a text with the `FromStr` of its type, whose error says what is wrong.
fn parse_text<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

pub(super) fn socket_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    read(deserializer, "an IP address and port, such as 127.0.0.1:8080 or [::1]:8080", |text| text.parse().ok())
}

pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    read(deserializer, "a duration, such as 5ms, 10s, 1h or 14d", |text| humantime::parse_duration(text).ok())
}

/// A duration; the key is left out for `None`.
pub(super) fn optional_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
    read(deserializer, "a time, such as 2026-01-31T12:00:00Z", |text| humantime::parse_rfc3339(text).ok())
}

/// An address; the key is left out for `None`.
pub(super) fn optional_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Address>, D::Error> {
    read(deserializer, "an address: 0x and 40 hex digits", |text| text.parse().map(Some).ok())
}

/// A list of addresses.
pub(super) fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Address>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(transparent)]
    struct Listed(#[serde(deserialize_with = "optional_address")] Option<Address>);
    let listed = Vec::<Listed>::deserialize(deserializer)?;
    Ok(listed.into_iter().filter_map(|Listed(address)| address).collect())
}

/// A numeric string of at most 256 bits.
pub(super) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<U256, D::Error> {
    read(deserializer, "a number: decimal digits, or 0x and hex digits, of at most 256 bits", |text| {
        let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => (digits, 16),
            None => (text, 10),
        };
        let plain = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
        plain.then(|| U256::from_str_radix(digits, radix.into()).ok()).flatten()
    })
}

/// A number that is an element of the BN254 scalar field, as roots and the coordinates of public
/// keys are.
pub(super) fn field_element<'de, D: Deserializer<'de>>(deserializer: D) -> Result<U256, D::Error> {
    let value = number(deserializer)?;
    let too_large = || D::Error::custom("is not below the modulus of the BN254 scalar field");
    if is_below_field(&value) { Ok(value) } else { Err(too_large()) }
}

/// A root of the tree, as a number.
pub(super) fn root<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Root, D::Error> {
    field_element(deserializer).map(Root::from_number)
}

/// A point of the curve BabyJubJub by its affine coordinates.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Point {
    /// The first coordinate.
    #[serde(deserialize_with = "field_element")]
    #[schemars(with = "formats::Number")]
    x: U256,
    /// The second coordinate.
    #[serde(deserialize_with = "field_element")]
    #[schemars(with = "formats::Number")]
    y: U256,
}

/// A public key by its affine coordinates.
pub(super) fn public_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PublicKey, D::Error> {
    let Point { x, y } = Point::deserialize(deserializer)?;
    PublicKey::from_coordinates(&x, &y).map_err(|error| {
        D::Error::custom(match error {
            PublicKeyError::NotCanonical => "has a coordinate that is not below the modulus of the BN254 scalar field",
            PublicKeyError::Identity => "is the identity of the curve, which cannot be a key",
            PublicKeyError::NotOnCurve => "is not a point of BabyJubJub; give the affine coordinates of a public key",
            PublicKeyError::NotInSubgroup => {
                "is a point of BabyJubJub outside its prime-order subgroup, which cannot be a key"
            }
        })
    })
}

/// A public key that may be left out.
pub(super) fn optional_public_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PublicKey>, D::Error> {
    struct Key(PublicKey);
    impl<'de> Deserialize<'de> for Key {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            public_key(deserializer).map(Self)
        }
    }
    Ok(Option::<Key>::deserialize(deserializer)?.map(|key| key.0))
}

/// An application's id: `app_` and 1 to 128 letters, digits, `-` or `_`.
pub(super) fn app_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    read(deserializer, "an application id: app_ and 1 to 128 letters, digits, - or _", |text| {
        let rest = text.strip_prefix("app_")?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        ((1..=128).contains(&rest.len()) && rest.bytes().all(is_plain)).then(|| text.to_owned())
    })
}

/// The response types of an application without a setting.
pub(super) fn code_alone() -> Vec<ResponseType> {
    vec![ResponseType::CODE]
}

/// A list of response types, the words of each in any order.
pub(super) fn response_types<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ResponseType>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let mut types: Vec<ResponseType> = Vec::new();
    for text in texts {
        let supported = ResponseType::SUPPORTED.join(", ");
        let wrong = || D::Error::custom(format!("{text:?} is not a response type; the types are: {supported}"));
        let response_type = ResponseType::parse(&text).ok_or_else(wrong)?;
        if types.contains(&response_type) {
            return Err(D::Error::custom(format!("{text:?} is in the list twice")));
        }
        types.push(response_type);
    }
    match types.is_empty() {
        true => Err(D::Error::custom("is empty; name at least \"code\"")),
        false => Ok(types),
    }
}

/// The status of the introspection answer for a token that is not active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InactiveStatus {
    /// 401, as at the public interface.
    #[default]
    Unauthorized,
    /// 200, as in RFC 7662.
    Ok,
}

impl<'de> Deserialize<'de> for InactiveStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u16::deserialize(deserializer)? {
            401 => Ok(Self::Unauthorized),
            200 => Ok(Self::Ok),
            other => Err(D::Error::custom(format!("{other} is neither 401 nor 200"))),
        }
    }
}

/// A range of IP addresses in CIDR notation; a plain address is a range of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(IpNet);

impl Network {
    /// Whether the address lies in the range. An IPv4-mapped IPv6 address counts as the IPv4
    /// address that it carries, so `::/0` holds no IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not an IP address or a network, such as 10.0.0.0/8 or fd00::/8");
        let given = match text.parse::<IpAddr>() {
            Ok(address) => IpNet::from(address),
            Err(_) => text.parse().map_err(|_| wrong())?,
        };
        let network = match given.addr().to_canonical() {
            // An IPv4-mapped range, whose first 96 bits are those of the mapping.
            IpAddr::V4(address) if given.addr().is_ipv6() => {
                let prefix = given.prefix_len().checked_sub(96).ok_or_else(wrong)?;
                Ipv4Net::new(address, prefix).map_err(|_| wrong())?.into()
            }
            _ => given,
        };
        if network.trunc() != network {
            return Err(format!("{text:?} has bits behind its prefix; the network is {}", network.trunc()));
        }
        Ok(Self(network))
    }
}

impl Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse_text(deserializer)
    }
}

/// A client secret as the configuration keeps it: `sha256:<salt>:<digest>`, both in hex, the salt
/// 16 bytes long and the digest SHA-256 of the salt followed by the secret's text.
///
/// This program makes the secrets from 256 random bits, so a slow hash would add no protection.
/// Neither `Debug` nor an error message shows any of it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretHash {
    salt: [u8; 16],
    digest: [u8; 32],
}

impl SecretHash {
    /// The hash of a secret under a salt: random bytes for a new secret, the stored
    /// [`salt`](Self::salt) to check one.
    pub fn of(salt: [u8; 16], secret: &str) -> Self {
        let digest = Sha256::new().chain_update(salt).chain_update(secret).finalize().into();
        Self { salt, digest }
    }

    /// The salt.
    pub fn salt(&self) -> [u8; 16] {
        self.salt
    }

    /// SHA-256 of salt and secret. The caller must compare it in constant time.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The secret as sign-in and verification compare it.
    pub fn client_secret(&self) -> ClientSecret {
        ClientSecret { salt: self.salt, digest: self.digest }
    }

    /// The text for the configuration file.
    pub fn to_text(&self) -> String {
        format!("sha256:{}:{}", hex::encode(self.salt), hex::encode(self.digest))
    }
}

impl FromStr for SecretHash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (salt, digest) = text.strip_prefix("sha256:")?.split_once(':')?;
            let plain = (salt.len(), digest.len()) == (32, 64);
            plain.then_some(Self { salt: hex::decode_to_array(salt).ok()?, digest: hex::decode_to_array(digest).ok()? })
        };
        read().ok_or(
            "is not sha256:<salt, 32 hex digits>:<digest, 64 hex digits>; `selfsame app new` prints one (never put the \
             secret itself here)",
        )
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(hidden)")
    }
}

impl<'de> Deserialize<'de> for SecretHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse_text(deserializer)
    }
}

/// Where the unix socket of the operator interface is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OperatorSocket {
    /// `operator.socket` in the data folder.
    #[default]
    InDataFolder,
    /// A path.
    At(PathBuf),
    /// There is none.
    Off,
}

impl FromStr for OperatorSocket {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self::Off),
            "" => Err("is empty; give the path of a socket, or \"off\""),
            path => Ok(Self::At(path.into())),
        }
    }
}

impl<'de> Deserialize<'de> for OperatorSocket {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse_text(deserializer)
    }
}

/// The source of a verification key of production.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProductionKey {
    /// The public service's key, which is part of the program.
    #[default]
    Builtin,
    /// A JSON file.
    File(PathBuf),
}

/// The source of a verification key of staging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StagingKey {
    /// The simulator's key, whose setup secrets are public: a client that has the seed can make
    /// valid proofs for it.
    Simulator,
    /// A key that could also be one of production.
    Real(ProductionKey),
}

impl Default for StagingKey {
    fn default() -> Self {
        Self::Real(ProductionKey::default())
    }
}

impl FromStr for ProductionKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "builtin" => Ok(Self::Builtin),
            "simulator" => Err("the simulator's secrets are public, so it is never a key of production; only \
                                verifier.keys.staging may name it"
                .to_owned()),
            path if path.ends_with(".json") => Ok(Self::File(path.into())),
            _ => Err(format!("{text:?} is not \"builtin\" or the path of a .json file")),
        }
    }
}

impl FromStr for StagingKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |_| format!("{text:?} is not \"builtin\", \"simulator\" or the path of a .json file");
        if text == "simulator" { Ok(Self::Simulator) } else { text.parse().map(Self::Real).map_err(wrong) }
    }
}

impl<'de> Deserialize<'de> for ProductionKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse_text(deserializer)
    }
}

impl<'de> Deserialize<'de> for StagingKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse_text(deserializer)
    }
}
