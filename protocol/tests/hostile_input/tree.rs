//! The tree: pages of any content, and inclusion paths that lead only to their own root.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;

use proptest::prelude::*;
use selfsame_protocol::encoding::{decode, encode};
use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::indexer::InclusionProofResponse;
use selfsame_protocol::registry::Account;
use selfsame_protocol::tree::{
    CAPACITY, DEPTH, Page, PageId, PageSource, Root, field_element, hash_pair, inclusion_path, is_below_field, node,
    update,
};
use selfsame_protocol::{B256, U256};

use crate::cases;
use crate::samples::{Sample, any_element, any_number, modulus};

#[derive(Debug, Default)]
struct ArbitraryPages(HashMap<PageId, Page>);

impl PageSource for ArbitraryPages {
    type Error = Infallible;
    fn page(&self, id: PageId) -> Result<Option<Page>, Infallible> {
        Ok(self.0.get(&id).cloned())
    }
}

fn any_leaf() -> BoxedStrategy<u64> {
    prop_oneof![0..100u64, 0..CAPACITY, Just(CAPACITY - 1)].boxed()
}

proptest! {
    #![proptest_config(cases())]

    /// A number is an element of the field exactly when it is below the modulus.
    #[test]
    fn field_elements_are_the_numbers_below_the_modulus(number in any_number()) {
        prop_assert_eq!(is_below_field(&number), number < modulus());
        prop_assert_eq!(field_element(&number).is_some(), number < modulus());
    }

    /// Every page id has an empty page, which round-trips through its encoding.
    #[test]
    fn every_page_id_has_an_empty_page(id in PageId::any()) {
        let page = Page::empty(id);
        prop_assert_eq!(decode::<Page>(&encode(&page)), Ok(page));
    }

    /// With pages of any bytes, some of them missing, a path can be read and an update can be made
    /// without a panic. The path's root is that of the topmost page.
    #[test]
    fn pages_of_any_content_give_paths_and_take_updates(
        leaf in any_leaf(),
        pages in prop::collection::vec(prop::option::of(Page::any()), 6),
        value in any_element(),
    ) {
        let ids = (0..6).map(|row| PageId::above(LeafIndex(leaf), row));
        let pages = ArbitraryPages(ids.zip(pages).filter_map(|(id, page)| Some((id, page?))).collect());
        let Ok(path) = inclusion_path(&pages, LeafIndex(leaf));
        let top = PageId { row: 0, index: 0 };
        let Ok(top) = pages.page(top).map(|page| page.unwrap_or_else(|| Page::empty(top)));
        prop_assert_eq!(path.root, Root(top.root()));
        let Ok(updated) = update(&pages, &BTreeMap::from([(LeafIndex(leaf), node(value))]));
        prop_assert_eq!(updated.root, path.root_from(&node(value)));
        prop_assert!(updated.pages.iter().all(|(id, _)| decode::<PageId>(&encode(id)) == Ok(*id)));
    }

    /// A path leads to the root from its own leaf. With any of its parts changed, it leads to
    /// another root or is not a path.
    #[test]
    fn a_changed_path_leads_to_another_root(
        leaves in prop::collection::btree_map(any_leaf(), any_element(), 1..5),
        place in 0..DEPTH,
        bit in 0..256usize,
        other in any_element(),
        account in Account::any(),
    ) {
        let leaves: BTreeMap<LeafIndex, B256> =
            leaves.into_iter().map(|(index, value)| (LeafIndex(index), node(value))).collect();
        let mut pages = ArbitraryPages::default();
        let Ok(updated) = update(&pages, &leaves);
        pages.0.extend(updated.pages);
        for (index, leaf) in leaves {
            let Ok(path) = inclusion_path(&pages, index);
            let answer = InclusionProofResponse::new(&path, &account);
            prop_assert_eq!(answer.path(), Some(path.clone()));
            prop_assert_eq!((path.root, path.root_from(&leaf)), (updated.root, updated.root));
            let leads = |answer: &InclusionProofResponse, leaf: &B256| {
                answer.path().is_some_and(|path| path.root_from(leaf) == path.root)
            };
            let changed = |change: &dyn Fn(&mut InclusionProofResponse)| {
                let mut answer = answer.clone();
                change(&mut answer);
                leads(&answer, &leaf)
            };
            let sibling = U256::from_be_bytes(path.siblings[place].0);
            prop_assert!(!changed(&|answer| answer.siblings[place] = B256::from(sibling ^ (U256::from(1) << bit))));
            prop_assert!(!changed(&|answer| answer.siblings[place] = B256::from(sibling + modulus())));
            prop_assert!(!changed(
                &|answer| answer.root = Root::from_number(path.root.to_number() ^ (U256::from(1) << bit))
            ));
            prop_assert!(!changed(&|answer| answer.root = Root::from_number(path.root.to_number() + modulus())));
            prop_assert!(!changed(&|answer| answer.siblings.truncate(place)));
            prop_assert!(!changed(&|answer| answer.siblings.insert(place, B256::ZERO)));
            prop_assert!(!changed(&|answer| answer.leaf_index.0 |= CAPACITY << (bit % 34)));
            // If both children are the same, as in empty subtrees, left and right can be exchanged.
            let below = path.siblings[..place].iter().enumerate().fold(leaf, |node, (height, sibling)| {
                if index.0 >> height & 1 == 0 { hash_pair(&node, sibling) } else { hash_pair(sibling, &node) }
            });
            prop_assert_eq!(changed(&|answer| answer.leaf_index.0 ^= 1 << place), below == path.siblings[place]);
            prop_assert_eq!(leads(&answer, &node(other)), node(other) == leaf);
        }
    }
}
