//! A daemon that follows contracts: proofs verify when the chain has published what they need, and
//! what is answered while it has not, or while nodes fail.

use std::time::Duration;

use alloy_primitives::{Address, U256};
use selfsame::config::{Chain, Config};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::Environment;
use selfsame_wallet::prove::{self, LegacyRequest, ProofParameters, SimulatedParty};
use serde_json::{Value, json};

use crate::anvil::Anvil;
use crate::chain_contracts::GENERATOR;
use crate::chain_contracts::abi::IdentityManager;
use crate::fake_contracts::{FakeOprfKey, issuer_key, manager_root, oprf_key, registry_root};
use crate::fake_node::{FakeChain, FakeNode, GENESIS_TIME, NodeFault, QuestionHabit, RequestHabit};
use crate::harness::{operator_token, run, until};
use crate::sign_in_client::random;
use crate::test_accounts::person_of;
use crate::verification_client::{DEV_APP, VerificationAnswer, VerificationClient, uniqueness};

const MANAGER: Address = Address::repeat_byte(0x11);
const REGISTRY: Address = Address::repeat_byte(0x22);
const ISSUERS: Address = Address::repeat_byte(0x33);
const OPRF_KEYS: Address = Address::repeat_byte(0x44);

/// Seconds for which the contracts accept a replaced root.
pub const WINDOW: u64 = 3600;

/// The chain as a configuration names it, with a contract of each kind and a second between looks.
pub fn chain(urls: &[&str], agree: usize, manager: Address) -> Chain {
    let contract = |name: &str, kind: &str, address: Address, more: &str| {
        format!(
            "[[contracts]]\nname = '{name}'\nkind = '{kind}'\naddress = '{address:#x}'\nenvironment = 'staging'\n\
             interval = '1s'\n{more}\n"
        )
    };
    let text = [
        format!("name = 'local'\nchain_id = 480\nrpc = {urls:?}\nagree = {agree}\nrequest_timeout = '2s'\n"),
        contract("orb", "identity_manager", manager, "identifiers = ['orb']"),
    ];
    toml::from_str(&text.concat()).expect("a chain")
}

/// The same with the contracts of current proofs.
fn chain_of_current_proofs(url: &str) -> Chain {
    let contract = |name: &str, kind: &str, address: Address| {
        format!(
            "[[contracts]]\nname = '{name}'\nkind = '{kind}'\naddress = '{address:#x}'\nenvironment = 'staging'\n\
             interval = '1s'\n"
        )
    };
    let text = [
        format!("name = 'local'\nchain_id = 480\nrpc = ['{url}']\n"),
        contract("registry", "registry", REGISTRY),
        contract("issuers", "issuers", ISSUERS),
        contract("oprf-keys", "oprf_keys", OPRF_KEYS),
    ];
    toml::from_str(&text.concat()).expect("a chain")
}

/// A node whose chain has the manager, with root 1.
async fn manager_node() -> FakeNode {
    let mut chain = FakeChain::new(480);
    chain.mine(manager_root(MANAGER, U256::ZERO, U256::from(1), WINDOW));
    chain.mine_empty(3);
    FakeNode::start(chain).await
}

/// A client of a daemon that follows a chain and no configured root, with the time of the chain.
pub async fn following(change: impl FnOnce(&mut Config)) -> VerificationClient {
    let client = VerificationClient::start_with(|config| {
        config.trusted_roots.clear();
        change(config);
    })
    .await;
    set_clock(&client, GENESIS_TIME + 60);
    client
}

pub fn set_clock(client: &VerificationClient, time: u64) {
    client.daemon.clock.set(Duration::from_secs(time));
}

/// A genuine legacy proof of a person, and the root of the tree that it was made against.
pub fn legacy_proof(person: &str) -> (U256, Value) {
    let asked =
        ProofParameters { app_id: DEV_APP, action: "vote", signal: "", environment: Environment::Staging, nonce: None };
    let LegacyRequest { root, body } = prove::legacy(&person_of(person), &asked, &mut random()).expect("a proof");
    (root.to_number(), body)
}

/// Repeats a request until its answer is as expected.
pub async fn ask_until(
    client: &VerificationClient,
    request: &Value,
    expected: impl Fn(&VerificationAnswer) -> bool,
) -> VerificationAnswer {
    until("an answer", async || {
        let answer = client.ask(DEV_APP, request).await;
        if expected(&answer) { Ok(answer) } else { Err((answer, status(client).await["chains"].take())) }
    })
    .await
}

pub fn is_verified(answer: &VerificationAnswer) -> bool {
    answer.status == 200
}

pub fn is_unavailable(answer: &VerificationAnswer) -> bool {
    (answer.status, answer.code()) == (503, "verifier_unavailable")
}

pub fn is_unknown_root(answer: &VerificationAnswer) -> bool {
    answer.body["results"][0]["code"] == "invalid_merkle_root"
}

pub async fn status(client: &VerificationClient) -> Value {
    let token = operator_token(client.folder.path());
    let request = client.http.get(client.daemon.operator("/status")).bearer_auth(token);
    request.send().await.expect("an answer").json().await.expect("JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_legacy_proof_verifies_when_its_root_is_published() {
    let node = manager_node().await;
    let client = following(|config| config.chains = vec![chain(&[&node.url], 1, MANAGER)]).await;
    let (root, proof) = legacy_proof("alice");
    let refused = ask_until(&client, &proof, is_unknown_root).await;
    let detail = refused.body["results"][0]["detail"].as_str().expect("text");
    assert!(detail.contains("is not a root that local/orb published lately"), "{detail}");
    node.chain().mine(manager_root(MANAGER, U256::from(1), root, WINDOW));
    ask_until(&client, &proof, is_verified).await;
    // It is one of orb credentials, whatever the request says.
    let mut device = proof.clone();
    device["responses"][0]["identifier"] = json!("device");
    assert_eq!(client.ask(DEV_APP, &device).await.item_code(), "invalid_merkle_root");

    // A replaced root counts by its age.
    node.chain().mine(manager_root(MANAGER, root, U256::from(2), WINDOW));
    let mut fresh = proof.clone();
    fresh["responses"][0]["max_age"] = json!(3600);
    assert_eq!(client.ask(DEV_APP, &fresh).await.status, 200);

    // A reorganization takes the root away.
    node.chain().reorganize(2);
    node.chain().mine_empty(3);
    ask_until(&client, &proof, is_unknown_root).await;

    // What the operator took back does not count, although the chain has it again.
    node.chain().mine(manager_root(MANAGER, U256::from(1), root, WINDOW));
    ask_until(&client, &proof, is_verified).await;
    let removal = json!({"root": format!("{root:#x}"), "kind": "legacy", "environment": "staging"});
    assert_eq!(client.post_to_operator("/roots/remove", &removal).await.0, 200);
    assert_eq!(client.ask(DEV_APP, &proof).await.item_code(), "invalid_merkle_root");
    client.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_nodes_known_roots_count_for_the_window_and_unknown_ones_are_not_judged() {
    let node = manager_node().await;
    let client = following(|config| config.chains = vec![chain(&[&node.url], 1, MANAGER)]).await;
    let (root, proof) = legacy_proof("alice");
    node.chain().mine(manager_root(MANAGER, U256::from(1), root, WINDOW));
    ask_until(&client, &proof, is_verified).await;
    let (_, unknown) = legacy_proof("bob");
    let published = node.chain().head().time.0;

    node.chain().fault = Some(NodeFault::Hang);
    let unavailable = ask_until(&client, &unknown, is_unavailable).await;
    let detail = unavailable.body["detail"].as_str().expect("text");
    assert!(detail.starts_with("the newest known block of local/orb is "), "{detail}");
    set_clock(&client, published + WINDOW);
    ask_until(&client, &proof, is_verified).await;
    set_clock(&client, published + WINDOW + 1);
    assert!(is_unavailable(&client.ask(DEV_APP, &proof).await));
    let seen = status(&client).await;
    assert_eq!(seen["chains"][0]["sources"][0]["state"], "stale", "{seen}");
    let operator = client.daemon.operator("");
    let data = client.folder.path().to_str().expect("UTF-8").to_owned();
    let shown =
        tokio::task::spawn_blocking(move || run(&["chain", "status", "--operator", &operator, "--data", &data]));
    let (success, text) = shown.await.expect("no panic");
    assert!(!success && text.contains("local/orb") && text.contains("stale"), "{text}");

    // The node is back, and the chain went on.
    {
        let mut chain = node.chain();
        chain.fault = None;
        chain.mine_at(published + WINDOW, manager_root(MANAGER, root, U256::from(9), WINDOW));
    }
    ask_until(&client, &proof, is_verified).await;
    ask_until(&client, &unknown, is_unknown_root).await;
    client.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_followed_survives_a_restart_without_nodes() {
    let node = manager_node().await;
    let url = node.url.clone();
    let client = following(|config| config.chains = vec![chain(&[&url], 1, MANAGER)]).await;
    let (root, proof) = legacy_proof("alice");
    node.chain().mine(manager_root(MANAGER, U256::from(1), root, WINDOW));
    ask_until(&client, &proof, is_verified).await;
    drop(node);
    let client = client
        .restart_with(|config| {
            config.trusted_roots.clear();
            config.chains = vec![chain(&[&url], 1, MANAGER)];
        })
        .await;
    set_clock(&client, GENESIS_TIME + 60);
    assert_eq!(client.ask(DEV_APP, &proof).await.status, 200);
    client.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lies_is_outvoted() {
    let (first, second, liar) = (manager_node().await, manager_node().await, manager_node().await);
    let urls = [&*liar.url, &*first.url, &*second.url];
    let client = following(|config| config.chains = vec![chain(&urls, 2, MANAGER)]).await;
    let (root, proof) = legacy_proof("alice");
    liar.chain().mine(manager_root(MANAGER, U256::from(1), root, WINDOW));
    ask_until(&client, &proof, is_unknown_root).await;
    for node in [&first, &second] {
        node.chain().mine_empty(1);
        node.chain().mine(manager_root(MANAGER, U256::from(1), root, WINDOW));
    }
    ask_until(&client, &proof, is_verified).await;
    client.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_current_proof_verifies_with_a_followed_root_and_followed_keys() {
    let root = U256::from(77);
    let mut first = FakeChain::new(480);
    first.mine(registry_root(REGISTRY, root, GENESIS_TIME + 2, WINDOW).and(issuer_key(ISSUERS, 1, None)));
    let node = FakeNode::start(first).await;
    let url = node.url.clone();
    let client = following(|config| {
        config.chains = vec![chain_of_current_proofs(&url)];
        config.issuers.retain(|issuer| issuer.id == 1 && issuer.environments().contains(&Environment::Staging));
        config.issuers.iter_mut().for_each(|issuer| issuer.public_key = None);
        config.relying_parties.iter_mut().for_each(|party| party.oprf_public_key = None);
    })
    .await;
    let rp_id = selfsame_protocol::verification::RelyingPartyId::derived_from(DEV_APP);
    let party = SimulatedParty {
        seed: "integration tests".to_owned(),
        rp_id,
        oprf_public_key: GENERATOR,
        issuer_schema_id: 1,
        identifier: "proof_of_human".to_owned(),
        issuer_public_key: GENERATOR,
        root: selfsame_protocol::tree::Root::from_number(root),
        genesis_issued_at_min: UnixSeconds(0),
    };
    let proof = uniqueness("alice", "vote", &party);
    let code = |answer: &VerificationAnswer| answer.code().to_owned();

    node.chain().mine(oprf_key(OPRF_KEYS, rp_id.0, FakeOprfKey::Unknown));
    let early = ask_until(&client, &proof, |answer| code(answer) == "configuration_error").await;
    assert!(early.body["detail"].as_str().expect("text").contains("it was not made yet"), "{early:?}");
    node.chain().mine(oprf_key(OPRF_KEYS, rp_id.0, FakeOprfKey::Present(GENERATOR)));
    let without_issuer = ask_until(&client, &proof, |answer| code(answer) == "all_verifications_failed").await;
    assert_eq!(without_issuer.item_code(), "invalid_credential_issuer");
    node.chain().mine(issuer_key(ISSUERS, 1, Some(GENERATOR)));
    ask_until(&client, &proof, is_verified).await;

    // Removals count at once.
    node.chain().mine(issuer_key(ISSUERS, 1, None));
    let removed = ask_until(&client, &proof, |answer| !is_verified(answer)).await;
    assert_eq!(removed.item_code(), "invalid_credential_issuer");
    node.chain().mine(issuer_key(ISSUERS, 1, Some(GENERATOR)));
    ask_until(&client, &proof, is_verified).await;
    node.chain().mine(oprf_key(OPRF_KEYS, rp_id.0, FakeOprfKey::Deleted));
    let deleted = ask_until(&client, &proof, |answer| !is_verified(answer)).await;
    assert!(deleted.body["detail"].as_str().expect("text").contains("it was deleted, for good"), "{deleted:?}");
    client.daemon.stop().await;
}

/// A chain of 400 blocks, of which each tenth has a root, and a node that answers in its own way.
async fn odd_node(request: Option<RequestHabit>, question: Option<QuestionHabit>) -> FakeNode {
    let mut chain = FakeChain::new(480);
    for number in 1..400_u64 {
        match number % 10 {
            0 => drop(chain.mine(manager_root(MANAGER, U256::from(number / 10), U256::from(number / 10 + 1), WINDOW))),
            _ => chain.mine_empty(1),
        }
    }
    (chain.request_habit, chain.question_habit) = (request, question);
    FakeNode::start(chain).await
}

/// The chain of such a node, of which the last ten minutes are followed: 30 roots.
fn odd_chain(name: &str, node: &FakeNode, more: &str) -> Chain {
    let text = format!(
        "name = '{name}'\nchain_id = 480\nrpc = ['{}']\nrequest_timeout = '2s'\n[[contracts]]\nname = 'orb'\n\
         kind = 'identity_manager'\naddress = '{MANAGER:#x}'\nenvironment = 'staging'\nidentifiers = ['orb']\n\
         interval = '1s'\nreach = '10m'\n{more}\n",
        node.url
    );
    toml::from_str(&text).expect("a chain")
}

fn logs_of_more_blocks(questions: &[Value], most: u64) -> bool {
    questions.iter().any(|question| {
        let number = |name: &str| {
            let text = question["params"][0][name].as_str().unwrap_or("0x0");
            u64::from_str_radix(&text[2..], 16).expect("hex")
        };
        question["method"] == "eth_getLogs" && number("toBlock") - number("fromBlock") >= most
    })
}

/// Requests for the logs of more than 100 blocks get this answer.
fn no_long_ranges(status: u16, body: &'static str) -> Option<RequestHabit> {
    Some(Box::new(move |questions, _| {
        logs_of_more_blocks(questions, 100).then(|| NodeFault::Http(status, Vec::new(), body))
    }))
}

/// The habits of public nodes and of gateways before them that are no reason not to follow a chain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_followed_whatever_they_refuse_for_a_moment() {
    let page = "<html><head><title>504 Gateway Time-out</title></head></html>";
    let forwarder = r#"{"error": "Internal server error. Forwarder error: 1000."}"#;
    let too_long = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32614,"message":"eth_getLogs is limited to 100"}}"#;
    let compressing: RequestHabit = Box::new(|_, headers| {
        let is_asked = headers.get("accept-encoding").is_some_and(|value| value == "identity");
        (!is_asked).then(|| NodeFault::Http(200, vec![("content-encoding", "gzip")], "\u{1f}"))
    });
    let old = |parameters: &Value| {
        let number = parameters[0].as_str().and_then(|text| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok());
        number.is_some_and(|number| number < 350)
    };
    let once = move |answer: Result<Value, Value>| -> Option<QuestionHabit> {
        let mut left = Some(answer);
        Some(Box::new(move |method, parameters| {
            let is_odd = method == "eth_getBlockByNumber" && old(parameters);
            if is_odd { left.take() } else { None }
        }))
    };
    let mut count = 0;
    let sometimes: QuestionHabit = Box::new(move |method, _| {
        count += u32::from(method == "eth_getBlockByNumber");
        (method == "eth_getBlockByNumber" && count % 4 == 3).then_some(Ok(Value::Null))
    });
    let rows: [(&str, Option<RequestHabit>, Option<QuestionHabit>); 10] = [
        ("page-504", no_long_ranges(504, page), None),
        ("page-502", no_long_ranges(502, page), None),
        ("page-413", no_long_ranges(413, page), None),
        ("text-200", no_long_ranges(200, "invalid host specified"), None),
        ("forwarder", no_long_ranges(200, forwarder), None),
        ("error-413", no_long_ranges(413, too_long), None),
        ("gzip", Some(compressing), None),
        ("null-once", None, once(Ok(Value::Null))),
        ("limit-once", None, once(Err(json!({ "code": -32000, "message": "header not found" })))),
        ("null-often", None, Some(sometimes)),
    ];
    let (mut nodes, mut chains) = (Vec::new(), Vec::new());
    for (name, request, question) in rows {
        let node = odd_node(request, question).await;
        chains.push(odd_chain(name, &node, ""));
        nodes.push(node);
    }
    let client = following(|config| config.chains = chains).await;
    set_clock(&client, nodes[0].chain().head().time.0);
    let followed = until("all chains to be followed", async || {
        let chains = status(&client).await["chains"].take();
        let is_followed = |chain: &Value| chain["sources"][0]["state"] == "following";
        if chains.as_array().expect("a list").iter().all(is_followed) { Ok(chains) } else { Err(chains) }
    })
    .await;
    for chain in followed.as_array().expect("a list") {
        let source = &chain["sources"][0];
        assert!(source["roots"].as_u64().is_some_and(|roots| roots >= 30), "{chain}");
        assert_eq!(source["warning"], Value::Null, "{chain}");
    }
    client.daemon.stop().await;
}

/// A node that cannot be followed says why in its own words, and so does the status.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_has_the_words_of_nodes_that_cannot_be_followed() {
    let refused = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Must be authenticated!"}}"#;
    let all = |status, body| -> Option<RequestHabit> {
        Some(Box::new(move |_, _| Some(NodeFault::Http(status, Vec::new(), body))))
    };
    let error = |code: i64, message: &str| Some(Err(json!({ "code": code, "message": message })));
    let quota: QuestionHabit = Box::new(move |method, _| match method {
        "eth_chainId" => None,
        _ => error(-32005, "daily request count\u{202e} exceeded"),
    });
    let untagged: QuestionHabit = Box::new(move |_, parameters| match parameters[0].as_str() {
        Some("finalized") => error(-32602, "hex string without 0x prefix"),
        _ => None,
    });
    let by_hash: QuestionHabit = Box::new(move |method, _| match method {
        "eth_call" => error(-32602, "cannot unmarshal object into Go value of type string"),
        _ => None,
    });
    let finalized = "block = 'finalized'";
    /// Name, what is answered to requests and to questions, settings of the source, words in the
    /// status.
    type Row<'a> = (&'a str, Option<RequestHabit>, Option<QuestionHabit>, &'a str, &'a str);
    let rows: [Row<'_>; 6] = [
        ("authenticated", all(401, refused), None, "", "code -32600: Must be authenticated!"),
        ("text-401", all(401, "invalid project id"), None, "", "status 401: invalid project id"),
        ("text-429", all(429, "15/second request limit reached"), None, "", "15/second request limit reached"),
        ("quota", None, Some(quota), "", "code -32005: daily request count exceeded"),
        ("no-tag", None, Some(untagged), finalized, "code -32602: hex string without 0x prefix"),
        ("no-hash", None, Some(by_hash), "", "code -32602: cannot unmarshal object into Go value"),
    ];
    let (mut nodes, mut chains, mut words) = (Vec::new(), Vec::new(), Vec::new());
    for (name, request, question, more, said) in rows {
        let node = odd_node(request, question).await;
        chains.push(odd_chain(name, &node, more));
        nodes.push(node);
        words.push(said);
    }
    let client = following(|config| config.chains = chains).await;
    set_clock(&client, nodes[0].chain().head().time.0);
    until("the words of the nodes", async || {
        let chains = status(&client).await["chains"].take();
        let says = |(chain, words): (&Value, &&str)| {
            let failure = chain["sources"][0]["failure"].as_str().unwrap_or_default();
            failure.contains(*words) && !failure.contains('\u{202e}')
        };
        if chains.as_array().expect("a list").iter().zip(&words).all(says) { Ok(()) } else { Err(chains) }
    })
    .await;
    client.daemon.stop().await;
}

/// A legacy proof, and a local chain with a contract of the same interface as the public one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs anvil; run make test-chain"]
async fn a_legacy_proof_verifies_when_its_root_is_published_on_a_local_chain() {
    let anvil = Anvil::start(480).await;
    let manager = anvil.deploy("IdentityManager", &U256::from(1).to_be_bytes::<32>()).await;
    // The contract itself is below the blocks that are replaced later.
    anvil.mine(5).await;
    let client = following(|config| config.chains = vec![chain(&[&anvil.url], 1, manager)]).await;
    let (root, proof) = legacy_proof("alice");
    set_clock(&client, anvil.head().await.time.0);
    ask_until(&client, &proof, is_unknown_root).await;
    anvil.send(manager, &IdentityManager::pushRootCall { root }).await;
    set_clock(&client, anvil.head().await.time.0);
    ask_until(&client, &proof, is_verified).await;

    // Twenty blocks are replaced by others, in which the root was not published.
    anvil.mine(18).await;
    set_clock(&client, anvil.head().await.time.0);
    ask_until(&client, &proof, is_verified).await;
    anvil.reorganize(20).await;
    anvil.mine(1).await;
    set_clock(&client, anvil.head().await.time.0);
    ask_until(&client, &proof, is_unknown_root).await;
    client.daemon.stop().await;
}
