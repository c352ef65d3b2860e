//! The node hash, and nodes as bytes.

use std::sync::OnceLock;

use alloy_primitives::{B256, U256};
use ark_bn254::Fr;
use ark_ff::{BigInt, PrimeField};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::shape::DEPTH;
use crate::number::{self, Number, integer_type};

/// A leaf or an inner node: an element of the BN254 scalar field, big-endian, always below the
/// modulus.
pub type Node = B256;

/// A root of the tree. In JSON `0x` and 64 hex digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$", example = "0x0283ac092d4d5262653e5fa12f760d1f0b0899beee696ba30b2579323812d0aa")]
pub struct Root(#[serde(deserialize_with = "number::deserialize_padded")] pub Node);

integer_type!(Root);

impl Root {
    /// The root of the empty tree.
    pub fn empty() -> Self {
        Self(empty_node(DEPTH))
    }

    /// The root with the value of a number. The number is not checked.
    pub fn from_number(number: U256) -> Self {
        Self(Node::from(number))
    }

    /// The root as a number.
    pub fn to_number(self) -> U256 {
        U256::from_be_bytes(self.0.0)
    }
}

/// For the fields that are numeric strings: `#[serde(with = "number")]`.
impl Number for Root {
    const BITS: u32 = 256;
    fn widen(self) -> U256 {
        self.to_number()
    }
    fn narrow(value: U256) -> Option<Self> {
        Some(Self::from_number(value))
    }
}

/// The node that holds a number. The number must be below the field's modulus ([`is_below_field`]).
pub fn node(value: U256) -> Node {
    Node::from(value)
}

/// Whether a number is below the modulus of the BN254 scalar field.
pub fn is_below_field(value: &U256) -> bool {
    BigInt(*value.as_limbs()) < Fr::MODULUS
}

/// The number as an element of the BN254 scalar field; `None` when it is not below the modulus.
pub fn field_element(value: &U256) -> Option<Fr> {
    Fr::from_bigint(BigInt(*value.as_limbs()))
}

fn element(node: &Node) -> Fr {
    // Nodes are below the modulus by construction. When a stored node is damaged, the hash differs
    // and fsck reports it.
    Fr::from_be_bytes_mod_order(&node.0)
}

/// An element as a node.
fn bytes(element: Fr) -> Node {
    node(U256::from_limbs(element.into_bigint().0))
}

/// The parent of two nodes: the first word of the Poseidon2 permutation (width 2) of (left, right),
/// plus left.
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
