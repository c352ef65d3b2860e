//! The message bridge: it keeps encrypted requests of applications for authenticators, and their
//! encrypted answers, in memory.
//!
//! | module | what it does |
//! |---|---|
//! | [`handle`] | what callers use, with settings, errors and the requests of the service itself |
//! | [`message_bridge`] | the actor, which holds the entries; its messages, and what it shares with the handle |
//! | [`peers`] | what replicas ask each other |

pub(crate) mod handle;
pub(crate) mod message_bridge;
pub(crate) mod peers;
#[cfg(test)]
mod tests;
