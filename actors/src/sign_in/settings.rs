//! How sign-in is set up.

use std::time::Duration;

use selfsame_protocol::rate_limit::RateLimit;
use selfsame_protocol::sign_in::Client;
use selfsame_protocol::sign_in::claims::Provider;
use selfsame_protocol::verification::{Environment, ProofKind};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// How sign-in is set up.
#[derive(Clone, Debug)]
pub struct SignInSettings {
    pub provider: Provider,
    /// The applications that sign people in.
    pub clients: Vec<SignInClient>,
    pub code_lifetime: Duration,
    pub key_rotation: Duration,
    /// How long a browser knows who signed in.
    pub session_lifetime: Duration,
    /// Whether introspection answers a token that is not alive with 200 as RFC 7662 has it, instead of 401.
    pub answers_inactive_tokens_plainly: bool,
    /// What one source address may begin, answer or get wrong; `None` is no limit.
    pub per_source: Option<RateLimit>,
    /// How many sign-ins may have been begun within their ten minutes. One source address may have begun a quarter of them.
    pub open_sign_ins: usize,
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
            code_lifetime: Duration::from_secs(600),
            key_rotation: Duration::from_secs(30 * 24 * 3600),
            session_lifetime: Duration::from_secs(24 * 3600),
            answers_inactive_tokens_plainly: false,
            per_source: None,
            open_sign_ins: 1_000_000,
        }
    }
}

/// An application that signs people in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInClient {
    pub client: Client,
    /// What people see.
    pub name: String,
    pub secret: Option<ClientSecret>,
    pub environment: Environment,
    /// The kind of proof that it takes. The two kinds give different subjects.
    pub proof: ProofKind,
}

/// A client secret as it is kept: a salt and SHA-256 of the salt and the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientSecret {
    pub salt: [u8; 16],
    pub digest: [u8; 32],
}

impl ClientSecret {
    /// Whether this is the secret; takes the same time whatever is wrong with it.
    pub fn is(&self, secret: &str) -> bool {
        let given: [u8; 32] = Sha256::new().chain_update(self.salt).chain_update(secret).finalize().into();
        given.ct_eq(&self.digest).into()
    }
}

impl std::fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientSecret(hidden)")
    }
}
