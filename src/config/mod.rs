//! The daemon's configuration: read from a TOML file and environment variables, checked as a whole,
//! then plain typed values.
//!
//! | module | what it holds |
//! |---|---|
//! | `whole` | [`Config`]: all sections, and what a reload changes |
//! | [`sections`] | the sections as types, with defaults |
//! | [`chains`] | `[[chains]]`: what is followed from public contracts, with presets |
//! | [`values`], `urls`, `per_interface` | formats: values, URLs, sections with a key for each interface |
//! | `cluster` | `[cluster]`: the replicas that this daemon is one of |
//! | `pages` | `[sign_in.page]`: whose pages end users see, and the links to authenticators |
//! | `events` | `[events]` and `[[webhooks]]`: who is told of what happens |
//! | `storage` | `[storage]`: what the store may take of the machine |
//! | `traces` | `[traces]`: where traces of requests are sent |
//! | `tree` | the settings of file and variables, before they have types |
//! | `load` | from file and variables to a [`Config`] |
//! | `check` | every rule about values that have the right type |
//! | `written`, `dump` | how settings are written, and the effective configuration as text |
//! | `schema`, `formats` | the configuration file as a JSON Schema, for editors |
//! | `dev` | what `--dev` adds and prints |
//! | `error` | why a configuration cannot be loaded |
//!
//! `docs/configuration.md` describes every key.

pub mod chains;
mod check;
mod cluster;
mod dev;
mod dump;
mod error;
mod events;
mod formats;
mod load;
mod pages;
mod per_interface;
mod schema;
pub mod sections;
mod storage;
#[cfg(test)]
mod tests;
mod traces;
mod tree;
mod urls;
pub mod values;
mod whole;
mod written;

pub use chains::{Block, Chain, Contract, ContractKind, OnUpgrade};
pub use cluster::{Cluster, ReplicaName};
pub use dump::Dump;
pub use error::{ConfigError, Position, SettingError, Source};
pub use events::{Events, Webhook, WebhookUrl};
pub use load::{Loaded, Origins, settings_of_this_process};
pub use pages::{Colour, ContactUrl, LinkTemplate, PageUrl, ServiceName, SignInPage, WalletLink};
pub use schema::schema;
pub use sections::*;
pub use storage::Storage;
pub use traces::{CollectorUrl, Traces};
pub use urls::{Origin, check_redirect_uri};
pub use values::{InactiveStatus, Network, OperatorSocket, ProductionKey, RelyingPartyId, SecretHash, StagingKey};
pub use whole::{Config, Reloaded};
pub use written::HIDDEN;
