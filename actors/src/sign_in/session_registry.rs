//! The session registry: it holds the followers of open transactions, counts the open sign-ins,
//! deletes expired records, and loads, rotates and revokes the signing keys.
//!
//! Authorization codes, tokens and browser sessions are records that the handle
//! ([`crate::SignInHandle`]) reads and changes by compare-and-write. Only new sign-ins, new
//! followers, the first use of the signing keys and an operator's changes of them wait for this
//! mailbox.
//! After a restart, followers register again, and the counts start from zero.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use selfsame_protocol::sign_in::records::{KeyTooYoung, UnknownKey};
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::StoreError;
use tokio::sync::watch;
use tracing::Instrument;

use super::handle::SignInError;
use super::keys::KeyKeeper;
use super::open_sign_ins::OpenSignIns;
use super::records::{SignInState, TransactionId};
use super::signing_keys::{LoadedKeys, SigningError};
use crate::support::notify::Notifiers;
use crate::support::slot::{OpenedMessage, Ping, TracedMessage};

// Messages to the session registry.

/// A message to the session registry.
pub(crate) enum SessionRegistryMessage {
    /// Count a sign-in that this source address begins, or refuse it when the limit is reached.
    OpenSignIn(Option<IpAddr>, RpcReplyPort<Result<(), SignInError>>),
    /// The sign-in that was counted for this source address was not recorded, or is taken back.
    GiveBackSignIn(Option<IpAddr>),
    /// Register a follower of a transaction.
    Follow(TransactionId, RpcReplyPort<watch::Receiver<()>>),
    /// A follower of a transaction was dropped.
    Unfollow(TransactionId),
    /// A transaction was opened or answered: wake its followers.
    Changed(TransactionId),
    /// Load the signing keys, and make the first ones if no keys are stored.
    LoadKeys(RpcReplyPort<Result<Arc<LoadedKeys>, SignInError>>),
    /// Promote the next signing key; with `force` even when clients may not have fetched it yet.
    RotateKeys { force: bool, reply: RpcReplyPort<Rotation> },
    /// Remove a signing key at once; with `end_sessions` all sign-ins up to now end too.
    RevokeKey { id: String, end_sessions: bool, reply: RpcReplyPort<Revocation> },
    /// A task that changes the signing keys has ended.
    KeysChanged(KeysChanged),
    /// Another replica has written the signing keys.
    KeysReplaced,
    /// Delete expired records, and rotate the signing keys when they are due.
    Sweep,
    /// A task has deleted this number of expired records, or failed.
    Swept(Result<usize, StoreError>),
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

/// The outcome of rotating the signing keys.
pub(crate) type Rotation = Result<Result<(), KeyTooYoung>, SignInError>;

/// The outcome of revoking a signing key.
pub(crate) type Revocation = Result<Result<(), UnknownKey>, SignInError>;

/// The outcome of a task that changes the signing keys.
pub(crate) enum KeysChanged {
    /// The task made the first keys, if there were none.
    Made(Result<(), SignInError>, RpcReplyPort<Result<Arc<LoadedKeys>, SignInError>>),
    /// The task rotated the keys. There is no reply port when the sweep began the rotation.
    Rotated(Rotation, Option<RpcReplyPort<Rotation>>),
    /// The task corrected times from the future, if there were any.
    Corrected(Result<(), SignInError>),
    /// The task revoked a key.
    Revoked(Revocation, RpcReplyPort<Revocation>),
}

impl Ping for SessionRegistryMessage {
    fn ping(reply: RpcReplyPort<()>) -> Self {
        Self::Ping(reply)
    }
}

// The actor.

/// Time between two sweeps, which delete expired records, rotate due keys and correct their times.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// Time to the next sweep when there is more to delete.
const NEXT_BATCH: Duration = Duration::from_millis(100);

/// The most expired records that one sweep deletes.
const SWEEP_BATCH: usize = 2000;

impl SignInState {
    /// Counts the sign-ins that ended unanswered, and deletes at most [`SWEEP_BATCH`] records that
    /// expired before `now`, whatever they are. When sign-in's records are not in the store,
    /// deletes as many of the store's too, even when the former cannot be deleted.
    fn delete_expired(&self, now: UnixSeconds) -> Result<usize, StoreError> {
        let in_store = self.also_swept.as_ref().map_or(Ok(0), |records| records.expire(now, SWEEP_BATCH));
        let ended = self.unanswered.count_ended(self.records.as_ref(), now, SWEEP_BATCH)?;
        Ok(ended.max(self.records.expire(now, SWEEP_BATCH)?) + in_store?)
    }
}

/// The actor.
pub(crate) struct SessionRegistry;

/// State of the session registry.
pub(crate) struct SessionRegistryState {
    shared: Arc<SignInState>,
    followers: Notifiers<TransactionId>,
    open: OpenSignIns,
    keys: KeyKeeper,
    /// Whether a task that a sweep began is rotating the keys, or correcting their times.
    is_changing_keys: bool,
    /// Whether a task is deleting expired records.
    is_sweeping: bool,
}

impl Actor for SessionRegistry {
    type Msg = TracedMessage<SessionRegistryMessage>;
    type State = SessionRegistryState;
    type Arguments = Arc<SignInState>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        shared: Arc<SignInState>,
    ) -> Result<SessionRegistryState, ActorProcessingErr> {
        // The actor occupies the slot before it loads the keys, so that the message about a change
        // of the keys that ends meanwhile reaches this mailbox.
        shared.session_registry.occupy(myself.clone());
        fault_point!(shared.fault_scope, SessionRegistryStart);
        let keys = KeyKeeper::new(Arc::clone(&shared));
        if let Err(error) = keys.publish_stored() {
            // The first use of the keys tries again, and returns the error.
            tracing::error!(%error, "the signing keys cannot be loaded");
        }
        myself.send_interval(SWEEP_INTERVAL, || SessionRegistryMessage::Sweep.into());
        let (followers, open) = (Notifiers::default(), OpenSignIns::new(shared.settings.transaction_lifetime));
        Ok(SessionRegistryState { shared, followers, open, keys, is_changing_keys: false, is_sweeping: false })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut SessionRegistryState,
    ) -> Result<(), ActorProcessingErr> {
        let OpenedMessage { span, caller, message } = message.open(state.shared.session_registry.name());
        async {
            fault_point!(state.shared.fault_scope, SessionRegistryHandle);
            state.handle(message, &myself);
            Ok(())
        }
        .instrument(span)
        .instrument(caller)
        .await
    }
}

impl SessionRegistryState {
    /// Handles a message without waiting, so that a long queue of sign-ins is handled quickly. An
    /// error of `send` means that the caller no longer waits.
    fn handle(&mut self, message: SessionRegistryMessage, myself: &ActorRef<TracedMessage<SessionRegistryMessage>>) {
        let limit = || self.shared.limits.load().open_sign_ins;
        match message {
            SessionRegistryMessage::Ping(reply) => drop(reply.send(())),
            SessionRegistryMessage::OpenSignIn(source, reply) => {
                let opened = self.open.open(source, limit(), self.shared.clock.now());
                if matches!(opened, Err(SignInError::TooMany(_))) {
                    self.shared.refused_open_sign_ins.inc();
                }
                drop(reply.send(opened));
            }
            SessionRegistryMessage::GiveBackSignIn(source) => self.open.refund(source, limit()),
            SessionRegistryMessage::Follow(id, reply) => drop(reply.send(self.followers.register(id))),
            SessionRegistryMessage::Unfollow(id) => self.followers.release(&id),
            SessionRegistryMessage::Changed(id) => self.followers.notify(&id),
            SessionRegistryMessage::LoadKeys(reply) => self.load_keys(reply),
            SessionRegistryMessage::RotateKeys { force, reply } => self.keys.rotate(force, Some(reply)),
            SessionRegistryMessage::RevokeKey { id, end_sessions, reply } => self.keys.revoke(id, end_sessions, reply),
            SessionRegistryMessage::KeysChanged(changed) => self.publish_keys(changed),
            SessionRegistryMessage::KeysReplaced => {
                if let Err(error) = self.keys.publish_stored() {
                    tracing::error!(%error, "the signing keys of another replica cannot be loaded");
                }
            }
            SessionRegistryMessage::Sweep => self.sweep(),
            SessionRegistryMessage::Swept(swept) => self.finish_sweep(swept, myself),
        }
    }

    fn load_keys(&self, reply: RpcReplyPort<Result<Arc<LoadedKeys>, SignInError>>) {
        let published = match self.shared.keys.load_full() {
            Some(keys) => Ok(Some(keys)),
            None => self.keys.publish_stored(),
        };
        match published.transpose() {
            Some(loaded) => drop(reply.send(loaded)),
            None => self.keys.make_first(reply),
        }
    }

    /// Publishes the stored keys after a change, then answers. The stored keys are published even
    /// when their write returned an error, because it may have been written.
    fn publish_keys(&mut self, changed: KeysChanged) {
        let published = self.keys.publish_stored();
        match changed {
            KeysChanged::Made(made, reply) => {
                let loaded = made.and(published).and_then(|keys| Ok(keys.ok_or(SigningError::Missing)?));
                drop(reply.send(loaded));
            }
            KeysChanged::Revoked(revocation, reply) => {
                drop(reply.send(revocation.and_then(|revocation| published.map(|_| revocation))));
            }
            KeysChanged::Rotated(rotation, Some(reply)) => {
                drop(reply.send(rotation.and_then(|rotation| published.map(|_| rotation))));
            }
            KeysChanged::Corrected(corrected) => {
                self.is_changing_keys = false;
                if let Err(error) = corrected.and(published) {
                    // The next sweep tries again.
                    tracing::error!(%error, "the times of the signing keys could not be corrected");
                }
            }
            KeysChanged::Rotated(rotation, None) => {
                self.is_changing_keys = false;
                match rotation.and_then(|rotation| published.map(|_| rotation)) {
                    Ok(Ok(())) => tracing::info!("the signing keys were rotated"),
                    Ok(Err(error)) => tracing::warn!(%error, "the signing keys are due but not rotated yet"),
                    // The old key continues to sign. The next sweep tries again.
                    Err(error) => tracing::error!(%error, "the signing keys could not be rotated"),
                }
            }
        }
    }

    /// Begins to delete expired records, and to rotate keys that are due.
    ///
    /// While another replica leads, that one does.
    fn sweep(&mut self) {
        if !self.shared.records.leads() {
            return;
        }
        if !self.is_changing_keys && self.keys.have_times_from_the_future() {
            self.is_changing_keys = true;
            self.keys.correct_times();
        } else if !self.is_changing_keys && self.keys.is_rotation_due() {
            self.is_changing_keys = true;
            self.keys.rotate(false, None);
        }
        if std::mem::replace(&mut self.is_sweeping, true) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let sweeping = async move {
            let (swept, now) = (Arc::clone(&shared), shared.clock.unix_seconds());
            let swept = shared.blocking.run_and_commit(move || swept.delete_expired(now)).await;
            let swept = swept.unwrap_or(Err(StoreError::Panicked));
            shared.session_registry.cast(SessionRegistryMessage::Swept(swept));
        };
        tokio::spawn(sweeping.in_current_span());
    }

    fn finish_sweep(
        &mut self,
        swept: Result<usize, StoreError>,
        myself: &ActorRef<TracedMessage<SessionRegistryMessage>>,
    ) {
        self.is_sweeping = false;
        match swept {
            Ok(0) => {}
            Ok(swept) => {
                tracing::debug!(swept, "deleted expired records of sign-in");
                if swept >= SWEEP_BATCH {
                    myself.send_after(NEXT_BATCH, || SessionRegistryMessage::Sweep.into());
                }
            }
            // Expired records count as absent already; the next sweep deletes them.
            Err(error) => tracing::error!(%error, "expired records of sign-in cannot be deleted"),
        }
    }
}
