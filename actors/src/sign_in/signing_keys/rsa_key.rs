//! RSA keys, for RS256.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rsa::pkcs1::{DecodeRsaPrivateKey, DecodeRsaPublicKey, EncodeRsaPrivateKey, EncodeRsaPublicKey};
use rsa::traits::PublicKeyParts;
use rsa::{RsaPrivateKey, RsaPublicKey};

use super::key_pair::{KeyPair, RandomSource, key_id};
use super::public_jwk::JwkParameters;
use crate::clock::Random;

/// Bits of a key's modulus.
const KEY_BITS: usize = 2048;

/// The members of the JWK of a stored key; `None` when a part of the key cannot be read, or the
/// private part belongs to another public one.
pub(super) fn jwk_parameters(public_key: &[u8], private_key: Option<&[u8]>) -> Option<JwkParameters> {
    let public = RsaPublicKey::from_pkcs1_der(public_key).ok()?;
    if let Some(private_key) = private_key {
        let private = RsaPrivateKey::from_pkcs1_der(private_key).ok()?;
        if private.to_public_key() != public {
            return None;
        }
    }
    let encode = |number: Vec<u8>| URL_SAFE_NO_PAD.encode(number);
    Some(JwkParameters::Rsa { n: encode(public.n().to_bytes_be()), e: encode(public.e().to_bytes_be()) })
}

/// Makes a key. Blocks the thread for a large part of a second. The error says why it failed.
pub(super) fn make(random: &dyn Random) -> Result<KeyPair, String> {
    let private = RsaPrivateKey::new(&mut RandomSource(random), KEY_BITS).map_err(|error| error.to_string())?;
    let public = private.to_public_key();
    Ok(KeyPair {
        id: key_id(&public.n().to_bytes_be()),
        public_key: public.to_pkcs1_der().map_err(|error| error.to_string())?.into_vec(),
        private_key: private.to_pkcs1_der().map_err(|error| error.to_string())?.to_bytes(),
    })
}
