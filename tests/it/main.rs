//! The integration tests: real sockets, a real RocksDB, real clients. They are one binary, because
//! each binary links RocksDB again. `tests/README.md` tells which file tests what.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

use mimalloc::MiMalloc;

mod account_client;
mod account_flows;
mod account_growth;
#[cfg(feature = "fault-injection")]
mod account_kills;
mod account_years;
mod allocation;
mod anvil;
mod audit;
mod backup;
mod bad_input;
mod bodies;
mod bridge;
mod bridged_sign_in;
mod callers;
mod certification;
mod chain_contracts;
mod chain_deployment;
mod chain_following;
mod chain_kills;
mod chain_node;
mod chain_on_anvil;
mod claims;
mod clock;
mod cluster;
mod commands;
mod config_commands;
mod consistency;
mod crash;
mod differences;
mod disk;
mod documents;
mod error_pages;
mod fairness;
mod fake_contracts;
mod fake_node;
#[cfg(feature = "fault-injection")]
mod faults;
mod gateway_errors;
mod gateway_rules;
mod group_commands;
#[cfg(feature = "fault-injection")]
mod group_pairs;
mod groups;
mod harness;
mod hostile_http;
mod http_contract;
mod indexer;
mod integrity_bundles;
mod integrity_mutations;
mod ledger_walk;
mod limits;
mod logs;
mod long_work;
mod members;
mod metrics;
mod mounting;
mod older_interface;
mod openapi;
mod operator;
mod operator_challenge;
mod operator_socket;
mod outage;
mod output;
mod overload;
mod packaging;
mod reference;
mod registry_client;
mod reload;
mod service_manager;
mod sign_in;
mod sign_in_accounts;
mod sign_in_applications;
mod sign_in_attaching;
mod sign_in_binding;
mod sign_in_client;
mod sign_in_digits;
mod sign_in_events;
mod sign_in_foreign_proofs;
#[cfg(feature = "fault-injection")]
mod sign_in_held;
mod sign_in_hints;
mod sign_in_late;
mod sign_in_legacy;
mod sign_in_openings;
mod sign_in_pages;
mod sign_in_passkeys;
mod sign_in_pointers;
mod sign_in_security;
mod sign_in_sessions;
mod sign_in_stays;
mod sign_in_subjects;
mod sign_out;
mod signed_heads;
mod signed_requests;
mod signing_algorithm;
mod stalled_log;
#[cfg(feature = "fault-injection")]
mod store_reader;
mod stored_keys;
mod structure;
mod test_accounts;
mod tls;
mod torture;
mod tour;
#[cfg(feature = "otlp")]
mod traces;
mod verification;
mod verification_answers;
mod verification_cases;
mod verification_client;
mod verification_tables;
mod wallet_interface;
mod wallet_vectors;
#[cfg(feature = "web-wallet")]
mod web_wallet;
mod webhook_receiver;
mod webhooks;
mod wire;

/// The program's. Many tests have a daemon in their own process.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
