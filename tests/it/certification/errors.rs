//! The error codes of sign-in: each at its endpoint, with its status, its body and its headers.

mod tokens;

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE,
};
use reqwest::{Method, RequestBuilder};
use selfsame::config::{InactiveStatus, RateLimit, TimeSpan};
use selfsame_interfaces::interface::Interface;
use serde_json::{Value, json};

use super::browser::has_allowed_characters;
use super::provider;
use crate::registry_client::RawHttpConnection;
use crate::sign_in_client::{
    APP, CALLBACK, CHALLENGE, Form, OTHER_APP, OTHER_APP_SECRET, SECRET, SignInAnswer, SignInTestClient, VERIFIER,
    accept_current_proofs, fragment_or_query,
};

const BASIC_CHALLENGE: &str = "Basic realm=\"selfsame\", charset=\"UTF-8\"";
const BEARER_CHALLENGE: &str = "Bearer realm=\"selfsame\"";

/// Asserts the whole of an error: status, the five fields and no others, the content type,
/// `no-store`, and exactly the headers that belong to its status.
#[track_caller]
fn assert_error(answer: &SignInAnswer, status: u16, code: &str, error: &str, attribute: Option<&str>) {
    let detail = answer.expect_error(status, code, error);
    assert!(!detail.is_empty(), "{answer:?}");
    assert_eq!(answer.body["attribute"], json!(attribute), "{answer:?}");
    let fields: BTreeSet<&str> = answer.body.as_object().expect("fields").keys().map(String::as_str).collect();
    assert_eq!(fields, BTreeSet::from(["code", "detail", "attribute", "error", "error_description"]));
    assert_headers(answer, status);
}

#[track_caller]
fn assert_headers(answer: &SignInAnswer, status: u16) {
    assert_eq!((answer.header(CONTENT_TYPE), answer.header(CACHE_CONTROL)), ("application/json", "no-store"));
    let has = |name: HeaderName| answer.headers.contains_key(name);
    assert_eq!(has(ALLOW), status == 405, "{answer:?}");
    assert_eq!(has(RETRY_AFTER), [429, 503].contains(&status), "{answer:?}");
    assert!(!has(LOCATION) && !has(SET_COOKIE), "{answer:?}");
}

/// A request to a path of the sign-in service.
fn request(client: &SignInTestClient, method: Method, path: &str) -> RequestBuilder {
    client.http.request(method, client.daemon.sign_in(path))
}

/// The test of `method_not_allowed` for a path.
async fn method_not_allowed(path: &str, allowed: &[&str]) {
    let client = provider().await;
    let all = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"];
    for name in all.into_iter().filter(|name| !allowed.contains(name)) {
        let method: Method = name.parse().expect("a method");
        // The content of the request does not matter.
        let form = [("grant_type", "authorization_code"), ("token", "x"), ("code", "x")];
        let request = request(&client, method, path).basic_auth(APP, Some(SECRET)).form(&form);
        let answer = client.send(request).await;
        assert_error(&answer, 405, "method_not_allowed", "invalid_request", None);
        let allow: BTreeSet<&str> = answer.header(ALLOW).split(", ").filter(|method| *method != "HEAD").collect();
        assert_eq!(allow, allowed.iter().copied().collect(), "{path}");
    }
    for name in allowed {
        let method = name.parse().expect("a method");
        assert_ne!(client.send(request(&client, method, path)).await.status, 405, "{name} {path}");
    }
}

#[tokio::test]
async fn discovery_refuses_other_methods() {
    method_not_allowed("/.well-known/openid-configuration", &["GET", "OPTIONS"]).await;
}

#[tokio::test]
async fn jwks_refuses_other_methods() {
    method_not_allowed("/jwks", &["GET", "OPTIONS"]).await;
    method_not_allowed("/jwks.json", &["GET", "OPTIONS"]).await;
}

#[tokio::test]
async fn authorize_refuses_other_methods() {
    method_not_allowed("/authorize", &["GET", "POST"]).await;
}

#[tokio::test]
async fn token_refuses_other_methods() {
    method_not_allowed("/token", &["POST", "OPTIONS"]).await;
}

#[tokio::test]
async fn introspect_refuses_other_methods() {
    method_not_allowed("/introspect", &["POST"]).await;
}

#[tokio::test]
async fn userinfo_refuses_other_methods() {
    method_not_allowed("/userinfo", &["GET", "POST", "OPTIONS"]).await;
}

/// Checks an error of `/authorize` that is not sent to a redirect URI, by `GET` and by `POST`:
/// browsers get a page, programs get the five fields.
async fn assert_error_page(client: &SignInTestClient, changes: &[(&str, &str)], code: &str, attribute: &str) {
    let url = client.authorization_url(changes);
    let query = url.split_once('?').expect("a query").1.to_owned();
    let post = || {
        let request = request(client, Method::POST, "/authorize");
        request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(query.clone())
    };
    for request in [client.http.get(&url), post()] {
        let answer = client.send(request.header(ACCEPT, "application/json")).await;
        assert_error(&answer, 400, code, "invalid_request", Some(attribute));
    }
    for request in [client.http.get(&url), post()] {
        let page = client.send(request.header(ACCEPT, "text/html")).await;
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
async fn authorize_requires_a_client_id() {
    assert_error_page(&provider().await, &[("client_id", "")], "required", "client_id").await;
}

#[tokio::test]
async fn authorize_requires_a_redirect_uri() {
    assert_error_page(&provider().await, &[("redirect_uri", "")], "required", "redirect_uri").await;
}

#[tokio::test]
async fn authorize_refuses_unregistered_redirect_uris() {
    let client = provider().await;
    for uri in ["https://app.example/callback", "http://localhost:3000/callback/", "https://neighbour.example/callback"]
    {
        assert_error_page(&client, &[("redirect_uri", uri)], "invalid_redirect_uri", "redirect_uri").await;
    }
}

#[tokio::test]
async fn authorize_refuses_unknown_client_ids() {
    assert_error_page(&provider().await, &[("client_id", "app_unknown")], "invalid_client_id", "client_id").await;
}

/// Checks an error of `/authorize` that is sent to the application; programs get the five fields.
async fn assert_error_redirect(
    client: &SignInTestClient,
    changes: &[(&str, &str)],
    code: &str,
    error: &str,
    attribute: &str,
) {
    let url = client.authorization_url(changes);
    let answer = SignInAnswer::of(client.get(&url, "application/json").await).await;
    assert_error(&answer, 400, code, error, Some(attribute));
    let redirect = client.get(&url, "text/html").await;
    assert_eq!(
        (redirect.status().as_u16(), &redirect.headers()[CACHE_CONTROL]),
        (303, &"no-store".parse().expect("a value"))
    );
    let location = redirect.headers()[LOCATION].to_str().expect("text");
    assert!(location.starts_with(CALLBACK), "{location}");
    let response = fragment_or_query(location);
    let names: Vec<&str> = response.keys().map(String::as_str).collect();
    assert_eq!(names, ["error", "error_description", "iss", "state"], "{location}");
    assert_eq!((&*response["error"], &*response["state"], &*response["iss"]), (error, "the state", &*client.issuer()));
    assert_eq!(response["error_description"], answer.text("detail"));
    assert_eq!(response["error_description"].starts_with(&format!("required: {attribute}")), code == "required");
}

#[tokio::test]
async fn authorize_requires_a_response_type() {
    assert_error_redirect(&provider().await, &[("response_type", "")], "required", "invalid_request", "response_type")
        .await;
}

#[tokio::test]
async fn authorize_requires_a_scope() {
    assert_error_redirect(&provider().await, &[("scope", "")], "required", "invalid_request", "scope").await;
}

#[tokio::test]
async fn authorize_requires_a_nonce_for_front_channel_id_tokens() {
    let changes = [("response_type", "id_token"), ("nonce", "")];
    assert_error_redirect(&provider().await, &changes, "required", "invalid_request", "nonce").await;
}

#[tokio::test]
async fn authorize_answers_the_standard_errors() {
    let client = provider().await;
    for (changes, code, attribute) in [
        (vec![("response_type", "token")], "unsupported_response_type", "response_type"),
        (vec![("response_type", "none")], "unsupported_response_type", "response_type"),
        (vec![("scope", "email")], "invalid_scope", "scope"),
        (vec![("prompt", "none")], "login_required", "prompt"),
        (vec![("prompt", "none login")], "invalid_request", "prompt"),
        (vec![("max_age", "-1")], "invalid_request", "max_age"),
        (vec![("response_mode", "web_message")], "invalid_request", "response_mode"),
        (vec![("request", "x")], "request_not_supported", "request"),
        (vec![("request_uri", "x")], "request_uri_not_supported", "request_uri"),
        (vec![("code_challenge", CHALLENGE)], "invalid_request", "code_challenge_method"),
        (vec![("scope", "openid"), ("scope", "openid email")], "invalid_request", "scope"),
    ] {
        assert_error_redirect(&client, &changes, code, code, attribute).await;
    }
}

#[tokio::test]
async fn unknown_paths_and_transactions_are_not_found() {
    let client = provider().await;
    for path in ["/nowhere", "/token/", "/authorize/", "/userinfo/x", "/.well-known/", "/Token", "/authorize/x/y"] {
        for method in [Method::GET, Method::POST, Method::OPTIONS] {
            let answer = client.send(request(&client, method, path)).await;
            assert_error(&answer, 404, "not_found", "invalid_request", None);
        }
    }
    // Transactions that do not exist.
    for path in ["request", "progress", "complete"] {
        for id in ["0".repeat(32), "x".to_owned(), "0".repeat(33), "F".repeat(32)] {
            let get = request(&client, Method::GET, &format!("/authorize/{id}/{path}")).bearer_auth("x");
            let answer = client.send(get).await;
            if path == "progress" && id == "0".repeat(32) {
                assert_eq!(answer.body, json!({"state": "over"}));
            } else {
                assert_error(&answer, 404, "not_found", "invalid_request", None);
            }
        }
    }
}

#[tokio::test]
async fn requests_over_the_rate_limit_are_refused() {
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        config.limits.sign_ins_per_source = Some(RateLimit { requests: 2, window: TimeSpan::from_secs(60) });
    })
    .await;
    for _ in 0..2 {
        let answer = client.post_as(APP, "wrong", "/token", &[("code", "x")]).await;
        assert_error(&answer, 401, "unauthenticated", "invalid_client", None);
    }
    let form = [("grant_type", "authorization_code"), ("code", "x"), ("token", "x")];
    let url = client.authorization_url(&[]);
    for request in [
        request(&client, Method::POST, "/token").basic_auth(APP, Some("wrong")).form(&form),
        request(&client, Method::POST, "/introspect").basic_auth(APP, Some("wrong")).form(&form),
        request(&client, Method::GET, "/userinfo").bearer_auth("wrong"),
        client.http.get(&url).header(ACCEPT, "application/json"),
    ] {
        let answer = client.send(request).await;
        assert_error(&answer, 429, "rate_limit", "temporarily_unavailable", None);
        assert_eq!(answer.header(RETRY_AFTER), "60");
    }
    let page = client.send(client.http.get(&url).header(ACCEPT, "text/html")).await;
    assert_eq!((page.status, page.header(CONTENT_TYPE)), (429, "text/html; charset=utf-8"));
    assert!(page.headers.contains_key(RETRY_AFTER) && !page.headers.contains_key(LOCATION), "{page:?}");
    client.daemon.clock.advance(Duration::from_secs(60));
    assert_eq!(client.send(client.http.get(&url).header(ACCEPT, "application/json")).await.status, 200);
}

/// One source cannot use all open sign-ins that the provider allows.
#[tokio::test]
async fn one_source_may_not_open_all_sign_ins() {
    let client = SignInTestClient::start_with_keys(|config| {
        config.limits.open_sign_ins = 5;
        config.limits.trusted_proxies = vec!["127.0.0.0/8".parse().expect("a network")];
    })
    .await;
    let url = client.authorization_url(&[]);
    let begin = |host: u8| {
        let request = client.http.get(&url).header(ACCEPT, "application/json");
        client.send(request.header("x-forwarded-for", format!("192.0.2.{host}")))
    };
    for host in [1, 1, 2] {
        assert_eq!(begin(host).await.status, 200);
    }
    client.daemon.clock.advance(Duration::from_secs(100));
    let answer = begin(1).await;
    assert_error(&answer, 429, "rate_limit", "temporarily_unavailable", None);
    assert_eq!(answer.header(RETRY_AFTER), "200");
    let page = client.http.get(&url).header(ACCEPT, "text/html").header("x-forwarded-for", "192.0.2.1");
    let page = client.send(page).await;
    assert_eq!((page.status, page.header(CONTENT_TYPE)), (429, "text/html; charset=utf-8"));
    for host in [2, 3] {
        assert_eq!(begin(host).await.status, 200);
    }
    let answer = begin(4).await;
    assert_error(&answer, 503, "temporarily_unavailable", "temporarily_unavailable", None);
    assert_eq!(answer.header(RETRY_AFTER), "200");
    client.daemon.clock.advance(Duration::from_secs(200));
    for host in [1, 1, 4] {
        assert_eq!(begin(host).await.status, 200);
    }
}

#[tokio::test]
async fn a_form_that_never_ends_is_answered_as_temporarily_unavailable() {
    let client =
        SignInTestClient::start_with_keys(|config| config.limits.request_timeout = Duration::from_secs(2).into()).await;
    for path in ["/token", "/introspect", "/userinfo", "/authorize"] {
        // A form that never ends makes the request time out.
        let mut connection = RawHttpConnection::open(client.daemon.addresses[Interface::SignIn]).await;
        let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\ncontent-type: application/x-www-form-urlencoded\r\n");
        connection.send(head + "content-length: 99\r\n\r\ncode=").await;
        let (status, headers, body) = connection.reply().await.expect("an answer");
        let answer = SignInAnswer { status, headers, body: serde_json::from_slice(&body).expect("JSON") };
        assert_error(&answer, 503, "temporarily_unavailable", "temporarily_unavailable", None);
        assert_eq!(answer.header(RETRY_AFTER), "1", "{path}");
    }
}

/// When several things are wrong, the first in this order is answered: method, content type,
/// parameters given twice, client, grant type, presence of the parameters, the code, the parameters
/// that belong to the code.
#[tokio::test]
async fn token_answers_the_first_error_in_the_order_of_checks() {
    let client = provider().await;
    let post = |secret: &'static str, form: &[(&str, &str)]| {
        request(&client, Method::POST, "/token").basic_auth(APP, Some(secret)).form(form)
    };
    let put = request(&client, Method::PUT, "/token").header(CONTENT_TYPE, "text/plain").body("code=x&code=x");
    let text = request(&client, Method::POST, "/token").header(CONTENT_TYPE, "text/plain").body("code=x&code=x");
    let code = client.code("alice", &[]).await;
    for (request, code) in [
        (put, "method_not_allowed"),
        (text, "invalid_content_type"),
        (post("wrong", &[("grant_type", "x"), ("grant_type", "x")]), "invalid_request"),
        (post("wrong", &[("grant_type", "x")]), "unauthenticated"),
        (post(SECRET, &[("grant_type", "x")]), "invalid_grant_type"),
        (post(SECRET, &[("grant_type", "authorization_code"), ("code_verifier", "x")]), "required"),
        (post(SECRET, &[("grant_type", "authorization_code"), ("code", "x"), ("code_verifier", "x")]), "invalid_grant"),
    ] {
        let answer = client.send(request).await;
        assert_eq!(answer.body["code"], code, "{answer:?}");
    }
    // The requests above did not use the code; this one does.
    let form = [("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", "x"), ("code_verifier", "x")];
    assert_eq!(client.post("/token", &form).await.body["attribute"], "redirect_uri");
    assert_eq!(client.exchange(&code).await.body["attribute"], "code");
    client.stop().await;
}

/// One error of each kind, as programs get it.
async fn errors_as_json(client: &SignInTestClient) -> Vec<SignInAnswer> {
    let authorize = |changes: &[(&str, &str)]| {
        client.http.get(client.authorization_url(changes)).header(ACCEPT, "application/json")
    };
    let token =
        |form: &[(&str, &str)]| request(client, Method::POST, "/token").basic_auth(APP, Some(SECRET)).form(form);
    let introspect =
        |form: &[(&str, &str)]| request(client, Method::POST, "/introspect").basic_auth(APP, Some(SECRET)).form(form);
    let text = |path: &str| request(client, Method::POST, path).header(CONTENT_TYPE, "text/\"plain\"").body("x");
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
        request(client, Method::POST, "/token"),
        request(client, Method::POST, "/token").form(&[("client_id", "\"x\"")]),
        request(client, Method::PUT, "/token"),
        request(client, Method::GET, "/userinfo"),
        request(client, Method::GET, "/userinfo").bearer_auth("\"x\""),
        request(client, Method::POST, "/userinfo").form(&[("access_token", "x"), ("access_token", "\"x\"")]),
        request(client, Method::GET, "/nowhere/%22x%22"),
    ] {
        let answer = client.send(request).await;
        assert!(answer.status >= 400, "{answer:?}");
        answers.push(answer);
    }
    answers
}

/// RFC 6749, section 5.2, and RFC 6750, section 3, exclude quotes, backslashes and everything that
/// is not printable ASCII from `error_description`. The OpenID Foundation's suite checks it.
#[tokio::test]
async fn error_descriptions_have_only_allowed_characters() {
    let client = provider().await;
    let answers = errors_as_json(&client).await;
    let wrong: Vec<&Value> = answers.iter().map(|answer| &answer.body["error_description"]).collect();
    let wrong: Vec<&Value> =
        wrong.into_iter().filter(|text| !text.as_str().is_some_and(has_allowed_characters)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Browsers do not take a JSON error for a page, even when it repeats the input.
#[tokio::test]
async fn json_errors_forbid_content_sniffing() {
    let client = provider().await;
    for answer in errors_as_json(&client).await {
        assert_eq!(answer.header(CONTENT_TYPE), "application/json", "{answer:?}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{answer:?}");
    }
}
