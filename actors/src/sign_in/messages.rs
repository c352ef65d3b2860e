//! What the session registry is told.

use std::net::IpAddr;
use std::sync::Arc;

use ractor::RpcReplyPort;
use selfsame_protocol::sign_in::records::KeyTooYoung;
use selfsame_storage::StoreError;
use tokio::sync::watch;

use super::error::SignInError;
use super::ids::TransactionId;
use super::signing_keys::LoadedKeys;
use crate::support::slot::Ping;

/// What the session registry is told.
pub(crate) enum SessionRegistryMessage {
    /// Count a sign-in that this source address begins, if there is room for it.
    OpenSignIn(Option<IpAddr>, RpcReplyPort<Result<(), SignInError>>),
    /// The sign-in that was counted for this source address was not recorded.
    GiveBackSignIn(Option<IpAddr>),
    /// Register a follower of a transaction.
    Follow(TransactionId, RpcReplyPort<watch::Receiver<()>>),
    /// A follower of a transaction has gone.
    Unfollow(TransactionId),
    /// A transaction was answered: wake its followers.
    Answered(TransactionId),
    /// Load the signing keys, and make them if there are none.
    LoadKeys(RpcReplyPort<Result<Arc<LoadedKeys>, SignInError>>),
    /// Promote the next signing key; `force` also when clients may not know it yet.
    RotateKeys { force: bool, reply: RpcReplyPort<Rotation> },
    /// A task has written signing keys, or failed to.
    KeysChanged(KeysChanged),
    /// Delete what has expired, and rotate the signing keys if it is time.
    Sweep,
    /// A task has deleted so many expired records.
    Swept(Result<usize, StoreError>),
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

/// The outcome of rotating the signing keys.
pub(crate) type Rotation = Result<Result<(), KeyTooYoung>, SignInError>;

/// What a task that changes the signing keys has done.
pub(crate) enum KeysChanged {
    /// It has made the first keys, if there were none.
    Made(Result<(), SignInError>, RpcReplyPort<Result<Arc<LoadedKeys>, SignInError>>),
    /// It has rotated the keys. Without a reply port, because they were due.
    Rotated(Rotation, Option<RpcReplyPort<Rotation>>),
}

impl Ping for SessionRegistryMessage {
    fn ping(reply: RpcReplyPort<()>) -> Self {
        Self::Ping(reply)
    }
}
