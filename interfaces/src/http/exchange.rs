//! What a request and its answer need of their connection: the source, the limits, the permits, the
//! signal to stop.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use hyper::Version;
use hyper::header::{FORWARDED, HeaderMap, HeaderName};
use hyper::http::request::Parts;
use prometheus_client::metrics::gauge::Gauge;
use selfsame_protocol::trace_context::{TRACEPARENT, TraceParent};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::load::{BodyPermit, ConnectionPermit, ForwardedHeader, Limits, Load, RequestPermit};
use super::server::SharedPermit;

// The source address of a request, read through the proxies that the operator trusts.

/// Where a connection or a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// An address; see [`source_address`].
    Address(IpAddr),
    /// A process of this machine, through a unix socket.
    UnixSocket,
}

impl Source {
    /// The address that limits by source count: the processes behind a unix socket count as one
    /// source, the loopback address.
    pub fn address(self) -> IpAddr {
        match self {
            Self::Address(address) => address,
            Self::UnixSocket => IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }
}

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address of the client: `peer`, or the address that the proxies in front name in `header`,
/// when `peer` is a proxy that is `trusted`.
///
/// Proxies append to the header, so the list is read from its right end: the first address that is
/// not a trusted proxy is the client; where all are trusted it is the left-most. The client can
/// forge everything further left, so it is not read. The result is `peer` when the header is
/// missing or an element that is read is not an address. The other header is not read: the client
/// may have sent it.
pub fn source_address(
    peer: IpAddr,
    headers: &HeaderMap,
    header: ForwardedHeader,
    trusted: impl Fn(IpAddr) -> bool,
) -> IpAddr {
    let peer = peer.to_canonical();
    if !trusted(peer) {
        return peer;
    }
    let addresses = elements(headers, name_of(header)).map(|element| match header {
        ForwardedHeader::Forwarded => element.and_then(forwarded_for),
        ForwardedHeader::XForwardedFor => element.and_then(node),
    });
    client(addresses, &trusted).unwrap_or(peer)
}

/// The header's name.
pub(super) fn name_of(header: ForwardedHeader) -> &'static HeaderName {
    match header {
        ForwardedHeader::Forwarded => &FORWARDED,
        ForwardedHeader::XForwardedFor => &X_FORWARDED_FOR,
    }
}

/// The first untrusted address, else the last one; `None` as soon as something is not an address.
fn client(addresses: impl Iterator<Item = Option<IpAddr>>, trusted: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
    let mut last = None;
    for address in addresses {
        let address = address?;
        last = Some(address);
        if !trusted(address) {
            break;
        }
    }
    last
}

/// The comma-separated elements of all lines of a header, from the right; `None` for a line that is
/// not text.
fn elements<'a>(headers: &'a HeaderMap, name: &'static HeaderName) -> impl Iterator<Item = Option<&'a str>> + use<'a> {
    let lines = headers.get_all(name).iter().rev();
    lines.flat_map(|line| {
        let text = line.to_str().ok();
        let parts = text.map(|text| text.rsplit(',').map(|element| Some(element.trim())));
        parts.into_iter().flatten().chain(text.is_none().then_some(None))
    })
}

/// The `for` parameter of one element of `Forwarded`.
///
/// Addresses contain neither commas nor semicolons, so quoted strings with either in them are cut
/// apart here and then are not addresses: the text that a trusted proxy appended stays the
/// right-most element regardless of the text before it.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut values = element.split(';').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then_some(value.trim())
    });
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    let unquoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    node(unquoted.unwrap_or(value))
}

/// An address with or without a port: `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]`,
/// `[2001:db8::1]:80`, `2001:db8::1`.
fn node(text: &str) -> Option<IpAddr> {
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok();
    let address = text
        .parse::<IpAddr>()
        .or_else(|error| bracketed().map(IpAddr::V6).ok_or(error))
        .or_else(|_| text.parse::<SocketAddr>().map(|socket| socket.ip()));
    address.ok().map(|address| address.to_canonical())
}

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

// The signal to stop: it is triggered once, and every task that waits for it gets it.

/// Makes a trigger and the signal that it sets off. The signal may be cloned freely.
pub fn shutdown() -> (ShutdownTrigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (ShutdownTrigger(sender), Shutdown(receiver))
}

/// Sets off its [`Shutdown`] signals. Dropping it does the same, so that a server never outlives
/// the owner of its trigger.
#[derive(Debug)]
pub struct ShutdownTrigger(watch::Sender<bool>);

impl ShutdownTrigger {
    /// Triggers the shutdown. A second call changes nothing.
    pub fn trigger(&self) {
        self.0.send_replace(true);
    }
}

/// The signal that the server is about to stop.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// Whether the shutdown is triggered.
    pub fn is_triggered(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Waits until the shutdown is triggered; returns at once when it already is.
    pub async fn triggered(&self) {
        // An error means that the trigger is gone, which counts as triggered.
        let _ = self.0.clone().wait_for(|triggered| *triggered).await;
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const PEER: &str = "10.0.0.1";

    /// The trusted networks are 10.0.0.0/8 and fd00::/8.
    fn trusted(address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => address.octets()[0] == 10,
            IpAddr::V6(address) => address.octets()[0] == 0xfd,
        }
    }

    fn source(peer: &str, header: ForwardedHeader, lines: &[(&HeaderName, &str)]) -> String {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        source_address(peer.parse().unwrap(), &headers, header, trusted).to_string()
    }

    #[test]
    fn forwarding_headers_of_untrusted_peers_are_ignored() {
        let lines = [(&FORWARDED, "for=198.51.100.7"), (&X_FORWARDED_FOR, "198.51.100.7")];
        for header in [ForwardedHeader::Forwarded, ForwardedHeader::XForwardedFor] {
            assert_eq!(source("192.0.2.1", header, &lines), "192.0.2.1");
            assert_eq!(source("::ffff:192.0.2.1", header, &lines), "192.0.2.1");
            assert_eq!(source(PEER, header, &[]), PEER);
            assert_eq!(source("::ffff:10.0.0.1", header, &lines), "198.51.100.7");
        }
    }

    #[test]
    fn the_source_is_read_from_forwarded() {
        #[rustfmt::skip]
        let table = [
            ("for=192.0.2.1", "192.0.2.1"),
            ("FOR=192.0.2.1;proto=https;by=10.0.0.9", "192.0.2.1"),
            ("proto=https ; for = \"192.0.2.1:4711\"", "192.0.2.1"),
            ("for=\"[2001:db8::1]\"", "2001:db8::1"),
            ("for=\"[2001:db8::1]:4711\"", "2001:db8::1"),
            ("for=\"[::ffff:192.0.2.1]\"", "192.0.2.1"),
            ("for=203.0.113.9, for=192.0.2.1", "192.0.2.1"),
            ("for=192.0.2.1, for=10.0.0.2, for=\"[fd00::1]\"", "192.0.2.1"),
            ("for=garbage, for=192.0.2.1, for=10.0.0.2", "192.0.2.1"),
            ("for=10.0.0.3, for=10.0.0.2", "10.0.0.3"),
            // An unclosed quoted string of the client does not hide what the proxy appends.
            ("for=\"203.0.113.9, for=192.0.2.1", "192.0.2.1"),
            ("for=\"203.0.113.9, for=\"192.0.2.1\"", "192.0.2.1"),
            // The value is not an address, so the peer is the source.
            ("", PEER),
            ("for=", PEER),
            ("for=unknown", PEER),
            ("for=_hidden", PEER),
            ("for=\"_hidden:_port\"", PEER),
            ("for=192.0.2.1, for=unknown, for=10.0.0.2", PEER),
            ("for=192.0.2.1, proto=https", PEER),
            ("for=192.0.2.1;for=192.0.2.2", PEER),
            ("for=192.0.2.1,", PEER),
            ("for=\"192.0.2.1", PEER),
            ("for=\"[2001:db8::1\"", PEER),
            ("for=192.0.2.256", PEER),
            ("192.0.2.1", PEER),
        ];
        for (value, expected) in table {
            assert_eq!(
                source(PEER, ForwardedHeader::Forwarded, &[(&FORWARDED, value)]),
                expected,
                "Forwarded: {value}"
            );
        }
    }

    #[test]
    fn the_source_is_read_from_x_forwarded_for() {
        #[rustfmt::skip]
        let table = [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:4711", "192.0.2.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:4711", "2001:db8::1"),
            ("203.0.113.9, 192.0.2.1 , 10.0.0.2", "192.0.2.1"),
            ("10.0.0.3,10.0.0.2", "10.0.0.3"),
            ("", PEER),
            ("unknown", PEER),
            ("192.0.2.1, nonsense", PEER),
            ("192.0.2.1:99999", PEER),
            ("192.0.2.1, \u{e9}", PEER),
        ];
        for (value, expected) in table {
            assert_eq!(
                source(PEER, ForwardedHeader::XForwardedFor, &[(&X_FORWARDED_FOR, value)]),
                expected,
                "X-Forwarded-For: {value}"
            );
        }
    }

    #[test]
    fn header_lines_are_joined_in_order_and_only_the_chosen_header_is_read() {
        use ForwardedHeader::{Forwarded, XForwardedFor};

        let lines = [(&X_FORWARDED_FOR, "203.0.113.9"), (&X_FORWARDED_FOR, "192.0.2.1, 10.0.0.2")];
        assert_eq!(source(PEER, XForwardedFor, &lines), "192.0.2.1");
        // The proxy appends to one header and passes the other on as the client sent it.
        let forged = [(&FORWARDED, "for=203.0.113.9"), (&X_FORWARDED_FOR, "192.0.2.1")];
        assert_eq!(source(PEER, XForwardedFor, &forged), "192.0.2.1");
        assert_eq!(source(PEER, Forwarded, &forged), "203.0.113.9");
        assert_eq!(source(PEER, Forwarded, &forged[1..]), PEER);
    }
}
