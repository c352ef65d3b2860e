//! The error codes of sign-in: each at its endpoint, with its status, its body and its headers.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE,
};
use reqwest::{Method, RequestBuilder};
use selfsame::config::{InactiveStatus, RateLimit};
use selfsame::interface::Interface;
use serde_json::{Value, json};

use super::visitor::is_describing;
use super::{provider, signing_provider};
use crate::calls::Connection;
use crate::sign_in_desk::{
    APP, Answer, CALLBACK, CHALLENGE, Form, NEIGHBOUR, Party, SECRET, SECRET_OF_NEIGHBOUR, VERIFIER, fragment_or_query,
    take_current_proofs,
};

const BASIC_CHALLENGE: &str = "Basic realm=\"selfsame\", charset=\"UTF-8\"";
const BEARER_CHALLENGE: &str = "Bearer realm=\"selfsame\"";

/// Asserts the whole of an error: status, the five fields and no others, content type, that nobody keeps it; and that it has the
/// headers that go with its status, and no others of them.
#[track_caller]
fn is_error(answer: &Answer, status: u16, code: &str, error: &str, attribute: Option<&str>) {
    let detail = answer.refused(status, code, error);
    assert!(!detail.is_empty(), "{answer:?}");
    assert_eq!(answer.body["attribute"], json!(attribute), "{answer:?}");
    let fields: BTreeSet<&str> = answer.body.as_object().expect("fields").keys().map(String::as_str).collect();
    assert_eq!(fields, BTreeSet::from(["code", "detail", "attribute", "error", "error_description"]));
    has_headers(answer, status);
}

#[track_caller]
fn has_headers(answer: &Answer, status: u16) {
    assert_eq!((answer.header(CONTENT_TYPE), answer.header(CACHE_CONTROL)), ("application/json", "no-store"));
    let has = |name: HeaderName| answer.headers.contains_key(name);
    assert_eq!(has(ALLOW), status == 405, "{answer:?}");
    assert_eq!(has(RETRY_AFTER), [429, 503].contains(&status), "{answer:?}");
    assert!(!has(LOCATION) && !has(SET_COOKIE), "{answer:?}");
}

/// A request to a path of the sign-in service.
fn request(party: &Party, method: Method, path: &str) -> RequestBuilder {
    party.http.request(method, party.daemon.sign_in(path))
}

/// The rows of `method_not_allowed`.
async fn method_not_allowed(path: &str, allowed: &[&str]) {
    let party = provider().await;
    let all = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"];
    for name in all.into_iter().filter(|name| !allowed.contains(name)) {
        let method: Method = name.parse().expect("a method");
        // Whatever else is there does not count.
        let form = [("grant_type", "authorization_code"), ("token", "x"), ("code", "x")];
        let request = request(&party, method, path).basic_auth(APP, Some(SECRET)).form(&form);
        let answer = party.send(request).await;
        is_error(&answer, 405, "method_not_allowed", "invalid_request", None);
        let allow: BTreeSet<&str> = answer.header(ALLOW).split(", ").filter(|method| *method != "HEAD").collect();
        assert_eq!(allow, allowed.iter().copied().collect(), "{path}");
    }
    for name in allowed {
        let method = name.parse().expect("a method");
        assert_ne!(party.send(request(&party, method, path)).await.status, 405, "{name} {path}");
    }
}

#[tokio::test]
async fn discovery_method_not_allowed() {
    method_not_allowed("/.well-known/openid-configuration", &["GET", "OPTIONS"]).await;
}

#[tokio::test]
async fn jwks_method_not_allowed() {
    method_not_allowed("/jwks", &["GET", "OPTIONS"]).await;
    method_not_allowed("/jwks.json", &["GET", "OPTIONS"]).await;
}

#[tokio::test]
async fn authorize_method_not_allowed() {
    method_not_allowed("/authorize", &["GET", "POST"]).await;
}

#[tokio::test]
async fn token_method_not_allowed() {
    method_not_allowed("/token", &["POST", "OPTIONS"]).await;
}

#[tokio::test]
async fn introspect_method_not_allowed() {
    method_not_allowed("/introspect", &["POST"]).await;
}

#[tokio::test]
async fn userinfo_method_not_allowed() {
    method_not_allowed("/userinfo", &["GET", "POST", "OPTIONS"]).await;
}

/// An error of `/authorize` that is sent to nobody: a page for people, the five fields for programs; by `GET` and by `POST`.
async fn shown(party: &Party, changes: &[(&str, &str)], code: &str, attribute: &str) {
    let url = party.authorization_url(changes);
    let query = url.split_once('?').expect("a query").1.to_owned();
    let post = || {
        let request = request(party, Method::POST, "/authorize");
        request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(query.clone())
    };
    for request in [party.http.get(&url), post()] {
        let answer = party.send(request.header(ACCEPT, "application/json")).await;
        is_error(&answer, 400, code, "invalid_request", Some(attribute));
    }
    for request in [party.http.get(&url), post()] {
        let page = party.send(request.header(ACCEPT, "text/html")).await;
        assert_eq!((page.status, page.header(CONTENT_TYPE)), (400, "text/html; charset=utf-8"));
        assert_eq!((page.header(CACHE_CONTROL), page.header("x-content-type-options")), ("no-store", "nosniff"));
        assert!(!page.headers.contains_key(LOCATION) && !page.headers.contains_key(SET_COOKIE), "{page:?}");
        let text = page.body.as_str().expect("a page");
        for part in [code, attribute] {
            assert!(text.contains(&format!("<code>{part}</code>")), "{text}");
        }
    }
}

#[tokio::test]
async fn authorize_required_client_id() {
    shown(&provider().await, &[("client_id", "")], "required", "client_id").await;
}

#[tokio::test]
async fn authorize_required_redirect_uri() {
    shown(&provider().await, &[("redirect_uri", "")], "required", "redirect_uri").await;
}

#[tokio::test]
async fn authorize_invalid_redirect_uri() {
    let party = provider().await;
    for uri in ["https://app.example/callback", "http://localhost:3000/callback/", "https://neighbour.example/callback"]
    {
        shown(&party, &[("redirect_uri", uri)], "invalid_redirect_uri", "redirect_uri").await;
    }
}

#[tokio::test]
async fn authorize_invalid_client_id() {
    shown(&provider().await, &[("client_id", "app_unknown")], "invalid_client_id", "client_id").await;
}

/// An error of `/authorize` that is sent to the application; programs get the five fields.
async fn sent(party: &Party, changes: &[(&str, &str)], code: &str, error: &str, attribute: &str) {
    let url = party.authorization_url(changes);
    let answer = Answer::of(party.get(&url, "application/json").await).await;
    is_error(&answer, 400, code, error, Some(attribute));
    let redirect = party.get(&url, "text/html").await;
    assert_eq!(
        (redirect.status().as_u16(), &redirect.headers()[CACHE_CONTROL]),
        (303, &"no-store".parse().expect("a value"))
    );
    let location = redirect.headers()[LOCATION].to_str().expect("text");
    assert!(location.starts_with(CALLBACK), "{location}");
    let response = fragment_or_query(location);
    let names: Vec<&str> = response.keys().map(String::as_str).collect();
    assert_eq!(names, ["error", "error_description", "iss", "state"], "{location}");
    assert_eq!((&*response["error"], &*response["state"], &*response["iss"]), (error, "the state", &*party.issuer()));
    assert_eq!(response["error_description"], answer.text("detail"));
    assert_eq!(response["error_description"].starts_with(&format!("required: {attribute}")), code == "required");
}

#[tokio::test]
async fn authorize_required_response_type() {
    sent(&provider().await, &[("response_type", "")], "required", "invalid_request", "response_type").await;
}

#[tokio::test]
async fn authorize_required_scope() {
    sent(&provider().await, &[("scope", "")], "required", "invalid_request", "scope").await;
}

#[tokio::test]
async fn authorize_required_nonce() {
    let changes = [("response_type", "id_token"), ("nonce", "")];
    sent(&provider().await, &changes, "required", "invalid_request", "nonce").await;
}

#[tokio::test]
async fn authorize_errors_of_the_standards() {
    let party = provider().await;
    for (changes, code, attribute) in [
        (vec![("response_type", "token")], "unsupported_response_type", "response_type"),
        (vec![("response_type", "none")], "unsupported_response_type", "response_type"),
        (vec![("scope", "email")], "invalid_scope", "scope"),
        (vec![("prompt", "none")], "login_required", "prompt"),
        (vec![("prompt", "none login")], "invalid_request", "prompt"),
        (vec![("max_age", "-1")], "invalid_request", "max_age"),
        (vec![("response_mode", "web_message")], "invalid_request", "response_mode"),
        (vec![("id_token_hint", "x")], "invalid_request", "id_token_hint"),
        (vec![("request", "x")], "request_not_supported", "request"),
        (vec![("request_uri", "x")], "request_uri_not_supported", "request_uri"),
        (vec![("code_challenge", CHALLENGE)], "invalid_request", "code_challenge_method"),
        (vec![("scope", "openid"), ("scope", "openid email")], "invalid_request", "scope"),
    ] {
        sent(&party, &changes, code, code, attribute).await;
    }
}

/// The row of `invalid_content_type` for a path.
async fn invalid_content_type(path: &str) {
    let party = provider().await;
    let post = || request(&party, Method::POST, path).basic_auth(APP, Some(SECRET));
    let form = "grant_type=authorization_code&code=x&token=x";
    for content_type in [
        "application/json",
        "text/plain",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded2",
        "x-application/x-www-form-urlencoded",
        "text/plain; application/x-www-form-urlencoded",
    ] {
        let answer = party.send(post().header(CONTENT_TYPE, content_type).body(form)).await;
        is_error(&answer, 400, "invalid_content_type", "invalid_request", None);
    }
    is_error(&party.send(post().body(form)).await, 400, "invalid_content_type", "invalid_request", None);
    is_error(&party.send(post()).await, 400, "invalid_content_type", "invalid_request", None);
    // Case and parameters are free.
    for content_type in [
        "application/x-www-form-urlencoded",
        "application/x-www-form-urlencoded;charset=UTF-8",
        "application/x-www-form-urlencoded; charset=\"utf-8\"",
        "Application/X-WWW-Form-URLEncoded ; x=y",
    ] {
        let answer = party.send(post().header(CONTENT_TYPE, content_type).body(form)).await;
        assert!(answer.body["code"] != "invalid_content_type", "{content_type}: {answer:?}");
    }
}

#[tokio::test]
async fn token_invalid_content_type() {
    invalid_content_type("/token").await;
}

#[tokio::test]
async fn introspect_invalid_content_type() {
    invalid_content_type("/introspect").await;
}

/// The row of `unauthenticated` for a path that clients call.
async fn unauthenticated(path: &str) {
    let party = signing_provider().await;
    let code = party.code("alice", &[]).await;
    let form = [("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", CALLBACK), ("token", "x")];
    let with = |more: &[(&'static str, &'static str)]| {
        let pairs: Vec<(&str, &str)> = form.iter().copied().chain(more.iter().copied()).collect();
        request(&party, Method::POST, path).form(&pairs)
    };
    let basic = |id: &str, secret: Option<&str>| with(&[]).basic_auth(id, secret);
    let header = |value: &str| with(&[]).header("Authorization", value);
    for request in [
        with(&[]),
        with(&[("client_id", APP)]),
        with(&[("client_secret", SECRET)]),
        with(&[("client_id", APP), ("client_secret", "wrong")]),
        with(&[("client_id", APP), ("client_secret", SECRET_OF_NEIGHBOUR)]),
        with(&[("client_id", "app_unknown"), ("client_secret", SECRET)]),
        basic(APP, None),
        basic(APP, Some("")),
        basic(APP, Some("wrong")),
        basic(APP, Some("sk_dev_onl")),
        basic(APP, Some("sk_dev_only ")),
        basic(APP, Some("SK_DEV_ONLY")),
        basic(APP, Some(SECRET_OF_NEIGHBOUR)),
        basic(NEIGHBOUR, Some(SECRET)),
        basic("app_unknown", Some(SECRET)),
        basic("", Some(SECRET)),
        header("Basic"),
        header("Basic !!!"),
        header("Basic eA=="),
        header("Bearer x"),
        header("Digest x"),
        header("x"),
    ] {
        let answer = party.send(request).await;
        is_error(&answer, 401, "unauthenticated", "invalid_client", None);
        assert_eq!(answer.header(WWW_AUTHENTICATE), BASIC_CHALLENGE);
    }
    // Two ways at once are not one of them, and credentials do not travel in a query.
    let both = with(&[("client_id", APP), ("client_secret", SECRET)]).basic_auth(APP, Some(SECRET));
    is_error(&party.send(both).await, 400, "invalid_request", "invalid_request", None);
    let query = format!("{path}?client_id={APP}&client_secret={SECRET}");
    let answer = party.send(request(&party, Method::POST, &query).form(&form)).await;
    is_error(&answer, 401, "unauthenticated", "invalid_client", None);
    // None of it has used the code up.
    assert_eq!(party.exchange(&code).await.status, 200);
    party.stop().await;
}

#[tokio::test]
async fn token_unauthenticated() {
    unauthenticated("/token").await;
}

#[tokio::test]
async fn introspect_unauthenticated() {
    unauthenticated("/introspect").await;
}

#[tokio::test]
async fn userinfo_unauthenticated() {
    let party = signing_provider().await;
    let token = party.exchange(&party.code("alice", &[]).await).await.text("access_token").to_owned();
    let query = format!("/userinfo?access_token={token}");
    for request in [
        request(&party, Method::GET, "/userinfo"),
        request(&party, Method::POST, "/userinfo"),
        request(&party, Method::POST, "/userinfo").form(&[]),
        request(&party, Method::POST, "/userinfo").form(&[("token", &token)]),
        request(&party, Method::POST, "/userinfo").json(&json!({"access_token": token})),
        request(&party, Method::GET, "/userinfo").basic_auth(APP, Some(SECRET)),
        request(&party, Method::GET, "/userinfo").header("Authorization", &token),
        request(&party, Method::GET, "/userinfo").header("Authorization", "Bearer"),
        // RFC 9700, section 4.3.2: addresses are seen by others.
        request(&party, Method::GET, &query),
        request(&party, Method::POST, &query),
    ] {
        let answer = party.send(request).await;
        is_error(&answer, 401, "unauthenticated", "invalid_request", None);
        assert_eq!(answer.header(WWW_AUTHENTICATE), BEARER_CHALLENGE);
    }
    let request = request(&party, Method::POST, "/userinfo").bearer_auth(&token).form(&[("access_token", &token)]);
    let both = party.send(request).await;
    is_error(&both, 400, "invalid_request", "invalid_request", None);
    assert_eq!(both.header(WWW_AUTHENTICATE), format!("{BEARER_CHALLENGE}, error=\"invalid_request\""));
    party.stop().await;
}

#[tokio::test]
async fn token_invalid_grant_type() {
    let party = provider().await;
    let missing = party.post("/token", &[("code", "x")]).await;
    is_error(&missing, 400, "invalid_grant_type", "invalid_request", Some("grant_type"));
    for grant_type in [
        "password",
        "client_credentials",
        "refresh_token",
        "implicit",
        "Authorization_Code",
        "authorization_code ",
        "x",
    ] {
        let answer = party.post("/token", &[("grant_type", grant_type), ("code", "x")]).await;
        is_error(&answer, 400, "invalid_grant_type", "unsupported_grant_type", Some("grant_type"));
    }
}

#[tokio::test]
async fn token_required_code() {
    let party = provider().await;
    for form in [vec![], vec![("code", "")], vec![("Code", "x")]] {
        let form: Vec<(&str, &str)> = [("grant_type", "authorization_code")].into_iter().chain(form).collect();
        let answer = party.post("/token", &form).await;
        is_error(&answer, 400, "required", "invalid_request", Some("code"));
    }
}

#[tokio::test]
async fn introspect_required_token() {
    let party = provider().await;
    for form in [vec![], vec![("token", "")], vec![("access_token", "x")]] {
        let answer = party.post("/introspect", &form).await;
        is_error(&answer, 400, "required", "invalid_request", Some("token"));
    }
}

#[tokio::test]
async fn token_invalid_grant() {
    let party = signing_provider().await;
    let refused = |answer: &Answer, attribute: &str| {
        is_error(answer, 400, "invalid_grant", "invalid_grant", Some(attribute));
    };
    // One that never was.
    refused(&party.exchange("unknown").await, "code");
    refused(&party.exchange(&"A".repeat(43)).await, "code");
    // One that was used.
    let used = party.code("alice", &[]).await;
    assert_eq!(party.exchange(&used).await.status, 200);
    refused(&party.exchange(&used).await, "code");
    // One that has expired, at the very second.
    let late = party.code("alice", &[]).await;
    party.daemon.clock.advance(Duration::from_secs(600));
    refused(&party.exchange(&late).await, "code");
    let just = party.code("alice", &[]).await;
    party.daemon.clock.advance(Duration::from_secs(599));
    assert_eq!(party.exchange(&just).await.status, 200);
    // Another client's.
    let code = party.code("alice", &[]).await;
    let form = [("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", CALLBACK)];
    refused(&party.post_as(NEIGHBOUR, SECRET_OF_NEIGHBOUR, "/token", &form).await, "code");
    // Another redirect URI, or none.
    for uri in ["", "http://127.0.0.1:3000/callback", "http://localhost:3000/Callback"] {
        let code = party.code("alice", &[]).await;
        let form = [("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", uri)];
        refused(&party.post("/token", &form).await, "redirect_uri");
        refused(&party.exchange(&code).await, "code");
    }
    // A PKCE verifier that is missing, wrong, or not asked for.
    let challenge = [("code_challenge", CHALLENGE), ("code_challenge_method", "S256")];
    for (asked, verifier) in [(&challenge[..], ""), (&challenge[..], CHALLENGE), (&[], VERIFIER)] {
        let code = party.code("alice", asked).await;
        let mut form = vec![("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", CALLBACK)];
        form.push(("code_verifier", verifier));
        refused(&party.post("/token", &form).await, "code_verifier");
    }
    party.stop().await;
}

#[tokio::test]
async fn token_parameters_given_twice() {
    let party = provider().await;
    for name in ["grant_type", "code", "redirect_uri", "code_verifier", "client_id", "client_secret"] {
        let answer = party.post("/token", &[(name, "x"), (name, "x")]).await;
        is_error(&answer, 400, "invalid_request", "invalid_request", Some(name));
    }
    for name in ["token", "token_type_hint", "client_id", "client_secret"] {
        let answer = party.post("/introspect", &[(name, "x"), (name, "x")]).await;
        is_error(&answer, 400, "invalid_request", "invalid_request", Some(name));
    }
}

/// Tokens that are not alive, as a client of [`APP`] has them: what they are, and the text.
async fn dead_tokens(party: &Party) -> Vec<(&'static str, String)> {
    let granted = async || {
        let code = party.code("alice", &[]).await;
        (party.exchange(&code).await, code)
    };
    let (revoked, code) = granted().await;
    party.exchange(&code).await.refused(400, "invalid_grant", "invalid_grant");
    let (expired, _) = granted().await;
    party.daemon.clock.advance(Duration::from_secs(3600));
    let (alive, used) = granted().await;
    let unused = party.code("alice", &[]).await;
    let text = |answer: &Answer, name: &str| answer.text(name).to_owned();
    vec![
        ("one that never was", "never-was".to_owned()),
        ("one of the right length", "A".repeat(43)),
        ("one that was revoked", text(&revoked, "access_token")),
        ("one that has expired", text(&expired, "access_token")),
        ("an ID token", text(&alive, "id_token")),
        ("a used code", used),
        ("a code", unused),
        ("one in capitals", text(&alive, "access_token").to_uppercase()),
        ("one with something behind it", text(&alive, "access_token") + "A"),
    ]
}

#[tokio::test]
async fn introspect_invalid_token() {
    let party = signing_provider().await;
    let mut dead = dead_tokens(&party).await;
    let form_of_neighbour = [("client_id", NEIGHBOUR)];
    let location =
        party.sign_in("alice", &[&form_of_neighbour[..], &[("response_type", "id_token token")]].concat()).await;
    dead.push(("another client's", fragment_or_query(&location)["access_token"].clone()));
    let mut bodies = Vec::new();
    for (what, token) in dead {
        let answer = party.post("/introspect", &[("token", &*token)]).await;
        answer.refused(401, "invalid_token", "invalid_token");
        has_headers(&answer, 401);
        let fields: BTreeSet<&str> = answer.body.as_object().expect("fields").keys().map(String::as_str).collect();
        let expected = ["code", "detail", "attribute", "error", "error_description", "active"];
        assert_eq!(fields, BTreeSet::from(expected), "{what}");
        assert_eq!((&answer.body["active"], &answer.body["attribute"]), (&json!(false), &json!("token")), "{what}");
        assert_eq!(answer.header(WWW_AUTHENTICATE), "", "{what}: the client's own credentials were good");
        bodies.push(answer.body);
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]), "nobody learns what a token was");
    party.stop().await;
}

#[tokio::test]
async fn introspect_invalid_token_in_the_words_of_rfc_7662() {
    let party = Party::start_with_keys(|config| {
        take_current_proofs(config);
        config.sign_in.introspection_inactive_status = InactiveStatus::Ok;
    })
    .await;
    for (what, token) in dead_tokens(&party).await {
        let answer = party.post("/introspect", &[("token", &*token)]).await;
        assert_eq!((answer.status, &answer.body), (200, &json!({"active": false})), "{what}");
        assert_eq!(answer.header(CACHE_CONTROL), "no-store");
    }
    party.stop().await;
}

#[tokio::test]
async fn userinfo_invalid_token() {
    let party = signing_provider().await;
    for (what, token) in dead_tokens(&party).await {
        for request in [
            request(&party, Method::GET, "/userinfo").bearer_auth(&token),
            request(&party, Method::POST, "/userinfo").bearer_auth(&token),
            request(&party, Method::POST, "/userinfo").form(&[("access_token", &token)]),
        ] {
            let answer = party.send(request).await;
            is_error(&answer, 401, "invalid_token", "invalid_token", None);
            let challenge = answer.header(WWW_AUTHENTICATE);
            let expected = format!("{BEARER_CHALLENGE}, error=\"invalid_token\"");
            assert!(challenge.starts_with(&expected) && !challenge.contains(&token), "{what}: {challenge}");
        }
    }
    party.stop().await;
}

#[tokio::test]
async fn not_found() {
    let party = provider().await;
    for path in ["/", "/nowhere", "/token/", "/authorize/", "/userinfo/x", "/.well-known/", "/Token", "/authorize/x/y"]
    {
        for method in [Method::GET, Method::POST, Method::OPTIONS] {
            let answer = party.send(request(&party, method, path)).await;
            is_error(&answer, 404, "not_found", "invalid_request", None);
        }
    }
    // Transactions that never were.
    for path in ["request", "progress", "complete"] {
        for id in ["0".repeat(32), "x".to_owned(), "0".repeat(33), "F".repeat(32)] {
            let get = request(&party, Method::GET, &format!("/authorize/{id}/{path}")).bearer_auth("x");
            let answer = party.send(get).await;
            if path == "progress" && id == "0".repeat(32) {
                assert_eq!(answer.body, json!({"state": "over"}));
            } else {
                is_error(&answer, 404, "not_found", "invalid_request", None);
            }
        }
    }
}

#[tokio::test]
async fn rate_limit() {
    let party = Party::start_with(|config| {
        take_current_proofs(config);
        config.limits.sign_ins_per_source = Some(RateLimit { requests: 2, window: Duration::from_secs(60) });
    })
    .await;
    for _ in 0..2 {
        let answer = party.post_as(APP, "wrong", "/token", &[("code", "x")]).await;
        is_error(&answer, 401, "unauthenticated", "invalid_client", None);
    }
    let form = [("grant_type", "authorization_code"), ("code", "x"), ("token", "x")];
    let url = party.authorization_url(&[]);
    for request in [
        request(&party, Method::POST, "/token").basic_auth(APP, Some("wrong")).form(&form),
        request(&party, Method::POST, "/introspect").basic_auth(APP, Some("wrong")).form(&form),
        request(&party, Method::GET, "/userinfo").bearer_auth("wrong"),
        party.http.get(&url).header(ACCEPT, "application/json"),
    ] {
        let answer = party.send(request).await;
        is_error(&answer, 429, "rate_limit", "temporarily_unavailable", None);
        assert_eq!(answer.header(RETRY_AFTER), "60");
    }
    let page = party.send(party.http.get(&url).header(ACCEPT, "text/html")).await;
    assert_eq!((page.status, page.header(CONTENT_TYPE)), (429, "text/html; charset=utf-8"));
    assert!(page.headers.contains_key(RETRY_AFTER) && !page.headers.contains_key(LOCATION), "{page:?}");
    party.daemon.clock.advance(Duration::from_secs(60));
    assert_eq!(party.send(party.http.get(&url).header(ACCEPT, "application/json")).await.status, 200);
}

/// Nobody uses up the room that there is for the sign-ins of all.
#[tokio::test]
async fn rate_limit_of_open_sign_ins() {
    let party = Party::start_with(|config| {
        config.limits.open_sign_ins = 5;
        config.limits.trusted_proxies = vec!["127.0.0.0/8".parse().expect("a network")];
    })
    .await;
    let url = party.authorization_url(&[]);
    let begin = |host: u8| {
        let request = party.http.get(&url).header(ACCEPT, "application/json");
        party.send(request.header("x-forwarded-for", format!("192.0.2.{host}")))
    };
    for host in [1, 1, 2] {
        assert_eq!(begin(host).await.status, 200);
    }
    party.daemon.clock.advance(Duration::from_secs(100));
    let answer = begin(1).await;
    is_error(&answer, 429, "rate_limit", "temporarily_unavailable", None);
    assert_eq!(answer.header(RETRY_AFTER), "500");
    let page = party.http.get(&url).header(ACCEPT, "text/html").header("x-forwarded-for", "192.0.2.1");
    let page = party.send(page).await;
    assert_eq!((page.status, page.header(CONTENT_TYPE)), (429, "text/html; charset=utf-8"));
    for host in [2, 3] {
        assert_eq!(begin(host).await.status, 200);
    }
    let answer = begin(4).await;
    is_error(&answer, 503, "temporarily_unavailable", "temporarily_unavailable", None);
    assert_eq!(answer.header(RETRY_AFTER), "500");
    party.daemon.clock.advance(Duration::from_secs(500));
    for host in [1, 1, 4] {
        assert_eq!(begin(host).await.status, 200);
    }
}

#[tokio::test]
async fn temporarily_unavailable() {
    let party = Party::start_with(|config| config.limits.request_timeout = Duration::from_millis(200)).await;
    for path in ["/token", "/introspect", "/userinfo", "/authorize"] {
        // A form that never ends takes the place of whatever else is too slow.
        let mut connection = Connection::open(party.daemon.addresses[Interface::SignIn]).await;
        let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\ncontent-type: application/x-www-form-urlencoded\r\n");
        connection.send(head + "content-length: 99\r\n\r\ncode=").await;
        let (status, headers, body) = connection.reply().await.expect("an answer");
        let answer = Answer { status, headers, body: serde_json::from_slice(&body).expect("JSON") };
        is_error(&answer, 503, "temporarily_unavailable", "temporarily_unavailable", None);
        assert_eq!(answer.header(RETRY_AFTER), "1", "{path}");
    }
}

/// Of several things that are wrong, the first one in this order is told: method, content type, parameters given twice, client,
/// grant type, presence, the code, what goes with it.
#[tokio::test]
async fn token_order_of_the_checks() {
    let party = signing_provider().await;
    let post = |secret: &'static str, form: &[(&str, &str)]| {
        request(&party, Method::POST, "/token").basic_auth(APP, Some(secret)).form(form)
    };
    let put = request(&party, Method::PUT, "/token").header(CONTENT_TYPE, "text/plain").body("code=x&code=x");
    let text = request(&party, Method::POST, "/token").header(CONTENT_TYPE, "text/plain").body("code=x&code=x");
    let code = party.code("alice", &[]).await;
    for (request, code) in [
        (put, "method_not_allowed"),
        (text, "invalid_content_type"),
        (post("wrong", &[("grant_type", "x"), ("grant_type", "x")]), "invalid_request"),
        (post("wrong", &[("grant_type", "x")]), "unauthenticated"),
        (post(SECRET, &[("grant_type", "x")]), "invalid_grant_type"),
        (post(SECRET, &[("grant_type", "authorization_code"), ("code_verifier", "x")]), "required"),
        (post(SECRET, &[("grant_type", "authorization_code"), ("code", "x"), ("code_verifier", "x")]), "invalid_grant"),
    ] {
        let answer = party.send(request).await;
        assert_eq!(answer.body["code"], code, "{answer:?}");
    }
    // All of which left the code alone, but this one does not.
    let form = [("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", "x"), ("code_verifier", "x")];
    assert_eq!(party.post("/token", &form).await.body["attribute"], "redirect_uri");
    assert_eq!(party.exchange(&code).await.body["attribute"], "code");
    party.stop().await;
}

/// One error of each kind, as programs get it.
async fn errors_as_json(party: &Party) -> Vec<Answer> {
    let authorize =
        |changes: &[(&str, &str)]| party.http.get(party.authorization_url(changes)).header(ACCEPT, "application/json");
    let token = |form: &[(&str, &str)]| request(party, Method::POST, "/token").basic_auth(APP, Some(SECRET)).form(form);
    let introspect =
        |form: &[(&str, &str)]| request(party, Method::POST, "/introspect").basic_auth(APP, Some(SECRET)).form(form);
    let text = |path: &str| request(party, Method::POST, path).header(CONTENT_TYPE, "text/\"plain\"").body("x");
    let mut answers = Vec::new();
    for request in [
        authorize(&[("client_id", "")]),
        authorize(&[("client_id", "app_\"unknown\"")]),
        authorize(&[("redirect_uri", "")]),
        authorize(&[("redirect_uri", "https://\"app\".example")]),
        authorize(&[("response_type", "\"code\"")]),
        authorize(&[("response_mode", "\"query\"")]),
        authorize(&[("scope", "\"email\"")]),
        authorize(&[("prompt", "none")]),
        authorize(&[("prompt", "none \"x\"")]),
        authorize(&[("max_age", "\"1\"")]),
        authorize(&[("id_token_hint", "\"x\"")]),
        authorize(&[("code_challenge", "\"x\"")]),
        authorize(&[("request", "\"x\"")]),
        authorize(&[("request_uri", "\"x\"")]),
        authorize(&[("state", "x"), ("state", "\"x\"")]),
        token(&[]),
        token(&[("grant_type", "password")]),
        token(&[("grant_type", "\"päss\\word\"")]),
        token(&[("grant_type", "authorization_code")]),
        token(&[("grant_type", "authorization_code"), ("code", "\"x\"")]),
        token(&[("code", "x"), ("code", "\"x\"")]),
        introspect(&[]),
        introspect(&[("token", "\"x\"")]),
        text("/token"),
        text("/introspect"),
        request(party, Method::POST, "/token"),
        request(party, Method::POST, "/token").form(&[("client_id", "\"x\"")]),
        request(party, Method::PUT, "/token"),
        request(party, Method::GET, "/userinfo"),
        request(party, Method::GET, "/userinfo").bearer_auth("\"x\""),
        request(party, Method::POST, "/userinfo").form(&[("access_token", "x"), ("access_token", "\"x\"")]),
        request(party, Method::GET, "/nowhere/%22x%22"),
    ] {
        let answer = party.send(request).await;
        assert!(answer.status >= 400, "{answer:?}");
        answers.push(answer);
    }
    answers
}

/// RFC 6749, section 5.2, and RFC 6750, section 3, leave quotes, backslashes and all that is not printable ASCII out of
/// `error_description`; the OpenID Foundation's suite checks it.
#[tokio::test]
async fn error_descriptions_are_of_allowed_characters() {
    let party = provider().await;
    let answers = errors_as_json(&party).await;
    let wrong: Vec<&Value> = answers.iter().map(|answer| &answer.body["error_description"]).collect();
    let wrong: Vec<&Value> = wrong.into_iter().filter(|text| !text.as_str().is_some_and(is_describing)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Nothing in a JSON error is taken for a page, whatever it repeats.
#[tokio::test]
async fn json_errors_are_not_sniffed() {
    let party = provider().await;
    for answer in errors_as_json(&party).await {
        assert_eq!(answer.header(CONTENT_TYPE), "application/json", "{answer:?}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{answer:?}");
    }
}
