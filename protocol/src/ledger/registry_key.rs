//! The registry's key: Ed25519 (RFC 8032), which signs heads and nothing else.

use std::borrow::Cow;
use std::fmt;

use alloy_primitives::{B256, hex};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use crate::number;

/// Bytes that are not a private key of Ed25519. Contains nothing of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a private key of Ed25519")]
pub struct RegistryKeyError;

/// The private key of a registry.
pub struct RegistryKey(Ed25519KeyPair);

impl RegistryKey {
    /// The key of 32 secret random bytes (RFC 8032, section 5.1.5).
    ///
    /// # Errors
    /// The cryptographic library refuses the key. It accepts any 32 bytes.
    pub fn from_seed(seed: &[u8; 32]) -> Result<Self, RegistryKeyError> {
        Ed25519KeyPair::from_seed_unchecked(seed).map(Self).map_err(|_| RegistryKeyError)
    }

    /// Reads the encoding that [`RegistryKey::to_pkcs8`] writes.
    ///
    /// # Errors
    /// The bytes are another encoding, or the key of another algorithm.
    pub fn from_pkcs8(encoding: &[u8]) -> Result<Self, RegistryKeyError> {
        Ed25519KeyPair::from_pkcs8(encoding).map(Self).map_err(|_| RegistryKeyError)
    }

    /// The key as PKCS#8 version 1 in DER (RFC 8410, section 7). The bytes are overwritten when
    /// they are dropped.
    ///
    /// # Errors
    /// The cryptographic library cannot write the key.
    pub fn to_pkcs8(&self) -> Result<impl AsRef<[u8]> + use<>, RegistryKeyError> {
        self.0.to_pkcs8v1().map_err(|_| RegistryKeyError)
    }

    /// The public part, which clients pin.
    pub fn public_key(&self) -> RegistryPublicKey {
        RegistryPublicKey(B256::from_slice(self.0.public_key().as_ref()))
    }

    /// Signs a message. Equal messages have equal signatures.
    ///
    /// # Errors
    /// The cryptographic library fails.
    pub(super) fn sign(&self, message: &[u8]) -> Result<HeadSignature, RegistryKeyError> {
        let signature = self.0.try_sign(message).map_err(|_| RegistryKeyError)?;
        signature.as_ref().try_into().map(HeadSignature).map_err(|_| RegistryKeyError)
    }
}

impl fmt::Debug for RegistryKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RegistryKey({}, private part hidden)", self.public_key())
    }
}

/// The public key of a registry: 32 bytes (RFC 8032, section 5.1.5). In JSON `0x` and 64 hex
/// digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$", example = "0xd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")]
pub struct RegistryPublicKey(#[serde(deserialize_with = "number::deserialize_padded")] pub B256);

impl RegistryPublicKey {
    /// Whether `signature` is this key's over `message`. `false` also when the bytes are not a
    /// public key.
    pub(super) fn has_signed(&self, message: &[u8], signature: &HeadSignature) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(message, &signature.0).is_ok()
    }
}

impl fmt::Display for RegistryPublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&number::padded(&self.0))
    }
}

/// A signature of 64 bytes (RFC 8032, section 5.1.6). In JSON `0x` and 128 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
#[schema(
    value_type = String,
    pattern = "^0x[0-9a-f]{128}$",
    example = "0xe5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
)]
pub struct HeadSignature(pub [u8; 64]);

impl Serialize for HeadSignature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode_prefixed(self.0))
    }
}

impl<'de> Deserialize<'de> for HeadSignature {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let mut bytes = [0; 64];
        let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 128);
        let decoded = digits.and_then(|digits| hex::decode_to_slice(digits, &mut bytes).ok());
        decoded.ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), &"0x and 128 hex digits"))?;
        Ok(Self(bytes))
    }
}
