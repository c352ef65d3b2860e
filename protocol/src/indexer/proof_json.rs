//! Inclusion proofs as JSON, written in one pass.
//!
//! Such an answer is 31 hex texts. Written by serde, each is a text of its own before it is copied
//! into a buffer that grows five times, which takes longer than to read the proof.

use std::io::Write;

use alloy_primitives::hex;

use crate::commitment::PublicKey;
use crate::number::Number;
use crate::registry::Account;
use crate::tree::{DEPTH, InclusionPath, Node};

/// Bytes of a node in quotes, with the comma behind it.
const NODE: usize = 69;

/// Room for everything but the siblings and the keys.
const FRAME: usize = 200;

/// Room for a key: two decimal numbers of 77 digits with names and quotes are the longest.
const KEY: usize = 176;

/// The JSON of the [`super::InclusionProofResponse`] for an account and its path.
pub fn inclusion_proof_json(path: &InclusionPath, account: &Account) -> Vec<u8> {
    let mut json = proof(path, account.slots.len());
    write_slots(&mut json, &account.slots, |json, authenticator| write_number(json, authenticator.public_key.0));
    json
}

/// The JSON of the [`super::CompatInclusionProofResponse`] for a path and an account's decoded
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
