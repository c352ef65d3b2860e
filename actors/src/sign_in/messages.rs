//! Messages to the session registry.

use std::net::IpAddr;
use std::sync::Arc;

use ractor::RpcReplyPort;
use selfsame_protocol::sign_in::records::{KeyTooYoung, UnknownKey};
use selfsame_storage::StoreError;
use tokio::sync::watch;

use super::error::SignInError;
use super::ids::TransactionId;
use super::signing_keys::LoadedKeys;
use crate::support::slot::Ping;

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
