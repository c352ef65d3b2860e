//! Listening, and its end.

use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
#[cfg(feature = "fault-injection")]
use selfsame_actors::faults::{FaultPoint, pass};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::connection::Connection;
use super::load::Load;
use super::metrics::Metrics;
use super::router::Site;
use super::shutdown::Shutdown;

/// The smallest limit on heads that hyper accepts.
const MIN_HEAD_BYTES: u32 = 8192;
/// HTTP/2 windows in bytes: of one body, and of all bodies of a connection.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// How long accepting pauses when the process is out of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What one listener allows its clients.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections open at once. Past it new ones wait in the kernel's backlog until another ends.
    pub connections: usize,
    /// Of these, connections of one source address (IPv6: of one /64). Past it a new one is closed at once. Trusted proxies have
    /// no such limit.
    pub connections_per_source: usize,
    /// Time from the connection to the end of its first request's head.
    pub header_timeout: Duration,
    /// A connection on which no request began, ended or was under way for this long is closed, within twice this time;
    /// this also ends a client that sends the head of a later request too slowly.
    pub idle_timeout: Duration,
    /// Time for a request, its body included, unless its route has a limit of its own.
    pub request_timeout: Duration,
    /// Time for requests in flight to finish at shutdown.
    pub grace: Duration,
    /// Size of a request's head in bytes, at least 8192. hyper allows 100 headers.
    pub head_bytes: u32,
    /// Requests open at once on one HTTP/2 connection.
    pub concurrent_streams: u32,
    /// Requests open at once on all connections, until their answers are sent; more are answered 503. Bounds the memory of heads. A
    /// source may have a quarter of them (trusted proxies all).
    pub requests: usize,
    /// Bytes of all bodies that are being read or worked on; past it they are answered 503.
    pub body_bytes: usize,
    /// Bytes of all answers of more than 4 KiB that their clients have not taken; past it they are answered 503. A source may have a
    /// quarter of them (trusted proxies all).
    pub answer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_source: 1024,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(10),
            grace: Duration::from_secs(20),
            head_bytes: 32 * 1024,
            concurrent_streams: 128,
            requests: 16 * 1024,
            body_bytes: 128 << 20,
            answer_bytes: 128 << 20,
        }
    }
}

/// One listening address: what it serves and under which conditions.
pub struct Server {
    /// The routes.
    pub site: Site,
    /// The limits of this address; they may change while it is served.
    pub limits: Arc<ArcSwap<Limits>>,
    /// Tells which peers are proxies whose `Forwarded` and `X-Forwarded-For` count.
    pub trusted_proxy: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
    /// Random bytes for request ids.
    pub random: Box<dyn Fn() -> [u8; 16] + Send + Sync>,
    /// Where connections are counted.
    pub metrics: Metrics,
    /// Ends [`Server::run`].
    pub shutdown: Shutdown,
    /// Speaks TLS on every connection; `None` speaks plain HTTP.
    pub tls: Option<TlsAcceptor>,
}

impl Server {
    /// Serves until the shutdown is triggered, then until the last request is answered or the grace time is over.
    ///
    /// Dropping the future drops all connections.
    pub async fn run(self, listener: TcpListener) {
        let server = Arc::new(self);
        let mut connections = JoinSet::new();
        let load = Arc::new(Load::default());
        let mut shutdown = pin!(server.shutdown.triggered());
        loop {
            let has_room = connections.len() < server.limits.load().connections;
            tokio::select! {
                () = &mut shutdown => break,
                Some(_ended) = connections.join_next() => {}
                accepted = listener.accept(), if has_room => match accepted {
                    Ok((stream, peer)) => {
                        #[cfg(feature = "fault-injection")]
                        if pass(FaultPoint::HttpAccept).await.is_err() {
                            continue;
                        }
                        let is_proxy = (server.trusted_proxy)(peer.ip().to_canonical());
                        let limit = server.limits.load().connections_per_source;
                        let Some(place) = Load::enter(&load, peer.ip(), limit, is_proxy) else { continue };
                        // Answers are small and written whole, waiting to fill a segment only delays them.
                        let _ = stream.set_nodelay(true);
                        let connection = Connection::new(server.clone(), peer, place);
                        connections.spawn(connection.begin(stream));
                    }
                    Err(error) => after_failed_accept(error).await,
                },
            }
        }
        drop(listener);
        let ending = async { while connections.join_next().await.is_some() {} };
        let grace = server.limits.load().grace;
        if timeout(grace, ending).await.is_err() {
            tracing::warn!(connections = connections.len(), "the grace time is over, dropping connections");
            connections.shutdown().await;
        }
    }

    /// How connections are spoken on.
    pub(super) fn protocols(&self) -> auto::Builder<TokioExecutor> {
        let limits = self.limits.load();
        let head_bytes = limits.head_bytes.max(MIN_HEAD_BYTES);
        let mut builder = auto::Builder::new(TokioExecutor::new());
        // Slow heads are ended by `Connection::overstayed`, which sees both protocols and costs a request no timer.
        builder.http1().header_read_timeout(None).max_buf_size(head_bytes as usize);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.concurrent_streams)
            // What a client may send before anybody reads it: hyper's own windows are a mebibyte each.
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            // In memory a small field takes more than the 32 bytes that are counted for it beside its text.
            .max_header_list_size(head_bytes / 2);
        builder
    }
}

async fn after_failed_accept(error: io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    // A client that left before it was accepted is no reason to wait.
    if !matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
        tracing::warn!(%error, "connections cannot be accepted");
        sleep(ACCEPT_PAUSE).await;
    }
}
