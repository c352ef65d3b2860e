//! The body of a verification request: three types, told apart by `session_id` and then by
//! `protocol_version`.
//!
//! A field with a wrong shape, type or pattern makes the whole request invalid, and the error names
//! its path. A number that is too large for the scalar field still has the right pattern: it fails
//! only its item, when the items are checked ([`super::items`]).

use serde_json::{Map, Value};

use super::hash::{hash_text, hash_to_field};
use super::identity::{Environment, LegacyIdentifier, ProofKind};
use crate::U256;
use crate::groth16::proof::{CURRENT_WORDS, LEGACY_WORDS};
use crate::ids::Nullifier;
use crate::time::UnixSeconds;
use crate::tree::{Root, is_below_field};

/// The most items that a request can have.
pub const MOST_RESPONSES: usize = 16;

/// The longest action, description and identifier, in bytes of UTF-8.
pub const LONGEST_TEXT: usize = 2048;

/// Bounds of a legacy item's `max_age` in seconds, both inclusive. The upper bound is the default.
pub const MAX_AGE: std::ops::RangeInclusive<u64> = 3600..=604_800;

/// The action of sign-ins with current proofs. The verification endpoint refuses it, so that no
/// application collects there the nullifiers that are the subjects of sign-ins.
pub const SIGN_IN_ACTION: &str = "sign-in";

/// A request of the right shape. Its proofs are not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationRequest {
    /// The environment that the body names; production when it names no environment.
    pub environment: RequestedEnvironment,
    /// The description that the action's record gets when a proof of this request creates the
    /// action.
    pub action_description: String,
    /// Whether the person's app completed the presence check that it was asked for.
    pub user_presence_completed: bool,
    /// Whether the body has an `integrity_bundle`, which the verification endpoint refuses.
    pub has_integrity_bundle: bool,
    /// The type of the request, and its proofs.
    pub proofs: Proofs,
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

/// The three types of request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proofs {
    /// Protocol version 3.0.
    Legacy {
        /// The action's text, not empty, at most [`LONGEST_TEXT`] bytes.
        action: String,
        /// The proofs, 1 to [`MOST_RESPONSES`].
        items: Vec<LegacyItem>,
    },
    /// Protocol version 4.0.
    Uniqueness {
        /// The action's text, not empty, at most [`LONGEST_TEXT`] bytes.
        action: String,
        /// The nonce: a public input of every proof.
        nonce: U256,
        /// The proofs, 1 to [`MOST_RESPONSES`].
        items: Vec<CurrentItem>,
    },
    /// Protocol version 4.0 with a session id.
    Session {
        /// The session that the proofs belong to.
        session_id: SessionId,
        /// The nonce: a public input of every proof.
        nonce: U256,
        /// The proofs, 1 to [`MOST_RESPONSES`].
        items: Vec<CurrentItem>,
    },
}

impl Proofs {
    /// The kind of verification key and root that the proofs need.
    pub fn kind(&self) -> ProofKind {
        match self {
            Self::Legacy { .. } => ProofKind::Legacy,
            Self::Uniqueness { .. } | Self::Session { .. } => ProofKind::Current,
        }
    }

    /// Identifier and nullifier of each proof, in the request's order.
    pub fn identifiers_and_nullifiers(&self) -> Vec<(&str, &NullifierText)> {
        match self {
            Self::Legacy { items, .. } => items.iter().map(|item| (item.identifier.name(), &item.nullifier)).collect(),
            Self::Uniqueness { items, .. } | Self::Session { items, .. } => {
                items.iter().map(|item| (&*item.identifier, &item.nullifier)).collect()
            }
        }
    }

    /// How many proofs there are: at most [`MOST_RESPONSES`].
    pub fn count(&self) -> usize {
        match self {
            Self::Legacy { items, .. } => items.len(),
            Self::Uniqueness { items, .. } | Self::Session { items, .. } => items.len(),
        }
    }

    /// The action's text; `None` for a session request.
    pub fn action(&self) -> Option<&str> {
        match self {
            Self::Legacy { action, .. } | Self::Uniqueness { action, .. } => Some(action),
            Self::Session { .. } => None,
        }
    }
}

/// A number with its text in the body. A text beyond 256 bits reads as the greatest 256-bit number,
/// which is above the modulus of the scalar field.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NumberText {
    text: String,
    value: U256,
}

/// A nullifier with its text in the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NullifierText {
    /// The text as the body has it, which the answer repeats.
    pub text: String,
    /// The number. A text of more than 256 bits has the greatest 256-bit number, which fails its
    /// item.
    pub value: Nullifier,
}

impl From<NumberText> for NullifierText {
    fn from(number: NumberText) -> Self {
        Self { text: number.text, value: Nullifier(number.value) }
    }
}

/// A legacy proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyItem {
    /// The credential that the proof is for.
    pub identifier: LegacyIdentifier,
    /// The root of the identity tree that the proof was made against.
    pub merkle_root: Root,
    /// The nullifier: a public input of the proof.
    pub nullifier: NullifierText,
    /// The words of the legacy encoding; their points are not checked yet.
    pub proof: [U256; LEGACY_WORDS],
    /// The hash of the signal, a public input; by default the hash of the empty signal.
    pub signal_hash: U256,
    /// The greatest age of the root, in seconds, inclusive.
    pub max_age: u64,
}

/// A uniqueness or session proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentItem {
    /// The kind of credential, at most [`LONGEST_TEXT`] bytes; it must be one of the issuer's
    /// identifiers.
    pub identifier: String,
    /// The issuer of the credential.
    pub issuer_schema_id: u64,
    /// The field `nullifier`, or the first number of `session_nullifier`.
    pub nullifier: NullifierText,
    /// The action that the proof is for: the hash of the request's action, or the number that a
    /// session item names.
    pub action: U256,
    /// The lower bound that the proof shows for the credential's expiry.
    pub expires_at_min: UnixSeconds,
    /// 0 when the item does not name it.
    pub credential_genesis_issued_at_min: UnixSeconds,
    /// The hash of the signal, a public input; 0 when the item does not name it.
    pub signal_hash: U256,
    /// The first four words of the proof; their points are not checked yet.
    pub proof: [U256; CURRENT_WORDS],
    /// The root that the proof was made against: the fifth word of the proof.
    pub root: Root,
}

/// A session id: `session_` and 128 hex digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionId {
    /// The id as the body has it, which the answer repeats.
    pub text: String,
    /// The first half of the id: a public input of the session's proofs.
    pub commitment: U256,
}

/// The values that the proof of a sign-in must be made for. They replace the values of the body, so
/// that a proof for other values does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound<'a> {
    /// The kind of proof; the body must have the protocol version that belongs to it.
    pub kind: ProofKind,
    /// The environment whose keys and roots the proof is checked with.
    pub environment: Environment,
    /// The action's text; empty for a legacy sign-in.
    pub action: &'a str,
    /// The nonce of a current proof; not used for a legacy proof.
    pub nonce: U256,
    /// The hash of the signal that the proof must be bound to.
    pub signal_hash: U256,
    /// The greatest age of a legacy root, in seconds, inclusive.
    pub max_age: u64,
}

/// The answer to a sign-in, as a request with one proof for the bound values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundRequest {
    /// The request, with exactly one proof.
    pub request: VerificationRequest,
    /// The identifier of the proof.
    pub identifier: String,
    /// The nullifier of the proof.
    pub nullifier: Nullifier,
}

/// A field that is missing or malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct ValidationError {
    /// Path of the field, such as `responses[0].proof`; `None` when the body is not an object.
    pub attribute: Option<String>,
    /// What is wrong with the field, and what would be right.
    pub detail: String,
}

impl VerificationRequest {
    /// Reads a request from its parsed body.
    ///
    /// # Errors
    /// The first field that is missing or malformed.
    pub fn read(body: &Value) -> Result<Self, ValidationError> {
        let body = Fields::of_body(body)?;
        let version = body.text("protocol_version")?;
        let session_id = body.optional("session_id");
        match (version, session_id) {
            ("3.0", None) | ("4.0", _) => {}
            ("3.0", Some(_)) => {
                let detail = "must be \"4.0\" when there is a session_id; protocol version 3.0 has no sessions";
                return Err(body.wrong("protocol_version", detail));
            }
            _ => {
                let detail = format!("must be \"3.0\" or \"4.0\", not {}", quote(version));
                return Err(body.wrong("protocol_version", detail));
            }
        }
        body.check_minimum(version)?;
        let nonce = body.text("nonce")?;
        let action = body.bounded_text("action")?.filter(|action| !action.is_empty());
        if action.is_some_and(|action| hash_text(action) == hash_text(SIGN_IN_ACTION)) {
            let detail =
                format!("must not be {SIGN_IN_ACTION:?}, which is the action of sign-ins; choose another text");
            return Err(body.wrong("action", detail));
        }
        let responses = body.responses()?;
        let proofs = match (session_id, version) {
            (Some(_), _) => {
                if action.is_some() {
                    return Err(body.wrong("action", "must be left out when there is a session_id"));
                }
                Proofs::Session {
                    session_id: body.session_id()?,
                    nonce: body.as_number("nonce", nonce)?.value,
                    items: responses.iter().map(session_item).collect::<Result<_, _>>()?,
                }
            }
            (None, "3.0") => Proofs::Legacy {
                action: body.required_action(action)?,
                items: responses.iter().map(|item| legacy_item(item, None)).collect::<Result<_, _>>()?,
            },
            (None, _) => {
                let action = body.required_action(action)?;
                let hash = hash_text(&action);
                let items = responses.iter().map(|item| uniqueness_item(item, hash, None)).collect::<Result<_, _>>()?;
                Proofs::Uniqueness { action, nonce: body.as_number("nonce", nonce)?.value, items }
            }
        };
        Self::with_proofs(&body, body.environment()?, proofs)
    }

    /// Reads the answer to a sign-in: a body with exactly one proof, of the kind that `bound`
    /// names. Action, nonce, environment, signal hash and greatest root age are those of `bound`;
    /// the body's values of these fields are ignored.
    ///
    /// # Errors
    /// The first field that is missing or malformed.
    pub fn read_bound(body: &Value, bound: &Bound<'_>) -> Result<BoundRequest, ValidationError> {
        let body = Fields::of_body(body)?;
        let version = bound.kind.protocol_version();
        if body.optional("protocol_version").and_then(Value::as_str) != Some(version) {
            return Err(body.wrong("protocol_version", format!("must be {version:?} for this application")));
        }
        if body.optional("session_id").is_some() {
            return Err(body.wrong("session_id", "must be left out; a session proof is not a sign-in"));
        }
        let item = body.single_response()?;
        let action = bound.action.to_owned();
        let (identifier, nullifier, proofs) = match bound.kind {
            ProofKind::Legacy => {
                let item = legacy_item(&item, Some(bound))?;
                (item.identifier.name().to_owned(), item.nullifier.value, Proofs::Legacy { action, items: vec![item] })
            }
            ProofKind::Current => {
                let item = uniqueness_item(&item, hash_text(bound.action), Some(bound))?;
                let (identifier, nullifier) = (item.identifier.clone(), item.nullifier.value);
                (identifier, nullifier, Proofs::Uniqueness { action, nonce: bound.nonce, items: vec![item] })
            }
        };
        let environment = match bound.environment {
            Environment::Production => RequestedEnvironment::Production,
            Environment::Staging => RequestedEnvironment::Staging,
        };
        let request = Self::with_proofs(&body, environment, proofs)?;
        Ok(BoundRequest { request, identifier, nullifier })
    }

    fn with_proofs(
        body: &Fields<'_>,
        environment: RequestedEnvironment,
        proofs: Proofs,
    ) -> Result<Self, ValidationError> {
        Ok(Self {
            environment,
            action_description: body.bounded_text("action_description")?.unwrap_or_default().to_owned(),
            // Any value but `true` counts as false and does not make the request invalid.
            user_presence_completed: body.optional("user_presence_completed") == Some(&Value::Bool(true)),
            has_integrity_bundle: body.optional("integrity_bundle").is_some(),
            proofs,
        })
    }
}

fn legacy_item(item: &Fields<'_>, bound: Option<&Bound<'_>>) -> Result<LegacyItem, ValidationError> {
    let name = item.text("identifier")?;
    let identifier = LegacyIdentifier::from_name(name).ok_or_else(|| {
        let known = LegacyIdentifier::names(&LegacyIdentifier::ALL);
        item.wrong("identifier", format!("must be one of {known}, not {}", quote(name)))
    })?;
    let max_age = bound.map_or_else(|| item.max_age(), |bound| Ok(bound.max_age))?;
    Ok(LegacyItem {
        identifier,
        merkle_root: Root::from_number(item.hex("merkle_root")?.value),
        nullifier: item.hex("nullifier")?.into(),
        proof: item.legacy_proof("proof")?,
        signal_hash: bound.map_or_else(|| item.signal_hash("signal_hash"), |bound| Ok(bound.signal_hash))?,
        max_age,
    })
}

fn uniqueness_item(item: &Fields<'_>, action: U256, bound: Option<&Bound<'_>>) -> Result<CurrentItem, ValidationError> {
    let nullifier = item.as_number("nullifier", item.text("nullifier")?)?;
    current_item(item, nullifier.into(), action, bound)
}

fn session_item(item: &Fields<'_>) -> Result<CurrentItem, ValidationError> {
    let [nullifier, action] = item.numbers("session_nullifier", "the nullifier and the action")?;
    current_item(item, nullifier.into(), action.value, None)
}

fn current_item(
    item: &Fields<'_>,
    nullifier: NullifierText,
    action: U256,
    bound: Option<&Bound<'_>>,
) -> Result<CurrentItem, ValidationError> {
    let [a, b1, b0, c, root] = item.numbers("proof", "A, B (two words), C and the root")?.map(|word| word.value);
    let signal_hash = match bound {
        Some(_) => None,
        None => item.optional_text("signal_hash")?,
    };
    Ok(CurrentItem {
        identifier: item.required("identifier").and(item.bounded_text("identifier"))?.unwrap_or_default().to_owned(),
        issuer_schema_id: item.issuer_schema_id("issuer_schema_id")?,
        nullifier,
        action,
        expires_at_min: UnixSeconds(item.integer("expires_at_min")?),
        credential_genesis_issued_at_min: item
            .optional_integer("credential_genesis_issued_at_min")?
            .map_or_else(UnixSeconds::default, UnixSeconds),
        signal_hash: match signal_hash {
            Some(text) => item.as_number("signal_hash", text)?.value,
            None => bound.map_or(U256::ZERO, |bound| bound.signal_hash),
        },
        proof: [a, b1, b0, c],
        root: Root::from_number(root),
    })
}

/// An object of the body with its path, which errors put before the names of its fields.
struct Fields<'a> {
    object: &'a Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    fn of_body(body: &'a Value) -> Result<Self, ValidationError> {
        let object = body.as_object().ok_or_else(|| ValidationError {
            attribute: None,
            detail: format!("the body must be a JSON object, not {}", kind_of(body)),
        })?;
        Ok(Self { object, path: String::new() })
    }

    fn wrong(&self, name: &str, detail: impl Into<String>) -> ValidationError {
        ValidationError { attribute: Some(format!("{}{name}", self.path)), detail: format!("{name} {}", detail.into()) }
    }

    fn wrong_type(&self, name: &str, expected: &str, found: &Value) -> ValidationError {
        self.wrong(name, format!("must be {expected}, not {}", kind_of(found)))
    }

    /// A field of the object; null counts as absent.
    fn optional(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    fn required(&self, name: &str) -> Result<&'a Value, ValidationError> {
        self.optional(name).ok_or_else(|| self.wrong(name, "is missing"))
    }

    fn optional_text(&self, name: &str) -> Result<Option<&'a str>, ValidationError> {
        let Some(value) = self.optional(name) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong_type(name, "a string", value))
    }

    fn text(&self, name: &str) -> Result<&'a str, ValidationError> {
        self.required(name)?;
        Ok(self.optional_text(name)?.unwrap_or_default())
    }

    /// A text that the daemon stores or repeats in an answer: at most [`LONGEST_TEXT`] bytes.
    fn bounded_text(&self, name: &str) -> Result<Option<&'a str>, ValidationError> {
        let text = self.optional_text(name)?;
        match text.map(str::len) {
            Some(length) if length > LONGEST_TEXT => {
                Err(self.wrong(name, format!("has {length} bytes, it must have at most {LONGEST_TEXT}")))
            }
            _ => Ok(text),
        }
    }

    fn optional_integer(&self, name: &str) -> Result<Option<u64>, ValidationError> {
        let Some(value) = self.optional(name) else { return Ok(None) };
        value.as_u64().map(Some).ok_or_else(|| self.wrong_type(name, "an integer from 0 to 2^64 - 1", value))
    }

    fn integer(&self, name: &str) -> Result<u64, ValidationError> {
        self.required(name)?;
        Ok(self.optional_integer(name)?.unwrap_or_default())
    }

    fn max_age(&self) -> Result<u64, ValidationError> {
        let max_age = self.optional_integer("max_age")?.unwrap_or(*MAX_AGE.end());
        if MAX_AGE.contains(&max_age) {
            return Ok(max_age);
        }
        let detail = format!("must be {} to {} seconds, not {max_age}", MAX_AGE.start(), MAX_AGE.end());
        Err(self.wrong("max_age", detail))
    }

    /// A 64-bit number, as a JSON number or as a number in a string.
    fn issuer_schema_id(&self, name: &str) -> Result<u64, ValidationError> {
        let text = match self.required(name)? {
            Value::String(text) => text,
            _ => return self.integer(name),
        };
        let number = self.as_number(name, text)?;
        number.value.try_into().map_err(|_| self.wrong(name, "does not fit 64 bits"))
    }

    fn as_number(&self, name: &str, text: &str) -> Result<NumberText, ValidationError> {
        let value = number(text).ok_or_else(|| {
            self.wrong(name, format!("must be 0x and hex digits, or decimal digits, not {}", quote(text)))
        })?;
        Ok(NumberText { text: text.to_owned(), value })
    }

    /// An array of exactly `N` numbers as strings.
    fn numbers<const N: usize>(&self, name: &str, what: &str) -> Result<[NumberText; N], ValidationError> {
        let value = self.required(name)?;
        let texts = value.as_array().ok_or_else(|| self.wrong_type(name, "an array of strings", value))?;
        if texts.len() != N {
            return Err(self.wrong(name, format!("must have {N} strings ({what}), not {}", texts.len())));
        }
        let read = |(index, value): (usize, &Value)| {
            let name = format!("{name}[{index}]");
            let text = value.as_str().ok_or_else(|| self.wrong_type(&name, "a string", value))?;
            self.as_number(&name, text)
        };
        let numbers: Vec<_> = texts.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        numbers.try_into().map_err(|_| self.wrong(name, format!("must have {N} strings")))
    }

    /// 1 to 64 hex digits, with or without `0x`.
    fn hex(&self, name: &str) -> Result<NumberText, ValidationError> {
        let text = self.text(name)?;
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let value = (digits.len() <= 64).then(|| from_digits(digits, 16)).flatten();
        let value =
            value.ok_or_else(|| self.wrong(name, format!("must be 0x and 1 to 64 hex digits, not {}", quote(text))))?;
        Ok(NumberText { text: text.to_owned(), value })
    }

    /// The hash of a legacy proof's signal, in lower-case hex digits; by default the hash of the
    /// empty signal.
    fn signal_hash(&self, name: &str) -> Result<U256, ValidationError> {
        let Some(text) = self.optional_text(name)? else { return Ok(hash_to_field(&[])) };
        let digits = text.strip_prefix("0x").filter(|digits| digits.len() <= 64);
        let digits = digits.filter(|digits| !digits.bytes().any(|digit| digit.is_ascii_uppercase()));
        digits.and_then(|digits| from_digits(digits, 16)).ok_or_else(|| {
            self.wrong(name, format!("must be 0x and 1 to 64 lower-case hex digits, not {}", quote(text)))
        })
    }

    /// The eight words of a legacy proof: `0x` and 512 hex digits, or JSON text of the same
    /// numbers.
    fn legacy_proof(&self, name: &str) -> Result<[U256; LEGACY_WORDS], ValidationError> {
        let text = self.text(name)?;
        let words = match text.strip_prefix("0x") {
            Some(digits) => packed_words(digits),
            None => nested_words(text),
        };
        words.ok_or_else(|| {
            let right = "0x and 512 hex digits, or JSON text of [[a,a],[[b,b],[b,b]],[c,c]] with numbers as strings";
            self.wrong(name, format!("must be {right}; it has {} characters", text.chars().count()))
        })
    }

    fn session_id(&self) -> Result<SessionId, ValidationError> {
        let text = self.text("session_id")?;
        let digits = text.strip_prefix("session_").filter(|digits| digits.len() == 128 && digits.is_ascii());
        let halves = digits.map(|digits| digits.split_at(64));
        let halves = halves.and_then(|(one, two)| Some((from_digits(one, 16)?, from_digits(two, 16)?)));
        let (commitment, seed) =
            halves.ok_or_else(|| self.wrong("session_id", "must be session_ and 128 hex digits"))?;
        if !is_below_field(&commitment) || !is_below_field(&seed) {
            return Err(self.wrong("session_id", "has a half that is not below the modulus of the scalar field"));
        }
        if seed.byte(31) != 1 {
            return Err(self.wrong("session_id", "must have 01 as the first byte of its second half"));
        }
        Ok(SessionId { text: text.to_owned(), commitment })
    }

    fn environment(&self) -> Result<RequestedEnvironment, ValidationError> {
        match self.optional_text("environment")? {
            None | Some("production") => Ok(RequestedEnvironment::Production),
            Some("staging") => Ok(RequestedEnvironment::Staging),
            Some("sandbox") => Ok(RequestedEnvironment::Sandbox),
            Some(other) => {
                let detail = format!("must be production, staging or sandbox, not {}", quote(other));
                Err(self.wrong("environment", detail))
            }
        }
    }

    /// Checks `min_protocol_version`. A legacy proof does not bind the nonce, so without a minimum
    /// it can take the place of the current proof that was asked for.
    fn check_minimum(&self, version: &str) -> Result<(), ValidationError> {
        match self.optional_text("min_protocol_version")? {
            Some("4.0") if version == "3.0" => {
                let detail = "must be \"4.0\", not \"3.0\": min_protocol_version is \"4.0\"; ask for a proof of 4.0";
                Err(self.wrong("protocol_version", detail))
            }
            None | Some("3.0" | "4.0") => Ok(()),
            Some(other) => {
                let detail = format!("must be \"3.0\" or \"4.0\", not {}", quote(other));
                Err(self.wrong("min_protocol_version", detail))
            }
        }
    }

    fn required_action(&self, action: Option<&str>) -> Result<String, ValidationError> {
        let missing = || self.wrong("action", "is missing or empty; only a request with a session_id has none");
        action.map(str::to_owned).ok_or_else(missing)
    }

    /// The single entry of `responses` in the answer to a sign-in.
    fn single_response(&self) -> Result<Fields<'a>, ValidationError> {
        match self.optional("responses").and_then(Value::as_array).map(Vec::as_slice) {
            Some([Value::Object(object)]) => Ok(Fields { object, path: "responses[0].".to_owned() }),
            _ => Err(self.wrong("responses", "must have exactly one entry, an object")),
        }
    }

    fn responses(&self) -> Result<Vec<Fields<'a>>, ValidationError> {
        let value = self.required("responses")?;
        let items = value.as_array().ok_or_else(|| self.wrong_type("responses", "an array of objects", value))?;
        if !(1..=MOST_RESPONSES).contains(&items.len()) {
            let detail = format!("must have 1 to {MOST_RESPONSES} entries, not {}", items.len());
            return Err(self.wrong("responses", detail));
        }
        let read = |(index, item): (usize, &'a Value)| {
            let name = format!("responses[{index}]");
            let object = item.as_object().ok_or_else(|| self.wrong_type(&name, "an object", item))?;
            Ok(Fields { object, path: format!("{name}.") })
        };
        items.iter().enumerate().map(read).collect()
    }
}

/// Reads `0x` and hex digits, or decimal digits. A number beyond 256 bits becomes the greatest
/// 256-bit number.
fn number(text: &str) -> Option<U256> {
    match text.strip_prefix("0x") {
        Some(digits) => from_digits(digits, 16),
        None => from_digits(text, 10),
    }
}

fn from_digits(digits: &str, radix: u32) -> Option<U256> {
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    Some(U256::from_str_radix(digits, radix.into()).unwrap_or(U256::MAX))
}

fn packed_words(digits: &str) -> Option<[U256; LEGACY_WORDS]> {
    if digits.len() != LEGACY_WORDS * 64 || !digits.is_ascii() {
        return None;
    }
    let mut words = [U256::ZERO; LEGACY_WORDS];
    for (word, digits) in words.iter_mut().zip(digits.as_bytes().chunks_exact(64)) {
        *word = from_digits(std::str::from_utf8(digits).ok()?, 16)?;
    }
    Some(words)
}

fn nested_words(text: &str) -> Option<[U256; LEGACY_WORDS]> {
    type Nested<'a> = ([&'a str; 2], [[&'a str; 2]; 2], [&'a str; 2]);
    let (a, b, c): Nested = serde_json::from_str(text).ok()?;
    let mut words = [U256::ZERO; LEGACY_WORDS];
    for (word, text) in words.iter_mut().zip([a, b[0], b[1], c].as_flattened()) {
        *word = number(text)?;
    }
    Some(words)
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "this number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The text in quotes for a message, cut to 80 characters.
pub(super) fn quote(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
