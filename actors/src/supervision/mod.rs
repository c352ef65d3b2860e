//! The supervision tree: it starts and stops the actors, and detects actors that are stuck.
//!
//! | module | what it holds |
//! |---|---|
//! | [`heartbeat`] | asks every actor for an answer, every second |
//! | [`tree`] | the only list of the actors, with their supervisors |
//! | [`supervisor`], [`guardian`] | the actors that start others again, and tell of their end |
//! | [`settings`] | the settings of a service, and how often actors are restarted |
//! | [`error`] | why a service did not start, or ended |
//! | [`store_watch`] | ends the service when its store has to be opened again |
//! | [`troubles`] | tells embedders when the service cannot write |
//! | [`election`] | who leads the replicas of a journal, as a trait |
//! | [`leadership`] | the actor of a replica that takes part in the election |
//! | [`answering`] | what the leader answers the other replicas |
//! | [`replication`] | a replica's part: follows the journal, begins and ends to lead |
//! | [`metrics`] | every number that a service counts |
//! | [`parts`] | what a service is started with |
//! | [`service`] | the running service, for embedders |
//! | [`service_actor`] | the same as a child of an embedder's supervisor |

mod answering;
pub(crate) mod election;
pub(crate) mod error;
mod guardian;
pub(crate) mod heartbeat;
mod leadership;
pub(crate) mod metrics;
pub(crate) mod parts;
pub(crate) mod replication;
pub(crate) mod service;
pub(crate) mod service_actor;
pub(crate) mod settings;
mod store_watch;
mod supervisor;
#[cfg(test)]
mod tests;
pub(crate) mod tree;
mod troubles;
