//! Proof verification: the pool, its workers, and the handle that takes a request through all its
//! checks.
//!
//! | module | what it holds |
//! |---|---|
//! | [`settings`] | settings of verification, and what decides whether proofs hold |
//! | [`handle`] | verification's handle |
//! | [`link_proofs`] | the checks of proofs with which persons join groups |
//! | [`refusals`] | why a request fails, and who is held to the limits of a request |
//! | [`queue`] | permits of proofs that wait; the order in which they are checked |
//! | [`pool`] | the actors: the pool and its workers; their messages, and what they share with the handle |
//! | [`roots`] | the roots that proofs may be made against |
//! | [`integrity`] | the keys of attestation issuers, and the judgement of integrity bundles |
//! | [`recording`] | the record of verified nullifiers, and the event of a request |

pub(crate) mod handle;
pub(crate) mod integrity;
pub(crate) mod link_proofs;
pub(crate) mod pool;
pub(crate) mod queue;
pub(crate) mod recording;
pub(crate) mod refusals;
pub(crate) mod roots;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
