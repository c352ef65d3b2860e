//! Integrity bundles: the word of the person's device that a genuine app made the result, and of an
//! attestation issuer that the device's key is in one.
//!
//! | module | what it has |
//! |---|---|
//! | this one | the bundle's shape, what it speaks of, which requests need one, and how it is judged |
//! | [`keys`] | the key set of an attestation issuer |
//! | [`simulator`] | the simulator's keys of an issuer and of devices |
//! | `token` | the issuer's token: a JWT that is signed with ES256 |
//! | `assertion` | the form in which devices with iOS sign: a map in CBOR |
//!
//! The device signs `D = SHA-256(timestamp as eight bytes ‖ payload)` with ECDSA on P-256. The
//! payload is a SHA-256 of what the bundle speaks of ([`payload`]): the proofs' texts (protocol
//! version 3.0), the nonce (version 1 of the bundle), or the nonce, the nullifiers and the scores
//! (version 2).

mod assertion;
pub mod keys;
pub mod simulator;
#[cfg(test)]
mod tests;
mod token;

use super::directory::Admitted;
use super::fields::{Fields, ValidationError, quote};
use super::identity::RelyingPartyId;
use super::request::{CurrentItem, Proofs, VerificationRequest};
use crate::time::UnixSeconds;
use crate::{B256, U256, encode_enum, keccak256};
use assertion::Assertion;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_FIXED};
use keys::{KeySet, P256Point};
use serde_json::Value;
use token::Token;

/// The longest signature, the longest token, and the longest bundle as compact JSON, in bytes.
pub const LONGEST_BUNDLE: usize = 8192;

/// The greatest age of a bundle, in seconds, inclusive.
pub const GREATEST_AGE: u64 = 300;

/// The greatest tolerance of clocks that can be configured, in seconds.
pub const GREATEST_TOLERANCE: u64 = 300;

/// The issuer schema id of Selfie Check, whose proofs need a bundle of version 2 and have a score.
pub const SELFIE_CHECK: u64 = 11;

/// The greatest score: the greatest integer that every JSON reader reads exactly.
pub const GREATEST_SCORE: u64 = (1 << 53) - 1;

const LEGACY_DOMAIN: &[u8] = b"worldcoin/proof-integrity/v3";
const CURRENT_DOMAIN: &[u8] = b"worldcoin/proof-integrity/v4";

/// What a bundle speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundleVersion {
    /// The texts of legacy proofs, or the nonce of current ones.
    One,
    /// The nonce, the nullifiers and the scores of current proofs.
    Two,
}

/// The system of the device that signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// `apple_app_attest`.
    Ios,
    /// `android_keystore`.
    Android,
}

impl Platform {
    /// The name that the issuer's token has for it.
    fn name(self) -> &'static str {
        match self {
            Self::Ios => "ios",
            Self::Android => "android",
        }
    }
}

/// An integrity bundle of the right shape, beside the proofs of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegrityBundle {
    /// What it speaks of.
    pub version: BundleVersion,
    /// The system of the device, by the format of its signature.
    pub platform: Platform,
    /// When the device signed.
    pub timestamp: UnixSeconds,
    /// The device's signature.
    signature: Vec<u8>,
    /// The issuer's token.
    token: String,
    /// The digest of what it speaks of; `None` for version 2 beside legacy proofs, which it cannot
    /// speak of.
    payload: Option<[u8; 32]>,
}

impl IntegrityBundle {
    /// Reads `integrity_bundle` of a body whose proofs were read.
    ///
    /// # Errors
    /// The bundle, or the field of it, that is malformed.
    pub(super) fn read(body: &Fields<'_>, proofs: &Proofs) -> Result<Option<Self>, ValidationError> {
        const NAME: &str = "integrity_bundle";
        const NAMES: [&str; 5] = ["version", "signature_format", "timestamp", "signature", "jwt"];
        let Some(value) = body.optional(NAME) else { return Ok(None) };
        let Some(bundle) = body.object(NAME)? else { return Ok(None) };
        if let Some(other) = value.as_object().and_then(|object| object.keys().find(|key| !NAMES.contains(&&***key))) {
            let detail = format!("has the field {}, and only {} are known", quote(other), NAMES.join(", "));
            return Err(body.wrong(NAME, detail));
        }
        let length = value.to_string().len();
        if length > LONGEST_BUNDLE {
            let detail = format!("has {length} bytes as compact JSON, it must have at most {LONGEST_BUNDLE}");
            return Err(body.wrong(NAME, detail));
        }
        let version = match bundle.integer("version")? {
            1 => BundleVersion::One,
            2 => BundleVersion::Two,
            other => return Err(bundle.wrong("version", format!("must be 1 or 2, not {other}"))),
        };
        let platform = match bundle.text("signature_format")? {
            "apple_app_attest" => Platform::Ios,
            "android_keystore" => Platform::Android,
            other => {
                let detail = format!("must be \"apple_app_attest\" or \"android_keystore\", not {}", quote(other));
                return Err(bundle.wrong("signature_format", detail));
            }
        };
        let timestamp = bundle.integer("timestamp")?;
        if timestamp > GREATEST_SCORE {
            return Err(bundle.wrong("timestamp", format!("must be an integer from 0 to {GREATEST_SCORE}")));
        }
        let digits = bundle.text("signature")?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let signature =
            (1..=LONGEST_BUNDLE).contains(&digits.len()).then(|| alloy_primitives::hex::decode(digits).ok());
        let signature = signature.flatten().filter(|_| is_hex).ok_or_else(|| {
            let detail = format!("must be an even number of hex digits without 0x, at most {LONGEST_BUNDLE}");
            bundle.wrong("signature", detail)
        })?;
        let token = bundle.text("jwt")?;
        if !(1..=LONGEST_BUNDLE).contains(&token.len()) {
            return Err(bundle.wrong("jwt", format!("must have 1 to {LONGEST_BUNDLE} characters, not {}", token.len())));
        }
        let payload = payload(version, proofs, body);
        let timestamp = UnixSeconds(timestamp);
        Ok(Some(Self { version, platform, timestamp, signature, token: token.to_owned(), payload }))
    }

    /// Judges the bundle of a request by the keys of the environment's attestation issuer.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn judge(&self, keys: &KeySet, rules: &IntegrityRules<'_>) -> Result<JudgedBundle, IntegrityError> {
        self.check_age(rules)?;
        let claims = Token::read(&self.token)?.verify(keys, rules)?;
        if !claims.has_passed {
            return Err(IntegrityError::NotPassed);
        }
        if claims.platform != self.platform.name() {
            return Err(IntegrityError::OtherPlatform);
        }
        let device = claims.device_key?;
        let payload = self.payload.ok_or(IntegrityError::LegacyProofs)?;
        let signed = [self.timestamp.0.to_be_bytes().as_slice(), &payload].concat();
        let signed_digest = sha256(&[&signed]);
        let holds = match self.platform {
            Platform::Android => holds(&device, &signed, &self.signature),
            Platform::Ios => {
                let Assertion { signature, authenticator_data } = Assertion::read(&self.signature)?;
                holds(&device, &sha256(&[authenticator_data, &signed_digest]), signature)
            }
        };
        if !holds {
            return Err(IntegrityError::DeviceSignature);
        }
        let pair = [b"selfsame integrity bundle".as_slice(), device.as_bytes(), &signed_digest].concat();
        Ok(JudgedBundle { pair: keccak256(pair), timestamp: self.timestamp })
    }

    /// The tolerance is for a device whose clock is ahead. The greatest age has none: a clock that
    /// is a few seconds behind takes little from five minutes.
    fn check_age(&self, rules: &IntegrityRules<'_>) -> Result<(), IntegrityError> {
        let IntegrityRules { now, clock_tolerance, .. } = *rules;
        if self.timestamp > now.plus(clock_tolerance) {
            return Err(IntegrityError::InFuture { ahead: self.timestamp.0 - now.0 });
        }
        match now.0.saturating_sub(self.timestamp.0) {
            age if age > GREATEST_AGE => Err(IntegrityError::TooOld { age }),
            _ => Ok(()),
        }
    }
}

/// Whether the signature of a device over the SHA-256 of a message holds: in DER, or as two numbers
/// of 32 bytes.
fn holds(key: &P256Point, message: &[u8], signature: &[u8]) -> bool {
    let form = if signature.len() == 64 { &ECDSA_P256_SHA256_FIXED } else { &ECDSA_P256_SHA256_ASN1 };
    key.verifies(form, message, signature)
}

// What a bundle speaks of.

/// The digest of what a bundle of a version speaks of beside the proofs of a verification request,
/// for makers of bundles; `None` for version 2 beside legacy proofs.
///
/// # Errors
/// The first field of the body that is missing or malformed.
pub fn payload_of(version: BundleVersion, body: &Value) -> Result<Option<[u8; 32]>, ValidationError> {
    let request = VerificationRequest::read(body)?;
    Ok(payload(version, &request.proofs, &Fields::of_body(body)?))
}

/// The digest of what a bundle speaks of; `None` for version 2 beside legacy proofs.
fn payload(version: BundleVersion, proofs: &Proofs, body: &Fields<'_>) -> Option<[u8; 32]> {
    match (proofs, version) {
        (Proofs::Legacy { items, .. }, BundleVersion::One) => {
            let mut bytes = LEGACY_DOMAIN.to_vec();
            push_count(&mut bytes, items.len());
            // The texts as they were sent, not the numbers that they write.
            for proof in body.responses().ok()?.iter().map(|item| item.text("proof")) {
                let proof = proof.ok()?;
                push_count(&mut bytes, proof.len());
                bytes.extend_from_slice(proof.as_bytes());
            }
            Some(sha256(&[&bytes]))
        }
        (Proofs::Legacy { .. }, BundleVersion::Two) => None,
        (Proofs::Uniqueness { nonce, .. } | Proofs::Session { nonce, .. }, BundleVersion::One) => {
            Some(sha256(&[CURRENT_DOMAIN, &nonce.to_be_bytes::<32>()]))
        }
        (Proofs::Uniqueness { nonce, items, .. }, BundleVersion::Two) => {
            Some(entries_digest(nonce, items, |bytes, item| {
                bytes.push(0);
                bytes.extend(item.nullifier.0.to_be_bytes::<32>());
            }))
        }
        (Proofs::Session { nonce, items, .. }, BundleVersion::Two) => {
            Some(entries_digest(nonce, items, |bytes, item| {
                bytes.push(1);
                bytes.extend(item.nullifier.0.to_be_bytes::<32>());
                bytes.extend(item.action.to_be_bytes::<32>());
            }))
        }
    }
}

/// The digest of version 2: the nonce, and for each entry a tag with its nullifiers, which `push`
/// adds, and its claims. The score is the only claim.
fn entries_digest(nonce: &U256, items: &[CurrentItem], push: impl Fn(&mut Vec<u8>, &CurrentItem)) -> [u8; 32] {
    let mut bytes = [CURRENT_DOMAIN, &nonce.to_be_bytes::<32>()].concat();
    push_count(&mut bytes, items.len());
    for item in items {
        push(&mut bytes, item);
        push_count(&mut bytes, item.sybil_score.iter().len());
        if let Some(score) = item.sybil_score {
            bytes.extend(U256::from(score).to_be_bytes::<32>());
        }
    }
    sha256(&[&bytes])
}

/// Adds a number of bytes or entries, which bodies bound far below 2^32.
fn push_count(bytes: &mut Vec<u8>, count: usize) {
    bytes.extend(u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, &parts.concat()).as_ref());
    hash
}

/// The score of an entry: required for Selfie Check, and refused for every other issuer.
pub(super) fn read_score(item: &Fields<'_>, issuer_schema_id: u64) -> Result<Option<u64>, ValidationError> {
    const NAME: &str = "sybil_score";
    match (item.optional(NAME), issuer_schema_id) {
        (None, SELFIE_CHECK) => Err(item.wrong(NAME, format!("is missing; a proof of issuer {SELFIE_CHECK} has one"))),
        (None, _) => Ok(None),
        (Some(_), SELFIE_CHECK) => match item.optional_integer(NAME) {
            Ok(Some(score)) if score <= GREATEST_SCORE => Ok(Some(score)),
            _ => Err(item.wrong(NAME, format!("must be an integer from 0 to {GREATEST_SCORE}"))),
        },
        (Some(_), _) => {
            let detail = format!("must be left out; only proofs of issuer {SELFIE_CHECK} have one");
            Err(item.wrong(NAME, detail))
        }
    }
}

// Which requests need a bundle.

/// Checks that a request has the bundle that it needs. Selfie Check needs version 2, because only
/// that speaks of the score.
///
/// # Errors
/// The bundle is missing, or of version 1.
pub fn check_presence(request: &VerificationRequest, admitted: &Admitted) -> Result<(), IntegrityError> {
    let version = request.integrity_bundle.as_ref().map(|bundle| bundle.version);
    match (requirement(request, admitted), version) {
        (None, _) | (Some(_), Some(BundleVersion::Two)) => Ok(()),
        (Some(IntegrityError::Missing { .. }), Some(BundleVersion::One)) => Ok(()),
        (Some(required), _) => Err(required),
    }
}

/// Whether a request is refused without a bundle: that of such a request must be judged.
pub fn is_required(request: &VerificationRequest, admitted: &Admitted) -> bool {
    requirement(request, admitted).is_some()
}

/// What a request without a bundle is refused for.
fn requirement(request: &VerificationRequest, admitted: &Admitted) -> Option<IntegrityError> {
    let items: &[CurrentItem] = match &request.proofs {
        Proofs::Legacy { .. } => &[],
        Proofs::Uniqueness { items, .. } | Proofs::Session { items, .. } => items,
    };
    if items.iter().any(|item| item.issuer_schema_id == SELFIE_CHECK) {
        return Some(IntegrityError::NoVersion2);
    }
    let party = &admitted.relying_party;
    if party.require_integrity {
        return Some(IntegrityError::Missing { by: format!("application {}", party.app_id) });
    }
    let action = admitted.action.as_ref().filter(|action| action.require_integrity)?;
    Some(IntegrityError::Missing { by: format!("action {:?}", action.action) })
}

// How a bundle is judged.

/// What a bundle is judged by besides the issuer's keys.
#[derive(Clone, Debug)]
pub struct IntegrityRules<'a> {
    /// The attestation issuer of the request's environment.
    pub issuer: &'a str,
    /// The relying parties that the token may be for.
    pub audiences: Vec<String>,
    /// The present time.
    pub now: UnixSeconds,
    /// How many seconds the clocks of the device and of the issuer may be ahead, and the issuer's
    /// end of a token behind.
    pub clock_tolerance: u64,
}

impl<'a> IntegrityRules<'a> {
    /// The rules for the bundle of a request. Beside legacy proofs the token may also be for the id
    /// that is derived from the application's.
    pub fn new(issuer: &'a str, admitted: &Admitted, proofs: &Proofs, now: UnixSeconds, clock_tolerance: u64) -> Self {
        let party = &admitted.relying_party;
        let derived = matches!(proofs, Proofs::Legacy { .. }).then(|| RelyingPartyId::derived_from(&party.app_id));
        let audiences = [Some(party.rp_id), derived].into_iter().flatten().map(|id| id.to_string()).collect();
        Self { issuer, audiences, now, clock_tolerance }
    }
}

/// A bundle that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedBundle {
    /// The hash of the device's key and of what it signed.
    pair: B256,
    /// When the device signed.
    timestamp: UnixSeconds,
}

impl JudgedBundle {
    /// The use of the bundle in a request with these proofs.
    pub fn used_for(&self, proofs: &Proofs) -> BundleUse {
        let mut nullifiers: Vec<U256> =
            proofs.identifiers_and_nullifiers().into_iter().map(|(_, nullifier)| nullifier.0).collect();
        nullifiers.sort_unstable();
        nullifiers.dedup();
        let bytes: Vec<u8> = nullifiers.iter().flat_map(U256::to_be_bytes::<32>).collect();
        // Another replica may judge it as good for a while longer.
        let forgotten_at = self.timestamp.plus(GREATEST_AGE + 2 * GREATEST_TOLERANCE);
        BundleUse { pair: self.pair, nullifiers: keccak256(bytes), forgotten_at }
    }
}

/// The use of a bundle: the first request that is answered with success binds what the device
/// signed to its nullifiers. Version 1 beside current proofs speaks of the nonce alone, so that
/// without this the holder of one device could vouch for the proofs of many people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleUse {
    /// The hash of the device's key and of what it signed: the id of the record.
    pub pair: B256,
    /// The hash of the request's nullifiers, in any order: the record's value.
    pub nullifiers: B256,
    /// From when on the bundle is too old, so that the record may be deleted.
    pub forgotten_at: UnixSeconds,
}

/// What was found of a request's bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntegrityFinding {
    /// The request had none.
    #[default]
    NoBundle,
    /// It had one, and the environment has no keys to judge it by.
    NotChecked,
    /// It had one, and that holds.
    Verified,
}

encode_enum!(IntegrityFinding { NoBundle = 0, NotChecked = 1, Verified = 2 } of "a finding about an integrity bundle");

impl IntegrityFinding {
    /// Its name in answers and events; `None` without a bundle.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::NoBundle => None,
            Self::NotChecked => Some("not_checked"),
            Self::Verified => Some("verified"),
        }
    }
}

/// Why a request is refused for its bundle, or for having none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntegrityError {
    /// The request needs a bundle.
    #[error("{by} takes only results with an integrity bundle; forward the client kit's result unchanged")]
    Missing {
        /// The entry that requires it: `application` and its id, or `action` and its text in
        /// quotes.
        by: String,
    },
    /// The request needs a bundle of version 2.
    #[error(
        "proofs of issuer {SELFIE_CHECK} need an integrity bundle of version 2; forward the client kit's result unchanged"
    )]
    NoVersion2,
    /// The bundle is older than five minutes.
    #[error("the bundle is {age} seconds old, at most {GREATEST_AGE} are accepted; forward results at once")]
    TooOld {
        /// Its age in seconds.
        age: u64,
    },
    /// The bundle is of the future.
    #[error("the bundle was signed {ahead} seconds ahead of this service's clock; the device's clock must be right")]
    InFuture {
        /// How many seconds its time is ahead.
        ahead: u64,
    },
    /// The token is not a JWT.
    #[error("jwt is not a JWT: {problem}")]
    Token {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The token names no key of the issuer.
    #[error("jwt is signed with a key that the issuer {issuer} does not have")]
    UnknownKey {
        /// The attestation issuer of the environment.
        issuer: String,
    },
    /// The signature of the token does not hold.
    #[error("the signature of jwt does not hold")]
    TokenSignature,
    /// A claim of the token is missing or wrong.
    #[error("the claim {claim} of jwt {problem}")]
    Claim {
        /// The claim's name.
        claim: &'static str,
        /// What is wrong, as the end of a sentence that begins with the claim.
        problem: String,
    },
    /// The issuer did not find the app genuine.
    #[error("the claim pass of jwt is not true: the issuer did not find the app genuine")]
    NotPassed,
    /// The token is for a device of the other system.
    #[error("signature_format is not that of the platform in jwt")]
    OtherPlatform,
    /// The token has no key of a device.
    #[error("the claim cnf of jwt has no key on the curve P-256")]
    DeviceKey,
    /// A bundle of version 2 stands beside legacy proofs.
    #[error("a bundle of version 2 speaks of proofs of protocol version 4.0 alone; legacy proofs need version 1")]
    LegacyProofs,
    /// The signature of a device with iOS is not an assertion.
    #[error("signature is not an assertion of App Attest: {problem}")]
    Assertion {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The device's signature does not hold.
    #[error(
        "the device's signature does not hold for this request; forward the nonce, the proofs, the nullifiers and the \
         scores as the client kit gave them"
    )]
    DeviceSignature,
    /// What the device signed was used with other nullifiers.
    #[error("the bundle was used with other nullifiers; ask for a new result")]
    OtherNullifiers,
}

impl IntegrityError {
    /// The code of the answer (`docs/interfaces/verification-errors.md`, "Errors").
    pub const CODE: &str = "integrity_verification_failed";
    /// The field of the request that is refused.
    pub const ATTRIBUTE: &str = "integrity_bundle";

    /// Whether newer keys of the issuer may judge otherwise.
    pub fn is_about_keys(&self) -> bool {
        matches!(self, Self::UnknownKey { .. } | Self::TokenSignature)
    }
}
