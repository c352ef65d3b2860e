//! Messages from a replica to the one that leads.
//!
//! A replica that does not lead decides nothing: it sends what is to be decided to the leader. The
//! answer names a position of the journal, and the caller gets it when the store of this replica
//! has the entries up to there, so that it reads here what was written there.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use selfsame_protocol::encoding::{DecodeError, Encoding, decode, encode};
use selfsame_protocol::{encode_enum, encode_fields};
use selfsame_storage::{Decision, Forward, OnDecided, Position, Replica, ReplicaError};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// How long the leader's answer is waited for.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// How long it is waited for what the answer depends on.
const APPLIED_PATIENCE: Duration = Duration::from_secs(5);

/// Why the leader's answer is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaderError {
    /// The message was not sent, or the receiver refused to look at it.
    #[error("it was not reached: {0}")]
    Unsent(String),
    /// The message was sent, and no answer came.
    #[error("it gave no answer: {0}")]
    Unanswered(String),
}

/// Carries messages to the replica that leads.
///
/// The leader hands a message to [`crate::Service::answer_replica`], and sends back what that
/// returns. It checks no sender: let only replicas reach it.
pub trait LeaderConnection: Send + Sync + 'static {
    /// Sends a message to the leader, and returns its answer.
    ///
    /// # Errors
    /// No replica leads, or the one that does was not reached or did not answer.
    fn send(&self, message: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, LeaderError>>;
}

/// What the leader is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuestionKind {
    /// To decide about a conditional write.
    Write,
    /// To admit a request to the registry.
    Submit,
}

encode_enum!(QuestionKind { Write = 0, Submit = 1 } of "a question to the leader");

/// A message to the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub kind: QuestionKind,
    pub content: Vec<u8>,
}

encode_fields!(Question { kind, content } version 1 of "message to the leader");

/// The leader's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It has answered.
    Answered {
        /// The store shows what the answer depends on when it has the journal up to here.
        position: u64,
        content: Vec<u8>,
    },
    /// It has no answer.
    Failed {
        /// Whether nothing was written, or will be.
        is_certain: bool,
        reason: String,
    },
}

impl Encoding for Answer {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Answered { position, content } => {
                out.push(0);
                position.encode(out);
                content.encode(out);
            }
            Self::Failed { is_certain, reason } => {
                out.push(1);
                is_certain.encode(out);
                reason.encode(out);
            }
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Ok(Self::Answered { position: u64::decode(input)?, content: Vec::decode(input)? }),
            1 => Ok(Self::Failed { is_certain: bool::decode(input)?, reason: String::decode(input)? }),
            tag => Err(DecodeError::UnknownTag { kind: "an answer of the leader", tag }),
        }
    }
}

/// The content of an answer about a conditional write.
pub(crate) fn decision_content(decision: Decision) -> Vec<u8> {
    encode(&(decision == Decision::Written))
}

/// Sends messages to the leader, and waits for what their answers depend on.
pub(crate) struct Forwarding {
    connection: Arc<dyn LeaderConnection>,
    replica: Arc<Replica>,
    /// What waits for the answers of callers without a runtime.
    runtime: Handle,
}

impl Forwarding {
    /// Forwards what the replica may not decide. Call it in the runtime that is to wait for the
    /// answers.
    pub fn new(connection: Arc<dyn LeaderConnection>, replica: Arc<Replica>) -> Arc<Self> {
        Arc::new(Self { connection, replica, runtime: Handle::current() })
    }

    /// Asks the leader. Returns the content of its answer when the store of this replica has what
    /// the answer depends on.
    ///
    /// # Errors
    /// [`ReplicaError::is_certain`] says whether the leader may have done what it was asked.
    pub async fn ask(&self, kind: QuestionKind, content: Vec<u8>) -> Result<Vec<u8>, ReplicaError> {
        let unanswered = |reason: String| ReplicaError::Unanswered { reason };
        let sending = self.connection.send(encode(&Question { kind, content }));
        let answer = match timeout(ANSWER_PATIENCE, sending).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error @ LeaderError::Unsent(_))) => {
                return Err(ReplicaError::NoLeader { reason: error.to_string() });
            }
            Ok(Err(error @ LeaderError::Unanswered(_))) => return Err(unanswered(error.to_string())),
            Err(_) => return Err(unanswered(format!("it gave no answer within {} s", ANSWER_PATIENCE.as_secs()))),
        };
        match decode(&answer) {
            Ok(Answer::Answered { position, content }) => {
                let position = Position(position);
                let applied = timeout(APPLIED_PATIENCE, self.replica.applied(position)).await;
                applied.map_err(|_| ReplicaError::Lagging { position })?;
                Ok(content)
            }
            Ok(Answer::Failed { is_certain: true, reason }) => Err(ReplicaError::NoLeader { reason }),
            Ok(Answer::Failed { is_certain: false, reason }) => Err(unanswered(reason)),
            Err(error) => Err(unanswered(format!("its answer cannot be read: {error}"))),
        }
    }

    async fn decide(&self, write: Vec<u8>) -> Result<Decision, ReplicaError> {
        let content = self.ask(QuestionKind::Write, write).await?;
        match decode(&content) {
            Ok(true) => Ok(Decision::Written),
            Ok(false) => Ok(Decision::Changed),
            Err(error) => Err(ReplicaError::Unanswered { reason: format!("its answer cannot be read: {error}") }),
        }
    }
}

/// The forwarding of a service as the group commit sees it.
pub(crate) struct ForwardedWrites(pub Arc<Forwarding>);

impl Forward for ForwardedWrites {
    fn forward(&self, write: Vec<u8>, decided: OnDecided) {
        let forwarding = Arc::clone(&self.0);
        self.0.runtime.spawn(async move { decided(forwarding.decide(write).await.map_err(Into::into)) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_they_were_written() {
        let answered = Answer::Answered { position: 7, content: decision_content(Decision::Changed) };
        for answer in [answered, Answer::Failed { is_certain: true, reason: "no".to_owned() }] {
            assert_eq!(decode::<Answer>(&encode(&answer)), Ok(answer));
        }
        assert!(decode::<Answer>(&[2]).is_err());
    }
}
