//! The integration tests: real sockets, a real RocksDB, real clients. One binary, because each links RocksDB again.

mod account_flows;
mod bad_input;
mod bodies;
mod calls;
mod commands;
mod consistency;
mod crash;
mod gateway_errors;
mod gateway_rules;
mod harness;
mod http_contract;
mod indexer;
mod ledger_walk;
mod limits;
mod openapi;
mod operator;
mod people;
mod sign_in;
mod tls;
mod verification;
mod wire;
