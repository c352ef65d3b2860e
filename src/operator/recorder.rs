//! Records the numbers of the last ten minutes, for the curves of the page.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use selfsame_actors::{HistogramSnapshot, Service};
use selfsame_protocol::time::UnixSeconds;
use serde::Serialize;
use tokio::time::{Instant, MissedTickBehavior, interval};
use utoipa::ToSchema;

use crate::http::{AuditTrail, Metrics, Shutdown};

/// The time between two samples.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);

/// How many samples are kept: ten minutes.
const KEPT: usize = 120;

/// What happened between two samples, and how things stood at the second.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(super) struct Sample {
    /// When it was taken, in Unix seconds.
    at: u64,
    /// Requests a second that the public interfaces answered, without long polls and streams.
    requests: f64,
    /// The time below which half of them were answered, in seconds; null when there were none.
    request_p50: Option<f64>,
    /// The time below which 99 of 100 were answered.
    request_p99: Option<f64>,
    /// Operations a second that became final.
    operations: f64,
    /// The time below which 99 of 100 operations became final.
    operation_p99: Option<f64>,
    /// The time below which 99 of 100 synced writes ended.
    commit_p99: Option<f64>,
    /// Proofs a second whose pairing was checked.
    proofs: f64,
    /// The time below which 99 of 100 proofs waited for a worker.
    proof_wait_p99: Option<f64>,
    /// Sign-ins a second that came back to their application, refused ones included.
    sign_ins: f64,
    /// Requests accepted and not final.
    open_requests: usize,
    /// Proofs that wait or are being checked, those of sign-ins included.
    proofs_inside: usize,
}

/// What is counted since the start, as it was at one time.
#[derive(Clone)]
struct Counts {
    taken: Instant,
    requests: HistogramSnapshot,
    operations: HistogramSnapshot,
    commits: HistogramSnapshot,
    proof_waits: HistogramSnapshot,
    sign_ins: u64,
}

/// Where the numbers are read.
pub struct HistorySources {
    /// The actors.
    pub service: Arc<Service>,
    /// The front-end's numbers.
    pub metrics: Metrics,
    /// The events of sign-ins.
    pub audit: Arc<AuditTrail>,
}

/// The samples of the last ten minutes. Clones share them.
#[derive(Clone)]
pub struct History {
    sources: Arc<HistorySources>,
    state: Arc<Mutex<State>>,
}

struct State {
    before: Counts,
    samples: VecDeque<Sample>,
}

impl History {
    /// A history without samples.
    pub fn new(sources: HistorySources) -> Self {
        let state = State { before: Counts::read(&sources), samples: VecDeque::with_capacity(KEPT) };
        Self { sources: Arc::new(sources), state: Arc::new(Mutex::new(state)) }
    }

    /// Takes a sample every five seconds until the daemon stops.
    pub async fn run(self, now: impl Fn() -> UnixSeconds, shutdown: Shutdown) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = shutdown.triggered() => return,
                _ = ticks.tick() => self.take(now()),
            }
        }
    }

    /// Takes a sample of what happened since the last one.
    fn take(&self, now: UnixSeconds) {
        let counts = Counts::read(&self.sources);
        let registry = self.sources.service.registry().statistics();
        let verifier = self.sources.service.verification().statistics();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut state.before, counts.clone());
        let passed = counts.taken.duration_since(before.taken).as_secs_f64();
        if passed <= 0.0 {
            return;
        }
        let requests = counts.requests.since(&before.requests);
        let operations = counts.operations.since(&before.operations);
        let proofs = counts.proof_waits.since(&before.proof_waits);
        if state.samples.len() == KEPT {
            state.samples.pop_front();
        }
        state.samples.push_back(Sample {
            at: now.0,
            requests: requests.count as f64 / passed,
            request_p50: requests.quantile(0.5),
            request_p99: requests.quantile(0.99),
            operations: operations.count as f64 / passed,
            operation_p99: operations.quantile(0.99),
            commit_p99: counts.commits.since(&before.commits).quantile(0.99),
            proofs: proofs.count as f64 / passed,
            proof_wait_p99: proofs.quantile(0.99),
            sign_ins: counts.sign_ins.saturating_sub(before.sign_ins) as f64 / passed,
            open_requests: registry.open_requests,
            proofs_inside: verifier.proofs_inside + verifier.sign_in_proofs_inside,
        });
    }

    pub(super) fn samples(&self) -> Vec<Sample> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).samples.iter().cloned().collect()
    }
}

impl Counts {
    fn read(HistorySources { service, metrics, audit }: &HistorySources) -> Self {
        Self {
            taken: Instant::now(),
            requests: metrics.public_latency(),
            operations: service.registry().measurements().final_seconds,
            commits: service.registry().commits().seconds,
            proof_waits: service.verification().measurements().wait_seconds,
            sign_ins: audit.count("sign_in_completed", "success")
                + audit.count("sign_in_begun", "granted_from_session"),
        }
    }
}
