//! The Merkle tree of account commitments.
//!
//! The tree has the fixed depth 30. Leaf `i` is the commitment of the account with leaf index `i`;
//! leaf 0 is reserved and stays 0, and an empty leaf is 0. A node is Poseidon2 over its two
//! children ([`hash_pair`]; [`hash_pairs`] for many). The tree is stored in pages of five levels
//! ([`Page`]): a reader fetches six pages for an inclusion path, and a writer hashes each touched
//! inner node once for any number of changed leaves ([`update`]).

mod pages;
mod poseidon2;
mod update;

pub use pages::{
    CAPACITY, DEPTH, InclusionPath, Node, PAGE_LEVELS, Page, PageId, PageSource, ROWS, Root, empty_node,
    empty_siblings, field_element, hash_pair, inclusion_path, is_below_field, node, siblings, siblings_in,
};
pub(crate) use poseidon2::Grain;
pub use poseidon2::hash_pairs;
pub use update::{HashPairs, OneThread, TreeUpdate, update, update_with};

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::{BTreeMap, HashMap};
    use std::convert::Infallible;

    use alloy_primitives::U256;
    use proptest::prelude::*;

    use super::*;
    use crate::encoding::encode;
    use crate::ids::LeafIndex;

    #[derive(Default)]
    struct TestPages(HashMap<PageId, Page>);

    impl PageSource for TestPages {
        type Error = Infallible;
        fn page(&self, id: PageId) -> Result<Option<Page>, Infallible> {
            Ok(self.0.get(&id).cloned())
        }
    }

    impl TestPages {
        fn write(&mut self, leaves: &BTreeMap<u64, Node>) -> TreeUpdate {
            let leaves = leaves.iter().map(|(index, leaf)| (LeafIndex(*index), *leaf)).collect();
            let Ok(update) = update(self, &leaves);
            self.0.extend(update.pages.iter().cloned());
            update
        }
        fn path(&self, leaf: u64) -> InclusionPath {
            let Ok(path) = inclusion_path(self, LeafIndex(leaf));
            path
        }
    }

    /// The root by the definition: hashed level by level without a cache.
    fn naive_root(leaves: &BTreeMap<u64, Node>) -> Root {
        let mut level = leaves.clone();
        for height in 0..DEPTH {
            let mut above = BTreeMap::new();
            for index in level.keys().map(|index| index / 2) {
                let child = |index| level.get(&index).copied().unwrap_or_else(|| empty_node(height));
                above.insert(index, hash_pair(&child(2 * index), &child(2 * index + 1)));
            }
            level = above;
        }
        level.get(&0).copied().map_or_else(Root::empty, Root)
    }

    fn small(value: u64) -> Node {
        node(U256::from(value))
    }

    #[test]
    fn siblings_are_read_from_encoded_pages() {
        let mut pages = TestPages::default();
        pages.write(&(1..100).map(|index| (index, small(index))).collect());
        for (id, page) in &pages.0 {
            let encoded = encode(page);
            for bottom in 0..1 << PAGE_LEVELS {
                assert_eq!(siblings_in(&encoded, bottom), Some(page.siblings(bottom)), "{id:?}, node {bottom}");
            }
            assert_eq!(siblings_in(&encoded[1..], 0), None);
            assert_eq!(siblings_in(&encoded[32..], 0), None);
            assert_eq!(siblings_in(&[encoded.as_slice(), &[0; 32]].concat(), 0), None);
        }
        let empty = PageId { row: 3, index: 7 };
        assert_eq!(empty_siblings(empty), Page::empty(empty).siblings(31));
    }

    #[test]
    fn the_leaves_of_a_page_are_those_that_have_it_above() {
        for leaf in [0, 1, 31, 32, 1000, CAPACITY - 1] {
            for row in 0..ROWS {
                let leaves = PageId::above(LeafIndex(leaf), row).leaves();
                let first = leaf / 32 * 32;
                assert_eq!(leaves, if row == 5 { first..first + 32 } else { 0..0 }, "leaf {leaf}, row {row}");
            }
        }
    }

    #[test]
    fn roots_and_siblings_match_the_recorded_vectors() {
        let vectors: serde_json::Value =
            serde_json::from_str(include_str!("../../vectors/tree.json")).expect("vectors are JSON");
        let hex = |value: &serde_json::Value| value.as_str().expect("text").parse::<Node>().expect("32 bytes");
        assert_eq!(empty_node(DEPTH), hex(&vectors["empty_root"]));
        assert_eq!(hash_pair(&small(1), &small(2)), hex(&vectors["compress_1_2"]));
        assert_eq!(hash_pair(&small(2), &small(1)), hex(&vectors["compress_2_1"]));
        assert_eq!(hash_pair(&small(0), &small(0)), hex(&vectors["compress_0_0"]));

        let mut pages = TestPages::default();
        for insert in vectors["after_inserts"].as_array().expect("list") {
            let index = insert["insert_index"].as_u64().expect("index");
            let root = pages.write(&BTreeMap::from([(index, hex(&insert["leaf"]))])).root;
            assert_eq!(root, Root(hex(&insert["root"])));
        }
        let path = pages.path(2);
        let siblings: Vec<Node> =
            vectors["siblings_of_index_2_after_3_inserts"].as_array().expect("list").iter().map(hex).collect();
        assert_eq!(path.siblings.to_vec(), siblings);
        assert_eq!(path.root_from(&small(2)), path.root);
        let root = pages.write(&BTreeMap::from([(2, small(5))])).root;
        assert_eq!(root, Root(hex(&vectors["after_update_index2_to_5"])));
    }

    #[test]
    fn a_batch_hashes_each_touched_node_once() {
        let mut pages = TestPages::default();
        let leaves: BTreeMap<u64, Node> = (0..64).map(|index| (index, small(index))).collect();
        // 32 + 16 + … + 1 nodes above 64 neighbours, then one node on each of the 24 levels above
        // them.
        assert_eq!(pages.write(&leaves).hashes, 63 + 24);
        assert_eq!(pages.write(&BTreeMap::from([(5, small(9))])).hashes, 30);
    }

    /// Counts its calls and the pairs in them.
    #[derive(Default)]
    struct Counting(Cell<(usize, usize)>);

    impl HashPairs for Counting {
        fn hash_pairs(&self, pairs: &[[Node; 2]]) -> Vec<Node> {
            let (calls, hashes) = self.0.get();
            self.0.set((calls + 1, hashes + pairs.len()));
            hash_pairs(pairs)
        }
    }

    #[test]
    fn a_large_batch_is_hashed_level_by_level() {
        let mut pages = TestPages::default();
        let mut leaves: BTreeMap<u64, Node> = (1..700).map(|index| (index, small(index))).collect();
        pages.write(&leaves);
        // Some of them again, and leaves far apart.
        let again: BTreeMap<u64, Node> = (0..900).map(|index| (index * index * 1291, small(index + 1000))).collect();
        let changed = again.iter().map(|(index, leaf)| (LeafIndex(*index), *leaf)).collect();
        let counting = Counting::default();
        let Ok(update) = update_with(&counting, &pages, &changed);
        leaves.extend(again);
        assert_eq!(update.root, naive_root(&leaves));
        assert_eq!(counting.0.get(), (DEPTH, update.hashes));
        // Each page has the hash of its children in every node.
        for (_, page) in &update.pages {
            for (level, position) in (1..PAGE_LEVELS).flat_map(|level| (0..1 << level).map(move |at| (level, at))) {
                let children = [0, 1].map(|side| *page.node(level + 1, 2 * position + side));
                assert_eq!(*page.node(level, position), hash_pair(&children[0], &children[1]));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn the_page_tree_has_the_roots_and_paths_of_the_naive_tree(
            batches in prop::collection::vec(
                prop::collection::vec((prop_oneof![0u64..100, 0..CAPACITY, Just(CAPACITY - 1)], any::<u64>()), 0..12), 1..5),
        ) {
            let mut pages = TestPages::default();
            let mut all = BTreeMap::new();
            for batch in batches {
                let leaves: BTreeMap<u64, Node> = batch.into_iter().map(|(index, value)| (index, small(value))).collect();
                let updated = pages.write(&leaves);
                all.extend(leaves);
                prop_assert_eq!(updated.root, naive_root(&all));
                for (index, leaf) in &all {
                    let path = pages.path(*index);
                    prop_assert_eq!(path.root, updated.root);
                    prop_assert_eq!(path.root_from(leaf), updated.root);
                }
            }
        }
    }
}
