//! Accounts of an application whose people have had legacy proofs: the same subject, current proofs
//! that are attached to it, what a thief can do, and the time after the end of legacy proofs.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::ACCEPT;
use selfsame::config::{Config, History, Link, OldCredentials, SignInProof, SubjectKind};
use selfsame_wallet::sign_in::AskedProof;
use serde_json::{Value, json};

use crate::account_client::{Begun, Browser, ask_for_accounts, location};
use crate::harness::{folder, run};
use crate::sign_in_client::{APP, Form, SignInTestClient, current_proof, fragment_or_query, unverified_claims};
use crate::sign_in_openings::{ShortPage, remember};
use crate::webhook_receiver::WebhookReceiver;

pub const DAY: u64 = 24 * 3600;

/// 2026-06-01T00:00:00Z.
const CURRENT_ALONE_SINCE: u64 = 1_780_272_000;

/// The time from the start of a test's clock to 2027-04-02.
pub const AFTER_THE_END: u64 = 275 * DAY;

/// People had subjects of legacy proofs before.
pub fn with_history(config: &mut Config) {
    ask_for_accounts(config);
    for app in &mut config.apps {
        app.history = History::Legacy;
        app.set_subject(SubjectKind::Nullifier);
    }
}

pub async fn start() -> SignInTestClient {
    SignInTestClient::start_with_keys(with_history).await
}

/// The same, where proofs of older credentials make accounts after the end of legacy proofs, or
/// make none.
pub async fn start_with_older_credentials(allows: bool) -> SignInTestClient {
    SignInTestClient::start_with_keys(|config| {
        with_history(config);
        let allow = if allows { OldCredentials::Allow } else { OldCredentials::Refuse };
        config.apps.iter_mut().for_each(|app| app.old_credentials = allow);
    })
    .await
}

pub fn wait(client: &SignInTestClient, seconds: u64) {
    client.daemon.clock.advance(Duration::from_secs(seconds));
}

/// What a sign-in asks a wallet for.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    Legacy,
    /// A first proof, with the bound of the credential's first issue, and the only credential.
    First(Option<u64>, Option<String>),
    Return,
}

pub async fn asked(begun: &Begun) -> Asked {
    let opened = begun.open().await;
    let request = opened.request();
    match AskedProof::of(request).expect("a known proof") {
        AskedProof::Legacy => Asked::Legacy,
        AskedProof::BoundUniqueness => {
            Asked::First(request.genesis_issued_at_min.map(|time| time.0), request.identifier.clone())
        }
        AskedProof::Session(_) => Asked::Return,
        AskedProof::Uniqueness => panic!("unbound"),
    }
}

fn newer() -> Asked {
    Asked::First(Some(CURRENT_ALONE_SINCE), Some("proof_of_human".to_owned()))
}

pub const ANY: Asked = Asked::First(None, None);

impl Begun {
    /// Lets `person` answer what is asked for, a legacy proof too, from another device.
    pub async fn prove(&self, client: &SignInTestClient, person: &str) {
        let proof = client.proof(&self.open().await, person).await;
        self.post(client, &proof).await.expect_success();
    }

    /// The session that a proof is asked for in.
    async fn session(&self) -> Option<String> {
        self.open().await.request().session_id.clone()
    }

    pub async fn give_up(&self, client: &SignInTestClient, code: &str) {
        self.post(client, &json!({"error_code": code})).await.expect_success();
    }

    /// The status and the reason of the answer to `person`'s current proof.
    pub async fn refused(&self, client: &SignInTestClient, person: &str) -> String {
        let opened = self.open().await;
        let proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &opened, person).await;
        let answer = self.post(client, &proof).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        answer.body["detail"].as_str().or(answer.body["error_description"].as_str()).expect("a text").to_owned()
    }
}

/// Completes a sign-in whose page leads on with `query`. Returns the subject, or the error.
pub async fn completed(client: &SignInTestClient, browser: &mut Browser, begun: &Begun, query: &str) -> String {
    let answer = browser.get(client, &format!("{}/complete{query}", begun.base)).await;
    let parameters = fragment_or_query(location(&answer));
    let Some(code) = parameters.get("code") else { return parameters["error"].clone() };
    let tokens = client.exchange(code).await;
    unverified_claims(tokens.text("id_token"))["sub"].as_str().expect("a subject").to_owned()
}

pub const YES: &str = "?attached=seen&remember=yes";
pub const NO: &str = "?attached=seen&remember=no";

/// Signs `person` in with a legacy proof.
pub async fn sign_in(client: &SignInTestClient, browser: &mut Browser, person: &str, query: &str) -> String {
    let begun = browser.begin(client, &[]).await;
    assert_eq!(asked(&begun).await, Asked::Legacy);
    begun.prove(client, person).await;
    completed(client, browser, &begun, query).await
}

/// The page that the completion shows.
pub async fn page(client: &SignInTestClient, browser: &mut Browser, begun: &Begun) -> String {
    let answer = browser.get(client, &format!("{}/complete", begun.base)).await;
    assert_eq!(answer.status(), 200);
    answer.text().await.expect("text")
}

/// Goes on with another proof.
pub async fn go_on(client: &SignInTestClient, browser: &mut Browser, begun: &Begun, next: &str) -> Begun {
    let answer = browser.post(client, &format!("{}/go-on", begun.base), &[("next", next)]).await;
    Begun::at(client, &answer)
}

/// Signs `person` in with a legacy proof in a browser that has known the account for a day, and
/// attaches the current proofs of `other`. Returns the subject.
pub async fn attach(client: &SignInTestClient, browser: &mut Browser, person: &str, other: &str) -> String {
    sign_in(client, browser, person, YES).await;
    wait(client, DAY);
    let begun = browser.begin(client, &[]).await;
    begun.prove(client, person).await;
    let next = go_on(client, browser, &begun, "attached").await;
    assert_eq!(asked(&next).await, ANY);
    next.prove(client, other).await;
    completed(client, browser, &next, YES).await
}

#[tokio::test]
async fn people_keep_the_subject_of_their_legacy_proofs() {
    let legacy = |config: &mut Config| config.apps.iter_mut().for_each(|app| app.proof = SignInProof::Legacy);
    let client = SignInTestClient::start_with_keys(legacy).await;
    let before = unverified_claims(client.exchange(&client.code("alice", &[]).await).await.text("id_token"));
    let SignInTestClient { daemon, folder, http } = client;
    drop(http);
    daemon.stop().await;
    // The first accepted legacy proof has made the history; the configuration need not say it.
    let accounts = |config: &mut Config| {
        ask_for_accounts(config);
        config.apps.iter_mut().for_each(|app| app.set_subject(SubjectKind::Nullifier));
    };
    let client = SignInTestClient::start_in(folder, accounts).await;
    // The start warns of what people of other credentials than `orb` can do there.
    let is_known = |id: &str| {
        let app = toml::from_str(&format!("id = '{id}'")).expect("an application");
        client.daemon.reloading.knows_legacy_history(&app)
    };
    assert!(is_known(APP) && !is_known("app_staging_of_another"));
    let mut browser = Browser::default();
    let alice = sign_in(&client, &mut browser, "alice", YES).await;
    assert_eq!(json!(alice), before["sub"]);
    assert_eq!(sign_in(&client, &mut Browser::default(), "alice", NO).await, alice);
    // Nothing is attached on the same day, in whatever browser.
    let begun = browser.begin(&client, &[]).await;
    begun.prove(&client, "alice").await;
    let answer = browser.post(&client, &format!("{}/go-on", begun.base), &[("next", "attached")]).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    assert_eq!(completed(&client, &mut browser, &begun, "").await, alice, "nothing is asked");
    client.stop().await;
}

#[tokio::test]
async fn current_proofs_are_attached_a_day_later_and_stay_provisional_for_thirty() {
    let client = start().await;
    let (mut laptop, mut other) = (Browser::default(), Browser::default());
    let alice = sign_in(&client, &mut laptop, "alice", YES).await;
    wait(&client, DAY - 1);
    let begun = laptop.begin(&client, &[]).await;
    begun.prove(&client, "alice").await;
    assert_eq!(completed(&client, &mut laptop, &begun, "").await, alice, "it is too early to ask");
    wait(&client, 1);
    // In another browser nobody is asked.
    assert_eq!(sign_in(&client, &mut other, "alice", "?remember=yes").await, alice);
    let begun = laptop.begin(&client, &[]).await;
    begun.prove(&client, "alice").await;
    let asks = page(&client, &mut laptop, &begun).await;
    assert!(asks.contains("Give the new proof") && asks.contains("2027-04-01"), "{asks}");
    let next = go_on(&client, &mut laptop, &begun, "attached").await;
    assert_eq!(asked(&next).await, ANY);
    let says = laptop.get(&client, &next.base).await.text().await.expect("text");
    assert!(says.contains("Give the proof of the new kind"), "{says}");
    next.prove(&client, "alice").await;
    // Whoever answered: the person reads that something was attached.
    let tells = page(&client, &mut laptop, &next).await;
    assert!(tells.contains("2026-07-02") && tells.contains("That was me"), "{tells}");
    assert_eq!(completed(&client, &mut laptop, &next, "?attached=seen").await, alice);

    // The browser asks for the session; legacy proofs elsewhere sign in, and tell of it.
    let begun = laptop.begin(&client, &[]).await;
    assert_eq!(asked(&begun).await, Asked::Return);
    begun.prove(&client, "alice").await;
    assert_eq!(completed(&client, &mut laptop, &begun, "").await, alice);
    let begun = Browser::default().begin(&client, &[]).await;
    assert_eq!(asked(&begun).await, Asked::Legacy);
    let mut stranger = Browser::default();
    let begun = stranger.begin(&client, &[]).await;
    begun.prove(&client, "alice").await;
    let tells = page(&client, &mut stranger, &begun).await;
    assert!(tells.contains("2026-07-02") && tells.contains("2026-08-01"), "{tells}");
    assert!(!tells.contains("name=\"next\""), "this browser has not known the account for a day: {tells}");
    assert_eq!(completed(&client, &mut stranger, &begun, NO).await, alice);

    wait(&client, 30 * DAY);
    // A legacy proof only leads to the account now.
    let mut new = Browser::default();
    let begun = new.begin(&client, &[]).await;
    begun.prove(&client, "alice").await;
    let answer = new.get(&client, &format!("{}/complete", begun.base)).await;
    let next = Begun::at(&client, &answer);
    assert_eq!(asked(&next).await, Asked::Return);
    next.prove(&client, "alice").await;
    assert_eq!(completed(&client, &mut new, &next, NO).await, alice);
    client.stop().await;
}

#[tokio::test]
async fn an_application_is_told_of_attached_proofs() {
    let receiver = WebhookReceiver::start().await;
    let secrets = folder();
    let of_application = receiver.webhook(secrets.path(), "own", &["account.linked"], &format!("app_id = '{APP}'"));
    let client = SignInTestClient::start_with_keys(|config| {
        with_history(config);
        config.webhooks = vec![of_application];
    })
    .await;
    let mut laptop = Browser::default();
    let alice = sign_in(&client, &mut laptop, "alice", YES).await;
    wait(&client, DAY);
    attach(&client, &mut laptop, "alice", "alice").await;
    let told = receiver.until(1).await;
    let expected = json!({"app_id": APP, "sub": alice, "disputed": false});
    assert_eq!((&told[0].body["type"], &told[0].body["data"]), (&"account.linked".into(), &expected));
    client.stop().await;
}

#[tokio::test]
async fn a_legacy_proof_that_leads_to_an_account_signs_nobody_in() {
    let client = start().await;
    let mut hers = Browser::default();
    let alice = attach(&client, &mut hers, "alice", "alice").await;
    wait(&client, 30 * DAY);
    // Somebody relays alice's legacy proof.
    let mut thief = Browser::default();
    let begun = thief.begin(&client, &[]).await;
    begun.prove(&client, "alice").await;
    let answer = thief.get(&client, &format!("{}/complete{YES}", begun.base)).await;
    assert_eq!(asked(&Begun::at(&client, &answer)).await, Asked::Return);
    // His browser was led to the account, and his own authenticator has no such session.
    let begun = thief.begin(&client, &[]).await;
    assert_eq!(asked(&begun).await, Asked::Return);
    assert_eq!(begun.session().await, hers.begin(&client, &[]).await.session().await);
    begun.prove(&client, "alice").await;
    assert_eq!(completed(&client, &mut thief, &begun, NO).await, alice, "only her proof completes it");
    client.stop().await;
}

#[tokio::test]
async fn a_wallet_without_legacy_proofs_gives_one_of_a_newer_credential() {
    let client = start().await;
    let mut browser = Browser::default();
    let begun = browser.begin(&client, &[]).await;
    begun.give_up(&client, "world_id_3_not_available").await;
    let answer = browser.get(&client, &format!("{}/complete", begun.base)).await;
    let next = Begun::at(&client, &answer);
    assert_eq!(asked(&next).await, newer());
    // A proof without the bound does not hold, whatever it says.
    let opened = next.open().await;
    let mut proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &opened, "bob").await;
    proof["responses"][0]["credential_genesis_issued_at_min"] = json!(CURRENT_ALONE_SINCE - 1);
    assert_eq!(next.post(&client, &proof).await.status, 400);
    next.prove(&client, "bob").await;
    let bob = completed(&client, &mut browser, &next, YES).await;
    let begun = browser.begin(&client, &[]).await;
    assert_eq!(asked(&begun).await, Asked::Return);
    begun.prove(&client, "bob").await;
    assert_eq!(completed(&client, &mut browser, &begun, "").await, bob);
    client.stop().await;
}

/// The wallet cannot show that its credential is a newer one.
#[tokio::test]
async fn an_older_credential_finds_an_account_and_makes_none() {
    let client = start().await;
    let alice = attach(&client, &mut Browser::default(), "alice", "alice").await;
    for (person, expected) in [("alice", Some(&alice)), ("bob", None)] {
        let mut browser = Browser::default();
        let begun = browser.begin(&client, &[]).await;
        let early = browser.get(&client, &format!("{}/older", begun.base)).await;
        assert_eq!(early.status(), StatusCode::NOT_FOUND, "a legacy proof is asked for");
        begun.give_up(&client, "world_id_3_not_available").await;
        let answer = browser.get(&client, &format!("{}/complete", begun.base)).await;
        let next = Begun::at(&client, &answer);
        let offers = browser.get(&client, &next.base).await.text().await.expect("text");
        assert!(offers.contains("I had an account here before"), "{offers}");
        next.give_up(&client, "credential_unavailable").await;
        let offers = page(&client, &mut browser, &next).await;
        assert!(offers.contains("I had an account here before"), "{offers}");
        let question = browser.get(&client, &format!("{}/older", next.base)).await.text().await.expect("text");
        assert!(question.contains("not again for a year"), "{question}");
        let last = go_on(&client, &mut browser, &next, "older").await;
        assert_eq!(asked(&last).await, ANY);
        match expected {
            Some(expected) => {
                last.prove(&client, person).await;
                assert_eq!(completed(&client, &mut browser, &last, NO).await, *expected);
            }
            None => {
                let reason = last.refused(&client, person).await;
                assert!(reason.contains("no account was found"), "{reason}");
                let says = page(&client, &mut browser, &last).await;
                assert!(says.contains("it belongs to no account here"), "{says}");
                assert_eq!(completed(&client, &mut browser, &last, "?onward=1").await, "interaction_required");
            }
        }
    }
    client.stop().await;
}

#[tokio::test]
async fn a_thief_needs_two_relays_a_day_apart_and_the_person_undoes_it() {
    let client = start().await;
    let mut hers = Browser::default();
    let alice = sign_in(&client, &mut hers, "alice", YES).await;
    // The thief relays a legacy proof of alice, and gives a first proof of his own at once.
    let mut his = Browser::default();
    let begun = his.begin(&client, &[]).await;
    begun.prove(&client, "alice").await;
    let answer = his.post(&client, &format!("{}/go-on", begun.base), &[("next", "attached")]).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    assert_eq!(completed(&client, &mut his, &begun, YES).await, alice, "as every relay of a legacy proof");
    // With a second relay, a day later, he attaches his own.
    wait(&client, DAY);
    let begun = his.begin(&client, &[]).await;
    begun.prove(&client, "alice").await;
    let next = go_on(&client, &mut his, &begun, "attached").await;
    next.prove(&client, "thief").await;
    assert_eq!(completed(&client, &mut his, &next, "?attached=seen").await, alice);
    // He cannot make her browsers forget the account, which would take the undoing from her.
    let refused = his.session_forms(&client).await;
    assert!(refused.iter().all(|(to, _)| to != "/session/forget-others"), "{refused:?}");
    let code = his.account_form(&client, "/session/code", APP).await;
    let fields: Vec<_> = code.iter().map(|(name, value)| (&**name, &**value)).collect();
    let answer = his.post(&client, &client.daemon.sign_in("/session/forget-others"), &fields).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);

    // Her browser asks for the session, which is the thief's; her authenticator has no such one.
    // Then a legacy proof is asked for, and she is told and can say that it was not her.
    let begun = hers.begin(&client, &[]).await;
    assert_eq!(asked(&begun).await, Asked::Return);
    begun.give_up(&client, "generic_error").await;
    let answer = hers.get(&client, &format!("{}/complete", begun.base)).await;
    let begun = Begun::at(&client, &answer);
    assert_eq!(asked(&begun).await, Asked::Legacy);
    begun.prove(&client, "alice").await;
    let tells = page(&client, &mut hers, &begun).await;
    assert!(tells.contains("That was not me"), "{tells}");
    let next = go_on(&client, &mut hers, &begun, "attached").await;
    next.prove(&client, "alice").await;
    assert_eq!(completed(&client, &mut hers, &next, "?attached=seen").await, alice, "her legacy proof signs her in");

    // Neither signs in now, and legacy proofs do.
    let begun = his.begin(&client, &[]).await;
    assert_eq!(asked(&begun).await, Asked::Legacy);
    assert_eq!(sign_in(&client, &mut Browser::default(), "alice", NO).await, alice);
    for person in ["alice", "thief"] {
        let mut browser = Browser::default();
        let begun = browser.begin(&client, &[]).await;
        begun.give_up(&client, "world_id_3_not_available").await;
        let answer = browser.get(&client, &format!("{}/complete", begun.base)).await;
        let reason = Begun::at(&client, &answer).refused(&client, person).await;
        assert!(reason.contains("the operator has to choose"), "{person}: {reason}");
    }

    // The operator chooses.
    let shown = command(&client, &["account", "show", APP, &alice]).await;
    assert!(shown.contains("of two persons: first 2026-07-02"), "{shown}");
    let chosen = command(&client, &["account", "link", APP, &alice, "--keep", "second"]).await;
    assert!(!chosen.contains("of two persons"), "{chosen}");
    let begun = hers.begin(&client, &[]).await;
    assert_eq!(asked(&begun).await, Asked::Return);
    begun.prove(&client, "alice").await;
    assert_eq!(completed(&client, &mut hers, &begun, "").await, alice);
    let his_next = his.begin(&client, &[]).await;
    assert_eq!(his_next.session().await, hers.begin(&client, &[]).await.session().await, "which is not his");
    client.stop().await;
}

pub async fn command(client: &SignInTestClient, arguments: &[&str]) -> String {
    let (is_success, output) = run_command(client, arguments).await;
    assert!(is_success, "{output}");
    output
}

/// Runs a command of the operator. Returns whether it succeeded, and what it printed.
pub async fn run_command(client: &SignInTestClient, arguments: &[&str]) -> (bool, String) {
    let (operator, data) = (client.daemon.operator(""), client.folder.path().to_str().expect("text").to_owned());
    let given = arguments.iter().map(|argument| (*argument).to_owned());
    let arguments: Vec<String> = given.chain(["--operator".to_owned(), operator, "--data".to_owned(), data]).collect();
    let running = tokio::task::spawn_blocking(move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run(&arguments)
    });
    running.await.expect("no panic")
}

/// A person has two accounts already: that is told, and never merged.
#[tokio::test]
async fn a_current_proof_of_another_account_is_attached_to_none() {
    let client = start().await;
    let mut browser = Browser::default();
    let begun = browser.begin(&client, &[]).await;
    begun.give_up(&client, "world_id_3_not_available").await;
    let answer = browser.get(&client, &format!("{}/complete", begun.base)).await;
    let next = Begun::at(&client, &answer);
    next.prove(&client, "alice").await;
    let current = completed(&client, &mut browser, &next, NO).await;
    let mut hers = Browser::default();
    let legacy = sign_in(&client, &mut hers, "alice", YES).await;
    assert_ne!(legacy, current);
    wait(&client, DAY);
    let begun = hers.begin(&client, &[]).await;
    begun.prove(&client, "alice").await;
    let next = go_on(&client, &mut hers, &begun, "attached").await;
    let reason = next.refused(&client, "alice").await;
    assert!(reason.contains("belongs to another account"), "{reason}");
    assert!(page(&client, &mut hers, &next).await.contains("belongs to another account"));
    assert_eq!(completed(&client, &mut hers, &next, "?onward=1").await, legacy, "without it the legacy proof counts");
    let begun = hers.begin(&client, &[]).await;
    assert_eq!(asked(&begun).await, Asked::Legacy);
    client.stop().await;
}

#[tokio::test]
async fn after_the_end_of_legacy_proofs_attached_people_keep_their_subject() {
    for allows in [false, true] {
        let client = start_with_older_credentials(allows).await;
        let mut hers = Browser::default();
        let alice = attach(&client, &mut hers, "alice", "alice").await;
        let bob = sign_in(&client, &mut Browser::default(), "bob", NO).await;
        wait(&client, AFTER_THE_END);
        let begun = hers.begin(&client, &[]).await;
        assert_eq!(asked(&begun).await, Asked::Return);
        begun.prove(&client, "alice").await;
        assert_eq!(completed(&client, &mut hers, &begun, "").await, alice);
        // Without a pointer: a newer credential makes an account, an older one finds it.
        let mut new = Browser::default();
        let begun = new.begin(&client, &[]).await;
        assert_eq!(asked(&begun).await, newer());
        let last = go_on(&client, &mut new, &begun, "older").await;
        last.prove(&client, "alice").await;
        assert_eq!(completed(&client, &mut new, &last, NO).await, alice);
        let begun = new.begin(&client, &[]).await;
        let last = go_on(&client, &mut new, &begun, "older").await;
        if allows {
            last.prove(&client, "bob").await;
            assert_ne!(completed(&client, &mut new, &last, NO).await, bob, "he has two now");
        } else {
            last.refused(&client, "bob").await;
        }
        let begun = new.begin(&client, &[]).await;
        begun.prove(&client, "carol").await;
        assert_eq!(completed(&client, &mut new, &begun, NO).await.len(), 66);
        client.stop().await;
    }
}

#[tokio::test]
async fn an_application_can_keep_current_proofs_apart() {
    let client = SignInTestClient::start_with_keys(|config| {
        with_history(config);
        config.apps.iter_mut().for_each(|app| app.link = Link::Off);
    })
    .await;
    let mut browser = Browser::default();
    let alice = sign_in(&client, &mut browser, "alice", YES).await;
    wait(&client, DAY);
    let begun = browser.begin(&client, &[]).await;
    begun.prove(&client, "alice").await;
    let answer = browser.post(&client, &format!("{}/go-on", begun.base), &[("next", "attached")]).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    assert_eq!(completed(&client, &mut browser, &begun, "").await, alice);
    client.stop().await;
}

/// What becomes of a proof that was to be attached, and of what could be attached to.
#[tokio::test]
async fn who_goes_on_without_a_proof_has_none_attached_later() {
    let client = start().await;
    let mut hers = Browser::default();
    let alice = sign_in(&client, &mut hers, "alice", YES).await;
    wait(&client, DAY);
    let begun = hers.begin(&client, &[]).await;
    begun.prove(&client, "alice").await;
    let next = go_on(&client, &mut hers, &begun, "attached").await;
    let opened = next.open().await;
    let late = current_proof(&client.daemon.operator(""), &client.daemon.client(), &opened, "thief").await;
    next.give_up(&client, "access_denied").await;
    assert_eq!(completed(&client, &mut hers, &next, "").await, alice, "the legacy proof counts");
    assert_eq!(next.post(&client, &late).await.status, 400);
    let begun = hers.begin(&client, &[]).await;
    assert_eq!(asked(&begun).await, Asked::Legacy, "nothing was attached");

    // All others were made to forget the account after a sign-in had begun.
    let mut other = Browser::default();
    sign_in(&client, &mut other, "alice", YES).await;
    begun.prove(&client, "alice").await;
    assert_eq!(other.post_account_form(&client, "/session/forget-others", APP).await.status(), StatusCode::OK);
    let answer = hers.post(&client, &format!("{}/go-on", begun.base), &[("next", "attached")]).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    assert_eq!(completed(&client, &mut hers, &begun, NO).await, alice);
    client.stop().await;
}

#[tokio::test]
async fn the_operator_drops_what_somebody_else_has_attached() {
    let client = start().await;
    let mut his = Browser::default();
    let alice = attach(&client, &mut his, "alice", "thief").await;
    wait(&client, 30 * DAY);
    let dropped = command(&client, &["account", "link", APP, &alice, "--keep", "none"]).await;
    assert!(dropped.contains("current proofs          none"), "{dropped}");
    // His browser knows the account no longer, so he cannot attach it at once again.
    let begun = his.begin(&client, &[]).await;
    assert_eq!(asked(&begun).await, Asked::Legacy);
    begun.prove(&client, "alice").await;
    let answer = his.post(&client, &format!("{}/go-on", begun.base), &[("next", "attached")]).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    // His nullifier is free for an account of his own.
    let mut own = Browser::default();
    let begun = own.begin(&client, &[]).await;
    begun.give_up(&client, "world_id_3_not_available").await;
    let answer = own.get(&client, &format!("{}/complete", begun.base)).await;
    let next = Begun::at(&client, &answer);
    next.prove(&client, "thief").await;
    assert_ne!(completed(&client, &mut own, &next, NO).await, alice);
    client.stop().await;
}

/// A pointer that came in another way than by a legacy sign-in in this browser has no age.
#[tokio::test]
async fn a_link_a_code_and_a_phone_attach_nothing() {
    let client = start().await;
    let (mut hers, mut linked, mut phone) = (Browser::default(), Browser::default(), Browser::default());
    let alice = sign_in(&client, &mut hers, "alice", YES).await;
    let text = hers.post_account_form(&client, "/session/link", APP).await.text().await.expect("text");
    let secret = text.split("/session/link/").nth(1).expect("a link").get(..43).expect("a secret");
    let url = client.daemon.sign_in(&format!("/session/link/{secret}"));
    assert_eq!(linked.post(&client, &url, &[]).await.status(), StatusCode::OK);
    let text = hers.post_account_form(&client, "/session/code", APP).await.text().await.expect("text");
    let code = text.split("sign-in-code\">").nth(1).and_then(|rest| rest.split('<').next()).expect("a code").to_owned();
    // The phone's browser opens the short page of a sign-in, and alice answers what it asks.
    let mut screen = Browser::default();
    let begun = screen.begin(&client, &[]).await;
    let opened = ShortPage::open(&mut phone, &client, &begun).await.request(&client).await;
    client.answer(&opened, "alice").await.expect("accepted");
    remember(&mut phone, &client, &begun).await;
    assert!(linked.remembers() && phone.remembers());
    wait(&client, DAY);
    for (what, browser, expected) in [
        ("a link", &mut linked, StatusCode::BAD_REQUEST),
        ("a phone", &mut phone, StatusCode::BAD_REQUEST),
        ("a legacy sign-in", &mut hers, StatusCode::SEE_OTHER),
    ] {
        let begun = browser.begin(&client, &[]).await;
        begun.prove(&client, "alice").await;
        let mut other = browser.clone();
        let answer = other.post(&client, &format!("{}/go-on", begun.base), &[("next", "attached")]).await;
        assert_eq!(answer.status(), expected, "{what}");
    }
    // The account has no session yet, so a code of it leads to a legacy proof.
    let mut new = Browser::default();
    let begun = new.begin(&client, &[]).await;
    let answer = new.post(&client, &format!("{}/code", begun.base), &[("code", &code)]).await;
    let begun = Begun::at(&client, &answer);
    assert_eq!(asked(&begun).await, Asked::Legacy);
    begun.prove(&client, "alice").await;
    assert_eq!(completed(&client, &mut new, &begun, NO).await, alice);
    client.stop().await;
}

/// An application that expects one person gets no proof of uniqueness of another one spent.
#[tokio::test]
async fn a_hint_asks_for_a_legacy_proof_and_spends_no_other() {
    let client = start().await;
    let begun = Browser::default().begin(&client, &[]).await;
    begun.prove(&client, "alice").await;
    let session = client.code("alice", &[]).await;
    let hint = client.exchange(&session).await.text("id_token").to_owned();
    let mut browser = Browser::default();
    let begun = browser.begin(&client, &[("id_token_hint", &hint)]).await;
    assert_eq!(asked(&begun).await, Asked::Legacy);
    begun.give_up(&client, "world_id_3_not_available").await;
    let says = page(&client, &mut browser, &begun).await;
    assert!(says.contains("It cannot make the kind of proof"), "{says}");
    let answer = browser.post(&client, &format!("{}/go-on", begun.base), &[]).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    client.stop().await;
}

/// A program goes on as a page does.
#[tokio::test]
async fn a_program_goes_on_with_another_proof() {
    let client = start().await;
    attach(&client, &mut Browser::default(), "alice", "alice").await;
    wait(&client, 30 * DAY);
    let mut browser = Browser::default();
    let begun = browser.begin(&client, &[]).await;
    begun.prove(&client, "alice").await;
    let sent = |form: Vec<(&'static str, &'static str)>| {
        let request = client.http.post(format!("{}/go-on", begun.base)).header(ACCEPT, "application/json");
        request.header("Cookie", browser.cookies()).form(&form).send()
    };
    let wrong = sent(vec![("next", "nothing")]).await.expect("an answer");
    assert_eq!(wrong.status(), StatusCode::BAD_REQUEST);
    let answer = sent(Vec::new()).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    let body: Value = answer.json().await.expect("JSON");
    let path = body["location"].as_str().expect("a path").to_owned();
    let next = Begun { base: client.daemon.sign_in(&path) };
    assert_eq!(asked(&next).await, Asked::Return);
    client.stop().await;
}
