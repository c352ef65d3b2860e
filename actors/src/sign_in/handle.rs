//! Sign-in's handle, for authorization requests, answers, codes, tokens and keys.
//!
//! Every step that changes records is one compare-and-write of the records that it read: of two
//! racing steps only one succeeds, and a successful step is durable. The steps are methods of the
//! handle in files of their own: `transactions`, `progress`, `sessions`, `grants` and `tokens`.
//! This file has what they share, and what concerns the provider as a whole.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use selfsame_protocol::sign_in::claims::Provider;

use super::error::SignInError;
use super::follower_limits::{FollowerLimits, FollowerPermit};
use super::ids::TransactionId;
use super::keys::PUBLISHED_AFTER_RETIREMENT;
use super::messages::{Rotation, SessionRegistryMessage};
use super::settings::{SignInClient, SignInLimits};
use super::signing_keys::{KeyState, PublicJwk};
use super::state::{KEY_PATIENCE, SignInState};
use crate::support::rate::TooManyRequests;
use crate::verification::handle::VerificationHandle;

/// Sign-in, for front-ends and embedders. Cheap to clone. The handle stays valid when its actor
/// restarts.
#[derive(Clone)]
pub struct SignInHandle {
    pub(super) state: Arc<SignInState>,
    pub(super) verification: VerificationHandle,
}

impl SignInHandle {
    pub(crate) fn new(state: Arc<SignInState>, verification: VerificationHandle) -> Self {
        Self { state, verification }
    }

    /// The provider's issuer and claims.
    pub fn provider(&self) -> &Provider {
        &self.state.settings.provider
    }

    /// See [`crate::SignInSettings::answers_inactive_tokens_plainly`].
    pub fn answers_inactive_tokens_plainly(&self) -> bool {
        self.state.settings.answers_inactive_tokens_plainly
    }

    /// How long a browser's session lasts.
    pub fn session_lifetime(&self) -> Duration {
        self.state.settings.session_lifetime
    }

    /// The client with an id; `None` when no such client is configured.
    pub fn client(&self, id: &str) -> Option<Arc<SignInClient>> {
        self.state.client(id)
    }

    /// Replaces the clients, from the next request on.
    pub fn set_clients(&self, clients: Vec<SignInClient>) {
        self.state.set_clients(clients);
    }

    /// Changes the limits, from the next request on.
    pub fn set_limits(&self, limits: SignInLimits) {
        self.state.session_registry.set_limit(limits.waiting_calls);
        self.state.per_source.set(limits.per_source);
        self.state.limits.store(Arc::new(limits));
    }

    /// Checks that a source address (IPv6: its /64) is within its limit, and counts nothing.
    pub fn check_source(&self, source: IpAddr) -> Result<(), TooManyRequests> {
        self.state.per_source.check(source, self.state.clock.now())
    }

    /// Counts an authorization request, an answer to one, a follower, or a wrong secret against the
    /// limit of its source address (IPv6: its /64). A request beyond the limit is refused and not
    /// counted.
    ///
    /// The caller does not count requests with a right secret: an application's server has one
    /// address and many end users.
    pub fn charge_source(&self, source: IpAddr) -> Result<(), TooManyRequests> {
        self.state.per_source.charge(source, self.state.clock.now())
    }

    /// Counts a follower of a transaction for as long as the permit is kept, or refuses it: a
    /// transaction has at most four followers, a source address
    /// [`SignInLimits::followers_per_source`]. A front-end calls this before it follows for a
    /// client.
    pub fn enter_follower(&self, id: TransactionId, source: Option<IpAddr>) -> Result<FollowerPermit, TooManyRequests> {
        let limit = self.state.limits.load().followers_per_source;
        FollowerLimits::enter(&self.state.followers, id, source, limit)
    }

    /// The public parts of the signing keys, oldest first. The first call makes the keys.
    pub async fn published_keys(&self) -> Result<Vec<PublicJwk>, SignInError> {
        let keys = self.state.signing_keys().await?;
        let now = self.state.clock.unix_seconds();
        let published = keys.stored.without_expired(now, PUBLISHED_AFTER_RETIREMENT);
        let is_published = |jwk: &&PublicJwk| published.keys.iter().any(|key| key.id == jwk.kid);
        Ok(keys.published.iter().filter(is_published).cloned().collect())
    }

    /// The signing keys, oldest first, with the state of each. The first call makes the keys.
    pub async fn signing_keys(&self) -> Result<Vec<KeyState>, SignInError> {
        let keys = self.state.signing_keys().await?;
        let now = self.state.clock.unix_seconds();
        Ok(keys.stored.without_expired(now, PUBLISHED_AFTER_RETIREMENT).keys.iter().map(KeyState::from).collect())
    }

    /// Promotes the next signing key. Without `force`, this is refused while clients may not have
    /// fetched that key. The rotation continues when the caller is cancelled.
    pub async fn rotate_keys(&self, force: bool) -> Rotation {
        self.state.call(|reply| SessionRegistryMessage::RotateKeys { force, reply }, KEY_PATIENCE).await?
    }
}
