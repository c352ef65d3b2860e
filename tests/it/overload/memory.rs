//! Clients that would have the daemon keep much in memory.

use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::crowd::{address, authorize, post, proofs};
use super::limits::{mib, resident_memory};
use super::{LOOK_AGAIN, ONE_AT_A_TIME, REQUEST_TIMEOUT, SLACK};
use crate::harness::{Process, folder};
use crate::hostile_http::http2;
use crate::hostile_http::raw::{connect, exchange, get, replies};

/// A daemon whose memory is attacked, by itself.
struct Attacked {
    daemon: Process,
    at_rest: u64,
    _folder: TempDir,
    _alone: tokio::sync::MutexGuard<'static, ()>,
}

impl Attacked {
    async fn start() -> Self {
        let alone = ONE_AT_A_TIME.lock().await;
        let folder = folder();
        let daemon = Process::start(folder.path(), &[], &[]);
        let at_rest = resident_memory(daemon.id());
        Self { daemon, at_rest, _folder: folder, _alone: alone }
    }

    /// Opens connections, sends on each what `begin` sends, and holds them; how much memory the daemon takes for it.
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
        // Until all is sent, and no more memory is taken for a while.
        while (steady < 25 || held.len() < connections) && started.elapsed() < 2 * REQUEST_TIMEOUT {
            held.extend(beginning.try_join_next().map(|begun| begun.expect("sent")));
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

    /// The same with HTTP/2, and what `frames` makes for each of so many streams.
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
                // Who is sent away does not finish.
                let _ = http2::send(&mut stream, &frames).await;
                stream
            }
        };
        self.memory_for(connections, target, begin).await
    }
}

/// Streams of one connection of HTTP/2.
const STREAMS: u32 = 128;

/// A head is at most 32 KiB, as its sender counts. A field of a byte may not take a hundred, over which heads would be several
/// times as large in memory.
#[tokio::test]
async fn heads_that_are_held_back() {
    const CONNECTIONS: usize = 48;
    let attacked = Attacked::start().await;
    let many_fields = |stream| {
        let first = if stream == 1 { http2::remembered("a", "") } else { vec![http2::NEWEST] };
        vec![http2::post(stream, "/create-account", &[first, vec![http2::NEWEST; 850]].concat())]
    };
    let taken = attacked.memory_for_streams(CONNECTIONS, &attacked.daemon.gateway, STREAMS, many_fields).await;
    // A head, and a quarter of it for all else that is kept of a request.
    let bound = CONNECTIONS as u64 * u64::from(STREAMS) * (40 << 10);
    assert!(taken < bound, "{} MiB instead of {}", mib(taken), mib(bound));
}

/// Of bodies that do not end a listener keeps at most 128 MiB; while they grow, twice as much.
#[tokio::test]
async fn bodies_that_are_held_back() {
    const CONNECTIONS: usize = 64;
    let attacked = Attacked::start().await;
    let endless = |stream| {
        let piece = http2::data(stream, &[b' '; 15_000]);
        vec![http2::post(stream, "/create-account", b""), piece.clone(), piece.clone(), piece.clone(), piece]
    };
    let taken = attacked.memory_for_streams(CONNECTIONS, &attacked.daemon.gateway, STREAMS, endless).await;
    assert!(taken < 256 << 20, "{} MiB", mib(taken));
}

/// Bodies that nobody reads while their request waits for something else count too.
#[tokio::test]
async fn bodies_that_nobody_asked_for() {
    const CONNECTIONS: usize = 300;
    let attacked = Attacked::start().await;
    let begun =
        exchange(connect(address(&attacked.daemon.sign_in)).await, &authorize("connection: close\r\n"), SLACK).await;
    let begun: Value = serde_json::from_slice(&replies(&begun)[0].body).expect("JSON");
    let text = |name: &str| begun[name].as_str().expect("text").to_owned();
    let path = format!("/authorize/{}/progress", text("transaction"));
    let secret = http2::field("authorization", &format!("Bearer {}", text("secret")));
    let unread = |stream| {
        let piece = http2::data(stream, &[b' '; 15_000]);
        let head = http2::head(stream, &[http2::request("GET", &path), secret.clone()].concat());
        vec![head, piece.clone(), piece.clone(), piece.clone(), piece]
    };
    // As much as the window of a connection takes.
    let taken = attacked.memory_for_streams(CONNECTIONS, &attacked.daemon.sign_in, 16, unread).await;
    // What a connection takes besides is a good deal less than the half of it.
    assert!(taken < 192 << 20, "{} MiB", mib(taken));
}

/// A body may be a few times as large when it is read as it was when it came, but not for as long as its request waits.
#[tokio::test]
async fn bodies_that_grow_when_they_are_read() {
    const CONNECTIONS: usize = 200;
    let attacked = Attacked::start().await;
    let (path, mut proofs) = proofs(&attacked.daemon, 1).await;
    let mut body = proofs.remove(0);
    body["padding"] = vec![Value::from(vec![0]); 50_000].into();
    let request: Arc<Vec<u8>> = post(&path, "application/json", "", &body.to_string()).into();
    let begin = |mut stream: TcpStream| {
        let request = Arc::clone(&request);
        async move {
            stream.write_all(&request).await.expect("taken");
            stream
        }
    };
    let taken = attacked.memory_for(CONNECTIONS, &attacked.daemon.verification, begin).await;
    // The bodies are 40 MB, read one a thread at a time.
    assert!(taken < 256 << 20, "{} MiB", mib(taken));
}
