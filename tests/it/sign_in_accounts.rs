//! Accounts of sign-in: who is asked for what, and who then has which subject.

use std::collections::BTreeSet;

use reqwest::header::{ACCEPT, SET_COOKIE};
use selfsame_wallet::operator::Operator;
use selfsame_wallet::prove::{self, SimulatedParty};
use selfsame_wallet::sign_in::{AskedProof, Onward, Place, SignInSession};
use serde_json::{Value, json};

use crate::account_client::{
    Asks, Begun, Browser, ask_for_accounts, asks, location, return_session, start, start_behind_https,
};
use crate::certification::browser::posted_form;
use crate::harness::{DaemonProcess, folder, until};
use crate::sign_in_client::{
    APP, CALLBACK, CHALLENGE, Form, OTHER_APP, OTHER_APP_SECRET, SignInAnswer, SignInTestClient, VERIFIER,
    accept_current_proofs, browser, current_proof, fragment_or_query, parameters, random, unverified_claims,
    wait_for_signing_keys, wanted,
};
use crate::test_accounts::person_of;

#[tokio::test]
async fn a_person_has_one_account_in_every_browser() {
    let client = start().await;
    let (mut laptop, mut phone) = (Browser::default(), Browser::default());
    let begun = laptop.begin(&client, &[]).await;
    assert_eq!(asks(&begun).await, Asks::First, "the browser knows nobody");
    let alice = laptop.sign_in(&client, "alice", "yes").await;
    // The nullifier of the proof is not the subject: whoever gets it elsewhere does not learn that.
    let opened = begun.open().await;
    let proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &opened, "alice").await;
    assert_ne!(proof["responses"][0]["nullifier"], json!(alice));

    let again = laptop.begin(&client, &[]).await;
    let session = return_session(asks(&again).await);
    assert_eq!(laptop.sign_in(&client, "alice", "yes").await, alice);
    assert_eq!(return_session(asks(&laptop.begin(&client, &[]).await).await), session, "the session lasts");

    // A browser that knows nobody finds the account by the nullifier, and the account has the new
    // session from then on.
    assert_eq!(phone.sign_in(&client, "alice", "yes").await, alice);
    let replaced = return_session(asks(&laptop.begin(&client, &[]).await).await);
    assert_ne!(replaced, session);
    assert_eq!(laptop.sign_in(&client, "alice", "no").await, alice, "a browser that knows the account is not asked");

    let mut other = Browser::default();
    let bob = other.sign_in(&client, "bob", "yes").await;
    assert_ne!(bob, alice);
    client.stop().await;
}

#[tokio::test]
async fn the_subject_is_another_one_at_another_application() {
    let client = start_behind_https().await;
    let mut browser = Browser::default();
    let here = browser.sign_in(&client, "alice", "yes").await;
    // The pointer leads to the account of this application alone.
    let begun = browser.begin(&client, &[("client_id", OTHER_APP)]).await;
    assert_eq!(asks(&begun).await, Asks::First);
    begun.answer(&client, "alice").await;
    let answer = browser.get(&client, &format!("{}/complete?remember=yes", begun.base)).await;
    let code = fragment_or_query(location(&answer))["code"].clone();
    let form = [("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", CALLBACK)];
    let tokens = client.post_as(OTHER_APP, OTHER_APP_SECRET, "/token", &form).await;
    assert_ne!(unverified_claims(tokens.text("id_token"))["sub"], json!(here));
    for (application, is_known) in [(APP, true), (OTHER_APP, true)] {
        let asked = asks(&browser.begin(&client, &[("client_id", application)]).await).await;
        assert_eq!(matches!(asked, Asks::Return(_)), is_known, "{application}");
    }
    client.stop().await;
}

#[tokio::test]
async fn another_person_at_this_browser_is_asked_without_the_account() {
    let client = start().await;
    let mut browser = Browser::default();
    let alice = browser.sign_in(&client, "alice", "yes").await;
    let selected = browser.begin(&client, &[("prompt", "select_account")]).await;
    assert_eq!(asks(&selected).await, Asks::First);

    let begun = browser.begin(&client, &[]).await;
    let page = browser.get(&client, &begun.base).await.text().await.expect("text");
    assert!(page.contains("/another-person"), "the page offers it");
    let answer = browser.post(&client, &format!("{}/another-person", begun.base), &[]).await;
    let another = Begun::at(&client, &answer);
    assert_eq!(asks(&another).await, Asks::First);
    another.answer(&client, "bob").await;
    assert_ne!(browser.complete(&client, &another, "?remember=yes").await, alice);
    // One request of the application gets one answer.
    let late = client.get(&format!("{}/request", begun.base), "application/json").await;
    assert_eq!(late.status(), 404, "the sign-in that it replaces is over");
    // The browser asks for the account that was used last.
    let asked = return_session(asks(&browser.begin(&client, &[]).await).await);
    let bobs = browser.sign_in(&client, "bob", "no").await;
    assert_ne!(bobs, alice, "{asked}");
    client.stop().await;
}

/// Proofs of `person` for a sign-in, in each form.
pub struct Proofs<'a> {
    pub client: &'a SignInTestClient,
    pub person: &'a str,
}

impl Proofs<'_> {
    pub async fn party(&self, opened: &SignInSession) -> SimulatedParty {
        let operator = Operator::new(&self.client.daemon.operator("")).expect("an address");
        let root = self.client.daemon.client().root().await.expect("an answer").root;
        let simulation = operator.simulation().await.expect("an answer");
        SimulatedParty::of(simulation, &opened.request().app_id, root).expect("a known application")
    }

    pub async fn unbound(&self, opened: &SignInSession) -> Value {
        let wanted = prove::ProofParameters { action: "sign-in", ..wanted(opened) };
        prove::uniqueness(&person_of(self.person), &wanted, &self.party(opened).await, &mut random()).expect("a proof")
    }

    pub async fn bound(&self, opened: &SignInSession) -> Value {
        let wanted = prove::ProofParameters { action: "sign-in", ..wanted(opened) };
        let party = self.party(opened).await;
        prove::bound_uniqueness(&person_of(self.person), &wanted, &party, &mut random()).expect("a proof")
    }

    pub async fn session(&self, opened: &SignInSession, id: &str) -> Value {
        let party = self.party(opened).await;
        prove::session_of_id(&person_of(self.person), id, &wanted(opened), &party, &mut random()).expect("a proof")
    }
}

/// The id with another commitment.
fn with_commitment(id: &str, commitment: &str) -> String {
    format!("session_{commitment:0>64}{}", &id["session_".len() + 64..])
}

#[tokio::test]
async fn only_a_proof_in_the_session_of_the_account_returns_to_it() {
    let client = start().await;
    let (mut browser, mut elsewhere) = (Browser::default(), Browser::default());
    let alice = browser.sign_in(&client, "alice", "yes").await;
    let old = return_session(asks(&browser.begin(&client, &[]).await).await);
    elsewhere.sign_in(&client, "alice", "yes").await;
    let mut bobs = Browser::default();
    bobs.sign_in(&client, "bob", "yes").await;
    let bobs = return_session(asks(&bobs.begin(&client, &[]).await).await);

    let begun = browser.begin(&client, &[]).await;
    let opened = begun.open().await;
    let now = return_session(asks(&begun).await);
    assert_ne!(old, now);
    let (of_alice, of_bob) = (Proofs { client: &client, person: "alice" }, Proofs { client: &client, person: "bob" });
    let good = of_alice.session(&opened, &now).await;
    let with = |id: &str| {
        let mut proof = good.clone();
        proof["session_id"] = id.into();
        proof
    };
    let (mut unnamed, mut unbound) = (good.clone(), of_alice.unbound(&opened).await);
    unnamed.as_object_mut().expect("an object").remove("session_id");
    let table = [
        ("another person's session", of_bob.session(&opened, &bobs).await),
        ("another person's proof under this session", {
            let mut proof = of_bob.session(&opened, &bobs).await;
            proof["session_id"] = json!(now);
            proof
        }),
        ("a session that was replaced", of_alice.session(&opened, &old).await),
        ("no session", unnamed),
        ("the commitment 0", with(&with_commitment(&now, "0"))),
        ("another commitment", with(&with_commitment(&now, "1"))),
        ("uniqueness", unbound.clone()),
        ("uniqueness under this session", {
            unbound["session_id"] = json!(now);
            unbound
        }),
        ("uniqueness that is bound to a new session", of_alice.bound(&opened).await),
    ];
    for (what, proof) in table {
        let answer = begun.post(&client, &proof).await;
        assert_eq!(answer.status, 400, "{what}: {answer:?}");
    }
    // Digits in another case are the same number.
    begun.post(&client, &with(&format!("session_{}", now["session_".len()..].to_uppercase()))).await.expect_success();
    assert_eq!(browser.complete(&client, &begun, "?remember=yes").await, alice);
    assert_eq!(begun.post(&client, &good).await.status, 400, "the first answer counts");
    client.stop().await;
}

#[tokio::test]
async fn a_proof_of_uniqueness_makes_an_account_only_when_it_is_bound_to_a_session() {
    let client = start().await;
    let mut browser = Browser::default();
    let of_alice = Proofs { client: &client, person: "alice" };
    let begun = browser.begin(&client, &[]).await;
    let opened = begun.open().await;
    let bound = of_alice.bound(&opened).await;
    let id = bound["session_id"].as_str().expect("an id").to_owned();
    for commitment in ["0", "1"] {
        let mut proof = bound.clone();
        proof["session_id"] = with_commitment(&id, commitment).into();
        assert_eq!(begun.post(&client, &proof).await.status, 400, "the commitment {commitment}");
    }
    let junk = json!({"protocol_version": "4.0", "responses": [{}]});
    assert_eq!(begun.post(&client, &junk).await.status, 400);
    // A proof that holds and is bound to nothing has spent the person's nullifier: the person is
    // told, and the application does not hear that the person refused.
    let answer = begun.post(&client, &of_alice.unbound(&opened).await).await;
    assert_eq!((answer.status, &answer.body["attribute"]), (400, &json!("session_id")), "{answer:?}");
    let page = browser.get(&client, &format!("{}/complete", begun.base)).await;
    assert_eq!(page.status(), 200);
    let page = page.text().await.expect("text");
    assert!(page.contains("no account can be made with") && page.contains("/new-code"), "{page}");
    // The same request goes on with a new code, and with the account that it makes.
    let answer = browser.post(&client, &format!("{}/new-code", begun.base), &[]).await;
    let again = Begun::at(&client, &answer);
    again.answer(&client, "alice").await;
    browser.complete(&client, &again, "?remember=no").await;
    let late = browser.get(&client, &format!("{}/complete?onward=1", begun.base)).await;
    assert_eq!(late.status(), 404, "the first one is over");
    client.stop().await;
}

#[tokio::test]
async fn a_browser_remembers_an_account_only_when_the_person_says_that_it_is_theirs() {
    let client = start().await;
    let mut browser = Browser::default();
    let begun = browser.begin(&client, &[]).await;
    begun.answer(&client, "alice").await;
    let complete = format!("{}/complete", begun.base);
    let page = browser.get(&client, &complete).await;
    assert_eq!((page.status().as_u16(), page.headers().get(SET_COOKIE)), (200, None), "the person is asked first");
    let page = page.text().await.expect("text");
    assert!(page.contains("remember=yes") && page.contains("remember=no"), "{page}");
    // A text that is no digits does not get into the links, nor does another answer count.
    for query in ["?digits=x%26remember=yes%23", "?remember=maybe"] {
        let page = browser.get(&client, &format!("{complete}{query}")).await.text().await.expect("text");
        assert!(page.contains("/complete?remember=no\"") && !page.contains("digits="), "{page}");
    }
    browser.complete(&client, &begun, "?remember=no").await;
    assert!(!browser.remembers());
    assert_eq!(asks(&browser.begin(&client, &[]).await).await, Asks::First);

    // A program and another browser are not asked, and keep nothing.
    let begun = browser.begin(&client, &[]).await;
    begun.answer(&client, "alice").await;
    assert_eq!(client.get_with(&format!("{}/complete?remember=yes", begun.base), "").await.status(), 404);

    // An authenticator on the browser's own device shows whose it is.
    let mut phone = Browser::default();
    let begun = phone.begin(&client, &[]).await;
    let opened = begun.open().await;
    let proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &opened, "bob").await;
    let onward = opened.answer_from(opened.request(), &proof, Place::Here).await.expect("accepted");
    let Onward::Open(return_url) = onward else { panic!("{onward:?}") };
    let query = return_url.split_once('?').expect("a query").1.to_owned();
    phone.complete(&client, &begun, &format!("?{query}")).await;
    assert!(phone.remembers());

    // The page with the digits asks too, after they were right.
    let mut laptop = Browser::default();
    let begun = laptop.begin(&client, &[]).await;
    let opened = begun.open().await;
    let proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &opened, "alice").await;
    let onward = opened.answer_from(opened.request(), &proof, Place::There).await.expect("accepted");
    let Onward::Type(digits) = onward else { panic!("{onward:?}") };
    let page = laptop.get(&client, &format!("{}/complete?digits=x", begun.base)).await;
    assert_eq!(page.status(), 400);
    let page = laptop.get(&client, &format!("{}/complete?digits={digits}", begun.base)).await;
    assert_eq!(page.status(), 200);
    let page = page.text().await.expect("text");
    assert!(page.contains(&format!("digits={digits}&amp;remember=yes")), "{page}");
    laptop.complete(&client, &begun, &format!("?digits={digits}&remember=yes")).await;
    assert!(laptop.remembers());
    client.stop().await;
}

#[tokio::test]
async fn a_browser_forgets_its_accounts_on_the_page_of_its_session() {
    let client = start_behind_https().await;
    let mut browser = Browser::default();
    browser.sign_in(&client, "alice", "yes").await;
    assert!(browser.cookies.contains_key("__Host-selfsame_accounts"), "{:?}", browser.cookies.keys());
    let mut copy = browser.clone();
    let url = client.daemon.sign_in("/session");
    let page = browser.get(&client, &url).await.text().await.expect("text");
    let forms: Vec<_> = page.split("<form").skip(1).map(|form| posted_form(&format!("<form{form}")).1).collect();
    let forget = forms.iter().find_map(|form| form.get("forget")).expect("a button to forget").clone();
    let refused = browser.post(&client, &url, &[("forget", "another")]).await;
    assert_eq!((refused.status().as_u16(), refused.headers().get(SET_COOKIE)), (200, None));
    assert!(matches!(asks(&browser.begin(&client, &[]).await).await, Asks::Return(_)), "nothing was forgotten");
    browser.post(&client, &url, &[("forget", &forget)]).await;
    assert!(!browser.remembers());
    assert_eq!(asks(&copy.begin(&client, &[]).await).await, Asks::First, "a copy of the cookie is worth nothing");
    // The audit trail does not call it the end of a session.
    until("the event", async || {
        let metrics = client.get(&client.daemon.operator("/metrics"), "*/*").await.text().await.expect("text");
        let sample = "selfsame_audit_events_total{event=\"session_ended\",outcome=\"accounts_forgotten\"} 1";
        if metrics.contains(sample) { Ok(()) } else { Err(metrics) }
    })
    .await;
    client.stop().await;
}

/// Over plain HTTP another site can plant the cookie of its own browser.
#[tokio::test]
async fn a_planted_pointer_does_not_come_to_know_the_account() {
    let client = start().await;
    let (mut mallory, mut alice) = (Browser::default(), Browser::default());
    mallory.sign_in(&client, "mallory", "yes").await;
    let planted = mallory.cookies["selfsame_accounts"].clone();
    alice.cookies.insert("selfsame_accounts".to_owned(), planted.clone());
    let begun = alice.begin(&client, &[("prompt", "select_account")]).await;
    begun.answer(&client, "alice").await;
    let subject = alice.complete(&client, &begun, "?remember=yes").await;
    assert_ne!(alice.cookies["selfsame_accounts"], planted, "the browser has a secret of its own");
    assert_eq!(alice.sign_in(&client, "alice", "no").await, subject);
    let asked = return_session(asks(&mallory.begin(&client, &[]).await).await);
    let of_alice = return_session(asks(&alice.begin(&client, &[]).await).await);
    assert_ne!(asked, of_alice, "the planted one leads to the account of before alone");
    client.stop().await;
}

#[tokio::test]
async fn a_hint_of_the_application_leads_to_the_account_without_a_pointer() {
    let client = start().await;
    let mut browser = Browser::default();
    let begun = browser.begin(&client, &[]).await;
    begun.answer(&client, "alice").await;
    let answer = browser.get(&client, &format!("{}/complete?remember=no", begun.base)).await;
    let tokens = client.exchange(&fragment_or_query(location(&answer))["code"]).await;
    let hint = tokens.text("id_token");
    let mut other = Browser::default();
    let begun = other.begin(&client, &[("id_token_hint", hint)]).await;
    assert!(matches!(asks(&begun).await, Asks::Return(_)));
    let page = other.get(&client, &begun.base).await.text().await.expect("text");
    assert!(!page.contains("/another-person"), "the application expects nobody else");
    let answer = other.post(&client, &format!("{}/another-person", begun.base), &[]).await;
    assert_eq!(answer.status(), 400);
    let begun = other.begin(&client, &[("login_hint", unverified_claims(hint)["sub"].as_str().expect("text"))]).await;
    assert_eq!(asks(&begun).await, Asks::First, "a subject is no secret");
    client.stop().await;
}

/// An application with accounts, for a process.
pub const PROCESS: &str = r#"
[[apps]]
id = "app_staging_5e1f5a3e00000000000000000000000d"
public = true
proof = "account"
redirect_uris = ["http://localhost:3000/callback"]

[[relying_parties]]
app_id = "app_staging_5e1f5a3e00000000000000000000000d"
[relying_parties.oprf_public_key]
x = "5299619240641551281634865583518297030282874472190772894086521144482721001553"
y = "16950150798460657717958625567821834550301663161624707787222815936182638968203"
"#;
pub const PROCESS_APP: &str = "app_staging_5e1f5a3e00000000000000000000000d";

/// Begins a sign-in as a program, and answers it. Returns the path of its transaction and its
/// secret.
pub async fn answered_at(process: &DaemonProcess) -> (String, String) {
    wait_for_signing_keys(&process.sign_in).await;
    let changes = [("client_id", PROCESS_APP), ("code_challenge", CHALLENGE), ("code_challenge_method", "S256")];
    let url = reqwest::Url::parse_with_params(&format!("{}/authorize", process.sign_in), parameters(&changes));
    let begun = browser().get(url.expect("a URL")).header(ACCEPT, "application/json").send().await;
    let begun: Value = begun.expect("an answer").json().await.expect("JSON");
    let request_url = begun["request_url"].as_str().expect("a URL");
    let opened = SignInSession::open(request_url).await.expect("the sign-in is open");
    assert_eq!(AskedProof::of(opened.request()), Ok(AskedProof::BoundUniqueness));
    let proof = current_proof(&process.operator, &process.client(), &opened, "alice").await;
    opened.answer_from(opened.request(), &proof, Place::Unsaid).await.expect("accepted");
    let path = request_url.strip_prefix(&process.sign_in).and_then(|path| path.strip_suffix("/request"));
    (path.expect("an address of the daemon").to_owned(), begun["secret"].as_str().expect("a secret").to_owned())
}

/// Completes it, and returns the subject.
pub async fn subject_at(process: &DaemonProcess, (path, secret): (String, String)) -> String {
    let complete = browser().get(format!("{}{path}/complete", process.sign_in)).bearer_auth(secret).send().await;
    let code = fragment_or_query(location(&complete.expect("an answer")))["code"].clone();
    let form = [
        ("grant_type", "authorization_code"),
        ("client_id", PROCESS_APP),
        ("code", &*code),
        ("redirect_uri", CALLBACK),
        ("code_verifier", VERIFIER),
    ];
    let tokens = browser().post(format!("{}/token", process.sign_in)).form(&form).send().await.expect("an answer");
    let tokens = SignInAnswer::of(tokens).await;
    unverified_claims(tokens.text("id_token"))["sub"].as_str().expect("a subject").to_owned()
}

/// A genuine wallet does not give its proof again.
#[tokio::test]
async fn a_kill_after_an_accepted_proof_loses_no_account() {
    let folder = folder();
    let (config, data) = (folder.path().join("selfsame.toml"), folder.path().join("data"));
    std::fs::write(&config, PROCESS).expect("written");
    let arguments = ["--config", config.to_str().expect("text")];
    let process = DaemonProcess::start(&data, &arguments, &[]);
    let answered = answered_at(&process).await;
    process.kill();
    let process = DaemonProcess::start(&data, &arguments, &[]);
    let alice = subject_at(&process, answered).await;
    let again = answered_at(&process).await;
    assert_eq!(subject_at(&process, again).await, alice, "the account is found");
    process.kill();
}

/// The proof of another person would be spent for nothing.
#[tokio::test]
async fn a_hint_of_a_person_without_an_account_asks_for_no_proof() {
    let client = SignInTestClient::start_with_keys(accept_current_proofs).await;
    let tokens = client.exchange(&client.code("alice", &[]).await).await;
    let hint = tokens.text("id_token").to_owned();
    let SignInTestClient { daemon, folder, http } = client;
    drop(http);
    daemon.stop().await;
    // Also where an account gets the subject of the proof each time: she has none yet.
    let client = SignInTestClient::start_in(folder, |config| {
        ask_for_accounts(config);
        config.apps.iter_mut().for_each(|app| app.set_subject(selfsame::config::SubjectKind::Nullifier));
    })
    .await;
    let mut browser = Browser::default();
    let url = client.authorization_url(&[("id_token_hint", &hint), ("prompt", "login select_account")]);
    let answer = browser.get(&client, &url).await;
    let parameters = fragment_or_query(location(&answer));
    assert_eq!(parameters.get("error").map(String::as_str), Some("login_required"), "{parameters:?}");
    assert_eq!(asks(&browser.begin(&client, &[]).await).await, Asks::First);
    client.stop().await;
}

#[tokio::test]
async fn an_answer_that_comes_first_keeps_its_transaction() {
    let client = start().await;
    let mut browser = Browser::default();
    let alice = browser.sign_in(&client, "alice", "yes").await;
    let begun = browser.begin(&client, &[]).await;
    begun.answer(&client, "alice").await;
    for form in ["another-person", "new-code"] {
        let answer = browser.post(&client, &format!("{}/{form}", begun.base), &[]).await;
        assert_eq!(answer.status(), 400, "{form}");
    }
    assert_eq!(browser.complete(&client, &begun, "").await, alice);
    client.stop().await;
}

#[tokio::test]
async fn two_first_visits_at_the_same_time_make_one_account() {
    let client = start().await;
    let mut browsers = [(); 4].map(|()| Browser::default());
    let mut begun = Vec::new();
    for browser in &mut browsers {
        begun.push(browser.begin(&client, &[]).await);
    }
    let answers = begun.iter().map(|begun| begun.answer(&client, "alice"));
    futures_util::future::join_all(answers).await;
    let mut subjects = BTreeSet::new();
    for (browser, begun) in browsers.iter_mut().zip(&begun) {
        subjects.insert(browser.complete(&client, begun, "?remember=yes").await);
    }
    assert_eq!(subjects.len(), 1);
    // The last answer's session is the account's, at every browser.
    let mut sessions = BTreeSet::new();
    for browser in &mut browsers {
        sessions.insert(return_session(asks(&browser.begin(&client, &[]).await).await));
    }
    assert_eq!(sessions.len(), 1);
    client.stop().await;
}

/// A wallet has spent its nullifier when the proof is made: the account is there with the answer.
#[tokio::test]
async fn an_account_lasts_from_the_accepted_proof_on() {
    let client = start().await;
    let (mut browser, mut another) = (Browser::default(), Browser::default());
    let begun = browser.begin(&client, &[]).await;
    begun.answer(&client, "alice").await;
    let base = begun.base.strip_prefix(&client.daemon.sign_in("")).expect("the path").to_owned();
    let SignInTestClient { daemon, folder, http } = client;
    drop(http);
    daemon.stop().await;
    let client = SignInTestClient::start_in(folder, ask_for_accounts).await;
    let begun = Begun { base: client.daemon.sign_in(&base) };
    let alice = browser.complete(&client, &begun, "?remember=yes").await;
    assert_eq!(another.sign_in(&client, "alice", "no").await, alice);
    // A cancelled or failed completion keeps the account too.
    let begun = another.begin(&client, &[]).await;
    begun.answer(&client, "bob").await;
    let bob = another.sign_in(&client, "bob", "yes").await;
    assert_ne!(bob, alice);
    assert!(matches!(asks(&another.begin(&client, &[]).await).await, Asks::Return(_)));
    client.stop().await;
}
