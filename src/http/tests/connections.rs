//! How connections begin, are shared by requests, and end.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

use super::harness::{LARGE, TestServer, get, http2, post, request, soon};
use crate::http::Limits;

const SHORT: Duration = Duration::from_millis(50);
const HOUR: Duration = Duration::from_secs(3600);

fn http2_get(server: &TestServer, path: &str) -> hyper::Request<Full<Bytes>> {
    hyper::Request::get(format!("http://{}{path}", server.address)).body(Full::default()).unwrap()
}

#[tokio::test]
async fn a_connection_serves_many_requests() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        assert_eq!(client.ask(&get("/hello")).await.body, "\"hello\"");
        assert_eq!(client.ask(&post("/echo", "[1]")).await.body, "[1]");
        client.ask(&get("/nowhere")).await.is(404, "not_found");
    }
    assert!(server.metrics().contains("http_open_connections 1\n"));
}

#[tokio::test]
async fn a_connection_is_closed_when_the_client_asks_for_it() {
    let server = TestServer::start().await;
    for request in [request("GET", "/hello", "connection: close\r\n"), "GET /hello HTTP/1.0\r\n\r\n".to_owned()] {
        let mut client = server.connect().await;
        assert_eq!(client.ask(&request).await.status, 200);
        client.closed().await;
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.send(get("/wait") + &get("/items/1") + &post("/echo", "[2]") + &get("/items/3")).await;
    server.app.entered().await;
    server.app.release.notify_one();
    for expected in ["\"released\"", "[\"1\",null]", "[2]", "[\"3\",null]"] {
        assert_eq!(client.reply().await.body, expected);
    }
}

#[tokio::test]
async fn http2_works_with_prior_knowledge_and_out_of_order() {
    let server = TestServer::start().await;
    let (mut sender, _connection) = http2(server.address).await;
    let waiting = sender.send_request(http2_get(&server, "/wait"));
    server.app.entered().await;
    let answer = soon(sender.send_request(http2_get(&server, "/hello"))).await.unwrap();
    assert_eq!(answer.version(), hyper::Version::HTTP_2);
    assert_eq!(answer.headers()["content-length"], "7");
    assert_eq!(soon(answer.into_body().collect()).await.unwrap().to_bytes(), "\"hello\"");
    server.app.release.notify_one();
    assert_eq!(soon(waiting).await.unwrap().status(), 200);

    let mut head = http2_get(&server, "/hello");
    *head.method_mut() = hyper::Method::HEAD;
    let answer = soon(sender.send_request(head)).await.unwrap();
    assert_eq!(answer.headers()["content-length"], "7");
    assert_eq!(soon(answer.into_body().collect()).await.unwrap().to_bytes(), "");

    let mut long = http2_get(&server, "/echo");
    *long.method_mut() = hyper::Method::POST;
    *long.body_mut() = Full::from(vec![b' '; 1 << 20]);
    assert_eq!(soon(sender.send_request(long)).await.unwrap().status(), 413);
    let answer = soon(sender.send_request(http2_get(&server, "/hello"))).await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn past_the_limit_connections_wait_for_one_to_end() {
    let server = TestServer::start_limited(Limits { connections: 1, ..Limits::default() }).await;
    let mut first = server.connect().await;
    first.ask(&get("/hello")).await;
    let mut second = server.connect().await;
    second.send(get("/hello")).await;
    for _ in 0..10 {
        first.ask(&get("/hello")).await;
    }
    let read = second.stream.get_ref().try_read(&mut [0; 1]);
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert!(server.metrics().contains("http_open_connections 1\n"));
    drop(first);
    assert_eq!(second.reply().await.status, 200);
}

#[tokio::test]
async fn past_its_limit_a_sources_connections_are_closed_at_once() {
    let server = TestServer::start_limited(Limits { connections_per_source: 2, ..Limits::default() }).await;
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    first.ask(&get("/hello")).await;
    second.ask(&get("/hello")).await;
    server.connect().await.closed().await;
    drop(first);
    // The server hears of it a moment later.
    while server.metrics().contains("http_open_connections 2\n") {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.connect().await.ask(&get("/hello")).await.status, 200);
    second.ask(&get("/hello")).await;
}

#[tokio::test]
async fn past_their_limit_requests_and_bodies_are_refused_at_once() {
    let server = TestServer::start_limited(Limits { requests: 1, ..Limits::default() }).await;
    let mut first = server.connect().await;
    // Its answer waits for the body.
    first.send("POST /echo HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{").await;
    while !server.metrics().contains("http_open_connections 1\n") {
        tokio::task::yield_now().await;
    }
    let mut refused = server.connect().await.ask(&get("/hello")).await;
    while refused.status == 200 {
        // The first one's head was not there yet.
        refused = server.connect().await.ask(&get("/hello")).await;
    }
    refused.is(503, "batcher_unavailable");
    assert_eq!(refused.header("retry-after"), Some("1"));
    first.send("}").await;
    assert_eq!(first.reply().await.status, 200);
    assert_eq!(first.ask(&get("/hello")).await.status, 200);

    let server = TestServer::start_limited(Limits { body_bytes: 10, ..Limits::default() }).await;
    let mut client = server.connect().await;
    client.ask(&post("/echo", "[123456789]")).await.is(503, "batcher_unavailable");
    let mut client = server.connect().await;
    for _ in 0..3 {
        // Room that was taken is given back.
        assert_eq!(client.ask(&post("/echo", "[1234567]")).await.status, 200);
    }
}

#[tokio::test]
async fn past_their_limit_answers_that_nobody_takes_are_refused() {
    let server = TestServer::start_limited(Limits { answer_bytes: 2 * LARGE, ..Limits::default() }).await;
    let mut holding = [server.connect().await, server.connect().await];
    for client in &mut holding {
        client.send(get("/large")).await;
        assert_eq!(client.reply_head().await.status, 200);
    }
    let mut other = server.connect().await;
    let refused = other.ask(&get("/large")).await;
    refused.is(503, "batcher_unavailable");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(other.ask(&get("/hello")).await.status, 200, "small answers have room elsewhere");
    other.send(request("HEAD", "/large", "")).await;
    assert_eq!(other.reply_head().await.status, 200, "and what is not sent takes none");
    // One takes it, the other leaves.
    let [mut taking, leaving] = holding;
    let mut body = vec![0; LARGE];
    soon(taking.stream.read_exact(&mut body)).await.unwrap();
    drop(leaving);
    for _ in 0..3 {
        let mut reply = other.ask(&get("/large")).await;
        while reply.status == 503 {
            // The server hears of it a moment later.
            reply = other.ask(&get("/large")).await;
        }
        assert_eq!((reply.status, reply.body.len()), (200, LARGE));
    }
}

/// HTTP/2 has windows, and a client may open them as wide as it likes, or by a byte, and then not take what they let through.
#[tokio::test]
async fn answers_that_nobody_takes_are_counted_with_http2_too() {
    const SETTINGS: u8 = 4;
    const HEADERS: u8 = 1;
    const WINDOW_UPDATE: u8 = 8;
    const END_OF_STREAM_AND_HEADERS: u8 = 5;
    const INITIAL_WINDOW_SIZE: u8 = 4;
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
    };
    // Method GET, scheme http, and two fields with their names from the static table.
    let head = [b"\x82\x86\x04\x06/large\x01\x01h".as_slice()].concat();
    for window in [1_u32, 0x7fff_ffff] {
        let server = TestServer::start_limited(Limits { answer_bytes: LARGE, ..Limits::default() }).await;
        let mut holding = server.connect().await;
        let settings = [&[0, INITIAL_WINDOW_SIZE], window.to_be_bytes().as_slice()].concat();
        holding.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        holding.send(frame(SETTINGS, 0, 0, &settings)).await;
        holding.send(frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes())).await;
        holding.send(frame(HEADERS, END_OF_STREAM_AND_HEADERS, 1, &head)).await;
        let mut other = server.connect().await;
        let refused = soon(async {
            loop {
                let reply = other.ask(&get("/large")).await;
                if reply.status == 503 {
                    break reply;
                }
            }
        });
        refused.await.is(503, "batcher_unavailable");
        // It stays so, however often one asks.
        for _ in 0..50 {
            assert_eq!(other.ask(&get("/large")).await.status, 503, "with a window of {window}");
        }
        drop(holding);
        let given_back = soon(async { while other.ask(&get("/large")).await.status == 503 {} });
        given_back.await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_first_head_is_dropped() {
    let server = TestServer::start_limited(Limits { header_timeout: SHORT, ..Limits::default() }).await;
    for beginning in ["", "GET /hel", "PRI * HTTP/2.0\r\n", "GET /hello HTTP/1.1\r\nhost: h\r\n"] {
        let mut client = server.connect().await;
        client.send(beginning).await;
        client.closed().await;
    }
}

#[tokio::test]
async fn an_unused_connection_is_closed() {
    let server = TestServer::start_limited(Limits { idle_timeout: SHORT, header_timeout: SHORT, ..Limits::default() });
    let server = server.await;
    let mut idle = server.connect().await;
    idle.ask(&get("/hello")).await;
    idle.closed().await;

    let mut dripping = server.connect().await;
    dripping.ask(&(get("/hello") + "GET /hel")).await;
    dripping.closed().await;

    let (mut sender, connection) = http2(server.address).await;
    soon(sender.send_request(http2_get(&server, "/hello"))).await.unwrap();
    soon(connection).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_connection_with_a_request_or_a_stream_under_way_is_not_unused() {
    let second = Duration::from_secs(1);
    let limits = Limits { idle_timeout: second, header_timeout: second, request_timeout: HOUR, ..Limits::default() };
    let server = TestServer::start_limited(limits).await;
    let pass_time = || async {
        tokio::time::pause();
        for _ in 0..10 {
            tokio::time::advance(second).await;
        }
        tokio::time::resume();
    };

    let mut client = server.connect().await;
    client.send(get("/wait")).await;
    server.app.entered().await;
    pass_time().await;
    server.app.release.notify_one();
    assert_eq!(client.reply().await.status, 200);

    client.send(get("/stream")).await;
    assert_eq!(client.reply_head().await.header("transfer-encoding"), Some("chunked"));
    pass_time().await;
    server.app.end_stream();
    let mut body = String::new();
    while !body.ends_with("0\r\n\r\n") {
        let read = soon(client.stream.read_line(&mut body)).await.unwrap();
        assert_ne!(read, 0, "the connection ended after {body:?}");
    }
    assert_eq!(body, "5\r\npiece\r\n0\r\n\r\n");
}

#[tokio::test]
async fn shutdown_finishes_what_is_in_flight_and_nothing_else() {
    let server = TestServer::start().await;
    let mut idle = server.connect().await;
    idle.ask(&get("/hello")).await;
    let mut silent = server.connect().await;
    let mut busy = server.connect().await;
    busy.send(get("/wait")).await;
    server.app.entered().await;
    let (mut sender, connection) = http2(server.address).await;
    let busy_stream = sender.send_request(http2_get(&server, "/wait"));
    server.app.entered().await;

    server.trigger.trigger();
    idle.closed().await;
    silent.closed().await;
    server.app.release.notify_waiters();
    let reply = busy.reply().await;
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
    busy.closed().await;
    assert_eq!(soon(busy_stream).await.unwrap().status(), 200);
    soon(connection).await.unwrap().unwrap();
    let address = server.address;
    server.stopped().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_long_poll_hears_of_the_shutdown() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.send(get("/poll")).await;
    server.app.entered().await;
    server.trigger.trigger();
    assert_eq!(client.reply().await.body, "\"shutting down\"");
    server.stopped().await;
}

#[tokio::test]
async fn after_the_grace_time_connections_are_dropped() {
    let limits = Limits { grace: SHORT, request_timeout: HOUR, ..Limits::default() };
    let server = TestServer::start_limited(limits).await;
    let mut client = server.connect().await;
    client.send(get("/forever")).await;
    server.app.entered().await;
    // Dropping the trigger counts as triggering it.
    drop(server.trigger);
    client.closed().await;
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_request_with_it() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.send(get("/forever")).await;
    server.app.entered().await;
    client.stream.shutdown().await.unwrap();
    client.closed().await;
    assert_eq!(server.ask(&get("/hello")).await.status, 200);
}
