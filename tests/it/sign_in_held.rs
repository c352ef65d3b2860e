//! A first proof whose check ends after the sign-in has: the verifier is held meanwhile. The
//! account is made all the same, and the browser that began asks for it next time.

use std::time::Duration;

use selfsame_actors::faults::{Fault, FaultPoint, Plan, Running};
use serde_json::{Value, json};

use crate::account_client::{Asks, Begun, Browser, asks, return_session, start_behind_https};
use crate::sign_in_accounts::Proofs;
use crate::sign_in_client::{SignInAnswer, SignInTestClient};

/// Holds the next batch of proofs until the value is dropped.
fn hold(client: &SignInTestClient) -> Running {
    let plan = Plan::for_instance(&client.daemon.instance);
    plan.strike_times(FaultPoint::VerifierWorkerCheck, Fault::Stall, 0, 1).run()
}

/// Sends a proof, and does something while it is checked.
async fn while_checked(
    client: &SignInTestClient,
    begun: &Begun,
    proof: &Value,
    meanwhile: impl AsyncFnOnce(),
) -> SignInAnswer {
    let plan = hold(client);
    let does = async {
        plan.struck(FaultPoint::VerifierWorkerCheck, 1).await;
        meanwhile().await;
        plan.end(FaultPoint::VerifierWorkerCheck);
    };
    let (answer, ()) = tokio::join!(begun.post(client, proof), does);
    answer
}

/// What ends a sign-in.
#[derive(Clone, Copy, Debug)]
enum End {
    Cancelled,
    Over,
    Refused,
    Failed,
    NewCode,
    AnotherPerson,
}

#[tokio::test]
async fn a_first_proof_that_is_checked_when_the_sign_in_ends_makes_the_account() {
    let client = start_behind_https().await;
    for end in [End::Cancelled, End::Over, End::Refused, End::Failed, End::NewCode, End::AnotherPerson] {
        let person = format!("the one of {end:?}");
        let mut browser = Browser::default();
        let begun = browser.begin(&client, &[]).await;
        let proof = Proofs { client: &client, person: &person }.bound(&begun.open().await).await;
        let at = |path: &str| format!("{}/{path}", begun.base);
        let answer = while_checked(&client, &begun, &proof, async || match end {
            End::Cancelled => assert_eq!(browser.post(&client, &at("cancel"), &[]).await.status(), 303),
            End::Over => client.daemon.clock.advance(Duration::from_secs(300)),
            End::Refused => begun.post(&client, &json!({"error_code": "user_rejected"})).await.expect_success(),
            End::Failed => begun.post(&client, &json!({"error_code": "nullifier_replayed"})).await.expect_success(),
            // The code is as good as a new one: nothing ends.
            End::NewCode => assert_eq!(browser.post(&client, &at("new-code"), &[]).await.status(), 400),
            End::AnotherPerson => drop(browser.post(&client, &at("another-person"), &[]).await),
        })
        .await;
        if matches!(end, End::NewCode) {
            answer.expect_success();
        } else {
            answer.expect_error(404, "not_found", "invalid_request");
        }
        // The authenticator gives no other first proof.
        let next = browser.begin(&client, &[]).await;
        assert!(matches!(asks(&next).await, Asks::Return(_)), "{end:?}");
        next.answer(&client, &person).await;
        let subject = browser.complete(&client, &next, "?remember=no").await;
        // Another browser has not been told, and another installation finds the account.
        let mut other = Browser::default();
        assert_eq!(other.sign_in(&client, &person, "no").await, subject, "{end:?}");
    }
    client.stop().await;
}

/// The first proof that is accepted answers the sign-in, whichever was sent first.
#[tokio::test]
async fn of_two_people_who_answer_one_sign_in_the_first_accepted_one_counts() {
    let client = start_behind_https().await;
    let mut browser = Browser::default();
    let begun = browser.begin(&client, &[]).await;
    let opened = begun.open().await;
    let slow = Proofs { client: &client, person: "alice" }.bound(&opened).await;
    let fast = Proofs { client: &client, person: "bob" }.bound(&opened).await;
    let answer =
        while_checked(&client, &begun, &slow, async || begun.post(&client, &fast).await.expect_success()).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.text("detail").contains("has been answered"), "{answer:?}");
    let bob = browser.complete(&client, &begun, "?remember=yes").await;
    assert_eq!(Browser::default().sign_in(&client, "bob", "no").await, bob);
    assert_ne!(Browser::default().sign_in(&client, "alice", "no").await, bob);
    client.stop().await;
}

/// A proof in the session of an account is given again at any time, so nothing is kept of it.
#[tokio::test]
async fn a_return_that_is_checked_when_the_sign_in_ends_signs_nobody_in() {
    let client = start_behind_https().await;
    let mut browser = Browser::default();
    let alice = browser.sign_in(&client, "alice", "yes").await;
    let begun = browser.begin(&client, &[]).await;
    let opened = begun.open().await;
    let session = return_session(asks(&begun).await);
    let proof = Proofs { client: &client, person: "alice" }.session(&opened, &session).await;
    let cancel = format!("{}/cancel", begun.base);
    let answer = while_checked(&client, &begun, &proof, async || {
        assert_eq!(browser.post(&client, &cancel, &[]).await.status(), 303);
    })
    .await;
    assert_eq!(answer.status, 400, "{answer:?}");
    let late = browser.get(&client, &format!("{}/complete", begun.base)).await;
    assert_ne!(late.status(), 200);
    assert_eq!(return_session(asks(&browser.begin(&client, &[]).await).await), session);
    assert_eq!(browser.sign_in(&client, "alice", "").await, alice);
    client.stop().await;
}
