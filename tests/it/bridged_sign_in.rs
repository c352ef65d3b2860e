//! Sign-in with an authenticator that knows only the message bridge: the page shows a connector
//! URI, and the answer that comes back over the bridge is judged as any other.

mod connector_page;
mod failures;
mod strangers;

use std::path::Path;

use alloy_primitives::{Address, hex};
use reqwest::header::{ACCEPT, LOCATION};
use reqwest::{Response, StatusCode};
use selfsame::config::{Config, CrossDevice, History, SignInProof};
use selfsame_interfaces::interface::Interface;
use selfsame_protocol::bridge::request::BridgeRequest;
use selfsame_protocol::signature::SecretKey;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::Environment;
use selfsame_wallet::bridge::answer::{Choice, Chooser, Credentials, current_answer, legacy_answer};
use selfsame_wallet::bridge::{self, BridgeClient};
use selfsame_wallet::operator::Operator;
use selfsame_wallet::sign_in::SignInSession;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::account_client::{Browser, location};
use crate::harness::{DaemonProcess, Folder, TestDaemon, folder, run, until, until_true, write_secret};
use crate::sign_in_client::{APP, SignInTestClient, accept_current_proofs, fragment_or_query, random};

/// The secret key of the relying party.
const RP_KEY: [u8; 32] = [0x42; 32];

fn rp_address() -> Address {
    SecretKey::from_bytes(&Zeroizing::new(RP_KEY)).expect("a key").address()
}

/// A daemon whose first application signs people in over the bridge.
struct BridgedClient {
    client: SignInTestClient,
    _keys: Folder,
}

impl BridgedClient {
    async fn start(proof: SignInProof) -> Self {
        Self::start_with(proof, |_| {}).await
    }

    async fn start_with(proof: SignInProof, change: impl FnOnce(&mut Config)) -> Self {
        let keys = folder();
        let path = keys.path().join("rp.key");
        write_secret(&path, hex::encode(RP_KEY));
        let client = SignInTestClient::start_with_keys(|config| {
            accept_current_proofs(config);
            config.sign_in.wallet_link = Some("bridge".parse().expect("a link"));
            config.apps[0].proof = proof;
            // Without a key of its own it keeps the link of the service out.
            config.apps[1].wallet_link = Some("wallet:{request}".parse().expect("a link"));
            config.relying_parties[0].signing_key_file = Some(path);
            config.relying_parties[0].signing_key = Some(rp_address().into());
            change(config);
        })
        .await;
        Self { client, _keys: keys }
    }

    /// Opens the page of a sign-in.
    async fn page(&self) -> BridgedPage {
        self.page_of(&[]).await
    }

    /// The same of an authorization request with these changes.
    async fn page_of(&self, changes: &[(&str, &str)]) -> BridgedPage {
        self.page_at(self.client.browse(changes, "").await).await
    }

    /// The same of a sign-in whose page was opened.
    async fn page_at(&self, page: Response) -> BridgedPage {
        let (cookie, base) = self.client.transaction_of_page(&page);
        let short = short_link(&page.text().await.expect("text"));
        let request = self.client.http.get(&short).header(ACCEPT, "text/html").header("Cookie", &cookie);
        let text = request.send().await.expect("an answer").text().await.expect("text");
        let link = text.split("href=\"").find_map(|rest| rest.split_once("/connect?").map(|_| rest)).expect("a link");
        let link = link.split('"').next().expect("the end of the link").replace("&amp;", "&");
        BridgedPage { cookie, base, link }
    }

    fn wallet(&self, page: &BridgedPage) -> BridgeClient {
        BridgeClient::new(bridge::parse(&page.link).expect("a connector URI")).expect("a client")
    }

    /// The answer of `person`'s wallet to a request.
    async fn prove(&self, text: &[u8], person: &str) -> Value {
        let request = BridgeRequest::read(text).expect("a request that wallets read");
        let daemon = &self.client.daemon;
        let operator = Operator::new(&daemon.operator("")).expect("an address");
        let simulation = operator.simulation().await.expect("the simulation");
        let now = UnixSeconds(self.client.now());
        let (person, credentials) = (crate::test_accounts::person_of(person), Credentials::default());
        let chooser = Chooser {
            person: &person,
            credentials: &credentials,
            simulation: Some(&simulation),
            now,
            attests_facts: false,
        };
        match chooser.choose(&request, &mut random()).expect("a proof can be made") {
            Choice::Current(choice) => {
                let signer = choice.asked.signed().signer(&choice.asked.signature);
                assert_eq!(signer, Ok(rp_address()), "the relying party has signed the request");
                choice.asked.check_time(now).expect("it can be answered now");
                let root = daemon.client().root().await.expect("an answer").root;
                current_answer(&person, &request, &choice, &simulation, root, &mut random()).expect("a proof")
            }
            Choice::Legacy { level, signal_hash } => {
                let (root, answer) = legacy_answer(&person, &request, level, signal_hash).expect("a proof");
                let folder: &Path = self.client.folder.path();
                let trusted = operator.trust_simulated_root(root, Environment::Staging, level.credential(), folder);
                trusted.await.expect("trusted");
                answer
            }
        }
    }

    /// The state of a page's sign-in, when it is another one than `seen`.
    async fn state_after(&self, page: &BridgedPage, seen: &Value) -> Value {
        until("another state of the sign-in", async || {
            let answer = self.send(page, "/progress?wait=0").await;
            let mut state: Value = answer.json().await.expect("JSON");
            // When it ends is another matter.
            for name in ["expires_at", "extensions_left"] {
                state.as_object_mut().expect("an object").remove(name);
            }
            if state == *seen { Err(state) } else { Ok(state) }
        })
        .await
    }

    /// Waits until the sign-in of a page is answered, also after answers that are refused.
    async fn await_end(&self, page: &BridgedPage) {
        until("the end of the sign-in", async || {
            let state = self.state_after(page, &Value::Null).await;
            if state == json!({"state": "answered"}) { Ok(()) } else { Err(state) }
        })
        .await;
    }

    async fn send(&self, page: &BridgedPage, path: &str) -> Response {
        let request = self.client.http.get(format!("{}{path}", page.base)).header("Cookie", &page.cookie);
        request.send().await.expect("an answer")
    }

    /// The parameters with which the browser goes back to the application.
    async fn complete(&self, page: &BridgedPage) -> std::collections::BTreeMap<String, String> {
        let done = self.send(page, "/complete").await;
        assert_eq!(done.status(), StatusCode::SEE_OTHER, "the sign-in is answered");
        fragment_or_query(done.headers()[LOCATION].to_str().expect("text"))
    }

    /// Hands an answer over, as soon as the request takes one.
    async fn hand_over(&self, wallet: &BridgeClient, answer: &Value) {
        until("the request to take an answer", async || wallet.answer(answer, &mut random()).await).await;
    }

    /// Fetches the request, as soon as the bridge has it.
    async fn fetch_when_there(&self, wallet: &BridgeClient) -> Vec<u8> {
        until("a request on the bridge", async || wallet.fetch().await).await
    }

    async fn subject(&self, code: &str) -> String {
        let tokens = self.client.exchange(code).await;
        let claims = self.client.claims(tokens.text("id_token")).await;
        claims["sub"].as_str().expect("a subject").to_owned()
    }

    /// Waits until the audit trail counts as many answers with the outcomes of a refusal: of
    /// persons, and of wallets.
    async fn await_refusals(&self, expected: (usize, usize)) {
        let url = self.client.daemon.operator("/metrics");
        await_refusals(&self.client.http, &url, expected).await;
    }

    /// What the bridge has, without its messages.
    async fn bridge(&self, method: reqwest::Method, path: &str, body: Option<Value>) -> StatusCode {
        let url = format!("http://{}{path}", self.client.daemon.addresses[Interface::Bridge]);
        let request = self.client.http.request(method, url);
        let request = match &body {
            Some(body) => request.json(body),
            None => request,
        };
        request.send().await.expect("an answer").status()
    }
}

/// Waits until the audit trail of a daemon counts as many refusals: of persons, and of wallets. An
/// event is noted a moment after the browser sees it.
async fn await_refusals(http: &reqwest::Client, metrics: &str, expected: (usize, usize)) {
    until(format!("{expected:?} refusals"), async || {
        let text = http.get(metrics).send().await.expect("an answer").text().await.expect("text");
        let count = |outcome: &str| -> usize {
            let labels = format!("{{event=\"sign_in_answered\",outcome=\"{outcome}\"}} ");
            let sample = format!("selfsame_audit_events_total{labels}");
            text.lines().find_map(|line| line.strip_prefix(&sample)?.parse().ok()).unwrap_or_default()
        };
        let counted = (count("refused_by_person"), count("refused_by_wallet"));
        if counted == expected { Ok(()) } else { Err(counted) }
    })
    .await;
}

/// Begins a sign-in in a browser at `issuer`, up to the short page. Returns the transaction's
/// cookie, the path of its page, and the text of the short page.
async fn short_page(http: &reqwest::Client, issuer: &str, url: reqwest::Url) -> (String, String, String) {
    let begun = http.get(url).header(ACCEPT, "text/html").send().await.expect("an answer");
    let cookie = begun.headers().get("set-cookie").map(|cookie| cookie.to_str().expect("text").to_owned());
    let cookie = crate::sign_in_client::pair(cookie);
    let show = async |url: &str| {
        let request = http.get(url).header(ACCEPT, "text/html").header("Cookie", &cookie);
        request.send().await.expect("an answer").text().await.expect("text")
    };
    let base = begun.headers()[LOCATION].to_str().expect("text").to_owned();
    let text = show(&short_link(&show(&format!("{issuer}{base}")).await)).await;
    (cookie, base, text)
}

/// The same, with the connector URI that the short page offers in place of its text.
pub async fn offered(http: &reqwest::Client, issuer: &str, url: reqwest::Url) -> (String, String, String) {
    let (cookie, base, text) = short_page(http, issuer, url).await;
    let link = text.split("href=\"").find(|rest| rest.contains("/connect?t=wld")).expect("a link");
    let link = link.split('"').next().expect("an end").replace("&amp;", "&");
    (cookie, base, link)
}

/// The short address in the page of a sign-in.
fn short_link(page: &str) -> String {
    let link = page.split("href=\"").find(|rest| rest.split('"').next().is_some_and(|link| link.contains("/s/")));
    link.and_then(|rest| rest.split('"').next()).expect("a short address").to_owned()
}

/// A message that is made without the key of any sign-in.
fn without_key() -> Value {
    json!({"iv": "AAAAAAAAAAAAAAAA", "payload": "AAAAAAAAAAAAAAAAAAAAAA=="})
}

/// The page of a sign-in in a browser.
struct BridgedPage {
    cookie: String,
    base: String,
    link: String,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connector_uris_have_the_base_of_the_wallets_vendor() {
    let base = "https://wallet.example/verify";
    let client = BridgedClient::start_with(SignInProof::Legacy, |config| {
        config.sign_in.connector_base = Some(base.parse().expect("a base"));
    })
    .await;
    let short = short_link(&client.client.browse(&[], "").await.text().await.expect("text"));
    let page = client.client.get(&short, "text/html").await.text().await.expect("text");
    let link = page.split("href=\"").find(|rest| rest.starts_with(base)).expect("a link");
    let link = link.split('"').next().expect("the end of the link").replace("&amp;", "&");
    let wallet = BridgeClient::new(bridge::parse(&link).expect("a connector URI")).expect("a client");
    wallet.fetch().await.expect("the request of the sign-in");
    // A browser that opens the service's own page is offered the same.
    let own = link.replace(base, &format!("{}/connect", client.client.issuer()));
    let text = client.client.get(&own, "text/html").await.text().await.expect("text");
    assert!(text.contains(&link.replace('&', "&amp;")), "{text}");
    client.client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wallet_that_knows_only_the_bridge_signs_a_person_in() {
    for kind in [SignInProof::Current, SignInProof::Legacy, SignInProof::Account] {
        let client = BridgedClient::start(kind).await;
        let page = client.page().await;
        assert!(page.link.starts_with(&format!("{}/connect?t=wld&i=", client.client.issuer())), "{}", page.link);
        let wallet = client.wallet(&page);
        let text = wallet.fetch().await.expect("a request");
        let opened = client.state_after(&page, &json!({"state": "waiting"})).await;
        assert_eq!(opened, json!({"state": "waiting", "opened": true}));
        let asked: Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(asked["action_description"], "Sign in to Example application (localhost:3000)");
        let answer = client.prove(&text, "alice").await;
        wallet.answer(&answer, &mut random()).await.expect("handed over");
        assert_eq!(client.state_after(&page, &opened).await, json!({"state": "answered"}));
        let code = client.complete(&page).await["code"].clone();
        // The same person as by the service's own request.
        let other = client.client.code("alice", &[]).await;
        assert_eq!(client.subject(&code).await, client.subject(&other).await, "{kind:?}");
        client.client.stop().await;
    }
}

/// A person of an account is asked for a proof in its session, signed as one without an action.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wallet_that_knows_only_the_bridge_returns_to_its_account() {
    let client = BridgedClient::start(SignInProof::Account).await;
    let mut subjects = Vec::new();
    let mut hint: Option<String> = None;
    for _ in 0..3 {
        let page = client.page_of(&hint.iter().map(|hint| ("id_token_hint", &**hint)).collect::<Vec<_>>()).await;
        let wallet = client.wallet(&page);
        let text = wallet.fetch().await.expect("a request");
        let asked: Value = serde_json::from_slice(&text).expect("JSON");
        let (kind, session) = (&asked["proof_request"]["proof_type"], &asked["proof_request"]["session_id"]);
        match &hint {
            None => assert_eq!(
                (kind, session, &asked["action"]),
                (&json!("uniqueness"), &json!("create"), &json!("sign-in"))
            ),
            Some(_) => {
                assert_eq!((kind, &asked["action"]), (&json!("session"), &json!("")));
                assert_eq!(asked["proof_request"]["action"], Value::Null);
                // Another person has no proof of this session, and no other answer counts.
                let other = BridgeRequest::read(&text).expect("a request that wallets read");
                let operator = Operator::new(&client.client.daemon.operator("")).expect("an address");
                let simulation = operator.simulation().await.expect("the simulation");
                let (person, credentials) = (crate::test_accounts::person_of("bob"), Credentials::default());
                let now = UnixSeconds(client.client.now());
                let chooser = Chooser {
                    person: &person,
                    credentials: &credentials,
                    simulation: Some(&simulation),
                    now,
                    attests_facts: false,
                };
                assert!(chooser.choose(&other, &mut random()).is_err());
            }
        }
        let opened = client.state_after(&page, &json!({"state": "waiting"})).await;
        wallet.answer(&client.prove(&text, "alice").await, &mut random()).await.expect("handed over");
        assert_eq!(client.state_after(&page, &opened).await, json!({"state": "answered"}));
        let tokens = client.client.exchange(&client.complete(&page).await["code"]).await;
        let token = tokens.text("id_token").to_owned();
        subjects.push(client.client.claims(&token).await["sub"].clone());
        hint = Some(token);
    }
    assert!(subjects.iter().all(|subject| *subject == subjects[0]), "{subjects:?}");
    client.client.stop().await;
}

/// At an application with a legacy history a wallet without legacy proofs is asked for one of a
/// newer credential.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wallet_that_knows_only_the_bridge_shows_a_newer_credential() {
    let history = |config: &mut Config| config.apps[0].history = History::Legacy;
    let client = BridgedClient::start_with(SignInProof::Account, history).await;
    let page = client.page().await;
    let wallet = client.wallet(&page);
    let asked: Value = serde_json::from_slice(&wallet.fetch().await.expect("a request")).expect("JSON");
    assert_eq!((&asked["allow_legacy_proofs"], &asked["proof_request"]), (&json!(true), &Value::Null));
    wallet.answer(&json!({"error_code": "world_id_3_not_available"}), &mut random()).await.expect("handed over");
    client.state_after(&page, &json!({"state": "waiting", "opened": true})).await;
    // The browser goes on to the next page.
    let request = client.client.http.get(format!("{}/complete", page.base)).header(ACCEPT, "text/html");
    let next = client.client.show_page(request.header("Cookie", &page.cookie).send().await.expect("an answer")).await;
    let page = client.page_at(next).await;
    let wallet = client.wallet(&page);
    let text = wallet.fetch().await.expect("a request");
    let asked: Value = serde_json::from_slice(&text).expect("JSON");
    let item = |name: &str| asked["proof_request"]["proof_requests"][0][name].clone();
    assert_eq!(
        (item("identifier"), item("genesis_issued_at_min")),
        (json!("proof_of_human"), json!(1_780_272_000)),
        "{asked}"
    );
    wallet.answer(&client.prove(&text, "alice").await, &mut random()).await.expect("handed over");
    client.state_after(&page, &json!({"state": "waiting", "opened": true})).await;
    let code = client.complete(&page).await["code"].clone();
    assert_eq!(client.subject(&code).await.len(), 66);
    client.client.stop().await;
}

/// The short page in the browser of a phone: each opening has an entry of its own, which asks for
/// the account that this browser remembers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_phone_returns_over_the_bridge_to_the_account_that_it_remembers() {
    let client = BridgedClient::start(SignInProof::Account).await;
    let mut phone = Browser::default();
    let mut subjects = Vec::new();
    for asked_for in ["uniqueness", "session"] {
        let page = client.page().await;
        let request = client.client.get(&format!("{}/request", page.base), "text/html").await;
        let short = client.client.daemon.sign_in(location(&request));
        let text = phone.get(&client.client, &short).await.text().await.expect("text");
        let link = text.split("href=\"").find(|rest| rest.contains("/connect?")).expect("a link");
        let link = link.split('"').next().expect("an end").replace("&amp;", "&");
        assert_ne!(link, page.link);
        let wallet = BridgeClient::new(bridge::parse(&link).expect("a connector URI")).expect("a client");
        let text = wallet.fetch().await.expect("a request");
        let asked: Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(asked["proof_request"]["proof_type"], asked_for);
        let opened = client.state_after(&page, &json!({"state": "waiting"})).await;
        wallet.answer(&client.prove(&text, "alice").await, &mut random()).await.expect("handed over");
        assert_eq!(client.state_after(&page, &opened).await, json!({"state": "answered"}));
        phone.post(&client.client, &format!("{short}/remember"), &[]).await;
        assert!(phone.remembers());
        let tokens = client.client.exchange(&client.complete(&page).await["code"]).await;
        subjects.push(client.client.claims(tokens.text("id_token")).await["sub"].clone());
    }
    assert_eq!(subjects[0], subjects[1]);
    client.client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sign_in_that_was_answered_elsewhere_is_taken_from_the_bridge() {
    let client = BridgedClient::start(SignInProof::Current).await;
    let page = client.page().await;
    let wallet = client.wallet(&page);
    let path = format!("/request/{}", wallet.connector().id);
    assert_eq!(client.bridge(reqwest::Method::HEAD, &path, None).await, StatusCode::OK);
    let session = SignInSession::open(&format!("{}/request", page.base)).await.expect("the sign-in starts");
    client.client.answer(&session, "alice").await.expect("accepted");
    let is_taken = async || client.bridge(reqwest::Method::HEAD, &path, None).await != StatusCode::OK;
    until_true("the end of the request on the bridge", is_taken).await;
    assert!(client.complete(&page).await.contains_key("code"));
    client.client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_in_the_wallet_ends_the_sign_in() {
    let client = BridgedClient::start(SignInProof::Current).await;
    let page = client.page().await;
    let wallet = client.wallet(&page);
    wallet.fetch().await.expect("a request");
    wallet.answer(&json!({"error_code": "user_rejected"}), &mut random()).await.expect("handed over");
    let opened = json!({"state": "waiting", "opened": true});
    let mut state = client.state_after(&page, &json!({"state": "waiting"})).await;
    if state == opened {
        state = client.state_after(&page, &opened).await;
    }
    assert_eq!(state, json!({"state": "answered"}));
    assert_eq!(client.complete(&page).await["error"], "access_denied");
    client.await_refusals((1, 0)).await;

    // The person wants to, and the wallet cannot.
    let page = client.page().await;
    let wallet = client.wallet(&page);
    wallet.answer(&json!({"error_code": "credential_unavailable"}), &mut random()).await.expect("handed over");
    assert_eq!(client.state_after(&page, &json!({"state": "waiting"})).await, json!({"state": "answered"}));
    assert_eq!(client.complete(&page).await["error"], "interaction_required");
    client.await_refusals((1, 1)).await;
    client.client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_on_the_bridge_lives_as_long_as_its_sign_in() {
    let change = |config: &mut Config| config.bridge.lifetime = std::time::Duration::from_secs(1).into();
    let client = BridgedClient::start_with(SignInProof::Current, change).await;
    let page = client.page().await;
    let wallet = client.wallet(&page);
    let path = format!("/request/{}", wallet.connector().id);
    let lifetime = client.client.daemon.sign_in.transaction_lifetime();
    client.client.daemon.clock.advance(lifetime - std::time::Duration::from_secs(5));
    assert_eq!(client.bridge(reqwest::Method::HEAD, &path, None).await, StatusCode::OK);
    client.client.daemon.clock.advance(std::time::Duration::from_secs(5));
    assert_eq!(client.bridge(reqwest::Method::HEAD, &path, None).await, StatusCode::NOT_FOUND);
    client.client.stop().await;
}

/// The bridge removes a request at its time; the task puts it there again when the sign-in got
/// more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_stays_on_the_bridge_when_its_sign_in_gets_more_time() {
    let client = BridgedClient::start(SignInProof::Current).await;
    let page = client.page().await;
    let wallet = client.wallet(&page);
    let (clock, lifetime) = (&client.client.daemon.clock, client.client.daemon.sign_in.transaction_lifetime());
    clock.advance(lifetime - std::time::Duration::from_secs(5));
    let extend = client.client.http.post(format!("{}/more-time", page.base)).header("Cookie", &page.cookie);
    assert_eq!(extend.header(ACCEPT, "application/json").send().await.expect("an answer").status(), StatusCode::OK);
    clock.advance(std::time::Duration::from_secs(10));
    let text = client.fetch_when_there(&wallet).await;
    let answer = client.prove(&text, "alice").await;
    client.hand_over(&wallet, &answer).await;
    let opened = json!({"state": "waiting", "opened": true});
    assert_eq!(client.state_after(&page, &opened).await, json!({"state": "answered"}));
    assert!(client.complete(&page).await.contains_key("code"));
    client.client.stop().await;
}

/// The write of the refusal fails once; the sign-in ends all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_not_lost_when_the_store_fails() {
    let folder = folder();
    // The first write is that of the new sign-in.
    let variables =
        [("SELFSAME_SIGN_IN__WALLET_LINK", "bridge"), ("FAILPOINTS", "records.write=1*off->1*return(error)->off")];
    let process = DaemonProcess::start(&folder.path().join("data"), &[], &variables);
    let parameters = [
        ("client_id", APP),
        ("redirect_uri", "http://localhost:3000/callback"),
        ("response_type", "code"),
        ("scope", "openid"),
    ];
    let url = reqwest::Url::parse_with_params(&format!("{}/authorize", process.sign_in), parameters).expect("a URL");
    let http = crate::sign_in_client::browser();
    let (cookie, base, link) = offered(&http, &process.sign_in, url).await;
    let wallet = BridgeClient::new(bridge::parse(&link).expect("a connector URI")).expect("a client");
    wallet.answer(&json!({"error_code": "user_rejected"}), &mut random()).await.expect("handed over");
    let get = async |path: &str| {
        let request = http.get(format!("{}{path}", process.sign_in)).header("Cookie", &cookie);
        request.header("accept", "application/json").send().await.expect("an answer")
    };
    until("the refusal to be written again", async || {
        let progress = get(&format!("{base}/progress?wait=0")).await.text().await.expect("text");
        if progress.contains("waiting") { Err(progress) } else { Ok(()) }
    })
    .await;
    let done = get(&format!("{base}/complete")).await;
    let target = fragment_or_query(done.headers()[LOCATION].to_str().expect("text"));
    assert_eq!(target["error"], "access_denied");
    await_refusals(&http, &format!("{}/metrics", process.operator), (1, 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_others_and_wrong_proofs_do_not_end_a_sign_in() {
    let client = BridgedClient::start(SignInProof::Current).await;
    let page = client.page().await;
    let wallet = client.wallet(&page);
    let id = wallet.connector().id.clone();
    let first = wallet.fetch().await.expect("a request");

    // Without the key: the request is there again, however many there are.
    for _ in 0..20 {
        let handed = client.bridge(reqwest::Method::PUT, &format!("/response/{id}"), Some(without_key())).await;
        assert!([StatusCode::CREATED, StatusCode::CONFLICT].contains(&handed), "{handed}");
        client.fetch_when_there(&wallet).await;
    }

    // A proof for another sign-in, and an answer that is none.
    let other = client.page().await;
    let of_other = client.wallet(&other).fetch().await.expect("a request");
    for wrong in [client.prove(&of_other, "alice").await, json!({"responses": []})] {
        client.hand_over(&wallet, &wrong).await;
        client.fetch_when_there(&wallet).await;
    }
    let answer = client.prove(&first, "alice").await;
    client.hand_over(&wallet, &answer).await;
    client.await_end(&page).await;
    assert!(client.complete(&page).await.contains_key("code"));

    // The fifth one that is not accepted ends the other sign-in.
    let wallet = client.wallet(&other);
    for _ in 0..5 {
        client.hand_over(&wallet, &answer).await;
    }
    client.await_end(&other).await;
    assert_eq!(client.complete(&other).await["error"], "access_denied");
    client.client.stop().await;
}

/// A browser that fetches a page before anybody asks for it makes no sign-in and ends none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_ahead_makes_nothing() {
    let client = BridgedClient::start_with(SignInProof::Current, |config| config.limits.open_sign_ins = 4).await;
    for (name, value) in [("sec-purpose", "prefetch;prerender"), ("purpose", "prefetch"), ("x-moz", "prefetch")] {
        let url = client.client.authorization_url(&[]);
        let ahead = client.client.http.get(url).header("accept", "text/html").header(name, value);
        let refused = ahead.send().await.expect("an answer");
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "{name}");
        assert!(!refused.headers().contains_key("set-cookie"));
    }
    // The one that a source may begin here is not used up.
    let page = client.page().await;
    let opened = |header: &'static str| {
        let url = format!("{}/request", page.base);
        client.client.http.get(url).header("accept", "application/json").header(header, "prefetch")
    };
    let ahead = opened("sec-purpose").send().await.expect("an answer");
    assert_eq!(ahead.status(), StatusCode::SERVICE_UNAVAILABLE);
    let wallet = client.wallet(&page);
    let text = wallet.fetch().await.expect("a request");
    let answer = client.prove(&text, "alice").await;
    wallet.answer(&answer, &mut random()).await.expect("handed over");
    let opened = json!({"state": "waiting", "opened": true});
    assert_eq!(client.state_after(&page, &opened).await, json!({"state": "answered"}));
    let ahead = client.client.http.get(format!("{}/complete", page.base)).header("Cookie", &page.cookie);
    let ahead = ahead.header("sec-purpose", "prefetch").send().await.expect("an answer");
    assert_eq!(ahead.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(client.complete(&page).await.contains_key("code"));
    client.client.stop().await;
}

#[tokio::test]
async fn a_service_without_signing_key_or_across_devices_does_not_start() {
    fn bridged(config: &mut Config) {
        config.apps[0].wallet_link = Some("bridge".parse().expect("a link"));
    }
    fn unsigned(config: &mut Config) {
        accept_current_proofs(config);
        bridged(config);
    }
    fn same_device(config: &mut Config) {
        accept_current_proofs(config);
        bridged(config);
        config.apps[0].cross_device = CrossDevice::Deny;
    }
    let table =
        [(unsigned as fn(&mut Config), "apps[0].proof: \"current\""), (same_device, "apps[0].cross_device: \"deny\"")];
    for (change, expected) in table {
        let folder = folder();
        let error = TestDaemon::start_error(folder.path(), change).await;
        assert!(error.contains(expected), "{error}");
    }
}

/// Nothing there shows that an issuer asks, so any page could hand on another one's sign-in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wallet_signs_in_over_a_bridge_only_as_a_public_one() {
    let folder = folder();
    let data = folder.path().join("data");
    let process = DaemonProcess::start(&data, &[], &[("SELFSAME_SIGN_IN__WALLET_LINK", "bridge")]);
    let wallet = folder.path().join("wallet.json").display().to_string();
    let (gateway, indexer) = (process.gateway.clone(), process.indexer.clone());
    let (made, text) = run(&["wallet", "new", "--wallet", &wallet, "--gateway", &gateway, "--indexer", &indexer]);
    assert!(made, "{text}");
    let (made, text) = run(&["wallet", "create-account", "--wallet", &wallet]);
    assert!(made, "{text}");
    let parameters = [
        ("client_id", APP),
        ("redirect_uri", "http://localhost:3000/callback"),
        ("response_type", "code"),
        ("scope", "openid"),
    ];
    let url = reqwest::Url::parse_with_params(&format!("{}/authorize", process.sign_in), parameters).expect("a URL");
    let http = crate::sign_in_client::browser();
    let not_here = "the application was told: feature_unavailable\n";
    for (command, decision, expected) in [
        ("answer", &["--yes", "--as-public-wallet"][..], "answered with a legacy proof of device"),
        ("answer", &["--refuse"], "refused"),
        ("answer", &["--yes"], not_here),
        ("sign-in", &["--yes"], not_here),
    ] {
        let (cookie, base, link) = offered(&http, &process.sign_in, url.clone()).await;
        let path = &format!("{base}/complete");
        let operator = process.operator.clone();
        let data = data.display().to_string();
        let of_daemon = ["--wallet", &wallet, "--operator", &operator, "--data", &data];
        let (answered, text) = run(&[&["wallet", command, &link][..], decision, &of_daemon].concat());
        assert_eq!(answered, expected != not_here, "{text}");
        assert!(text.contains(expected), "{text}");
        assert_eq!(text.contains("selfsame wallet answer --as-public-wallet"), !answered, "{text}");
        // The daemon gets the answer from its own bridge a moment later.
        let get = async |path: &str| {
            let request = http.get(format!("{}{path}", process.sign_in)).header("Cookie", &cookie);
            request.header("accept", "application/json").send().await.expect("an answer")
        };
        let base = path.strip_suffix("/complete").expect("the path of a sign-in");
        until("the answer from the bridge", async || {
            let progress = get(&format!("{base}/progress?wait=0")).await.text().await.expect("text");
            if progress.contains("waiting") { Err(progress) } else { Ok(()) }
        })
        .await;
        let done = get(path).await;
        let target = fragment_or_query(done.headers()[LOCATION].to_str().expect("text"));
        assert_eq!(target.contains_key("code"), text.contains("answered with"), "{target:?}");
    }
    let (taken, text) =
        run(&["wallet", "sign-in", "https://x.example/?t=wld", "--yes", "--same-device", "--wallet", &wallet]);
    assert!(!taken && text.contains("--same-device does not belong to a connector URI"), "{text}");
}
