//! The limits of one client and of all clients together: rates, queue, waiters, time, size. Also
//! idempotency keys.

use std::net::IpAddr;
use std::time::Duration;

use alloy_primitives::{Address, U256};
use futures_util::future::join_all;
use reqwest::RequestBuilder;
use selfsame::config::{RateLimit, TimeSpan};
use selfsame_actors::AdmissionLimits;
use selfsame_interfaces::http::ForwardedHeader;
use selfsame_interfaces::interface::Interface;
use selfsame_protocol::ids::Nonce;
use selfsame_protocol::registry::Operation;
use selfsame_wallet::operations::create_account;
use serde_json::json;

use crate::harness::until_true;
use crate::registry_client::{RawHttpConnection, RegistryAnswer, RegistryClient, hold};
use crate::test_accounts::key;

const MINUTE: Option<RateLimit> = Some(RateLimit { requests: 3, window: TimeSpan::from_secs(60) });

/// Creates a different account for each number.
fn create(number: usize) -> Operation {
    create_account(&[key(&format!("number {number}")).authenticator()], Address::ZERO).operation
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Asserts a refusal of the rate limit, with the seconds to wait in header and message.
#[track_caller]
fn assert_rate_limited(answer: &RegistryAnswer, whom: &str, wait: u64) {
    let message = answer.expect_error(429, "rate_limit_exceeded");
    assert_eq!(message, format!("too many requests {whom}; try again in {wait} s"));
    assert_eq!(answer.header("retry-after"), Some(wait.to_string().as_str()));
}

#[tokio::test]
async fn requests_of_one_source_are_limited() {
    let client = RegistryClient::start_with(|config| config.limits.per_source = MINUTE).await;
    let clock = &client.daemon.clock;
    let mine = "from this address";
    // Malformed bodies do not count, and neither do reads.
    for _ in 0..5 {
        client.post(client.daemon.gateway("/create-account"), "{}").await.expect_error(400, "bad_request");
        assert_eq!(client.get(client.daemon.gateway("/config")).await.status, 200);
    }
    assert_eq!(client.submit(&create(0)).await.status, 200);
    clock.advance(seconds(20));
    // A request that a rule refuses counts.
    let no_keys = create_account(&[], Address::ZERO).operation;
    client.submit(&no_keys).await.expect_error(400, "bad_request");
    assert_eq!(client.submit(&create(1)).await.status, 200);
    for _ in 0..3 {
        // A request that the limit refuses does not count. The limit is checked before the rules.
        assert_rate_limited(&client.submit(&create(2)).await, mine, 40);
        assert_rate_limited(&client.submit(&no_keys).await, mine, 40);
    }
    client.post(client.daemon.gateway("/create-account"), "{}").await.expect_error(400, "bad_request");
    // Another source has a limit of its own.
    let other =
        reqwest::Client::builder().no_proxy().local_address(IpAddr::from([127, 0, 0, 9])).build().expect("a client");
    let request = other.post(client.daemon.gateway("/create-account")).json(&create(3));
    assert_eq!(client.send(request).await.status, 200);

    // The window slides: one request is free 60 s after the first, two more 60 s after the others.
    clock.advance(Duration::from_millis(39_001));
    assert_rate_limited(&client.submit(&create(2)).await, mine, 1);
    clock.advance(Duration::from_millis(999));
    assert_eq!(client.submit(&create(2)).await.status, 200);
    assert_rate_limited(&client.submit(&create(4)).await, mine, 20);
    clock.advance(seconds(20));
    for number in [4, 5] {
        assert_eq!(client.submit(&create(number)).await.status, 200);
    }
    assert_rate_limited(&client.submit(&create(6)).await, mine, 40);
}

#[tokio::test]
async fn trusted_proxies_name_the_source() {
    let client = RegistryClient::start_with(|config| {
        config.limits.per_source = Some(RateLimit { requests: 1, window: TimeSpan::from_secs(60) });
        config.limits.trusted_proxies = vec!["127.0.0.8".parse().expect("a network")];
        config.limits.forwarded_header = ForwardedHeader::Forwarded;
    })
    .await;
    let proxy =
        reqwest::Client::builder().no_proxy().local_address(IpAddr::from([127, 0, 0, 8])).build().expect("a client");
    let url = || client.daemon.gateway("/create-account");
    let forwarded = |number, source: &str| proxy.post(url()).json(&create(number)).header("Forwarded", source);
    let table = [
        ("for=192.0.2.1", 200),
        ("for=192.0.2.1", 429),
        ("for=192.0.2.2", 200),
        // Addresses of one /64 network are one source.
        ("for=\"[2001:db8::1]\"", 200),
        ("for=\"[2001:db8::ffff:1]\"", 429),
        ("for=\"[2001:db8:0:1::1]\"", 200),
        ("for=\"[::ffff:192.0.2.2]\"", 429),
    ];
    for (number, (source, status)) in table.into_iter().enumerate() {
        assert_eq!(client.send(forwarded(number, source)).await.status, status, "{source}");
    }
    // A client that is not a trusted proxy cannot choose its source.
    let own = |number, source: &str| client.http.post(url()).json(&create(number)).header("Forwarded", source);
    assert_eq!(client.send(own(10, "for=198.51.100.1")).await.status, 200);
    assert_eq!(client.send(own(11, "for=198.51.100.2")).await.status, 429);
}

#[tokio::test]
async fn requests_for_one_account_are_limited() {
    let client = RegistryClient::start_with(|config| config.limits.per_leaf_index = MINUTE).await;
    let (domain, clock) = (client.domain(), &client.daemon.clock);
    let [alice, bob, stranger] = ["alice", "bob", "stranger"].map(key);
    let mut alices = client.create(&[&alice], Address::ZERO).await;
    let bobs = client.create(&[&bob], Address::ZERO).await;
    // Requests without a valid signature do not count for the account.
    for _ in 0..5 {
        let mut forged = alices.clone();
        forged.slots[0] = Some(stranger.authenticator());
        let step = forged.update_recovery_agent(&domain, &stranger, stranger.address()).expect("a valid operation");
        client.submit(&step.operation).await.expect_error(400, "authenticator_does_not_exist");
    }
    for _ in 0..3 {
        alices = client.carry_out(alices.update_recovery_agent(&domain, &alice, bob.address())).await;
        clock.advance(seconds(10));
    }
    let next = alices.update_recovery_agent(&domain, &alice, bob.address()).expect("a valid operation").operation;
    assert_rate_limited(&client.submit(&next).await, "for this account", 30);
    // The rules are checked before the limit.
    alices.nonce = Nonce(U256::ZERO);
    let old = alices.update_recovery_agent(&domain, &alice, bob.address()).expect("a valid operation").operation;
    client.submit(&old).await.expect_error(400, "mismatched_signature_nonce");
    client.carry_out(bobs.update_recovery_agent(&domain, &bob, alice.address())).await;
    clock.advance(seconds(30));
    assert_eq!(client.submit(&next).await.status, 200);
}

#[tokio::test]
async fn a_full_queue_refuses_new_requests() {
    let client = RegistryClient::start_with(|config| {
        hold(config, 100);
        config.limits.queue_length = 2;
    })
    .await;
    let first = client.submit_with_key(&create(0), "first").await;
    assert_eq!((first.status, client.submit(&create(1)).await.status), (200, 200));
    let answer = client.submit(&create(2)).await;
    let message = "2 requests are waiting, the queue is full; try again";
    assert_eq!(answer.expect_error(503, "batcher_unavailable"), message);
    assert_eq!(answer.header("retry-after"), Some("1"));
    // A client whose request is in the queue gets the same answer again.
    let again = client.submit_with_key(&create(0), "first").await;
    assert_eq!((again.status, again.request_id()), (200, first.request_id()));
    assert_eq!(client.submit_with_key(&create(2), "second").await.expect_error(503, "batcher_unavailable"), message);
    // Reads still work.
    assert_eq!(client.standing().await["height"], 0);
    assert_eq!(client.query("/inclusion-proof", json!({"leaf_index": "1"})).await.status, 404);
}

#[tokio::test]
async fn waiters_over_the_limit_are_refused() {
    let client = RegistryClient::start_with(|config| {
        hold(config, 2);
        config.limits.status_waiters = 1;
    })
    .await;
    let accepted = client.submit(&create(0)).await;
    let status = |wait: &str| client.daemon.gateway(&format!("/status/{}{wait}", accepted.request_id()));
    // One waits until a second request fills the block, the other is refused at once.
    let others = async {
        until_true("a waiter", async || client.daemon.registry.statistics().status_waiters == 1).await;
        let refused = client.get(status("?wait=60")).await;
        let message = "too many clients are waiting for final states; poll without ?wait, or try again";
        assert_eq!(refused.expect_error(503, "batcher_unavailable"), message);
        assert_eq!(refused.header("retry-after"), Some("1"));
        assert_eq!(client.get(status("")).await.status, 200);
        client.submit(&create(1)).await
    };
    let (waited, _) = tokio::join!(client.get(status("?wait=60")), others);
    assert_eq!(waited.body["status"]["state"], "finalized", "{waited:?}");
    // A finished wait frees its permit.
    let held = client.submit(&create(2)).await;
    let waiting = client.daemon.gateway(&format!("/status/{}?wait=1", held.request_id()));
    assert_eq!(client.get(waiting).await.status, 200);
}

#[tokio::test]
async fn a_body_that_never_ends_times_out() {
    let client = RegistryClient::start_with(|config| {
        hold(config, 2);
        config.limits.request_timeout = Duration::from_secs(5).into();
    })
    .await;
    let addresses = client.daemon.addresses;
    for (address, path) in
        [(addresses[Interface::Gateway], "/create-account"), (addresses[Interface::Indexer], "/compat/inclusion-proof")]
    {
        let mut connection = RawHttpConnection::open(address).await;
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: 99\r\n");
        connection.send(head + "\r\n{\"leaf_index\":").await;
        let answer = connection.answer().await;
        assert_eq!(answer.expect_error(504, "request_timeout"), "the request was not answered in time");
        assert_eq!(answer.header("connection"), Some("close"));
    }
    // Waiting for a final state is exempt from the timeout.
    let accepted = client.submit(&create(0)).await;
    let url = client.daemon.gateway(&format!("/status/{}?wait=1", accepted.request_id()));
    assert_eq!(client.get(url).await.body["status"], json!({"state": "queued"}));
}

#[tokio::test]
async fn status_waits_for_a_final_state() {
    let client = RegistryClient::start_holding(2).await;
    let accepted = client.submit(&create(0)).await;
    let request_id = accepted.request_id();
    let status = |query: &str| client.daemon.gateway(&format!("/status/{request_id}{query}"));
    for query in ["", "?wait=0", "?wait=00", "?other=1", "?wait=1"] {
        let answer = client.get(status(query)).await;
        assert_eq!(answer.body["status"], json!({"state": "queued"}), "{query}: {answer:?}");
    }
    for query in ["=61", "=-1", "=%2B1", "=1.5", "=", "", "=x", "=0x1", "=1s", "=%201", "=18446744073709551616"] {
        let answer = client.get(status(&format!("?wait{query}"))).await;
        assert!(answer.expect_error(400, "bad_request").starts_with("wait: it "), "{query}: {answer:?}");
    }

    // Ten clients wait, then a second request fills the block.
    let waiting = join_all((0..10).map(|_| client.get(status("?wait=60"))));
    let closing = async {
        until_true("ten waiters", async || client.daemon.registry.statistics().status_waiters == 10).await;
        client.submit(&create(1)).await
    };
    let (waited, _) = tokio::join!(waiting, closing);
    for answer in waited {
        assert_eq!(answer.body["status"]["state"], "finalized", "{answer:?}");
    }
    // A final state is answered at once, for the id with its prefix and without.
    let bare = request_id.strip_prefix("gw_").expect("a prefix");
    for id in [request_id, bare] {
        let answer = client.get(client.daemon.gateway(&format!("/status/{id}?wait=60"))).await;
        assert_eq!((answer.request_id(), &answer.body["kind"]), (request_id, &json!("create_account")));
        assert_eq!(answer.body["status"]["state"], "finalized");
    }
    assert_eq!(client.get(client.daemon.gateway(&format!("/receipt/{bare}"))).await.status, 200);
    // An answer with a final state takes no waiter's permit.
    client.daemon.registry.set_limits(AdmissionLimits { status_waiters: 0, ..AdmissionLimits::default() });
    assert_eq!(client.get(status("?wait=60")).await.status, 200);
    let held = client.submit(&create(2)).await;
    let waiting = client.get(client.daemon.gateway(&format!("/status/{}?wait=60", held.request_id()))).await;
    waiting.expect_error(503, "batcher_unavailable");
}

#[tokio::test]
async fn a_repeated_idempotency_key_returns_the_same_request() {
    let client = RegistryClient::start_holding(2).await;
    let first = client.submit_with_key(&create(0), "the key").await;
    assert_eq!(first.body["status"], json!({"state": "queued"}), "{first:?}");
    let again = client.submit_with_key(&create(0), "the key").await;
    assert_eq!((again.status, &again.body), (200, &first.body));
    // Requests are compared by the content of the body, not by its bytes.
    let spaced = serde_json::to_string_pretty(&create(0)).expect("JSON");
    let url = || client.daemon.gateway("/create-account");
    let request = client.http.post(url()).header("content-type", "application/json").body(spaced);
    let again = client.send(request.header("Idempotency-Key", "the key")).await;
    assert_eq!(again.body, first.body);

    let reused = "the Idempotency-Key was used with another body; use a new key for a new request";
    assert_eq!(client.submit_with_key(&create(1), "the key").await.expect_error(400, "bad_request"), reused);
    let answer = client.submit_with_key(&create(0), "another key").await;
    answer.expect_error(400, "duplicate_request_in_flight");
    // A refused request is not recorded, so its key is still free. This request fills the block.
    let second = client.submit_with_key(&create(1), "another key").await;
    assert_eq!(second.status, 200, "{second:?}");

    // A later answer has the current state.
    let finalized = client.final_state(first.request_id()).await;
    client.daemon.clock.advance(seconds(24 * 3600 - 1));
    let again = client.submit_with_key(&create(0), "the key").await;
    assert_eq!((again.request_id(), &again.body["status"]), (first.request_id(), &finalized));
    client.submit_with_key(&create(2), "the key").await.expect_error(400, "bad_request");
    // After 24 hours the key is free, and the request is checked again.
    client.daemon.clock.advance(seconds(1));
    client.submit_with_key(&create(0), "the key").await.expect_error(400, "authenticator_already_exists");
    let new = client.submit_with_key(&create(2), "the key").await;
    assert_eq!(new.body["status"], json!({"state": "queued"}), "{new:?}");
    assert_ne!(new.request_id(), first.request_id());
}

#[tokio::test]
async fn malformed_idempotency_keys_are_refused() {
    let client = RegistryClient::start_holding(100).await;
    let longest = "k".repeat(128);
    let too_long = "k".repeat(129);
    assert_eq!(client.submit_with_key(&create(0), &longest).await.status, 200);
    let post = || client.http.post(client.daemon.gateway("/create-account")).json(&create(1));
    let name = "Idempotency-Key";
    let table: [(RequestBuilder, &str); 4] = [
        (post().header(name, too_long), "Idempotency-Key: it has 129 characters, it must have 1 to 128"),
        (post().header(name, ""), "Idempotency-Key: it has 0 characters, it must have 1 to 128"),
        (post().header(name, "a").header(name, "a"), "the header idempotency-key occurs more than once; send it once"),
        (post().header(name, "é".as_bytes()), "the header idempotency-key is not ASCII text"),
    ];
    for (request, message) in table {
        assert_eq!(client.send(request).await.expect_error(400, "bad_request"), message);
    }
    assert_eq!(client.send(post()).await.status, 200);
}

#[tokio::test]
async fn repeated_query_parameters_are_refused() {
    let client = RegistryClient::start().await;
    let id = "gw_0189b2f4-6c0e-4c62-9d0a-0242ac120002";
    for (path, name) in
        [("/is-valid-root?root=1&root=2".to_owned(), "root"), (format!("/status/{id}?wait=1&wait=1"), "wait")]
    {
        let answer = client.get(client.daemon.gateway(&path)).await;
        let message = format!("the query parameter {name} occurs more than once; send it once");
        assert_eq!(answer.expect_error(400, "bad_request"), message);
    }
}

#[tokio::test]
async fn equal_concurrent_requests_become_one() {
    let client = RegistryClient::start_holding(100).await;
    let operation = create(0);
    let answers = join_all((0..20).map(|_| client.submit_with_key(&operation, "one key"))).await;
    for answer in &answers {
        assert_eq!((answer.status, &answer.body), (200, &answers[0].body), "{answer:?}");
    }
    // Without a key all but one are duplicates, and the answer names the open request.
    let operation = create(1);
    let answers = join_all((0..20).map(|_| client.submit(&operation))).await;
    let (accepted, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!((accepted.len(), refused.len()), (1, 19));
    for answer in refused {
        let message = answer.expect_error(400, "duplicate_request_in_flight");
        assert!(message.contains(accepted[0].request_id()), "{answer:?}");
    }
    assert_eq!(client.daemon.registry.statistics().open_requests, 2);
}
