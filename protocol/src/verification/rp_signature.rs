//! The relying party's signature of a request for proofs (EIP-191, secp256k1).
//!
//! It is over byte 01, the nonce, the times of creation and expiry (8 bytes each) and, unless the
//! request is for a session, the action; all big-endian. The action is the hash of its text's
//! bytes, also where verification hashes a text `0x…` as the bytes that it stands for: that is how
//! the public client kits sign.

use alloy_primitives::{Address, eip191_hash_message};

use super::fields::{Fields, ValidationError};
use super::identity::hash_to_field;
use crate::signature::{Signature, SignatureError};
use crate::time::UnixSeconds;
use crate::{B256, U256, address, encode_fields, encoding, keccak256};

/// Version of the message, its first byte.
const VERSION: u8 = 1;

/// How far a request may have been made after the service's time, in seconds: clocks of different
/// machines differ.
pub const CLOCK_TOLERANCE: u64 = 300;

/// The longest time from a signature to its expiry that verification accepts, in seconds. A nonce
/// that was used is remembered until its signature has expired.
pub const LONGEST_LIFETIME: u64 = 24 * 60 * 60;

/// What a relying party signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedRequest {
    /// The request's nonce.
    pub nonce: U256,
    /// The time of the signature.
    pub created_at: UnixSeconds,
    /// The time until which the request can be answered.
    pub expires_at: UnixSeconds,
    /// The hash of the action; `None` for sessions.
    pub action: Option<U256>,
}

/// Why a request cannot be answered now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestTimeError {
    /// It expires before it begins.
    #[error("the request expires at {expires_at}, not after it was made ({created_at})")]
    NoLifetime {
        /// The time of the signature.
        created_at: UnixSeconds,
        /// The time until which the request can be answered.
        expires_at: UnixSeconds,
    },
    /// It was made after now.
    #[error(
        "the request was made at {created_at}, more than {CLOCK_TOLERANCE} seconds after now ({now}); compare the \
         clocks"
    )]
    InFuture {
        /// The time of the signature.
        created_at: UnixSeconds,
        /// The service's time.
        now: UnixSeconds,
    },
    /// It has expired.
    #[error("the request expired {} seconds ago; begin again on the page", now.since(*.expires_at))]
    Expired {
        /// The time until which the request could be answered.
        expires_at: UnixSeconds,
        /// The service's time.
        now: UnixSeconds,
    },
}

impl SignedRequest {
    /// The address whose key signed the request.
    ///
    /// # Errors
    /// The signature is not one.
    pub fn signer(&self, signature: &Signature) -> Result<Address, SignatureError> {
        signature.recover(&self.digest())
    }

    /// Checks that the request has begun and has not expired.
    ///
    /// # Errors
    /// It cannot be answered now.
    pub fn check_time(&self, now: UnixSeconds) -> Result<(), RequestTimeError> {
        let Self { created_at, expires_at, .. } = *self;
        if expires_at <= created_at {
            return Err(RequestTimeError::NoLifetime { created_at, expires_at });
        }
        if created_at > now.plus(CLOCK_TOLERANCE) {
            return Err(RequestTimeError::InFuture { created_at, now });
        }
        if expires_at < now {
            return Err(RequestTimeError::Expired { expires_at, now });
        }
        Ok(())
    }

    /// The digest that is signed.
    pub fn digest(&self) -> B256 {
        let mut message = vec![VERSION];
        message.extend(self.nonce.to_be_bytes::<32>());
        message.extend(self.created_at.0.to_be_bytes());
        message.extend(self.expires_at.0.to_be_bytes());
        if let Some(action) = self.action {
            message.extend(action.to_be_bytes::<32>());
        }
        eip191_hash_message(message)
    }
}

/// The number that stands for an action in what a relying party signs: the hash of its text.
pub fn signed_action(action: &str) -> U256 {
    hash_to_field(action.as_bytes())
}

/// The relying party's signature in a verification request: its nonce, its action, and the rest
/// from the field `rp_signature`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpSignature {
    /// What is signed.
    pub request: SignedRequest,
    /// The signature.
    pub signature: Signature,
}

impl RpSignature {
    /// Reads the field `rp_signature` of a verification request with this nonce and action.
    pub(super) fn read(body: &Fields<'_>, nonce: &str, action: Option<&str>) -> Result<Option<Self>, ValidationError> {
        let Some(given) = body.object("rp_signature")? else { return Ok(None) };
        let nonce = body.as_number("nonce", nonce)?;
        // The object can be the context that a page got from its server, which has the nonce too.
        if let Some(named) = given.optional_text("nonce")?
            && given.as_number("nonce", named)? != nonce
        {
            return Err(given.wrong("nonce", "is another one than the nonce of the request"));
        }
        let text = given.text("signature")?;
        let signature = Signature::parse(text).map_err(|error| given.wrong("signature", format!("is {error}")))?;
        let request = SignedRequest {
            nonce,
            created_at: UnixSeconds(given.integer("created_at")?),
            expires_at: UnixSeconds(given.integer("expires_at")?),
            action: action.map(signed_action),
        };
        Ok(Some(Self { request, signature }))
    }
}

/// What an application asks of the signatures of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SigningRule {
    /// The address whose key signs them.
    pub signer: Address,
    /// Whether every request must be signed.
    pub is_required: bool,
    /// Whether the signal of every legacy proof must be the signed nonce.
    pub binds_signal: bool,
}

/// Why a request's signature is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RpSignatureError {
    /// There is none, and the relying party asks for one.
    #[error(
        "the relying party takes signed requests only; send rp_signature with signature, created_at and expires_at"
    )]
    Missing,
    /// There is one, and the relying party has no key that it could be checked with.
    #[error("the relying party has no signing key, so its signatures cannot be checked; leave rp_signature out")]
    NoKey,
    /// It is none of any key.
    #[error("{0}")]
    NotOne(#[from] SignatureError),
    /// It is another key's, or over other values.
    #[error(
        "the request is signed by {}, not by {}; sign this nonce, these times and this action with the relying party's key",
        address::text(signer),
        address::text(expected)
    )]
    OtherSigner {
        /// The address that was recovered.
        signer: Address,
        /// The relying party's.
        expected: Address,
    },
    /// It cannot be answered now.
    #[error(transparent)]
    Time(#[from] RequestTimeError),
    /// It would be good for too long.
    #[error(
        "the signature is good for {lifetime} seconds, more than {LONGEST_LIFETIME}; sign with an earlier expires_at"
    )]
    TooLong {
        /// Seconds from the signature to its expiry.
        lifetime: u64,
    },
}

impl RpSignatureError {
    /// The code of the answer: the one with which the public client kits name the same reason,
    /// where they do.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing => "rp_signature_required",
            Self::NoKey => "configuration_error",
            Self::NotOne(_) | Self::OtherSigner { .. } => "invalid_rp_signature",
            Self::Time(RequestTimeError::NoLifetime { .. }) | Self::TooLong { .. } => "invalid_timestamp",
            Self::Time(RequestTimeError::InFuture { .. }) => "timestamp_too_far_in_future",
            Self::Time(RequestTimeError::Expired { .. }) => "rp_signature_expired",
        }
    }
}

/// Checks the signature of a request at this time. Whether the nonce was used is not decided here.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_signature(
    rule: Option<SigningRule>,
    given: Option<&RpSignature>,
    now: UnixSeconds,
) -> Result<(), RpSignatureError> {
    let (rule, given) = match (rule, given) {
        (None, None) | (Some(SigningRule { is_required: false, .. }), None) => return Ok(()),
        (Some(SigningRule { is_required: true, .. }), None) => return Err(RpSignatureError::Missing),
        (None, Some(_)) => return Err(RpSignatureError::NoKey),
        (Some(rule), Some(given)) => (rule, given),
    };
    let RpSignature { request, signature } = given;
    request.check_time(now)?;
    let lifetime = request.expires_at.since(request.created_at);
    if lifetime > LONGEST_LIFETIME {
        return Err(RpSignatureError::TooLong { lifetime });
    }
    match request.signer(signature)? {
        signer if signer == rule.signer => Ok(()),
        signer => Err(RpSignatureError::OtherSigner { signer, expected: rule.signer }),
    }
}

/// A nonce that an application signed, by which it is remembered as used. An application that is
/// given another relying-party id keeps its nonces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedNonce {
    /// keccak256 of the application's id.
    pub application: B256,
    /// The nonce.
    pub nonce: U256,
}

encode_fields!(SignedNonce { application, nonce });

impl SignedNonce {
    /// The nonce of an application.
    pub fn new(app_id: &str, nonce: U256) -> Self {
        Self { application: keccak256(app_id), nonce }
    }

    /// The id of its record.
    pub fn record_id(&self) -> B256 {
        keccak256(encoding::encode(self))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::number;

    fn vectors() -> Value {
        serde_json::from_str(include_str!("../../vectors/rp_signatures.json")).expect("JSON")
    }

    fn recorded(case: &Value) -> RpSignature {
        let time = |name: &str| UnixSeconds(case[name].as_u64().expect("a time"));
        let request = SignedRequest {
            nonce: number::parse(case["nonce"].as_str().expect("text")).expect("a number"),
            created_at: time("createdAt"),
            expires_at: time("expiresAt"),
            action: case["action"].as_str().map(signed_action),
        };
        RpSignature { request, signature: Signature::parse(case["sig"].as_str().expect("text")).expect("a signature") }
    }

    fn signer() -> Address {
        address::parse(vectors()["signer"].as_str().expect("text")).expect("an address")
    }

    #[test]
    fn what_the_public_server_kit_signs_is_signed_by_its_key() {
        let vectors = vectors();
        let cases = vectors["signed"].as_array().expect("cases");
        assert_eq!(cases.len(), 3);
        for case in cases {
            let RpSignature { request, signature } = recorded(case);
            assert_eq!(request.signer(&signature), Ok(signer()), "{case}");
            let changed = [
                SignedRequest { nonce: request.nonce + U256::from(1), ..request },
                SignedRequest { created_at: request.created_at.plus(1), ..request },
                SignedRequest { expires_at: request.expires_at.plus(1), ..request },
                SignedRequest { action: Some(signed_action("another")), ..request },
            ];
            for changed in changed {
                assert_ne!(changed.signer(&signature), Ok(signer()), "{case}");
            }
        }
    }

    #[test]
    fn a_signature_is_asked_for_checked_and_refused_by_the_rule() {
        let given = recorded(&vectors()["signed"][0]);
        let (created, expires) = (given.request.created_at, given.request.expires_at);
        let rule = |is_required| Some(SigningRule { signer: signer(), is_required, binds_signal: false });
        let other = Some(SigningRule { signer: Address::repeat_byte(1), is_required: false, binds_signal: false });
        let with = |change: fn(&mut SignedRequest)| {
            let mut changed = given;
            change(&mut changed.request);
            changed
        };
        let backwards = with(|request| request.expires_at = request.created_at);
        let too_long = with(|request| request.expires_at = request.created_at.plus(LONGEST_LIFETIME + 1));
        let mut high = given;
        high.signature.0[32..64].fill(0xff);
        #[rustfmt::skip]
        let table = [
            ("no rule, no signature", None, None, created, ""),
            ("a key, no signature", rule(false), None, created, ""),
            ("required, no signature", rule(true), None, created, "takes signed requests only"),
            ("no key, a signature", None, Some(given), created, "has no signing key"),
            ("a good one", rule(true), Some(given), created, ""),
            ("a good one that is not required", rule(false), Some(given), created, ""),
            ("another key", other, Some(given), created, "is signed by 0x19e7e376e7c213b7e7e7e46cc70a5dd086daff2a, not by 0x0101"),
            ("the last second", rule(true), Some(given), expires, ""),
            ("a second later", rule(true), Some(given), expires.plus(1), "expired 1 seconds ago"),
            ("a clock that is behind", rule(true), Some(given), created.minus(CLOCK_TOLERANCE), ""),
            ("further behind", rule(true), Some(given), created.minus(CLOCK_TOLERANCE + 1), "compare the clocks"),
            ("no lifetime", rule(true), Some(backwards), created, "not after it was made"),
            ("too long a lifetime", rule(true), Some(too_long), created, "more than 86400"),
            ("no signature of any key", rule(true), Some(high), created, "upper half"),
        ];
        for (name, rule, given, now, expected) in table {
            match check_signature(rule, given.as_ref(), now) {
                Ok(()) => assert_eq!(expected, "", "{name}"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(!expected.is_empty() && text.contains(expected), "{name}: {text}");
                }
            }
        }
    }

    #[test]
    fn a_request_carries_the_signature_of_its_nonce_and_action() {
        let case = &vectors()["signed"][0];
        let field =
            json!({ "signature": case["sig"], "created_at": case["createdAt"], "expires_at": case["expiresAt"] });
        let body = |field: Value| json!({ "rp_signature": field });
        let nonce = case["nonce"].as_str().expect("text");
        let read = |body: &Value| RpSignature::read(&Fields::of_body(body).expect("an object"), nonce, Some("vote"));
        assert_eq!(read(&body(field.clone())), Ok(Some(recorded(case))));
        assert_eq!(read(&body(Value::Null)), Ok(None));
        assert_eq!(read(&json!({})), Ok(None));

        let mut whole = field.clone();
        whole["rp_id"] = json!("rp_0387df34f862cd4e");
        whole["nonce"] = json!(nonce.to_uppercase().replace("0X", "0x"));
        assert_eq!(read(&body(whole)), Ok(Some(recorded(case))));

        let without = |name: &str| {
            let mut field = field.clone();
            field.as_object_mut().expect("an object").remove(name);
            field
        };
        let with = |name: &str, value: Value| {
            let mut field = field.clone();
            field[name] = value;
            field
        };
        let table = [
            (json!("0x00"), "rp_signature", "must be an object"),
            (without("signature"), "rp_signature.signature", "is missing"),
            (with("signature", json!("0x12")), "rp_signature.signature", "65 bytes"),
            (without("created_at"), "rp_signature.created_at", "is missing"),
            (with("expires_at", json!(-1)), "rp_signature.expires_at", "must be an integer"),
            (with("nonce", json!("0x1")), "rp_signature.nonce", "another one than the nonce of the request"),
        ];
        for (field, attribute, detail) in table {
            let error = read(&body(field.clone())).expect_err("refused");
            assert_eq!(error.attribute.as_deref(), Some(attribute), "{field}");
            assert!(error.detail.contains(detail), "{error}");
        }
        let text_nonce = RpSignature::read(&Fields::of_body(&body(field)).expect("an object"), "n", None);
        assert_eq!(text_nonce.expect_err("refused").attribute.as_deref(), Some("nonce"));
    }

    #[test]
    fn nonces_are_apart_by_application() {
        let id = |app: &str, nonce: u64| SignedNonce::new(app, U256::from(nonce)).record_id();
        assert_eq!(id("app_a", 1), id("app_a", 1));
        assert_ne!(id("app_a", 1), id("app_a", 2));
        assert_ne!(id("app_a", 1), id("app_b", 1));
    }
}
