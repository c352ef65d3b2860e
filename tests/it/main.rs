//! The integration tests: real sockets, a real RocksDB, real clients. One binary, because each links RocksDB again.

mod account_flows;
mod commands;
mod consistency;
mod crash;
mod harness;
mod ledger_walk;
mod people;
