//! The rows of the profiles, each for any flow. Where a flow has nothing to do with a row, it passes.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, LOCATION, SET_COOKIE};
use selfsame_wallet::sign_in::SignInSession;
use serde_json::{Value, json};

use super::visitor::{Flow, SignedIn, Visitor, Way, checks_error};
use crate::sign_in_desk::{APP, CALLBACK, CHALLENGE, Form, Party, VERIFIER, verified};

/// A sign-in with all that an application checks.
pub async fn server(party: &Party, flow: Flow) {
    let first = Visitor::new(party, flow).signs_in("alice", &[]).await;
    let again = Visitor::new(party, flow).signs_in("alice", &[]).await;
    assert_eq!(first.claims["sub"], again.claims["sub"], "one person");
    assert_ne!(first.claims["jti"], again.claims["jti"], "two tokens");
    let other = Visitor::new(party, flow).signs_in("bob", &[]).await;
    assert_ne!(first.claims["sub"], other.claims["sub"], "two people");
}

/// The state comes back as it was given, and only if it was given.
pub async fn state_is_echoed(party: &Party, flow: Flow) {
    let mut visitor = Visitor::new(party, flow);
    visitor.signs_in("alice", &[]).await;
    let long = "s".repeat(2048);
    for state in ["", "a b+c%20d&e=f#g?h", "\"'<>\\`", "päß 日本 🙂", "\r\nX: y", "null", &long] {
        visitor.is_known(&[("state", state)]).await;
        visitor.is_refused(&[("state", state), ("scope", "email")], "invalid_scope").await;
    }
}

/// `OP-Response-Missing`.
pub async fn response_type_missing(party: &Party, flow: Flow) {
    // Nobody knows whether tokens were meant to come, so a redirect has the error in its query.
    let way = if flow.is_posted { Way::Form } else { Way::Query };
    let description = Visitor::new(party, flow).is_refused_by(way, &[("response_type", "")], "invalid_request").await;
    assert_eq!(description, "required: response_type");
}

/// The signature is made with the published key that the header names, and with no other.
pub async fn id_token_signature(party: &Party, flow: Flow) {
    let signed_in = Visitor::new(party, flow).signs_in("alice", &[]).await;
    let keys = party.published_keys().await;
    verified(&signed_in.id_token, &keys, &party.issuer(), APP);
    let named = jsonwebtoken::decode_header(&signed_in.id_token).expect("a header").kid;
    let keys = keys["keys"].as_array().expect("keys");
    assert_eq!(keys.iter().filter(|key| key["kid"] == json!(named)).count(), 1);
    let mut parts: Vec<&str> = signed_in.id_token.split('.').collect();
    assert_eq!(parts.len(), 3);
    // Another content under the same signature.
    let claims = URL_SAFE_NO_PAD.encode(signed_in.claims.to_string().replace("0x", "0y"));
    parts[1] = &claims;
    let hint = parts.join(".");
    Visitor::new(party, flow).is_refused(&[("id_token_hint", &hint)], "invalid_request").await;
}

/// User-info by `GET`.
pub async fn userinfo_get(party: &Party, flow: Flow) {
    userinfo(party, flow, |token| party.http.get(party.daemon.sign_in("/userinfo")).bearer_auth(token)).await;
}

/// User-info by `POST` with the token in the header.
pub async fn userinfo_post_header(party: &Party, flow: Flow) {
    userinfo(party, flow, |token| party.http.post(party.daemon.sign_in("/userinfo")).bearer_auth(token)).await;
}

/// User-info by `POST` with the token in the form.
pub async fn userinfo_post_body(party: &Party, flow: Flow) {
    let request = |token: &str| party.http.post(party.daemon.sign_in("/userinfo")).form(&[("access_token", token)]);
    userinfo(party, flow, request).await;
}

async fn userinfo(party: &Party, flow: Flow, request: impl Fn(&str) -> reqwest::RequestBuilder) {
    if !flow.gives_access() {
        return;
    }
    let signed_in = Visitor::new(party, flow).signs_in("alice", &[("scope", "openid email profile")]).await;
    for token in &signed_in.access_tokens {
        let answer = party.send(request(token)).await;
        assert_eq!((answer.status, answer.header(CONTENT_TYPE)), (200, "application/json"), "{answer:?}");
        assert_eq!(answer.header(CACHE_CONTROL), "no-store");
        for (name, value) in answer.body.as_object().expect("claims") {
            assert_eq!(signed_in.claims[name], *value, "{name}");
        }
        assert_eq!(Some(answer.body), signed_in.userinfo);
    }
}

/// Without a nonce: refused where an ID token comes through the browser, harmless elsewhere.
pub async fn request_without_nonce(party: &Party, flow: Flow) {
    let mut visitor = Visitor::new(party, flow);
    if flow.has("id_token") {
        let description = visitor.is_refused(&[("nonce", "")], "invalid_request").await;
        assert_eq!(description, "required: nonce");
    } else {
        let signed_in = visitor.signs_in("alice", &[("nonce", "")]).await;
        assert_eq!(signed_in.claims.get("nonce"), None);
    }
}

/// Signs in with scopes; what is said about the person beyond the subject, in ID token and user-info alike.
async fn claims_for(party: &Party, flow: Flow, scope: &str) -> BTreeSet<String> {
    let signed_in = Visitor::new(party, flow).signs_in("alice", &[("scope", scope)]).await;
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
pub async fn scope_profile(party: &Party, flow: Flow) {
    assert_eq!(claims_for(party, flow, "openid profile").await, set(&NAMES));
}

/// Scope `email`.
pub async fn scope_email(party: &Party, flow: Flow) {
    assert_eq!(claims_for(party, flow, "openid email").await, set(&["email"]));
}

/// Scope `address`, of which there is nothing to say.
pub async fn scope_address(party: &Party, flow: Flow) {
    assert_eq!(claims_for(party, flow, "openid address").await, set(&[]));
}

/// Scope `phone`, likewise.
pub async fn scope_phone(party: &Party, flow: Flow) {
    assert_eq!(claims_for(party, flow, "openid phone").await, set(&[]));
}

/// All scopes of the standard.
pub async fn scope_all(party: &Party, flow: Flow) {
    let all = set(&[&NAMES[..], &["email"]].concat());
    assert_eq!(claims_for(party, flow, "openid profile email address phone").await, all);
}

/// The order of the scopes is free.
pub async fn other_scope_order(party: &Party, flow: Flow) {
    assert_eq!(claims_for(party, flow, "email openid").await, set(&["email"]));
}

/// A parameter that changes nothing: neither for who signs in nor for who is known.
async fn harmless(party: &Party, flow: Flow, changes: &[(&str, &str)]) {
    let mut visitor = Visitor::new(party, flow);
    let first = visitor.signs_in("alice", changes).await;
    let second = visitor.is_known(changes).await;
    assert_eq!(first.claims["sub"], second.claims["sub"]);
    let plain = visitor.is_known(&[]).await;
    let names = |claims: &Value| claims.as_object().expect("claims").keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&first.claims), names(&plain.claims), "{changes:?}");
}

/// `display=page`.
pub async fn display_page(party: &Party, flow: Flow) {
    harmless(party, flow, &[("display", "page")]).await;
}

/// `display=popup`.
pub async fn display_popup(party: &Party, flow: Flow) {
    harmless(party, flow, &[("display", "popup")]).await;
}

/// `display=touch`.
pub async fn display_touch(party: &Party, flow: Flow) {
    harmless(party, flow, &[("display", "touch")]).await;
}

/// `display=wap`.
pub async fn display_wap(party: &Party, flow: Flow) {
    harmless(party, flow, &[("display", "wap")]).await;
}

/// `ui_locales`.
pub async fn ui_locales(party: &Party, flow: Flow) {
    harmless(party, flow, &[("ui_locales", "se fr-CA xx-invalid")]).await;
}

/// `claims_locales`.
pub async fn claims_locales(party: &Party, flow: Flow) {
    harmless(party, flow, &[("claims_locales", "se fr-CA xx-invalid")]).await;
}

/// `acr_values`.
pub async fn acr_values(party: &Party, flow: Flow) {
    harmless(party, flow, &[("acr_values", "1 2 urn:example:unknown")]).await;
}

/// `login_hint`.
pub async fn login_hint(party: &Party, flow: Flow) {
    harmless(party, flow, &[("login_hint", "bob@example.com")]).await;
}

/// Parameters that nobody has heard of.
pub async fn unknown_parameter(party: &Party, flow: Flow) {
    harmless(party, flow, &[("extra", "foobar"), ("registration", "{}"), ("resource", "https://api.example")]).await;
}

/// The `claims` parameter, which is not supported and says so in discovery.
pub async fn claims_essential(party: &Party, flow: Flow) {
    let claims = r#"{"userinfo":{"name":{"essential":true}},"id_token":{"name":{"essential":true}}}"#;
    harmless(party, flow, &[("claims", claims)]).await;
}

/// A second sign-in of a browser whose session knows the person, after some seconds; both.
async fn asked_again(party: &Party, flow: Flow, changes: &[(&str, &str)]) -> (SignedIn, SignedIn) {
    let mut visitor = Visitor::new(party, flow);
    let first = visitor.signs_in("alice", &[]).await;
    party.daemon.clock.advance(Duration::from_secs(2));
    // With whoever would have to be asked, asking nobody is refused.
    if changes.iter().all(|(name, _)| *name != "prompt") {
        visitor.is_refused(&[changes, &[("prompt", "none")]].concat(), "login_required").await;
    }
    let second = visitor.signs_in("alice", changes).await;
    assert_eq!(first.claims["sub"], second.claims["sub"]);
    let time = |signed_in: &SignedIn| signed_in.claims["auth_time"].as_u64().expect("a time");
    assert_eq!((time(&second), time(&first)), (party.now(), party.now() - 2), "{changes:?}");
    (first, second)
}

/// `prompt=login` asks again.
pub async fn prompt_login(party: &Party, flow: Flow) {
    asked_again(party, flow, &[("prompt", "login")]).await;
}

/// So does `prompt=consent`.
pub async fn prompt_consent(party: &Party, flow: Flow) {
    asked_again(party, flow, &[("prompt", "consent")]).await;
}

/// And `prompt=select_account`, also with others.
pub async fn prompt_select_account(party: &Party, flow: Flow) {
    asked_again(party, flow, &[("prompt", "select_account consent")]).await;
}

/// `max_age=0` asks again.
pub async fn max_age_0(party: &Party, flow: Flow) {
    asked_again(party, flow, &[("max_age", "0")]).await;
}

/// `max_age=1` asks again after two seconds.
pub async fn max_age_1(party: &Party, flow: Flow) {
    asked_again(party, flow, &[("max_age", "1")]).await;
}

/// A second request that is answered for the same sign-in.
async fn not_asked_again(party: &Party, flow: Flow, hinted: bool, changes: &[(&str, &str)]) {
    let mut visitor = Visitor::new(party, flow);
    let first = visitor.signs_in("alice", &[]).await;
    party.daemon.clock.advance(Duration::from_secs(2));
    let hint = hinted.then_some(("id_token_hint", &*first.id_token));
    let changes: Vec<(&str, &str)> = changes.iter().copied().chain(hint).collect();
    let second = visitor.is_known(&changes).await;
    for name in ["sub", "auth_time"] {
        assert_eq!(first.claims[name], second.claims[name], "{name}");
    }
    assert_ne!(first.claims["jti"], second.claims["jti"]);
}

/// `max_age=10000` does not, and tells when the sign-in was.
pub async fn max_age_10000(party: &Party, flow: Flow) {
    not_asked_again(party, flow, false, &[("max_age", "10000")]).await;
}

/// `prompt=none` for who is signed in.
pub async fn prompt_none_logged_in(party: &Party, flow: Flow) {
    not_asked_again(party, flow, false, &[("prompt", "none")]).await;
}

/// `prompt=none` with an ID token of the person.
pub async fn id_token_hint(party: &Party, flow: Flow) {
    not_asked_again(party, flow, true, &[("prompt", "none")]).await;
}

/// `prompt=none` for who is not signed in.
pub async fn prompt_none_not_logged_in(party: &Party, flow: Flow) {
    Visitor::new(party, flow).is_refused(&[("prompt", "none")], "login_required").await;
}

/// An ID token of somebody else than is there or signs in.
pub async fn id_token_hint_of_somebody_else(party: &Party, flow: Flow) {
    let bob = Visitor::new(party, flow).signs_in("bob", &[]).await;
    let mut visitor = Visitor::new(party, flow);
    visitor.signs_in("alice", &[]).await;
    let hint = [("id_token_hint", &*bob.id_token)];
    visitor.is_refused(&[&hint[..], &[("prompt", "none")]].concat(), "login_required").await;
    // Alice answers where bob is expected.
    let asked = visitor.asks(&hint);
    let done = party.answer_page(visitor.goes(&asked).await, "alice", "").await;
    assert_eq!(done.headers().get(SET_COOKIE), None, "nobody is remembered");
    checks_error(&visitor.lands(done, flow.way(), &asked).await, "login_required");
    visitor.signs_in("bob", &hint).await;
}

/// A code is good for one try, and the second one takes back what the first one gave.
pub async fn code_reuse(party: &Party, flow: Flow) {
    code_reuse_after(party, flow, 0).await;
}

/// Also half a minute later.
pub async fn code_reuse_30_seconds(party: &Party, flow: Flow) {
    code_reuse_after(party, flow, 30).await;
}

async fn code_reuse_after(party: &Party, flow: Flow, seconds: u64) {
    if !flow.has("code") {
        return;
    }
    let mut visitor = Visitor::new(party, flow);
    let signed_in = visitor.signs_in("alice", &[]).await;
    party.daemon.clock.advance(Duration::from_secs(seconds));
    let refused = visitor.exchanges(&signed_in.response["code"], &visitor.asks(&[])).await;
    refused.refused(400, "invalid_grant", "invalid_grant");
    assert_eq!(refused.header(CONTENT_TYPE), "application/json");
    let given = signed_in.access_tokens.last().expect("a token");
    let userinfo = party.send(party.http.get(party.daemon.sign_in("/userinfo")).bearer_auth(given)).await;
    userinfo.refused(401, "invalid_token", "invalid_token");
}

/// Codes cannot be guessed, and none is given twice.
pub async fn codes_have_128_bits(party: &Party, flow: Flow) {
    if !flow.has("code") {
        return;
    }
    let mut visitor = Visitor::new(party, flow);
    let mut codes = vec![visitor.signs_in("alice", &[]).await.response["code"].clone()];
    for _ in 0..31 {
        codes.push(visitor.is_known(&[]).await.response["code"].clone());
    }
    let bytes: Vec<Vec<u8>> = codes.iter().map(|code| URL_SAFE_NO_PAD.decode(code).expect("base64url")).collect();
    assert!(bytes.iter().all(|bytes| bytes.len() >= 16), "{codes:?}");
    assert_eq!(bytes.iter().collect::<BTreeSet<_>>().len(), codes.len());
    // No byte is the same in all of them: with random ones that happens less often than machines fail.
    for position in 0..16 {
        assert!(bytes.iter().any(|code| code[position] != bytes[0][position]), "byte {position} is fixed");
    }
}

/// The page about a request that is sent back to nobody.
async fn shown_error(visitor: &Visitor<'_>, changes: &[(&str, &str)]) -> String {
    let page = visitor.goes(&visitor.asks(changes)).await;
    assert_eq!((page.status().as_u16(), page.headers().get(LOCATION)), (400, None));
    assert!(page.headers()[CONTENT_TYPE].to_str().expect("text").starts_with("text/html"));
    assert_eq!(page.headers().get(SET_COOKIE), None);
    page.text().await.expect("text")
}

/// A redirect URI that is not registered is told to the person.
pub async fn registered_redirect_uri(party: &Party, flow: Flow) {
    let page = shown_error(&Visitor::new(party, flow), &[("redirect_uri", "https://app.example/unknown")]).await;
    assert!(page.contains("invalid_redirect_uri") && page.contains("not one of those registered"), "{page}");
}

/// So is a missing one: there is no default.
pub async fn redirect_uri_missing(party: &Party, flow: Flow) {
    let page = shown_error(&Visitor::new(party, flow), &[("redirect_uri", "")]).await;
    assert!(page.contains("required: redirect_uri"), "{page}");
}

/// The request by `POST`.
pub async fn post_request(party: &Party, flow: Flow) {
    let mut visitor = Visitor::new(party, flow);
    let asked = visitor.asks(&[]);
    let page = visitor.goes_by_form(&asked).await;
    visitor.answers(page, "alice", &asked).await;
    let wrong = visitor.asks(&[("scope", "email")]);
    let response = visitor.lands(visitor.goes_by_form(&wrong).await, flow.way(), &wrong).await;
    checks_error(&response, "invalid_scope");
}

/// What travels through the browser never travels in a query.
pub async fn response_mode_query(party: &Party, flow: Flow) {
    Visitor::new(party, flow).is_refused(&[("response_mode", "query")], "invalid_request").await;
}

/// The secret in the form.
pub async fn client_secret_post(party: &Party, flow: Flow) {
    let mut visitor = Visitor::new(party, flow).posting_its_secret();
    visitor.signs_in("alice", &[]).await;
}

/// A request object, unsigned.
fn request_object(visitor: &Visitor<'_>) -> String {
    let claims: serde_json::Map<String, Value> =
        visitor.asks(&[]).pairs().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.", part(json!({"alg": "none"})), part(claims.into()))
}

/// Request objects are not supported.
pub async fn request_refused_by_name(party: &Party, flow: Flow) {
    let visitor = Visitor::new(party, flow);
    let object = request_object(&visitor);
    visitor.is_refused(&[("request", &object)], "request_not_supported").await;
}

/// Nor are references to them; nothing is fetched.
pub async fn request_uri_refused_by_name(party: &Party, flow: Flow) {
    let visitor = Visitor::new(party, flow);
    for uri in ["https://app.example/request.jwt#hash", "urn:ietf:params:oauth:request_uri:1", "x"] {
        visitor.is_refused(&[("request_uri", uri)], "request_uri_not_supported").await;
    }
}

/// The redirect URI in a request object does not make up for a wrong one beside it.
pub async fn request_with_a_redirect_uri(party: &Party, flow: Flow) {
    let visitor = Visitor::new(party, flow);
    let object = request_object(&visitor);
    let changes = [("request", &*object), ("redirect_uri", "https://app.example/unknown")];
    assert!(shown_error(&visitor, &changes).await.contains("invalid_redirect_uri"));
}

/// There are no refresh tokens: asking for one is harmless, and using one is refused.
pub async fn refresh_token(party: &Party, flow: Flow) {
    if !flow.has("code") {
        return;
    }
    harmless(party, flow, &[("scope", "openid offline_access")]).await;
    let form = [("grant_type", "refresh_token"), ("refresh_token", "x")];
    party.post("/token", &form).await.refused(400, "invalid_grant_type", "unsupported_grant_type");
}

/// Proof keys for the code.
pub async fn valid_pkce(party: &Party, flow: Flow) {
    if !flow.has("code") {
        return;
    }
    let challenge = [("code_challenge", CHALLENGE), ("code_challenge_method", "S256")];
    let mut visitor = Visitor::new(party, flow).verifying(VERIFIER);
    visitor.signs_in("alice", &challenge).await;
    // Another one is refused, and so is a challenge that would be the verifier itself.
    let asked = visitor.asks(&challenge);
    let response = visitor.lands(visitor.goes(&asked).await, flow.way(), &asked).await;
    let wrong = Visitor::new(party, flow).verifying("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXl");
    wrong.exchanges(&response["code"], &asked).await.refused(400, "invalid_grant", "invalid_grant");
    for changes in [
        vec![("code_challenge", VERIFIER), ("code_challenge_method", "plain")],
        vec![("code_challenge", CHALLENGE)],
        vec![("code_challenge_method", "S256")],
    ] {
        visitor.is_refused(&changes, "invalid_request").await;
    }
}

/// A person who does not want to.
pub async fn the_person_refuses(party: &Party, flow: Flow) {
    let visitor = Visitor::new(party, flow);
    let asked = visitor.asks(&[]);
    let (cookie, base) = party.shown_transaction(&visitor.goes(&asked).await);
    let opened = SignInSession::open(&format!("{base}/request")).await.expect("begun");
    assert_eq!((opened.asked().app_id.as_str(), asked.get("redirect_uri")), (APP, Some(CALLBACK)));
    opened.refuse().await.expect("taken");
    let done = party.http.get(format!("{base}/complete")).header("Cookie", cookie).header(ACCEPT, "text/html");
    let done = done.send().await.expect("an answer");
    assert_eq!(done.headers().get(SET_COOKIE), None, "nobody is remembered");
    checks_error(&visitor.lands(done, flow.way(), &asked).await, "access_denied");
}
