//! The progress of a transaction: a caller that has its secret can wait for the answer.

use std::sync::Arc;

use selfsame_protocol::sign_in::records::Transaction;
use subtle::ConstantTimeEq;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::error::SignInError;
use super::handle::SignInHandle;
use super::ids::{TransactionId, hash_of};
use super::messages::SessionRegistryMessage;
use super::state::{ReadRecord, SignInState};
use crate::support::slot::RESTART_PATIENCE;

/// Where a transaction stands, for a caller that has its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No authenticator has opened the request yet.
    Waiting,
    /// An authenticator has opened the request, and the person has not answered yet.
    Opened,
    /// A proof was accepted, or the person refused: the caller can complete the transaction.
    Answered,
    /// A proof from the browser's own device was accepted: the caller can complete the transaction
    /// with the return URL, which the authenticator opens.
    AnsweredOnSameDevice,
    /// The transaction was completed, has expired, or never existed.
    Over,
}

impl Progress {
    /// Whether the transaction waits for the person's answer.
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::Waiting | Self::Opened)
    }
}

impl SignInHandle {
    /// Where a transaction stands, for a caller that has its secret.
    pub fn progress(&self, id: TransactionId, secret: &str) -> Result<Progress, SignInError> {
        let Some(ReadRecord { value, .. }) = self.state.get::<Transaction>(&id.key())? else {
            return Ok(Progress::Over);
        };
        check_secret(&value, secret)?;
        Ok(match value.answer {
            _ if value.is_done => Progress::Over,
            Some(_) if value.return_hash.is_some() => Progress::AnsweredOnSameDevice,
            Some(_) => Progress::Answered,
            None if value.opened_at.is_some() => Progress::Opened,
            None => Progress::Waiting,
        })
    }

    /// Waits while a transaction waits for its answer and its progress is still the one that the
    /// caller has `seen`, or until `deadline`.
    pub async fn follow(
        &self,
        id: TransactionId,
        secret: &str,
        seen: Progress,
        deadline: Instant,
    ) -> Result<Progress, SignInError> {
        // Only a caller that has the secret may become a follower.
        let progress = self.progress(id, secret)?;
        if progress != seen || !progress.is_waiting() {
            return Ok(progress);
        }
        loop {
            let mut follower = Follower::register(&self.state, id).await?;
            loop {
                let progress = self.progress(id, secret)?;
                if progress != seen {
                    return Ok(progress);
                }
                match timeout_at(deadline, follower.changes.changed()).await {
                    Err(_) => return Ok(progress),
                    Ok(Ok(())) => {}
                    // The session registry stopped, so the follower registers again.
                    Ok(Err(_)) => break,
                }
            }
        }
    }
}

/// Checks that the caller has the transaction's secret. For other callers the transaction does not
/// exist.
pub(super) fn check_secret(transaction: &Transaction, secret: &str) -> Result<(), SignInError> {
    let is_owner: bool = hash_of(secret).as_slice().ct_eq(transaction.secret_hash.as_slice()).into();
    if is_owner { Ok(()) } else { Err(SignInError::no_transaction("the transaction's secret is wrong")) }
}

/// A registered follower. Dropping it ends the registration.
struct Follower {
    state: Arc<SignInState>,
    id: TransactionId,
    changes: watch::Receiver<()>,
}

impl Follower {
    /// The follower sees every change from now on. The caller registers first and then reads the
    /// transaction.
    async fn register(state: &Arc<SignInState>, id: TransactionId) -> Result<Self, SignInError> {
        let changes = state.call(|reply| SessionRegistryMessage::Follow(id, reply), RESTART_PATIENCE).await?;
        Ok(Self { state: Arc::clone(state), id, changes })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // The session registry counts receivers, so this receiver is dropped before the message is
        // sent.
        self.changes = watch::Sender::new(()).subscribe();
        self.state.session_registry.cast(SessionRegistryMessage::Unfollow(self.id));
    }
}
