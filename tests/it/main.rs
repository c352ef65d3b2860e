//! The integration tests: real sockets, a real RocksDB, real clients. One binary, because each links RocksDB again.

mod account_flows;
mod bad_input;
mod bodies;
mod calls;
mod certification;
mod commands;
mod consistency;
mod crash;
mod disk;
#[cfg(feature = "fault-injection")]
mod faults;
mod gateway_errors;
mod gateway_rules;
mod harness;
mod hostile_http;
mod http_contract;
mod indexer;
mod ledger_walk;
mod limits;
mod openapi;
mod operator;
mod overload;
mod people;
mod sign_in;
mod sign_in_desk;
mod sign_in_events;
mod sign_in_security;
mod tls;
mod torture;
mod verification;
mod wire;
