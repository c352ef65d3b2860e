//! Settings of sign-in.

use std::sync::Arc;
use std::time::Duration;

use selfsame_protocol::client_secret::ClientSecret;
use selfsame_protocol::rate_limit::RateLimit;
use selfsame_protocol::sign_in::claims::Provider;
use selfsame_protocol::sign_in::{Client, SigningAlgorithm};
use selfsame_protocol::verification::{Environment, ProofKind};

use crate::key_cipher::KeyCipher;

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
    /// No clients.
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
    /// The kind of proof that it accepts. The two kinds give different subjects.
    pub proof: ProofKind,
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
