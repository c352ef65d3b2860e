//! The supervision tree: starting and stopping it, and noticing actors that are stuck.

pub(crate) mod heartbeat;
pub(crate) mod service;
#[cfg(test)]
mod tests;
