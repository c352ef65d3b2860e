//! What a request and its answer need of their connection: the peer, the limits, the permits, the
//! signal to stop.
//!
//! The modules that handle requests use this one, directly or through each other. This one imports
//! only `limits`, `load`, `shutdown` and `source`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use hyper::header::HeaderMap;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use super::limits::Limits;
use super::load::{ConnectionPermit, Load};
use super::shutdown::Shutdown;
use super::source::source_address;

/// Whether a peer is a proxy whose `Forwarded` and `X-Forwarded-For` count.
pub type TrustedProxy = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// What the connections of a listener have in common.
#[derive(Clone)]
pub(super) struct Conditions {
    pub limits: Arc<ArcSwap<Limits>>,
    pub trusted_proxy: TrustedProxy,
    pub shutdown: Shutdown,
    pub open_connections: Gauge,
}

/// What the requests of one connection share.
pub(super) struct Client {
    conditions: Conditions,
    peer: SocketAddr,
    permit: ConnectionPermit,
    requests_begun: AtomicU64,
    requests_ended: AtomicU64,
    /// By request number: since when the answer waits for the client to take more of it.
    waiting_since: Mutex<BTreeMap<u64, Instant>>,
}

impl Client {
    pub fn new(conditions: Conditions, peer: SocketAddr, permit: ConnectionPermit) -> Self {
        conditions.open_connections.inc();
        let (requests_begun, requests_ended) = Default::default();
        Self { conditions, peer, permit, requests_begun, requests_ended, waiting_since: Mutex::default() }
    }

    /// The limits as they are now.
    pub fn limits(&self) -> Guard<Arc<Limits>> {
        self.conditions.limits.load()
    }

    /// The signal that the server is about to stop.
    pub fn shutdown(&self) -> &Shutdown {
        &self.conditions.shutdown
    }

    /// What the clients of the listener hold.
    pub fn load(&self) -> &Arc<Load> {
        self.permit.load()
    }

    /// The source address of a request with these headers; see [`source_address`].
    pub fn source(&self, headers: &HeaderMap) -> IpAddr {
        source_address(self.peer.ip(), headers, |address| (self.conditions.trusted_proxy)(address))
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
    /// Number of the request on its connection, from 0.
    number: u64,
    /// Bytes that the answer takes of the listener's room for answers; 0 for a small answer.
    answer_bytes: usize,
}

impl Exchange {
    pub fn begin(client: Arc<Client>) -> Self {
        let number = client.requests_begun.fetch_add(1, Ordering::Relaxed);
        client.permit.request_begins();
        Self { client, number, answer_bytes: 0 }
    }

    /// The connection.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Records that the server waits for the client to take more of the answer.
    pub fn await_client(&self) {
        self.client.waiting_since.lock().unwrap_or_else(PoisonError::into_inner).insert(self.number, Instant::now());
    }

    /// Records that the client has taken all pieces so far, and the server makes the next one.
    pub fn await_answer(&self) {
        self.client.waiting_since.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }

    /// Whether the open requests, with this one, are within the limit.
    pub fn is_within_limit(&self) -> bool {
        self.client.permit.is_within_limit(self.client.limits().requests)
    }

    /// Takes room for an answer of this many bytes; `false` when there is not enough.
    pub fn take_answer(&mut self, bytes: usize) -> bool {
        let limit = self.client.limits().answer_bytes;
        let has_room = bytes <= SMALL_ANSWER || self.client.permit.take_answer_bytes(bytes, limit);
        self.answer_bytes = if has_room && bytes > SMALL_ANSWER { bytes } else { 0 };
        has_room
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.await_answer();
        self.client.requests_ended.fetch_add(1, Ordering::Relaxed);
        self.client.permit.give_answer_bytes_back(self.answer_bytes);
        self.client.permit.request_ends();
    }
}
