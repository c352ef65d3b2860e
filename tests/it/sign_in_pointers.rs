//! What leads to accounts beside a browser's own memory, and the end of all of it.

use std::time::Duration;

use reqwest::header::{ACCEPT, ORIGIN, SET_COOKIE};
use selfsame::config::{RateLimit, TimeSpan};
use selfsame_wallet::sign_in::{Onward, Place};

use crate::account_client::{
    Asks, Begun, Browser, ask_for_accounts, asks, location, return_session, start, start_behind_https,
};
use crate::sign_in_accounts::Proofs;
use crate::sign_in_client::{APP, Form, OTHER_APP, SignInTestClient, current_proof, fragment_or_query};

pub const FORGET_OTHERS: &str = "/session/forget-others";
const MAKE_CODE: &str = "/session/code";
const MAKE_LINK: &str = "/session/link";

pub async fn asks_for_account(client: &SignInTestClient, browser: &mut Browser, app: &str) -> bool {
    matches!(asks(&browser.begin(client, &[("client_id", app)]).await).await, Asks::Return(_))
}

/// Signs `person` in at the other application, in a browser that remembers the account.
pub async fn sign_in_elsewhere(client: &SignInTestClient, browser: &mut Browser, person: &str) {
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

/// A sign-in whose response was never fetched leads its browser to the account, as a pointer does.
#[tokio::test]
async fn a_browser_that_was_not_told_of_its_account_forgets_it_too() {
    let client = start().await;
    let (mut laptop, mut closed) = (Browser::default(), Browser::default());
    let begun = closed.begin(&client, &[]).await;
    begun.answer(&client, "alice").await;
    laptop.sign_in(&client, "alice", "yes").await;
    assert!(asks_for_account(&client, &mut closed.clone(), APP).await);
    laptop.post_account_form(&client, FORGET_OTHERS, APP).await;
    assert!(!asks_for_account(&client, &mut closed.clone(), APP).await);
    // It can still be completed, and the browser does not come to remember the account so.
    closed.get(&client, &format!("{}/complete?remember=yes", begun.base)).await;
    assert!(!closed.remembers());
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

// Sign-in codes.

/// Gets a sign-in code of the account at an application, where the browser is signed in to it.
pub async fn make_code(client: &SignInTestClient, browser: &mut Browser, app: &str) -> String {
    let page = browser.post_account_form(client, MAKE_CODE, app).await;
    assert_eq!(page.status(), 200);
    code_on(&page.text().await.expect("text"))
}

/// The sign-in code that a page shows.
pub fn code_on(page: &str) -> String {
    let code = page.split("sign-in-code\">").nth(1).and_then(|rest| rest.split('<').next());
    code.unwrap_or_else(|| panic!("{page}")).to_owned()
}

/// Types a code on the page of a sign-in.
pub async fn type_code(
    client: &SignInTestClient,
    browser: &mut Browser,
    begun: &Begun,
    code: &str,
) -> reqwest::Response {
    browser.post(client, &format!("{}/code", begun.base), &[("code", code)]).await
}

#[tokio::test]
async fn a_sign_in_code_finds_the_account_and_signs_nobody_in() {
    let client = start().await;
    let mut laptop = Browser::default();
    let alice = laptop.sign_in(&client, "alice", "no").await;
    let code = make_code(&client, &mut laptop, APP).await;
    assert!(code.len() == 19 && code.split('-').all(|group| group.len() == 4), "{code}");

    let mut library = Browser::default();
    let begun = library.begin(&client, &[]).await;
    assert_eq!(asks(&begun).await, Asks::First);
    let page = library.get(&client, &begun.base).await.text().await.expect("text");
    assert!(page.contains("/code\">I have a sign-in code<"), "{page}");
    let form = library.get(&client, &format!("{}/code", begun.base)).await;
    assert_eq!(form.status(), 200);
    assert!(form.text().await.expect("text").contains("name=\"code\""));
    let answer =
        type_code(&client, &mut library, &begun, &format!(" {} ", code.replace('-', " ").to_uppercase())).await;
    let found = Begun::at(&client, &answer);
    assert!(matches!(asks(&found).await, Asks::Return(_)));
    // One request of the application gets one answer: the sign-in that it replaces is over.
    let replaced = library.get(&client, &format!("{}/complete", begun.base)).await;
    assert_eq!(replaced.status(), 404);
    // Another person cannot answer with the code, and the browser is asked as ever.
    let opened = found.open().await;
    let unbound = Proofs { client: &client, person: "bob" }.unbound(&opened).await;
    assert_eq!(found.post(&client, &unbound).await.status, 400);
    found.answer(&client, "alice").await;
    let page = library.get(&client, &format!("{}/complete", found.base)).await.text().await.expect("text");
    assert!(page.contains("remember=no"), "{page}");
    assert_eq!(library.complete(&client, &found, "?remember=no").await, alice);
    assert!(!asks_for_account(&client, &mut library, APP).await, "the code is no cookie");
    client.stop().await;
}

#[tokio::test]
async fn a_wrong_sign_in_code_says_what_is_wrong_with_it() {
    let client = start_behind_https().await;
    let mut laptop = Browser::default();
    laptop.sign_in(&client, "alice", "no").await;
    sign_in_elsewhere(&client, &mut laptop, "alice").await;
    let (code, of_other) =
        (make_code(&client, &mut laptop, APP).await, make_code(&client, &mut laptop, OTHER_APP).await);
    let mut library = Browser::default();
    let begun = library.begin(&client, &[]).await;
    let another = if code.starts_with('a') { "b" } else { "a" };
    let (malformed, unknown) = ("16 characters", "finds no account");
    for (what, typed, text) in [
        ("nothing", String::new(), malformed),
        ("a letter less", code[1..].to_owned(), malformed),
        ("a digit that no code has", format!("1{}", &code[1..]), malformed),
        ("markup", "<b>\"".to_owned(), malformed),
        ("another letter", format!("{another}{}", &code[1..]), unknown),
        ("a code of another application", of_other, unknown),
    ] {
        let page = type_code(&client, &mut library, &begun, &typed).await;
        assert_eq!(page.status(), 400, "{what}");
        let page = page.text().await.expect("text");
        assert!(page.contains(text) && page.contains("aria-invalid") && !page.contains("<b>"), "{what}: {page}");
    }
    // The sign-in waits as before, and another site's form does not count.
    let posted = client.http.post(format!("{}/code", begun.base)).header("Cookie", library.cookies());
    let posted = posted.header(ORIGIN, "https://elsewhere.example").form(&[("code", &code)]).send().await;
    assert_eq!(posted.expect("an answer").status(), 400);
    let elsewhere = Browser::default().get(&client, &format!("{}/code", begun.base)).await;
    assert_eq!(elsewhere.status(), 404, "the browser in which it did not begin");
    assert_eq!(asks(&begun).await, Asks::First);

    // Where the application expects one person, it asks for that account already.
    let mut hinted = Browser::default();
    let tokens = laptop.begin(&client, &[]).await;
    tokens.answer(&client, "alice").await;
    let answer = laptop.get(&client, &format!("{}/complete?remember=no", tokens.base)).await;
    let tokens = client.exchange(&fragment_or_query(location(&answer))["code"]).await;
    let begun = hinted.begin(&client, &[("id_token_hint", tokens.text("id_token"))]).await;
    let page = hinted.get(&client, &begun.base).await.text().await.expect("text");
    assert!(!page.contains("/code\""), "{page}");
    assert_eq!(type_code(&client, &mut hinted, &begun, &code).await.status(), 400);
    assert!(matches!(asks(&begun).await, Asks::Return(_)));
    client.stop().await;
}

#[tokio::test]
async fn sign_in_codes_are_good_until_all_others_are_made_to_forget() {
    let client = start().await;
    let mut laptop = Browser::default();
    laptop.sign_in(&client, "alice", "yes").await;
    let mut tabs = [(); 3].map(|()| laptop.clone());
    let codes = futures_util::future::join_all(tabs.iter_mut().map(|tab| make_code(&client, tab, APP))).await;
    client.daemon.clock.advance(Duration::from_secs(10 * 365 * 24 * 3600));
    for code in &codes {
        let mut library = Browser::default();
        let begun = library.begin(&client, &[]).await;
        let answer = type_code(&client, &mut library, &begun, code).await;
        assert!(matches!(asks(&Begun::at(&client, &answer)).await, Asks::Return(_)), "after ten years");
    }
    laptop.sign_in(&client, "alice", "yes").await;
    laptop.post_account_form(&client, FORGET_OTHERS, APP).await;
    let after = make_code(&client, &mut laptop, APP).await;
    for (code, expected) in codes.iter().map(|code| (code, 400)).chain([(&after, 303)]) {
        let mut library = Browser::default();
        let begun = library.begin(&client, &[]).await;
        assert_eq!(type_code(&client, &mut library, &begun, code).await.status(), expected);
    }
    client.stop().await;
}

/// Where the authenticator does not give its proof of uniqueness, the code is the way in.
#[tokio::test]
async fn a_sign_in_code_helps_where_the_authenticator_gave_no_proof() {
    let client = start().await;
    let mut laptop = Browser::default();
    let alice = laptop.sign_in(&client, "alice", "no").await;
    let code = make_code(&client, &mut laptop, APP).await;
    let mut library = Browser::default();
    let begun = library.begin(&client, &[]).await;
    let unbound = Proofs { client: &client, person: "alice" }.unbound(&begun.open().await).await;
    assert_eq!(begun.post(&client, &unbound).await.status, 400);
    let page = library.get(&client, &format!("{}/complete", begun.base)).await.text().await.expect("text");
    assert!(page.contains("/code\">I have a sign-in code<"), "{page}");
    let answer = type_code(&client, &mut library, &begun, &code).await;
    let found = Begun::at(&client, &answer);
    found.answer(&client, "alice").await;
    assert_eq!(library.complete(&client, &found, "?remember=no").await, alice);
    client.stop().await;
}

#[tokio::test]
async fn wrong_sign_in_codes_are_counted_as_guesses() {
    let client = SignInTestClient::start_with_keys(|config| {
        ask_for_accounts(config);
        config.limits.sign_ins_per_source = Some(RateLimit { requests: 20, window: TimeSpan::from_secs(3600) });
    })
    .await;
    let mut browser = Browser::default();
    let begun = browser.begin(&client, &[]).await;
    let mut statuses = Vec::new();
    for number in 0..12 {
        let digit = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"][number];
        statuses.push(type_code(&client, &mut browser, &begun, &digit.repeat(16)).await.status().as_u16());
    }
    // Each counts as a form, and as a guess.
    let (wrong, limited) = statuses.split_at(9);
    assert_eq!((wrong, limited), (&[400; 9][..], &[429; 3][..]), "{statuses:?}");
    client.stop().await;
}

// Links for another device.

/// Gets a link to the account at an application, where the browser is signed in to it. Its host is
/// that of the test.
pub async fn make_link(client: &SignInTestClient, browser: &mut Browser, app: &str) -> String {
    let page = browser.post_account_form(client, MAKE_LINK, app).await;
    assert_eq!(page.status(), 200);
    let page = page.text().await.expect("text");
    assert!(page.contains("<svg"), "its code for a camera: {page}");
    client.daemon.sign_in(&link_on(&page))
}

/// The path of the link that a page shows.
pub fn link_on(page: &str) -> String {
    let link = page.split("id=\"address\">").nth(1).and_then(|rest| rest.split('<').next());
    let link = link.unwrap_or_else(|| panic!("{page}"));
    let secret = link.rsplit('/').next().expect("a secret");
    assert_eq!(secret.len(), 43, "{link}");
    format!("/session/link/{secret}")
}

#[tokio::test]
async fn a_link_makes_one_other_browser_remember_the_account_once() {
    let client = start_behind_https().await;
    let (mut laptop, mut phone) = (Browser::default(), Browser::default());
    let alice = laptop.sign_in(&client, "alice", "no").await;
    sign_in_elsewhere(&client, &mut phone, "alice").await;
    let link = make_link(&client, &mut laptop, APP).await;

    // A look changes nothing, and a fetch ahead gets nothing.
    for _ in 0..2 {
        let page = phone.get(&client, &link).await;
        assert_eq!((page.status().as_u16(), page.headers().get(SET_COOKIE)), (200, None));
        assert_eq!(page.headers()["cache-control"], "no-store");
        let page = page.text().await.expect("text");
        assert!(page.contains("Go on only if you asked for this link yourself"), "{page}");
    }
    for request in [client.http.get(&link), client.http.post(&link)] {
        let ahead = request.header("Sec-Purpose", "prefetch;prerender").header("Cookie", phone.cookies());
        assert_eq!(ahead.send().await.expect("an answer").status(), 503);
    }
    let elsewhere = client.http.post(&link).header(ORIGIN, "https://elsewhere.example").send().await;
    let elsewhere = elsewhere.expect("an answer");
    assert_eq!((elsewhere.status().as_u16(), elsewhere.headers().get(SET_COOKIE)), (200, None), "it asks again");

    let before = phone.cookies["__Host-selfsame_accounts"].clone();
    let page = phone.post(&client, &link, &[]).await;
    assert_eq!(page.status(), 200);
    assert!(page.text().await.expect("text").contains("You are not signed in yet"));
    assert_eq!(phone.cookies["__Host-selfsame_accounts"], before, "beside what the browser remembered");
    let at_phone = phone.session_forms(&client).await;
    assert!(at_phone.iter().all(|(_, fields)| fields.get("application").is_none_or(|app| app != APP)), "{at_phone:?}");
    for app in [APP, OTHER_APP] {
        assert!(asks_for_account(&client, &mut phone, app).await, "{app}");
    }
    let begun = phone.begin(&client, &[]).await;
    begun.answer(&client, "alice").await;
    assert_eq!(phone.complete(&client, &begun, "").await, alice, "it is not asked whether it is the person's own");

    let mut late = Browser::default();
    for page in [late.get(&client, &link).await, late.post(&client, &link, &[]).await] {
        assert_eq!(page.status(), 410);
        assert!(page.text().await.expect("text").contains("This link is used up"));
    }
    assert!(!late.remembers());
    client.stop().await;
}

#[tokio::test]
async fn a_link_is_good_for_five_minutes_and_until_all_others_are_made_to_forget() {
    let client = start().await;
    let mut laptop = Browser::default();
    laptop.sign_in(&client, "alice", "no").await;
    let forgotten = make_link(&client, &mut laptop, APP).await;
    laptop.post_account_form(&client, FORGET_OTHERS, APP).await;
    let (first, second) = (make_link(&client, &mut laptop, APP).await, make_link(&client, &mut laptop, APP).await);
    let mut phone = Browser::default();
    assert_eq!(phone.post(&client, &forgotten, &[]).await.status(), 410, "all others were made to forget");
    client.daemon.clock.advance(Duration::from_secs(299));
    assert_eq!(phone.post(&client, &first, &[]).await.status(), 200);
    client.daemon.clock.advance(Duration::from_secs(1));
    let page = phone.post(&client, &second, &[]).await;
    assert_eq!(page.status(), 410);
    assert!(page.text().await.expect("text").contains("no longer valid"));
    let unknown = phone.get(&client, &client.daemon.sign_in(&format!("/session/link/{}", "a".repeat(43)))).await;
    assert_eq!(unknown.status(), 404);
    client.stop().await;
}

#[tokio::test]
async fn racing_browsers_use_a_link_once() {
    let client = start().await;
    let mut laptop = Browser::default();
    laptop.sign_in(&client, "alice", "no").await;
    let link = make_link(&client, &mut laptop, APP).await;
    let mut browsers = [(); 6].map(|()| Browser::default());
    let posts = browsers.iter_mut().map(|browser| browser.post(&client, &link, &[]));
    let mut statuses: Vec<_> =
        futures_util::future::join_all(posts).await.iter().map(|page| page.status().as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 410, 410, 410, 410, 410]);
    assert_eq!(browsers.iter().filter(|browser| browser.remembers()).count(), 1);
    client.stop().await;
}

/// Over plain HTTP another site can plant the cookie of its own browser.
#[tokio::test]
async fn a_planted_pointer_gets_nothing_from_a_link() {
    let client = start().await;
    let (mut mallory, mut laptop, mut phone) = (Browser::default(), Browser::default(), Browser::default());
    mallory.sign_in(&client, "mallory", "yes").await;
    laptop.sign_in(&client, "alice", "no").await;
    let planted = mallory.cookies["selfsame_accounts"].clone();
    phone.cookies.insert("selfsame_accounts".to_owned(), planted.clone());
    let link = make_link(&client, &mut laptop, APP).await;
    phone.post(&client, &link, &[]).await;
    assert_ne!(phone.cookies["selfsame_accounts"], planted);
    let asked = |begun| async move { return_session(asks(&begun).await) };
    let (of_phone, of_mallory) = (phone.begin(&client, &[]).await, mallory.begin(&client, &[]).await);
    assert_ne!(asked(of_phone).await, asked(of_mallory).await);
    client.stop().await;
}

#[tokio::test]
async fn a_pointer_alone_gets_neither_codes_nor_links() {
    let client = start().await;
    let mut laptop = Browser::default();
    laptop.sign_in(&client, "alice", "yes").await;
    let fields = laptop.account_form(&client, MAKE_LINK, APP).await;
    let form = [("confirmation", &*fields["confirmation"]), ("application", APP)];
    let mut pointer_alone = laptop.clone();
    pointer_alone.cookies.retain(|name, _| name.ends_with("selfsame_accounts"));
    for path in [MAKE_CODE, MAKE_LINK] {
        let url = client.daemon.sign_in(path);
        let page = pointer_alone.post(&client, &url, &form).await.text().await.expect("text");
        assert!(!page.contains("sign-in-code") && !page.contains("/session/link/"), "{path}: {page}");
        let page = laptop.post(&client, &url, &form[1..]).await.text().await.expect("text");
        assert!(!page.contains("class=\"address"), "{path}: {page}");
    }
    client.stop().await;
}
