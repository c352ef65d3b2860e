//! What a request and its answer need of their connection: the peer, the limits, the permits, the
//! signal to stop.
//!
//! The modules that handle requests use this one, directly or through each other. This one imports
//! only `connections`, `limits`, `load`, `shutdown` and `source`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use hyper::Version;
use hyper::header::HeaderMap;
use hyper::http::request::Parts;
use prometheus_client::metrics::gauge::Gauge;
use selfsame_protocol::trace_context::{TRACEPARENT, TraceParent};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::connections::SharedPermit;
use super::limits::Limits;
use super::load::{BodyPermit, ConnectionPermit, Load, RequestPermit};
use super::shutdown::Shutdown;
use super::source::{Source, name_of, source_address};

/// Whether a peer is a proxy that names its clients in [`Limits::forwarded_header`].
pub type TrustedProxy = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// What the connections of a listener have in common.
#[derive(Clone)]
pub(super) struct Conditions {
    pub limits: Arc<ArcSwap<Limits>>,
    pub trusted_proxy: TrustedProxy,
    pub shutdown: Shutdown,
    pub open_connections: Gauge,
}

impl Conditions {
    /// Whether a peer is a trusted proxy. A client of a unix socket never is.
    pub fn is_trusted_proxy(&self, peer: Source) -> bool {
        matches!(peer, Source::Address(address) if (self.trusted_proxy)(address))
    }
}

/// The most answers to refused requests that the client of one connection may leave unread before
/// the connection is closed. Such answers are not counted with the open requests.
const MOST_UNREAD_REFUSALS: usize = 16;

/// What the requests of one connection share.
pub(super) struct Client {
    conditions: Conditions,
    peer: Source,
    permit: ConnectionPermit,
    /// Its room among the connections of all listeners; `None` where another program counts them.
    shared: Option<SharedPermit>,
    accepted_at: Instant,
    requests_begun: AtomicU64,
    requests_ended: AtomicU64,
    /// By request number: since when the answer waits for the client to take more of it.
    waiting_since: Mutex<BTreeMap<u64, Instant>>,
    /// Refused requests whose answers the client has not taken.
    unread_refusals: AtomicUsize,
    closing: Notify,
}

impl Client {
    pub fn new(conditions: Conditions, peer: Source, permit: ConnectionPermit, shared: Option<SharedPermit>) -> Self {
        conditions.open_connections.inc();
        shared.iter().for_each(SharedPermit::accept);
        Self {
            conditions,
            peer,
            permit,
            shared,
            accepted_at: Instant::now(),
            requests_begun: AtomicU64::new(0),
            requests_ended: AtomicU64::new(0),
            waiting_since: Mutex::default(),
            unread_refusals: AtomicUsize::new(0),
            closing: Notify::new(),
        }
    }

    /// The limits as they are now.
    pub fn limits(&self) -> Guard<Arc<Limits>> {
        self.conditions.limits.load()
    }

    /// The signal that the server is about to stop.
    pub fn shutdown(&self) -> &Shutdown {
        &self.conditions.shutdown
    }

    /// When the connection was accepted.
    pub fn accepted_at(&self) -> Instant {
        self.accepted_at
    }

    /// Whether more than half of the listener's connections or requests are taken.
    pub fn is_listener_half_full(&self) -> bool {
        self.permit.source().load().is_half_full(&self.limits())
    }

    /// Waits until one of the connection's requests asks for its end: too many answers to refused
    /// requests are unread, or the connection is in the reserve and has had its request.
    pub async fn wait_for_close(&self) {
        self.closing.notified().await;
    }

    /// Waits until the connection has to make room for one of any listener.
    pub async fn wait_for_eviction(&self) {
        match &self.shared {
            Some(shared) => shared.wait_for_close().await,
            None => std::future::pending().await,
        }
    }

    /// Counts a refused request until its answer is sent. The connection of a trusted proxy stays
    /// open, because it carries the requests of many clients, and proxies read their answers.
    fn begin_refusal(&self) {
        let unread = self.unread_refusals.fetch_add(1, Ordering::Relaxed) + 1;
        if unread > MOST_UNREAD_REFUSALS && !self.conditions.is_trusted_proxy(self.peer) {
            self.closing.notify_one();
        }
    }

    fn end_refusal(&self) {
        self.unread_refusals.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether the connection is in the reserve; see [`Limits`].
    pub fn is_reserved(&self) -> bool {
        self.permit.is_reserved()
    }

    /// The peer: its address, or the unix socket.
    pub fn peer(&self) -> Source {
        self.peer
    }

    /// The source of a request with this head (see [`source_address`]), whether a trusted proxy
    /// should have named it and did not, and an account for what the request holds.
    fn admit(&self, head: &Parts) -> (Source, bool, RequestPermit) {
        let limits = self.limits();
        let trusted = |address| (self.conditions.trusted_proxy)(address);
        let source = match self.peer {
            Source::Address(peer) => {
                Source::Address(source_address(peer, &head.headers, limits.forwarded_header, trusted))
            }
            Source::UnixSocket => Source::UnixSocket,
        };
        let account = match source == self.peer {
            true => Arc::clone(self.permit.source()),
            false => Load::source(self.permit.source().load(), source.address()),
        };
        // The header, not the address, decides: a client may have the proxy's address too.
        let names_client = head.headers.contains_key(name_of(limits.forwarded_header));
        let is_exempt = self.conditions.is_trusted_proxy(self.peer) && !names_client;
        (source, is_exempt, RequestPermit::new(account, is_exempt, head.version < Version::HTTP_2))
    }

    /// How many requests began, and how many of them ended.
    pub fn activity(&self) -> (u64, u64) {
        (self.requests_begun.load(Ordering::Relaxed), self.requests_ended.load(Ordering::Relaxed))
    }

    /// Whether an answer has waited this long for the client to take more of it. HTTP/2 allows
    /// that: one stream stalls beside others in use.
    pub fn has_stalled_answer(&self, patience: Duration) -> bool {
        let waiting_since = self.waiting_since.lock().unwrap_or_else(PoisonError::into_inner);
        waiting_since.values().any(|since| since.elapsed() >= patience)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.conditions.open_connections.dec();
    }
}

/// Answers up to this many bytes are not counted: the number of open requests bounds them.
const SMALL_ANSWER: usize = 4096;

/// One request and its answer: in flight until hyper has written the answer's last bytes to the
/// socket, or has given it up.
pub(super) struct Exchange {
    client: Arc<Client>,
    source: Source,
    permit: RequestPermit,
    /// Number of the request on its connection, from 0.
    number: u64,
    /// Whether the request was refused because of the limits.
    is_refused: bool,
    /// Whether the peer is a trusted proxy that did not name its client.
    is_unnamed: bool,
}

impl Exchange {
    /// Begins an exchange for a request with this head.
    pub fn begin(client: Arc<Client>, head: &Parts) -> Self {
        let number = client.requests_begun.fetch_add(1, Ordering::Relaxed);
        client.shared.iter().for_each(SharedPermit::begin_request);
        let (source, is_unnamed, permit) = client.admit(head);
        Self { client, source, permit, number, is_refused: false, is_unnamed }
    }

    /// The connection.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Where the request comes from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Whether the peer is a trusted proxy that did not name its client. The request then has no
    /// share of its own.
    pub fn is_unnamed(&self) -> bool {
        self.is_unnamed
    }

    /// The place of the request in a trace, as a trusted proxy, or a process behind the unix
    /// socket, names it. Others could make this daemon record what they choose.
    pub fn traceparent(&self, headers: &HeaderMap) -> Option<TraceParent> {
        let is_trusted =
            self.client.peer == Source::UnixSocket || self.client.conditions.is_trusted_proxy(self.client.peer);
        headers.get(TRACEPARENT).filter(|_| is_trusted)?.to_str().ok()?.parse().ok()
    }

    /// An account for the request's body.
    pub fn body_permit(&self) -> BodyPermit {
        self.permit.body_permit()
    }

    /// Records that the server waits for the client to take more of the answer.
    pub fn await_client(&self) {
        self.client.waiting_since.lock().unwrap_or_else(PoisonError::into_inner).insert(self.number, Instant::now());
    }

    /// Records that the client has taken all pieces so far, and the server makes the next one.
    pub fn await_answer(&self) {
        self.client.waiting_since.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }

    /// Whether the request may be handled: what is open, with this request, is within the limits.
    /// Where only the reserve has room, a request must be for a reserved route. A request that may
    /// not be handled is no longer counted as open.
    pub fn is_within_limits(&mut self, is_reserved_route: bool) -> bool {
        let limits = self.client.limits();
        if is_reserved_route {
            self.permit.use_reserve();
        }
        self.client.permit.leave_reserve(&limits);
        let has_connection = is_reserved_route || !self.client.is_reserved();
        let is_within_limits = has_connection && self.permit.is_within_limits(&limits);
        if !is_within_limits && !std::mem::replace(&mut self.is_refused, true) {
            self.permit.give_back();
            self.client.begin_refusal();
        }
        is_within_limits
    }

    /// Takes room for an answer of this many bytes; `false` when there is not enough.
    pub fn take_answer(&mut self, bytes: usize) -> bool {
        bytes <= SMALL_ANSWER || self.permit.take_answer_bytes(bytes, &self.client.limits())
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.await_answer();
        if self.is_refused {
            self.client.end_refusal();
        }
        if self.client.is_reserved() {
            self.client.closing.notify_one();
        }
        self.client.requests_ended.fetch_add(1, Ordering::Relaxed);
        self.client.shared.iter().for_each(SharedPermit::end_request);
    }
}
