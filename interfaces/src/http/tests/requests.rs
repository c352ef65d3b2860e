//! The answers to single requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCEPT, HeaderValue};
use hyper::{Method, StatusCode};
use tokio::io::AsyncWriteExt;

use super::harness::{ECHO_LIMIT, HttpTestServer, TestApp, TestGatewayError, get, log_of, post, request};
use crate::http::{
    AllowedOrigins, Body, Cors, ErrorPage, InterfaceError, Limits, Metrics, Rejection, Request, Response, RouteError,
    Router, Site, json,
};

const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn unknown_paths_and_methods_are_rejected() {
    let server = HttpTestServer::start().await;
    let mut client = server.connect().await;
    for path in ["/", "/hello/", "/hell", "/items", "/items/", "/items/1/2", "//hello"] {
        let reply = client.request(&get(path)).await;
        reply.check_error(404, "not_found");
        assert!(reply.body.contains(path), "{reply:?}");
    }
    for (method, path, allow) in [
        ("POST", "/hello", "GET, HEAD"),
        ("BREW", "/hello", "GET, HEAD"),
        ("PUT", "/echo", "POST, GET, HEAD"),
        ("HEAD", "/ignore", "POST"),
        ("OPTIONS", "/ignore", "POST"),
    ] {
        client.send(request(method, path, "")).await;
        let reply = if method == "HEAD" { client.reply_head().await } else { client.reply().await };
        assert_eq!((reply.status, reply.header("allow")), (405, Some(allow)), "{method} {path}");
    }
    client
        .request(&request("OPTIONS", "/hello", "origin: https://a.example\r\n"))
        .await
        .check_error(405, "bad_request");
}

#[tokio::test]
async fn parameters_and_queries_are_decoded() {
    let server = HttpTestServer::start().await;
    let mut client = server.connect().await;
    assert_eq!(client.request(&get("/items/a%2Fb%20c?x=1&q=%C3%A9+1")).await.body, "[\"a/b c\",\"é 1\"]");
    client.request(&get("/items/%FF")).await.check_error(400, "bad_request");
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let server = HttpTestServer::start().await;
    let mut client = server.connect().await;
    client.send(request("HEAD", "/hello", "") + &request("HEAD", "/nowhere", "") + &get("/hello")).await;
    let head = client.reply_head().await;
    assert_eq!((head.status, head.header("content-length")), (200, Some("7")));
    assert_eq!(client.reply_head().await.status, 404);
    let reply = client.reply().await;
    assert_eq!((reply.status, reply.body.as_str()), (200, "\"hello\""));
}

#[tokio::test]
async fn answers_have_api_headers_and_a_request_id() {
    let server = HttpTestServer::start().await;
    let reply = server.request(&get("/hello")).await;
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert!(reply.header("date").is_some());
    assert_eq!(reply.header("server"), None);
    assert_eq!(reply.header("x-request-id"), Some("07070707-0707-4707-8707-070707070707"));
    for path in ["/hello", "/nowhere", "/panic"] {
        let reply = server.request(&request("GET", path, "x-request-id: mine-1\r\n")).await;
        assert_eq!(reply.header("x-request-id"), Some("mine-1"));
    }
}

#[tokio::test]
async fn malformed_requests_are_rejected() {
    let server = HttpTestServer::start().await;
    server.request("GET /hello HTTP/1.1\r\n\r\n").await.check_error(400, "bad_request");
    server.request("GET /hello HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n").await.check_error(400, "bad_request");
    let many = "a: b\r\n".repeat(200);
    let long = format!("a: {}\r\n", "b".repeat(64 * 1024));
    for (lines, status) in [
        (many.as_str(), 431),
        (long.as_str(), 431),
        ("content-length: 1\r\ncontent-length: 2\r\n", 400),
        ("content-length: -1\r\n", 400),
        ("transfer-encoding: gzip\r\n", 400),
    ] {
        let mut client = server.connect().await;
        // The server can close the connection before it has read everything.
        let _ = client.stream.write_all(request("POST", "/echo", lines).as_bytes()).await;
        assert_eq!(client.reply_head().await.status, status);
    }
}

#[tokio::test]
async fn a_body_that_is_too_long_is_rejected_and_its_connection_closed() {
    let server = HttpTestServer::start().await;
    let fits = "1".repeat(ECHO_LIMIT);
    assert_eq!(server.request(&post("/echo", &fits)).await.body, fits);

    let json = "content-type: application/json\r\n";
    let announced = request("POST", "/echo", &format!("{json}content-length: {}\r\n", ECHO_LIMIT + 1));
    let waiting = request("POST", "/echo", &format!("{json}content-length: 17\r\nexpect: 100-continue\r\n"));
    let chunked =
        request("POST", "/echo", &format!("{json}transfer-encoding: chunked\r\n")) + "a\r\n0123456789\r\n7\r\n";
    for (beginning, rest) in [(announced, 17), (waiting, 0), (chunked, 7)] {
        let mut client = server.connect().await;
        client.send(beginning + &"1".repeat(rest)).await;
        let reply = client.reply().await;
        reply.check_error(413, "bad_request");
        assert_eq!(reply.header("connection"), Some("close"));
        client.stream.shutdown().await.unwrap();
        client.expect_closed().await;
    }
}

#[tokio::test]
async fn the_rest_of_a_rejected_body_is_read_for_a_while() {
    let server = HttpTestServer::start().await;
    let piece = "1".repeat(64 * 1024);
    for path in ["/echo", "/nowhere", "/hello"] {
        let mut client = server.connect().await;
        client.send(request("POST", path, "content-length: 1048576\r\n")).await;
        for _ in 0..4 {
            client.send(&piece).await;
        }
        assert!([404, 405, 413].contains(&client.reply().await.status));
        for _ in 0..12 {
            client.send(&piece).await;
        }
    }
}

#[tokio::test]
async fn an_unread_body_does_not_end_the_connection() {
    let server = HttpTestServer::start().await;
    let mut client = server.connect().await;
    for (path, status) in [("/ignore", 200), ("/nowhere", 404), ("/hello", 405), ("/ignore", 200)] {
        client.send(request("POST", path, "content-length: 5\r\n")).await;
        assert_eq!(client.reply().await.status, status);
        client.send("12345").await;
    }
    assert_eq!(client.request(&get("/hello")).await.status, 200);
}

#[tokio::test]
async fn expect_continue_is_answered_when_the_handler_reads_the_body() {
    let server = HttpTestServer::start().await;
    let mut client = server.connect().await;
    let lines = "content-type: application/json\r\ncontent-length: 3\r\nexpect: 100-continue\r\n";
    client.send(request("POST", "/echo", lines)).await;
    assert_eq!(client.reply_head().await.status, 100);
    assert_eq!(client.request("[3]").await.body, "[3]");
    client.send(request("POST", "/nowhere", lines)).await;
    client.reply().await.check_error(404, "not_found");
}

#[tokio::test]
async fn a_chunked_body_is_read_completely() {
    let server = HttpTestServer::start().await;
    let mut client = server.connect().await;
    client.send(request("POST", "/echo", "content-type: application/json\r\ntransfer-encoding: chunked\r\n")).await;
    for piece in ["2\r\n[1\r\n", "1\r\n,\r\n", "2\r\n2]\r\n", "0\r\nx-trailer: 1\r\n\r\n"] {
        client.send(piece).await;
    }
    assert_eq!(client.reply().await.body, "[1,2]");
    let empty = request("POST", "/echo", "content-type: application/json\r\ntransfer-encoding: chunked\r\n");
    assert_eq!(client.request(&(empty + "0\r\n\r\n")).await.body, "");
}

#[tokio::test]
async fn only_plain_json_is_read() {
    let server = HttpTestServer::start().await;
    let mut client = server.connect().await;
    for (lines, status) in [
        ("", 415),
        ("content-type: text/plain\r\n", 415),
        ("content-type: application/json; charset=latin1\r\n", 200),
        ("content-type: application/json\r\ncontent-encoding: gzip\r\n", 415),
        ("content-type: application/json\r\ncontent-type: text/plain\r\n", 400),
        ("content-type: Application/JSON; charset=UTF-8\r\ncontent-encoding: identity\r\n", 200),
    ] {
        let reply = client.request(&(request("POST", "/echo", &format!("{lines}content-length: 2\r\n")) + "{}")).await;
        assert_eq!(reply.status, status, "{lines}");
    }
}

#[tokio::test]
async fn a_body_that_ends_early_is_not_a_server_error() {
    let server = HttpTestServer::start().await;
    let chunked = "content-type: application/json\r\ntransfer-encoding: chunked\r\n";
    let counted = "content-type: application/json\r\ncontent-length: 9\r\n";
    for (lines, body) in [(counted, "123"), (chunked, "3\r\n12"), (chunked, "zz\r\n")] {
        let mut client = server.connect().await;
        client.send(request("POST", "/echo", lines) + body).await;
        client.stream.shutdown().await.unwrap();
        let mut rest = String::new();
        let _ = tokio::io::AsyncReadExt::read_to_string(&mut client.stream, &mut rest).await;
        assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 400"), "{rest}");
    }
    assert!(!server.metrics().contains("status=\"5"));
}

#[tokio::test]
async fn the_request_timeout_ends_slow_handlers_and_bodies_but_not_long_polls() {
    let server = HttpTestServer::start_limited(Limits { request_timeout: SHORT, ..Limits::default() }).await;
    let mut polling = server.connect().await;
    polling.send(get("/wait")).await;
    server.app.wait_until_entered().await;
    server.request(&get("/forever")).await.check_error(504, "request_timeout");
    let mut slow = server.connect().await;
    slow.send(request("POST", "/echo", "content-length: 9\r\n") + "12").await;
    let reply = slow.reply().await;
    reply.check_error(504, "request_timeout");
    assert_eq!(reply.header("connection"), Some("close"));
    server.app.release.notify_one();
    assert_eq!(polling.reply().await.body, "\"released\"");
}

#[tokio::test]
async fn a_panic_is_an_internal_error_and_the_connection_survives() {
    let server = HttpTestServer::start().await;
    let mut client = server.connect().await;
    client.request(&get("/panic")).await.check_error(500, "internal_server_error");
    assert_eq!(client.request(&get("/hello")).await.status, 200);
}

/// A page of an error, for a browser.
fn page_of_error(_: &Arc<TestApp>, request: &Request) -> Option<ErrorPage> {
    let is_browser = request.list(&ACCEPT).any(|range| range == "text/html");
    is_browser.then(|| -> ErrorPage {
        Box::new(|mut response| {
            if !response.status().is_success() {
                *response.body_mut() = Body::from(Bytes::from_static(b"a page"));
            }
            response
        })
    })
}

#[tokio::test]
async fn an_interface_makes_pages_of_all_its_errors() {
    let limits = Limits { request_timeout: Duration::from_millis(200), ..Limits::default() };
    let interfaces =
        |gateway: Router<TestApp, TestGatewayError>| vec![gateway.error_pages(page_of_error).into(), other().into()];
    let server = HttpTestServer::start_with(limits, interfaces).await;
    for (method, path, lines, status) in [
        ("GET", "/nowhere", "", 404),
        ("PUT", "/hello", "", 405),
        ("GET", "/panic", "", 500),
        ("GET", "/forever", "", 504),
        ("POST", "/echo", "content-length: 1000000\r\n", 413),
        ("POST", "/echo", "content-type: text/plain\r\ncontent-length: 0\r\n", 415),
        ("GET", "/hello", "transfer-encoding: gzip, chunked\r\n", 400),
        ("GET", "/hello", "", 200),
    ] {
        let json = server.request(&request(method, path, lines)).await;
        let page = server.request(&request(method, path, &format!("accept: text/html\r\n{lines}"))).await;
        assert_eq!((json.status, page.status), (status, status), "{method} {path}");
        assert_eq!(page.body == "a page", status != 200, "{method} {path}: {}", page.body);
        assert!(json.body != "a page" && page.header("allow") == json.header("allow"), "{method} {path}");
        assert_eq!(page.header("connection"), json.header("connection"), "{method} {path}");
    }
    // The errors of another interface at the address stay as they are.
    let other = server.request(&request("PUT", "/compat/a", "accept: text/html\r\n")).await;
    assert_eq!((other.status, &*other.body), (405, "\"bare\""));
}

#[tokio::test]
async fn the_source_of_a_request_is_read_from_trusted_proxies() {
    let server = HttpTestServer::start().await;
    assert_eq!(server.request(&get("/source")).await.body, "\"127.0.0.1\"");
    let reply = server.request(&request("GET", "/source", "x-forwarded-for: 192.0.2.1\r\n")).await;
    assert_eq!(reply.body, "\"192.0.2.1\"");
}

#[tokio::test]
async fn allowed_origins_get_a_preflight_and_may_read_answers() {
    let origins = AllowedOrigins::default();
    origins.replace(vec![HeaderValue::from_static("https://a.example")]);
    let allowed = Some(Cors::Origins(origins));
    let server = HttpTestServer::start_with(Limits::default(), |gateway| vec![gateway.cors(allowed).into()]).await;
    let mut client = server.connect().await;
    let origin = "origin: https://a.example\r\naccess-control-request-method: POST\r\n";

    let preflight = client.request(&request("OPTIONS", "/echo", origin)).await;
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.header("access-control-allow-origin"), Some("https://a.example"));
    assert_eq!(preflight.header("access-control-allow-methods"), Some("POST, GET, HEAD, OPTIONS"));
    let headers = preflight.header("access-control-allow-headers").unwrap();
    for name in ["Authorization", "Content-Type", "Idempotency-Key", "X-Request-Id"] {
        assert!(headers.split(", ").any(|allowed| allowed == name), "{headers}");
    }
    assert_eq!(preflight.header("vary"), Some("Origin"));

    for (path, status) in [("/hello", 200), ("/nowhere", 404), ("/panic", 500)] {
        let reply = client.request(&request("GET", path, origin)).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("access-control-allow-origin"), Some("https://a.example"));
        assert_eq!(reply.header("vary"), Some("Origin"));
    }
    for lines in ["origin: https://b.example\r\n", ""] {
        let reply = client.request(&request("GET", "/hello", lines)).await;
        assert_eq!(reply.header("access-control-allow-origin"), None);
        assert_eq!(reply.header("vary"), Some("Origin"));
    }
    client.request(&request("OPTIONS", "/nowhere", origin)).await.check_error(404, "not_found");
}

/// The error of another interface, with another format.
struct BareError(Rejection);

impl From<Rejection> for BareError {
    fn from(rejection: Rejection) -> Self {
        Self(rejection)
    }
}

impl InterfaceError for BareError {
    fn reason(&self) -> String {
        self.0.reason()
    }

    fn into_response(self) -> Response {
        self.0.respond("bare")
    }
}

async fn bare(_: Arc<()>, _: Request) -> Result<Response, BareError> {
    Ok(json(StatusCode::OK, "bare"))
}

fn other() -> Router<(), BareError> {
    Router::new("other", Arc::new(())).route(Method::GET, "/hello", bare).route(Method::GET, "/compat/a", bare)
}

#[tokio::test]
async fn two_interfaces_can_share_an_address() {
    let any = Some(Cors::Any);
    let server =
        HttpTestServer::start_with(Limits::default(), |gateway| vec![gateway.into(), other().cors(any).into()]).await;
    let mut client = server.connect().await;
    for (path, status, body) in [
        ("/hello", 200, "\"hello\""),
        ("/items/1", 200, "[\"1\",null]"),
        ("/compat/a", 200, "\"bare\""),
        ("/compat/b", 404, "\"bare\""),
    ] {
        let reply = client.request(&request("GET", path, "origin: https://a.example\r\n")).await;
        assert_eq!((reply.status, reply.body.as_str()), (status, body), "{path}");
        let is_others = path.starts_with("/compat");
        assert_eq!(reply.header("access-control-allow-origin"), is_others.then_some("*"), "{path}");
    }
    client.request(&get("/elsewhere")).await.check_error(404, "not_found");
    let metrics = server.metrics();
    for line in [
        r#"http_requests_total{interface="gateway",route="/items/{id}",status="200"} 1"#,
        r#"http_requests_total{interface="gateway",route="unmatched",status="404"} 1"#,
        r#"http_requests_total{interface="other",route="unmatched",status="404"} 1"#,
        r#"http_request_duration_seconds_count{interface="other",route="/compat/a"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} is missing in {metrics}");
    }
}

#[test]
fn conflicting_and_unsupported_routes_are_refused() {
    let metrics = Metrics::register(&mut Default::default());
    let site = |router: Router<(), BareError>| Site::new([router.into()], &metrics).err();
    let get = Method::GET;
    assert!(site(other()).is_none());
    assert!(matches!(site(other().route(get.clone(), "/hello", bare)), Some(RouteError::Duplicate { .. })));
    for pattern in ["/{*rest}", "/a{id}", "/{id}.json"] {
        assert!(matches!(site(other().route(get.clone(), pattern, bare)), Some(RouteError::Parameter { .. })));
    }
    let conflicting = other().route(get.clone(), "/{a}", bare).route(get, "/{b}", bare);
    assert!(matches!(site(conflicting), Some(RouteError::Pattern { .. })));
    for misspelt in [
        other().reserve(&["/hello", "/unknown"]),
        other().open_to_all(&["/compat/{a}"]),
        Router::new("other", Arc::new(())).audited("greeted"),
    ] {
        assert!(matches!(site(misspelt), Some(RouteError::Unrouted { .. })));
    }
    assert!(site(other().reserve(&["/hello"]).open_to_all(&["/compat/a"])).is_none());
    assert!(matches!(Site::new([], &metrics), Err(RouteError::NoInterface)));
}

#[tokio::test]
async fn the_access_log_has_every_request_and_no_secrets() {
    let server = HttpTestServer::start().await;
    let mut client = server.connect().await;
    let secret = "authorization: Basic secret\r\nx-request-id: the-id\r\n";
    client.request(&request("GET", "/items/secret?q=secret", secret)).await;
    let body = format!("{secret}content-type: application/json\r\ncontent-length: 8\r\n");
    client.request(&(request("POST", "/echo", &body) + "\"secret\"")).await;
    client.request(&request("GET", "/panic?q=secret", secret)).await;
    client.request(&request("GET", "/secret", secret)).await;
    let log = log_of("the-id");
    assert_eq!(log.lines().count(), 8, "four requests, a warning of an unnamed client, a panic, two rejections: {log}");
    assert!(!log.contains("secret"), "{log}");
    let line = |route: &str| log.lines().find(|line| line.contains(route) && line.contains("answered")).unwrap();
    let item = line("/items/{id}");
    for part in ["DEBUG", "interface=\"gateway\"", "method=GET", "status=200", "micros=", "request_id=\"the-id\""] {
        assert!(item.contains(part), "{part} is missing in {item}");
    }
    assert!(line("/panic").contains("WARN") && line("/panic").contains("status=500"));
    assert!(log.lines().any(|line| line.contains("ERROR") && line.contains("a handler panicked")));
    let rejected: Vec<&str> = log.lines().filter(|line| line.contains("rejected reason=")).collect();
    assert!(rejected[0].contains("an internal error, which was logged before"), "{log}");
    assert!(rejected[1].contains("route=\"unmatched\"") && rejected[1].contains("no route has this path"), "{log}");
}
