//! The table of refusals in its order, and the events of a membership.

use alloy_primitives::U256;

use super::super::codes::Code;
use super::super::enrolment::{Enrolled, EnrolmentError, EnrolmentRequest, MemberChangeKind, Step};
use super::super::identity::{Act, Token};
use super::super::names::{FieldNumber, SecretHash};
use super::super::records::{CodeRecord, CopyId, SealedRecord};
use super::super::tree::MOST_POSITIONS;
use super::super::wire::{HexText, SealedContent, SentCommitment};
use super::community::{
    Community, TODAY, hash, join, leaf, leave, member, nullifier, replace, replace_by_code, request, secret,
};

const MISSING_COPY: Option<SecretHash> = Some(SecretHash([0xcc; 32]));
const MODULUS_MINUS_ONE: [u64; 4] =
    [0x43e1_f593_f000_0000, 0x2833_e848_79b9_7091, 0xb850_45b6_8181_585d, 0x3064_4e72_e131_a029];

/// A group with members A (leaf 1), B (leaf 2) and invited C.
fn community() -> (Community, Code) {
    let mut community = Community::new();
    community.enrolled("A", 1);
    community.enrolled("B", 2);
    let code = community.code("C");
    (community, code)
}

#[test]
fn the_first_fault_of_a_request_with_a_code_answers() {
    let (mut community, open) = community();
    let ended = open;
    let used = community.code("C");
    community.enrol(&join(&used, leaf(3), nullifier(3), 1)).expect("C joins");
    let to_replace = community.code("C");
    let open = community.code("D");
    // Each request has all the faults of the rows that come after its own.
    let zero = |act, code: &Code| EnrolmentRequest {
        copy: MISSING_COPY,
        ..request(act, Token::Code(code.clone()), FieldNumber::ZERO, nullifier(2), 9)
    };
    let with_leaf =
        |commitment, nullifier| EnrolmentRequest { copy: MISSING_COPY, ..join(&open, commitment, nullifier, 9) };
    let expect = |community: &mut Community, request: &EnrolmentRequest, error: &EnrolmentError, is_before_proof| {
        assert_eq!(community.check_before_proof(request).err(), Some(error.clone()).filter(|_| is_before_proof));
        assert_eq!(community.enrol(request).as_ref(), Err(error));
    };
    let unknown = Code::from_random_bytes([0xee; 17]);
    for code in [&unknown, &ended] {
        expect(&mut community, &zero(Act::Join, code), &EnrolmentError::UnknownCode, true);
    }
    let last_day = TODAY.plus(30);
    let begin = std::mem::replace(&mut community.now, last_day.plus(1).begins_at());
    let expired = EnrolmentError::CodeExpired { expires_on: last_day };
    for (act, code) in [(Act::Join, &used), (Act::Join, &to_replace), (Act::Replace, &open)] {
        expect(&mut community, &zero(act, code), &expired, true);
    }
    community.now = last_day.begins_at();
    expect(
        &mut community,
        &zero(Act::Join, &open),
        &EnrolmentError::CommitmentInvalid("0, which is the leaf of nobody"),
        true,
    );
    community.now = begin;
    expect(&mut community, &zero(Act::Join, &used), &EnrolmentError::CodeUsed, true);
    expect(&mut community, &zero(Act::Join, &to_replace), &EnrolmentError::UseReplace, true);
    expect(&mut community, &zero(Act::Replace, &open), &EnrolmentError::UseJoin, true);
    let below = FieldNumber(U256::from_limbs(MODULUS_MINUS_ONE));
    let modulus = FieldNumber(below.0 + U256::from(1));
    let not_below = EnrolmentError::CommitmentInvalid("not below the modulus of the scalar field");
    expect(&mut community, &with_leaf(modulus, nullifier(2)), &not_below, true);
    expect(&mut community, &with_leaf(FieldNumber(U256::MAX), nullifier(2)), &not_below, true);
    let other_number = EnrolmentError::EnrolledUnderAnotherNumber;
    expect(&mut community, &with_leaf(leaf(1), nullifier(2)), &other_number, false);
    expect(&mut community, &with_leaf(leaf(1), nullifier(4)), &EnrolmentError::CommitmentInTree, false);
    let size = std::mem::replace(&mut community.loaded.record.size, MOST_POSITIONS);
    expect(&mut community, &with_leaf(leaf(4), nullifier(4)), &EnrolmentError::GroupFull, false);
    community.loaded.record.size = size;
    expect(&mut community, &with_leaf(leaf(4), nullifier(4)), &EnrolmentError::CopyMissing, false);
    // Without a fault the open code is good still.
    assert_eq!(community.enrol(&join(&open, below, nullifier(4), 9)), Ok(Enrolled::At(3)));
}

#[test]
fn the_first_fault_of_a_request_with_a_secret_answers() {
    let (mut community, _) = community();
    community.enrol(&replace(1, leaf(3), nullifier(1), 2)).expect("A replaces");
    let worst =
        |secret, leaf, nullifier| EnrolmentRequest { copy: MISSING_COPY, ..replace(secret, leaf, nullifier, 9) };
    for zero in [replace(9, FieldNumber::ZERO, nullifier(9), 9), leave(9, FieldNumber::ZERO, nullifier(9))] {
        assert!(matches!(community.enrol(&zero), Err(EnrolmentError::CommitmentInvalid(_))));
    }
    let rows = [
        (worst(9, leaf(2), nullifier(9)), EnrolmentError::NotAMember),
        (worst(9, leaf(2), nullifier(1)), EnrolmentError::ReplacementSecretWrong),
        // The secret before the replacement is over.
        (worst(1, leaf(2), nullifier(1)), EnrolmentError::ReplacementSecretWrong),
        // The secret of another member.
        (worst(1, leaf(4), nullifier(1)), EnrolmentError::ReplacementSecretWrong),
        (worst(2, leaf(2), nullifier(1)), EnrolmentError::CommitmentInTree),
        // The member's own leaf, with another next secret.
        (worst(2, leaf(3), nullifier(1)), EnrolmentError::CommitmentInTree),
        (worst(2, leaf(4), nullifier(1)), EnrolmentError::ReplacedToday),
        (leave(9, leaf(2), nullifier(9)), EnrolmentError::NotAMember),
        (leave(9, leaf(2), nullifier(1)), EnrolmentError::ReplacementSecretWrong),
        (leave(2, leaf(1), nullifier(1)), EnrolmentError::NotAMember),
        (leave(2, leaf(4), nullifier(1)), EnrolmentError::NotAMember),
    ];
    for (request, error) in rows {
        assert_eq!(community.check_before_proof(&request), Ok(()), "{error:?}");
        assert_eq!(community.enrol(&request), Err(error.clone()), "{request:?}");
    }
    community.next_day();
    assert_eq!(community.enrol(&worst(2, leaf(4), nullifier(1))), Err(EnrolmentError::CopyMissing));
    assert_eq!(community.enrol(&replace(2, leaf(4), nullifier(1), 9)), Ok(Enrolled::At(0)));
}

#[test]
fn a_joining_adds_a_leaf_and_older_roots_stay() {
    let (mut community, code) = community();
    let (before, version) = (community.root(), community.loaded.record.version);
    community.take_told();
    let request = join(&code, leaf(3), nullifier(3), 1);
    assert_eq!(community.enrol(&request), Ok(Enrolled::At(2)));
    assert_eq!(community.leaves(), [leaf(1), leaf(2), leaf(3)]);
    assert_eq!(community.loaded.record.version, version + 1);
    assert_eq!(community.standing("C"), "member");
    assert_eq!(community.take_told(), [("C".to_owned(), MemberChangeKind::Joined)]);
    assert!(community.is_live(before) && community.is_live(community.root()));
    assert_eq!(community.enrolments[&nullifier(3)], member("C"));
    // The code is used by this write, and answers the same to the same.
    assert_eq!(community.repeat(&request), Ok(Enrolled::At(2)));
    community.next_day();
    assert_eq!(community.repeat(&request), Ok(Enrolled::At(2)));
    assert_eq!(community.enrol(&join(&code, leaf(4), nullifier(3), 1)), Err(EnrolmentError::CodeUsed));
    let other_hash = join(&code, leaf(3), nullifier(3), 2);
    assert_eq!(community.enrol(&other_hash), Err(EnrolmentError::CommitmentInTree));
    // Once another leaf took the place, the code is used for whoever sends it.
    community.enrol(&replace(1, leaf(5), nullifier(3), 2)).expect("C replaces");
    assert_eq!(community.enrol(&request), Err(EnrolmentError::CodeUsed));
}

#[test]
fn a_lost_device_replaces_the_leaf_and_every_root_that_had_it_ends() {
    let (mut community, code) = community();
    let with_a = community.root();
    community.enrol(&join(&code, leaf(3), nullifier(3), 1)).expect("C joins");
    let with_c = community.root();
    community.take_told();
    let request = replace(1, leaf(13), nullifier(3), 2);
    assert_eq!(community.enrol(&request), Ok(Enrolled::At(2)));
    assert_eq!(community.leaves(), [leaf(1), leaf(2), leaf(13)]);
    assert_eq!(community.take_told(), [("C".to_owned(), MemberChangeKind::Replaced)]);
    assert!(community.is_live(with_a), "the root from before the leaf stays");
    assert!(!community.is_live(with_c), "the root with the old leaf ends");
    // The same request again is answered, also with the secret that is over by now.
    assert_eq!(community.repeat(&request), Ok(Enrolled::At(2)));
    // Of two copies the first to replace has won.
    assert_eq!(community.enrol(&replace(1, leaf(14), nullifier(3), 3)), Err(EnrolmentError::ReplacementSecretWrong));
    assert_eq!(community.enrol(&replace(2, leaf(14), nullifier(3), 3)), Err(EnrolmentError::ReplacedToday));
    community.next_day();
    assert_eq!(community.enrol(&replace(2, leaf(14), nullifier(3), 3)), Ok(Enrolled::At(2)));
}

#[test]
fn a_link_of_the_enroller_overrides_the_thief_with_a_new_seed() {
    let (mut community, _) = community();
    community.enrol(&replace(1, leaf(66), nullifier(1), 66)).expect("the thief replaces");
    let code = community.code("A");
    community.take_told();
    // On the same day, without the secret, with another seed.
    assert_eq!(community.enrol(&replace_by_code(&code, leaf(11), nullifier(11), 5)), Ok(Enrolled::At(0)));
    assert_eq!(community.take_told(), [("A".to_owned(), MemberChangeKind::Replaced)]);
    // The old seed stays the number's, but opens nothing more.
    let thief = community.enrol(&replace(66, leaf(67), nullifier(1), 67));
    assert_eq!(thief, Err(EnrolmentError::NotAMember));
    assert_eq!(community.enrol(&replace(66, leaf(67), nullifier(11), 67)), Err(EnrolmentError::ReplacementSecretWrong));
    let to_b = community.code("B");
    let under_b = community.enrol(&replace_by_code(&to_b, leaf(68), nullifier(1), 68));
    assert_eq!(under_b, Err(EnrolmentError::EnrolledUnderAnotherNumber));
    // The replacement by link counts as none of the member's own.
    community.next_day();
    assert_eq!(community.enrol(&replace(5, leaf(12), nullifier(11), 6)), Ok(Enrolled::At(0)));
    assert_eq!(community.enrol(&replace(6, leaf(14), nullifier(11), 7)), Err(EnrolmentError::ReplacedToday));
    let code = community.code("A");
    assert_eq!(community.enrol(&replace_by_code(&code, leaf(14), nullifier(11), 7)), Ok(Enrolled::At(0)));
}

#[test]
fn an_open_link_of_a_member_survives_the_member_s_own_replacement() {
    let (mut community, _) = community();
    let code = community.code("A");
    community.enrol(&replace(1, leaf(11), nullifier(1), 2)).expect("A replaces");
    assert_eq!(community.enrol(&replace_by_code(&code, leaf(12), nullifier(1), 3)), Ok(Enrolled::At(0)));
}

#[test]
fn a_removal_takes_the_leaf_and_every_root_that_had_it() {
    let (mut community, code) = community();
    let old = community.root();
    community.enrol(&join(&code, leaf(3), nullifier(3), 1)).expect("C joins");
    let open = community.code("A");
    community.take_told();
    assert!(community.remove("A"));
    assert_eq!(community.leaves(), [FieldNumber::ZERO, leaf(2), leaf(3)]);
    assert_eq!((community.loaded.record.size, community.loaded.record.members), (3, 2));
    assert_eq!(community.standing("A"), "removed");
    assert_eq!(community.take_told(), [("A".to_owned(), MemberChangeKind::Removed)]);
    assert!(!community.is_live(old) && community.is_live(community.root()));
    assert_eq!(community.loaded.live.count(), 1, "all roots had the leaf");
    // With the leaf went the open link and the secret.
    assert_eq!(community.enrol(&replace_by_code(&open, leaf(11), nullifier(1), 2)), Err(EnrolmentError::UnknownCode));
    assert_eq!(community.enrol(&replace(1, leaf(11), nullifier(1), 2)), Err(EnrolmentError::NotAMember));
    assert_eq!(community.enrol(&leave(1, leaf(1), nullifier(1))), Err(EnrolmentError::NotAMember));
    let before = community.stored();
    assert!(!community.remove("A"), "removed before");
    assert!(!community.remove("Z"), "never invited");
    assert_eq!(community.stored(), before);
    // An enrolment nullifier stays, also after the removal.
    let to_d = community.code("D");
    let as_d = community.enrol(&join(&to_d, leaf(11), nullifier(1), 1));
    assert_eq!(as_d, Err(EnrolmentError::EnrolledUnderAnotherNumber));
}

#[test]
fn a_member_who_leaves_counts_as_left_at_once_and_the_tree_follows() {
    let (mut community, _) = community();
    let (root, revision) = (community.root(), community.loaded.record.version);
    community.take_told();
    let request = leave(1, leaf(1), nullifier(1));
    assert_eq!(community.enrol(&request), Ok(Enrolled::Left));
    assert_eq!(
        (community.standing("A"), community.root(), community.loaded.record.version),
        ("leaving", root, revision)
    );
    assert_eq!(community.take_told(), [("A".to_owned(), MemberChangeKind::Removed)]);
    assert_eq!(community.repeat(&request), Ok(Enrolled::Left));
    assert_eq!(community.enrol(&replace(1, leaf(11), nullifier(1), 2)), Err(EnrolmentError::NotAMember));
    assert_eq!(community.enrol(&leave(2, leaf(1), nullifier(1))), Err(EnrolmentError::NotAMember));
    assert_eq!(community.enrol(&leave(1, leaf(11), nullifier(1))), Err(EnrolmentError::NotAMember));
    community.clear_left("A");
    assert_eq!((community.standing("A"), community.leaves()), ("left", vec![FieldNumber::ZERO, leaf(2)]));
    assert!(!community.is_live(root));
    assert_eq!(community.repeat(&request), Ok(Enrolled::Left));
    assert!(community.take_told().is_empty(), "it was told when the member left");
    let before = community.stored();
    community.clear_left("A");
    community.clear_left("B");
    community.clear_left("Z");
    assert_eq!(community.stored(), before, "nobody else is leaving");
}

#[test]
fn a_member_who_comes_back_has_the_old_position() {
    for is_cleared in [false, true] {
        let (mut community, _) = community();
        community.enrol(&leave(1, leaf(1), nullifier(1))).expect("A leaves");
        if is_cleared {
            community.clear_left("A");
        }
        let (with_a, code) = (community.root(), community.code("A"));
        community.take_told();
        let replaces = replace_by_code(&code, leaf(11), nullifier(1), 2);
        assert_eq!(community.enrol(&replaces), Err(EnrolmentError::UseJoin));
        // The seed may be the old one.
        assert_eq!(community.enrol(&join(&code, leaf(11), nullifier(1), 2)), Ok(Enrolled::At(0)));
        assert_eq!((community.standing("A"), community.leaves()), ("member", vec![leaf(11), leaf(2)]));
        assert_eq!(community.take_told(), [("A".to_owned(), MemberChangeKind::Joined)]);
        assert_eq!(community.is_live(with_a), is_cleared, "the leaf that was left goes at once");
        community.clear_left("A");
        assert_eq!(community.standing("A"), "member");
        let (position, of_a) = (community.enrolled("D", 4), community.members[&member("A")].position);
        assert_eq!((position, of_a), (2, Some(0)), "a position goes to nobody else");
    }
}

#[test]
fn a_removed_member_comes_back_with_a_link_and_a_new_seed() {
    let (mut community, _) = community();
    community.remove("A");
    let code = community.code("A");
    assert_eq!(community.standing("A"), "removed", "a link changes nothing by itself");
    assert_eq!(community.enrol(&join(&code, leaf(11), nullifier(11), 2)), Ok(Enrolled::At(0)));
    assert_eq!(community.enrolments[&nullifier(1)], member("A"));
    assert_eq!(community.enrolments[&nullifier(11)], member("A"));
    // With the leaf from before, too: it is in no tree.
    community.remove("A");
    let code = community.code("A");
    assert_eq!(community.enrol(&join(&code, leaf(11), nullifier(1), 2)), Ok(Enrolled::At(0)));
}

#[test]
fn acts_of_one_step_see_what_those_before_left() {
    let (mut community, code) = community();
    let other = community.code("D");
    let version = community.loaded.record.version;
    let number = member("C");
    let Ok(decided) = community.step(|step| {
        let decided = vec![
            step.enrol(&join(&code, leaf(3), nullifier(3), 1))?,
            // The leaf is taken, the seed has a number, the code is used.
            step.enrol(&join(&other, leaf(3), nullifier(4), 1))?,
            step.enrol(&join(&other, leaf(4), nullifier(3), 1))?,
            step.enrol(&join(&code, leaf(5), nullifier(3), 1))?,
            step.enrol(&join(&code, leaf(3), nullifier(3), 1))?,
            step.enrol(&replace(1, leaf(6), nullifier(3), 2))?,
        ];
        assert!(step.remove(&number)?);
        let last = step.enrol(&join(&other, leaf(3), nullifier(4), 1))?;
        Ok::<_, std::convert::Infallible>([decided, vec![last]].concat())
    });
    let expected = [
        Ok(Enrolled::At(2)),
        Err(EnrolmentError::CommitmentInTree),
        Err(EnrolmentError::EnrolledUnderAnotherNumber),
        Err(EnrolmentError::CodeUsed),
        Ok(Enrolled::At(2)),
        Ok(Enrolled::At(2)),
        Ok(Enrolled::At(3)),
    ];
    assert_eq!(decided, expected);
    assert_eq!(community.leaves(), [leaf(1), leaf(2), FieldNumber::ZERO, leaf(3)]);
    assert_eq!(community.loaded.record.version, version + 1, "one root for all");
}

#[test]
fn the_last_position_is_given_and_no_other_after_it() {
    let (mut community, code) = community();
    community.loaded.record.size = MOST_POSITIONS;
    assert_eq!(community.enrol(&join(&code, leaf(3), nullifier(3), 1)), Err(EnrolmentError::GroupFull));
    // Who has a position needs none.
    community.loaded.record.size = 2;
    community.remove("A");
    community.loaded.record.size = MOST_POSITIONS;
    let code = {
        let invited = community.members.get_mut(&member("A")).expect("A");
        let code = Code::from_random_bytes([0xaa; 17]);
        invited.open_code = Some(code.hash());
        let record = community.codes.values().next().cloned().expect("a code");
        let record = CodeRecord { member: member("A"), used_for: None, ..record };
        community.codes.insert(code.hash(), record);
        code
    };
    let request = join(&code, leaf(11), nullifier(1), 2);
    let mut step = Step::new(&community.id, &community.loaded, &community, community.today());
    assert_eq!(step.enrol(&request), Ok(Ok(Enrolled::At(0))));
}

#[test]
fn a_sealed_copy_is_kept_from_the_write_that_names_it() {
    let (mut community, code) = community();
    let handle = SecretHash([3; 32]);
    let content = SealedContent { iv: HexText(vec![1]), sealed: HexText(vec![2]), slots: Vec::new() };
    let copy = SealedRecord {
        content,
        version: 1,
        handles: vec![handle],
        write_key_hash: hash(8),
        made_on: TODAY,
        is_kept: false,
        made_with: Some(code.hash()),
    };
    community.copies.insert(handle, (CopyId::repeat_byte(4), copy.clone()));
    let request = EnrolmentRequest { copy: Some(handle), ..join(&code, leaf(3), nullifier(3), 1) };
    assert_eq!(community.enrol(&request), Ok(Enrolled::At(2)));
    let (_, kept) = &community.copies[&handle];
    assert_eq!(*kept, SealedRecord { is_kept: true, made_with: None, ..copy });
    // A copy that is kept can be named again, by another replacement.
    let again = EnrolmentRequest { copy: Some(handle), ..replace(1, leaf(13), nullifier(3), 2) };
    assert_eq!(community.enrol(&again), Ok(Enrolled::At(2)));
    assert!(community.copies[&handle].1.is_kept);
}

/// A sealed copy that was made with a code and is not kept.
fn copy_made_with(community: &mut Community, code: &Code, number: u8) -> (SecretHash, CopyId) {
    let (handle, id) = (SecretHash([number; 32]), CopyId::repeat_byte(number));
    let copy = SealedRecord {
        content: SealedContent { iv: HexText(vec![1]), sealed: HexText(vec![2]), slots: Vec::new() },
        version: 1,
        handles: vec![handle],
        write_key_hash: hash(8),
        made_on: TODAY,
        is_kept: false,
        made_with: Some(code.hash()),
    };
    community.copies.insert(handle, (id, copy));
    community.codes.get_mut(&code.hash()).expect("a code").copy = Some(id);
    (handle, id)
}

/// Asserts that neither a code nor a copy names another one.
fn assert_no_pair_is_stored(community: &Community) {
    assert!(community.codes.values().all(|code| code.copy.is_none()), "{:?}", community.codes);
    let copies = community.copies.values();
    assert!(copies.clone().all(|(_, copy)| copy.made_with.is_none()), "{copies:?}");
}

#[test]
fn a_code_of_another_group_does_not_say_whose_the_copy_is_that_it_permitted() {
    let (mut community, code) = community();
    let permitting = community.code("F");
    let (handle, _) = copy_made_with(&mut community, &permitting, 4);
    let of_others = community.codes.get_mut(&permitting.hash()).expect("a code");
    of_others.group = "others".parse().expect("an id");
    let before = of_others.clone();
    let request = EnrolmentRequest { copy: Some(handle), ..join(&code, leaf(3), nullifier(3), 1) };
    let (enrolled, changes) = {
        let mut step = Step::new(&community.id, &community.loaded, &community, community.today());
        (step.enrol(&request), step.finish(community.now).expect("changes"))
    };
    assert_eq!(enrolled, Ok(Ok(Enrolled::At(2))));
    // The record of this group does not guard the other group's code.
    let after = CodeRecord { copy: None, ..before.clone() };
    assert_eq!(changes.permits, [(permitting.hash(), (before, after))].into());
    assert!(!changes.codes.contains_key(&permitting.hash()));
    let (_, kept) = changes.copies.values().next().expect("a copy");
    assert_eq!((kept.is_kept, kept.made_with), (true, None));
}

#[test]
fn a_code_that_is_used_with_another_copy_leaves_no_pair_behind() {
    let (mut community, code) = community();
    let permitting = community.code("F");
    let (_, abandoned) = copy_made_with(&mut community, &code, 4);
    let (handle, _) = copy_made_with(&mut community, &permitting, 5);
    let request = EnrolmentRequest { copy: Some(handle), ..join(&code, leaf(3), nullifier(3), 1) };
    assert_eq!(community.enrol(&request), Ok(Enrolled::At(2)));
    assert_no_pair_is_stored(&community);
    let copies = community.copies.values();
    let kept: Vec<_> = copies.map(|(id, copy)| (*id, copy.is_kept)).collect();
    assert_eq!(kept, [(abandoned, false), (CopyId::repeat_byte(5), true)], "the abandoned one goes within two days");
    // Nor does a joining that names no copy.
    copy_made_with(&mut community, &permitting, 6);
    assert_eq!(community.enrol(&join(&permitting, leaf(4), nullifier(4), 1)), Ok(Enrolled::At(3)));
    assert_no_pair_is_stored(&community);
}

#[test]
fn a_code_of_another_group_is_unknown() {
    let (mut community, code) = community();
    let record = community.codes.get_mut(&code.hash()).expect("a code");
    record.group = "others".parse().expect("an id");
    let request = join(&code, leaf(3), nullifier(3), 1);
    let Ok(decided) = community.step(|step| step.enrol(&request));
    assert_eq!(decided, Err(EnrolmentError::UnknownCode));
}

#[test]
fn a_claim_has_the_one_leaf_root_and_the_statement_of_its_request() {
    let (community, code) = community();
    let key = community.loaded.record.group_key;
    let request = join(&code, leaf(3), nullifier(3), 1);
    let claim = |request: &EnrolmentRequest| format!("{:?}", request.claim(&key).expect("a claim"));
    let same = EnrolmentRequest { copy: MISSING_COPY, replacement_hash: hash(7), ..request.clone() };
    assert_eq!(claim(&request), claim(&same), "the statement has neither the copy nor the next secret");
    let others = [
        EnrolmentRequest { act: Act::Replace, ..request.clone() },
        EnrolmentRequest { token: Token::ReplacementSecret(secret(1)), ..request.clone() },
        EnrolmentRequest { commitment: SentCommitment(leaf(4).0), ..request.clone() },
        EnrolmentRequest { nullifier: nullifier(4), ..request.clone() },
    ];
    for other in others {
        assert_ne!(claim(&request), claim(&other), "{other:?}");
    }
}
