//! The wire types of the message bridge, as the public bridge has them, and the codes with which a
//! wallet refuses a request.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::keccak256;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use strum::IntoEnumIterator;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::json::to_printable;

/// Length of the initialization vector of AES-GCM, in bytes.
const IV_LENGTH: usize = 12;

/// Length of the tag of AES-GCM, in bytes. No ciphertext is shorter.
pub(super) const TAG_LENGTH: usize = 16;

/// The shortest and the longest id that a client can choose, in characters.
const ID_LENGTHS: std::ops::RangeInclusive<usize> = 16..=256;

/// The bridge's error codes.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumIter,
    strum::EnumMessage,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum BridgeErrorCode {
    /// 400: the body, the id or `wait` is malformed. 405, 413, 415: method, size, content type.
    BadRequest,
    /// 404: nothing is kept under the id: it is unknown, was handed out, or has expired; or the
    /// path is unknown.
    NotFound,
    /// 400: there is no request under the id that could be answered.
    NoSuchRequest,
    /// 409: the id is taken by another request, or is one that only the service makes.
    RequestIdTaken,
    /// 409: the request has an answer.
    AlreadyAnswered,
    /// 429: the source address has as many messages here, waits for as many answers, or has sent or
    /// fetched as many in a time, as it may.
    RateLimitExceeded,
    /// 503: no room, restarting, too many open requests, bodies or answers, or another replica
    /// gives no answer.
    BridgeUnavailable,
    /// 504: no answer within `limits.request_timeout`.
    RequestTimeout,
    /// 500: a fault of the daemon.
    InternalServerError,
}

/// Id of an entry: 16 to 256 letters, digits, `.`, `_` or `-`. Letters are kept in lower case, so
/// that ids which differ only in case are the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, pattern = "^[A-Za-z0-9._-]{16,256}$", example = "4ab2c0b2-5f4e-4e2b-9f0c-0f5b8f7f8a51")]
pub struct EntryId(Box<str>);

/// A text is not the id of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id has 16 to 256 characters, each a letter, a digit, '.', '_' or '-'")]
pub struct InvalidEntryId;

impl EntryId {
    /// A UUID (version 4) from random bytes.
    pub fn from_random_bytes(bytes: [u8; 16]) -> Self {
        Self(random_uuid(bytes).into())
    }

    /// The id of an entry of the service itself: a UUID (version 4) from random bytes, whose last
    /// four bytes follow from the others. No client can make an entry under such an id, also when
    /// the service has none there, so a client that knows the id cannot put another request in its
    /// place.
    pub fn of_service(bytes: [u8; 16]) -> Self {
        let mut bytes = uuid::Builder::from_random_bytes(bytes).into_uuid().into_bytes();
        let mark = mark_of_service(&bytes);
        bytes[12..].copy_from_slice(&mark);
        Self::from_random_bytes(bytes)
    }

    /// Whether the id is one that [`EntryId::of_service`] makes. Of the ids that clients choose at
    /// random, one in four billions is.
    pub fn is_of_service(&self) -> bool {
        Uuid::try_parse(&self.0).is_ok_and(|uuid| uuid.as_bytes()[12..] == mark_of_service(uuid.as_bytes()))
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The last four bytes of an id of the service, which follow from the first twelve.
fn mark_of_service(bytes: &[u8; 16]) -> [u8; 4] {
    let hash = keccak256([b"selfsame sign-in over the bridge", &bytes[..12]].concat());
    [hash[0], hash[1], hash[2], hash[3]]
}

impl FromStr for EntryId {
    type Err = InvalidEntryId;

    fn from_str(text: &str) -> Result<Self, InvalidEntryId> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        match ID_LENGTHS.contains(&text.len()) && text.bytes().all(is_plain) {
            true => Ok(Self(text.to_ascii_lowercase().into())),
            false => Err(InvalidEntryId),
        }
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for EntryId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// An encrypted message (AES-256-GCM). The bridge cannot read it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Message {
    /// The initialization vector: 12 bytes in Base64.
    #[serde(with = "iv")]
    #[schema(value_type = String, pattern = "^[A-Za-z0-9+/]{16}$", example = "AAECAwQFBgcICQoL")]
    pub iv: [u8; IV_LENGTH],
    /// The ciphertext and its tag: at least 16 bytes in Base64, with padding.
    #[serde(with = "payload")]
    #[schema(value_type = String, min_length = 24, pattern = "^([A-Za-z0-9+/]{4}){5,}([A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=|[A-Za-z0-9+/][AQgw]==)$", example = "AAECAwQFBgcICQoLDA0ODw==")]
    pub payload: Box<[u8]>,
}

impl fmt::Debug for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a message of {} bytes", self.payload.len())
    }
}

mod iv {
    use super::*;

    pub fn serialize<S: Serializer>(iv: &[u8; IV_LENGTH], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(iv))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; IV_LENGTH], D::Error> {
        let refused = || D::Error::custom("it must be 12 bytes in Base64");
        let bytes = STANDARD.decode(String::deserialize(deserializer)?).map_err(|_| refused())?;
        bytes.try_into().map_err(|_| refused())
    }
}

mod payload {
    use super::*;

    pub fn serialize<S: Serializer>(payload: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(payload))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[u8]>, D::Error> {
        let decoded = STANDARD.decode(String::deserialize(deserializer)?).ok();
        let payload = decoded.filter(|bytes| bytes.len() >= TAG_LENGTH);
        let refused = || D::Error::custom("it must be ciphertext and tag, at least 16 bytes, in Base64 with padding");
        Ok(payload.ok_or_else(refused)?.into())
    }
}

/// A new request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
pub struct CreateRequest {
    /// The initialization vector: 12 bytes in Base64.
    #[serde(with = "iv")]
    #[schema(value_type = String, pattern = "^[A-Za-z0-9+/]{16}$", example = "AAECAwQFBgcICQoL")]
    pub iv: [u8; IV_LENGTH],
    /// The ciphertext and its tag: at least 16 bytes in Base64, with padding.
    #[serde(with = "payload")]
    #[schema(value_type = String, min_length = 24, pattern = "^([A-Za-z0-9+/]{4}){5,}([A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=|[A-Za-z0-9+/][AQgw]==)$", example = "AAECAwQFBgcICQoLDA0ODw==")]
    pub payload: Box<[u8]>,
    /// The id that the request shall have; without it a random one.
    #[serde(default)]
    pub request_id: Option<EntryId>,
}

/// The id of a new entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedRequest {
    /// The id.
    pub request_id: EntryId,
}

/// A request, handed out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestAnswer {
    /// The encrypted request.
    #[serde(flatten)]
    pub message: Message,
    /// `idkitflow_` and a UUID, the same for all who follow this request; only for clients that
    /// send the header `accept-idkit-flow-id: true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idkit_flow_id: Option<String>,
}

impl RequestAnswer {
    /// The answer without the id of the flow, or with the one that random bytes make.
    pub fn new(message: Message, flow: Option<[u8; 16]>) -> Self {
        Self { message, idkit_flow_id: flow.map(|bytes| format!("idkitflow_{}", random_uuid(bytes))) }
    }
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResponseStatus {
    /// No authenticator has fetched the request.
    Initialized,
    /// An authenticator has fetched the request.
    Retrieved,
    /// The request is answered. The answer is handed out once.
    Completed,
}

/// The state of a request, with its answer when there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResponseAnswer {
    /// How far the request is.
    pub status: ResponseStatus,
    /// The encrypted answer; null before the request is answered.
    pub response: Option<Message>,
}

fn random_uuid(bytes: [u8; 16]) -> String {
    let uuid: Uuid = uuid::Builder::from_random_bytes(bytes).into_uuid();
    uuid.hyphenated().to_string()
}

// Why a wallet does not answer a request with a proof, in the words of the public client kits.

/// The error codes of the public client kits, as far as this project's wallet uses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumIter)]
pub enum RejectionCode {
    /// The person does not want to answer.
    UserRejected,
    /// The wallet has no credential that satisfies the request.
    CredentialUnavailable,
    /// The request asks for what this wallet cannot do.
    FeatureUnavailable,
    /// Only a current proof is accepted, and none can be made.
    NoCurrentProof,
    /// The request cannot be read, or contradicts itself.
    MalformedRequest,
    /// The request is for an environment that the wallet makes no proofs for.
    InvalidNetwork,
    /// The root of the legacy proof cannot be made known to the daemon.
    InclusionProofFailed,
    /// Nothing shows that a person is present.
    UserPresenceFailed,
    /// The request is not signed with the relying party's key.
    InvalidRpSignature,
    /// The daemon does not know the relying party.
    UnknownRp,
    /// The request was signed later than now.
    TimestampTooFarInFuture,
    /// The request ends before it begins.
    InvalidTimestamp,
    /// The request has expired.
    RpSignatureExpired,
    /// The wallet has given the same nullifier before, and does not give it again.
    NullifierReplayed,
    /// The wallet failed.
    GenericError,
}

/// Which codes the client kit of a request knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeSet {
    /// Those of the client kits 1 and 2.
    Early,
    /// Those of the client kit 4.
    Present,
}

impl RejectionCode {
    /// The code on the wire. The early client kits do not know every code; they get the nearest one
    /// of theirs.
    pub fn name(self, codes: CodeSet) -> &'static str {
        match (self, codes) {
            (Self::UserRejected, CodeSet::Early) => "verification_rejected",
            (Self::UserRejected, CodeSet::Present) => "user_rejected",
            (Self::CredentialUnavailable, _) => "credential_unavailable",
            (Self::MalformedRequest, _) => "malformed_request",
            (Self::InvalidNetwork, _) => "invalid_network",
            (Self::InclusionProofFailed, _) => "inclusion_proof_failed",
            (Self::GenericError, _) | (_, CodeSet::Early) => "generic_error",
            (Self::FeatureUnavailable, _) => "feature_unavailable",
            (Self::NoCurrentProof, _) => "world_id_4_not_available",
            (Self::UserPresenceFailed, _) => "user_presence_failed",
            (Self::InvalidRpSignature, _) => "invalid_rp_signature",
            (Self::UnknownRp, _) => "unknown_rp",
            (Self::TimestampTooFarInFuture, _) => "timestamp_too_far_in_future",
            (Self::InvalidTimestamp, _) => "invalid_timestamp",
            (Self::RpSignatureExpired, _) => "rp_signature_expired",
            (Self::NullifierReplayed, _) => "nullifier_replayed",
        }
    }
}

/// Whether a text is an error code of a public client kit.
pub fn is_of_client_kits(code: &str) -> bool {
    RejectionCode::iter().any(|known| [CodeSet::Early, CodeSet::Present].map(|codes| known.name(codes)).contains(&code))
}

/// Whether an error code says that the person does not want to answer, in the words of any client
/// kit. Every other one says that the wallet cannot.
pub fn is_of_person(code: &str) -> bool {
    [CodeSet::Early, CodeSet::Present].iter().any(|codes| RejectionCode::UserRejected.name(*codes) == code)
}

/// The wallet's refusal of a request: a code for the application, and a sentence for the person at
/// the wallet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Rejection {
    /// What the application is told.
    pub code: RejectionCode,
    /// Why, without control characters.
    pub reason: String,
}

impl Rejection {
    /// A refusal with its reason.
    pub fn new(code: RejectionCode, reason: impl fmt::Display) -> Self {
        Self { code, reason: to_printable(&reason.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::{BodyError, from_object};

    #[test]
    fn ids_are_plain_texts_in_lower_case() {
        let longest = "a".repeat(256);
        #[rustfmt::skip]
        let table = [
            ("4AB2c0b2-5f4e-4e2b-9f0c-0f5b8f7f8a51", Some("4ab2c0b2-5f4e-4e2b-9f0c-0f5b8f7f8a51")),
            ("a.b_c-d0123456789", Some("a.b_c-d0123456789")),
            ("0123456789abcdef", Some("0123456789abcdef")),
            ("0123456789abcde", None),
            (&longest, Some(&*longest)),
            (&"a".repeat(257), None),
            ("0123456789abcde/", None),
            ("0123456789abcde ", None),
            ("0123456789abcdeé", None),
            ("", None),
        ];
        for (text, expected) in table {
            let id = text.parse::<EntryId>();
            assert_eq!(id.as_ref().ok().map(EntryId::as_str), expected, "{text}");
        }
    }

    #[test]
    fn new_ids_are_random_uuids() {
        let id = EntryId::from_random_bytes([0xff; 16]);
        assert_eq!(id.as_str(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(id.as_str().parse(), Ok(id));
    }

    #[test]
    fn ids_of_the_service_are_uuids_that_are_recognized() {
        for byte in 0..=255 {
            let id = EntryId::of_service([byte; 16]);
            let uuid = Uuid::try_parse(id.as_str()).expect("a UUID");
            assert_eq!((uuid.get_version_num(), uuid.get_variant()), (4, uuid::Variant::RFC4122));
            assert!(id.is_of_service(), "{id}");
            let chosen: EntryId = id.as_str().to_ascii_uppercase().parse().expect("an id");
            assert!(chosen.is_of_service(), "in whatever letters a client writes it");
            assert!(!EntryId::from_random_bytes([byte; 16]).is_of_service());
        }
        assert!(!"0123456789abcdef".parse::<EntryId>().expect("an id").is_of_service());
    }

    #[test]
    fn messages_are_read_strictly_and_written_as_they_were() {
        let iv = STANDARD.encode([7; 12]);
        let payload = STANDARD.encode([9; 17]);
        let body = json!({"iv": iv, "payload": payload, "supports_app_overrides": true, "more": {"a": 1}});
        let created: CreateRequest = from_object(body.to_string().as_bytes()).expect("a request");
        assert_eq!((created.iv, created.payload.len(), &created.request_id), ([7; 12], 17, &None));
        let message = Message { iv: created.iv, payload: created.payload };
        assert_eq!(json!(message), json!({"iv": iv, "payload": payload}));
        #[rustfmt::skip]
        let table = [
            (json!({"iv": STANDARD.encode([7; 11]), "payload": payload}), "iv: it must be 12 bytes"),
            (json!({"iv": STANDARD.encode([7; 13]), "payload": payload}), "iv: it must be 12 bytes"),
            (json!({"iv": iv.replace('B', "-"), "payload": payload}), "iv: it must be 12 bytes"),
            (json!({"iv": iv, "payload": STANDARD.encode([9; 15])}), "payload: it must be ciphertext and tag, at least 16 bytes"),
            (json!({"iv": iv, "payload": payload.trim_end_matches('=')}), "with padding"),
            (json!({"iv": iv, "payload": format!("{payload}\n")}), "in Base64"),
            (json!({"iv": iv}), "payload"),
            (json!({"payload": payload}), "iv"),
            (json!({"iv": iv, "payload": payload, "request_id": "short"}), "request_id: an id has 16 to 256"),
            (json!({"iv": iv, "payload": payload, "request_id": 7}), "string"),
        ];
        for (body, problem) in table {
            let refused = from_object::<CreateRequest>(body.to_string().as_bytes()).expect_err("it is refused");
            assert!(matches!(&refused, BodyError::Field { .. }), "{refused}");
            assert!(refused.to_string().contains(problem), "{refused}");
        }
    }

    #[test]
    fn answers_have_the_public_form() {
        let message = Message { iv: [0; 12], payload: [1; 16].into() };
        let fields = json!({"iv": "AAAAAAAAAAAAAAAA", "payload": "AQEBAQEBAQEBAQEBAQEBAQ=="});
        assert_eq!(json!(RequestAnswer::new(message.clone(), None)), fields);
        let with_flow = json!(RequestAnswer::new(message.clone(), Some([0; 16])));
        assert_eq!(with_flow["idkit_flow_id"], "idkitflow_00000000-0000-4000-8000-000000000000");
        let waiting = ResponseAnswer { status: ResponseStatus::Retrieved, response: None };
        assert_eq!(json!(waiting), json!({"status": "retrieved", "response": null}));
        let answered = ResponseAnswer { status: ResponseStatus::Completed, response: Some(message) };
        assert_eq!(json!(answered), json!({"status": "completed", "response": fields}));
    }

    mod rejection {
        use super::super::*;

        #[test]
        fn early_client_kits_get_codes_that_they_know() {
            use CodeSet::{Early, Present};
            #[rustfmt::skip]
        let table = [
            (RejectionCode::UserRejected, "verification_rejected", "user_rejected"),
            (RejectionCode::CredentialUnavailable, "credential_unavailable", "credential_unavailable"),
            (RejectionCode::FeatureUnavailable, "generic_error", "feature_unavailable"),
            (RejectionCode::NoCurrentProof, "generic_error", "world_id_4_not_available"),
            (RejectionCode::MalformedRequest, "malformed_request", "malformed_request"),
            (RejectionCode::InvalidNetwork, "invalid_network", "invalid_network"),
            (RejectionCode::InclusionProofFailed, "inclusion_proof_failed", "inclusion_proof_failed"),
            (RejectionCode::UserPresenceFailed, "generic_error", "user_presence_failed"),
            (RejectionCode::InvalidRpSignature, "generic_error", "invalid_rp_signature"),
            (RejectionCode::UnknownRp, "generic_error", "unknown_rp"),
            (RejectionCode::TimestampTooFarInFuture, "generic_error", "timestamp_too_far_in_future"),
            (RejectionCode::InvalidTimestamp, "generic_error", "invalid_timestamp"),
            (RejectionCode::RpSignatureExpired, "generic_error", "rp_signature_expired"),
            (RejectionCode::NullifierReplayed, "generic_error", "nullifier_replayed"),
            (RejectionCode::GenericError, "generic_error", "generic_error"),
        ];
            for (code, early, present) in table {
                assert_eq!((code.name(Early), code.name(Present)), (early, present), "{code:?}");
                assert_eq!(is_of_person(present), code == RejectionCode::UserRejected, "{code:?}");
                assert_eq!(is_of_person(early), code == RejectionCode::UserRejected, "{code:?}");
            }
        }
    }
}
