//! One client against all others: what it may hold and cost, directly or through a proxy.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use alloy_primitives::Address;
use futures_util::stream::{FuturesUnordered, StreamExt};
use reqwest::header::{ACCEPT, RETRY_AFTER};
use selfsame::config::{Config, CreateAccount, RateLimit, SecretHash, TimeSpan};
use selfsame_interfaces::interface::Interface;
use selfsame_protocol::registry::Operation;
use selfsame_wallet::operations::{AccountState, create_account};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{in_time, until_true};
use crate::registry_client::RegistryClient;
use crate::sign_in_client::{APP, Form, SECRET, SignInTestClient, accept_current_proofs};
use crate::test_accounts::key;

const ATTACKER: &str = "192.0.2.1";
const OTHER: &str = "198.51.100.7";

fn behind_a_proxy(config: &mut Config) {
    config.limits.trusted_proxies = vec!["127.0.0.0/8".parse().expect("a network")];
}

fn limit(requests: u32) -> Option<RateLimit> {
    Some(RateLimit { requests, window: TimeSpan::from_secs(60) })
}

/// Creates a different account for each number.
fn create(number: usize) -> Operation {
    create_account(&[key(&format!("fair {number}")).authenticator()], Address::ZERO).operation
}

/// A sign-in that a program behind the proxy began: the path of its transaction, and its secret.
struct ForwardedSignIn {
    path: String,
    secret: String,
}

impl ForwardedSignIn {
    async fn begin(client: &SignInTestClient, source: &str) -> Self {
        let request = client.http.get(client.authorization_url(&[])).header(ACCEPT, "application/json");
        let answer = client.send(request.header("x-forwarded-for", source)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let path = format!("/authorize/{}", answer.text("transaction"));
        Self { path, secret: answer.text("secret").to_owned() }
    }

    /// Opens a stream of events as a proxy does for its client: on a connection of its own. Returns
    /// the status, and the connection unless the daemon ended it.
    async fn follow(&self, address: SocketAddr, source: &str) -> (u16, Option<TcpStream>) {
        let Self { path, secret } = self;
        let mut stream = TcpStream::connect(address).await.expect("connected");
        let request = format!(
            "GET {path}/events HTTP/1.1\r\nhost: h\r\nx-forwarded-for: {source}\r\nconnection: close\r\n\
             authorization: Bearer {secret}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.expect("an answer");
        let status = std::str::from_utf8(&head[9..]).expect("text").parse().expect("a status");
        (status, (status == 200).then_some(stream))
    }
}

/// Whether the daemon has not ended a stream.
fn is_open(stream: &TcpStream) -> bool {
    let mut events = [0; 4096];
    loop {
        match stream.try_read(&mut events) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}

/// One source opens as many streams as it can. Another source's sign-in, and the calls of an
/// application's server, are still answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_of_one_source_behind_a_proxy_stop_no_sign_in() {
    const ROOM: usize = 40;
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        behind_a_proxy(config);
        config.limits.max_connections = ROOM;
    })
    .await;
    let address = client.daemon.addresses[Interface::SignIn];
    let mut sign_ins = Vec::new();
    for _ in 0..ROOM / 2 {
        sign_ins.push(ForwardedSignIn::begin(&client, ATTACKER).await);
    }
    let mut answers: FuturesUnordered<_> =
        sign_ins.iter().flat_map(|sign_in| (0..4).map(|_| sign_in.follow(address, ATTACKER))).collect();
    let mut open = Vec::new();
    for _ in 0..ROOM {
        let (status, stream) = in_time("an answer", answers.next()).await.expect("an answer");
        assert!([200, 429, 503].contains(&status), "{status}");
        open.extend(stream);
    }

    // Every call is on a connection of its own, as through a proxy.
    let get = |url: String| client.http.get(url).header("x-forwarded-for", OTHER).header("connection", "close");
    let others = async {
        let begun = get(client.authorization_url(&[])).header(ACCEPT, "text/html").send().await.expect("an answer");
        assert_eq!(begun.status(), 303);
        for path in ["/jwks", "/.well-known/openid-configuration"] {
            assert_eq!(get(client.daemon.sign_in(path)).send().await.expect("an answer").status(), 200);
        }
        let form =
            [("grant_type", "authorization_code"), ("code", "x"), ("redirect_uri", "http://localhost:3000/callback")];
        let token = client.http.post(client.daemon.sign_in("/token")).basic_auth(APP, Some(SECRET)).form(&form);
        let token = client.send(token.header("x-forwarded-for", "203.0.113.5").header("connection", "close")).await;
        assert_eq!((token.status, token.text("error")), (400, "invalid_grant"));
        let other = ForwardedSignIn::begin(&client, OTHER).await;
        let (status, stream) = other.follow(address, OTHER).await;
        assert_eq!(status, 200);
        drop(stream);
    };
    in_time("answers to other clients", others).await;
    assert!(open.iter().any(is_open), "the others were answered when the streams had ended");
    while let Some((_, stream)) = in_time("an answer to every stream", answers.next()).await {
        open.extend(stream);
    }
    assert!(open.len() <= ROOM / 4, "{} streams of one source are open", open.len());
    drop((answers, open));
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_has_at_most_four_followers() {
    let client = SignInTestClient::start_with_keys(accept_current_proofs).await;
    let address = client.daemon.addresses[Interface::SignIn];
    let sign_in = ForwardedSignIn::begin(&client, ATTACKER).await;
    let mut open = Vec::new();
    for _ in 0..4 {
        let (status, stream) = sign_in.follow(address, ATTACKER).await;
        assert_eq!(status, 200);
        open.extend(stream);
    }
    assert_eq!(sign_in.follow(address, OTHER).await.0, 429);
    let progress = client.http.get(client.daemon.sign_in(&format!("{}/progress", sign_in.path)));
    let progress = client.send(progress.bearer_auth(&sign_in.secret)).await;
    progress.expect_error(429, "rate_limit", "temporarily_unavailable");
    assert_eq!(progress.header(RETRY_AFTER), "5");
    drop(open.pop());
    let has_room = async || sign_in.follow(address, ATTACKER).await.0 == 200;
    until_true("room after the end of a stream", has_room).await;
    drop(open);
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_are_charged_as_sign_ins_are() {
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        behind_a_proxy(config);
        config.limits.sign_ins_per_source = limit(3);
    })
    .await;
    let address = client.daemon.addresses[Interface::SignIn];
    let sign_in = ForwardedSignIn::begin(&client, ATTACKER).await;
    for expected in [200, 200, 429] {
        assert_eq!(sign_in.follow(address, ATTACKER).await.0, expected);
    }
    assert_eq!(sign_in.follow(address, OTHER).await.0, 200);
    client.stop().await;
}

/// The proxy appends to `X-Forwarded-For` and passes `Forwarded` on as the client sent it.
#[tokio::test]
async fn a_header_that_the_proxy_does_not_write_changes_no_source() {
    let client = RegistryClient::start_with(|config| {
        behind_a_proxy(config);
        config.limits.per_source = limit(1);
    })
    .await;
    let submit = |number: usize, source: &str, forwarded: &str| {
        let request = client.http.post(client.daemon.gateway("/create-account")).json(&create(number));
        client.send(request.header("x-forwarded-for", source).header("forwarded", forwarded))
    };
    assert_eq!(submit(0, ATTACKER, "for=203.0.113.1").await.status, 200);
    assert_eq!(submit(1, ATTACKER, "for=203.0.113.2").await.status, 429);
    assert_eq!(submit(2, OTHER, "for=10.1.2.3").await.status, 200);
}

/// A customer of a provider has a /48 with 65,536 networks of the size /64.
#[tokio::test]
async fn the_networks_of_one_customer_are_limited_together() {
    let client = RegistryClient::start_with(|config| {
        behind_a_proxy(config);
        config.limits.per_source = limit(1);
    })
    .await;
    let submit = |number: usize, source: String| {
        let request = client.http.post(client.daemon.gateway("/create-account")).json(&create(number));
        client.send(request.header("x-forwarded-for", source))
    };
    let mut accepted = 0;
    for number in 0..40 {
        let answer = submit(number, format!("2001:db8:0:{number:02x}00::1")).await;
        assert!([200, 429].contains(&answer.status), "{answer:?}");
        accepted += usize::from(answer.status == 200);
    }
    assert_eq!(accepted, 16, "a /48 may do as much as 16 sources");
    assert_eq!(submit(50, "2001:db8:1::1".to_owned()).await.status, 200);
}

#[tokio::test]
async fn idempotency_keys_of_different_clients_do_not_meet() {
    let client = RegistryClient::start_holding(100).await;
    let other =
        reqwest::Client::builder().no_proxy().local_address(IpAddr::from([127, 0, 0, 9])).build().expect("a client");
    let submit = |http: &reqwest::Client, number: usize| {
        let request = http.post(client.daemon.gateway("/create-account")).json(&create(number));
        client.send(request.header("Idempotency-Key", "1"))
    };
    let mine = submit(&client.http, 0).await;
    let others = submit(&other, 1).await;
    assert_eq!((mine.status, others.status), (200, 200), "{others:?}");
    assert_ne!(mine.request_id(), others.request_id());
    assert_eq!(submit(&client.http, 0).await.request_id(), mine.request_id());
    assert_eq!(submit(&other, 1).await.request_id(), others.request_id());
}

/// An account's authenticator may change networks between two attempts, so the key of a signed
/// request belongs to its signer.
#[tokio::test]
async fn the_idempotency_key_of_a_signed_request_is_known_from_another_address() {
    let client = RegistryClient::start().await;
    let [alice, bob] = ["alice", "bob"].map(key);
    let account = client.create(&[&alice], Address::ZERO).await;
    let update = |agent: Address| {
        account.update_recovery_agent(&client.domain(), &alice, agent).expect("a valid operation").operation
    };
    let first = client.submit_with_key(&update(bob.address()), "1").await;
    let other =
        reqwest::Client::builder().no_proxy().local_address(IpAddr::from([127, 0, 0, 9])).build().expect("a client");
    let request = other.post(client.daemon.gateway("/initiate-recovery-agent-update")).json(&update(bob.address()));
    let again = client.send(request.header("Idempotency-Key", "1")).await;
    assert_eq!((again.status, again.request_id()), (200, first.request_id()));
    let request = other.post(client.daemon.gateway("/initiate-recovery-agent-update")).json(&update(alice.address()));
    client.send(request.header("Idempotency-Key", "1")).await.expect_error(400, "bad_request");
}

/// A receipt of a block that is not in memory costs the hashes of the whole block.
#[tokio::test]
async fn receipts_that_are_computed_are_limited() {
    let client = RegistryClient::start_with(|config| config.limits.per_source = limit(3)).await;
    let mut requests = Vec::new();
    for number in 0..8 {
        let accepted = client.submit(&create(number)).await;
        client.final_state(accepted.request_id()).await;
        requests.push(accepted.request_id().to_owned());
        client.daemon.clock.advance(Duration::from_secs(60));
    }
    let receipt = |number: usize| client.get(client.daemon.gateway(&format!("/receipt/{}", requests[number])));
    for number in 0..3 {
        assert_eq!(receipt(number).await.status, 200);
    }
    let refused = receipt(3).await;
    let message = refused.expect_error(429, "rate_limit_exceeded");
    assert_eq!(message, "too many receipts of different blocks from this address; try again in 60 s");
    assert_eq!(refused.header("retry-after"), Some("60"));
    // Receipts of a block in memory cost little, and requests have a limit of their own.
    for _ in 0..5 {
        assert_eq!(receipt(2).await.status, 200);
    }
    assert_eq!(client.submit(&create(100)).await.status, 200);
    client.daemon.clock.advance(Duration::from_secs(60));
    assert_eq!(receipt(3).await.status, 200);
}

/// A request with this many proofs, none of which has a known root.
fn proofs(count: usize) -> Value {
    let item = json!({
        "identifier": "orb", "merkle_root": "0x1", "nullifier": "0x2",
        "proof": format!("0x{}", "0".repeat(512)), "signal_hash": format!("0x{}", "0".repeat(64)),
    });
    json!({
        "protocol_version": "3.0", "nonce": "n", "action": "vote", "environment": "staging",
        "responses": vec![item; count],
    })
}

#[tokio::test]
async fn the_limit_of_verifications_counts_proofs() {
    let client = RegistryClient::start_with(|config| {
        behind_a_proxy(config);
        config.limits.verifications_per_source = limit(20);
    })
    .await;
    let url = client.daemon.verify(&format!("/api/v4/verify/{APP}"));
    let verify = |source: &str, count: usize| {
        let request = client.http.post(&url).header("x-forwarded-for", source).json(&proofs(count)).send();
        async { request.await.expect("an answer").status().as_u16() }
    };
    assert_eq!(verify(ATTACKER, 16).await, 400);
    assert_eq!(verify(ATTACKER, 16).await, 429);
    assert_eq!(verify(OTHER, 20 - 16).await, 400);
    client.daemon.clock.advance(Duration::from_secs(60));
    assert_eq!(verify(ATTACKER, 16).await, 400);
}

/// The first proof of a request is counted before its body is read.
#[tokio::test]
async fn a_request_with_too_many_proofs_is_not_counted() {
    let client = RegistryClient::start_with(|config| {
        behind_a_proxy(config);
        config.limits.verifications_per_source = limit(16);
    })
    .await;
    let url = client.daemon.verify(&format!("/api/v4/verify/{APP}"));
    let verify = |count: usize| {
        let request = client.http.post(&url).header("x-forwarded-for", ATTACKER).json(&proofs(count)).send();
        async { request.await.expect("an answer") }
    };
    assert_eq!(verify(1).await.status(), 400);
    client.daemon.clock.advance(Duration::from_secs(10));
    let refused = verify(16).await;
    assert_eq!((refused.status().as_u16(), &refused.headers()[RETRY_AFTER]), (429, &"50".parse().expect("a value")));
    client.daemon.clock.advance(Duration::from_secs(50));
    assert_eq!(verify(16).await.status(), 400, "a client that waits as long as it was told is served");
}

/// The status and the message of an answer to `POST /create-account`.
async fn created(client: &RegistryClient, number: usize, headers: &[(&str, String)]) -> (u16, String) {
    let mut request = client.http.post(client.daemon.gateway("/create-account")).json(&create(number));
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let answer = client.send(request).await;
    (answer.status, answer.body["message"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn accounts_can_be_created_with_the_operators_token_only() {
    let client = RegistryClient::start_with(|config| {
        config.registry.create_account = CreateAccount::Token;
        config.registry.create_account_token_hash = Some(SecretHash::of([3; 16], "the token"));
    })
    .await;
    let bearer = |token: &str| [("authorization", format!("Bearer {token}"))];
    for headers in [&[][..], &bearer("another"), &[("authorization", "Basic the token".to_owned())]] {
        let (status, message) = created(&client, 0, headers).await;
        assert!(status == 401 && message.starts_with("CreationTokenRequired: "), "{status} {message}");
    }
    let refused = client.submit(&create(0)).await;
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    refused.expect_error(401, "bad_request");
    assert_eq!(created(&client, 0, &bearer("the token")).await.0, 200);
    let config = client.get(client.daemon.gateway("/config")).await;
    assert_eq!(config.body["create_account"], json!({"needs": "token"}));
    // The wallet sends the token that it was given.
    let mut wallet = client.daemon.client();
    assert_eq!(wallet.submit(&create(1), &[1; 32]).await.expect_err("no token").code(), Some("bad_request"));
    wallet.creation_token = Some("the token".to_owned());
    let accepted = wallet.submit(&create(1), &[1; 32]).await.expect("accepted");
    client.final_state(&accepted.request_id.to_string()).await;
    // Only new accounts need it.
    let owner = key("fair 1");
    let created = create_account(&[owner.authenticator()], Address::ZERO).after;
    let account = AccountState { leaf_index: client.leaf_index(owner.address()).await, ..created };
    client.carry_out(account.update_recovery_agent(&client.domain(), &owner, owner.address())).await;
}

#[tokio::test]
async fn a_creation_token_cannot_be_guessed_without_end() {
    let client = RegistryClient::start_with(|config| {
        config.registry.create_account = CreateAccount::Token;
        config.registry.create_account_token_hash = Some(SecretHash::of([3; 16], "the token"));
        config.limits.per_source = limit(3);
    })
    .await;
    let with = |value: &str| [("authorization", value.to_owned())];
    for guess in ["Bearer a", "Bearer b", "Basic the token"] {
        assert_eq!(created(&client, 0, &with(guess)).await.0, 401);
    }
    for guess in ["Bearer c", "Bearer the token"] {
        assert_eq!(created(&client, 0, &with(guess)).await.0, 429);
    }
    client.daemon.clock.advance(Duration::from_secs(60));
    assert_eq!(created(&client, 0, &with("Bearer the token")).await.0, 200);
}
