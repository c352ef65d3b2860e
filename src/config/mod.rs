//! The daemon's configuration: read from a TOML file and environment variables, checked as a whole, then plain typed values.
//!
//! | module | what it holds |
//! |---|---|
//! | [`sections`] | the sections as types, with defaults |
//! | [`values`] | the formats of single values |
//! | `tree` | what file and variables say, before it has types |
//! | `load` | from file and variables to a [`Config`] |
//! | `check` | every rule about values that have the right type |
//! | `dev` | what `--dev` adds and prints |
//!
//! `docs/configuration.md` describes every key.

mod check;
mod dev;
mod load;
pub mod sections;
#[cfg(test)]
mod tests;
mod tree;
pub mod values;

use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use load::settings_of_this_process;
pub use sections::*;
pub use values::{Network, RelyingPartyId, SecretHash, VerificationKey};

/// The whole configuration, checked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Whether the daemon was started with `--dev`; not a key.
    #[serde(skip)]
    pub dev: bool,
    /// The folder of the store, the operator's token and the backups.
    pub data_dir: PathBuf,
    pub listen: Listen,
    pub urls: Urls,
    pub tls: Option<Tls>,
    pub registry: Registry,
    pub batcher: Batcher,
    pub limits: Limits,
    pub cors: Cors,
    pub sign_in: SignIn,
    pub verifier: Verifier,
    pub apps: Vec<App>,
    pub actions: Vec<Action>,
    pub issuers: Vec<Issuer>,
    pub relying_parties: Vec<RelyingParty>,
    pub trusted_roots: Vec<TrustedRoot>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            dev: false,
            data_dir: PathBuf::from("selfsame-data"),
            listen: Listen::default(),
            urls: Urls::default(),
            tls: None,
            registry: Registry::default(),
            batcher: Batcher::default(),
            limits: Limits::default(),
            cors: Cors::default(),
            sign_in: SignIn::default(),
            verifier: Verifier::default(),
            apps: Vec::new(),
            actions: Vec::new(),
            issuers: Vec::new(),
            relying_parties: Vec::new(),
            trusted_roots: Vec::new(),
        }
    }
}

impl Config {
    /// Reads and checks the configuration: the command line's data folder before variables before the file before defaults.
    /// `environment` may hold any variables; those beginning `SELFSAME_` have to be settings.
    ///
    /// # Errors
    /// Every problem at once, each with its key, its place and what would be right. Rules that look at several entries of a list
    /// are applied once every value can be read.
    pub fn load(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
        dev: bool,
        data_dir: Option<PathBuf>,
    ) -> Result<Self, ConfigError> {
        load::load(file, environment, dev, data_dir)
    }

    /// What clients see, from what is set and the addresses that are really listened on.
    pub fn public_urls(&self, bound: &Listen) -> PublicUrls {
        self.urls.public(if self.tls.is_some() { "https" } else { "http" }, bound)
    }

    /// The application's identifier at the verification endpoint: the one its `[[relying_parties]]` entry gives, else the one
    /// derived from its id.
    pub fn relying_party_id(&self, app_id: &str) -> RelyingPartyId {
        let entry = self.relying_parties.iter().find(|party| party.app_id == app_id);
        entry.map_or_else(|| RelyingPartyId::derived_from(app_id), RelyingParty::rp_id)
    }

    /// What goes on after SIGHUP: this configuration with the applications, their actions, issuers, relying parties and limits
    /// of `new`, and the keys of all other settings that differ there and need a restart.
    pub fn with_reloaded(&self, new: Self) -> (Self, Vec<&'static str>) {
        let mut waiting = Vec::new();
        // A section's pattern is exhaustive, so a new key does not compile until it is named here.
        macro_rules! compare {
            ($section:ident: $Section:ident { $($key:ident),* }) => {{
                let $Section { $($key),* } = &self.$section;
                $(if *$key != new.$section.$key { waiting.push(concat!(stringify!($section), ".", stringify!($key))) })*
            }};
            ($($whole:ident),*) => { $(if self.$whole != new.$whole { waiting.push(stringify!($whole)) })* };
        }
        compare!(data_dir);
        compare!(listen: Listen { sign_in, verify, gateway, indexer, operator });
        compare!(urls: Urls { id_url, portal_url, gateway_url, indexer_url });
        compare!(tls);
        compare!(registry: Registry {
            chain_id, verifying_contract, max_authenticators, root_validity_window, recovery_agent_update_cooldown,
            commitment_check, request_retention
        });
        compare!(batcher: Batcher { max_operations, max_wait });
        compare!(cors: Cors { allowed_origins });
        compare!(sign_in: SignIn {
            code_lifetime, session_lifetime, key_rotation, introspection_inactive_status, name, given_name, family_name
        });
        compare!(verifier: Verifier { workers, queue, simulator_seed, keys });
        compare!(trusted_roots);
        let Self { limits, apps, actions, issuers, relying_parties, .. } = new;
        (Self { limits, apps, actions, issuers, relying_parties, ..self.clone() }, waiting)
    }
}

/// Where a setting came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The defaults.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// An environment variable, by its name.
    Variable(String),
    /// The command line.
    CommandLine,
}

/// One thing that is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key's path, such as `registry.max_authenticators` or `apps[0].id`.
    pub key: String,
    /// What is wrong and what would be right; reads on after the key.
    pub message: String,
    /// Where it was said.
    pub origin: Origin,
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)?;
        match &self.origin {
            Origin::Default => Ok(()),
            Origin::File(file) => write!(f, " (in {})", file.display()),
            Origin::Variable(name) => write!(f, " (variable {name})"),
            Origin::CommandLine => write!(f, " (command line)"),
        }
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {error}", file.display())]
    Unreadable { file: PathBuf, error: io::Error },
    /// The file is not TOML. The line itself is not shown, it may hold what nobody should see.
    #[error("{}: line {line}, column {column}: {message}", file.display())]
    Syntax { file: PathBuf, line: usize, column: usize, message: String },
    /// Settings are wrong; one a line.
    #[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<Problem>),
}
