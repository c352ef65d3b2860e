//! The integration tests: real sockets, a real RocksDB, real clients. They are one binary, because
//! each binary links RocksDB again. `tests/README.md` tells which file tests what.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

mod account_creation;
mod account_flows;
mod anvil;
mod audit;
mod backup;
mod bad_input;
mod bodies;
mod bridge;
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
mod disk;
mod fairness;
mod fake_contracts;
mod fake_node;
#[cfg(feature = "fault-injection")]
mod faults;
mod gateway_errors;
mod gateway_rules;
mod golden_stores;
mod harness;
mod hostile_http;
mod http_contract;
mod indexer;
mod ledger_walk;
mod limits;
mod logs;
mod long_work;
mod metrics;
mod older_interface;
mod openapi;
mod operator;
mod operator_socket;
mod outage;
mod output;
mod overload;
mod packaging;
mod registry_client;
mod reload;
mod service_manager;
mod sign_in;
mod sign_in_applications;
mod sign_in_binding;
mod sign_in_client;
mod sign_in_events;
mod sign_in_pages;
mod sign_in_security;
mod sign_in_sessions;
mod sign_out;
mod signed_heads;
mod signed_requests;
mod stored_keys;
mod structure;
mod test_accounts;
mod tls;
mod torture;
#[cfg(feature = "otlp")]
mod traces;
mod verification;
mod verification_client;
mod wallet_vectors;
mod wire;
