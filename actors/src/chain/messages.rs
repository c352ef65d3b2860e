//! The messages to the followers of contracts.

use ractor::RpcReplyPort;

use super::error::ChainError;
use super::progress::Step;
use crate::support::slot::Ping;

/// A message to a follower.
pub(crate) enum FollowerMessage {
    /// The time for a step has come.
    Poll,
    /// Answer whether the contract was looked at after this message or a moment before it: at once
    /// when that is known, otherwise when the step has ended.
    Look(RpcReplyPort<bool>),
    /// A step has ended.
    Stepped(Result<Step, ChainError>),
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

impl Ping for FollowerMessage {
    fn ping(reply: RpcReplyPort<()>) -> Self {
        Self::Ping(reply)
    }
}
