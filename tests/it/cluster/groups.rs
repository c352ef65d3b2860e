//! Groups in a cluster: what an entry of etcd cannot hold at once, and members who sign in.

use std::collections::BTreeSet;

use reqwest::header::LOCATION;
use selfsame_protocol::bridge::request::BridgeRequest;
use selfsame_protocol::verification::identity::external_nullifier;
use selfsame_wallet::bridge::answer::{choose_member, legacy_body};
use selfsame_wallet::bridge::{self, BridgeClient};
use selfsame_wallet::groups::{GroupClient, GroupLink, Memberships};
use selfsame_wallet::member::Member;
use serde_json::{Value, json};

use super::proxy::Proxy;
use super::replicas::TestCluster;
use crate::account_client::application_settings;
use crate::bridged_sign_in::offered;
use crate::harness::{PATIENCE, folder, operator_token, until};
use crate::sign_in_client::{
    APP, CALLBACK, Form, SECRET, browser, fragment_or_query, parameters, random, unverified_claims,
};

const GROUP: &str = "[[groups]]\nid = 'members'\nname = 'Members of the cooperative'\nenvironment = 'staging'\n";

/// More than six entries of the journal hold.
const LISTED: usize = 30_000;

/// Waits until every replica has read the group.
async fn wait_for_group(cluster: &TestCluster) {
    for index in 0..cluster.replicas.len() {
        until("the group is made", async || match cluster.status(index).await {
            Some(status) if status["groups"][0]["failure"].is_null() => Ok(()),
            other => Err(other),
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn a_list_that_no_entry_can_hold_is_invited_at_a_replica_that_does_not_lead_on_etcd() {
    let folder = folder();
    let mut cluster = TestCluster::prepare(folder.path(), 1, GROUP, "").await;
    cluster.start_all().await;
    let leader = cluster.wait_for_leader().await;
    let invited = async |index: usize| {
        let status = cluster.status(index).await;
        status.as_ref().and_then(|status| status["groups"][0]["invited"].as_u64()).ok_or(status)
    };
    wait_for_group(&cluster).await;
    let other = &cluster.replicas[(leader + 1) % cluster.replicas.len()];
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
    let url = format!("http://{}/groups/members/invitations", other.address("operator"));
    let members: Vec<String> = (0..LISTED).map(|number| format!("K-{number:05}")).collect();
    for (new, unchanged) in [(LISTED, 0), (0, LISTED)] {
        let asked = http.post(&url).bearer_auth(operator_token(&other.data)).json(&json!({"members": members}));
        let answer = asked.send().await.expect("an answer");
        let (status, body) = (answer.status(), answer.json::<Value>().await.expect("JSON"));
        assert_eq!(status, 200, "{body}");
        assert_eq!((&body["new"], &body["unchanged"]), (&json!(new), &json!(unchanged)));
        let links = body["invitations"].as_array().expect("a list");
        assert_eq!(links.len(), new);
        assert!(links.iter().zip(&members).all(|(link, member)| link["member"] == json!(member)), "in their order");
    }
    for index in 0..cluster.replicas.len() {
        let all = async || match invited(index).await {
            Ok(number) if number == LISTED as u64 => Ok(()),
            other => Err(format!("{other:?}")),
        };
        until("every replica has all numbers", all).await;
    }
    cluster.stop_and_check();
}

/// One address in front of all replicas for each interface that a member and a browser use.
struct Fronts {
    sign_in: Proxy,
    bridge: Proxy,
    wallet: Proxy,
}

impl Fronts {
    async fn start() -> Self {
        let front = || Proxy::start(Vec::new());
        Self { sign_in: front().await, bridge: front().await, wallet: front().await }
    }

    /// From now on a replica answers at the three addresses.
    async fn go_to(&self, cluster: &TestCluster, replica: usize) {
        for (front, key) in [(&self.sign_in, "sign_in"), (&self.bridge, "bridge"), (&self.wallet, "wallet")] {
            front.set_targets(vec![cluster.replicas[replica % 3].address(key)]);
            front.end_connections().await;
        }
    }
}

/// A member, and the cluster at which the member signs in.
struct SigningIn {
    cluster: TestCluster,
    fronts: Fronts,
    http: reqwest::Client,
    member: Member,
}

/// A sign-in in a browser, and the answer of the member's wallet, which is not handed over yet.
struct Answered {
    cookie: String,
    page: String,
    wallet: BridgeClient,
    answer: Value,
}

impl SigningIn {
    /// What the operator's interface of a replica answers.
    async fn operator(&self, replica: usize, path: &str, body: Value) -> Value {
        let replica = &self.cluster.replicas[replica % 3];
        let url = format!("http://{}/groups/members/{path}", replica.address("operator"));
        let asked = self.http.post(url).bearer_auth(operator_token(&replica.data)).json(&body);
        let answer = asked.send().await.expect("an answer");
        assert_eq!(answer.status(), 200, "{path}");
        answer.json().await.expect("JSON")
    }

    /// Opens the page of a sign-in at the replica `shown`, and lets the wallet read the request and
    /// the group at the replica `asked`.
    async fn answer(&self, shown: usize, asked: usize) -> Answered {
        let issuer = format!("http://{}", self.fronts.sign_in.address);
        self.fronts.go_to(&self.cluster, shown).await;
        let url = reqwest::Url::parse_with_params(&format!("{issuer}/authorize"), parameters(&[])).expect("a URL");
        let (cookie, base, link) = offered(&self.http, &issuer, url).await;
        self.fronts.go_to(&self.cluster, asked).await;
        let wallet = BridgeClient::new(bridge::parse(&link).expect("a connector URI")).expect("a client");
        let text = until("a request on the bridge", async || wallet.fetch().await).await;
        let request = BridgeRequest::read(&text).expect("a request that wallets read");
        let members = std::slice::from_ref(&self.member);
        let choice = choose_member(&request, &Memberships::new(members, None, &[])).expect("one membership");
        let choice = choice.expect("the request is for the credential of a group");
        let statement = external_nullifier(&request.app_id, &request.action);
        let groups = GroupClient::new(&self.member.wallet_url).expect("a client");
        let proof = groups.prove(&self.member, statement, choice.signal_hash).await.expect("a proof");
        let answer = legacy_body(&request, choice.level, &proof);
        Answered { cookie, page: format!("{issuer}{base}"), wallet, answer }
    }

    /// Hands an answer over at the replica `handed`, and goes on at the replica `completed`, where
    /// the browser goes back to the application. Returns its parameters.
    async fn complete(
        &self,
        Answered { cookie, page, wallet, answer }: Answered,
        [handed, completed]: [usize; 2],
    ) -> std::collections::BTreeMap<String, String> {
        self.fronts.go_to(&self.cluster, handed).await;
        until("the request to take an answer", async || wallet.answer(&answer, &mut random()).await).await;
        self.fronts.go_to(&self.cluster, completed).await;
        let get = async |path: &str| {
            let request = self.http.get(format!("{page}{path}")).header("Cookie", &cookie);
            request.send().await.expect("an answer")
        };
        until("the answer of the wallet", async || {
            let state: Value = get("/progress").await.json().await.expect("JSON");
            if state["state"] == "waiting" { Err(state) } else { Ok(()) }
        })
        .await;
        let done = get("/complete").await;
        assert_eq!(done.status(), 303, "{:?}", done.text().await);
        fragment_or_query(done.headers()[LOCATION].to_str().expect("text"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn a_member_signs_in_over_the_bridge_of_three_replicas_on_etcd() {
    let (folder, fronts) = (folder(), Fronts::start().await);
    let [id_url, bridge_url, wallet_url] =
        [&fronts.sign_in, &fronts.bridge, &fronts.wallet].map(|front| format!("http://{}", front.address));
    let settings = format!(
        "[urls]\nid_url = '{id_url}'\nbridge_url = '{bridge_url}'\nwallet_url = '{wallet_url}'\n[sign_in]\n\
         wallet_link = 'bridge'\n{}accepted_identifiers = ['members']\n{GROUP}legacy_identifier = 'device'\n",
        application_settings().replace("\"account\"", "\"legacy\""),
    );
    let mut cluster = TestCluster::prepare(folder.path(), 1, &settings, "").await;
    cluster.start_all().await;
    wait_for_group(&cluster).await;

    // Invited at one replica, read at the next one, joined at the third one.
    fronts.go_to(&cluster, 1).await;
    let wallet = GroupClient::new(&wallet_url).expect("a client");
    let group = wallet.group(&"members".parse().expect("an id")).await.expect("the group");
    let member = Member::new(&group, &wallet_url, &mut random());
    let http = browser();
    let mut signing_in = SigningIn { cluster, fronts, http, member };
    let invited = signing_in.operator(0, "invitations", json!({"members": ["K-1"]})).await;
    let link = GroupLink::read(invited["invitations"][0]["link"].as_str().expect("a link")).expect("a group's link");
    signing_in.fronts.go_to(&signing_in.cluster, 2).await;
    let request = signing_in.member.join(&link.code).expect("a link proof");
    let joined = wallet.join(&link.group, &request).await.expect("the leaf is added");
    signing_in.member.enrolled(joined.position);

    let mut subjects = BTreeSet::new();
    for turn in 0..3 {
        let answered = signing_in.answer(turn, turn + 1).await;
        let code = signing_in.complete(answered, [turn + 2, turn + 1]).await["code"].clone();
        let form = [("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", CALLBACK)];
        let url = format!("http://{}/token", signing_in.cluster.replicas[turn].address("sign_in"));
        let tokens = signing_in.http.post(url).basic_auth(APP, Some(SECRET)).form(&form).send().await;
        let tokens: Value = tokens.expect("an answer").json().await.expect("JSON");
        let claims = unverified_claims(tokens["id_token"].as_str().unwrap_or_else(|| panic!("no token in {tokens}")));
        assert_eq!(claims[format!("{id_url}/groups")], json!(["members"]), "{claims}");
        assert_eq!(claims[format!("{id_url}/v1")]["verification_level"], "device", "{claims}");
        subjects.insert(claims["sub"].to_string());
    }
    assert_eq!(subjects.len(), 1, "the member is the same person everywhere");

    // Every replica shows the removal that another one has answered.
    assert_eq!(signing_in.operator(2, "members/remove", json!({"member": "K-1"})).await["member"], "K-1");
    for replica in &signing_in.cluster.replicas {
        let wallet = GroupClient::new(&format!("http://{}", replica.address("wallet"))).expect("a client");
        until("the removal", async || match wallet.group(&link.group).await {
            Ok(group) if group.members == 0 => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }
    signing_in.cluster.stop_and_check();
}
