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
    pub path: String,
    pub body: Bytes,
}

impl Call {
    pub fn post(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self { method: Method::POST, path: path.into(), body: body.into() }
    }

    pub fn get(path: impl Into<String>) -> Self {
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
            .uri(call.path.as_str())
            .header(HOST, self.address.to_string())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(call.body.clone()))?;
        self.sender.ready().await?;
        let (head, body) = self.sender.send_request(request).await?.into_parts();
        Ok(Answer { status: head.status, body: body.collect().await?.to_bytes() })
    }
}

/// Result of a run.
pub struct Run {
    /// When the first call was made.
    pub started: Instant,
    /// Time from the first call to the last answer.
    pub elapsed: Duration,
    /// Times from call to answer, sorted.
    pub latencies: Vec<Duration>,
    /// The answers with the positions of their calls. Calls that were not made within the limit
    /// have no answer.
    pub answers: Vec<(usize, Answer)>,
}

/// Makes calls in their order over `connections` connections, until all are answered. Starts no
/// call after `limit`.
pub async fn run(
    address: SocketAddr,
    calls: Arc<Vec<Call>>,
    connections: usize,
    limit: Duration,
) -> Result<Run, Failure> {
    let mut open = Vec::with_capacity(connections);
    for _ in 0..connections {
        open.push(Connection::open(address).await?);
    }
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let mut working = JoinSet::new();
    for mut connection in open {
        let (calls, next) = (Arc::clone(&calls), Arc::clone(&next));
        working.spawn(async move {
            let mut done = Vec::new();
            while started.elapsed() < limit {
                let position = next.fetch_add(1, Ordering::Relaxed);
                let Some(call) = calls.get(position) else { break };
                let called = Instant::now();
                let answer = connection.call(call).await?;
                done.push((position, called.elapsed(), answer));
            }
            Ok::<_, Failure>(done)
        });
    }
    let mut latencies = Vec::with_capacity(calls.len());
    let mut answers = Vec::with_capacity(calls.len());
    let mut ended = started;
    while let Some(done) = working.join_next().await {
        ended = Instant::now();
        for (position, latency, answer) in done?? {
            latencies.push(latency);
            answers.push((position, answer));
        }
    }
    latencies.sort_unstable();
    Ok(Run { started, elapsed: ended - started, latencies, answers })
}
