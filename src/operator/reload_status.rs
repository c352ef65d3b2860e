//! What came of the last reload of the configuration, and how one is asked for.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use selfsame_protocol::operator::{ReloadOutcome, ReloadReport};
use selfsame_protocol::time::UnixSeconds;
use tokio::sync::{mpsc, oneshot};

/// A request to read the configuration again, with the place for the answer.
pub type ReloadRequest = oneshot::Sender<ReloadReport>;

/// Where requests to read the configuration again go.
pub type ReloadRequests = mpsc::Sender<ReloadRequest>;

/// What came of the last reload, for `/status` and `/metrics`. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ReloadStatus {
    last: Arc<ArcSwapOption<ReloadReport>>,
    is_successful: Gauge,
    success_time: Gauge,
}

impl ReloadStatus {
    /// The state after a start at `now`, which counts as a success.
    pub fn started_at(now: UnixSeconds) -> Self {
        let status = Self::default();
        status.record_success(now);
        status
    }

    /// Adds the metrics to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("selfsame_config");
        let help = "Whether the configuration was good when it was last read: 1, or 0";
        registry.register("last_reload_successful", help, self.is_successful.clone());
        let help = "When a good configuration was last read, at the start or by a reload, in Unix time";
        let time = self.success_time.clone();
        registry.register_with_unit("last_reload_success_timestamp", help, Unit::Seconds, time);
    }

    /// Takes over what came of a reload at `now`.
    pub fn record(&self, report: ReloadReport, now: UnixSeconds) {
        match report.outcome {
            ReloadOutcome::Success => self.record_success(now),
            ReloadOutcome::Refused => _ = self.is_successful.set(0),
        }
        self.last.store(Some(Arc::new(report)));
    }

    fn record_success(&self, now: UnixSeconds) {
        self.is_successful.set(1);
        self.success_time.set(i64::try_from(now.0).unwrap_or(i64::MAX));
    }

    /// What came of the last reload; `None` before the first one.
    pub fn last(&self) -> Option<Arc<ReloadReport>> {
        self.last.load_full()
    }
}
