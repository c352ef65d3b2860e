//! The daemon of Selfsame: configuration, command line, and a thin HTTP front-end over the actors.
//!
//! [`daemon::Daemon`] starts the parts and serves the interfaces. [`interface::Interface`] lists
//! the interfaces; each has a folder. [`mounting::mount`] is for programs that serve them in a
//! server of their own.

#[cfg(doctest)]
#[doc = include_str!("../docs/embedding.md")]
struct EmbeddingGuide;

pub mod backup;
pub mod bridge;
pub mod chain;
pub mod chains;
pub mod cli;
pub mod cluster;
pub mod commands;
pub mod config;
pub mod daemon;
pub mod data_files;
pub mod gateway;
pub mod http;
pub mod indexer;
pub mod interface;
mod logging;
pub mod mounting;
mod openapi;
pub mod operator;
pub mod operator_client;
pub mod pem;
pub mod prepared;
pub mod process;
pub mod progress;
pub mod reloading;
mod servers;
pub mod sign_in;
mod trace_context;
#[cfg(feature = "otlp")]
mod traces;
pub mod verification;
mod webhooks;
