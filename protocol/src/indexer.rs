//! The wire types of the registry indexer (interface description, sections 2.7, 2.8, 2.11 and 4.4).

mod proof_json;

use alloy_primitives::{Address, B256, U256};
pub use proof_json::{compat_inclusion_proof_json, inclusion_proof_json};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::commitment::PublicKey;
use crate::ids::{Commitment, CompressedKey, LeafIndex, Nonce};
use crate::registry::Account;
use crate::schema::{AddressText, DecimalText, HashText};
use crate::time::UnixSeconds;
use crate::tree::{CAPACITY, DEPTH, InclusionPath, Root, is_below_field};
use crate::{address, number};

/// The indexer's error codes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::Display, strum::EnumIter, ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum IndexerErrorCode {
    /// The leaf index is 0.
    InvalidLeafIndex,
    /// The leaf index is not assigned yet, or the path is unknown.
    NotFound,
    /// The account does not exist, or the address is not a current authenticator.
    AccountDoesNotExist,
    /// The body, a number or an address is malformed.
    BadRequest,
    /// A stored public key does not decode (under `/compat` only).
    InvalidAuthenticatorPubkey,
    /// The answer took too long.
    RequestTimeout,
    /// The service failed, or it is starting.
    InternalServerError,
}

/// A query for an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeafIndexQuery {
    /// The account's leaf index.
    pub leaf_index: LeafIndex,
}

/// A query for an authenticator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AddressQuery {
    /// The authenticator's address.
    #[serde(with = "address")]
    #[schema(value_type = String, pattern = "^(0x)?[0-9a-fA-F]{40}$", example = "0x71a4fb49dcddadfed612b153b000fbab994ed6af")]
    pub authenticator_address: Address,
}

/// A Merkle inclusion proof and the account's keys, all of one version of the registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InclusionProofResponse {
    /// Leaf index of the account.
    pub leaf_index: LeafIndex,
    /// The tree's root.
    pub root: Root,
    /// The 30 siblings from the leaf's level upwards.
    #[schema(value_type = Vec<HashText>, min_items = 30, max_items = 30)]
    pub siblings: Vec<B256>,
    /// Compressed public keys by pubkey id; null where an authenticator was removed.
    #[schema(max_items = 7)]
    pub authenticator_pubkeys: Vec<Option<CompressedKey>>,
}

impl InclusionProofResponse {
    /// The answer for an account and its path.
    pub fn new(path: &InclusionPath, account: &Account) -> Self {
        Self {
            leaf_index: path.leaf_index,
            root: path.root,
            siblings: path.siblings.to_vec(),
            authenticator_pubkeys: account.public_keys(),
        }
    }

    /// The inclusion path of the answer. `None` unless the leaf index is in the tree, there are
    /// exactly 30 siblings, and the siblings and the root are below the modulus of the scalar
    /// field. Hashing would replace a greater number by its remainder.
    pub fn path(&self) -> Option<InclusionPath> {
        let is_node = |node: &B256| is_below_field(&U256::from_be_bytes(node.0));
        if self.leaf_index.0 >= CAPACITY || !is_node(&self.root.0) || !self.siblings.iter().all(is_node) {
            return None;
        }
        let siblings: [B256; DEPTH] = self.siblings.as_slice().try_into().ok()?;
        Some(InclusionPath { leaf_index: self.leaf_index, root: self.root, siblings })
    }
}

/// A public key as affine coordinates, in the form that the published client library reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AffineKey {
    /// x and y, decimal.
    #[schema(value_type = Vec<DecimalText>, min_items = 2, max_items = 2)]
    pub pk: [String; 2],
}

impl From<&PublicKey> for AffineKey {
    fn from(key: &PublicKey) -> Self {
        let (x, y) = key.coordinates();
        Self { pk: [x.to_string(), y.to_string()] }
    }
}

/// The inclusion proof under `/compat`: keys as affine coordinates, trailing nulls left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompatInclusionProofResponse {
    /// Leaf index of the account.
    pub leaf_index: LeafIndex,
    /// The tree's root.
    pub root: Root,
    /// The 30 siblings from the leaf's level upwards.
    #[schema(value_type = Vec<HashText>, min_items = 30, max_items = 30)]
    pub siblings: Vec<B256>,
    /// Public keys by pubkey id; null where an authenticator was removed.
    #[schema(max_items = 7)]
    pub authenticator_pubkeys: Vec<Option<AffineKey>>,
}

impl CompatInclusionProofResponse {
    /// The answer for a path and an account's decoded slots.
    pub fn new(path: &InclusionPath, slots: &[Option<PublicKey>]) -> Self {
        let used = slots.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        Self {
            leaf_index: path.leaf_index,
            root: path.root,
            siblings: path.siblings.to_vec(),
            authenticator_pubkeys: slots[..used].iter().map(|slot| slot.as_ref().map(AffineKey::from)).collect(),
        }
    }
}

/// The packed account data of an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PackedAccountResponse {
    /// Recovery counter (32 bits) ‖ pubkey id (32 bits) ‖ leaf index (192 bits).
    #[serde(with = "number")]
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{1,64}$", example = "0x1000000000000000000000000000000000000000000000001")]
    pub packed_account_data: U256,
}

/// The nonce for an account's next signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignatureNonceResponse {
    /// The account's next nonce.
    pub signature_nonce: Nonce,
}

/// An account's public keys and commitment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuthenticatorPubkeysResponse {
    /// Compressed public keys by pubkey id; null where an authenticator was removed.
    #[schema(max_items = 7)]
    pub authenticator_pubkeys: Vec<Option<CompressedKey>>,
    /// The account's leaf.
    pub offchain_signer_commitment: Commitment,
}

/// An account's authenticators, commitment and recovery counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuthenticatorsResponse {
    /// Compressed public keys by pubkey id; null where an authenticator was removed.
    #[schema(max_items = 7)]
    pub authenticator_pubkeys: Vec<Option<CompressedKey>>,
    /// Addresses by pubkey id; null where an authenticator was removed. The list is as long as the
    /// list of keys.
    #[serde(with = "address::slots")]
    #[schema(value_type = Vec<Option<AddressText>>, max_items = 7)]
    pub authenticator_addresses: Vec<Option<Address>>,
    /// The account's leaf.
    pub offchain_signer_commitment: Commitment,
    /// How often the account was recovered.
    #[serde(with = "number")]
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{1,8}$", example = "0x0")]
    pub recovery_counter: u32,
}

/// An account's recovery agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecoveryAgentResponse {
    /// The recovery agent; the zero address when the account has no recovery agent.
    #[serde(with = "address")]
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{40}$", example = "0x3ca415a58925e09eb0a4c53fef9ed0311f13a514")]
    pub recovery_agent: Address,
}

/// An update of the recovery agent that waits for its cooldown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PendingRecoveryAgentResponse {
    /// The new recovery agent; the zero address when no update is pending.
    #[serde(with = "address")]
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{40}$", example = "0xebeef42dd191f869c6fd80ceba222a8e4126f00f")]
    pub pending_recovery_agent: Address,
    /// The earliest time of the execution, in Unix seconds as a numeric string; 0 when no update is
    /// pending.
    #[serde(with = "number")]
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{1,16}$", example = "0x6b49d200")]
    pub execute_after: UnixSeconds,
}

/// The state of the registry after the last applied block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RootResponse {
    /// The tree's root.
    pub root: Root,
    /// Leaves in use, the reserved leaf 0 included: the next account's leaf index.
    #[schema(example = 2)]
    pub leaf_count: u64,
    /// Height of the last applied block; 0 before the first.
    #[schema(example = 1)]
    pub height: u64,
    /// Hash of that block; zeros before the first.
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$")]
    pub block_hash: B256,
    /// Hash of the result of that block; zeros before the first.
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$")]
    pub result_hash: B256,
    /// Time of that block; 0 before the first.
    pub timestamp: UnixSeconds,
}
