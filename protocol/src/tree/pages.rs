//! Nodes of the tree, the pages that they are stored in, and inclusion paths through the pages.

use std::ops::Range;
use std::sync::OnceLock;

use alloy_primitives::{B256, U256};
use ark_bn254::Fr;
use ark_ff::{BigInt, PrimeField};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::encoding::{DecodeError, Encoding};
use crate::ids::LeafIndex;
use crate::number::{self, Number, integer_type};

// The size of the tree.

/// Levels between the root and the leaves.
pub const DEPTH: usize = 30;

/// How many leaves there are, the reserved leaf 0 included.
pub const CAPACITY: u64 = 1 << DEPTH;

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

// Pages: five levels of the tree in one record.

/// Levels in a page.
pub const PAGE_LEVELS: usize = 5;

/// Rows of pages between the root and the leaves.
pub const ROWS: usize = DEPTH / PAGE_LEVELS;

/// Nodes in a page: 2 + 4 + 8 + 16 + 32. The page above stores the page's own root.
const NODES: usize = (1 << (PAGE_LEVELS + 1)) - 2;

/// The position of a page in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageId {
    /// Row from the top: row 0 is the one page below the root, row 5 holds the leaves.
    pub row: u8,
    /// Position in the row.
    pub index: u32,
}

impl PageId {
    /// The page of a row on the path from the root to a leaf.
    pub fn above(leaf: LeafIndex, row: usize) -> Self {
        let index = leaf.0 >> (PAGE_LEVELS * (ROWS - row));
        Self { row: row as u8, index: index as u32 }
    }

    /// The leaves that are the page's bottom nodes, by number from the left of the tree; none for a
    /// page of the rows above the last.
    pub fn leaves(self) -> Range<u64> {
        match usize::from(self.row) + 1 == ROWS {
            true => u64::from(self.index) << PAGE_LEVELS..(u64::from(self.index) + 1) << PAGE_LEVELS,
            false => 0..0,
        }
    }

    /// How high the page's bottom nodes stand above the leaves.
    fn bottom_height(self) -> usize {
        DEPTH - PAGE_LEVELS * (usize::from(self.row) + 1)
    }
}

/// A source of the pages of one version of the tree.
pub trait PageSource {
    /// Why a page could not be read.
    type Error;
    /// The page; `None` when no leaf below it was ever written, so that all its nodes are those of
    /// empty subtrees.
    fn page(&self, id: PageId) -> Result<Option<Page>, Self::Error>;

    /// The siblings on the way from the page's bottom node at `bottom` to the page's own root, from
    /// the bottom upwards. A source that has encoded pages need not decode a whole one for it, see
    /// [`siblings_in`].
    fn siblings(&self, id: PageId, bottom: usize) -> Result<[Node; PAGE_LEVELS], Self::Error> {
        Ok(self.page(id)?.map_or_else(|| empty_siblings(id), |page| page.siblings(bottom)))
    }
}

/// The siblings on the way from a bottom node to the root of an encoded page, from the bottom
/// upwards. `None` when it does not have the length of a page.
pub fn siblings_in(encoded: &[u8], bottom: usize) -> Option<[Node; PAGE_LEVELS]> {
    let (nodes, []) = encoded.as_chunks::<32>() else { return None };
    (nodes.len() == NODES).then(|| of_way(bottom, |index| Node::new(nodes[index])))
}

/// The siblings on each way through a page with nothing below it.
pub fn empty_siblings(id: PageId) -> [Node; PAGE_LEVELS] {
    std::array::from_fn(|above_bottom| empty_node(id.bottom_height() + above_bottom))
}

/// The siblings on the way from a bottom node upwards; `node` is asked by the index of a node.
fn of_way(bottom: usize, node: impl Fn(usize) -> Node) -> [Node; PAGE_LEVELS] {
    std::array::from_fn(|above_bottom| node(offset(PAGE_LEVELS - above_bottom) + ((bottom >> above_bottom) ^ 1)))
}

impl Encoding for PageId {
    fn encode(&self, out: &mut Vec<u8>) {
        self.row.encode(out);
        self.index.encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let id = Self { row: u8::decode(input)?, index: u32::decode(input)? };
        let row = usize::from(id.row);
        let is_in_tree = row < ROWS && id.index >> (PAGE_LEVELS * row) == 0;
        if is_in_tree { Ok(id) } else { Err(DecodeError::OutOfRange("page ids")) }
    }
}

impl Encoding for Page {
    fn encode(&self, out: &mut Vec<u8>) {
        self.nodes.iter().for_each(|node| node.encode(out));
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let mut page = Self { nodes: Box::new([Node::ZERO; NODES]) };
        for node in page.nodes.iter_mut() {
            *node = Node::decode(input)?;
        }
        Ok(page)
    }
}

/// The nodes of five levels below one node, level by level from the top, each level from left to
/// right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    nodes: Box<[Node; NODES]>,
}

impl Page {
    /// Bytes of an encoded page.
    pub const ENCODED_LENGTH: usize = NODES * 32;

    /// The page with nothing below it.
    pub fn empty(id: PageId) -> Self {
        let mut page = Self { nodes: Box::new([Node::ZERO; NODES]) };
        for level in 1..=PAGE_LEVELS {
            let node = empty_node(id.bottom_height() + PAGE_LEVELS - level);
            page.nodes[offset(level)..offset(level + 1)].fill(node);
        }
        page
    }

    /// The node at `position` of `level`; level 1 has two nodes, level 5 thirty-two.
    pub fn node(&self, level: usize, position: usize) -> &Node {
        &self.nodes[offset(level) + position]
    }

    /// The siblings on the way from the bottom node at `bottom` to the page's own root, from the
    /// bottom upwards.
    pub fn siblings(&self, bottom: usize) -> [Node; PAGE_LEVELS] {
        of_way(bottom, |index| self.nodes[index])
    }

    /// The page's own root.
    pub fn root(&self) -> Node {
        hash_pair(self.node(1, 0), self.node(1, 1))
    }

    /// Sets the node at `position` of `level`; those above it stay as they are.
    pub(super) fn set(&mut self, level: usize, position: usize, node: Node) {
        self.nodes[offset(level) + position] = node;
    }

    /// The children of the node at `position` of `level`; level 0 is the page's own root.
    pub(super) fn children(&self, level: usize, position: usize) -> &[Node; 2] {
        // Each level has an even number of nodes, so a level's pairs follow those above it.
        let (pairs, _) = self.nodes.as_chunks();
        &pairs[offset(level + 1) / 2 + position]
    }
}

/// Index of a level's first node.
const fn offset(level: usize) -> usize {
    (1 << level) - 2
}

// Inclusion paths.

/// The siblings of a leaf up to the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InclusionPath {
    /// The leaf's index.
    pub leaf_index: LeafIndex,
    /// The tree's root.
    pub root: Root,
    /// Siblings from the level of the leaf upwards.
    pub siblings: [Node; DEPTH],
}

impl InclusionPath {
    /// The root that this path leads to from `leaf`; the leaf is in the tree when it equals
    /// [`InclusionPath::root`].
    pub fn root_from(&self, leaf: &Node) -> Root {
        Root(self.siblings.iter().enumerate().fold(*leaf, |node, (height, sibling)| {
            if self.leaf_index.0 >> height & 1 == 0 { hash_pair(&node, sibling) } else { hash_pair(sibling, &node) }
        }))
    }
}

/// Reads the path of `leaf_index` (below [`super::CAPACITY`]) from six pages, and computes the root
/// from the uppermost one, with one hash.
pub fn inclusion_path<S: PageSource>(pages: &S, leaf_index: LeafIndex) -> Result<InclusionPath, S::Error> {
    let top = PageId::above(leaf_index, 0);
    let root = Root(pages.page(top)?.unwrap_or_else(|| Page::empty(top)).root());
    Ok(InclusionPath { leaf_index, root, siblings: siblings(pages, leaf_index)? })
}

/// Reads the siblings of `leaf_index` (below [`super::CAPACITY`]), from the level of the leaf
/// upwards, from six pages.
pub fn siblings<S: PageSource>(pages: &S, leaf_index: LeafIndex) -> Result<[Node; DEPTH], S::Error> {
    let mut siblings = [Node::ZERO; DEPTH];
    for row in 0..ROWS {
        let below = PAGE_LEVELS * (ROWS - 1 - row);
        let bottom = (leaf_index.0 >> below) as usize % (1 << PAGE_LEVELS);
        let of_page = pages.siblings(PageId::above(leaf_index, row), bottom)?;
        siblings[below..below + PAGE_LEVELS].copy_from_slice(&of_page);
    }
    Ok(siblings)
}
