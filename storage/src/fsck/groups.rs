//! Checks the records of groups and of sealed copies: trees and roots are hashed again, and what is
//! kept in two places is compared.
//!
//! A tree is checked page by page: the roots of a page follow from the leaves that came one after
//! the other, and the live roots from the roots of the pages, so that each node is hashed once.
//! One group's leaves and roots are in memory at a time, as in a running service.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Display;
use std::ops::Bound;
use std::sync::{Mutex, PoisonError};

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use rayon::slice::ParallelSlice;
use selfsame_protocol::encoding::Encoding;
use selfsame_protocol::groups::names::{FieldNumber, GroupId};
use selfsame_protocol::groups::records::{
    EnrolmentKey, GroupRecord, LiveRootRecord, MemberKey, MemberRecord, PageRecord, PageRootKey, PartKey, RollKey,
    RollPageKey, RollRecord, Standing,
};
use selfsame_protocol::groups::tree::{Levels, MOST_POSITIONS, PAGE_LEAVES, page_root, root_of_pages, zero_node};
use selfsame_protocol::tree::Root;

use super::report::{Findings, Merge, Reading, find};
use crate::error::StoreError;
use crate::schema::family::{self, Family};

/// The level of the tree that page roots are nodes of.
const PAGE_ROOT_LEVEL: usize = 10;

/// The most pages of a group. Others are findings, and nothing is made of them.
const MOST_PAGES: usize = MOST_POSITIONS as usize / PAGE_LEAVES;

/// Live roots that a thread checks one after the other.
const ROOTS_TOGETHER: usize = 1024;

/// How many groups a store has, and how many leaves that are not 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GroupCount {
    pub groups: u64,
    pub members: u64,
}

/// Checks groups and sealed copies.
pub(super) fn check_groups(reading: Reading<'_>) -> Result<(Findings, GroupCount), StoreError> {
    let mut findings = Findings::default();
    let mut groups: BTreeMap<GroupId, Group> = BTreeMap::new();
    each(reading, &family::GROUPS, |id, record| {
        groups.insert(id, Group { record, pages: Vec::new(), leaves: Vec::new() });
        Ok(())
    })?;
    let mut known = Known { reading, groups, findings: &mut findings };
    known.check_trees()?;
    known.check_members()?;
    known.check_rolls()?;
    let groups = known.groups;
    findings.append(check_codes(reading, &groups)?);
    findings.append(check_enrolments(reading)?);
    findings.append(check_leaving(reading)?);
    findings.append(check_copies(reading)?);
    let members = groups.values().map(|group| u64::from(group.record.members)).sum();
    Ok((findings, GroupCount { groups: groups.len() as u64, members }))
}

/// Visits every record of a family that decodes, in the order of the keys.
fn each<Key: Encoding, Value: Encoding>(
    reading: Reading<'_>,
    family: &Family<Key, Value>,
    mut visit: impl FnMut(Key, Value) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    for record in reading.store.database().records(family)? {
        reading.counter.add_one()?;
        match record {
            // A finding of its own.
            Err(StoreError::Damaged { .. }) => {}
            record => {
                let (key, value) = record?;
                visit(key, value)?;
            }
        }
    }
    Ok(())
}

/// What is known of a group.
struct Group {
    record: GroupRecord,
    /// The pages, by their number.
    pages: Vec<(usize, PageRecord)>,
    /// The leaves of all pages.
    leaves: Vec<FieldNumber>,
}

impl Group {
    /// The leaf at a position; `None` behind the last one.
    fn leaf(&self, position: u32) -> Option<FieldNumber> {
        self.leaves.get(position as usize).copied()
    }
}

/// The roots of pages of a group, by page and by the first version that has each.
type PageRoots = BTreeMap<u32, BTreeMap<u64, FieldNumber>>;

/// The groups of a store, and what is wrong with them.
struct Known<'a> {
    reading: Reading<'a>,
    groups: BTreeMap<GroupId, Group>,
    findings: &'a mut Findings,
}

impl Known<'_> {
    /// Notes what belongs to a group that has no record.
    fn stranger(findings: &mut Findings, family: &str, group: &GroupId, what: impl Display) {
        findings.add(format!("{family} has {what} of group {group}, which has no record"));
    }

    fn check_trees(&mut self) -> Result<(), StoreError> {
        let Self { reading, groups, findings } = self;
        let mut roots: BTreeMap<GroupId, BTreeMap<u64, LiveRootRecord>> = BTreeMap::new();
        let mut page_roots: BTreeMap<GroupId, PageRoots> = BTreeMap::new();
        each(*reading, &family::GROUP_PAGES, |PartKey { group, number }, page| {
            match groups.get_mut(&group) {
                Some(_) if number >= MOST_PAGES as u64 => {
                    findings.add(format!("group {group}: page {number} is behind the last one that a group can have"));
                }
                Some(known) => known.pages.push((number as usize, page)),
                None => Self::stranger(findings, "group_pages", &group, format_args!("page {number}")),
            }
            Ok(())
        })?;
        each(*reading, &family::GROUP_ROOTS, |PartKey { group, number }, root| {
            match groups.contains_key(&group) {
                true => _ = roots.entry(group).or_default().insert(number, root),
                false => Self::stranger(findings, "group_roots", &group, format_args!("the root of version {number}")),
            }
            Ok(())
        })?;
        each(*reading, &family::GROUP_PAGE_ROOTS, |PageRootKey { group, page, since }, root| {
            match groups.contains_key(&group) {
                true if page as usize >= MOST_PAGES => {
                    findings.add(format!("group {group}: page {page} is behind the last one, and has a root"));
                }
                true => _ = page_roots.entry(group).or_default().entry(page).or_default().insert(since, root),
                false => {
                    let what = format_args!("the root of page {page} from version {since} on");
                    Self::stranger(findings, "group_page_roots", &group, what);
                }
            }
            Ok(())
        })?;
        for (id, group) in groups {
            let roots = roots.remove(id).unwrap_or_default();
            let page_roots = page_roots.remove(id).unwrap_or_default();
            let tree = Tree { id, record: group.record, pages: &group.pages, roots, page_roots };
            findings.append(tree.check());
            for (number, page) in std::mem::take(&mut group.pages) {
                // Each leaf is at its position, also when a page before it is missing.
                group.leaves.resize(number * PAGE_LEAVES, FieldNumber::ZERO);
                group.leaves.extend(page.leaves.iter().map(|stored| stored.leaf));
            }
        }
        Ok(())
    }

    fn check_members(&mut self) -> Result<(), StoreError> {
        let Self { reading, groups, findings } = self;
        let mut counts: BTreeMap<GroupId, MemberCount> = BTreeMap::new();
        each(*reading, &family::GROUP_MEMBERS, |key, member| {
            let Some(group) = groups.get(&key.group) else {
                Self::stranger(findings, "group_members", &key.group, format_args!("member {}", key.member));
                return Ok(());
            };
            let count = counts.entry(key.group).or_default();
            count.invited += 1;
            count.open_codes += u32::from(member.open_code.is_some());
            let who = format!("group {}: member {}", key.group, key.member);
            if let Some(position) = member.position {
                let owned = &mut count.owned;
                owned.resize(group.record.size.min(MOST_POSITIONS) as usize, false);
                match owned.get_mut(position as usize) {
                    Some(is_owned) if !*is_owned => *is_owned = true,
                    Some(_) => findings.add(format!("{who} has position {position}, which another member has too")),
                    None => findings.add(format!(
                        "{who} has position {position}, but the group has {} positions",
                        group.record.size
                    )),
                }
            }
            check_leaf(group, &member, &who, findings);
            check_links_of_member(*reading, &key, &member, &who, findings)
        })?;
        for (id, group) in groups {
            let MemberCount { invited, open_codes, owned } = counts.remove(id).unwrap_or_default();
            let GroupRecord { size, members, invited: known, open_codes: open, .. } = group.record;
            let owned_positions = owned.iter().filter(|is_owned| **is_owned).count();
            let leaves = group.leaves.iter().filter(|leaf| **leaf != FieldNumber::ZERO).count();
            for (what, recorded, found) in [
                ("positions", size, owned_positions),
                ("leaves that are not 0", members, leaves),
                ("member numbers", known, invited as usize),
                ("open codes", open, open_codes as usize),
            ] {
                if recorded as usize != found {
                    findings.add(format!("group {id}: its record has {recorded} {what}, but there are {found}"));
                }
            }
        }
        Ok(())
    }

    fn check_rolls(&mut self) -> Result<(), StoreError> {
        let Self { reading, groups, findings } = self;
        let sizes = Mutex::new(HashMap::new());
        findings.append(reading.check_each(&family::GROUP_ROLL_PAGES, |key, page, findings| {
            let RollPageKey { group, root } = key;
            let found = if page.leaves.len() > PAGE_LEAVES { None } else { Some(page_root(&page.leaves)) };
            if found != Some(root) {
                findings.add(format!("group {group}: the page of rolls with the root {root} has other leaves"));
            }
            let members = page.leaves.iter().filter(|leaf| **leaf != FieldNumber::ZERO).count() as u64;
            sizes.lock().unwrap_or_else(PoisonError::into_inner).insert((group, root), members);
            Ok(())
        })?);
        let sizes = sizes.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut used = HashSet::new();
        each(*reading, &family::GROUP_ROLLS, |RollKey { group, name }, roll| {
            let RollRecord { size, members, root, page_roots, .. } = roll;
            let Some(known) = groups.get(&group) else {
                Self::stranger(findings, "group_rolls", &group, format_args!("roll {name}"));
                return Ok(());
            };
            let which = format!("group {group}: roll {name}");
            let found = root_of_pages(&page_roots);
            if found != root {
                findings.add(format!("{which} has the root {}, but its pages have {}", hex(root), hex(found)));
            }
            let pages = (size as usize).div_ceil(PAGE_LEAVES);
            if page_roots.len() != pages || size > known.record.size {
                let (found, of_group) = (page_roots.len(), known.record.size);
                findings.add(format!(
                    "{which} has {size} positions in {found} pages, and the group has {of_group} positions"
                ));
            }
            let mut on_pages = Some(0_u64);
            for page in &page_roots {
                used.insert((group, *page));
                let of_page = sizes.get(&(group, *page));
                if of_page.is_none() {
                    findings.add(format!("{which} has the page {page}, which is missing"));
                }
                on_pages = on_pages.zip(of_page).map(|(sum, of_page)| sum + of_page);
            }
            if let Some(found) = on_pages.filter(|found| *found != u64::from(members)) {
                findings.add(format!("{which} has {members} members, but its pages have {found}"));
            }
            Ok(())
        })?;
        // A replica writes the pages of a large roll before the roll, and removes them later when
        // it dies in between. Only those of no group can come from nowhere.
        let is_replica = reading.store.membership()?.is_some();
        let groups = &*groups;
        findings.append(reading.check_each(
            &family::GROUP_ROLL_PAGES,
            |RollPageKey { group, root }, _, findings| {
                match (groups.contains_key(&group), used.contains(&(group, root))) {
                    (false, _) => Self::stranger(findings, "group_roll_pages", &group, format_args!("page {root}")),
                    (true, false) if !is_replica => {
                        findings.add(format!("group {group}: no roll has the page {root} of rolls"));
                    }
                    (true, _) => {}
                }
                Ok(())
            },
        )?);
        Ok(())
    }
}

/// What a walk over the members of a group counts.
#[derive(Default)]
struct MemberCount {
    invited: u32,
    open_codes: u32,
    /// Whether a member has each position.
    owned: Vec<bool>,
}

/// A root as people read it.
fn hex(root: Root) -> FieldNumber {
    FieldNumber(root.to_number())
}

// Trees and live roots.

/// What is stored of the tree of a group, and of its live roots.
struct Tree<'a> {
    id: &'a GroupId,
    record: GroupRecord,
    pages: &'a [(usize, PageRecord)],
    roots: BTreeMap<u64, LiveRootRecord>,
    page_roots: PageRoots,
}

impl Tree<'_> {
    fn check(&self) -> Findings {
        let mut findings = Findings::default();
        let pages = (self.record.size as usize).div_ceil(PAGE_LEAVES);
        let filled = |page: usize| (self.record.size as usize).saturating_sub(page * PAGE_LEAVES).min(PAGE_LEAVES);
        let are_whole = self.pages.len() == pages
            && (0..)
                .zip(self.pages)
                .all(|(page, (number, record))| page == *number && record.leaves.len() == filled(page));
        if !are_whole {
            let leaves: usize = self.pages.iter().map(|(_, page)| page.leaves.len()).sum();
            findings.add(format!(
                "group {}: it has {} positions, but {} pages with {leaves} leaves",
                self.id,
                self.record.size,
                self.pages.len()
            ));
        }
        let of_pages: Vec<Findings> =
            self.pages.par_iter().map(|(number, page)| self.check_page(*number, page)).collect();
        of_pages.into_iter().for_each(|of_page| findings.append(of_page));
        self.check_which_roots_are_kept(&mut findings);
        let versions: Vec<_> = self.roots.iter().collect();
        let parts: Vec<Findings> =
            versions.par_chunks(ROOTS_TOGETHER).map(|versions| self.check_live_roots(versions)).collect();
        parts.into_iter().for_each(|part| findings.append(part));
        findings
    }

    /// Checks the root of a page, and those that it had, with one leaf after the other.
    fn check_page(&self, number: usize, page: &PageRecord) -> Findings {
        let mut findings = Findings::default();
        let id = self.id;
        if page.leaves.len() > PAGE_LEAVES {
            findings.add(format!("group {id}: page {number} has {} leaves", page.leaves.len()));
            return findings;
        }
        let newest = self.record.version;
        if let Some(stored) = page.leaves.iter().find(|stored| stored.since > newest) {
            findings.add(format!(
                "group {id}: page {number} has a leaf from version {} on, but the group's version is {newest}",
                stored.since
            ));
        }
        let mut by_version: BTreeMap<u64, BTreeMap<usize, FieldNumber>> = BTreeMap::new();
        for (index, stored) in page.leaves.iter().enumerate().filter(|(_, stored)| stored.leaf != FieldNumber::ZERO) {
            by_version.entry(stored.since).or_default().insert(index, stored.leaf);
        }
        let mut levels = Levels::of_page(Vec::new());
        let none = BTreeMap::new();
        let roots = u32::try_from(number).ok().and_then(|number| self.page_roots.get(&number)).unwrap_or(&none);
        let mut wrong = Vec::new();
        for (since, root) in roots {
            let later = by_version.split_off(&since.saturating_add(1));
            let reached = std::mem::replace(&mut by_version, later);
            levels.set(&reached.into_values().flatten().collect());
            if levels.top() != *root {
                wrong.push((*since, *root, levels.top()));
            }
        }
        levels.set(&by_version.into_values().flatten().collect());
        if levels.top() != page.root {
            let found = levels.top();
            findings.add(format!("group {id}: page {number} has the root {}, but its leaves give {found}", page.root));
        } else if roots.last_key_value().is_none_or(|(_, root)| *root != page.root) {
            findings.add(format!("group {id}: page {number} has the root {}, which no version has", page.root));
        }
        for (since, root, found) in wrong {
            findings.add(format!(
                "group {id}: page {number} has the root {root} from version {since} on, but its leaves of that \
                 version give {found}"
            ));
        }
        findings
    }

    /// Checks that the newest root is live, that the others were replaced, and that a page's root
    /// is kept exactly while a live root has it.
    fn check_which_roots_are_kept(&self, findings: &mut Findings) {
        let Self { id, record, .. } = self;
        let newest = self.roots.last_key_value();
        match newest {
            None if record.version == 0 && record.root == root_of_pages(&[]) => {}
            Some((version, root)) if *version == record.version && root.root == record.root => {}
            _ => {
                let found = newest
                    .map_or("none".to_owned(), |(version, root)| format!("{} of version {version}", hex(root.root)));
                findings.add(format!(
                    "group {id}: its root is {} of version {}, but the newest live root is {found}",
                    hex(record.root),
                    record.version
                ));
            }
        }
        for (version, root) in &self.roots {
            if root.replaced_at.is_none() != newest.is_some_and(|(newest, _)| newest == version) {
                findings.add(format!("group {id}: the live root of version {version} has a wrong time of replacement"));
            }
        }
        for (page, roots) in &self.page_roots {
            let mut sinces = roots.keys().copied().peekable();
            let first_with = self.roots.iter().find(|(_, root)| root.size as usize > *page as usize * PAGE_LEAVES);
            if let Some(((version, _), first)) = first_with.zip(sinces.peek())
                && first > version
            {
                findings.add(format!(
                    "group {id}: page {page} has no root before version {first}, but the root of version {version} is \
                     live"
                ));
            }
            while let Some(since) = sinces.next() {
                let end = sinces.peek().copied().unwrap_or(u64::MAX);
                if self.roots.range(since..end).next().is_none() {
                    findings.add(format!(
                        "group {id}: page {page} has a root from version {since} on, but no live root has it: it is \
                         never deleted"
                    ));
                }
            }
        }
        // The size of a tree is at least that of the tree before, and behind its last leaf.
        let leaves = self.pages.iter().flat_map(|(number, page)| {
            let positions = (number * PAGE_LEAVES) as u64..;
            positions.zip(&page.leaves).filter(|(_, stored)| stored.leaf != FieldNumber::ZERO)
        });
        let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
        for (position, stored) in leaves {
            let size = sizes.entry(stored.since).or_default();
            *size = (*size).max(position + 1);
        }
        let (mut at_least, mut sizes) = (0_u64, sizes.into_iter().peekable());
        for (version, root) in &self.roots {
            while let Some((_, size)) = sizes.next_if(|(since, _)| since <= version) {
                at_least = at_least.max(size);
            }
            let size = u64::from(root.size);
            let is_newest = *version == record.version;
            if size < at_least || size > u64::from(record.size) || (is_newest && size != u64::from(record.size)) {
                findings.add(format!(
                    "group {id}: the live root of version {version} has {size} positions, which cannot be: the tree \
                     had {at_least}, and has {}",
                    record.size
                ));
            }
            at_least = at_least.max(size);
        }
    }

    /// Checks live roots, which follow each other, by the roots of the pages.
    fn check_live_roots(&self, versions: &[(&u64, &LiveRootRecord)]) -> Findings {
        let mut findings = Findings::default();
        let Some((first, last)) = versions.first().zip(versions.last()) else { return findings };
        let mut changes: BTreeMap<u64, BTreeMap<usize, FieldNumber>> = BTreeMap::new();
        let mut page_roots = Vec::new();
        for (page, roots) in &self.page_roots {
            let page = *page as usize;
            if let Some((_, root)) = roots.range(..=*first.0).next_back() {
                page_roots.resize(page_roots.len().max(page + 1), zero_node(PAGE_ROOT_LEVEL));
                page_roots[page] = *root;
            }
            for (since, root) in roots.range((Bound::Excluded(*first.0), Bound::Included(*last.0))) {
                changes.entry(*since).or_default().insert(page, *root);
            }
        }
        let mut levels = Levels::of_page_roots(page_roots);
        for (version, root) in versions {
            let later = changes.split_off(&version.saturating_add(1));
            let reached = std::mem::replace(&mut changes, later);
            levels.set(&reached.into_values().flatten().collect());
            if levels.top() != hex(root.root) {
                findings.add(format!(
                    "group {}: the live root of version {version} is {}, but its pages give {}",
                    self.id,
                    hex(root.root),
                    levels.top()
                ));
            }
        }
        findings
    }
}

// Members, codes, enrolment nullifiers and those who leave.

/// Checks that what a member number has fits how it stands, and that its leaf is at its position.
fn check_leaf(group: &Group, member: &MemberRecord, who: &str, findings: &mut Findings) {
    let MemberRecord { standing, position, leaf, enrolment, replacement_hash, .. } = member;
    let has_leaf = matches!(standing, Standing::Member | Standing::Leaving);
    let parts = [position.is_some(), leaf.is_some(), enrolment.is_some(), replacement_hash.is_some()];
    let has_all = parts.iter().all(|has| *has);
    let has_none = parts.iter().all(|has| !*has);
    let is_whole = match standing {
        Standing::Invited => has_none,
        Standing::Removed => has_all || has_none,
        Standing::Member | Standing::Leaving | Standing::Left => has_all,
    };
    if !is_whole {
        let standing = standing.name();
        findings.add(format!("{who} is {standing}, which does not fit its position, leaf, nullifier or secret"));
    }
    let Some(position) = position else { return };
    let expected = leaf.filter(|_| has_leaf).unwrap_or_default();
    // A position behind the last one, or in a page that is missing, is a finding of its own.
    if let Some(found) = group.leaf(*position).filter(|found| *found != expected) {
        let standing = standing.name();
        findings.add(format!(
            "{who} is {standing}, so the leaf at position {position} must be {expected}, but it is {found}"
        ));
    }
}

/// Checks that what a member record names is there, and names it.
fn check_links_of_member(
    reading: Reading<'_>,
    key: &MemberKey,
    member: &MemberRecord,
    who: &str,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let store = reading.store;
    if member.standing == Standing::Leaving && find(store, &family::GROUP_LEAVING, key)?.is_none() {
        findings.add(format!("{who} has left, but group_leaving lacks it: its leaf never goes"));
    }
    if let Some(nullifier) = member.enrolment {
        let enrolment = EnrolmentKey { group: key.group, nullifier };
        if find(store, &family::GROUP_ENROLMENTS, &enrolment)?.as_ref() != Some(&key.member) {
            findings.add(format!("{who} has the enrolment nullifier {nullifier}, which is not kept as this member's"));
        }
    }
    if let Some(hash) = member.open_code {
        let code = find(store, &family::GROUP_CODES, &hash)?;
        let is_its_own =
            code.is_some_and(|code| code.group == key.group && code.member == key.member && code.used_for.is_none());
        if !is_its_own {
            findings.add(format!("{who} has the open code {hash}, but no open code of this member has that hash"));
        }
    }
    Ok(())
}

fn check_codes(reading: Reading<'_>, groups: &BTreeMap<GroupId, Group>) -> Result<Findings, StoreError> {
    let store = reading.store;
    reading.check_each(&family::GROUP_CODES, |hash, code, findings| {
        let which = format!("group {}: the code {hash} of member {}", code.group, code.member);
        if !groups.contains_key(&code.group) {
            Known::stranger(findings, "group_codes", &code.group, format_args!("the code {hash}"));
            return Ok(());
        }
        let key = MemberKey { group: code.group, member: code.member };
        match (find(store, &family::GROUP_MEMBERS, &key)?, code.used_for) {
            (None, _) => findings.add(format!("{which} is there, but the member is unknown")),
            (Some(member), None) if member.open_code != Some(hash) => {
                findings.add(format!("{which} is open, but the member has another open code, or none"));
            }
            _ => {}
        }
        let Some(id) = code.copy else { return Ok(()) };
        if code.used_for.is_some() {
            findings.add(format!("{which} is used, and still has the sealed copy {id:#x}"));
        }
        // The copy may have been deleted since, or kept by what another code brought.
        if find(store, &family::SEALED_COPIES, &id)?.is_some_and(|copy| !copy.is_kept && copy.made_with != Some(hash)) {
            findings.add(format!("{which} has the sealed copy {id:#x}, which was not made with it"));
        }
        Ok(())
    })
}

fn check_enrolments(reading: Reading<'_>) -> Result<Findings, StoreError> {
    let store = reading.store;
    reading.check_each(&family::GROUP_ENROLMENTS, |EnrolmentKey { group, nullifier }, member, findings| {
        let key = MemberKey { group, member };
        if find(store, &family::GROUP_MEMBERS, &key)?.is_none() {
            findings.add(format!(
                "group {group}: the enrolment nullifier {nullifier} is that of member {}, who is unknown",
                key.member
            ));
        }
        Ok(())
    })
}

fn check_leaving(reading: Reading<'_>) -> Result<Findings, StoreError> {
    let store = reading.store;
    reading.check_each(&family::GROUP_LEAVING, |key, (), findings| {
        let member = find(store, &family::GROUP_MEMBERS, &key)?;
        if member.is_none_or(|member| member.standing != Standing::Leaving) {
            findings.add(format!("group {}: group_leaving has member {}, who is not leaving", key.group, key.member));
        }
        Ok(())
    })
}

// Sealed copies.

/// Checks that each copy is found by its handles, and that one that is not kept is deleted one day.
fn check_copies(reading: Reading<'_>) -> Result<Findings, StoreError> {
    let store = reading.store;
    let mut findings = reading.check_each(&family::SEALED_COPIES, |id, copy, findings| {
        if copy.handles.is_empty() {
            findings.add(format!("the sealed copy {id:#x} has no handle, so that no wallet finds it"));
        }
        for handle in &copy.handles {
            if find(store, &family::SEALED_HANDLES, handle)? != Some(id) {
                findings.add(format!("the sealed copy {id:#x} is not found by its handle {handle}"));
            }
        }
        if !copy.is_kept && find(store, &family::SEALED_UNKEPT, &(copy.made_on, id))?.is_none() {
            findings
                .add(format!("the sealed copy {id:#x} is not kept, but sealed_unkept lacks it: it is never deleted"));
        }
        if copy.is_kept && copy.made_with.is_some() {
            findings.add(format!("the sealed copy {id:#x} is kept, and still has the code that it was made with"));
        }
        let Some(hash) = copy.made_with.filter(|_| !copy.is_kept) else { return Ok(()) };
        let code = find(store, &family::GROUP_CODES, &hash)?.filter(|code| code.used_for.is_none());
        if code.is_some_and(|code| code.copy != Some(id)) {
            findings.add(format!("the sealed copy {id:#x} was made with the code {hash}, which has another one"));
        }
        Ok(())
    })?;
    findings.append(reading.check_each(&family::SEALED_HANDLES, |handle, id, findings| {
        let copy = find(store, &family::SEALED_COPIES, &id)?;
        if copy.is_none_or(|copy| !copy.handles.contains(&handle)) {
            findings.add(format!("sealed_handles has the handle {handle}, but the sealed copy {id:#x} has not"));
        }
        Ok(())
    })?);
    findings.append(reading.check_each(&family::SEALED_UNKEPT, |(day, id), (), findings| {
        let copy = find(store, &family::SEALED_COPIES, &id)?;
        if copy.is_none_or(|copy| copy.is_kept || copy.made_on != day) {
            findings.add(format!("sealed_unkept has the sealed copy {id:#x} of {day}, but no such copy is not kept"));
        }
        Ok(())
    })?);
    Ok(findings)
}
