//! Sends traces of requests to a collector, by OTLP over HTTP (`[traces]`, feature `otlp`).
//!
//! A trace has the spans of the log: the client's request, and the operation that it leads to,
//! until the operation is final. Events of the level debug are in it, too, whatever the log shows.

mod collector;

use collector::CollectorClient;
pub use collector::CollectorError;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
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
