//! Which requests have an event in the audit trail.

use std::sync::Arc;
use std::time::Duration;

use hyper::{Method, StatusCode};
use selfsame_protocol::time::RetryAfter;

use super::harness::{HttpTestServer, TestApp, TestGatewayError, get, log_of, request, wait_until};
use crate::http::{AuditOutcome, Limits, Rejection, Request, Response, Router, Routes, json};

type HandlerResult = Result<Response, TestGatewayError>;

async fn greet(_: Arc<TestApp>, _: Request) -> HandlerResult {
    Ok(json(StatusCode::OK, "hello"))
}

async fn limited_alarm(_: Arc<TestApp>, request: Request) -> HandlerResult {
    request.audit().alarm(AuditOutcome::CodeReused);
    Err(Rejection::TooManyRequests { retry_after: RetryAfter::SOON }.into())
}

async fn name(_: Arc<TestApp>, request: Request) -> HandlerResult {
    request.audit().concerns(request.param("name")?);
    Err(Rejection::NotFound { path: String::new() }.into())
}

fn audited(gateway: Router<TestApp, TestGatewayError>) -> Vec<Routes> {
    let gateway = gateway.route(Method::GET, "/greet", greet).audited("greeted");
    let gateway = gateway.route(Method::GET, "/names/{name}", name).audited("named");
    vec![gateway.route(Method::GET, "/alarm", limited_alarm).audited("alarmed").into()]
}

/// The events of a request.
fn events(request_id: &str) -> Vec<String> {
    log_of(request_id).lines().filter(|line| line.contains("event=")).map(str::to_owned).collect()
}

#[track_caller]
fn check_event(request_id: &str, parts: &[&str]) {
    let events = events(request_id);
    let [event] = &events[..] else { panic!("{request_id}: {events:?}") };
    for part in parts {
        assert!(event.contains(part), "{part} is missing in {event}");
    }
}

#[tokio::test]
async fn requests_that_are_refused_before_their_handler_have_an_event() {
    let server = HttpTestServer::start_with(Limits::default(), audited).await;
    let malformed = "GET /greet HTTP/1.1\r\nx-request-id: audit-host\r\n\r\n";
    assert_eq!(server.request(malformed).await.status, 400);
    check_event(
        "audit-host",
        &["event=\"greeted\"", "outcome=\"refused\"", "status=400", "the header host occurs 0 times"],
    );

    let server = HttpTestServer::start_with(Limits { requests: 1, ..Limits::default() }, audited).await;
    let mut waiting = server.connect().await;
    waiting.send(get("/wait")).await;
    server.app.wait_until_entered().await;
    // Refused requests are counted, and must not fill the log: one line a second.
    let ids: Vec<String> = (0..20).map(|number| format!("audit-shares-{number}-")).collect();
    for (number, id) in ids.iter().enumerate() {
        if number == 10 {
            server.clock.advance(Duration::from_secs(1));
        }
        let refused = server.request(&request("GET", "/greet", &format!("x-request-id: {id}\r\n"))).await;
        assert_eq!(refused.status, 503);
        if number % 10 == 0 {
            check_event(id, &["event=\"greeted\"", "outcome=\"limited\"", "status=503", "not available"]);
        } else {
            assert_eq!(events(id), Vec::<String>::new());
        }
    }
    server.app.release.notify_one();
    assert_eq!(waiting.reply().await.status, 200);
}

#[tokio::test]
async fn a_request_whose_client_leaves_has_the_outcome_abandoned() {
    let server = HttpTestServer::start_with(Limits::default(), audited).await;
    let mut client = server.connect().await;
    client.send(request("GET", "/wait", "x-request-id: audit-abandoned\r\n")).await;
    server.app.wait_until_entered().await;
    drop(client);
    wait_until("the event is written", || !events("audit-abandoned").is_empty()).await;
    check_event("audit-abandoned", &["event=\"waited\"", "outcome=\"abandoned\""]);
}

#[tokio::test]
async fn an_alarm_is_logged_also_past_a_limit() {
    let server = HttpTestServer::start_with(Limits::default(), audited).await;
    for id in ["audit-alarm-1", "audit-alarm-2"] {
        assert_eq!(server.request(&request("GET", "/alarm", &format!("x-request-id: {id}\r\n"))).await.status, 429);
        check_event(id, &["WARN", "outcome=\"code_reused\"", "status=429"]);
    }
}

#[tokio::test]
async fn an_event_has_at_most_200_characters_of_what_the_client_names() {
    let server = HttpTestServer::start_with(Limits::default(), audited).await;
    let path = format!("/names/{}", "x".repeat(9000));
    assert_eq!(server.request(&request("GET", &path, "x-request-id: audit-long\r\n")).await.status, 404);
    check_event("audit-long", &[&format!("concerns=\"{}\"", "x".repeat(200))]);
}
