//! From the configuration to what the verifier works with.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::UNIX_EPOCH;

use selfsame_actors::{PlacedKey, VerificationSettings};
use selfsame_protocol::commitment::{PublicKey, PublicKeyError};
use selfsame_protocol::groth16::key::{CURRENT_INPUTS, LEGACY_INPUTS};
use selfsame_protocol::groth16::simulator::Simulator;
use selfsame_protocol::groth16::{KeyError, PreparedKey, VerificationKey};
use selfsame_protocol::verification::directory::{Action, Directory, Issuer, RelyingParty};
use selfsame_protocol::verification::roots::TrustedRoot;
use selfsame_protocol::verification::{Environment, ProofKind};

use crate::config::{self, Config, Status};

/// Why the verifier cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The file of a verification key cannot be read.
    #[error("verifier.keys.{environment}.{kind}: {}: {error}", path.display(), environment = .environment.name(), kind = .kind.name())]
    Unreadable { environment: Environment, kind: ProofKind, path: PathBuf, error: std::io::Error },
    /// The file of a verification key holds none.
    #[error("verifier.keys.{environment}.{kind}: {}: {error}", path.display(), environment = .environment.name(), kind = .kind.name())]
    Key { environment: Environment, kind: ProofKind, path: PathBuf, error: KeyError },
    /// A key whose secrets are public, where people are verified.
    #[error("verifier.keys.production.{kind}: the simulator's secrets are public, so it is never a key of production", kind = .kind.name())]
    SimulatorInProduction { kind: ProofKind },
    /// A public key is none; checked with the rest of the configuration before.
    #[error("{place}: {error}")]
    PublicKey { place: String, error: PublicKeyError },
}

/// The settings of the verifier. `simulator_seed` is what the simulator's secrets are made from.
pub fn settings(config: &Config, simulator_seed: &str) -> Result<VerificationSettings, SetupError> {
    let defaults = VerificationSettings::default();
    Ok(VerificationSettings {
        workers: config.verifier.workers.unwrap_or(defaults.workers),
        queue: config.verifier.queue,
        patience: config.limits.request_timeout.mul_f64(0.9),
        keys: keys(config, simulator_seed)?,
        directory: directory(config)?,
        trusted_roots: config.trusted_roots.iter().map(trusted_root).collect(),
        per_source: config.limits.verifications_per_source.map(config::RateLimit::limit),
        ..defaults
    })
}

/// Who may ask for what.
pub fn directory(config: &Config) -> Result<Directory, SetupError> {
    let relying_parties = config.apps.iter().map(|app| relying_party(config, app)).collect::<Result<Vec<_>, _>>()?;
    let actions = config.actions.iter().map(|action| Action {
        rp_id: config.relying_party_id(&action.app_id),
        environment: action.environment,
        action: action.action.clone(),
        max_verifications: action.max_verifications,
        accept_legacy: action.accept_legacy,
    });
    let issuers = config.issuers.iter().map(issuer).collect::<Result<Vec<_>, _>>()?;
    let places = Environment::ALL.into_iter().flat_map(|environment| ProofKind::ALL.map(|kind| (environment, kind)));
    Ok(Directory::new(relying_parties, actions, issuers, places))
}

fn relying_party(config: &Config, app: &config::App) -> Result<RelyingParty, SetupError> {
    let entry = config.relying_parties.iter().find(|party| party.app_id == app.id);
    let key = entry.and_then(|party| party.oprf_public_key);
    let place = || format!("relying_parties: oprf_public_key of {}", app.id);
    Ok(RelyingParty {
        rp_id: config.relying_party_id(&app.id),
        app_id: app.id.clone(),
        is_active: entry.is_none_or(|party| party.status == Status::Active),
        has_active_application: app.status == Status::Active,
        environments: app.environments().to_vec(),
        accept_legacy: app.accept_legacy,
        oprf_public_key: key.map(|key| public_key(&key, place)).transpose()?,
    })
}

fn issuer(issuer: &config::Issuer) -> Result<Issuer, SetupError> {
    Ok(Issuer {
        id: issuer.id,
        identifiers: issuer.identifiers().into_iter().map(str::to_owned).collect(),
        environments: issuer.environments().to_vec(),
        public_key: public_key(&issuer.public_key, || format!("issuers: public_key of {}", issuer.id))?,
    })
}

fn public_key(key: &config::PublicKey, place: impl FnOnce() -> String) -> Result<PublicKey, SetupError> {
    let refused = |error| SetupError::PublicKey { place: place(), error };
    PublicKey::from_coordinates(&key.x, &key.y).map_err(refused)
}

fn trusted_root(root: &config::TrustedRoot) -> TrustedRoot {
    let time = root.time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    TrustedRoot { environment: root.environment, kind: root.kind, time, root: root.root }
}

/// The key of each environment and kind. The program's own keys are prepared once.
fn keys(config: &Config, simulator_seed: &str) -> Result<Vec<PlacedKey>, SetupError> {
    let mut keys = Vec::new();
    for environment in Environment::ALL {
        let configured = match environment {
            Environment::Production => &config.verifier.keys.production,
            Environment::Staging => &config.verifier.keys.staging,
        };
        for kind in ProofKind::ALL {
            let inputs = inputs_of(kind);
            let source = match kind {
                ProofKind::Legacy => &configured.legacy,
                ProofKind::Current => &configured.current,
            };
            let key = match source {
                config::VerificationKey::Builtin => builtin(kind),
                config::VerificationKey::Simulator if environment == Environment::Production => {
                    return Err(SetupError::SimulatorInProduction { kind });
                }
                config::VerificationKey::Simulator => {
                    let simulator = Simulator::from_seed(simulator_seed.as_bytes(), inputs);
                    Arc::new(PreparedKey::new(&simulator.verification_key()))
                }
                config::VerificationKey::File(path) => {
                    Arc::new(PreparedKey::new(&from_file(environment, kind, path, inputs)?))
                }
            };
            keys.push(((environment, kind), key));
        }
    }
    Ok(keys)
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

fn from_file(
    environment: Environment,
    kind: ProofKind,
    path: &Path,
    inputs: usize,
) -> Result<VerificationKey, SetupError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| SetupError::Unreadable { environment, kind, path: path.to_owned(), error })?;
    let key = VerificationKey::from_json(&text, inputs);
    key.map_err(|error| SetupError::Key { environment, kind, path: path.to_owned(), error })
}
