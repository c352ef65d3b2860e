//! The supervision tree: starting and stopping it, and noticing actors that are stuck.
//!
//! | module | what it holds |
//! |---|---|
//! | [`heartbeat`] | asks every actor for a sign of life |
//! | [`tree`] | the one list of the actors, and who restarts them |
//! | [`service`] | what embedders hold |

pub(crate) mod heartbeat;
pub(crate) mod service;
#[cfg(test)]
mod tests;
pub(crate) mod tree;
