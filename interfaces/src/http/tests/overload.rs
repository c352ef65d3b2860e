//! Clients past their limits: what their refused requests cost the other clients.

use http_body_util::Full;
use hyper::{Method, StatusCode};
use tokio::io::AsyncReadExt;

use super::harness::{HttpTestServer, RawClient, http2, log_of, request, wait_until, within_deadline};
use crate::http::{Limits, json};

/// A share of 8 open requests for one source.
fn limits() -> Limits {
    Limits { requests: 32, ..Limits::default() }
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// Opens a connection of HTTP/2 whose client takes no byte of an answer's body, and sends 64
/// requests for `/hello` as the client `source` of a proxy.
async fn send_64_and_read_nothing(server: &HttpTestServer, source: &str) -> RawClient {
    const SETTINGS: u8 = 4;
    const HEADERS: u8 = 1;
    const END_OF_STREAM_AND_HEADERS: u8 = 5;
    const INITIAL_WINDOW_SIZE: u8 = 4;
    // The header block: method GET, scheme http, two fields whose names are in the static table,
    // and one with its name.
    let name = "x-forwarded-for";
    let forwarded = [&[0, name.len() as u8], name.as_bytes(), &[source.len() as u8], source.as_bytes()].concat();
    let head = [b"\x82\x86\x04\x06/hello\x01\x01h".as_slice(), &forwarded].concat();
    let mut client = server.connect().await;
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    client.send(frame(SETTINGS, 0, 0, &[0, INITIAL_WINDOW_SIZE, 0, 0, 0, 0])).await;
    for stream in (1..=127).step_by(2) {
        client.send(frame(HEADERS, END_OF_STREAM_AND_HEADERS, stream, &head)).await;
    }
    client
}

/// The client keeps the answers to its refused requests waiting as long as it wants.
#[tokio::test]
async fn refused_requests_whose_answers_stay_unread_take_no_room_from_other_sources() {
    let server = HttpTestServer::start_limited(limits()).await;
    let holding = send_64_and_read_nothing(&server, "192.0.2.1").await;
    let refused = r#"http_requests_total{interface="gateway",route="/hello",status="503"} 56"#;
    wait_until("56 requests are refused", || server.metrics().contains(refused)).await;
    for _ in 0..3 {
        let other = request("GET", "/hello", "x-forwarded-for: 192.0.2.2\r\nconnection: close\r\n");
        assert_eq!(server.request(&other).await.status, 200);
    }
    drop(holding);
}

#[tokio::test]
async fn a_connection_with_many_unread_refusals_is_closed() {
    let server = HttpTestServer::start_without_proxies(limits()).await;
    let mut client = send_64_and_read_nothing(&server, "192.0.2.1").await;
    let mut rest = Vec::new();
    // A reset also closes the connection.
    let _ = within_deadline(client.stream.read_to_end(&mut rest)).await;
}

/// A client that sends requests for a reserved route without end keeps no place in the reserve.
#[tokio::test]
async fn a_connection_of_http2_leaves_the_reserve_after_its_request() {
    let limits = Limits { connections: 8, ..Limits::default() };
    let server = HttpTestServer::start_with(limits, |gateway| vec![gateway.reserve(&["/hello"]).into()]).await;
    let mut holding = Vec::new();
    for source in 1..=7 {
        let mut client = server.connect().await;
        client.send(request("GET", "/wait", &format!("x-forwarded-for: 192.0.2.{source}\r\n"))).await;
        server.app.wait_until_entered().await;
        holding.push(client);
    }
    let (mut sender, connection) = http2(server.address).await;
    let hello = || {
        let request = hyper::Request::get(format!("http://{}/hello", server.address));
        request.header("x-forwarded-for", "192.0.2.9").body(Full::default()).unwrap()
    };
    assert_eq!(within_deadline(sender.send_request(hello())).await.unwrap().status(), 200);
    within_deadline(async { while sender.send_request(hello()).await.is_ok() {} }).await;
    within_deadline(connection).await.unwrap().unwrap();
}

/// Without the header every share of the proxy's clients is off, which nothing else shows.
#[tokio::test]
async fn a_trusted_proxy_that_does_not_name_its_clients_is_logged_once() {
    let server = HttpTestServer::start_with(Limits::default(), |gateway| {
        vec![gateway.route(Method::GET, "/health", |_, _| async { Ok(json(StatusCode::OK, "well")) }).into()]
    })
    .await;
    for (id, path, source, is_warned) in [
        ("unnamed-probe", "/health", "", false),
        ("unnamed-named", "/hello", "x-forwarded-for: 192.0.2.1\r\n", false),
        ("unnamed-first", "/hello", "forwarded: for=192.0.2.1\r\n", true),
        ("unnamed-again", "/hello", "", false),
    ] {
        let lines = format!("x-request-id: {id}\r\n{source}");
        assert_eq!(server.request(&request("GET", path, &lines)).await.status, 200);
        assert_eq!(log_of(id).contains("limits.forwarded_header"), is_warned, "{}", log_of(id));
    }
}
