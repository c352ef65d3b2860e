//! The thin HTTP front-end: HTTP/1.1 and HTTP/2 on one port, on hyper.
//!
//! It contains nothing of the registry, verification or sign-in. Each interface (gateway, indexer,
//! …) brings a [`Router`] with its handlers and an error type that renders rejections in its own
//! style; this module does everything between the socket and the handler.
//!
//! | module | what it has |
//! |---|---|
//! | [`listener`], [`tls`] | where connections are accepted: a TCP port or a unix socket, with a certificate |
//! | [`server`] | connections, from their acceptance to their end; those of all listeners of the process |
//! | [`mounted`] | a site in another program's server |
//! | [`dispatch`] | one request, from its head to the head of its answer; its id |
//! | [`router`] | which handler has a method and a path |
//! | [`exchange`] | what a request needs of its connection: its source, the permits, the signal to stop |
//! | [`load`] | the limits, and what the clients of a listener hold |
//! | [`request`], [`authorization`] | a request as its handler sees it, its body, streams; who it says that it is |
//! | [`response`] | answers, rejections, CORS and deprecation |
//! | [`client`] | the other direction: what the daemon asks of other servers |
//! | [`metrics`], [`audit`] | what is counted; the access log and the audit trail |
//!
//! [`Mounted`] is a [`Site`] in another program's server: steps 3 to 6 below are the same there.
//!
//! # The life of a connection
//!
//! 1. [`Server::run`] accepts it from its [`Listener`], a TCP port or a unix socket, unless as many
//!    are open as [`Limits::connections`] allows; then it waits in the kernel's backlog. The last
//!    eighth of the connections is a reserve: only routes that ask for it ([`Router::reserve`]) are
//!    answered there (`load.rs`). When all listeners together have as many connections as the
//!    process has descriptors for, those are closed that have been idle for longest
//!    (`server.rs`).
//! 2. hyper tells HTTP/2 (prior knowledge) from HTTP/1.1 by the first bytes and reads the head of a
//!    request. A client that does not get that far within [`Limits::header_timeout`], or leaves its
//!    connection unused for [`Limits::idle_timeout`], is asked to close its connection and then
//!    dropped (`server.rs`). Heads that are malformed, ambiguously framed or too large never
//!    reach this code: hyper answers 400, 414 or 431 and closes; these are the only answers without
//!    an `X-Request-Id`. (Codings in front of `chunked`, which hyper ignores, are refused in
//!    `dispatch.rs`.)
//! 3. For each request its source is read (`exchange.rs`), to which everything is charged that the
//!    request holds (`load.rs`). `dispatch.rs` finds or makes its [`RequestId`], asks the [`Site`]
//!    which interface and route the path belongs to, and opens a span with all three: every log
//!    event that happens for the request is inside it.
//! 4. The handler runs, within the request timeout or its route's own limit. It reads the body
//!    through [`Request::read_body`], which is counted, so that neither a large nor a slow body
//!    costs more than the limits allow. A panic becomes [`Rejection::Internal`].
//! 5. An error of the interface, or a [`Rejection`], is logged with its reason and rendered by the
//!    interface ([`InterfaceError`]), for a browser as a page where the interface has pages
//!    ([`Router::error_pages`]).
//! 6. A large answer takes room among the answers that their clients have not taken, or is replaced
//!    by a 503 (`load.rs`). The answer gets its CORS headers and `X-Request-Id`, is counted and
//!    logged, and is sent; with HTTP/1.1 in the order of the requests. Its request is in flight
//!    until hyper has written the answer. What the handler left of the body is read and discarded
//!    for a short time (`request.rs`).
//! 7. At [`Shutdown`] the server accepts no more connections, each connection finishes its requests
//!    in flight, and the connections that are left after [`Limits::grace`] are dropped. Long polls
//!    get the same signal through [`Request::shutdown`].

mod audit;
mod authorization;
pub mod client;
mod dispatch;
mod exchange;
mod listener;
mod load;
mod metrics;
mod mounted;
mod request;
mod response;
mod router;
mod server;
#[cfg(test)]
mod tests;
mod tls;

pub use audit::{AUDIT_TARGET, AccessLog, AuditNotes, AuditOutcome, AuditTrail};
pub use authorization::{Authorization, challenge};
pub use dispatch::{RequestId, X_REQUEST_ID};
pub use exchange::{Shutdown, ShutdownTrigger, shutdown, source_address};
pub use listener::{
    BoundUnixSocket, LONGEST_SOCKET_PATH, Listener, SocketPathError, UnixSocketError, bind_tcp, check_socket_path,
};
pub use load::{ForwardedHeader, Limits};
pub use metrics::Metrics;
pub(crate) use mounted::MountedParts;
pub use mounted::{ClientAddress, Mounted};
pub use request::{HEARTBEAT, LONGEST_WAIT, Request, StreamLife, WAITING_LIMIT, event_stream};
pub use response::{
    AllowedOrigins, Body, Cors, DEPRECATED_SINCE, DEPRECATION_ENDS, ErrorBody, ErrorCodes, InterfaceError, Rejection,
    Response, content, empty, exists, json, reject, stream, written_json,
};
pub use router::{Before, ErrorPage, RouteError, Router, Routes, Site};
pub use server::{Server, SharedConnections, descriptor_limit, most_connections, raise_descriptor_limit};
pub use tls::{Certificate, TlsError};
