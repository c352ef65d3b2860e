//! The keys that ID tokens and proof requests are signed with: loading, publishing and making them.
//!
//! A key is for one algorithm, which its stored public part tells. Keys of different algorithms can
//! be published together. The settings choose the algorithm of the keys that are made.

mod key_pair;
mod p256_key;
mod public_jwk;
mod rsa_key;
#[cfg(test)]
mod tests;

use jsonwebtoken::{Algorithm, EncodingKey, Header, Validation};
use selfsame_protocol::sign_in::SigningAlgorithm;
use selfsame_protocol::sign_in::browser_session::IdTokenHint;
use selfsame_protocol::sign_in::records::{SigningKey, SigningKeys};
use selfsame_protocol::time::UnixSeconds;
use serde::Serialize;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::clock::Random;
use crate::key_cipher::{KeyCipher, is_encrypted};
use key_pair::KeyPair;

pub use public_jwk::{JwkParameters, PublicJwk};

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
    /// `retired`, `current` or `next`.
    pub state: &'static str,
    /// Since when clients can fetch the key.
    pub published_at: UnixSeconds,
}

impl From<&SigningKey> for KeyState {
    fn from(key: &SigningKey) -> Self {
        let state = match (key.promoted_at, key.retired_at) {
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
    pub published: Vec<PublicJwk>,
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
    /// Prepares stored keys. Blocks the thread for a few milliseconds.
    ///
    /// Keys that were stored before a cipher was set are not encrypted, and are read with a cipher
    /// too.
    pub fn load(stored: SigningKeys, cipher: Option<&KeyCipher>) -> Result<Self, SigningError> {
        let published = stored.keys.iter().map(|key| public_jwk(key, cipher)).collect::<Result<_, _>>()?;
        let current = match stored.current() {
            None => None,
            Some(key) => {
                let private_key = private_key(key, cipher)?.ok_or(SigningError::Missing)?;
                Some(Signer::new(key.id.clone(), algorithm(key)?, &private_key))
            }
        };
        Ok(Self { stored, published, current })
    }

    /// Whether these keys include the one that signed a JWS.
    pub fn include_signer_of(&self, signed: &str) -> bool {
        let signer = jsonwebtoken::decode_header(signed).ok().and_then(|header| header.kid);
        signer.is_some_and(|signer| self.published.iter().any(|key| key.kid == signer))
    }

    /// The audience and subject of an ID token that one of these keys signed, even when the token
    /// has expired.
    pub fn read_hint(&self, token: &str) -> Option<IdTokenHint> {
        let header = jsonwebtoken::decode_header(token).ok()?;
        // The same keys sign other objects, which have a type of their own.
        if header.typ.is_some_and(|kind| !kind.eq_ignore_ascii_case("JWT")) {
            return None;
        }
        let key = self.published.iter().find(|key| Some(&key.kid) == header.kid.as_ref())?;
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
        SigningAlgorithm::Rs256 => rsa_key::jwk_parameters(&key.public_key, private_key),
        SigningAlgorithm::Es256 => p256_key::jwk_parameters(&key.public_key, private_key),
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
        SigningAlgorithm::Rs256 => rsa_key::make(random),
        SigningAlgorithm::Es256 => p256_key::make(random),
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
