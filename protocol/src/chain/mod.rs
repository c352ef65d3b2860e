//! The public contracts that trusted data is followed from: what is asked of a chain, how answers
//! are read, and which roots and keys follow from them.
//!
//! | module | what it decides |
//! |---|---|
//! | [`contracts`] | questions to a node of the chain, and the contracts' events and calls, read strictly |
//! | [`deployment`] | where the contracts are, and which code they run |
//! | [`followed`] | the roots of one contract in their order; which roots and keys count for proofs, and until when |

pub mod contracts;
pub mod deployment;
pub mod followed;
#[cfg(test)]
mod tests;
