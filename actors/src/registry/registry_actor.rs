//! The registry's handle as an actor: other actors send it messages, supervise and monitor it, and
//! put it into process groups.

use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use selfsame_protocol::gateway::GatewayStatusResponse;
use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::ledger::{RequestId, Tip};
use selfsame_protocol::registry::{Account, RegistryView};
use selfsame_storage::StoreError;
use tokio::time::Instant;

use super::handle::{RegistryHandle, WaitError};
use super::submit::{Submission, SubmitError};

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
}

/// Why a question was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
            // A caller may state any time, also one beyond all that an instant can be.
            let deadline = Instant::now() + patience.min(LONGEST_WAIT);
            let status = handle.wait_until_final(&request_id, deadline).await;
            let _ = reply.send(status.map_err(ReadError::from));
        }
        RegistryMessage::Account { leaf_index, reply } => {
            let account = handle.reading(move |handle| handle.snapshot().account(leaf_index)).await;
            let _ = reply.send(account.map_err(ReadError::from));
        }
        // Answered at once.
        RegistryMessage::Tip { .. } => {}
    }
}
