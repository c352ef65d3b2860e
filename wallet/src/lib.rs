//! The development authenticator: the command line, tests and benchmarks use it to hold keys and to
//! act on accounts.
//!
//! | module | what it does |
//! |---|---|
//! | [`keys`] | an authenticator's keys from one seed: secp256k1 for signatures, BabyJubJub for proofs |
//! | [`mod@file`] | the wallet file: one authenticator, readable by its owner only |
//! | [`operations`] | builds and signs the eight operations; pure |
//! | [`client`] | calls the gateway and the indexer |
//! | [`account`] | reads an account, carries an operation out, checks receipt and inclusion proof |
//! | [`groups`] | calls the wallet interface for the groups that the owner is a member of |
//! | [`guard`] | which nullifiers an installation of a wallet has given, and gives no more |
//! | [`head`] | checks the signed head of the registry, and that it continues the history seen before |
//! | [`person`] | the account that a proof is of, for the authenticators that may prove it |
//! | [`member`] | a membership of a group: link proofs, and proofs against its roots |
//! | [`prove`] | makes proofs: genuine legacy proofs, and current proofs by the simulator |
//! | [`bundle`] | makes integrity bundles, by the simulator's attestation issuer |
//! | [`sign_in`] | answers a sign-in, and acts as the browser when there is none |
//! | [`bridge`] | answers requests that applications put on a message bridge |
//! | [`operator`] | calls the operator interface for the values that such proofs need |
//! | [`command`] | `selfsame wallet …` |

pub mod account;
pub mod bridge;
pub mod bundle;
pub mod client;
pub mod command;
pub mod file;
pub mod groups;
pub mod guard;
pub mod head;
pub mod keys;
pub mod member;
pub mod operations;
pub mod operator;
pub mod person;
pub mod prove;
pub mod sign_in;

/// A source of random bytes: each call fills 32 bytes. It must be cryptographically secure where
/// keys are made.
pub type Random<'a> = dyn FnMut(&mut [u8; 32]) + Send + 'a;
