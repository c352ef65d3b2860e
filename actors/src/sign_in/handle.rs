//! Sign-in's handle, for authorization requests, answers, codes, tokens and keys.
//!
//! Every step that changes records is one compare-and-write of the records that it read: of two
//! racing steps only one succeeds, and a successful step is durable. The steps are methods of the
//! handle in files of their own: `transactions`, `binding`, `progress`, `sessions`, `grants` and
//! `tokens`.
//! This file has what they share, and what concerns the provider as a whole.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use selfsame_protocol::sign_in::claims::Provider;
use selfsame_protocol::sign_in::records::{SigningKey, UnknownKey};
use selfsame_protocol::sign_in::{AuthorizationRequest, SigningAlgorithm};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::directory::RelyingParty;

use super::error::SignInError;
use super::ids::TransactionId;
use super::keys::{PUBLISHED_AFTER_RETIREMENT, rotation_due};
use super::messages::{Rotation, SessionRegistryMessage};
use super::settings::{SignInClient, SignInLimits};
use super::signing_keys::{KeyState, PublicJwk};
use super::state::{KEY_PATIENCE, SignInState};
use crate::support::source_limits::{FollowerLimits, FollowerPermit, TooManyRequests};
use crate::verification::handle::VerificationHandle;

/// Sign-in, for front-ends and embedders. Cheap to clone. The handle stays valid when its actor
/// restarts.
#[derive(Clone)]
pub struct SignInHandle {
    pub(super) state: Arc<SignInState>,
    pub(super) verification: VerificationHandle,
}

/// What sign-in counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignInStatistics {
    /// Authorization requests since the start that ask for a code with neither `code_challenge` nor
    /// `nonce`.
    pub unprotected_code_requests: u64,
    /// Sign-ins begun since the start that expired before a person answered them. They are counted
    /// when their records are deleted, within seconds.
    pub expired_unanswered: u64,
}

/// How many requests of sign-in the limits of their sources refused since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignInRefusals {
    /// Requests of all kinds, by [`SignInLimits::per_source`].
    pub per_source: u64,
    /// Authorization requests, by the share of a source in [`SignInLimits::open_sign_ins`].
    pub open_sign_ins: u64,
    /// Followers, by [`SignInLimits::followers_per_source`].
    pub followers: u64,
}

impl SignInHandle {
    pub(crate) fn new(state: Arc<SignInState>, verification: VerificationHandle) -> Self {
        Self { state, verification }
    }

    /// The counts since the start.
    pub fn statistics(&self) -> SignInStatistics {
        SignInStatistics {
            unprotected_code_requests: self.state.unprotected_code_requests.load(Ordering::Relaxed),
            expired_unanswered: self.state.unanswered.expired(),
        }
    }

    /// When the key that signs ID tokens began to sign; `None` while no key was needed yet.
    pub fn current_key_promoted_at(&self) -> Option<UnixSeconds> {
        self.state.keys.load().as_ref()?.stored.current()?.promoted_at
    }

    /// The requests that the limits of their sources refused.
    pub fn source_refusals(&self) -> SignInRefusals {
        SignInRefusals {
            per_source: self.state.per_source.refused(),
            open_sign_ins: self.state.refused_open_sign_ins.load(Ordering::Relaxed),
            followers: self.state.followers.refused_of_source(),
        }
    }

    /// Counts a valid authorization request, if its code is not protected.
    pub(super) fn count_unprotected(&self, request: &AuthorizationRequest) {
        if request.has_unprotected_code() {
            self.state.unprotected_code_requests.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How long an authorization request waits for an answer.
    pub fn transaction_lifetime(&self) -> Duration {
        self.state.settings.transaction_lifetime
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

    /// The relying party of an application; `None` when none has the id.
    pub fn relying_party(&self, app_id: &str) -> Option<Arc<RelyingParty>> {
        self.verification.application(app_id)
    }

    /// All clients, by id.
    pub fn clients(&self) -> Vec<Arc<SignInClient>> {
        let mut clients: Vec<_> = self.state.clients.load().values().cloned().collect();
        clients.sort_by(|one, other| one.client.id.cmp(&other.client.id));
        clients
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

    /// Counts an authorization request, an answer to one, a follower, a request to sign out, a
    /// completion that fails, or a wrong secret against the limit of its source address (IPv6: its
    /// /64). A request beyond the limit is refused and not counted.
    ///
    /// The caller does not count requests with a right client secret, whatever they contain: an
    /// application's server has one address and many end users, who choose what it sends.
    pub fn charge_source(&self, source: IpAddr) -> Result<(), TooManyRequests> {
        self.state.per_source.charge(source, self.state.clock.now())
    }

    /// Counts a follower of a transaction for as long as the permit is kept, or refuses it: a
    /// transaction has at most four followers, a source address
    /// [`SignInLimits::followers_per_source`]. A front-end calls this before it follows for a
    /// client.
    pub fn enter_follower(
        &self,
        id: TransactionId,
        source: Option<IpAddr>,
    ) -> Result<FollowerPermit<TransactionId>, TooManyRequests> {
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

    /// The algorithms that ID tokens may be signed with: that of the keys that are made, and those
    /// of the published keys. An algorithm can be listed more than once.
    pub fn signing_algorithms(&self) -> Vec<SigningAlgorithm> {
        let mut algorithms = vec![self.state.settings.signing_algorithm];
        if let Some(keys) = self.state.keys.load().as_ref() {
            let now = self.state.clock.unix_seconds();
            let published = keys.stored.without_expired(now, PUBLISHED_AFTER_RETIREMENT);
            algorithms.extend(published.keys.iter().filter_map(SigningKey::algorithm));
        }
        algorithms
    }

    /// The signing keys, oldest first, with the state of each. The first call makes the keys.
    pub async fn signing_keys(&self) -> Result<Vec<KeyState>, SignInError> {
        let keys = self.state.signing_keys().await?;
        let now = self.state.clock.unix_seconds();
        Ok(keys.stored.without_expired(now, PUBLISHED_AFTER_RETIREMENT).keys.iter().map(KeyState::from).collect())
    }

    /// When the current signing key is due to be rotated; `None` while no keys are published. Makes
    /// no keys.
    pub fn rotation_due(&self) -> Option<UnixSeconds> {
        rotation_due(&self.state)
    }

    /// Removes a signing key at once; when it is the current one, the next key signs from now on.
    /// Nothing that it signed is recognized as a hint any more. Clients accept its tokens until
    /// they fetch the keys again. With `end_sessions`, all sign-ins up to now end: their codes,
    /// access tokens and browser sessions are worth nothing. The revocation continues when the
    /// caller is cancelled.
    pub async fn revoke_key(&self, id: &str, end_sessions: bool) -> Result<Result<(), UnknownKey>, SignInError> {
        let id = id.to_owned();
        let message = |reply| SessionRegistryMessage::RevokeKey { id, end_sessions, reply };
        self.state.call(message, KEY_PATIENCE).await?
    }

    /// Promotes the next signing key. Without `force`, this is refused while clients may not have
    /// fetched that key. The rotation continues when the caller is cancelled.
    pub async fn rotate_keys(&self, force: bool) -> Rotation {
        self.state.call(|reply| SessionRegistryMessage::RotateKeys { force, reply }, KEY_PATIENCE).await?
    }
}
