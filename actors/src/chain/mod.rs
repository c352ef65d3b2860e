//! Following contracts of public chains: trusted roots and keys that come by themselves.
//!
//! Each contract has a follower of its own under the supervisor `chain`, so that one that fails,
//! hangs or is behind takes no other with it. A follower asks the nodes of its chain through
//! [`nodes::ChainNode`], makes what it learned durable, and publishes it behind an atomic pointer
//! that verification reads.
//!
//! | module | what it holds |
//! |---|---|
//! | [`contracts`] | settings of the contracts that are followed, and why a step fails |
//! | [`handle`] | what verification and front-ends read, and status and metrics show |
//! | [`follower`] | the actor of one contract: when a step is taken, and how far it has come |
//! | [`root_source`], [`key_source`] | what a step does for roots and for keys |
//! | [`root_history`] | from which block on roots are read, and how far they were followed |
//! | [`deployment`] | where a contract is, which code it runs, and what its deployment names besides |
//! | [`nodes`] | the nodes of a chain, of which a number must agree |
//! | [`pace`] | how fast a node is asked |

pub(crate) mod contracts;
mod deployment;
pub(crate) mod follower;
pub(crate) mod handle;
mod key_source;
pub(crate) mod nodes;
mod pace;
mod root_history;
mod root_source;
#[cfg(test)]
mod tests;
