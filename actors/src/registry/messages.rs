//! What the registry's actors are told.

use std::sync::Arc;

use ractor::RpcReplyPort;
use selfsame_protocol::B256;
use selfsame_protocol::ledger::{Block, RequestId};
use selfsame_protocol::registry::RecoveredSigner;
use selfsame_storage::SweepPosition;

use super::submission::{Submission, SubmitError};
use crate::support::slot::Ping;

/// What the tree maintainer is told.
pub(crate) enum TreeMaintainerMessage {
    /// The ledger has blocks that are not applied yet.
    Follow,
    /// Applying failed a while ago; retry.
    Retry,
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

/// What the batcher is told.
pub(crate) enum BatcherMessage {
    /// There may be something to seal: a request became durable, a block was applied, a waiting time is over.
    Wake,
    /// Sealing failed a while ago; retry.
    Retry,
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

/// What the request tracker is told.
pub(crate) enum RequestTrackerMessage {
    /// Judge a submission and make it durable. The signer is what its signature recovers to.
    Admit(Box<Submission>, RecoveredSigner, RpcReplyPort<Result<RequestId, SubmitError>>),
    /// A block was applied: its requests are final and hold no locks any more.
    Applied(Arc<Block>),
    /// The commit that admitted a request failed.
    NotDurable(RequestId),
    /// Delete what has expired.
    Sweep,
    /// Continue a sweep from where it came to.
    ContinueSweep(SweepProgress),
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

/// How far a sweep has come.
#[derive(Clone, Copy, Default)]
pub(crate) struct SweepProgress {
    pub requests: Option<SweepPosition<RequestId>>,
    pub keys: Option<SweepPosition<B256>>,
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
