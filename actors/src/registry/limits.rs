//! Limits of admission, and of a block.

use std::time::Duration;

use selfsame_protocol::rate_limit::RateLimit;

/// Limits of admission. They can be changed while the service runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// The most open requests. Further requests are refused.
    pub queue_length: usize,
    /// Calls that may wait for one actor's answer at a time.
    pub waiting_calls: usize,
    /// Clients that may wait for final states at a time.
    pub status_waiters: usize,
    /// Limit of requests by source address (IPv6 by /64); `None` is off.
    pub per_source: Option<RateLimit>,
    /// Limit of accepted requests by account; `None` is off.
    pub per_leaf_index: Option<RateLimit>,
    /// How long the record of a final request is kept.
    pub request_retention: Duration,
    /// How long an idempotency key stands for its request.
    pub idempotency_retention: Duration,
}

impl Default for AdmissionLimits {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        Self {
            queue_length: 100_000,
            waiting_calls: 4096,
            status_waiters: 10_000,
            per_source: None,
            per_leaf_index: None,
            request_retention: day,
            idempotency_retention: day,
        }
    }
}

/// Limits of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// The most operations in a block, inclusive.
    pub max_operations: usize,
    /// How long the first request of a block waits for others, at least, before the batcher seals
    /// it: while it has little to do.
    pub min_wait: Duration,
    /// How long the first request of a block waits for others, at most, unless blocks wait to be
    /// applied.
    pub max_wait: Duration,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self { max_operations: 1024, min_wait: Duration::ZERO, max_wait: Duration::from_millis(5) }
    }
}
