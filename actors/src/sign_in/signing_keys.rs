//! The keys that ID tokens and proof requests are signed with: loading, publishing and making them.
//!
//! A key is for one algorithm, which its stored public part tells. Keys of different algorithms can
//! be published together. The settings choose the algorithm of the keys that are made.

#[cfg(test)]
mod tests;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use p256::pkcs8::{DecodePrivateKey, EncodePrivateKey};
use p256::{PublicKey, SecretKey};
use rsa::pkcs1::{DecodeRsaPrivateKey, DecodeRsaPublicKey, EncodeRsaPrivateKey, EncodeRsaPublicKey};
use rsa::rand_core::Error as RandomError;
use rsa::rand_core::{CryptoRng, RngCore};
use rsa::traits::PublicKeyParts;
use rsa::{RsaPrivateKey, RsaPublicKey};
use selfsame_protocol::sign_in::SigningAlgorithm;
use selfsame_protocol::sign_in::logout::IdTokenHint;
use selfsame_protocol::sign_in::records::{SigningKey, SigningKeys};
use selfsame_protocol::time::UnixSeconds;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::keys::PUBLISHED_AFTER_RETIREMENT;
use crate::clock::Random;
use crate::key_cipher::{KeyCipher, is_encrypted};

/// Why the signing keys cannot be used. Contains nothing of a private key.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SigningError {
    /// Making a key failed.
    #[error("a signing key could not be made: {0}")]
    Generate(String),
    /// The thread that read the stored keys failed.
    #[error("the stored signing keys could not be read: {0}")]
    Load(String),
    /// A stored key, with this `kid`, is not a valid key of any algorithm.
    #[error("the stored signing key {0} cannot be read; `selfsame keys revoke --all` replaces the signing keys")]
    Unreadable(String),
    /// A stored key, with this `kid`, is encrypted, and there is no key to decrypt it with.
    #[error(
        "the stored signing key {0} is encrypted; set sign_in.key_encryption_key_file to the file that it was encrypted \
         with. If that file is lost, `selfsame keys revoke --all` replaces the signing keys"
    )]
    Encrypted(String),
    /// A stored key, with this `kid`, was encrypted with another key, or was changed.
    #[error(
        "the stored signing key {0} cannot be decrypted with the key in sign_in.key_encryption_key_file; set the file that \
         it was encrypted with. If that file is lost, `selfsame keys revoke --all` replaces the signing keys"
    )]
    Decrypt(String),
    /// No current key is stored.
    #[error("there is no signing key")]
    Missing,
    /// Signing failed.
    #[error("a token could not be signed: {0}")]
    Sign(String),
}

/// A signing key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// `kid`.
    pub id: String,
    /// `unpublished`, `retired`, `current` or `next`. An unpublished key checks hints alone.
    pub state: &'static str,
    /// Since when clients can fetch the key.
    pub published_at: UnixSeconds,
}

impl KeyState {
    /// The state of a stored key at `now`.
    pub(super) fn of(key: &SigningKey, now: UnixSeconds) -> Self {
        let state = match (key.promoted_at, key.retired_at) {
            (_, Some(_)) if !key.is_published(now, PUBLISHED_AFTER_RETIREMENT) => "unpublished",
            (_, Some(_)) => "retired",
            (Some(_), None) => "current",
            (None, None) => "next",
        };
        Self { id: key.id.clone(), state, published_at: key.published_at }
    }
}

/// The stored keys, prepared for publishing and for signing.
pub(crate) struct LoadedKeys {
    pub stored: SigningKeys,
    /// The public parts of all stored keys. Those that are not published any more check hints
    /// alone.
    pub public: Vec<PublicJwk>,
    current: Option<Signer>,
}

/// The current key, prepared for signing.
struct Signer {
    id: String,
    algorithm: Algorithm,
    key: EncodingKey,
}

impl Signer {
    fn new(id: String, algorithm: SigningAlgorithm, private_key: &[u8]) -> Self {
        let (algorithm, key) = match algorithm {
            SigningAlgorithm::Rs256 => (Algorithm::RS256, EncodingKey::from_rsa_der(private_key)),
            SigningAlgorithm::Es256 => (Algorithm::ES256, EncodingKey::from_ec_der(private_key)),
        };
        Self { id, algorithm, key }
    }
}

impl LoadedKeys {
    /// Prepares stored keys. Blocks the thread for a few milliseconds, also with as many retired
    /// keys as are kept.
    ///
    /// Keys that were stored before a cipher was set are not encrypted, and are read with a cipher
    /// too.
    pub fn load(stored: SigningKeys, cipher: Option<&KeyCipher>) -> Result<Self, SigningError> {
        let public = stored.keys.iter().map(|key| public_jwk(key, cipher)).collect::<Result<_, _>>()?;
        let current = match stored.current() {
            None => None,
            Some(key) => {
                let private_key = private_key(key, cipher)?.ok_or(SigningError::Missing)?;
                Some(Signer::new(key.id.clone(), algorithm(key)?, &private_key))
            }
        };
        Ok(Self { stored, public, current })
    }

    /// Whether these keys include the one that signed a JWS.
    pub fn include_signer_of(&self, signed: &str) -> bool {
        let signer = jsonwebtoken::decode_header(signed).ok().and_then(|header| header.kid);
        signer.is_some_and(|signer| self.public.iter().any(|key| key.kid == signer))
    }

    /// The audience and subject of an ID token that one of these keys signed, however long ago the
    /// key was retired and the token has expired. What a revoked key signed is no hint.
    pub fn read_hint(&self, token: &str) -> Option<IdTokenHint> {
        let header = jsonwebtoken::decode_header(token).ok()?;
        // The same keys sign other objects, which have a type of their own.
        if header.typ.is_some_and(|kind| !kind.eq_ignore_ascii_case("JWT")) {
            return None;
        }
        let key = self.public.iter().find(|key| Some(&key.kid) == header.kid.as_ref())?;
        let (algorithm, key) = key.verifier()?;
        let mut validation = Validation::new(algorithm);
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        let claims = jsonwebtoken::decode::<Value>(token, &key, &validation).ok()?.claims;
        let text = |name: &str| claims[name].as_str().map(str::to_owned);
        Some(IdTokenHint { subject: text("sub")?, client_id: text("aud")? })
    }

    /// Signs claims as an ID token with the current key's algorithm. RS256 blocks the thread for up
    /// to a millisecond, ES256 for a small part of that.
    pub fn sign(&self, claims: &Map<String, Value>) -> Result<String, SigningError> {
        self.sign_as("JWT", claims)
    }

    /// The same with another type in the header.
    pub fn sign_as(&self, kind: &str, claims: &impl Serialize) -> Result<String, SigningError> {
        let Signer { id, algorithm, key } = self.current.as_ref().ok_or(SigningError::Missing)?;
        let typ = Some(kind.to_owned());
        let header = Header { kid: Some(id.clone()), typ, ..Header::new(*algorithm) };
        jsonwebtoken::encode(&header, claims, key).map_err(|error| SigningError::Sign(error.to_string()))
    }
}

/// The DER encoding of a private key; `None` for a retired key, which has none.
fn private_key(key: &SigningKey, cipher: Option<&KeyCipher>) -> Result<Option<Zeroizing<Vec<u8>>>, SigningError> {
    let Some(stored) = &key.private_key else { return Ok(None) };
    let private_key = match cipher {
        _ if !is_encrypted(stored) => Zeroizing::new(stored.clone()),
        None => return Err(SigningError::Encrypted(key.id.clone())),
        Some(cipher) => cipher.decrypt(&key.id, stored).ok_or_else(|| SigningError::Decrypt(key.id.clone()))?,
    };
    Ok(Some(private_key))
}

/// The algorithm of a stored key.
fn algorithm(key: &SigningKey) -> Result<SigningAlgorithm, SigningError> {
    key.algorithm().ok_or_else(|| SigningError::Unreadable(key.id.clone()))
}

/// The public part of a key, after a check that it belongs to the private one.
fn public_jwk(key: &SigningKey, cipher: Option<&KeyCipher>) -> Result<PublicJwk, SigningError> {
    let private_key = private_key(key, cipher)?;
    let private_key = private_key.as_ref().map(|private_key| private_key.as_slice());
    let parameters = match algorithm(key)? {
        SigningAlgorithm::Rs256 => rsa_parameters(&key.public_key, private_key),
        SigningAlgorithm::Es256 => p256_parameters(&key.public_key, private_key),
    };
    let parameters = parameters.ok_or_else(|| SigningError::Unreadable(key.id.clone()))?;
    Ok(PublicJwk::new(parameters, key.id.clone()))
}

/// Makes a key that is published from `now` on, encrypted if there is a cipher. Making an RSA key
/// blocks the thread for a large part of a second.
pub(crate) fn generate(
    algorithm: SigningAlgorithm,
    random: &dyn Random,
    cipher: Option<&KeyCipher>,
    now: UnixSeconds,
) -> Result<SigningKey, SigningError> {
    let made = match algorithm {
        SigningAlgorithm::Rs256 => make_rsa(random),
        SigningAlgorithm::Es256 => make_p256(random),
    };
    let KeyPair { id, public_key, private_key } = made.map_err(SigningError::Generate)?;
    let private_key = match cipher {
        None => private_key.to_vec(),
        Some(cipher) => {
            let encrypted = cipher.encrypt(&id, &private_key, random);
            encrypted.ok_or_else(|| SigningError::Generate("it could not be encrypted".to_owned()))?
        }
    };
    let private_key = Some(private_key);
    Ok(SigningKey { id, public_key, private_key, published_at: now, promoted_at: None, retired_at: None })
}

// Published keys.

/// The public part of a signing key: a member of a JWK set (RFC 7517).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PublicJwk {
    /// The key type `kty`, and the members that it has.
    #[serde(flatten)]
    pub parameters: JwkParameters,
    /// The key's id.
    pub kid: String,
    /// Always `sig`.
    #[serde(rename = "use")]
    pub usage: &'static str,
    /// The algorithm that the key signs with.
    pub alg: SigningAlgorithm,
}

/// The key type of a JWK, and the members that it has (RFC 7518, section 6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kty")]
pub enum JwkParameters {
    /// An RSA key, for RS256.
    #[serde(rename = "RSA")]
    Rsa {
        /// The modulus, in base64url.
        n: String,
        /// The public exponent, in base64url.
        e: String,
    },
    /// A key on the curve P-256, for ES256.
    #[serde(rename = "EC")]
    Ec {
        /// Always `P-256`.
        crv: &'static str,
        /// The coordinate x: 32 bytes, in base64url.
        x: String,
        /// The coordinate y: 32 bytes, in base64url.
        y: String,
    },
}

impl PublicJwk {
    /// A key for signatures.
    pub(super) fn new(parameters: JwkParameters, kid: String) -> Self {
        let alg = match parameters {
            JwkParameters::Rsa { .. } => SigningAlgorithm::Rs256,
            JwkParameters::Ec { .. } => SigningAlgorithm::Es256,
        };
        Self { parameters, kid, usage: "sig", alg }
    }

    /// The key prepared for checking signatures, and the only algorithm that it is for. What the
    /// header of a signed object says must not choose the algorithm: a public key that is taken for
    /// the secret of HS256 lets everyone sign (RFC 8725, section 2.1).
    pub(super) fn verifier(&self) -> Option<(Algorithm, DecodingKey)> {
        match &self.parameters {
            JwkParameters::Rsa { n, e } => Some((Algorithm::RS256, DecodingKey::from_rsa_components(n, e).ok()?)),
            JwkParameters::Ec { x, y, .. } => Some((Algorithm::ES256, DecodingKey::from_ec_components(x, y).ok()?)),
        }
    }
}

impl JwkParameters {
    /// A key on the curve P-256 with these coordinates in base64url.
    pub(super) fn p256(x: String, y: String) -> Self {
        Self::Ec { crv: "P-256", x, y }
    }
}

// What the making of a key needs, whatever its algorithm is.

/// A key that was made, in the encodings of a
/// [`SigningKey`](selfsame_protocol::sign_in::records::SigningKey).
pub(super) struct KeyPair {
    /// The `kid`.
    pub id: String,
    pub public_key: Vec<u8>,
    pub private_key: Zeroizing<Vec<u8>>,
}

/// The id of a key. It is a hash of the numbers that the public key consists of, so that equal keys
/// have equal ids.
pub(super) fn key_id(public_numbers: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(&Sha256::digest(public_numbers)[..16])
}

/// [`Random`] with the interface that the crates `rsa` and `p256` take.
pub(super) struct RandomSource<'a>(pub &'a dyn Random);

impl RngCore for RandomSource<'_> {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.0.fill(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), RandomError> {
        self.0.fill(bytes);
        Ok(())
    }
}

/// In a service that makes real keys, [`Random`] is the operating system's cryptographic source.
impl CryptoRng for RandomSource<'_> {}

// Keys on the curve P-256, for ES256.

/// The first byte of a point that is not compressed; the coordinates follow.
const UNCOMPRESSED: u8 = 0x04;

/// Bytes of a coordinate.
const COORDINATE: usize = 32;

/// The members of the JWK of a stored key; `None` when a part of the key cannot be read, the public
/// part is not on the curve, or the private part belongs to another public one.
pub(super) fn p256_parameters(public_key: &[u8], private_key: Option<&[u8]>) -> Option<JwkParameters> {
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
pub(super) fn make_p256(random: &dyn Random) -> Result<KeyPair, String> {
    // Draws again until the number is one of a private key: not 0, and below the curve's order.
    let private = SecretKey::random(&mut RandomSource(random));
    let public_key = private.public_key().to_sec1_bytes().into_vec();
    Ok(KeyPair {
        id: key_id(&public_key[1..]),
        public_key,
        private_key: private.to_pkcs8_der().map_err(|error| error.to_string())?.to_bytes(),
    })
}

// RSA keys, for RS256.

/// Bits of a key's modulus.
const KEY_BITS: usize = 2048;

/// The members of the JWK of a stored key; `None` when a part of the key cannot be read, or the
/// private part belongs to another public one.
pub(super) fn rsa_parameters(public_key: &[u8], private_key: Option<&[u8]>) -> Option<JwkParameters> {
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
pub(super) fn make_rsa(random: &dyn Random) -> Result<KeyPair, String> {
    let private = RsaPrivateKey::new(&mut RandomSource(random), KEY_BITS).map_err(|error| error.to_string())?;
    let public = private.to_public_key();
    Ok(KeyPair {
        id: key_id(&public.n().to_bytes_be()),
        public_key: public.to_pkcs1_der().map_err(|error| error.to_string())?.into_vec(),
        private_key: private.to_pkcs1_der().map_err(|error| error.to_string())?.to_bytes(),
    })
}
