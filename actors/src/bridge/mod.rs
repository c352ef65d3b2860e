//! The message bridge: it keeps encrypted requests of applications for authenticators, and their
//! encrypted answers, in memory.
//!
//! | module | what it does |
//! |---|---|
//! | [`handle`] | what callers use |
//! | [`message_bridge`] | the actor, which holds the entries |
//! | [`messages`] | the messages to the actor |
//! | [`peers`] | what replicas ask each other |
//! | [`sealer`] | the requests of the service itself |
//! | [`state`] | what handle and actor share |
//! | [`settings`], [`error`] | settings and errors |

pub(crate) mod error;
pub(crate) mod handle;
pub(crate) mod message_bridge;
pub(crate) mod messages;
pub(crate) mod peers;
pub(crate) mod sealer;
pub(crate) mod settings;
pub(crate) mod state;
#[cfg(test)]
mod tests;
