//! Passkeys that lead to accounts. What a browser keeps of one is its user handle, which it gets on
//! `/session`, and which the page of a sign-in posts.

use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, ORIGIN};
use selfsame::config::{RateLimit, TimeSpan};
use selfsame_interfaces::interface::Interface;
use serde_json::Value;

use crate::account_client::{Asks, Begun, Browser, ask_for_accounts, asks, location, start, start_behind_https};
use crate::sign_in_accounts::Proofs;
use crate::sign_in_client::{APP, Form, OTHER_APP, SignInTestClient, fragment_or_query};
use crate::sign_in_legacy::{Asked, NO, asked, attach, completed, sign_in, with_history};
use crate::sign_in_pointers::{FORGET_OTHERS, asks_for_account, sign_in_elsewhere};

pub const MAKE_PASSKEY: &str = "/session/passkey";

/// The value of an attribute of a page.
fn attribute<'p>(page: &'p str, name: &str) -> Option<&'p str> {
    page.split(&format!(" {name}=\"")).nth(1)?.split('"').next()
}

fn permissions(headers: &HeaderMap) -> &str {
    headers["permissions-policy"].to_str().expect("text")
}

/// Makes a passkey of the account at an application, where the browser is signed in to it: the
/// handle that the browser keeps.
async fn make_passkey(client: &SignInTestClient, browser: &mut Browser, app: &str) -> String {
    let page = browser.post_account_form(client, MAKE_PASSKEY, app).await;
    assert_eq!(
        (page.status().as_u16(), &page.headers()["cache-control"]),
        (200, &"no-store".parse().expect("a value"))
    );
    assert_eq!(permissions(page.headers()), "publickey-credentials-create=(self), publickey-credentials-get=()");
    handle_on(&page.text().await.expect("text"))
}

/// The handle on the page that makes a passkey.
pub fn handle_on(page: &str) -> String {
    let handle = attribute(page, "data-handle").unwrap_or_else(|| panic!("{page}"));
    assert_eq!((handle.len(), attribute(page, "data-domain")), (43, Some("id.example")), "{page}");
    handle.to_owned()
}

/// Uses a passkey with this handle on the page of a sign-in.
async fn use_passkey(
    client: &SignInTestClient,
    browser: &mut Browser,
    begun: &Begun,
    handle: &str,
) -> reqwest::Response {
    browser.post(client, &format!("{}/passkey", begun.base), &[("handle", handle)]).await
}

#[tokio::test]
async fn a_passkey_finds_the_account_and_signs_nobody_in() {
    let client = start_behind_https().await;
    let mut laptop = Browser::default();
    let alice = laptop.sign_in(&client, "alice", "no").await;
    let handle = make_passkey(&client, &mut laptop, APP).await;

    let mut library = Browser::default();
    let begun = library.begin(&client, &[]).await;
    assert_eq!(asks(&begun).await, Asks::First);
    let page = library.get(&client, &begun.base).await;
    assert_eq!(permissions(page.headers()), "publickey-credentials-create=(), publickey-credentials-get=(self)");
    let page = page.text().await.expect("text");
    let path = begun.base.strip_prefix(&client.issuer()).expect("a path");
    assert_eq!(attribute(&page, "data-domain"), Some("id.example"), "{page}");
    assert!(page.contains(&format!("action=\"{path}/passkey\" hidden")), "only a script shows it: {page}");
    let code_page = library.get(&client, &format!("{}/code", begun.base)).await.text().await.expect("text");
    assert!(code_page.contains(&format!("action=\"{path}/passkey\" hidden")), "{code_page}");

    let answer = use_passkey(&client, &mut library, &begun, &handle).await;
    assert!(!location(&answer).contains(&handle));
    let found = Begun::at(&client, &answer);
    assert!(matches!(asks(&found).await, Asks::Return(_)));
    let replaced = library.get(&client, &format!("{}/complete", begun.base)).await;
    assert_eq!(replaced.status(), 404, "one request of the application gets one answer");
    // Another person cannot answer with the passkey, and the browser is asked as ever.
    let unbound = Proofs { client: &client, person: "bob" }.unbound(&found.open().await).await;
    assert_eq!(found.post(&client, &unbound).await.status, 400);
    found.answer(&client, "alice").await;
    let page = library.get(&client, &format!("{}/complete", found.base)).await.text().await.expect("text");
    assert!(page.contains("remember=no"), "{page}");
    assert_eq!(library.complete(&client, &found, "?remember=no").await, alice);
    assert!(!asks_for_account(&client, &mut library, APP).await, "the passkey is no cookie");
    client.stop().await;
}

#[tokio::test]
async fn a_passkey_that_is_made_again_has_the_same_handle() {
    let client = start_behind_https().await;
    let (mut laptop, mut phone, mut bobs) = (Browser::default(), Browser::default(), Browser::default());
    laptop.sign_in(&client, "alice", "no").await;
    let handle = make_passkey(&client, &mut laptop, APP).await;
    phone.sign_in(&client, "alice", "no").await;
    client.daemon.clock.advance(Duration::from_secs(3600));
    assert_eq!(make_passkey(&client, &mut phone, APP).await, handle, "in another browser, and an hour later");
    bobs.sign_in(&client, "bob", "no").await;
    assert_ne!(make_passkey(&client, &mut bobs, APP).await, handle);
    sign_in_elsewhere(&client, &mut laptop, "alice").await;
    assert_ne!(make_passkey(&client, &mut laptop, OTHER_APP).await, handle);
    client.stop().await;
}

#[tokio::test]
async fn a_wrong_passkey_leads_to_no_account() {
    let client = start_behind_https().await;
    let mut laptop = Browser::default();
    laptop.sign_in(&client, "alice", "no").await;
    sign_in_elsewhere(&client, &mut laptop, "alice").await;
    let handle = make_passkey(&client, &mut laptop, APP).await;
    let of_other = make_passkey(&client, &mut laptop, OTHER_APP).await;
    let mut library = Browser::default();
    let begun = library.begin(&client, &[]).await;
    let with = |index: usize| {
        let other = if handle[index..].starts_with('A') { "B" } else { "A" };
        format!("{}{other}{}", &handle[..index], &handle[index + 1..])
    };
    for (what, given) in [
        ("nothing", String::new()),
        ("markup", "<b>\"".to_owned()),
        ("a letter less", handle[1..].to_owned()),
        ("very long", "A".repeat(10_000)),
        ("another account's id", with(0)),
        ("another code", with(40)),
        ("the id alone", format!("{}{}", &handle[..22], "A".repeat(21))),
        ("a passkey of another application", of_other),
    ] {
        let page = use_passkey(&client, &mut library, &begun, &given).await;
        assert_eq!(page.status(), 400, "{what}");
        let page = page.text().await.expect("text");
        let told = page.contains("role=\"alert\">This passkey leads to no account at Example");
        assert!(told && !page.contains("aria-invalid") && !page.contains("<b>"), "{what}: {page}");
        assert!(given.is_empty() || !page.contains(&given), "{what}: {page}");
    }
    // The sign-in waits as before, and another site's form does not count.
    let url = format!("{}/passkey", begun.base);
    let posted = client.http.post(&url).header("Cookie", library.cookies());
    let posted = posted.header(ORIGIN, "https://elsewhere.example").form(&[("handle", &handle)]).send().await;
    assert_eq!(posted.expect("an answer").status(), 400);
    let elsewhere = use_passkey(&client, &mut Browser::default(), &begun, &handle).await;
    assert_eq!(elsewhere.status(), 404, "the browser in which it did not begin");
    assert_eq!(asks(&begun).await, Asks::First);

    // A program is told the same.
    let program = |handle: String| {
        let posted = client.http.post(&url).header(ACCEPT, "application/json").header("Cookie", library.cookies());
        async move { posted.form(&[("handle", &handle)]).send().await.expect("an answer") }
    };
    let refused = program(with(40)).await;
    assert_eq!(refused.status(), 400);
    let refused: Value = refused.json().await.expect("JSON");
    assert_eq!((&refused["code"], &refused["attribute"]), (&"invalid_request".into(), &"handle".into()), "{refused}");
    let taken: Value = program(handle.clone()).await.json().await.expect("JSON");
    assert!(taken["location"].as_str().is_some_and(|path| path.starts_with("/authorize/")), "{taken}");

    // Where the application expects one person, it asks for that account already.
    let tokens = laptop.begin(&client, &[]).await;
    tokens.answer(&client, "alice").await;
    let answer = laptop.get(&client, &format!("{}/complete?remember=no", tokens.base)).await;
    let tokens = client.exchange(&fragment_or_query(location(&answer))["code"]).await;
    let mut hinted = Browser::default();
    let begun = hinted.begin(&client, &[("id_token_hint", tokens.text("id_token"))]).await;
    let page = hinted.get(&client, &begun.base).await;
    assert_eq!(permissions(page.headers()), "publickey-credentials-create=(), publickey-credentials-get=()");
    assert!(!page.text().await.expect("text").contains("/passkey\""));
    assert_eq!(use_passkey(&client, &mut hinted, &begun, &handle).await.status(), 400);
    client.stop().await;
}

#[tokio::test]
async fn a_passkey_is_good_until_all_others_are_made_to_forget() {
    let client = start_behind_https().await;
    let mut laptop = Browser::default();
    laptop.sign_in(&client, "alice", "yes").await;
    let before = make_passkey(&client, &mut laptop, APP).await;
    client.daemon.clock.advance(Duration::from_secs(10 * 365 * 24 * 3600));
    let mut library = Browser::default();
    let begun = library.begin(&client, &[]).await;
    let answer = use_passkey(&client, &mut library, &begun, &before).await;
    assert!(matches!(asks(&Begun::at(&client, &answer)).await, Asks::Return(_)), "after ten years");
    laptop.sign_in(&client, "alice", "yes").await;
    let page = laptop.post_account_form(&client, FORGET_OTHERS, APP).await.text().await.expect("text");
    assert!(page.contains("passkeys and links have forgotten your account"), "{page}");
    let after = make_passkey(&client, &mut laptop, APP).await;
    assert_eq!(before[..21], after[..21], "it names the same account");
    for (handle, expected) in [(&before, 400), (&after, 303)] {
        let mut library = Browser::default();
        let begun = library.begin(&client, &[]).await;
        assert_eq!(use_passkey(&client, &mut library, &begun, handle).await.status(), expected);
    }
    client.stop().await;
}

/// Where the authenticator does not give its proof of uniqueness, the passkey is the way in.
#[tokio::test]
async fn a_passkey_helps_where_the_authenticator_gave_no_proof() {
    let client = start_behind_https().await;
    let mut laptop = Browser::default();
    let alice = laptop.sign_in(&client, "alice", "no").await;
    let handle = make_passkey(&client, &mut laptop, APP).await;
    let mut library = Browser::default();
    let begun = library.begin(&client, &[]).await;
    let unbound = Proofs { client: &client, person: "alice" }.unbound(&begun.open().await).await;
    assert_eq!(begun.post(&client, &unbound).await.status, 400);
    let page = library.get(&client, &format!("{}/complete", begun.base)).await;
    assert_eq!(permissions(page.headers()), "publickey-credentials-create=(), publickey-credentials-get=(self)");
    assert!(page.text().await.expect("text").contains("/passkey\" hidden"));
    let answer = use_passkey(&client, &mut library, &begun, &handle).await;
    let found = Begun::at(&client, &answer);
    found.answer(&client, "alice").await;
    assert_eq!(library.complete(&client, &found, "?remember=no").await, alice);
    client.stop().await;
}

/// An account of legacy proofs alone has no session to ask for a proof in, and the same passkey
/// leads to it when it has one.
#[tokio::test]
async fn a_passkey_of_legacy_proofs_alone_asks_for_one_of_them() {
    let client = SignInTestClient::start_with_keys(|config| {
        with_history(config);
        config.urls[Interface::SignIn] = Some("https://id.example".to_owned());
    })
    .await;
    let mut laptop = Browser::default();
    let alice = sign_in(&client, &mut laptop, "alice", NO).await;
    let handle = make_passkey(&client, &mut laptop, APP).await;
    let mut library = Browser::default();
    let begun = library.begin(&client, &[]).await;
    let found = Begun::at(&client, &use_passkey(&client, &mut library, &begun, &handle).await);
    assert_eq!(asked(&found).await, Asked::Legacy);
    found.prove(&client, "alice").await;
    assert_eq!(completed(&client, &mut library, &found, NO).await, alice);

    assert_eq!(attach(&client, &mut laptop, "alice", "alice").await, alice);
    assert_eq!(make_passkey(&client, &mut laptop, APP).await, handle);
    let mut hotel = Browser::default();
    let begun = hotel.begin(&client, &[]).await;
    let found = Begun::at(&client, &use_passkey(&client, &mut hotel, &begun, &handle).await);
    assert_eq!(asked(&found).await, Asked::Return);
    client.stop().await;
}

#[tokio::test]
async fn only_a_browser_that_is_signed_in_makes_a_passkey() {
    let client = start_behind_https().await;
    let (mut laptop, mut of_bob) = (Browser::default(), Browser::default());
    laptop.sign_in(&client, "alice", "yes").await;
    of_bob.sign_in(&client, "bob", "yes").await;
    let fields = laptop.account_form(&client, MAKE_PASSKEY, APP).await;
    let url = client.daemon.sign_in(MAKE_PASSKEY);
    let good = [("confirmation", &*fields["confirmation"]), ("application", APP)];
    let mut pointer_alone = laptop.clone();
    pointer_alone.cookies.retain(|name, _| name.ends_with("selfsame_accounts"));
    for (what, browser, form) in [
        ("no session", &mut Browser::default(), &good[..]),
        ("a pointer alone", &mut pointer_alone, &good),
        ("another session", &mut of_bob, &good),
        ("no confirmation", &mut laptop.clone(), &good[1..]),
        ("no application", &mut laptop.clone(), &good[..1]),
        ("another application", &mut laptop.clone(), &[good[0], ("application", OTHER_APP)]),
    ] {
        let page = browser.post(&client, &url, form).await;
        assert_eq!(page.status(), 200, "{what}");
        assert!(!page.text().await.expect("text").contains("data-handle"), "{what}");
    }
    let elsewhere = client.http.post(&url).header(ACCEPT, "text/html").header("Cookie", laptop.cookies());
    let page = elsewhere.header(ORIGIN, "https://elsewhere.example").form(&good).send().await.expect("an answer");
    assert!(!page.text().await.expect("text").contains("data-handle"), "another site");
    let fetched = client.http.post(&url).header("Sec-Purpose", "prefetch").header("Cookie", laptop.cookies());
    assert_eq!(fetched.form(&good).send().await.expect("an answer").status(), 503);
    client.stop().await;
}

#[tokio::test]
async fn a_service_at_an_address_has_no_passkeys() {
    let client = start().await;
    let mut laptop = Browser::default();
    laptop.sign_in(&client, "alice", "no").await;
    let forms = laptop.session_forms(&client).await;
    assert!(forms.iter().all(|(action, _)| action != MAKE_PASSKEY), "{forms:?}");
    let fields = laptop.account_form(&client, "/session/code", APP).await;
    let form = [("confirmation", &*fields["confirmation"]), ("application", APP)];
    let refused = laptop.post(&client, &client.daemon.sign_in(MAKE_PASSKEY), &form).await;
    assert_eq!(refused.status(), 400);
    let begun = laptop.begin(&client, &[]).await;
    for path in ["", "/code"] {
        let page = laptop.get(&client, &format!("{}{path}", begun.base)).await;
        assert_eq!(permissions(page.headers()), "publickey-credentials-create=(), publickey-credentials-get=()");
        let page = page.text().await.expect("text");
        assert!(!page.contains("passkey"), "{page}");
    }
    let refused = use_passkey(&client, &mut laptop, &begun, &"A".repeat(43)).await;
    assert_eq!(refused.status(), 400);
    assert_eq!(asks(&begun).await, Asks::First);
    client.stop().await;
}

#[tokio::test]
async fn wrong_passkeys_are_counted_as_guesses() {
    let client = SignInTestClient::start_with_keys(|config| {
        ask_for_accounts(config);
        config.urls[Interface::SignIn] = Some("https://id.example".to_owned());
        config.limits.sign_ins_per_source = Some(RateLimit { requests: 20, window: TimeSpan::from_secs(3600) });
    })
    .await;
    let mut browser = Browser::default();
    let begun = browser.begin(&client, &[]).await;
    let mut statuses = Vec::new();
    for first in "abcdefghijkl".chars() {
        let handle = format!("{first}{}", "A".repeat(42));
        statuses.push(use_passkey(&client, &mut browser, &begun, &handle).await.status().as_u16());
    }
    // Each counts as a form, and as a guess.
    let (wrong, limited) = statuses.split_at(9);
    assert_eq!((wrong, limited), (&[400; 9][..], &[429; 3][..]), "{statuses:?}");
    client.stop().await;
}
