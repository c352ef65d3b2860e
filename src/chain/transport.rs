//! One HTTP exchange with a node, bounded in bytes. The caller bounds the time.
//!
//! HTTP/1.1 over the TLS library that the listeners use. It follows no redirect, uses no proxy, and
//! asks for answers without compression, so the bytes that arrive are the bytes that are read. It
//! keeps one connection open between exchanges.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, RETRY_AFTER,
    USER_AGENT,
};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use selfsame_actors::NodeError;
use selfsame_protocol::trace_context::TRACEPARENT;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, crypto};

use super::node_url::NodeUrl;
use crate::pem::{AuthoritiesError, root_certificates};
use crate::trace_context;

/// The most bytes of a response's head.
const LONGEST_HEAD: usize = 64 << 10;

/// The most bytes that are read of a response with an error status. An error is a short text.
const LONGEST_ERROR: usize = 64 << 10;

/// How long one address of a host may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

const AGENT: &str = concat!("selfsame/", env!("CARGO_PKG_VERSION"));

/// Why a node cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeSetupError {
    /// The URL begins with `http://`, and the node is on another machine.
    #[error(
        "{name} would be asked over plain HTTP, so that every machine on the way could change its answers; use https://"
    )]
    PlainHttp {
        /// The node's name.
        name: String,
    },
    /// The URL's host is not a name that a certificate can have.
    #[error("{name} is not a host name that a TLS certificate can be made for")]
    HostName {
        /// The node's name.
        name: String,
    },
    /// The certificate authorities cannot be used.
    #[error(transparent)]
    Authorities(#[from] AuthoritiesError),
    /// The TLS library refuses its settings.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

/// A connection to a node. Dropping it closes it.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// What a node answered over HTTP.
pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Sends requests to one node.
pub(super) struct Transport {
    url: NodeUrl,
    /// `None` for plain HTTP.
    tls: Option<(TlsConnector, ServerName<'static>)>,
    longest_answer: usize,
    /// The connection of the last exchange, if it can be used again.
    idle: Mutex<Option<Connection>>,
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Transport {
    /// Prepares exchanges with the node at `url`. `authorities` is a PEM file with the certificates
    /// that the node's certificate must descend from; `None` stands for the system's.
    pub(super) fn new(
        url: NodeUrl,
        authorities: Option<&Path>,
        allow_plain_http: bool,
        longest_answer: usize,
    ) -> Result<Self, NodeSetupError> {
        if !url.is_https() && !url.is_loopback() && !allow_plain_http {
            return Err(NodeSetupError::PlainHttp { name: url.name().to_owned() });
        }
        let tls = match url.is_https() {
            true => Some((tls_connector(authorities)?, server_name(&url)?)),
            false => None,
        };
        let (requests, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { url, tls, longest_answer, idle: Mutex::new(None), requests, bytes })
    }

    /// The node's URL.
    pub(super) fn url(&self) -> &NodeUrl {
        &self.url
    }

    /// HTTP requests that were sent, and bytes of bodies that were received.
    pub(super) fn counters(&self) -> (u64, u64) {
        (self.requests.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Posts a JSON body and reads the whole response.
    pub(super) async fn post(&self, body: Bytes) -> Result<Response, NodeError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let reused = match idle.filter(|connection| !connection.sender.is_closed()) {
            // The node may close an idle connection at any moment. Every request is a read, so it
            // can be sent once more.
            Some(mut connection) => self.send(&mut connection, body.clone()).await.ok().map(|head| (connection, head)),
            None => None,
        };
        let (connection, response) = match reused {
            Some(answered) => answered,
            None => {
                let mut connection = self.connect().await?;
                let response = self.send(&mut connection, body).await?;
                (connection, response)
            }
        };
        let (head, incoming) = response.into_parts();
        if head.headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            let reason = NodeError::Malformed("the body is compressed, which was not asked for".to_owned());
            return Err(if head.status.is_success() { reason } else { status_error(head.status, &head.headers, "") });
        }
        let limit = if head.status.is_success() { self.longest_answer } else { LONGEST_ERROR.min(self.longest_answer) };
        let announced = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        let too_large = || match head.status.is_success() {
            true => NodeError::TooLarge { limit },
            false => status_error(head.status, &head.headers, ""),
        };
        if announced.is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let body = self.read(incoming, limit).await?.ok_or_else(too_large)?;
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
        Ok(Response { status: head.status, headers: head.headers, body })
    }

    async fn send(&self, connection: &mut Connection, body: Bytes) -> Result<http::Response<Incoming>, NodeError> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.url.path_and_query())
            .header(HOST, self.url.name())
            .header(USER_AGENT, AGENT)
            .header(ACCEPT, "application/json")
            // Without it every coding is acceptable (RFC 9110, 12.5.3).
            .header(ACCEPT_ENCODING, "identity")
            .header(CONTENT_TYPE, "application/json");
        let request = match trace_context::current() {
            Some(parent) => request.header(TRACEPARENT, parent.to_string()),
            None => request,
        };
        let request = match self.url.authorization() {
            Some(authorization) => request.header(AUTHORIZATION, authorization),
            None => request,
        };
        // An error of the builder would name no part of the request.
        let request = request.body(Full::new(body)).map_err(|_| unreachable("the request cannot be built"))?;
        connection.sender.ready().await.map_err(|error| broken(&error))?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        connection.sender.send_request(request).await.map_err(|error| broken(&error))
    }

    /// Reads a body; `None` when it is longer than `limit` bytes.
    async fn read(&self, mut incoming: Incoming, limit: usize) -> Result<Option<Bytes>, NodeError> {
        let mut body = BytesMut::new();
        while let Some(frame) = incoming.frame().await {
            let frame = frame.map_err(|error| broken(&error))?;
            let Ok(data) = frame.into_data() else { continue };
            self.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
            if data.len() > limit - body.len() {
                return Ok(None);
            }
            body.extend_from_slice(&data);
        }
        Ok(Some(body.freeze()))
    }

    async fn connect(&self) -> Result<Connection, NodeError> {
        let stream = open(self.url.host(), self.url.port()).await.map_err(|error| failed(&error))?;
        // A request is one write; delaying it only costs time.
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        match &self.tls {
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await.map_err(|error| failed(&error))?;
                handshake(stream).await
            }
            None => handshake(stream).await,
        }
    }
}

/// Connects to the first address of the host that answers. An address that does not answer leaves
/// time for the next one.
async fn open(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in lookup_host((host, port)).await? {
        match timeout(CONNECT_LIMIT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = error,
            Err(_) => failure = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failure)
}

async fn handshake<S>(stream: S) -> Result<Connection, NodeError>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new();
    builder.max_buf_size(LONGEST_HEAD);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    let driver = tokio::spawn(async move {
        // An error also reaches the exchange that waits for an answer.
        let _ = connection.await;
    });
    Ok(Connection { sender, driver })
}

/// Whether the node asks for fewer questions, and how long it asks to wait. A date in `Retry-After`
/// counts as no time.
pub(super) fn rate_limit(status: StatusCode, headers: &HeaderMap) -> Option<Option<Duration>> {
    let header = headers.get(RETRY_AFTER);
    let is_limit =
        status == StatusCode::TOO_MANY_REQUESTS || (status == StatusCode::SERVICE_UNAVAILABLE && header.is_some());
    let seconds = || header?.to_str().ok()?.trim().parse::<u32>().ok();
    is_limit.then(|| seconds().map(|seconds| Duration::from_secs(seconds.into())))
}

/// The error of a response with an error status and without an answer. `text` is the node's.
pub(super) fn status_error(status: StatusCode, headers: &HeaderMap, text: &str) -> NodeError {
    let text = text.to_owned();
    match rate_limit(status, headers) {
        Some(retry_after) => NodeError::RateLimited { retry_after, text },
        None => NodeError::Status { status: status.as_u16(), text },
    }
}

fn unreachable(reason: &str) -> NodeError {
    NodeError::Unreachable(reason.to_owned())
}

fn failed(error: &io::Error) -> NodeError {
    NodeError::Unreachable(error.to_string())
}

/// An error of the HTTP library, with its cause. It knows no URL.
fn broken(error: &hyper::Error) -> NodeError {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    NodeError::Unreachable(format!("{error}{}", cause.unwrap_or_default()))
}

fn server_name(url: &NodeUrl) -> Result<ServerName<'static>, NodeSetupError> {
    ServerName::try_from(url.host().to_owned()).map_err(|_| NodeSetupError::HostName { name: url.name().to_owned() })
}

/// TLS 1.2 and 1.3 with the certificates of `authorities`, or of the system.
pub(crate) fn tls_connector(authorities: Option<&Path>) -> Result<TlsConnector, NodeSetupError> {
    let roots = root_certificates(authorities)?;
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| NodeSetupError::Tls(error.to_string()))?;
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
