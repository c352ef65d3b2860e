//! The HTTP client of the exporter of traces.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient, HttpError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::chain::{NodeSetupError, tls_connector};

/// How long one export may take.
const LIMIT: Duration = Duration::from_secs(5);

/// The most bytes that are read of an answer.
const LONGEST_ANSWER: usize = 64 << 10;

/// Why traces cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum CollectorError {
    /// The host is not a name that a certificate can have.
    #[error("traces.collector: {0} is not a host name that a TLS certificate can be made for")]
    HostName(String),
    /// TLS cannot be set up.
    #[error("traces.collector: {0}")]
    Tls(#[from] NodeSetupError),
    /// The exporter cannot be set up.
    #[error("traces.collector: {0}")]
    Exporter(String),
}

/// Posts to one collector, with a connection for each export: there is one in five seconds.
#[derive(Clone)]
pub(super) struct CollectorClient {
    shared: Arc<Shared>,
    /// The exporter calls from a thread of its own, outside the runtime.
    runtime: Handle,
}

struct Shared {
    host: String,
    port: u16,
    /// The value of the header `Host`.
    authority: HeaderValue,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    is_failing: AtomicBool,
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CollectorClient").field("host", &self.shared.host).finish_non_exhaustive()
    }
}

impl CollectorClient {
    /// A client for the collector at `url`, which runs on the present runtime.
    pub fn new(url: &str) -> Result<Self, CollectorError> {
        let invalid = || CollectorError::HostName(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let authority = uri.authority().ok_or_else(invalid)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_https = uri.scheme_str() == Some("https");
        let tls = match is_https {
            true => {
                let name = ServerName::try_from(host.clone()).map_err(|_| invalid())?;
                Some((tls_connector(None)?, name))
            }
            false => None,
        };
        let port = authority.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let authority = HeaderValue::from_str(authority.as_str()).map_err(|_| invalid())?;
        let shared = Shared { host, port, authority, tls, is_failing: AtomicBool::new(false) };
        Ok(Self { shared: Arc::new(shared), runtime: Handle::current() })
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let shared = Arc::clone(&self.shared);
        let exchange = async move {
            let answered = timeout(LIMIT, shared.exchange(request)).await.unwrap_or_else(|elapsed| Err(elapsed.into()));
            shared.report(&answered);
            answered
        };
        self.runtime.spawn(exchange).await?
    }
}

impl Shared {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        match &self.tls {
            Some((connector, name)) => self.send(connector.connect(name.clone(), stream).await?, request).await,
            None => self.send(stream, request).await,
        }
    }

    async fn send<S>(&self, stream: S, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // An error also reaches the exchange that waits for an answer.
        let driver = tokio::spawn(async move { drop(connection.await) });
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str()).parse()?;
        *request.uri_mut() = target;
        request.headers_mut().insert(HOST, self.authority.clone());
        let (head, body) = sender.send_request(request.map(Full::new)).await?.into_parts();
        let body = Limited::new(body, LONGEST_ANSWER).collect().await?.to_bytes();
        driver.abort();
        Ok(Response::from_parts(head, body))
    }

    /// Logs the first failure of several in a row, and the success after them.
    fn report(&self, answered: &Result<Response<Bytes>, HttpError>) {
        let failure = match answered {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("the collector answers with status {}", response.status())),
            Err(error) => Some(error.to_string()),
        };
        match (failure, self.is_failing.load(Ordering::Relaxed)) {
            (Some(reason), false) => {
                self.is_failing.store(true, Ordering::Relaxed);
                tracing::warn!(collector = self.host, reason, "traces cannot be sent");
            }
            (None, true) => {
                self.is_failing.store(false, Ordering::Relaxed);
                tracing::info!(collector = self.host, "traces are sent again");
            }
            _ => {}
        }
    }
}
