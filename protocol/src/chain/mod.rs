//! The public contracts that trusted data is followed from: what is asked of a chain, and how
//! answers are read.
//!
//! | module | what it decides |
//! |---|---|
//! | [`rpc`] | questions to a node of the chain, and its answers |

pub mod rpc;
