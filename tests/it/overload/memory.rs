//! Clients that try to make the daemon keep much in memory.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::LOOK_AGAIN;
use super::limits::{mib, resident_memory};
use super::load_clients::{address, authorize, post, proofs};
use crate::harness::{DaemonProcess, Folder, folder};
use crate::hostile_http::http2;
use crate::hostile_http::raw::{connect, exchange, get, replies};

/// `limits.request_timeout`, by default: what a client has sent is kept no longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A daemon and its memory before the attack.
struct MemoryTestDaemon {
    daemon: DaemonProcess,
    at_rest: u64,
    _folder: Folder,
}

impl MemoryTestDaemon {
    async fn start() -> Self {
        let folder = folder();
        let daemon = DaemonProcess::start(folder.path(), &[], &[]);
        let at_rest = resident_memory(daemon.id());
        Self { daemon, at_rest, _folder: folder }
    }

    /// Opens connections, sends on each what `begin` sends, and keeps them open; returns the
    /// additional memory of the daemon in bytes.
    async fn memory_for<F>(&self, connections: usize, target: &str, begin: impl Fn(TcpStream) -> F) -> u64
    where
        F: Future<Output = TcpStream> + Send + 'static,
    {
        let mut beginning = JoinSet::new();
        for _ in 0..connections {
            beginning.spawn(timeout(REQUEST_TIMEOUT, begin(connect(address(target)).await)));
        }
        let (mut peak, mut steady, mut held) = (self.at_rest, 0, Vec::new());
        let started = Instant::now();
        // Wait until all is sent and the memory has not grown for a while.
        while (steady < 25 || held.len() < connections) && started.elapsed() < 2 * REQUEST_TIMEOUT {
            held.extend(beginning.try_join_next().map(|started| started.expect("sent")));
            sleep(LOOK_AGAIN / 4).await;
            let now = resident_memory(self.daemon.id());
            steady = if now > peak + (1 << 20) { 0 } else { steady + 1 };
            peak = peak.max(now);
        }
        let health = get(address(&self.daemon.operator), "/health").await;
        assert_eq!(health.status, 200, "{health:?}");
        println!("{connections} connections make the daemon take {} MiB", mib(peak - self.at_rest));
        peak - self.at_rest
    }

    /// The same with HTTP/2, and the frames that `frames` makes for each stream.
    async fn memory_for_streams(
        &self,
        connections: usize,
        target: &str,
        streams: u32,
        frames: impl Fn(u32) -> Vec<Vec<u8>>,
    ) -> u64 {
        let frames: Arc<Vec<Vec<u8>>> = Arc::new((0..streams).flat_map(|number| frames(2 * number + 1)).collect());
        let begin = |mut stream: TcpStream| {
            let frames = Arc::clone(&frames);
            async move {
                // A client that is disconnected cannot send everything.
                let _ = http2::send(&mut stream, &frames).await;
                stream
            }
        };
        self.memory_for(connections, target, begin).await
    }
}

/// The streams of one HTTP/2 connection.
const STREAMS: u32 = 128;

/// A head is at most 32 KiB as the sender counts. A field of one byte must not take a hundred
/// bytes, which would make heads several times larger in memory.
#[tokio::test]
async fn unfinished_requests_take_bounded_memory_for_heads() {
    const CONNECTIONS: usize = 48;
    let target = MemoryTestDaemon::start().await;
    let many_fields = |stream| {
        let first = if stream == 1 { http2::indexed_field("a", "") } else { vec![http2::NEWEST] };
        vec![http2::post(stream, "/create-account", &[first, vec![http2::NEWEST; 850]].concat())]
    };
    let taken = target.memory_for_streams(CONNECTIONS, &target.daemon.gateway, STREAMS, many_fields).await;
    // A head, and a quarter more for everything else that belongs to a request.
    let bound = CONNECTIONS as u64 * u64::from(STREAMS) * (40 << 10);
    assert!(taken < bound, "{} MiB instead of {}", mib(taken), mib(bound));
}

/// For unfinished bodies a listener keeps at most 128 MiB; while their buffers grow, twice as much.
#[tokio::test]
async fn unfinished_bodies_take_bounded_memory() {
    const CONNECTIONS: usize = 64;
    let target = MemoryTestDaemon::start().await;
    let endless = |stream| {
        let piece = http2::data(stream, &[b' '; 15_000]);
        vec![http2::post(stream, "/create-account", b""), piece.clone(), piece.clone(), piece.clone(), piece]
    };
    let taken = target.memory_for_streams(CONNECTIONS, &target.daemon.gateway, STREAMS, endless).await;
    assert!(taken < 256 << 20, "{} MiB", mib(taken));
}

/// Bodies that the daemon does not read while their request waits count too.
#[tokio::test]
async fn unread_bodies_take_bounded_memory() {
    const CONNECTIONS: usize = 300;
    let target = MemoryTestDaemon::start().await;
    let started = exchange(connect(address(&target.daemon.sign_in)).await, &authorize("connection: close\r\n")).await;
    let started: Value = serde_json::from_slice(&replies(&started)[0].body).expect("JSON");
    let text = |name: &str| started[name].as_str().expect("text").to_owned();
    let path = format!("/authorize/{}/progress", text("transaction"));
    let secret = http2::field("authorization", &format!("Bearer {}", text("secret")));
    let unread = |stream| {
        let piece = http2::data(stream, &[b' '; 15_000]);
        let head = http2::head(stream, &[http2::request("GET", &path), secret.clone()].concat());
        vec![head, piece.clone(), piece.clone(), piece.clone(), piece]
    };
    // The bodies are as large as the window of a connection allows.
    let taken = target.memory_for_streams(CONNECTIONS, &target.daemon.sign_in, 16, unread).await;
    // The other memory of a connection is well below half of this.
    assert!(taken < 192 << 20, "{} MiB", mib(taken));
}

/// A parsed body may be a few times larger than its bytes, but not for as long as its request
/// waits.
#[tokio::test]
async fn parsed_bodies_take_bounded_memory() {
    const CONNECTIONS: usize = 200;
    let target = MemoryTestDaemon::start().await;
    let (path, mut proofs) = proofs(&target.daemon, 1).await;
    let mut body = proofs.remove(0);
    body["padding"] = vec![Value::from(vec![0]); 50_000].into();
    let request: Arc<Vec<u8>> = post(&path, "application/json", "", &body.to_string()).into();
    let begin = |mut stream: TcpStream| {
        let request = Arc::clone(&request);
        async move {
            stream.write_all(&request).await.expect("accepted");
            stream
        }
    };
    let taken = target.memory_for(CONNECTIONS, &target.daemon.verification, begin).await;
    // The bodies are 40 MB together; each thread parses one at a time.
    assert!(taken < 256 << 20, "{} MiB", mib(taken));
}
