//! A group with its stored records in memory. Every write is compared with what a reader of the
//! records would load.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use alloy_primitives::U256;

use super::super::codes::Code;
use super::super::enrolment::{
    Enrolled, EnrolmentError, EnrolmentRequest, GroupChanges, GroupReads, LoadedGroup, MemberChange, MemberChangeKind,
    NewInvitation, Step,
};
use super::super::identity::{Act, Token};
use super::super::live_roots::LiveRoots;
use super::super::names::{Day, FieldNumber, GroupId, GroupKey, MemberNumber, ReplacementSecret, SecretHash};
use super::super::records::{
    CodeRecord, CopyId, GroupRecord, LiveRootRecord, MemberRecord, PageRecord, SealedRecord, StoredLeaf,
};
use super::super::tree::{GroupTree, PAGE_LEAVES, root_of_pages, zero_node};
use super::super::wire::{InvitedMembers, SentCommitment};
use crate::groth16::proof::LEGACY_WORDS;
use crate::time::UnixSeconds;
use crate::tree::Root;

pub const TODAY: Day = Day(20_000);

/// A group, and what is stored of it.
pub struct Community {
    pub id: GroupId,
    pub now: UnixSeconds,
    pub loaded: LoadedGroup,
    pub members: BTreeMap<MemberNumber, MemberRecord>,
    pub codes: BTreeMap<SecretHash, CodeRecord>,
    pub enrolments: BTreeMap<FieldNumber, MemberNumber>,
    pub copies: BTreeMap<SecretHash, (CopyId, SealedRecord)>,
    pub told: Vec<(String, MemberChangeKind)>,
    pages: BTreeMap<u32, PageRecord>,
    roots: BTreeMap<u64, LiveRootRecord>,
    page_roots: BTreeMap<(u32, u64), FieldNumber>,
    codes_made: u64,
    /// Whether the tree is hashed from its leaves after each write.
    hashes_leaves: bool,
}

pub fn member(number: &str) -> MemberNumber {
    number.parse().expect("a member number")
}

pub fn leaf(number: u64) -> FieldNumber {
    FieldNumber(U256::from(number))
}

/// An enrolment nullifier.
pub fn nullifier(number: u64) -> FieldNumber {
    FieldNumber(U256::from(1_000_000 + number))
}

pub fn secret(number: u8) -> ReplacementSecret {
    ReplacementSecret([number; 32])
}

/// The hash of a replacement secret.
pub fn hash(number: u8) -> SecretHash {
    SecretHash::of(&secret(number).0)
}

/// A request whose link proof holds.
pub fn request(act: Act, token: Token, leaf: FieldNumber, nullifier: FieldNumber, next: u8) -> EnrolmentRequest {
    EnrolmentRequest {
        act,
        token,
        commitment: SentCommitment(leaf.0),
        nullifier,
        proof: [U256::ZERO; LEGACY_WORDS],
        replacement_hash: hash(next),
        copy: None,
    }
}

/// A joining, or a coming back.
pub fn join(code: &Code, leaf: FieldNumber, nullifier: FieldNumber, next: u8) -> EnrolmentRequest {
    request(Act::Join, Token::Code(code.clone()), leaf, nullifier, next)
}

/// A replacement with a link of the enroller.
pub fn replace_by_code(code: &Code, leaf: FieldNumber, nullifier: FieldNumber, next: u8) -> EnrolmentRequest {
    request(Act::Replace, Token::Code(code.clone()), leaf, nullifier, next)
}

/// A member's own replacement.
pub fn replace(present: u8, leaf: FieldNumber, nullifier: FieldNumber, next: u8) -> EnrolmentRequest {
    request(Act::Replace, Token::ReplacementSecret(secret(present)), leaf, nullifier, next)
}

pub fn leave(present: u8, leaf: FieldNumber, nullifier: FieldNumber) -> EnrolmentRequest {
    request(Act::Leave, Token::ReplacementSecret(secret(present)), leaf, nullifier, 0)
}

/// Everything that is stored and compared.
type Stored = (
    GroupRecord,
    BTreeMap<MemberNumber, MemberRecord>,
    BTreeMap<SecretHash, CodeRecord>,
    BTreeMap<FieldNumber, MemberNumber>,
    BTreeMap<SecretHash, (CopyId, SealedRecord)>,
);

impl Community {
    pub fn new() -> Self {
        let record = GroupRecord::new(GroupKey([7; 32]));
        Self {
            id: "members".parse().expect("an id"),
            now: TODAY.begins_at(),
            loaded: LoadedGroup::new(record, Vec::new(), LiveRoots::default()),
            members: BTreeMap::new(),
            codes: BTreeMap::new(),
            enrolments: BTreeMap::new(),
            copies: BTreeMap::new(),
            told: Vec::new(),
            pages: BTreeMap::new(),
            roots: BTreeMap::new(),
            page_roots: BTreeMap::new(),
            codes_made: 0,
            hashes_leaves: true,
        }
    }

    /// A group in which so many members of other days were removed.
    pub fn with_removed(size: usize) -> Self {
        let mut community = Self::new();
        let removed = [StoredLeaf { leaf: FieldNumber::ZERO, since: 1 }];
        let leaves = removed.iter().cycle().take(size).copied().collect::<Vec<_>>();
        let root = zero_node(10);
        let pages: Vec<_> =
            leaves.chunks(PAGE_LEAVES).map(|leaves| PageRecord { leaves: leaves.to_vec(), root }).collect();
        let page_roots = vec![root; pages.len()];
        let record = &mut community.loaded.record;
        (record.version, record.size, record.root) = (1, size as u32, root_of_pages(&page_roots));
        let newest = LiveRootRecord { root: record.root, size: record.size, replaced_at: None };
        community.roots = [(1, newest)].into();
        community.page_roots = (0..pages.len() as u32).map(|page| ((page, 1), root)).collect();
        community.pages = (0..).zip(pages).collect();
        community.hashes_leaves = false;
        community.loaded = community.load();
        community.check_stored();
        community
    }

    pub fn today(&self) -> Day {
        Day::of(self.now)
    }

    pub fn next_day(&mut self) {
        self.now = self.today().plus(1).begins_at();
    }

    pub fn stored(&self) -> Stored {
        let Self { loaded, members, codes, enrolments, copies, .. } = self;
        (loaded.record, members.clone(), codes.clone(), enrolments.clone(), copies.clone())
    }

    /// Makes acts that are written together.
    pub fn step<T>(&mut self, acts: impl FnOnce(&mut Step<'_, Self>) -> T) -> T {
        let (value, changes) = {
            let mut step = Step::new(&self.id, &self.loaded, self, self.today());
            let value = acts(&mut step);
            (value, step.finish(self.now))
        };
        if let Some(changes) = changes {
            self.write(changes);
        }
        value
    }

    /// Decides about one request. A refused one writes nothing.
    pub fn enrol(&mut self, request: &EnrolmentRequest) -> Result<Enrolled, EnrolmentError> {
        let before = self.stored();
        let Ok(decided) = self.step(|step| step.enrol(request));
        if decided.is_err() {
            assert_eq!(self.stored(), before, "a refused request changed something");
        }
        decided
    }

    /// Decides about a request that repeats an earlier one: it is answered, and changes nothing.
    pub fn repeat(&mut self, request: &EnrolmentRequest) -> Result<Enrolled, EnrolmentError> {
        let (before, told) = (self.stored(), self.told.len());
        let decided = self.enrol(request);
        assert_eq!((self.stored(), self.told.len()), (before, told), "a repeated request changed something");
        decided
    }

    /// The answer of the checks that come before the link proof.
    pub fn check_before_proof(&self, request: &EnrolmentRequest) -> Result<(), EnrolmentError> {
        let Ok(checked) = Step::new(&self.id, &self.loaded, self, self.today()).check_before_proof(request);
        checked
    }

    pub fn invite_of(&mut self, number: &str, of: InvitedMembers) -> Option<NewInvitation> {
        self.codes_made += 1;
        let mut random = [0; 17];
        random[..8].copy_from_slice(&self.codes_made.to_be_bytes());
        let (number, expires_on) = (member(number), self.today().plus(30));
        let Ok(invited) = self.step(|step| step.invite(&number, of, expires_on, || Code::from_random_bytes(random)));
        invited
    }

    /// A new code for a member number.
    pub fn code(&mut self, number: &str) -> Code {
        self.invite_of(number, InvitedMembers::All).expect("a link").code
    }

    pub fn remove(&mut self, number: &str) -> bool {
        let number = member(number);
        let Ok(is_removed) = self.step(|step| step.remove(&number));
        is_removed
    }

    pub fn clear_left(&mut self, number: &str) {
        let number = member(number);
        let Ok(()) = self.step(|step| step.clear_left(&number));
    }

    /// Ends live roots, and changes nothing else.
    pub fn end_roots(&mut self, versions: &BTreeSet<u64>) {
        let changes = self.loaded.without_roots(versions);
        self.write(changes);
    }

    /// A member with a leaf, whose replacement secret is `secret(1)`.
    pub fn enrolled(&mut self, number: &str, of: u64) -> u32 {
        let code = self.code(number);
        match self.enrol(&join(&code, leaf(of), nullifier(of), 1)) {
            Ok(Enrolled::At(position)) => position,
            refused => panic!("{refused:?}"),
        }
    }

    pub fn leaves(&self) -> Vec<FieldNumber> {
        (0..self.loaded.tree.size()).map(|position| self.loaded.tree.leaf(position)).collect()
    }

    pub fn root(&self) -> Root {
        self.loaded.record.root
    }

    pub fn is_live(&self, root: Root) -> bool {
        self.loaded.live.age(root, self.now).is_some()
    }

    pub fn standing(&self, number: &str) -> &'static str {
        self.members[&member(number)].standing.name()
    }

    /// What receivers of events were told since the last look.
    pub fn take_told(&mut self) -> Vec<(String, MemberChangeKind)> {
        std::mem::take(&mut self.told)
    }

    fn write(&mut self, changes: GroupChanges) {
        assert_eq!(changes.before, Some(self.loaded.record));
        assert_eq!(changes.after.revision, self.loaded.record.revision + 1);
        self.loaded.apply(&changes);
        let told = |MemberChange { member, change }| (member.as_str().to_owned(), change);
        self.told.extend(changes.told.into_iter().map(told));
        self.members.extend(changes.members);
        for (hash, code) in changes.codes {
            match code {
                Some(code) => drop(self.codes.insert(hash, code)),
                None => drop(self.codes.remove(&hash)),
            }
        }
        for (hash, (before, after)) in changes.permits {
            let stored = self.codes.insert(hash, after);
            assert_eq!(stored, Some(before));
        }
        self.enrolments.extend(changes.enrolments);
        for (id, (before, after)) in changes.copies {
            let own = self.copies.values_mut().filter(|(other, _)| *other == id);
            for (_, record) in own {
                assert_eq!(*record, before);
                *record = after.clone();
            }
        }
        if let Some(tree) = changes.tree {
            self.pages.extend(tree.pages);
            for (version, root) in tree.live.versions {
                match root {
                    Some(root) => drop(self.roots.insert(version, root)),
                    None => drop(self.roots.remove(&version)),
                }
            }
            for (page, root) in tree.live.pages {
                match root {
                    Some(root) => drop(self.page_roots.insert(page, root)),
                    None => drop(self.page_roots.remove(&page)),
                }
            }
        }
        self.check_stored();
    }

    /// The group as a reader of the stored records loads it.
    fn load(&self) -> LoadedGroup {
        let live = LiveRoots::new(
            self.roots.iter().map(|(version, root)| (*version, *root)),
            self.page_roots.iter().map(|((page, since), root)| (*page, *since, *root)),
        );
        LoadedGroup::new(self.loaded.record, self.pages.values().cloned().collect(), live)
    }

    /// A reader of the stored records loads what is in memory, and the counts are those of the
    /// records.
    fn check_stored(&self) {
        let (record, stored) = (self.loaded.record, self.load());
        assert_eq!(stored.tree.root(), self.loaded.tree.root());
        assert_eq!(stored.tree.root(), record.root);
        assert_eq!(stored.tree.page_roots(), self.loaded.tree.page_roots());
        if self.hashes_leaves {
            assert_eq!(GroupTree::of_leaves(&self.leaves()).root(), record.root);
        }
        assert_eq!((&stored.since, &stored.positions), (&self.loaded.since, &self.loaded.positions));
        let roots = |live: &LiveRoots| -> (Vec<_>, Vec<_>) {
            (live.versions().map(|(version, root)| (version, *root)).collect(), live.page_roots().collect())
        };
        assert_eq!(roots(&stored.live), roots(&self.loaded.live));
        let leaves: BTreeSet<_> = self.leaves().into_iter().filter(|leaf| *leaf != FieldNumber::ZERO).collect();
        assert_eq!((record.size, record.members), (stored.tree.size(), leaves.len() as u32));
        assert_eq!(record.invited as usize, self.members.len());
        let open = self.codes.values().filter(|code| code.used_for.is_none()).count();
        assert_eq!(record.open_codes as usize, open);
        let named = self.members.values().filter(|member| member.open_code.is_some()).count();
        assert_eq!(open, named, "each open code is the open code of its member number");
    }
}

impl GroupReads for Community {
    type Error = Infallible;

    fn member(&self, member: &MemberNumber) -> Result<Option<MemberRecord>, Infallible> {
        Ok(self.members.get(member).cloned())
    }

    fn code(&self, hash: &SecretHash) -> Result<Option<CodeRecord>, Infallible> {
        Ok(self.codes.get(hash).cloned())
    }

    fn enrolled(&self, nullifier: FieldNumber) -> Result<Option<MemberNumber>, Infallible> {
        Ok(self.enrolments.get(&nullifier).cloned())
    }

    fn copy(&self, handle: &SecretHash) -> Result<Option<(CopyId, SealedRecord)>, Infallible> {
        Ok(self.copies.get(handle).cloned())
    }

    fn copy_of_id(&self, id: &CopyId) -> Result<Option<SealedRecord>, Infallible> {
        Ok(self.copies.values().find(|(copy, _)| copy == id).map(|(_, record)| record.clone()))
    }
}
