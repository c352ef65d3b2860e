//! What each event of a membership means: for the tree, for the nullifiers, for a vote with a roll
//! and one without, and for a sign-in. With genuine proofs, by the daemon's own interfaces.
//!
//! The votes count a person once. The one without a roll takes new members and new seeds while it
//! runs (`counts_new_seeds`); the other takes those who were on its roll.

use std::time::Duration;

use selfsame::config::Config;
use selfsame_interfaces::interface::Interface;
use selfsame_protocol::U256;
use selfsame_protocol::groups::codes::Code;
use selfsame_protocol::groups::names::{FieldNumber, GroupId, MemberNumber, RollName};
use selfsame_protocol::groups::tree::read_page;
use selfsame_protocol::groups::wire::InvitedMembers;
use selfsame_protocol::verification::identity::{external_nullifier, hash_text};
use selfsame_wallet::groups::{GroupClient, MemberProofError};
use selfsame_wallet::member::{Member, MemberError, NextSecret};
use selfsame_wallet::prove::LegacyProof;
use selfsame_wallet::sign_in::{Place, SignInSession};
use serde_json::{Value, json};

use crate::harness::{until, until_true};
use crate::sign_in_client::{APP, SignInTestClient, fragment_or_query, random};

const WITH_ROLL: &str = "board";
const WITHOUT_ROLL: &str = "survey";

fn id() -> GroupId {
    "members".parse().expect("an id")
}

fn roll() -> RollName {
    "2026-assembly".parse().expect("a name")
}

/// A group whose members sign in at the example application and vote there.
fn with_votes(config: &mut Config) {
    let group = json!({"id": "members", "name": "Members of the cooperative", "environment": "staging"});
    config.groups.push(serde_json::from_value(group).expect("a group"));
    config.apps[0].accepted_identifiers = Some(vec!["members".to_owned()]);
    let settings = [(WITH_ROLL, "roll", json!(roll())), (WITHOUT_ROLL, "counts_new_seeds", json!(true))];
    for (action, setting, value) in settings {
        let action = json!({
            "app_id": APP, "action": action, "environment": "staging", "max_verifications": 1,
            "accepted_identifiers": ["members"], setting: value,
        });
        config.actions.push(serde_json::from_value(action).expect("an action"));
    }
}

/// A community whose members vote and sign in.
struct Community {
    client: SignInTestClient,
    wallet: GroupClient,
    http: reqwest::Client,
}

/// What a sign-in gives: the subject, or nothing.
type Subject = Option<Value>;

impl Community {
    async fn start() -> Self {
        let client = SignInTestClient::start_with_keys(with_votes).await;
        let url = format!("http://{}", client.daemon.addresses[Interface::Wallet]);
        let wallet = GroupClient::new(&url).expect("a client");
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { client, wallet, http }
    }

    async fn invite(&self, number: &str) -> Code {
        let number: MemberNumber = number.parse().expect("a number");
        let invited = self.client.daemon.groups.invite(&id(), vec![number], InvitedMembers::All).await;
        invited.expect("it is invited").invitations.remove(0).1.code
    }

    async fn join(&self, number: &str) -> Member {
        let group = self.wallet.group(&id()).await.expect("the group");
        let mut member = Member::new(&group, "http://localhost", &mut random());
        self.join_again(number, &mut member).await;
        member
    }

    /// Joins, or comes back, with what a wallet has.
    async fn join_again(&self, number: &str, member: &mut Member) {
        let code = self.invite(number).await;
        let request = member.join(&code).expect("a link proof");
        let joined = self.wallet.join(&id(), &request).await.expect("the leaf is added");
        assert_eq!(self.wallet.join(&id(), &request).await.expect("the same again"), joined);
        member.enrolled(joined.position);
    }

    async fn leaves(&self) -> Vec<FieldNumber> {
        // A change of the group in between takes its page away; the group then names another one.
        let mut ended = None;
        let (group, page) = until("a page of the group", async || {
            let group = self.wallet.group(&id()).await.expect("the group");
            let root = group.page_roots[0];
            match self.wallet.page(&id(), root).await {
                Err(error) if error.code() == Some("unknown_page") && ended.replace(root) != Some(root) => Err(error),
                page => Ok((group, page.expect("the page"))),
            }
        })
        .await;
        let mut leaves = read_page(&page).expect("a page");
        leaves.truncate(group.size as usize);
        leaves
    }

    async fn ballot(&self, member: &Member, action: &str) -> Result<Value, MemberProofError> {
        let proof = self.wallet.prove(member, external_nullifier(APP, action), hash_text("")).await?;
        Ok(request(action, &proof, ""))
    }

    /// What the service says to a ballot.
    async fn cast(&self, ballot: &Value) -> &'static str {
        let url = self.client.daemon.verify(&format!("/api/v4/verify/{APP}"));
        let answer = self.http.post(url).json(ballot).send().await.expect("an answer");
        let status = answer.status().as_u16();
        let body: Value = answer.json().await.expect("JSON");
        match (status, body["code"].as_str(), body["results"][0]["code"].as_str()) {
            (200, ..) => "counts",
            (400, Some("max_verifications_reached"), _) => "again",
            (400, _, Some("invalid_merkle_root")) => "refused",
            _ => panic!("{status} {body}"),
        }
    }

    async fn vote(&self, member: &Member, action: &str) -> &'static str {
        match self.ballot(member, action).await {
            Ok(ballot) => self.cast(&ballot).await,
            Err(MemberProofError::Member(MemberError::NotOnRoll { .. })) => "not on it",
            Err(MemberProofError::Member(MemberError::NoLeaf { .. })) => "refused",
            Err(error) => panic!("{error}"),
        }
    }

    async fn open(&self) -> SignInSession {
        SignInSession::open(&self.client.authorization_url(&[])).await.expect("the sign-in starts")
    }

    /// What a wallet answers an application that asks for a sign-in.
    async fn answer(&self, member: &Member, session: &SignInSession) -> Result<Value, MemberProofError> {
        let signal = &session.request().signal;
        let proof = self.wallet.prove(member, external_nullifier(APP, ""), hash_text(signal)).await?;
        Ok(request("", &proof, signal))
    }

    async fn complete(&self, session: &SignInSession, answer: &Value) -> Subject {
        if let Err(refused) = session.answer_from(session.request(), answer, Place::Unsaid).await {
            assert!(refused.to_string().contains("is not a live root of the group members"), "{refused}");
            return None;
        }
        let target = session.complete().await.expect("completed").expect("a target");
        let tokens = self.client.exchange(&fragment_or_query(&target)["code"]).await;
        let claims = self.client.claims(tokens.body["id_token"].as_str().expect("a token")).await;
        assert_eq!(claims[format!("{}/groups", self.client.issuer())], json!(["members"]));
        Some(claims["sub"].clone())
    }

    async fn sign_in(&self, member: &Member) -> Subject {
        let session = self.open().await;
        match self.answer(member, &session).await {
            Ok(answer) => self.complete(&session, &answer).await,
            Err(MemberProofError::Member(MemberError::NoLeaf { .. })) => None,
            Err(error) => panic!("{error}"),
        }
    }
}

fn request(action: &str, proof: &LegacyProof, signal: &str) -> Value {
    let padded = |value: U256| format!("{value:#066x}");
    json!({
        "protocol_version": "3.0", "nonce": "n", "action": action, "environment": "staging", "responses": [{
            "identifier": "members",
            "merkle_root": padded(proof.root.to_number()),
            "nullifier": padded(proof.nullifier),
            "proof": proof.words,
            "signal_hash": padded(hash_text(signal)),
        }],
    })
}

/// How the person's nullifiers are beside those of before.
fn nullifiers(before: &Member, after: &Member) -> &'static str {
    let of = |member: &Member| member.identity().nullifier(FieldNumber(external_nullifier(APP, WITH_ROLL)));
    if of(before) == of(after) { "the same" } else { "others" }
}

/// Which subject a sign-in gives, beside that of before.
fn subject(before: &Subject, after: &Subject) -> &'static str {
    match (before, after) {
        (_, None) => "refused",
        (before, after) if before == after => "the same",
        _ => "another",
    }
}

/// Event, tree, nullifiers, the vote with a roll, the vote without, the sign-in.
type Row = [&'static str; 6];

#[rustfmt::skip]
const TABLE: [Row; 7] = [
    // event                        leaf          nullifiers    with a roll  without     sign-in
    ["second device",               "stays",      "the same",   "again",     "again",    "the same"],
    ["device lost, seed restored",  "replaced",   "the same",   "again",     "again",    "the same"],
    ["everything lost",             "replaced",   "others",     "not on it", "counts",   "another"],
    ["is removed",                  "0",          "the same",   "counts",    "refused",  "refused"],
    ["comes back with the seed",    "replaced",   "the same",   "again",     "counts",   "the same"],
    ["joins after the roll",        "added",      "the same",   "not on it", "counts",   "another"],
    ["leaves",                      "0",          "the same",   "counts",    "refused",  "refused"],
];

/// What became of the leaf at a position.
fn leaf_became(before: &[FieldNumber], after: &[FieldNumber], position: usize) -> &'static str {
    for (other, (before, after)) in before.iter().zip(after).enumerate() {
        assert!(other == position || before == after, "the leaf at {other} changed");
    }
    match (before.get(position), after.get(position)) {
        (None, Some(_)) => "added",
        (Some(before), Some(after)) if before == after => "stays",
        (_, Some(&FieldNumber::ZERO)) => "0",
        _ => "replaced",
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_of_a_membership_counts_as_the_table_says() {
    let community = Community::start().await;
    let groups = &community.client.daemon.groups;
    let position = |member: &Member| member.position.expect("a position") as usize;
    let anna = community.join("1").await;
    let mut berta = community.join("2").await;
    let mut carla = community.join("3").await;
    let mut dora = community.join("4").await;
    let emma = community.join("5").await;
    groups.take_roll(&id(), roll()).await.expect("the roll is taken");
    let mut table: Vec<Row> = Vec::new();

    // A second device has what the first has.
    let (before, second) = (community.leaves().await, anna.clone());
    for action in [WITH_ROLL, WITHOUT_ROLL] {
        assert_eq!(community.vote(&anna, action).await, "counts");
    }
    let subject_before = community.sign_in(&anna).await;
    table.push([
        "second device",
        leaf_became(&before, &community.leaves().await, position(&anna)),
        nullifiers(&anna, &second),
        community.vote(&second, WITH_ROLL).await,
        community.vote(&second, WITHOUT_ROLL).await,
        subject(&subject_before, &community.sign_in(&second).await),
    ]);

    // Both lost devices had voted. The old leaf proves nothing more.
    for (event, member, number) in
        [("device lost, seed restored", &mut berta, None), ("everything lost", &mut carla, Some("3"))]
    {
        assert_eq!(community.vote(member, WITH_ROLL).await, "counts");
        let ballot = community.ballot(member, WITHOUT_ROLL).await.expect("a proof");
        assert_eq!(community.cast(&ballot).await, "counts");
        let subject_before = community.sign_in(member).await;
        let (before, old) = (community.leaves().await, member.clone());
        let code = match number {
            Some(number) => Some(community.invite(number).await),
            None => None,
        };
        let secret = if code.is_some() { NextSecret::New } else { NextSecret::Same };
        member.begin_replacement(secret, &mut random()).expect("a next leaf");
        let request = member.replace(code.as_ref()).expect("a link proof");
        let replaced = community.wallet.replace(&id(), &request).await.expect("the leaf is replaced");
        assert_eq!(community.wallet.replace(&id(), &request).await.expect("the same again"), replaced);
        member.enrolled(replaced.position);
        assert_eq!(community.cast(&ballot).await, "refused", "the old leaf");
        table.push([
            event,
            leaf_became(&before, &community.leaves().await, position(member)),
            nullifiers(&old, member),
            community.vote(member, WITH_ROLL).await,
            community.vote(member, WITHOUT_ROLL).await,
            subject(&subject_before, &community.sign_in(member).await),
        ]);
    }

    // What was proved before the removal is refused from its answer on; the roll stays.
    let (before, old) = (community.leaves().await, dora.clone());
    let subject_before = community.sign_in(&dora).await;
    let session = community.open().await;
    let answer = community.answer(&dora, &session).await.expect("a proof");
    let ballot = community.ballot(&dora, WITHOUT_ROLL).await.expect("a proof");
    assert!(groups.remove(&id(), "4".parse().expect("a number")).await.expect("it is removed"));
    table.push([
        "is removed",
        leaf_became(&before, &community.leaves().await, position(&dora)),
        nullifiers(&old, &dora),
        community.vote(&dora, WITH_ROLL).await,
        community.cast(&ballot).await,
        subject(&subject_before, &community.complete(&session, &answer).await),
    ]);
    let before = community.leaves().await;
    dora.begin_replacement(NextSecret::Same, &mut random()).expect("a next leaf");
    community.join_again("4", &mut dora).await;
    table.push([
        "comes back with the seed",
        leaf_became(&before, &community.leaves().await, position(&dora)),
        nullifiers(&old, &dora),
        community.vote(&dora, WITH_ROLL).await,
        community.vote(&dora, WITHOUT_ROLL).await,
        subject(&subject_before, &community.sign_in(&dora).await),
    ]);

    let before = community.leaves().await;
    let frida = community.join("6").await;
    table.push([
        "joins after the roll",
        leaf_became(&before, &community.leaves().await, position(&frida)),
        nullifiers(&frida, &frida),
        community.vote(&frida, WITH_ROLL).await,
        community.vote(&frida, WITHOUT_ROLL).await,
        subject(&None, &community.sign_in(&frida).await),
    ]);

    // The tree follows within the hour.
    let before = community.leaves().await;
    let ballot = community.ballot(&emma, WITHOUT_ROLL).await.expect("a proof");
    let leave = emma.leave().expect("a link proof");
    community.wallet.leave(&id(), &leave).await.expect("she has left");
    community.wallet.leave(&id(), &leave).await.expect("the same again");
    community.client.daemon.clock.advance(Duration::from_secs(3600));
    until_true("the leaf goes", async || community.leaves().await[position(&emma)] == FieldNumber::ZERO).await;
    table.push([
        "leaves",
        leaf_became(&before, &community.leaves().await, position(&emma)),
        nullifiers(&emma, &emma),
        community.vote(&emma, WITH_ROLL).await,
        community.cast(&ballot).await,
        subject(&None, &community.sign_in(&emma).await),
    ]);
    assert_eq!(table, TABLE);
    community.client.stop().await;
}
