//! What the subject of a person is: the kinds, and the store that decides from the first account
//! on.

use selfsame::config::{Config, SignInProof, SubjectKind};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{TestDaemon, development_config};
use crate::sign_in_accounts::{Asks, Browser, ask_for_accounts, asks};
use crate::sign_in_client::{APP, SignInTestClient, current_proof, unverified_claims};

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

async fn stopped(client: SignInTestClient) -> TempDir {
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
    let number = |text: &str| text.trim_start_matches("0x").trim_start_matches('0').to_owned();
    assert_eq!(number(&bob), number(nullifier(&client, "bob").await.as_str().expect("text")));
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
