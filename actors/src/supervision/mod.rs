//! The supervision tree: it starts and stops the actors, and detects actors that are stuck.
//!
//! | module | what it holds |
//! |---|---|
//! | [`heartbeat`] | asks every actor for an answer, every second |
//! | [`tree`] | the only list of the actors, with their supervisors |
//! | [`election`] | who leads the replicas of a journal, as a trait |
//! | [`leadership`] | the actor of a replica that takes part in the election |
//! | [`answering`] | what the leader answers the other replicas |
//! | [`replication`] | a replica's part: follows the journal, begins and ends to lead |
//! | [`service`] | the running service, for embedders |

mod answering;
pub(crate) mod election;
pub(crate) mod heartbeat;
mod leadership;
pub(crate) mod replication;
pub(crate) mod service;
#[cfg(test)]
mod tests;
pub(crate) mod tree;
