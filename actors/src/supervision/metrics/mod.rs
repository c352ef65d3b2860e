//! Every number that a service counts, in one list.
//!
//! The list is [`Service::report_metrics`], with a file for each group. An embedder gives the
//! numbers to the metrics of its own program; the daemon writes them for Prometheus. Nothing is
//! counted twice for it: each number is read from its owner when it is asked for.

mod actors;
mod bridge;
mod chains;
mod cluster;
mod registry;
mod sign_in;
mod sink;
mod source_limits;
mod store;
mod verifier;
mod webhooks;

pub use sink::{Metric, MetricKind, MetricSample, MetricUnit, MetricValue, MetricsSink};
pub use source_limits::SourceLimitRefusals;

use sink::Reporter;

use super::service::Service;

impl Service {
    /// Gives every number of the service to `sink`, each metric once with all its samples.
    ///
    /// Reads atomics, the newest snapshot and RocksDB's own counts; takes well under a millisecond,
    /// and does not wait for an actor. Call it as often as the numbers are looked at.
    pub fn report_metrics(&self, sink: &mut dyn MetricsSink) {
        let mut reporter = Reporter::new(self.instance(), sink);
        actors::report(&self.actors(), &mut reporter);
        if let Some(status) = self.replica_status() {
            cluster::report(&status, &mut reporter);
        }
        registry::report(&self.registry(), &mut reporter);
        // What cannot be read is left out.
        if let Ok(statistics) = self.registry().store_statistics() {
            store::report(&statistics, &mut reporter);
        }
        verifier::report(&self.verification(), &mut reporter);
        sign_in::report(&self.sign_in(), &mut reporter);
        bridge::report(&self.bridge(), &mut reporter);
        webhooks::report(&self.events(), &mut reporter);
        chains::report(&self.chain().status(self.now()), &mut reporter);
        source_limits::report(&self.source_limit_refusals(), &mut reporter);
    }
}
