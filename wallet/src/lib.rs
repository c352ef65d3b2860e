//! The development authenticator: what the command line, tests and benchmarks hold keys and act on accounts with.
//!
//! | module | what it does |
//! |---|---|
//! | [`keys`] | an authenticator's keys from one seed: secp256k1 for signatures, BabyJubJub for proofs |
//! | [`mod@file`] | the wallet file: one authenticator, readable by its owner only |
//! | [`operations`] | builds and signs the eight operations; pure |
//! | [`client`] | calls gateway and indexer |
//! | [`account`] | reads an account, carries an operation out, checks receipt and inclusion proof |
//! | [`prove`] | makes proofs: genuine legacy ones, current ones by the simulator |
//! | [`sign_in`] | answers a sign-in, and plays the browser where there is none |
//! | [`operator`] | asks the daemon's operator for what such proofs need |
//! | [`command`] | `selfsame wallet …` |

pub mod account;
pub mod client;
pub mod command;
pub mod file;
pub mod keys;
pub mod operations;
pub mod operator;
pub mod prove;
pub mod sign_in;

/// Where random bytes come from: fills 32 bytes, of cryptographic quality where keys are made.
pub type Random<'a> = dyn FnMut(&mut [u8; 32]) + Send + 'a;
