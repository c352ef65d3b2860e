//! What one listener allows its clients.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// What one source may have of a limit: a quarter, rounded up.
pub(super) fn quarter(limit: usize) -> usize {
    limit.div_ceil(4)
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
