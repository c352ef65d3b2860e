//! Messages to the verifier pool and its workers.

use std::sync::Arc;

use ractor::{ActorId, RpcReplyPort};
use selfsame_protocol::groth16::{Claim, PreparedKey};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::support::slot::Ping;

/// A message to the pool.
pub(crate) enum VerifierPoolMessage {
    /// Check a proof and answer whether it holds. When the reply port is dropped instead, the
    /// caller gets no verdict.
    Check(Box<Job>),
    /// A worker has finished its batch.
    Idle(ActorId),
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

impl Ping for VerifierPoolMessage {
    fn ping(reply: RpcReplyPort<()>) -> Self {
        Self::Ping(reply)
    }
}

/// A proof that waits for a worker.
pub(crate) struct Job {
    pub key: Arc<PreparedKey>,
    pub claim: Claim,
    /// The caller waits until this time.
    pub deadline: Instant,
    pub reply: RpcReplyPort<bool>,
    /// One proof's permit, released when the job is done or dropped.
    pub permit: Option<OwnedSemaphorePermit>,
}

/// A message to a worker.
pub(crate) enum WorkerMessage {
    /// Check these proofs and answer.
    Check(Batch),
}

/// Proofs of one key, with the reply ports of their callers.
pub(crate) struct Batch {
    pub key: Arc<PreparedKey>,
    pub claims: Vec<Claim>,
    pub replies: Vec<(RpcReplyPort<bool>, Option<OwnedSemaphorePermit>)>,
}

impl Batch {
    /// A batch of jobs, all of this key.
    pub fn new(key: Arc<PreparedKey>, jobs: impl Iterator<Item = Job>) -> Self {
        let (claims, replies) = jobs.map(|job| (job.claim, (job.reply, job.permit))).unzip();
        Self { key, claims, replies }
    }
}
