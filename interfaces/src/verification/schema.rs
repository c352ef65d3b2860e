//! The bodies of requests as `/openapi.json` describes them. The readers are in
//! `protocol/src/verification`; nothing has these types.

#![expect(dead_code, reason = "describes what the reader takes")]

use utoipa::ToSchema;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Type};

/// A verification request, of one of four types. Unknown keys are ignored, and so are those whose
/// value is null.
#[derive(ToSchema)]
#[schema(as = VerificationRequest)]
#[serde(untagged)]
pub enum RequestBody {
    /// Legacy proofs: `protocol_version` 3.0.
    #[schema(title = "Legacy request")]
    Legacy(LegacyRequest),
    /// Uniqueness proofs: `protocol_version` 4.0 without a `session_id`.
    #[schema(title = "Uniqueness request")]
    Uniqueness(UniquenessRequest),
    /// Uniqueness proofs that are bound to a session: `protocol_version` 4.0 with a `session_id`
    /// and the `proof_type` `uniqueness`.
    #[schema(title = "Bound uniqueness request")]
    BoundUniqueness(BoundUniquenessRequest),
    /// Session proofs: `protocol_version` 4.0 with a `session_id` and without an `action`.
    #[schema(title = "Session request")]
    Session(SessionRequest),
}

/// A request with legacy proofs.
#[derive(ToSchema)]
pub struct LegacyRequest {
    /// The protocol version of the proofs.
    pub protocol_version: LegacyVersion,
    /// Any text: legacy proofs do not bind the nonce.
    #[schema(example = "0x1")]
    pub nonce: String,
    /// The action that the proofs are for, at most 2048 bytes; not that of sign-ins.
    #[schema(min_length = 1, max_length = 2048, example = "verify-user")]
    pub action: String,
    /// Legacy proofs have no sessions.
    #[schema(schema_with = nothing)]
    pub session_id: Option<()>,
    /// At most 2048 bytes; neither kept nor shown: it is the sender's word.
    #[schema(max_length = 2048, example = "Vote once")]
    pub action_description: Option<String>,
    /// The environment of the proofs; production by default. `sandbox` has the keys, roots and
    /// records of staging.
    pub environment: Option<EnvironmentName>,
    /// The lowest protocol version that the application accepts; a lower `protocol_version` is
    /// refused.
    pub min_protocol_version: Option<LegacyVersion>,
    /// Whether the person's app completed a check of presence: the sender's word, which is
    /// recorded. Any value but `true` counts as false.
    pub user_presence_completed: Option<bool>,
    /// The relying party's signature of the nonce and of what follows from the request.
    pub rp_signature: Option<SignatureEntry>,
    /// What the person's device has signed, as the client kit gives it.
    pub integrity_bundle: Option<IntegrityBundleEntry>,
    /// The proofs, one for each credential.
    #[schema(min_items = 1, max_items = 16)]
    pub responses: Vec<LegacyEntry>,
}

/// A relying party's signature (EIP-191, secp256k1) over byte 01, the nonce (32 bytes),
/// `created_at` and `expires_at` (8 bytes each) and, unless the request is for a session, the hash
/// of the action's text (32 bytes), all big-endian.
#[derive(ToSchema)]
#[schema(as = RpSignature)]
pub struct SignatureEntry {
    /// r, s and v: 65 bytes, s in the lower half of the group order.
    #[schema(
        pattern = "^(0x)?[0-9a-fA-F]{130}$",
        example = "0x836bf26b1d19c1b9eafc51fbaeb50abda5c2ea8593db286e246ceb1116cd214001885e3c5e6b1ba3890d39b3ee63df9470fcd8a645b3a937dffb83960ce8f46b1c"
    )]
    pub signature: String,
    /// When it was signed, in Unix seconds: at most 300 s after the service's time.
    #[schema(minimum = 0, example = 1_790_000_000)]
    pub created_at: u64,
    /// Until when it is good, in Unix seconds: at most a day after `created_at`.
    #[schema(minimum = 0, example = 1_790_000_300)]
    pub expires_at: u64,
    /// The nonce; if it is there, that of the request.
    #[schema(pattern = "^(0x[0-9a-fA-F]+|[0-9]+)$", example = "0x1")]
    pub nonce: Option<String>,
}

/// An integrity bundle: a device of the person has signed what the bundle's version speaks of, and
/// an attestation issuer has signed the device's key. At most 8192 bytes as compact JSON.
#[derive(ToSchema)]
#[schema(as = IntegrityBundle)]
#[serde(deny_unknown_fields)]
pub struct IntegrityBundleEntry {
    /// What the device has signed: 1 is for the texts of legacy proofs or for the nonce of current
    /// ones, 2 for the nonce, the nullifiers and the scores of current proofs.
    #[schema(minimum = 1, maximum = 2, example = 2)]
    pub version: u64,
    /// The form of the signature, by the device's system.
    pub signature_format: SignatureFormat,
    /// When the device signed, in Unix seconds: at most 300 s ago.
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991u64, example = 1_790_000_000)]
    pub timestamp: u64,
    /// The signature in hex digits: in DER, or in CBOR with the data of the authenticator.
    #[schema(min_length = 2, max_length = 8192, pattern = "^([0-9a-fA-F]{2})+$", example = "3045")]
    pub signature: String,
    /// The issuer's token: a JWT that is signed with ES256.
    #[schema(min_length = 1, max_length = 8192, example = "eyJhbGciOiJFUzI1NiJ9.e30.AA")]
    pub jwt: String,
}

/// The forms of the signatures of devices.
#[derive(ToSchema)]
pub enum SignatureFormat {
    /// Of iOS: an assertion of App Attest.
    #[schema(rename = "apple_app_attest")]
    Apple,
    /// Of Android: a signature in DER.
    #[schema(rename = "android_keystore")]
    Android,
}

/// A request of version 2: one legacy proof.
#[derive(ToSchema)]
#[schema(as = VerificationRequest2)]
pub struct RequestBody2 {
    /// The action that the proof is for, at most 2048 bytes; not that of sign-ins.
    #[schema(min_length = 1, max_length = 2048, example = "verify-user")]
    pub action: String,
    /// The credential that the proof is for: `orb`, `secure_document`, `document`, `device`,
    /// `face`, `selfie`, or the id of a group.
    #[schema(pattern = "^[a-z0-9_-]{1,32}$", example = "orb")]
    pub verification_level: String,
    /// The root of the identity tree: 1 to 64 hex digits, optionally behind `0x`.
    #[schema(example = "0x05ef13d87fbc71b618d65906be465af463bfedff9561282901de2de9f78bc777")]
    pub merkle_root: String,
    /// The nullifier: 1 to 64 hex digits, optionally behind `0x`.
    #[schema(
        pattern = "^(0x)?[0-9a-fA-F]{1,64}$",
        example = "0x022de8edbfa1fbb8148fee9c613079d43c6b8c1a1c6b19ba41b67e79a313054d"
    )]
    pub nullifier_hash: String,
    /// Eight words: 512 hex digits, or JSON text of `[[a,a],[[b,b],[b,b]],[c,c]]` with the words as
    /// strings.
    #[schema(schema_with = legacy_proof)]
    pub proof: String,
    /// The hash of the signal: `0x` and 1 to 64 lower-case hex digits; that of the empty text by
    /// default.
    #[schema(
        pattern = "^0x[0-9a-f]{1,64}$",
        example = "0x00c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a4"
    )]
    pub signal_hash: Option<String>,
    /// The greatest age of the root in seconds; 604,800 by default.
    #[schema(minimum = 3600, maximum = 604_800, example = 604_800)]
    pub max_age: Option<u64>,
}

/// What an authenticator was asked to prove.
#[derive(ToSchema)]
#[schema(as = ProofContextRequest)]
pub struct ContextBody {
    /// The action; none for a session.
    #[schema(max_length = 2048, example = "vote")]
    pub action: Option<String>,
    /// The environment of the proof; production by default.
    pub environment: Option<EnvironmentName>,
}

/// A legacy proof.
#[derive(ToSchema)]
pub struct LegacyEntry {
    /// The credential that the proof is for: `orb`, `secure_document`, `document`, `device`,
    /// `face`, `selfie`, or the id of a group.
    #[schema(pattern = "^[a-z0-9_-]{1,32}$", example = "orb")]
    pub identifier: String,
    /// The root of the identity tree: 1 to 64 hex digits, optionally behind `0x`.
    #[schema(
        pattern = "^(0x)?[0-9a-fA-F]{1,64}$",
        example = "0x05ef13d87fbc71b618d65906be465af463bfedff9561282901de2de9f78bc777"
    )]
    pub merkle_root: String,
    /// The nullifier: 1 to 64 hex digits, optionally behind `0x`.
    #[schema(
        pattern = "^(0x)?[0-9a-fA-F]{1,64}$",
        example = "0x022de8edbfa1fbb8148fee9c613079d43c6b8c1a1c6b19ba41b67e79a313054d"
    )]
    pub nullifier: String,
    /// Eight words: 512 hex digits, or JSON text of `[[a,a],[[b,b],[b,b]],[c,c]]` with the words as
    /// strings.
    #[schema(schema_with = legacy_proof)]
    pub proof: String,
    /// The hash of the signal: `0x` and 1 to 64 lower-case hex digits; that of the empty text by
    /// default.
    #[schema(
        pattern = "^0x[0-9a-f]{1,64}$",
        example = "0x00c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a4"
    )]
    pub signal_hash: Option<String>,
    /// The greatest age of the root in seconds; 604,800 by default.
    #[schema(minimum = 3600, maximum = 604_800, example = 604_800)]
    pub max_age: Option<u64>,
}

/// A request with uniqueness proofs.
#[derive(ToSchema)]
pub struct UniquenessRequest {
    /// The protocol version of the proofs.
    pub protocol_version: CurrentVersion,
    /// The nonce, a public input of the proofs.
    #[schema(pattern = "^(0x[0-9a-fA-F]+|[0-9]+)$", example = "0x1")]
    pub nonce: String,
    /// The action that the proofs are for, at most 2048 bytes; not that of sign-ins.
    #[schema(min_length = 1, max_length = 2048, example = "verify-user")]
    pub action: String,
    /// A request with a session is of another type.
    #[schema(schema_with = nothing)]
    pub session_id: Option<()>,
    /// At most 2048 bytes; neither kept nor shown: it is the sender's word.
    #[schema(max_length = 2048, example = "Vote once")]
    pub action_description: Option<String>,
    /// The environment of the proofs; production by default. `sandbox` has the keys, roots and
    /// records of staging.
    pub environment: Option<EnvironmentName>,
    /// The lowest protocol version that the application accepts; a lower `protocol_version` is
    /// refused.
    pub min_protocol_version: Option<AnyVersion>,
    /// Whether the person's app completed a check of presence: the sender's word, which is
    /// recorded. Any value but `true` counts as false.
    pub user_presence_completed: Option<bool>,
    /// The relying party's signature of the nonce and of what follows from the request.
    pub rp_signature: Option<SignatureEntry>,
    /// What the person's device has signed, as the client kit gives it.
    pub integrity_bundle: Option<IntegrityBundleEntry>,
    /// The proofs, one for each credential.
    #[schema(min_items = 1, max_items = 16)]
    pub responses: Vec<UniquenessEntry>,
}

/// A request with uniqueness proofs that are bound to a session.
#[derive(ToSchema)]
pub struct BoundUniquenessRequest {
    /// The protocol version of the proofs.
    pub protocol_version: CurrentVersion,
    /// The nonce, a public input of the proofs.
    #[schema(pattern = "^(0x[0-9a-fA-F]+|[0-9]+)$", example = "0x1")]
    pub nonce: String,
    /// The action that the proofs are for, at most 2048 bytes; not that of sign-ins.
    #[schema(min_length = 1, max_length = 2048, example = "verify-user")]
    pub action: String,
    /// The type of the proofs. Without it, a request with a session is one of session proofs.
    pub proof_type: UniquenessType,
    /// The session of every proof: its commitment, and a seed whose first byte is 01. Both are
    /// below the modulus of BN254's scalar field.
    #[schema(
        pattern = "^session_([0-2][0-9a-fA-F]{63}|30[0-5][0-9a-fA-F]{61}|306[0-3][0-9a-fA-F]{60}|3064[0-4][0-9a-fA-F]{59})01[0-9a-fA-F]{62}$",
        example = "session_000000000000000000000000000000000000000000000000000000000000002a0100000000000000000000000000000000000000000000000000000000000000"
    )]
    pub session_id: String,
    /// At most 2048 bytes; neither kept nor shown: it is the sender's word.
    #[schema(max_length = 2048, example = "Vote once")]
    pub action_description: Option<String>,
    /// The environment of the proofs; production by default. `sandbox` has the keys, roots and
    /// records of staging.
    pub environment: Option<EnvironmentName>,
    /// The lowest protocol version that the application accepts; a lower `protocol_version` is
    /// refused.
    pub min_protocol_version: Option<AnyVersion>,
    /// Whether the person's app completed a check of presence: the sender's word, which is
    /// recorded. Any value but `true` counts as false.
    pub user_presence_completed: Option<bool>,
    /// The relying party's signature of the nonce and of what follows from the request.
    pub rp_signature: Option<SignatureEntry>,
    /// What the person's device has signed, as the client kit gives it.
    pub integrity_bundle: Option<IntegrityBundleEntry>,
    /// The proofs, one for each credential.
    #[schema(min_items = 1, max_items = 16)]
    pub responses: Vec<UniquenessEntry>,
}

/// A uniqueness proof.
#[derive(ToSchema)]
pub struct UniquenessEntry {
    /// The kind of credential, one of the issuer's identifiers.
    #[schema(max_length = 2048, example = "proof_of_human")]
    pub identifier: String,
    /// The issuer: a number of 64 bits, or its text.
    #[schema(schema_with = issuer_schema_id)]
    pub issuer_schema_id: u64,
    /// The nullifier: at most 64 hex digits behind `0x`, or 78 decimal digits.
    #[schema(pattern = "^(0x[0-9a-fA-F]{1,64}|[0-9]{1,78})$", example = "0x2a")]
    pub nullifier: String,
    /// The credential does not expire before this time, in Unix seconds: a number of 64 bits, or
    /// its decimal digits.
    #[schema(schema_with = expires_at_min)]
    pub expires_at_min: u64,
    /// The credential was not issued for the first time before this time, in Unix seconds: a number
    /// of 64 bits, or its decimal digits. By default that of the action, else 0.
    #[schema(schema_with = genesis_issued_at_min)]
    pub credential_genesis_issued_at_min: Option<u64>,
    /// The hash of the signal; 0 by default.
    #[schema(pattern = "^(0x[0-9a-fA-F]+|[0-9]+)$", example = "0x0")]
    pub signal_hash: Option<String>,
    /// Four words of the proof and the root.
    #[schema(schema_with = current_proof)]
    pub proof: Vec<String>,
    /// The score of Selfie Check: required for issuer 11, and refused for every other one.
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991u64, example = 12)]
    pub sybil_score: Option<u64>,
}

/// A request with proofs of a session.
#[derive(ToSchema)]
pub struct SessionRequest {
    /// The protocol version of the proofs.
    pub protocol_version: CurrentVersion,
    /// The nonce, a public input of the proofs.
    #[schema(pattern = "^(0x[0-9a-fA-F]+|[0-9]+)$", example = "0x1")]
    pub nonce: String,
    /// The session: its commitment, and a seed whose first byte is 01. Both are below the modulus
    /// of BN254's scalar field.
    #[schema(
        pattern = "^session_([0-2][0-9a-fA-F]{63}|30[0-5][0-9a-fA-F]{61}|306[0-3][0-9a-fA-F]{60}|3064[0-4][0-9a-fA-F]{59})01[0-9a-fA-F]{62}$",
        example = "session_000000000000000000000000000000000000000000000000000000000000002a0100000000000000000000000000000000000000000000000000000000000000"
    )]
    pub session_id: String,
    /// The type of the proofs, by either of its names.
    pub proof_type: Option<SessionType>,
    /// A request with an action is of another type.
    #[schema(schema_with = nothing)]
    pub action: Option<()>,
    /// The environment of the proofs; production by default. `sandbox` has the keys, roots and
    /// records of staging.
    pub environment: Option<EnvironmentName>,
    /// The lowest protocol version that the application accepts; a lower `protocol_version` is
    /// refused.
    pub min_protocol_version: Option<AnyVersion>,
    /// Whether the person's app completed a check of presence: the sender's word, which is
    /// recorded. Any value but `true` counts as false.
    pub user_presence_completed: Option<bool>,
    /// The relying party's signature of the nonce and of what follows from the request.
    pub rp_signature: Option<SignatureEntry>,
    /// What the person's device has signed, as the client kit gives it.
    pub integrity_bundle: Option<IntegrityBundleEntry>,
    /// The proofs, one for each credential.
    #[schema(min_items = 1, max_items = 16)]
    pub responses: Vec<SessionEntry>,
}

/// A proof in a session.
#[derive(ToSchema)]
pub struct SessionEntry {
    /// The kind of credential, one of the issuer's identifiers.
    #[schema(max_length = 2048, example = "proof_of_human")]
    pub identifier: String,
    /// The issuer: a number of 64 bits, or its text.
    #[schema(schema_with = issuer_schema_id)]
    pub issuer_schema_id: u64,
    /// The nullifier and the action.
    #[schema(schema_with = session_nullifier)]
    pub session_nullifier: Vec<String>,
    /// The credential does not expire before this time, in Unix seconds: a number of 64 bits, or
    /// its decimal digits.
    #[schema(schema_with = expires_at_min)]
    pub expires_at_min: u64,
    /// The credential was not issued for the first time before this time, in Unix seconds: a number
    /// of 64 bits, or its decimal digits. By default that of the action, else 0.
    #[schema(schema_with = genesis_issued_at_min)]
    pub credential_genesis_issued_at_min: Option<u64>,
    /// The hash of the signal; 0 by default.
    #[schema(pattern = "^(0x[0-9a-fA-F]+|[0-9]+)$", example = "0x0")]
    pub signal_hash: Option<String>,
    /// Four words of the proof and the root.
    #[schema(schema_with = current_proof)]
    pub proof: Vec<String>,
    /// The score of Selfie Check: required for issuer 11, and refused for every other one.
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991u64, example = 12)]
    pub sybil_score: Option<u64>,
}

/// The version of legacy proofs.
#[derive(ToSchema)]
pub enum LegacyVersion {
    /// Legacy proofs.
    #[serde(rename = "3.0")]
    Legacy,
}

/// The version of current proofs.
#[derive(ToSchema)]
pub enum CurrentVersion {
    /// Uniqueness and session proofs.
    #[serde(rename = "4.0")]
    Current,
}

/// The type of uniqueness proofs.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UniquenessType {
    /// Uniqueness for the action.
    Uniqueness,
}

/// The type of session proofs.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionType {
    /// Proofs of a session.
    Session,
    /// The same, of a session that was made for the request.
    CreateSession,
}

/// A protocol version.
#[derive(ToSchema)]
#[schema(as = ProtocolVersion)]
pub enum AnyVersion {
    /// Legacy proofs.
    #[serde(rename = "3.0")]
    Legacy,
    /// Uniqueness and session proofs.
    #[serde(rename = "4.0")]
    Current,
}

/// An environment.
#[derive(ToSchema)]
#[schema(as = RequestedEnvironment)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentName {
    /// Proofs of persons.
    Production,
    /// Proofs for tests.
    Staging,
    /// Staging under another name.
    Sandbox,
}

fn text(pattern: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern))
}

fn number() -> ObjectBuilder {
    text("^(0x[0-9a-fA-F]+|[0-9]+)$")
}

fn nothing() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Null).description(Some("Absent or null in a request of this type."))
}

fn legacy_proof() -> ObjectBuilder {
    text(r"^(0x[0-9a-fA-F]{512}|\s*\[[\s\S]*\]\s*)$")
        .description(Some("Eight words: `0x` and 512 hex digits, or JSON text of `[[a,a],[[b,b],[b,b]],[c,c]]`."))
        .examples([serde_json::json!(format!("0x{}", "0".repeat(512)))])
}

fn issuer_schema_id() -> OneOfBuilder {
    number_of_64_bits("^(0x0*[0-9a-fA-F]{1,16}|0*[0-9]{1,19})$", 1)
        .description(Some("The issuer: a number of 64 bits, or its text."))
}

fn expires_at_min() -> OneOfBuilder {
    let about = "The credential does not expire before this time: Unix seconds, also as decimal digits in a text.";
    seconds(1_796_000_000).description(Some(about))
}

fn genesis_issued_at_min() -> OneOfBuilder {
    let about = "The credential was not issued for the first time before this time, as `expires_at_min`; by default \
                 `genesis_issued_at_min` of the action, else 0.";
    seconds(0).description(Some(about))
}

fn seconds(example: u64) -> OneOfBuilder {
    number_of_64_bits("^0*[0-9]{1,19}$", example)
}

/// A number, or its text.
fn number_of_64_bits(pattern: &str, example: u64) -> OneOfBuilder {
    OneOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(u64::MAX)))
        .item(text(pattern))
        .examples([serde_json::json!(example)])
}

fn session_nullifier() -> ArrayBuilder {
    ArrayBuilder::new()
        .items(text("^(0x[0-9a-fA-F]{1,64}|[0-9]{1,78})$"))
        .min_items(Some(2))
        .max_items(Some(2))
        .description(Some("The nullifier and the action."))
        .examples([serde_json::json!(["0x2a", "0x0200000000000000000000000000000000000000000000000000000000000007"])])
}

fn current_proof() -> ArrayBuilder {
    ArrayBuilder::new()
        .items(number())
        .min_items(Some(5))
        .max_items(Some(5))
        .description(Some("Four words of the proof, and the root."))
        .examples([serde_json::json!(["0x1", "0x2", "0x3", "0x4", "0x5"])])
}
