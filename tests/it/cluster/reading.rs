//! A client that goes from one replica to another one.

use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use futures_util::{StreamExt, stream};
use selfsame_actors::{Clock, SystemClock};
use selfsame_protocol::verification::Environment;
use selfsame_wallet::operator::Operator;
use selfsame_wallet::prove::{self, ProofParameters, SimulatedParty};
use selfsame_wallet::sign_in::{AskedProof, Place, SignInSession};
use serde_json::{Value, json};

use super::members::Signal;
use super::proxy::{Line, Proxy};
use super::replicas::TestCluster;
use crate::account_client::application_settings;
use crate::harness::{PATIENCE, folder, operator_token, run, until_true};
use crate::sign_in_client::{APP, CALLBACK, Form, SECRET, fragment_or_query, parameters, unverified_claims};
use crate::test_accounts::{creation, person_of};

const HEIGHT: &str = "x-selfsame-height";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn what_one_replica_has_accepted_every_other_one_knows_on_etcd() {
    let folder = folder();
    let mut cluster = TestCluster::start(folder.path()).await;
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let url = |index: u64, interface: &str, path: &str| {
        format!("http://{}{path}", cluster.replicas[index as usize % 3].address(interface))
    };
    for number in 0..30 {
        let accepted = http.post(url(number, "gateway", "/create-account")).json(&creation(number)).send().await;
        let accepted = accepted.expect("an answer");
        assert_eq!(accepted.status(), 200);
        let accepted: Value = accepted.json().await.expect("JSON");
        let path = format!("/status/{}?wait=60", accepted["request_id"].as_str().expect("an id"));
        // Another replica knows it at once, and has its final state.
        let status = http.get(url(number + 1, "gateway", &path)).send().await.expect("an answer");
        assert_eq!(status.status(), 200, "request {number} is not known at another replica");
        let height = status.headers()[HEIGHT].to_str().expect("text").to_owned();
        assert_eq!(status.json::<Value>().await.expect("JSON")["status"]["state"], "finalized");
        // And a third one shows its block to a client that names it.
        let root = http.get(url(number + 2, "indexer", "/root")).header(HEIGHT, &height).send().await;
        let root: Value = root.expect("an answer").json().await.expect("JSON");
        assert!(root["height"].as_u64() >= height.parse().ok(), "{root} before block {height}");
    }
    // Neither what is no height nor one that no replica has sealed is waited for.
    for wrong in ["", "-1", "+1", "0x1", "1.0", "1000000", "99999999999999999999"] {
        let refused = http.get(url(0, "indexer", "/root")).header(HEIGHT, wrong).send().await.expect("an answer");
        assert_eq!(refused.status(), 400, "{wrong:?}");
    }
    cluster.stop_and_check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn a_sign_in_is_begun_answered_and_redeemed_at_three_replicas_on_etcd() {
    let folder = folder();
    let front = Proxy::start(Vec::new()).await;
    let settings = format!("[urls]\nid_url = \"http://{}\"\n{}", front.address, application_settings());
    let mut cluster = TestCluster::prepare(folder.path(), 1, &settings, "").await;
    cluster.start_all().await;
    let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().expect("a client");
    let go_to = async |index: usize| {
        // Open connections end, so that the next request goes to the next replica.
        front.set_targets(vec![cluster.replicas[index].address("sign_in")]);
        front.end_connections().await;
    };
    let party = simulated_party(&cluster, 1).await;
    // What strangers send through the application's server is no reason to refuse what is good: no
    // replica has these tokens, and a source may ask for 6,000 such things in a minute.
    let pooled = reqwest::Client::builder().no_proxy().build().expect("a client");
    let replica = format!("http://{}/introspect", cluster.replicas[1].address("sign_in"));
    let relayed = (0..6100).map(|number| {
        let token = format!("unknown-{number}");
        pooled.post(&replica).basic_auth(APP, Some(SECRET)).form(&[("token", token.as_str())]).send()
    });
    let mut relayed = stream::iter(relayed).buffer_unordered(64);
    while let Some(answer) = relayed.next().await {
        assert_ne!(answer.expect("an answer").status(), 429, "a token that strangers made up");
    }
    // Each turn but the first returns to the account, at a replica that the turn before did not end
    // at.
    let (mut token_of_before, mut subjects) = (None, BTreeSet::new());
    for turn in 0..6 {
        let hint = token_of_before.as_deref();
        let code = code_of_sign_in(&front, &party, hint, async |step| go_to((turn + step) % 3).await).await;
        let form = [("grant_type", "authorization_code"), ("code", &code), ("redirect_uri", CALLBACK)];
        let redeem = async |index: usize| {
            let url = format!("http://{}/token", cluster.replicas[index % 3].address("sign_in"));
            http.post(url).basic_auth(APP, Some(SECRET)).form(&form).send().await.expect("an answer")
        };
        let tokens = redeem(turn).await;
        assert_eq!(tokens.status(), 200);
        let tokens: Value = tokens.json().await.expect("JSON");
        let id_token = tokens["id_token"].as_str().expect("an ID token").to_owned();
        subjects.insert(unverified_claims(&id_token)["sub"].to_string());
        token_of_before = Some(id_token);
        let token = tokens["access_token"].as_str().expect("a token");
        let introspect = async |index: usize| {
            let url = format!("http://{}/introspect", cluster.replicas[index].address("sign_in"));
            let answer = http.post(url).basic_auth(APP, Some(SECRET)).form(&[("token", token)]).send().await;
            answer.expect("an answer").json::<Value>().await.expect("JSON")["active"].clone()
        };
        for index in 0..3 {
            assert_eq!(introspect(index).await, json!(true), "replica {index}");
        }
        // A second use anywhere is refused, and ends the token everywhere, soon.
        assert_eq!(redeem(turn + 1).await.status(), 400);
        for index in 0..3 {
            let what = format!("the end of the token at replica {index}");
            until_true(what, async || introspect(index).await == json!(false)).await;
        }
    }
    assert_eq!(subjects.len(), 1, "one account");
    // Each replica knows the account, and the kind of subjects that another one has decided.
    let sub: Value = subjects.first().expect("a subject").parse().expect("JSON");
    let operators: Vec<_> =
        cluster.replicas.iter().map(|replica| (replica.address("operator"), operator_token(&replica.data))).collect();
    let ask = async |index: usize, path: &str, body: Value| {
        let (address, token) = &operators[index];
        let answer = http.post(format!("http://{address}{path}")).bearer_auth(token).json(&body).send().await;
        let answer = answer.expect("an answer");
        assert_eq!(answer.status(), 200, "{path} at {index}");
        answer.json::<Value>().await.expect("JSON")
    };
    let mut before = "derived";
    for (index, kind) in ["nullifier", "derived", "nullifier"].into_iter().enumerate() {
        let shown = ask(index, "/accounts/show", json!({"app_id": APP, "sub": sub})).await;
        assert_eq!((&shown["sub"], &shown["identifier"]), (&sub, &json!("proof_of_human")));
        let changed = ask(index, "/accounts/subjects", json!({"app_id": APP, "subject": kind})).await;
        assert_eq!((&changed["before"], &changed["subject"]), (&json!(before), &json!(kind)), "at {index}");
        before = kind;
    }
    let hint = token_of_before.as_deref();
    code_of_sign_in(&front, &party, hint, async |step| go_to(step).await).await;
    // A replica whose configuration says otherwise does not start again.
    cluster.replicas[2].terminate();
    cluster.wait_for_leader().await;
    assert_eq!(cluster.try_start(2).expect_err("refused").code(), Some(78), "{}", cluster.replicas[2].log());
    let derived = json!({"app_id": APP, "subject": "derived"});
    assert_eq!(ask(0, "/accounts/subjects", derived).await["before"], "nullifier");
    cluster.start_replica(2);
    cluster.wait_until_ready(2).await;
    cluster.stop_and_check();
}

/// The simulator of a replica, for the application.
pub async fn simulated_party(cluster: &TestCluster, index: usize) -> SimulatedParty {
    let operator = format!("http://{}", cluster.replicas[index].address("operator"));
    let simulation = Operator::new(&operator).expect("a client").simulation().await.expect("the simulator");
    let root = cluster.replicas[index].client().root().await.expect("a root").root;
    SimulatedParty::of(simulation, APP, root).expect("a known application")
}

/// Signs in through a proxy, with an ID token of before as the hint; `go_to` is called before each
/// of the three steps. Returns the code.
async fn code_of_sign_in(
    front: &Proxy,
    party: &SimulatedParty,
    hint: Option<&str>,
    go_to: impl AsyncFn(usize),
) -> String {
    go_to(0).await;
    let authorize = format!("http://{}/authorize", front.address);
    let hint: Vec<_> = hint.iter().map(|hint| ("id_token_hint", *hint)).collect();
    let url = reqwest::Url::parse_with_params(&authorize, parameters(&hint)).expect("a URL");
    let session = SignInSession::open(url.as_str()).await.expect("a page");
    go_to(1).await;
    let request = session.request();
    let asked = ProofParameters {
        app_id: &request.app_id,
        action: &request.action,
        signal: &request.signal,
        environment: Environment::Staging,
        nonce: Some(request.nonce),
    };
    let mut random = crate::sign_in_client::random();
    let person = person_of("a person");
    let proof = match (AskedProof::of(request).expect("a known proof"), hint.is_empty()) {
        (AskedProof::BoundUniqueness, true) => prove::bound_uniqueness(&person, &asked, party, &mut random),
        (AskedProof::Session(id), false) => prove::session_of_id(&person, id, &asked, party, &mut random),
        other => panic!("{other:?}"),
    };
    let proof = proof.expect("a proof");
    session.answer_from(request, &proof, Place::Unsaid).await.expect("the answer is taken");
    go_to(2).await;
    let location = session.complete().await.expect("an answer").expect("a redirect");
    fragment_or_query(&location)["code"].clone()
}

/// The replica that is asked has the code, and has not heard of its use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn a_second_use_at_a_late_replica_with_a_wrong_clock_ends_the_token_on_etcd() {
    let folder = folder();
    let front = Proxy::start(Vec::new()).await;
    let settings = format!("[urls]\nid_url = \"http://{}\"\n{}", front.address, application_settings());
    let mut cluster = TestCluster::prepare(folder.path(), 1, &settings, "").await;
    cluster.start_all().await;
    let leader = cluster.wait_for_leader().await;
    let late = (leader + 1) % 3;
    cluster.replicas[late].terminate();
    let wrong = UNIX_EPOCH + SystemClock.now() + Duration::from_secs(600);
    cluster.replicas[late].clock = Some(humantime::format_rfc3339_seconds(wrong).to_string());
    cluster.start_replica(late);
    cluster.wait_until_ready(late).await;
    let party = simulated_party(&cluster, leader).await;
    front.set_targets(vec![cluster.replicas[leader].address("sign_in")]);
    let code = code_of_sign_in(&front, &party, None, async |_| {}).await;
    cluster.wait_until_equal().await;
    cluster.replicas[late].set_line_to_etcd(Line::Slow(Duration::from_millis(300)));
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
    let url = |index: usize, path: &str| format!("http://{}{path}", cluster.replicas[index].address("sign_in"));
    let form = [("grant_type", "authorization_code"), ("code", &code), ("redirect_uri", CALLBACK)];
    let redeem = async |index: usize| {
        let answer = http.post(url(index, "/token")).basic_auth(APP, Some(SECRET)).form(&form).send().await;
        let answer = answer.expect("an answer");
        (answer.status().as_u16(), answer.json::<Value>().await.expect("JSON"))
    };
    let (status, tokens) = redeem(leader).await;
    assert_eq!(status, 200, "{tokens}");
    let (status, refused) = redeem(late).await;
    assert_eq!(status, 400, "{refused}");
    let token = [("token", tokens["access_token"].as_str().expect("a token"))];
    until_true("the end of the token", async || {
        let answer = http.post(url(leader, "/introspect")).basic_auth(APP, Some(SECRET)).form(&token).send().await;
        answer.expect("an answer").json::<Value>().await.expect("JSON")["active"] == false
    })
    .await;
    cluster.replicas[late].set_line_to_etcd(Line::Open);
    cluster.stop_and_check();
}

/// etcd alone reaches such a leader, and it keeps its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn a_leader_that_no_other_replica_reaches_leaves_the_leadership_on_etcd() {
    let folder = folder();
    let mut cluster = TestCluster::start(folder.path()).await;
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
    for line in [Line::Cut, Line::Silent] {
        let before = cluster.wait_for_leader().await;
        let follower = (before + 1) % 3;
        for index in 0..3 {
            cluster.wait_until_ready(index).await;
        }
        cluster.replicas[before].set_line_from_others(line);
        let ready = format!("http://{}/ready", cluster.replicas[follower].address("operator"));
        let name = cluster.replicas[before].name;
        until_true("a follower that is not ready", async || {
            let answer = http.get(&ready).send().await.expect("an answer");
            let is_ready = answer.status() == 200;
            let reasons = answer.text().await.expect("a body");
            !is_ready && reasons.contains(&format!("has not reached {name}, which leads, for"))
        })
        .await;
        until_true("another leader", async || cluster.leader().await.is_some_and(|leader| leader != before)).await;
        // The others reach each other, and the one before reaches them.
        for index in 0..3 {
            cluster.wait_until_ready(index).await;
        }
        let numbers = if line == Line::Cut { 0..3 } else { 3..6 };
        super::joining::create(&cluster.replicas[before].client(), numbers).await;
        cluster.replicas[before].set_line_from_others(Line::Open);
        cluster.wait_until_equal().await;
    }
    cluster.stop_and_check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn a_replica_without_news_reads_on_and_says_so_on_etcd() {
    let folder = folder();
    let mut cluster = TestCluster::prepare(folder.path(), 1, &application_settings(), "").await;
    cluster.start_all().await;
    let leader = cluster.wait_for_leader().await;
    let cut = (leader + 1) % 3;
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
    cluster.replicas[cut].set_line_to_etcd(Line::Silent);
    cluster.replicas[leader].set_line_from_others(Line::Cut);
    let url = |interface: &str, path: &str| format!("http://{}{path}", cluster.replicas[cut].address(interface));
    let userinfo = || http.get(url("sign_in", "/userinfo")).bearer_auth("no token").send();
    let what = "a refusal of what may be old";
    until_true(what, async || userinfo().await.expect("an answer").status() == 503).await;
    let refused = userinfo().await.expect("an answer");
    assert!(refused.headers().contains_key("retry-after"));
    let ready = http.get(url("operator", "/ready")).send().await.expect("an answer");
    assert_eq!(ready.status(), 503);
    let reasons = ready.text().await.expect("a body");
    assert!(reasons.contains("no news of the journal"), "{reasons}");
    assert_eq!(http.get(url("indexer", "/root")).send().await.expect("an answer").status(), 200);
    let refused = http.post(url("gateway", "/create-account")).json(&creation(7)).send().await.expect("an answer");
    assert_eq!(refused.status(), 503);
    assert!(refused.headers().contains_key("retry-after"));
    // What it lacks, another replica may have: a request, a root, a code.
    let leaders = cluster.replicas[leader].client();
    let accepted = leaders.submit(&creation(6), &[6; 32]).await.expect("accepted").request_id;
    leaders.wait_final(accepted, PATIENCE).await.expect("an answer");
    let party = simulated_party(&cluster, leader).await;
    let (app_id, environment) = (APP, Environment::Staging);
    let asked = ProofParameters { app_id, action: "vote", signal: "", environment, nonce: None };
    let mut random = |bytes: &mut [u8; 32]| *bytes = [1; 32];
    let proof = prove::uniqueness(&person_of("a person"), &asked, &party, &mut random).expect("a proof");
    let verify = || http.post(url("verify", &format!("/api/v4/verify/{APP}"))).json(&proof).send();
    let form = [("grant_type", "authorization_code"), ("code", "of another replica"), ("redirect_uri", CALLBACK)];
    let redeem = || http.post(url("sign_in", "/token")).basic_auth(APP, Some(SECRET)).form(&form).send();
    let status = || http.get(url("gateway", &format!("/status/{accepted}"))).send();
    for refused in [status().await, verify().await, redeem().await] {
        let refused = refused.expect("an answer");
        assert_eq!(refused.status(), 503, "{}", refused.url());
        assert!(refused.headers().contains_key("retry-after"), "{}", refused.url());
    }
    cluster.replicas[cut].set_line_to_etcd(Line::Open);
    cluster.replicas[leader].set_line_from_others(Line::Open);
    cluster.wait_until_ready(cut).await;
    assert_eq!(userinfo().await.expect("an answer").status(), 401);
    for (answer, expected) in [(status().await, 200), (verify().await, 200), (redeem().await, 400)] {
        let answer = answer.expect("an answer");
        assert_eq!(answer.status(), expected, "{}", answer.url());
    }
    super::joining::create(&cluster.replicas[cut].client(), 8..10).await;
    cluster.wait_until_equal().await;
    cluster.stop_and_check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn a_replica_starts_and_reads_without_etcd_on_etcd() {
    let folder = folder();
    let mut cluster = TestCluster::start(folder.path()).await;
    super::joining::create(&cluster.replicas[0].client(), 0..3).await;
    cluster.wait_until_equal().await;
    cluster.replicas[1].kill();
    cluster.members.send(0, Signal::Kill);
    cluster.start_replica(1);
    let client = cluster.replicas[1].client();
    assert_eq!(client.root().await.expect("a root").leaf_count, 4);
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let ready = http.get(format!("http://{}/ready", cluster.replicas[1].address("operator"))).send().await;
    assert_eq!(ready.expect("an answer").status(), 503);
    cluster.members.restore(0).await;
    for index in 0..3 {
        cluster.wait_until_ready(index).await;
    }
    cluster.wait_for_leader().await;
    super::joining::create(&client, 3..5).await;
    cluster.wait_until_equal().await;
    cluster.stop_and_check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn writes_stop_before_etcd_is_full_on_etcd() {
    let folder = folder();
    let mut cluster = TestCluster::prepare(folder.path(), 1, "", "etcd_quota_mib = 16").await;
    cluster.start_all().await;
    let leader = cluster.wait_for_leader().await;
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let url =
        |interface: &str, path: &str| format!("http://{}{path}", cluster.replicas[(leader + 1) % 3].address(interface));
    let mut number = 0;
    let mut create = async || {
        number += 1;
        let answer = http.post(url("gateway", "/create-account")).json(&creation(number)).send().await;
        answer.expect("an answer").status().as_u16()
    };
    assert_eq!(create().await, 200);
    let endpoints = cluster.members.access("/").endpoints;
    let mut etcd = etcd_client::Client::connect(endpoints, None).await.expect("a client");
    for index in 0..15 {
        etcd.put(format!("/other/{index}"), vec![7; 1 << 20], None).await.expect("it is written");
    }
    until_true("the end of writes", async || create().await == 503).await;
    let ready = http.get(format!("http://{}/ready", cluster.replicas[leader].address("operator"))).send().await;
    let ready = ready.expect("an answer").text().await.expect("a body");
    // How much it uses depends on what it has freed, and when.
    assert!(ready.contains("etcd uses 1") && ready.contains(" of 16 MiB"), "{ready}");
    // The leader leads on, and writes when there is room again.
    assert_eq!(cluster.leader().await, Some(leader));
    let options = etcd_client::DeleteOptions::new().with_prefix();
    let deleted = etcd.delete("/other/", Some(options)).await.expect("they are deleted");
    let revision = deleted.header().expect("a header").revision();
    etcd.compact(revision, None).await.expect("it is compacted");
    until_true("writes", async || create().await == 200).await;
    assert_eq!(cluster.leader().await, Some(leader));
    cluster.wait_until_equal().await;
    cluster.stop_and_check();
}

/// What a replica forwarded is told to those of the leader's actors who keep it beside the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn every_replica_shows_what_the_operator_did_at_another_one_on_etcd() {
    let folder = folder();
    let mut cluster = TestCluster::start(folder.path()).await;
    let run_at = |index: usize, arguments: &[&str]| {
        let data = cluster.replicas[index % 3].data.to_str().expect("text");
        let (success, text) = tokio::task::block_in_place(|| run(&[arguments, &["--data", data]].concat()));
        assert!(success, "{text}");
        text
    };
    for turn in 0..9 {
        let root = format!("{:#x}", 1000 + turn);
        let identity = ["--kind", "legacy", "--environment", "staging", "--identifier", "orb"];
        run_at(turn, &[&["roots", "add", &root], &identity[..]].concat());
        for other in 0..3 {
            let what = format!("the root that was added at {} at {other}", turn % 3);
            until_true(what, async || run_at(other, &["roots", "list"]).contains(&root[2..])).await;
        }
        run_at(turn + 1, &["keys", "rotate", "--now"]);
        let keys = run_at(turn + 1, &["keys", "list"]);
        for other in 0..3 {
            let what = format!("the keys that were rotated at {} at {other}", (turn + 1) % 3);
            until_true(what, async || run_at(other, &["keys", "list"]) == keys).await;
        }
    }
    cluster.stop_and_check();
}
