//! The metrics of the front-end. Every label is known when the servers are made: a request counts
//! in places that its route already has.

use std::array;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use selfsame_actors::{Histogram, HistogramSnapshot, Metrics as AllMetrics, Samples, register_refusals};

/// The upper bounds of the latency histogram's buckets, in seconds: from one read of a snapshot to
/// a long poll.
const LATENCY_BUCKETS: [f64; 13] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0];

/// The endpoints of a limit that holds for all requests of a listener.
const ALL_ENDPOINTS: &str = "all";

/// The first status code, and how many there are with a meaning (RFC 9110, section 15).
const FIRST_STATUS: u16 = 100;
const STATUSES: usize = 500;

/// The metrics of all listeners of the process. Clones share their values.
#[derive(Clone)]
pub struct Metrics {
    counts: Arc<Counts>,
    source_refusals: SourceRefusals,
    /// The latency of all routes that clients of the public call and that answer at once.
    public_latency: Histogram,
}

/// What the servers add when they are made.
#[derive(Default)]
struct Counts {
    routes: Mutex<Vec<Arc<RouteCounts>>>,
    open_connections: Mutex<Vec<(String, Gauge)>>,
}

fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Metrics {
    /// Makes the metrics and adds them to those of the process.
    pub fn register(all: &mut AllMetrics) -> Self {
        let counts = Arc::new(Counts::default());
        let written = Arc::clone(&counts);
        all.add_group(move |samples| written.write(samples));
        let source_refusals = SourceRefusals::default();
        let SourceRefusals { connections, requests, body_bytes, answer_bytes } = &source_refusals;
        register_refusals(all, "max_connections_per_source", ALL_ENDPOINTS, connections);
        register_refusals(all, "requests", ALL_ENDPOINTS, requests);
        register_refusals(all, "body_bytes", ALL_ENDPOINTS, body_bytes);
        register_refusals(all, "answer_bytes", ALL_ENDPOINTS, answer_bytes);
        Self { counts, source_refusals, public_latency: Histogram::new(&LATENCY_BUCKETS) }
    }

    /// Counts what the listeners' own limits of one source refuse.
    pub(super) fn source_refusals(&self) -> SourceRefusals {
        self.source_refusals.clone()
    }

    /// The number of open connections of a listener.
    pub(super) fn open_connections(&self, listener: &str) -> Gauge {
        let mut listeners = lock(&self.counts.open_connections);
        if let Some((_, open)) = listeners.iter().find(|(known, _)| known == listener) {
            return open.clone();
        }
        let open = Gauge::default();
        listeners.push((listener.to_owned(), open.clone()));
        open
    }

    /// The seconds that requests took to routes which clients of the public call and which answer
    /// at once.
    pub fn public_latency(&self) -> HistogramSnapshot {
        self.public_latency.snapshot()
    }

    /// The metrics of one route. `is_public` says whether clients of the public call it and it
    /// answers at once. They are shown from its first request on.
    pub(super) fn route(&self, interface: &'static str, route: &'static str, is_public: bool) -> RouteMetrics {
        let mut routes = lock(&self.counts.routes);
        let known = routes.iter().find(|counts| (counts.interface, counts.route) == (interface, route)).cloned();
        let counts = known.unwrap_or_else(|| {
            let counts = Arc::new(RouteCounts::new(interface, route));
            routes.push(Arc::clone(&counts));
            counts
        });
        RouteMetrics { counts, public_latency: is_public.then(|| self.public_latency.clone()) }
    }
}

impl Counts {
    fn write(&self, samples: &mut Samples<'_>) -> fmt::Result {
        let routes = lock(&self.routes);
        let routes: Vec<_> = routes.iter().filter(|counts| counts.latency.snapshot().count > 0).collect();
        if !routes.is_empty() {
            let answered: Vec<_> = routes.iter().flat_map(|counts| counts.answered()).collect();
            let requests = answered.iter().map(|(counts, status, count)| {
                ([("interface", counts.interface), ("route", counts.route), ("status", status.as_str())], *count)
            });
            samples.counters("selfsame_http_requests", "Requests answered.", requests)?;
            let help = "Time from a request's head to the head of its answer.";
            let latencies = routes
                .iter()
                .map(|counts| ([("interface", counts.interface), ("route", counts.route)], &counts.latency));
            samples.histograms_of_seconds("selfsame_http_request_duration", help, latencies)?;
        }
        let listeners = lock(&self.open_connections);
        let open = listeners.iter().map(|(listener, open)| ([("listener", listener.as_str())], open.get()));
        samples.gauges("selfsame_http_open_connections", "Connections open now.", open)
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

/// What is counted for one route of one interface, at all addresses.
struct RouteCounts {
    interface: &'static str,
    route: &'static str,
    latency: Histogram,
    /// The requests answered with each status code, from [`FIRST_STATUS`] on.
    by_status: [AtomicU64; STATUSES],
}

impl RouteCounts {
    fn new(interface: &'static str, route: &'static str) -> Self {
        let by_status = array::from_fn(|_| AtomicU64::new(0));
        Self { interface, route, latency: Histogram::new(&LATENCY_BUCKETS), by_status }
    }

    /// The status codes that were answered, with the number of requests.
    fn answered(&self) -> impl Iterator<Item = (&Self, StatusCode, u64)> {
        (FIRST_STATUS..).zip(&self.by_status).filter_map(move |(status, count)| {
            let count = Some(count.load(Ordering::Relaxed)).filter(|count| *count > 0)?;
            Some((self, StatusCode::from_u16(status).ok()?, count))
        })
    }
}

/// The metrics of one route of one interface.
pub(super) struct RouteMetrics {
    counts: Arc<RouteCounts>,
    /// Where the latency counts too, for a public route.
    public_latency: Option<Histogram>,
}

impl RouteMetrics {
    pub(super) fn observe(&self, status: StatusCode, elapsed: Duration) {
        let place = usize::from(status.as_u16() - FIRST_STATUS).min(STATUSES - 1);
        self.counts.by_status[place].fetch_add(1, Ordering::Relaxed);
        self.counts.latency.observe_duration(elapsed);
        if let Some(public_latency) = &self.public_latency {
            public_latency.observe_duration(elapsed);
        }
    }
}
