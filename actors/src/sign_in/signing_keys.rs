//! The keys that ID tokens are signed with: loaded, published and made.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use rsa::pkcs1::{DecodeRsaPrivateKey, EncodeRsaPrivateKey};
use rsa::rand_core::{CryptoRng, Error as RandomError, RngCore};
use rsa::traits::PublicKeyParts;
use rsa::{RsaPrivateKey, RsaPublicKey};
use selfsame_protocol::sign_in::records::{SigningKey, SigningKeys};
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::clock::Random;

/// Bits of a key's modulus.
const KEY_BITS: usize = 2048;

/// Why the signing keys cannot be used. Contains nothing of a private key.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SigningError {
    #[error("a signing key could not be made: {0}")]
    Generate(String),
    #[error("the stored signing key {0} cannot be read")]
    Unreadable(String),
    #[error("there is no signing key")]
    Missing,
    #[error("a token could not be signed: {0}")]
    Sign(String),
}

/// The public part of a signing key, as JWKS has it (RFC 7517).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PublicJwk {
    pub kty: &'static str,
    pub n: String,
    pub e: String,
    pub kid: String,
    #[serde(rename = "use")]
    pub usage: &'static str,
    pub alg: &'static str,
}

/// A signing key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// `kid`.
    pub id: String,
    /// `retired`, `current` or `next`.
    pub state: &'static str,
    /// Unix seconds.
    pub published_at: u64,
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

/// The stored keys, in the forms that they are used in.
pub(crate) struct LoadedKeys {
    pub stored: SigningKeys,
    pub published: Vec<PublicJwk>,
    current: Option<(String, EncodingKey)>,
}

impl LoadedKeys {
    /// Prepares stored keys. Takes a few milliseconds of the thread.
    pub fn load(stored: SigningKeys) -> Result<Self, SigningError> {
        let published = stored.keys.iter().map(public_part).collect::<Result<_, _>>()?;
        let current = stored.current().map(|key| (key.id.clone(), EncodingKey::from_rsa_der(&key.private_key)));
        Ok(Self { stored, published, current })
    }

    /// The subject of an ID token that one of these keys signed, whether or not it has expired.
    pub fn subject_of(&self, token: &str) -> Option<String> {
        let id = jsonwebtoken::decode_header(token).ok()?.kid?;
        let key = self.published.iter().find(|key| key.kid == id)?;
        let key = DecodingKey::from_rsa_components(&key.n, &key.e).ok()?;
        let mut validation = Validation::new(Algorithm::RS256);
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        let claims = jsonwebtoken::decode::<Value>(token, &key, &validation).ok()?.claims;
        claims["sub"].as_str().map(str::to_owned)
    }

    /// Signs claims as an ID token (RS256). Takes about a millisecond of the thread.
    pub fn sign(&self, claims: &Map<String, Value>) -> Result<String, SigningError> {
        let (id, key) = self.current.as_ref().ok_or(SigningError::Missing)?;
        let header = Header { kid: Some(id.clone()), ..Header::new(Algorithm::RS256) };
        jsonwebtoken::encode(&header, claims, key).map_err(|error| SigningError::Sign(error.to_string()))
    }
}

fn public_part(key: &SigningKey) -> Result<PublicJwk, SigningError> {
    let private = RsaPrivateKey::from_pkcs1_der(&key.private_key);
    let public: RsaPublicKey = private.map_err(|_| SigningError::Unreadable(key.id.clone()))?.to_public_key();
    Ok(PublicJwk {
        kty: "RSA",
        n: URL_SAFE_NO_PAD.encode(public.n().to_bytes_be()),
        e: URL_SAFE_NO_PAD.encode(public.e().to_bytes_be()),
        kid: key.id.clone(),
        usage: "sig",
        alg: "RS256",
    })
}

/// Makes a key that is published from `now` (Unix seconds) on. Takes a good part of a second of the thread.
pub(crate) fn generate(random: &dyn Random, now: u64) -> Result<SigningKey, SigningError> {
    let failed = |error: String| SigningError::Generate(error);
    let private = RsaPrivateKey::new(&mut RandomSource(random), KEY_BITS).map_err(|error| failed(error.to_string()))?;
    let der = private.to_pkcs1_der().map_err(|error| failed(error.to_string()))?;
    // The name is a hash of the modulus, so that equal keys have equal names.
    let name = Sha256::digest(private.to_public_key().n().to_bytes_be());
    let id = URL_SAFE_NO_PAD.encode(&name[..16]);
    let private_key = der.as_bytes().to_vec();
    Ok(SigningKey { id, private_key, published_at: now, promoted_at: None, retired_at: None })
}

/// [`Random`] behind the interface that the `rsa` crate takes.
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
