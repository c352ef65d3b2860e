//! Messages to the sender of events.

use ractor::RpcReplyPort;
use selfsame_protocol::events::record::EventPosition;
use selfsame_storage::ReceiverKey;

use super::error::EventError;
use super::transport::SendFailure;
use crate::support::slot::Ping;

/// A message to the sender of events.
pub(crate) enum EventSenderMessage {
    /// Look for what there is to do.
    Work,
    /// Something happened, or time has passed: look soon.
    Wake,
    /// An attempt has ended.
    Sent { receiver: ReceiverKey, position: EventPosition, outcome: Result<(), SendFailure> },
    /// Work with the new settings.
    SettingsChanged,
    /// Send the dead letters of a receiver again; says how many.
    RetryDeadLetters(String, RpcReplyPort<Result<usize, EventError>>),
    /// Remove the dead letters of a receiver; says how many.
    DiscardDeadLetters(String, RpcReplyPort<Result<usize, EventError>>),
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

impl Ping for EventSenderMessage {
    fn ping(reply: RpcReplyPort<()>) -> Self {
        Self::Ping(reply)
    }
}
