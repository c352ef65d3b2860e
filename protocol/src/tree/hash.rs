//! The node hash, and nodes as bytes.

use std::sync::OnceLock;

use alloy_primitives::{B256, U256};
use ark_bn254::Fr;
use ark_ff::{BigInt, PrimeField};

use super::DEPTH;

/// A leaf or an inner node: an element of the BN254 scalar field, big-endian, always below the modulus.
pub type Node = B256;

/// The node that holds a number. The number must be below the field's modulus ([`is_below_field`]).
pub fn node(value: U256) -> Node {
    Node::from(value)
}

/// Whether a number is an element of the BN254 scalar field as it stands.
pub fn is_below_field(value: &U256) -> bool {
    BigInt(*value.as_limbs()) < Fr::MODULUS
}

/// The number as an element of the BN254 scalar field; `None` when it is not below the modulus.
pub fn field_element(value: &U256) -> Option<Fr> {
    Fr::from_bigint(BigInt(*value.as_limbs()))
}

fn element(node: &Node) -> Fr {
    // Nodes are below the modulus by construction; should a stored one be damaged, its hash differs and fsck finds it.
    Fr::from_be_bytes_mod_order(&node.0)
}

/// An element as a node.
fn bytes(element: Fr) -> Node {
    node(U256::from_limbs(element.into_bigint().0))
}

/// The parent of two nodes: the first word of the Poseidon2 permutation (width 2) of (left, right), plus left.
pub fn hash_pair(left: &Node, right: &Node) -> Node {
    let left = element(left);
    let mut state = [left, element(right)];
    taceo_poseidon2::bn254::t2::permutation_in_place(&mut state);
    bytes(state[0] + left)
}

/// The root of an empty subtree of the given height; 0 is an empty leaf, [`DEPTH`] the empty tree.
pub fn empty_node(height: usize) -> Node {
    static EMPTY: OnceLock<[Node; DEPTH + 1]> = OnceLock::new();
    EMPTY.get_or_init(|| {
        let mut nodes = [Node::ZERO; DEPTH + 1];
        for height in 1..=DEPTH {
            nodes[height] = hash_pair(&nodes[height - 1], &nodes[height - 1]);
        }
        nodes
    })[height]
}
