//! Pages: five levels of the tree in one record.

use std::ops::Range;

use super::hash::{Node, empty_node, hash_pair};
use super::shape::DEPTH;
use crate::encoding::{DecodeError, Encoding};
use crate::ids::LeafIndex;

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
