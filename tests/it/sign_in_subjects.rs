//! What the subject of a person is: the kinds, and the store that decides from the first account
//! on.

use std::process::Stdio;
use std::time::Duration;

use selfsame::config::{Config, SignInProof, SubjectKind};
use serde_json::{Value, json};

use crate::account_client::{Asks, Browser, ask_for_accounts, asks};
use crate::harness::{DaemonProcess, Folder, TestDaemon, development_config, refused_start, run, until};
use crate::sign_in_client::{APP, OTHER_APP, SignInTestClient, current_proof, unverified_claims};

/// What sign-ins ask for, and what the subjects of new accounts are.
#[derive(Clone, Copy, Debug)]
struct Way(SignInProof, Option<SubjectKind>);

const LEGACY: Way = Way(SignInProof::Legacy, None);
const CURRENT: Way = Way(SignInProof::Current, None);
const DERIVED: Way = Way(SignInProof::Account, None);
const NULLIFIER: Way = Way(SignInProof::Account, Some(SubjectKind::Nullifier));

impl Way {
    fn set(self, config: &mut Config) {
        ask_for_accounts(config);
        for app in &mut config.apps {
            app.proof = self.0;
            self.1.into_iter().for_each(|kind| app.set_subject(kind));
        }
    }
}

/// Stops the daemon, and starts one on the same store that is configured in another way.
async fn restarted(client: SignInTestClient, way: Way) -> SignInTestClient {
    SignInTestClient::start_in(stopped(client).await, |config| way.set(config)).await
}

async fn stopped(client: SignInTestClient) -> Folder {
    let SignInTestClient { daemon, folder, http } = client;
    drop(http);
    daemon.stop().await;
    folder
}

/// The subject of `person`, who signs in as a program's user.
async fn subject(client: &SignInTestClient, person: &str) -> String {
    let tokens = client.exchange(&client.code(person, &[]).await).await;
    unverified_claims(tokens.text("id_token"))["sub"].as_str().expect("a subject").to_owned()
}

/// The nullifier of a person's proof of uniqueness, as a wallet sends it.
async fn nullifier(client: &SignInTestClient, person: &str) -> Value {
    let begun = Browser::default().begin(client, &[]).await;
    let proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &begun.open().await, person).await;
    proof["responses"][0]["nullifier"].clone()
}

#[tokio::test]
async fn an_account_can_have_the_subject_of_the_proofs_of_before() {
    let client = SignInTestClient::start_with_keys(|config| CURRENT.set(config)).await;
    let before = subject(&client, "alice").await;
    let client = restarted(client, NULLIFIER).await;
    let mut browser = Browser::default();
    let begun = browser.begin(&client, &[]).await;
    assert_eq!(asks(&begun).await, Asks::First);
    assert_eq!(browser.sign_in(&client, "alice", "yes").await, before);
    assert!(matches!(asks(&browser.begin(&client, &[]).await).await, Asks::Return(_)));
    assert_eq!(browser.sign_in(&client, "alice", "yes").await, before, "after a proof in the session");
    assert_eq!(Browser::default().sign_in(&client, "alice", "yes").await, before, "after another first one");
    // A new person has a subject of the same form.
    let bob = Browser::default().sign_in(&client, "bob", "yes").await;
    assert_eq!((bob.len(), &bob[..2]), (66, "0x"));
    assert_eq!(number(&json!(bob)), number(&nullifier(&client, "bob").await));
    client.stop().await;
}

#[tokio::test]
async fn the_first_person_decides_which_subjects_an_application_has() {
    use SubjectKind::{Derived, Nullifier};
    let table = [
        (LEGACY, Nullifier, vec![CURRENT, NULLIFIER], vec![DERIVED]),
        (CURRENT, Nullifier, vec![LEGACY, NULLIFIER], vec![DERIVED]),
        (NULLIFIER, Nullifier, vec![LEGACY, CURRENT], vec![DERIVED]),
        (DERIVED, Derived, vec![DERIVED], vec![LEGACY, CURRENT, NULLIFIER]),
    ];
    for (first, stored, good, refused) in table {
        // Before the first person, every way is good.
        let other = if stored == Derived { NULLIFIER } else { DERIVED };
        let client = restarted(SignInTestClient::start_with_keys(|config| other.set(config)).await, first).await;
        subject(&client, "alice").await;
        let mut folder = stopped(client).await;
        for &way in &refused {
            let error = TestDaemon::start_error(folder.path(), |config| way.set(config)).await;
            let stored = stored.name();
            let says = "the store says since 2026-07-01 that its subjects in staging are of the kind";
            let remedy = match way.0 {
                SignInProof::Account => format!("; set subject = {stored:?}, or"),
                _ => "; set proof = \"account\", or".to_owned(),
            };
            let command = format!("selfsame account subjects {APP} --environment staging --to ");
            let texts = [format!("{APP}: {says} {stored:?}, "), remedy, command];
            let is_said = texts.iter().all(|text| error.contains(text.as_str()));
            assert!(is_said && error.lines().count() == 1, "{first:?} {way:?}: {error}");
        }
        for &way in &good {
            let client = SignInTestClient::start_in(folder, |config| way.set(config)).await;
            for (next, is_good) in good.iter().map(|way| (way, true)).chain(refused.iter().map(|way| (way, false))) {
                let config = development_config(client.folder.path(), |config| next.set(config));
                assert_eq!(client.daemon.reloading.check(&config).is_ok(), is_good, "{first:?} {way:?} {next:?}");
            }
            folder = stopped(client).await;
        }
    }
}

/// Runs a command against the daemon of this process.
async fn command(client: &SignInTestClient, arguments: &[&str]) -> (bool, String) {
    let (operator, data) = (client.daemon.operator(""), client.folder.path().to_str().expect("text").to_owned());
    let given = arguments.iter().map(|argument| (*argument).to_owned());
    let arguments: Vec<String> = given.chain(["--operator".to_owned(), operator, "--data".to_owned(), data]).collect();
    let running = tokio::task::spawn_blocking(move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run(&arguments)
    });
    running.await.expect("no panic")
}

#[tokio::test]
async fn the_operator_changes_the_kind_and_existing_accounts_keep_their_subjects() {
    let client = SignInTestClient::start_with_keys(|config| DERIVED.set(config)).await;
    let mut browser = Browser::default();
    let alice = browser.sign_in(&client, "alice", "yes").await;
    let bobs = nullifier(&client, "bob").await;
    let folder = stopped(client).await;

    // The applications of `--dev` ask for legacy proofs.
    let refused = DaemonProcess::try_start(folder.path(), &[], &[], Stdio::null()).map(|_| ()).expect_err("refused");
    assert_eq!(refused.code(), Some(78));
    assert!(refused_start(folder.path(), &[]).await.contains("set proof = \"account\", or give new people the other"));

    let data = folder.path().to_str().expect("text").to_owned();
    let change = |app: &str, kind: &str| run(&["account", "subjects", app, "--to", kind, "--stopped", "--data", &data]);
    let (is_done, text) = change(OTHER_APP, "nullifier");
    assert!(
        !is_done && text.contains(&format!("the kind of subjects of {OTHER_APP} in staging is not decided yet")),
        "{text}"
    );
    let (is_done, text) = change(APP, "derived");
    assert!(is_done && text.contains("already"), "{text}");
    let (is_done, text) = change(APP, "nullifier");
    let said = ["existing ones keep theirs", "set subject = \"nullifier\" of the application"];
    assert!(is_done && said.iter().all(|words| text.contains(words)), "{text}");

    TestDaemon::start_error(folder.path(), |config| DERIVED.set(config)).await;
    let client = SignInTestClient::start_in(folder, |config| NULLIFIER.set(config)).await;
    assert_eq!(browser.sign_in(&client, "alice", "yes").await, alice);
    assert_eq!(Browser::default().sign_in(&client, "alice", "yes").await, alice, "found by the nullifier");
    let bob = Browser::default().sign_in(&client, "bob", "yes").await;
    assert_eq!(number(&json!(bob)), number(&bobs));

    // A running daemon follows the store at once, and takes the new setting at a reload.
    let carols = nullifier(&client, "carol").await;
    let (is_done, text) = command(&client, &["account", "subjects", APP, "--to", "derived"]).await;
    assert!(is_done, "{text}");
    let carol = Browser::default().sign_in(&client, "carol", "yes").await;
    assert_ne!(number(&json!(carol)), number(&carols));
    let config = |way: Way| development_config(client.folder.path(), |config| way.set(config));
    assert!(client.daemon.reloading.check(&config(NULLIFIER)).is_err());
    client.daemon.reloading.check(&config(DERIVED)).expect("the same as the store");
    assert_eq!(browser.sign_in(&client, "alice", "yes").await, alice);
    expect_audited(&client, "subjects_changed").await;
    client.stop().await;
}

/// A nullifier without leading zeros.
fn number(nullifier: &Value) -> &str {
    nullifier.as_str().expect("text").trim_start_matches("0x").trim_start_matches('0')
}

async fn expect_audited(client: &SignInTestClient, event: &str) {
    let sample = format!("selfsame_audit_events_total{{event=\"{event}\",outcome=\"success\"}} 1");
    until("the event", async || {
        let metrics = client.get(&client.daemon.operator("/metrics"), "*/*").await.text().await.expect("text");
        if metrics.contains(&sample) { Ok(()) } else { Err(metrics) }
    })
    .await;
}

#[tokio::test]
async fn the_operator_sees_what_is_known_of_an_account() {
    let client = SignInTestClient::start_with_keys(|config| DERIVED.set(config)).await;
    let mut browser = Browser::default();
    let alice = browser.sign_in(&client, "alice", "yes").await;
    let hidden = nullifier(&client, "alice").await;
    client.daemon.clock.advance(Duration::from_secs(40 * 24 * 3600 + 5000));
    assert_eq!(browser.sign_in(&client, "alice", "yes").await, alice);
    let (is_done, text) = command(&client, &["account", "show", APP, &alice, "--json"]).await;
    assert!(is_done && !text.contains(number(&hidden)), "{text}");
    let shown: Value = serde_json::from_str(&text).expect("JSON");
    let expected = json!({
        "app_id": APP, "environment": "staging", "sub": alice, "created_on": "2026-07-01",
        "human_at": "2026-08-10T01:00:00Z", "identifier": "proof_of_human", "generation": 0,
        "has_legacy": false, "has_current": true, "is_provisional": false,
    });
    assert_eq!(shown, expected);
    let (is_done, text) = command(&client, &["account", "show", APP, &alice]).await;
    assert!(is_done && text.contains("made on                 2026-07-01\n"), "{text}");

    let token = client.operator_token();
    let ask = async |app: &str, sub: &str, token: &str| {
        let body = json!({"app_id": app, "sub": sub});
        let request = client.http.post(client.daemon.operator("/accounts/show")).bearer_auth(token).json(&body);
        let answer = client.send(request).await;
        (answer.status, answer.body["message"].as_str().unwrap_or_default().to_owned())
    };
    let other = format!("0x{}", "ab".repeat(32));
    for (app, sub, token, status, message) in [
        (APP, &*alice, &*token, 200, ""),
        (APP, &alice, "another", 401, "operator.token"),
        (APP, &other, &token, 404, "no account of app_staging_5e1f5a3e000000000000000000000001 in staging"),
        (OTHER_APP, &alice, &token, 404, "no account"),
        (APP, &alice[..65], &token, 400, "sub: it is not 0x and 64 hex digits"),
    ] {
        let (answered, text) = ask(app, sub, token).await;
        assert!(answered == status && text.contains(message), "{app} {sub}: {answered} {text}");
    }
    let metrics = client.get(&client.daemon.operator("/metrics"), "*/*").await.text().await.expect("text");
    assert!(metrics.contains("event=\"account_shown\",outcome=\"success\"} 3"), "{metrics}");
    client.stop().await;
}
