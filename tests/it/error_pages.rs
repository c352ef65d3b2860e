//! What a browser gets where a program gets an error of the sign-in interface: a page with the same
//! status and headers. And what a browser gets when it fetches a page ahead of the person: nothing.

use reqwest::Method;
use reqwest::header::{
    ACCEPT, ACCEPT_LANGUAGE, ALLOW, CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_TYPE, DATE, RETRY_AFTER,
    SET_COOKIE, VARY,
};
use selfsame::config::{RateLimit, TimeSpan};
use serde_json::Value;

use crate::sign_in_client::{SignInTestClient, accept_current_proofs, pair};

/// What browsers send.
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// An answer, read.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: reqwest::header::HeaderMap,
    text: String,
}

impl Answer {
    fn is_page(&self) -> bool {
        self.headers.get(CONTENT_TYPE).is_some_and(|found| found == "text/html; charset=utf-8")
    }
}

/// A request, and whether a browser gets a page.
struct Case {
    method: Method,
    path: String,
    headers: Vec<(&'static str, &'static str)>,
    body: Option<Vec<u8>>,
    status: u16,
    is_page: bool,
}

impl Case {
    fn new(method: Method, path: impl Into<String>, status: u16) -> Self {
        Self { method, path: path.into(), headers: Vec::new(), body: None, status, is_page: true }
    }

    fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    fn body(self, content_type: &'static str, body: Vec<u8>) -> Self {
        Self { body: Some(body), ..self }.with("content-type", content_type)
    }

    fn wanting_json(self) -> Self {
        Self { is_page: false, ..self }
    }

    async fn send(&self, client: &SignInTestClient, accept: &str) -> Answer {
        let mut request = client.http.request(self.method.clone(), client.daemon.sign_in(&self.path));
        for (name, value) in &self.headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = &self.body {
            request = request.body(body.clone());
        }
        let answer = request.header(ACCEPT, accept).send().await.expect("an answer");
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Answer { status, headers, text: answer.text().await.expect("text") }
    }
}

#[tokio::test]
async fn a_browser_gets_pages_and_never_a_line_of_json() {
    let client = SignInTestClient::start().await;
    let transaction = format!("/authorize/{}", "0".repeat(32));
    let form = "application/x-www-form-urlencoded";
    let (get, post) = (Method::GET, Method::POST);
    for case in [
        Case::new(get.clone(), "/nothing/here", 404),
        Case::new(post.clone(), "/nothing/here", 404),
        Case::new(get.clone(), "/sign-in-logo", 404),
        Case::new(get.clone(), format!("{transaction}/progress"), 404),
        Case::new(get.clone(), format!("{transaction}/events"), 404),
        Case::new(Method::DELETE, "/authorize", 405),
        Case::new(get.clone(), format!("{transaction}/cancel"), 405),
        // Scripts of every origin may read the answer.
        Case::new(get.clone(), format!("{transaction}/proof"), 405).with("origin", "https://wallet.example"),
        Case::new(post.clone(), "/session", 400),
        Case::new(post.clone(), "/session", 400).body("application/json", b"{}".to_vec()),
        Case::new(post.clone(), "/session", 400).body(form, b"confirmation=a&confirmation=b".to_vec()),
        Case::new(post.clone(), "/authorize", 413).body(form, vec![b'a'; 70_000]),
        Case::new(post.clone(), "/logout", 400).body(form, b"state=a".to_vec()).with("content-encoding", "gzip"),
        Case::new(get.clone(), "/logout", 503).with("sec-purpose", "prefetch;prerender"),
        // The servers of applications call these, some with a library that accepts pages first.
        Case::new(post.clone(), "/token", 400).wanting_json(),
        Case::new(get.clone(), "/userinfo", 401).wanting_json(),
        Case::new(get.clone(), "/application/events", 401).wanting_json(),
        Case::new(get.clone(), "/token", 405).with("sec-fetch-mode", "navigate"),
        Case::new(get.clone(), "/userinfo", 401).with("sec-fetch-mode", "navigate"),
    ] {
        let what = format!("{} {}", case.method, case.path);
        let json = case.send(&client, "*/*").await;
        let page = case.send(&client, BROWSER).await;
        assert_eq!((json.status, page.status), (case.status, case.status), "{what}: {json:?} {page:?}");
        assert_eq!((json.is_page(), page.is_page()), (false, case.is_page), "{what}: {json:?} {page:?}");
        let error: Value = serde_json::from_str(&json.text).expect("JSON");
        assert!(error["code"].is_string(), "{what}: {error}");
        assert_eq!(page.headers[CACHE_CONTROL], "no-store", "{what}");
        assert_eq!(page.text.contains("<h1>"), case.is_page, "{what}: {page:?}");
        for (name, value) in &json.headers {
            let is_of_body = [CONTENT_TYPE, CONTENT_LENGTH, DATE].contains(name) || *name == "x-request-id";
            assert!(is_of_body || page.headers.get_all(name).iter().any(|found| found == value), "{what}: {name}");
        }
        // A client that reads JSON, too, is a program.
        assert!(!case.send(&client, "application/json, text/html").await.is_page(), "{what}");
    }
    client.stop().await;
}

#[tokio::test]
async fn the_page_of_an_error_has_the_language_and_the_headers() {
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        config.limits.sign_ins_per_source = Some(RateLimit { requests: 1, window: TimeSpan::from_secs(60) });
    })
    .await;
    for (path, accepted, language, title) in [
        ("/nothing", "fr;q=0.5, de", "de", "keine Seite"),
        ("/nothing?ui_locales=ja", "de", "ja", "ここにページはありません"),
        ("/nothing", "", "en", "There is no page here"),
    ] {
        let request = client.http.get(client.daemon.sign_in(path)).header(ACCEPT, BROWSER);
        let answer = request.header(ACCEPT_LANGUAGE, accepted).send().await.expect("an answer");
        assert_eq!(
            (answer.status().as_u16(), answer.headers()[CONTENT_LANGUAGE].to_str().expect("text")),
            (404, language),
            "{path}"
        );
        assert_eq!(answer.headers()[VARY], "Accept-Language");
        assert!(answer.text().await.expect("text").contains(title), "{path}");
    }
    let url = client.daemon.sign_in("/session");
    let refused = client.http.put(&url).header(ACCEPT, BROWSER).send().await.expect("an answer");
    assert_eq!((refused.status().as_u16(), refused.headers()[ALLOW].to_str().expect("text")), (405, "GET, HEAD, POST"));
    // A look has the length of the page.
    let url = client.daemon.sign_in("/nothing");
    let page = client.http.get(&url).header(ACCEPT, BROWSER).send().await.expect("an answer");
    let head = client.http.head(&url).header(ACCEPT, BROWSER).send().await.expect("an answer");
    assert_eq!(head.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
    let length = page.text().await.expect("text").len().to_string();
    assert_eq!(head.headers()[CONTENT_LENGTH], *length);
    // Past the limit of the source, at a path without a page of its own.
    let url = client.daemon.sign_in(&format!("/authorize/{}/progress", "0".repeat(32)));
    let statuses = async |accept: &str| client.get(&url, accept).await;
    assert_eq!(statuses("*/*").await.status(), 404);
    let (json, page) = (statuses("*/*").await, statuses(BROWSER).await);
    assert_eq!((json.status().as_u16(), page.status().as_u16()), (429, 429));
    assert_eq!(
        (&json.headers()[RETRY_AFTER], &page.headers()[RETRY_AFTER]),
        (&"60".parse().unwrap(), &"60".parse().unwrap())
    );
    assert!(page.text().await.expect("text").contains("Please wait a moment"));
    client.stop().await;
}

/// The browser asks again when the person goes there.
#[tokio::test]
async fn a_fetch_ahead_of_the_person_is_refused_and_has_no_effect() {
    let client = SignInTestClient::start().await;
    let (location, session) = client.sign_in_by_page("alice", &[("response_type", "id_token")], "").await;
    let (session, id_token) = (pair(session), crate::sign_in_client::fragment_or_query(&location)["id_token"].clone());
    let (cookie, base) = client.transaction_of_page(&client.browse(&[("prompt", "login")], &session).await);
    let marks = [
        ("sec-purpose", "prefetch"),
        ("sec-purpose", "prefetch;prerender"),
        ("sec-purpose", "Prefetch; anonymous-client-ip"),
        ("purpose", "prefetch"),
        ("x-purpose", "preview"),
        ("x-moz", "prefetch"),
    ];
    let logout = format!("/logout?id_token_hint={id_token}");
    let path = |url: &str| url.strip_prefix(&client.issuer()).expect("a URL of the service").to_owned();
    let ahead = [
        (Method::GET, path(&client.authorization_url(&[("prompt", "none")]))),
        (Method::HEAD, path(&client.authorization_url(&[]))),
        (Method::GET, logout.clone()),
        (Method::HEAD, logout),
        (Method::POST, "/logout".to_owned()),
        (Method::GET, "/session".to_owned()),
        (Method::POST, "/session".to_owned()),
        (Method::GET, path(&base)),
        (Method::GET, format!("{}/request", path(&base))),
        (Method::GET, format!("{}/complete", path(&base))),
        (Method::GET, "/connect?t=wld".to_owned()),
    ];
    for (method, path) in &ahead {
        for (name, value) in marks {
            let request = client.http.request(method.clone(), client.daemon.sign_in(path)).header(name, value);
            let request = request.header("Cookie", format!("{session}; {cookie}"));
            let refused = request.header(ACCEPT, BROWSER).send().await.expect("an answer");
            assert_eq!(refused.status(), 503, "{method} {path} {name}: {value}");
            assert!(refused.headers().contains_key(RETRY_AFTER) && !refused.headers().contains_key(SET_COOKIE));
            assert_eq!(refused.headers()[CONTENT_TYPE], "text/html; charset=utf-8", "{method} {path}");
            let text = refused.text().await.expect("text");
            assert!(*method == Method::HEAD || text.contains("<h1>"), "{method} {path}: {text}");
        }
    }
    // The session goes on, and the sign-in waits for its first reader.
    let silent = client.browse_silently(&[("response_type", "id_token"), ("prompt", "none")], &session).await;
    assert!(silent.contains_key("id_token"));
    let progress = async || {
        let progress = client.http.get(format!("{base}/progress?wait=0")).header("Cookie", &cookie);
        client.send(progress).await.body
    };
    assert_eq!(progress().await.get("opened"), None);
    assert_eq!(client.get(&format!("{base}/request"), "*/*").await.status(), 200);
    assert_eq!(progress().await["opened"], true);
    client.stop().await;
}
