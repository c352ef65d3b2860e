//! Proof verification's handle as an actor: other actors send it messages, supervise and monitor
//! it, and put it into process groups.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use selfsame_protocol::verification::answer::{ItemResult, VerificationErrorBody};
use selfsame_protocol::verification::request::{ValidationError, VerificationRequest};
use selfsame_protocol::verification::roots::{RootKey, TrustedRoot};
use selfsame_storage::StoreError;
use serde_json::Value;
use tokio::time::Instant;

use super::handle::{Verification, VerificationHandle};
use super::refusals::VerificationError;

/// A request for proof verification, with a port for its answer.
///
/// The answers come in any order: a proof that is being checked does not keep the next message
/// waiting.
pub enum VerificationMessage {
    /// Check the proofs of an application's request; see [`VerificationHandle::verify`]. When it is
    /// answered with success, the nullifiers are recorded durably.
    Verify {
        /// Id of the relying party, or of its application.
        relying_party: String,
        /// The request, in the form in which applications send it to the verification endpoint.
        body: Box<Value>,
        /// The client's address, for its share of the verifier; `None` has no such bound.
        source: Option<IpAddr>,
        /// How long it may take; at most [`crate::VerificationLimits::time_limit`].
        patience: Duration,
        /// Takes what was verified.
        reply: RpcReplyPort<Result<Verification, VerificationCallError>>,
    },
    /// Trust a root from now on, durably; see [`VerificationHandle::trust_root`].
    TrustRoot {
        /// The root.
        root: TrustedRoot,
        /// Takes the outcome.
        reply: RpcReplyPort<Result<(), VerificationCallError>>,
    },
    /// Take a trusted root back; see [`VerificationHandle::remove_root`].
    RemoveRoot {
        /// The root.
        root: RootKey,
        /// Takes whether it was trusted.
        reply: RpcReplyPort<Result<bool, VerificationCallError>>,
    },
}

/// Why a message was not answered with success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerificationCallError {
    /// The request is refused. The body is the one that the verification endpoint answers.
    #[error("{}", .0.detail)]
    Refused(VerificationErrorBody),
    /// It cannot be answered now; another attempt may succeed. When recording took too long or
    /// failed, the nullifiers may have been recorded.
    #[error("{reason}")]
    Unavailable {
        /// Why.
        reason: String,
    },
}

impl From<ValidationError> for VerificationCallError {
    fn from(ValidationError { code, attribute, detail }: ValidationError) -> Self {
        let body = VerificationErrorBody { success: false, code, detail, attribute, app_id: None, results: None };
        Self::Refused(body)
    }
}

impl From<VerificationError> for VerificationCallError {
    fn from(error: VerificationError) -> Self {
        if let VerificationError::Unavailable { .. } | VerificationError::Store(_) = error {
            return Self::Unavailable { reason: error.to_string() };
        }
        Self::Refused(VerificationErrorBody {
            success: false,
            code: error.code(),
            detail: error.to_string(),
            attribute: error.attribute().map(Cow::into_owned),
            app_id: error.app_id().map(str::to_owned),
            results: error.results().map(<[ItemResult]>::to_vec),
        })
    }
}

impl From<StoreError> for VerificationCallError {
    fn from(error: StoreError) -> Self {
        Self::Unavailable { reason: error.to_string() }
    }
}

/// The actor. It is started with the handle of a service, and has no state of its own: what it has
/// taken continues when it is killed, and is answered.
pub struct VerificationActor;

impl Actor for VerificationActor {
    type Msg = VerificationMessage;
    type State = VerificationHandle;
    type Arguments = VerificationHandle;

    async fn pre_start(
        &self,
        _: ActorRef<VerificationMessage>,
        handle: VerificationHandle,
    ) -> Result<VerificationHandle, ActorProcessingErr> {
        Ok(handle)
    }

    async fn handle(
        &self,
        _: ActorRef<VerificationMessage>,
        message: VerificationMessage,
        handle: &mut VerificationHandle,
    ) -> Result<(), ActorProcessingErr> {
        drop(tokio::spawn(answer(handle.clone(), message)));
        Ok(())
    }
}

/// Answers a message. A caller that no longer waits does not stop it: its nullifiers may be on
/// their way to the disk.
async fn answer(handle: VerificationHandle, message: VerificationMessage) {
    match message {
        VerificationMessage::Verify { relying_party, body, source, patience, reply } => {
            // The longest time that the limits allow comes first: a caller may state any time,
            // also one beyond all that an instant can be.
            let longest = handle.deadline();
            let deadline = Instant::now().checked_add(patience).map_or(longest, |stated| stated.min(longest));
            let _ = reply.send(verify(&handle, source, &relying_party, body, deadline).await);
        }
        VerificationMessage::TrustRoot { root, reply } => {
            let _ = reply.send(handle.trust_root(root).await.map_err(VerificationCallError::from));
        }
        VerificationMessage::RemoveRoot { root, reply } => {
            let _ = reply.send(handle.remove_root(root).await.map_err(VerificationCallError::from));
        }
    }
}

async fn verify(
    handle: &VerificationHandle,
    source: Option<IpAddr>,
    relying_party: &str,
    body: Box<Value>,
    deadline: Instant,
) -> Result<Verification, VerificationCallError> {
    let request = VerificationRequest::read(&body)?;
    // A parsed JSON tree can take about 50 times the memory of its text, so it does not wait for
    // the verifier.
    drop(body);
    Ok(handle.verify(source, relying_party, request, deadline).await?)
}
