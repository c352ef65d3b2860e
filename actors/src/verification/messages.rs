//! Messages to the verifier pool and its workers.

use std::sync::Arc;

use ractor::{ActorId, RpcReplyPort};
use selfsame_protocol::groth16::{EncodedClaim, PreparedKey, ProofError};
use tokio::time::Instant;

use super::permits::{Origin, ProofPermit};
use crate::support::slot::Ping;

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
