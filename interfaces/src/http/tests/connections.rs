//! How connections begin, carry requests, and end.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

use super::harness::{
    HttpTestServer, LARGE, RawClient, RawReply, get, http2, post, request, wait_until, within_deadline,
};
use crate::http::{Limits, SharedConnections};

/// Longer than a client needs for its request, also on a machine that is busy with other work, and
/// shorter than the harness waits.
const SHORT: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3600);

/// The sample of the server's open connections.
fn open_connections(server: &HttpTestServer, count: usize) -> String {
    format!("http_open_connections{{listener=\"{}\"}} {count}\n", server.address)
}

/// Sends a request again and again until its answer is as awaited.
async fn ask_until(mut ask: impl AsyncFnMut() -> RawReply, is_awaited: impl Fn(&RawReply) -> bool) -> RawReply {
    within_deadline(async {
        loop {
            let reply = ask().await;
            if is_awaited(&reply) {
                return reply;
            }
        }
    })
    .await
}

/// Waits until the server closes the connection because time passes: simulated time, which passes
/// at once when nothing else is left to do.
async fn expect_closed_in_time(client: &mut RawClient) {
    tokio::time::pause();
    client.expect_closed().await;
    tokio::time::resume();
}

fn http2_get(server: &HttpTestServer, path: &str) -> hyper::Request<Full<Bytes>> {
    hyper::Request::get(format!("http://{}{path}", server.address)).body(Full::default()).unwrap()
}

#[tokio::test]
async fn a_connection_serves_many_requests() {
    let server = HttpTestServer::start().await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        assert_eq!(client.request(&get("/hello")).await.body, "\"hello\"");
        assert_eq!(client.request(&post("/echo", "[1]")).await.body, "[1]");
        client.request(&get("/nowhere")).await.check_error(404, "not_found");
    }
    assert!(server.metrics().contains(&open_connections(&server, 1)));
}

#[tokio::test]
async fn a_connection_is_closed_when_the_client_requests_it() {
    let server = HttpTestServer::start().await;
    for request in [request("GET", "/hello", "connection: close\r\n"), "GET /hello HTTP/1.0\r\n\r\n".to_owned()] {
        let mut client = server.connect().await;
        assert_eq!(client.request(&request).await.status, 200);
        client.expect_closed().await;
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = HttpTestServer::start().await;
    let mut client = server.connect().await;
    client.send(get("/wait") + &get("/items/1") + &post("/echo", "[2]") + &get("/items/3")).await;
    server.app.wait_until_entered().await;
    server.app.release.notify_one();
    for expected in ["\"released\"", "[\"1\",null]", "[2]", "[\"3\",null]"] {
        assert_eq!(client.reply().await.body, expected);
    }
}

#[tokio::test]
async fn http2_works_with_prior_knowledge_and_answers_out_of_order() {
    let server = HttpTestServer::start().await;
    let (mut sender, _connection) = http2(server.address).await;
    let waiting = sender.send_request(http2_get(&server, "/wait"));
    server.app.wait_until_entered().await;
    let answer = within_deadline(sender.send_request(http2_get(&server, "/hello"))).await.unwrap();
    assert_eq!(answer.version(), hyper::Version::HTTP_2);
    assert_eq!(answer.headers()["content-length"], "7");
    assert_eq!(within_deadline(answer.into_body().collect()).await.unwrap().to_bytes(), "\"hello\"");
    server.app.release.notify_one();
    assert_eq!(within_deadline(waiting).await.unwrap().status(), 200);

    let mut head = http2_get(&server, "/hello");
    *head.method_mut() = hyper::Method::HEAD;
    let answer = within_deadline(sender.send_request(head)).await.unwrap();
    assert_eq!(answer.headers()["content-length"], "7");
    assert_eq!(within_deadline(answer.into_body().collect()).await.unwrap().to_bytes(), "");

    let mut long = http2_get(&server, "/echo");
    *long.method_mut() = hyper::Method::POST;
    *long.body_mut() = Full::from(vec![b' '; 1 << 20]);
    assert_eq!(within_deadline(sender.send_request(long)).await.unwrap().status(), 413);
    let answer = within_deadline(sender.send_request(http2_get(&server, "/hello"))).await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn connections_over_the_limit_wait_until_another_connection_ends() {
    let server = HttpTestServer::start_limited(Limits { connections: 1, ..Limits::default() }).await;
    let mut first = server.connect().await;
    first.request(&get("/hello")).await;
    let mut second = server.connect().await;
    second.send(get("/hello")).await;
    for _ in 0..10 {
        first.request(&get("/hello")).await;
    }
    let read = second.stream.get_ref().try_read(&mut [0; 1]);
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert!(server.metrics().contains(&open_connections(&server, 1)));
    drop(first);
    assert_eq!(second.reply().await.status, 200);
}

#[tokio::test]
async fn connections_over_the_limit_of_a_source_are_closed_at_once() {
    let server = HttpTestServer::start_limited(Limits { connections_per_source: 2, ..Limits::default() }).await;
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    first.request(&get("/hello")).await;
    second.request(&get("/hello")).await;
    server.connect().await.expect_closed().await;
    drop(first);
    // The server notices the end shortly afterwards.
    let has_ended = || !server.metrics().contains(&open_connections(&server, 2));
    wait_until("the server notices that a connection has ended", has_ended).await;
    assert_eq!(server.connect().await.request(&get("/hello")).await.status, 200);
    second.request(&get("/hello")).await;
}

#[tokio::test]
async fn requests_and_bodies_over_their_limit_are_rejected_at_once() {
    let server = HttpTestServer::start_limited(Limits { requests: 1, ..Limits::default() }).await;
    let mut first = server.connect().await;
    // The request is in flight until its body is complete.
    first.send("POST /echo HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{").await;
    wait_until("the connection is open", || server.metrics().contains(&open_connections(&server, 1))).await;
    // At first the server may not have read the head of the first request.
    let refused = ask_until(async || server.request(&get("/hello")).await, |reply| reply.status == 503).await;
    refused.check_error(503, "batcher_unavailable");
    assert_eq!(refused.header("retry-after"), Some("1"));
    first.send("}").await;
    assert_eq!(first.reply().await.status, 200);
    assert_eq!(first.request(&get("/hello")).await.status, 200);

    let server = HttpTestServer::start_limited(Limits { body_bytes: 10, ..Limits::default() }).await;
    let mut client = server.connect().await;
    client.request(&post("/echo", "[123456789]")).await.check_error(503, "batcher_unavailable");
    let mut client = server.connect().await;
    for _ in 0..3 {
        // The bytes of an earlier body are released.
        assert_eq!(client.request(&post("/echo", "[1234567]")).await.status, 200);
    }
}

#[tokio::test]
async fn answers_over_the_limit_of_unread_bytes_are_rejected() {
    let server = HttpTestServer::start_limited(Limits { answer_bytes: 2 * LARGE, ..Limits::default() }).await;
    let mut holding = [server.connect().await, server.connect().await];
    for client in &mut holding {
        client.send(get("/large")).await;
        assert_eq!(client.reply_head().await.status, 200);
    }
    let mut other = server.connect().await;
    let refused = other.request(&get("/large")).await;
    refused.check_error(503, "batcher_unavailable");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(other.request(&get("/hello")).await.status, 200, "a small answer needs no room in the limit");
    other.send(request("HEAD", "/large", "")).await;
    assert_eq!(other.reply_head().await.status, 200, "an answer without a body needs no room");
    // One client reads its answer, the other closes its connection.
    let [mut reading, leaving] = holding;
    let mut body = vec![0; LARGE];
    within_deadline(reading.stream.read_exact(&mut body)).await.unwrap();
    drop(leaving);
    for _ in 0..3 {
        // The server notices the end shortly afterwards.
        let reply = ask_until(async || other.request(&get("/large")).await, |reply| reply.status != 503).await;
        assert_eq!((reply.status, reply.body.len()), (200, LARGE));
    }
}

/// A head that a trusted proxy sends for this client.
fn forwarded(method: &str, path: &str, source: &str, lines: &str) -> String {
    request(method, path, &format!("x-forwarded-for: {source}\r\nconnection: close\r\n{lines}"))
}

#[tokio::test]
async fn a_source_behind_a_proxy_has_a_quarter_of_the_bodies() {
    let server = HttpTestServer::start_limited(Limits { body_bytes: 40, ..Limits::default() }).await;
    let post =
        |source: &str| forwarded("POST", "/echo", source, "content-type: application/json\r\ncontent-length: 10\r\n");
    let mut slow = server.connect().await;
    slow.send(post("192.0.2.1") + "[1234567").await;
    // The second body has room until the server has read what there is of the first.
    let second = post("192.0.2.1") + "[12345678]";
    let refused = ask_until(async || server.request(&second).await, |reply| reply.status == 503).await;
    refused.check_error(503, "batcher_unavailable");
    assert_eq!(server.request(&(post("192.0.2.2") + "[12345678]")).await.status, 200);
    slow.send("8]").await;
    assert_eq!(slow.reply().await.status, 200);
    assert_eq!(server.request(&(post("192.0.2.1") + "[12345678]")).await.status, 200);
}

#[tokio::test]
async fn a_source_behind_a_proxy_has_a_quarter_of_the_answers() {
    let server = HttpTestServer::start_limited(Limits { answer_bytes: 8 * LARGE, ..Limits::default() }).await;
    let get = |source: &str| forwarded("GET", "/large", source, "");
    let mut holding = [server.connect().await, server.connect().await];
    for client in &mut holding {
        client.send(get("192.0.2.1")).await;
        assert_eq!(client.reply_head().await.status, 200);
    }
    let mut third = server.connect().await;
    third.send(get("192.0.2.1")).await;
    assert_eq!(third.reply_head().await.status, 503);
    let mut other = server.connect().await;
    other.send(get("192.0.2.2")).await;
    assert_eq!(other.reply_head().await.status, 200);
}

#[tokio::test]
async fn a_source_behind_a_proxy_occupies_a_quarter_of_the_connections() {
    let server = HttpTestServer::start_limited(Limits { connections: 8, ..Limits::default() }).await;
    let mut holding = Vec::new();
    for _ in 0..2 {
        let mut client = server.connect().await;
        client.send(forwarded("GET", "/wait", "192.0.2.1", "")).await;
        server.app.wait_until_entered().await;
        holding.push(client);
    }
    let refused = server.request(&forwarded("GET", "/hello", "192.0.2.1", "")).await;
    refused.check_error(503, "batcher_unavailable");
    assert_eq!(server.request(&forwarded("GET", "/hello", "192.0.2.2", "")).await.status, 200);
    server.app.release.notify_waiters();
    for mut client in holding {
        assert_eq!(client.reply().await.status, 200);
        client.expect_closed().await;
    }
    assert_eq!(server.request(&forwarded("GET", "/hello", "192.0.2.1", "")).await.status, 200);
}

/// A client can open the windows of HTTP/2 completely or by one byte, and then not read what the
/// windows allow.
#[tokio::test]
async fn unread_answers_count_against_the_limit_with_http2() {
    const SETTINGS: u8 = 4;
    const HEADERS: u8 = 1;
    const WINDOW_UPDATE: u8 = 8;
    const END_OF_STREAM_AND_HEADERS: u8 = 5;
    const INITIAL_WINDOW_SIZE: u8 = 4;
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
    };
    // The header block: method GET, scheme http, and two fields whose names are in the static
    // table.
    let head = [b"\x82\x86\x04\x06/large\x01\x01h".as_slice()].concat();
    for window in [1_u32, 0x7fff_ffff] {
        let server = HttpTestServer::start_limited(Limits { answer_bytes: LARGE, ..Limits::default() }).await;
        let mut holding = server.connect().await;
        let settings = [&[0, INITIAL_WINDOW_SIZE], window.to_be_bytes().as_slice()].concat();
        holding.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        holding.send(frame(SETTINGS, 0, 0, &settings)).await;
        holding.send(frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes())).await;
        holding.send(frame(HEADERS, END_OF_STREAM_AND_HEADERS, 1, &head)).await;
        let mut other = server.connect().await;
        let refused = ask_until(async || other.request(&get("/large")).await, |reply| reply.status == 503).await;
        refused.check_error(503, "batcher_unavailable");
        // Further requests get the same answer.
        for _ in 0..50 {
            assert_eq!(other.request(&get("/large")).await.status, 503, "with a window of {window}");
        }
        drop(holding);
        ask_until(async || other.request(&get("/large")).await, |reply| reply.status != 503).await;
    }
}

#[tokio::test]
async fn a_connection_without_a_complete_first_head_is_closed() {
    let server = HttpTestServer::start_limited(Limits { header_timeout: SHORT, ..Limits::default() }).await;
    for beginning in ["", "GET /hel", "PRI * HTTP/2.0\r\n", "GET /hello HTTP/1.1\r\nhost: h\r\n"] {
        let mut client = server.connect().await;
        client.send(beginning).await;
        expect_closed_in_time(&mut client).await;
    }
}

#[tokio::test]
async fn an_unused_connection_is_closed() {
    let server =
        HttpTestServer::start_limited(Limits { idle_timeout: SHORT, header_timeout: SHORT, ..Limits::default() });
    let server = server.await;
    let mut idle = server.connect().await;
    idle.request(&get("/hello")).await;
    expect_closed_in_time(&mut idle).await;

    let mut dripping = server.connect().await;
    dripping.request(&(get("/hello") + "GET /hel")).await;
    expect_closed_in_time(&mut dripping).await;

    let (mut sender, connection) = http2(server.address).await;
    within_deadline(sender.send_request(http2_get(&server, "/hello"))).await.unwrap();
    tokio::time::pause();
    within_deadline(connection).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_connection_with_an_open_request_or_stream_is_not_closed_as_unused() {
    let second = Duration::from_secs(1);
    let limits = Limits { idle_timeout: second, header_timeout: second, request_timeout: HOUR, ..Limits::default() };
    let server = HttpTestServer::start_limited(limits).await;
    let pass_time = || async {
        tokio::time::pause();
        for _ in 0..10 {
            tokio::time::advance(second).await;
        }
        tokio::time::resume();
    };

    let mut client = server.connect().await;
    client.send(get("/wait")).await;
    server.app.wait_until_entered().await;
    pass_time().await;
    server.app.release.notify_one();
    assert_eq!(client.reply().await.status, 200);

    client.send(get("/stream")).await;
    assert_eq!(client.reply_head().await.header("transfer-encoding"), Some("chunked"));
    pass_time().await;
    server.app.end_stream();
    let mut body = String::new();
    while !body.ends_with("0\r\n\r\n") {
        let read = within_deadline(client.stream.read_line(&mut body)).await.unwrap();
        assert_ne!(read, 0, "the connection ended after {body:?}");
    }
    assert_eq!(body, "5\r\npiece\r\n0\r\n\r\n");
}

#[tokio::test]
async fn a_shutdown_finishes_requests_in_flight_and_closes_other_connections() {
    let server = HttpTestServer::start().await;
    let mut idle = server.connect().await;
    idle.request(&get("/hello")).await;
    let mut silent = server.connect().await;
    let mut busy = server.connect().await;
    busy.send(get("/wait")).await;
    server.app.wait_until_entered().await;
    let (mut sender, connection) = http2(server.address).await;
    let busy_stream = sender.send_request(http2_get(&server, "/wait"));
    server.app.wait_until_entered().await;

    server.trigger.trigger();
    idle.expect_closed().await;
    silent.expect_closed().await;
    server.app.release.notify_waiters();
    let reply = busy.reply().await;
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
    busy.expect_closed().await;
    assert_eq!(within_deadline(busy_stream).await.unwrap().status(), 200);
    within_deadline(connection).await.unwrap().unwrap();
    let address = server.address;
    server.wait_for_stop().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_long_poll_ends_at_the_shutdown() {
    let server = HttpTestServer::start().await;
    let mut client = server.connect().await;
    client.send(get("/poll")).await;
    server.app.wait_until_entered().await;
    server.trigger.trigger();
    assert_eq!(client.reply().await.body, "\"shutting down\"");
    server.wait_for_stop().await;
}

#[tokio::test]
async fn connections_are_closed_after_the_grace_time() {
    let limits = Limits { grace: SHORT, request_timeout: HOUR, ..Limits::default() };
    let server = HttpTestServer::start_limited(limits).await;
    let mut client = server.connect().await;
    client.send(get("/forever")).await;
    server.app.wait_until_entered().await;
    // Dropping the trigger triggers it.
    drop(server.trigger);
    expect_closed_in_time(&mut client).await;
}

#[tokio::test]
async fn a_request_is_cancelled_when_its_client_closes_the_connection() {
    let server = HttpTestServer::start().await;
    let mut client = server.connect().await;
    client.send(get("/forever")).await;
    server.app.wait_until_entered().await;
    client.stream.shutdown().await.unwrap();
    client.expect_closed().await;
    assert_eq!(server.request(&get("/hello")).await.status, 200);
}

#[tokio::test]
async fn the_last_connections_are_kept_for_reserved_routes() {
    let limits = Limits { connections: 8, ..Limits::default() };
    let server = HttpTestServer::start_with(limits, |gateway| vec![gateway.reserve(&["/hello"]).into()]).await;
    let mut holding = Vec::new();
    for source in 1..=7 {
        let mut client = server.connect().await;
        client.send(forwarded("GET", "/wait", &format!("192.0.2.{source}"), "")).await;
        server.app.wait_until_entered().await;
        holding.push(client);
    }
    for _ in 0..3 {
        let mut ordinary = server.connect().await;
        let refused = ordinary.request(&request("GET", "/items/1", "x-forwarded-for: 192.0.2.9\r\n")).await;
        refused.check_error(503, "batcher_unavailable");
        assert_eq!(refused.header("connection"), Some("close"));
        ordinary.expect_closed().await;
        let mut reserved = server.connect().await;
        let reply = reserved.request(&request("GET", "/hello", "x-forwarded-for: 192.0.2.9\r\n")).await;
        assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
        reserved.expect_closed().await;
    }
    // When another connection has ended, there is room again.
    drop(holding.pop());
    ask_until(async || server.request(&get("/items/1")).await, |reply| reply.status == 200).await;
}

/// Connections that do nothing: some before their first request, some after it.
#[tokio::test]
async fn idle_connections_make_room_for_those_of_another_listener() {
    const MOST: usize = 8;
    let shared = SharedConnections::new(MOST);
    let flooded = HttpTestServer::start_among(shared.clone()).await;
    let other = HttpTestServer::start_among(shared).await;
    let mut waiting = flooded.connect().await;
    waiting.send(get("/wait")).await;
    flooded.app.wait_until_entered().await;
    let mut idle = Vec::new();
    for number in 0..2 * MOST {
        let mut client = flooded.connect().await;
        if number % 2 == 0 {
            assert_eq!(client.request(&get("/hello")).await.status, 200);
        }
        idle.push(client);
    }
    for _ in 0..MOST {
        assert_eq!(other.request(&get("/hello")).await.status, 200);
    }
    // The first ones made room, and the request that was open is answered.
    idle[0].expect_closed().await;
    flooded.app.release.notify_one();
    assert_eq!(waiting.reply().await.status, 200);
}
