//! A worker of the verifier pool: checks one batch at a time on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use selfsame_protocol::groth16::{EncodedClaim, ProofError};
use selfsame_storage::StoreError;
use tracing::Span;

use super::messages::{Batch, VerifierPoolMessage, WorkerMessage};
use super::permits::Origin;
use super::state::VerifierState;
use crate::support::slot::actor_span;

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
    verifier.good.fetch_add(good as u64, Ordering::Relaxed);
    verifier.bad.fetch_add((verdicts.len() - good) as u64, Ordering::Relaxed);
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
