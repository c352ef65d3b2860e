//! Why a question about events has no answer.

use selfsame_storage::StoreError;

use crate::support::slot::CallError;

/// Why a question about events has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EventError {
    /// No receiver has this id.
    #[error("there is no webhook {id:?}; `webhooks` of the configuration has their ids")]
    NoSuchReceiver {
        /// The id.
        id: String,
    },
    /// Another replica sends the webhooks.
    #[error("another replica leads and sends the webhooks; ask that one")]
    NotLeading,
    /// The actor is restarting, stopping or overloaded.
    #[error("the sender of events cannot be asked: {0}")]
    Unavailable(String),
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<CallError> for EventError {
    fn from(error: CallError) -> Self {
        Self::Unavailable(error.to_string())
    }
}
