//! The registry's handle as an actor: other actors send it messages, supervise and monitor it, and
//! put it into process groups. With the feature `cluster`, also from other nodes.

use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use selfsame_protocol::gateway::GatewayStatusResponse;
use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::ledger::{RequestId, Tip};
use selfsame_protocol::registry::{Account, RegistryView};
use selfsame_storage::StoreError;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::handle::{RegistryHandle, WaitError};
use super::submission::{Submission, SubmitError};

/// The longest wait for a final state.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// A question to the registry, or a request for it. Each has a port for its answer.
///
/// The answers come in any order: a request that waits for its commit does not keep the next
/// message waiting.
pub enum RegistryMessage {
    /// Submit a request; see [`RegistryHandle::submit`]. When it is answered with success, the
    /// request is durable.
    Submit {
        /// The request.
        submission: Box<Submission>,
        /// Takes the request's id and state.
        reply: RpcReplyPort<Result<GatewayStatusResponse, SubmitError>>,
    },
    /// Answer with a request's state; see [`RegistryHandle::status`].
    Status {
        /// The request.
        request_id: RequestId,
        /// Takes the state; `None` when the request is unknown or its record has expired.
        reply: RpcReplyPort<Result<Option<GatewayStatusResponse>, ReadError>>,
    },
    /// Answer with a request's state when it is final, or as it is when the time is over; see
    /// [`RegistryHandle::wait_until_final`].
    WaitUntilFinal {
        /// The request.
        request_id: RequestId,
        /// How long to wait; at most an hour.
        patience: Duration,
        /// Takes the state; `None` when the request is unknown or its record has expired.
        reply: RpcReplyPort<Result<Option<GatewayStatusResponse>, ReadError>>,
    },
    /// Answer with the tip of the published state.
    Tip {
        /// Takes the tip.
        reply: RpcReplyPort<Tip>,
    },
    /// Answer with an account of the published state.
    Account {
        /// The account's leaf index.
        leaf_index: LeafIndex,
        /// Takes the account; `None` when the leaf has none.
        reply: RpcReplyPort<Result<Option<Account>, ReadError>>,
    },
    /// A message of another node that this version of the program cannot read. Its sender gets no
    /// answer.
    Unreadable {
        /// What is wrong with it.
        reason: String,
    },
}

/// Why a question was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum ReadError {
    /// As many callers wait as [`crate::AdmissionLimits::status_waiters`] allows.
    #[error("too many callers are waiting for final states; ask for the state, or try again")]
    TooManyWaiting,
    /// The store could not be read.
    #[error("{reason}")]
    Store {
        /// The store's error.
        reason: String,
    },
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::Store { reason: error.to_string() }
    }
}

impl From<WaitError> for ReadError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::TooMany => Self::TooManyWaiting,
            WaitError::Store(error) => error.into(),
        }
    }
}

/// The actor. It is started with the handle of a service, and has no state of its own: what it has
/// taken continues when it is killed, and is answered.
///
/// `docs/embedding.md` starts one, and puts it into a process group.
pub struct RegistryActor;

impl Actor for RegistryActor {
    type Msg = RegistryMessage;
    type State = RegistryHandle;
    type Arguments = RegistryHandle;

    async fn pre_start(
        &self,
        _: ActorRef<RegistryMessage>,
        handle: RegistryHandle,
    ) -> Result<RegistryHandle, ActorProcessingErr> {
        Ok(handle)
    }

    async fn handle(
        &self,
        _: ActorRef<RegistryMessage>,
        message: RegistryMessage,
        handle: &mut RegistryHandle,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            RegistryMessage::Tip { reply } => drop(reply.send(*handle.snapshot().tip())),
            RegistryMessage::Unreadable { reason } => {
                tracing::warn!(reason, "a message of another node cannot be read");
            }
            message => drop(tokio::spawn(answer(handle.clone(), message))),
        }
        Ok(())
    }
}

/// Answers a message that takes its time. A caller that no longer waits does not stop it: what it
/// asked for may be on its way to the disk.
async fn answer(handle: RegistryHandle, message: RegistryMessage) {
    match message {
        RegistryMessage::Submit { submission, reply } => {
            let _ = reply.send(handle.submit(*submission).await);
        }
        RegistryMessage::Status { request_id, reply } => {
            let status = handle.reading(move |handle| handle.status(&request_id)).await;
            let _ = reply.send(status.map_err(ReadError::from));
        }
        RegistryMessage::WaitUntilFinal { request_id, patience, reply } => {
            // Another node may state any time, also one beyond all that an instant can be.
            let deadline = Instant::now() + patience.min(LONGEST_WAIT);
            let status = handle.wait_until_final(&request_id, deadline).await;
            let _ = reply.send(status.map_err(ReadError::from));
        }
        RegistryMessage::Account { leaf_index, reply } => {
            let account = handle.reading(move |handle| handle.snapshot().account(leaf_index)).await;
            let _ = reply.send(account.map_err(ReadError::from));
        }
        // Answered at once.
        RegistryMessage::Tip { .. } | RegistryMessage::Unreadable { .. } => {}
    }
}

/// How the messages cross from one node of a cluster to another: requests and their answers in the
/// form in which replicas send them to each other, states and errors in JSON, the rest in the
/// canonical encoding. All nodes run the same version of the program.
#[cfg(feature = "cluster")]
mod crossing {
    use ractor::Message;
    use ractor::message::{BoxedDowncastErr, SerializedMessage};
    use selfsame_protocol::encoding::{decode, encode};

    use super::*;
    use crate::registry::forwarded::{decode_answer, decode_submission, encode_answer, encode_submission};
    use crate::support::crossing::{call, decode_json, encode_json, receive, reply};

    impl Message for RegistryMessage {
        fn serializable() -> bool {
            true
        }

        fn serialize(self) -> Result<SerializedMessage, BoxedDowncastErr> {
            Ok(match self {
                Self::Submit { submission, reply } => {
                    call("Submit", encode_submission(*submission), reply, |bytes| Some(decode_answer(bytes)))
                }
                Self::Status { request_id, reply } => call("Status", encode(&request_id), reply, decode_json),
                Self::WaitUntilFinal { request_id, patience, reply } => {
                    call("WaitUntilFinal", encode_json(&(request_id, patience)), reply, decode_json)
                }
                Self::Tip { reply } => call("Tip", Vec::new(), reply, |bytes| decode(bytes).ok()),
                Self::Account { leaf_index, reply } => call("Account", encode(&leaf_index), reply, decode_account),
                Self::Unreadable { .. } => return Err(BoxedDowncastErr),
            })
        }

        fn deserialize(message: SerializedMessage) -> Result<Self, BoxedDowncastErr> {
            Ok(receive(message, read, |reason| Self::Unreadable { reason }))
        }
    }

    /// Reads a message by its name.
    fn read(name: &str, content: &[u8], answer: RpcReplyPort<Vec<u8>>) -> Option<RegistryMessage> {
        Some(match name {
            "Submit" => {
                let submission = Box::new(decode_submission(content).ok()?);
                RegistryMessage::Submit { submission, reply: reply(answer, encode_answer) }
            }
            "Status" => {
                let request_id = decode(content).ok()?;
                RegistryMessage::Status { request_id, reply: reply(answer, |status| encode_json(&status)) }
            }
            "WaitUntilFinal" => {
                let (request_id, patience) = decode_json(content)?;
                let reply = reply(answer, |status| encode_json(&status));
                RegistryMessage::WaitUntilFinal { request_id, patience, reply }
            }
            "Tip" if content.is_empty() => RegistryMessage::Tip { reply: reply(answer, |tip| encode(&tip)) },
            "Account" => {
                let leaf_index = decode(content).ok()?;
                RegistryMessage::Account { leaf_index, reply: reply(answer, encode_account) }
            }
            _ => return None,
        })
    }

    fn encode_account(read: Result<Option<Account>, ReadError>) -> Vec<u8> {
        encode_json(&read.map(|account| encode(&account)))
    }

    fn decode_account(bytes: &[u8]) -> Option<Result<Option<Account>, ReadError>> {
        match decode_json::<Result<Vec<u8>, ReadError>>(bytes)? {
            Ok(account) => Some(Ok(decode(&account).ok()?)),
            Err(error) => Some(Err(error)),
        }
    }
}
