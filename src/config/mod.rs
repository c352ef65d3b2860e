//! The daemon's configuration: read from a TOML file and environment variables, checked as a whole,
//! then plain typed values.
//!
//! | module | what it holds |
//! |---|---|
//! | [`sections`] | the sections as types, with defaults |
//! | [`values`], `urls`, `per_interface` | formats: values, URLs, sections with a key for each interface |
//! | `tree` | the settings of file and variables, before they have types |
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
    /// The folder that holds the store and the operator's token.
    pub data_dir: PathBuf,
    /// `[listen]`: the address and port of each interface. Interfaces with the same address share
    /// it.
    #[serde(deserialize_with = "per_interface::listen")]
    pub listen: PerInterface<SocketAddr>,
    /// `[urls]`: the base URL of each public interface as clients see it. `None` means `http://`,
    /// or `https://` with `[tls]`, and the bound address.
    #[serde(deserialize_with = "per_interface::urls")]
    pub urls: PerInterface<Option<String>>,
    /// `[tls]`; `None` serves plain HTTP.
    pub tls: Option<Tls>,
    /// `[registry]`.
    pub registry: Registry,
    /// `[batcher]`.
    pub batcher: Batcher,
    /// `[limits]`.
    pub limits: Limits,
    /// `[cors]`.
    pub cors: Cors,
    /// `[sign_in]`.
    pub sign_in: SignIn,
    /// `[verifier]`.
    pub verifier: Verifier,
    /// `[[apps]]`.
    pub apps: Vec<App>,
    /// `[[actions]]`.
    pub actions: Vec<Action>,
    /// `[[issuers]]`.
    pub issuers: Vec<Issuer>,
    /// `[[relying_parties]]`.
    pub relying_parties: Vec<RelyingParty>,
    /// `[[trusted_roots]]`.
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
    /// Reads and checks the configuration. The data folder of the command line replaces that of the
    /// variables, variables replace the file, and the file replaces the defaults. `environment` may
    /// hold any variables; those that begin with `SELFSAME_` must be settings.
    ///
    /// # Errors
    /// All errors at once, each with its key, its source and what would be right. Rules that
    /// compare entries of a list are checked only when every value can be read.
    pub fn load(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
        dev: bool,
        data_dir: Option<PathBuf>,
    ) -> Result<Self, ConfigError> {
        load::load(file, environment, dev, data_dir)
    }

    /// The base URL of each interface: the configured one, or else the bound address (for a
    /// configured port 0 the system chooses the port).
    pub fn public_urls(&self, bound: &PerInterface<SocketAddr>) -> PublicUrls {
        PerInterface::from_fn(|interface| {
            let scheme = if self.tls.is_some() && interface.is_public() { "https" } else { "http" };
            self.urls[interface].clone().unwrap_or_else(|| format!("{scheme}://{}", bound[interface]))
        })
    }

    /// The application's relying party id at the verification interface: the id of its
    /// `[[relying_parties]]` entry, else the id that is derived from its own.
    pub fn relying_party_id(&self, app_id: &str) -> RelyingPartyId {
        let entry = self.relying_parties.iter().find(|party| party.app_id == app_id);
        entry.map_or_else(|| RelyingPartyId::derived_from(app_id), RelyingParty::rp_id)
    }

    /// The configuration after SIGHUP: this one with the applications, their actions, issuers,
    /// relying parties and limits of `new`. Also returns the keys of all other settings that differ
    /// in `new` and need a restart.
    pub fn with_reloaded(&self, new: Self) -> (Self, Vec<String>) {
        let mut waiting = Vec::new();
        // The pattern of a section is exhaustive, so a section with a new key does not compile
        // until the key is named here.
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

/// The source of a setting.
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

/// Why a configuration cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {error}", file.display())]
    Unreadable { file: PathBuf, error: io::Error },
    /// The file is not TOML. The error does not show the line, because it may hold a secret.
    #[error("{}: line {line}, column {column}: {message}", file.display())]
    Syntax { file: PathBuf, line: usize, column: usize, message: String },
    /// Settings are wrong. The message has a line for each.
    #[error("{}", .0.iter().map(SettingError::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<SettingError>),
}
