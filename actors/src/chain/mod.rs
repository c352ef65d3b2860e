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
//! | [`status`] | what status and metrics show |
//! | [`state`] | the contracts with the slots of their followers |
//! | [`contract`] | a contract of any kind |
//! | [`follower`], [`messages`] | the actor: when a step is taken |
//! | [`root_source`], [`key_source`], [`verifier_source`], [`party_source`] | what a step does |
//! | [`root_state`] | how far roots were followed |
//! | [`first_block`] | from which block on roots are read |
//! | [`location`], [`place`] | where a contract is |
//! | [`code_watch`] | which code a contract runs |
//! | [`progress`] | what a step did, and how far it has come |
//! | [`nodes`] | the nodes of a chain, of which a number must agree |
//! | [`pace`] | how fast a node is asked |
//! | [`node`] | one node: questions in, answers out |

mod code_watch;
mod contract;
mod durable;
pub(crate) mod error;
mod first_block;
pub(crate) mod follower;
pub(crate) mod handle;
mod key_source;
mod location;
mod messages;
pub(crate) mod node;
pub(crate) mod nodes;
mod pace;
mod party_source;
mod place;
mod progress;
mod root_source;
mod root_state;
pub(crate) mod settings;
pub(crate) mod state;
pub(crate) mod status;
#[cfg(test)]
mod tests;
mod verifier_source;
