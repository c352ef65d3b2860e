//! Proofs of members of groups. The recorded legacy proof stands for that of a member: a group's
//! root is trusted like another one, and the proof is checked alike.

use super::*;

const MEMBERS: &str = "members";
const ROLL: &str = "2026-assembly";

fn group() -> GroupId {
    MEMBERS.parse().expect("an id")
}

fn action(accepted: Option<&[&str]>, roll: Option<&str>) -> Action {
    Action {
        app_id: APP.to_owned(),
        environment: Environment::Staging,
        action: "verify-user".to_owned(),
        description: String::new(),
        max_verifications: 0,
        accept_legacy: true,
        accepted_identifiers: accepted.map(texts),
        genesis_issued_at_min: None,
        require_integrity: false,
        sybil_scores: Default::default(),
        roll: roll.map(|roll| roll.parse().expect("a name")),
    }
}

fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A directory whose application takes these credentials, with a group of staging that has the
/// public name `device` there.
fn directory_with(accepted: Option<&[&str]>, action: Option<Action>) -> Directory {
    let party = RelyingParty {
        accepted_identifiers: accepted.map(texts),
        ..relying_party(APP, &RelyingPartyId::derived_from(APP).to_string())
    };
    let group = VerifiedGroup {
        id: group(),
        environment: Environment::Staging,
        legacy_identifier: Some(LegacyIdentifier::Device),
    };
    Directory::new([party], action, [], keys()).with_groups([group])
}

fn request(identifier: &str) -> Value {
    with(legacy(), "/responses/0/identifier", json!(identifier))
}

/// Why the only item of a request fails before its proof is checked.
fn failure(directory: &Directory, request: &Value, roots: &RecordedRoots) -> Option<ItemError> {
    let request = VerificationRequest::read_with(request, directory.known_groups()).expect("a request");
    let admitted = directory.admit(APP, &request).expect("the request is admitted");
    let Ok(mut items) = check_items(&request.proofs, &admitted, directory, roots, NOW);
    items.remove(0).err()
}

fn roots(live: Option<RootAge>, roll: Option<Root>) -> RecordedRoots {
    RecordedRoots { live: live.map(|age| (group(), age)), roll, ..RecordedRoots::new() }
}

#[test]
fn the_name_of_an_unknown_group_is_refused_as_any_other_name() {
    let known: KnownGroups = [group()].into_iter().collect();
    let read = |name: &str, groups: &KnownGroups| {
        VerificationRequest::read_with(&request(name), groups).map(|_| ()).map_err(|error| (error.code, error.detail))
    };
    let today = "identifier must be one of orb, secure_document, document, device, face, selfie, not \"members\"";
    assert_eq!(read(MEMBERS, &KnownGroups::default()), Err(("validation_error", today.to_owned())));
    assert_eq!(read(MEMBERS, &known), Ok(()));
    let with_groups = "identifier must be one of orb, secure_document, document, device, face, selfie, or the id of a \
                       group, not \"others\"";
    assert_eq!(read("others", &known), Err(("validation_error", with_groups.to_owned())));
    let read = VerificationRequest::read_with(&request(MEMBERS), &known).expect("a request");
    assert_eq!(read.proofs.identifiers_and_nullifiers()[0].0, MEMBERS, "the answer repeats the name");
}

#[test]
fn a_member_proves_with_a_live_root_of_the_group() {
    let directory = directory_with(Some(&[MEMBERS]), None);
    let max_age = |name: &str| with(request(name), "/responses/0/max_age", json!(3600));
    for name in [MEMBERS, "device"] {
        for (live, expected) in [
            (Some(RootAge::Newest), None),
            (Some(RootAge::Seconds(3600)), None),
            (Some(RootAge::Seconds(3601)), Some("root_too_old")),
            (None, Some("invalid_merkle_root")),
        ] {
            let found = failure(&directory, &max_age(name), &roots(live, None));
            assert_eq!(found.as_ref().map(|error| error.code().name()), expected, "{name} {live:?}");
        }
        let ended = failure(&directory, &request(name), &roots(None, None)).expect("the root is not live");
        assert_eq!(
            ended.to_string(),
            "merkle_root is not a live root of the group members; ask for a new proof; the member may have been \
             removed or replaced"
        );
        assert!(ended.is_unknown_root());
    }
    // The proof is decoded and checked as any other.
    let live = roots(Some(RootAge::Newest), None);
    let holds = |request: &Value| {
        let request = VerificationRequest::read_with(request, directory.known_groups()).expect("a request");
        outcome_of(&directory, APP, &request, &live, NOW)
    };
    assert_eq!(holds(&request(MEMBERS)), Ok(true));
    assert_eq!(holds(&with(request(MEMBERS), "/responses/0/nullifier", json!("0x1"))), Ok(false));
    // What the group does not have is still that of the public credentials.
    let every = directory_with(None, None);
    assert_eq!(failure(&every, &request("orb"), &roots(None, None)), None);
    let other = failure(&every, &request("face"), &live).expect("the root is one of orb credentials");
    assert!(matches!(other, ItemError::RootOfOtherCredential { .. }), "{other:?}");
}

#[test]
fn in_another_environment_the_id_is_unknown_and_the_public_name_is_public() {
    let directory = directory_with(Some(&[MEMBERS, "device"]), None);
    let production = |name: &str| with(request(name), "/environment", json!("production"));
    let live = roots(Some(RootAge::Newest), None);
    let unknown = failure(&directory, &production(MEMBERS), &live);
    assert_eq!(unknown, Some(ItemError::UnknownLegacyRoot(Environment::Production)));
    let public = failure(&directory, &production("device"), &live).expect("the root is one of orb credentials");
    assert!(matches!(public, ItemError::RootOfOtherCredential { .. }), "{public:?}");
}

#[test]
fn an_action_with_a_roll_counts_the_root_of_the_roll_alone() {
    let directory = directory_with(None, Some(action(Some(&[MEMBERS]), Some(ROLL))));
    let own = RecordedRoots::new().legacy.0;
    let other = Root::from_number(U256::from(7));
    for name in [MEMBERS, "device"] {
        // The root ended long ago, and is the roll's.
        assert_eq!(failure(&directory, &request(name), &roots(None, Some(own))), None);
        let aged = roots(Some(RootAge::Seconds(u64::MAX)), Some(own));
        assert_eq!(failure(&directory, &request(name), &aged), None);
        for (roll, expected) in [
            (
                Some(other),
                "merkle_root is not the root of roll 2026-assembly of the group members, which alone counts for the \
                 action; ask for a proof with the leaf that the member had when the roll was taken",
            ),
            (
                None,
                "roll 2026-assembly of the group members, which alone counts for the action, is not taken; ask again \
                 when it is",
            ),
        ] {
            let found = failure(&directory, &request(name), &roots(Some(RootAge::Newest), roll)).expect("refused");
            assert_eq!((found.code().name(), &*found.to_string()), ("invalid_merkle_root", expected));
            assert!(found.is_unknown_root());
        }
    }
    // A group that the action took and that is not configured any more.
    let without = directory.with_groups([]);
    let read = VerificationRequest::read_with(&request(MEMBERS), &[group()].into_iter().collect()).expect("a request");
    let admitted = without.admit(APP, &read).expect("the request is admitted");
    let Ok(items) = check_items(&read.proofs, &admitted, &without, &roots(None, Some(own)), NOW);
    assert_eq!(items[0].as_ref().err(), Some(&ItemError::UnknownLegacyRoot(Environment::Staging)));
    let roll_of_nothing = Directory::new(
        [relying_party(APP, &RelyingPartyId::derived_from(APP).to_string())],
        [action(None, Some(ROLL))],
        [],
        keys(),
    );
    let public = failure(&roll_of_nothing, &request("orb"), &RecordedRoots::new());
    assert_eq!(public, Some(ItemError::UnknownLegacyRoot(Environment::Staging)));
}

#[test]
fn a_group_counts_where_application_or_action_names_it_by_either_name() {
    let live = roots(Some(RootAge::Newest), None);
    type Names = Option<&'static [&'static str]>;
    let table: [(Names, Names, bool); 10] = [
        (None, None, false),
        (Some(&[MEMBERS]), None, true),
        (Some(&["device"]), None, true),
        (Some(&["orb"]), None, false),
        (None, Some(&[MEMBERS]), true),
        (None, Some(&["device"]), true),
        (None, Some(&["orb"]), false),
        (Some(&["orb", "device"]), Some(&[MEMBERS]), true),
        (Some(&["orb"]), Some(&[MEMBERS]), false),
        (Some(&[MEMBERS]), Some(&["orb"]), false),
    ];
    for (of_app, of_action, expected) in table {
        let directory = directory_with(of_app, Some(action(of_action, None)));
        for name in [MEMBERS, "device"] {
            let found = failure(&directory, &request(name), &live);
            assert_eq!(found.is_none(), expected, "{of_app:?} {of_action:?} {name}: {found:?}");
            let code = found.map(|error| error.code().name());
            assert_eq!(code.is_some(), code == Some("identifier_not_accepted"), "{code:?}");
        }
    }
    let text = |name: &str| failure(&directory_with(None, None), &request(name), &live).expect("refused").to_string();
    for (name, given) in [(MEMBERS, "\"members\""), ("device", "\"device\" of the group members")] {
        let expected = format!(
            "application {APP} accepts public credentials alone, not {given}; ask for a proof of an accepted credential"
        );
        assert_eq!(text(name), expected);
    }
}

#[test]
fn an_answer_to_a_sign_in_can_be_that_of_a_member() {
    let known: KnownGroups = [group()].into_iter().collect();
    let read = |groups: &KnownGroups| {
        let bound = Bound {
            statement: Statement::Legacy,
            environment: Environment::Staging,
            action: "",
            nonce: U256::ZERO,
            signal_hash: U256::from(5),
            max_age: 3600,
            genesis_issued_at_min: None,
            identifier: None,
            groups,
        };
        let read = VerificationRequest::read_bound(&request(MEMBERS), &bound);
        read.map(|read| read.identifier).map_err(|error| error.attribute.unwrap_or_default())
    };
    assert_eq!(read(&known), Ok(MEMBERS.to_owned()));
    assert_eq!(read(&KnownGroups::default()), Err("responses[0].identifier".to_owned()));
}
