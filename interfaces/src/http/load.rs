//! What one listener allows its clients, and what they hold (connections, open requests, bodies,
//! answers), counted for all clients together and for each source.
//!
//! A source is the client that a request comes from: the peer, or the address that a trusted proxy
//! names. Connections are counted by peer when they are accepted, because no request is there yet;
//! everything else is counted by source.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use schemars::JsonSchema;
use selfsame_protocol::net::network_of;
use selfsame_protocol::shares::quarter;
use serde::{Deserialize, Serialize};

use super::metrics::SourceRefusals;

// What one listener allows its clients.

/// The header in which the trusted proxies name their clients. Only this one is read, because a
/// proxy passes the other one on as the client sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`, to which common proxies append the address of their client.
    #[default]
    XForwardedFor,
    /// `Forwarded`, RFC 7239.
    Forwarded,
}

/// The share of connections, open requests and body bytes that only reserved routes may use: an
/// eighth, rounded down.
const RESERVE: usize = 8;

/// What one listener allows its clients. The values may change while the listener is served.
/// Quarters are rounded up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most connections open at once. Further connections wait in the kernel's backlog until
    /// another one ends.
    pub connections: usize,
    /// Of these, connections of one source (IPv6: of one /64), at most a quarter of all. A further
    /// connection is closed at once. Trusted proxies have no such limit, but each of their clients
    /// may occupy only this many connections with open requests; a further request is answered 503.
    pub connections_per_source: usize,
    /// Time from the connection to the end of its first request's head.
    pub header_timeout: Duration,
    /// A connection on which no request began, ended or was under way for this long is closed,
    /// within twice this time; after five seconds while more than half of the connections or
    /// requests are taken. This also ends a client that sends the head of a later request too
    /// slowly, or leaves an answer unread.
    pub idle_timeout: Duration,
    /// Time for a request, its body included, unless its route has a limit of its own.
    pub request_timeout: Duration,
    /// Time for requests in flight to finish at shutdown.
    pub grace: Duration,
    /// Size of a request's head in bytes, at least 8192. hyper allows 100 headers.
    pub head_bytes: u32,
    /// Requests open at once on one HTTP/2 connection.
    pub concurrent_streams: u32,
    /// Requests open at once on all connections, until their answers are sent; more are answered
    /// 503 and not counted. Bounds the memory of heads. A source may have a quarter of them.
    pub requests: usize,
    /// Bytes of all bodies that are being read or worked on; a request beyond them is answered 503.
    /// A source may have a quarter of them.
    pub body_bytes: usize,
    /// Bytes of all answers of more than 4 KiB that their clients have not taken; a request beyond
    /// them is answered 503. A source may have a quarter of them.
    pub answer_bytes: usize,
    /// The header in which the trusted proxies name their clients.
    pub forwarded_header: ForwardedHeader,
}

impl Limits {
    /// The most connections that one source may have, or may occupy through a trusted proxy.
    pub(super) fn most_connections_of_source(&self) -> usize {
        self.connections_per_source.min(quarter(self.connections))
    }
}

/// The part of a limit that only reserved routes may use: an eighth, rounded down.
pub(super) fn reserve(limit: usize) -> usize {
    limit / RESERVE
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_source: 1024,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            request_timeout: Duration::from_secs(10),
            grace: Duration::from_secs(10),
            head_bytes: 32 * 1024,
            concurrent_streams: 128,
            requests: 16 * 1024,
            body_bytes: 128 << 20,
            answer_bytes: 128 << 20,
            forwarded_header: ForwardedHeader::default(),
        }
    }
}

/// What a listener's clients hold at the moment.
#[derive(Default)]
pub(super) struct Load {
    sources: Mutex<HashMap<IpAddr, Weak<SourceLoad>>>,
    connections: AtomicUsize,
    /// Connections that are not in the reserve.
    ordinary_connections: AtomicUsize,
    requests: AtomicUsize,
    body_bytes: AtomicUsize,
    answer_bytes: AtomicUsize,
    refusals: SourceRefusals,
}

/// What one source holds. The listener forgets the source when nothing of it is left.
pub(super) struct SourceLoad {
    load: Arc<Load>,
    network: IpAddr,
    connections: AtomicUsize,
    reserved_connections: AtomicUsize,
    requests: AtomicUsize,
    reserved_requests: AtomicUsize,
    /// Connections that its open requests occupy: those of HTTP/1.
    occupied_connections: AtomicUsize,
    body_bytes: AtomicUsize,
    answer_bytes: AtomicUsize,
}

impl Load {
    /// Nothing is held. Refusals by the limits of a source are counted in `refusals`.
    pub(super) fn new(refusals: SourceRefusals) -> Self {
        Self { refusals, ..Self::default() }
    }

    /// The counts of the source with this address.
    pub(super) fn source(load: &Arc<Self>, address: IpAddr) -> Arc<SourceLoad> {
        let network = network_of(address);
        let mut sources = load.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = sources.get(&network).and_then(Weak::upgrade) {
            return known;
        }
        let source = Arc::new(SourceLoad::new(Arc::clone(load), network));
        sources.insert(network, Arc::downgrade(&source));
        source
    }

    /// Counts another connection of a peer; `None` when it has as many as `limits` allow. A trusted
    /// proxy has no limit of its own. A connection beyond the ordinary ones is in the reserve until
    /// it leaves it ([`ConnectionPermit::leave_reserve`]).
    pub(super) fn enter(load: &Arc<Self>, peer: IpAddr, limits: &Limits, is_proxy: bool) -> Option<ConnectionPermit> {
        let source = Self::source(load, peer);
        if !is_proxy && source.connections.load(Ordering::Relaxed) >= limits.most_connections_of_source() {
            load.refusals.connections.inc();
            return None;
        }
        let is_ordinary = load.take_ordinary(limits);
        let most_reserved = quarter(reserve(limits.connections));
        if !is_ordinary && !is_proxy && source.reserved_connections.load(Ordering::Relaxed) >= most_reserved {
            load.refusals.connections.inc();
            return None;
        }
        load.connections.fetch_add(1, Ordering::Relaxed);
        source.connections.fetch_add(1, Ordering::Relaxed);
        source.reserved_connections.fetch_add(usize::from(!is_ordinary), Ordering::Relaxed);
        Some(ConnectionPermit { source, is_counted: true, is_reserved: AtomicBool::new(!is_ordinary) })
    }

    /// A connection of a peer that another program counts and limits.
    pub(super) fn of_host(load: &Arc<Self>, peer: IpAddr) -> ConnectionPermit {
        ConnectionPermit { source: Self::source(load, peer), is_counted: false, is_reserved: AtomicBool::new(false) }
    }

    /// Counts another ordinary connection, if there is room for it outside the reserve.
    fn take_ordinary(&self, limits: &Limits) -> bool {
        let most = limits.connections - reserve(limits.connections);
        let more = |count: usize| (count < most).then_some(count + 1);
        self.ordinary_connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Whether more than half of the connections or of the open requests are taken.
    pub(super) fn is_half_full(&self, limits: &Limits) -> bool {
        self.connections.load(Ordering::Relaxed) > limits.connections / 2
            || self.requests.load(Ordering::Relaxed) > limits.requests / 2
    }
}

/// One connection, until it is dropped.
pub(super) struct ConnectionPermit {
    /// The counts of the peer.
    source: Arc<SourceLoad>,
    /// Whether it is among the connections of the listener.
    is_counted: bool,
    is_reserved: AtomicBool,
}

impl ConnectionPermit {
    /// The counts of the peer.
    pub(super) fn source(&self) -> &Arc<SourceLoad> {
        &self.source
    }

    /// Whether the connection is in the reserve, where only reserved routes are answered.
    pub(super) fn is_reserved(&self) -> bool {
        self.is_reserved.load(Ordering::Relaxed)
    }

    /// Makes the connection an ordinary one, if there is room by now.
    pub(super) fn leave_reserve(&self, limits: &Limits) {
        if self.is_reserved() && self.source.load.take_ordinary(limits) {
            // Requests of one HTTP/2 connection may race here.
            match self.is_reserved.swap(false, Ordering::Relaxed) {
                true => self.source.reserved_connections.fetch_sub(1, Ordering::Relaxed),
                false => self.source.load.ordinary_connections.fetch_sub(1, Ordering::Relaxed),
            };
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let Self { source, is_counted, is_reserved } = self;
        if !*is_counted {
            return;
        }
        match is_reserved.get_mut() {
            true => source.reserved_connections.fetch_sub(1, Ordering::Relaxed),
            false => source.load.ordinary_connections.fetch_sub(1, Ordering::Relaxed),
        };
        source.connections.fetch_sub(1, Ordering::Relaxed);
        source.load.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SourceLoad {
    fn new(load: Arc<Load>, network: IpAddr) -> Self {
        Self {
            load,
            network,
            connections: AtomicUsize::new(0),
            reserved_connections: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            reserved_requests: AtomicUsize::new(0),
            occupied_connections: AtomicUsize::new(0),
            body_bytes: AtomicUsize::new(0),
            answer_bytes: AtomicUsize::new(0),
        }
    }

    /// What all clients of the listener hold.
    pub(super) fn load(&self) -> &Arc<Load> {
        &self.load
    }
}

impl Drop for SourceLoad {
    fn drop(&mut self) {
        let mut sources = self.load.sources.lock().unwrap_or_else(PoisonError::into_inner);
        // A new connection may have made new counts for the source in the meantime.
        if sources.get(&self.network).is_some_and(|source| source.strong_count() == 0) {
            sources.remove(&self.network);
        }
    }
}

/// One open request of a source, with what it takes of the listener's room. Everything is given
/// back when it is dropped, or earlier with [`RequestPermit::give_back`].
pub(super) struct RequestPermit {
    source: Arc<SourceLoad>,
    /// Whether the request is still counted.
    is_counted: bool,
    /// Whether the source is a trusted proxy that named no client. It has no limits of its own:
    /// it may be the server of many clients.
    is_exempt: bool,
    /// Whether the request occupies its connection: with HTTP/1.
    occupies_connection: bool,
    is_reserved: bool,
    answer_bytes: usize,
}

impl RequestPermit {
    /// Counts an open request.
    pub(super) fn new(source: Arc<SourceLoad>, is_exempt: bool, occupies_connection: bool) -> Self {
        source.load.requests.fetch_add(1, Ordering::Relaxed);
        source.requests.fetch_add(1, Ordering::Relaxed);
        source.occupied_connections.fetch_add(usize::from(occupies_connection), Ordering::Relaxed);
        Self { source, is_counted: true, is_exempt, occupies_connection, is_reserved: false, answer_bytes: 0 }
    }

    /// Records that the request is for a reserved route.
    pub(super) fn use_reserve(&mut self) {
        if !std::mem::replace(&mut self.is_reserved, true) {
            self.source.reserved_requests.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the open requests, with this one, are within the limits: those of all clients, those
    /// of the source, and the connections that the source occupies. Of the reserve a source may
    /// have a quarter.
    pub(super) fn is_within_limits(&self, limits: &Limits) -> bool {
        let (source, refusals) = (&self.source, &self.source.load.refusals);
        let open = source.load.requests.load(Ordering::Relaxed);
        let reserve = reserve(limits.requests);
        let has_room = open <= limits.requests - reserve
            || (self.is_reserved
                && open <= limits.requests
                && self.is_within(&source.reserved_requests, quarter(reserve), &refusals.requests));
        let most_connections = limits.most_connections_of_source();
        has_room
            && self.is_within(&source.requests, quarter(limits.requests), &refusals.requests)
            && self.is_within(&source.occupied_connections, most_connections, &refusals.connections)
    }

    /// Whether the source has at most so many of something; otherwise counts the refusal.
    fn is_within(&self, count: &AtomicUsize, most: usize, refused: &Counter) -> bool {
        let is_within = self.is_exempt || count.load(Ordering::Relaxed) <= most;
        if !is_within {
            refused.inc();
        }
        is_within
    }

    /// Ends the count of a request that is refused. Its answer may wait for the client as long as
    /// the client wants, and must not take room from other clients in that time.
    pub(super) fn give_back(&mut self) {
        self.give_answer_bytes_back();
        if std::mem::take(&mut self.is_counted) {
            let Self { source, occupies_connection, is_reserved, .. } = self;
            source.load.requests.fetch_sub(1, Ordering::Relaxed);
            source.requests.fetch_sub(1, Ordering::Relaxed);
            source.occupied_connections.fetch_sub(usize::from(*occupies_connection), Ordering::Relaxed);
            source.reserved_requests.fetch_sub(usize::from(*is_reserved), Ordering::Relaxed);
        }
    }

    /// Takes room for an answer that the client has not taken, in bytes; `false` when there is not
    /// enough.
    pub(super) fn take_answer_bytes(&mut self, count: usize, limits: &Limits) -> bool {
        let taken = self.source.load.answer_bytes.fetch_add(count, Ordering::Relaxed).saturating_add(count);
        let of_source = self.source.answer_bytes.fetch_add(count, Ordering::Relaxed).saturating_add(count);
        self.answer_bytes += count;
        let is_within_share = self.is_exempt || of_source <= quarter(limits.answer_bytes);
        if !is_within_share {
            self.source.load.refusals.answer_bytes.inc();
        }
        let has_room = taken <= limits.answer_bytes && is_within_share;
        if !has_room {
            self.give_answer_bytes_back();
        }
        has_room
    }

    fn give_answer_bytes_back(&mut self) {
        let count = std::mem::take(&mut self.answer_bytes);
        self.source.load.answer_bytes.fetch_sub(count, Ordering::Relaxed);
        self.source.answer_bytes.fetch_sub(count, Ordering::Relaxed);
    }

    /// An account for the request's body, which may outlive the request for a moment.
    pub(super) fn body_permit(&self) -> BodyPermit {
        BodyPermit {
            source: Arc::clone(&self.source),
            is_exempt: self.is_exempt,
            is_reserved: self.is_reserved,
            bytes: 0,
        }
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// The bytes of one body, given back when it is dropped.
pub(super) struct BodyPermit {
    source: Arc<SourceLoad>,
    is_exempt: bool,
    is_reserved: bool,
    bytes: usize,
}

impl BodyPermit {
    /// Takes room for another piece of the body, in bytes; `false` when there is not enough.
    pub(super) fn take(&mut self, count: usize, limits: &Limits) -> bool {
        let taken = self.source.load.body_bytes.fetch_add(count, Ordering::Relaxed).saturating_add(count);
        let of_source = self.source.body_bytes.fetch_add(count, Ordering::Relaxed).saturating_add(count);
        self.bytes += count;
        let kept_free = if self.is_reserved { 0 } else { reserve(limits.body_bytes) };
        let is_within_share = self.is_exempt || of_source <= quarter(limits.body_bytes);
        if !is_within_share {
            self.source.load.refusals.body_bytes.inc();
        }
        taken <= limits.body_bytes - kept_free && is_within_share
    }
}

impl Drop for BodyPermit {
    fn drop(&mut self) {
        self.source.load.body_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.source.body_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { connections: 16, requests: 32, body_bytes: 800, answer_bytes: 800, ..Limits::default() }
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn request(load: &Arc<Load>, last: u8) -> RequestPermit {
        RequestPermit::new(Load::source(load, address(last)), false, true)
    }

    #[test]
    fn a_peer_has_a_quarter_of_the_connections_and_an_eighth_is_reserved() {
        let (load, limits) = (Arc::new(Load::default()), limits());
        let enter = |last, is_proxy| Load::enter(&load, address(last), &limits, is_proxy);
        let mut held: Vec<_> = (0..16).filter_map(|_| enter(1, false)).collect();
        assert_eq!(held.len(), 4);
        held.extend((0..10).filter_map(|_| enter(2, true)));
        assert!(held.iter().all(|permit| !permit.is_reserved()), "14 connections are ordinary");
        let reserved = enter(3, false).expect("the reserve has room");
        assert!(reserved.is_reserved());
        assert!(enter(3, false).is_none(), "a quarter of the reserve, rounded up, is one connection");
        assert_eq!(load.refusals.connections.get(), 12 + 1);
        reserved.leave_reserve(&limits);
        assert!(reserved.is_reserved());
        assert!(load.is_half_full(&limits));
        held.pop();
        reserved.leave_reserve(&limits);
        assert!(!reserved.is_reserved());
        drop((held, reserved));
        assert!(load.sources.lock().expect("not poisoned").is_empty());
        assert_eq!(load.ordinary_connections.load(Ordering::Relaxed), 0);
        assert!(!load.is_half_full(&limits));
    }

    #[test]
    fn a_source_occupies_a_quarter_of_the_connections_through_a_proxy() {
        let (load, limits) = (Arc::new(Load::default()), limits());
        let held: Vec<_> = (0..4).map(|_| request(&load, 1)).collect();
        assert!(held.iter().all(|permit| permit.is_within_limits(&limits)));
        assert!(!request(&load, 1).is_within_limits(&limits));
        assert_eq!(load.refusals.connections.get(), 1);
        assert!(request(&load, 2).is_within_limits(&limits));
        // Requests of HTTP/2 share a connection.
        let shared = RequestPermit::new(Load::source(&load, address(3)), false, false);
        assert!(shared.is_within_limits(&limits));
        let proxy = |_| RequestPermit::new(Load::source(&load, address(4)), true, true);
        let of_proxy: Vec<_> = (0..20).map(proxy).collect();
        assert!(of_proxy.iter().all(|permit| permit.is_within_limits(&limits)), "it has all that is left");
    }

    #[test]
    fn reserved_requests_have_room_when_the_others_have_none() {
        let (load, limits) = (Arc::new(Load::default()), limits());
        let held: Vec<_> = (0..28).map(|last| request(&load, last)).collect();
        assert!(held.iter().all(|permit| permit.is_within_limits(&limits)));
        let mut more = request(&load, 100);
        assert!(!more.is_within_limits(&limits));
        more.use_reserve();
        assert!(more.is_within_limits(&limits));
        let mut again = request(&load, 100);
        again.use_reserve();
        assert!(!again.is_within_limits(&limits), "a quarter of the reserve is one request");
        let mut other = request(&load, 101);
        other.use_reserve();
        assert!(other.is_within_limits(&limits));
    }

    #[test]
    fn a_request_that_gives_its_counts_back_takes_no_room() {
        let (load, limits) = (Arc::new(Load::default()), limits());
        let refused: Vec<_> = (0..64)
            .map(|_| {
                let mut request = request(&load, 1);
                request.use_reserve();
                request.give_back();
                request
            })
            .collect();
        assert!(request(&load, 1).is_within_limits(&limits));
        assert_eq!(load.requests.load(Ordering::Relaxed), 0);
        drop(refused);
        assert_eq!(load.requests.load(Ordering::Relaxed), 0, "a request is given back once");
    }

    #[test]
    fn the_last_eighth_of_the_bodies_is_kept_for_reserved_requests() {
        let (load, limits) = (Arc::new(Load::default()), limits());
        let held: Vec<_> = (0..4)
            .map(|last| {
                let mut body = request(&load, last).body_permit();
                assert!(body.take(175, &limits));
                body
            })
            .collect();
        assert!(!request(&load, 100).body_permit().take(1, &limits));
        let mut reserved = request(&load, 101);
        reserved.use_reserve();
        let mut body = reserved.body_permit();
        assert!(body.take(100, &limits));
        assert!(!reserved.body_permit().take(1, &limits), "the reserve is used up");
        drop((held, body));
        assert_eq!(load.body_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_source_has_a_quarter_of_bodies_and_answers() {
        let (load, limits) = (Arc::new(Load::default()), limits());
        let (mut one, other) = (request(&load, 1), request(&load, 2));
        let mut body = one.body_permit();
        assert!(body.take(200, &limits));
        assert!(!body.take(1, &limits));
        assert!(other.body_permit().take(200, &limits));
        drop(body);
        assert!(one.body_permit().take(200, &limits));
        assert!(one.take_answer_bytes(200, &limits));
        assert!(!request(&load, 1).take_answer_bytes(1, &limits));
        assert!(request(&load, 2).take_answer_bytes(200, &limits));
        let SourceRefusals { connections, requests, body_bytes, answer_bytes } = &load.refusals;
        assert_eq!([connections, requests, body_bytes, answer_bytes].map(Counter::get), [0, 0, 1, 1]);
        drop((one, other));
        assert_eq!(load.answer_bytes.load(Ordering::Relaxed), 0);
        assert_eq!(load.body_bytes.load(Ordering::Relaxed), 0);
    }
}
