//! The metrics of registry, verifier and sign-in, and of the limits of one source: their names, and
//! how they follow the statistics.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use selfsame_actors::{RegistryStatistics, Service, SignInStatistics, VerifierStatistics};

use crate::backup::jobs::BackupStatistics;
use crate::http::Metrics;
use crate::interface::Interface;

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

    /// Takes over the present numbers.
    pub fn set(&self, statistics: &RegistryStatistics) {
        for (counter, value) in [
            (&self.accepted, statistics.accepted),
            (&self.finalized, statistics.finalized),
            (&self.failed, statistics.failed),
        ] {
            counter.inner().fetch_max(value, Ordering::Relaxed);
        }
        self.open_requests.set(statistics.open_requests as u64);
        self.status_waiters.set(statistics.status_waiters as u64);
        self.ledger_height.set(statistics.ledger_height);
        self.applied_height.set(statistics.applied_height);
        self.accounts.set(statistics.accounts);
    }
}

/// The verifier's numbers.
pub struct VerifierMetrics {
    good: Counter,
    bad: Counter,
    proofs_inside: Gauge<u64, AtomicU64>,
    sign_in_proofs_inside: Gauge<u64, AtomicU64>,
}

impl VerifierMetrics {
    /// Makes the metrics and names them.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("selfsame_verifier");
        let metrics = Self {
            good: Counter::default(),
            bad: Counter::default(),
            proofs_inside: Gauge::default(),
            sign_in_proofs_inside: Gauge::default(),
        };
        registry.register("good_proofs", "Proofs that were checked and hold", metrics.good.clone());
        registry.register("bad_proofs", "Proofs that were checked and do not hold", metrics.bad.clone());
        let help = "Proofs of verification requests that wait for a worker or are being checked";
        registry.register("proofs_inside", help, metrics.proofs_inside.clone());
        let help = "Proofs of sign-ins that wait for a worker or are being checked";
        registry.register("sign_in_proofs_inside", help, metrics.sign_in_proofs_inside.clone());
        metrics
    }

    /// Takes over the present numbers.
    pub fn set(&self, statistics: &VerifierStatistics) {
        self.good.inner().fetch_max(statistics.good, Ordering::Relaxed);
        self.bad.inner().fetch_max(statistics.bad, Ordering::Relaxed);
        self.proofs_inside.set(statistics.proofs_inside as u64);
        self.sign_in_proofs_inside.set(statistics.sign_in_proofs_inside as u64);
    }
}

/// The numbers of sign-in.
pub struct SignInMetrics {
    unprotected_code_requests: Counter,
}

impl SignInMetrics {
    /// Makes the metrics and names them.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("selfsame_sign_in");
        let metrics = Self { unprotected_code_requests: Counter::default() };
        let help = "Authorization requests for a code with neither code_challenge nor nonce";
        registry.register("unprotected_code_requests", help, metrics.unprotected_code_requests.clone());
        metrics
    }

    /// Takes over the present numbers.
    pub fn set(&self, statistics: &SignInStatistics) {
        let counted = statistics.unprotected_code_requests;
        self.unprotected_code_requests.inner().fetch_max(counted, Ordering::Relaxed);
    }
}

/// The numbers of the backups.
pub struct BackupMetrics {
    made: Counter,
    failed: Counter,
    last_time: Gauge<u64, AtomicU64>,
    last_duration: Gauge<f64, AtomicU64>,
    last_size: Gauge<u64, AtomicU64>,
}

impl BackupMetrics {
    /// Makes the metrics and names them.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("selfsame_backup");
        let metrics = Self {
            made: Counter::default(),
            failed: Counter::default(),
            last_time: Gauge::default(),
            last_duration: Gauge::default(),
            last_size: Gauge::default(),
        };
        registry.register("made", "Backups that were made", metrics.made.clone());
        registry.register("failed", "Backups that could not be made", metrics.failed.clone());
        let help = "When the last good backup since the start was begun; 0 before the first";
        registry.register("last_timestamp_seconds", help, metrics.last_time.clone());
        let help = "How long the last good backup took to make";
        registry.register("last_duration_seconds", help, metrics.last_duration.clone());
        let help = "Length of all files of the last good backup";
        registry.register("last_size_bytes", help, metrics.last_size.clone());
        metrics
    }

    /// Takes over the present numbers.
    pub fn set(&self, statistics: &BackupStatistics) {
        self.made.inner().fetch_max(statistics.made, Ordering::Relaxed);
        self.failed.inner().fetch_max(statistics.failed, Ordering::Relaxed);
        if let Some((begun_at, took, size)) = statistics.last {
            self.last_time.set(begun_at.0);
            self.last_duration.set(took.as_secs_f64());
            self.last_size.set(size);
        }
    }
}

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
}

impl SourceLimitMetrics {
    /// Makes the counters.
    pub fn register(metrics: &Metrics) -> Self {
        let (verification, sign_in) = (Interface::Verification.name(), Interface::SignIn.name());
        Self {
            operations: metrics.source_limit("per_source", Interface::Gateway.name()),
            receipts: metrics.source_limit("per_source", "receipts"),
            verifications: metrics.source_limit("verifications_per_source", verification),
            verifier_queue: metrics.source_limit("verifier_queue", verification),
            sign_ins: metrics.source_limit("sign_ins_per_source", sign_in),
            sign_in_verifier_queue: metrics.source_limit("verifier_queue", sign_in),
            open_sign_ins: metrics.source_limit("open_sign_ins", sign_in),
            followers: metrics.source_limit("followers_per_source", sign_in),
        }
    }

    /// Takes over the present numbers.
    pub fn set(&self, service: &Service) {
        let registry = service.registry().source_refusals();
        let verification = service.verification().source_refusals();
        let sign_in = service.sign_in().source_refusals();
        for (counter, value) in [
            (&self.operations, registry.operations),
            (&self.receipts, registry.receipts),
            (&self.verifications, verification.per_source),
            (&self.verifier_queue, verification.queue),
            (&self.sign_ins, sign_in.per_source),
            (&self.sign_in_verifier_queue, verification.sign_in_queue),
            (&self.open_sign_ins, sign_in.open_sign_ins),
            (&self.followers, sign_in.followers),
        ] {
            counter.inner().fetch_max(value, Ordering::Relaxed);
        }
    }
}
