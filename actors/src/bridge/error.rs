//! Why the bridge does not take or give a message.

use selfsame_protocol::bridge::entries::EntryError;
use selfsame_protocol::time::RetryAfter;
use selfsame_storage::StoreError;

use crate::support::slot::CallError;
use crate::support::source_limits::TooManyRequests;

/// Why the bridge does not take or give a message.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BridgeError {
    /// The rules of the entries do not allow it.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The source address waits for as many answers as it may.
    #[error(transparent)]
    TooMany(#[from] TooManyRequests),
    /// The actor is restarting, stopping or overloaded. A message that was handed in may be kept,
    /// and one that was asked for may be lost.
    #[error("the message bridge cannot be asked ({reason}); try again in {retry_after}")]
    Unavailable {
        /// Why the actor cannot be asked.
        reason: String,
        /// Time until another attempt may succeed.
        retry_after: RetryAfter,
    },
}

impl From<CallError> for BridgeError {
    fn from(error: CallError) -> Self {
        Self::Unavailable { reason: error.to_string(), retry_after: RetryAfter::SOON }
    }
}

impl From<StoreError> for BridgeError {
    fn from(error: StoreError) -> Self {
        Self::Unavailable { reason: error.to_string(), retry_after: RetryAfter::SOON }
    }
}
