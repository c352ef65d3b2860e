//! Who gets a link, and what ends one.

use super::super::enrolment::EnrolmentError;
use super::super::wire::InvitedMembers::{self, All, New, NotJoined};
use super::community::{Community, join, leaf, leave, nullifier};

/// A group with a number in each standing.
fn community() -> Community {
    let mut community = Community::new();
    for (number, of) in [("member", 1), ("leaving", 2), ("left", 3), ("removed", 4)] {
        community.enrolled(number, of);
    }
    community.enrol(&leave(1, leaf(2), nullifier(2))).expect("leaves");
    community.enrol(&leave(1, leaf(3), nullifier(3))).expect("leaves");
    community.clear_left("left");
    community.remove("removed");
    community.code("invited");
    community.code("uninvited");
    community.remove("uninvited");
    community
}

#[test]
fn each_mode_invites_the_numbers_that_it_names() {
    // For each number: whether it gets a link, whether it is new, whether the link replaces.
    /// Whether the number is new, and whether the link leads to a replacement.
    type NewLink = Option<(bool, bool)>;
    let rows: [(&str, InvitedMembers, NewLink); 21] = [
        ("unknown", New, Some((true, false))),
        ("invited", New, None),
        ("uninvited", New, None),
        ("member", New, None),
        ("leaving", New, None),
        ("left", New, None),
        ("removed", New, None),
        ("unknown", NotJoined, Some((true, false))),
        ("invited", NotJoined, Some((false, false))),
        ("uninvited", NotJoined, None),
        ("member", NotJoined, None),
        ("leaving", NotJoined, None),
        ("left", NotJoined, None),
        ("removed", NotJoined, None),
        ("unknown", All, Some((true, false))),
        ("invited", All, Some((false, false))),
        ("uninvited", All, Some((false, false))),
        ("member", All, Some((false, true))),
        ("leaving", All, Some((false, false))),
        ("left", All, Some((false, false))),
        ("removed", All, Some((false, false))),
    ];
    for (number, of, expected) in rows {
        let mut community = community();
        let (before, told) = (community.stored(), community.take_told());
        let invited = community.invite_of(number, of);
        let found = invited.as_ref().map(|invited| (invited.is_new, invited.replaces));
        assert_eq!(found, expected, "{number} {of:?}");
        assert!(community.take_told().is_empty() && !told.is_empty(), "an invitation is no event");
        if invited.is_none() {
            assert_eq!(community.stored(), before, "{number} {of:?}");
        }
        assert_eq!(community.loaded.record.root, before.0.root);
    }
}

#[test]
fn a_new_link_ends_the_older_one_and_nothing_else() {
    let mut community = community();
    let counts = |community: &Community| (community.loaded.record.invited, community.loaded.record.open_codes);
    assert_eq!(counts(&community), (6, 1));
    let first = community.code("invited");
    assert_eq!(counts(&community), (6, 1));
    let second = community.invite_of("invited", NotJoined).expect("a link").code;
    assert_eq!(counts(&community), (6, 1));
    let request = join(&first, leaf(5), nullifier(5), 1);
    assert_eq!(community.enrol(&request), Err(EnrolmentError::UnknownCode));
    community.enrol(&join(&second, leaf(5), nullifier(5), 1)).expect("joins");
    assert_eq!(counts(&community), (6, 0));
    // A used code is not ended by a newer one.
    let third = community.code("invited");
    assert_eq!(counts(&community), (6, 1));
    assert!(community.repeat(&join(&second, leaf(5), nullifier(5), 1)).is_ok());
    assert_eq!(community.enrol(&join(&third, leaf(6), nullifier(5), 1)), Err(EnrolmentError::UseReplace));
    community.remove("invited");
    assert_eq!(counts(&community), (6, 0));
    assert_eq!(community.enrol(&join(&third, leaf(6), nullifier(5), 1)), Err(EnrolmentError::UnknownCode));
}

#[test]
fn a_number_that_was_removed_before_it_joined_is_invited_again_by_its_name() {
    let mut community = community();
    assert_eq!(community.standing("uninvited"), "removed");
    let code = community.code("uninvited");
    assert_eq!(community.standing("uninvited"), "invited");
    assert!(community.invite_of("uninvited", NotJoined).is_some());
    assert_eq!(community.enrol(&join(&code, leaf(5), nullifier(5), 1)), Err(EnrolmentError::UnknownCode));
}

#[test]
fn a_removal_ends_the_link_of_a_number_that_was_removed_before() {
    let mut community = community();
    let code = community.code("removed");
    assert_eq!(community.standing("removed"), "removed", "the link is not used");
    assert!(community.remove("removed"));
    assert_eq!(community.enrol(&join(&code, leaf(5), nullifier(4), 1)), Err(EnrolmentError::UnknownCode));
    assert!(!community.remove("removed"));
}

#[test]
fn a_link_says_replace_for_a_number_whose_joining_is_of_the_same_step() {
    let mut community = community();
    let code = community.code("unknown");
    let number = super::community::member("unknown");
    let other = super::super::codes::Code::from_random_bytes([9; 17]);
    let expires_on = community.today().plus(1);
    let Ok(invited) = community.step(|step| {
        step.enrol(&join(&code, leaf(5), nullifier(5), 1))?.expect("joins");
        step.invite(&number, All, expires_on, || other)
    });
    assert!(invited.expect("a link").replaces);
}
