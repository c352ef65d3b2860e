//! The rows of the profiles, each for any flow. A row that does not apply to a flow passes.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, LOCATION, SET_COOKIE};
use selfsame_wallet::sign_in::SignInSession;
use serde_json::{Value, json};

use super::browser::{DeliveryMode, Flow, FlowBrowser, SignedIn, check_error};
use crate::sign_in_client::{APP, CALLBACK, CHALLENGE, Form, SignInTestClient, VERIFIER, verified};

/// A sign-in with every check that an application makes.
pub async fn server(client: &SignInTestClient, flow: Flow) {
    let first = FlowBrowser::new(client, flow).sign_in("alice", &[]).await;
    let again = FlowBrowser::new(client, flow).sign_in("alice", &[]).await;
    assert_eq!(first.claims["sub"], again.claims["sub"], "the same person has one subject");
    assert_ne!(first.claims["jti"], again.claims["jti"], "every token has its own id");
    let other = FlowBrowser::new(client, flow).sign_in("bob", &[]).await;
    assert_ne!(first.claims["sub"], other.claims["sub"], "two people have two subjects");
}

/// The state is returned unchanged, and only when the request has one.
pub async fn state_is_echoed(client: &SignInTestClient, flow: Flow) {
    let mut browser = FlowBrowser::new(client, flow);
    browser.sign_in("alice", &[]).await;
    let long = "s".repeat(2048);
    for state in ["", "a b+c%20d&e=f#g?h", "\"'<>\\`", "päß 日本 🙂", "\r\nX: y", "null", &long] {
        browser.sign_in_silently(&[("state", state)]).await;
        browser.expect_error(&[("state", state), ("scope", "email")], "invalid_scope").await;
    }
}

/// `OP-Response-Missing`.
pub async fn response_type_missing(client: &SignInTestClient, flow: Flow) {
    // The response type is missing, so the provider cannot tell whether tokens were wanted: the
    // error is in the query.
    let delivery = if flow.is_posted { DeliveryMode::Form } else { DeliveryMode::Query };
    let description =
        FlowBrowser::new(client, flow).expect_error_by(delivery, &[("response_type", "")], "invalid_request").await;
    assert_eq!(description, "required: response_type");
}

/// The signature verifies with the published key that the header names, and with no other key.
pub async fn id_token_signature(client: &SignInTestClient, flow: Flow) {
    let signed_in = FlowBrowser::new(client, flow).sign_in("alice", &[]).await;
    let keys = client.published_keys().await;
    verified(&signed_in.id_token, &keys, &client.issuer(), APP);
    let named = jsonwebtoken::decode_header(&signed_in.id_token).expect("a header").kid;
    let keys = keys["keys"].as_array().expect("keys");
    assert_eq!(keys.iter().filter(|key| key["kid"] == json!(named)).count(), 1);
    let mut parts: Vec<&str> = signed_in.id_token.split('.').collect();
    assert_eq!(parts.len(), 3);
    // Other claims with the same signature.
    let claims = URL_SAFE_NO_PAD.encode(signed_in.claims.to_string().replace("0x", "0y"));
    parts[1] = &claims;
    let hint = parts.join(".");
    // It names no person, so it is no hint, and this sign-in is not compared with it.
    FlowBrowser::new(client, flow).sign_in("alice", &[("id_token_hint", &hint)]).await;
}

/// User-info by `GET`.
pub async fn userinfo_get(client: &SignInTestClient, flow: Flow) {
    userinfo(client, flow, |token| client.http.get(client.daemon.sign_in("/userinfo")).bearer_auth(token)).await;
}

/// User-info by `POST` with the token in the header.
pub async fn userinfo_post_header(client: &SignInTestClient, flow: Flow) {
    userinfo(client, flow, |token| client.http.post(client.daemon.sign_in("/userinfo")).bearer_auth(token)).await;
}

/// User-info by `POST` with the token in the form.
pub async fn userinfo_post_body(client: &SignInTestClient, flow: Flow) {
    let request = |token: &str| client.http.post(client.daemon.sign_in("/userinfo")).form(&[("access_token", token)]);
    userinfo(client, flow, request).await;
}

async fn userinfo(client: &SignInTestClient, flow: Flow, request: impl Fn(&str) -> reqwest::RequestBuilder) {
    if !flow.gives_access() {
        return;
    }
    let signed_in = FlowBrowser::new(client, flow).sign_in("alice", &[("scope", "openid email profile")]).await;
    for token in &signed_in.access_tokens {
        let answer = client.send(request(token)).await;
        assert_eq!((answer.status, answer.header(CONTENT_TYPE)), (200, "application/json"), "{answer:?}");
        assert_eq!(answer.header(CACHE_CONTROL), "no-store");
        for (name, value) in answer.body.as_object().expect("claims") {
            assert_eq!(signed_in.claims[name], *value, "{name}");
        }
        assert_eq!(Some(answer.body), signed_in.userinfo);
    }
}

/// Without a nonce: refused where an ID token is sent through the browser, accepted elsewhere.
pub async fn request_without_nonce(client: &SignInTestClient, flow: Flow) {
    let mut browser = FlowBrowser::new(client, flow);
    if flow.has("id_token") {
        let description = browser.expect_error(&[("nonce", "")], "invalid_request").await;
        assert_eq!(description, "required: nonce");
    } else {
        let signed_in = browser.sign_in("alice", &[("nonce", "")]).await;
        assert_eq!(signed_in.claims.get("nonce"), None);
    }
}

/// Signs in with scopes. Returns the claims about the person besides the subject, which are the
/// same in ID token and user-info.
async fn claims_for(client: &SignInTestClient, flow: Flow, scope: &str) -> BTreeSet<String> {
    let signed_in = FlowBrowser::new(client, flow).sign_in("alice", &[("scope", scope)]).await;
    let personal = ["email", "name", "given_name", "family_name", "email_verified", "address", "phone_number"];
    let personal = |claims: &Value| -> BTreeSet<String> {
        let claims = claims.as_object().expect("claims");
        claims.keys().filter(|name| personal.contains(&name.as_str())).cloned().collect()
    };
    let found = personal(&signed_in.claims);
    assert!(signed_in.userinfo.is_none_or(|userinfo| personal(&userinfo) == found), "{scope}");
    let granted = ["openid", "email", "profile"].into_iter().filter(|word| scope.split(' ').any(|part| part == *word));
    let granted = json!(granted.collect::<Vec<_>>().join(" "));
    assert!(signed_in.tokens.is_none_or(|tokens| tokens.body["scope"] == granted), "{scope}");
    assert!(signed_in.response.get("scope").is_none_or(|scope| *scope == granted), "{scope}");
    found
}

const NAMES: [&str; 3] = ["family_name", "given_name", "name"];

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Scope `profile`.
pub async fn scope_profile(client: &SignInTestClient, flow: Flow) {
    assert_eq!(claims_for(client, flow, "openid profile").await, set(&NAMES));
}

/// Scope `email`.
pub async fn scope_email(client: &SignInTestClient, flow: Flow) {
    assert_eq!(claims_for(client, flow, "openid email").await, set(&["email", "email_verified"]));
}

/// Scope `address`, for which there are no claims.
pub async fn scope_address(client: &SignInTestClient, flow: Flow) {
    assert_eq!(claims_for(client, flow, "openid address").await, set(&[]));
}

/// Scope `phone`, for which there are no claims.
pub async fn scope_phone(client: &SignInTestClient, flow: Flow) {
    assert_eq!(claims_for(client, flow, "openid phone").await, set(&[]));
}

/// All scopes of the standard.
pub async fn scope_all(client: &SignInTestClient, flow: Flow) {
    let all = set(&[&NAMES[..], &["email", "email_verified"]].concat());
    assert_eq!(claims_for(client, flow, "openid profile email address phone").await, all);
}

/// The order of the scopes does not matter.
pub async fn other_scope_order(client: &SignInTestClient, flow: Flow) {
    assert_eq!(claims_for(client, flow, "email openid").await, set(&["email", "email_verified"]));
}

/// A parameter that changes neither a first sign-in nor the answer to a signed-in browser.
async fn harmless(client: &SignInTestClient, flow: Flow, changes: &[(&str, &str)]) {
    let mut browser = FlowBrowser::new(client, flow);
    let first = browser.sign_in("alice", changes).await;
    let second = browser.sign_in_silently(changes).await;
    assert_eq!(first.claims["sub"], second.claims["sub"]);
    let plain = browser.sign_in_silently(&[]).await;
    let names = |claims: &Value| claims.as_object().expect("claims").keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&first.claims), names(&plain.claims), "{changes:?}");
}

/// `display=page`.
pub async fn display_page(client: &SignInTestClient, flow: Flow) {
    harmless(client, flow, &[("display", "page")]).await;
}

/// `display=popup`.
pub async fn display_popup(client: &SignInTestClient, flow: Flow) {
    harmless(client, flow, &[("display", "popup")]).await;
}

/// `display=touch`.
pub async fn display_touch(client: &SignInTestClient, flow: Flow) {
    harmless(client, flow, &[("display", "touch")]).await;
}

/// `display=wap`.
pub async fn display_wap(client: &SignInTestClient, flow: Flow) {
    harmless(client, flow, &[("display", "wap")]).await;
}

/// `ui_locales`.
pub async fn ui_locales(client: &SignInTestClient, flow: Flow) {
    harmless(client, flow, &[("ui_locales", "se fr-CA xx-invalid")]).await;
}

/// `claims_locales`.
pub async fn claims_locales(client: &SignInTestClient, flow: Flow) {
    harmless(client, flow, &[("claims_locales", "se fr-CA xx-invalid")]).await;
}

/// `acr_values`.
pub async fn acr_values(client: &SignInTestClient, flow: Flow) {
    harmless(client, flow, &[("acr_values", "1 2 urn:example:unknown")]).await;
}

/// `login_hint`.
pub async fn login_hint(client: &SignInTestClient, flow: Flow) {
    harmless(client, flow, &[("login_hint", "bob@example.com")]).await;
}

/// Unknown parameters.
pub async fn unknown_parameter(client: &SignInTestClient, flow: Flow) {
    harmless(client, flow, &[("extra", "foobar"), ("registration", "{}"), ("resource", "https://api.example")]).await;
}

/// The `claims` parameter. It is not supported, which discovery says.
pub async fn claims_essential(client: &SignInTestClient, flow: Flow) {
    let claims = r#"{"userinfo":{"name":{"essential":true}},"id_token":{"name":{"essential":true}}}"#;
    harmless(client, flow, &[("claims", claims)]).await;
}

/// Signs in again, after two seconds, in a browser whose session is signed in. Returns both
/// sign-ins.
async fn sign_in_twice(client: &SignInTestClient, flow: Flow, changes: &[(&str, &str)]) -> (SignedIn, SignedIn) {
    let mut browser = FlowBrowser::new(client, flow);
    let first = browser.sign_in("alice", &[]).await;
    client.daemon.clock.advance(Duration::from_secs(2));
    // When the provider has to ask the person, `prompt=none` is refused.
    if changes.iter().all(|(name, _)| *name != "prompt") {
        browser.expect_error(&[changes, &[("prompt", "none")]].concat(), "login_required").await;
    }
    let second = browser.sign_in("alice", changes).await;
    assert_eq!(first.claims["sub"], second.claims["sub"]);
    let time = |signed_in: &SignedIn| signed_in.claims["auth_time"].as_u64().expect("a time");
    assert_eq!((time(&second), time(&first)), (client.now(), client.now() - 2), "{changes:?}");
    (first, second)
}

/// `prompt=login` asks again.
pub async fn prompt_login(client: &SignInTestClient, flow: Flow) {
    sign_in_twice(client, flow, &[("prompt", "login")]).await;
}

/// `prompt=consent` asks again.
pub async fn prompt_consent(client: &SignInTestClient, flow: Flow) {
    sign_in_twice(client, flow, &[("prompt", "consent")]).await;
}

/// `prompt=select_account` asks again, even beside other values.
pub async fn prompt_select_account(client: &SignInTestClient, flow: Flow) {
    sign_in_twice(client, flow, &[("prompt", "select_account consent")]).await;
}

/// `max_age=0` asks again.
pub async fn max_age_0(client: &SignInTestClient, flow: Flow) {
    sign_in_twice(client, flow, &[("max_age", "0")]).await;
}

/// `max_age=1` asks again after two seconds.
pub async fn max_age_1(client: &SignInTestClient, flow: Flow) {
    sign_in_twice(client, flow, &[("max_age", "1")]).await;
}

/// A second request that is answered from the same sign-in.
async fn assert_not_asked_again(client: &SignInTestClient, flow: Flow, hinted: bool, changes: &[(&str, &str)]) {
    let mut browser = FlowBrowser::new(client, flow);
    let first = browser.sign_in("alice", &[]).await;
    client.daemon.clock.advance(Duration::from_secs(2));
    let hint = hinted.then_some(("id_token_hint", &*first.id_token));
    let changes: Vec<(&str, &str)> = changes.iter().copied().chain(hint).collect();
    let second = browser.sign_in_silently(&changes).await;
    for name in ["sub", "auth_time"] {
        assert_eq!(first.claims[name], second.claims[name], "{name}");
    }
    assert_ne!(first.claims["jti"], second.claims["jti"]);
}

/// `max_age=10000` does not ask again; the ID token has the time of the sign-in.
pub async fn max_age_10000(client: &SignInTestClient, flow: Flow) {
    assert_not_asked_again(client, flow, false, &[("max_age", "10000")]).await;
}

/// `prompt=none` in a browser that is signed in.
pub async fn prompt_none_logged_in(client: &SignInTestClient, flow: Flow) {
    assert_not_asked_again(client, flow, false, &[("prompt", "none")]).await;
}

/// `prompt=none` with an ID token of the person.
pub async fn id_token_hint(client: &SignInTestClient, flow: Flow) {
    assert_not_asked_again(client, flow, true, &[("prompt", "none")]).await;
}

/// `prompt=none` in a browser that is not signed in.
pub async fn prompt_none_not_logged_in(client: &SignInTestClient, flow: Flow) {
    FlowBrowser::new(client, flow).expect_error(&[("prompt", "none")], "login_required").await;
}

/// An ID token of a person who neither is signed in nor signs in.
pub async fn id_token_hint_of_somebody_else(client: &SignInTestClient, flow: Flow) {
    let bob = FlowBrowser::new(client, flow).sign_in("bob", &[]).await;
    let mut browser = FlowBrowser::new(client, flow);
    browser.sign_in("alice", &[]).await;
    let hint = [("id_token_hint", &*bob.id_token)];
    browser.expect_error(&[&hint[..], &[("prompt", "none")]].concat(), "login_required").await;
    // Alice answers a request that expects Bob.
    let asked = browser.build_request(&hint);
    let done = client.answer_page(browser.authorize(&asked).await, "alice", "").await;
    assert_eq!(done.headers().get(SET_COOKIE), None, "no session cookie is set");
    check_error(&browser.read_response(done, flow.delivery(), &asked).await, "login_required");
    browser.sign_in("bob", &hint).await;
}

/// A code works once. A second try revokes the tokens of the first.
pub async fn code_reuse(client: &SignInTestClient, flow: Flow) {
    code_reuse_after(client, flow, 0).await;
}

/// The same half a minute later.
pub async fn code_reuse_30_seconds(client: &SignInTestClient, flow: Flow) {
    code_reuse_after(client, flow, 30).await;
}

async fn code_reuse_after(client: &SignInTestClient, flow: Flow, seconds: u64) {
    if !flow.has("code") {
        return;
    }
    let mut browser = FlowBrowser::new(client, flow);
    let signed_in = browser.sign_in("alice", &[]).await;
    client.daemon.clock.advance(Duration::from_secs(seconds));
    let refused = browser.exchange(&signed_in.response["code"], &browser.build_request(&[])).await;
    refused.expect_error(400, "invalid_grant", "invalid_grant");
    assert_eq!(refused.header(CONTENT_TYPE), "application/json");
    let given = signed_in.access_tokens.last().expect("a token");
    let userinfo = client.send(client.http.get(client.daemon.sign_in("/userinfo")).bearer_auth(given)).await;
    userinfo.expect_error(401, "invalid_token", "invalid_token");
}

/// Codes are random, and no two are equal.
pub async fn codes_have_128_bits(client: &SignInTestClient, flow: Flow) {
    if !flow.has("code") {
        return;
    }
    let mut browser = FlowBrowser::new(client, flow);
    let mut codes = vec![browser.sign_in("alice", &[]).await.response["code"].clone()];
    for _ in 0..31 {
        codes.push(browser.sign_in_silently(&[]).await.response["code"].clone());
    }
    let bytes: Vec<Vec<u8>> = codes.iter().map(|code| URL_SAFE_NO_PAD.decode(code).expect("base64url")).collect();
    assert!(bytes.iter().all(|bytes| bytes.len() >= 16), "{codes:?}");
    assert_eq!(bytes.iter().collect::<BTreeSet<_>>().len(), codes.len());
    // No byte is the same in all codes. With random bytes that is less likely than a failure of the
    // machine.
    for position in 0..16 {
        assert!(bytes.iter().any(|code| code[position] != bytes[0][position]), "byte {position} is fixed");
    }
}

/// The page about a request whose error is not sent to a redirect URI.
async fn error_page(browser: &FlowBrowser<'_>, changes: &[(&str, &str)]) -> String {
    let page = browser.authorize(&browser.build_request(changes)).await;
    assert_eq!((page.status().as_u16(), page.headers().get(LOCATION)), (400, None));
    assert!(page.headers()[CONTENT_TYPE].to_str().expect("text").starts_with("text/html"));
    assert_eq!(page.headers().get(SET_COOKIE), None);
    page.text().await.expect("text")
}

/// A redirect URI that is not registered is reported to the person.
pub async fn registered_redirect_uri(client: &SignInTestClient, flow: Flow) {
    let page = error_page(&FlowBrowser::new(client, flow), &[("redirect_uri", "https://app.example/unknown")]).await;
    assert!(page.contains("invalid_redirect_uri") && page.contains("not one of those registered"), "{page}");
}

/// A missing redirect URI is reported in the same way: there is no default.
pub async fn redirect_uri_missing(client: &SignInTestClient, flow: Flow) {
    let page = error_page(&FlowBrowser::new(client, flow), &[("redirect_uri", "")]).await;
    assert!(page.contains("required: redirect_uri"), "{page}");
}

/// The request by `POST`.
pub async fn post_request(client: &SignInTestClient, flow: Flow) {
    let mut browser = FlowBrowser::new(client, flow);
    let asked = browser.build_request(&[]);
    let page = browser.authorize_by_post(&asked).await;
    browser.answer_page(page, "alice", &asked).await;
    let wrong = browser.build_request(&[("scope", "email")]);
    let response = browser.read_response(browser.authorize_by_post(&wrong).await, flow.delivery(), &wrong).await;
    check_error(&response, "invalid_scope");
}

/// A response type that sends tokens through the browser refuses `response_mode=query`.
pub async fn response_mode_query(client: &SignInTestClient, flow: Flow) {
    FlowBrowser::new(client, flow).expect_error(&[("response_mode", "query")], "invalid_request").await;
}

/// The secret in the form.
pub async fn client_secret_post(client: &SignInTestClient, flow: Flow) {
    let mut browser = FlowBrowser::new(client, flow).posting_its_secret();
    browser.sign_in("alice", &[]).await;
}

/// A request object, unsigned.
fn request_object(browser: &FlowBrowser<'_>) -> String {
    let claims: serde_json::Map<String, Value> =
        browser.build_request(&[]).pairs().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.", part(json!({"alg": "none"})), part(claims.into()))
}

/// Request objects are not supported.
pub async fn request_refused_by_name(client: &SignInTestClient, flow: Flow) {
    let browser = FlowBrowser::new(client, flow);
    let object = request_object(&browser);
    browser.expect_error(&[("request", &object)], "request_not_supported").await;
}

/// References to request objects are not supported either; nothing is fetched.
pub async fn request_uri_refused_by_name(client: &SignInTestClient, flow: Flow) {
    let browser = FlowBrowser::new(client, flow);
    for uri in ["https://app.example/request.jwt#hash", "urn:ietf:params:oauth:request_uri:1", "x"] {
        browser.expect_error(&[("request_uri", uri)], "request_uri_not_supported").await;
    }
}

/// A redirect URI in a request object does not replace a wrong parameter.
pub async fn request_with_a_redirect_uri(client: &SignInTestClient, flow: Flow) {
    let browser = FlowBrowser::new(client, flow);
    let object = request_object(&browser);
    let changes = [("request", &*object), ("redirect_uri", "https://app.example/unknown")];
    assert!(error_page(&browser, &changes).await.contains("invalid_redirect_uri"));
}

/// There are no refresh tokens: a request for one is accepted without effect, and the grant type is
/// refused.
pub async fn refresh_token(client: &SignInTestClient, flow: Flow) {
    if !flow.has("code") {
        return;
    }
    harmless(client, flow, &[("scope", "openid offline_access")]).await;
    let form = [("grant_type", "refresh_token"), ("refresh_token", "x")];
    client.post("/token", &form).await.expect_error(400, "invalid_grant_type", "unsupported_grant_type");
}

/// PKCE for the code.
pub async fn valid_pkce(client: &SignInTestClient, flow: Flow) {
    if !flow.has("code") {
        return;
    }
    let challenge = [("code_challenge", CHALLENGE), ("code_challenge_method", "S256")];
    let mut browser = FlowBrowser::new(client, flow).verifying(VERIFIER);
    browser.sign_in("alice", &challenge).await;
    // Another verifier is refused, and so is the method `plain`.
    let asked = browser.build_request(&challenge);
    let response = browser.read_response(browser.authorize(&asked).await, flow.delivery(), &asked).await;
    let wrong = FlowBrowser::new(client, flow).verifying("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXl");
    wrong.exchange(&response["code"], &asked).await.expect_error(400, "invalid_grant", "invalid_grant");
    for changes in [
        vec![("code_challenge", VERIFIER), ("code_challenge_method", "plain")],
        vec![("code_challenge", CHALLENGE)],
        vec![("code_challenge_method", "S256")],
    ] {
        browser.expect_error(&changes, "invalid_request").await;
    }
}

/// The person refuses to sign in.
pub async fn the_person_refuses(client: &SignInTestClient, flow: Flow) {
    let browser = FlowBrowser::new(client, flow);
    let asked = browser.build_request(&[]);
    let (cookie, base) = client.transaction_of_page(&browser.authorize(&asked).await);
    let opened = SignInSession::open(&format!("{base}/request")).await.expect("the sign-in starts");
    assert_eq!((opened.request().app_id.as_str(), asked.get("redirect_uri")), (APP, Some(CALLBACK)));
    opened.refuse(opened.request()).await.expect("accepted");
    let done = client.http.get(format!("{base}/complete")).header("Cookie", cookie).header(ACCEPT, "text/html");
    let done = done.send().await.expect("an answer");
    assert_eq!(done.headers().get(SET_COOKIE), None, "no session cookie is set");
    check_error(&browser.read_response(done, flow.delivery(), &asked).await, "access_denied");
}
