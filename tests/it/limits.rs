//! What one client, or all together, may ask for: rates, queue, waiters, time, size; and how often one thing is done.

use std::net::IpAddr;
use std::time::Duration;

use alloy_primitives::{Address, U256};
use futures_util::future::join_all;
use reqwest::RequestBuilder;
use selfsame::config::RateLimit;
use selfsame::interface::Interface;
use selfsame_actors::AdmissionLimits;
use selfsame_protocol::ids::Nonce;
use selfsame_protocol::registry::Operation;
use selfsame_wallet::operations::create_account;
use serde_json::json;

use crate::calls::{Answer, Caller, Connection, hold};
use crate::people::key;

const MINUTE: Option<RateLimit> = Some(RateLimit { requests: 3, window: Duration::from_secs(60) });

/// Creates an account of its own for each number.
fn create(number: usize) -> Operation {
    create_account(&[key(&format!("number {number}")).authenticator()], Address::ZERO).operation
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Asserts that the rate limit answers, with the seconds to wait in header and message.
#[track_caller]
fn rate_limited(answer: &Answer, whom: &str, wait: u64) {
    let message = answer.refused(429, "rate_limit_exceeded");
    assert_eq!(message, format!("too many requests {whom}; try again in {wait} s"));
    assert_eq!(answer.header("retry-after"), Some(wait.to_string().as_str()));
}

#[tokio::test]
async fn requests_of_one_source() {
    let caller = Caller::start_with(|config| config.limits.per_source = MINUTE).await;
    let clock = &caller.daemon.clock;
    let mine = "from this address";
    // Bodies that are not understood cost nothing, and reading neither.
    for _ in 0..5 {
        caller.post(caller.daemon.gateway("/create-account"), "{}").await.refused(400, "bad_request");
        assert_eq!(caller.get(caller.daemon.gateway("/config")).await.status, 200);
    }
    assert_eq!(caller.submit(&create(0)).await.status, 200);
    clock.advance(seconds(20));
    // What a rule refuses counts.
    let nobody = create_account(&[], Address::ZERO).operation;
    caller.submit(&nobody).await.refused(400, "bad_request");
    assert_eq!(caller.submit(&create(1)).await.status, 200);
    for _ in 0..3 {
        // What the limit refuses does not, and the limit comes before the rules.
        rate_limited(&caller.submit(&create(2)).await, mine, 40);
        rate_limited(&caller.submit(&nobody).await, mine, 40);
    }
    caller.post(caller.daemon.gateway("/create-account"), "{}").await.refused(400, "bad_request");
    // Somebody else is somebody else.
    let other =
        reqwest::Client::builder().no_proxy().local_address(IpAddr::from([127, 0, 0, 9])).build().expect("a client");
    let request = other.post(caller.daemon.gateway("/create-account")).json(&create(3));
    assert_eq!(caller.send(request).await.status, 200);

    // The window slides: one place is free 60 s after the first, two more 60 s after the others.
    clock.advance(Duration::from_millis(39_001));
    rate_limited(&caller.submit(&create(2)).await, mine, 1);
    clock.advance(Duration::from_millis(999));
    assert_eq!(caller.submit(&create(2)).await.status, 200);
    rate_limited(&caller.submit(&create(4)).await, mine, 20);
    clock.advance(seconds(20));
    for number in [4, 5] {
        assert_eq!(caller.submit(&create(number)).await.status, 200);
    }
    rate_limited(&caller.submit(&create(6)).await, mine, 40);
}

#[tokio::test]
async fn sources_behind_a_proxy() {
    let caller = Caller::start_with(|config| {
        config.limits.per_source = Some(RateLimit { requests: 1, window: seconds(60) });
        config.limits.trusted_proxies = vec!["127.0.0.8".parse().expect("a network")];
    })
    .await;
    let proxy =
        reqwest::Client::builder().no_proxy().local_address(IpAddr::from([127, 0, 0, 8])).build().expect("a client");
    let url = || caller.daemon.gateway("/create-account");
    let forwarded = |number, source: &str| proxy.post(url()).json(&create(number)).header("Forwarded", source);
    let table = [
        ("for=192.0.2.1", 200),
        ("for=192.0.2.1", 429),
        ("for=192.0.2.2", 200),
        // Addresses of one /64 are one source.
        ("for=\"[2001:db8::1]\"", 200),
        ("for=\"[2001:db8::ffff:1]\"", 429),
        ("for=\"[2001:db8:0:1::1]\"", 200),
        ("for=\"[::ffff:192.0.2.2]\"", 429),
    ];
    for (number, (source, status)) in table.into_iter().enumerate() {
        assert_eq!(caller.send(forwarded(number, source)).await.status, status, "{source}");
    }
    // Whoever is no trusted proxy cannot choose a source.
    let own = |number, source: &str| caller.http.post(url()).json(&create(number)).header("Forwarded", source);
    assert_eq!(caller.send(own(10, "for=198.51.100.1")).await.status, 200);
    assert_eq!(caller.send(own(11, "for=198.51.100.2")).await.status, 429);
}

#[tokio::test]
async fn requests_for_one_account() {
    let caller = Caller::start_with(|config| config.limits.per_leaf_index = MINUTE).await;
    let (domain, clock) = (caller.domain(), &caller.daemon.clock);
    let [alice, bob, stranger] = ["alice", "bob", "stranger"].map(key);
    let mut alices = caller.create(&[&alice], Address::ZERO).await;
    let bobs = caller.create(&[&bob], Address::ZERO).await;
    // Strangers cannot use the account's limit up.
    for _ in 0..5 {
        let mut forged = alices.clone();
        forged.slots[0] = Some(stranger.authenticator());
        let step = forged.update_recovery_agent(&domain, &stranger, stranger.address()).expect("built");
        caller.submit(&step.operation).await.refused(400, "authenticator_does_not_exist");
    }
    for _ in 0..3 {
        alices = caller.carry_out(alices.update_recovery_agent(&domain, &alice, bob.address())).await;
        clock.advance(seconds(10));
    }
    let next = alices.update_recovery_agent(&domain, &alice, bob.address()).expect("built").operation;
    rate_limited(&caller.submit(&next).await, "for this account", 30);
    // The rules come before the limit.
    alices.nonce = Nonce(U256::ZERO);
    let old = alices.update_recovery_agent(&domain, &alice, bob.address()).expect("built").operation;
    caller.submit(&old).await.refused(400, "mismatched_signature_nonce");
    caller.carry_out(bobs.update_recovery_agent(&domain, &bob, alice.address())).await;
    clock.advance(seconds(30));
    assert_eq!(caller.submit(&next).await.status, 200);
}

#[tokio::test]
async fn a_full_queue() {
    let caller = Caller::start_with(|config| {
        hold(config, 100);
        config.limits.queue_length = 2;
    })
    .await;
    let first = caller.submit_with_key(&create(0), "first").await;
    assert_eq!((first.status, caller.submit(&create(1)).await.status), (200, 200));
    let answer = caller.submit(&create(2)).await;
    let message = "2 requests are waiting, the queue is full; try again";
    assert_eq!(answer.refused(503, "batcher_unavailable"), message);
    assert_eq!(answer.header("retry-after"), Some("1"));
    // Whoever has a place in it is told so again.
    let again = caller.submit_with_key(&create(0), "first").await;
    assert_eq!((again.status, again.request_id()), (200, first.request_id()));
    assert_eq!(caller.submit_with_key(&create(2), "second").await.refused(503, "batcher_unavailable"), message);
    // Reading goes on.
    assert_eq!(caller.standing().await["height"], 0);
    assert_eq!(caller.query("/inclusion-proof", json!({"leaf_index": "1"})).await.status, 404);
}

#[tokio::test]
async fn as_many_waiters_as_may_be() {
    let caller = Caller::start_with(|config| {
        hold(config, 2);
        config.limits.status_waiters = 1;
    })
    .await;
    let accepted = caller.submit(&create(0)).await;
    let status = |wait: &str| caller.daemon.gateway(&format!("/status/{}{wait}", accepted.request_id()));
    // Of two, one waits for its second, the other is sent away at once.
    let mut answers = join_all([caller.get(status("?wait=1")), caller.get(status("?wait=1"))]).await;
    answers.sort_by_key(|answer| answer.status);
    assert_eq!(answers[0].body["status"], json!({"state": "queued"}), "{answers:?}");
    let message = "too many clients are waiting for final states; poll without ?wait, or try again";
    assert_eq!(answers[1].refused(503, "batcher_unavailable"), message);
    assert_eq!(answers[1].header("retry-after"), Some("1"));
    assert_eq!(caller.get(status("")).await.status, 200);
    // Whoever waited has made room.
    assert_eq!(caller.get(status("?wait=1")).await.status, 200);
}

#[tokio::test]
async fn a_body_that_never_ends() {
    let caller = Caller::start_with(|config| {
        hold(config, 2);
        config.limits.request_timeout = Duration::from_millis(200);
    })
    .await;
    let addresses = caller.daemon.addresses;
    for (address, path) in
        [(addresses[Interface::Gateway], "/create-account"), (addresses[Interface::Indexer], "/compat/inclusion-proof")]
    {
        let mut connection = Connection::open(address).await;
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: 99\r\n");
        connection.send(head + "\r\n{\"leaf_index\":").await;
        let answer = connection.answer().await;
        assert_eq!(answer.refused(504, "request_timeout"), "the request was not answered in time");
        assert_eq!(answer.header("connection"), Some("close"));
    }
    // Waiting for a final state is exempt.
    let accepted = caller.submit(&create(0)).await;
    let url = caller.daemon.gateway(&format!("/status/{}?wait=1", accepted.request_id()));
    assert_eq!(caller.get(url).await.body["status"], json!({"state": "queued"}));
}

#[tokio::test]
async fn waiting_for_a_final_state() {
    let caller = Caller::start_holding(2).await;
    let accepted = caller.submit(&create(0)).await;
    let request_id = accepted.request_id();
    let status = |query: &str| caller.daemon.gateway(&format!("/status/{request_id}{query}"));
    for query in ["", "?wait=0", "?wait=00", "?other=1", "?wait=1"] {
        let answer = caller.get(status(query)).await;
        assert_eq!(answer.body["status"], json!({"state": "queued"}), "{query}: {answer:?}");
    }
    for query in ["=61", "=-1", "=%2B1", "=1.5", "=", "", "=x", "=0x1", "=1s", "=%201", "=18446744073709551616"] {
        let answer = caller.get(status(&format!("?wait{query}"))).await;
        assert!(answer.refused(400, "bad_request").starts_with("wait: it "), "{query}: {answer:?}");
    }

    // Ten wait, then a second request closes the block.
    let waiting = join_all((0..10).map(|_| caller.get(status("?wait=60"))));
    let closing = async {
        while caller.daemon.registry.statistics().status_waiters < 10 {
            tokio::task::yield_now().await;
        }
        caller.submit(&create(1)).await
    };
    let (waited, _) = tokio::join!(waiting, closing);
    for answer in waited {
        assert_eq!(answer.body["status"]["state"], "finalized", "{answer:?}");
    }
    // A final state is there at once, by the id with its prefix or without.
    let bare = request_id.strip_prefix("gw_").expect("a prefix");
    for id in [request_id, bare] {
        let answer = caller.get(caller.daemon.gateway(&format!("/status/{id}?wait=60"))).await;
        assert_eq!((answer.request_id(), &answer.body["kind"]), (request_id, &json!("create_account")));
        assert_eq!(answer.body["status"]["state"], "finalized");
    }
    assert_eq!(caller.get(caller.daemon.gateway(&format!("/receipt/{bare}"))).await.status, 200);
    // It takes nobody's place among those who wait, and needs none.
    caller.daemon.registry.set_limits(AdmissionLimits { status_waiters: 0, ..AdmissionLimits::default() });
    assert_eq!(caller.get(status("?wait=60")).await.status, 200);
    let held = caller.submit(&create(2)).await;
    let waiting = caller.get(caller.daemon.gateway(&format!("/status/{}?wait=60", held.request_id()))).await;
    waiting.refused(503, "batcher_unavailable");
}

#[tokio::test]
async fn idempotency_keys() {
    let caller = Caller::start_holding(2).await;
    let first = caller.submit_with_key(&create(0), "the key").await;
    assert_eq!(first.body["status"], json!({"state": "queued"}), "{first:?}");
    let again = caller.submit_with_key(&create(0), "the key").await;
    assert_eq!((again.status, &again.body), (200, &first.body));
    // What counts is what the body says.
    let spaced = serde_json::to_string_pretty(&create(0)).expect("JSON");
    let url = || caller.daemon.gateway("/create-account");
    let request = caller.http.post(url()).header("content-type", "application/json").body(spaced);
    let again = caller.send(request.header("Idempotency-Key", "the key")).await;
    assert_eq!(again.body, first.body);

    let reused = "the Idempotency-Key was used with another body; use a new key for a new request";
    assert_eq!(caller.submit_with_key(&create(1), "the key").await.refused(400, "bad_request"), reused);
    let answer = caller.submit_with_key(&create(0), "another key").await;
    answer.refused(400, "duplicate_request_in_flight");
    // A refused request leaves no trace: its key is still free. This one fills the block.
    let second = caller.submit_with_key(&create(1), "another key").await;
    assert_eq!(second.status, 200, "{second:?}");

    // Later the state is the current one.
    let finalized = caller.final_state(first.request_id()).await;
    caller.daemon.clock.advance(seconds(24 * 3600 - 1));
    let again = caller.submit_with_key(&create(0), "the key").await;
    assert_eq!((again.request_id(), &again.body["status"]), (first.request_id(), &finalized));
    caller.submit_with_key(&create(2), "the key").await.refused(400, "bad_request");
    // After 24 hours the key is free, and the request is judged anew.
    caller.daemon.clock.advance(seconds(1));
    caller.submit_with_key(&create(0), "the key").await.refused(400, "authenticator_already_exists");
    let new = caller.submit_with_key(&create(2), "the key").await;
    assert_eq!(new.body["status"], json!({"state": "queued"}), "{new:?}");
    assert_ne!(new.request_id(), first.request_id());
}

#[tokio::test]
async fn malformed_idempotency_keys() {
    let caller = Caller::start_holding(100).await;
    let longest = "k".repeat(128);
    let too_long = "k".repeat(129);
    assert_eq!(caller.submit_with_key(&create(0), &longest).await.status, 200);
    let post = || caller.http.post(caller.daemon.gateway("/create-account")).json(&create(1));
    let name = "Idempotency-Key";
    let table: [(RequestBuilder, &str); 4] = [
        (post().header(name, too_long), "Idempotency-Key: it has 129 characters, it must have 1 to 128"),
        (post().header(name, ""), "Idempotency-Key: it has 0 characters, it must have 1 to 128"),
        (post().header(name, "a").header(name, "a"), "the header idempotency-key is given more than once"),
        (post().header(name, "é".as_bytes()), "the header idempotency-key is not ASCII text"),
    ];
    for (request, message) in table {
        assert_eq!(caller.send(request).await.refused(400, "bad_request"), message);
    }
    assert_eq!(caller.send(post()).await.status, 200);
}

#[tokio::test]
async fn query_parameters_given_twice() {
    let caller = Caller::start().await;
    let id = "gw_0189b2f4-6c0e-4c62-9d0a-0242ac120002";
    for (path, name) in
        [("/is-valid-root?root=1&root=2".to_owned(), "root"), (format!("/status/{id}?wait=1&wait=1"), "wait")]
    {
        let answer = caller.get(caller.daemon.gateway(&path)).await;
        let message = format!("the query parameter {name} is given more than once");
        assert_eq!(answer.refused(400, "bad_request"), message);
    }
}

#[tokio::test]
async fn equal_requests_at_once_become_one() {
    let caller = Caller::start_holding(100).await;
    let operation = create(0);
    let answers = join_all((0..20).map(|_| caller.submit_with_key(&operation, "one key"))).await;
    for answer in &answers {
        assert_eq!((answer.status, &answer.body), (200, &answers[0].body), "{answer:?}");
    }
    // Without a key all but one are duplicates, and are told of which request.
    let operation = create(1);
    let answers = join_all((0..20).map(|_| caller.submit(&operation))).await;
    let (accepted, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!((accepted.len(), refused.len()), (1, 19));
    for answer in refused {
        let message = answer.refused(400, "duplicate_request_in_flight");
        assert!(message.contains(accepted[0].request_id()), "{answer:?}");
    }
    assert_eq!(caller.daemon.registry.statistics().open_requests, 2);
}
