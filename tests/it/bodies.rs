//! The exact bodies of every route: the answer to a successful request, and the typical errors.
//!
//! Keys and clock are the same in every run. Request ids are random, and so is every hash that
//! covers a request id: those are left out.

use std::fmt::Write;
use std::time::Duration;

use alloy_primitives::{Address, U256};
use selfsame_protocol::ids::{LeafIndex, Nonce, PubkeyId};
use selfsame_wallet::keys::Authenticator;
use selfsame_wallet::operations::{AccountState, OperationError, Step, create_account};
use serde_json::{Value, json};

use crate::registry_client::{RegistryAnswer, RegistryClient, route};
use crate::test_accounts::key;

/// Fields whose value depends on request ids, or on the random key of the registry.
const VARYING: [&str; 10] = [
    "tx_hash",
    "block_hash",
    "result_hash",
    "hash",
    "previous_hash",
    "previous_result_hash",
    "operations_root",
    "request_id",
    "public_key",
    "signature",
];

/// Requests and answers in the order in which they were made.
struct Transcript {
    client: RegistryClient,
    text: String,
}

impl Transcript {
    async fn start() -> Self {
        let client = RegistryClient::start_with(|config| {
            config.registry.recovery_agent_update_cooldown = Duration::from_secs(60).into()
        })
        .await;
        Self { client, text: String::new() }
    }

    fn record(&mut self, request: &str, body: Option<&Value>, answer: &RegistryAnswer) {
        let _ = writeln!(self.text, "{}", without_ids(request));
        if let Some(body) = body {
            let _ = writeln!(self.text, "{body:#}");
        }
        let mut shown = answer.body.clone();
        leave_out(&mut shown);
        let _ = writeln!(self.text, "--> {}\n{shown:#}\n", answer.status);
    }

    async fn get(&mut self, path: &str) {
        let answer = self.client.get(self.client.daemon.gateway(path)).await;
        self.record(&format!("GET {path}"), None, &answer);
    }

    async fn post(&mut self, path: &str, body: Value) {
        let answer = self.client.post(self.client.daemon.gateway(path), body.to_string()).await;
        self.record(&format!("POST {path}"), Some(&body), &answer);
    }

    async fn query(&mut self, path: &str, body: Value) {
        let answer = self.client.query(path, body.clone()).await;
        self.record(&format!("POST {path}"), Some(&body), &answer);
    }

    /// Submits an operation and waits for its final state. Records the first answer and the last.
    async fn submit(&mut self, step: Result<Step, OperationError>) -> (AccountState, String) {
        let Step { operation, after } = step.expect("a valid operation");
        let answer = self.client.submit(&operation).await;
        let body = serde_json::to_value(&operation).expect("JSON");
        self.record(&format!("POST {}", route(operation.kind())), Some(&body), &answer);
        let request_id = answer.request_id().to_owned();
        self.get(&format!("/status/{request_id}?wait=60")).await;
        (after, request_id)
    }

    /// Compares everything recorded since the last call with a snapshot.
    #[track_caller]
    fn assert_snapshot(&mut self, name: &str) {
        let text = std::mem::take(&mut self.text);
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, text);
        });
    }
}

fn leave_out(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                match value {
                    Value::String(text) if VARYING.contains(&name.as_str()) => {
                        let zeros =
                            text.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|digit| digit == b'0'));
                        if !zeros {
                            *text = format!("[{name}]");
                        }
                    }
                    // The entry that a receipt shows begins with the request id.
                    Value::Object(operation) if name == "operation" => {
                        operation.insert("encoding".to_owned(), json!("[encoding]"));
                    }
                    Value::Array(ids) if name == "request_ids" => ids.fill(json!("[request_id]")),
                    _ => leave_out(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out),
        Value::String(text) => *text = without_ids(text),
        _ => {}
    }
}

/// The text with `[request_id]` in place of every request id.
fn without_ids(text: &str) -> String {
    let is_id = |word: &str| word.strip_prefix("gw_").is_some_and(|uuid| uuid.len() == 36);
    let words =
        text.split_inclusive(|character: char| !(character.is_ascii_alphanumeric() || "_-".contains(character)));
    let shown = words.map(|word| {
        let id = word.trim_end_matches(|character: char| !character.is_ascii_alphanumeric());
        if is_id(id) { word.replacen(id, "[request_id]", 1) } else { word.to_owned() }
    });
    shown.collect()
}

#[tokio::test]
async fn gateway_bodies_match_their_snapshots() {
    let mut transcript = Transcript::start().await;
    let domain = transcript.client.domain();
    let [alice, tablet, phone, agent, other] = ["alice", "tablet", "phone", "agent", "other"].map(key);

    let (account, request_id) = transcript.submit(Ok(create_account(&[alice.authenticator()], agent.address()))).await;
    transcript.get(&format!("/receipt/{request_id}")).await;
    let account = AccountState { leaf_index: LeafIndex(1), ..account };
    transcript.assert_snapshot("gateway_create_account");

    let (account, _) = transcript.submit(account.insert(&domain, &alice, tablet.authenticator(), PubkeyId(1))).await;
    let (account, _) = transcript.submit(account.update(&domain, &alice, phone.authenticator())).await;
    let (account, _) = transcript.submit(account.remove(&domain, &phone, tablet.address())).await;
    transcript.assert_snapshot("gateway_authenticators");

    let (account, _) = transcript.submit(account.update_recovery_agent(&domain, &phone, other.address())).await;
    let (account, _) = transcript.submit(account.cancel_recovery_agent_update(&domain, &phone)).await;
    let (account, _) = transcript.submit(account.update_recovery_agent(&domain, &phone, other.address())).await;
    transcript.client.daemon.clock.advance(Duration::from_secs(60));
    let (account, _) = transcript.submit(Ok(account.execute_recovery_agent_update())).await;
    let (account, _) = transcript.submit(account.recover(&domain, &other, alice.authenticator())).await;
    transcript.assert_snapshot("gateway_recovery");

    for path in ["/config", "/health", "/block/1", "/block/8", "/head"] {
        transcript.get(path).await;
    }
    let root = transcript.client.standing().await["root"].as_str().expect("a root").to_owned();
    transcript.get(&format!("/is-valid-root?root={root}")).await;
    transcript.get("/is-valid-root?root=0x5").await;
    transcript.assert_snapshot("gateway_queries");

    let unknown = "00000000-0000-4000-8000-000000000000";
    for path in [
        "/nowhere",
        "/create-account",
        "/block/10",
        "/block/latest",
        "/is-valid-root",
        "/status/x",
        "/receipt/x",
        &format!("/status/{unknown}"),
        &format!("/receipt/{unknown}"),
        &format!("/status/{unknown}?wait=61"),
    ] {
        transcript.get(path).await;
    }
    transcript.post("/create-account", json!([])).await;
    transcript.post("/create-account", json!({"authenticator_addresses": ["0x1"]})).await;
    transcript.post("/execute-recovery-agent-update", json!({"leaf_index": 1})).await;
    transcript.post("/execute-recovery-agent-update", json!({"leaf_index": "0"})).await;
    transcript.post("/execute-recovery-agent-update", json!({"leaf_index": "1"})).await;
    transcript.post("/update-recovery-agent", json!({})).await;
    transcript.post("/revert-recovery-agent-update", json!({})).await;
    let taken = create_account(&[alice.authenticator()], Address::ZERO).operation;
    transcript.post("/create-account", serde_json::to_value(taken).expect("JSON")).await;
    let old = AccountState { nonce: Nonce(U256::ZERO), ..account };
    let old = old.insert(&domain, &alice, tablet.authenticator(), PubkeyId(1)).expect("a valid operation").operation;
    transcript.post("/insert-authenticator", serde_json::to_value(old).expect("JSON")).await;
    transcript.assert_snapshot("gateway_errors");
}

#[tokio::test]
async fn indexer_bodies_match_their_snapshots() {
    let mut transcript = Transcript::start().await;
    let domain = transcript.client.domain();
    let [alice, tablet, phone, agent, other] = ["alice", "tablet", "phone", "agent", "other"].map(key);
    let root = async |transcript: &mut Transcript| {
        let answer = transcript.client.get(transcript.client.daemon.indexer("/root")).await;
        transcript.record("GET /root", None, &answer);
    };
    root(&mut transcript).await;

    // The account has three slots, the middle one is removed, and an update of the recovery agent
    // is pending.
    let keys = [&alice, &tablet, &phone];
    let account = transcript.client.create(&keys, agent.address()).await;
    let account = transcript.client.carry_out(account.remove(&domain, &alice, tablet.address())).await;
    transcript.client.carry_out(account.update_recovery_agent(&domain, &alice, other.address())).await;
    root(&mut transcript).await;
    let one = || json!({"leaf_index": "0x1"});
    let address = |of: Address| json!({"authenticator_address": of});
    let by_leaf_index = [
        "/inclusion-proof",
        "/compat/inclusion-proof",
        "/signature-nonce",
        "/authenticator-pubkeys",
        "/authenticators",
        "/recovery-agent",
        "/pending-recovery-agent",
    ];
    for path in by_leaf_index {
        transcript.query(path, one()).await;
    }
    transcript.query("/packed-account", address(phone.address())).await;
    transcript.assert_snapshot("indexer_answers");

    for path in by_leaf_index {
        transcript.query(path, json!({"leaf_index": "0"})).await;
        transcript.query(path, json!({"leaf_index": "9"})).await;
    }
    transcript.query("/packed-account", address(tablet.address())).await;
    transcript.query("/packed-account", json!({"authenticator_address": "0x1"})).await;
    transcript.query("/packed-account", json!({})).await;
    transcript.query("/inclusion-proof", json!({"leaf_index": 1})).await;
    transcript.query("/inclusion-proof", json!([])).await;
    transcript.query("/nowhere", json!({})).await;
    // A key that is not a point of the curve is accepted, except where points are needed.
    let odd = Authenticator { address: Address::repeat_byte(1), ..alice.authenticator() };
    let mut body = serde_json::to_value(create_account(&[odd], Address::ZERO).operation).expect("JSON");
    body["authenticator_pubkeys"] = json!([U256::MAX]);
    let accepted = transcript.client.post(transcript.client.daemon.gateway("/create-account"), body.to_string()).await;
    transcript.client.final_state(accepted.request_id()).await;
    transcript.query("/compat/inclusion-proof", json!({"leaf_index": "2"})).await;
    transcript.query("/authenticator-pubkeys", json!({"leaf_index": "2"})).await;
    transcript.assert_snapshot("indexer_errors");
}
