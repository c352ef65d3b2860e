//! The events of a sign-in, and the pages for people who come too early, too late, or with the
//! wrong program.

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Response, StatusCode};
use serde_json::Value;

use crate::harness::in_time;
use crate::sign_in_client::SignInTestClient;

/// A sign-in that a program began: its URL and its secret.
struct StartedSignIn {
    base: String,
    secret: String,
}

async fn begin(client: &SignInTestClient) -> StartedSignIn {
    let answer = client.get(&client.authorization_url(&[]), "application/json").await;
    let body: Value = answer.json().await.expect("JSON");
    let text = |name: &str| body[name].as_str().expect("a text").to_owned();
    let base = text("request_url").trim_end_matches("/request").to_owned();
    StartedSignIn { base, secret: text("secret") }
}

impl StartedSignIn {
    async fn get(&self, client: &SignInTestClient, path: &str, accept: &str) -> Response {
        let request = client.http.get(format!("{}{path}", self.base)).bearer_auth(&self.secret).header(ACCEPT, accept);
        request.send().await.expect("an answer")
    }

    async fn refuse(&self, client: &SignInTestClient) {
        let body = r#"{"error":"access_denied"}"#;
        let request =
            client.http.post(format!("{}/proof", self.base)).header(CONTENT_TYPE, "application/json").body(body);
        assert_eq!(request.send().await.expect("an answer").status(), StatusCode::OK);
    }
}

/// Reads a stream of events up to its next empty line; `None` at its end.
async fn next_event(stream: &mut Response) -> Option<String> {
    let mut text = String::new();
    while !text.ends_with("\n\n") {
        let chunk = in_time("an event", stream.chunk()).await.expect("read")?;
        text.push_str(std::str::from_utf8(&chunk).expect("text"));
    }
    Some(text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_show_the_state_of_a_sign_in_until_it_is_answered() {
    let client = SignInTestClient::start().await;
    let started = begin(&client).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = started.get(&client, "/events", "text/event-stream").await;
        assert_eq!(stream.headers()[CONTENT_TYPE], "text/event-stream");
        assert_eq!(stream.headers()["cache-control"], "no-store");
        let expected = format!("\"expires_at\":{},\"extensions_left\":2", client.now() + 300);
        let expected = format!("data: {{{expected},\"state\":\"waiting\"}}\n\n");
        assert_eq!(next_event(&mut stream).await, Some(expected));
        streams.push(stream);
    }
    started.refuse(&client).await;
    for mut stream in streams {
        assert_eq!(next_event(&mut stream).await.as_deref(), Some("data: {\"state\":\"answered\"}\n\n"));
        assert_eq!(next_event(&mut stream).await, None, "the stream ends");
    }
    let mut late = started.get(&client, "/events", "text/event-stream").await;
    assert_eq!(next_event(&mut late).await.as_deref(), Some("data: {\"state\":\"answered\"}\n\n"));

    let stranger = StartedSignIn { secret: "another".to_owned(), ..begin(&client).await };
    assert_eq!(stranger.get(&client, "/events", "text/event-stream").await.status(), StatusCode::NOT_FOUND);
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_stops_ends_the_streams() {
    let client = SignInTestClient::start().await;
    let mut stream = begin(&client).await.get(&client, "/events", "text/event-stream").await;
    assert!(next_event(&mut stream).await.is_some());
    client.stop().await;
    assert_eq!(next_event(&mut stream).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_and_wrong_visits_get_a_page() {
    const BROWSER: &str = "text/html,application/xhtml+xml,*/*;q=0.8";
    let client = SignInTestClient::start().await;
    let started = begin(&client).await;
    let page = |response: Response, status: StatusCode| async move {
        assert_eq!(
            (response.status(), &response.headers()[CONTENT_TYPE]),
            (status, &"text/html; charset=utf-8".parse().unwrap())
        );
        assert!(response.headers().contains_key("content-security-policy"));
        response.text().await.expect("text")
    };
    // It was begun by a program: this is another browser.
    let early = page(started.get(&client, "/complete", BROWSER).await, StatusCode::NOT_FOUND).await;
    assert!(early.contains("began in another browser") && !early.contains("Try again"), "{early}");
    let short = started.get(&client, "/request", BROWSER).await;
    assert_eq!(short.status(), StatusCode::SEE_OTHER);
    for accept in ["*/*", "application/json", "application/json, text/html"] {
        let asked = started.get(&client, "/request", accept).await;
        assert_eq!(asked.headers()[CONTENT_TYPE], "application/json", "{accept}");
    }
    client.stop().await;
}
