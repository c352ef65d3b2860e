//! The client that measures both servers: keep-alive connections, each with at most one call in
//! flight.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Failure;

/// One request.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: Method,
    pub path: Arc<str>,
    pub body: Bytes,
}

impl Call {
    pub fn post(path: impl Into<Arc<str>>, body: impl Into<Bytes>) -> Self {
        Self { method: Method::POST, path: path.into(), body: body.into() }
    }

    pub fn get(path: impl Into<Arc<str>>) -> Self {
        Self { method: Method::GET, path: path.into(), body: Bytes::new() }
    }
}

/// One answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub body: Bytes,
}

/// An open connection.
pub struct Connection {
    address: SocketAddr,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { address, sender })
    }

    pub async fn call(&mut self, call: &Call) -> Result<Answer, Failure> {
        let request = Request::builder()
            .method(call.method.clone())
            .uri(&*call.path)
            .header(HOST, self.address.to_string())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(call.body.clone()))?;
        self.sender.ready().await?;
        let (head, body) = self.sender.send_request(request).await?.into_parts();
        Ok(Answer { status: head.status, body: body.collect().await?.to_bytes() })
    }
}

/// How calls are made.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub connections: usize,
    /// No call is started after this time.
    pub limit: Duration,
    /// Whether the calls begin again when all are made.
    pub repeats: bool,
    /// The most calls a second; `None` for as many as there can be.
    pub per_second: Option<f64>,
}

/// Answers that are kept of a run: these first, and one in [`KEPT_EVERY`] after them. The memory
/// of all would not suffice for a long run.
const KEPT: usize = 50_000;

/// See [`KEPT`].
const KEPT_EVERY: usize = 50;

/// Result of a run.
pub struct Run {
    /// When the first call was made.
    pub started: Instant,
    /// Time from the first call to the last answer.
    pub elapsed: Duration,
    /// Times from call to answer, sorted.
    pub latencies: Vec<Duration>,
    /// How many answers were no success.
    pub refused: usize,
    /// Bytes of all bodies.
    pub bytes: usize,
    /// Answers with the positions of their calls: see [`KEPT`].
    pub answers: Vec<(usize, Answer)>,
}

/// Makes calls in their order, until all are answered or the time is over.
pub async fn run(address: SocketAddr, calls: Arc<Vec<Call>>, pace: Pace) -> Result<Run, Failure> {
    let mut open = Vec::with_capacity(pace.connections);
    for _ in 0..pace.connections {
        open.push(Connection::open(address).await?);
    }
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let mut working = JoinSet::new();
    for mut connection in open {
        let (calls, next) = (Arc::clone(&calls), Arc::clone(&next));
        working.spawn(async move {
            let mut done =
                Run { started, elapsed: Duration::ZERO, latencies: vec![], refused: 0, bytes: 0, answers: vec![] };
            while started.elapsed() < pace.limit {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let position = if pace.repeats { number % calls.len() } else { number };
                let Some(call) = calls.get(position) else { break };
                if let Some(per_second) = pace.per_second {
                    let due = started + Duration::from_secs_f64(number as f64 / per_second);
                    tokio::time::sleep_until(due.into()).await;
                }
                let called = Instant::now();
                let answer = connection.call(call).await?;
                done.latencies.push(called.elapsed());
                done.refused += usize::from(!answer.status.is_success());
                done.bytes += answer.body.len();
                if number < KEPT || number % KEPT_EVERY == 0 {
                    done.answers.push((position, answer));
                }
            }
            done.elapsed = started.elapsed();
            Ok::<_, Failure>(done)
        });
    }
    let mut all = Run { started, elapsed: Duration::ZERO, latencies: vec![], refused: 0, bytes: 0, answers: vec![] };
    while let Some(done) = working.join_next().await {
        let done = done??;
        all.elapsed = all.elapsed.max(done.elapsed);
        all.latencies.extend(done.latencies);
        all.refused += done.refused;
        all.bytes += done.bytes;
        all.answers.extend(done.answers);
    }
    all.latencies.sort_unstable();
    Ok(all)
}
