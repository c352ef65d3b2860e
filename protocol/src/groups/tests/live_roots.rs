//! Which roots count, for how long, and the pages that they have: compared with full trees that are
//! kept beside.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use proptest::prelude::*;

use super::super::codes::Code;
use super::super::identity::{Act as LinkAct, Token};
use super::super::live_roots::leaves_at;
use super::super::names::{FieldNumber, MemberNumber};
use super::super::tree::{GroupTree, PAGE_LEAVES, page_root};
use super::super::wire::InvitedMembers;
use super::community::{Community, join, leaf, member, nullifier, replace, replace_by_code, request, secret};
use crate::time::UnixSeconds;
use crate::tree::Root;
use crate::verification::request::MAX_AGE;
use crate::verification::roots::RootAge;

fn age(community: &Community, root: Root) -> Option<RootAge> {
    community.loaded.live.age(root, community.now)
}

#[test]
fn a_root_ages_from_its_replacement_on() {
    let mut community = Community::new();
    assert_eq!(age(&community, community.root()), None, "nobody can prove against the empty tree");
    community.enrolled("A", 1);
    let first = community.root();
    community.now = community.now.plus(1_000_000);
    assert_eq!(age(&community, first), Some(RootAge::Newest), "however long it rests");
    community.enrolled("B", 2);
    assert_eq!(age(&community, first), Some(RootAge::Seconds(0)));
    community.now = community.now.plus(10);
    community.enrolled("C", 3);
    assert_eq!(age(&community, first), Some(RootAge::Seconds(10)));
    assert_eq!(age(&community, Root::from_number(leaf(99).0)), None);
    // A clock that goes back makes no root older or newer than just replaced.
    community.now = UnixSeconds(0);
    assert_eq!(age(&community, first), Some(RootAge::Seconds(0)));
}

#[test]
fn a_removal_ends_the_roots_that_had_the_leaf_and_no_others() {
    let mut community = Community::new();
    let roots: Vec<_> = (1..=4)
        .map(|of| {
            community.enrolled(&of.to_string(), of);
            community.root()
        })
        .collect();
    community.remove("3");
    let is_live: Vec<_> = roots.iter().map(|root| community.is_live(*root)).collect();
    assert_eq!(is_live, [true, true, false, false]);
    community.remove("1");
    assert!(roots.iter().all(|root| !community.is_live(*root)));
    assert_eq!((community.loaded.live.count(), age(&community, community.root())), (1, Some(RootAge::Newest)));
}

#[test]
fn a_root_that_comes_back_by_removals_is_the_newest_again() {
    let mut community = Community::new();
    community.enrolled("A", 1);
    let root = community.root();
    community.now = community.now.plus(5);
    community.enrolled("B", 2);
    assert_eq!(age(&community, root), Some(RootAge::Seconds(0)));
    community.now = community.now.plus(5);
    community.remove("B");
    // The tree of leaf 1 and a 0 has the root of the tree of leaf 1.
    assert_eq!((community.root(), age(&community, root)), (root, Some(RootAge::Newest)));
    community.now = community.now.plus(5);
    community.enrolled("C", 3);
    community.now = community.now.plus(5);
    assert_eq!(age(&community, root), Some(RootAge::Seconds(5)), "from its last replacement");
    community.remove("A");
    assert_eq!(age(&community, root), None);
}

#[test]
fn roots_that_are_too_old_for_any_request_are_forgotten_at_the_next_change() {
    let mut community = Community::new();
    community.enrolled("A", 1);
    let first = community.root();
    community.enrolled("B", 2);
    let second = community.root();
    let most = *MAX_AGE.end();
    community.now = community.now.plus(most);
    community.enrolled("C", 3);
    assert_eq!(age(&community, first), Some(RootAge::Seconds(most)), "the last second counts");
    community.now = community.now.plus(1);
    community.enrolled("D", 4);
    assert_eq!(age(&community, first), None);
    assert_eq!(age(&community, second), Some(RootAge::Seconds(1)));
    let versions: Vec<_> = community.loaded.live.versions().map(|(version, _)| version).collect();
    assert_eq!(versions, [2, 3, 4]);
}

#[test]
fn a_page_is_of_the_root_that_has_it() {
    let mut community = Community::with_removed(PAGE_LEAVES - 1);
    community.enrolled("A", 1);
    let full = page_root(&community.leaves());
    community.enrolled("B", 2);
    assert_eq!(community.loaded.live.page_with(full).map(|(page, _)| page), Some(0));
    let page_roots = community.loaded.tree.page_roots();
    assert_eq!((page_roots.len(), page_roots[0]), (2, full));
    community.remove("A");
    assert_eq!(community.loaded.live.page_with(full), None, "no live root has it");
    let second = community.loaded.live.page_with(page_roots[1]);
    assert_eq!(second.map(|(page, _)| page), Some(1), "the other page stays as it is");
}

#[test]
fn roots_that_end_early_take_the_pages_that_no_other_root_has() {
    let mut community = Community::with_removed(PAGE_LEAVES - 2);
    let mut pages = Vec::new();
    for (of, number) in (1..).zip(["A", "B", "C", "D"]) {
        community.enrolled(number, of);
        pages.push(community.loaded.tree.page_roots());
    }
    let versions: Vec<_> = community.loaded.live.versions().map(|(version, _)| version).collect();
    let newest = versions[versions.len() - 1];
    // A and B are on the first page, C and D on the second.
    let has = |community: &Community, root| community.loaded.live.page_with(root).is_some();
    let of = |of: usize| versions[versions.len() - 5 + of];
    // Only A's root has its first page; B's has that of the later roots.
    community.end_roots(&BTreeSet::from([of(1), of(2)]));
    assert_eq!((has(&community, pages[0][0]), has(&community, pages[1][0])), (false, true));
    assert!(has(&community, pages[2][1]) && has(&community, pages[3][1]));
    // The newest root does not end, nor what never was.
    community.end_roots(&BTreeSet::from([of(3), newest, newest + 9]));
    assert_eq!((has(&community, pages[2][1]), has(&community, pages[3][1])), (false, true));
    assert_eq!(age(&community, community.root()), Some(RootAge::Newest));
    let live: Vec<_> = community.loaded.live.versions().map(|(version, _)| version).collect();
    assert!(live.contains(&newest) && !live.contains(&of(1)) && !live.contains(&of(3)), "{live:?}");
    // The group goes on.
    community.enrolled("E", 5);
    community.remove("A");
    let live: Vec<_> = community.loaded.live.versions().map(|(version, _)| version).collect();
    assert_eq!(live, [1, newest + 2], "the one without A, and the newest");
}

/// What a person does, or what is done to the person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Joins, or comes back, with a new leaf.
    Come,
    /// Comes back with the leaf from before.
    ComeWithOldLeaf,
    Replace,
    ReplaceByCode,
    Leave,
    Clear,
    Remove,
}

#[derive(Clone, Debug)]
struct Moment {
    seconds: u64,
    acts: Vec<(u8, Kind)>,
}

fn moments() -> impl Strategy<Value = Vec<Moment>> {
    let kind = prop_oneof![
        6 => Just(Kind::Come),
        2 => Just(Kind::ComeWithOldLeaf),
        2 => Just(Kind::Replace),
        2 => Just(Kind::ReplaceByCode),
        1 => Just(Kind::Leave),
        1 => Just(Kind::Clear),
        2 => Just(Kind::Remove),
    ];
    let seconds = prop_oneof![6 => 0..100_u64, 1 => 80_000..100_000_u64, 1 => Just(*MAX_AGE.end())];
    let moment = (seconds, prop::collection::vec((0..12_u8, kind), 1..4));
    prop::collection::vec(moment.prop_map(|(seconds, acts)| Moment { seconds, acts }), 1..40)
}

/// The community, and beside it the tree of each version and what should count.
struct Beside {
    community: Community,
    next_leaf: u64,
    trees: BTreeMap<u64, GroupTree>,
    /// Live versions, each with the time of its replacement.
    live: BTreeMap<u64, Option<UnixSeconds>>,
}

impl Beside {
    fn new(removed: usize) -> Self {
        let community = Community::with_removed(removed);
        let trees = [(1, community.loaded.tree.clone())].into();
        Self { community, next_leaf: 0, trees, live: [(1, None)].into() }
    }

    fn happen(&mut self, moment: &Moment) {
        let Self { community, next_leaf, trees, live } = self;
        community.now = community.now.plus(moment.seconds);
        let (expires_on, before) = (community.today().plus(1), community.loaded.tree.clone());
        let acts: Vec<_> =
            moment.acts.iter().map(|(person, kind)| (member(&person.to_string()), *person, *kind)).collect();
        let last_leaf = |number: &MemberNumber| community.members.get(number).and_then(|member| member.leaf);
        let last_leaves: Vec<_> = acts.iter().map(|(number, ..)| last_leaf(number).unwrap_or(leaf(1))).collect();
        let version_before = community.loaded.record.version;
        let Ok(()) = community.step(|step| {
            for ((number, person, kind), last) in acts.iter().zip(last_leaves) {
                *next_leaf += 1;
                let (new, nullifier) = (leaf(1000 + *next_leaf), nullifier((*person).into()));
                let code = Code::from_random_bytes(std::array::from_fn(|byte| next_leaf.to_be_bytes()[byte % 8]));
                let enrolled = match kind {
                    Kind::Clear => Ok(step.clear_left(number).map(|()| None)?),
                    Kind::Remove => Ok(step.remove(number).map(|_| None)?),
                    Kind::Replace => step.enrol(&replace(1, new, nullifier, 1))?.map(Some),
                    Kind::Leave => {
                        let token = Token::ReplacementSecret(secret(1));
                        step.enrol(&request(LinkAct::Leave, token, last, nullifier, 0))?.map(Some)
                    }
                    Kind::Come | Kind::ComeWithOldLeaf | Kind::ReplaceByCode => {
                        step.invite(number, InvitedMembers::All, expires_on, || code.clone())?;
                        let request = match kind {
                            Kind::Come => join(&code, new, nullifier, 1),
                            Kind::ComeWithOldLeaf => join(&code, last, nullifier, 1),
                            _ => replace_by_code(&code, new, nullifier, 1),
                        };
                        step.enrol(&request)?.map(Some)
                    }
                };
                // Which of them are refused is not looked at here.
                drop(enrolled);
            }
            Ok::<_, Infallible>(())
        });
        let version = community.loaded.record.version;
        if version == version_before {
            return;
        }
        // A version lives while no leaf of its tree was touched; then its age ends it.
        let now = community.now;
        let touched: Vec<_> = (0..before.size())
            .filter(|position| before.leaf(*position) != FieldNumber::ZERO)
            .filter(|position| community.loaded.since[*position as usize] == version)
            .collect();
        let newest = live.last_entry().filter(|entry| entry.get().is_none());
        if let Some(mut newest) = newest {
            newest.insert(Some(now));
        }
        let has_touched = |live: u64| {
            let tree = &trees[&live];
            touched.iter().any(|position| tree.leaf(*position) == before.leaf(*position))
        };
        live.retain(|live, replaced_at| {
            !has_touched(*live) && replaced_at.is_none_or(|replaced_at| now.since(replaced_at) <= *MAX_AGE.end())
        });
        trees.insert(version, community.loaded.tree.clone());
        live.insert(version, None);
    }

    fn check(&self) {
        let Self { community, trees, live, .. } = self;
        let loaded = &community.loaded;
        let found: BTreeMap<_, _> = loaded.live.versions().map(|(version, root)| (version, root.replaced_at)).collect();
        assert_eq!(found, *live);
        let mut with_live_root = BTreeSet::new();
        for version in live.keys() {
            let tree = &trees[version];
            assert!(loaded.live.age(tree.root(), community.now).is_some());
            for (page, root) in tree.page_roots().into_iter().enumerate() {
                // The page is made from the present leaves, and has the leaves of that time.
                let mut leaves = leaves_at(&loaded.stored_page(page), *version);
                leaves.truncate(tree.page_leaves(page).len());
                assert_eq!(leaves, tree.page_leaves(page), "page {page} of version {version}");
                let (of, at) = loaded.live.page_with(root).expect("the page of a live root");
                let served = leaves_at(&loaded.stored_page(of as usize), at);
                let filled = |leaves: &[FieldNumber]| {
                    let mut leaves = leaves.to_vec();
                    leaves.resize(PAGE_LEAVES, FieldNumber::ZERO);
                    leaves
                };
                assert_eq!(filled(&served), filled(&leaves), "page root {root} of version {version}");
                with_live_root.insert(root);
            }
        }
        for root in trees.values().flat_map(GroupTree::page_roots) {
            assert_eq!(loaded.live.page_with(root).is_some(), with_live_root.contains(&root), "{root}");
        }
        for root in trees.values().map(GroupTree::root) {
            let is_live = live.keys().any(|version| trees[version].root() == root);
            assert_eq!(loaded.live.age(root, community.now).is_some(), is_live);
        }
        // No page root is stored that no live root has.
        for (page, since, root) in loaded.live.page_roots() {
            let has = |version: &u64| trees[version].page_roots().get(page as usize) == Some(&root);
            assert!(live.keys().any(has), "page {page} since {since}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn pages_of_older_live_roots_are_made_from_the_present_leaves(
        removed in (PAGE_LEAVES - 6)..(PAGE_LEAVES + 2),
        moments in moments(),
    ) {
        let mut beside = Beside::new(removed);
        beside.check();
        for moment in &moments {
            beside.happen(moment);
            beside.check();
        }
        // Hashed from the leaves once more: the oldest live root, and the newest.
        let loaded = &beside.community.loaded;
        for version in [beside.live.keys().next(), beside.live.keys().next_back()].into_iter().flatten() {
            let pages = 0..loaded.tree.page_roots().len();
            let leaves: Vec<_> = pages.flat_map(|page| leaves_at(&loaded.stored_page(page), *version)).collect();
            prop_assert_eq!(GroupTree::of_leaves(&leaves).root(), beside.trees[version].root());
        }
    }
}
