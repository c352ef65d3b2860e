//! A decrypted request: what an application asks the wallet to prove.
//!
//! Client kits 1 and 2 ask for a legacy proof. Client kit 4 asks for a legacy proof, for a current
//! one, or for a current one with a legacy proof as the second choice. Unknown keys are ignored.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::wire::{CodeSet, Rejection, RejectionCode};
use crate::U256;
use crate::json::from_object;
use crate::signature::Signature;
use crate::time::UnixSeconds;
use crate::tree::is_below_field;
use crate::verification::identity::{hash_text, hash_to_field};
use crate::verification::request::{LONGEST_TEXT, MOST_RESPONSES, RequestedEnvironment, SIGN_IN_ACTION};
use crate::verification::rp_signature::{RequestTimeError, SignedRequest};
use crate::verification::{Environment, LegacyIdentifier, RelyingPartyId};

/// The longest request, in bytes. The largest useful one has some kilobytes.
pub const LONGEST_REQUEST: usize = 256 * 1024;

/// What an application asks for.
#[derive(Clone, Debug)]
pub struct BridgeRequest {
    /// The application, as the page names it.
    pub app_id: String,
    /// Name and version of the client kit; `None` for kits 1 and 2.
    pub client_kit: Option<String>,
    /// The action's text; empty for sessions.
    pub action: String,
    /// The action's description; may be empty.
    pub action_description: String,
    /// The environment of the proof.
    pub environment: RequestedEnvironment,
    /// Whether the answer must say that a person was present.
    pub requires_presence: bool,
    /// Whether the answer must attest facts about the person, such as an age.
    pub asks_for_attributes: bool,
    /// The URL of the page that the person comes from; it is not checked.
    pub return_to: Option<String>,
    /// The legacy proof that is accepted; `None` when none is.
    pub legacy: Option<LegacyAsked>,
    /// The current proof that is asked for; preferred to the legacy one.
    pub current: Option<CurrentAsked>,
}

/// A legacy proof that an application accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyAsked {
    /// The level that the page asks for.
    pub level: Level,
    /// The hash of the signal.
    pub signal_hash: U256,
}

/// The strength of a legacy proof: a credential, or a stronger one in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// `orb`.
    Orb,
    /// `secure_document`.
    SecureDocument,
    /// `document`.
    Document,
    /// `device`.
    Device,
    /// `face`; the results of client kit 4 call it `selfie`.
    Face,
}

impl Level {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Orb => "orb",
            Self::SecureDocument => "secure_document",
            Self::Document => "document",
            Self::Device => "device",
            Self::Face => "face",
        }
    }

    /// The credential that the verification interface knows the level as.
    pub fn credential(self) -> LegacyIdentifier {
        match self {
            Self::Orb => LegacyIdentifier::Orb,
            Self::SecureDocument => LegacyIdentifier::SecureDocument,
            Self::Document => LegacyIdentifier::Document,
            Self::Device => LegacyIdentifier::Device,
            Self::Face => LegacyIdentifier::Selfie,
        }
    }

    /// The levels that satisfy this one, itself first.
    pub fn accepted(self) -> &'static [Self] {
        match self {
            Self::Orb => &[Self::Orb],
            Self::SecureDocument => &[Self::SecureDocument, Self::Orb],
            Self::Document => &[Self::Document, Self::SecureDocument, Self::Orb],
            Self::Device => &[Self::Device, Self::Orb],
            Self::Face => &[Self::Face],
        }
    }
}

/// Current proofs that an application asks for.
#[derive(Clone, Debug)]
pub struct CurrentAsked {
    /// The request's own id, which the answer repeats.
    pub id: String,
    /// What the proofs show.
    pub purpose: Purpose,
    /// The relying party, as the page names it.
    pub rp_id: RelyingPartyId,
    /// When the request was signed.
    pub created_at: UnixSeconds,
    /// Until when it can be answered.
    pub expires_at: UnixSeconds,
    /// The relying party's signature; it is not checked.
    pub signature: Signature,
    /// The nonce, which every proof is bound to.
    pub nonce: U256,
    /// The requested credentials, at least one.
    pub items: Vec<AskedItem>,
    /// Which of them the answer must have; all when `None`.
    pub constraints: Option<Constraint>,
}

/// What current proofs show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// That the person has not done the action before.
    Uniqueness {
        /// The hash of the action.
        action: U256,
        /// Whether the proof is bound to a new session as well. The relying party's signature does
        /// not cover this.
        binds_session: bool,
    },
    /// That a new session belongs to the person.
    NewSession,
    /// That a session belongs to the person.
    Session {
        /// The session's id, which is not checked.
        id: String,
    },
}

/// A credential that an application asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedItem {
    /// The name of the credential.
    pub identifier: String,
    /// The issuer of the credential.
    pub issuer_schema_id: u64,
    /// The bytes that the proof is bound to.
    pub signal: Option<Vec<u8>>,
    /// The credential must not expire before this time.
    pub expires_at_min: UnixSeconds,
    /// The credential must not have been issued before this time; 0 for no bound.
    pub genesis_issued_at_min: UnixSeconds,
}

impl AskedItem {
    /// The hash of the signal: a public input of the proof.
    pub fn signal_hash(&self) -> U256 {
        self.signal.as_deref().map_or(U256::ZERO, hash_to_field)
    }
}

impl BridgeRequest {
    /// Reads a decrypted request.
    ///
    /// # Errors
    /// A [`Rejection`] with [`RejectionCode::MalformedRequest`], or with
    /// [`RejectionCode::FeatureUnavailable`] for what this wallet does not know.
    pub fn read(bytes: &[u8]) -> Result<Self, Rejection> {
        if bytes.len() > LONGEST_REQUEST {
            return Err(malformed(format!("it has more than {LONGEST_REQUEST} bytes")));
        }
        let wire: WireRequest = from_object(bytes).map_err(malformed)?;
        for (name, text) in [
            ("app_id", Some(&wire.app_id)),
            ("action", wire.action.as_ref()),
            ("action_description", wire.action_description.as_ref()),
            ("return_to_url", wire.return_to_url.as_ref()),
        ] {
            check_length(name, text.map_or("", String::as_str))?;
        }
        if !wire.app_id.starts_with("app_") {
            return Err(malformed(format!("app_id is {:?}, which does not begin with app_", wire.app_id)));
        }
        let action = wire.action.clone().unwrap_or_default();
        let environment = wire.environment()?;
        let current = match &wire.proof_request {
            Some(request) => Some(request.read(&action)?),
            None => None,
        };
        Ok(Self {
            environment,
            legacy: wire.legacy(current.as_ref())?,
            current,
            action,
            client_kit: wire.client_kit(),
            action_description: wire.action_description.unwrap_or_default(),
            requires_presence: wire.require_user_presence.unwrap_or_default(),
            asks_for_attributes: wire.identity_attributes.is_some_and(|attributes| !attributes.is_empty()),
            return_to: wire.return_to_url,
            app_id: wire.app_id,
        })
    }

    /// Whether an answer can be the statement that signs a person in: a legacy proof of the empty
    /// action, or a proof of uniqueness of [`SIGN_IN_ACTION`] in any spelling.
    pub fn is_sign_in(&self) -> bool {
        let of_current = |asked: &CurrentAsked| match asked.purpose {
            Purpose::Uniqueness { action, .. } => action == hash_text(SIGN_IN_ACTION),
            Purpose::NewSession | Purpose::Session { .. } => false,
        };
        (self.legacy.is_some() && self.action.is_empty()) || self.current.as_ref().is_some_and(of_current)
    }

    /// The error codes that the request's client kit knows.
    pub fn codes(&self) -> CodeSet {
        if self.client_kit.is_some() || self.current.is_some() { CodeSet::Present } else { CodeSet::Early }
    }
}

impl CurrentAsked {
    /// Checks that the request has begun and has not expired.
    ///
    /// # Errors
    /// The [`Rejection`] of a request that must not be answered now.
    pub fn check_time(&self, now: UnixSeconds) -> Result<(), Rejection> {
        self.signed().check_time(now).map_err(|error| {
            let code = match error {
                RequestTimeError::NoLifetime { .. } => RejectionCode::InvalidTimestamp,
                RequestTimeError::InFuture { .. } => RejectionCode::TimestampTooFarInFuture,
                RequestTimeError::Expired { .. } => RejectionCode::RpSignatureExpired,
            };
            Rejection::new(code, error)
        })
    }

    /// What the relying party has signed.
    pub fn signed(&self) -> SignedRequest {
        let action = match self.purpose {
            Purpose::Uniqueness { action, .. } => Some(action),
            Purpose::NewSession | Purpose::Session { .. } => None,
        };
        SignedRequest { nonce: self.nonce, created_at: self.created_at, expires_at: self.expires_at, action }
    }
}

/// The request on the wire. A key that is absent and a key that is null mean the same.
#[derive(Deserialize)]
struct WireRequest {
    app_id: String,
    package_name: Option<String>,
    package_version: Option<String>,
    action: Option<String>,
    action_description: Option<String>,
    signal: Option<String>,
    verification_level: Option<Level>,
    proof_request: Option<WireProofRequest>,
    identity_attributes: Option<Vec<serde::de::IgnoredAny>>,
    allow_legacy_proofs: Option<bool>,
    min_protocol_version: Option<String>,
    require_user_presence: Option<bool>,
    environment: Option<String>,
    return_to_url: Option<String>,
}

impl WireRequest {
    /// Client kits 1 and 2 name no environment; there the application's id does.
    fn environment(&self) -> Result<RequestedEnvironment, Rejection> {
        match self.environment.as_deref() {
            Some("production") => Ok(RequestedEnvironment::Production),
            Some("staging") => Ok(RequestedEnvironment::Staging),
            Some("sandbox") => Ok(RequestedEnvironment::Sandbox),
            Some(other) => Err(malformed(format!("environment is {other:?}"))),
            None => Ok(Environment::of_application(&self.app_id).into()),
        }
    }

    fn client_kit(&self) -> Option<String> {
        let name = self.package_name.as_ref()?;
        Some([name, " ", self.package_version.as_deref().unwrap_or_default()].concat().trim_end().to_owned())
    }

    /// The legacy proof that is accepted. Sessions have none.
    fn legacy(&self, current: Option<&CurrentAsked>) -> Result<Option<LegacyAsked>, Rejection> {
        let has_minimum = match self.min_protocol_version.as_deref() {
            None | Some("3.0") => false,
            Some("4.0") => true,
            Some(other) => return Err(malformed(format!("min_protocol_version is {other:?}"))),
        };
        let is_session = current.is_some_and(|current| !matches!(current.purpose, Purpose::Uniqueness { .. }));
        // Without `proof_request` a page asks for nothing but a legacy proof; client kits 1 and 2
        // do not know the key.
        let is_accepted = self.allow_legacy_proofs.unwrap_or(current.is_none());
        if has_minimum || is_session || !is_accepted {
            return Ok(None);
        }
        let signal_hash = match self.signal.as_deref() {
            Some(text) => field_number("signal", text)?,
            None => hash_text(""),
        };
        Ok(Some(LegacyAsked { level: self.verification_level.unwrap_or(Level::Orb), signal_hash }))
    }
}

#[derive(Deserialize)]
struct WireProofRequest {
    id: String,
    version: u64,
    proof_type: Option<String>,
    created_at: UnixSeconds,
    expires_at: UnixSeconds,
    rp_id: RelyingPartyId,
    session_id: Option<String>,
    action: Option<String>,
    signature: Signature,
    nonce: String,
    proof_requests: Vec<WireItem>,
    constraints: Option<Constraint>,
}

#[derive(Deserialize)]
struct WireItem {
    identifier: String,
    issuer_schema_id: u64,
    signal: Option<String>,
    genesis_issued_at_min: Option<UnixSeconds>,
    expires_at_min: Option<UnixSeconds>,
}

impl WireProofRequest {
    /// Reads the request. `action` is the text of the action, which the person is shown; the hash
    /// in the request must be the hash of that text.
    fn read(&self, action: &str) -> Result<CurrentAsked, Rejection> {
        if self.version != 1 {
            let reason = format!("proof_request.version is {}, this wallet knows 1", self.version);
            return Err(Rejection::new(RejectionCode::FeatureUnavailable, reason));
        }
        check_length("proof_request.id", &self.id)?;
        let items = self.items()?;
        if let Some(constraints) = &self.constraints {
            let is_requested = |identifier: &str| items.iter().any(|item| item.identifier == identifier);
            constraints.check(&is_requested).map_err(|reason| malformed(format!("proof_request.{reason}")))?;
        }
        Ok(CurrentAsked {
            id: self.id.clone(),
            purpose: self.purpose(action)?,
            rp_id: self.rp_id,
            created_at: self.created_at,
            expires_at: self.expires_at,
            signature: self.signature,
            nonce: field_number("proof_request.nonce", &self.nonce)?,
            items,
            constraints: self.constraints.clone(),
        })
    }

    fn purpose(&self, text: &str) -> Result<Purpose, Rejection> {
        let proof_type = self.proof_type.as_deref().unwrap_or("uniqueness");
        match (proof_type, self.session_id.as_deref(), &self.action) {
            ("uniqueness", session @ (None | Some("create")), Some(action)) => {
                let action = field_number("proof_request.action", action)?;
                // The public client kit hashes the text as it is. A text of hex digits may also
                // stand for the bytes that it writes, as it does for legacy proofs.
                if action != hash_to_field(text.as_bytes()) && action != hash_text(text) {
                    return Err(malformed(format!("proof_request.action is not the hash of the action {text:?}")));
                }
                Ok(Purpose::Uniqueness { action, binds_session: session.is_some() })
            }
            // Client kit 4.2 creates a session with a type of its own.
            ("session", Some("create"), None) | ("create_session", None, None) => Ok(Purpose::NewSession),
            ("session", Some(id), None) => Ok(Purpose::Session { id: id.to_owned() }),
            ("uniqueness" | "session" | "create_session", ..) => {
                Err(malformed(format!("proof_request has another action or session_id than the type {proof_type} has")))
            }
            _ => Err(Rejection::new(
                RejectionCode::FeatureUnavailable,
                format!("the request asks for a proof of the type {proof_type:?}, which this wallet does not know"),
            )),
        }
    }

    fn items(&self) -> Result<Vec<AskedItem>, Rejection> {
        let count = self.proof_requests.len();
        if !(1..=MOST_RESPONSES).contains(&count) {
            return Err(malformed(format!(
                "proof_request.proof_requests has {count} items, not 1 to {MOST_RESPONSES}"
            )));
        }
        let mut items: Vec<AskedItem> = Vec::with_capacity(count);
        for (index, wire) in self.proof_requests.iter().enumerate() {
            let path = format!("proof_request.proof_requests[{index}]");
            check_length(&format!("{path}.identifier"), &wire.identifier)?;
            let is_other =
                |item: &AskedItem| item.identifier != wire.identifier && item.issuer_schema_id != wire.issuer_schema_id;
            if !items.iter().all(is_other) {
                return Err(malformed(format!("{path} asks for the credential of an item before it")));
            }
            let signal = match &wire.signal {
                Some(text) => {
                    Some(hex_bytes(text).ok_or_else(|| malformed(format!("{path}.signal is not 0x and hex digits")))?)
                }
                None => None,
            };
            items.push(AskedItem {
                identifier: wire.identifier.clone(),
                issuer_schema_id: wire.issuer_schema_id,
                signal,
                // Without a bound the credential must be valid when the request was made.
                expires_at_min: wire.expires_at_min.unwrap_or(self.created_at),
                genesis_issued_at_min: wire.genesis_issued_at_min.unwrap_or_default(),
            });
        }
        Ok(items)
    }
}

fn malformed(reason: impl std::fmt::Display) -> Rejection {
    Rejection::new(RejectionCode::MalformedRequest, format!("the request cannot be read: {reason}"))
}

fn check_length(name: &str, text: &str) -> Result<(), Rejection> {
    match text.len() > LONGEST_TEXT {
        true => Err(malformed(format!("{name} has more than {LONGEST_TEXT} bytes"))),
        false => Ok(()),
    }
}

/// A number below the modulus of the scalar field, written as `0x` and at most 64 hex digits.
fn field_number(name: &str, text: &str) -> Result<U256, Rejection> {
    let digits = text.strip_prefix("0x").filter(|digits| (1..=64).contains(&digits.len()) && is_hex(digits));
    let value = digits.and_then(|digits| U256::from_str_radix(digits, 16).ok());
    let expected = "0x and the hex digits of a number below the modulus of the scalar field";
    value.filter(is_below_field).ok_or_else(|| malformed(format!("{name} is not {expected}")))
}

/// The bytes that `0x` and an even number of hex digits, perhaps none, write.
fn hex_bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x").filter(|digits| is_hex(digits))?;
    alloy_primitives::hex::decode(digits).ok()
}

fn is_hex(digits: &str) -> bool {
    digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

// Which of the requested credentials an answer must have: an expression of `all`, `any` and
// `enumerate`.

/// The most nodes of an expression, credentials and operators together.
const MOST_NODES: usize = 12;

/// The most credentials under one operator.
pub const MOST_CREDENTIALS: usize = MOST_NODES - 1;

/// The most operators within each other.
const DEEPEST: usize = 2;

/// An expression over the identifiers of credentials.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Constraint {
    /// One credential.
    Credential(String),
    /// All operands.
    All {
        /// The operands.
        all: Vec<Constraint>,
    },
    /// The first operand that can be satisfied.
    Any {
        /// The operands, the preferred one first.
        any: Vec<Constraint>,
    },
    /// Every operand that can be satisfied, and at least one.
    Enumerate {
        /// The operands.
        enumerate: Vec<Constraint>,
    },
}

impl Constraint {
    /// Checks the limits of the public protocol, and that the expression names requested
    /// credentials only.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn check(&self, is_requested: &impl Fn(&str) -> bool) -> Result<(), String> {
        let mut nodes = 0;
        self.check_node(0, &mut nodes, is_requested)
    }

    fn check_node(&self, depth: usize, nodes: &mut usize, is_requested: &impl Fn(&str) -> bool) -> Result<(), String> {
        *nodes += 1;
        if *nodes > MOST_NODES {
            return Err(format!("constraints have more than {MOST_NODES} nodes"));
        }
        match self {
            Self::Credential(identifier) if is_requested(identifier) => Ok(()),
            Self::Credential(identifier) => {
                Err(format!("constraints name {identifier:?}, which is not in proof_requests"))
            }
            Self::All { all: operands } | Self::Any { any: operands } | Self::Enumerate { enumerate: operands } => {
                if operands.is_empty() {
                    return Err("constraints have an operator without operands".to_owned());
                }
                if depth == DEEPEST {
                    return Err(format!("constraints have more than {DEEPEST} operators within each other"));
                }
                operands.iter().try_for_each(|operand| operand.check_node(depth + 1, nodes, is_requested))
            }
        }
    }

    /// The credentials to prove; `None` when the available ones do not satisfy the expression.
    pub fn select(&self, is_available: &impl Fn(&str) -> bool) -> Option<BTreeSet<&str>> {
        match self {
            Self::Credential(identifier) => is_available(identifier).then(|| BTreeSet::from([identifier.as_str()])),
            Self::All { all } => {
                let selected: Option<Vec<_>> = all.iter().map(|operand| operand.select(is_available)).collect();
                selected.map(|sets| sets.into_iter().flatten().collect())
            }
            Self::Any { any } => any.iter().find_map(|operand| operand.select(is_available)),
            Self::Enumerate { enumerate } => {
                let selected: BTreeSet<_> =
                    enumerate.iter().filter_map(|operand| operand.select(is_available)).flatten().collect();
                (!selected.is_empty()).then_some(selected)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> Constraint {
        serde_json::from_value(value).expect("a constraint")
    }

    #[test]
    fn credentials_are_selected_by_the_operators() {
        let nested = json!({"all": ["human", {"any": ["passport", "mnc"]}]});
        let listed = json!({"all": ["human", {"enumerate": ["passport", "mnc"]}]});
        #[rustfmt::skip]
        let table = [
            (json!("human"), "human passport", Some("human")),
            (json!("human"), "passport", None),
            (json!({"any": ["passport", "human"]}), "human passport", Some("passport")),
            (json!({"any": ["passport", "human"]}), "human", Some("human")),
            (json!({"any": ["passport", "human"]}), "", None),
            (json!({"all": ["passport", "human"]}), "human passport", Some("human passport")),
            (json!({"all": ["passport", "human"]}), "human", None),
            (json!({"enumerate": ["passport", "mnc", "human"]}), "human mnc", Some("human mnc")),
            (json!({"enumerate": ["passport", "mnc"]}), "human", None),
            (nested.clone(), "human passport mnc", Some("human passport")),
            (nested.clone(), "human mnc", Some("human mnc")),
            (nested.clone(), "passport mnc", None),
            (nested, "human", None),
            (listed.clone(), "human passport mnc", Some("human mnc passport")),
            (listed, "human", None),
            (json!({"any": [{"all": ["passport", "mnc"]}, "human"]}), "human passport", Some("human")),
        ];
        for (constraint, available, expected) in table {
            let available: BTreeSet<_> = available.split_whitespace().collect();
            let constraint = read(constraint);
            let selected = constraint.select(&|identifier: &str| available.contains(identifier));
            let expected = expected.map(|expected| expected.split_whitespace().collect());
            assert_eq!(selected, expected, "{constraint:?} of {available:?}");
        }
    }

    #[test]
    fn expressions_beyond_the_limits_are_refused() {
        let all = |count: usize| json!({"all": vec!["human"; count]});
        #[rustfmt::skip]
        let table = [
            (all(11), None),
            (all(12), Some("more than 12 nodes")),
            (json!({"any": [{"all": [{"any": ["human"]}]}]}), Some("more than 2 operators")),
            (json!({"any": [{"all": ["human"]}]}), None),
            (json!({"any": []}), Some("without operands")),
            (json!({"any": ["human", "passport"]}), Some("\"passport\", which is not in proof_requests")),
        ];
        for (constraint, expected) in table {
            let checked = read(constraint.clone()).check(&|identifier| identifier == "human");
            match expected {
                None => assert_eq!(checked, Ok(()), "{constraint}"),
                Some(expected) => assert!(checked.is_err_and(|error| error.contains(expected)), "{constraint}"),
            }
        }
    }

    #[test]
    fn other_shapes_are_not_constraints() {
        for value in [json!(1), json!({}), json!({"not": ["human"]}), json!({"any": ["a"], "all": ["b"]}), json!(["a"])]
        {
            assert!(serde_json::from_value::<Constraint>(value.clone()).is_err(), "{value}");
        }
    }
}
