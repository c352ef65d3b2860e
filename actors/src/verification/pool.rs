//! The verifier pool: proofs wait here for a worker, and waiting proofs of one key are checked
//! together.
//!
//! The pool does not wait for a batch to fill: an idle worker takes its share of the proofs that
//! wait. Under load more proofs wait, batches are larger, and each proof costs less. `queue.rs` has
//! the order, and which proofs share a batch.
//!
//! The worker pools of ractor (`ractor::factory`) are not used: they route each message to a
//! worker, and batching by key needs a queue that yields several messages at once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use selfsame_protocol::groth16::{EncodedClaim, PreparedKey, ProofError};
use selfsame_storage::{Counter, FaultScope, Histogram, Metrics, STEP_SECONDS, StoreError};
use tokio::time::Instant;
use tracing::Span;

use super::queue::{FairQueue, Origin, ProofPermit};
use super::settings::{ProofChecker, VerificationSettings};
use crate::clock::Random;
use crate::support::notify::{Announcer, ServiceEvent};
use crate::support::slot::{Ping, Slot, TracedMessage, actor_span};
use crate::support::surroundings::Surroundings;
use crate::support::tasks::Blocking;

// Messages to the verifier pool and its workers.

/// A message to the pool.
pub(crate) enum VerifierPoolMessage {
    /// Decode a proof, check it and answer whether it holds. When the reply port is dropped
    /// instead, the caller gets no verdict.
    Check(Box<Job>),
    /// A worker has finished its batch: which of the proofs that decode held, by origin.
    Idle(ActorId, Vec<(Origin, bool)>),
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

impl Ping for VerifierPoolMessage {
    fn ping(reply: RpcReplyPort<()>) -> Self {
        Self::Ping(reply)
    }
}

/// Whether a proof holds, or why it does not decode.
pub(crate) type ProofVerdict = Result<bool, ProofError>;

/// A proof that waits for a worker.
pub(crate) struct Job {
    pub key: Arc<PreparedKey>,
    pub claim: EncodedClaim,
    /// Where the proof comes from.
    pub origin: Origin,
    /// When it was handed to the pool.
    pub queued_at: Instant,
    /// The caller waits until this time.
    pub deadline: Instant,
    pub reply: RpcReplyPort<ProofVerdict>,
    /// One proof's permit, released when the job is done or dropped.
    pub permit: Option<ProofPermit>,
}

/// A message to a worker.
pub(crate) enum WorkerMessage {
    /// Check these proofs and answer.
    Check {
        /// The proofs.
        batch: Batch,
        /// Whether a neighbour of the worker has nothing to do, whose core it may use.
        has_idle_neighbour: bool,
    },
}

/// Proofs of one key, with the reply ports of their callers.
pub(crate) struct Batch {
    pub key: Arc<PreparedKey>,
    pub claims: Vec<EncodedClaim>,
    /// Where each proof comes from.
    pub origins: Vec<Origin>,
    /// When each proof was handed to the pool.
    pub queued_at: Vec<Instant>,
    pub replies: Vec<(RpcReplyPort<ProofVerdict>, Option<ProofPermit>)>,
}

impl Batch {
    /// A batch of jobs, all of this key.
    pub fn new(key: Arc<PreparedKey>, jobs: Vec<Job>) -> Self {
        let (mut claims, mut origins, mut queued_at, mut replies) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for job in jobs {
            claims.push(job.claim);
            origins.push(job.origin);
            queued_at.push(job.queued_at);
            replies.push((job.reply, job.permit));
        }
        Self { key, claims, origins, queued_at, replies }
    }
}

// What the verifier pool, its workers and the handle share.

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
    pub good: Counter,
    /// Proofs that did not hold, since the start.
    pub bad: Counter,
    /// What the batches took.
    pub measured: PoolHistograms,
    pub fault_scope: FaultScope,
    instance: Arc<str>,
}

impl VerifierState {
    /// The state of a service whose workers have not started.
    pub fn new(surroundings: &Surroundings, settings: &VerificationSettings) -> Self {
        let Surroundings { instance, random, blocking, announcer, .. } = surroundings.clone();
        Self {
            // Calls are bounded by the permits of their proofs, see `handle`.
            pool: Arc::new(Slot::new(surroundings.name_of("verifier"), None)),
            workers: (0..settings.workers.max(1)).map(|_| WorkerRecord::default()).collect(),
            checker: Arc::clone(&settings.checker),
            random,
            announcer,
            blocking,
            good: Counter::default(),
            bad: Counter::default(),
            measured: PoolHistograms::default(),
            fault_scope: surroundings.fault_scope(),
            instance,
        }
    }

    /// Adds what the pool and its workers count to `metrics`.
    pub fn register(&self, metrics: &mut Metrics) {
        let help = "Proofs whose pairing was checked, by whether they hold";
        for (result, count) in [("good", &self.good), ("bad", &self.bad)] {
            metrics.add_series("selfsame_verifier_checked_proofs", help, [("result", result)], count.clone());
        }
        let PoolHistograms { batch_proofs, wait_seconds, check_seconds } = &self.measured;
        metrics.add("selfsame_verifier_batch_proofs", "Proofs that were checked together", batch_proofs.clone());
        let help = "Time that a proof waited for a worker";
        metrics.add("selfsame_verifier_wait_duration_seconds", help, wait_seconds.clone());
        let help = "Time that a worker took for a batch";
        metrics.add("selfsame_verifier_check_duration_seconds", help, check_seconds.clone());
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
pub(crate) struct PoolHistograms {
    pub batch_proofs: Histogram,
    pub wait_seconds: Histogram,
    pub check_seconds: Histogram,
}

impl Default for PoolHistograms {
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

// The pool.

/// The most failed workers within [`RESTART_WINDOW`] that the pool replaces. At the next failure
/// within the window the pool itself fails.
const MAX_RESTARTS: usize = 20;

const RESTART_WINDOW: Duration = Duration::from_secs(60);

/// The actor.
pub(crate) struct VerifierPool;

/// State of the pool. When it is lost, callers get errors, and never a wrong verdict.
pub(crate) struct VerifierPoolState {
    verifier: Arc<VerifierState>,
    queue: FairQueue,
    idle: Vec<Worker>,
    busy: Vec<Worker>,
    /// When workers failed, within [`RESTART_WINDOW`].
    failures: VecDeque<Instant>,
    /// As many threads as there are workers, for those whose neighbours are idle.
    common_threads: Arc<rayon::ThreadPool>,
}

struct Worker {
    /// Index of its record in [`VerifierState::workers`].
    index: usize,
    actor: ActorRef<WorkerMessage>,
}

impl Actor for VerifierPool {
    type Msg = TracedMessage<VerifierPoolMessage>;
    type State = VerifierPoolState;
    type Arguments = Arc<VerifierState>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        verifier: Arc<VerifierState>,
    ) -> Result<VerifierPoolState, ActorProcessingErr> {
        verifier.pool.occupy(myself.clone());
        fault_point!(verifier.fault_scope, VerifierPoolStart);
        let workers = verifier.workers.len();
        let common_threads = rayon::ThreadPoolBuilder::new()
            .num_threads(workers)
            .thread_name(|index| format!("verifier-common-{index}"))
            .build()?;
        let mut state = VerifierPoolState {
            verifier,
            queue: FairQueue::default(),
            idle: Vec::with_capacity(workers),
            busy: Vec::with_capacity(workers),
            failures: VecDeque::new(),
            common_threads: Arc::new(common_threads),
        };
        for index in 0..workers {
            let worker = state.start_worker(&myself, index).await?;
            state.idle.push(worker);
        }
        Ok(state)
    }

    /// Ignores the callers of messages: the dispatch of batches, which a message starts, serves
    /// many requests.
    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut VerifierPoolState,
    ) -> Result<(), ActorProcessingErr> {
        fault_point!(state.verifier.fault_scope, VerifierPoolHandle);
        match message.into_message() {
            VerifierPoolMessage::Ping(reply) => drop(reply.send(())),
            VerifierPoolMessage::Check(job) => state.queue.push(*job),
            VerifierPoolMessage::Idle(worker, verdicts) => {
                state.queue.record(verdicts, Instant::now());
                let found = state.busy.iter().position(|busy| busy.actor.get_id() == worker);
                state.idle.extend(found.map(|found| state.busy.swap_remove(found)));
            }
        }
        state.dispatch();
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        state: &mut VerifierPoolState,
    ) -> Result<(), ActorProcessingErr> {
        let (cell, reason) = match event {
            SupervisionEvent::ActorFailed(cell, error) => (cell, error.to_string()),
            SupervisionEvent::ActorTerminated(cell, _, reason) => {
                (cell, reason.unwrap_or_else(|| "it was stopped".to_owned()))
            }
            _ => return Ok(()),
        };
        let (worker, name) = (cell.get_id(), cell.get_name());
        let Some(index) = state.remove(worker) else { return Ok(()) };
        actor_span(&Span::none(), state.verifier.pool.name()).in_scope(|| {
            tracing::error!(worker = index, reason, "a verifier worker failed; its batch was not checked");
        });
        let actor = name.unwrap_or_default();
        state.verifier.announcer.announce(|| ServiceEvent::ActorEnded { actor, reason: reason.clone() });
        state.record_failure(reason)?;
        let worker = state.start_worker(&myself, index).await?;
        state.idle.push(worker);
        state.dispatch();
        Ok(())
    }
}

impl VerifierPoolState {
    async fn start_worker(
        &self,
        myself: &ActorRef<TracedMessage<VerifierPoolMessage>>,
        index: usize,
    ) -> Result<Worker, ActorProcessingErr> {
        let name = self.verifier.next_worker_name(index);
        let common_threads = Arc::clone(&self.common_threads);
        let arguments = WorkerArguments { verifier: Arc::clone(&self.verifier), index, common_threads };
        let (actor, _) = VerifierWorker::spawn_linked(Some(name), VerifierWorker, arguments, myself.get_cell()).await?;
        Ok(Worker { index, actor })
    }

    /// Removes a worker and returns its index.
    fn remove(&mut self, worker: ActorId) -> Option<usize> {
        [&mut self.idle, &mut self.busy].into_iter().find_map(|workers| {
            let found = workers.iter().position(|other| other.actor.get_id() == worker)?;
            Some(workers.swap_remove(found).index)
        })
    }

    /// Counts a failed worker. Returns an error when more than [`MAX_RESTARTS`] have failed within
    /// [`RESTART_WINDOW`].
    fn record_failure(&mut self, reason: String) -> Result<(), ActorProcessingErr> {
        let now = Instant::now();
        self.failures.push_back(now);
        while self.failures.front().is_some_and(|failure| now.duration_since(*failure) > RESTART_WINDOW) {
            self.failures.pop_front();
        }
        if self.failures.len() > MAX_RESTARTS {
            return Err(format!(
                "verifier workers failed more than {MAX_RESTARTS} times within {} s: {reason}",
                RESTART_WINDOW.as_secs()
            )
            .into());
        }
        Ok(())
    }

    /// Gives every idle worker its share of the waiting proofs.
    fn dispatch(&mut self) {
        let now = Instant::now();
        while let Some(worker) = self.idle.pop() {
            let Some(batch) = self.queue.next_batch(now, self.idle.len() + 1) else {
                self.idle.push(worker);
                return;
            };
            // The proofs that wait still are for the idle workers; without any, they help this one.
            let has_idle_neighbour = !self.idle.is_empty() && self.queue.is_empty();
            // A stopped worker drops the batch. Its callers then get errors, and the pool replaces
            // the worker when its supervision event arrives.
            if let Err(error) = worker.actor.cast(WorkerMessage::Check { batch, has_idle_neighbour }) {
                let span = actor_span(&Span::none(), self.verifier.pool.name());
                span.in_scope(|| tracing::debug!(%error, "a batch was sent to a stopped worker"));
            }
            self.busy.push(worker);
        }
    }
}

// A worker of the verifier pool: checks one batch at a time on a thread of its own.

/// What a worker is started with.
pub(crate) struct WorkerArguments {
    pub verifier: Arc<VerifierState>,
    /// Index of its record in [`VerifierState::workers`].
    pub index: usize,
    /// Threads for the workers whose neighbours are idle.
    pub common_threads: Arc<rayon::ThreadPool>,
}

/// The actor.
pub(crate) struct VerifierWorker;

/// State of a worker.
pub(crate) struct WorkerState {
    verifier: Arc<VerifierState>,
    index: usize,
    /// A check divides its work among the threads of the rayon pool that it is called in. Here that
    /// is one thread, so that workers do not compete for each other's cores.
    own_thread: Arc<rayon::ThreadPool>,
    common_threads: Arc<rayon::ThreadPool>,
}

impl Actor for VerifierWorker {
    type Msg = WorkerMessage;
    type State = WorkerState;
    type Arguments = WorkerArguments;

    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        WorkerArguments { verifier, index, common_threads }: WorkerArguments,
    ) -> Result<WorkerState, ActorProcessingErr> {
        fault_point!(verifier.fault_scope, VerifierWorkerStart);
        let own_thread =
            rayon::ThreadPoolBuilder::new().num_threads(1).thread_name(move |_| format!("verifier-{index}")).build()?;
        verifier.workers[index].end();
        Ok(WorkerState { verifier, index, own_thread: Arc::new(own_thread), common_threads })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        WorkerMessage::Check { batch, has_idle_neighbour }: Self::Msg,
        state: &mut WorkerState,
    ) -> Result<(), ActorProcessingErr> {
        let verifier = Arc::clone(&state.verifier);
        let threads = Arc::clone(if has_idle_neighbour { &state.common_threads } else { &state.own_thread });
        let span = actor_span(&Span::none(), myself.get_name().as_deref().unwrap_or_default());
        state.verifier.workers[state.index].begin();
        // A panic of the checker makes this actor fail; the process continues.
        let checking = move || threads.install(|| span.in_scope(|| check(batch, &verifier)));
        let verdicts = state.verifier.blocking.run(checking).await??;
        fault_point!(state.verifier.fault_scope, VerifierWorkerIdle);
        state.verifier.workers[state.index].end();
        state.verifier.pool.cast(VerifierPoolMessage::Idle(myself.get_id(), verdicts));
        Ok(())
    }
}

/// Decodes and checks a batch, and answers. Returns which of the proofs that decode held, by
/// origin. When the check fails or panics, the reply ports are dropped, and their callers get
/// errors.
fn check(batch: Batch, verifier: &VerifierState) -> Result<Vec<(Origin, bool)>, StoreError> {
    blocking_fault_point!(verifier.fault_scope, VerifierWorkerCheck);
    let Batch { key, claims, origins, queued_at, replies } = batch;
    let measured = &verifier.measured;
    measured.batch_proofs.observe(claims.len() as f64);
    queued_at.iter().for_each(|queued_at| measured.wait_seconds.observe_duration(queued_at.elapsed()));
    let started = std::time::Instant::now();
    let (decoded, mut claims) = (EncodedClaim::decode_all(claims), Vec::new());
    // A proof that does not decode is not checked. The place of the others in the batch that is.
    let places: Vec<Result<usize, ProofError>> = decoded
        .into_iter()
        .map(|claim| {
            claims.push(claim?);
            Ok(claims.len() - 1)
        })
        .collect();
    let verdicts = match verifier.checker.which_hold(&key, &claims, verifier.random.as_ref()) {
        Ok(verdicts) => verdicts,
        Err(error) => {
            tracing::error!(%error, "a batch of proofs does not fit its key");
            return Ok(Vec::new());
        }
    };
    measured.check_seconds.observe_duration(started.elapsed());
    blocking_fault_point!(verifier.fault_scope, VerifierWorkerAnswer);
    let good = verdicts.iter().filter(|holds| **holds).count();
    verifier.good.inc_by(good as u64);
    verifier.bad.inc_by((verdicts.len() - good) as u64);
    let mut of_origins = Vec::with_capacity(verdicts.len());
    for (((reply, permit), origin), place) in replies.into_iter().zip(origins).zip(places) {
        let verdict = match place.map(|place| verdicts.get(place)) {
            Ok(Some(holds)) => Ok(*holds),
            // The checker did not answer for this proof.
            Ok(None) => continue,
            Err(error) => Err(error),
        };
        of_origins.extend(verdict.ok().map(|holds| (origin, holds)));
        // A client that has all of its permits in use and gets this answer may send the next proof
        // at once.
        drop(permit);
        // An error of `send` means that the caller no longer waits.
        drop(reply.send(verdict));
    }
    Ok(of_origins)
}
