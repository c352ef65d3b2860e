//! The key set of an attestation issuer (RFC 7517), and points of the curve P-256.

use std::fmt;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, EcdsaVerificationAlgorithm, ParsedPublicKey, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::json::{BodyError, from_answer};

/// The longest key set that is read, in bytes.
pub const LONGEST_KEY_SET: usize = 64 << 10;

/// The most keys of a set that are used. The public issuer has two at most.
pub const MOST_KEYS: usize = 16;

/// The longest id of a key, in bytes.
pub const LONGEST_KEY_ID: usize = 256;

/// The keys that an attestation issuer signs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySet {
    keys: Vec<(String, P256Point)>,
}

/// Why a text is not a key set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// It is longer than [`LONGEST_KEY_SET`].
    #[error("the key set has more than {LONGEST_KEY_SET} bytes")]
    TooLong,
    /// It is not a JSON object.
    #[error(transparent)]
    Json(#[from] BodyError),
    /// It has no array `keys`.
    #[error("the key set has no array \"keys\"")]
    NoKeys,
    /// No key of it can be used.
    #[error("the key set has no key with an id for ES256 on the curve P-256")]
    NoUsableKey,
    /// It has too many keys.
    #[error("the key set has {0} keys for ES256, at most {MOST_KEYS} are used")]
    TooMany(usize),
    /// Two keys of it have one id.
    #[error("two keys of the set have the id {0:?}")]
    SameId(String),
}

impl KeySet {
    /// Reads a key set. Keys that ES256 has no use for are left out.
    ///
    /// # Errors
    /// [`KeySetError`].
    pub fn read(text: &[u8]) -> Result<Self, KeySetError> {
        if text.len() > LONGEST_KEY_SET {
            return Err(KeySetError::TooLong);
        }
        let set: Map<String, Value> = from_answer(text)?;
        let keys = set.get("keys").and_then(Value::as_array).ok_or(KeySetError::NoKeys)?;
        let mut read: Vec<(String, P256Point)> = Vec::new();
        for (id, point) in keys.iter().filter_map(usable_key) {
            if read.iter().any(|(other, _)| other == id) {
                return Err(KeySetError::SameId(id.to_owned()));
            }
            read.push((id.to_owned(), point));
        }
        match read.len() {
            0 => Err(KeySetError::NoUsableKey),
            count if count > MOST_KEYS => Err(KeySetError::TooMany(count)),
            _ => Ok(Self { keys: read }),
        }
    }

    /// A set of one key.
    pub fn of_key(id: &str, key: P256Point) -> Self {
        Self { keys: vec![(id.to_owned(), key)] }
    }

    /// The key with an id.
    pub(super) fn key(&self, id: &str) -> Option<&P256Point> {
        self.keys.iter().find_map(|(other, key)| (other == id).then_some(key))
    }

    /// The ids of the keys.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|(id, _)| &**id)
    }
}

fn usable_key(key: &Value) -> Option<(&str, P256Point)> {
    let is_for = |name: &str, wanted: &str| key.get(name).is_none_or(|value| value == wanted);
    let id = key.get("kid")?.as_str().filter(|id| (1..=LONGEST_KEY_ID).contains(&id.len()))?;
    let point = P256Point::of_jwk(key).filter(|_| is_for("alg", "ES256") && is_for("use", "sig"))?;
    Some((id, point))
}

/// A public key on the curve P-256: a point that is on it, uncompressed (SEC 1, section 2.3.3).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct P256Point([u8; 65]);

impl fmt::Debug for P256Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P256Point({})", alloy_primitives::hex::encode(self.0))
    }
}

impl P256Point {
    /// The point of these bytes; `None` when it is not on the curve.
    pub fn of_bytes(bytes: [u8; 65]) -> Option<Self> {
        let is_uncompressed = bytes[0] == 4;
        let is_on_curve = || ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, bytes).is_ok();
        (is_uncompressed && is_on_curve()).then_some(Self(bytes))
    }

    /// The point of a JSON web key; `None` when that is no key on the curve P-256.
    pub(super) fn of_jwk(key: &Value) -> Option<Self> {
        let is = |name: &str, wanted: &str| key.get(name).is_some_and(|value| value == wanted);
        if !is("kty", "EC") || !is("crv", "P-256") {
            return None;
        }
        let mut bytes = [0; 65];
        bytes[0] = 4;
        for (name, place) in [("x", 1..33), ("y", 33..65)] {
            let coordinate = URL_SAFE_NO_PAD.decode(key.get(name)?.as_str()?).ok()?;
            let padding = 32usize.checked_sub(coordinate.len()).filter(|_| !coordinate.is_empty())?;
            bytes[place][padding..].copy_from_slice(&coordinate);
        }
        Self::of_bytes(bytes)
    }

    /// The point as a JSON web key without an id.
    pub fn to_jwk(&self) -> Value {
        let [x, y] = [1..33, 33..65].map(|place| URL_SAFE_NO_PAD.encode(&self.0[place]));
        serde_json::json!({"kty": "EC", "crv": "P-256", "x": x, "y": y})
    }

    /// The point, uncompressed.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether a signature of this key over the SHA-256 of a message holds.
    pub(super) fn verifies(&self, form: &'static EcdsaVerificationAlgorithm, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(form, &self.0).verify(message, signature).is_ok()
    }
}
