//! Makes the settings of the verifier from the configuration.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::UNIX_EPOCH;

use selfsame_actors::{ConfiguredKey, VerificationLimits, VerificationSettings};
use selfsame_protocol::groth16::key::{CURRENT_INPUTS, LEGACY_INPUTS};
use selfsame_protocol::groth16::simulator::Simulator;
use selfsame_protocol::groth16::{KeyError, PreparedKey, VerificationKey};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::directory::{Action, Directory, Issuer, RelyingParty, ScoreBounds};
use selfsame_protocol::verification::groups::VerifiedGroup;
use selfsame_protocol::verification::roots::{RootKey, RootTrust, TrustedRoot, is_ahead};
use selfsame_protocol::verification::rp_signature::SigningRule;
use selfsame_protocol::verification::{Environment, ProofKind};

use crate::config::{self, Config, ProductionKey, StagingKey, Status};

/// Why the verifier cannot be set up: a verification key cannot be loaded or is refused, or a
/// trusted root is refused.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The file of a verification key cannot be read.
    #[error("verifier.keys.{environment}.{kind}: {}: {error}", path.display(), environment = .environment.name(), kind = .kind.name())]
    Unreadable {
        /// Environment whose proofs the key verifies.
        environment: Environment,
        /// Kind of the proofs that the key verifies.
        kind: ProofKind,
        /// Path of the key's file, from `verifier.keys`.
        path: PathBuf,
        /// The operating system's error; of the kind `InvalidData` when the file is not UTF-8.
        error: std::io::Error,
    },
    /// The file of a production key contains the key of a simulator that this deployment uses or
    /// has used, whose secrets are public.
    #[error("verifier.keys.production.{}: {}: it is the simulator's key, whose secrets are public; give the key of a trusted setup", kind.name(), path.display())]
    SimulatorKey {
        /// Kind of the proofs that the key verifies.
        kind: ProofKind,
        /// Path of the key's file, from `verifier.keys`.
        path: PathBuf,
    },
    /// A root of the configuration has a time in the future.
    #[error("trusted_roots[{index}].time: is in the future; give the time since when the root is known")]
    FutureRoot {
        /// Position in the list.
        index: usize,
    },
    /// The file of a verification key does not contain a valid one.
    #[error("verifier.keys.{environment}.{kind}: {}: {error}", path.display(), environment = .environment.name(), kind = .kind.name())]
    Key {
        /// Environment whose proofs the key verifies.
        environment: Environment,
        /// Kind of the proofs that the key verifies.
        kind: ProofKind,
        /// Path of the key's file, from `verifier.keys`.
        path: PathBuf,
        /// What is wrong with the key.
        error: KeyError,
    },
}

/// Where proofs of an environment and kind get their verification key from.
pub enum LoadedKey {
    /// The public service's key.
    Builtin,
    /// The simulator's key, for whose secrets the seed is still missing.
    Simulator,
    /// A key that was read from its file.
    OfFile(Box<VerificationKey>),
}

/// The verification key of each environment and kind.
pub type LoadedKeys = Vec<(Environment, ProofKind, LoadedKey)>;

/// The settings of the verifier. `seed` is that of the simulator whose keys staging has; it is not
/// used when staging has none.
pub fn settings(config: &Config, keys: &LoadedKeys, seed: &str) -> VerificationSettings {
    let defaults = VerificationSettings::default();
    VerificationSettings {
        workers: config.verifier.workers.unwrap_or(defaults.workers),
        queue: config.verifier.queue,
        limits: limits(config),
        keys: keys.iter().map(|(environment, kind, key)| configured_key(*environment, *kind, key, seed)).collect(),
        directory: directory(config),
        trusted_roots: trusted_roots(config),
        ..defaults
    }
}

/// The roots of the configuration.
pub fn trusted_roots(config: &Config) -> Vec<TrustedRoot> {
    config.trusted_roots.iter().map(trusted_root).collect()
}

/// Refuses roots with a time that [`is_ahead`] of `now`: such a root would stay the newest.
pub fn check_roots(config: &Config, now: UnixSeconds) -> Vec<SetupError> {
    let is_ahead = |root: &config::TrustedRoot| is_ahead(trusted_root(root).trust.time, now);
    let ahead = config.trusted_roots.iter().enumerate().filter(|(_, root)| is_ahead(root));
    ahead.map(|(index, _)| SetupError::FutureRoot { index }).collect()
}

/// The limits of verification requests. A tenth of the request timeout is left for the answer.
pub fn limits(config: &Config) -> VerificationLimits {
    VerificationLimits {
        time_limit: config.limits.request_timeout.mul_f64(0.9),
        per_source: config.limits.verifications_per_source.map(config::RateLimit::limit),
        per_application: config.limits.verifications_per_application.map(config::RateLimit::limit),
    }
}

/// Relying parties, actions, issuers and groups.
pub fn directory(config: &Config) -> Directory {
    let actions = config.actions.iter().map(|action| Action {
        app_id: action.app_id.clone(),
        environment: action.environment,
        action: action.action.clone(),
        description: action.description.clone(),
        max_verifications: action.max_verifications,
        accept_legacy: action.accept_legacy,
        accepted_identifiers: action.accepted_identifiers.clone(),
        genesis_issued_at_min: action.genesis_issued_at_min.map(UnixSeconds),
        require_integrity: action.require_integrity,
        sybil_scores: ScoreBounds { min: action.min_sybil_score, max: action.max_sybil_score },
        roll: action.roll.clone(),
    });
    let keys = Environment::ALL.into_iter().flat_map(|environment| ProofKind::ALL.map(|kind| (environment, kind)));
    Directory::new(
        config.apps.iter().map(|app| relying_party(config, app)),
        actions,
        config.issuers.iter().map(issuer),
        keys,
    )
    .with_groups(config.groups.iter().map(|group| VerifiedGroup {
        id: group.id,
        environment: group.environment,
        legacy_identifier: group.legacy_identifier,
    }))
}

fn relying_party(config: &Config, app: &config::App) -> RelyingParty {
    let entry = config.relying_parties.iter().find(|party| party.app_id == app.id);
    RelyingParty {
        rp_id: config.relying_party_id(&app.id),
        app_id: app.id.clone(),
        name: app.name().to_owned(),
        integration_url: app.integration_url.as_ref().map(ToString::to_string),
        is_active: entry.is_none_or(|party| party.status == Status::Active),
        has_active_application: app.status == Status::Active,
        environments: app.environments(),
        accept_legacy: config.accepts_legacy(app),
        only_configured_actions: app.only_configured_actions,
        accepted_identifiers: app.accepted_identifiers.clone(),
        require_integrity: app.require_integrity,
        oprf_public_key: config.oprf_public_key(&app.id),
        follows_oprf_key_in: config.follows_oprf_key_in(app),
        signing: entry.and_then(|party| {
            let (is_required, binds_signal) = (party.require_signed_requests, party.require_signal_nonce);
            party.signing_key.map(|signer| SigningRule { signer: *signer, is_required, binds_signal })
        }),
        secrets: app.secret_hashes().map(config::SecretHash::client_secret).collect(),
    }
}

fn issuer(issuer: &config::Issuer) -> Issuer {
    Issuer {
        id: issuer.id,
        identifiers: issuer.identifiers().into_iter().map(str::to_owned).collect(),
        environments: issuer.environments().to_vec(),
        public_key: issuer.public_key.map(|key| key.0),
    }
}

fn trusted_root(root: &config::TrustedRoot) -> TrustedRoot {
    let time = UnixSeconds(root.time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs());
    let key = RootKey { environment: root.environment, kind: root.kind, root: root.root.root() };
    let mut identifiers = root.identifiers.clone();
    identifiers.sort_unstable();
    identifiers.dedup();
    TrustedRoot { key, trust: RootTrust { time, identifiers } }
}

/// The built-in keys are prepared once for the process.
fn configured_key(environment: Environment, kind: ProofKind, key: &LoadedKey, seed: &str) -> ConfiguredKey {
    let key = match key {
        LoadedKey::Builtin => builtin(kind),
        LoadedKey::Simulator => Arc::new(PreparedKey::new(&simulator_key(kind, seed))),
        LoadedKey::OfFile(key) => Arc::new(PreparedKey::new(key)),
    };
    ConfiguredKey { environment, kind, key }
}

/// Reads the verification keys that the configuration names files for. A key of production that a
/// simulator with one of the `known_seeds` has is refused: every client that knows the seed can
/// make proofs for it.
///
/// # Errors
/// Every file that cannot be read, or does not have a key that may be used.
pub fn load_keys(config: &Config, known_seeds: &[String]) -> Result<LoadedKeys, Vec<SetupError>> {
    let keys = &config.verifier.keys;
    let (mut loaded, mut errors) = (Vec::new(), Vec::new());
    for environment in Environment::ALL {
        for kind in ProofKind::ALL {
            let path = match (environment, keys.production.of(kind), keys.staging.of(kind)) {
                (Environment::Production, ProductionKey::File(path), _)
                | (Environment::Staging, _, StagingKey::Real(ProductionKey::File(path))) => path,
                (Environment::Staging, _, StagingKey::Simulator) => {
                    loaded.push((environment, kind, LoadedKey::Simulator));
                    continue;
                }
                (Environment::Production, ProductionKey::Builtin, _)
                | (Environment::Staging, _, StagingKey::Real(ProductionKey::Builtin)) => {
                    loaded.push((environment, kind, LoadedKey::Builtin));
                    continue;
                }
            };
            let is_simulated = |key: &VerificationKey| {
                let is_of = |seed: &String| is_simulator_key(key, kind, seed);
                environment == Environment::Production && known_seeds.iter().any(is_of)
            };
            match from_file(environment, kind, path) {
                Ok(key) if is_simulated(&key) => errors.push(SetupError::SimulatorKey { kind, path: path.clone() }),
                Ok(key) => loaded.push((environment, kind, LoadedKey::OfFile(Box::new(key)))),
                Err(error) => errors.push(error),
            }
        }
    }
    if errors.is_empty() { Ok(loaded) } else { Err(errors) }
}

/// The kinds of proofs of production that are checked with a key from a file, and the file.
pub fn production_key_files(config: &Config) -> impl Iterator<Item = (ProofKind, &Path)> {
    let keys = &config.verifier.keys.production;
    ProofKind::ALL.into_iter().filter_map(|kind| match keys.of(kind) {
        ProductionKey::File(path) => Some((kind, path.as_path())),
        ProductionKey::Builtin => None,
    })
}

fn simulator_key(kind: ProofKind, seed: &str) -> VerificationKey {
    Simulator::from_seed(seed.as_bytes(), inputs_of(kind)).verification_key()
}

fn is_simulator_key(key: &VerificationKey, kind: ProofKind, seed: &str) -> bool {
    *key == simulator_key(kind, seed)
}

fn inputs_of(kind: ProofKind) -> usize {
    match kind {
        ProofKind::Legacy => LEGACY_INPUTS,
        ProofKind::Current => CURRENT_INPUTS,
    }
}

fn builtin(kind: ProofKind) -> Arc<PreparedKey> {
    static LEGACY: OnceLock<Arc<PreparedKey>> = OnceLock::new();
    static CURRENT: OnceLock<Arc<PreparedKey>> = OnceLock::new();
    let (prepared, key) = match kind {
        ProofKind::Legacy => (&LEGACY, VerificationKey::legacy()),
        ProofKind::Current => (&CURRENT, VerificationKey::current()),
    };
    Arc::clone(prepared.get_or_init(|| Arc::new(PreparedKey::new(key))))
}

fn from_file(environment: Environment, kind: ProofKind, path: &Path) -> Result<VerificationKey, SetupError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| SetupError::Unreadable { environment, kind, path: path.to_owned(), error })?;
    let key = VerificationKey::from_json(&text, inputs_of(kind));
    key.map_err(|error| SetupError::Key { environment, kind, path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_simulator_is_recognised() {
        for kind in ProofKind::ALL {
            assert!(is_simulator_key(&simulator_key(kind, "seed"), kind, "seed"));
            assert!(!is_simulator_key(&simulator_key(kind, "another"), kind, "seed"));
        }
        assert!(!is_simulator_key(VerificationKey::legacy(), ProofKind::Legacy, "seed"));
    }
}
