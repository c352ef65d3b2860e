//! `GET /metrics`: the numbers, in the Prometheus (OpenMetrics) text format.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use hyper::StatusCode;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use selfsame_actors::RegistryStatistics;

use super::Operator;
use super::error::OperatorError;
use crate::http::{Request, Response, content};

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The registry's numbers.
pub struct RegistryMetrics {
    accepted: Counter,
    finalized: Counter,
    failed: Counter,
    open_requests: Gauge<u64, AtomicU64>,
    status_waiters: Gauge<u64, AtomicU64>,
    ledger_height: Gauge<u64, AtomicU64>,
    applied_height: Gauge<u64, AtomicU64>,
    accounts: Gauge<u64, AtomicU64>,
}

impl RegistryMetrics {
    /// Makes the metrics and names them.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("selfsame_registry");
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let accepted = counter("accepted", "Requests accepted");
        let finalized = counter("finalized", "Requests finalized");
        let failed = counter("failed", "Requests failed by a rule of the registry");
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::<u64, AtomicU64>::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        Self {
            accepted,
            finalized,
            failed,
            open_requests: gauge("open_requests", "Requests accepted and not final"),
            status_waiters: gauge("status_waiters", "Clients waiting for a final state"),
            ledger_height: gauge("ledger_height", "Height of the last sealed block"),
            applied_height: gauge("applied_height", "Height of the last applied block"),
            accounts: gauge("accounts", "Accounts"),
        }
    }

    fn set(&self, statistics: &RegistryStatistics) {
        for (counter, value) in [
            (&self.accepted, statistics.accepted),
            (&self.finalized, statistics.finalized),
            (&self.failed, statistics.failed),
        ] {
            counter.inner().fetch_max(value, std::sync::atomic::Ordering::Relaxed);
        }
        self.open_requests.set(statistics.open_requests as u64);
        self.status_waiters.set(statistics.status_waiters as u64);
        self.ledger_height.set(statistics.ledger_height);
        self.applied_height.set(statistics.applied_height);
        self.accounts.set(statistics.accounts);
    }
}

/// All metrics.
pub async fn metrics(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    operator.registry_metrics.set(&operator.service.registry().statistics());
    let mut text = String::new();
    encode(&mut text, &operator.metrics)?;
    Ok(content(StatusCode::OK, CONTENT_TYPE, text))
}
