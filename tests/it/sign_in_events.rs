//! Following a sign-in live, and the pages of people who come too early, too late, or with the wrong program.

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Response, StatusCode};
use serde_json::Value;

use crate::sign_in_desk::Party;

/// A sign-in that a program began: where it is, and its secret.
struct Begun {
    base: String,
    secret: String,
}

async fn begin(party: &Party) -> Begun {
    let answer = party.get(&party.authorization_url(&[]), "application/json").await;
    let body: Value = answer.json().await.expect("JSON");
    let text = |name: &str| body[name].as_str().expect("a text").to_owned();
    let base = text("request_url").trim_end_matches("/request").to_owned();
    Begun { base, secret: text("secret") }
}

impl Begun {
    async fn get(&self, party: &Party, path: &str, accept: &str) -> Response {
        let request = party.http.get(format!("{}{path}", self.base)).bearer_auth(&self.secret).header(ACCEPT, accept);
        request.send().await.expect("an answer")
    }

    async fn refuse(&self, party: &Party) {
        let body = r#"{"error":"access_denied"}"#;
        let request =
            party.http.post(format!("{}/proof", self.base)).header(CONTENT_TYPE, "application/json").body(body);
        assert_eq!(request.send().await.expect("an answer").status(), StatusCode::OK);
    }
}

/// Reads a stream of events up to its next empty line.
async fn next_event(stream: &mut Response) -> Option<String> {
    let mut text = String::new();
    while !text.ends_with("\n\n") {
        text.push_str(std::str::from_utf8(&stream.chunk().await.expect("read")?).expect("text"));
    }
    Some(text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_tell_where_a_sign_in_stands_until_it_is_answered() {
    let party = Party::start().await;
    let begun = begin(&party).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = begun.get(&party, "/events", "text/event-stream").await;
        assert_eq!(stream.headers()[CONTENT_TYPE], "text/event-stream");
        assert_eq!(stream.headers()["cache-control"], "no-store");
        assert_eq!(next_event(&mut stream).await.as_deref(), Some("data: {\"state\":\"waiting\"}\n\n"));
        streams.push(stream);
    }
    begun.refuse(&party).await;
    for mut stream in streams {
        assert_eq!(next_event(&mut stream).await.as_deref(), Some("data: {\"state\":\"answered\"}\n\n"));
        assert_eq!(next_event(&mut stream).await, None, "that was all");
    }
    let mut late = begun.get(&party, "/events", "text/event-stream").await;
    assert_eq!(next_event(&mut late).await.as_deref(), Some("data: {\"state\":\"answered\"}\n\n"));

    let stranger = Begun { secret: "another".to_owned(), ..begin(&party).await };
    assert_eq!(stranger.get(&party, "/events", "text/event-stream").await.status(), StatusCode::NOT_FOUND);
    party.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_stops_ends_the_streams() {
    let party = Party::start().await;
    let mut stream = begin(&party).await.get(&party, "/events", "text/event-stream").await;
    assert!(next_event(&mut stream).await.is_some());
    party.stop().await;
    assert_eq!(next_event(&mut stream).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_who_come_too_early_or_with_the_wrong_program_get_a_page() {
    const BROWSER: &str = "text/html,application/xhtml+xml,*/*;q=0.8";
    let party = Party::start().await;
    let begun = begin(&party).await;
    let page = |response: Response, status: StatusCode| async move {
        assert_eq!(
            (response.status(), &response.headers()[CONTENT_TYPE]),
            (status, &"text/html; charset=utf-8".parse().unwrap())
        );
        assert!(response.headers().contains_key("content-security-policy"));
        response.text().await.expect("text")
    };
    let early = page(begun.get(&party, "/complete", BROWSER).await, StatusCode::BAD_REQUEST).await;
    assert!(early.contains("Try again") && early.contains("/complete\""), "{early}");
    let program = page(begun.get(&party, "/request", BROWSER).await, StatusCode::OK).await;
    assert!(program.contains("authenticator") && program.contains(&begun.base), "{program}");
    for accept in ["*/*", "application/json", "application/json, text/html"] {
        let asked = begun.get(&party, "/request", accept).await;
        assert_eq!(asked.headers()[CONTENT_TYPE], "application/json", "{accept}");
    }
    begun.refuse(&party).await;
    assert_eq!(begun.get(&party, "/complete", BROWSER).await.status(), StatusCode::SEE_OTHER);
    let over = page(begun.get(&party, "/complete", BROWSER).await, StatusCode::NOT_FOUND).await;
    assert!(over.contains("begin again") && !over.contains("Try again"), "{over}");
    party.stop().await;
}
