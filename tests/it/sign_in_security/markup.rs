//! What clients send is never markup in an answer.

use reqwest::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use reqwest::{Method, RequestBuilder, Response};
use selfsame_interfaces::interface::Interface;
use serde_json::{Value, json};

use crate::certification::browser::posted_form;
use crate::registry_client::RawHttpConnection;
use crate::sign_in_client::{
    APP, Form, SECRET, SignInTestClient, accept_current_proofs, pair, parameters, two_applications,
};

/// Text that a browser would run if an answer repeated it unchanged.
const MARKUP: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>";

/// Asserts that an answer has no part of [`MARKUP`] where a browser would read it as markup or as a
/// header; returns its text.
async fn assert_no_markup(answer: Response, what: &str) -> String {
    let (status, headers) = (answer.status(), answer.headers().clone());
    for (name, value) in &headers {
        let value = value.to_str().expect("text");
        let is_plain = !value.contains(['<', '>']) && (name != LOCATION || !value.contains(['"', '\'', ' ', '\\']));
        assert!(is_plain, "{what}: {name}: {value}");
    }
    let text = answer.text().await.expect("text");
    match headers.get(CONTENT_TYPE).map(|value| value.to_str().expect("text")) {
        Some("text/html; charset=utf-8") => {
            for part in ["<script>alert", "<img", "\"'", "alert(1)<", "alert(1)>"] {
                assert!(!text.contains(part), "{what}: {text}");
            }
            let policy = headers[CONTENT_SECURITY_POLICY].to_str().expect("text");
            assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{what}: {policy}");
            assert_eq!(headers["x-content-type-options"], "nosniff", "{what}");
        }
        Some("application/json") => {
            serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{what}: {error}: {text}"));
        }
        other => assert!(other.is_none() && text.is_empty(), "{what}: {status} {other:?}: {text}"),
    }
    text
}

#[tokio::test]
async fn parameters_of_authorize_are_escaped_in_pages() {
    let client = two_applications().await;
    let (_, session) = client.sign_in_by_page("alice", &[], "").await;
    let session = pair(session);
    let names = [
        "client_id",
        "redirect_uri",
        "state",
        "response_type",
        "response_mode",
        "scope",
        "nonce",
        "code_challenge",
        "code_challenge_method",
        "prompt",
        "max_age",
        "id_token_hint",
        "login_hint",
        "display",
        "ui_locales",
        "claims_locales",
        "acr_values",
        "request",
        "request_uri",
        "claims",
        "registration",
        "iss",
        "error",
        MARKUP,
    ];
    for name in names {
        for others in [
            vec![],
            vec![("prompt", "none")],
            vec![("response_mode", "form_post")],
            vec![("response_mode", "form_post"), ("prompt", "none")],
            vec![("response_mode", "form_post"), ("response_type", "id_token"), ("scope", "email")],
            vec![("response_mode", "fragment"), ("request_uri", "x")],
            vec![("client_id", "app_unknown")],
        ] {
            let others: Vec<_> = others.into_iter().filter(|(other, _)| *other != name).collect();
            let changes = [&others[..], &[(name, MARKUP)]].concat();
            let url = client.authorization_url(&changes);
            for cookie in ["", &session, &format!("selfsame_session={MARKUP}; selfsame_transaction_{MARKUP}={MARKUP}")]
            {
                for accept in ["text/html", "*/*", "application/json"] {
                    let get = client.http.get(&url);
                    let post = client.http.post(client.daemon.sign_in("/authorize")).form(&parameters(&changes));
                    for request in [get, post] {
                        let answer = request.header(ACCEPT, accept).header("Cookie", cookie).send().await;
                        assert_no_markup(answer.expect("an answer"), &format!("{name} with {others:?}")).await;
                    }
                }
            }
        }
    }
    client.stop().await;
}

#[tokio::test]
async fn posted_responses_repeat_the_parameters_exactly() {
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        config.apps[0].rename(MARKUP);
        config.apps[0].redirect_uris =
            vec!["https://app.example/callback?a=1&b='2'&c=%22".parse().expect("a redirect URI")];
    })
    .await;
    let uri = "https://app.example/callback?a=1&b='2'&c=%22";
    let changes = [("redirect_uri", uri), ("state", MARKUP), ("response_mode", "form_post")];
    let shown = assert_no_markup(client.browse(&changes, "").await, "the page of an application").await;
    assert!(shown.contains("&lt;script&gt;alert(1)"), "{shown}");
    for more in [("prompt", "none"), ("scope", "x")] {
        let changes = [&changes[..], &[more]].concat();
        let page = assert_no_markup(client.browse(&changes, "").await, "a form").await;
        let (action, fields) = posted_form(&page);
        assert_eq!((&*action, &*fields["state"]), (uri, MARKUP));
    }
    let page = client.browse(&changes, "").await;
    let done = client.answer_page(page, "alice", "").await;
    let (action, fields) = posted_form(&assert_no_markup(done, "a response").await);
    assert_eq!((&*action, &*fields["state"], fields.contains_key("code")), (uri, MARKUP, true));
    client.stop().await;
}

#[tokio::test]
async fn input_of_other_endpoints_is_never_markup_in_an_answer() {
    let client = two_applications().await;
    let code = client.code("alice", &[]).await;
    let post = |path: &str| client.http.post(client.daemon.sign_in(path)).header(ACCEPT, "text/html");
    let mut requests: Vec<(String, RequestBuilder)> = Vec::new();
    for path in ["/token", "/introspect", "/userinfo"] {
        let fields = [
            "grant_type",
            "code",
            "redirect_uri",
            "code_verifier",
            "client_id",
            "client_secret",
            "token",
            "token_type_hint",
            "access_token",
            MARKUP,
        ];
        let usual = [("grant_type", "authorization_code"), ("code", &*code), ("token", "x")];
        for field in fields {
            let kept = usual.iter().copied().filter(|(name, _)| *name != field);
            let form: Vec<(&str, &str)> = kept.chain([(field, MARKUP)]).collect();
            let twice = [&form[..], &[(field, MARKUP)]].concat();
            for form in [&form, &twice] {
                requests.push((format!("{field} at {path}"), post(path).form(form)));
                requests.push((format!("{field} at {path}"), post(path).basic_auth(APP, Some(SECRET)).form(form)));
                requests.push((format!("{field} at {path}"), post(path).bearer_auth("x").form(form)));
            }
        }
        for name in
            ["Authorization", "Content-Type", "Cookie", "X-Request-Id", "Origin", "Forwarded", "Content-Encoding"]
        {
            let values =
                [MARKUP.to_owned(), format!("Basic {MARKUP}"), format!("Bearer {MARKUP}"), format!("text/{MARKUP}")];
            for value in values {
                let request = post(path).header(CONTENT_TYPE, "application/x-www-form-urlencoded").header(name, value);
                requests.push((format!("{name} at {path}"), request.body("token=x")));
            }
        }
        requests.push((format!("credentials at {path}"), post(path).basic_auth(MARKUP, Some(MARKUP)).form(&usual)));
    }
    let (_, base) = client.transaction_of_page(&client.browse(&[], "").await);
    let encoded: String = MARKUP.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let issuer = client.issuer();
    for url in [
        format!("{issuer}/{encoded}"),
        format!("{issuer}/authorize/{encoded}/request"),
        format!("{issuer}/authorize/{encoded}/complete"),
        format!("{issuer}/authorize/{encoded}/{encoded}"),
        format!("{issuer}/.well-known/{encoded}"),
        format!("{issuer}/token/{encoded}?{encoded}={encoded}"),
        format!("{issuer}/userinfo?access_token={encoded}"),
        format!("{base}/{encoded}"),
        format!("{base}/complete?{encoded}"),
        format!("{base}/complete?digits={encoded}"),
        format!("{issuer}/authorize/{encoded}"),
        format!("{issuer}/s/{encoded}"),
    ] {
        for method in [Method::GET, Method::POST, Method::PUT] {
            let request = client.http.request(method.clone(), &url).header(ACCEPT, "text/html");
            requests.push((
                format!("{method} {url}"),
                request.header("Cookie", format!("selfsame_transaction_{MARKUP}={MARKUP}")),
            ));
        }
    }
    for body in [json!({"error": MARKUP}), json!({MARKUP: MARKUP}), json!({"protocol_version": MARKUP}), json!(MARKUP)]
    {
        let request = client.http.post(format!("{base}/proof")).header(ACCEPT, "text/html");
        requests.push((format!("{body} as an answer"), request.json(&body)));
    }
    for (what, request) in requests {
        let answer = request.send().await.expect("an answer");
        assert!(answer.status().is_client_error(), "{what}: {answer:?}");
        assert_no_markup(answer, &what).await;
    }
    let shown = client.get(&format!("{base}/request?{encoded}={encoded}"), "text/html").await;
    assert_no_markup(shown, "the address of a proof request").await;
    client.stop().await;
}

/// A client other than a browser can send any path.
#[tokio::test]
async fn malformed_paths_are_never_markup_in_an_answer() {
    let client = two_applications().await;
    for path in [
        "/\"onload=alert(1)//{}",
        "/<script>alert(1)</script>",
        "/authorize/<script>alert(1)</script>/complete",
        "/authorize?state=<script>alert(1)</script>&client_id=\"'><img src=x>",
        "//evil.example/%2e%2e",
        "http://evil.example/<script>",
    ] {
        let mut connection = RawHttpConnection::open(client.daemon.addresses[Interface::SignIn]).await;
        connection.send(format!("GET {path} HTTP/1.1\r\nhost: h\r\naccept: text/html\r\n\r\n")).await;
        let (status, headers, body) = connection.reply().await.expect("an answer");
        let text = String::from_utf8_lossy(&body).into_owned();
        let content_type = headers.get(CONTENT_TYPE).map(|value| value.to_str().expect("text").to_owned());
        assert!((400..500).contains(&status), "{path}: {status} {text}");
        match content_type.as_deref() {
            Some("application/json") => {}
            Some("text/html; charset=utf-8") => assert!(!text.contains("<script") && !text.contains("<img"), "{text}"),
            other => assert!(other.is_none() && text.is_empty(), "{path}: {other:?} {text}"),
        }
    }
    client.stop().await;
}
