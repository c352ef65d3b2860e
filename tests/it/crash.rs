//! Daemons that are killed: what was answered is done after the restart, exactly once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::{Address, U256};
use selfsame_protocol::gateway::GatewayRequestState;
use selfsame_protocol::ledger::RequestId;
use selfsame_protocol::registry::Operation;
use selfsame_wallet::account::Registry;
use selfsame_wallet::client::{Client, ClientError};
use selfsame_wallet::operations::create_account;
use tokio::sync::Notify;

use crate::harness::{Process, folder, refused_start, run};
use crate::people::{create, final_state, fresh, key, registry, seed};

/// One request, its idempotency key, and the id that it was answered with, if it was answered.
#[derive(Clone)]
struct Request {
    operation: Operation,
    key: [u8; 32],
    request_id: Option<RequestId>,
}

impl Request {
    fn new(operation: Operation) -> Self {
        let mut key = [0; 32];
        fresh(&mut key);
        Self { operation, key, request_id: None }
    }
}

/// Everything that was ever sent.
#[derive(Default)]
struct Desk {
    requests: Mutex<Vec<Request>>,
    /// Requests accepted in this round, and how many of them make it end.
    accepted: AtomicUsize,
    last: AtomicUsize,
    round_ends: Notify,
}

impl Desk {
    fn begin_round(&self, last: usize) {
        self.accepted.store(0, Ordering::Relaxed);
        self.last.store(last, Ordering::Relaxed);
    }

    /// Sends a request and keeps it. `None` when the daemon is gone; then nobody knows whether it was accepted.
    async fn send(&self, client: &Client, mut request: Request) -> Option<RequestId> {
        match client.submit(&request.operation, &request.key).await {
            Ok(answer) => request.request_id = Some(answer.request_id),
            Err(ClientError::Unreachable { .. }) => {}
            Err(error) => panic!("refused: {error}"),
        }
        let request_id = request.request_id;
        self.requests.lock().expect("no panic").push(request);
        if request_id.is_some()
            && self.accepted.fetch_add(1, Ordering::Relaxed) + 1 == self.last.load(Ordering::Relaxed)
        {
            self.round_ends.notify_one();
        }
        request_id
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic").clone()
    }

    /// After a restart: whatever was accepted becomes final; whatever was not answered is sent again under its key, as a
    /// client would.
    async fn settle(&self, client: &Client) {
        let requests = std::mem::take(&mut *self.requests.lock().expect("no panic"));
        for request in requests {
            match request.request_id {
                Some(_) => self.requests.lock().expect("no panic").push(request),
                None => assert!(self.send(client, request).await.is_some(), "the daemon is there"),
            }
        }
        for request in self.requests() {
            let request_id = request.request_id.expect("all are answered now");
            let state = final_state(client, request_id).await;
            assert!(matches!(state, GatewayRequestState::Finalized { .. }), "{request_id}: {state:?}");
        }
    }
}

/// Makes accounts until the daemon is gone.
async fn make_accounts(client: Client, desk: Arc<Desk>, name: String) {
    for number in 0.. {
        let step = create_account(&[key(&format!("{name} {number}")).authenticator()], Address::ZERO);
        if desk.send(&client, Request::new(step.operation)).await.is_none() {
            return;
        }
    }
}

/// Changes an account by signed operations, one after the other, until the daemon is gone.
async fn change_account(registry: Registry, desk: Arc<Desk>, owner: String) {
    let owner_key = key(&owner);
    while let Ok(account) = registry.account_of(owner_key.address()).await {
        let guest = key(&format!("{owner}'s guest {}", account.nonce / U256::from(2)));
        let step = match account.slots.get(1) {
            Some(Some(_)) => account.remove(registry.domain(), &owner_key, guest.address()),
            _ => account.insert(registry.domain(), &owner_key, guest.authenticator(), 1),
        };
        let request = Request::new(step.expect("built").operation);
        let Some(request_id) = desk.send(registry.client(), request).await else { return };
        if registry.client().wait_final(request_id, Duration::from_secs(60)).await.is_err() {
            return;
        }
    }
}

/// Eight clients who work until the daemon is gone.
async fn work(client: Client, desk: &Arc<Desk>, round: usize) -> Vec<tokio::task::JoinHandle<()>> {
    let registry = registry(client.clone()).await;
    let mut workers = Vec::new();
    for number in 0..5 {
        let name = format!("round {round} creator {number}");
        workers.push(tokio::spawn(make_accounts(client.clone(), Arc::clone(desk), name)));
    }
    for owner in OWNERS {
        workers.push(tokio::spawn(change_account(registry.clone(), Arc::clone(desk), owner.to_owned())));
    }
    workers
}

const OWNERS: [&str; 3] = ["ann", "ben", "cem"];

fn assert_sound(data: &Path) {
    let (success, text) = run(&["registry", "fsck", "--data", &data.display().to_string()]);
    assert!(success && text.contains(", 0 faults"), "{text}");
}

/// Every request once in the ledger, as many accounts as creations, each nonce as many as signed operations.
async fn assert_each_once(client: &Client, requests: &[Request]) {
    let mut walked = Vec::new();
    let tip = client.root().await.expect("answered");
    for height in 1..=tip.height {
        walked.extend(client.block(height).await.expect("a block").request_ids);
    }
    let known: BTreeSet<_> = requests.iter().filter_map(|request| request.request_id).collect();
    assert_eq!(known.len(), requests.len(), "every request has an id of its own");
    assert_eq!(walked.len(), known.len(), "the ledger has every request once");
    assert_eq!(BTreeSet::from_iter(walked), known);
    let mut created = 0;
    let mut signed = BTreeMap::<u64, u64>::new();
    for request in requests {
        match request.operation.leaf_index() {
            None => created += 1,
            Some(leaf_index) => *signed.entry(leaf_index).or_default() += 1,
        }
    }
    assert_eq!(tip.leaf_count - 1, created);
    for (leaf_index, operations) in signed {
        assert_eq!(client.signature_nonce(leaf_index).await.expect("answered"), U256::from(operations));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_accepted_is_done_once_however_often_the_daemon_is_killed() {
    const ROUNDS: usize = 14;
    let folder = folder();
    let desk = Arc::new(Desk::default());
    let process = Process::start(folder.path(), &[], &[]);
    for owner in OWNERS {
        let step = create_account(&[key(owner).authenticator()], Address::ZERO);
        desk.send(&process.client(), Request::new(step.operation)).await.expect("accepted");
    }
    process.kill();
    for round in 0..ROUNDS {
        assert_sound(folder.path());
        let process = Process::start(folder.path(), &[], &[]);
        desk.settle(&process.client()).await;
        // Killed with the first answer at first, later somewhere in the middle of the work.
        let last = if round < 4 { 1 } else { 1 + usize::from(seed(&format!("kill {round}"))[0]) };
        desk.begin_round(last);
        let workers = work(process.client(), &desk, round).await;
        desk.round_ends.notified().await;
        process.kill();
        for worker in workers {
            worker.await.expect("no answer was wrong");
        }
    }
    assert_sound(folder.path());
    let process = Process::start(folder.path(), &[], &[]);
    desk.settle(&process.client()).await;
    assert_each_once(&process.client(), &desk.requests()).await;
    assert!(process.terminate().success());
    assert_sound(folder.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_told_to_stop_loses_nothing_either() {
    let folder = folder();
    let desk = Arc::new(Desk::default());
    let process = Process::start(folder.path(), &[], &[]);
    for owner in OWNERS {
        create(&registry(process.client()).await, &key(owner), Address::ZERO).await;
    }
    desk.begin_round(100);
    let workers = work(process.client(), &desk, 0).await;
    desk.round_ends.notified().await;
    assert!(process.terminate().success());
    for worker in workers {
        worker.await.expect("no answer was wrong");
    }
    assert_sound(folder.path());
    let process = Process::start(folder.path(), &[], &[]);
    desk.settle(&process.client()).await;
    let made = desk.requests().iter().filter(|request| request.operation.leaf_index().is_none()).count();
    let tip = process.client().root().await.expect("answered");
    assert_eq!(tip.leaf_count as usize, 1 + OWNERS.len() + made);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_in_flight_arrives_when_the_daemon_is_told_to_stop() {
    let folder = folder();
    let process = Process::start(folder.path(), &[], &[("SELFSAME_BATCHER__MAX_WAIT", "10s")]);
    let client = process.client();
    let step = create_account(&[key("waiting").authenticator()], Address::ZERO);
    let request_id = client.submit(&step.operation, &seed("key")).await.expect("accepted").request_id;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.status(request_id, 60).await }
    });
    let metrics = format!("{}/metrics", process.operator);
    loop {
        let text = reqwest::get(&metrics).await.expect("answered").text().await.expect("text");
        if text.lines().any(|line| line.ends_with("registry_status_waiters 1")) {
            break;
        }
    }
    assert!(process.terminate().success());
    let answer = waiting.await.expect("no panic").expect("the answer arrives");
    assert!(!answer.status.is_final(), "{answer:?}");
    assert_sound(folder.path());

    // The daemon did not wait for the block; the next one seals it.
    let process = Process::start(folder.path(), &[], &[]);
    let state = final_state(&process.client(), request_id).await;
    assert!(matches!(state, GatewayRequestState::Finalized { .. }), "{state:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_for_one_registry_and_one_process() {
    let folder = folder();
    let process = Process::start(folder.path(), &[], &[]);
    let message = refused_start(folder.path(), &[]).await;
    assert!(message.contains("is in use by another process; stop the daemon first"), "{message}");
    let (success, message) = run(&["registry", "fsck", "--data", &folder.path().display().to_string()]);
    assert!(!success && message.contains("is in use by another process"), "{message}");
    assert!(process.client().root().await.is_ok(), "the first one goes on");
    assert!(process.terminate().success());

    let contract = format!("0x{}", "12".repeat(20));
    for (variable, value, shown) in [
        ("SELFSAME_REGISTRY__CHAIN_ID", "480", "on chain 480"),
        ("SELFSAME_REGISTRY__VERIFYING_CONTRACT", contract.as_str(), contract.as_str()),
    ] {
        let message = refused_start(folder.path(), &[(variable, value)]).await;
        for part in
            ["on chain 31337", "0xcf7ed3acca5a467e9e704c703e8d87f634fb0fc9", shown, "are fixed at the first start"]
        {
            assert!(message.contains(part), "{message:?} should contain {part:?}");
        }
    }
    Process::start(folder.path(), &[], &[]).kill();
}

/// What verification, sign-in and the operator were told is done is done, also when the daemon is killed right after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proofs_codes_and_roots_survive_a_kill() {
    const APP: &str = "app_staging_5e1f5a3e000000000000000000000001";
    const CALLBACK: &str = "http://localhost:3000/callback";
    let folder = folder();
    let data = folder.path().join("data");
    let (data_text, wallet) = (data.display().to_string(), folder.path().join("wallet.json").display().to_string());
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let verify = async |process: &Process, body: &str| -> serde_json::Value {
        let url = format!("{}/api/v4/verify/{APP}", process.verification);
        let request = http.post(url).header("content-type", "application/json").body(body.to_owned());
        request.send().await.expect("an answer").json().await.expect("JSON")
    };
    let exchange = async |process: &Process, code: &str| {
        let body = format!("grant_type=authorization_code&code={code}&redirect_uri={CALLBACK}");
        let request = http.post(format!("{}/token", process.sign_in)).basic_auth(APP, Some("sk_dev_only")).body(body);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.json::<serde_json::Value>().await.expect("JSON"))
    };

    let process = Process::start(&data, &[], &[]);
    run(&["wallet", "new", "--wallet", &wallet, "--gateway", &process.gateway, "--indexer", &process.indexer]);
    let daemon = ["--wallet", &wallet, "--operator", &process.operator, "--data", &data_text];
    // The wallet has the operator trust its root.
    let (proved, body) = run(&[&["wallet", "prove", "--app", APP, "--action", "vote"][..], &daemon].concat());
    assert!(proved, "{body}");
    let first = verify(&process, &body).await;
    assert_eq!(first["message"], "Proof verified successfully", "{first}");
    process.kill();

    let process = Process::start(&data, &[], &[]);
    let again = verify(&process, &body).await;
    assert_eq!(again["message"], "Proof verified successfully (nullifier reuse)", "{again}");
    assert_eq!(again["created_at"], first["created_at"]);
    let url = format!(
        "{}/authorize?client_id={APP}&redirect_uri={CALLBACK}&response_type=code&scope=openid",
        process.sign_in
    );
    let daemon = ["--wallet", &wallet, "--operator", &process.operator, "--data", &data_text];
    let code = || {
        let (signed_in, text) = run(&[&["wallet", "sign-in", &url][..], &daemon].concat());
        assert!(signed_in, "{text}");
        let (_, code) = text.split_once("code=").expect("a code");
        code.split('&').next().expect("a code").to_owned()
    };
    let (used, unused) = (code(), code());
    let (status, tokens) = exchange(&process, &used).await;
    assert_eq!(status, 200, "{tokens}");
    process.kill();

    let process = Process::start(&data, &[], &[]);
    let token = tokens["access_token"].as_str().expect("a token");
    let info = async |process: &Process| {
        let request = http.get(format!("{}/userinfo", process.sign_in)).bearer_auth(token);
        request.send().await.expect("an answer").status().as_u16()
    };
    assert_eq!(info(&process).await, 200, "a token that was given out is good");
    assert_eq!(exchange(&process, &unused).await.0, 200, "and so is a code");
    assert_eq!(exchange(&process, &used).await.1["error"], "invalid_grant", "one that was used stays used");
    assert_eq!(info(&process).await, 401, "its second use revoked the token");
}
