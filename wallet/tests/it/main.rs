//! The wallet against services in the same process: canned answers, and a registry in memory with
//! the real rules.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

mod answer;
mod client;
mod commands;
mod group_service;
mod group_trees;
mod groups;
mod registry;
mod server;
mod sign_in;
