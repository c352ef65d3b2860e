//! Makes a golden store of the schema that the program of this checkout writes: a small registry
//! with something of every kind of record in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use alloy_primitives::{Address, U256};
use selfsame::config::Config;
use selfsame_protocol::chain::deployment::IMPLEMENTATION_SLOT;
use selfsame_protocol::ids::PubkeyId;
use selfsame_protocol::verification::Environment;
use selfsame_wallet::operations::create_account;
use selfsame_wallet::operator::Operator;
use selfsame_wallet::prove;
use selfsame_wallet::sign_in::SignInSession;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::asking::{Expected, answers, wait_for_events, wait_until_followed};
use super::{NOW, configure, hold};
use crate::chain_contracts::GENERATOR;
use crate::chain_following::{WINDOW, legacy_proof};
use crate::fake_contracts::{FakeOprfKey, deployment, issuer_key, oprf_key, registry_root};
use crate::fake_node::{FakeChain, FakeNode, GENESIS_TIME};
use crate::harness::{TestDaemon, folder};
use crate::sign_in_client::{CALLBACK, SignInTestClient, browser, pair};
use crate::signed_requests;
use crate::test_accounts::{carry_out, create, creation, key, registry};
use crate::verification_client::{DEV_APP, with};

/// The contract that names the others, as the configuration has it.
pub const VERIFIER: Address = Address::repeat_byte(0x55);

/// What a client of a golden store knows of it, and the store does not tell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Notes {
    /// The ids of final requests, and of open ones.
    pub final_requests: Vec<String>,
    pub open_requests: Vec<String>,
    /// An access token, a code that was not exchanged, and the cookie of a browser's session.
    pub access_token: String,
    pub code: String,
    pub session: String,
    /// A proof whose nullifier is recorded.
    pub proof: Value,
    /// The same proof in a request with a signed nonce, which is used; from schema 6 on.
    #[serde(default)]
    pub signed_proof: Option<Value>,
    /// Events that a webhook has not accepted and that wait for another attempt; from schema 7 on.
    #[serde(default)]
    pub waiting_events: Option<u64>,
    /// Leaf indexes of the accounts: 1 up to this one, inclusive.
    pub accounts: u64,
}

/// A chain with a verifier, behind a proxy, whose deployment has roots and keys.
pub fn chain() -> FakeChain {
    let [registry, issuers, oprf_keys, proof_verifier] = [0x22, 0x33, 0x44, 0x99].map(Address::repeat_byte);
    let mut chain = FakeChain::new(480);
    for number in 1..=3 {
        chain.mine(registry_root(registry, U256::from(number), GENESIS_TIME + 2 * number, WINDOW));
    }
    let mut named = issuer_key(issuers, 1, Some(GENERATOR))
        .and(oprf_key(oprf_keys, 1, FakeOprfKey::Present(GENERATOR)))
        .and(deployment(VERIFIER, [registry, issuers, oprf_keys, proof_verifier]));
    named.storage.insert((VERIFIER, IMPLEMENTATION_SLOT), Address::repeat_byte(0x77).into_word());
    chain.mine(named);
    chain.mine_empty(3);
    chain
}

/// Starts a daemon on a golden store, or on the folder of one that is being made.
pub async fn start(data: &Path, node: &str, change: impl FnOnce(&mut Config)) -> TestDaemon {
    TestDaemon::start_at(data, NOW, |config| {
        configure(config, node);
        change(config);
    })
    .await
}

async fn submit(http: &reqwest::Client, daemon: &TestDaemon, path: &str, body: Value, key: &str) -> String {
    let request = http.post(daemon.gateway(path)).header("Idempotency-Key", key).json(&body);
    let body: Value = request.send().await.expect("an answer").json().await.expect("JSON");
    body["request_id"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
}

/// Run with `GOLDEN_STORES` naming the folder for the files; see `tests/golden_stores/README.md`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "makes files; see tests/golden_stores/README.md"]
async fn a_golden_store_of_the_present_schema_is_made() {
    let target = PathBuf::from(std::env::var_os("GOLDEN_STORES").expect("GOLDEN_STORES names a folder"));
    let folder = folder();
    let data = folder.path().join("data");
    let node = FakeNode::start(chain()).await;
    let head = node.chain().head().number;
    let daemon = start(&data, &node.url, |_| {}).await;
    let mut notes = Notes::default();

    // The registry: seven blocks, and one with a request that fails.
    let open = registry(daemon.client()).await;
    let [laptop, phone, agent] = ["laptop", "phone", "agent"].map(key);
    let account = create(&open, &laptop, agent.address()).await;
    let inserted = account.insert(open.domain(), &laptop, phone.authenticator(), PubkeyId(1)).expect("a step");
    let account = carry_out(&open, inserted).await.account;
    let updated = account.update_recovery_agent(open.domain(), &phone, phone.address()).expect("a step");
    carry_out(&open, updated).await;
    create(&open, &key("other"), Address::ZERO).await;
    drop(open);
    let http = browser();
    for number in 0..3 {
        let body = serde_json::to_value(creation(number)).expect("JSON");
        let id = submit(&http, &daemon, "/create-account", body, &format!("first {number}")).await;
        let url = daemon.gateway(&format!("/status/{id}?wait=60"));
        http.get(url).send().await.expect("an answer");
        notes.final_requests.push(id);
    }
    notes.accounts = 5;

    // A request that fails: it was valid when it was admitted, and the rules are others when its
    // block is sealed.
    daemon.stop().await;
    let daemon = start(&data, &node.url, hold).await;
    let two = ["two", "authenticators"].map(|name| key(name).authenticator());
    let body = serde_json::to_value(create_account(&two, Address::ZERO).operation).expect("JSON");
    let failing = submit(&http, &daemon, "/create-account", body, "failing").await;
    daemon.stop().await;
    let daemon = start(&data, &node.url, |config| config.registry.max_authenticators = 1).await;
    let failed = http.get(daemon.gateway(&format!("/status/{failing}?wait=60"))).send().await.expect("an answer");
    let failed: Value = failed.json().await.expect("JSON");
    assert_eq!(failed["status"]["state"], "failed", "{failed}");
    daemon.stop().await;
    let daemon = start(&data, &node.url, |_| {}).await;
    notes.final_requests.push(failing);

    // Verification: a trusted root, a nullifier and the action that it is of.
    let operator = Operator::new(&daemon.operator("")).expect("an address");
    let (root, proof) = legacy_proof("alice");
    let root = selfsame_protocol::tree::Root::from_number(root);
    let identifier = prove::LEGACY_IDENTIFIER;
    operator.trust_simulated_root(root, Environment::Staging, identifier, &data).await.expect("trusted");
    let url = daemon.verify(&format!("/api/v4/verify/{DEV_APP}"));
    let verified = http.post(url).json(&proof).send().await.expect("an answer");
    assert_eq!(verified.status(), 200, "{:?}", verified.text().await);
    let signature = signed_requests::signature(7, NOW.as_secs(), NOW.as_secs() + 300, proof["action"].as_str());
    let signed = with(with(proof.clone(), "/nonce", json!("0x7")), "/rp_signature", signature);
    let url = daemon.verify(&format!("/api/v4/verify/{DEV_APP}"));
    let verified = http.post(url).json(&signed).send().await.expect("an answer");
    assert_eq!(verified.status(), 200, "{:?}", verified.text().await);
    notes.signed_proof = Some(signed);
    notes.proof = proof;
    wait_until_followed(&daemon, &data, head).await;

    // Sign-in: a session of a browser, a token, a code, and a transaction that nobody answered.
    let client = SignInTestClient { daemon, http: http.clone(), folder };
    let (_, cookie) = client.sign_in_by_page("alice", &[], "").await;
    notes.session = pair(cookie);
    let exchanged = client.exchange(&client.code("bob", &[]).await).await;
    notes.access_token = exchanged.text("access_token").to_owned();
    notes.code = client.code("carol", &[]).await;
    SignInSession::open(&client.authorization_url(&[])).await.expect("the sign-in starts");
    assert_eq!(CALLBACK, "http://localhost:3000/callback");
    let SignInTestClient { daemon, folder, .. } = client;
    daemon.stop().await;

    // Two requests that wait in the queue.
    let daemon = start(&data, &node.url, hold).await;
    for number in 10..12 {
        let body = serde_json::to_value(creation(number)).expect("JSON");
        let id = submit(&http, &daemon, "/create-account", body, &format!("second {number}")).await;
        notes.open_requests.push(id);
    }
    wait_until_followed(&daemon, &data, head).await;
    // The first account's three changes, four other accounts, two verifications.
    let events = 9;
    wait_for_events(&daemon, &data, events).await;
    notes.waiting_events = Some(events);
    let expected = Expected { answers: answers(&daemon, &data, &notes).await, notes };
    daemon.stop().await;

    let schema = selfsame_storage::SCHEMA_VERSION;
    let archive = target.join(format!("schema-{schema}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--exclude=LOG*", "--file"]).arg(&archive);
    assert!(tar.arg("--directory").arg(&data).arg(".").status().expect("tar runs").success());
    let text = serde_json::to_string_pretty(&expected).expect("JSON") + "\n";
    std::fs::write(target.join(format!("schema-{schema}.json")), text).expect("written");
    drop(folder);
}
