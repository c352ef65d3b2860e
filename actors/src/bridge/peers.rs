//! The message bridge of several replicas: each entry is held by one of them, and every replica
//! answers for all entries.
//!
//! The id of an entry chooses its holder among the replicas that run
//! ([`selfsame_protocol::bridge::holders`]). A replica that does not find an entry there asks the
//! others, because the holder may have been chosen before another replica started.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use selfsame_protocol::bridge::entries::EntryError;
use selfsame_protocol::bridge::{EntryId, Message, ResponseStatus};
use selfsame_protocol::time::RetryAfter;
use serde::{Deserialize, Serialize};

use super::handle::BridgeError;
use crate::support::replica::LeaderError;
use crate::support::source_limits::TooManyRequests;

/// The other replicas, as the message bridge calls them.
///
/// A replica hands a message to [`crate::Service::answer_bridge`], and sends back what that
/// returns. It checks no sender: let only replicas reach it.
pub trait BridgePeers: Send + Sync + 'static {
    /// The name of this replica.
    fn own_name(&self) -> &str;

    /// The names of the replicas that run, this one included, as far as this one knows; `None`
    /// while it does not know any.
    fn running(&self) -> Option<Vec<String>>;

    /// Sends a message to a replica, and returns its answer. The answer may take a minute.
    ///
    /// # Errors
    /// The replica was not reached or did not answer.
    fn send(&self, replica: &str, message: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, LeaderError>>;
}

/// What a replica asks the holder of an entry.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    pub id: EntryId,
    /// The address that the client called from.
    pub source: Option<IpAddr>,
    pub kind: QuestionKind,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum QuestionKind {
    CreateRequest { message: Message, flow: [u8; 16] },
    CreateResponse { message: Message },
    Answer { message: Message },
    TakeRequest,
    ReadRequest,
    Status,
    TakeResponse { wait: Option<Duration> },
}

impl QuestionKind {
    /// Whether it makes an entry, which only the first holder does.
    pub fn creates(&self) -> bool {
        matches!(self, Self::CreateRequest { .. } | Self::CreateResponse { .. })
    }
}

/// What the holder answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Kept,
    Refused(EntryError),
    Request {
        message: Message,
        flow: [u8; 16],
    },
    ShownRequest(Message),
    Status(ResponseStatus),
    Response {
        status: ResponseStatus,
        response: Option<Message>,
    },
    /// There is no such entry.
    Nothing,
    TooMany {
        retry_after: Duration,
    },
    Unavailable {
        reason: String,
        retry_after: Duration,
    },
}

impl Answer {
    /// Whether another replica may have the entry.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing | Self::Refused(EntryError::NoSuchRequest))
    }

    /// The answer as the handle's methods return it.
    pub fn into_result(self) -> Result<Self, BridgeError> {
        match self {
            Self::Refused(error) => Err(error.into()),
            Self::TooMany { retry_after } => Err(TooManyRequests { retry_after: RetryAfter(retry_after) }.into()),
            Self::Unavailable { reason, retry_after } => {
                Err(BridgeError::Unavailable { reason, retry_after: RetryAfter(retry_after) })
            }
            answer => Ok(answer),
        }
    }
}

impl From<BridgeError> for Answer {
    fn from(error: BridgeError) -> Self {
        match error {
            BridgeError::Entry(error) => Self::Refused(error),
            BridgeError::TooMany(TooManyRequests { retry_after }) => Self::TooMany { retry_after: retry_after.0 },
            BridgeError::Unavailable { reason, retry_after } => {
                Self::Unavailable { reason, retry_after: retry_after.0 }
            }
        }
    }
}
