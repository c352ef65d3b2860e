//! Proof verification: the pool, its workers, and the handle that takes a request through all its checks.
//!
//! | module | what it holds |
//! |---|---|
//! | [`messages`] | what pool and workers are told |
//! | [`checker`] | what decides whether proofs hold |
//! | [`settings`], [`error`] | how verification is set up; why a request fails |
//! | [`state`] | what pool, workers and handle share |
//! | [`worker`], [`pool`] | the actors |
//! | [`roots`] | the roots that proofs may be made against |
//! | [`recording`] | the record of verified nullifiers |
//! | [`handle`] | verification from outside |

pub(crate) mod checker;
pub(crate) mod error;
pub(crate) mod handle;
pub(crate) mod messages;
pub(crate) mod pool;
pub(crate) mod recording;
pub(crate) mod roots;
pub(crate) mod settings;
pub(crate) mod state;
#[cfg(test)]
mod tests;
pub(crate) mod worker;
