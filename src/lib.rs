//! The daemon of Selfsame: configuration, command line, and what a process needs.
//!
//! [`daemon::Daemon`] starts the parts, and serves the interfaces of the crate
//! `selfsame-interfaces`.

#[cfg(doctest)]
#[doc = include_str!("../docs/embedding.md")]
struct EmbeddingGuide;

#[cfg(doctest)]
#[doc = include_str!("../docs/mounting.md")]
struct MountingGuide;

pub mod backup;
pub mod chain;
pub mod chains;
pub mod cli;
pub mod cluster;
pub mod commands;
pub mod config;
pub mod daemon;
pub mod data_files;
pub mod integrity;
mod logging;
pub mod operator_client;
pub mod prepared;
pub mod process;
pub mod progress;
pub mod reloading;
mod servers;
pub mod setup;
#[cfg(feature = "otlp")]
mod traces;
mod webhooks;
