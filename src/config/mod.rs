//! The daemon's configuration: read from a TOML file and environment variables, checked as a whole, then plain typed values.
//!
//! | module | what it holds |
//! |---|---|
//! | [`sections`] | the sections as types, with defaults |
//! | [`values`], `urls`, `per_interface` | the formats of single values, of URLs, and of the sections with a key for each interface |
//! | `tree` | what file and variables say, before it has types |
//! | `load` | from file and variables to a [`Config`] |
//! | `check` | every rule about values that have the right type |
//! | `dev` | what `--dev` adds and prints |
//!
//! `docs/configuration.md` describes every key.

mod check;
mod dev;
mod load;
mod per_interface;
pub mod sections;
#[cfg(test)]
mod tests;
mod tree;
mod urls;
pub mod values;

use std::fmt::{self, Display};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use load::settings_of_this_process;
pub use sections::*;
pub use urls::Origin;
pub use values::{InactiveStatus, Network, ProductionKey, RelyingPartyId, SecretHash, StagingKey};

use crate::interface::{Interface, PerInterface};

/// The whole configuration, checked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Whether the daemon was started with `--dev`; not a key.
    #[serde(skip)]
    pub dev: bool,
    /// The folder of the store and the operator's token.
    pub data_dir: PathBuf,
    /// `[listen]`: the address and port of each interface. Interfaces with the same address share it.
    #[serde(deserialize_with = "per_interface::listen")]
    pub listen: PerInterface<SocketAddr>,
    /// `[urls]`: the base URL of each public interface as clients see it. `None` means `http://` and the listen address.
    #[serde(deserialize_with = "per_interface::urls")]
    pub urls: PerInterface<Option<String>>,
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
            listen: per_interface::default_listen(),
            urls: PerInterface::default(),
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

    /// The base URL of each interface: the configured one, or else the address that is really listened on (a configured port 0 is
    /// chosen by the system).
    pub fn public_urls(&self, bound: &PerInterface<SocketAddr>) -> PublicUrls {
        PerInterface::from_fn(|interface| {
            let scheme = if self.tls.is_some() && interface.is_public() { "https" } else { "http" };
            self.urls[interface].clone().unwrap_or_else(|| format!("{scheme}://{}", bound[interface]))
        })
    }

    /// The application's identifier at the verification endpoint: the one its `[[relying_parties]]` entry gives, else the one
    /// derived from its id.
    pub fn relying_party_id(&self, app_id: &str) -> RelyingPartyId {
        let entry = self.relying_parties.iter().find(|party| party.app_id == app_id);
        entry.map_or_else(|| RelyingPartyId::derived_from(app_id), RelyingParty::rp_id)
    }

    /// The configuration after SIGHUP: this one with the applications, their actions, issuers, relying parties and limits of `new`.
    /// Also the keys of all other settings that differ there and need a restart.
    pub fn with_reloaded(&self, new: Self) -> (Self, Vec<String>) {
        let mut waiting = Vec::new();
        // A section's pattern is exhaustive, so a new key does not compile until it is named here.
        macro_rules! compare {
            ($section:ident: $Section:ident { $($key:ident),* }) => {{
                let $Section { $($key),* } = &self.$section;
                $(if *$key != new.$section.$key { waiting.push(concat!(stringify!($section), ".", stringify!($key)).to_owned()) })*
            }};
            ($($whole:ident),*) => { $(if self.$whole != new.$whole { waiting.push(stringify!($whole).to_owned()) })* };
        }
        compare!(data_dir);
        for interface in Interface::ALL {
            if self.listen[interface] != new.listen[interface] {
                waiting.push(format!("listen.{}", interface.listen_key()));
            }
            if self.urls[interface] != new.urls[interface] {
                waiting.extend(interface.url_key().map(|key| format!("urls.{key}")));
            }
        }
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
pub enum Source {
    /// The defaults.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// An environment variable, by its name.
    Variable(String),
    /// The command line.
    CommandLine,
}

/// One setting that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The key's path, such as `registry.max_authenticators` or `apps[0].id`.
    pub key: String,
    /// What is wrong and what would be right; completes "`key`: …".
    pub message: String,
    /// Where the setting came from.
    pub source: Source,
}

impl Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)?;
        match &self.source {
            Source::Default => Ok(()),
            Source::File(file) => write!(f, " (in {})", file.display()),
            Source::Variable(name) => write!(f, " (variable {name})"),
            Source::CommandLine => write!(f, " (command line)"),
        }
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {error}", file.display())]
    Unreadable { file: PathBuf, error: io::Error },
    /// The file is not TOML. The line itself is not shown, because it may hold a secret.
    #[error("{}: line {line}, column {column}: {message}", file.display())]
    Syntax { file: PathBuf, line: usize, column: usize, message: String },
    /// Settings are wrong. The message has a line for each.
    #[error("{}", .0.iter().map(SettingError::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<SettingError>),
}
