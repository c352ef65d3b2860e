//! The verifier pool: proofs wait here for a worker, and those of one key that wait together are checked together.
//!
//! Nobody waits for a batch to fill: an idle worker takes what is there. Under load more is there, and a proof costs less.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use selfsame_protocol::groth16::{Claim, PreparedKey};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::verification::handle::VerifierShared;
use crate::verification::worker::{Batch, VerifierWorker, WorkerArguments, WorkerMessage};

/// Proofs that are checked together at most: beyond it the fixed costs are shared well enough, and a bad proof costs its
/// neighbours little.
const LARGEST_BATCH: usize = 64;

/// Failed workers within [`RESTART_WINDOW`] that are replaced before the pool fails as a whole.
const MAX_RESTARTS: usize = 20;

const RESTART_WINDOW: Duration = Duration::from_secs(60);

/// What the pool is told.
pub(crate) enum VerifierPoolMessage {
    /// Check a proof and answer whether it holds. Dropping the answer's port says that it was not checked.
    Check(Box<Job>),
    /// A worker has finished its batch.
    Idle(ActorId),
    /// Answer, to show that you are not stuck.
    Ping(RpcReplyPort<()>),
}

/// A proof that waits.
pub(crate) struct Job {
    pub key: Arc<PreparedKey>,
    pub claim: Claim,
    /// Nobody waits for the answer after this.
    pub deadline: Instant,
    pub reply: RpcReplyPort<bool>,
    /// Given back when the job is done or dropped.
    pub place: Option<OwnedSemaphorePermit>,
}

/// The actor.
pub(crate) struct VerifierPool;

/// What the pool remembers. Losing it costs callers an answer, never a wrong one.
pub(crate) struct VerifierPoolState {
    shared: Arc<VerifierShared>,
    /// One queue a key.
    queues: Vec<Queue>,
    /// Counts jobs, to find the oldest.
    arrived: u64,
    idle: Vec<Worker>,
    busy: Vec<Worker>,
    /// When workers failed.
    failures: VecDeque<Instant>,
}

struct Queue {
    key: Arc<PreparedKey>,
    waiting: VecDeque<(u64, Job)>,
}

struct Worker {
    /// Its place in the shared records.
    index: usize,
    actor: ActorRef<WorkerMessage>,
}

impl Actor for VerifierPool {
    type Msg = VerifierPoolMessage;
    type State = VerifierPoolState;
    type Arguments = Arc<VerifierShared>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        shared: Arc<VerifierShared>,
    ) -> Result<VerifierPoolState, ActorProcessingErr> {
        shared.pool.occupy(myself.clone());
        fault_point!(VerifierPoolStart);
        let workers = shared.workers.len();
        let mut state = VerifierPoolState {
            shared,
            queues: Vec::new(),
            arrived: 0,
            idle: Vec::with_capacity(workers),
            busy: Vec::with_capacity(workers),
            failures: VecDeque::new(),
        };
        for index in 0..workers {
            let worker = state.start_worker(&myself, index).await?;
            state.idle.push(worker);
        }
        Ok(state)
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut VerifierPoolState,
    ) -> Result<(), ActorProcessingErr> {
        fault_point!(VerifierPoolHandle);
        match message {
            VerifierPoolMessage::Ping(reply) => drop(reply.send(())),
            VerifierPoolMessage::Check(job) => state.enqueue(*job),
            VerifierPoolMessage::Idle(worker) => {
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
        let (worker, reason) = match event {
            SupervisionEvent::ActorFailed(cell, error) => (cell.get_id(), error.to_string()),
            SupervisionEvent::ActorTerminated(cell, _, reason) => {
                (cell.get_id(), reason.unwrap_or_else(|| "it was stopped".to_owned()))
            }
            _ => return Ok(()),
        };
        let Some(index) = state.remove(worker) else { return Ok(()) };
        tracing::error!(worker = index, reason, "a verifier worker failed; its batch was not checked");
        state.note_failure(reason)?;
        let worker = state.start_worker(&myself, index).await?;
        state.idle.push(worker);
        state.dispatch();
        Ok(())
    }
}

impl VerifierPoolState {
    async fn start_worker(
        &self,
        myself: &ActorRef<VerifierPoolMessage>,
        index: usize,
    ) -> Result<Worker, ActorProcessingErr> {
        let name = self.shared.next_worker_name(index);
        let arguments = WorkerArguments { shared: Arc::clone(&self.shared), index };
        let (actor, _) = VerifierWorker::spawn_linked(Some(name), VerifierWorker, arguments, myself.get_cell()).await?;
        Ok(Worker { index, actor })
    }

    /// Forgets a worker; its index.
    fn remove(&mut self, worker: ActorId) -> Option<usize> {
        [&mut self.idle, &mut self.busy].into_iter().find_map(|workers| {
            let found = workers.iter().position(|other| other.actor.get_id() == worker)?;
            Some(workers.swap_remove(found).index)
        })
    }

    fn note_failure(&mut self, reason: String) -> Result<(), ActorProcessingErr> {
        let now = Instant::now();
        self.failures.push_back(now);
        while self.failures.front().is_some_and(|failure| now.duration_since(*failure) > RESTART_WINDOW) {
            self.failures.pop_front();
        }
        if self.failures.len() > MAX_RESTARTS {
            return Err(format!("verifier workers failed {MAX_RESTARTS} times in a minute: {reason}").into());
        }
        Ok(())
    }

    fn enqueue(&mut self, job: Job) {
        self.arrived += 1;
        let job_of = |queue: &Queue| Arc::ptr_eq(&queue.key, &job.key);
        let index = self.queues.iter().position(job_of).unwrap_or_else(|| {
            self.queues.push(Queue { key: Arc::clone(&job.key), waiting: VecDeque::new() });
            self.queues.len() - 1
        });
        self.queues[index].waiting.push_back((self.arrived, job));
    }

    /// Gives every idle worker its share of the oldest queue.
    fn dispatch(&mut self) {
        let now = Instant::now();
        while let Some(worker) = self.idle.pop() {
            let Some(batch) = self.next_batch(now, self.idle.len() + 1) else {
                self.idle.push(worker);
                return;
            };
            // A worker that died takes the batch with it: its callers are told, and so are we.
            if let Err(error) = worker.actor.cast(WorkerMessage::Check(batch)) {
                tracing::debug!(%error, "a batch met a stopped worker");
            }
            self.busy.push(worker);
        }
    }

    fn next_batch(&mut self, now: Instant, idle_workers: usize) -> Option<Batch> {
        for queue in &mut self.queues {
            // Of the others, whoever waited has gone.
            queue.waiting.retain(|(_, job)| job.deadline > now && !job.reply.is_closed());
        }
        self.queues.retain(|queue| !queue.waiting.is_empty());
        let oldest = self.queues.iter_mut().min_by_key(|queue| queue.waiting.front().map(|(arrived, _)| *arrived))?;
        let share = oldest.waiting.len().div_ceil(idle_workers).clamp(1, LARGEST_BATCH);
        let jobs = oldest.waiting.drain(..share.min(oldest.waiting.len()));
        Some(Batch::new(Arc::clone(&oldest.key), jobs.map(|(_, job)| job)))
    }
}
