//! Groups and sealed copies: what a check finds in damaged ones, and that it finds nothing in what
//! the rules made.

mod damage;

use std::sync::mpsc::channel;

use alloy_primitives::{B256, U256};
use selfsame_protocol::groups::codes::Code;
use selfsame_protocol::groups::enrolment::{EnrolmentRequest, Step};
use selfsame_protocol::groups::identity::{Act, Token};
use selfsame_protocol::groups::names::{
    Day, FieldNumber, GroupId, GroupKey, MemberNumber, ReplacementSecret, RollName, SealedHandle, SecretHash, WriteKey,
};
use selfsame_protocol::groups::records::{
    AwaitedRollRecord, CodeRecord, EnrolmentKey, GroupRecord, LiveRootRecord, MemberKey, MemberRecord, PageRecord,
    PageRootKey, PartKey, RollKey, RollPageKey, RollPageRecord, RollRecord, SealedRecord, Standing,
};
use selfsame_protocol::groups::sealed::{self, SealedWrite, stored_handle};
use selfsame_protocol::groups::tree::page_root;
use selfsame_protocol::groups::wire::{
    HexText, InvitedMembers, NewSealed, SealedContent, SealedPermit, SealedSlot, SentCommitment, SlotKind,
};
use selfsame_protocol::time::UnixSeconds;
use tempfile::TempDir;

use super::{check, damage};
use crate::database::{Changes, RecordSource};
use crate::facts::Membership;
use crate::schema::family;
use crate::tests::{folder, open};
use crate::{Decision, GroupCommit, GroupReader, GroupRecords, OnDecided, RollWrite, Store, StoreError};

/// A store with a group.
struct GroupStore {
    store: Store,
    records: GroupRecords,
    /// Counts the steps: each has a second of its own.
    now: u64,
    _folder: TempDir,
}

fn id() -> GroupId {
    "members".parse().expect("an id")
}

fn member(number: u32) -> MemberNumber {
    number.to_string().parse().expect("a member number")
}

fn key(number: u32) -> MemberKey {
    MemberKey { group: id(), member: member(number) }
}

fn part(number: u64) -> PartKey {
    PartKey { group: id(), number }
}

fn number(value: u64) -> FieldNumber {
    FieldNumber(U256::from(value))
}

/// The `n`th leaf of a member.
fn leaf(of: u32, n: u64) -> FieldNumber {
    number(1000 * u64::from(of) + n)
}

fn nullifier(of: u32) -> FieldNumber {
    number(2_000_000_000 + u64::from(of))
}

fn code(number: u32) -> Code {
    let mut bytes = [0; 17];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    Code::from_random_bytes(bytes)
}

fn secret(of: u32, n: u64) -> ReplacementSecret {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&of.to_be_bytes());
    bytes[8..16].copy_from_slice(&n.to_be_bytes());
    ReplacementSecret(bytes)
}

/// A request whose link proof holds. It brings the `n`th leaf, with the secret that replaces it.
fn request(act: Act, of: u32, token: Token, n: u64) -> EnrolmentRequest {
    EnrolmentRequest {
        act,
        token,
        commitment: SentCommitment(leaf(of, n).0),
        nullifier: nullifier(of),
        proof: [U256::ZERO; 8],
        replacement_hash: SecretHash::of(&secret(of, n).0),
        copy: None,
    }
}

fn join(of: u32) -> EnrolmentRequest {
    request(Act::Join, of, Token::Code(code(of)), 0)
}

/// The replacement of the leaf before the `n`th one, by the member.
fn replace(of: u32, n: u64) -> EnrolmentRequest {
    request(Act::Replace, of, Token::ReplacementSecret(secret(of, n - 1)), n)
}

fn leave(of: u32, n: u64) -> EnrolmentRequest {
    request(Act::Leave, of, Token::ReplacementSecret(secret(of, n)), n)
}

fn written(write: impl FnOnce(OnDecided)) {
    let (sender, decision) = channel::<Result<Decision, StoreError>>();
    write(Box::new(move |decided| sender.send(decided).expect("the test waits")));
    assert_eq!(decision.recv().expect("decided").expect("written"), Decision::Written);
}

type GroupStep<'a> = Step<'a, GroupReader<'a>>;

impl GroupStore {
    fn new() -> Self {
        let folder = folder();
        let made = Self::of(open(&folder), folder, 1000);
        written(|decided| made.records.create(&id(), &GroupRecord::new(GroupKey([7; 32])), decided));
        made
    }

    fn of(store: Store, folder: TempDir, now: u64) -> Self {
        let (group_commit, _committing) = GroupCommit::start(store.clone()).expect("the committing thread starts");
        let records = GroupRecords::new(store.clone(), group_commit);
        Self { store, records, now, _folder: folder }
    }

    fn step(&mut self, act: impl FnOnce(&mut GroupStep<'_>)) {
        self.now += 1;
        let loaded = self.records.load(&id()).expect("the read succeeds").expect("the group is there");
        let (group, reader) = (id(), self.records.reader(&id()));
        let mut step = Step::new(&group, &loaded, &reader, Day(self.now as u32));
        act(&mut step);
        let Some(changes) = step.finish(UnixSeconds(self.now * 86_400)) else { return };
        written(|decided| self.records.write(&id(), &changes, &[], decided));
    }

    fn invite(&mut self, numbers: impl IntoIterator<Item = u32>) {
        self.step(|step| {
            for number in numbers {
                let invited = step.invite(&member(number), InvitedMembers::All, Day(50_000), || code(number));
                invited.expect("the read succeeds").expect("invited");
            }
        });
    }

    fn enrol(&mut self, requests: impl IntoIterator<Item = EnrolmentRequest>) {
        self.step(|step| {
            for request in requests {
                step.enrol(&request).expect("the read succeeds").expect("enrolled");
            }
        });
    }

    fn remove(&mut self, number: u32) {
        self.step(|step| assert!(step.remove(&member(number)).expect("the read succeeds")));
    }

    fn clear_left(&mut self, number: u32) {
        self.step(|step| step.clear_left(&member(number)).expect("the read succeeds"));
    }

    fn take_roll(&self, name: &str) {
        let loaded = self.records.load(&id()).expect("the read succeeds").expect("the group is there");
        let (record, tree) = (loaded.record, &loaded.tree);
        let page_roots = tree.page_roots();
        let page = |(page, root)| (root, Some(RollPageRecord { leaves: tree.page_leaves(page).to_vec() }));
        let roll = RollRecord {
            taken_on: Day(self.now as u32),
            size: record.size,
            members: record.members,
            root: record.root,
            page_roots: page_roots.clone(),
        };
        let write = RollWrite {
            group: (record, GroupRecord { revision: record.revision + 1, ..record }),
            name: roll_name(name),
            roll: Some(roll),
            pages: page_roots.into_iter().enumerate().map(page).collect(),
            awaited: Some(AwaitedRollRecord { at: UnixSeconds(self.now), is_taken: true }),
        };
        written(|decided| self.records.write_roll(&id(), &write, decided));
    }

    /// Makes a sealed copy with one handle.
    fn seal(&self, byte: u8, permit: Option<SealedPermit>) {
        let needs_permit = permit.is_some();
        let made = sealed::create(
            &handle(byte),
            new_copy(byte, permit),
            copy_id(byte),
            (Day(20), needs_permit),
            &self.records,
        );
        let write: SealedWrite = made.expect("the read succeeds").expect("permitted");
        written(|decided| self.records.write_sealed(&write, decided));
    }

    fn findings(&self) -> Vec<String> {
        check(&self.store).findings
    }
}

fn roll_name(name: &str) -> RollName {
    name.parse().expect("a name")
}

fn handle(byte: u8) -> SealedHandle {
    SealedHandle([byte; 32])
}

fn copy_id(byte: u8) -> B256 {
    B256::repeat_byte(byte)
}

fn new_copy(byte: u8, permit: Option<SealedPermit>) -> NewSealed {
    let slot = SealedSlot { kind: SlotKind::Code, iv: HexText(vec![1; 12]), key: HexText(vec![2; 48]) };
    let content = SealedContent { iv: HexText(vec![3; 12]), sealed: HexText(vec![4; 64]), slots: vec![slot] };
    let write_key_hash = SecretHash::of(&WriteKey([byte; 32]).0);
    NewSealed { content, handles: vec![handle(byte)], write_key_hash, permit }
}

/// The copy that a joining named, the one made with an open code, and the one that nothing names.
const KEPT: u8 = 0xa1;
const OF_CODE: u8 = 0xa2;
const UNKEPT: u8 = 0xa3;

/// A group with members in every standing, several live roots, rolls and sealed copies.
///
/// | member | position | standing |
/// |---|---|---|
/// | 1, 3, 7, 8 | 0, 2, 6, 7 | member |
/// | 2 | 1 | member, whose leaf was replaced |
/// | 4 | 3 | removed |
/// | 5 | 4 | left |
/// | 6 | 5 | leaving |
/// | 9 | none | invited |
fn populated() -> GroupStore {
    let mut made = GroupStore::new();
    made.invite(1..=9);
    made.enrol([join(1), join(2), join(3)]);
    made.enrol([join(4)]);
    made.remove(4);
    made.enrol([replace(2, 1)]);
    made.enrol([join(5), join(6)]);
    made.enrol([leave(5, 0)]);
    made.clear_left(5);
    made.seal(KEPT, None);
    made.enrol([EnrolmentRequest { copy: Some(stored_handle(&handle(KEPT))), ..join(7) }]);
    made.take_roll("first");
    made.enrol([join(8)]);
    made.enrol([leave(6, 0)]);
    made.take_roll("second");
    made.seal(OF_CODE, Some(SealedPermit::Code { group: id(), code: code(9) }));
    made.seal(UNKEPT, None);
    made
}

#[test]
fn groups_that_the_rules_made_have_no_findings() {
    let made = populated();
    let report = check(&made.store);
    assert_eq!(report.findings, Vec::<String>::new());
    assert_eq!((report.groups, report.members), (1, 6));
    let loaded = made.records.load(&id()).expect("the read succeeds").expect("the group is there");
    assert_eq!(loaded.live.versions().map(|(version, _)| version).collect::<Vec<_>>(), [4, 6, 7, 8]);
}

/// A backup is a copy of the whole store, of one moment.
#[test]
fn a_copy_for_a_backup_has_the_groups_and_works_on() {
    let mut made = populated();
    let folder = folder();
    let path = folder.path().join("copy");
    made.store.checkpoint(&path).expect("the store is copied");
    let of_groups = |store: &Store| {
        let mut records = Vec::new();
        for name in family::ALL.into_iter().filter(|name| name.starts_with("group") || name.starts_with("sealed")) {
            for record in store.database().raw_records(name).expect("the family is read") {
                records.push((name, record.expect("a record")));
            }
        }
        records
    };
    let at_backup = of_groups(&made.store);
    assert!(at_backup.len() > 40, "{} records", at_backup.len());
    made.remove(1);

    let mut copy = GroupStore::of(Store::open_existing(&path, 1 << 20).expect("the copy opens"), folder, made.now);
    assert_eq!(of_groups(&copy.store), at_backup);
    assert_eq!((copy.findings(), check(&copy.store).members), (Vec::new(), 6));
    copy.enrol([join(9), replace(3, 1)]);
    copy.remove(1);
    assert_eq!((copy.findings(), check(&copy.store).members), (Vec::new(), 6));
}

/// The new link of member 1 permits a copy, and stays open: the leaf is replaced with the secret.
#[test]
fn an_open_code_does_not_say_whose_the_copy_is_that_was_made_with_it() {
    let mut made = GroupStore::new();
    made.invite([1]);
    made.enrol([join(1)]);
    made.step(|step| {
        let invited = step.invite(&member(1), InvitedMembers::All, Day(50_000), || code(100));
        invited.expect("the read succeeds").expect("invited");
    });
    made.seal(KEPT, Some(SealedPermit::Code { group: id(), code: code(100) }));
    let code_record = |made: &GroupStore| -> Option<CodeRecord> {
        made.store.database().get(&family::GROUP_CODES, &code(100).hash()).expect("the read succeeds")
    };
    assert_eq!(code_record(&made).expect("a code").copy, Some(copy_id(KEPT)));
    made.enrol([EnrolmentRequest { copy: Some(stored_handle(&handle(KEPT))), ..replace(1, 1) }]);
    let record = code_record(&made).expect("a code");
    assert_eq!((record.copy, record.used_for), (None, None));
    assert_eq!(made.findings(), Vec::<String>::new());
}

/// Acts in many orders, over two pages, so that roots end in many ways and pages keep others than
/// the newest.
#[test]
fn groups_after_any_acts_have_no_findings() {
    const FIRST: u32 = 1020;
    let mut made = GroupStore::new();
    made.invite(1..=FIRST + 40);
    made.enrol((1..=FIRST).map(join));
    let (mut random, mut joined) = (0x2545_f491_4f6c_dd1d_u64, FIRST);
    let mut leaves = vec![0_u64; FIRST as usize + 41];
    let mut gone = vec![false; leaves.len()];
    let mut next = |bound: u32| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((random >> 33) % u64::from(bound)) as u32
    };
    for _ in 0..80 {
        // The newest members, and some of the first page.
        let who = if next(3) == 0 { 1 + next(30) } else { 1 + joined.saturating_sub(1 + next(12)) };
        let is_there = who <= joined && !gone[who as usize];
        match next(6) {
            0..=2 if joined < FIRST + 40 => {
                let together = (1 + next(3)).min(FIRST + 40 - joined);
                let joining = joined + 1..=joined + together;
                let replaced = (next(2) == 0 && is_there).then(|| {
                    leaves[who as usize] += 1;
                    replace(who, leaves[who as usize])
                });
                made.enrol(joining.map(join).chain(replaced));
                joined += together;
            }
            3 if is_there => {
                gone[who as usize] = true;
                made.remove(who);
            }
            4 if is_there => {
                gone[who as usize] = true;
                made.enrol([leave(who, leaves[who as usize])]);
                made.clear_left(who);
            }
            _ if is_there => {
                leaves[who as usize] += 1;
                made.enrol([replace(who, leaves[who as usize])]);
            }
            _ => {}
        }
    }
    assert_eq!(made.findings(), Vec::<String>::new());
    assert!(joined > 1030, "the group has two pages: {joined}");
}
