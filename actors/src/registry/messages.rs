//! Messages to the registry's actors.

use std::sync::Arc;

use ractor::RpcReplyPort;
use selfsame_protocol::ledger::{Block, RequestId};
use selfsame_protocol::registry::RecoveredSigner;
use selfsame_storage::{LedgerError, StoreError, SweepPosition};

use super::submit::{Submission, SubmitError};
use crate::support::slot::Ping;

/// A message to the tree maintainer.
pub(crate) enum TreeMaintainerMessage {
    /// The ledger has blocks that are not applied yet.
    Follow,
    /// Applying failed a while ago; retry.
    Retry,
    /// Some time has passed: look at the ledger without a notification, and whether it still has
    /// what was applied.
    Look,
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

/// A message to the batcher.
pub(crate) enum BatcherMessage {
    /// There may be requests to seal: a request became durable, a block was applied, or the time
    /// that a request may wait is over.
    Wake,
    /// Sealing failed a while ago; retry.
    Retry,
    /// What a predecessor handed in is durable or refused.
    Settled,
    /// This replica is about to lead: read the queue again.
    Reload(RpcReplyPort<Result<(), StoreError>>),
    /// An attempt to seal a block ended.
    Sealed(SealedBlock),
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

/// How an attempt to seal a block ended.
pub(crate) struct SealedBlock {
    /// The number of the attempt.
    pub attempt: u64,
    /// The outcome of the append.
    pub appended: Result<(), LedgerError>,
}

/// A message to the request tracker.
pub(crate) enum RequestTrackerMessage {
    /// Check a submission, and make it durable when it is admitted. The signer is what its
    /// signature recovers to.
    Admit(Box<Submission>, RecoveredSigner, RpcReplyPort<Result<RequestId, SubmitError>>),
    /// A block was applied: its requests are final and hold no locks any more.
    Applied(Arc<Block>),
    /// This replica is about to lead: read the open requests again.
    Reload(RpcReplyPort<Result<(), StoreError>>),
    /// The commit that admitted a request failed.
    NotDurable(RequestId),
    /// Delete expired requests and idempotency keys.
    Sweep,
    /// Continue a sweep after the last record that it looked at.
    ContinueSweep(SweepProgress),
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

/// The last idempotency key that a sweep looked at; `None` before the first. How far requests are
/// deleted is in the store.
#[derive(Clone, Copy, Default)]
pub(crate) struct SweepProgress {
    pub keys: Option<SweepPosition>,
}

impl Ping for TreeMaintainerMessage {
    fn ping(reply: RpcReplyPort<()>) -> Self {
        Self::Ping(reply)
    }
}

impl Ping for BatcherMessage {
    fn ping(reply: RpcReplyPort<()>) -> Self {
        Self::Ping(reply)
    }
}

impl Ping for RequestTrackerMessage {
    fn ping(reply: RpcReplyPort<()>) -> Self {
        Self::Ping(reply)
    }
}
