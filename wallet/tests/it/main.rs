//! The wallet against services in the same process: canned answers, and a registry in memory that keeps the real rules.

mod client;
mod commands;
mod registry;
mod server;
