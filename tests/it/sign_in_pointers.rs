//! What leads to accounts beside a browser's own memory, and the end of all of it.

use std::time::Duration;

use reqwest::header::{ACCEPT, ORIGIN};
use selfsame_wallet::sign_in::{Onward, Place};

use crate::account_client::{Asks, Begun, Browser, asks, location, start, start_behind_https};
use crate::sign_in_client::{APP, Form, OTHER_APP, SignInTestClient, current_proof, fragment_or_query};

const FORGET_OTHERS: &str = "/session/forget-others";

async fn asks_for_account(client: &SignInTestClient, browser: &mut Browser, app: &str) -> bool {
    matches!(asks(&browser.begin(client, &[("client_id", app)]).await).await, Asks::Return(_))
}

/// Signs `person` in at the other application, in a browser that remembers the account.
async fn sign_in_elsewhere(client: &SignInTestClient, browser: &mut Browser, person: &str) {
    let begun = browser.begin(client, &[("client_id", OTHER_APP)]).await;
    begun.answer(client, person).await;
    let answer = browser.get(client, &format!("{}/complete?remember=yes", begun.base)).await;
    assert!(fragment_or_query(location(&answer)).contains_key("code"));
}

// "Make all others forget this account".

#[tokio::test]
async fn a_person_makes_all_other_browsers_forget_an_account() {
    let client = start_behind_https().await;
    let (mut laptop, mut phone, mut bobs) = (Browser::default(), Browser::default(), Browser::default());
    let alice = phone.sign_in(&client, "alice", "yes").await;
    sign_in_elsewhere(&client, &mut phone, "alice").await;
    laptop.sign_in(&client, "alice", "yes").await;
    sign_in_elsewhere(&client, &mut laptop, "alice").await;
    bobs.sign_in(&client, "bob", "yes").await;
    let copy = laptop.clone();
    let begun = phone.begin(&client, &[]).await;
    assert!(matches!(asks(&begun).await, Asks::Return(_)));

    let page = laptop.post_account_form(&client, FORGET_OTHERS, APP).await;
    assert_eq!(page.status(), 200);
    let page = page.text().await.expect("text");
    assert!(page.contains("have forgotten your account"), "{page}");
    // The one that asked goes on, as does everything else.
    for (browser, app, expected) in [
        (&laptop, APP, true),
        (&laptop, OTHER_APP, true),
        (&phone, APP, false),
        (&phone, OTHER_APP, true),
        (&bobs, APP, true),
        // The browser has one secret for its accounts.
        (&copy, APP, true),
    ] {
        assert_eq!(asks_for_account(&client, &mut browser.clone(), app).await, expected, "{app}");
    }
    // A sign-in that was under way takes its answer, which shows the person. Its browser is asked
    // again whether it is the person's own.
    begun.answer(&client, "alice").await;
    let page = phone.get(&client, &format!("{}/complete", begun.base)).await;
    assert_eq!(page.status(), 200);
    assert!(page.text().await.expect("text").contains("remember=yes"));
    assert_eq!(phone.complete(&client, &begun, "?remember=yes").await, alice);
    assert!(asks_for_account(&client, &mut phone, APP).await, "the person has said so");
    client.stop().await;
}

/// A sign-in that began before and is begun anew is a later one.
#[tokio::test]
async fn a_sign_in_that_is_begun_anew_does_not_outlast_its_pointer() {
    let client = start().await;
    let (mut laptop, mut phone) = (Browser::default(), Browser::default());
    phone.sign_in(&client, "alice", "yes").await;
    laptop.sign_in(&client, "alice", "yes").await;
    let begun = phone.begin(&client, &[]).await;
    assert!(matches!(asks(&begun).await, Asks::Return(_)));
    laptop.post_account_form(&client, FORGET_OTHERS, APP).await;
    client.daemon.clock.advance(Duration::from_secs(301));
    let answer = phone.post(&client, &format!("{}/new-code", begun.base), &[]).await;
    assert_eq!(asks(&Begun::at(&client, &answer)).await, Asks::First);
    client.stop().await;
}

#[tokio::test]
async fn only_a_fresh_sign_in_of_this_browser_makes_others_forget() {
    let client = start().await;
    let (mut laptop, mut phone) = (Browser::default(), Browser::default());
    phone.sign_in(&client, "alice", "yes").await;
    laptop.sign_in(&client, "alice", "yes").await;
    let url = client.daemon.sign_in(FORGET_OTHERS);
    let fields = laptop.account_form(&client, FORGET_OTHERS, APP).await;
    let confirmation = &*fields["confirmation"];
    let good = [("confirmation", confirmation), ("application", APP)];

    let mut pointer_alone = laptop.clone();
    pointer_alone.cookies.retain(|name, _| name.ends_with("selfsame_accounts"));
    assert!(pointer_alone.session_forms(&client).await.iter().all(|(action, _)| action != FORGET_OTHERS));
    let mut of_bob = Browser::default();
    of_bob.sign_in(&client, "bob", "yes").await;
    for (what, browser, form) in [
        ("a pointer alone", &mut pointer_alone, &good[..]),
        ("another session", &mut of_bob, &good),
        ("no confirmation", &mut laptop.clone(), &good[1..]),
        ("another confirmation", &mut laptop.clone(), &[("confirmation", "x"), ("application", APP)]),
        ("no application", &mut laptop.clone(), &good[..1]),
        ("another application", &mut laptop.clone(), &[good[0], ("application", OTHER_APP)]),
    ] {
        let page = browser.post(&client, &url, form).await;
        assert_eq!(page.status(), 200, "{what}");
        assert!(asks_for_account(&client, &mut phone.clone(), APP).await, "{what}");
    }
    let elsewhere = client.http.post(&url).header(ACCEPT, "text/html").header("Cookie", laptop.cookies());
    let page = elsewhere.header(ORIGIN, "https://elsewhere.example").form(&good).send().await.expect("an answer");
    assert_eq!(page.status(), 200);
    let fetched = client.http.post(&url).header("Sec-Purpose", "prefetch").header("Cookie", laptop.cookies());
    assert_eq!(fetched.form(&good).send().await.expect("an answer").status(), 503);
    client.daemon.clock.advance(Duration::from_secs(3600));
    assert!(laptop.session_forms(&client).await.iter().all(|(action, _)| action != FORGET_OTHERS), "no button");
    laptop.post(&client, &url, &good).await;
    assert!(asks_for_account(&client, &mut phone.clone(), APP).await, "an old session");

    laptop.sign_in(&client, "alice", "no").await;
    laptop.post_account_form(&client, FORGET_OTHERS, APP).await;
    assert!(!asks_for_account(&client, &mut phone, APP).await);
    client.stop().await;
}

#[tokio::test]
async fn racing_requests_to_forget_leave_the_browser_its_account() {
    let client = start().await;
    let mut laptop = Browser::default();
    laptop.sign_in(&client, "alice", "yes").await;
    let mut tabs = [(); 4].map(|()| laptop.clone());
    futures_util::future::join_all(tabs.iter_mut().map(|tab| tab.post_account_form(&client, FORGET_OTHERS, APP))).await;
    assert!(asks_for_account(&client, &mut laptop, APP).await);
    client.stop().await;
}

/// Over plain HTTP another site can plant the cookie of a browser whose pointer was good once.
#[tokio::test]
async fn a_forgotten_pointer_does_not_come_to_know_the_account_again() {
    let client = start().await;
    let (mut laptop, mut lost) = (Browser::default(), Browser::default());
    lost.sign_in(&client, "alice", "yes").await;
    laptop.sign_in(&client, "alice", "yes").await;
    laptop.post_account_form(&client, FORGET_OTHERS, APP).await;
    let planted = lost.cookies["selfsame_accounts"].clone();
    let mut fresh = Browser::default();
    fresh.cookies.insert("selfsame_accounts".to_owned(), planted.clone());
    fresh.sign_in(&client, "alice", "yes").await;
    assert_ne!(fresh.cookies["selfsame_accounts"], planted);
    assert!(!asks_for_account(&client, &mut lost, APP).await);
    client.stop().await;
}

#[tokio::test]
async fn a_person_whose_account_is_found_is_offered_that_all_others_forget_it() {
    let client = start().await;
    let mut old = Browser::default();
    let begun = old.begin(&client, &[]).await;
    begun.answer(&client, "alice").await;
    let complete = |begun: &Begun| format!("{}/complete", begun.base);
    let first = old.get(&client, &complete(&begun)).await.text().await.expect("text");
    assert!(first.contains("remember=yes") && !first.contains("remember=only"), "a new account: {first}");
    let alice = old.complete(&client, &begun, "?remember=yes").await;

    let mut new = Browser::default();
    let begun = new.begin(&client, &[]).await;
    begun.answer(&client, "alice").await;
    let page = new.get(&client, &complete(&begun)).await.text().await.expect("text");
    assert!(page.contains("remember=only"), "{page}");
    // A link of another site does not answer in the person's place.
    let only = format!("{}?remember=only", complete(&begun));
    let elsewhere = client.http.get(&only).header(ACCEPT, "text/html").header("Cookie", new.cookies());
    let page = elsewhere.header("Sec-Fetch-Site", "cross-site").send().await.expect("an answer");
    assert_eq!(page.status(), 200);
    assert!(asks_for_account(&client, &mut old.clone(), APP).await);
    assert_eq!(new.complete(&client, &begun, "?remember=only").await, alice);
    assert!(!asks_for_account(&client, &mut old, APP).await);
    assert!(asks_for_account(&client, &mut new, APP).await);

    // The same after an answer from the new phone itself.
    let mut phone = Browser::default();
    let begun = phone.begin(&client, &[]).await;
    let opened = begun.open().await;
    let proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &opened, "alice").await;
    let onward = opened.answer_from(opened.request(), &proof, Place::Here).await.expect("accepted");
    let Onward::Open(return_url) = onward else { panic!("{onward:?}") };
    let query = return_url.split_once('?').expect("a query").1.to_owned();
    let page = phone.get(&client, &format!("{}?{query}", complete(&begun))).await;
    assert_eq!(page.status(), 200);
    let page = page.text().await.expect("text");
    assert!(page.contains(&format!("{query}&amp;remember=only")) && !page.contains("remember=no"), "{page}");
    assert_eq!(phone.complete(&client, &begun, &format!("?{query}&remember=only")).await, alice);
    assert!(!asks_for_account(&client, &mut new, APP).await);
    assert!(asks_for_account(&client, &mut phone, APP).await);
    client.stop().await;
}
