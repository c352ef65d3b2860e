//! The wire types of the registry indexer (`docs/interfaces/indexer.md`).

use std::io::Write;

use alloy_primitives::{Address, B256, U256, hex};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::address;
use crate::commitment::PublicKey;
use crate::ids::{Commitment, CompressedKey, LeafIndex, Nonce};
use crate::number::{self, AddressText, DecimalText, HashText, Number};
use crate::registry::Account;
use crate::time::UnixSeconds;
use crate::tree::{CAPACITY, DEPTH, InclusionPath, Node, Root, is_below_field};

/// The indexer's error codes.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumIter,
    strum::EnumMessage,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum IndexerErrorCode {
    /// 400: the leaf index is 0.
    InvalidLeafIndex,
    /// 404: the leaf index is not assigned yet, or the path is unknown.
    NotFound,
    /// 400: the leaf index is not assigned yet, or the address is not an authenticator.
    AccountDoesNotExist,
    /// 400: the body, a number or an address is malformed. 405, 413, 415: method, size, content
    /// type.
    BadRequest,
    /// 409: a stored public key does not decode (under `/compat` only).
    InvalidAuthenticatorPubkey,
    /// 504: no answer within `limits.request_timeout`.
    RequestTimeout,
    /// 500: a fault of the daemon, or the store cannot be read. 503: too many open requests, bodies
    /// or answers, or the block of `X-Selfsame-Height` does not come in time.
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

// Inclusion proofs as JSON, written in one pass.
//
// Such an answer is 31 hex texts. Written by serde, each is a text of its own before it is copied
// into a buffer that grows five times, which takes longer than to read the proof.

/// Bytes of a node in quotes, with the comma behind it.
const NODE: usize = 69;

/// Room for everything but the siblings and the keys.
const FRAME: usize = 200;

/// Room for a key: two decimal numbers of 77 digits with names and quotes are the longest.
const KEY: usize = 176;

/// The JSON of the [`InclusionProofResponse`] for an account and its path.
pub fn inclusion_proof_json(path: &InclusionPath, account: &Account) -> Vec<u8> {
    let mut json = proof(path, account.slots.len());
    write_slots(&mut json, &account.slots, |json, authenticator| write_number(json, authenticator.public_key.0));
    json
}

/// The JSON of the [`CompatInclusionProofResponse`] for a path and an account's decoded
/// slots.
pub fn compat_inclusion_proof_json(path: &InclusionPath, slots: &[Option<PublicKey>]) -> Vec<u8> {
    let used = slots.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    let mut json = proof(path, used);
    write_slots(&mut json, &slots[..used], |json, key| {
        let (x, y) = key.coordinates();
        // Writing into a vector does not fail.
        let _ = write!(json, r#"{{"pk":["{x}","{y}"]}}"#);
    });
    json
}

/// The part before the keys.
fn proof(path: &InclusionPath, keys: usize) -> Vec<u8> {
    let mut json = Vec::with_capacity(FRAME + DEPTH * NODE + keys * KEY);
    json.extend_from_slice(br#"{"leaf_index":"#);
    write_number(&mut json, path.leaf_index.0);
    json.extend_from_slice(br#","root":"#);
    write_node(&mut json, &path.root.0);
    json.extend_from_slice(br#","siblings":["#);
    for (index, sibling) in path.siblings.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        write_node(&mut json, sibling);
    }
    json.push(b']');
    json
}

/// The keys, and the end of the object.
fn write_slots<T>(json: &mut Vec<u8>, slots: &[Option<T>], write: impl Fn(&mut Vec<u8>, &T)) {
    json.extend_from_slice(br#","authenticator_pubkeys":["#);
    for (index, slot) in slots.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        match slot {
            Some(key) => write(json, key),
            None => json.extend_from_slice(b"null"),
        }
    }
    json.extend_from_slice(b"]}");
}

fn write_node(json: &mut Vec<u8>, node: &Node) {
    let mut text = hex::Buffer::<32, true>::new();
    json.push(b'"');
    json.extend_from_slice(text.format(&node.0).as_bytes());
    json.push(b'"');
}

/// Writes what [`crate::number::canonical`] returns.
fn write_number(json: &mut Vec<u8>, number: impl Number) {
    let mut digits = hex::Buffer::<32>::new();
    let digits = digits.format(&number.widen().to_be_bytes());
    let significant = digits.trim_start_matches('0');
    json.extend_from_slice(b"\"0x");
    json.extend_from_slice(if significant.is_empty() { b"0" } else { significant.as_bytes() });
    json.push(b'"');
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, U256};
    use ark_ec::{AffineRepr, CurveGroup};
    use proptest::prelude::*;
    use taceo_ark_babyjubjub::{EdwardsAffine, Fr};

    use super::*;
    use crate::ids::{Commitment, CompressedKey, LeafIndex};
    use crate::indexer::{CompatInclusionProofResponse, InclusionProofResponse};
    use crate::registry::Authenticator;
    use crate::tree::Root;

    fn path() -> impl Strategy<Value = InclusionPath> {
        (any::<u64>(), any::<[u8; 32]>(), any::<[[u8; 32]; DEPTH]>()).prop_map(|(leaf_index, root, siblings)| {
            let siblings = siblings.map(Node::new);
            InclusionPath { leaf_index: LeafIndex(leaf_index), root: Root(Node::new(root)), siblings }
        })
    }

    /// Numbers of every length.
    fn key() -> impl Strategy<Value = U256> {
        (any::<[u8; 32]>(), 0..=256_usize)
            .prop_map(|(bytes, shift)| U256::from_be_bytes(bytes).checked_shr(shift).unwrap_or_default())
    }

    fn public_key(seed: u64) -> PublicKey {
        let point = EdwardsAffine::generator() * Fr::from(seed.max(1));
        PublicKey::from_point(point.into_affine()).expect("a multiple of the generator")
    }

    fn account(keys: Vec<Option<U256>>) -> Account {
        let slot = |key| Authenticator { address: Address::ZERO, public_key: CompressedKey(key) };
        let slots = keys.into_iter().map(|key| key.map(slot)).collect();
        Account {
            commitment: Commitment(U256::ZERO),
            slots,
            recovery_agent: Address::ZERO,
            pending_recovery_agent: None,
            nonce: 0,
            recovery_counter: 0,
        }
    }

    proptest! {
        #[test]
        fn a_proof_is_written_as_serde_writes_it(path in path(), keys in prop::collection::vec(prop::option::of(key()), 0..=7)) {
            let account = account(keys);
            let expected = serde_json::to_vec(&InclusionProofResponse::new(&path, &account)).expect("JSON");
            let written = inclusion_proof_json(&path, &account);
            prop_assert_eq!(String::from_utf8(written), String::from_utf8(expected));
        }

        #[test]
        fn a_compat_proof_is_written_as_serde_writes_it(path in path(), seeds in prop::collection::vec(prop::option::of(any::<u64>()), 0..=7)) {
            let slots: Vec<Option<PublicKey>> = seeds.into_iter().map(|seed| seed.map(public_key)).collect();
            let expected = serde_json::to_vec(&CompatInclusionProofResponse::new(&path, &slots)).expect("JSON");
            let written = compat_inclusion_proof_json(&path, &slots);
            prop_assert_eq!(String::from_utf8(written), String::from_utf8(expected));
        }
    }
}
