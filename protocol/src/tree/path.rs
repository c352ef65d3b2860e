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

/// Reads the path of `leaf_index` (below [`super::CAPACITY`]) from six pages, with one hash for the
/// root.
pub fn inclusion_path<S: PageSource>(pages: &S, leaf_index: LeafIndex) -> Result<InclusionPath, S::Error> {
    let mut siblings = [Node::ZERO; DEPTH];
    let mut root = Root::default();
    for row in 0..ROWS {
        let id = PageId::above(leaf_index, row);
        let page = pages.page(id)?.unwrap_or_else(|| Page::empty(id));
        if row == 0 {
            root = Root(page.root());
        }
        let below = PAGE_LEVELS * (ROWS - 1 - row);
        let bottom = (leaf_index.0 >> below) as usize % (1 << PAGE_LEVELS);
        for level in 1..=PAGE_LEVELS {
            let above_bottom = PAGE_LEVELS - level;
            siblings[below + above_bottom] = *page.node(level, (bottom >> above_bottom) ^ 1);
        }
    }
    Ok(InclusionPath { leaf_index, root, siblings })
}
