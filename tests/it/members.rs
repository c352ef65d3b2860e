//! Members of groups at applications: their proofs, with a roll and without, and their sign-ins.

use selfsame::config::{Action, Config, Group};
use selfsame_actors::{EnrolmentAnswer, GroupsHandle};
use selfsame_protocol::U256;
use selfsame_protocol::groups::names::{GroupId, MemberNumber, RollName};
use selfsame_protocol::groups::wire::InvitedMembers;
use selfsame_protocol::verification::identity::{external_nullifier, hash_text};
use selfsame_protocol::verification::{Environment, LegacyIdentifier};
use selfsame_wallet::member::{AskedTree, Member};
use selfsame_wallet::sign_in::{Place, SignInSession};
use serde_json::{Value, json};

use crate::sign_in_client::{APP, SignInTestClient, fragment_or_query, random};
use crate::verification_client::{DEV_APP, LEGACY_APP, VerificationClient, with};

const VERIFIED: &str = "Proof verified successfully";
const VERIFIED_AGAIN: &str = "Proof verified successfully (nullifier reuse)";

fn id() -> GroupId {
    "members".parse().expect("an id")
}

fn number(text: &str) -> MemberNumber {
    text.parse().expect("a number")
}

/// Adds a group of staging that is called `device` there as well.
fn add_group(config: &mut Config) {
    config.groups.push(Group {
        id: id(),
        name: "Members of the cooperative".to_owned(),
        environment: Environment::Staging,
        legacy_identifier: Some(LegacyIdentifier::Device),
        link_days: 30,
        rolls: Vec::new(),
    });
}

fn only_members() -> Option<Vec<String>> {
    Some(vec!["members".to_owned()])
}

/// Invites a member number, and joins with the invitation.
async fn join(groups: &GroupsHandle, member: &str) -> Member {
    let invited = groups.invite(&id(), vec![number(member)], InvitedMembers::New).await.expect("invited");
    let code = invited.invitations[0].1.code.clone();
    let group = groups.describe(&id()).expect("the group");
    let mut joining = Member::new(&group, "http://localhost", &mut random());
    let request = joining.join(&code).expect("a link proof");
    match groups.enrol(&id(), request.into(), None).await.expect("joined") {
        EnrolmentAnswer::At(enrolled) => joining.enrolled(enrolled.position),
        EnrolmentAnswer::Left => panic!("joined"),
    }
    joining
}

/// The entry of a member's proof, as a request of version 4 has it.
async fn entry(groups: &GroupsHandle, member: &Member, app_id: &str, action: &str, signal: &str) -> Value {
    let (external_nullifier, signal_hash) = (external_nullifier(app_id, action), hash_text(signal));
    let group = groups.describe(&member.group).expect("the group");
    let page = member.page(&AskedTree::for_proof(&group, external_nullifier)).expect("a page");
    let page = groups.page(&member.group, page, None).await.expect("it is read").expect("it is served");
    let proof = member.prove(&group, &page, external_nullifier, signal_hash).expect("a proof");
    json!({
        "identifier": "members",
        "merkle_root": padded(proof.root.to_number()),
        "nullifier": padded(proof.nullifier),
        "proof": proof.words,
        "signal_hash": padded(signal_hash),
    })
}

fn padded(value: U256) -> String {
    format!("{value:#066x}")
}

fn request(action: &str, entry: Value) -> Value {
    json!({
        "protocol_version": "3.0", "nonce": "n", "action": action, "environment": "staging", "responses": [entry],
    })
}

async fn ballot(client: &VerificationClient, member: &Member, action: &str) -> Value {
    request(action, entry(&client.daemon.groups, member, DEV_APP, action, "").await)
}

/// The detail of the only entry, whose root does not count.
async fn root_refused(client: &VerificationClient, request: &Value) -> String {
    let answer = client.ask(DEV_APP, request).await;
    assert_eq!(answer.item_code(), "invalid_merkle_root", "{answer:?}");
    answer.body["results"][0]["detail"].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn a_member_proves_at_the_applications_that_name_the_group() {
    let client = VerificationClient::start_with(|config| {
        add_group(config);
        let app = config.apps.iter_mut().find(|app| app.id == DEV_APP).expect("the application");
        app.accepted_identifiers = only_members();
    })
    .await;
    let groups = &client.daemon.groups;
    let anna = join(groups, "417").await;
    let ballot = ballot(&client, &anna, "vote").await;
    let first = client.ask(DEV_APP, &ballot).await;
    assert_eq!((first.status, &first.body["message"]), (200, &json!(VERIFIED)), "{first:?}");
    assert_eq!(first.body["results"][0]["identifier"], "members");
    // Under the public name it is the same person, and the answer repeats the name.
    let by_public_name = with(ballot.clone(), "/responses/0/identifier", json!("device"));
    let again = client.ask(DEV_APP, &by_public_name).await;
    assert_eq!(again.body["message"], VERIFIED_AGAIN, "{again:?}");
    assert_eq!(again.body["results"][0]["identifier"], "device");
    // The root is not one of another credential, nor of a group that nobody has.
    let other = client.ask(DEV_APP, &with(ballot.clone(), "/responses/0/identifier", json!("orb"))).await;
    assert_eq!(other.item_code(), "identifier_not_accepted");
    let unknown = client.ask(DEV_APP, &with(ballot.clone(), "/responses/0/identifier", json!("others"))).await;
    assert_eq!((unknown.status, unknown.code()), (400, "validation_error"));
    assert_eq!(unknown.body["attribute"], "responses[0].identifier");
    // An application that names no group takes public credentials alone.
    let elsewhere = request("vote", entry(groups, &anna, LEGACY_APP, "vote", "").await);
    for name in ["members", "device"] {
        let elsewhere = with(elsewhere.clone(), "/responses/0/identifier", json!(name));
        let answer = client.ask(LEGACY_APP, &elsewhere).await;
        assert_eq!(answer.item_code(), "identifier_not_accepted", "{name}");
    }
    // The same statement in the form of version 2, where an action without a setting counts once.
    let proved = entry(groups, &anna, DEV_APP, "older", "").await;
    let older = json!({
        "action": "older", "verification_level": "members", "merkle_root": proved["merkle_root"],
        "nullifier_hash": proved["nullifier"], "proof": proved["proof"], "signal_hash": proved["signal_hash"],
    });
    let url = client.daemon.verify(&format!("/api/v2/verify/{DEV_APP}"));
    for (status, expected) in [(200, "members"), (400, "max_verifications_reached")] {
        let answer = client.http.post(&url).json(&older).send().await.expect("an answer");
        assert_eq!(answer.status(), status);
        let body: Value = answer.json().await.expect("JSON");
        assert_eq!(body[if status == 200 { "verification_level" } else { "code" }], expected, "{body}");
    }
    client.daemon.stop().await;
}

#[tokio::test]
async fn the_id_of_a_group_counts_in_its_own_environment_alone() {
    let client = VerificationClient::start_with(|config| {
        add_group(config);
        let app = config.apps.iter_mut().find(|app| app.id == "app_both").expect("the application");
        app.accepted_identifiers = only_members();
    })
    .await;
    let member = join(&client.daemon.groups, "417").await;
    let ballot = request("vote", entry(&client.daemon.groups, &member, "app_both", "vote", "").await);
    let production = client.ask("app_both", &with(ballot.clone(), "/environment", json!("production"))).await;
    assert_eq!((production.status, production.code()), (400, "environment_mismatch"), "{production:?}");
    assert_eq!(client.ask("app_both", &ballot).await.status, 200);
    client.daemon.stop().await;
}

#[tokio::test]
async fn a_removed_member_proves_no_more_and_the_others_prove_anew() {
    let client = VerificationClient::start_with(|config| {
        add_group(config);
        config.apps[0].accepted_identifiers = only_members();
    })
    .await;
    assert_eq!(DEV_APP, APP);
    let groups = &client.daemon.groups;
    let (anna, berta) = (join(groups, "1").await, join(groups, "2").await);
    let (of_anna, of_berta) = (ballot(&client, &anna, "vote").await, ballot(&client, &berta, "vote").await);
    assert!(groups.remove(&id(), number("1")).await.expect("removed"));
    let ended = "merkle_root is not a live root of the group members; ask for a new proof; the member may have been removed \
                 or replaced";
    assert_eq!(root_refused(&client, &of_anna).await, ended);
    // The tree of that moment has the removed leaf.
    assert_eq!(root_refused(&client, &of_berta).await, ended);
    let anew = ballot(&client, &berta, "vote").await;
    assert_eq!(client.ask(DEV_APP, &anew).await.body["message"], VERIFIED);
    client.daemon.stop().await;
}

#[tokio::test]
async fn a_vote_with_a_roll_counts_who_was_on_it_once_and_nobody_else() {
    let client = VerificationClient::start_with(|config| {
        add_group(config);
        config.actions.push(Action {
            app_id: DEV_APP.to_owned(),
            action: "board".to_owned(),
            environment: Environment::Staging,
            description: String::new(),
            max_verifications: 1,
            accept_legacy: true,
            accepted_identifiers: only_members(),
            genesis_issued_at_min: None,
            require_integrity: false,
            min_sybil_score: None,
            max_sybil_score: None,
            counts_kinds_separately: true,
            roll: Some("2026-assembly".parse().expect("a name")),
            counts_new_seeds: false,
            counts_sources_separately: false,
        });
    })
    .await;
    let groups = &client.daemon.groups;
    let (anna, berta) = (join(groups, "1").await, join(groups, "2").await);
    let early = ballot(&client, &anna, "board").await;
    let not_taken = "roll 2026-assembly of the group members, which alone counts for the action, is not taken; ask again \
                     when it is";
    assert_eq!(root_refused(&client, &early).await, not_taken);
    let name: RollName = "2026-assembly".parse().expect("a name");
    groups.take_roll(&id(), name).await.expect("taken");
    // Carla joins after the roll was taken: her root is live, and not the roll's.
    let carla = join(groups, "3").await;
    let live = live_ballot(groups, &carla, "board").await;
    let detail = root_refused(&client, &live).await;
    assert!(detail.starts_with("merkle_root is not the root of roll 2026-assembly of the group members"), "{detail}");
    // Who was on the roll votes once, also after a removal.
    assert!(groups.remove(&id(), number("2")).await.expect("removed"));
    for member in [&anna, &berta] {
        let ballot = ballot(&client, member, "board").await;
        assert_eq!(client.ask(DEV_APP, &ballot).await.body["message"], VERIFIED);
        let second = client.ask(DEV_APP, &ballot).await;
        assert_eq!((second.status, second.code()), (400, "max_verifications_reached"), "{second:?}");
    }
    // Another action of the same application takes no group.
    let survey = ballot(&client, &anna, "survey").await;
    assert_eq!(client.ask(DEV_APP, &survey).await.item_code(), "identifier_not_accepted");
    client.daemon.stop().await;
}

/// A proof against the live tree, whatever the action counts.
async fn live_ballot(groups: &GroupsHandle, member: &Member, action: &str) -> Value {
    let mut group = groups.describe(&member.group).expect("the group");
    group.rolls.clear();
    let page = member.page(&AskedTree::live(&group)).expect("a page");
    let page = groups.page(&member.group, page, None).await.expect("it is read").expect("it is served");
    let external_nullifier: U256 = external_nullifier(DEV_APP, action);
    let proof = member.prove(&group, &page, external_nullifier, hash_text("")).expect("a proof");
    let entry = json!({
        "identifier": "members", "merkle_root": padded(proof.root.to_number()),
        "nullifier": padded(proof.nullifier), "proof": proof.words,
    });
    request(action, entry)
}

#[tokio::test]
async fn a_member_signs_in_with_the_claim_of_the_group_and_keeps_the_subject() {
    let client = SignInTestClient::start_with_keys(|config| {
        add_group(config);
        config.apps[0].accepted_identifiers = only_members();
    })
    .await;
    let groups = &client.daemon.groups;
    let member = join(groups, "417").await;
    let mut subjects = Vec::new();
    for name in ["members", "device"] {
        let session = SignInSession::open(&client.authorization_url(&[])).await.expect("the sign-in starts");
        let asked = session.request();
        assert_eq!((asked.identifier.as_deref(), asked.is_legacy()), (Some("members"), true));
        let proof = entry(groups, &member, APP, "", &asked.signal).await;
        let body = with(request("", proof), "/responses/0/identifier", json!(name));
        session.answer_from(asked, &body, Place::Unsaid).await.expect("accepted");
        let target = session.complete().await.expect("completed").expect("a target");
        let tokens = client.exchange(&fragment_or_query(&target)["code"]).await;
        let claims = client.claims(tokens.body["id_token"].as_str().expect("a token")).await;
        let token = tokens.body["access_token"].as_str().expect("a token");
        let userinfo = client.send(client.http.get(client.daemon.sign_in("/userinfo")).bearer_auth(token)).await;
        for claims in [&claims, &userinfo.body] {
            assert_eq!(claims[format!("{}/groups", client.issuer())], json!(["members"]));
            assert_eq!(claims[format!("{}/v1", client.issuer())], json!({"verification_level": "device"}));
        }
        assert_eq!(claims["sub"], body["responses"][0]["nullifier"]);
        subjects.push(claims["sub"].clone());
    }
    assert_eq!(subjects[0], subjects[1]);
    // A public credential does not sign in, and a removed member does not either.
    let session = SignInSession::open(&client.authorization_url(&[])).await.expect("the sign-in starts");
    let refused = client.answer(&session, "alice").await.expect_err("a public credential");
    assert!(refused.to_string().contains("accepts members, not 'orb'"), "{refused}");
    let late = request("", entry(groups, &member, APP, "", &session.request().signal).await);
    assert!(groups.remove(&id(), number("417")).await.expect("removed"));
    let refused = session.answer_from(session.request(), &late, Place::Unsaid).await.expect_err("removed");
    assert!(refused.to_string().contains("is not a live root of the group members"), "{refused}");
    client.stop().await;
}
