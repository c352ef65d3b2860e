//! The rules of Selfsame, without input or output.
//!
//! The functions depend on their arguments only: the caller passes time, random bytes and stored
//! state. The daemon, its actors and the wallet share this crate, so that each rule is written
//! once.
//!
//! | module | what it decides |
//! |---|---|
//! | [`number`], [`address`], [`signature`], [`json`] | strict readers of numbers, addresses, signatures and bodies |
//! | [`ids`] | leaf index, slot, nonce and the other numbers that must not be mixed up |
//! | [`encoding`] | the canonical binary encoding of blocks and stored records |
//! | [`lanes`] | arithmetic on eight field elements at once |
//! | [`tree`] | the Merkle tree of account commitments: hash, pages, batch update, inclusion paths |
//! | [`client_secret`] | secrets of applications, as they are stored |
//! | [`commitment`] | BabyJubJub keys and the commitment to an account's key set |
//! | [`registry`] | accounts, the eight operations, the rules of the registry contract (v1) |
//! | [`eip712`] | the typed data that authenticators sign |
//! | [`ledger`] | blocks, results, receipts, signed heads |
//! | [`groth16`] | proofs: reading them strictly, checking them alone and in batches |
//! | [`verification`] | the verification endpoint: requests, admission, checks, nullifiers |
//! | [`chain`] | public contracts that trusted data is followed from |
//! | [`gateway`], [`indexer`] | the wire types of the two registry interfaces |
//! | [`groups`] | communities that say who their members are: enrolment, trees, rolls, link proofs |
//! | [`bridge`] | the message bridge: its wire types and the rules of its entries |
//! | [`events`] | what applications and the operator are told of: webhooks, their signatures, streams |
//! | [`operator`] | the wire types of the operator interface |
//! | [`operator_call`] | how a command and the daemon show that they know the operator's token |
//! | [`sign_in`] | OpenID Connect requests, responses, errors and claims |
//! | [`trace`] | recorded calls of the registry contract, and their replay |
//! | [`time`] | points in time and waits |
//! | [`rate_limit`], [`shares`] | sliding windows, and what one source may hold of something limited |
//! | [`net`] | the networks that a source address counts as, and the hosts of URLs |

pub mod address;
pub mod bridge;
pub mod chain;
pub mod client_secret;
pub mod commitment;
pub mod eip712;
pub mod encoding;
pub mod events;
pub mod gateway;
pub mod groth16;
pub mod groups;
pub mod ids;
pub mod indexer;
pub mod json;
pub mod ledger;
pub mod net;
pub mod number;
pub mod operator;
pub mod operator_call;
#[cfg(test)]
mod published_types;
pub mod rate_limit;
pub mod registry;
pub mod shares;
pub mod sign_in;
pub mod signature;
pub mod time;
pub mod trace;
pub mod trace_context;
pub mod tree;
pub mod verification;

pub use selfsame_lanes as lanes;

pub use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
