//! What the pages say to people of legacy proofs is true, and leaves them a way on.

use crate::account_client::{Begun, Browser, location};
use crate::sign_in_client::APP;
use crate::sign_in_legacy::{
    AFTER_THE_END, ANY, Asked, DAY, NO, YES, asked, attach, command, completed, go_on, page, run_command, sign_in,
    start, start_with_older_credentials, wait,
};

/// The page of a new code, for the proof that is to be attached, is where a person finds out that
/// the authenticator cannot give it.
#[tokio::test]
async fn a_person_goes_on_without_the_new_proof_from_the_page_of_its_code() {
    let client = start().await;
    let mut hers = Browser::default();
    let alice = sign_in(&client, &mut hers, "alice", YES).await;
    wait(&client, DAY);
    let begun = hers.begin(&client, &[]).await;
    let first = hers.get(&client, &begun.base).await.text().await.expect("text");
    assert!(!first.contains("Not now"), "{first}");
    begun.prove(&client, "alice").await;
    let next = go_on(&client, &mut hers, &begun, "attached").await;
    let code = hers.get(&client, &next.base).await.text().await.expect("text");
    assert!(code.contains("value=\"without\"") && code.contains("Not now"), "{code}");
    assert!(!code.contains("I have a sign-in code"), "a legacy proof has said whose account it is: {code}");
    let answer = hers.post(&client, &format!("{}/go-on", next.base), &[("next", "without")]).await;
    assert!(location(&answer).ends_with("/complete"), "{answer:?}");
    assert_eq!(completed(&client, &mut hers, &next, "").await, alice, "the legacy proof counts");
    let begun = hers.begin(&client, &[]).await;
    assert_eq!(asked(&begun).await, Asked::Legacy, "nothing was attached");
    // It is for the proof that is to be attached alone, and after an answer that one counts.
    let answer = hers.post(&client, &format!("{}/go-on", begun.base), &[("next", "without")]).await;
    assert_eq!(answer.status(), 400);
    begun.prove(&client, "alice").await;
    let next = go_on(&client, &mut hers, &begun, "attached").await;
    next.prove(&client, "alice").await;
    let answer = hers.post(&client, &format!("{}/go-on", next.base), &[("next", "without")]).await;
    assert!(location(&answer).ends_with("/complete"), "{answer:?}");
    assert_eq!(completed(&client, &mut hers, &next, YES).await, alice);
    assert_eq!(asked(&hers.begin(&client, &[]).await).await, Asked::Return, "it was attached");
    client.stop().await;
}

#[tokio::test]
async fn a_proof_that_comes_after_the_thirty_days_is_told_as_what_it_is() {
    let client = start().await;
    let (mut hers, mut his) = (Browser::default(), Browser::default());
    let alice = sign_in(&client, &mut hers, "alice", YES).await;
    attach(&client, &mut his, "alice", "thief").await;
    wait(&client, 30 * DAY - 60);
    let begun = hers.begin(&client, &[]).await;
    begun.give_up(&client, "generic_error").await;
    let answer = hers.get(&client, &format!("{}/complete", begun.base)).await;
    let begun = Begun::at(&client, &answer);
    begun.prove(&client, "alice").await;
    assert!(page(&client, &mut hers, &begun).await.contains("That was not me"));
    let next = go_on(&client, &mut hers, &begun, "attached").await;
    assert_eq!(asked(&next).await, ANY);
    wait(&client, 120);
    let reason = next.refused(&client, "alice").await;
    assert!(reason.contains("another current proof belongs to the account for good"), "{reason}");
    let says = page(&client, &mut hers, &next).await;
    for part in ["more than 30 days ago", "tell the people who run this service", "You are signed in without it"] {
        assert!(says.contains(part), "{part}: {says}");
    }
    assert!(!says.contains("belongs to another account than"), "{says}");
    assert_eq!(completed(&client, &mut hers, &next, "?onward=1").await, alice);
    // The operator can still undo it.
    let shown = command(&client, &["account", "link", APP, &alice, "--keep", "none"]).await;
    assert!(shown.contains("current proofs          none"), "{shown}");
    client.stop().await;
}

#[tokio::test]
async fn the_question_about_an_older_credential_says_what_happens_without_an_account() {
    for allows in [false, true] {
        let client = start_with_older_credentials(allows).await;
        for is_after_the_end in [false, true] {
            let mut browser = Browser::default();
            let mut begun = browser.begin(&client, &[]).await;
            if !is_after_the_end {
                begun.give_up(&client, "world_id_3_not_available").await;
                let answer = browser.get(&client, &format!("{}/complete", begun.base)).await;
                begun = Begun::at(&client, &answer);
            }
            let question = browser.get(&client, &format!("{}/older", begun.base)).await.text().await.expect("text");
            let makes = allows && is_after_the_end;
            assert_eq!(question.contains("you get a new one"), makes, "{question}");
            assert_eq!(question.contains("you cannot sign in here with it until then"), !makes, "{question}");
            let last = go_on(&client, &mut browser, &begun, "older").await;
            match makes {
                true => {
                    last.prove(&client, "bob").await;
                    assert_eq!(completed(&client, &mut browser, &last, NO).await.len(), 66);
                }
                false => drop(last.refused(&client, "bob").await),
            }
            if !is_after_the_end {
                wait(&client, AFTER_THE_END);
            }
        }
        client.stop().await;
    }
}

/// A choice of the operator from before a dispute does not end it.
#[tokio::test]
async fn two_persons_proofs_are_chosen_from_only_by_an_operator_who_knows_of_both() {
    let client = start().await;
    let mut hers = Browser::default();
    let alice = sign_in(&client, &mut hers, "alice", YES).await;
    let mut his = Browser::default();
    attach(&client, &mut his, "alice", "thief").await;
    let shown = command(&client, &["account", "show", APP, &alice]).await;
    assert!(!shown.contains("of two persons"), "{shown}");
    // Meanwhile she says that it was not her.
    let begun = hers.begin(&client, &[]).await;
    begun.give_up(&client, "generic_error").await;
    let answer = hers.get(&client, &format!("{}/complete", begun.base)).await;
    let begun = Begun::at(&client, &answer);
    begun.prove(&client, "alice").await;
    let next = go_on(&client, &mut hers, &begun, "attached").await;
    next.prove(&client, "alice").await;
    for keep in ["first", "none"] {
        let (is_success, says) = run_command(&client, &["account", "link", APP, &alice, "--keep", keep]).await;
        assert!(!is_success && says.contains("--of-two"), "{keep}: {says}");
    }
    let shown = command(&client, &["account", "show", APP, &alice]).await;
    assert!(shown.contains("of two persons"), "nothing was dropped: {shown}");
    let chosen = command(&client, &["account", "link", APP, &alice, "--keep", "first", "--of-two"]).await;
    assert!(!chosen.contains("of two persons"), "{chosen}");
    client.stop().await;
}
