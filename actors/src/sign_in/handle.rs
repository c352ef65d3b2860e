//! Sign-in's handle, for authorization requests, answers, codes, tokens and keys: its settings, its
//! errors, and what concerns the provider as a whole.
//!
//! The steps of a sign-in are methods of the handle in files of their own: `authorization`,
//! `transactions`, `sessions` and `tokens`. This file has what they share.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use selfsame_protocol::client_secret::ClientSecret;
use selfsame_protocol::groups::names::GroupId;
use selfsame_protocol::rate_limit::RateLimit;
use selfsame_protocol::sign_in::accounts::SubjectKind;
use selfsame_protocol::sign_in::asks::LegacyRules;
use selfsame_protocol::sign_in::claims::Provider;
use selfsame_protocol::sign_in::passkeys::PasskeyDomain;
use selfsame_protocol::sign_in::proof_request::SignInProof;
use selfsame_protocol::sign_in::records::{SigningKey, UnknownKey};
use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
use selfsame_protocol::sign_in::{AuthorizationRequest, Client, SigningAlgorithm};
use selfsame_protocol::time::{RetryAfter, UnixSeconds};
use selfsame_protocol::verification::Environment;
use selfsame_protocol::verification::directory::RelyingParty;
use selfsame_protocol::verification::items::ItemError;
use selfsame_storage::{Metrics, StoreError};

use super::keys::{PUBLISHED_AFTER_RETIREMENT, rotation_due};
use super::records::{KEY_PATIENCE, SignInState, TransactionId};
use super::session_registry::{Rotation, SessionRegistryMessage};
use super::signing_keys::{KeyState, PublicJwk, SigningError};
use crate::key_cipher::KeyCipher;
use crate::support::replica::AwaitError;
use crate::support::slot::CallError;
use crate::support::source_limits::{FollowerLimits, FollowerPermit, TooManyRequests, register_refusals};
use crate::verification::handle::VerificationHandle;
use crate::verification::refusals::VerificationError;

// Settings of sign-in.

/// Settings of sign-in.
#[derive(Clone, Debug)]
pub struct SignInSettings {
    /// The issuer, and the values of claims that come from the configuration.
    pub provider: Provider,
    /// The applications that end users can sign in to.
    pub clients: Vec<SignInClient>,
    /// How long an authorization request waits for an answer.
    pub transaction_lifetime: Duration,
    /// How long an authorization code can be used.
    pub code_lifetime: Duration,
    /// How long a signing key signs.
    pub key_rotation: Duration,
    /// The algorithm of the signing keys that are made. Keys that exist sign until they are rotated
    /// out, whatever their algorithm is.
    pub signing_algorithm: SigningAlgorithm,
    /// Encrypts the private signing keys and the registry's key in the store; `None` stores them as
    /// they are.
    pub key_cipher: Option<Arc<KeyCipher>>,
    /// How long a browser's session lasts.
    pub session_lifetime: Duration,
    /// Whether introspection answers an invalid token with status 200, as RFC 7662 says, instead of
    /// 401.
    pub answers_inactive_tokens_plainly: bool,
    /// The domain that browsers keep passkeys for ([`PasskeyDomain::new`] of the issuer); `None`
    /// when there are none. With another domain every passkey that was made before is worth
    /// nothing.
    pub passkey_domain: Option<PasskeyDomain>,
    /// The limits, which can be changed while the service runs.
    pub limits: SignInLimits,
}

/// Limits of sign-in. They can be changed while the service runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignInLimits {
    /// Limit, by source address (IPv6 by /64), of sign-ins begun, followed or answered, of requests
    /// to sign out, of completions that fail, of wrong client secrets, and of wrong codes and
    /// tokens without a client secret; `None` is off.
    pub per_source: Option<RateLimit>,
    /// The most sign-ins that are begun within [`SignInSettings::transaction_lifetime`]. One source
    /// address may begin a quarter of them (rounded up).
    pub open_sign_ins: usize,
    /// The most transactions that one source address (IPv6: a /64) follows at a time.
    pub followers_per_source: usize,
    /// Calls that may wait for the session registry's answer at a time.
    pub waiting_calls: usize,
}

impl Default for SignInLimits {
    fn default() -> Self {
        Self { per_source: None, open_sign_ins: 1_000_000, followers_per_source: 256, waiting_calls: 4096 }
    }
}

impl Default for SignInSettings {
    /// No clients, and no passkeys: the issuer's host is an address.
    fn default() -> Self {
        let text = str::to_owned;
        Self {
            provider: Provider {
                issuer: text("http://127.0.0.1:8080"),
                name: text("World ID User"),
                given_name: text("World ID"),
                family_name: text("User"),
            },
            clients: Vec::new(),
            transaction_lifetime: Duration::from_secs(300),
            code_lifetime: Duration::from_secs(60),
            key_rotation: Duration::from_secs(30 * 24 * 3600),
            signing_algorithm: SigningAlgorithm::default(),
            key_cipher: None,
            session_lifetime: Duration::from_secs(24 * 3600),
            answers_inactive_tokens_plainly: false,
            passkey_domain: None,
            limits: SignInLimits::default(),
        }
    }
}

/// An application that end users can sign in to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInClient {
    /// Its OAuth parameters, such as id and redirect URIs.
    pub client: Client,
    /// The name that end users see.
    pub name: String,
    /// The client secrets, any of which is accepted: two while a secret is changed. Empty for a
    /// public client.
    pub secrets: Vec<ClientSecret>,
    /// The environment of the proofs that it accepts.
    pub environment: Environment,
    /// What its sign-in asks for. Each way gives other subjects.
    pub proof: SignInProof,
    /// What the subjects of new accounts are; [`SubjectKind::Nullifier`] for a client without
    /// accounts, whose subjects are nullifiers. The client's first account writes it into the
    /// store, which says it from then on: a service does not start with clients that contradict
    /// the store, and [`SignInHandle::check_subjects`] finds them before they are replaced.
    pub subject: SubjectKind,
    /// Whether the client has a legacy history: people whose subject is the nullifier of a legacy
    /// proof. The first accepted legacy proof makes it so as well, for good.
    pub has_legacy_history: bool,
    /// How a client with a legacy history and accounts takes legacy proofs.
    pub legacy: LegacyRules,
    /// The only credential of a first proof that has to be of a newer credential
    /// ([`LegacyRules::current_alone_since`]), because the bound of the proof is that of one
    /// credential; `None` lets each accepted one count.
    pub first_credential: Option<String>,
    /// The group whose credential is the only one that sign-ins of the client take, so that wallets
    /// are told what is asked for; `None` where others count as well.
    pub only_group: Option<GroupId>,
    /// Whether a person may answer with an authenticator on another device than the browser.
    pub allows_cross_device: bool,
}

impl SignInClient {
    /// Whether one of `readings`, the ways to read the secret that a request carries, is one of the
    /// client's secrets. All are compared, in constant time.
    pub fn has_any_secret<T: AsRef<str>>(&self, readings: &[T]) -> bool {
        ClientSecret::is_any(&self.secrets, readings)
    }
}

// Why a step of a sign-in failed.

/// Why a step of a sign-in failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SignInError {
    /// The request is not valid.
    #[error(transparent)]
    Rejected(#[from] SignInRejection),
    /// A code that has given a token was used again: the code or the client's secret is in other
    /// hands, or the client is faulty. The token is revoked.
    #[error(transparent)]
    CodeReused(SignInRejection),
    /// The proof does not hold.
    #[error("{0}")]
    Proof(ItemError),
    /// The source address has used up its limit of requests that
    /// [`SignInHandle::charge_source`](crate::SignInHandle::charge_source) counts.
    #[error(transparent)]
    TooMany(#[from] TooManyRequests),
    /// The service cannot take the step now.
    #[error("{reason}; try again in {retry_after}")]
    Unavailable {
        /// Why the service cannot take the step, for the client.
        reason: String,
        /// Time until another attempt may succeed. When too many sign-ins are open, time until one
        /// of them no longer counts; otherwise [`RetryAfter::SOON`].
        retry_after: RetryAfter,
    },
    /// The signing keys cannot be used.
    #[error(transparent)]
    Signing(#[from] SigningError),
    /// The store could not be read or written. After a failed write the records may have been
    /// written all the same.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SignInError {
    /// The error as a client gets it, without the details of a failure in the service.
    pub fn to_rejection(&self) -> SignInRejection {
        match self {
            Self::Rejected(rejection) | Self::CodeReused(rejection) => rejection.clone(),
            Self::Proof(failed) => {
                let detail = format!("the proof is not accepted ({}): {failed}", failed.code().name());
                SignInRejection::of("responses[0]", ErrorKind::InvalidRequest, detail)
            }
            Self::TooMany(_) | Self::Unavailable { .. } => {
                SignInRejection::new(ErrorKind::TemporarilyUnavailable, self.to_string())
            }
            // Without the leader every sign-in is answered so; the status says it once.
            Self::Store(StoreError::Replica(error)) if error.is_transient() => {
                let detail = format!("{}; try again", error.for_clients());
                SignInRejection::new(ErrorKind::TemporarilyUnavailable, detail)
            }
            Self::Store(_) => {
                let detail = "the state cannot be read or written at the moment; try again";
                SignInRejection::new(ErrorKind::TemporarilyUnavailable, detail)
            }
            Self::Signing(_) => SignInRejection::new(ErrorKind::ServerError, "tokens cannot be signed at the moment"),
        }
    }

    /// The service cannot take the step now; a retry after [`RetryAfter::SOON`] may succeed.
    pub(super) fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into(), retry_after: RetryAfter::SOON }
    }

    /// There is no such transaction, or the caller may not use it.
    pub fn no_transaction(reason: &'static str) -> Self {
        let detail = "no such sign-in is under way; it may have expired";
        SignInRejection::new(ErrorKind::NotFound, detail).with_reason(reason).into()
    }

    /// The transaction was answered before.
    pub(super) fn already_answered() -> Self {
        let detail = "this sign-in has been answered; begin another one";
        SignInRejection::new(ErrorKind::InvalidRequest, detail).into()
    }
}

impl From<AwaitError> for SignInError {
    fn from(error: AwaitError) -> Self {
        match error {
            AwaitError::TooMany(error) => error.into(),
            AwaitError::Store(error) => error.into(),
        }
    }
}

impl From<CallError> for SignInError {
    fn from(error: CallError) -> Self {
        Self::unavailable(format!("the session registry cannot be asked ({error})"))
    }
}

impl From<VerificationError> for SignInError {
    fn from(error: VerificationError) -> Self {
        match error {
            VerificationError::Unavailable { reason } => Self::unavailable(reason),
            VerificationError::Store(error) => error.into(),
            error => SignInRejection::new(ErrorKind::InvalidRequest, error.to_string()).into(),
        }
    }
}

// The handle.

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

impl SignInHandle {
    pub(crate) fn new(state: Arc<SignInState>, verification: VerificationHandle) -> Self {
        Self { state, verification }
    }

    /// The counts since the start.
    pub fn statistics(&self) -> SignInStatistics {
        SignInStatistics {
            unprotected_code_requests: self.state.unprotected_code_requests.get(),
            expired_unanswered: self.state.unanswered.expired(),
        }
    }

    /// When the key that signs ID tokens began to sign; `None` while no key was needed yet.
    pub fn current_key_promoted_at(&self) -> Option<UnixSeconds> {
        self.state.keys.load().as_ref()?.stored.current()?.promoted_at
    }

    /// Adds the numbers of sign-in to `metrics`. The daemon counts the events of sign-ins in its
    /// audit trail.
    pub(crate) fn register(&self, metrics: &mut Metrics) {
        let SignInState { unprotected_code_requests, unanswered, per_source, refused_open_sign_ins, followers, .. } =
            &*self.state;
        let help = "Authorization requests for a code with neither code_challenge nor nonce";
        metrics.add("selfsame_sign_in_unprotected_code_requests", help, unprotected_code_requests.clone());
        unanswered.register(metrics);
        register_refusals(metrics, "sign_ins_per_source", "sign-in", &per_source.refused);
        register_refusals(metrics, "open_sign_ins", "sign-in", refused_open_sign_ins);
        register_refusals(metrics, "followers_per_source", "sign-in", &followers.refused_of_source);
        let sign_in = self.clone();
        metrics.add_group(move |samples| {
            let Some(promoted_at) = sign_in.current_key_promoted_at() else { return Ok(()) };
            let help = "When the key that signs ID tokens began to sign, in Unix time";
            samples.gauge("selfsame_sign_in_current_key_promoted_timestamp_seconds", help, promoted_at.0)
        });
    }

    /// Counts a valid authorization request, if its code is not protected.
    pub(super) fn count_unprotected(&self, request: &AuthorizationRequest) {
        if request.has_unprotected_code() {
            self.state.unprotected_code_requests.inc();
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
        Ok(keys.public.iter().filter(is_published).cloned().collect())
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

    /// The signing keys, oldest first, with the state of each, also those that only check hints any
    /// more. The first call makes the keys.
    pub async fn signing_keys(&self) -> Result<Vec<KeyState>, SignInError> {
        let keys = self.state.signing_keys().await?;
        let now = self.state.clock.unix_seconds();
        Ok(keys.stored.keys.iter().map(|key| KeyState::of(key, now)).collect())
    }

    /// When the current signing key is due to be rotated; `None` while no keys are published. Makes
    /// no keys.
    pub fn rotation_due(&self) -> Option<UnixSeconds> {
        rotation_due(&self.state)
    }

    /// Up to which time all sign-ins have ended, inclusive; `None` when none were. A time in the
    /// future, which a clock that was ahead leaves, ends each sign-in at once.
    pub fn sign_ins_ended_until(&self) -> Option<UnixSeconds> {
        self.state.ended_until()
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
