//! The tree of a group: leaves in pages of 1024, the root of each page, the root, and paths.
//!
//! The tree has depth 30, as the public legacy trees. Positions count from 0 in the order of first
//! joinings, and a removed leaf is 0. A page root is a node of level 10; the root is 20 levels over
//! the page roots. Levels count from the leaves, which are level 0.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use super::names::FieldNumber;
use super::poseidon::{hash_pairs, hash_two};
use crate::tree::{DEPTH, Root};

/// Levels from a leaf to the root of its page.
const PAGE_LEVELS: usize = 10;

/// Leaves of a page.
pub const PAGE_LEAVES: usize = 1 << PAGE_LEVELS;

/// Bytes of a page as wallets get it.
pub const PAGE_BYTES: usize = 32 * PAGE_LEAVES;

/// The most positions of a group.
pub const MOST_POSITIONS: u32 = 1 << 20;

/// The node of a level without a leaf below it.
pub fn zero_node(level: usize) -> FieldNumber {
    static NODES: OnceLock<[FieldNumber; DEPTH + 1]> = OnceLock::new();
    NODES.get_or_init(|| {
        let mut nodes = [FieldNumber::ZERO; DEPTH + 1];
        for level in 1..=DEPTH {
            nodes[level] = hash_two(nodes[level - 1], nodes[level - 1]);
        }
        nodes
    })[level]
}

/// The page that a position is in.
pub fn page_of(position: u32) -> usize {
    position as usize / PAGE_LEAVES
}

/// Nodes of a part of the tree: its lowest level, and the levels above as far as they were asked
/// for. Nodes behind the end of a level are zero nodes.
#[derive(Clone, Debug, Default)]
pub struct Levels {
    /// The level of the tree that the lowest one is.
    base: usize,
    levels: Vec<Vec<FieldNumber>>,
}

impl Levels {
    /// The levels over these nodes up to level `top`, all hashed.
    fn over(base: usize, top: usize, nodes: Vec<FieldNumber>) -> Self {
        let changed = (0..nodes.len()).collect();
        let mut levels = Self { base, levels: vec![nodes] };
        levels.levels.resize(top - base + 1, Vec::new());
        levels.hash_above(changed);
        levels
    }

    /// The levels of a page, over its leaves.
    pub fn of_page(leaves: Vec<FieldNumber>) -> Self {
        Self::over(0, PAGE_LEVELS, leaves)
    }

    /// The levels above pages, over their roots.
    pub fn of_page_roots(page_roots: Vec<FieldNumber>) -> Self {
        Self::over(PAGE_LEVELS, DEPTH, page_roots)
    }

    fn node(&self, level: usize, index: usize) -> FieldNumber {
        let of_level = self.levels.get(level - self.base);
        of_level.and_then(|nodes| nodes.get(index)).copied().unwrap_or_else(|| zero_node(level))
    }

    /// The node at the top: the root of the page, or of the tree.
    pub fn top(&self) -> FieldNumber {
        self.node(self.base + self.levels.len() - 1, 0)
    }

    /// Puts nodes into the lowest level. Each node above them is hashed once.
    pub fn set(&mut self, changes: &BTreeMap<usize, FieldNumber>) {
        for (index, node) in changes {
            put(&mut self.levels[0], self.base, *index, *node);
        }
        self.hash_above(changes.keys().copied().collect());
    }

    /// Hashes each node above changed ones of the lowest level once.
    fn hash_above(&mut self, mut changed: BTreeSet<usize>) {
        for row in 1..self.levels.len() {
            changed = changed.into_iter().map(|index| index / 2).collect();
            let child = |index| self.node(self.base + row - 1, index);
            let pairs: Vec<_> = changed.iter().map(|index| [child(2 * index), child(2 * index + 1)]).collect();
            let level = self.base + row;
            for (index, node) in changed.iter().zip(hash_pairs(&pairs)) {
                put(&mut self.levels[row], level, *index, node);
            }
        }
    }
}

/// Puts a node into a level, which grows by zero nodes as far as it has to.
fn put(nodes: &mut Vec<FieldNumber>, level: usize, index: usize, node: FieldNumber) {
    if nodes.len() <= index {
        nodes.resize(index + 1, zero_node(level));
    }
    nodes[index] = node;
}

/// A page: its leaves and its root.
#[derive(Clone, Debug)]
struct TreePage {
    /// With the levels above the leaves, once a leaf was changed.
    levels: Levels,
    root: FieldNumber,
}

/// The tree of a group in memory.
#[derive(Clone, Debug)]
pub struct GroupTree {
    size: u32,
    /// Shared by the trees of several moments.
    pages: Vec<Arc<TreePage>>,
    /// The page roots and the levels above.
    upper: Levels,
}

impl Default for GroupTree {
    fn default() -> Self {
        Self { size: 0, pages: Vec::new(), upper: Levels::of_page_roots(Vec::new()) }
    }
}

impl GroupTree {
    /// The tree of stored pages: the leaves of each with its root, which is taken as it is. The
    /// last page ends with the last position.
    pub fn of_pages(pages: impl IntoIterator<Item = (Vec<FieldNumber>, FieldNumber)>) -> Self {
        let page = |(leaves, root)| Arc::new(TreePage { levels: Levels { base: 0, levels: vec![leaves] }, root });
        let pages: Vec<_> = pages.into_iter().map(page).collect();
        let size = pages.iter().map(|page| page.levels.levels[0].len() as u32).sum();
        let upper = Levels::of_page_roots(pages.iter().map(|page| page.root).collect());
        Self { size, pages, upper }
    }

    /// The tree of leaves.
    pub fn of_leaves(leaves: &[FieldNumber]) -> Self {
        Self::of_pages(leaves.chunks(PAGE_LEAVES).map(|leaves| (leaves.to_vec(), page_root(leaves))))
    }

    /// Positions that were ever given.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The root.
    pub fn root(&self) -> Root {
        Root::from_number(self.upper.top().0)
    }

    /// The root of each page.
    pub fn page_roots(&self) -> Vec<FieldNumber> {
        self.pages.iter().map(|page| page.root).collect()
    }

    /// The leaf at a position; 0 for a removed one, and for one that was not given yet.
    pub fn leaf(&self, position: u32) -> FieldNumber {
        let page = self.pages.get(page_of(position));
        page.map_or(FieldNumber::ZERO, |page| page.levels.node(0, position as usize % PAGE_LEAVES))
    }

    /// The leaves of a page, as far as positions are given.
    pub fn page_leaves(&self, page: usize) -> &[FieldNumber] {
        self.pages.get(page).map(|page| page.levels.levels[0].as_slice()).unwrap_or_default()
    }

    /// Puts leaves at positions; positions between the old end and a new one get 0. Each node above
    /// them is hashed once. Returns the pages whose root changed.
    pub fn set(&mut self, leaves: &BTreeMap<u32, FieldNumber>) -> Vec<usize> {
        let mut by_page: BTreeMap<usize, BTreeMap<usize, FieldNumber>> = BTreeMap::new();
        for (position, leaf) in leaves {
            self.size = self.size.max(position + 1);
            by_page.entry(page_of(*position)).or_default().insert(*position as usize % PAGE_LEAVES, *leaf);
        }
        let count = (self.size as usize).div_ceil(PAGE_LEAVES);
        let empty = TreePage { levels: Levels { base: 0, levels: vec![Vec::new()] }, root: zero_node(PAGE_LEVELS) };
        self.pages.resize(count, Arc::new(empty));
        for (index, page) in self.pages.iter_mut().enumerate() {
            let filled = (self.size as usize - index * PAGE_LEAVES).min(PAGE_LEAVES);
            if page.levels.levels[0].len() < filled {
                Arc::make_mut(page).levels.levels[0].resize(filled, FieldNumber::ZERO);
            }
        }
        let mut changed = BTreeMap::new();
        for (index, leaves) in by_page {
            let page = Arc::make_mut(&mut self.pages[index]);
            if page.levels.levels.len() == 1 {
                page.levels = Levels::of_page(std::mem::take(&mut page.levels.levels[0]));
            }
            page.levels.set(&leaves);
            page.root = page.levels.top();
            changed.insert(index, page.root);
        }
        // New pages that no leaf of these is in are pages of zeros, whose root is a zero node.
        self.upper.levels[0].resize(count, zero_node(PAGE_LEVELS));
        self.upper.set(&changed);
        changed.into_keys().collect()
    }

    /// The siblings of a leaf, from its own level on.
    pub fn path(&self, position: u32) -> [FieldNumber; DEPTH] {
        let page = page_of(position);
        path_in(self.page_leaves(page), &self.page_roots(), position)
    }
}

/// The root of a page with these leaves, at most 1024.
pub fn page_root(leaves: &[FieldNumber]) -> FieldNumber {
    Levels::of_page(leaves.to_vec()).top()
}

/// The root of the tree over page roots.
pub fn root_of_pages(page_roots: &[FieldNumber]) -> Root {
    Root::from_number(Levels::of_page_roots(page_roots.to_vec()).top().0)
}

/// The siblings of a leaf, from its own level on, by the leaves of its page and the page roots:
/// what a wallet has fetched.
pub fn path_in(page: &[FieldNumber], page_roots: &[FieldNumber], position: u32) -> [FieldNumber; DEPTH] {
    let lower = Levels::of_page(page.to_vec());
    let upper = Levels::of_page_roots(page_roots.to_vec());
    std::array::from_fn(|level| match level < PAGE_LEVELS {
        true => lower.node(level, (position as usize % PAGE_LEAVES) >> level ^ 1),
        false => upper.node(level, (page_of(position) >> (level - PAGE_LEVELS)) ^ 1),
    })
}

/// The root that a leaf and its siblings lead to.
pub fn root_of_path(leaf: FieldNumber, position: u32, siblings: &[FieldNumber; DEPTH]) -> Root {
    let root = siblings.iter().enumerate().fold(leaf, |node, (level, sibling)| match position >> level & 1 {
        0 => hash_two(node, *sibling),
        _ => hash_two(*sibling, node),
    });
    Root::from_number(root.0)
}

/// The siblings of the leaf of a tree of one leaf, which is at position 0.
pub fn one_leaf_path() -> [FieldNumber; DEPTH] {
    std::array::from_fn(zero_node)
}

/// The root of the tree of one leaf.
pub fn one_leaf_root(leaf: FieldNumber) -> Root {
    root_of_path(leaf, 0, &one_leaf_path())
}

/// A page as wallets get it: 1024 leaves of 32 bytes; those that are not given are 0.
pub fn page_bytes(leaves: &[FieldNumber]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PAGE_BYTES);
    bytes.extend(leaves.iter().take(PAGE_LEAVES).flat_map(|leaf| leaf.to_bytes()));
    bytes.resize(PAGE_BYTES, 0);
    bytes
}

/// Reads a page that a wallet has got; `None` when it is none.
pub fn read_page(bytes: &[u8]) -> Option<Vec<FieldNumber>> {
    let (leaves, []) = bytes.as_chunks::<32>() else { return None };
    let number = |leaf: &[u8; 32]| {
        let number = crate::U256::from_be_bytes(*leaf);
        crate::tree::is_below_field(&number).then_some(FieldNumber(number))
    };
    if leaves.len() == PAGE_LEAVES { leaves.iter().map(number).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{U256, hex};
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    use super::super::tests::{number, text, vectors};
    use super::*;
    use crate::verification::identity::hash_to_field;

    fn positions(value: &serde_json::Value) -> BTreeSet<u32> {
        value.as_array().expect("a list").iter().map(|position| position.as_u64().expect("a number") as u32).collect()
    }

    #[test]
    fn trees_match_the_recorded_vectors() {
        for (level, node) in vectors()["constants"]["zero_nodes"].as_array().expect("a list").iter().enumerate() {
            assert_eq!(zero_node(level), number(node), "{level}");
        }
        for case in vectors()["trees"].as_array().expect("a list") {
            let seed = hex::decode(text(&case["leaf_seed"])).expect("hex");
            let (removed, replaced) = (positions(&case["removed"]), positions(&case["replaced"]));
            let leaf = |position: u32| {
                let last = u8::from(replaced.contains(&position));
                let hashed = hash_to_field(&[seed.as_slice(), &position.to_be_bytes(), &[last]].concat());
                if removed.contains(&position) { FieldNumber::ZERO } else { FieldNumber(hashed) }
            };
            let size = case["size"].as_u64().expect("a number") as u32;
            let leaves: Vec<_> = (0..size).map(leaf).collect();
            let tree = GroupTree::of_leaves(&leaves);
            assert_eq!((tree.size(), tree.root().to_number()), (size, number(&case["root"]).0));
            let page_roots: Vec<_> = case["page_roots"].as_array().expect("a list").iter().map(number).collect();
            assert_eq!(tree.page_roots(), page_roots);
            assert_eq!(root_of_pages(&page_roots), tree.root());
            for (page, hash) in case["page_sha256"].as_array().expect("a list").iter().enumerate() {
                let bytes = page_bytes(tree.page_leaves(page));
                assert_eq!(hex::encode(Sha256::digest(&bytes)), text(hash));
                assert_eq!(read_page(&bytes).expect("a page")[..tree.page_leaves(page).len()], *tree.page_leaves(page));
            }
            for path in case["paths"].as_array().expect("a list") {
                let position = path["position"].as_u64().expect("a number") as u32;
                let siblings: Vec<_> = path["siblings"].as_array().expect("a list").iter().map(number).collect();
                assert_eq!(tree.path(position).to_vec(), siblings);
                assert_eq!(tree.leaf(position), number(&path["leaf"]));
                assert_eq!(root_of_path(tree.leaf(position), position, &tree.path(position)), tree.root());
            }
        }
    }

    #[test]
    fn pages_of_another_length_or_with_numbers_outside_of_the_field_are_none() {
        assert!(read_page(&[0; PAGE_BYTES]).is_some());
        for length in [0, 32, PAGE_BYTES - 1, PAGE_BYTES - 32, PAGE_BYTES + 32] {
            assert_eq!(read_page(&vec![0; length]), None, "{length}");
        }
        assert_eq!(read_page(&[0xff; PAGE_BYTES]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn a_tree_that_is_changed_in_batches_is_the_tree_of_its_leaves(
            batches in prop::collection::vec(prop::collection::btree_map(0_u32..2100, any::<u64>(), 0..6), 1..5),
            reopens in any::<bool>(),
        ) {
            let (mut tree, mut leaves) = (GroupTree::default(), Vec::new());
            for batch in batches {
                let batch: BTreeMap<u32, _> =
                    batch.into_iter().map(|(position, leaf)| (position, FieldNumber(U256::from(leaf)))).collect();
                for (position, leaf) in &batch {
                    put(&mut leaves, 0, *position as usize, *leaf);
                }
                if reopens {
                    let pages = tree.page_roots().into_iter().enumerate();
                    tree = GroupTree::of_pages(pages.map(|(page, root)| (tree.page_leaves(page).to_vec(), root)).collect::<Vec<_>>());
                }
                tree.set(&batch);
                let whole = GroupTree::of_leaves(&leaves);
                prop_assert_eq!(tree.root(), whole.root());
                prop_assert_eq!(tree.page_roots(), whole.page_roots());
                prop_assert_eq!(tree.size() as usize, leaves.len());
                for position in batch.keys() {
                    prop_assert_eq!(root_of_path(tree.leaf(*position), *position, &tree.path(*position)), tree.root());
                }
            }
        }
    }
}
