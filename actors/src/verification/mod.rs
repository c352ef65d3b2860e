//! Proof verification: the pool, its workers, and the handle that takes a request through all its
//! checks.
//!
//! | module | what it holds |
//! |---|---|
//! | [`messages`] | messages to the pool and its workers |
//! | [`checker`] | what decides whether proofs hold |
//! | `callers` | who is held to the limits of a request |
//! | [`settings`], [`error`] | settings of verification; why a request fails |
//! | [`permits`], [`queue`] | permits of proofs that wait; the order in which they are checked |
//! | [`state`] | what the pool, the workers and the handle share |
//! | [`worker`], [`pool`] | the actors |
//! | [`roots`] | the roots that proofs may be made against |
//! | [`recording`] | the record of verified nullifiers |
//! | [`handle`] | verification's handle |
//! | [`verification_actor`] | the handle as an actor, for other actors |

mod callers;
pub(crate) mod checker;
pub(crate) mod error;
pub(crate) mod handle;
pub(crate) mod messages;
pub(crate) mod permits;
pub(crate) mod pool;
pub(crate) mod queue;
pub(crate) mod recording;
pub(crate) mod roots;
pub(crate) mod settings;
pub(crate) mod state;
#[cfg(test)]
mod tests;
pub(crate) mod verification_actor;
pub(crate) mod worker;
