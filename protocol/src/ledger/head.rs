//! Signed heads: what a registry states about its newest applied block, and what clients find out
//! by it.
//!
//! Blocks and results are hash-linked, so a head stands for the whole history before it. A registry
//! that shows two clients different histories has to sign a head of each, and two different signed
//! heads of one height are the proof ([`compare_heads`]): an honest registry signs one head for a
//! height, because a height has one durable block and applying it gives one result.

use std::borrow::Cow;
use std::fmt;

use alloy_primitives::{B256, hex};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::de::Error as _;
use serde::de::Unexpected;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use super::apply::Tip;
use super::block::BlockHeader;
use crate::eip712::RegistryDomain;
use crate::encoding::encode;
use crate::time::UnixSeconds;
use crate::tree::Root;
use crate::{encode_fields, number};

/// The first bytes of what a registry signs, so that a signature counts for nothing else.
const PREFIX: &[u8] = b"selfsame registry head";

/// The newest applied block of a registry. Its encoding is one version byte (1) and the fields in
/// this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Head {
    /// The registry.
    pub domain: RegistryDomain,
    /// Height of the block; 0 before the first.
    #[schema(example = 1)]
    pub height: u64,
    /// Hash of the block, which commits to all blocks before it; zeros before the first.
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$")]
    pub block_hash: B256,
    /// Hash of the block's result, which commits to all results before it; zeros before the first.
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$")]
    pub result_hash: B256,
    /// Root of the tree of accounts after the block.
    pub root: Root,
    /// Time of the block; 0 before the first.
    pub time: UnixSeconds,
}

encode_fields!(Head { domain, height, block_hash, result_hash, root, time } version 1 of "head");

impl Head {
    /// The head of the registry `domain` whose last applied block left `tip`.
    pub fn new(domain: RegistryDomain, tip: &Tip) -> Self {
        let Tip { seal, result_hash, root } = *tip;
        Self { domain, height: seal.height, block_hash: seal.hash, result_hash, root, time: seal.time }
    }

    /// What the signature is over: 22 bytes of text, `selfsame registry head`, then the encoding.
    pub fn signed_bytes(&self) -> Vec<u8> {
        [PREFIX, &encode(self)].concat()
    }

    /// Signs the head.
    ///
    /// # Errors
    /// The cryptographic library fails.
    pub fn sign(self, key: &RegistryKey) -> Result<SignedHead, RegistryKeyError> {
        let signature = key.sign(&self.signed_bytes())?;
        Ok(SignedHead { head: self, public_key: key.public_key(), signature })
    }
}

/// A head with the signature of its registry. It means something to a client that knows the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignedHead {
    /// The statement.
    #[serde(flatten)]
    pub head: Head,
    /// The registry's key.
    pub public_key: RegistryPublicKey,
    /// The key's signature (Ed25519) over the head, as `docs/blocks-and-receipts.md` says.
    pub signature: HeadSignature,
}

/// Why a head says nothing, or two heads cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The signature is not the key's over this head.
    #[error("the signature of the head of block {height} is not that of the key {public_key}")]
    Signature {
        /// Height that the head states.
        height: u64,
        /// The key that the head names.
        public_key: RegistryPublicKey,
    },
    /// Two heads name different keys.
    #[error(
        "the heads are signed with two keys, {first} and {second}; only heads of one key can contradict each other"
    )]
    OtherKey {
        /// The key of the first head.
        first: RegistryPublicKey,
        /// The key of the second head.
        second: RegistryPublicKey,
    },
    /// Two heads name different registries.
    #[error("the heads are of two registries; only heads of one registry can contradict each other")]
    OtherRegistry,
}

impl SignedHead {
    /// Checks the signature with the key that the head names. The caller knows whether that is the
    /// key of the registry.
    ///
    /// # Errors
    /// [`HeadError::Signature`].
    pub fn verify(&self) -> Result<(), HeadError> {
        let Self { head, public_key, signature } = self;
        if public_key.has_signed(&head.signed_bytes(), signature) {
            return Ok(());
        }
        Err(HeadError::Signature { height: head.height, public_key: *public_key })
    }
}

/// What two good heads of one registry say about each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadComparison {
    /// They state the same.
    Same,
    /// They are of different heights. The blocks between them show whether they are of one history
    /// ([`ChainWalk`]).
    DifferentHeights,
    /// They state different things about one height: the proof that the registry signed two
    /// histories.
    Contradiction,
}

/// Compares two heads. The order of the two does not matter.
///
/// # Errors
/// A signature is not good, or the heads are not of one registry and one key.
pub fn compare_heads(first: &SignedHead, second: &SignedHead) -> Result<HeadComparison, HeadError> {
    first.verify()?;
    second.verify()?;
    if first.public_key != second.public_key {
        return Err(HeadError::OtherKey { first: first.public_key, second: second.public_key });
    }
    let (first, second) = (&first.head, &second.head);
    if first.domain != second.domain {
        return Err(HeadError::OtherRegistry);
    }
    Ok(match first.height == second.height {
        _ if first == second => HeadComparison::Same,
        true => HeadComparison::Contradiction,
        false => HeadComparison::DifferentHeights,
    })
}

/// Follows the hashes of blocks from a head back to earlier blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainWalk {
    domain: RegistryDomain,
    /// Height of the block that the walk has reached; 0 before the first block.
    pub height: u64,
    /// Hash of that block; zeros before the first.
    pub hash: B256,
}

/// A header that is not the one of the block that a walk has reached: it has another hash or
/// height, or is of another registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block {height} is not the one that the signed head is linked to")]
pub struct ChainError {
    /// Height of the block that was expected.
    pub height: u64,
}

impl ChainWalk {
    /// A walk that begins at the block of a head.
    pub fn from_head(head: &Head) -> Self {
        Self { domain: head.domain, height: head.height, hash: head.block_hash }
    }

    /// Goes to the block before, which the header of the present block names.
    ///
    /// # Errors
    /// The header is not that of the present block. There is none before the first block.
    pub fn step_back(&mut self, header: &BlockHeader) -> Result<(), ChainError> {
        let before = self.height.checked_sub(1);
        let is_expected = header.height == self.height && header.domain == self.domain && header.hash() == self.hash;
        let Some(before) = before.filter(|_| is_expected) else { return Err(ChainError { height: self.height }) };
        (self.height, self.hash) = (before, header.previous_hash);
        Ok(())
    }
}

// The registry's key: Ed25519 (RFC 8032), which signs heads and nothing else.

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
