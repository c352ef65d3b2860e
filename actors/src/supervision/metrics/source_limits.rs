//! The metrics of the limits of one source, and of one application.

use super::sink::Reporter;
use crate::supervision::service::Service;

/// How many requests a limit of one source, or of one application, refused since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLimitRefusals {
    /// The name of the limit.
    pub limit: &'static str,
    /// The requests that it is for.
    pub endpoints: &'static str,
    /// How many it refused.
    pub refused: u64,
}

impl Service {
    /// What the limits of one source refused. A front-end has limits of its own, which it counts
    /// itself.
    pub fn source_limit_refusals(&self) -> [SourceLimitRefusals; 12] {
        let registry = self.registry().source_refusals();
        let verification = self.verification().source_refusals();
        let sign_in = self.sign_in().source_refusals();
        let bridge = self.bridge().statistics();
        [
            ("per_source", "gateway", registry.operations),
            ("per_source", "receipts", registry.receipts),
            ("verifications_per_source", "verification", verification.per_source),
            ("verifications_per_application", "verification", verification.per_application),
            ("verifier_queue", "verification", verification.queue),
            ("sign_ins_per_source", "sign-in", sign_in.per_source),
            ("verifier_queue", "sign-in", verification.sign_in_queue),
            ("open_sign_ins", "sign-in", sign_in.open_sign_ins),
            ("followers_per_source", "sign-in", sign_in.followers),
            ("bridge_per_source", "bridge", bridge.refused_rate),
            ("memory_mib", "bridge", bridge.refused_of_source),
            ("followers_per_source", "bridge", bridge.refused_followers),
        ]
        .map(|(limit, endpoints, refused)| SourceLimitRefusals { limit, endpoints, refused })
    }
}

/// Reports them.
pub(super) fn report(refusals: &[SourceLimitRefusals], reporter: &mut Reporter<'_>) {
    let values = refusals.iter().map(|SourceLimitRefusals { limit, endpoints, refused }| {
        ([("limit", *limit), ("endpoints", *endpoints)], *refused)
    });
    let help = "Requests and connections refused by the limit of one source or application";
    reporter.counters("selfsame_source_limit_refusals", help, values);
}
