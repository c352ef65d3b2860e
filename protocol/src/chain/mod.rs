//! The public contracts that trusted data is followed from: what is asked of a chain, how answers
//! are read, and which roots and keys follow from them.
//!
//! | module | what it decides |
//! |---|---|
//! | [`rpc`] | questions to a node of the chain, and its answers |
//! | [`contracts`] | the contracts' events and calls, read strictly |
//! | [`deployment`] | where the contracts are, and which code they run |
//! | [`relying_parties`] | what the registry of relying parties says about one |
//! | [`history`] | the roots of one contract in their order, and what a reorganization takes back |
//! | [`followed`] | which roots and keys count for proofs, and until when |

pub mod contracts;
pub mod deployment;
pub mod followed;
pub mod history;
pub mod relying_parties;
pub mod rpc;
#[cfg(test)]
mod tests;
