//! A first proof that is spent and does not sign in: it comes when the sign-in is over, or its
//! response is never fetched. It makes the account all the same, and the browser that began asks
//! for a proof in its session next time, because no authenticator gives the first one again for a
//! year.

use std::time::Duration;

use serde_json::{Value, json};

use crate::account_client::{Asks, Begun, Browser, asks, location, start_behind_https};
use crate::sign_in_accounts::Proofs;
use crate::sign_in_client::{SignInTestClient, fragment_or_query};

/// A sign-in whose authenticator has made a first proof of `person` and has not sent it.
async fn proof_made(client: &SignInTestClient, browser: &mut Browser, person: &str) -> (Begun, Value) {
    let begun = browser.begin(client, &[]).await;
    let opened = begun.open().await;
    let proof = Proofs { client, person }.bound(&opened).await;
    (begun, proof)
}

async fn post_late(client: &SignInTestClient, begun: &Begun, proof: &Value) {
    begun.post(client, proof).await.expect_error(404, "not_found", "invalid_request");
}

async fn new_code(client: &SignInTestClient, browser: &mut Browser, begun: &Begun) -> Begun {
    let answer = browser.post(client, &format!("{}/new-code", begun.base), &[]).await;
    Begun::at(client, &answer)
}

#[tokio::test]
async fn a_first_proof_that_comes_late_makes_the_account() {
    let client = start_behind_https().await;
    let mut browser = Browser::default();
    let (begun, proof) = proof_made(&client, &mut browser, "alice").await;
    client.daemon.clock.advance(Duration::from_secs(899));
    let page = browser.get(&client, &begun.base).await.text().await.expect("text");
    assert!(page.contains("data-state=\"over\""), "{page}");
    post_late(&client, &begun, &proof).await;
    post_late(&client, &begun, &proof).await;

    assert!(!browser.remembers(), "nobody was asked");

    // New code goes on with the same request, and so does a new visit.
    let visit = browser.begin(&client, &[]).await;
    assert!(matches!(asks(&visit).await, Asks::Return(_)));
    let again = new_code(&client, &mut browser, &begun).await;
    assert!(matches!(asks(&again).await, Asks::Return(_)));
    again.answer(&client, "alice").await;
    let alice = browser.complete(&client, &again, "?remember=yes").await;
    assert!(browser.remembers());
    assert_eq!(browser.sign_in(&client, "alice", "yes").await, alice);

    // Another browser, and another person at this one, get nothing from it.
    assert_eq!(asks(&Browser::default().begin(&client, &[]).await).await, Asks::First);
    assert_eq!(asks(&browser.begin(&client, &[("prompt", "select_account")]).await).await, Asks::First);
    client.stop().await;
}

#[tokio::test]
async fn the_request_can_be_answered_for_fifteen_minutes_after_it_was_opened() {
    let client = start_behind_https().await;
    let mut browser = Browser::default();
    let begun = browser.begin(&client, &[]).await;
    client.daemon.clock.advance(Duration::from_secs(200));
    let opened = begun.open().await;
    let until = opened.request().expires_at.0;
    assert_eq!(until, client.now() + 900);
    client.daemon.clock.advance(Duration::from_secs(899));
    let opened = begun.open().await;
    assert_eq!(opened.request().expires_at.0, until);
    let proof = Proofs { client: &client, person: "alice" }.bound(&opened).await;
    client.daemon.clock.advance(Duration::from_secs(1));
    post_late(&client, &begun, &proof).await;
    assert_eq!(client.get(&begun.request_url(), "application/json").await.status(), 404);
    assert_eq!(asks(&new_code(&client, &mut browser, &begun).await).await, Asks::First, "no account was made");

    // A sign-in that nobody opened ends with its time.
    let unopened = browser.begin(&client, &[]).await;
    client.daemon.clock.advance(Duration::from_secs(300));
    assert_eq!(client.get(&unopened.request_url(), "application/json").await.status(), 404);
    client.stop().await;
}

/// The proof was accepted, and the browser does not know: the tab was closed, the person cancelled
/// first, or lost the digits.
#[tokio::test]
async fn a_browser_that_was_not_told_of_its_account_asks_for_it() {
    let client = start_behind_https().await;
    let mut closed = Browser::default();
    let begun = closed.begin(&client, &[]).await;
    begun.answer(&client, "alice").await;
    assert!(matches!(asks(&closed.begin(&client, &[]).await).await, Asks::Return(_)), "the tab was closed");
    // The account is asked for, and the sign-in itself is completed within an hour alone.
    client.daemon.clock.advance(Duration::from_secs(300 + 3600));
    let complete = closed.get(&client, &format!("{}/complete?remember=yes", begun.base)).await;
    assert_eq!(complete.status(), 404);
    assert!(!closed.remembers());
    assert!(matches!(asks(&closed.begin(&client, &[]).await).await, Asks::Return(_)), "an hour later");

    let mut cancelled = Browser::default();
    let (begun, proof) = proof_made(&client, &mut cancelled, "alice").await;
    let answer = cancelled.post(&client, &format!("{}/cancel", begun.base), &[]).await;
    assert_eq!(fragment_or_query(location(&answer))["error"], "access_denied");
    post_late(&client, &begun, &proof).await;
    assert!(matches!(asks(&cancelled.begin(&client, &[]).await).await, Asks::Return(_)), "the person cancelled");

    let mut mistyped = Browser::default();
    let (begun, mut proof) = proof_made(&client, &mut mistyped, "alice").await;
    proof["digits"] = json!(true);
    let accepted = begun.post(&client, &proof).await;
    let digits: u32 = accepted.text("digits").parse().expect("digits");
    for by in [1, 2, 3] {
        let typed = format!("{}/complete?digits={:03}", begun.base, (digits + by) % 1000);
        mistyped.get(&client, &typed).await;
    }
    let again = new_code(&client, &mut mistyped, &begun).await;
    assert!(matches!(asks(&again).await, Asks::Return(_)), "the person mistyped");

    // Who was asked, and said no, is not asked for the account.
    let mut shared = Browser::default();
    shared.sign_in(&client, "alice", "no").await;
    assert_eq!(asks(&shared.begin(&client, &[]).await).await, Asks::First);

    // A day later the transactions are gone.
    client.daemon.clock.advance(Duration::from_secs(24 * 3600));
    assert_eq!(asks(&closed.begin(&client, &[]).await).await, Asks::First);
    client.stop().await;
}

#[tokio::test]
async fn a_person_whose_first_proof_was_lost_is_told_that_there_is_probably_no_account() {
    let client = start_behind_https().await;
    for (was_lost, was_replayed) in [(true, false), (false, false), (false, true)] {
        let mut browser = Browser::default();
        if was_lost {
            proof_made(&client, &mut browser, "alice").await;
        }
        if was_replayed {
            let before = browser.begin(&client, &[]).await;
            before.open().await;
            before.post(&client, &json!({"error_code": "nullifier_replayed"})).await.expect_success();
        }
        let begun = browser.begin(&client, &[]).await;
        begun.open().await;
        begun.post(&client, &json!({"error_code": "nullifier_replayed"})).await.expect_success();
        let page = browser.get(&client, &format!("{}/complete", begun.base)).await;
        assert_eq!(page.status(), 200);
        let page = page.text().await.expect("text");
        assert!(page.contains("with the camera of a phone"), "{page}");
        assert_eq!(page.contains("you probably have no account here yet"), was_lost, "{page}");
    }
    client.stop().await;
}

/// What does not make an account, though it comes in time.
#[tokio::test]
async fn only_a_first_proof_that_holds_is_taken_late() {
    let client = start_behind_https().await;
    let mut browser = Browser::default();
    let (begun, proof) = proof_made(&client, &mut browser, "alice").await;
    let opened = begun.open().await;
    let unbound = Proofs { client: &client, person: "alice" }.unbound(&opened).await;
    let mut foreign = proof.clone();
    foreign["session_id"] = json!(format!("session_{:064x}01{:062x}", 7, 0));
    client.daemon.clock.advance(Duration::from_secs(600));
    for (body, status) in [(json!({"error": "access_denied"}), 404), (unbound, 404), (foreign, 400)] {
        let refused = begun.post(&client, &body).await;
        assert_eq!(refused.status, status, "{refused:?}");
    }
    assert_eq!(asks(&browser.begin(&client, &[]).await).await, Asks::First);
    // The application's request is answered once: what comes late never completes it.
    post_late(&client, &begun, &proof).await;
    let complete = browser.get(&client, &format!("{}/complete", begun.base)).await;
    assert_eq!(complete.status(), 404);
    client.stop().await;
}
