//! A worker of the verifier pool: checks one batch at a time on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use selfsame_protocol::groth16::{Claim, PreparedKey};
use selfsame_storage::StoreError;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;

use crate::verification::handle::VerifierShared;
use crate::verification::pool::{Job, VerifierPoolMessage};

/// What a worker is told.
pub(crate) enum WorkerMessage {
    /// Check these and answer.
    Check(Batch),
}

/// Proofs of one key, and who asked.
pub(crate) struct Batch {
    key: Arc<PreparedKey>,
    claims: Vec<Claim>,
    replies: Vec<(RpcReplyPort<bool>, Option<OwnedSemaphorePermit>)>,
}

impl Batch {
    /// Takes jobs, all of this key.
    pub fn new(key: Arc<PreparedKey>, jobs: impl Iterator<Item = Job>) -> Self {
        let (claims, replies) = jobs.map(|job| (job.claim, (job.reply, job.place))).unzip();
        Self { key, claims, replies }
    }

    /// Checks and answers. Where checking fails or panics, the replies are dropped: their callers learn that nothing was checked.
    fn check(self, shared: &VerifierShared) -> Result<(), StoreError> {
        blocking_fault_point!(VerifierWorkerCheck);
        let Self { key, claims, replies } = self;
        match shared.checker.which_hold(&key, &claims, shared.random.as_ref()) {
            Ok(verdicts) => {
                blocking_fault_point!(VerifierWorkerAnswer);
                let good = verdicts.iter().filter(|holds| **holds).count();
                shared.good.fetch_add(good as u64, Ordering::Relaxed);
                shared.bad.fetch_add((verdicts.len() - good) as u64, Ordering::Relaxed);
                for ((reply, _place), holds) in std::iter::zip(replies, verdicts) {
                    // Whoever asked may have gone.
                    drop(reply.send(holds));
                }
            }
            Err(error) => tracing::error!(%error, "a batch of proofs does not fit its key"),
        }
        Ok(())
    }
}

/// What a worker is started with.
pub(crate) struct WorkerArguments {
    pub shared: Arc<VerifierShared>,
    /// Its place in the shared records.
    pub index: usize,
}

/// The actor.
pub(crate) struct VerifierWorker;

/// A worker's thread.
pub(crate) struct WorkerState {
    shared: Arc<VerifierShared>,
    index: usize,
    /// The curve library divides its work among the threads of the pool that it is called in; here that is one.
    thread: Arc<rayon::ThreadPool>,
}

impl Actor for VerifierWorker {
    type Msg = WorkerMessage;
    type State = WorkerState;
    type Arguments = WorkerArguments;

    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        WorkerArguments { shared, index }: WorkerArguments,
    ) -> Result<WorkerState, ActorProcessingErr> {
        fault_point!(VerifierWorkerStart);
        let thread =
            rayon::ThreadPoolBuilder::new().num_threads(1).thread_name(move |_| format!("verifier-{index}")).build()?;
        shared.workers[index].rest();
        Ok(WorkerState { shared, index, thread: Arc::new(thread) })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        WorkerMessage::Check(batch): Self::Msg,
        state: &mut WorkerState,
    ) -> Result<(), ActorProcessingErr> {
        let (shared, thread) = (Arc::clone(&state.shared), Arc::clone(&state.thread));
        state.shared.workers[state.index].begin();
        // A panic in there ends this actor, not the process.
        spawn_blocking(move || thread.install(|| batch.check(&shared))).await??;
        fault_point!(VerifierWorkerIdle);
        state.shared.workers[state.index].rest();
        state.shared.pool.cast(VerifierPoolMessage::Idle(myself.get_id()));
        Ok(())
    }
}
