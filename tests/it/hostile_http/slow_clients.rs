//! Clients that are slow, silent, or too many.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use selfsame_interfaces::interface::Interface;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::interval;

use super::raw::{connect, connect_from, connect_narrow, exchange, replies, write_unread};
use super::{HostileTestDaemon, SHORT, http2, wait_until_served};
use crate::harness::{in_time, until, until_true};

const REQUEST: &[u8] = b"GET /health HTTP/1.1\r\nhost: h\r\n\r\n";

/// The pause between two bytes of a slow client: short enough that a timeout between two bytes
/// would never fire.
const DRIP: Duration = Duration::from_millis(100);

/// Sends `at_once`, then the bytes of `slowly` one at a time, over and over, until the daemon
/// closes the connection; returns what the daemon sent.
async fn drip(stream: TcpStream, at_once: &[u8], slowly: &[u8]) -> Vec<u8> {
    let (mut reading, mut writing) = stream.into_split();
    writing.write_all(at_once).await.expect("accepted");
    let mut seen = Vec::new();
    let dripping = async {
        let mut ticks = interval(DRIP);
        let mut bytes = slowly.chunks(1).cycle();
        loop {
            tokio::select! {
                read = reading.read_buf(&mut seen) => if !matches!(read, Ok(1..)) { return },
                _ = ticks.tick() => {
                    // The connection may be closed; then reading ends too.
                    let _ = writing.write_all(bytes.next().unwrap_or_default()).await;
                }
            }
        }
    };
    let shown = String::from_utf8_lossy(slowly);
    in_time(format!("the end of a connection on which {shown:?} drips"), dripping).await;
    seen
}

#[tokio::test]
async fn heads_that_come_byte_by_byte_time_out() {
    let target = HostileTestDaemon::start().await;
    join_all(target.interfaces().map(|(interface, address)| async move {
        let endless = b"x: y\r\n";
        let second = [REQUEST, b"GET /health HTTP/1.1\r\n"].concat();
        let first = drip(connect(address).await, b"GET /health HTTP/1.1\r\n", endless);
        let later = drip(connect(address).await, &second, endless);
        let preface = drip(connect(address).await, b"", http2::PREFACE);
        let empty_lines = drip(connect(address).await, b"", b"\r\n");
        let (first, later, preface, empty_lines) = tokio::join!(first, later, preface, empty_lines);
        let answered = [first, later, preface, empty_lines].map(|seen| replies(&seen).len());
        assert!(matches!(answered, [0, 1, 0, 0]), "{interface}: {answered:?}");
        wait_until_served(address).await;
    }))
    .await;
}

#[tokio::test]
async fn bodies_that_come_byte_by_byte_time_out() {
    let target = HostileTestDaemon::start().await;
    let addresses = target.daemon.addresses;
    let json = "application/json";
    let slow = |address, path, content_type, framing: &'static str, statuses: &'static [u16]| async move {
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {content_type}\r\n{framing}\r\n\r\n");
        let slowly: &[u8] = if framing.starts_with("content-length") { b" " } else { b"1\r\n \r\n" };
        let seen = replies(&drip(connect(address).await, head.as_bytes(), slowly).await);
        let statuses_seen: Vec<u16> = seen.iter().map(|reply| reply.status).collect();
        assert!(matches!(statuses_seen.as_slice(), [status] if statuses.contains(status)), "{path}: {statuses_seen:?}");
        assert!(seen[0].status != 503 || seen[0].header("retry-after").is_some(), "{seen:?}");
        wait_until_served(address).await;
    };
    let mut clients = Vec::new();
    for framing in ["content-length: 60000", "transfer-encoding: chunked"] {
        let form = "application/x-www-form-urlencoded";
        for path in ["/token", "/authorize", "/introspect", "/userinfo"] {
            clients.push(slow(addresses[Interface::SignIn], path, form, framing, &[503]));
        }
        clients.push(slow(
            addresses[Interface::Verification],
            "/api/v4/verify/rp_0000000000000000",
            json,
            framing,
            &[503],
        ));
        clients.push(slow(addresses[Interface::Gateway], "/create-account", json, framing, &[504]));
        clients.push(slow(addresses[Interface::Indexer], "/inclusion-proof", json, framing, &[504]));
        // The daemon does not need these bodies: it answers at once, then reads and discards the
        // body for a bounded time.
        clients.push(slow(addresses[Interface::Operator], "/keys/rotate", json, framing, &[401]));
        clients.push(slow(addresses[Interface::Gateway], "/nowhere", json, framing, &[404]));
        clients.push(slow(addresses[Interface::Indexer], "/root", json, framing, &[405]));
    }
    join_all(clients).await;
}

#[tokio::test]
async fn clients_that_stop_in_the_middle_are_disconnected() {
    let target = HostileTestDaemon::start().await;
    let post = b"POST /create-account HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n".as_slice();
    let beginnings: [Vec<u8>; 12] = [
        Vec::new(),
        b"G".to_vec(),
        b"GET /health HTTP/1.1\r\nhost: h\r\n".to_vec(),
        REQUEST.to_vec(),
        [REQUEST, b"GET"].concat(),
        [post, b"content-length: 10\r\n\r\n{"].concat(),
        [post, b"transfer-encoding: chunked\r\n\r\n5\r\n{"].concat(),
        [post, b"expect: 100-continue\r\ncontent-length: 10\r\n\r\n"].concat(),
        http2::PREFACE[..10].to_vec(),
        http2::PREFACE.to_vec(),
        [http2::PREFACE, &http2::settings(&[])].concat(),
        [http2::PREFACE, &http2::settings(&[]), &http2::get(1, "/health")[..12]].concat(),
    ];
    let interfaces: Vec<_> = target.interfaces().collect();
    let clients = interfaces.iter().flat_map(|(_, address)| {
        beginnings.iter().flat_map(move |beginning| {
            [false, true].map(|says_goodbye| async move {
                let stream = connect(*address).await;
                if !says_goodbye {
                    return drop(exchange(stream, beginning).await);
                }
                let (mut reading, mut writing) = stream.into_split();
                // The daemon may already have closed the connection when it refuses the beginning.
                let _ = writing.write_all(beginning).await;
                let _ = writing.shutdown().await;
                let mut seen = Vec::new();
                let _ = in_time("the end of a connection", reading.read_to_end(&mut seen)).await;
            })
        })
    });
    join_all(clients).await;
    target.wait_until_connections_gone().await;
    target.assert_serves().await;
}

#[tokio::test]
async fn clients_that_read_no_answers_are_disconnected() {
    let target = HostileTestDaemon::start().await;
    let pipelined = [
        ("sign-in", "/sign-in.js"),
        ("verification", "/openapi.json"),
        ("gateway", "/openapi.json"),
        ("indexer", "/openapi.json"),
        ("bridge", "/openapi.json"),
        ("wallet", "/openapi.json"),
        ("operator", "/metrics"),
    ];
    let requests = 10_000;
    let clients = pipelined.iter().zip(target.interfaces()).map(|((interface, path), (name, address))| async move {
        assert_eq!(*interface, name);
        let request = format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n").repeat(requests);
        write_unread(connect_narrow(address).await, request.as_bytes()).await;
    });
    join_all(clients).await;
    target.wait_until_connections_gone().await;
    // Requests of a connection are handled one after the other, and no longer when the answers are
    // not read. The buffers of the operating system hold a few megabytes of answers.
    for (interface, path) in pipelined {
        let handled = target.handled(interface).await;
        println!("{interface}: {handled} of {requests} pipelined requests for {path} were handled");
        assert!(handled < requests as u64 / 2, "{interface}: {handled}");
    }
    target.assert_serves().await;
}

#[tokio::test]
async fn silent_connections_give_way_to_new_ones() {
    const ROOM: usize = 16;
    let target = HostileTestDaemon::start_with(|config| config.limits.max_connections = ROOM).await;
    let (flooded, spared): (Vec<_>, Vec<_>) =
        target.interfaces().partition(|(interface, _)| !["indexer", "operator"].contains(interface));
    for (flooded, spared) in [(&flooded, &spared), (&spared, &flooded)] {
        // Silent connections: they lose their permits to the connections that come later.
        // They come from several sources, because each source has a quarter of the connections.
        let source = |number: usize| [127, 0, 0, 20 + number as u8 % 8];
        let flood = |address| (0..2 * ROOM).map(move |number| connect_from(source(number), address));
        let silent = flooded.iter().flat_map(|(_, address)| flood(*address));
        let silent = join_all(silent).await;
        join_all(spared.iter().map(|(_, other)| wait_until_served(*other))).await;
        let behind = join_all(flooded.iter().map(|(_, address)| ask(async || connect(*address).await))).await;
        assert!(behind.iter().all(|status| *status == 200), "{behind:?}");
        drop(silent);
        target.wait_until_connections_gone().await;
        target.assert_serves().await;
    }
}

#[tokio::test]
async fn short_connections_leave_nothing_open() {
    let target = HostileTestDaemon::start().await;
    for (_, address) in target.interfaces() {
        for round in 0..10 {
            let flood = join_all((0..50).map(|_| connect(address))).await;
            let flood = join_all(flood.into_iter().map(|mut stream| async move {
                // A connection that is closed with unread bytes is reset.
                let _ = stream.write_all(REQUEST).await;
                if round % 2 == 0 {
                    let _ = stream.readable().await;
                }
                stream
            }));
            drop(flood.await);
        }
        wait_until_served(address).await;
    }
    target.wait_until_connections_gone().await;
}

/// Keeps a connection open with one request after another; ends when the daemon closes it.
async fn stay(mut stream: TcpStream) {
    let mut seen = [0; 4096];
    let mut ticks = interval(SHORT / 4);
    loop {
        ticks.tick().await;
        if stream.write_all(REQUEST).await.is_err() || !matches!(stream.read(&mut seen).await, Ok(1..)) {
            return;
        }
    }
}

/// One source opens as many connections as the daemon allows and keeps them open with requests. A
/// client from another address is still served.
#[tokio::test]
async fn one_source_does_not_keep_other_clients_out() {
    const ROOM: usize = 16;
    let target = HostileTestDaemon::start_with(|config| {
        config.limits.max_connections = ROOM;
        config.limits.max_connections_per_source = ROOM / 4;
    })
    .await;
    let address = target.daemon.addresses[Interface::Gateway];
    let held: Vec<TcpStream> = join_all((0..ROOM).map(|_| connect_from([127, 0, 0, 9], address))).await;
    let mut staying: FuturesUnordered<_> = held.into_iter().map(stay).collect();
    let other_client = async {
        // Wait until the flood is there.
        until_true("the flood", async || target.handled("gateway").await >= ROOM as u64 / 4).await;
        ask(async || connect_from([127, 0, 0, 10], address).await).await
    };
    let mut other_client = pin!(other_client);
    let status = loop {
        tokio::select! {
            served = &mut other_client => break served,
            Some(()) = staying.next() => {}
        }
    };
    assert_eq!(status, 200, "one source keeps another client out");
    drop(staying);
    wait_until_served(address).await;
}

/// The status of the answer to an ordinary request. A connection whose request did not come in time
/// is closed without one, and the client connects again.
pub async fn ask(connect: impl AsyncFn() -> TcpStream) -> u16 {
    let request = b"GET /health HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
    until("an answer", async || {
        replies(&exchange(connect().await, request).await).first().map(|reply| reply.status).ok_or("none")
    })
    .await
}

/// A sign-in in progress: its address and its secret.
pub async fn start_sign_in(address: SocketAddr) -> (String, String) {
    let parameters = "client_id=app_staging_5e1f5a3e000000000000000000000001&response_type=code&scope=openid\
                      &redirect_uri=http%3A%2F%2Flocalhost%3A3000%2Fcallback";
    let request = format!(
        "GET /authorize?{parameters} HTTP/1.1\r\nhost: h\r\naccept: application/json\r\nconnection: close\r\n\r\n"
    );
    let answer = replies(&exchange(connect(address).await, request.as_bytes()).await).remove(0);
    let body: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    let text = |name: &str| body[name].as_str().expect("text").to_owned();
    (text("transaction"), text("secret"))
}

#[tokio::test]
async fn long_polls_and_streams_end_with_their_clients() {
    let target = HostileTestDaemon::start().await;
    let address = target.daemon.addresses[Interface::SignIn];
    let mut waiting = Vec::new();
    // A transaction has at most four followers.
    for _ in 0..25 {
        let (transaction, secret) = start_sign_in(address).await;
        for path in ["progress", "progress", "events", "events"] {
            let mut stream = connect(address).await;
            let request = format!(
                "GET /authorize/{transaction}/{path} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {secret}\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).await.expect("accepted");
            waiting.push(stream);
        }
    }
    // Requests that wait for a long time do not delay other requests.
    join_all((0..20).map(|_| wait_until_served(address))).await;
    drop(waiting);
    target.wait_until_connections_gone().await;
    assert_eq!(target.server_errors().await, 0);
}
