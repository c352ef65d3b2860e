//! Inclusion paths.

use super::hash::{Node, Root, hash_pair};
use super::page::{PAGE_LEVELS, Page, PageId, PageSource, ROWS};
use super::shape::DEPTH;
use crate::ids::LeafIndex;

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
