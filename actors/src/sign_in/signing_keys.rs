//! The keys that ID tokens are signed with: loading, publishing and making them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use rsa::pkcs1::{DecodeRsaPrivateKey, DecodeRsaPublicKey, EncodeRsaPrivateKey, EncodeRsaPublicKey};
use rsa::rand_core::{CryptoRng, Error as RandomError, RngCore};
use rsa::traits::PublicKeyParts;
use rsa::{RsaPrivateKey, RsaPublicKey};
use selfsame_protocol::sign_in::logout::IdTokenHint;
use selfsame_protocol::sign_in::records::{SigningKey, SigningKeys};
use selfsame_protocol::time::UnixSeconds;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::clock::Random;
use crate::key_cipher::{KeyCipher, is_encrypted};

/// Bits of a key's modulus.
const KEY_BITS: usize = 2048;

/// Why the signing keys cannot be used. Contains nothing of a private key.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SigningError {
    /// Making a key failed.
    #[error("a signing key could not be made: {0}")]
    Generate(String),
    /// The thread that read the stored keys failed.
    #[error("the stored signing keys could not be read: {0}")]
    Load(String),
    /// A stored key, with this `kid`, is not a valid RSA key.
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

/// The public part of a signing key: a member of a JWK set (RFC 7517).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicJwk {
    /// Always `RSA`.
    #[serde(skip_deserializing, default = "kty")]
    pub kty: &'static str,
    /// The modulus, in base64url.
    pub n: String,
    /// The public exponent, in base64url.
    pub e: String,
    /// The key's id.
    pub kid: String,
    /// Always `sig`.
    #[serde(rename = "use", skip_deserializing, default = "usage")]
    pub usage: &'static str,
    /// Always `RS256`.
    #[serde(skip_deserializing, default = "alg")]
    pub alg: &'static str,
}

fn kty() -> &'static str {
    "RSA"
}

fn usage() -> &'static str {
    "sig"
}

fn alg() -> &'static str {
    "RS256"
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
    current: Option<(String, EncodingKey)>,
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
                Some((key.id.clone(), EncodingKey::from_rsa_der(&private_key)))
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
        let key = DecodingKey::from_rsa_components(&key.n, &key.e).ok()?;
        let mut validation = Validation::new(Algorithm::RS256);
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        let claims = jsonwebtoken::decode::<Value>(token, &key, &validation).ok()?.claims;
        let text = |name: &str| claims[name].as_str().map(str::to_owned);
        Some(IdTokenHint { subject: text("sub")?, client_id: text("aud")? })
    }

    /// Signs claims as an ID token (RS256). Blocks the thread for about a millisecond.
    pub fn sign(&self, claims: &Map<String, Value>) -> Result<String, SigningError> {
        self.sign_as("JWT", claims)
    }

    /// The same with another type in the header.
    pub fn sign_as(&self, kind: &str, claims: &impl Serialize) -> Result<String, SigningError> {
        let (id, key) = self.current.as_ref().ok_or(SigningError::Missing)?;
        let typ = Some(kind.to_owned());
        let header = Header { kid: Some(id.clone()), typ, ..Header::new(Algorithm::RS256) };
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

/// The public part of a key, after a check that it belongs to the private one.
fn public_jwk(key: &SigningKey, cipher: Option<&KeyCipher>) -> Result<PublicJwk, SigningError> {
    let unreadable = || SigningError::Unreadable(key.id.clone());
    let public = RsaPublicKey::from_pkcs1_der(&key.public_key).map_err(|_| unreadable())?;
    if let Some(private) = private_key(key, cipher)? {
        let private = RsaPrivateKey::from_pkcs1_der(&private).map_err(|_| unreadable())?;
        if private.to_public_key() != public {
            return Err(unreadable());
        }
    }
    Ok(PublicJwk {
        kty: kty(),
        n: URL_SAFE_NO_PAD.encode(public.n().to_bytes_be()),
        e: URL_SAFE_NO_PAD.encode(public.e().to_bytes_be()),
        kid: key.id.clone(),
        usage: usage(),
        alg: alg(),
    })
}

/// Makes a key that is published from `now` on, encrypted if there is a cipher. Blocks the thread
/// for a large part of a second.
pub(crate) fn generate(
    random: &dyn Random,
    cipher: Option<&KeyCipher>,
    now: UnixSeconds,
) -> Result<SigningKey, SigningError> {
    let failed = |error: String| SigningError::Generate(error);
    let private = RsaPrivateKey::new(&mut RandomSource(random), KEY_BITS).map_err(|error| failed(error.to_string()))?;
    let der = private.to_pkcs1_der().map_err(|error| failed(error.to_string()))?;
    let public = private.to_public_key();
    let public_key = public.to_pkcs1_der().map_err(|error| failed(error.to_string()))?.into_vec();
    // The id is a hash of the modulus, so that equal keys have equal ids.
    let name = Sha256::digest(public.n().to_bytes_be());
    let id = URL_SAFE_NO_PAD.encode(&name[..16]);
    let private_key = match cipher {
        None => der.as_bytes().to_vec(),
        Some(cipher) => {
            let encrypted = cipher.encrypt(&id, der.as_bytes(), random);
            encrypted.ok_or_else(|| failed("it could not be encrypted".to_owned()))?
        }
    };
    let private_key = Some(private_key);
    Ok(SigningKey { id, public_key, private_key, published_at: now, promoted_at: None, retired_at: None })
}

/// [`Random`] with the interface that the `rsa` crate takes.
struct RandomSource<'a>(&'a dyn Random);

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
