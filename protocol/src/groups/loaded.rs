//! A group as it is loaded, and what a step of enrolment changes of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::live_roots::{LiveRootChanges, LiveRoots};
use super::names::{FieldNumber, MemberNumber, SecretHash};
use super::records::{CodeRecord, CopyId, GroupRecord, MemberRecord, PageRecord, SealedRecord, StoredLeaf};
use super::tree::{GroupTree, PAGE_LEAVES};

/// A group as it is loaded: its record, its tree, since when each leaf is there, and the live
/// roots.
#[derive(Clone, Debug)]
pub struct LoadedGroup {
    /// The record.
    pub record: GroupRecord,
    /// The tree.
    pub tree: GroupTree,
    /// The first version that has the leaf at each position.
    pub since: Vec<u64>,
    /// The positions of the leaves that are not 0.
    pub positions: HashMap<FieldNumber, u32>,
    /// The live roots.
    pub live: LiveRoots,
}

impl LoadedGroup {
    /// A group from its records. `pages` are in their order.
    pub fn new(record: GroupRecord, pages: Vec<PageRecord>, live: LiveRoots) -> Self {
        let since = pages.iter().flat_map(|page| page.leaves.iter().map(|stored| stored.since)).collect();
        let leaves = pages.iter().flat_map(|page| &page.leaves).zip(0_u32..);
        let positions = leaves.filter(|(stored, _)| stored.leaf != FieldNumber::ZERO);
        let positions = positions.map(|(stored, position)| (stored.leaf, position)).collect();
        let pages = pages.into_iter();
        let tree = GroupTree::of_pages(
            pages.map(|page| (page.leaves.iter().map(|stored| stored.leaf).collect::<Vec<_>>(), page.root)),
        );
        Self { record, tree, since, positions, live }
    }

    /// The leaves of a page as they are stored.
    pub fn stored_page(&self, page: usize) -> Vec<StoredLeaf> {
        let since = self.since.iter().skip(page * PAGE_LEAVES);
        self.tree
            .page_leaves(page)
            .iter()
            .zip(since)
            .map(|(leaf, since)| StoredLeaf { leaf: *leaf, since: *since })
            .collect()
    }

    /// A step that ends live roots, and changes nothing else. The newest stays.
    pub fn without_roots(&self, versions: &BTreeSet<u64>) -> GroupChanges {
        let live = self.live.ended(versions);
        let tree = TreeChanges { tree: self.tree.clone(), leaves: BTreeMap::new(), pages: BTreeMap::new(), live };
        GroupChanges {
            before: Some(self.record),
            after: GroupRecord { revision: self.record.revision + 1, ..self.record },
            members: BTreeMap::new(),
            codes: BTreeMap::new(),
            permits: BTreeMap::new(),
            enrolments: BTreeMap::new(),
            copies: BTreeMap::new(),
            tree: Some(tree),
            told: Vec::new(),
        }
    }

    /// Applies a step that was written.
    pub fn apply(&mut self, written: &GroupChanges) {
        self.record = written.after;
        let Some(tree) = &written.tree else { return };
        for (position, leaf) in &tree.leaves {
            let before = self.tree.leaf(*position);
            if self.positions.get(&before) == Some(position) {
                self.positions.remove(&before);
            }
            let index = *position as usize;
            if self.since.len() <= index {
                self.since.resize(index + 1, written.after.version);
            }
            self.since[index] = written.after.version;
            if *leaf != FieldNumber::ZERO {
                self.positions.insert(*leaf, *position);
            }
        }
        self.tree = tree.tree.clone();
        self.live.apply(&tree.live);
    }
}

/// What the tree of a group gets by a step.
#[derive(Clone, Debug)]
pub struct TreeChanges {
    /// The new tree.
    pub tree: GroupTree,
    /// The leaves that changed.
    pub leaves: BTreeMap<u32, FieldNumber>,
    /// The pages that changed, as they are stored.
    pub pages: BTreeMap<u32, PageRecord>,
    /// What changes in the live roots.
    pub live: LiveRootChanges,
}

/// What receivers of events are told of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberChange {
    /// The member number.
    pub member: MemberNumber,
    /// What happened.
    pub change: MemberChangeKind,
}

/// What happened to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberChangeKind {
    /// Joined, or came back.
    Joined,
    /// The leaf was replaced.
    Replaced,
    /// Left, or was removed.
    Removed,
}

crate::encode_enum!(MemberChangeKind { Joined = 0, Replaced = 1, Removed = 2 } of "a change of a member");

/// What a step writes, if the group's record is as it was read.
#[derive(Clone, Debug)]
pub struct GroupChanges {
    /// The group's record as it was read; `None` for a new group.
    pub before: Option<GroupRecord>,
    /// The record from then on.
    pub after: GroupRecord,
    /// Member numbers.
    pub members: BTreeMap<MemberNumber, MemberRecord>,
    /// Codes; `None` for one that ended.
    pub codes: BTreeMap<SecretHash, Option<CodeRecord>>,
    /// Codes of other groups that permitted copies which are kept from now on: as they were, and as
    /// they are.
    pub permits: BTreeMap<SecretHash, (CodeRecord, CodeRecord)>,
    /// New enrolment nullifiers, with the member number of each.
    pub enrolments: BTreeMap<FieldNumber, MemberNumber>,
    /// Sealed copies that are kept from now on, or whose code was used with another one: as they
    /// were, and as they are.
    pub copies: BTreeMap<CopyId, (SealedRecord, SealedRecord)>,
    /// The tree; `None` when it stays as it is.
    pub tree: Option<TreeChanges>,
    /// What receivers of events are told.
    pub told: Vec<MemberChange>,
}
