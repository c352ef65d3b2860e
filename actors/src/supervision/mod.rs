//! The supervision tree: it starts and stops the actors, and detects actors that are stuck.
//!
//! | module | what it holds |
//! |---|---|
//! | [`start`] | what a service is started with: settings, parts; why it did not start, or ended |
//! | [`service`] | the running service, for embedders |
//! | [`service_actor`] | the same as a child of an embedder's supervisor |
//! | [`messages`] | what other actors ask of that child |
//! | [`tree`] | the only list of the actors, with their supervisors |
//! | [`supervisor`] | the actors that start others again, and tell of their end |
//! | [`health`] | asks every actor for an answer, and watches the store; tells embedders of troubles |
//! | [`leadership`] | the election, as a trait, and the actor of a replica that takes part in it |
//! | [`replication`] | a replica's part: follows the journal, begins and ends to lead, answers other replicas |

pub(crate) mod health;
pub(crate) mod leadership;
pub(crate) mod messages;
pub(crate) mod replication;
pub(crate) mod service;
pub(crate) mod service_actor;
pub(crate) mod start;
mod supervisor;
#[cfg(test)]
mod tests;
pub(crate) mod tree;
