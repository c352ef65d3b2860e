//! What a stranger who learned the id of a sign-in's request, and not its key, can do at the
//! bridge; and how a wallet that fetches the request again gets on.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use reqwest::{Method, StatusCode};
use selfsame::config::SignInProof;
use selfsame_interfaces::interface::Interface;
use selfsame_protocol::bridge::request::BridgeRequest;
use serde_json::{Value, json};

use super::{BridgedClient, BridgedPage, without_key};
use crate::harness::until;
use crate::sign_in_client::{SignInAnswer, random};

const OPENED: &str = r#"{"state":"waiting","opened":true}"#;

impl BridgedClient {
    /// Fetches the request as a stranger does, without a key.
    async fn fetch_sealed(&self, id: &str) -> Value {
        let url = format!("http://{}/request/{id}", self.client.daemon.addresses[super::Interface::Bridge]);
        let taken = self.client.http.get(url).send().await.expect("an answer");
        assert_eq!(taken.status(), StatusCode::OK);
        taken.json().await.expect("JSON")
    }

    /// Hands a message in as the answer, as soon as the request takes one.
    async fn hand_in(&self, id: &str, message: &Value) {
        until("the request to take an answer", async || {
            let handed = self.bridge(Method::PUT, &format!("/response/{id}"), Some(message.clone())).await;
            if handed == StatusCode::CREATED { Ok(()) } else { Err(handed) }
        })
        .await;
    }

    /// The person's wallet answers, and the sign-in completes.
    async fn finish(&self, page: &BridgedPage, text: &[u8]) {
        let wallet = self.wallet(page);
        let answer = self.prove(text, "alice").await;
        until("the answer to be taken", async || wallet.answer(&answer, &mut random()).await).await;
        let opened: Value = serde_json::from_str(OPENED).expect("JSON");
        assert_eq!(self.state_after(page, &opened).await, json!({"state": "answered"}));
        assert!(self.complete(page).await.contains_key("code"), "the person is signed in");
    }
}

/// One key serves for both directions, so the request decrypts as an answer does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_handed_back_as_its_answer_ends_no_sign_in() {
    for kind in [SignInProof::Current, SignInProof::Legacy, SignInProof::Account] {
        let client = BridgedClient::start(kind).await;
        let page = client.page().await;
        let wallet = client.wallet(&page);
        let id = wallet.connector().id.to_string();
        let sealed = client.fetch_sealed(&id).await;
        for _ in 0..6 {
            client.hand_in(&id, &sealed).await;
        }
        // Nor does a text that is encrypted with the key and no answer.
        for other in [json!({"responses": []}), json!([1]), json!({"verification_level": "orb"})] {
            let other = wallet.connector().key.seal(other.to_string().as_bytes(), [3; 12]).expect("sealed");
            for _ in 0..6 {
                client.hand_in(&id, &serde_json::to_value(&other).expect("JSON")).await;
            }
        }
        let text = client.fetch_when_there(&wallet).await;
        client.finish(&page, &text).await;
        client.client.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_who_fetches_the_request_does_not_keep_it_from_the_wallet() {
    for kind in [SignInProof::Current, SignInProof::Legacy, SignInProof::Account] {
        let client = BridgedClient::start(kind).await;
        let page = client.page().await;
        let wallet = client.wallet(&page);
        let id = wallet.connector().id.to_string();
        client.fetch_sealed(&id).await;
        assert_eq!(client.bridge(Method::HEAD, &format!("/request/{id}"), None).await, StatusCode::OK);
        let text = wallet.fetch().await.expect("a stranger's fetch does not take it");
        client.finish(&page, &text).await;
        client.client.stop().await;
    }
}

/// What differs from fetch to fetch of a request for a current proof.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fresh {
    nonce: String,
    signature: String,
    created_at: u64,
    id: String,
}

fn fresh(text: &[u8]) -> Fresh {
    BridgeRequest::read(text).expect("a request that wallets read");
    let request: Value = serde_json::from_slice(text).expect("JSON");
    let asked = &request["proof_request"];
    let text = |name: &str| asked[name].as_str().expect("text").to_owned();
    let created_at = asked["created_at"].as_u64().expect("a time");
    Fresh { nonce: text("nonce"), signature: text("signature"), created_at, id: text("id") }
}

/// The nodes behind genuine wallets take a nonce once, and no request that was signed long ago.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fetch_of_a_sign_ins_request_has_a_challenge_time_and_signature_of_its_own() {
    let client = BridgedClient::start(SignInProof::Current).await;
    let page = client.page().await;
    let wallet = client.wallet(&page);
    let id = wallet.connector().id.to_string();
    let (mut texts, mut seen, mut ivs) = (Vec::new(), Vec::new(), BTreeSet::new());
    for fetch in 0..10 {
        // A look takes no challenge.
        assert_eq!(client.bridge(Method::HEAD, &format!("/request/{id}"), None).await, StatusCode::OK);
        let sealed = client.fetch_sealed(&id).await;
        ivs.insert(sealed["iv"].as_str().expect("text").to_owned());
        let message = serde_json::from_value(sealed).expect("a message");
        let text = wallet.connector().key.open(&message).expect("sealed with the key of the code");
        seen.push(fresh(&text));
        texts.push(text);
        assert_eq!(seen[fetch].created_at, client.client.now());
        client.client.daemon.clock.advance(Duration::from_secs(1));
    }
    let distinct = |part: fn(&Fresh) -> &str| seen.iter().map(part).collect::<BTreeSet<_>>().len();
    assert_eq!((distinct(|fresh| &fresh.nonce), distinct(|fresh| &fresh.id), ivs.len()), (8, 8, 10));
    assert_eq!(distinct(|fresh| &fresh.signature), 10, "also when the nonce is that of the fetch before");
    assert!(seen[7..].iter().all(|fresh| fresh.nonce == seen[7].nonce), "after the eighth its nonce repeats");
    // An answer to any of them counts.
    client.finish(&page, &texts[2]).await;
    client.client.stop().await;
}

/// The same for wallets of the service's own kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fetch_of_a_proof_request_has_a_challenge_of_its_own() {
    let client = BridgedClient::start(SignInProof::Current).await;
    let page = client.page().await;
    let url = format!("{}/request", page.base);
    let mut asked = Vec::new();
    for _ in 0..9 {
        let look = client.client.http.head(&url).send().await.expect("an answer");
        assert_eq!(look.status(), StatusCode::OK);
        asked.push(SignInAnswer::of(client.client.get(&url, "application/json").await).await.body);
    }
    let nonces: BTreeSet<_> = asked.iter().map(|asked| asked["nonce"].as_str().expect("text")).collect();
    assert_eq!(nonces.len(), 8);
    assert_eq!(asked[8], asked[7], "after the eighth it repeats");
    let without_challenge = |asked: &Value| {
        let mut asked = asked.clone();
        asked.as_object_mut().expect("an object").retain(|name, _| !["nonce", "request"].contains(&name.as_str()));
        asked
    };
    assert!(asked.iter().all(|one| without_challenge(one) == without_challenge(&asked[0])));
    client.client.stop().await;
}

/// What the pages of sign-ins take, for a daemon that begins so many of them.
#[cfg(target_os = "linux")]
async fn memory_of_pages(variables: &[(&str, &str)]) -> (u64, u64) {
    const PAGES: u64 = 2000;
    let folder = crate::harness::folder();
    let process = crate::harness::DaemonProcess::start(&folder.path().join("data"), &[], variables);
    let http = crate::sign_in_client::browser();
    let parameters = [
        ("client_id", crate::sign_in_client::APP),
        ("redirect_uri", crate::sign_in_client::CALLBACK),
        ("response_type", "code"),
        ("scope", "openid"),
    ];
    let url = format!("{}/authorize", process.sign_in);
    let url = reqwest::Url::parse_with_params(&url, parameters).expect("a URL");
    let begin = async |count: u64| {
        let one = |_| async { drop(super::short_page(&http, &process.sign_in, url.clone()).await) };
        stream::iter(0..count).for_each_concurrent(8, one).await;
    };
    // The parts that every first page makes, and the allocator's own.
    begin(PAGES / 2).await;
    let before = resident(process.id());
    begin(PAGES).await;
    (resident(process.id()).saturating_sub(before), PAGES)
}

#[cfg(target_os = "linux")]
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

/// The room of the bridge bounds the memory of its sign-ins only when each counts as what it takes.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bridged_page_takes_no_more_memory_than_is_counted() {
    let (plain, _) = memory_of_pages(&[]).await;
    let (bridged, pages) = memory_of_pages(&[("SELFSAME_SIGN_IN__WALLET_LINK", "bridge")]).await;
    let each = bridged.saturating_sub(plain) / pages;
    assert!(
        each <= selfsame_protocol::bridge::entries::OWN_ENTRY as u64,
        "{each} bytes a page, of which 12 KiB are counted"
    );
}

/// What a stranger who has seen the code, with the id and the key, can do at the bridge.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_takes_no_answer_and_puts_no_other_request_behind_the_code() {
    let client = BridgedClient::start(SignInProof::Current).await;
    let page = client.page().await;
    let wallet = client.wallet(&page);
    let id = wallet.connector().id.clone();
    let response = format!("/response/{id}");
    let strangers_attempts = async || {
        for method in [reqwest::Method::GET, reqwest::Method::HEAD] {
            for path in [response.clone(), format!("{response}?wait=5")] {
                let taken = client.bridge(method.clone(), &path, None).await;
                assert_eq!(taken, StatusCode::NOT_FOUND, "{method} {path}");
            }
        }
        let mut forged = without_key();
        forged["request_id"] = id.as_str().into();
        assert_eq!(client.bridge(reqwest::Method::POST, "/request", Some(forged)).await, StatusCode::CONFLICT);
    };
    strangers_attempts().await;
    let first = wallet.fetch().await.expect("a request");
    strangers_attempts().await;
    // An answer that is too long for a sign-in takes no memory.
    let long = json!({"iv": "AAAAAAAAAAAAAAAA", "payload": "AAAA".repeat(30_000)});
    let refused = client.bridge(reqwest::Method::PUT, &response, Some(long)).await;
    assert_eq!(refused, StatusCode::PAYLOAD_TOO_LARGE);
    // At each moment of an answer that the service judges.
    for _ in 0..20 {
        client.bridge(reqwest::Method::PUT, &response, Some(without_key())).await;
        strangers_attempts().await;
    }
    client.fetch_when_there(&wallet).await;
    let answer = client.prove(&first, "alice").await;
    wallet.answer(&answer, &mut random()).await.expect("handed over");
    strangers_attempts().await;
    let opened = json!({"state": "waiting", "opened": true});
    assert_eq!(client.state_after(&page, &opened).await, json!({"state": "answered"}));
    let code = client.complete(&page).await["code"].clone();
    let alice = client.client.code("alice", &[]).await;
    assert_eq!(client.subject(&code).await, client.subject(&alice).await);
    strangers_attempts().await;
    client.client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_who_fill_the_bridge_stop_no_sign_in() {
    let client = BridgedClient::start_with(SignInProof::Current, |config| config.bridge.memory_mib = 32).await;
    let url = format!("http://{}/request", client.client.daemon.addresses[Interface::Bridge]);
    let large = json!({"iv": "AAAAAAAAAAAAAAAA", "payload": "AAAA".repeat(1 << 18)});
    let mut statuses = Vec::new();
    for source in [[127, 1, 0, 1], [127, 2, 0, 1], [127, 3, 0, 1], [127, 4, 0, 1], [127, 5, 0, 1]] {
        let stranger = reqwest::Client::builder().no_proxy().local_address(Some(source.into())).build();
        let stranger = stranger.expect("a client");
        while statuses.last() != Some(&StatusCode::SERVICE_UNAVAILABLE) {
            let answer = stranger.post(&url).json(&large).send().await.expect("an answer");
            statuses.push(answer.status());
            if answer.status() == StatusCode::TOO_MANY_REQUESTS {
                break;
            }
        }
    }
    assert_eq!(statuses.last(), Some(&StatusCode::SERVICE_UNAVAILABLE), "there is no room: {statuses:?}");
    let page = client.page().await;
    let wallet = client.wallet(&page);
    let answer = client.prove(&wallet.fetch().await.expect("a request"), "alice").await;
    wallet.answer(&answer, &mut random()).await.expect("handed over");
    let opened = json!({"state": "waiting", "opened": true});
    assert_eq!(client.state_after(&page, &opened).await, json!({"state": "answered"}));
    assert!(client.complete(&page).await.contains_key("code"));
    client.client.stop().await;
}
