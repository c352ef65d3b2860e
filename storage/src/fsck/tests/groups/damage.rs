//! Each damage of groups and sealed copies is a finding.

use super::*;

/// What is done to a store, and parts of all its findings, each of which is in another one.
type Damage = (&'static str, fn(&GroupStore, &mut Changes), &'static [&'static str]);

fn change_group(made: &GroupStore, changes: &mut Changes, change: impl FnOnce(&mut GroupRecord)) {
    let mut record = made.records.group(&id()).expect("the read succeeds").expect("the group is there");
    change(&mut record);
    changes.put(&family::GROUPS, &id(), &record);
}

fn change_member(made: &GroupStore, changes: &mut Changes, of: u32, change: impl FnOnce(&mut MemberRecord)) {
    let found: Option<MemberRecord> = made.store.database().get(&family::GROUP_MEMBERS, &key(of)).expect("read");
    let mut record = found.expect("a member");
    change(&mut record);
    changes.put(&family::GROUP_MEMBERS, &key(of), &record);
}

fn change_page(made: &GroupStore, changes: &mut Changes, change: impl FnOnce(&mut PageRecord)) {
    let found: Option<PageRecord> = made.store.database().get(&family::GROUP_PAGES, &part(0)).expect("read");
    let mut page = found.expect("a page");
    change(&mut page);
    changes.put(&family::GROUP_PAGES, &part(0), &page);
}

fn change_root(made: &GroupStore, changes: &mut Changes, version: u64, change: impl FnOnce(&mut LiveRootRecord)) {
    let found: Option<LiveRootRecord> = made.store.database().get(&family::GROUP_ROOTS, &part(version)).expect("read");
    let mut root = found.expect("a live root");
    change(&mut root);
    changes.put(&family::GROUP_ROOTS, &part(version), &root);
}

fn change_code(made: &GroupStore, changes: &mut Changes, of: u32, change: impl FnOnce(&mut CodeRecord)) {
    let hash = code(of).hash();
    let found: Option<CodeRecord> = made.store.database().get(&family::GROUP_CODES, &hash).expect("read");
    let mut record = found.expect("a code");
    change(&mut record);
    changes.put(&family::GROUP_CODES, &hash, &record);
}

fn change_roll(made: &GroupStore, changes: &mut Changes, change: impl FnOnce(&mut RollRecord)) {
    let mut roll = made.records.rolls(&id()).expect("read").remove(&roll_name("first")).expect("a roll");
    change(&mut roll);
    changes.put(&family::GROUP_ROLLS, &RollKey { group: id(), name: roll_name("first") }, &roll);
}

fn change_copy(made: &GroupStore, changes: &mut Changes, byte: u8, change: impl FnOnce(&mut SealedRecord)) {
    let found: Option<SealedRecord> = made.store.database().get(&family::SEALED_COPIES, &copy_id(byte)).expect("read");
    let mut copy = found.expect("a copy");
    change(&mut copy);
    changes.put(&family::SEALED_COPIES, &copy_id(byte), &copy);
}

/// Damages a populated store in each way by itself; returns the ways whose findings are others.
fn missed(table: &[Damage]) -> Vec<(&'static str, Vec<String>)> {
    let mut missed = Vec::new();
    for (what, change, expected) in table {
        let made = populated();
        damage(&made.store, |changes| change(&made, changes));
        let findings = made.findings();
        let is_found = |part: &&str| findings.iter().filter(|finding| finding.contains(*part)).count() == 1;
        if findings.len() != expected.len() || !expected.iter().all(is_found) {
            missed.push((*what, findings));
        }
    }
    missed
}

#[test]
fn every_damage_of_a_tree_is_a_finding() {
    let table: &[Damage] = &[
        (
            "more positions",
            |made, changes| change_group(made, changes, |group| group.size += 1),
            &[
                "it has 9 positions, but 1 pages with 8 leaves",
                "the live root of version 8 has 8 positions, which cannot be",
                "its record has 9 positions, but there are 8",
            ],
        ),
        (
            "more members",
            |made, changes| change_group(made, changes, |group| group.members += 1),
            &["its record has 7 leaves that are not 0, but there are 6"],
        ),
        (
            "fewer invited",
            |made, changes| change_group(made, changes, |group| group.invited -= 1),
            &["its record has 8 member numbers, but there are 9"],
        ),
        (
            "more open codes",
            |made, changes| change_group(made, changes, |group| group.open_codes += 1),
            &["its record has 2 open codes, but there are 1"],
        ),
        (
            "another root",
            |made, changes| {
                let other = made.records.rolls(&id()).expect("read")[&roll_name("first")].root;
                change_group(made, changes, |group| group.root = other);
            },
            &["of version 8, but the newest live root is"],
        ),
        (
            "another version",
            |made, changes| change_group(made, changes, |group| group.version = 9),
            &["of version 9, but the newest live root is"],
        ),
        (
            "another leaf",
            |made, changes| change_page(made, changes, |page| page.leaves[7].leaf = number(5)),
            &[
                "but its leaves give",
                "from version 8 on, but its leaves of that version give",
                "member 8 is member, so the leaf at position 7 must be",
            ],
        ),
        (
            "a leaf that is there since another version",
            |made, changes| change_page(made, changes, |page| page.leaves[7].since = 7),
            &["from version 7 on, but its leaves of that version give", "the live root of version 7 has 7 positions"],
        ),
        (
            "a leaf of a version to come",
            |made, changes| change_page(made, changes, |page| page.leaves[7].since = 9),
            &[
                "page 0 has a leaf from version 9 on, but the group's version is 8",
                "from version 8 on, but its leaves of that version give",
            ],
        ),
        (
            "a page with another root",
            |made, changes| change_page(made, changes, |page| page.root = number(5)),
            &[
                "page 0 has the root 0x0000000000000000000000000000000000000000000000000000000000000005, but its leaves give",
            ],
        ),
        (
            "a page that is missing",
            |_, changes| changes.delete(&family::GROUP_PAGES, &part(0)),
            &[
                "it has 8 positions, but 0 pages with 0 leaves",
                "its record has 6 leaves that are not 0, but there are 0",
            ],
        ),
        (
            "a page behind the last one",
            |made, changes| {
                let page: Option<PageRecord> = made.store.database().get(&family::GROUP_PAGES, &part(0)).expect("read");
                changes.put(&family::GROUP_PAGES, &part(1024), &page.expect("a page"));
            },
            &["page 1024 is behind the last one that a group can have"],
        ),
        (
            "a live root that is missing",
            |_, changes| changes.delete(&family::GROUP_ROOTS, &part(8)),
            &[
                "of version 8, but the newest live root is",
                "the live root of version 7 has a wrong time of replacement",
                "page 0 has a root from version 8 on, but no live root has it: it is never deleted",
            ],
        ),
        (
            "another live root",
            |made, changes| {
                let root = made.records.group(&id()).expect("read").expect("the group").root;
                change_root(made, changes, 6, |record| record.root = root);
            },
            &["the live root of version 6 is"],
        ),
        (
            "a live root that ended",
            |made, changes| {
                let root: Option<LiveRootRecord> =
                    made.store.database().get(&family::GROUP_ROOTS, &part(6)).expect("read");
                changes.put(&family::GROUP_ROOTS, &part(5), &root.expect("a live root"));
            },
            &["the live root of version 5 is"],
        ),
        (
            "a live root without its time",
            |made, changes| change_root(made, changes, 6, |record| record.replaced_at = None),
            &["the live root of version 6 has a wrong time of replacement"],
        ),
        (
            "a newest root that was replaced",
            |made, changes| change_root(made, changes, 8, |record| record.replaced_at = Some(UnixSeconds(1))),
            &["the live root of version 8 has a wrong time of replacement"],
        ),
        (
            "a live root of fewer positions",
            |made, changes| change_root(made, changes, 7, |record| record.size = 6),
            &["the live root of version 7 has 6 positions, which cannot be: the tree had 7, and has 8"],
        ),
        (
            "another root of a page",
            |_, changes| {
                changes.put(&family::GROUP_PAGE_ROOTS, &PageRootKey { group: id(), page: 0, since: 7 }, &number(5));
            },
            &["from version 7 on, but its leaves of that version give", "the live root of version 7 is"],
        ),
        (
            "a page's newest root that is missing",
            |_, changes| changes.delete(&family::GROUP_PAGE_ROOTS, &PageRootKey { group: id(), page: 0, since: 8 }),
            &["which no version has", "the live root of version 8 is"],
        ),
        (
            "a page's first root that is missing",
            |_, changes| changes.delete(&family::GROUP_PAGE_ROOTS, &PageRootKey { group: id(), page: 0, since: 4 }),
            &[
                "page 0 has no root before version 6, but the root of version 4 is live",
                "the live root of version 4 is",
            ],
        ),
        (
            "a root of a page that no group can have",
            |_, changes| {
                changes.put(
                    &family::GROUP_PAGE_ROOTS,
                    &PageRootKey { group: id(), page: u32::MAX, since: 8 },
                    &number(5),
                );
            },
            &["page 4294967295 is behind the last one, and has a root"],
        ),
    ];
    assert_eq!(missed(table), []);
}

#[test]
fn every_damage_of_members_and_codes_is_a_finding() {
    let table: &[Damage] = &[
        (
            "a member with the position of another one",
            |made, changes| change_member(made, changes, 3, |member| member.position = Some(0)),
            &[
                "member 3 has position 0, which another member has too",
                "member 3 is member, so the leaf at position 0 must be",
                "its record has 8 positions, but there are 7",
            ],
        ),
        (
            "a member behind the last position",
            |made, changes| change_member(made, changes, 3, |member| member.position = Some(8)),
            &["member 3 has position 8, but the group has 8 positions", "its record has 8 positions, but there are 7"],
        ),
        (
            "a member with another leaf",
            |made, changes| change_member(made, changes, 3, |member| member.leaf = Some(number(5))),
            &["member 3 is member, so the leaf at position 2 must be"],
        ),
        (
            "a removed member who is one",
            |made, changes| change_member(made, changes, 4, |member| member.standing = Standing::Member),
            &["member 4 is member, so the leaf at position 3 must be"],
        ),
        (
            "a member who is removed",
            |made, changes| change_member(made, changes, 3, |member| member.standing = Standing::Removed),
            &["member 3 is removed, so the leaf at position 2 must be 0x00"],
        ),
        (
            "an invited member with a leaf",
            |made, changes| change_member(made, changes, 3, |member| member.standing = Standing::Invited),
            &[
                "member 3 is invited, which does not fit its position, leaf, nullifier or secret",
                "member 3 is invited, so the leaf at position 2 must be 0x00",
            ],
        ),
        (
            "a member without a secret",
            |made, changes| change_member(made, changes, 3, |member| member.replacement_hash = None),
            &["member 3 is member, which does not fit its position, leaf, nullifier or secret"],
        ),
        (
            "a member who is missing",
            |_, changes| changes.delete(&family::GROUP_MEMBERS, &key(3)),
            &[
                "its record has 8 positions, but there are 7",
                "its record has 9 member numbers, but there are 8",
                "of member 3 is there, but the member is unknown",
                "is that of member 3, who is unknown",
            ],
        ),
        (
            "one who leaves and is not listed",
            |_, changes| changes.delete(&family::GROUP_LEAVING, &key(6)),
            &["member 6 has left, but group_leaving lacks it: its leaf never goes"],
        ),
        (
            "one who is listed and does not leave",
            |_, changes| changes.put(&family::GROUP_LEAVING, &key(3), &()),
            &["group_leaving has member 3, who is not leaving"],
        ),
        (
            "a nullifier that is missing",
            |_, changes| {
                changes.delete(&family::GROUP_ENROLMENTS, &EnrolmentKey { group: id(), nullifier: nullifier(3) })
            },
            &["member 3 has the enrolment nullifier"],
        ),
        (
            "a nullifier of another member",
            |_, changes| {
                changes.put(
                    &family::GROUP_ENROLMENTS,
                    &EnrolmentKey { group: id(), nullifier: nullifier(3) },
                    &member(1),
                );
            },
            &["member 3 has the enrolment nullifier"],
        ),
        (
            "a nullifier without a member",
            |_, changes| {
                changes.put(&family::GROUP_ENROLMENTS, &EnrolmentKey { group: id(), nullifier: number(5) }, &member(99))
            },
            &["is that of member 99, who is unknown"],
        ),
        (
            "an open code that is missing",
            |_, changes| changes.delete(&family::GROUP_CODES, &code(9).hash()),
            &["member 9 has the open code"],
        ),
        (
            "an open code of another member",
            |made, changes| change_code(made, changes, 9, |code| code.member = member(1)),
            &["member 9 has the open code", "of member 1 is open, but the member has another open code, or none"],
        ),
        (
            "a used code that is open again",
            |made, changes| change_code(made, changes, 3, |code| code.used_for = None),
            &["of member 3 is open, but the member has another open code, or none"],
        ),
        (
            "a used code with a copy",
            |made, changes| change_code(made, changes, 3, |code| code.copy = Some(copy_id(KEPT))),
            &["of member 3 is used, and still has the sealed copy"],
        ),
        (
            "a code with a copy that was not made with it",
            |made, changes| change_code(made, changes, 9, |code| code.copy = Some(copy_id(UNKEPT))),
            &["which was not made with it", "was made with the code"],
        ),
    ];
    assert_eq!(missed(table), []);
}

#[test]
fn every_damage_of_rolls_is_a_finding() {
    let table: &[Damage] = &[
        (
            "another root",
            |made, changes| change_roll(made, changes, |roll| roll.root = selfsame_protocol::tree::Root(B256::ZERO)),
            &["roll first has the root"],
        ),
        (
            "another number of members",
            |made, changes| change_roll(made, changes, |roll| roll.members += 1),
            &["roll first has 6 members, but its pages have 5"],
        ),
        (
            "positions for more pages",
            |made, changes| change_roll(made, changes, |roll| roll.size = 1025),
            &["roll first has 1025 positions in 1 pages, and the group has 8 positions"],
        ),
        (
            "a page that is missing",
            |made, changes| {
                let roll = made.records.rolls(&id()).expect("read").remove(&roll_name("first")).expect("a roll");
                changes.delete(&family::GROUP_ROLL_PAGES, &RollPageKey { group: id(), root: roll.page_roots[0] });
            },
            &["which is missing"],
        ),
        (
            "a page with other leaves",
            |made, changes| {
                let roll = made.records.rolls(&id()).expect("read").remove(&roll_name("first")).expect("a roll");
                let page = RollPageRecord { leaves: vec![number(5); 5] };
                changes.put(&family::GROUP_ROLL_PAGES, &RollPageKey { group: id(), root: roll.page_roots[0] }, &page);
            },
            &["has other leaves"],
        ),
        (
            "a roll that is missing",
            |_, changes| changes.delete(&family::GROUP_ROLLS, &RollKey { group: id(), name: roll_name("first") }),
            &["no roll has the page"],
        ),
    ];
    assert_eq!(missed(table), []);
}

#[test]
fn a_replica_may_have_pages_before_their_roll_and_no_pages_without_a_group() {
    let made = populated();
    let page = RollPageRecord { leaves: vec![number(5); 5] };
    let root = page_root(&page.leaves);
    damage(&made.store, |changes| {
        changes.put(&family::GROUP_ROLL_PAGES, &RollPageKey { group: id(), root }, &page);
    });
    assert_eq!(made.findings(), [format!("group members: no roll has the page {root} of rolls")]);
    made.store.join_cluster(&Membership { cluster: [1; 16], store: [2; 16] }).expect("written");
    assert_eq!(made.findings(), Vec::<String>::new());
    damage(&made.store, |changes| {
        let group = "others".parse().expect("an id");
        changes.put(&family::GROUP_ROLL_PAGES, &RollPageKey { group, root }, &page);
    });
    let strange = format!("group_roll_pages has page {root} of group others, which has no record");
    assert_eq!(made.findings(), [strange]);
}

#[test]
fn every_damage_of_sealed_copies_is_a_finding() {
    let table: &[Damage] = &[
        (
            "a copy that is missing",
            |_, changes| changes.delete(&family::SEALED_COPIES, &copy_id(KEPT)),
            &["sealed_handles has the handle"],
        ),
        (
            "an unkept copy that is missing",
            |_, changes| changes.delete(&family::SEALED_COPIES, &copy_id(UNKEPT)),
            &["sealed_handles has the handle", "but no such copy is not kept"],
        ),
        (
            "a handle that is missing",
            |_, changes| changes.delete(&family::SEALED_HANDLES, &stored_handle(&handle(KEPT))),
            &["is not found by its handle"],
        ),
        (
            "a handle of another copy",
            |_, changes| changes.put(&family::SEALED_HANDLES, &stored_handle(&handle(KEPT)), &copy_id(UNKEPT)),
            &["is not found by its handle", "sealed_handles has the handle"],
        ),
        (
            "a copy without a handle",
            |made, changes| change_copy(made, changes, KEPT, |copy| copy.handles.clear()),
            &["has no handle, so that no wallet finds it", "sealed_handles has the handle"],
        ),
        (
            "an unkept copy that is not listed",
            |_, changes| changes.delete(&family::SEALED_UNKEPT, &(Day(20), copy_id(UNKEPT))),
            &["sealed_unkept lacks it: it is never deleted"],
        ),
        (
            "a kept copy that is listed",
            |_, changes| changes.put(&family::SEALED_UNKEPT, &(Day(20), copy_id(KEPT)), &()),
            &["but no such copy is not kept"],
        ),
        (
            "a listed copy of another day",
            |_, changes| changes.put(&family::SEALED_UNKEPT, &(Day(19), copy_id(UNKEPT)), &()),
            &["of 1970-01-20, but no such copy is not kept"],
        ),
        (
            "a kept copy with a code",
            |made, changes| change_copy(made, changes, KEPT, |copy| copy.made_with = Some(code(9).hash())),
            &["is kept, and still has the code that it was made with"],
        ),
        (
            "a copy that was made with another code",
            |made, changes| change_copy(made, changes, OF_CODE, |copy| copy.made_with = None),
            &["which was not made with it"],
        ),
    ];
    assert_eq!(missed(table), []);
}

#[test]
fn records_of_groups_without_a_record_are_findings() {
    let made = populated();
    let (other, store) = ("others".parse().expect("an id"), &made.store);
    damage(store, |changes| {
        let database = store.database();
        let page: Option<PageRecord> = database.get(&family::GROUP_PAGES, &part(0)).expect("read");
        changes.put(&family::GROUP_PAGES, &PartKey { group: other, number: 0 }, &page.expect("a page"));
        let root: Option<LiveRootRecord> = database.get(&family::GROUP_ROOTS, &part(8)).expect("read");
        changes.put(&family::GROUP_ROOTS, &PartKey { group: other, number: 8 }, &root.expect("a root"));
        changes.put(&family::GROUP_PAGE_ROOTS, &PageRootKey { group: other, page: 0, since: 8 }, &number(5));
        let found: Option<MemberRecord> = database.get(&family::GROUP_MEMBERS, &key(4)).expect("read");
        changes.put(&family::GROUP_MEMBERS, &MemberKey { group: other, member: member(4) }, &found.expect("a member"));
        let roll = made.records.rolls(&id()).expect("read").remove(&roll_name("first")).expect("a roll");
        changes.put(&family::GROUP_ROLLS, &RollKey { group: other, name: roll_name("first") }, &roll);
        change_code(&made, changes, 9, |code| code.group = other);
    });
    let expected = [
        "group_pages has page 0 of group others, which has no record",
        "group_roots has the root of version 8 of group others, which has no record",
        "group_page_roots has the root of page 0 from version 8 on of group others, which has no record",
        "group_members has member 4 of group others, which has no record",
    ];
    let findings = made.findings();
    for text in expected {
        assert!(findings.iter().any(|finding| finding == text), "{text}: {findings:#?}");
    }
    let of_code = format!("group_codes has the code {} of group others, which has no record", code(9).hash());
    assert!(findings.contains(&of_code), "{findings:#?}");
    assert!(findings.contains(&"group_rolls has roll first of group others, which has no record".to_owned()));
    assert_eq!(findings.len(), 7, "the seventh is that of member 9, whose code is gone: {findings:#?}");
}
