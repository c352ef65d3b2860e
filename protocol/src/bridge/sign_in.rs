//! A sign-in as a request of the public client kits, and the answer to it as the proof that the
//! sign-in takes. With them, an authenticator that knows nothing but the bridge can sign in.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::request::Level;
use crate::U256;
use crate::json::from_object;
use crate::number::padded;
use crate::signature::{SecretKey, SigningError};
use crate::time::UnixSeconds;
use crate::verification::identity::hash_text;
use crate::verification::request::{AskedSession, ProofType};
use crate::verification::rp_signature::{SignedRequest, signed_action};
use crate::verification::{Environment, LegacyIdentifier, ProofKind, RelyingPartyId};

/// The name of this program in requests.
const PACKAGE: &str = "selfsame";

/// The longest answer, in bytes. The largest useful one has some kilobytes.
pub const LONGEST_ANSWER: usize = 64 * 1024;

/// A sign-in, for a request on the bridge.
#[derive(Clone, Copy, Debug)]
pub struct BridgeSignIn<'a> {
    /// Id of the application that the person signs in to.
    pub app_id: &'a str,
    /// What the person signs in to, for the person.
    pub description: &'a str,
    /// Action that the proof has to be for; empty for a legacy proof and for one in a session.
    pub action: &'a str,
    /// The environment of the proof.
    pub environment: Environment,
    /// Signal of the proof: `0x` and the hex digits of the bytes that it is bound to.
    pub signal: &'a str,
    /// The proof that is asked for.
    pub asked: AskedProof<'a>,
}

/// The proof that a sign-in asks for.
#[derive(Clone, Copy, Debug)]
pub enum AskedProof<'a> {
    /// A legacy proof of this level or a stronger one.
    Legacy(Level),
    /// A current proof.
    Current(AskedCurrent<'a>),
}

/// The current proof that a sign-in asks for: of one of the credentials.
#[derive(Clone, Copy, Debug)]
pub struct AskedCurrent<'a> {
    /// An id of the request, which the answer repeats.
    pub id: &'a str,
    /// The relying party.
    pub party: &'a SigningParty,
    /// The nonce that the proof is bound to.
    pub nonce: U256,
    /// The session that the proof has to do with.
    pub session: &'a AskedSession,
    /// The bound of the credential's first issue that the proof has to show.
    pub genesis_issued_at_min: Option<UnixSeconds>,
    /// The only one of the party's credentials that the proof may be of; `None` for each of them.
    pub identifier: Option<&'a str>,
    /// When the request is made.
    pub created_at: UnixSeconds,
    /// Until when it can be answered.
    pub expires_at: UnixSeconds,
}

/// A relying party whose requests for current proofs this service signs.
#[derive(Clone, Debug)]
pub struct SigningParty {
    /// The relying party.
    pub rp_id: RelyingPartyId,
    /// The key that it signs with.
    pub key: SecretKey,
    /// The credentials that it accepts, each with its issuer; at least one.
    pub credentials: Vec<RequestedCredential>,
}

/// A credential that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedCredential {
    /// The name of the credential.
    pub identifier: String,
    /// Its issuer.
    pub issuer_schema_id: u64,
}

impl BridgeSignIn<'_> {
    /// The request, before it is encrypted.
    ///
    /// # Errors
    /// A request for a current proof cannot be signed.
    pub fn to_request(&self) -> Result<Value, SigningError> {
        let Self { app_id, description, action, environment, signal, asked } = *self;
        let level = match asked {
            AskedProof::Legacy(level) => level,
            AskedProof::Current(_) => Level::Orb,
        };
        let mut request = json!({
            "app_id": app_id,
            "package_name": PACKAGE,
            "package_version": env!("CARGO_PKG_VERSION"),
            "action": action,
            "action_description": description,
            "signal": padded(&hash_text(signal).into()),
            "credential_types": level.accepted(),
            "verification_level": level,
            "allow_legacy_proofs": matches!(asked, AskedProof::Legacy(_)),
            "require_user_presence": false,
            "environment": environment.name(),
        });
        if let AskedProof::Current(asked) = asked {
            request["proof_request"] = asked.to_proof_request(action, signal)?;
            request["min_protocol_version"] = ProofKind::Current.protocol_version().into();
        }
        Ok(request)
    }
}

impl AskedCurrent<'_> {
    fn to_proof_request(self, action: &str, signal: &str) -> Result<Value, SigningError> {
        let Self { id, party, nonce, session, genesis_issued_at_min, identifier, created_at, expires_at } = self;
        let SigningParty { rp_id, key, credentials } = party;
        let may_be = |credential: &&RequestedCredential| identifier.is_none_or(|only| credential.identifier == only);
        let credentials: Vec<&RequestedCredential> = credentials.iter().filter(may_be).collect();
        let (proof_type, session_id) = session.members();
        // A proof in a session is of no action, and its request is signed without one.
        let action = match session {
            AskedSession::Existing(_) => None,
            AskedSession::None | AskedSession::New => Some(signed_action(action)),
        };
        let signed = SignedRequest { nonce, created_at, expires_at, action };
        let item = |RequestedCredential { identifier, issuer_schema_id }: &&RequestedCredential| {
            json!({
                "identifier": identifier,
                "issuer_schema_id": issuer_schema_id,
                "signal": signal,
                "genesis_issued_at_min": genesis_issued_at_min,
                "expires_at_min": null,
            })
        };
        let names: Vec<_> = credentials.iter().map(|credential| credential.identifier.as_str()).collect();
        let mut request = json!({
            "id": id,
            "version": 1,
            "proof_type": proof_type.unwrap_or(ProofType::Uniqueness),
            "created_at": created_at,
            "expires_at": expires_at,
            "rp_id": rp_id,
            "oprf_key_id": format!("{:#018x}", rp_id.0),
            "session_id": session_id,
            "action": action.map(|action| padded(&action.into())),
            "signature": key.sign(&signed.digest())?,
            "nonce": padded(&nonce.into()),
            "proof_requests": credentials.iter().map(item).collect::<Vec<_>>(),
        });
        if names.len() > 1 {
            request["constraints"] = json!({"any": names});
        }
        Ok(request)
    }
}

/// What an authenticator answered on the bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BridgeAnswer {
    /// A proof.
    Proof {
        /// A verification request with one proof, as the sign-in takes it. Nothing of it is
        /// checked.
        body: Value,
        /// The id of the request that it answers, when it names one.
        request_id: Option<String>,
    },
    /// There will be no proof.
    Refusal {
        /// The error code of the client kits that the authenticator gave.
        code: String,
    },
}

/// Why a message on the bridge is not an answer.
///
/// The page and the authenticator share one key for both directions, so a stranger who has a
/// sign-in's encrypted request can hand it in as its answer. It decrypts, and is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It has more than [`LONGEST_ANSWER`] bytes.
    #[error("it has {0} bytes, more than {LONGEST_ANSWER}")]
    TooLong(usize),
    /// It is no JSON object.
    #[error("it is not a JSON object: {0}")]
    NotAnObject(String),
    /// It is a request.
    #[error("it is a request, which was handed back as its own answer")]
    IsRequest,
    /// A field is missing, or is another one than it has to be.
    #[error("{name} must be {expected}")]
    Field {
        /// The field.
        name: &'static str,
        /// What would be right.
        expected: &'static str,
    },
}

impl BridgeAnswer {
    /// Reads a decrypted answer to a request for a proof of this kind, which has to do with this
    /// session. Where an authenticator gives several proofs, the first one counts.
    ///
    /// # Errors
    /// An [`AnswerError`].
    pub fn read(bytes: &[u8], kind: ProofKind, session: &AskedSession) -> Result<Self, AnswerError> {
        if bytes.len() > LONGEST_ANSWER {
            return Err(AnswerError::TooLong(bytes.len()));
        }
        let answer: Map<String, Value> =
            from_object(bytes).map_err(|error| AnswerError::NotAnObject(error.to_string()))?;
        // No answer of a client kit has an `app_id`, and every request has one.
        if answer.contains_key("app_id") {
            return Err(AnswerError::IsRequest);
        }
        let inner = answer.get("proof_response").and_then(Value::as_object).unwrap_or(&answer);
        if let Some(code) = failure_code(&answer)?.map_or_else(|| failure_code(inner), |code| Ok(Some(code)))? {
            return Ok(Self::Refusal { code });
        }
        let response = match kind {
            ProofKind::Legacy => legacy_response(&answer)?,
            ProofKind::Current => current_response(inner)?,
        };
        let mut body = json!({"protocol_version": kind.protocol_version(), "responses": [response]});
        let session_id = inner.get("session_id").and_then(Value::as_str);
        if let Some(session_id) = session_id.filter(|_| *session != AskedSession::None) {
            body["session_id"] = session_id.into();
        }
        let request_id = inner.get("id").and_then(Value::as_str).map(str::to_owned);
        Ok(Self::Proof { body, request_id })
    }
}

/// The error code of a failure: `error_code` of the client kits' own answers, `error` of the proof
/// response that the libraries behind wallets make.
fn failure_code(answer: &Map<String, Value>) -> Result<Option<String>, AnswerError> {
    for name in ["error_code", "error"] {
        if let Some(code) = answer.get(name).filter(|code| !code.is_null()) {
            let code = code.as_str().ok_or(AnswerError::Field { name, expected: "a text" })?;
            return Ok(Some(code.to_owned()));
        }
    }
    Ok(None)
}

/// The id of a sign-in's request with one of its challenges. An authenticator repeats it, and so
/// says which challenge it answers.
pub fn request_id(sign_in: &str, challenge: u8) -> String {
    format!("{sign_in}.{challenge}")
}

/// The challenge of an id that [`request_id`] made for this sign-in.
pub fn challenge_of(sign_in: &str, request_id: &str) -> Option<u8> {
    let digits = request_id.strip_prefix(sign_in)?.strip_prefix('.')?;
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// The legacy proof of an answer, as the verification interface takes it.
fn legacy_response(answer: &Map<String, Value>) -> Result<Value, AnswerError> {
    let proof = match answer.get("legacy_responses") {
        None => answer,
        Some(proofs) => first(proofs, "legacy_responses")?,
    };
    let expected = "orb, secure_document, document, device or face";
    let level = proof.get("verification_level").cloned().unwrap_or_default();
    let level = Level::deserialize(level).map_err(|_| AnswerError::Field { name: "verification_level", expected })?;
    let of = |name: &'static str| {
        let text = proof.get(name).filter(|value| value.is_string() || value.is_array());
        text.cloned().ok_or(AnswerError::Field { name, expected: "there" })
    };
    Ok(json!({
        "identifier": level.credential().name(),
        "merkle_root": of("merkle_root")?,
        "nullifier": of("nullifier_hash")?,
        "proof": of("proof")?,
    }))
}

/// What a sign-in reads of a current proof. Anything else that an authenticator sends is dropped:
/// it would take memory while the proof waits for the verifier.
const READ_OF_RESPONSES: [&str; 7] = [
    "identifier",
    "issuer_schema_id",
    "nullifier",
    "session_nullifier",
    "proof",
    "expires_at_min",
    "credential_genesis_issued_at_min",
];

/// The current proof of an answer, as the verification interface takes it.
fn current_response(answer: &Map<String, Value>) -> Result<Value, AnswerError> {
    let responses =
        answer.get("responses").ok_or(AnswerError::Field { name: "responses", expected: "a list of proofs" })?;
    let given = first(responses, "responses")?;
    let read = READ_OF_RESPONSES.into_iter().filter_map(|name| Some((name.to_owned(), given.get(name)?.clone())));
    let mut response: Map<String, Value> = read.collect();
    if !response.contains_key("proof") {
        return Err(AnswerError::Field { name: "proof", expected: "there" });
    }
    let of = |name: &str| response.get(name).and_then(Value::as_str);
    let words = of("proof").and_then(words);
    let nullifier = of("nullifier").and_then(|nullifier| nullifier.strip_prefix("nil_"));
    let nullifier = nullifier.map(|digits| format!("0x{digits}"));
    let session_nullifier = of("session_nullifier").and_then(session_nullifier);
    if let Some(words) = words {
        response.insert("proof".to_owned(), words.into());
    }
    if let Some(nullifier) = nullifier {
        response.insert("nullifier".to_owned(), nullifier.into());
    }
    if let Some(numbers) = session_nullifier {
        response.insert("session_nullifier".to_owned(), numbers.into());
    }
    Ok(response.into())
}

fn first<'a>(list: &'a Value, name: &'static str) -> Result<&'a Map<String, Value>, AnswerError> {
    let first = list.as_array().and_then(|list| list.first()).and_then(Value::as_object);
    first.ok_or(AnswerError::Field { name, expected: "a list with an object" })
}

/// The five words of a current proof, from their hex digits in one text.
fn words(digits: &str) -> Option<Vec<String>> {
    let is_words = digits.len() == 5 * 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_words.then(|| (0..5).map(|word| format!("0x{}", &digits[word * 64..(word + 1) * 64])).collect())
}

/// The nullifier and the action of a session's proof, from `snil_` and their hex digits.
fn session_nullifier(text: &str) -> Option<Vec<String>> {
    let digits = text.strip_prefix("snil_").filter(|digits| digits.len() == 128 && digits.is_ascii())?;
    let (nullifier, action) = digits.split_at(64);
    Some([nullifier, action].map(|digits| format!("0x{digits}")).to_vec())
}

impl Level {
    /// The weakest level to ask for where only these credentials count: each credential that
    /// satisfies the level counts, if there is such a level.
    pub fn weakest(counts: impl Fn(LegacyIdentifier) -> bool) -> Self {
        let satisfied = |level: &Self| level.accepted().iter().all(|accepted| counts(accepted.credential()));
        let levels = [Self::Device, Self::Document, Self::SecureDocument, Self::Orb, Self::Face];
        let alone = || levels.into_iter().find(|level| counts(level.credential()));
        levels.into_iter().find(satisfied).or_else(alone).unwrap_or(Self::Orb)
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use crate::bridge::request::{BridgeRequest, LegacyAsked, Purpose};
    use crate::verification::identity::hash_to_field;
    use crate::verification::request::SessionId;

    const SIGNAL: &str = "0x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e";

    const LEGACY: (ProofKind, AskedSession) = (ProofKind::Legacy, AskedSession::None);
    const CURRENT: (ProofKind, AskedSession) = (ProofKind::Current, AskedSession::None);
    const ACCOUNT: (ProofKind, AskedSession) = (ProofKind::Current, AskedSession::New);

    fn party(names: &[(&str, u64)]) -> SigningParty {
        let credential = |(identifier, issuer_schema_id): &(&str, u64)| RequestedCredential {
            identifier: (*identifier).to_owned(),
            issuer_schema_id: *issuer_schema_id,
        };
        SigningParty {
            rp_id: RelyingPartyId(0x6765_1609_73bf_7042),
            key: SecretKey::from_bytes(&Zeroizing::new([7; 32])).expect("a key"),
            credentials: names.iter().map(credential).collect(),
        }
    }

    fn sign_in(asked: AskedProof<'_>) -> BridgeSignIn<'_> {
        let (app_id, description) = ("app_staging_1", "Sign in to Example");
        let action = match asked {
            AskedProof::Legacy(_) | AskedProof::Current(AskedCurrent { session: AskedSession::Existing(_), .. }) => "",
            AskedProof::Current(_) => "sign-in",
        };
        BridgeSignIn { app_id, description, action, environment: Environment::Staging, signal: SIGNAL, asked }
    }

    fn read(sign_in: &BridgeSignIn<'_>) -> BridgeRequest {
        let text = sign_in.to_request().expect("a request").to_string();
        BridgeRequest::read(text.as_bytes()).expect("a request that wallets read")
    }

    #[test]
    fn wallets_read_a_sign_in_with_a_legacy_proof() {
        let request = read(&sign_in(AskedProof::Legacy(Level::Device)));
        let signal_hash = hash_to_field(&[0x5e; 32]);
        assert_eq!(request.legacy, Some(LegacyAsked { level: Level::Device, signal_hash }));
        assert!(request.current.is_none());
        assert_eq!((request.app_id.as_str(), request.action.as_str()), ("app_staging_1", ""));
        assert_eq!(request.action_description, "Sign in to Example");
        assert_eq!(request.environment.environment(), Environment::Staging);
    }

    #[test]
    fn wallets_read_a_sign_in_with_a_current_proof_that_the_relying_party_has_signed() {
        let id = SessionId { text: format!("session_{:064x}01{:062x}", 7, 0), commitment: U256::from(7) };
        let action = hash_to_field(b"sign-in");
        let uniqueness = |binds_session| Purpose::Uniqueness { action, binds_session };
        let asked_sessions = [
            (AskedSession::None, uniqueness(false)),
            (AskedSession::New, uniqueness(true)),
            (AskedSession::Existing(id.clone()), Purpose::Session { id: id.text }),
        ];
        let names = [&[("proof_of_human", 1)][..], &[("proof_of_human", 1), ("passport", 9303)]];
        for (names, (session, purpose)) in
            names.into_iter().flat_map(|names| asked_sessions.iter().map(move |asked| (names, asked)))
        {
            let party = party(names);
            let (created_at, expires_at) = (UnixSeconds(1_800_000_000), UnixSeconds(1_800_000_300));
            let asked = AskedCurrent {
                id: "1b9f",
                party: &party,
                nonce: U256::from(42),
                session,
                genesis_issued_at_min: None,
                identifier: None,
                created_at,
                expires_at,
            };
            let request = read(&sign_in(AskedProof::Current(asked)));
            assert_eq!(request.legacy, None);
            let current = request.current.expect("a current proof");
            assert_eq!(current.purpose, *purpose);
            assert_eq!(current.signed().signer(&current.signature), Ok(party.key.address()));
            assert_eq!((current.rp_id, current.nonce), (party.rp_id, U256::from(42)));
            assert_eq!(current.items.len(), names.len());
            for (item, (identifier, issuer)) in current.items.iter().zip(names) {
                assert_eq!((item.identifier.as_str(), item.issuer_schema_id), (*identifier, *issuer));
                assert_eq!(item.signal.as_deref(), Some(&[0x5e; 32][..]));
            }
            let last = names.last().expect("a name").0;
            let selected = current.constraints.map(|constraints| {
                constraints.select(&|name: &str| name == last).map(|names| names.into_iter().collect::<String>())
            });
            assert_eq!(selected, (names.len() > 1).then(|| Some(last.to_owned())), "one of them is enough");
        }
    }

    #[test]
    fn wallets_read_that_a_newer_credential_is_asked_for() {
        let party = party(&[("passport", 9303), ("proof_of_human", 1)]);
        let (created_at, since) = (UnixSeconds(1_800_000_000), UnixSeconds(1_780_272_000));
        let asked = AskedCurrent {
            id: "1b9f",
            party: &party,
            nonce: U256::from(42),
            session: &AskedSession::New,
            genesis_issued_at_min: Some(since),
            identifier: Some("proof_of_human"),
            created_at,
            expires_at: created_at.plus(300),
        };
        let current = read(&sign_in(AskedProof::Current(asked))).current.expect("a current proof");
        let items: Vec<_> = current.items.iter().map(|item| (&*item.identifier, item.genesis_issued_at_min)).collect();
        assert_eq!((items, current.constraints.is_none()), (vec![("proof_of_human", since)], true));
    }

    #[test]
    fn answers_are_read_in_every_form_of_the_client_kits() {
        let legacy =
            json!({"proof": "0xab", "merkle_root": "0x1", "nullifier_hash": "0x2", "verification_level": "face"});
        let legacy_proof = json!({"protocol_version": "3.0", "responses": [
            {"identifier": "selfie", "proof": "0xab", "merkle_root": "0x1", "nullifier": "0x2"},
        ]});
        let digits: String = (1..=5).map(|word| format!("{word:064x}")).collect();
        let item = |proof: Value, nullifier: &str| {
            let names = json!({"identifier": "passport", "issuer_schema_id": 9303, "expires_at_min": 5});
            let mut item = names.as_object().expect("an object").clone();
            item.insert("proof".to_owned(), proof);
            item.insert("nullifier".to_owned(), nullifier.into());
            item
        };
        let current = json!({"id": "x", "version": 1, "responses": [item(json!(digits), &format!("nil_{:064x}", 9))]});
        let mut padded = current.clone();
        padded["responses"][0]["unknown"] = json!([{"": 0}, [[]]]);
        let words: Vec<_> = (1..=5).map(|word| format!("0x{word:064x}")).collect();
        let current_proof =
            json!({"protocol_version": "4.0", "responses": [item(json!(words), &format!("0x{:064x}", 9))]});
        // Where accounts are asked for, the session of an answer counts, and nowhere else.
        let mut bound = current.clone();
        bound["session_id"] = json!("session_1");
        let mut bound_proof = current_proof.clone();
        bound_proof["session_id"] = json!("session_1");
        let mut session = bound.clone();
        let item = session["responses"][0].as_object_mut().expect("an object");
        item.remove("nullifier");
        item.insert("session_nullifier".to_owned(), format!("snil_{:064x}{:064x}", 3, 4).into());
        let mut session_proof = bound_proof.clone();
        let item = session_proof["responses"][0].as_object_mut().expect("an object");
        item.remove("nullifier");
        item.insert("session_nullifier".to_owned(), json!([format!("0x{:064x}", 3), format!("0x{:064x}", 4)]));
        let refusal = |code: &str| BridgeAnswer::Refusal { code: code.to_owned() };
        let failed = |code: &str| json!({"id": "x", "version": 1, "error": code, "responses": []});
        let proof = |body: &Value, id: Option<&str>| BridgeAnswer::Proof {
            body: body.clone(),
            request_id: id.map(str::to_owned),
        };
        #[rustfmt::skip]
        let table = [
            (LEGACY, legacy.clone(), proof(&legacy_proof, None)),
            (LEGACY, json!({"legacy_responses": [legacy, {}]}), proof(&legacy_proof, None)),
            (LEGACY, json!({"error_code": "verification_rejected"}), refusal("verification_rejected")),
            (LEGACY, failed("user_rejected"), refusal("user_rejected")),
            (CURRENT, current.clone(), proof(&current_proof, Some("x"))),
            (CURRENT, json!({"proof_response": current}), proof(&current_proof, Some("x"))),
            (CURRENT, bound.clone(), proof(&current_proof, Some("x"))),
            (ACCOUNT, bound, proof(&bound_proof, Some("x"))),
            (ACCOUNT, current.clone(), proof(&current_proof, Some("x"))),
            (ACCOUNT, session, proof(&session_proof, Some("x"))),
            (CURRENT, padded, proof(&current_proof, Some("x"))),
            (CURRENT, json!({"error_code": "user_rejected"}), refusal("user_rejected")),
            (CURRENT, json!({"error_code": "user_rejected", "error": "x"}), refusal("user_rejected")),
            (CURRENT, failed("nullifier_replay"), refusal("nullifier_replay")),
            (CURRENT, json!({"proof_response": failed("nullifier_replay")}), refusal("nullifier_replay")),
            (CURRENT, json!({"error": null, "proof_response": current}), proof(&current_proof, Some("x"))),
        ];
        for ((kind, session), answer, expected) in table {
            let read = BridgeAnswer::read(answer.to_string().as_bytes(), kind, &session);
            assert_eq!(read, Ok(expected), "{answer}");
        }
    }

    #[test]
    fn other_answers_are_refused_with_what_is_wrong() {
        let long = format!("{{{}}}", " ".repeat(LONGEST_ANSWER));
        #[rustfmt::skip]
        let table = [
            (LEGACY, "", "it is not a JSON object"),
            (LEGACY, "[]", "it is not a JSON object"),
            (LEGACY, long.as_str(), "65538 bytes, more than 65536"),
            (LEGACY, r#"{"error_code":1}"#, "error_code must be a text"),
            (CURRENT, r#"{"proof_response":{"error":1}}"#, "error must be a text"),
            (LEGACY, r#"{"app_id":"app_a","verification_level":"orb"}"#, "it is a request"),
            (LEGACY, r#"{"verification_level":"orb"}"#, "merkle_root must be there"),
            (CURRENT, r#"{"responses":[{}]}"#, "proof must be there"),
            (LEGACY, "{}", "verification_level must be orb"),
            (LEGACY, r#"{"verification_level":"iris"}"#, "verification_level must be orb"),
            (LEGACY, r#"{"legacy_responses":[]}"#, "legacy_responses must be a list with an object"),
            (CURRENT, "{}", "responses must be a list of proofs"),
            (CURRENT, r#"{"responses":{}}"#, "responses must be a list with an object"),
            (CURRENT, r#"{"proof_response":{"responses":[1]}}"#, "responses must be a list with an object"),
        ];
        for ((kind, session), answer, expected) in table {
            let error = BridgeAnswer::read(answer.as_bytes(), kind, &session).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    /// Whatever the sign-in asks for.
    #[test]
    fn a_request_is_never_an_answer() {
        let party = party(&[("passport", 9303)]);
        let (created_at, expires_at) = (UnixSeconds(1_800_000_000), UnixSeconds(1_800_000_300));
        let current = AskedCurrent {
            id: "1b9f",
            party: &party,
            nonce: U256::from(42),
            session: &AskedSession::None,
            genesis_issued_at_min: None,
            identifier: None,
            created_at,
            expires_at,
        };
        for asked in [AskedProof::Legacy(Level::Device), AskedProof::Current(current)] {
            let text = sign_in(asked).to_request().expect("a request").to_string();
            for (kind, session) in [LEGACY, CURRENT, ACCOUNT] {
                assert_eq!(BridgeAnswer::read(text.as_bytes(), kind, &session), Err(AnswerError::IsRequest));
            }
        }
    }

    #[test]
    fn an_id_says_which_challenge_it_is_of() {
        assert_eq!(request_id("0a0b", 7), "0a0b.7");
        #[rustfmt::skip]
        let table = [
            ("0a0b.7", Some(7)), ("0a0b.0", Some(0)), ("0a0b", None), ("0a0b.", None), ("0a0b.+7", None),
            ("0a0b.256", None), ("0a0c.7", None), ("", None),
        ];
        for (id, expected) in table {
            assert_eq!(challenge_of("0a0b", id), expected, "{id}");
        }
    }

    #[test]
    fn the_level_is_the_weakest_that_no_accepted_credential_falls_short_of() {
        use LegacyIdentifier::{Device, Document, Orb, SecureDocument, Selfie};
        let table: [(&[LegacyIdentifier], Level); 7] = [
            (&LegacyIdentifier::ALL, Level::Device),
            (&[Orb], Level::Orb),
            (&[Orb, Device], Level::Device),
            (&[Orb, SecureDocument, Document], Level::Document),
            (&[Orb, SecureDocument], Level::SecureDocument),
            (&[Selfie], Level::Face),
            (&[Document], Level::Document),
        ];
        for (accepted, expected) in table {
            assert_eq!(Level::weakest(|identifier| accepted.contains(&identifier)), expected, "{accepted:?}");
        }
    }
}
