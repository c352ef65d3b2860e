//! Listening, connections, and their end.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
#[cfg(feature = "fault-injection")]
use selfsame_actors::faults::{FaultPoint, pass};
use selfsame_actors::network_of;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::dispatch::answer;
use super::metrics::Metrics;
use super::router::Site;
use super::shutdown::Shutdown;

/// How long a client that overstayed may take to hear about it: HTTP/2 says goodbye, HTTP/1 closes.
const FAREWELL_TIME: Duration = Duration::from_secs(1);
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

    fn protocols(&self) -> auto::Builder<TokioExecutor> {
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

/// What a listener's clients hold at the moment.
#[derive(Default)]
pub(super) struct Load {
    sources: Mutex<HashMap<IpAddr, Arc<SourceLoad>>>,
    requests: AtomicUsize,
    body_bytes: AtomicUsize,
}

/// What one source holds.
#[derive(Default)]
struct SourceLoad {
    connections: AtomicUsize,
    requests: AtomicUsize,
}

/// One connection of a source; leaving is its drop.
struct Place {
    load: Arc<Load>,
    source: IpAddr,
    of_source: Arc<SourceLoad>,
    is_proxy: bool,
}

impl Load {
    /// A place for another connection of a source, unless it has as many as it may.
    fn enter(load: &Arc<Self>, source: IpAddr, limit: usize, is_proxy: bool) -> Option<Place> {
        let source = network_of(source);
        let mut sources = load.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let of_source = Arc::clone(sources.entry(source).or_default());
        if !is_proxy && of_source.connections.load(Ordering::Relaxed) >= limit {
            return None;
        }
        of_source.connections.fetch_add(1, Ordering::Relaxed);
        Some(Place { load: Arc::clone(load), source, of_source, is_proxy })
    }

    /// Takes room for a piece of a body; `false` when there is none.
    pub(super) fn take_body_bytes(&self, count: usize, limit: usize) -> bool {
        let has_room = self.body_bytes.fetch_add(count, Ordering::Relaxed).saturating_add(count) <= limit;
        if !has_room {
            self.give_body_bytes_back(count);
        }
        has_room
    }

    pub(super) fn give_body_bytes_back(&self, count: usize) {
        self.body_bytes.fetch_sub(count, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut sources = self.load.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if self.of_source.connections.fetch_sub(1, Ordering::Relaxed) == 1 {
            sources.remove(&self.source);
        }
    }
}

/// One connection, shared by its requests.
pub(super) struct Connection {
    pub(super) server: Arc<Server>,
    pub(super) peer: SocketAddr,
    requests_begun: AtomicU64,
    requests_ended: AtomicU64,
    place: Place,
    /// Since when each answer waits for the client to take more of it.
    untaken: Mutex<BTreeMap<u64, Instant>>,
}

impl Connection {
    fn new(server: Arc<Server>, peer: SocketAddr, place: Place) -> Arc<Self> {
        server.metrics.open_connections.inc();
        let (requests_begun, requests_ended) = Default::default();
        Arc::new(Self { server, peer, requests_begun, requests_ended, place, untaken: Mutex::default() })
    }

    /// What the listener's clients hold.
    pub(super) fn load(&self) -> &Arc<Load> {
        &self.place.load
    }

    /// Shakes hands, if there is TLS, and serves.
    async fn begin(self: Arc<Self>, stream: TcpStream) {
        let Some(tls) = self.server.tls.clone() else { return self.serve(stream).await };
        let header_timeout = self.server.limits.load().header_timeout;
        let shaken = tokio::select! {
            shaken = timeout(header_timeout, tls.accept(stream)) => shaken,
            () = self.server.shutdown.triggered() => return,
        };
        // Whoever does not speak TLS, or does so too slowly, is not talked to.
        if let Ok(Ok(stream)) = shaken {
            self.serve(stream).await;
        }
    }

    /// Serves requests until the client leaves, has to leave, or the server stops.
    async fn serve(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let service = service_fn(|request| {
            let in_flight = InFlight::new(self.clone());
            async { Ok::<_, Infallible>(answer(in_flight, request).await) }
        });
        let protocols = self.server.protocols();
        let mut serving = pin!(protocols.serve_connection(TokioIo::new(stream), service));
        // How a connection ends concerns only its client, whose requests are answered or dropped by now.
        tokio::select! {
            _ended = &mut serving => {}
            () = self.overstayed() => {
                serving.as_mut().graceful_shutdown();
                let _ = timeout(FAREWELL_TIME, serving).await;
            }
            () = self.server.shutdown.triggered() => {
                serving.as_mut().graceful_shutdown();
                // `Server::run` sees to the grace time.
                let _ = serving.await;
            }
        }
    }

    /// Waits until the client made no use of its connection for too long.
    async fn overstayed(&self) {
        let header_timeout = self.server.limits.load().header_timeout;
        sleep(header_timeout).await;
        let mut before = self.activity();
        if before == (0, 0) {
            return;
        }
        loop {
            let idle_timeout = self.server.limits.load().idle_timeout;
            sleep(idle_timeout).await;
            let now = self.activity();
            let is_idle = now == before && now.0 == now.1;
            if is_idle || self.is_not_taking(idle_timeout) {
                return;
            }
            before = now;
        }
    }

    /// Whether the client leaves an answer untaken for this long: HTTP/2 lets it, one stream beside others that it uses.
    fn is_not_taking(&self, patience: Duration) -> bool {
        let untaken = self.untaken.lock().unwrap_or_else(PoisonError::into_inner);
        untaken.values().any(|since| since.elapsed() >= patience)
    }

    /// How many requests began and how many of them ended.
    fn activity(&self) -> (u64, u64) {
        (self.requests_begun.load(Ordering::Relaxed), self.requests_ended.load(Ordering::Relaxed))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.server.metrics.open_connections.dec();
    }
}

/// A request under way, until its answer's body is handed over or it is given up.
pub(super) struct InFlight(Arc<Connection>, u64);

impl InFlight {
    fn new(connection: Arc<Connection>) -> Self {
        let number = connection.requests_begun.fetch_add(1, Ordering::Relaxed);
        connection.load().requests.fetch_add(1, Ordering::Relaxed);
        connection.place.of_source.requests.fetch_add(1, Ordering::Relaxed);
        Self(connection, number)
    }

    /// From now on the client's turn is awaited: it takes more of the answer, or leaves it.
    pub(super) fn await_client(&self) {
        self.0.untaken.lock().unwrap_or_else(PoisonError::into_inner).insert(self.1, Instant::now());
    }

    /// The client has taken what there is; the answer's next piece is our turn.
    pub(super) fn await_answer(&self) {
        self.0.untaken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }

    /// Whether as many requests are open as may be, this one among them.
    pub(super) fn is_within_limit(&self) -> bool {
        let limit = self.0.server.limits.load().requests;
        let Place { load, of_source, is_proxy, .. } = &self.0.place;
        load.requests.load(Ordering::Relaxed) <= limit
            && (*is_proxy || of_source.requests.load(Ordering::Relaxed) <= limit.div_ceil(4))
    }

    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.0
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.await_answer();
        self.0.requests_ended.fetch_add(1, Ordering::Relaxed);
        self.0.load().requests.fetch_sub(1, Ordering::Relaxed);
        self.0.place.of_source.requests.fetch_sub(1, Ordering::Relaxed);
    }
}
