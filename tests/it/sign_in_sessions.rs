//! Browser sessions: what they answer without the person, and how they end.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::{ACCEPT, SET_COOKIE};
use selfsame_interfaces::interface::Interface;
use selfsame_protocol::sign_in::{AuthorizationRequest, Parameters};
use selfsame_wallet::sign_in::SignInSession;

use crate::certification::browser::posted_form;
use crate::sign_in_client::{
    APP, CALLBACK, CHALLENGE, Form, OTHER_APP, SignInTestClient, accept_current_proofs, add_other_app, current_proof,
    pair, parameters, two_applications,
};

/// A cookie of the attacker's own session, planted in the victim's browser before she signs in
/// elsewhere, must not sign her in as the attacker.
#[tokio::test]
async fn a_planted_session_cookie_leaves_no_identity_in_the_next_session() {
    let client = two_applications().await;
    let (_, planted) = client.sign_in_by_page("mallory", &[("client_id", APP)], "").await;
    let planted = pair(planted);
    let (_, session) = client.sign_in_by_page("alice", &[("client_id", OTHER_APP)], &planted).await;
    let session = pair(session);
    let silent = client.browse_silently(&[("client_id", APP), ("prompt", "none")], &session).await;
    assert_eq!(silent.get("error").map(String::as_str), Some("login_required"), "{silent:?}");
    assert_eq!(client.browse(&[("client_id", APP)], &session).await.status(), 200, "the person is asked");
    // Her own sign-in is there, and the planted cookie is worth nothing.
    assert!(client.browse_silently(&[("client_id", OTHER_APP)], &session).await.contains_key("code"));
    let old = client.browse_silently(&[("client_id", APP), ("prompt", "none")], &planted).await;
    assert_eq!(old["error"], "login_required");
    client.stop().await;
}

/// A daemon whose issuer is https at the root of its host, as behind a proxy that ends TLS.
async fn behind_https() -> SignInTestClient {
    SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        add_other_app(config);
        config.urls[Interface::SignIn] = Some("https://id.example".to_owned());
    })
    .await
}

/// The cookies that an answer sets, whole.
fn set_cookies(answer: &Response) -> Vec<String> {
    answer.headers().get_all(SET_COOKIE).iter().map(|cookie| cookie.to_str().expect("text").to_owned()).collect()
}

/// Signs `person` in through the page behind https, with these cookies; returns the last answer.
async fn sign_in_behind_https(
    client: &SignInTestClient,
    person: &str,
    changes: &[(&str, &str)],
    cookies: &str,
) -> Response {
    let (base, transaction) = answer_behind_https(client, person, changes, cookies).await;
    complete_behind_https(client, &base, &format!("{transaction}; {cookies}")).await
}

async fn complete_behind_https(client: &SignInTestClient, base: &str, cookies: &str) -> Response {
    client.http.get(format!("{base}/complete")).header("Cookie", cookies).send().await.expect("an answer")
}

/// The same up to the person's answer: the URL of the transaction, and its cookie.
async fn answer_behind_https(
    client: &SignInTestClient,
    person: &str,
    changes: &[(&str, &str)],
    cookies: &str,
) -> (String, String) {
    let page = client.browse(changes, cookies).await;
    assert_eq!(page.status(), 200, "the page is shown");
    let transaction = pair(set_cookies(&page).first().cloned());
    let name = transaction.split('=').next().expect("a name");
    let id = name.strip_prefix("__Host-selfsame_transaction_").expect("a name with the transaction's id");
    let base = client.daemon.sign_in(&format!("/authorize/{id}"));
    let opened = SignInSession::open(&format!("{base}/request")).await.expect("the sign-in starts");
    let proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &opened, person).await;
    let answered = client.http.post(format!("{base}/proof")).json(&proof).send().await.expect("an answer");
    assert_eq!(answered.status(), 200);
    (base, transaction)
}

/// An answer that was lost is given again with its session, but not with one that has ended: the
/// browser would lose the session that came after it.
#[tokio::test]
async fn a_repeated_response_brings_only_a_session_that_lives() {
    let client = behind_https().await;
    let (base, transaction) = answer_behind_https(&client, "alice", &[], "").await;
    let first = complete_behind_https(&client, &base, &transaction).await;
    let again = complete_behind_https(&client, &base, &transaction).await;
    let (first, again) = (set_cookies(&first), set_cookies(&again));
    assert!(first[0].starts_with("__Host-selfsame_session=") && again == first, "{first:?} {again:?}");
    // A program has no session, whatever the browser's was.
    let secret = transaction.split_once('=').expect("a pair").1;
    let program = client.http.get(format!("{base}/complete")).bearer_auth(secret).send().await.expect("an answer");
    assert_eq!((program.status().as_u16(), set_cookies(&program).len()), (303, 0));
    // Another sign-in in this browser ends the session.
    sign_in_behind_https(&client, "alice", &[("prompt", "login")], &pair(first.first().cloned())).await;
    let late = complete_behind_https(&client, &base, &transaction).await;
    assert_eq!((late.status().as_u16(), set_cookies(&late).len()), (303, 0));
    client.stop().await;
}

/// Forms that another site posts to the authorization endpoint bring no cookies, so each leaves
/// one.
#[tokio::test]
async fn the_page_of_a_sign_in_removes_cookies_that_are_too_many() {
    let client = behind_https().await;
    let mut cookies = Vec::new();
    for number in 0..20 {
        let begun = client.authorize(&[("state", &format!("{number}"))], "").await;
        cookies.push(pair(set_cookies(&begun).first().cloned()));
    }
    let (name, _) = cookies[19].split_once('=').expect("a pair");
    let id = name.rsplit('_').next().expect("the id of the transaction");
    let page = client.http.get(client.daemon.sign_in(&format!("/authorize/{id}"))).header(ACCEPT, "text/html");
    let page = page.header("Cookie", cookies.join("; ")).send().await.expect("an answer");
    let removed: Vec<_> = set_cookies(&page).iter().map(|cookie| cookie.split('=').next().map(str::to_owned)).collect();
    let oldest: Vec<_> = cookies[..4].iter().map(|cookie| cookie.split('=').next().map(str::to_owned)).collect();
    assert_eq!((page.status().as_u16(), removed), (200, oldest));
    client.stop().await;
}

#[tokio::test]
async fn sessions_of_an_https_issuer_are_host_cookies_and_hold_several_clients() {
    let client = behind_https().await;
    let page = client.browse(&[], "").await;
    let transaction = set_cookies(&page).remove(0);
    assert!(transaction.starts_with("__Host-selfsame_transaction_"), "{transaction}");
    assert!(transaction.contains("; Path=/;") && transaction.ends_with("; Secure"), "{transaction}");

    let done = sign_in_behind_https(&client, "alice", &[], "").await;
    let cookies = set_cookies(&done);
    assert_eq!(cookies.len(), 1, "the session: {cookies:?}");
    assert!(cookies[0].starts_with("__Host-selfsame_session="), "{cookies:?}");
    assert!(cookies[0].contains("; Path=/;") && cookies[0].ends_with("; Secure"), "{cookies:?}");
    let session = pair(cookies.first().cloned());

    // A second sign-in in this browser keeps the first, under a new secret.
    let other = [("client_id", OTHER_APP), ("scope", "openid")];
    let done = sign_in_behind_https(&client, "alice", &other, &session).await;
    let both = pair(set_cookies(&done).first().cloned());
    assert_ne!(both, session);
    for changes in [&[][..], &other[..]] {
        assert!(client.browse_silently(changes, &both).await.contains_key("code"), "{changes:?}");
    }
    let ended = client.browse_silently(&[("prompt", "none")], &session).await;
    assert_eq!(ended["error"], "login_required", "the old secret is worth nothing");

    // A cookie that a sibling host can set is not read.
    let plain = both.replace("__Host-", "");
    assert_eq!(client.browse_silently(&[("prompt", "none")], &plain).await["error"], "login_required");
    // A carried-over sign-in ends a day after its proof, also in a session that was renewed since.
    client.daemon.clock.advance(Duration::from_secs(12 * 3600));
    let done = sign_in_behind_https(&client, "alice", &[&other[..], &[("prompt", "login")]].concat(), &both).await;
    let renewed = pair(set_cookies(&done).first().cloned());
    client.daemon.clock.advance(Duration::from_secs(12 * 3600));
    assert_eq!(client.browse_silently(&[("prompt", "none")], &renewed).await["error"], "login_required");
    assert!(client.browse_silently(&other, &renewed).await.contains_key("code"));
    client.stop().await;
}

/// Signs Alice in to both applications in one browser; returns its session cookie.
async fn sign_in_to_both(client: &SignInTestClient, other: &[(&str, &str)]) -> String {
    let one = sign_in_behind_https(client, "alice", &[("response_type", "id_token")], "").await;
    let one = pair(set_cookies(&one).first().cloned());
    pair(set_cookies(&sign_in_behind_https(client, "alice", other, &one).await).first().cloned())
}

#[tokio::test]
async fn a_person_signs_out_of_one_application_alone() {
    let client = behind_https().await;
    let other = [("client_id", OTHER_APP), ("response_type", "id_token")];
    let session = sign_in_to_both(&client, &other).await;
    let is_known = async |application: &str| {
        let silent = [("client_id", application), ("response_type", "id_token"), ("prompt", "none")];
        client.browse_silently(&silent, &session).await.contains_key("id_token")
    };
    let url = client.daemon.sign_in("/session");
    let page = client.http.get(&url).header("Cookie", &session).send().await.expect("an answer");
    let (_, fields) = posted_form(&page.text().await.expect("text"));
    let confirmation = ("confirmation", &*fields["confirmation"]);
    let post = async |form: &[(&str, &str)]| {
        let request = client.http.post(&url).header(ACCEPT, "text/html").header("Cookie", &session);
        request.form(form).send().await.expect("an answer")
    };
    for (form, status) in [
        (&[("confirmation", "x"), ("application", APP)][..], 200),
        (&[("application", APP)], 200),
        (&[confirmation, ("application", "app_unknown")], 200),
        (&[confirmation, ("application", APP), ("application", APP)], 400),
    ] {
        let answer = post(form).await;
        assert_eq!((answer.status().as_u16(), set_cookies(&answer).len()), (status, 0), "{form:?}");
        assert!(is_known(APP).await && is_known(OTHER_APP).await, "{form:?}");
    }
    // The session goes on, with its cookie, for the other application.
    let one = post(&[confirmation, ("application", APP)]).await;
    assert_eq!((one.status().as_u16(), set_cookies(&one).len()), (200, 0));
    assert!(one.text().await.expect("text").contains("<form"), "the page shows what is left");
    assert!(!is_known(APP).await && is_known(OTHER_APP).await);
    // The button in another tab.
    assert_eq!(set_cookies(&post(&[confirmation, ("application", APP)]).await).len(), 0);
    assert!(is_known(OTHER_APP).await);
    let last = post(&[confirmation, ("application", OTHER_APP)]).await;
    assert!(set_cookies(&last)[0].contains("Max-Age=0"), "{last:?}");
    assert!(!is_known(OTHER_APP).await);
    client.stop().await;
}

/// The page says that it ended the other ones, too.
#[tokio::test]
async fn an_application_that_signs_a_person_out_ends_all_sign_ins_and_the_page_says_so() {
    let client = behind_https().await;
    let other = [("client_id", OTHER_APP), ("response_type", "id_token")];
    let session = sign_in_to_both(&client, &other).await;
    let hint = client.browse_silently(&other, &session).await["id_token"].clone();
    let url = client.daemon.sign_in(&format!("/logout?id_token_hint={hint}"));
    let out = client.http.get(url).header(ACCEPT, "text/html").header("Cookie", &session).send().await;
    let text = out.expect("an answer").text().await.expect("text");
    assert!(text.contains("This browser is signed in nowhere through this service"), "{text}");
    let silent = [("response_type", "id_token"), ("prompt", "none")];
    assert_eq!(client.browse_silently(&silent, &session).await["error"], "login_required");
    client.stop().await;
}

#[tokio::test]
async fn a_browser_keeps_the_cookies_of_sixteen_transactions() {
    let client = behind_https().await;
    let mut kept: Vec<String> = Vec::new();
    for number in 0..40 {
        let page = client.authorize(&[("state", &format!("{number}"))], &kept.join("; ")).await;
        let cookies = set_cookies(&page);
        kept.push(pair(cookies.first().cloned()));
        for removed in &cookies[1..] {
            let name = removed.split('=').next().expect("a name");
            assert_eq!(kept.remove(0).split('=').next(), Some(name), "the oldest");
        }
        assert!(kept.len() <= 16, "{}", kept.len());
    }
    assert_eq!(kept.len(), 16);
    client.stop().await;
}

#[tokio::test]
async fn a_silent_answer_needs_the_approved_redirect_uri_and_response_type() {
    let client = two_applications().await;
    let (_, session) = client.sign_in_by_page("alice", &[], "").await;
    let session = pair(session);
    assert!(client.browse_silently(&[("prompt", "none")], &session).await.contains_key("code"));
    for changes in [
        [("redirect_uri", "http://127.0.0.1:3000/callback")],
        [("response_type", "id_token")],
        [("response_type", "code id_token")],
    ] {
        let silent = client.browse_silently(&[&changes[..], &[("prompt", "none")]].concat(), &session).await;
        assert_eq!(silent["error"], "login_required", "{changes:?}");
        assert_eq!(client.browse(&changes, &session).await.status(), 200, "{changes:?}: the person is asked");
    }
    // The same person approves another request: the first approval stays.
    let (_, session) = client.sign_in_by_page("alice", &[("response_type", "id_token")], &session).await;
    let session = pair(session);
    assert!(client.browse_silently(&[], &session).await.contains_key("code"));
    assert!(client.browse_silently(&[("response_type", "id_token")], &session).await.contains_key("id_token"));
    // Another person signs in to the same application: nothing of the first stays.
    let asked_again = [("response_type", "id_token"), ("prompt", "login")];
    let (_, session) = client.sign_in_by_page("bob", &asked_again, &session).await;
    let silent = client.browse_silently(&[("prompt", "none")], &pair(session)).await;
    assert_eq!(silent["error"], "login_required");
    client.stop().await;
}

/// Any program of a device can open a loopback address, so it can pose as a public client there.
#[tokio::test]
async fn a_public_client_at_a_loopback_address_is_never_answered_silently() {
    let remote = "https://app.example/callback";
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        config.apps[0].public = true;
        config.apps[0].client_secret_hash = None;
        config.apps[0]
            .redirect_uris
            .extend([remote, "http://[::1]:3000/callback"].map(|uri| uri.parse().expect("a redirect URI")));
    })
    .await;
    let pkce = [("code_challenge", CHALLENGE), ("code_challenge_method", "S256")];
    for (redirect_uri, is_silent) in [
        (CALLBACK, false),
        ("http://127.0.0.1:3000/callback", false),
        ("http://[::1]:3000/callback", false),
        (remote, true),
    ] {
        let changes = [&pkce[..], &[("redirect_uri", redirect_uri)]].concat();
        let (_, session) = client.sign_in_by_page("alice", &changes, "").await;
        let session = pair(session);
        let silent = client.browse_silently(&[&changes[..], &[("prompt", "none")]].concat(), &session).await;
        assert_eq!(silent.contains_key("code"), is_silent, "{redirect_uri}: {silent:?}");
    }
    client.stop().await;
}

/// Signing takes a while: a logout that is answered in between is not followed by a response for
/// the session that has ended.
#[tokio::test]
async fn a_session_that_ends_while_a_silent_answer_is_made_grants_nothing() {
    let client = two_applications().await;
    let (_, session) = client.sign_in_by_page("alice", &[], "").await;
    let session = pair(session);
    let secret = session.split_once('=').expect("a pair").1;
    let parameters: Parameters = parameters(&[]).into_iter().collect();
    let handle = &client.daemon.sign_in;
    let known = handle.client(APP).expect("a client");
    let request = || AuthorizationRequest::read(&parameters, |_| Some(&known.client)).expect("a valid request");
    let find = || handle.session_person(&request(), None, secret).expect("read").expect("a sign-in");

    let granted = handle.grant_from_session(&request(), &find()).await.expect("granted");
    assert!(granted.is_some(), "while the session lasts");
    // Two answers at a time do not disturb one another.
    let (first, second) = (find(), find());
    let (request_one, request_two) = (request(), request());
    let (one, two) =
        tokio::join!(handle.grant_from_session(&request_one, &first), handle.grant_from_session(&request_two, &second));
    assert!(one.expect("granted").is_some() && two.expect("granted").is_some());
    let found = find();
    handle.end_session(secret).await.expect("ended");
    assert_eq!(handle.grant_from_session(&request(), &found).await.expect("no failure"), None);
    client.stop().await;
}
