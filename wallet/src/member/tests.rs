//! Requests and proofs of members, compared with the recorded vectors and checked with the public
//! legacy key.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use selfsame_protocol::groth16::{Claim, EncodedClaim, PreparedKey, Proof, VerificationKey};
use selfsame_protocol::groups::enrolment::EnrolmentRequest;
use selfsame_protocol::groups::names::Day;
use selfsame_protocol::groups::tree::{GroupTree, page_bytes};
use selfsame_protocol::groups::wire::RollAction;
use selfsame_protocol::tree::field_element;
use selfsame_protocol::verification::identity::{external_nullifier, hash_text};
use serde_json::Value;

use super::*;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../protocol/vectors/groups.json")).expect("JSON")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn secret(value: &Value) -> MemberSecret {
    MemberSecret(hex::decode(text(value)).expect("hex").try_into().expect("16 bytes"))
}

fn key() -> &'static PreparedKey {
    static KEY: OnceLock<PreparedKey> = OnceLock::new();
    KEY.get_or_init(|| PreparedKey::new(VerificationKey::legacy()))
}

fn holds(claim: &Claim) -> bool {
    key().holds(claim).expect("four inputs")
}

/// Whether the service's own check accepts the link proof of a request.
fn is_genuine(request: EnrolmentRequest, group_key: &GroupKey) -> bool {
    let claim: EncodedClaim = request.claim(group_key).expect("a leaf");
    holds(&claim.decode().expect("a proof"))
}

/// Whether a proof for an application holds.
fn is_proved(proof: &LegacyProof, external_nullifier: U256, signal_hash: U256) -> bool {
    let words: ProofText = serde_json::from_value(proof.words.as_str().into()).expect("eight words");
    let inputs = [proof.root.to_number(), proof.nullifier, signal_hash, external_nullifier];
    let inputs = inputs.iter().map(|input| field_element(input).expect("below the modulus")).collect();
    holds(&Claim::new(Proof::from_legacy(&words.0).expect("points"), inputs))
}

/// Random bytes that are counted.
fn counted() -> impl FnMut(&mut [u8; 32]) + Send {
    let mut calls = 0;
    move |bytes| {
        calls += 1;
        *bytes = [calls; 32];
    }
}

/// A group at one moment, with these leaves and rolls.
fn group(tree: &GroupTree, rolls: Vec<RollResponse>) -> GroupResponse {
    GroupResponse {
        id: "members".parse().expect("an id"),
        name: "Members".to_owned(),
        group_key: GroupKey([7; 32]),
        environment: Environment::Production,
        legacy_identifier: Some(LegacyIdentifier::Device),
        version: 1,
        size: tree.size(),
        members: tree.size(),
        root: tree.root(),
        page_roots: tree.page_roots(),
        rolls,
    }
}

fn roll(name: &str, tree: &GroupTree, of: U256) -> RollResponse {
    let action = RollAction { app_id: "app_vote".to_owned(), external_nullifier: FieldNumber(of) };
    RollResponse {
        name: name.parse().expect("a name"),
        taken_on: Day(20_000),
        size: tree.size(),
        members: tree.size(),
        root: tree.root(),
        page_roots: tree.page_roots(),
        actions: vec![action],
    }
}

/// Leaves of other members, with those of the wallet at their positions.
fn tree(size: u32, own: &[(u32, FieldNumber)]) -> GroupTree {
    let own: BTreeMap<_, _> = own.iter().copied().collect();
    let leaf = |position: u32| own.get(&position).copied().unwrap_or(FieldNumber(U256::from(position) + U256::from(9)));
    GroupTree::of_leaves(&(0..size).map(leaf).collect::<Vec<_>>())
}

fn page(tree: &GroupTree, index: usize) -> Vec<u8> {
    page_bytes(tree.page_leaves(index))
}

#[test]
fn link_proofs_have_the_recorded_public_inputs_and_hold() {
    let vectors = vectors();
    for case in vectors["link_proofs"].as_array().expect("a list") {
        let empty = group(&GroupTree::default(), Vec::new());
        let mut member = Member::with_secret(&empty, "http://wallet", secret(&case["secret"]), &mut counted());
        member.group_key = text(&case["group_key"]).parse().expect("a group key");
        member.leaf.n = case["n"].as_u64().expect("a number") as u32;
        let code = case["code"].as_str().map(|code| Code::read_wire(code).expect("a code"));
        if let Some(secret) = case["replacement_secret"].as_str() {
            member.leaf.replacement_secret = secret.parse().expect("a secret");
        }
        let request: EnrolmentRequest = match (text(&case["act"]), &code) {
            ("join", Some(code)) => member.join(code).expect("a proof").into(),
            ("replace", Some(code)) => member.replace(Some(code)).expect("a proof").try_into().expect("one token"),
            ("replace", None) => {
                // The vector's leaf is the new one.
                member.next = Some(member.leaf.clone());
                member.replace(None).expect("a proof").try_into().expect("one token")
            }
            ("leave", None) => member.leave().expect("a proof").into(),
            other => panic!("{other:?}"),
        };
        let number = |name: &str| text(&case[name]).parse::<FieldNumber>().expect("a number");
        assert_eq!(request.leaf(), Ok(number("commitment")));
        assert_eq!(request.nullifier, number("nullifier"));
        let group_key = member.group_key;
        let recorded = EnrolmentRequest {
            proof: serde_json::from_value::<ProofText>(case["proof"].clone()).expect("eight words").0,
            ..request.clone()
        };
        assert!(is_genuine(recorded, &group_key), "the recorded proof is one of the same statement: {case}");
        assert!(is_genuine(request, &group_key), "{case}");
    }
}

#[test]
fn a_replacement_takes_the_next_leaf_of_the_same_secret_or_the_first_of_a_new_one() {
    let (mut random, code) = (counted(), Code::from_random_bytes([9; 17]));
    let mut member = Member::new(&group(&GroupTree::default(), Vec::new()), "http://wallet", &mut random);
    assert!(matches!(member.replace(None), Err(MemberError::NoReplacement { .. })));
    let first = member.clone();
    member.enrolled(5);
    assert_eq!((member.position, member.commitment()), (Some(5), first.commitment()));
    member.begin_replacement(NextSecret::Same, &mut random).expect("begun");
    let begun = member.clone();
    member.begin_replacement(NextSecret::New, &mut random).expect("goes on");
    assert_eq!(member, begun, "a replacement that is under way goes on");
    let by_secret = member.replace(None).expect("a proof");
    let by_code = member.replace(Some(&code)).expect("a proof");
    assert_eq!(by_secret.replacement_secret, Some(first.leaf.replacement_secret));
    assert_eq!((by_code.code.as_ref(), by_code.replacement_secret), (Some(&code), None));
    assert_eq!(by_secret.commitment, by_code.commitment);
    assert_ne!(by_secret.commitment.0, first.commitment().0);
    let seed = first.identity().nullifier_seed;
    assert_eq!(member.coming_identity().nullifier_seed, seed);
    assert_eq!(member.commitment(), first.commitment(), "the present leaf stays until the answer");
    member.enrolled(5);
    assert_eq!((member.leaf.n, member.commitment().0, &member.next), (1, by_secret.commitment.0, &None));
    assert_eq!(SecretHash::of(&member.leaf.replacement_secret.0), by_secret.replacement_hash);
    member.begin_replacement(NextSecret::New, &mut random).expect("begun");
    assert_ne!(member.coming_identity().nullifier_seed, seed);
    member.abandon_replacement();
    assert_eq!(member.identity().nullifier_seed, seed);
    member.leaf.n = u32::MAX;
    let refused = member.begin_replacement(NextSecret::Same, &mut random);
    assert!(matches!(refused, Err(MemberError::TooManyLeaves { .. })));
}

#[test]
fn a_member_proves_against_the_live_root_or_the_roll_that_counts() {
    let (vote, forum) = (external_nullifier("app_vote", "board"), external_nullifier("app_forum", ""));
    let signal = hash_text("yes");
    let mut random = counted();
    let mut member = Member::new(&group(&GroupTree::default(), Vec::new()), "http://wallet", &mut random);
    // The roll has the leaf from before the phone was lost.
    let before = tree(1500, &[(1030, member.commitment())]);
    member.enrolled(1030);
    member.begin_replacement(NextSecret::Same, &mut random).expect("begun");
    member.enrolled(1030);
    let now = tree(2100, &[(1030, member.commitment())]);
    let group = group(&now, vec![roll("assembly", &before, vote)]);
    for (of, tree) in [(vote, &before), (forum, &now)] {
        let asked = AskedTree::for_proof(&group, of);
        assert_eq!(asked.roll.is_some(), of == vote);
        assert_eq!(member.page(&asked), Some(tree.page_roots()[1]));
        let proof = member.prove(&group, &page(tree, 1), of, signal).expect("a proof");
        assert_eq!(proof.root, tree.root());
        assert_eq!(proof.nullifier, member.identity().nullifier(FieldNumber(of)).0);
        assert!(is_proved(&proof, of, signal));
        assert!(!is_proved(&proof, of, hash_text("no")));
        // The page of the other tree.
        let other = if of == vote { &now } else { &before };
        let refused = member.prove(&group, &page(other, 1), of, signal);
        assert!(matches!(refused, Err(MemberError::Inconsistent { .. })), "{refused:?}");
    }
    let asked = AskedTree::for_proof(&group, forum);
    assert_eq!(member.find(&asked, &page(&now, 0)).expect("a page").map(|leaf| leaf.position), None);
    let found = member.find(&asked, &page(&now, 1)).expect("a page").expect("the leaf");
    assert_eq!((found.position, found.commitment()), (1030, member.commitment()));
    assert_eq!(format!("{found:?}"), "FoundLeaf { position: 1030, .. }");
}

#[test]
fn a_member_without_a_leaf_in_the_tree_is_told_which_tree() {
    let vote = external_nullifier("app_vote", "board");
    let others = tree(3, &[]);
    let mut member = Member::new(&group(&others, Vec::new()), "http://wallet", &mut counted());
    member.enrolled(1);
    let group = group(&others, vec![roll("assembly", &others, vote)]);
    let refused = member.prove(&group, &page(&others, 0), vote, U256::ZERO).expect_err("not on the roll").to_string();
    assert!(refused.contains("the roll assembly"), "{refused}");
    let forum = external_nullifier("app_forum", "");
    let refused = member.prove(&group, &page(&others, 0), forum, U256::ZERO).expect_err("no leaf").to_string();
    assert!(refused.contains("ask the organization for a new link"), "{refused}");
    // A position beyond a roll that was taken before is on no page.
    member.enrolled(5000);
    assert_eq!(member.page(&AskedTree::for_proof(&group, vote)), None);
}

#[test]
fn a_group_that_contradicts_itself_gets_no_proof() {
    let tree = tree(1025, &[]);
    let right = group(&tree, vec![roll("assembly", &tree, U256::from(1))]);
    let mut member = Member::new(&right, "http://wallet", &mut counted());
    member.enrolled(3);
    member.check_group(&right).expect("the same group");
    type Change = fn(&mut GroupResponse);
    let changes: [(&str, Change); 8] = [
        ("another group key", |group| group.group_key = GroupKey([8; 32])),
        ("another group key", |group| group.id = "others".parse().expect("an id")),
        ("number of page roots", |group| group.size = 1024),
        ("number of page roots", |group| group.size = u32::MAX),
        ("number of page roots", |group| group.page_roots.truncate(1)),
        ("root is not that", |group| group.root = Root::default()),
        ("root is not that", |group| group.page_roots.swap(0, 1)),
        ("root is not that", |group| group.rolls[0].root = Root::default()),
    ];
    for (expected, change) in changes {
        let mut changed = right.clone();
        change(&mut changed);
        let message = member.check_group(&changed).expect_err(expected).to_string();
        assert!(message.contains(expected), "{message:?} should contain {expected:?}");
    }
    for bytes in [Vec::new(), vec![0; 32], vec![0xff; 32 * PAGE_LEAVES], page(&GroupTree::default(), 0)] {
        let refused = member.find(&AskedTree::live(&right), &bytes);
        assert!(matches!(refused, Err(MemberError::Inconsistent { .. })), "{refused:?}");
    }
}

/// Whatever a page hashes: an application's external nullifier never is that of link proofs, and a
/// request that had it would get no proof.
#[test]
fn no_application_gets_a_link_proof() {
    let mut member = Member::new(&group(&GroupTree::default(), Vec::new()), "http://wallet", &mut counted());
    let tree = tree(1, &[(0, member.commitment())]);
    member.enrolled(0);
    let of_link = enrolment_external_nullifier(&member.group_key);
    let statement = [b"selfsame group enrolment\0".as_slice(), &member.group_key.0].concat();
    let of_bytes = format!("0x{}", hex::encode(&statement));
    let of_number = of_link.to_string();
    for action in ["", "join", "selfsame group enrolment", &of_bytes, &of_number] {
        for app_id in ["app_", "app_a", "selfsame group enrolment", &of_bytes] {
            assert!(!member.is_link_proof(external_nullifier(app_id, action)), "{app_id:?}, {action:?}");
        }
    }
    let refused = member.prove(&group(&tree, Vec::new()), &page(&tree, 0), of_link.0, U256::ZERO);
    assert!(matches!(refused, Err(MemberError::LinkProof { .. })), "{refused:?}");
}

#[test]
fn a_membership_has_the_form_of_an_entry_of_a_sealed_copy_and_shows_no_secret() {
    let mut random = counted();
    let mut member = Member::new(&group(&GroupTree::default(), Vec::new()), "http://wallet", &mut random);
    member.begin_replacement(NextSecret::New, &mut random).expect("begun");
    let json = serde_json::to_value(&member).expect("JSON");
    let keys: Vec<_> = json.as_object().expect("an object").keys().cloned().collect();
    let expected = [
        "environment",
        "group",
        "group_key",
        "legacy_identifier",
        "n",
        "next",
        "position",
        "replacement_secret",
        "secret",
        "wallet_url",
    ];
    assert_eq!(keys, expected);
    assert_eq!((&json["secret"], &json["position"]), (&"01".repeat(16).into(), &Value::Null));
    assert_eq!(json["next"]["secret"], "03".repeat(16));
    assert_eq!(serde_json::from_value::<Member>(json).expect("the same form"), member);
    let debug = format!("{member:?}");
    assert!(!debug.contains("0101") && !debug.contains("[1, 1") && !debug.contains("0303"), "{debug}");
    // The entry of the recorded sealed copy.
    let plaintext: Value = serde_json::from_str(text(&vectors()["sealed"]["plaintext"])).expect("JSON");
    for mut entry in plaintext["groups"].as_array().expect("a list").clone() {
        entry["wallet_url"] = "http://wallet".into();
        entry["environment"] = "production".into();
        serde_json::from_value::<Member>(entry).expect("the form of an entry");
    }
    assert!(member.is_called("members") && member.is_called("device") && !member.is_called("orb"));
}
