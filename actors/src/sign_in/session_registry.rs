//! The session registry: sees to it that what sign-in remembers ends in time, and that signing keys change.
//!
//! The records themselves are read and written by the handles ([`crate::SignInHandle`]) through compare-and-write, so nothing of
//! a sign-in waits in this actor's mailbox and none is lost when it dies.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use crate::sign_in::handle::SignInShared;

/// How often it looks.
const INTERVAL: Duration = Duration::from_secs(10);

/// How soon it looks again while there is more to do.
const SOON: Duration = Duration::from_millis(100);

/// Expired records that are deleted at a time.
const SWEEP: usize = 2000;

/// What the session registry is told.
pub(crate) enum SessionRegistryMessage {
    /// Delete what has expired, change the signing key if it is time.
    Look,
    /// Answer, to show that you are not stuck.
    Ping(RpcReplyPort<()>),
}

/// The actor.
pub(crate) struct SessionRegistry;

impl Actor for SessionRegistry {
    type Msg = SessionRegistryMessage;
    type State = Arc<SignInShared>;
    type Arguments = Arc<SignInShared>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        shared: Arc<SignInShared>,
    ) -> Result<Arc<SignInShared>, ActorProcessingErr> {
        shared.session_registry.occupy(myself.clone());
        fault_point!(SessionRegistryStart);
        myself.send_interval(INTERVAL, || SessionRegistryMessage::Look);
        Ok(shared)
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        shared: &mut Arc<SignInShared>,
    ) -> Result<(), ActorProcessingErr> {
        fault_point!(SessionRegistryHandle);
        match message {
            SessionRegistryMessage::Ping(reply) => drop(reply.send(())),
            SessionRegistryMessage::Look => {
                let (records, now) = (Arc::clone(&shared.records), shared.clock.unix_seconds());
                match tokio::task::spawn_blocking(move || records.expire(now, SWEEP)).await? {
                    Ok(0) => {}
                    Ok(swept) => {
                        tracing::debug!(swept, "deleted expired records of sign-in");
                        if swept == SWEEP {
                            // There is more. Others come in between.
                            myself.send_after(SOON, || SessionRegistryMessage::Look);
                        }
                    }
                    // Expired records are as good as absent; they can wait.
                    Err(error) => tracing::error!(%error, "expired records of sign-in cannot be deleted"),
                }
                if let Err(error) = shared.rotate_when_due().await {
                    // The old key goes on; the next look tries again.
                    tracing::error!(%error, "the signing key could not be changed");
                }
            }
        }
        Ok(())
    }
}
