//! The metrics of the service, which are listed in the crate of the actors.

use std::fmt;
use std::sync::atomic::Ordering;

use selfsame_actors::{Metric, MetricSample, MetricsSink, Service, SourceLimitRefusals};

use super::samples::Samples;
use crate::http::Metrics;

/// The front-end has limits of sources too, and counts both in one metric; see
/// [`take_over_source_limits`].
const SOURCE_LIMITS: &str = "selfsame_source_limit_refusals";

/// Writes them.
pub(super) fn write(service: &Service, samples: &mut Samples<'_>) -> fmt::Result {
    let mut encoding = Encoding { samples, outcome: Ok(()) };
    service.report_metrics(&mut encoding);
    encoding.outcome
}

/// Takes over what the limits of the service refused into the counters of the front-end.
pub fn take_over_source_limits(service: &Service, metrics: &Metrics) {
    for SourceLimitRefusals { limit, endpoints, refused } in service.source_limit_refusals() {
        metrics.source_limit(limit, endpoints).inner().fetch_max(refused, Ordering::Relaxed);
    }
}

struct Encoding<'s, 'e> {
    samples: &'s mut Samples<'e>,
    /// The first error.
    outcome: fmt::Result,
}

impl MetricsSink for Encoding<'_, '_> {
    fn take(&mut self, metric: &Metric<'_>, samples: &[MetricSample<'_>]) {
        if self.outcome.is_ok() && metric.name != SOURCE_LIMITS {
            self.outcome = self.samples.reported(metric, samples);
        }
    }
}
