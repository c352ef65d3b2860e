//! The records of groups and of sealed copies.
//!
//! Every write of a group compares the group's record and counts its revision, so of two writers
//! that have read the same revision one writes and the other reads again. A sealed copy is written
//! under conditions of its own records.

use std::collections::{BTreeMap, BTreeSet};

use selfsame_protocol::B256;
use selfsame_protocol::encoding::{Encoding, decode, encode};
use selfsame_protocol::events::record::RecordedEvent;
use selfsame_protocol::groups::enrolment::{GroupChanges, GroupReads, LoadedGroup};
use selfsame_protocol::groups::live_roots::LiveRoots;
use selfsame_protocol::groups::names::{Day, FieldNumber, GroupId, MemberNumber, RollName, SecretHash};
use selfsame_protocol::groups::records::{
    AwaitedRollRecord, CodeRecord, CopyId, EnrolmentKey, GroupRecord, MemberKey, MemberRecord, PageRootKey, PartKey,
    RollKey, RollPageKey, RollPageRecord, RollRecord, SealedRecord, Standing,
};
use selfsame_protocol::groups::sealed::{SealedReads, SealedWrite};
use selfsame_protocol::time::UnixSeconds;

use crate::database::{Changes, RecordSource};
use crate::error::StoreError;
use crate::faults::FaultScope;
use crate::group_commit::{Conditions, GroupCommit, OnDecided};
use crate::schema::family::{self, Family};
use crate::schema::records::{RecordKey, RecordKind, StoredRecord, UnloggedKey};
use crate::store::Store;

/// Reads and writes the records of groups and of sealed copies.
#[derive(Clone)]
pub struct GroupRecords {
    store: Store,
    group_commit: GroupCommit,
}

/// A change of a group's rolls, if the group's record is as it was read.
#[derive(Clone, Debug)]
pub struct RollWrite {
    /// The group's record as it was read, and as it is then.
    pub group: (GroupRecord, GroupRecord),
    /// The roll.
    pub name: RollName,
    /// What it has then; `None` when it is removed.
    pub roll: Option<RollRecord>,
    /// Pages that the rolls have then: `None` for one that no other roll has.
    pub pages: BTreeMap<FieldNumber, Option<RollPageRecord>>,
    /// The time of a roll of the configuration.
    pub awaited: Option<AwaitedRollRecord>,
}

/// The key of the record of the web wallet's origin.
const WALLET_ORIGIN: RecordKey = RecordKey { kind: RecordKind::WalletOrigin, id: B256::ZERO };

/// Events of members with the keys that they are logged under.
type MemberEvents = [(UnloggedKey, RecordedEvent)];

/// The records of one group, for the rules of enrolment.
pub struct GroupReader<'a> {
    records: &'a GroupRecords,
    group: GroupId,
}

impl GroupRecords {
    /// The records in `store`, written by its committing thread.
    pub fn new(store: Store, group_commit: GroupCommit) -> Self {
        Self { store, group_commit }
    }

    /// The scope in which the store's fault points are passed.
    #[inline]
    pub fn fault_scope(&self) -> FaultScope {
        self.store.fault_scope()
    }

    /// The origin of the web wallet; `None` when it was never served.
    pub fn wallet_origin(&self) -> Result<Option<String>, StoreError> {
        let Some(record) = self.get(&family::RECORDS, &WALLET_ORIGIN)? else { return Ok(None) };
        let damaged = |reason| StoreError::Damaged { family: family::RECORDS.name, reason };
        decode(&record.value).map(Some).map_err(damaged)
    }

    /// Writes the origin of the web wallet in the place of `before`, if it is still that.
    pub fn write_wallet_origin(&self, before: Option<&str>, origin: &str, decided: OnDecided) {
        let record = |origin: &str| StoredRecord { expires_at: UnixSeconds::NEVER, value: encode(&origin.to_owned()) };
        let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
        conditions.expect(&family::RECORDS, &WALLET_ORIGIN, before.map(record).as_ref());
        changes.put(&family::RECORDS, &WALLET_ORIGIN, &record(origin));
        changes.put(&family::RECORD_EXPIRIES, &(UnixSeconds::NEVER, WALLET_ORIGIN), &());
        self.group_commit.commit_if(conditions, changes, decided);
    }

    /// Whether this store decides what is written.
    pub fn leads(&self) -> bool {
        self.group_commit.leads()
    }

    fn get<Key: Encoding, Value: Encoding>(
        &self,
        family: &Family<Key, Value>,
        key: &Key,
    ) -> Result<Option<Value>, StoreError> {
        self.store.database().get(family, key)
    }

    /// The records of a family whose key `is_own`, from a key on.
    fn own<Key: Encoding, Value: Encoding>(
        &self,
        family: &Family<Key, Value>,
        first: &Key,
        is_own: impl Fn(&Key) -> bool,
    ) -> Result<Vec<(Key, Value)>, StoreError> {
        let records = self.store.database().records_from(family, first)?;
        records.take_while(|record| record.as_ref().map_or(true, |(key, _)| is_own(key))).collect()
    }

    /// A group's record; `None` before it was made.
    pub fn group(&self, group: &GroupId) -> Result<Option<GroupRecord>, StoreError> {
        self.get(&family::GROUPS, group)
    }

    /// A group with its tree and its live roots, all of one revision; `None` before it was made.
    pub fn load(&self, group: &GroupId) -> Result<Option<LoadedGroup>, StoreError> {
        loop {
            let Some(record) = self.group(group)? else { return Ok(None) };
            let part = PartKey { group: *group, number: 0 };
            let pages = self.own(&family::GROUP_PAGES, &part, |key| key.group == *group)?;
            let roots = self.own(&family::GROUP_ROOTS, &part, |key| key.group == *group)?;
            let page_root = PageRootKey { group: *group, page: 0, since: 0 };
            let page_roots = self.own(&family::GROUP_PAGE_ROOTS, &page_root, |key| key.group == *group)?;
            // The journal of a replica may bring a write of another one in between.
            if self.group(group)? != Some(record) {
                continue;
            }
            let live = LiveRoots::new(
                roots.into_iter().map(|(key, root)| (key.number, root)),
                page_roots.into_iter().map(|(key, root)| (key.page, key.since, root)),
            );
            return Ok(Some(LoadedGroup::new(record, pages.into_iter().map(|(_, page)| page).collect(), live)));
        }
    }

    /// The records of one group.
    pub fn reader(&self, group: &GroupId) -> GroupReader<'_> {
        GroupReader { records: self, group: *group }
    }

    /// All member numbers of a group, in the order of their bytes.
    pub fn members(&self, group: &GroupId) -> Result<Vec<(MemberNumber, MemberRecord)>, StoreError> {
        let Some(first) = first_member(group) else { return Ok(Vec::new()) };
        let members = self.own(&family::GROUP_MEMBERS, &first, |key| key.group == *group)?;
        let mut members: Vec<_> = members.into_iter().map(|(key, record)| (key.member, record)).collect();
        members.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
        Ok(members)
    }

    /// The members who have left, and whose leaves are still in the tree.
    pub fn leaving(&self, group: &GroupId) -> Result<Vec<MemberNumber>, StoreError> {
        let Some(first) = first_member(group) else { return Ok(Vec::new()) };
        let leaving = self.own(&family::GROUP_LEAVING, &first, |key| key.group == *group)?;
        Ok(leaving.into_iter().map(|(key, ())| key.member).collect())
    }

    /// The rolls of a group.
    pub fn rolls(&self, group: &GroupId) -> Result<BTreeMap<RollName, RollRecord>, StoreError> {
        self.of_rolls(&family::GROUP_ROLLS, group)
    }

    /// The rolls with a time that were seen in the configuration.
    pub fn awaited_rolls(&self, group: &GroupId) -> Result<BTreeMap<RollName, AwaitedRollRecord>, StoreError> {
        self.of_rolls(&family::GROUP_AWAITED_ROLLS, group)
    }

    fn of_rolls<Value: Encoding>(
        &self,
        family: &Family<RollKey, Value>,
        group: &GroupId,
    ) -> Result<BTreeMap<RollName, Value>, StoreError> {
        let Ok(name) = "-".parse() else { return Ok(BTreeMap::new()) };
        let rolls = self.own(family, &RollKey { group: *group, name }, |key| key.group == *group)?;
        Ok(rolls.into_iter().map(|(key, value)| (key.name, value)).collect())
    }

    /// A page of rolls, by its root.
    pub fn roll_page(&self, group: &GroupId, root: FieldNumber) -> Result<Option<RollPageRecord>, StoreError> {
        self.get(&family::GROUP_ROLL_PAGES, &RollPageKey { group: *group, root })
    }

    /// Makes a group, if there is none.
    pub fn create(&self, group: &GroupId, record: &GroupRecord, decided: OnDecided) {
        let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
        conditions.expect(&family::GROUPS, group, None);
        changes.put(&family::GROUPS, group, record);
        self.group_commit.commit_if(conditions, changes, decided);
    }

    /// Writes what a step gave, if the group and the sealed copies that it keeps are as they were
    /// read; otherwise nothing. Receivers of events are told of `events`.
    pub fn write(&self, group: &GroupId, step: &GroupChanges, events: &MemberEvents, decided: OnDecided) {
        let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
        conditions.expect(&family::GROUPS, group, step.before.as_ref());
        changes.put(&family::GROUPS, group, &step.after);
        for (member, record) in &step.members {
            let key = MemberKey { group: *group, member: member.clone() };
            match record.standing {
                Standing::Leaving => changes.put(&family::GROUP_LEAVING, &key, &()),
                _ => changes.delete(&family::GROUP_LEAVING, &key),
            }
            changes.put(&family::GROUP_MEMBERS, &key, record);
        }
        for (hash, code) in &step.codes {
            match code {
                Some(code) => changes.put(&family::GROUP_CODES, hash, code),
                None => changes.delete(&family::GROUP_CODES, hash),
            }
        }
        for (hash, (before, after)) in &step.permits {
            conditions.expect(&family::GROUP_CODES, hash, Some(before));
            changes.put(&family::GROUP_CODES, hash, after);
        }
        for (nullifier, member) in &step.enrolments {
            let key = EnrolmentKey { group: *group, nullifier: *nullifier };
            changes.put(&family::GROUP_ENROLMENTS, &key, member);
        }
        for (id, (before, after)) in &step.copies {
            conditions.expect(&family::SEALED_COPIES, id, Some(before));
            changes.put(&family::SEALED_COPIES, id, after);
            if after.is_kept {
                changes.delete(&family::SEALED_UNKEPT, &(before.made_on, *id));
            }
        }
        if let Some(tree) = &step.tree {
            let part = |number| PartKey { group: *group, number };
            for (page, record) in &tree.pages {
                changes.put(&family::GROUP_PAGES, &part(u64::from(*page)), record);
            }
            for (version, root) in &tree.live.versions {
                match root {
                    Some(root) => changes.put(&family::GROUP_ROOTS, &part(*version), root),
                    None => changes.delete(&family::GROUP_ROOTS, &part(*version)),
                }
            }
            for ((page, since), root) in &tree.live.pages {
                let key = PageRootKey { group: *group, page: *page, since: *since };
                match root {
                    Some(root) => changes.put(&family::GROUP_PAGE_ROOTS, &key, root),
                    None => changes.delete(&family::GROUP_PAGE_ROOTS, &key),
                }
            }
        }
        for (key, event) in events {
            changes.put(&family::UNLOGGED_EVENTS, key, event);
        }
        self.group_commit.commit_if(conditions, changes, decided);
    }

    /// Takes or removes a roll, if the group is as it was read.
    pub fn write_roll(&self, group: &GroupId, write: &RollWrite, decided: OnDecided) {
        let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
        let RollWrite { group: (before, after), name, roll, pages, awaited } = write;
        conditions.expect(&family::GROUPS, group, Some(before));
        changes.put(&family::GROUPS, group, after);
        let key = RollKey { group: *group, name: name.clone() };
        match roll {
            Some(roll) => changes.put(&family::GROUP_ROLLS, &key, roll),
            None => changes.delete(&family::GROUP_ROLLS, &key),
        }
        for (root, page) in pages {
            let key = RollPageKey { group: *group, root: *root };
            match page {
                Some(page) => changes.put(&family::GROUP_ROLL_PAGES, &key, page),
                None => changes.delete(&family::GROUP_ROLL_PAGES, &key),
            }
        }
        if let Some(awaited) = awaited {
            changes.put(&family::GROUP_AWAITED_ROLLS, &key, awaited);
        }
        self.group_commit.commit_if(conditions, changes, decided);
    }

    /// Writes pages of a roll that is to be taken, if the group is as it was read: those of a large
    /// roll are too many for one write of a cluster.
    pub fn write_roll_pages(
        &self,
        group: &GroupId,
        (before, after): (&GroupRecord, &GroupRecord),
        pages: &[(FieldNumber, RollPageRecord)],
        decided: OnDecided,
    ) {
        let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
        conditions.expect(&family::GROUPS, group, Some(before));
        changes.put(&family::GROUPS, group, after);
        for (root, page) in pages {
            changes.put(&family::GROUP_ROLL_PAGES, &RollPageKey { group: *group, root: *root }, page);
        }
        self.group_commit.commit_if(conditions, changes, decided);
    }

    /// Removes pages of rolls, if the group is as it was read.
    pub fn remove_roll_pages(
        &self,
        group: &GroupId,
        (before, after): (&GroupRecord, &GroupRecord),
        pages: &BTreeSet<FieldNumber>,
        decided: OnDecided,
    ) {
        let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
        conditions.expect(&family::GROUPS, group, Some(before));
        changes.put(&family::GROUPS, group, after);
        for root in pages {
            changes.delete(&family::GROUP_ROLL_PAGES, &RollPageKey { group: *group, root: *root });
        }
        self.group_commit.commit_if(conditions, changes, decided);
    }

    /// The roots of all pages of rolls that the store has of a group.
    pub fn roll_page_roots(&self, group: &GroupId) -> Result<BTreeSet<FieldNumber>, StoreError> {
        let first = RollPageKey { group: *group, root: FieldNumber::ZERO };
        let pages = self.store.database().records_from(&family::GROUP_ROLL_PAGES, &first)?;
        let roots = pages.map(|page| page.map(|(key, _)| key));
        let own = roots.take_while(|key| key.as_ref().map_or(true, |key| key.group == *group));
        own.map(|key| key.map(|key| key.root)).collect()
    }

    /// Notes the time of a roll of the configuration, if the earlier note is as it was read.
    pub fn await_roll(
        &self,
        group: &GroupId,
        name: &RollName,
        (before, after): (Option<&AwaitedRollRecord>, &AwaitedRollRecord),
        decided: OnDecided,
    ) {
        let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
        let key = RollKey { group: *group, name: name.clone() };
        conditions.expect(&family::GROUP_AWAITED_ROLLS, &key, before);
        changes.put(&family::GROUP_AWAITED_ROLLS, &key, after);
        self.group_commit.commit_if(conditions, changes, decided);
    }

    /// Writes a change of sealed copies, if all records are as they were read.
    pub fn write_sealed(&self, write: &SealedWrite, decided: OnDecided) {
        let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
        for (handle, (before, after)) in &write.handles {
            conditions.expect(&family::SEALED_HANDLES, handle, before.as_ref());
            match after {
                Some(id) => changes.put(&family::SEALED_HANDLES, handle, id),
                None => changes.delete(&family::SEALED_HANDLES, handle),
            }
        }
        for (id, (before, after)) in &write.copies {
            conditions.expect(&family::SEALED_COPIES, id, before.as_ref());
            if let Some(before) = before.as_ref().filter(|before| !before.is_kept) {
                changes.delete(&family::SEALED_UNKEPT, &(before.made_on, *id));
            }
            match after {
                Some(after) => {
                    changes.put(&family::SEALED_COPIES, id, after);
                    if !after.is_kept {
                        changes.put(&family::SEALED_UNKEPT, &(after.made_on, *id), &());
                    }
                }
                None => changes.delete(&family::SEALED_COPIES, id),
            }
        }
        if let Some((hash, before, after)) = &write.code {
            conditions.expect(&family::GROUP_CODES, hash, Some(before));
            changes.put(&family::GROUP_CODES, hash, after);
        }
        self.group_commit.commit_if(conditions, changes, decided);
    }

    /// Sealed copies that are not kept and were made before a day, at most `limit`.
    pub fn unkept_copies(&self, before: Day, limit: usize) -> Result<Vec<(CopyId, SealedRecord)>, StoreError> {
        let unkept = self.store.database().records(&family::SEALED_UNKEPT)?;
        let unkept = unkept.take_while(|record| record.as_ref().map_or(true, |((day, _), ())| *day < before));
        let ids: Vec<_> = unkept.take(limit).collect::<Result<_, _>>()?;
        let copy = |((_, id), ()): ((Day, CopyId), ())| Ok(self.copy_of_id(&id)?.map(|record| (id, record)));
        ids.into_iter().filter_map(|record| copy(record).transpose()).collect()
    }
}

/// The first key that a member number of a group can have.
fn first_member(group: &GroupId) -> Option<MemberKey> {
    Some(MemberKey { group: *group, member: "!".parse().ok()? })
}

impl SealedReads for GroupRecords {
    type Error = StoreError;

    fn copy(&self, handle: &SecretHash) -> Result<Option<(CopyId, SealedRecord)>, StoreError> {
        let Some(id) = self.get(&family::SEALED_HANDLES, handle)? else { return Ok(None) };
        Ok(self.copy_of_id(&id)?.map(|record| (id, record)))
    }

    fn copy_of_id(&self, id: &CopyId) -> Result<Option<SealedRecord>, StoreError> {
        self.get(&family::SEALED_COPIES, id)
    }

    fn code(&self, hash: &SecretHash) -> Result<Option<CodeRecord>, StoreError> {
        self.get(&family::GROUP_CODES, hash)
    }
}

impl GroupReads for GroupReader<'_> {
    type Error = StoreError;

    fn member(&self, member: &MemberNumber) -> Result<Option<MemberRecord>, StoreError> {
        self.records.get(&family::GROUP_MEMBERS, &MemberKey { group: self.group, member: member.clone() })
    }

    fn code(&self, hash: &SecretHash) -> Result<Option<CodeRecord>, StoreError> {
        SealedReads::code(self.records, hash)
    }

    fn enrolled(&self, nullifier: FieldNumber) -> Result<Option<MemberNumber>, StoreError> {
        self.records.get(&family::GROUP_ENROLMENTS, &EnrolmentKey { group: self.group, nullifier })
    }

    fn copy(&self, handle: &SecretHash) -> Result<Option<(CopyId, SealedRecord)>, StoreError> {
        SealedReads::copy(self.records, handle)
    }

    fn copy_of_id(&self, id: &CopyId) -> Result<Option<SealedRecord>, StoreError> {
        SealedReads::copy_of_id(self.records, id)
    }
}
