//! Sends traces of requests to a collector, by OTLP over HTTP (`[traces]`, feature `otlp`).
//!
//! A trace has the spans of the log: the client's request, and the operation that it leads to,
//! until the operation is final. Events of the level debug are in it, too, whatever the log shows.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response, Uri};
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use selfsame_interfaces::http::client::{Client, ClientError, RemoteServer, Reuse};
use selfsame_interfaces::pem::{AuthoritiesError, tls_connector};
use tokio::runtime::Handle;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::Layer;

use crate::config::Traces;
use crate::logging::BoxedLayer;

/// The traces that are sent; none without a collector. Dropping it sends what was not sent yet, for
/// at most five seconds; it blocks the thread, and needs the runtime of [`start`].
#[derive(Default)]
pub struct SentTraces(Option<SdkTracerProvider>);

impl Drop for SentTraces {
    fn drop(&mut self) {
        if let Some(provider) = &self.0
            && let Err(error) = provider.shutdown()
        {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}

/// Begins to record traces, and to send them from this runtime. The layer, which there is with a
/// collector, is for [`crate::logging::start`].
///
/// # Errors
/// The collector's URL is https, and the system has no certificate authorities; or the exporter
/// cannot be set up.
pub fn start(settings: &Traces) -> Result<(Option<BoxedLayer>, SentTraces), CollectorError> {
    let Some(collector) = &settings.collector else { return Ok((None, SentTraces::default())) };
    let url = collector.traces_url();
    let client = CollectorClient::new(&url)?;
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(url)
        .build()
        .map_err(|error| CollectorError::Exporter(error.to_string()))?;
    let share = 1.0 / settings.one_in.get() as f64;
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(share))))
        .with_resource(Resource::builder_empty().with_service_name("selfsame").with_attribute(version).build())
        .build();
    let layer = tracing_opentelemetry::layer::<Registry>()
        .with_tracer(provider.tracer("selfsame"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false);
    Ok((Some(layer.boxed()), SentTraces(Some(provider))))
}

// The HTTP client of the exporter of traces.

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
    Tls(#[from] AuthoritiesError),
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
    client: Client,
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
        let tls = (uri.scheme_str() == Some("https")).then(|| tls_connector(None)).transpose()?;
        let server = RemoteServer::of_url(&uri, tls.as_ref()).ok_or_else(invalid)?;
        server.check_name().map_err(|_| invalid())?;
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let client = Client::new(server, Reuse::Never, None);
        let shared = Shared { host, client, is_failing: AtomicBool::new(false) };
        Ok(Self { shared: Arc::new(shared), runtime: Handle::current() })
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let shared = Arc::clone(&self.shared);
        let exchange = async move {
            let answered = shared.client.exchange(request, LONGEST_ANSWER, LIMIT).await;
            shared.report(&answered);
            answered.map_err(HttpError::from)
        };
        self.runtime.spawn(exchange).await?
    }
}

impl Shared {
    /// Logs the first failure of several in a row, and the success after them.
    fn report(&self, answered: &Result<Response<Bytes>, ClientError>) {
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
