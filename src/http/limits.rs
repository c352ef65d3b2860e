//! What one listener allows its clients.

use std::time::Duration;

/// What one listener allows its clients. The values may change while the listener is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most connections open at once. Further connections wait in the kernel's backlog until
    /// another one ends.
    pub connections: usize,
    /// Of these, connections of one source address (IPv6: of one /64). A further connection is
    /// closed at once. Trusted proxies have no such limit.
    pub connections_per_source: usize,
    /// Time from the connection to the end of its first request's head.
    pub header_timeout: Duration,
    /// A connection on which no request began, ended or was under way for this long is closed,
    /// within twice this time. This also ends a client that sends the head of a later request too
    /// slowly.
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
    /// 503. Bounds the memory of heads. A source may have a quarter of them (trusted proxies all).
    pub requests: usize,
    /// Bytes of all bodies that are being read or worked on; a request beyond them is answered 503.
    pub body_bytes: usize,
    /// Bytes of all answers of more than 4 KiB that their clients have not taken; a request beyond
    /// them is answered 503. A source may have a quarter of them (trusted proxies all).
    pub answer_bytes: usize,
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
        }
    }
}
