//! The body of a verification request: three types, told apart by `session_id` with `proof_type`,
//! and then by `protocol_version`.
//!
//! A field with a wrong shape, type or pattern makes the whole request invalid, and the error names
//! its path. A number that is too large for the scalar field still has the right pattern: it fails
//! only its item, when the items are checked ([`super::items`]).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::fields::{Fields, quote};
use super::groups::KnownGroups;
use super::identity::{Environment, LegacyCredential, ProofKind, hash_text};
use super::integrity::{IntegrityBundle, read_score};
use super::rp_signature::RpSignature;
use crate::groth16::proof::{CURRENT_WORDS, LEGACY_WORDS};
use crate::ids::Nullifier;
use crate::time::UnixSeconds;
use crate::tree::Root;
use crate::{U256, encode_enum};

pub use super::fields::{LONGEST_TEXT, MAX_AGE, MOST_RESPONSES, SessionId, ValidationError};
pub use super::identity::RequestedEnvironment;

/// The action of sign-ins with current proofs. The verification endpoint refuses it, so that no
/// application collects there the nullifiers that are the subjects of sign-ins.
pub const SIGN_IN_ACTION: &str = "sign-in";

/// A request of the right shape. Its proofs are not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationRequest {
    /// The form of the request.
    pub form: RequestForm,
    /// The environment that the body names; production when it names no environment.
    pub environment: RequestedEnvironment,
    /// Whether the person's app completed the presence check that it was asked for.
    pub user_presence_completed: bool,
    /// The word of the person's device for the proofs; `None` for a sign-in, which does not use it.
    pub integrity_bundle: Option<IntegrityBundle>,
    /// The relying party's signature of the nonce and the action, if the body has one.
    pub rp_signature: Option<RpSignature>,
    /// The type of the request, and its proofs.
    pub proofs: Proofs,
}

/// The form of a request, by the interface that it came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestForm {
    /// `POST /api/v2/verify/{app_id}`.
    Version2,
    /// `POST /api/v4/verify/{rp_id}`.
    Version4,
}

impl RequestForm {
    /// In how many requests a nullifier may be verified for an action that nobody configured; 0 for
    /// any number. Servers of version 2 act on the status alone, and the public endpoint of that
    /// version counts a person once; servers of version 4 read the message.
    pub fn default_max_verifications(self) -> u64 {
        match self {
            Self::Version2 => 1,
            Self::Version4 => 0,
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
        /// The session that every proof is bound to as well; `None` for proofs that are bound to
        /// none.
        session_id: Option<SessionId>,
        /// The proofs, 1 to [`MOST_RESPONSES`].
        items: Vec<CurrentItem>,
    },
    /// Protocol version 4.0 with a session id and no action.
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
    pub fn identifiers_and_nullifiers(&self) -> Vec<(&str, Nullifier)> {
        match self {
            Self::Legacy { items, .. } => items.iter().map(|item| (item.identifier.name(), item.nullifier)).collect(),
            Self::Uniqueness { items, .. } | Self::Session { items, .. } => {
                items.iter().map(|item| (&*item.identifier, item.nullifier)).collect()
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

    /// The session that the proofs belong to, or that they are bound to as well.
    pub fn session_id(&self) -> Option<&SessionId> {
        match self {
            Self::Legacy { .. } => None,
            Self::Uniqueness { session_id, .. } => session_id.as_ref(),
            Self::Session { session_id, .. } => Some(session_id),
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

/// A legacy proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyItem {
    /// The credential that the proof is for.
    pub identifier: LegacyCredential,
    /// The root of the identity tree that the proof was made against.
    pub merkle_root: Root,
    /// The nullifier: a public input of the proof.
    pub nullifier: Nullifier,
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
    pub nullifier: Nullifier,
    /// The action that the proof is for: the hash of the request's action, or the number that a
    /// session item names.
    pub action: U256,
    /// The lower bound that the proof shows for the credential's expiry.
    pub expires_at_min: UnixSeconds,
    /// The lower bound that the proof shows for the time of the credential's first issue; `None`
    /// when the item does not name it.
    pub credential_genesis_issued_at_min: Option<UnixSeconds>,
    /// The hash of the signal, a public input; 0 when the item does not name it.
    pub signal_hash: U256,
    /// The first four words of the proof; their points are not checked yet.
    pub proof: [U256; CURRENT_WORDS],
    /// The root that the proof was made against: the fifth word of the proof.
    pub root: Root,
    /// The score of Selfie Check; `None` for other issuers, and for a sign-in, which does not use
    /// it.
    pub sybil_score: Option<u64>,
}

/// The statement that the proof of a sign-in makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    /// A legacy proof: the person is one of the identity tree.
    Legacy,
    /// Uniqueness for the action of sign-ins, bound to no session.
    Uniqueness,
    /// Uniqueness for the action of sign-ins, bound to a session that the body names.
    BoundUniqueness,
    /// A session that the body names belongs to the person.
    Session,
}

impl Statement {
    /// The kind of proof that makes it.
    pub fn kind(self) -> ProofKind {
        match self {
            Self::Legacy => ProofKind::Legacy,
            Self::Uniqueness | Self::BoundUniqueness | Self::Session => ProofKind::Current,
        }
    }

    fn has_session(self) -> bool {
        matches!(self, Self::BoundUniqueness | Self::Session)
    }
}

/// What a current proof shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProofType {
    /// That the person has one nullifier for the action. With the session `create` it is bound to a
    /// new session of the person, which the answer names.
    Uniqueness,
    /// That a session belongs to the person.
    Session,
}

encode_enum!(ProofType { Uniqueness = 0, Session = 1 } of "a type of proof");

/// The session that a current proof of a sign-in has to do with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AskedSession {
    /// None: it is not bound to a session.
    #[default]
    None,
    /// A new one, which the proof of uniqueness is bound to.
    New,
    /// The proof is to be one of this session.
    Existing(SessionId),
}

impl AskedSession {
    /// The word for a new session.
    pub const CREATE: &str = "create";

    /// The members `proof_type` and `session_id` of a request.
    pub fn members(&self) -> (Option<ProofType>, Option<String>) {
        match self {
            Self::None => (None, None),
            Self::New => (Some(ProofType::Uniqueness), Some(Self::CREATE.to_owned())),
            Self::Existing(id) => (Some(ProofType::Session), Some(id.text.clone())),
        }
    }
}

/// The values that the proof of a sign-in must be made for. They replace the values of the body, so
/// that a proof for other values does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound<'a> {
    /// The statement; the body must have the protocol version that belongs to it.
    pub statement: Statement,
    /// The environment whose keys and roots the proof is checked with.
    pub environment: Environment,
    /// The action's text; empty for a legacy sign-in. A session proof has none.
    pub action: &'a str,
    /// The nonce of a current proof; not used for a legacy proof.
    pub nonce: U256,
    /// The hash of the signal that the proof must be bound to.
    pub signal_hash: U256,
    /// The greatest age of a legacy root, in seconds, inclusive.
    pub max_age: u64,
    /// The bound of the credential's first issue that a current proof has to show at least; a proof
    /// that names none has this one.
    pub genesis_issued_at_min: Option<UnixSeconds>,
    /// The only credential that a current proof may be of.
    pub identifier: Option<&'a str>,
    /// The groups that a legacy proof can name.
    pub groups: &'a KnownGroups,
}

/// The answer to a sign-in, as a request with one proof for the bound values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundRequest {
    /// The request, with exactly one proof.
    pub request: VerificationRequest,
    /// The identifier of the proof.
    pub identifier: String,
    /// The nullifier of the proof; that of a session proof is another one each time.
    pub nullifier: Nullifier,
}

impl VerificationRequest {
    /// Reads a request from its parsed body, at a service without groups.
    ///
    /// # Errors
    /// The first field that is missing or malformed.
    pub fn read(body: &Value) -> Result<Self, ValidationError> {
        Self::read_with(body, &KnownGroups::default())
    }

    /// Reads a request, whose legacy proofs can be those of members of the groups.
    ///
    /// # Errors
    /// The first field that is missing or malformed.
    pub fn read_with(body: &Value, groups: &KnownGroups) -> Result<Self, ValidationError> {
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
        let is_below_minimum = body.is_below_minimum(version)?;
        let nonce = body.text("nonce")?;
        let action = body.bounded_text("action")?.filter(|action| !action.is_empty());
        let rp_signature = RpSignature::read(&body, nonce, action)?;
        if action.is_some_and(|action| hash_text(action) == hash_text(SIGN_IN_ACTION)) {
            let detail =
                format!("must not be {SIGN_IN_ACTION:?}, which is the action of sign-ins; choose another text");
            return Err(body.wrong("action", detail));
        }
        let responses = body.responses()?;
        let is_bound = session_id.is_some() && body.is_of_type_uniqueness()?;
        let proofs = match (session_id, version) {
            (Some(_), _) if !is_bound => {
                if action.is_some() {
                    let detail = "must be left out when there is a session_id; a proof of uniqueness that is bound to a \
                                  session has proof_type \"uniqueness\"";
                    return Err(body.wrong("action", detail));
                }
                Proofs::Session {
                    session_id: body.session_id()?,
                    nonce: body.as_number("nonce", nonce)?,
                    items: responses.iter().map(|item| session_item(item, None)).collect::<Result<_, _>>()?,
                }
            }
            (None, "3.0") => Proofs::Legacy {
                action: body.required_action(action)?,
                items: responses.iter().map(|item| legacy_item(item, groups, None)).collect::<Result<_, _>>()?,
            },
            _ => {
                let action = body.required_action(action)?;
                let hash = hash_text(&action);
                let session_id = if is_bound { Some(body.session_id()?) } else { None };
                let items = responses.iter().map(|item| uniqueness_item(item, hash, None)).collect::<Result<_, _>>()?;
                Proofs::Uniqueness { action, nonce: body.as_number("nonce", nonce)?, session_id, items }
            }
        };
        let integrity_bundle = IntegrityBundle::read(&body, &proofs)?;
        let request = Self { rp_signature, integrity_bundle, ..Self::with_proofs(&body, body.environment()?, proofs)? };
        // What is malformed is said first.
        if is_below_minimum {
            let detail = "must be \"4.0\", not \"3.0\": min_protocol_version is \"4.0\"; ask for a proof of 4.0";
            let below = body.wrong("protocol_version", detail);
            return Err(ValidationError { code: "protocol_version_not_allowed", ..below });
        }
        Ok(request)
    }

    /// Reads the answer to a sign-in: a body with exactly one proof, of the kind that `bound`
    /// names. Action, nonce, environment, signal hash and greatest root age are those of `bound`;
    /// the body's values of these fields are ignored.
    ///
    /// # Errors
    /// The first field that is missing or malformed.
    pub fn read_bound(body: &Value, bound: &Bound<'_>) -> Result<BoundRequest, ValidationError> {
        let body = Fields::of_body(body)?;
        let version = bound.statement.kind().protocol_version();
        if body.optional("protocol_version").and_then(Value::as_str) != Some(version) {
            return Err(body.wrong("protocol_version", format!("must be {version:?} for this application")));
        }
        match (bound.statement.has_session(), body.optional("session_id")) {
            (false, Some(_)) => {
                return Err(body.wrong("session_id", "must be left out; a session proof is not a sign-in"));
            }
            (true, None) => return Err(body.wrong("session_id", "is missing; the proof has to be one of a session")),
            _ => {}
        }
        let item = body.single_response()?;
        let (action, nonce) = (bound.action.to_owned(), bound.nonce);
        let (identifier, nullifier, proofs) = match bound.statement {
            Statement::Legacy => {
                let item = legacy_item(&item, bound.groups, Some(bound))?;
                (item.identifier.name().to_owned(), item.nullifier, Proofs::Legacy { action, items: vec![item] })
            }
            Statement::Uniqueness | Statement::BoundUniqueness => {
                let item = uniqueness_item(&item, hash_text(bound.action), Some(bound))?;
                let (identifier, nullifier) = (item.identifier.clone(), item.nullifier);
                let session_id = if bound.statement.has_session() { Some(body.session_id()?) } else { None };
                (identifier, nullifier, Proofs::Uniqueness { action, nonce, session_id, items: vec![item] })
            }
            Statement::Session => {
                let item = session_item(&item, Some(bound))?;
                let (identifier, nullifier) = (item.identifier.clone(), item.nullifier);
                (identifier, nullifier, Proofs::Session { session_id: body.session_id()?, nonce, items: vec![item] })
            }
        };
        let request = Self::with_proofs(&body, bound.environment.into(), proofs)?;
        Ok(BoundRequest { request, identifier, nullifier })
    }

    /// The same for proofs that are bound to another nonce. Legacy proofs stay as they are.
    pub fn with_nonce(mut self, bound: U256) -> Self {
        if let Proofs::Uniqueness { nonce, .. } | Proofs::Session { nonce, .. } = &mut self.proofs {
            *nonce = bound;
        }
        self
    }

    fn with_proofs(
        body: &Fields<'_>,
        environment: RequestedEnvironment,
        proofs: Proofs,
    ) -> Result<Self, ValidationError> {
        // It is the sender's word, and nothing binds it: it is neither kept nor shown.
        body.bounded_text("action_description")?;
        Ok(Self {
            form: RequestForm::Version4,
            environment,
            // Any value but `true` counts as false and does not make the request invalid.
            user_presence_completed: body.optional("user_presence_completed") == Some(&Value::Bool(true)),
            integrity_bundle: None,
            rp_signature: None,
            proofs,
        })
    }
}

fn legacy_item(
    item: &Fields<'_>,
    groups: &KnownGroups,
    bound: Option<&Bound<'_>>,
) -> Result<LegacyItem, ValidationError> {
    let identifier = item.legacy_credential("identifier", groups)?;
    let max_age = bound.map_or_else(|| item.max_age(), |bound| Ok(bound.max_age))?;
    Ok(LegacyItem {
        identifier,
        merkle_root: Root::from_number(item.hex("merkle_root")?),
        nullifier: Nullifier(item.hex("nullifier")?),
        proof: item.legacy_proof("proof")?,
        signal_hash: bound.map_or_else(|| item.signal_hash("signal_hash"), |bound| Ok(bound.signal_hash))?,
        max_age,
    })
}

fn uniqueness_item(item: &Fields<'_>, action: U256, bound: Option<&Bound<'_>>) -> Result<CurrentItem, ValidationError> {
    let nullifier = item.as_nullifier("nullifier", item.text("nullifier")?)?;
    current_item(item, nullifier, action, bound)
}

fn session_item(item: &Fields<'_>, bound: Option<&Bound<'_>>) -> Result<CurrentItem, ValidationError> {
    let [nullifier, action] = item.texts("session_nullifier", "the nullifier and the action")?;
    let nullifier = item.as_nullifier("session_nullifier[0]", nullifier)?;
    let action = item.as_nullifier("session_nullifier[1]", action)?;
    current_item(item, nullifier, action.0, bound)
}

fn current_item(
    item: &Fields<'_>,
    nullifier: Nullifier,
    action: U256,
    bound: Option<&Bound<'_>>,
) -> Result<CurrentItem, ValidationError> {
    let [a, b1, b0, c, root] = item.numbers("proof", "A, B (two words), C and the root")?;
    let signal_hash = match bound {
        Some(_) => None,
        None => item.optional_text("signal_hash")?,
    };
    let identifier = item.required("identifier").and(item.bounded_text("identifier"))?.unwrap_or_default();
    if let Some(only) = bound.and_then(|bound| bound.identifier).filter(|only| *only != identifier) {
        return Err(item.wrong("identifier", format!("must be {only:?}, the credential that was asked for")));
    }
    let genesis = "credential_genesis_issued_at_min";
    let credential_genesis_issued_at_min = match (item.optional_seconds(genesis)?, bound) {
        (None, Some(bound)) => bound.genesis_issued_at_min,
        (Some(given), Some(Bound { genesis_issued_at_min: Some(least), .. })) if given < *least => {
            return Err(item.wrong(genesis, format!("must be {least} or later, as was asked for")));
        }
        (given, _) => given,
    };
    let issuer_schema_id = item.issuer_schema_id("issuer_schema_id")?;
    let sybil_score = if bound.is_some() { None } else { read_score(item, issuer_schema_id)? };
    Ok(CurrentItem {
        identifier: identifier.to_owned(),
        issuer_schema_id,
        nullifier,
        action,
        expires_at_min: item
            .required("expires_at_min")
            .and(item.optional_seconds("expires_at_min"))?
            .unwrap_or_default(),
        credential_genesis_issued_at_min,
        signal_hash: match signal_hash {
            Some(text) => item.as_number("signal_hash", text)?,
            None => bound.map_or(U256::ZERO, |bound| bound.signal_hash),
        },
        proof: [a, b1, b0, c],
        root: Root::from_number(root),
        sybil_score,
    })
}

// The request of `POST /api/v2/verify/{app_id}`, the public interface before `protocol_version`:
// one legacy proof, without a nonce and an environment.

/// Why a request is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Version2Error {
    /// A field is missing, or has a wrong type or pattern.
    #[error(transparent)]
    Validation(#[from] ValidationError),
    /// The root or the proof is a text that stands for none.
    #[error("{0}")]
    Format(ValidationError),
    /// The action is that of sign-ins.
    #[error("{0}")]
    SignInAction(ValidationError),
}

/// A request of the right shape. Its proof is not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version2Request {
    /// The action's text, not empty, at most [`LONGEST_TEXT`] bytes.
    pub action: String,
    /// The proof.
    pub item: LegacyItem,
}

impl Version2Request {
    /// Reads a request from its parsed body. Its proof can be that of a member of one of the
    /// groups.
    ///
    /// # Errors
    /// The first field that is missing or malformed.
    pub fn read(body: &Value, groups: &KnownGroups) -> Result<Self, Version2Error> {
        let body = Fields::of_body(body)?;
        body.required("action")?;
        let action = body.bounded_text("action")?.unwrap_or_default();
        // Legacy sign-ins have the empty action, and current ones another.
        if action.is_empty() || hash_text(action) == hash_text(SIGN_IN_ACTION) {
            let detail = format!("must not be {action:?}, which is the action of sign-ins; choose another text");
            return Err(Version2Error::SignInAction(body.wrong("action", detail)));
        }
        // A text that is missing is another error than one that stands for nothing.
        body.text("verification_level").and(body.text("proof")).and(body.text("merkle_root"))?;
        let item = LegacyItem {
            identifier: body.legacy_credential("verification_level", groups)?,
            nullifier: Nullifier(body.hex("nullifier_hash")?),
            signal_hash: body.signal_hash("signal_hash")?,
            max_age: body.max_age()?,
            merkle_root: Root::from_number(body.hex("merkle_root").map_err(Version2Error::Format)?),
            proof: body.legacy_proof("proof").map_err(Version2Error::Format)?,
        };
        Ok(Self { action: action.to_owned(), item })
    }

    /// The same request in the present form, for an environment.
    pub fn into_request(self, environment: Environment) -> VerificationRequest {
        VerificationRequest {
            environment: environment.into(),
            form: RequestForm::Version2,
            user_presence_completed: false,
            integrity_bundle: None,
            rp_signature: None,
            proofs: Proofs::Legacy { action: self.action, items: vec![self.item] },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::identity::hash_to_field;
    use super::VerificationRequest;
    use super::*;

    fn case() -> Value {
        serde_json::from_str(include_str!("../../vectors/v3_depth30_verify_user.json")).expect("JSON")
    }

    fn body() -> Value {
        let case = case();
        json!({
            "action": "verify-user", "verification_level": "orb", "merkle_root": case["root"],
            "nullifier_hash": case["nullifier_hash"], "proof": case["proof"], "signal_hash": case["signal_hash"],
            "credential_type": "orb",
        })
    }

    #[test]
    fn it_is_the_legacy_request_of_today_in_another_form() {
        let case = case();
        let today = json!({
            "protocol_version": "3.0", "nonce": "n", "action": "verify-user", "environment": "staging",
            "responses": [{
                "identifier": "orb", "merkle_root": case["root"], "nullifier": case["nullifier_hash"],
                "proof": case["proof"], "signal_hash": case["signal_hash"],
            }],
        });
        let read = Version2Request::read(&body(), &KnownGroups::default())
            .expect("a request")
            .into_request(Environment::Staging);
        let today = VerificationRequest::read(&today).expect("a request");
        assert_eq!(read, VerificationRequest { form: RequestForm::Version2, ..today });
    }

    #[test]
    fn fields_that_are_missing_have_their_defaults_or_an_error() {
        let without = |name: &str| {
            let mut body = body();
            body.as_object_mut().expect("an object").remove(name);
            Version2Request::read(&body, &KnownGroups::default())
        };
        assert_eq!(without("signal_hash").expect("a request").item.signal_hash, hash_to_field(&[]));
        for name in ["action", "verification_level", "merkle_root", "nullifier_hash", "proof"] {
            let Err(Version2Error::Validation(error)) = without(name) else { panic!("{name}") };
            assert_eq!(error.attribute.as_deref(), Some(name));
        }
    }

    #[test]
    fn each_malformed_field_has_its_error() {
        let table = [
            ("action", json!(""), "sign-in action"),
            ("action", json!("sign-in"), "sign-in action"),
            ("action", json!(7), "validation"),
            ("action", json!("a".repeat(2049)), "validation"),
            ("verification_level", json!("iris"), "validation"),
            ("nullifier_hash", json!("0xg"), "validation"),
            ("nullifier_hash", json!(format!("0x{}", "1".repeat(65))), "validation"),
            ("signal_hash", json!("0xAB"), "validation"),
            ("max_age", json!(3599), "validation"),
            ("merkle_root", json!(7), "validation"),
            ("merkle_root", json!("root"), "format"),
            ("proof", json!("0x12"), "format"),
            ("proof", json!(["0x12"]), "validation"),
        ];
        for (name, value, expected) in table {
            let mut body = body();
            body[name] = value;
            let (kind, error) = match Version2Request::read(&body, &KnownGroups::default()).expect_err("refused") {
                Version2Error::Validation(error) => ("validation", error),
                Version2Error::Format(error) => ("format", error),
                Version2Error::SignInAction(error) => ("sign-in action", error),
            };
            assert_eq!((kind, error.attribute.as_deref()), (expected, Some(name)), "{body}");
        }
        assert!(matches!(
            Version2Request::read(&json!([]), &KnownGroups::default()),
            Err(Version2Error::Validation(_))
        ));
    }
}
