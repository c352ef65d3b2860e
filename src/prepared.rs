//! What a start needs besides the store and the addresses: the configuration, and the files that it
//! names. `serve`, `config check` and a reload read it with the same functions, so they refuse the
//! same.

use std::fmt::{self, Display};
use std::path::PathBuf;
use std::sync::Arc;

use selfsame_actors::KeyCipher;
use selfsame_interfaces::http::{Certificate, TlsError};
use selfsame_interfaces::sign_in::appearance::Appearance;
use selfsame_interfaces::sign_in::wallet_links::WalletLinks;
use selfsame_protocol::operator::TOKEN_FILE;
use selfsame_protocol::sign_in::passkeys::PasskeyDomainError;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::ProofKind;
use tokio_rustls::TlsAcceptor;

use crate::chains::{ChainSetupError, FollowedChain, followed_chain};
use crate::cluster::{ClusterSetupError, PreparedCluster};
use crate::config::{App, Config, ConfigError, Loaded, StagingKey, settings_of_this_process};
use crate::data_files::{AUDIT_KEY, SIMULATOR_SEED, SecretFileError, existing_secret};
use crate::integrity::{AttestationIssuers, IntegritySetupError};
use crate::logging::{self, InvalidFilter};
use crate::setup;
use crate::setup::sign_in::{doubled_people, legacy_sign_ins, no_passkeys, unprotected_clients};
use crate::setup::verification::LoadedKeys;
use crate::webhooks::{WebhookSetupError, Webhooks};

/// Where a configuration is read from, besides the variables.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ConfigSource {
    /// Configuration file (TOML); every setting is also a variable, SELFSAME_LISTEN__GATEWAY for
    /// listen.gateway
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Data folder: the store and the operator's token
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Add example applications and public test keys; loopback only
    #[arg(long)]
    pub dev: bool,
}

impl ConfigSource {
    /// Reads the configuration with the variables of this process.
    ///
    /// # Errors
    /// The file cannot be read, or is not TOML. Settings that are wrong are a part of the result.
    pub fn load(&self) -> Result<Loaded, ConfigError> {
        Config::load_with_errors(self.config.as_deref(), settings_of_this_process(), self.dev, self.data.clone())
    }

    /// Reads the configuration and what it names.
    ///
    /// # Errors
    /// All problems of the settings, of the files that good settings name, and of `RUST_LOG`.
    pub fn prepare(&self, now: UnixSeconds) -> Result<(Config, Prepared), Problems> {
        let Loaded { config, errors, .. } = self.load().map_err(|error| Problems::from(Problem::Config(error)))?;
        let mut problems = Vec::new();
        // A chain with a wrong setting would be a problem twice.
        let has_bad_chain = errors.iter().any(|error| error.key.starts_with("chains"));
        if !errors.is_empty() {
            problems.push(Problem::Config(ConfigError::Invalid(errors)));
        }
        problems.extend(logging::check_filter().err().map(Problem::Log));
        match Prepared::read(&config, now) {
            Ok(prepared) if problems.is_empty() => return Ok((config, prepared)),
            Ok(_) => {}
            Err(Problems(found)) => {
                problems.extend(found.into_iter().filter(|problem| !(has_bad_chain && problem.is_of_a_chain())));
            }
        }
        Err(Problems(problems))
    }
}

/// What the configuration names, read and checked.
pub struct Prepared {
    /// The certificate of the listeners, and how they speak TLS with it; `None` for plain HTTP.
    pub tls: Option<(Arc<Certificate>, TlsAcceptor)>,
    /// The verification keys.
    pub keys: LoadedKeys,
    /// The key that encrypts the signing keys.
    pub key_cipher: Option<Arc<KeyCipher>>,
    /// Whose pages end users see at sign-in.
    pub appearance: Appearance,
    /// How authenticators are opened for a sign-in.
    pub wallet_links: WalletLinks,
    /// The receivers of webhooks.
    pub webhooks: Webhooks,
    /// The issuers by whose keys integrity bundles are judged. Their endpoints are not asked yet.
    pub attestation_issuers: AttestationIssuers,
    /// The chains that are followed. Their nodes are not asked yet.
    pub chains: Vec<FollowedChain>,
    /// How the cluster is reached; `None` for a daemon that is alone.
    pub cluster: Option<PreparedCluster>,
}

impl Prepared {
    /// Reads what a configuration names. Creates no file, opens no store and no connection.
    ///
    /// # Errors
    /// All problems at once.
    pub fn read(config: &Config, now: UnixSeconds) -> Result<Self, Problems> {
        let mut problems = Vec::new();
        let is_something_else = config.data_dir.exists() && !config.data_dir.is_dir();
        if is_something_else {
            problems.push(Problem::DataFolder { path: config.data_dir.clone() });
        }
        let tls = config.tls.as_ref().map(|tls| {
            let certificate = Certificate::load(&tls.certificate, &tls.private_key)?;
            let acceptor = certificate.acceptor()?;
            Ok((certificate, acceptor))
        });
        let tls = take(tls.transpose().map_err(Problem::Tls), &mut problems).flatten();
        let mut known_seeds = Vec::from_iter(config.verifier.simulator_seed.clone());
        for name in [TOKEN_FILE, AUDIT_KEY, SIMULATOR_SEED] {
            if is_something_else || (name == SIMULATOR_SEED && !needs_stored_seed(config)) {
                continue;
            }
            let found = existing_secret(&config.data_dir.join(name)).map_err(Problem::Secret);
            let found = take(found, &mut problems).flatten();
            known_seeds.extend(found.filter(|_| name == SIMULATOR_SEED));
        }
        let keys = setup::verification::load_keys(config, &known_seeds).unwrap_or_else(|errors| {
            problems.extend(errors.into_iter().map(Problem::Verifier));
            Vec::new()
        });
        problems.extend(setup::verification::check_roots(config, now).into_iter().map(Problem::Verifier));
        let key_cipher = take(setup::sign_in::key_cipher(config).map_err(Problem::SignIn), &mut problems).flatten();
        let appearance = setup::sign_in::appearance(config)
            .map_err(|errors| problems.extend(errors.into_iter().map(Problem::SignIn)))
            .unwrap_or_default();
        let wallet_links = setup::sign_in::wallet_links(config)
            .map_err(|errors| problems.extend(errors.into_iter().map(Problem::SignIn)))
            .unwrap_or_default();
        let webhooks = Webhooks::read(config)
            .map_err(|errors| problems.extend(errors.into_iter().map(Problem::Webhook)))
            .unwrap_or_default();
        let attestation_issuers = AttestationIssuers::read(config)
            .map_err(|errors| problems.extend(errors.into_iter().map(Problem::Integrity)))
            .unwrap_or_default();
        let chains = config.chains.iter().map(|chain| followed_chain(config, chain).map_err(Problem::Chain));
        let chains = chains.filter_map(|chain| take(chain, &mut problems)).collect();
        let cluster = config.cluster.as_ref().map(PreparedCluster::read).transpose();
        let cluster = take(cluster.map_err(Problem::Cluster), &mut problems).flatten();
        match problems.is_empty() {
            true => Ok(Self {
                tls,
                keys,
                key_cipher,
                appearance,
                wallet_links,
                webhooks,
                attestation_issuers,
                chains,
                cluster,
            }),
            false => Err(Problems(problems)),
        }
    }
}

/// Whether the seed in the data folder matters: a key of staging is derived from it, or no key of
/// production may be.
fn needs_stored_seed(config: &Config) -> bool {
    let staging = &config.verifier.keys.staging;
    let is_simulated = ProofKind::ALL.into_iter().any(|kind| *staging.of(kind) == StagingKey::Simulator);
    let is_derived = is_simulated && config.verifier.simulator_seed.is_none();
    is_derived || setup::verification::production_key_files(config).next().is_some()
}

fn take<T>(result: Result<T, Problem>, problems: &mut Vec<Problem>) -> Option<T> {
    result.map_err(|problem| problems.push(problem)).ok()
}

/// Something that a start would be refused for.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Settings are wrong, or the file cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// `RUST_LOG` is not a log filter.
    #[error(transparent)]
    Log(#[from] InvalidFilter),
    /// Something other than a folder is at the path of the data folder.
    #[error("data_dir: {} is not a folder", path.display())]
    DataFolder {
        /// The path of the data folder.
        path: PathBuf,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A file of secrets in the data folder cannot be read.
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    /// A verification key or a root cannot be used.
    #[error(transparent)]
    Verifier(#[from] setup::verification::SetupError),
    /// Sign-in cannot be set up.
    #[error(transparent)]
    SignIn(#[from] setup::sign_in::SetupError),
    /// A webhook cannot be posted as it is configured.
    #[error(transparent)]
    Webhook(#[from] WebhookSetupError),
    /// The keys of an attestation issuer cannot be read as they are configured.
    #[error(transparent)]
    Integrity(#[from] IntegritySetupError),
    /// A chain cannot be followed as it is configured.
    #[error(transparent)]
    Chain(#[from] ChainSetupError),
    /// The cluster cannot be taken part in as it is configured.
    #[error(transparent)]
    Cluster(#[from] ClusterSetupError),
}

impl Problem {
    fn is_of_a_chain(&self) -> bool {
        matches!(self, Self::Chain(_))
    }
}

/// Everything that a start would be refused for. The message has a line for each problem.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// A line for each problem.
    pub fn lines(&self) -> Vec<String> {
        self.to_string().lines().map(str::to_owned).collect()
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

/// Something that a start is not refused for, and an operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// These applications may ask for codes with neither `code_challenge` nor `nonce`.
    UnprotectedClients(Vec<String>),
    /// These applications ask for legacy proofs at sign-in.
    LegacySignIn(Vec<String>),
    /// Browsers can keep no passkeys that find accounts.
    NoPasskeys(PasskeyDomainError),
    /// These applications with accounts have a legacy history, and accept other legacy credentials
    /// than `orb`.
    DoubledPeople(Vec<String>),
    /// Proofs of production are checked with a key from a file.
    ProductionKeyFile {
        /// The kind of the proofs.
        kind: ProofKind,
        /// Path of the file.
        path: PathBuf,
    },
}

impl Warning {
    /// The warnings about a configuration. `has_legacy_history` says of which applications the
    /// store knows that they have accepted a legacy proof; without a store it is not known of any.
    pub fn all(config: &Config, has_legacy_history: impl Fn(&App) -> bool) -> Vec<Self> {
        let files = setup::verification::production_key_files(config);
        let mut warnings: Vec<_> =
            files.map(|(kind, path)| Self::ProductionKeyFile { kind, path: path.to_owned() }).collect();
        let unprotected: Vec<_> = unprotected_clients(config).into_iter().map(str::to_owned).collect();
        if !unprotected.is_empty() {
            warnings.push(Self::UnprotectedClients(unprotected));
        }
        let legacy: Vec<_> = legacy_sign_ins(config).into_iter().map(str::to_owned).collect();
        if !legacy.is_empty() {
            warnings.push(Self::LegacySignIn(legacy));
        }
        warnings.extend(no_passkeys(config).map(Self::NoPasskeys));
        let doubled: Vec<_> = doubled_people(config, has_legacy_history).into_iter().map(str::to_owned).collect();
        if !doubled.is_empty() {
            warnings.push(Self::DoubledPeople(doubled));
        }
        warnings
    }

    /// Logs the warning.
    pub fn log(&self) {
        match self {
            Self::UnprotectedClients(applications) => {
                let applications = applications.join(", ");
                tracing::warn!(applications, "{UNPROTECTED_CLIENTS}");
            }
            Self::LegacySignIn(applications) => {
                let applications = applications.join(", ");
                tracing::warn!(applications, "{LEGACY_SIGN_IN}");
            }
            Self::NoPasskeys(reason) => tracing::warn!(%reason, "{NO_PASSKEYS}"),
            Self::DoubledPeople(applications) => {
                let applications = applications.join(", ");
                tracing::warn!(applications, "{DOUBLED_PEOPLE}");
            }
            Self::ProductionKeyFile { kind, path } => {
                tracing::warn!(kind = kind.name(), path = %path.display(), "{PRODUCTION_KEY_FILE}");
            }
        }
    }
}

const UNPROTECTED_CLIENTS: &str = "these applications may ask for codes without code_challenge and nonce; set \
                                   require_pkce = true where they use PKCE";
const LEGACY_SIGN_IN: &str = "these applications ask for legacy proofs at sign-in, which accounts made from 2026-06-01 \
                              on cannot make, and nobody from 2027-04-01 on; set proof = \"account\" and subject = \
                              \"nullifier\", with which people keep their sub when they attach current proofs in time";
const NO_PASSKEYS: &str = "there are no passkeys that find accounts of sign-in";
const DOUBLED_PEOPLE: &str = "these applications have a legacy history with other credentials than orb, so somebody with \
                              a changed authenticator can have two accounts; set accepted_identifiers = [\"orb\", \
                              \"proof_of_human\"] where no others have signed in";
const PRODUCTION_KEY_FILE: &str = "proofs of production are checked with a key from a file";

impl Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnprotectedClients(applications) => write!(f, "{UNPROTECTED_CLIENTS}: {}", applications.join(", ")),
            Self::LegacySignIn(applications) => write!(f, "{LEGACY_SIGN_IN}: {}", applications.join(", ")),
            Self::NoPasskeys(reason) => write!(f, "{NO_PASSKEYS}: {reason}"),
            Self::DoubledPeople(applications) => write!(f, "{DOUBLED_PEOPLE}: {}", applications.join(", ")),
            Self::ProductionKeyFile { kind, path } => {
                write!(f, "{PRODUCTION_KEY_FILE}: {} proofs, {}", kind.name(), path.display())
            }
        }
    }
}
