//! Accepts connections until the shutdown, then ends them: each connection from its acceptance to
//! its end, and the connections of all listeners of a process, which share its file descriptors.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
#[cfg(feature = "fault-injection")]
use selfsame_actors::faults::{FaultPoint, FaultScope, pass};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use super::audit::{AccessLog, AuditTrail};
use super::dispatch::{Dispatcher, FillRandom, RequestIds};
use super::exchange::{Client, Conditions, Exchange, Shutdown, TrustedProxy};
use super::listener::{Listener, Stream};
use super::load::{Limits, Load};
use super::metrics::Metrics;
use super::request::ReceivedBody;
use super::router::Site;

/// How long accepting pauses when the process is out of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// One listener: what it serves and under which conditions.
pub struct Server {
    /// The routes.
    pub site: Site,
    /// The limits of this listener. They may change while it is served.
    pub limits: Arc<ArcSwap<Limits>>,
    /// Whether a peer is a proxy that names its clients in [`Limits::forwarded_header`].
    pub trusted_proxy: TrustedProxy,
    /// Random bytes for request ids.
    pub random: FillRandom,
    /// Where audit events are written.
    pub audit: Arc<AuditTrail>,
    /// Whether each request has a line in the log.
    pub access_log: AccessLog,
    /// Where connections are counted.
    pub metrics: Metrics,
    /// The connections of all listeners, of which those of this one are some.
    pub connections: Arc<SharedConnections>,
    /// Ends [`Server::run`].
    pub shutdown: Shutdown,
    /// Speaks TLS on every TCP connection; `None` speaks plain HTTP, as a unix socket always does.
    pub tls: Option<TlsAcceptor>,
}

impl Server {
    /// Serves until the shutdown is triggered, then until the last request is answered or the grace
    /// time is over.
    ///
    /// Dropping the future drops all connections.
    pub async fn run(self, listener: impl Into<Listener>) {
        let listener = listener.into();
        let Self {
            site,
            limits,
            trusted_proxy,
            random,
            audit,
            access_log,
            metrics,
            connections: shared,
            shutdown,
            tls,
        } = self;
        let dispatcher = Arc::new(Dispatcher {
            site,
            ids: RequestIds::new(random),
            audit,
            access_log,
            has_warned: AtomicBool::new(false),
        });
        let open_connections = metrics.open_connections(&listener.name());
        let conditions = Conditions { limits, trusted_proxy, shutdown, open_connections };
        let mut connections = JoinSet::new();
        let load = Arc::new(Load::new(metrics.source_refusals()));
        let mut entering = pin!(Arc::clone(&shared).enter());
        let mut room = None;
        let mut stopping = pin!(conditions.shutdown.triggered());
        loop {
            let has_room = connections.len() < conditions.limits.load().connections;
            tokio::select! {
                () = &mut stopping => break,
                Some(_ended) = connections.join_next() => {}
                // Taken before a client comes, so that there is room when it does.
                entered = &mut entering, if has_room && room.is_none() => {
                    room = Some(entered);
                    entering.set(Arc::clone(&shared).enter());
                }
                accepted = listener.accept(), if has_room && room.is_some() => match accepted {
                    Ok((stream, peer)) => {
                        #[cfg(feature = "fault-injection")]
                        if pass(&FaultScope::PROCESS, FaultPoint::HttpAccept).await.is_err() {
                            continue;
                        }
                        let is_proxy = conditions.is_trusted_proxy(peer);
                        let permit = Load::enter(&load, peer.address(), &conditions.limits.load(), is_proxy);
                        let Some(permit) = permit else { continue };
                        let client = Arc::new(Client::new(conditions.clone(), peer, permit, room.take()));
                        let dispatcher = Arc::clone(&dispatcher);
                        match stream {
                            Stream::Tcp(stream) => {
                                connections.spawn(begin(dispatcher, client, tls.clone(), stream))
                            }
                            Stream::Unix(stream) => {
                                connections.spawn(begin(dispatcher, client, None, stream))
                            }
                        };
                    }
                    Err(error) => after_failed_accept(error).await,
                },
            }
        }
        drop(listener);
        let ending = async { while connections.join_next().await.is_some() {} };
        let grace = conditions.limits.load().grace;
        if timeout(grace, ending).await.is_err() {
            tracing::warn!(connections = connections.len(), "the grace time is over, dropping connections");
            connections.shutdown().await;
        }
    }
}

async fn after_failed_accept(error: io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    // The client closed its connection before it was accepted, so accepting can continue at once.
    if !matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
        tracing::warn!(%error, "connections cannot be accepted");
        sleep(ACCEPT_PAUSE).await;
    }
}

// One connection, from its acceptance to its end.

/// How long the connection of an idle client may take to close: with HTTP/2 hyper sends GOAWAY
/// first, with HTTP/1 it closes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a connection in the reserve may take to its first request.
const RESERVE_PATIENCE: Duration = Duration::from_secs(2);

/// How long a connection in the reserve may be idle or leave an answer unread, and every connection
/// while more than half of the listener's connections or requests are taken.
const CROWDED_PATIENCE: Duration = Duration::from_secs(5);

/// The smallest limit on heads that hyper accepts, in bytes.
const MIN_HEAD_BYTES: u32 = 8192;
/// HTTP/2 windows in bytes: of one body, and of all bodies of a connection.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;

/// Does the TLS handshake, if there is TLS, and serves the connection. A client whose handshake
/// fails or is not complete at the deadline of the first head is dropped.
pub(super) async fn begin(
    dispatcher: Arc<Dispatcher>,
    client: Arc<Client>,
    tls: Option<TlsAcceptor>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) {
    let Some(tls) = tls else { return serve(dispatcher, client, stream).await };
    let handshake = tokio::select! {
        handshake = timeout_at(head_deadline(&client), tls.accept(stream)) => handshake,
        () = client.shutdown().triggered() => return,
        () = client.wait_for_eviction() => return,
    };
    if let Ok(Ok(stream)) = handshake {
        serve(dispatcher, client, stream).await;
    }
}

/// Serves requests until the client leaves, is idle for too long, or the server stops.
async fn serve(
    dispatcher: Arc<Dispatcher>,
    client: Arc<Client>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) {
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (head, body) = request.into_parts();
        let (dispatcher, exchange) = (Arc::clone(&dispatcher), Exchange::begin(Arc::clone(&client), &head));
        async move { Ok::<_, Infallible>(dispatcher.answer(exchange, head, ReceivedBody::OfHyper(body)).await) }
    });
    let protocols = protocols(&client.limits());
    let mut serving = pin!(protocols.serve_connection(TokioIo::new(stream), service));
    // The result is ignored: the error of a connection concerns its client alone, and its requests
    // have ended.
    tokio::select! {
        _ended = &mut serving => {}
        patience = until_close(&client) => {
            serving.as_mut().graceful_shutdown();
            let _ = timeout(patience, serving).await;
        }
        () = client.shutdown().triggered() => {
            serving.as_mut().graceful_shutdown();
            // `Server::run` bounds the time of this.
            let _ = serving.await;
        }
    }
}

/// Waits until the connection is to be closed: a request asks for it, another connection needs its
/// room, or [`until_idle`] ends.
/// Returns how long closing may take.
async fn until_close(client: &Client) -> Duration {
    tokio::select! {
        // Requests that are open beside the one that ended in the reserve are still answered.
        () = client.wait_for_close() => match client.is_reserved() {
            true => client.limits().request_timeout,
            false => CLOSE_TIMEOUT,
        },
        () = until_idle(client) => CLOSE_TIMEOUT,
        () = client.wait_for_eviction() => match client.activity() {
            // A request that began since the connection was chosen is answered.
            (begun, ended) if begun != ended => client.limits().request_timeout,
            _ => CLOSE_TIMEOUT,
        },
    }
}

/// Waits until no request began within the header timeout, no request began, ended or was open for
/// the idle timeout, or an answer waited for the client for the idle timeout. While there is little
/// room, the idle timeout is [`CROWDED_PATIENCE`].
pub(super) async fn until_idle(client: &Client) {
    sleep_until(head_deadline(client)).await;
    let mut before = client.activity();
    if before == (0, 0) {
        return;
    }
    let mut idle_since = Instant::now();
    loop {
        sleep(client.limits().idle_timeout.min(CROWDED_PATIENCE)).await;
        let now = client.activity();
        if now != before || now.0 != now.1 {
            idle_since = Instant::now();
        }
        before = now;
        let patience = idle_patience(client);
        if idle_since.elapsed() >= patience || client.has_stalled_answer(patience) {
            return;
        }
    }
}

/// When the first request's head has to be complete, counted from the connection's acceptance: the
/// TLS handshake is part of this time.
fn head_deadline(client: &Client) -> Instant {
    let limit = client.limits().header_timeout;
    client.accepted_at() + if client.is_reserved() { limit.min(RESERVE_PATIENCE) } else { limit }
}

/// How long the connection may be idle or leave an answer unread. While there is little room, such
/// a connection makes place for others, also that of a proxy, of which it is not known which client
/// it is for.
fn idle_patience(client: &Client) -> Duration {
    let limit = client.limits().idle_timeout;
    match client.is_reserved() || client.is_listener_half_full() {
        true => limit.min(CROWDED_PATIENCE),
        false => limit,
    }
}

/// HTTP/1.1 and HTTP/2 under these limits.
fn protocols(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let head_bytes = limits.head_bytes.max(MIN_HEAD_BYTES);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // `until_idle` ends slow heads: it covers both protocols and needs no timer for each request.
    builder.http1().header_read_timeout(None).max_buf_size(head_bytes as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.concurrent_streams)
        // What a client may send before a handler reads it. The defaults of hyper are 1 MiB each.
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        // HTTP/2 counts 32 bytes for a field beside its text, and a small field takes more than
        // that in memory.
        .max_header_list_size(head_bytes / 2);
    builder
}

// The connections of all listeners of a process, which share its file descriptors: how many there
// may be ([`most_connections`]), and who makes room ([`SharedConnections`]).
//
// When they have as many as they may, the connections that have been idle for longest are closed
// for new ones. So clients that do nothing keep no client out, and the store always finds a
// descriptor for its files: RocksDB does not resume when it finds none.

/// Time from one search for idle connections to the next, while there is no room.
const SEARCH_INTERVAL: Duration = Duration::from_millis(100);

/// The share of all connections that a search closes at most, if they are idle. More than one, so
/// that not every new connection has to search.
const CLOSED_AT_ONCE: usize = 64;

/// How long a connection is idle at least before it is closed for another one, in milliseconds:
/// time for the TLS handshake and the first request of a client that is far away.
const LEAST_IDLE: u64 = 1000;

/// The least number of descriptors that connections leave to the store, to listeners, and to what
/// the daemon calls.
const LEAST_RESERVED: u64 = 1024;

/// The share of the limit that is reserved at most, as a divisor and a factor: three quarters. With
/// a limit of 1024 that leaves 256 connections, and 768 descriptors, enough for a store of 20 GiB.
const MOST_RESERVED: (u64, u64) = (4, 3);

/// Raises the limit of open files as far as the process may. Shells and containers often begin with
/// 1024, which the connections or the files of a large store exceed.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // A kernel that refuses it leaves the limit as it is.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    }
}

/// The most file descriptors that the process may have; `None` without a limit.
pub fn descriptor_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// The most connections that all listeners together may have, beside a store with so many files:
/// the limit less 1024, or less twice the files where that is more, as the store grows. At least a
/// quarter of the limit.
pub fn most_connections(limit: Option<u64>, files_of_store: u64) -> usize {
    let Some(limit) = limit else { return usize::MAX };
    let (divisor, factor) = MOST_RESERVED;
    let reserved = LEAST_RESERVED.max(files_of_store.saturating_mul(2)).min(limit / divisor * factor);
    usize::try_from(limit - reserved).unwrap_or(usize::MAX)
}

/// The connections of all listeners.
pub struct SharedConnections {
    most: usize,
    permits: Arc<Semaphore>,
    began: Instant,
    open: Mutex<HashMap<u64, Arc<Occupancy>>>,
    next: AtomicU64,
}

/// What one connection does.
#[derive(Default)]
struct Occupancy {
    open_requests: AtomicUsize,
    /// When its last request ended, or when it was accepted, in milliseconds since the process
    /// began to serve.
    idle_since: AtomicU64,
    is_to_close: AtomicBool,
    closing: Notify,
}

impl SharedConnections {
    /// At most so many connections at once, at least one.
    pub fn new(most: usize) -> Arc<Self> {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Arc::new(Self {
            most,
            permits: Arc::new(Semaphore::new(most)),
            began: Instant::now(),
            open: Mutex::default(),
            next: AtomicU64::new(0),
        })
    }

    /// The most connections of one listener: half of all, rounded up, so that a flood at one
    /// address leaves room at the others.
    pub fn most_of_listener(&self) -> usize {
        self.most.div_ceil(2)
    }

    /// Waits for room for another connection. While there is no room, connections that are idle are
    /// asked to close.
    pub(super) async fn enter(self: Arc<Self>) -> SharedPermit {
        let permit = match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.wait_for_room().await,
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let occupancy = Arc::<Occupancy>::default();
        SharedPermit { connections: self, number, occupancy, _permit: permit }
    }

    async fn wait_for_room(&self) -> OwnedSemaphorePermit {
        loop {
            self.close_idle();
            if let Ok(Ok(permit)) = timeout(SEARCH_INTERVAL, Arc::clone(&self.permits).acquire_owned()).await {
                return permit;
            }
        }
    }

    /// Asks those to close that have been idle for longest.
    fn close_idle(&self) {
        let (now, open) = (self.now(), self.lock());
        let idle = open.values().filter(|occupancy| {
            occupancy.open_requests.load(Ordering::Relaxed) == 0 && !occupancy.is_to_close.load(Ordering::Relaxed)
        });
        let idle = idle.map(|occupancy| (occupancy.idle_since.load(Ordering::Relaxed), occupancy));
        let mut idle: Vec<_> = idle.filter(|(since, _)| now.saturating_sub(*since) >= LEAST_IDLE).collect();
        idle.sort_unstable_by_key(|(since, _)| *since);
        for (_, occupancy) in idle.into_iter().take(self.most.div_ceil(CLOSED_AT_ONCE)) {
            occupancy.is_to_close.store(true, Ordering::Relaxed);
            occupancy.closing.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Occupancy>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}

/// Room for one connection, until it is dropped.
pub(super) struct SharedPermit {
    connections: Arc<SharedConnections>,
    number: u64,
    occupancy: Arc<Occupancy>,
    _permit: OwnedSemaphorePermit,
}

impl SharedPermit {
    /// A connection was accepted: it is idle from now on.
    pub(super) fn accept(&self) {
        self.occupancy.idle_since.store(self.connections.now(), Ordering::Relaxed);
        self.connections.lock().insert(self.number, Arc::clone(&self.occupancy));
    }

    pub(super) fn begin_request(&self) {
        self.occupancy.open_requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end_request(&self) {
        self.occupancy.idle_since.store(self.connections.now(), Ordering::Relaxed);
        self.occupancy.open_requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// Waits until the connection has to make room.
    pub(super) async fn wait_for_close(&self) {
        self.occupancy.closing.notified().await;
    }
}

impl Drop for SharedPermit {
    fn drop(&mut self) {
        self.connections.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn connections_leave_descriptors_to_the_store() {
        for (limit, files, connections) in [
            (Some(65_536), 100, 65_536 - 1024),
            (Some(65_536), 2_000, 65_536 - 4_000),
            (Some(4_096), 100, 3_072),
            (Some(1_024), 10, 256),
            (Some(1_024), 10_000, 256),
            (Some(0), 0, 0),
            (None, 0, usize::MAX),
        ] {
            assert_eq!(most_connections(limit, files), connections, "{limit:?}, {files} files");
        }
    }

    fn is_asked_to_close(permit: &SharedPermit) -> bool {
        permit.wait_for_close().now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_was_idle_for_longest_makes_room() {
        let connections = SharedConnections::new(3);
        let mut open = Vec::new();
        for _ in 0..3 {
            let permit = Arc::clone(&connections).enter().await;
            permit.accept();
            open.push(permit);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        // The first has a request, and the third had one last.
        open[0].begin_request();
        open[2].begin_request();
        open[2].end_request();
        let mut entering = Box::pin(Arc::clone(&connections).enter());
        assert!(entering.as_mut().now_or_never().is_none());
        assert_eq!(open.iter().map(is_asked_to_close).collect::<Vec<_>>(), [false, true, false]);
        drop(open.remove(1));
        let fourth = entering.await;
        fourth.accept();
        drop(open);
        drop(fourth);
        assert!(connections.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_becomes_idle_later_makes_room_too() {
        let connections = SharedConnections::new(1);
        let busy = Arc::clone(&connections).enter().await;
        busy.accept();
        busy.begin_request();
        let entering = tokio::spawn(Arc::clone(&connections).enter());
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!is_asked_to_close(&busy));
        busy.end_request();
        busy.wait_for_close().await;
        drop(busy);
        entering.await.expect("no panic");
    }
}
