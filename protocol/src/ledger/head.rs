//! Signed heads: what a registry states about its newest applied block, and what clients find out
//! by it.
//!
//! Blocks and results are hash-linked, so a head stands for the whole history before it. A registry
//! that shows two clients different histories has to sign a head of each, and two different signed
//! heads of one height are the proof ([`compare_heads`]): an honest registry signs one head for a
//! height, because a height has one durable block and applying it gives one result.

use alloy_primitives::B256;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::apply::Tip;
use super::block::BlockHeader;
use super::registry_key::{HeadSignature, RegistryKey, RegistryKeyError, RegistryPublicKey};
use crate::eip712::RegistryDomain;
use crate::encode_fields;
use crate::encoding::encode;
use crate::time::UnixSeconds;
use crate::tree::Root;

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
