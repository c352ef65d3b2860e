//! Settings of verification, and what checks whether proofs hold.

use std::sync::Arc;
use std::time::Duration;

use selfsame_protocol::groth16::{Claim, InputCountError, PreparedKey};
use selfsame_protocol::rate_limit::RateLimit;
use selfsame_protocol::verification::directory::Directory;
use selfsame_protocol::verification::roots::TrustedRoot;
use selfsame_protocol::verification::{Environment, ProofKind};

use super::integrity::AttestationIssuer;
use crate::clock::Random;

/// The verification key of a kind of proof in an environment.
#[derive(Clone)]
pub struct ConfiguredKey {
    /// The environment of the proofs.
    pub environment: Environment,
    /// The kind of the proofs.
    pub kind: ProofKind,
    /// The key. Entries with the same key should share one `Arc`, so that their proofs share
    /// batches.
    pub key: Arc<PreparedKey>,
}

/// Settings of verification.
#[derive(Clone)]
pub struct VerificationSettings {
    /// Number of workers, each of which checks one batch of proofs at a time; 0 counts as 1.
    pub workers: usize,
    /// The most proofs of verification requests that may wait or be checked at a time. One source
    /// address, an IPv6 /64 or a /56 may have a quarter of them, an IPv6 /48 or an IPv4 /24 three
    /// quarters. Further proofs are refused. The proofs of sign-ins have a quarter as many permits
    /// of their own.
    pub queue: usize,
    /// The limits, which can be changed while the service runs.
    pub limits: VerificationLimits,
    /// The verification keys.
    pub keys: Vec<ConfiguredKey>,
    /// Relying parties, actions and issuers.
    pub directory: Directory,
    /// Roots that are trusted in addition to those of the registry and those that the operator
    /// added.
    pub trusted_roots: Vec<TrustedRoot>,
    /// The issuers by whose keys integrity bundles are judged.
    pub attestation_issuers: Vec<AttestationIssuer>,
    /// Checks whether proofs hold. Only fault injection needs another checker than
    /// [`PairingChecker`].
    pub checker: Arc<dyn ProofChecker>,
}

/// Limits of verification requests. They can be changed while the service runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationLimits {
    /// Time from a request to its answer; see [`crate::VerificationHandle::deadline`].
    pub time_limit: Duration,
    /// Limit of proofs by source address (IPv6 by /64); `None` is off.
    pub per_source: Option<RateLimit>,
    /// Limit of proofs by application, for requests that carry the application's secret, and apart
    /// from these for requests that it signed; `None` is off.
    pub per_application: Option<RateLimit>,
}

impl Default for VerificationLimits {
    fn default() -> Self {
        Self { time_limit: Duration::from_secs(8), per_source: None, per_application: None }
    }
}

impl Default for VerificationSettings {
    /// No keys and no relying parties: every request is refused.
    fn default() -> Self {
        Self {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            queue: 1024,
            limits: VerificationLimits::default(),
            keys: Vec::new(),
            directory: Directory::default(),
            trusted_roots: Vec::new(),
            attestation_issuers: Vec::new(),
            checker: Arc::new(PairingChecker),
        }
    }
}

impl std::fmt::Debug for VerificationSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys: Vec<_> = self.keys.iter().map(|key| (key.environment, key.kind)).collect();
        f.debug_struct("VerificationSettings")
            .field("workers", &self.workers)
            .field("queue", &self.queue)
            .field("keys", &keys)
            .finish_non_exhaustive()
    }
}

// Checks whether proofs hold.

/// Checks which of several proofs of one key hold. Runs on a worker's thread. When it panics, the
/// callers get the error that their proofs were not checked.
pub trait ProofChecker: Send + Sync + 'static {
    /// Returns whether each claim holds, in the claims' order.
    ///
    /// # Errors
    /// When a claim has another number of public inputs than the key.
    fn which_hold(
        &self,
        key: &PreparedKey,
        claims: &[Claim],
        random: &dyn Random,
    ) -> Result<Vec<bool>, InputCountError>;
}

/// Checks the pairing equation of Groth16.
#[derive(Clone, Copy, Debug, Default)]
pub struct PairingChecker;

impl ProofChecker for PairingChecker {
    fn which_hold(
        &self,
        key: &PreparedKey,
        claims: &[Claim],
        random: &dyn Random,
    ) -> Result<Vec<bool>, InputCountError> {
        key.which_hold(claims, &mut || {
            let mut bytes = [0; 16];
            random.fill(&mut bytes);
            u128::from_le_bytes(bytes)
        })
    }
}
