//! The rules of Selfsame, and nothing but the rules.
//!
//! Everything here is a pure function of its arguments: time, random bytes and stored state are handed in. The daemon, its
//! actors and the wallet share this crate, so a rule has exactly one home even when only one of them applies it today.
//!
//! | module | what it decides |
//! |---|---|
//! | [`number`], [`address`], [`signature`], [`json`] | how numbers, addresses, signatures and bodies are read from outside, strictly |
//! | [`encoding`] | the canonical binary encoding that blocks are hashed in and records are stored in |
//! | [`tree`] | the Merkle tree of account commitments: hash, pages, batch update, inclusion paths |
//! | [`commitment`] | BabyJubJub keys and the commitment to an account's key set |
//! | [`registry`] | accounts, the eight operations, the rules of the registry contract (v1) |
//! | [`eip712`] | the typed data that authenticators sign |
//! | [`ledger`] | blocks, results, receipts |
//! | [`groth16`] | proofs: reading them strictly, checking them alone and in batches |
//! | [`verification`] | the verification endpoint: requests, who may ask, what a proof must prove, nullifiers |
//! | [`gateway`], [`indexer`] | the wire types of the two registry interfaces |
//! | [`sign_in`] | OpenID Connect requests, responses, errors and claims |
//! | [`rate_limit`] | sliding windows |

pub mod address;
pub mod commitment;
pub mod eip712;
pub mod encoding;
pub mod gateway;
pub mod groth16;
pub mod indexer;
pub mod json;
pub mod ledger;
pub mod net;
pub mod number;
pub mod operator;
#[cfg(test)]
mod published_types;
pub mod rate_limit;
pub mod registry;
pub mod sign_in;
pub mod signature;
pub mod time;
pub mod tree;
pub mod verification;

pub use alloy_primitives::{Address, B256, U256, keccak256};
