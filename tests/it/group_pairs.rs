//! Two organizations have the same people in groups of their own, with the same id. A reader of
//! both data folders, after joinings, sign-ins and votes, looks for what joins the two: any 16
//! bytes that both have, and that a third organization with other people has not, which has the
//! same configuration and the same acts.
//!
//! One person also votes at an application that both have, with the secret of both groups, so that
//! there is something to find: the nullifier there is the same.

use std::collections::HashSet;
use std::path::Path;

use selfsame::config::Config;
use selfsame::daemon::store_folder;
use selfsame_interfaces::interface::Interface;
use selfsame_protocol::U256;
use selfsame_protocol::groups::identity::MemberSecret;
use selfsame_protocol::groups::names::{GroupId, MemberNumber};
use selfsame_protocol::groups::wire::InvitedMembers;
use selfsame_protocol::verification::identity::{external_nullifier, hash_text};
use selfsame_storage::Store;
use selfsame_wallet::groups::GroupClient;
use selfsame_wallet::member::Member;
use selfsame_wallet::prove::LegacyProof;
use selfsame_wallet::sign_in::{Place, SignInSession};
use serde_json::{Value, json};

use crate::sign_in_client::{APP, CALLBACK, SECRET, SignInTestClient, fragment_or_query, random};

/// The application that all organizations have under the same id.
const SHARED_APP: &str = APP;

/// Bytes that two stores do not have in common by chance.
const JOINING: usize = 16;

/// Bytes of a piece that the third store has by chance as rarely. A piece with so many of them is
/// partly what all stores have, such as a length or a time, and says nothing by the rest.
const OF_ALL: usize = 6;

fn id() -> GroupId {
    "members".parse().expect("an id")
}

/// An application of the organization's own, and one that others have, too.
fn configure(config: &mut Config, app: &str) {
    let group = json!({"id": "members", "name": "Members of the cooperative", "environment": "staging"});
    config.groups.push(serde_json::from_value(group).expect("a group"));
    config.apps[0].accepted_identifiers = Some(vec!["members".to_owned()]);
    let (mut own, mut party) = (config.apps[0].clone(), config.relying_parties[0].clone());
    (own.id, party.app_id) = (app.to_owned(), app.to_owned());
    config.apps.push(own);
    config.relying_parties.push(party);
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

/// An organization with its daemon.
struct Organization {
    client: SignInTestClient,
    app: &'static str,
}

impl Organization {
    async fn start(app: &'static str) -> Self {
        Self { client: SignInTestClient::start_with_keys(|config| configure(config, app)).await, app }
    }

    fn wallet(&self) -> GroupClient {
        GroupClient::new(&format!("http://{}", self.client.daemon.addresses[Interface::Wallet])).expect("a client")
    }

    /// A person joins with a number of the organization's own, signs in and votes.
    async fn live(&self, number: &str, secret: &MemberSecret) -> Member {
        let number: MemberNumber = number.parse().expect("a number");
        let invited = self.client.daemon.groups.invite(&id(), vec![number], InvitedMembers::All).await;
        let code = invited.expect("it is invited").invitations.remove(0).1.code;
        let wallet = self.wallet();
        let group = wallet.group(&id()).await.expect("the group");
        let mut member = Member::with_secret(&group, "http://localhost", secret.clone(), &mut random());
        let joined = wallet.join(&id(), &member.join(&code).expect("a link proof")).await.expect("the leaf is added");
        member.enrolled(joined.position);

        let url = self.client.authorization_url(&[("client_id", self.app)]);
        let session = SignInSession::open(&url).await.expect("the sign-in starts");
        let signal = &session.request().signal;
        let proof = wallet.prove(&member, external_nullifier(self.app, ""), hash_text(signal)).await.expect("a proof");
        let answer = request("", &proof, signal);
        session.answer_from(session.request(), &answer, Place::Unsaid).await.expect("accepted");
        let target = session.complete().await.expect("completed").expect("a target");
        let code = fragment_or_query(&target)["code"].clone();
        let form = [("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", CALLBACK)];
        let tokens = self.client.post_as(self.app, SECRET, "/token", &form).await;
        assert!(tokens.text("id_token").contains('.'));
        self.vote(self.app, &member).await;
        member
    }

    /// Votes at an application; returns the nullifier.
    async fn vote(&self, app: &str, member: &Member) -> U256 {
        let proof =
            self.wallet().prove(member, external_nullifier(app, "board"), hash_text("")).await.expect("a proof");
        let url = self.client.daemon.verify(&format!("/api/v4/verify/{app}"));
        let answer = self.client.http.post(url).json(&request("board", &proof, "")).send().await.expect("an answer");
        assert_eq!(answer.status(), 200, "{:?}", answer.text().await);
        proof.nullifier
    }

    /// Stops the daemon, and reads what it leaves.
    async fn left(self) -> Vec<Vec<u8>> {
        let SignInTestClient { daemon, http, folder } = self.client;
        drop(http);
        daemon.stop().await;
        tokio::task::spawn_blocking(move || left_in(folder.path())).await.expect("it is read")
    }
}

/// Everything in a data folder: the records of the store as they are stored, and the other files.
fn left_in(data: &Path) -> Vec<Vec<u8>> {
    let mut left = Vec::new();
    for file in std::fs::read_dir(data).expect("the folder").flatten().filter(|file| file.path().is_file()) {
        left.push(std::fs::read(file.path()).expect("a file"));
    }
    let store = Store::open_existing(&store_folder(data), 1 << 20).expect("the store opens");
    store.visit_records(|_, key, value| left.push([key, value].concat())).expect("records");
    left
}

/// All pieces of a length.
fn pieces(left: &[Vec<u8>], length: usize) -> HashSet<&[u8]> {
    left.iter().flat_map(|bytes| bytes.windows(length)).collect()
}

/// The records of one folder that have something in common with the other, and not with the third.
fn joined<'a>(one: &'a [Vec<u8>], other: &[Vec<u8>], third: &[Vec<u8>]) -> Vec<&'a Vec<u8>> {
    let (of_other, of_all) = (pieces(other, JOINING), pieces(third, OF_ALL));
    let joins = |piece: &[u8]| of_other.contains(piece) && !piece.windows(OF_ALL).any(|part| of_all.contains(part));
    one.iter().filter(|bytes| bytes.windows(JOINING).any(joins)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_groups_of_the_same_people_have_nothing_that_joins_them() {
    let organizations = ["one", "two", "three"];
    let [one, two, three] = [
        Organization::start("app_staging_0000000000000000000000000000a1f3").await,
        Organization::start("app_staging_0000000000000000000000000000b27c").await,
        Organization::start("app_staging_0000000000000000000000000000c359").await,
    ];
    let secret = |number: u8| MemberSecret([number; 16]);
    let people = [secret(1), secret(2)];
    let others = [secret(3), secret(4)];
    let mut planted = Vec::new();
    for ((organization, people), name) in
        [&one, &two, &three].into_iter().zip([&people, &people, &others]).zip(organizations)
    {
        // The organizations number their members each in its own way.
        organization.live(&format!("{name}-417"), &people[0]).await;
        let second = organization.live(&format!("{name}-418"), &people[1]).await;
        planted.push(organization.vote(SHARED_APP, &second).await);
    }
    assert!(planted[0] == planted[1] && planted[0] != planted[2], "the planted nullifier is the same in two of them");

    let (one, two, three) = (one.left().await, two.left().await, three.left().await);
    let planted: [u8; 32] = planted[0].to_be_bytes();
    let is_planted = |bytes: &[u8]| bytes.windows(JOINING).any(|piece| piece == &planted[..JOINING]);
    for (left, other) in [(&one, &two), (&two, &one)] {
        let joined = joined(left, other, &three);
        assert!(joined.iter().any(|bytes| is_planted(bytes)), "the reader finds what is there to find");
        let unexpected: Vec<_> = joined.iter().filter(|bytes| !is_planted(bytes)).collect();
        assert!(unexpected.is_empty(), "{unexpected:?}");
    }
    // Nor do other people in a third group.
    assert!(joined(&one, &three, &two).is_empty());
}
