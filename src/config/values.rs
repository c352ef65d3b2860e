//! The types of single values: how a text becomes the value, what the message says when it does
//! not, how `selfsame config dump` writes it, and what the schema of the configuration file says.
//!
//! The docstring of a type is its description in the schema. A pattern leaves out what it cannot
//! say simply, so it refuses nothing that is accepted. What a dump writes is read as the same
//! value, except secrets.

use std::cell::Cell;
use std::fmt::{self, Display};
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use alloy_primitives::{Address, U256, hex};
use ipnet::{IpNet, Ipv4Net};
use schemars::JsonSchema;
use selfsame_protocol::client_secret::ClientSecret;
use selfsame_protocol::commitment::{PublicKey, PublicKeyError};
use selfsame_protocol::groups::names::FormError;
use selfsame_protocol::sign_in::ResponseType;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::{Root, is_below_field};
pub use selfsame_protocol::verification::RelyingPartyId;
use selfsame_protocol::{address, number};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::chain::NodeUrl;

/// Reads types from texts by `FromStr`, whose error says what is wrong.
macro_rules! read_as_text {
    ($($type:ident),* $(,)?) => {$(
        impl<'de> ::serde::Deserialize<'de> for $type {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <String as ::serde::Deserialize>::deserialize(deserializer)?.parse().map_err(::serde::de::Error::custom)
            }
        }
    )*};
}

/// Reads types from texts, and writes them as texts by `Display`.
macro_rules! as_text {
    ($($type:ident),* $(,)?) => {
        $crate::config::values::read_as_text!($($type),*);
        $(impl ::serde::Serialize for $type {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        })*
    };
}

/// Gives types of other crates a text: what a valid one is, for the message, and how it is read and
/// written.
macro_rules! text_of_other_types {
    ($($(#[$about:meta])* $name:ident($inner:ty): $right:literal, $read:expr, $write:expr;)*) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
        #[schemars(with = "String")]
        $(#[$about])*
        pub struct $name(
            /// The value.
            pub $inner,
        );

        impl Deref for $name {
            type Target = $inner;

            fn deref(&self) -> &$inner {
                &self.0
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self(value)
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let read: fn(&str) -> Option<$inner> = $read;
                read(text).map(Self).ok_or_else(|| format!("{text:?} is not {}", $right))
            }
        }

        impl Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let text: fn(&$inner) -> String = $write;
                f.write_str(&text(&self.0))
            }
        }

        as_text!($name);
    )*};
}

/// Gives types that are texts `Display` and a view of the text.
macro_rules! is_text {
    ($($type:ident),* $(,)?) => {$(
        impl $type {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        $crate::config::values::as_text!($type);
    )*};
}

pub(super) use {as_text, is_text, read_as_text};

text_of_other_types! {
    /// A duration: a number and a unit, such as `5ms`, `10s`, `1m`, `1h` or `14d`, or several of
    /// them, such as `1h 30m`.
    #[derive(Default)]
    #[schemars(rename = "Duration")]
    #[schemars(extend("pattern" = "^0$|[0-9][^0-9]*[A-Za-zµ]", "examples" = ["10s", "1h 30m"]))]
    TimeSpan(Duration): "a duration, such as 5ms, 10s, 1h or 14d",
        |text| humantime::parse_duration(text).ok(), |span| humantime::format_duration(*span).to_string();

    /// A time in UTC, such as `2026-01-31T12:00:00Z`.
    #[schemars(rename = "Time", extend("pattern" = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:.]+[Zz]$"))]
    UtcTime(SystemTime): "a time, such as 2026-01-31T12:00:00Z",
        |text| humantime::parse_rfc3339(text).ok(), |time| humantime::format_rfc3339(*time).to_string();

    /// An IP address and a port, such as `127.0.0.1:8080` or `[::1]:8080`. With port 0 the
    /// operating system chooses the port.
    #[schemars(extend("pattern" = "^[0-9A-Fa-f:.%\\[\\]]+:[0-9]+$"))]
    SocketAddress(SocketAddr): "an IP address and port, such as 127.0.0.1:8080 or [::1]:8080",
        |text| text.parse().ok(), SocketAddr::to_string;

    /// The address of a contract or an account: `0x` and 40 hex digits.
    #[schemars(extend("pattern" = "^(0x)?[0-9A-Fa-f]{40}$"))]
    ContractAddress(Address): "an address: 0x and 40 hex digits", |text| text.parse().ok(), address::text;

    /// The address of a key: `0x` and 40 hex digits.
    #[schemars(extend("pattern" = "^(0x)?[0-9A-Fa-f]{40}$"))]
    AccountAddress(Address): "an address: 0x and 40 hex digits", |text| text.parse().ok(), address::text;
}

impl UtcTime {
    /// A time.
    pub fn at(time: UnixSeconds) -> Self {
        Self(UNIX_EPOCH + Duration::from_secs(time.0))
    }

    /// The time, in whole seconds; a time before 1970 is 0.
    pub fn unix_seconds(self) -> UnixSeconds {
        UnixSeconds(self.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
    }
}

impl TimeSpan {
    /// A span of whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

/// A number below the modulus of the BN254 scalar field, as text: decimal digits, or `0x` and hex
/// digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", rename = "Number", extend("pattern" = "^([0-9]+|0[xX][0-9A-Fa-f]+)$"))]
pub struct FieldElement(U256);

impl FieldElement {
    /// The root with this value.
    pub fn root(self) -> Root {
        Root::from_number(self.0)
    }
}

impl FromStr for FieldElement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => (digits, 16),
            None => (text, 10),
        };
        let is_plain = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
        let value = is_plain.then(|| U256::from_str_radix(digits, radix.into()).ok()).flatten().ok_or_else(|| {
            format!("{text:?} is not a number: decimal digits, or 0x and hex digits, of at most 256 bits")
        })?;
        let too_large = || "is not below the modulus of the BN254 scalar field".to_owned();
        is_below_field(&value).then_some(Self(value)).ok_or_else(too_large)
    }
}

impl Display for FieldElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&number::canonical(self.0))
    }
}

as_text!(FieldElement);

/// A point of the curve BabyJubJub by its affine coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "Coordinates", into = "Coordinates")]
#[schemars(rename = "Point")]
pub struct CurvePoint(pub PublicKey);

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Coordinates {
    /// The first coordinate.
    x: FieldElement,
    /// The second coordinate.
    y: FieldElement,
}

impl TryFrom<Coordinates> for CurvePoint {
    type Error = &'static str;

    fn try_from(Coordinates { x, y }: Coordinates) -> Result<Self, Self::Error> {
        PublicKey::from_coordinates(&x.0, &y.0).map(Self).map_err(|error| match error {
            PublicKeyError::NotCanonical => "has a coordinate that is not below the modulus of the BN254 scalar field",
            PublicKeyError::Identity => "is the identity of the curve, which cannot be a key",
            PublicKeyError::NotOnCurve => "is not a point of BabyJubJub; give the affine coordinates of a public key",
            PublicKeyError::NotInSubgroup => {
                "is a point of BabyJubJub outside its prime-order subgroup, which cannot be a key"
            }
        })
    }
}

impl CurvePoint {
    /// Its two coordinates, as the configuration has them.
    pub fn to_text(self) -> (String, String) {
        let Coordinates { x, y } = self.into();
        (x.to_string(), y.to_string())
    }
}

impl FromStr for CurvePoint {
    type Err = String;

    /// Reads `x,y`, as commands take it.
    fn from_str(text: &str) -> Result<Self, String> {
        let (x, y) = text.split_once(',').ok_or("is not two numbers with a comma between them")?;
        Self::try_from(Coordinates { x: x.trim().parse()?, y: y.trim().parse()? }).map_err(str::to_owned)
    }
}

impl From<CurvePoint> for Coordinates {
    fn from(CurvePoint(key): CurvePoint) -> Self {
        let (x, y) = key.coordinates();
        Self { x: FieldElement(x), y: FieldElement(y) }
    }
}

/// An IP address, or a network in CIDR notation, such as `10.0.0.0/8` or `fd00::/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", extend("pattern" = "^[0-9A-Fa-f:.]+(/[0-9]+)?$"))]
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

as_text!(Network);

/// 401, or 200 as in RFC 7662.
// The status of the introspection answer for a token that is not active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "u16", into = "u16")]
#[schemars(extend("enum" = [401, 200]))]
pub enum InactiveStatus {
    /// 401, as in the interface description.
    #[default]
    Unauthorized,
    /// 200, as in RFC 7662.
    Ok,
}

impl TryFrom<u16> for InactiveStatus {
    type Error = String;

    fn try_from(status: u16) -> Result<Self, String> {
        match status {
            401 => Ok(Self::Unauthorized),
            200 => Ok(Self::Ok),
            other => Err(format!("{other} is neither 401 nor 200")),
        }
    }
}

impl From<InactiveStatus> for u16 {
    fn from(status: InactiveStatus) -> Self {
        match status {
            InactiveStatus::Unauthorized => 401,
            InactiveStatus::Ok => 200,
        }
    }
}

/// The path of a unix socket, or `off`.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", extend("minLength" = 1, "examples" = ["off"]))]
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

read_as_text!(OperatorSocket);

/// The default has no text: it depends on the data folder.
impl Serialize for OperatorSocket {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::InDataFolder => serializer.serialize_none(),
            Self::At(path) => path.serialize(serializer),
            Self::Off => serializer.serialize_str("off"),
        }
    }
}

/// `builtin` for the public service's key, or the path of a `.json` file.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", extend("pattern" = "^builtin$|\\.json$", "examples" = ["builtin"]))]
pub enum ProductionKey {
    /// The public service's key, which is part of the program.
    #[default]
    Builtin,
    /// A JSON file.
    File(PathBuf),
}

/// `builtin` for the public service's key, `simulator` for the simulator's key, whose secrets are
/// public, or the path of a `.json` file.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
#[schemars(extend("pattern" = "^(builtin|simulator)$|\\.json$", "examples" = ["builtin", "simulator"]))]
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

impl Display for ProductionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin => f.write_str("builtin"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl Display for StagingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simulator => f.write_str("simulator"),
            Self::Real(key) => key.fmt(f),
        }
    }
}

as_text!(ProductionKey, StagingKey);

/// What stands in the place of a secret, after which a text may say more. No setting can have a
/// text that begins with it, so that a dump is not loaded by accident.
pub const HIDDEN: &str = "<hidden by config dump>";

thread_local! {
    /// Whether this thread writes a fingerprint of each secret.
    static FINGERPRINTS: Cell<bool> = const { Cell::new(false) };
}

/// Calls `write`, in which each secret is written with a fingerprint behind the mark, so that two
/// configurations can be compared. What it returns must not be shown.
pub(super) fn with_fingerprints<T>(write: impl FnOnce() -> T) -> T {
    /// Ends the fingerprints also after a panic: a later dump of this thread has none.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            FINGERPRINTS.set(false);
        }
    }
    FINGERPRINTS.set(true);
    let _end = End;
    write()
}

/// Writes the mark in the place of a secret, and what may be shown of it.
fn secret<S: Serializer>(shown: &str, secret: impl AsRef<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
    match FINGERPRINTS.get() {
        true => serializer.collect_str(&format_args!("{HIDDEN} {}", hex::encode(Sha256::digest(secret)))),
        false => serializer.collect_str(&format_args!("{HIDDEN}{shown}")),
    }
}

pub(super) fn hidden<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    match text {
        Some(text) => secret("", text, serializer),
        None => serializer.serialize_none(),
    }
}

impl Serialize for SecretHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        secret("", self.to_text(), serializer)
    }
}

/// The host is no secret, and tells nodes apart.
impl Serialize for NodeUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        secret(&format!(" {}", self.name()), self.secret(), serializer)
    }
}

/// The salted hash of a secret, `sha256:<salt>:<digest>`, both in hex. `selfsame app new` and
/// `selfsame app secret` print one. Never put the secret itself here.
// The salt has 16 bytes, and the digest is SHA-256 of the salt followed by the secret's text. This
// program makes the secrets from 256 random bits, so a slow hash would add no protection. Neither
// `Debug` nor an error message shows any of it.
#[derive(Clone, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
#[schemars(extend("pattern" = "^(sha256:[0-9A-Fa-f]{32}:[0-9A-Fa-f]{64}|<hidden by config dump>)$"))]
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

read_as_text!(SecretHash);

/// An application's id: `app_` and 1 to 128 letters, digits, `-` or `_`.
pub(super) fn app_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_id = |rest: &str| (1..=128).contains(&rest.len()) && rest.bytes().all(is_plain);
    let wrong =
        || D::Error::custom(format!("{text:?} is not an application id: app_ and 1 to 128 letters, digits, - or _"));
    if text.strip_prefix("app_").is_some_and(is_id) { Ok(text) } else { Err(wrong()) }
}

/// A text in the form that the protocol has for it. The error repeats the text.
pub(super) fn form<'de, T: FromStr<Err = FormError>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|error| D::Error::custom(format!("{text:?} {error}")))
}

/// The same for a key that may be left out.
pub(super) fn some_form<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err = FormError>,
    D: Deserializer<'de>,
{
    form(deserializer).map(Some)
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

pub(super) fn write_response_types<S: Serializer>(types: &[ResponseType], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(types.iter().map(|response_type| response_type.text()))
}

/// The formats of types of other crates in the schema, which no value has.
pub(super) mod formats {
    #![expect(dead_code, reason = "the fields are read by the derived schemas alone")]

    use schemars::JsonSchema;

    /// `app_` and 1 to 128 letters, digits, `-` or `_`.
    #[derive(JsonSchema)]
    #[schemars(extend("pattern" = "^app_[A-Za-z0-9_-]{1,128}$"))]
    pub(in crate::config) struct AppId(String);

    /// `rp_` and 16 hex digits.
    #[derive(JsonSchema)]
    #[schemars(extend("pattern" = "^rp_[0-9A-Fa-f]{16}$"))]
    pub(in crate::config) struct RelyingPartyId(String);

    /// 1 to 32 lower-case letters, digits, `_` or `-`.
    #[derive(JsonSchema)]
    #[schemars(extend("pattern" = "^[a-z0-9_-]{1,32}$"))]
    pub(in crate::config) struct GroupId(String);

    /// 1 to 64 lower-case letters, digits, `.`, `_` or `-`.
    #[derive(JsonSchema)]
    #[schemars(extend("pattern" = "^[a-z0-9._-]{1,64}$"))]
    pub(in crate::config) struct RollName(String);

    /// A response type of OpenID Connect.
    #[derive(JsonSchema)]
    #[schemars(extend(
        "pattern" = "^(code|id_token|token)( (code|id_token|token)){0,2}$",
        "examples" = ["code", "id_token", "id_token token", "code id_token", "code token", "code id_token token"],
    ))]
    pub(in crate::config) struct ResponseType(String);
}
