//! Frames of HTTP/2 that break the rules, written by hand.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::iter;
use selfsame_interfaces::interface::Interface;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::interval;

use super::raw::{connect, connect_from, connect_narrow, exchange, write_unread};
use super::slow_clients::{ask, start_sign_in};
use super::{HostileTestDaemon, SHORT, wait_until_served};
use crate::harness::{in_time, until};

/// The client's first bytes on a connection.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const NO_FLAGS: u8 = 0;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const HAS_PRIORITY: u8 = 32;

/// Length, kind, flags and stream.
const FRAME_HEAD: usize = 9;

/// `SETTINGS_INITIAL_WINDOW_SIZE`.
const INITIAL_WINDOW: u16 = 4;

/// `ENHANCE_YOUR_CALM`.
const CALM: u32 = 11;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

pub fn settings(pairs: &[(u16, u32)]) -> Vec<u8> {
    let pair = |(id, value): &(u16, u32)| [id.to_be_bytes().as_slice(), &value.to_be_bytes()].concat();
    frame(SETTINGS, NO_FLAGS, 0, &pairs.iter().flat_map(pair).collect::<Vec<_>>())
}

/// A field in HPACK: literal, not added to the dynamic table.
pub fn field(name: &str, value: &str) -> Vec<u8> {
    [vec![0], text(name), text(value)].concat()
}

/// A field in HPACK: literal, added to the dynamic table.
pub fn indexed_field(name: &str, value: &str) -> Vec<u8> {
    [vec![0x40], text(name), text(value)].concat()
}

/// The field that was added last to the dynamic table, in HPACK.
pub const NEWEST: u8 = 0x80 | 62;

fn text(text: &str) -> Vec<u8> {
    // The length has a prefix of seven bits; the rest follows in groups of seven bits.
    let mut length = Vec::new();
    match u8::try_from(text.len()) {
        Ok(short @ ..127) => length.push(short),
        _ => {
            length.push(127);
            let mut rest = text.len() - 127;
            while rest >= 128 {
                length.push((rest % 128) as u8 | 128);
                rest /= 128;
            }
            length.push(rest as u8);
        }
    }
    [length, text.as_bytes().to_vec()].concat()
}

/// The pseudo-header fields of a request.
pub fn request(method: &str, path: &str) -> Vec<u8> {
    [field(":method", method), field(":scheme", "http"), field(":path", path), field(":authority", "h")].concat()
}

/// A request without a body.
pub fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &request("GET", path))
}

/// The head of a request whose body follows.
pub fn head(stream: u32, fields: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, fields)
}

/// The head of a `POST` of JSON whose body follows.
pub fn post(stream: u32, path: &str, more: &[u8]) -> Vec<u8> {
    head(stream, &[&request("POST", path), &field("content-type", "application/json"), more].concat())
}

/// A piece of a body that is not the last.
pub fn data(stream: u32, piece: &[u8]) -> Vec<u8> {
    frame(DATA, NO_FLAGS, stream, piece)
}

/// Sends the preface and frames, as fast as the flow-control window of the connection allows.
pub async fn send(stream: &mut TcpStream, frames: &[Vec<u8>]) -> io::Result<()> {
    stream.write_all(&[PREFACE, &settings(&[])].concat()).await?;
    let mut open = 65_535;
    let mut seen = Vec::new();
    for frame in frames {
        let length = if frame[3] == DATA { frame.len() - FRAME_HEAD } else { 0 };
        while open < length {
            if stream.read_buf(&mut seen).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            while let Some((kind, stream, payload, rest)) = first_frame(&seen) {
                if (kind, stream) == (WINDOW_UPDATE, 0) {
                    open += payload.try_into().map_or(0, u32::from_be_bytes) as usize;
                }
                seen = rest.to_vec();
            }
        }
        open -= length;
        stream.write_all(frame).await?;
    }
    Ok(())
}

/// Kind, stream and payload of the first frame, and the bytes behind it; `None` when the frame is
/// not complete.
fn first_frame(bytes: &[u8]) -> Option<(u8, u32, &[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(FRAME_HEAD)?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    let (payload, rest) = rest.split_at_checked(length)?;
    Some((head[3], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload, rest))
}

fn window(stream: u32, more: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, NO_FLAGS, stream, &more.to_be_bytes())
}

fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, NO_FLAGS, stream, &8u32.to_be_bytes())
}

/// The ids of a client's streams.
fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|number| 2 * number + 1)
}

fn joined(frames: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    frames.into_iter().flatten().collect()
}

/// What a server did on a connection, as far as it could be read.
#[derive(Debug, Default)]
struct ServerReaction {
    /// The number of heads of answers.
    answers: usize,
    /// The number of answers with status 200.
    good: usize,
    /// The number of reset streams.
    resets: usize,
    /// The highest error code of a GOAWAY frame; 0 is NO_ERROR.
    goodbye: Option<u32>,
}

impl ServerReaction {
    fn of(mut bytes: &[u8]) -> Self {
        let mut seen = Self::default();
        // The bytes may end within a frame.
        while let Some((kind, _, payload, rest)) = first_frame(bytes) {
            match kind {
                HEADERS => {
                    seen.answers += 1;
                    // `:status: 200` has an index of its own, possibly behind a change of the
                    // table's size.
                    let block = payload.iter().skip_while(|byte| (0x20..0x40).contains(*byte));
                    seen.good += usize::from(block.copied().next() == Some(0x88));
                }
                RST_STREAM => seen.resets += 1,
                GOAWAY => {
                    let reason = payload.get(4..8).and_then(|code| code.try_into().ok()).map(u32::from_be_bytes);
                    seen.goodbye = seen.goodbye.max(reason);
                }
                _ => {}
            }
            bytes = rest;
        }
        seen
    }

    fn is_sent_away(&self) -> bool {
        self.goodbye.is_some_and(|reason| reason > 0)
    }
}

/// Sends frames after a valid beginning and reads until the connection is closed.
async fn attack(address: SocketAddr, frames: &[u8]) -> ServerReaction {
    let bytes = [PREFACE, &settings(&[]), frames].concat();
    ServerReaction::of(&exchange(connect(address).await, &bytes).await)
}

/// What has to happen on a connection.
#[derive(Clone, Copy, Debug)]
enum ExpectedReaction {
    /// The server closes the connection.
    SentAway,
    /// The server resets the stream, answers it with an error, or closes the connection. No stream
    /// is answered with success.
    Refused,
    /// This number of streams is answered with success: the frames are unusual but allowed.
    Served(usize),
    /// Any outcome within a bounded time and without harm to other clients.
    Any,
}
use ExpectedReaction::{Any, Refused, SentAway, Served};

/// Connections that break the rules for frames.
fn broken() -> Vec<(&'static str, Vec<u8>, ExpectedReaction)> {
    let get = |stream| get(stream, "/health");
    let headers = |stream, fields: &[u8]| frame(HEADERS, END_HEADERS | END_STREAM, stream, fields);
    let with = |fields: &[u8]| headers(1, &[&request("GET", "/health"), fields].concat());
    let pseudo = |names: &[(&str, &str)]| headers(1, &joined(names.iter().map(|(name, value)| field(name, value))));
    vec![
        ("an ordinary request", get(1), Served(1)),
        ("two of them", [get(1), get(3)].concat(), Served(2)),
        ("a stream that the server opens", get(2), SentAway),
        ("stream 0", get(0), SentAway),
        ("streams that go back", [get(5), get(3)].concat(), SentAway),
        ("a stream twice", [get(1), get(1)].concat(), Any),
        ("the last stream", get(0x7fff_ffff), Served(1)),
        ("a reserved bit", get(0x8000_0001), Served(1)),
        ("a stream that depends on itself", frame(PRIORITY, NO_FLAGS, 1, b"\0\0\0\x01\x10"), Any),
        (
            "a request that depends on itself",
            {
                let fields = [b"\0\0\0\x01\x10".as_slice(), &request("GET", "/health")].concat();
                frame(HEADERS, END_HEADERS | END_STREAM | HAS_PRIORITY, 1, &fields)
            },
            Any,
        ),
        ("a short priority", frame(PRIORITY, NO_FLAGS, 1, b"\0"), SentAway),
        ("an unknown frame", [frame(0xee, 0xff, 7, b"whatever"), get(1)].concat(), Served(1)),
        ("a frame that is too long", frame(DATA, NO_FLAGS, 1, &[0; 16_385]), SentAway),
        ("a frame that says 16 MB", b"\xff\xff\xff\x00\x00\x00\x00\x00\x01".to_vec(), SentAway),
        ("data on stream 0", frame(DATA, NO_FLAGS, 0, b"x"), SentAway),
        ("data before its stream", frame(DATA, NO_FLAGS, 1, b"x"), SentAway),
        ("data behind its end", [get(1), frame(DATA, END_STREAM, 1, b"x")].concat(), Any),
        ("padding longer than its frame", frame(DATA, PADDED, 1, b"\xff"), SentAway),
        ("padding longer than its head", frame(HEADERS, PADDED | END_HEADERS, 1, b"\xff\x00"), SentAway),
        ("settings of a stream", frame(SETTINGS, NO_FLAGS, 1, b""), SentAway),
        ("settings of odd length", frame(SETTINGS, NO_FLAGS, 0, b"\0\x01\0"), SentAway),
        ("acknowledged settings with content", frame(SETTINGS, ACK, 0, b"\0\x01\0\0\0\0"), SentAway),
        ("acknowledged settings that were none", frame(SETTINGS, ACK, 0, b"").repeat(100), Any),
        ("push neither on nor off", settings(&[(2, 2)]), SentAway),
        ("a window that is too large", settings(&[(INITIAL_WINDOW, u32::MAX)]), SentAway),
        ("frames that are too small", settings(&[(5, 1)]), SentAway),
        ("unknown settings", [settings(&[(0xff, 1), (0xffff, 2)]), get(1)].concat(), Served(1)),
        ("no table", [settings(&[(1, 0)]), get(1)].concat(), Served(1)),
        ("a huge table", [settings(&[(1, u32::MAX)]), get(1)].concat(), Served(1)),
        ("no streams for the server", [settings(&[(3, 0)]), get(1)].concat(), Served(1)),
        ("a list of no length", [settings(&[(6, 0)]), get(1)].concat(), Any),
        ("a push by the client", frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\x02"), SentAway),
        ("a ping of a stream", frame(PING, NO_FLAGS, 1, &[0; 8]), SentAway),
        ("a short ping", frame(PING, NO_FLAGS, 0, b"short"), SentAway),
        ("an answer to no ping", [frame(PING, ACK, 0, &[0; 8]), get(1)].concat(), Served(1)),
        ("a goodbye", [get(1), frame(GOAWAY, NO_FLAGS, 0, &[0; 8])].concat(), Any),
        ("a goodbye of a stream", frame(GOAWAY, NO_FLAGS, 1, &[0; 8]), SentAway),
        ("a short goodbye", frame(GOAWAY, NO_FLAGS, 0, b"bye"), SentAway),
        ("a window of nothing", window(0, 0), SentAway),
        ("a window that overflows", window(0, 0x7fff_ffff), SentAway),
        ("a stream's window that overflows", [post(1, "/nowhere", b""), window(1, 0x7fff_ffff)].concat(), Any),
        ("a window of an idle stream", window(9, 1), SentAway),
        ("a short window", frame(WINDOW_UPDATE, NO_FLAGS, 0, b"\0"), SentAway),
        ("a reset of an idle stream", reset(9), SentAway),
        ("a reset of stream 0", reset(0), SentAway),
        ("a short reset", frame(RST_STREAM, NO_FLAGS, 1, b"\0"), SentAway),
        ("a continuation of nothing", frame(CONTINUATION, END_HEADERS, 1, b""), SentAway),
        (
            "another frame within a head",
            [frame(HEADERS, END_STREAM, 1, &request("GET", "/health")), frame(PING, NO_FLAGS, 0, &[0; 8])].concat(),
            SentAway,
        ),
        (
            "another stream's continuation",
            [frame(HEADERS, END_STREAM, 1, &request("GET", "/health")), frame(CONTINUATION, END_HEADERS, 3, b"")]
                .concat(),
            SentAway,
        ),
        (
            "a head in pieces",
            [
                vec![frame(HEADERS, END_STREAM, 1, b"")],
                request("GET", "/health").chunks(1).map(|byte| frame(CONTINUATION, NO_FLAGS, 1, byte)).collect(),
                vec![frame(CONTINUATION, END_HEADERS, 1, b"")],
            ]
            .concat()
            .concat(),
            Any,
        ),
        ("an index of nothing", headers(1, b"\xff\xff\xff\x7f"), SentAway),
        ("index 0", headers(1, b"\x80"), SentAway),
        ("an endless number", headers(1, &[0xff; 100]), SentAway),
        ("a text longer than its block", headers(1, b"\x00\x7f\xff\xff\xff\x07a"), SentAway),
        ("Huffman's end of string", headers(1, b"\x00\x84\xff\xff\xff\xff\x00"), SentAway),
        ("a table larger than allowed", headers(1, b"\x3f\xff\xff\x7f"), SentAway),
        ("a table's size behind a field", with(b"\x20"), SentAway),
        ("no fields", headers(1, b""), Refused),
        ("no path", pseudo(&[(":method", "GET"), (":scheme", "http"), (":authority", "h")]), Refused),
        ("an empty path", headers(1, &request("GET", "")), Refused),
        ("a path that is none", headers(1, &request("GET", "health")), Refused),
        ("a path with a NUL", headers(1, &request("GET", "/\0")), Refused),
        ("no method", pseudo(&[(":scheme", "http"), (":path", "/health"), (":authority", "h")]), Refused),
        ("a method that is none", headers(1, &request("G T", "/health")), Refused),
        ("CONNECT", pseudo(&[(":method", "CONNECT"), (":authority", "h:443")]), Refused),
        (
            "extended CONNECT",
            headers(1, &[request("CONNECT", "/health"), field(":protocol", "websocket")].concat()),
            Refused,
        ),
        ("two paths", with(&field(":path", "/metrics")), Refused),
        ("an unknown pseudo-header", with(&field(":unknown", "x")), Refused),
        ("a status in a request", with(&field(":status", "200")), Refused),
        (
            "a pseudo-header behind a header",
            headers(1, &[field("x", "y"), request("GET", "/health")].concat()),
            Refused,
        ),
        ("a name in upper case", with(&field("X-Upper", "y")), Refused),
        ("an empty name", with(&field("", "y")), Refused),
        ("a name with a line end", with(&field("x\r\ny", "z")), Refused),
        ("a value with a line end", with(&field("x", "y\r\nz: w")), Refused),
        ("a value with a NUL", with(&field("x", "y\0")), Refused),
        ("connection", with(&field("connection", "keep-alive")), Refused),
        ("transfer-encoding", with(&field("transfer-encoding", "chunked")), Refused),
        ("upgrade", with(&field("upgrade", "h2c")), Refused),
        ("te", with(&field("te", "gzip")), Refused),
        ("a length and no body", with(&field("content-length", "5")), Refused),
        ("two lengths", with(&[field("content-length", "0"), field("content-length", "1")].concat()), Any),
        (
            "a body longer than its length",
            [post(1, "/nowhere", &field("content-length", "1")), frame(DATA, END_STREAM, 1, b"{}")].concat(),
            Refused,
        ),
        (
            "a body shorter than its length",
            [post(1, "/create-account", &field("content-length", "9")), frame(DATA, END_STREAM, 1, b"{}")].concat(),
            Refused,
        ),
        (
            "trailers with a pseudo-header",
            [post(1, "/nowhere", b""), frame(HEADERS, END_HEADERS | END_STREAM, 1, &field(":path", "/"))].concat(),
            Refused,
        ),
        (
            "trailers that do not end",
            [post(1, "/nowhere", b""), frame(HEADERS, END_HEADERS, 1, &field("x", "y"))].concat(),
            Refused,
        ),
        (
            "more data than the window takes",
            [post(1, "/nowhere", b""), data(1, &[b' '; 16_000]).repeat(100)].concat(),
            Any,
        ),
        ("HTTP/1 in the middle", b"GET /health HTTP/1.1\r\nhost: h\r\n\r\n".to_vec(), SentAway),
        ("zeros", vec![0; 100_000], SentAway),
        ("ones", vec![0xff; 100_000], SentAway),
        ("all bytes", (0..=255).cycle().take(100_000).collect(), SentAway),
    ]
}

/// Excessive numbers of frames, streams and fields.
fn floods() -> Vec<(&'static str, Vec<u8>, ExpectedReaction)> {
    let get = |stream| get(stream, "/health");
    let endless_head = frame(HEADERS, END_STREAM, 1, &request("GET", "/health"));
    let in_continuations = |pieces: usize, piece: &[u8]| {
        [endless_head.clone(), frame(CONTINUATION, NO_FLAGS, 1, piece).repeat(pieces)].concat()
    };
    // A head in as many frames as it needs.
    let in_pieces = |block: Vec<u8>| {
        let pieces: Vec<&[u8]> = block.chunks(16_000).collect();
        let last = pieces.len() - 1;
        joined(pieces.iter().enumerate().map(|(number, piece)| {
            let end = if number == last { END_HEADERS } else { NO_FLAGS };
            if number == 0 { frame(HEADERS, end | END_STREAM, 1, piece) } else { frame(CONTINUATION, end, 1, piece) }
        }))
    };
    let listed = |fields: Vec<u8>| in_pieces([request("GET", "/health"), fields].concat());
    let expanded = [indexed_field("x", &"y".repeat(3900)), vec![NEWEST; 12_000]].concat();
    vec![
        ("10 000 streams", [window(0, 1 << 30), joined(streams(10_000).map(get))].concat(), Any),
        (
            "10 000 streams with bodies to come",
            joined(streams(10_000).map(|stream| post(stream, "/nowhere", b""))),
            Any,
        ),
        ("rapid resets", joined(streams(20_000).map(|stream| [get(stream), reset(stream)].concat())), Any),
        (
            "rapid resets of work",
            {
                let posts =
                    streams(20_000).map(|stream| [post(stream, "/create-account", b""), reset(stream)].concat());
                joined(posts)
            },
            Any,
        ),
        (
            "streams that make the server reset",
            {
                let broken = |stream| [post(stream, "/create-account", b""), window(stream, 0x7fff_ffff)].concat();
                joined(streams(20_000).map(broken))
            },
            Any,
        ),
        ("settings", settings(&[(INITIAL_WINDOW, 65_535)]).repeat(50_000), Any),
        (
            "windows that go up and down",
            {
                let up_and_down =
                    [settings(&[(INITIAL_WINDOW, 0)]), settings(&[(INITIAL_WINDOW, 0x7fff_ffff)])].concat();
                [joined(streams(100).map(get)), up_and_down.repeat(5_000)].concat()
            },
            Any,
        ),
        ("pings", frame(PING, NO_FLAGS, 0, &[7; 8]).repeat(100_000), Any),
        ("priorities", joined(streams(50_000).map(|stream| frame(PRIORITY, NO_FLAGS, stream, b"\0\0\0\0\x10"))), Any),
        ("unknown frames", frame(0xee, NO_FLAGS, 0, &[0; 100]).repeat(50_000), Any),
        ("windows", window(0, 1).repeat(100_000), Any),
        ("continuations", in_continuations(20_000, &field("x", "y")), SentAway),
        ("empty continuations", in_continuations(50_000, b""), SentAway),
        ("empty data", [post(1, "/create-account", b""), data(1, b"").repeat(100_000)].concat(), Any),
        (
            "padding",
            [
                post(1, "/create-account", b""),
                frame(DATA, PADDED, 1, &[&[100_u8], [0_u8; 100].as_slice()].concat()).repeat(600),
            ]
            .concat(),
            Any,
        ),
        ("a huge value", listed(field("x", &"y".repeat(1_000_000))), Refused),
        ("a huge cookie", listed(field("cookie", &"y".repeat(100_000))), Refused),
        ("a huge path", in_pieces(request("GET", &"/y".repeat(50_000))), Refused),
        ("thousands of fields", listed(field("x", "y").repeat(5_000)), Refused),
        ("empty fields", listed(field("", "").repeat(5_000)), Refused),
        ("a few bytes that stand for 47 MB", listed(expanded), Refused),
    ]
}

/// Plays the cases against every interface.
async fn play_cases(target: &HostileTestDaemon, cases: &[(&'static str, Vec<u8>, ExpectedReaction)], at_once: usize) {
    let clients = target.interfaces().flat_map(|(interface, address)| {
        cases.iter().map(move |(name, frames, fate)| async move {
            let seen = attack(address, frames).await;
            let is_right = match fate {
                SentAway => seen.is_sent_away() && seen.good == 0,
                Refused => seen.good == 0 && (seen.answers > 0 || seen.resets > 0 || seen.is_sent_away()),
                Served(count) => seen.good == *count && !seen.is_sent_away(),
                Any => true,
            };
            assert!(is_right, "{interface}: {name}: {fate:?}: {seen:?}");
            wait_until_served(address).await;
            (interface, *name, seen)
        })
    });
    let seen: Vec<_> = iter(clients).buffer_unordered(at_once).collect().await;
    for (_, name, seen) in seen.iter().filter(|(interface, ..)| *interface == "gateway") {
        println!("{name}: {seen:?}");
    }
    target.wait_until_connections_gone().await;
    // Bodies that were announced and not sent ran into their timeout; nothing else failed.
    let metrics = target.metrics().await;
    let failed = metrics.iter().filter(|(line, count)| {
        let waits_for_body = ["/create-account", "/keys/rotate"].iter().any(|route| line.contains(route));
        line.contains("status=\"5") && *count > 0 && !waits_for_body
    });
    assert_eq!(failed.count(), 0, "{metrics:?}");
    target.assert_serves().await;
}

#[tokio::test]
async fn broken_frames_harm_only_their_own_connection() {
    let target = HostileTestDaemon::start().await;
    play_cases(&target, &broken(), 150).await;
}

#[tokio::test]
async fn floods_of_frames_end_in_bounded_time() {
    let target = HostileTestDaemon::start().await;
    play_cases(&target, &floods(), 25).await;
}

#[tokio::test]
async fn resets_do_not_let_work_pile_up() {
    let target = HostileTestDaemon::start().await;
    let address = target.daemon.addresses[Interface::Gateway];
    let resets = joined(streams(20_000).map(|stream| [get(stream, "/openapi.json"), reset(stream)].concat()));
    let seen = attack(address, &resets).await;
    let handled = target.handled("gateway").await;
    println!("rapid resets: {handled} of 20000 requests were handled, {seen:?}");
    assert!(seen.goodbye == Some(CALM) || handled < 20_000, "{handled} handled, {seen:?}");
    wait_until_served(address).await;
}

#[tokio::test]
async fn floods_of_a_client_that_reads_nothing_end_in_bounded_time() {
    let target = HostileTestDaemon::start().await;
    let beginning = [PREFACE, &settings(&[])].concat();
    let floods = [
        frame(PING, NO_FLAGS, 0, &[7; 8]),
        settings(&[(INITIAL_WINDOW, 65_535)]),
        frame(PRIORITY, NO_FLAGS, 1, b"\0\0\0\0\x10"),
        frame(0xee, NO_FLAGS, 0, &[0; 100]),
        window(0, 1),
    ];
    let clients = target.interfaces().flat_map(|(_, address)| {
        let beginning = &beginning;
        floods.iter().map(move |flood| async move {
            let mut stream = connect_narrow(address).await;
            stream.write_all(beginning).await.expect("accepted");
            write_unread(stream, &flood.repeat(1000)).await;
            wait_until_served(address).await;
        })
    });
    iter(clients).buffer_unordered(25).collect::<Vec<()>>().await;
    target.wait_until_connections_gone().await;
}

/// A client opens as many streams as it may and never lets the answers be sent. The daemon closes
/// its connection and drops its answers.
#[tokio::test]
async fn a_connection_whose_window_is_never_opened_is_closed() {
    let target = HostileTestDaemon::start().await;
    let pages = [
        ("sign-in", "/sign-in.js"),
        ("verification", "/openapi.json"),
        ("gateway", "/openapi.json"),
        ("indexer", "/openapi.json"),
        ("bridge", "/openapi.json"),
        ("wallet", "/openapi.json"),
        ("operator", "/metrics"),
    ];
    let clients = pages.into_iter().zip(target.interfaces()).map(|((interface, path), (name, address))| async move {
        assert_eq!(interface, name);
        let closed = settings(&[(INITIAL_WINDOW, 0)]);
        let seen = attack(address, &[closed, joined(streams(100).map(|stream| get(stream, path)))].concat()).await;
        assert_eq!(seen.good, 100, "{interface}: {seen:?}");
        wait_until_served(address).await;
    });
    join_all(clients).await;
    target.wait_until_connections_gone().await;
}

/// The same with a client that takes a byte from time to time and makes small requests meanwhile.
#[tokio::test]
async fn a_connection_whose_window_opens_byte_by_byte_is_closed() {
    const STUCK: u32 = 100;
    let target = HostileTestDaemon::start().await;
    let address = target.daemon.addresses[Interface::Gateway];
    let (mut reading, mut writing) = connect(address).await.into_split();
    let requests = joined(streams(STUCK).map(|stream| get(stream, "/openapi.json")));
    let beginning = [PREFACE, &settings(&[(INITIAL_WINDOW, 0)]), &requests].concat();
    writing.write_all(&beginning).await.expect("accepted");
    let mut sink = tokio::io::sink();
    let mut reading = pin!(in_time("the end of the connection", tokio::io::copy(&mut reading, &mut sink)));
    let mut ticks = interval(SHORT / 4);
    for small in streams(u32::MAX / 2).skip(STUCK as usize) {
        tokio::select! {
            _ = &mut reading => break,
            _ = ticks.tick() => {
                // An answer without a body needs no window. The connection may be closed before the
                // request is sent.
                let head = frame(HEADERS, END_HEADERS | END_STREAM, small, &request("HEAD", "/health"));
                let _ = writing.write_all(&[window(1, 1), head].concat()).await;
            }
        }
    }
    wait_until_served(address).await;
}

/// The streams of one connection, and the number of connections whose streams reach the limit of
/// open requests of an address.
const STREAMS: u32 = 128;
const ENOUGH: usize = 16 * 1024 / STREAMS as usize + 2;

/// Opens connections with as many streams as possible, and sends the frames that `frames` makes for
/// each stream.
async fn use_up(address: SocketAddr, beginning: &[(u16, u32)], frames: impl Fn(u32) -> Vec<u8>) -> Vec<TcpStream> {
    let bytes = [PREFACE, &settings(beginning), &joined(streams(STREAMS).map(frames))].concat();
    let mut held = Vec::new();
    for _ in 0..ENOUGH {
        let mut stream = connect(address).await;
        stream.write_all(&bytes).await.expect("accepted");
        held.push(stream);
    }
    held
}

/// Waits until clients from another address are served, several at a time.
async fn wait_until_served_elsewhere(address: SocketAddr) {
    until("answers to clients from another address", async || {
        let asking = (0..10).map(|_| ask(async || connect_from([127, 0, 0, 10], address).await));
        let statuses = join_all(asking).await;
        if statuses.iter().all(|status| *status == 200) { Ok(()) } else { Err(statuses) }
    })
    .await;
}

/// Answers that are never read count as open requests. They block other clients at most for the
/// idle timeout.
#[tokio::test]
async fn answers_that_are_never_read_do_not_keep_other_clients_out() {
    let target = HostileTestDaemon::start().await;
    let address = target.daemon.addresses[Interface::Indexer];
    let held = use_up(address, &[(INITIAL_WINDOW, 0)], |stream| get(stream, "/health")).await;
    wait_until_served_elsewhere(address).await;
    drop(held);
    wait_until_served(address).await;
}

/// One source follows a sign-in as often as it can, which is valid HTTP. Clients from other
/// addresses are still served.
#[tokio::test]
async fn event_streams_of_one_source_do_not_keep_other_clients_out() {
    let target = HostileTestDaemon::start().await;
    let address = target.daemon.addresses[Interface::SignIn];
    let (transaction, secret) = start_sign_in(address).await;
    let path = format!("/authorize/{transaction}/events");
    let credentials = field("authorization", &format!("Bearer {secret}"));
    let follow = |stream| {
        let fields = [request("GET", &path), credentials.clone()].concat();
        frame(HEADERS, END_HEADERS | END_STREAM, stream, &fields)
    };
    let held = use_up(address, &[], follow).await;
    wait_until_served_elsewhere(address).await;
    drop(held);
    wait_until_served(address).await;
}
