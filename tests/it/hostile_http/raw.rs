//! A client that writes raw bytes and parses the answers. It can break every rule of HTTP.

use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::in_time;

/// The smallest receive buffer: the operating system rounds it up.
const SMALLEST_BUFFER: u32 = 1;

/// Opens a connection.
pub async fn connect(address: SocketAddr) -> TcpStream {
    in_time("a connection", TcpStream::connect(address)).await.expect("a connection")
}

/// Opens a connection with the smallest possible receive buffer: a client that does not read
/// receives little.
pub async fn connect_narrow(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(SMALLEST_BUFFER).expect("a small buffer");
    in_time("a connection", socket.connect(address)).await.expect("a connection")
}

/// Opens a connection from this address of the machine.
pub async fn connect_from(source: [u8; 4], address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::new(IpAddr::from(source), 0)).expect("bound");
    in_time("a connection", socket.connect(address)).await.expect("a connection")
}

/// Sends as many bytes as the daemon accepts and returns everything that it sends until it closes
/// the connection, which has to happen.
pub async fn exchange(stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    let (mut reading, mut writing) = stream.into_split();
    let write = async {
        // A client that is disconnected early cannot send everything.
        let _ = writing.write_all(bytes).await;
        writing
    };
    let read = read_to_end(&mut reading);
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
    // The writing half stays open until the end: the daemon has to be the side that closes.
    let both = async { tokio::join!(write, read) };
    in_time(format!("the end of the connection with {shown:?}…"), both).await.1
}

/// Reads until the connection ends, with or without an error.
async fn read_to_end(reading: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Ok(1..) = reading.read_buf(&mut bytes).await {}
    bytes
}

/// Writes until the daemon accepts no more bytes and closes the connection; nothing is read.
pub async fn write_unread(mut stream: TcpStream, bytes: &[u8]) {
    let writing = async { while stream.write_all(bytes).await.is_ok() {} };
    in_time("the end of a connection that reads nothing", writing).await;
}

/// Requests a path on a connection of its own.
pub async fn get(address: SocketAddr, path: &str) -> RawAnswer {
    try_get(address, path).await.unwrap_or_else(|| panic!("{path}: the connection is closed without an answer"))
}

/// The same; `None` when the connection is closed without an answer.
pub async fn try_get(address: SocketAddr, path: &str) -> Option<RawAnswer> {
    let stream = connect(address).await;
    let request = format!("GET {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    let mut replies = replies(&exchange(stream, request.as_bytes()).await);
    assert!(replies.len() <= 1, "{path}: {replies:?}");
    replies.pop()
}

/// An answer of HTTP/1.1.
#[derive(Debug)]
pub struct RawAnswer {
    pub status: u16,
    /// Status line and headers, in lower case.
    pub head: String,
    pub body: Vec<u8>,
}

impl RawAnswer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.find(|(given, _)| *given == name).map(|(_, value)| value)
    }

    /// Parses the first answer of the bytes; `None` when it is not complete. `has_body` is false
    /// for answers to `HEAD`.
    pub fn parse(bytes: &[u8], has_body: bool) -> Option<(Self, usize)> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status line: {head:?}"));
        let mut reply = Self { status, head, body: Vec::new() };
        if !has_body || status < 200 || status == 204 || status == 304 {
            return Some((reply, end));
        }
        if reply.header("transfer-encoding") == Some("chunked") {
            let (body, length) = unchunked(&bytes[end..])?;
            reply.body = body;
            return Some((reply, end + length));
        }
        let length = reply.header("content-length").and_then(|length| length.parse::<usize>().ok());
        let length = length.unwrap_or_else(|| panic!("no length: {}", reply.head));
        reply.body = bytes.get(end..end + length)?.to_vec();
        Some((reply, end + length))
    }
}

/// A chunked body, and the number of bytes that it took; `None` when it is not complete.
fn unchunked(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let line = bytes[at..].windows(2).position(|two| two == b"\r\n")?;
        let size =
            std::str::from_utf8(&bytes[at..at + line]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.unwrap_or_else(|| panic!("no chunk size: {:?}", String::from_utf8_lossy(&bytes[at..])));
        at += line + 2;
        body.extend_from_slice(bytes.get(at..at + size)?);
        at += size + 2;
        if size == 0 {
            return (at <= bytes.len()).then_some((body, at));
        }
    }
}

/// All answers, which have to be complete. `100 Continue` is not counted.
pub fn replies(mut bytes: &[u8]) -> Vec<RawAnswer> {
    let mut replies = Vec::new();
    while !bytes.is_empty() {
        let (reply, length) = RawAnswer::parse(bytes, true)
            .unwrap_or_else(|| panic!("cut off: {:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(1000)])));
        bytes = &bytes[length..];
        replies.extend((reply.status != 100).then_some(reply));
    }
    replies
}
