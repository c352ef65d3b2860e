//! Keys on the curve P-256, for ES256.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use p256::pkcs8::{DecodePrivateKey, EncodePrivateKey};
use p256::{PublicKey, SecretKey};

use super::key_pair::{KeyPair, RandomSource, key_id};
use super::public_jwk::JwkParameters;
use crate::clock::Random;

/// The first byte of a point that is not compressed; the coordinates follow.
const UNCOMPRESSED: u8 = 0x04;

/// Bytes of a coordinate.
const COORDINATE: usize = 32;

/// The members of the JWK of a stored key; `None` when a part of the key cannot be read, the public
/// part is not on the curve, or the private part belongs to another public one.
pub(super) fn jwk_parameters(public_key: &[u8], private_key: Option<&[u8]>) -> Option<JwkParameters> {
    let public = PublicKey::from_sec1_bytes(public_key).ok()?;
    if let Some(private_key) = private_key {
        let private = SecretKey::from_pkcs8_der(private_key).ok()?;
        if private.public_key() != public {
            return None;
        }
    }
    let (x, y) = public_key.strip_prefix(&[UNCOMPRESSED])?.split_at_checked(COORDINATE)?;
    Some(JwkParameters::p256(URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y)))
}

/// Makes a key. The error says why it failed.
pub(super) fn make(random: &dyn Random) -> Result<KeyPair, String> {
    // Draws again until the number is one of a private key: not 0, and below the curve's order.
    let private = SecretKey::random(&mut RandomSource(random));
    let public_key = private.public_key().to_sec1_bytes().into_vec();
    Ok(KeyPair {
        id: key_id(&public_key[1..]),
        public_key,
        private_key: private.to_pkcs8_der().map_err(|error| error.to_string())?.to_bytes(),
    })
}
