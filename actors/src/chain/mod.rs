//! Following contracts of public chains: trusted roots and keys that come by themselves.
//!
//! Each contract has a follower of its own under the supervisor `chain`, so that one that fails,
//! hangs or is behind takes no other with it. A follower asks the nodes of its chain through
//! [`node::ChainNode`], makes what it learned durable, and publishes it behind an atomic pointer
//! that verification reads.
//!
//! | module | what it holds |
//! |---|---|
//! | [`handle`] | what verification and front-ends read |
//! | [`state`] | the contracts with the slots of their followers |
//! | [`follower`], [`messages`] | the actor: when a step is taken |
//! | [`root_source`], [`key_source`] | what a step does |
//! | [`progress`] | what a step did, and how far it has come |
//! | [`nodes`] | the nodes of a chain, of which a number must agree |
//! | [`node`] | one node: questions in, answers out |

pub(crate) mod error;
pub(crate) mod follower;
pub(crate) mod handle;
mod key_source;
mod messages;
pub(crate) mod node;
pub(crate) mod nodes;
mod progress;
mod root_source;
pub(crate) mod settings;
pub(crate) mod state;
#[cfg(test)]
mod tests;
