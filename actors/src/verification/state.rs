//! What the verifier pool, its workers and the handle share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selfsame_storage::{FaultScope, Histogram, STEP_SECONDS};
use tokio::time::Instant;

use super::checker::ProofChecker;
use super::messages::VerifierPoolMessage;
use super::settings::VerificationSettings;
use crate::clock::Random;
use crate::support::notify::Announcer;
use crate::support::slot::Slot;
use crate::support::tasks::Blocking;

/// Upper bounds for the number of proofs in a batch; the largest batch has 64.
const BATCH_PROOFS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// The pool's slot, what its workers use, and the workers' records.
pub(crate) struct VerifierState {
    pub pool: Arc<Slot<VerifierPoolMessage>>,
    pub workers: Vec<WorkerRecord>,
    pub checker: Arc<dyn ProofChecker>,
    pub random: Arc<dyn Random>,
    pub announcer: Announcer,
    /// Where workers check their batches.
    pub blocking: Blocking,
    /// Proofs that held, since the start.
    pub good: AtomicU64,
    /// Proofs that did not hold, since the start.
    pub bad: AtomicU64,
    /// What the batches took.
    pub measured: Measured,
    pub fault_scope: FaultScope,
    instance: String,
}

impl VerifierState {
    /// The state of an instance whose workers have not started.
    pub fn new(
        instance: &str,
        settings: &VerificationSettings,
        random: Arc<dyn Random>,
        blocking: Blocking,
        announcer: Announcer,
    ) -> Self {
        Self {
            // Calls are bounded by the permits of their proofs, see `handle`.
            pool: Arc::new(Slot::new(format!("{instance}/verifier"), None)),
            workers: (0..settings.workers.max(1)).map(|_| WorkerRecord::default()).collect(),
            checker: Arc::clone(&settings.checker),
            random,
            announcer,
            blocking,
            good: AtomicU64::new(0),
            bad: AtomicU64::new(0),
            measured: Measured::default(),
            fault_scope: FaultScope::of_instance(instance),
            instance: instance.to_owned(),
        }
    }

    /// A new name for the worker `index`, which no worker had before: a worker that is being
    /// replaced may still be registered under its name.
    pub fn next_worker_name(&self, index: usize) -> String {
        let record = &self.workers[index];
        let start = record.starts.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}/verifier/worker-{index}.{start}", self.instance);
        *record.lock() = Activity { name: name.clone(), busy_since: None };
        name
    }
}

/// What the batches took since the start.
pub(crate) struct Measured {
    pub batch_proofs: Histogram,
    pub wait_seconds: Histogram,
    pub check_seconds: Histogram,
}

impl Default for Measured {
    fn default() -> Self {
        Self {
            batch_proofs: Histogram::new(BATCH_PROOFS),
            wait_seconds: Histogram::new(STEP_SECONDS),
            check_seconds: Histogram::new(STEP_SECONDS),
        }
    }
}

/// A worker's record, kept across its restarts.
#[derive(Default)]
pub(crate) struct WorkerRecord {
    starts: AtomicU64,
    activity: Mutex<Activity>,
}

#[derive(Default)]
struct Activity {
    /// The name of the present worker.
    name: String,
    busy_since: Option<Instant>,
}

impl WorkerRecord {
    /// Records that the worker begins a batch.
    pub fn begin(&self) {
        self.lock().busy_since = Some(Instant::now());
    }

    /// Records that the worker is idle.
    pub fn end(&self) {
        self.lock().busy_since = None;
    }

    /// Number of starts after the first.
    pub fn restarts(&self) -> u64 {
        self.starts.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// The worker's name, and for how long it has been busy with one batch; zero while it is idle.
    pub fn busy(&self) -> (String, Duration) {
        let activity = self.lock();
        (activity.name.clone(), activity.busy_since.map_or(Duration::ZERO, |since| since.elapsed()))
    }

    fn lock(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
