//! The settings of the message bridge.

use selfsame_protocol::bridge::entries::EntryLimits;

/// The settings of the message bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgeSettings {
    /// Lifetime and room of the messages.
    pub limits: EntryLimits,
    /// The most answers that one source address (IPv6: a /64) waits for at a time.
    pub followers_per_source: usize,
    /// The most calls that may wait for the actor at a time.
    pub waiting_calls: usize,
}

impl Default for BridgeSettings {
    fn default() -> Self {
        Self { limits: EntryLimits::default(), followers_per_source: 256, waiting_calls: 1024 }
    }
}
