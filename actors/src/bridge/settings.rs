//! The settings of the message bridge.

use selfsame_protocol::bridge::entries::EntryLimits;
use selfsame_protocol::rate_limit::RateLimit;

/// The settings of the message bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgeSettings {
    /// Lifetime and room of the messages.
    pub limits: EntryLimits,
    /// Limit, by source address (IPv6 by /64), of messages that are handed in and of requests that
    /// are fetched; `None` is off.
    pub per_source: Option<RateLimit>,
    /// The most answers that one source address (IPv6: a /64) waits for at a time.
    pub followers_per_source: usize,
    /// The most calls that may wait for the actor at a time.
    pub waiting_calls: usize,
}

impl Default for BridgeSettings {
    fn default() -> Self {
        Self { limits: EntryLimits::default(), per_source: None, followers_per_source: 256, waiting_calls: 1024 }
    }
}
