//! The roots of a group that proofs may be made against, and the pages of their trees.
//!
//! A root stays live when a member joins, and ages from then on. When a leaf is removed or
//! replaced, every root that had it ends at once. So for each live root, every leaf that its tree
//! had is still in the tree: the tree of the root is the present one without the leaves that came
//! after it. Old trees are therefore not stored: each leaf has the first version that has it, and a
//! page of an older root is made from the present leaves.
//!
//! Roots are compared by value: one that comes back by removals is the newest again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::ops::Bound;

use super::names::FieldNumber;
use super::records::{LiveRootRecord, StoredLeaf};
use crate::time::UnixSeconds;
use crate::tree::Root;
use crate::verification::request::MAX_AGE;
use crate::verification::roots::RootAge;

/// The live roots of a group, by version, and the roots of its pages as far as a live root has
/// them.
#[derive(Clone, Debug, Default)]
pub struct LiveRoots {
    versions: BTreeMap<u64, LiveRootRecord>,
    /// The versions of each root.
    by_root: HashMap<Root, BTreeSet<u64>>,
    /// The roots of each page, by the first version that has them.
    pages: BTreeMap<u32, BTreeMap<u64, FieldNumber>>,
    /// The pages and versions of each page root.
    by_page_root: HashMap<FieldNumber, BTreeSet<(u32, u64)>>,
}

/// What changes in the stored live roots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveRootChanges {
    /// Versions with their new record; `None` for a root that ended.
    pub versions: BTreeMap<u64, Option<LiveRootRecord>>,
    /// Pages with the version from which on they have a root; `None` where no live root has it.
    pub pages: BTreeMap<(u32, u64), Option<FieldNumber>>,
}

impl LiveRoots {
    /// The live roots that are stored.
    pub fn new(
        versions: impl IntoIterator<Item = (u64, LiveRootRecord)>,
        pages: impl IntoIterator<Item = (u32, u64, FieldNumber)>,
    ) -> Self {
        let mut live = Self::default();
        let changes = LiveRootChanges {
            versions: versions.into_iter().map(|(version, record)| (version, Some(record))).collect(),
            pages: pages.into_iter().map(|(page, since, root)| ((page, since), Some(root))).collect(),
        };
        live.apply(&changes);
        live
    }

    /// How many roots are live.
    pub fn count(&self) -> usize {
        self.versions.len()
    }

    /// The live roots, by version.
    pub fn versions(&self) -> impl Iterator<Item = (u64, &LiveRootRecord)> {
        self.versions.iter().map(|(version, record)| (*version, record))
    }

    /// The roots of pages, with the first version that has each.
    pub fn page_roots(&self) -> impl Iterator<Item = (u32, u64, FieldNumber)> {
        self.pages.iter().flat_map(|(page, roots)| roots.iter().map(|(since, root)| (*page, *since, *root)))
    }

    /// The age of a root at `now`; `None` when it is not live.
    pub fn age(&self, root: Root, now: UnixSeconds) -> Option<RootAge> {
        let record = self.versions.get(self.by_root.get(&root)?.last()?)?;
        Some(record.replaced_at.map_or(RootAge::Newest, |replaced_at| RootAge::Seconds(now.since(replaced_at))))
    }

    /// The page with a root, and a version whose tree has it; `None` when no live root has it.
    pub fn page_with(&self, root: FieldNumber) -> Option<(u32, u64)> {
        let places = self.by_page_root.get(&root)?;
        places.iter().find_map(|(page, since)| Some((*page, self.live_version_with(*page, *since)?)))
    }

    /// A live version in which a page has the root that it has from version `since` on.
    fn live_version_with(&self, page: u32, since: u64) -> Option<u64> {
        let roots = self.pages.get(&page)?;
        let end = after(roots, since).unwrap_or(u64::MAX);
        self.versions.range(since..end).next().map(|(version, _)| *version)
    }

    /// What changes when a version after the newest has this root. `first_ended` is the first
    /// version that has a leaf which goes now: live roots of this version and later ones end.
    /// `pages` are the pages whose root changed. Roots that were replaced longer ago than any
    /// request allows are forgotten.
    pub fn next(
        &self,
        (version, root): (u64, LiveRootRecord),
        first_ended: Option<u64>,
        pages: &[(u32, FieldNumber)],
        now: UnixSeconds,
    ) -> LiveRootChanges {
        let is_over = |replaced_at: UnixSeconds| now.since(replaced_at) > *MAX_AGE.end();
        let is_forgotten = |record: &LiveRootRecord| record.replaced_at.is_some_and(is_over);
        // Versions are replaced in their order.
        let mut kept = self.versions.iter().skip_while(|(_, record)| is_forgotten(record)).map(|(live, _)| *live);
        let (first_kept, first_ended) = (kept.next().unwrap_or(version), first_ended.unwrap_or(version));
        let removed = self.versions.range(..first_kept).chain(self.versions.range(first_ended.max(first_kept)..));
        let mut changes = LiveRootChanges::default();
        changes.versions.extend(removed.map(|(live, _)| (*live, None)));
        if let Some((newest, record)) = self.versions.last_key_value()
            && !changes.versions.contains_key(newest)
            && record.replaced_at.is_none()
        {
            changes.versions.insert(*newest, Some(LiveRootRecord { replaced_at: Some(now), ..*record }));
        }
        changes.versions.insert(version, Some(root));
        // A page's root is kept while a live version has it: of the old ones those between the two
        // bounds, and the new one.
        let is_changed: BTreeSet<u32> = pages.iter().map(|(page, _)| *page).collect();
        for (page, roots) in &self.pages {
            let bound = first_ended.max(first_kept);
            // The last one from before the bound may have had live versions after it only.
            let across = roots.range(first_kept..bound).next_back();
            let old = roots.range(..first_kept).chain(across).chain(roots.range(bound..));
            for (since, _) in old {
                let end = after(roots, *since).unwrap_or(if is_changed.contains(page) { version } else { u64::MAX });
                let (first, last) = ((*since).max(first_kept), end.min(first_ended));
                let is_live = end > version || (first < last && self.versions.range(first..last).next().is_some());
                if !is_live {
                    changes.pages.insert((*page, *since), None);
                }
            }
        }
        changes.pages.extend(pages.iter().map(|(page, root)| ((*page, version), Some(*root))));
        changes
    }

    /// What changes when live roots end without a new one. The newest stays. A root may end before
    /// its time: wallets prove against the newest then.
    pub fn ended(&self, versions: &BTreeSet<u64>) -> LiveRootChanges {
        let newest = self.versions.keys().next_back().copied();
        let is_ending = |version: &&u64| Some(**version) != newest && self.versions.contains_key(*version);
        let mut changes = LiveRootChanges::default();
        changes.versions.extend(versions.iter().filter(is_ending).map(|version| (*version, None)));
        let (Some(first), Some(last)) = (versions.first(), versions.last()) else { return changes };
        for (page, roots) in &self.pages {
            // The last one from before the first version may have live versions from there on only.
            let across = roots.range(..*first).next_back();
            for (since, _) in across.into_iter().chain(roots.range(*first..=*last)) {
                let end = after(roots, *since).unwrap_or(u64::MAX);
                if self.versions.range(*since..end).all(|(version, _)| changes.versions.contains_key(version)) {
                    changes.pages.insert((*page, *since), None);
                }
            }
        }
        changes
    }

    /// Applies changes that were written.
    pub fn apply(&mut self, changes: &LiveRootChanges) {
        for (version, record) in &changes.versions {
            let before = match record {
                Some(record) => self.versions.insert(*version, *record),
                None => self.versions.remove(version),
            };
            if let Some(before) = before {
                remove_from(&mut self.by_root, &before.root, version);
            }
            if let Some(record) = record {
                self.by_root.entry(record.root).or_default().insert(*version);
            }
        }
        for ((page, since), root) in &changes.pages {
            let roots = self.pages.entry(*page).or_default();
            let before = match root {
                Some(root) => roots.insert(*since, *root),
                None => roots.remove(since),
            };
            if let Some(before) = before {
                remove_from(&mut self.by_page_root, &before, &(*page, *since));
            }
            if let Some(root) = root {
                self.by_page_root.entry(*root).or_default().insert((*page, *since));
            }
        }
    }
}

/// The next version that a page has another root from.
fn after(roots: &BTreeMap<u64, FieldNumber>, since: u64) -> Option<u64> {
    roots.range((Bound::Excluded(since), Bound::Unbounded)).next().map(|(next, _)| *next)
}

/// Removes a place from those of a root.
fn remove_from<Key: Eq + Hash, Place: Ord>(index: &mut HashMap<Key, BTreeSet<Place>>, root: &Key, place: &Place) {
    if let Some(places) = index.get_mut(root) {
        places.remove(place);
        if places.is_empty() {
            index.remove(root);
        }
    }
}

/// The leaves of a page in the tree of a live root: of the present ones those that its version has.
pub fn leaves_at(leaves: &[StoredLeaf], version: u64) -> Vec<FieldNumber> {
    let of_version = |stored: &StoredLeaf| if stored.since <= version { stored.leaf } else { FieldNumber::ZERO };
    leaves.iter().map(of_version).collect()
}
