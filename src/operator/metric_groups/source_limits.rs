//! The metrics of the limits of one source.

use std::sync::atomic::Ordering;

use prometheus_client::metrics::counter::Counter;
use selfsame_actors::Service;

use crate::http::Metrics;
use crate::interface::Interface;

/// What the limits of one source refused, by the name of the limit and by the endpoints that it is
/// for. The front-end counts its own limits in the same metric.
pub struct SourceLimitMetrics {
    operations: Counter,
    receipts: Counter,
    verifications: Counter,
    verifier_queue: Counter,
    sign_ins: Counter,
    sign_in_verifier_queue: Counter,
    open_sign_ins: Counter,
    followers: Counter,
    bridge_memory: Counter,
    bridge_followers: Counter,
}

impl SourceLimitMetrics {
    /// Makes the counters.
    pub fn register(metrics: &Metrics) -> Self {
        let (verification, sign_in) = (Interface::Verification.name(), Interface::SignIn.name());
        let bridge = Interface::Bridge.name();
        Self {
            operations: metrics.source_limit("per_source", Interface::Gateway.name()),
            receipts: metrics.source_limit("per_source", "receipts"),
            verifications: metrics.source_limit("verifications_per_source", verification),
            verifier_queue: metrics.source_limit("verifier_queue", verification),
            sign_ins: metrics.source_limit("sign_ins_per_source", sign_in),
            sign_in_verifier_queue: metrics.source_limit("verifier_queue", sign_in),
            open_sign_ins: metrics.source_limit("open_sign_ins", sign_in),
            followers: metrics.source_limit("followers_per_source", sign_in),
            bridge_memory: metrics.source_limit("memory_mib", bridge),
            bridge_followers: metrics.source_limit("followers_per_source", bridge),
        }
    }

    /// Takes over the present numbers.
    pub fn set(&self, service: &Service) {
        let registry = service.registry().source_refusals();
        let verification = service.verification().source_refusals();
        let sign_in = service.sign_in().source_refusals();
        let bridge = service.bridge().statistics();
        for (counter, value) in [
            (&self.operations, registry.operations),
            (&self.receipts, registry.receipts),
            (&self.verifications, verification.per_source),
            (&self.verifier_queue, verification.queue),
            (&self.sign_ins, sign_in.per_source),
            (&self.sign_in_verifier_queue, verification.sign_in_queue),
            (&self.open_sign_ins, sign_in.open_sign_ins),
            (&self.followers, sign_in.followers),
            (&self.bridge_memory, bridge.refused_of_source),
            (&self.bridge_followers, bridge.refused_followers),
        ] {
            counter.inner().fetch_max(value, Ordering::Relaxed);
        }
    }
}
