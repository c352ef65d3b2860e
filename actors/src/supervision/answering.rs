//! What the leader answers the other replicas.

use selfsame_protocol::encoding::{DecodeError, decode, encode};
use selfsame_storage::{ForwardedDecision, StoreError, is_certainly_unwritten};
use tokio::sync::oneshot;

use super::replication::ReplicationParts;
use crate::registry::forwarded::{decode_submission, encode_answer};
use crate::registry::handle::RegistryHandle;
use crate::support::replica::{Answer, Question, QuestionKind, decision_content};

/// The answer of a service that has no journal.
pub(super) fn no_replica() -> Vec<u8> {
    encode(&refusal("the service that was asked has no journal"))
}

/// Answers a message of another replica.
pub(super) async fn answer(parts: &ReplicationParts, registry: &RegistryHandle, message: &[u8]) -> Vec<u8> {
    // A message that arrives late, after another one began to lead, is refused by the journal.
    let answer = match parts.replica.leading() {
        Some(_) => decided(parts, registry, message).await,
        None => Ok(refusal("the replica that was asked does not lead")),
    };
    encode(&answer.unwrap_or_else(|error| refusal(&format!("the question cannot be read: {error}"))))
}

async fn decided(parts: &ReplicationParts, registry: &RegistryHandle, message: &[u8]) -> Result<Answer, DecodeError> {
    let Question { kind, content } = decode(message)?;
    Ok(match kind {
        QuestionKind::Write => {
            let (decided, decision) = oneshot::channel();
            parts.group_commit.decide_forwarded(&content, Box::new(move |outcome| drop(decided.send(outcome))))?;
            match decision.await.unwrap_or(Err(StoreError::Panicked)) {
                Ok(ForwardedDecision { decision, position, applied }) => {
                    // The actors of this replica did not ask for this write, and some keep what it
                    // changed. Callers may wait here for what it brings.
                    if let Err(error) = parts.tell(applied).await {
                        tracing::error!(%error, "what another replica has written cannot be read");
                    }
                    Answer::Answered { position: position.0, content: decision_content(decision) }
                }
                Err(error) => Answer::Failed { is_certain: is_certainly_unwritten(&error), reason: error.to_string() },
            }
        }
        QuestionKind::Submit => {
            let content = encode_answer(registry.submit_forwarded(decode_submission(&content)?).await);
            // The store has the request, or what it is refused for.
            Answer::Answered { position: parts.replica.position().0, content }
        }
    })
}

/// Nothing was done.
fn refusal(reason: &str) -> Answer {
    Answer::Failed { is_certain: true, reason: reason.to_owned() }
}
