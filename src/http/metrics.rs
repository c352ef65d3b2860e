//! The Prometheus metrics of the front-end.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use selfsame_actors::{Histogram as PlainHistogram, HistogramSnapshot};

/// The upper bounds of the latency histogram's buckets, in seconds: from one read of a snapshot to
/// a long poll.
const LATENCY_BUCKETS: [f64; 13] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    interface: &'static str,
    route: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    interface: &'static str,
    route: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ListenerLabel {
    listener: String,
}

/// Of what a limit of one source refuses requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLimitLabels {
    limit: &'static str,
    endpoints: &'static str,
}

/// The endpoints of a limit that holds for all requests of a listener.
const ALL_ENDPOINTS: &str = "all";

/// The metrics of all listeners of the process. Clones share their values.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    latency: Family<RouteLabels, Histogram, fn() -> Histogram>,
    source_limits: Family<SourceLimitLabels, Counter>,
    open_connections: Family<ListenerLabel, Gauge>,
    /// The latency of all routes that clients of the public call and that answer at once.
    public_latency: Arc<PlainHistogram>,
}

impl Metrics {
    /// Makes the metrics and adds them to `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            latency: Family::new_with_constructor(|| Histogram::new(LATENCY_BUCKETS)),
            source_limits: Family::default(),
            open_connections: Family::default(),
            public_latency: Arc::new(PlainHistogram::new(&LATENCY_BUCKETS)),
        };
        registry.register("http_requests", "Requests answered", metrics.requests.clone());
        registry.register_with_unit(
            "http_request_duration",
            "Time from a request's head to the head of its answer",
            Unit::Seconds,
            metrics.latency.clone(),
        );
        let help = "Requests and connections refused by the limit of one source or application";
        registry.register("source_limit_refusals", help, metrics.source_limits.clone());
        registry.register("http_open_connections", "Connections open now", metrics.open_connections.clone());
        metrics
    }

    /// Counts what the limit of one source refuses at a group of endpoints. Both names become
    /// labels, so they must not come from clients.
    pub fn source_limit(&self, limit: &'static str, endpoints: &'static str) -> Counter {
        self.source_limits.get_or_create_owned(&SourceLimitLabels { limit, endpoints })
    }

    /// Counts what the listeners' own limits of one source refuse.
    pub(super) fn source_refusals(&self) -> SourceRefusals {
        let counter = |limit| self.source_limit(limit, ALL_ENDPOINTS);
        SourceRefusals {
            connections: counter("max_connections_per_source"),
            requests: counter("requests"),
            body_bytes: counter("body_bytes"),
            answer_bytes: counter("answer_bytes"),
        }
    }

    /// The number of open connections of a listener.
    pub(super) fn open_connections(&self, listener: &str) -> Gauge {
        self.open_connections.get_or_create_owned(&ListenerLabel { listener: listener.to_owned() })
    }

    /// The seconds that requests took to routes which clients of the public call and which answer
    /// at once.
    pub fn public_latency(&self) -> HistogramSnapshot {
        self.public_latency.snapshot()
    }

    /// The metrics of one route. `is_public` says whether clients of the public call it and it
    /// answers at once. They are shown from its first request on.
    pub(super) fn route(&self, interface: &'static str, route: &'static str, is_public: bool) -> RouteMetrics {
        RouteMetrics { metrics: self.clone(), interface, route, is_public, latency: OnceLock::new() }
    }
}

/// What the limits of one source refused at the listeners.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceRefusals {
    /// Connections that were closed at once, and requests of clients that occupy their share of a
    /// proxy's connections.
    pub connections: Counter,
    /// Requests beyond the share of open requests.
    pub requests: Counter,
    /// Requests whose body is beyond the share of all bodies.
    pub body_bytes: Counter,
    /// Requests whose answer is beyond the share of all answers.
    pub answer_bytes: Counter,
}

/// The metrics of one route of one interface.
#[derive(Debug)]
pub(super) struct RouteMetrics {
    metrics: Metrics,
    interface: &'static str,
    route: &'static str,
    is_public: bool,
    latency: OnceLock<Histogram>,
}

impl RouteMetrics {
    pub(super) fn observe(&self, status: StatusCode, elapsed: Duration) {
        let Self { metrics, interface, route, is_public, latency } = self;
        let labels = RequestLabels { interface, route, status: status.as_u16() };
        metrics.requests.get_or_create(&labels).inc();
        let latency = latency.get_or_init(|| metrics.latency.get_or_create_owned(&RouteLabels { interface, route }));
        latency.observe(elapsed.as_secs_f64());
        if *is_public {
            metrics.public_latency.observe_duration(elapsed);
        }
    }
}
