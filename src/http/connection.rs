//! One connection, from its accepting to its end, and the requests on it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::dispatch::answer;
use super::load::{Load, Place};
use super::server::Server;

/// How long a client that overstayed may take to hear about it: HTTP/2 says goodbye, HTTP/1 closes.
const FAREWELL_TIME: Duration = Duration::from_secs(1);

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
    pub(super) fn new(server: Arc<Server>, peer: SocketAddr, place: Place) -> Arc<Self> {
        server.metrics.open_connections.inc();
        let (requests_begun, requests_ended) = Default::default();
        Arc::new(Self { server, peer, requests_begun, requests_ended, place, untaken: Mutex::default() })
    }

    /// What the listener's clients hold.
    pub(super) fn load(&self) -> &Arc<Load> {
        self.place.load()
    }

    /// Shakes hands, if there is TLS, and serves.
    pub(super) async fn begin(self: Arc<Self>, stream: TcpStream) {
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

/// Answers up to this many bytes are not counted: the number of open requests bounds them.
const SMALL_ANSWER: usize = 4096;

/// A request under way, until its answer's body is handed over or it is given up.
pub(super) struct InFlight {
    connection: Arc<Connection>,
    /// Counts the requests of the connection.
    number: u64,
    /// Room that its answer takes.
    answer_bytes: usize,
}

impl InFlight {
    fn new(connection: Arc<Connection>) -> Self {
        let number = connection.requests_begun.fetch_add(1, Ordering::Relaxed);
        connection.place.request_begins();
        Self { connection, number, answer_bytes: 0 }
    }

    /// From now on the client's turn is awaited: it takes more of the answer, or leaves it.
    pub(super) fn await_client(&self) {
        self.connection.untaken.lock().unwrap_or_else(PoisonError::into_inner).insert(self.number, Instant::now());
    }

    /// The client has taken what there is; the answer's next piece is our turn.
    pub(super) fn await_answer(&self) {
        self.connection.untaken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }

    /// Whether as many requests are open as may be, this one among them.
    pub(super) fn is_within_limit(&self) -> bool {
        self.connection.place.is_within_limit(self.connection.server.limits.load().requests)
    }

    /// Takes room for an answer of this many bytes; `false` when there is none.
    pub(super) fn take_answer(&mut self, bytes: usize) -> bool {
        let limit = self.connection.server.limits.load().answer_bytes;
        let has_room = bytes <= SMALL_ANSWER || self.connection.place.take_answer_bytes(bytes, limit);
        self.answer_bytes = if has_room && bytes > SMALL_ANSWER { bytes } else { 0 };
        has_room
    }

    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.await_answer();
        self.connection.requests_ended.fetch_add(1, Ordering::Relaxed);
        self.connection.place.give_answer_bytes_back(self.answer_bytes);
        self.connection.place.request_ends();
    }
}
