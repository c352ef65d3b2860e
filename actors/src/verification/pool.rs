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
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::time::Instant;
use tracing::Span;

use super::messages::{VerifierPoolMessage, WorkerMessage};
use super::queue::FairQueue;
use super::state::VerifierState;
use super::worker::{VerifierWorker, WorkerArguments};
use crate::support::notify::ServiceEvent;
use crate::support::slot::{Traced, actor_span};

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
    type Msg = Traced<VerifierPoolMessage>;
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
        myself: &ActorRef<Traced<VerifierPoolMessage>>,
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
