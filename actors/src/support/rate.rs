//! Limits of requests by source address.

use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selfsame_protocol::rate_limit::{NetworkMultiples, RateLimit, SlidingWindows, SourceWindows};
use selfsame_protocol::time::RetryAfter;

/// The most keys whose events are counted at a time, and the most networks of each size. Bounds a
/// [`RateLimiter`] to about 60 MB and a [`SourceLimiter`] to about 180 MB.
const MAX_KEYS: usize = 100_000;

/// A source address has used up its limit of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many requests from this address; try again in {retry_after}")]
pub struct TooManyRequests {
    /// Time until the next request is within the limit.
    pub retry_after: RetryAfter,
}

/// Sliding windows under a limit that can change or be off.
pub(crate) struct RateLimiter<Key> {
    windows: Option<SlidingWindows<Key>>,
}

impl<Key: Eq + Hash> RateLimiter<Key> {
    /// No events yet.
    pub fn new() -> Self {
        Self { windows: None }
    }

    /// The windows under `limit`; `None` when `limit` is. A new limit starts with empty windows.
    pub fn under(&mut self, limit: Option<RateLimit>) -> Option<&mut SlidingWindows<Key>> {
        if self.windows.as_ref().map(SlidingWindows::limit) != limit {
            self.windows = limit.map(|limit| SlidingWindows::new(limit, MAX_KEYS));
        }
        self.windows.as_mut()
    }
}

/// Windows of sources under a limit that can change or be off.
pub(crate) struct SourceRateLimiter {
    multiples: NetworkMultiples,
    windows: Option<SourceWindows>,
}

impl SourceRateLimiter {
    /// No events yet.
    pub fn new(multiples: NetworkMultiples) -> Self {
        Self { multiples, windows: None }
    }

    /// The windows under `limit`; `None` when `limit` is. A new limit starts with empty windows.
    pub fn under(&mut self, limit: Option<RateLimit>) -> Option<&mut SourceWindows> {
        if self.windows.as_ref().map(SourceWindows::limit) != limit {
            self.windows = limit.map(|limit| SourceWindows::new(limit, self.multiples, MAX_KEYS));
        }
        self.windows.as_mut()
    }
}

/// Limits the requests of each source address (IPv6: of each /64), of the networks around it, and
/// of all together.
pub(crate) struct SourceLimiter {
    limited: Mutex<Limited>,
    refused: AtomicU64,
}

struct Limited {
    limit: Option<RateLimit>,
    limiter: SourceRateLimiter,
}

impl SourceLimiter {
    /// A limiter under `limit`; `None` is off.
    pub fn new(limit: Option<RateLimit>) -> Self {
        let limited = Limited { limit, limiter: SourceRateLimiter::new(NetworkMultiples::RATE) };
        Self { limited: Mutex::new(limited), refused: AtomicU64::new(0) }
    }

    /// Changes the limit, from the next request on.
    pub fn set(&self, limit: Option<RateLimit>) {
        self.lock().limit = limit;
    }

    /// Counts a request of `source` at `now` (time since the Unix epoch). A request beyond the
    /// limit is refused and not counted.
    pub fn charge(&self, source: IpAddr, now: Duration) -> Result<(), TooManyRequests> {
        self.charge_many(source, 1, now)
    }

    /// Counts several things at once. More than the limit of a source are always refused.
    pub fn charge_many(&self, source: IpAddr, count: usize, now: Duration) -> Result<(), TooManyRequests> {
        let Limited { limit, limiter } = &mut *self.lock();
        let Some(windows) = limiter.under(*limit) else { return Ok(()) };
        windows.check(source, count, now).map_err(|wait| self.refuse(wait))?;
        windows.charge(source, count, now);
        Ok(())
    }

    /// How many requests were refused since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn refuse(&self, wait: Duration) -> TooManyRequests {
        self.refused.fetch_add(1, Ordering::Relaxed);
        TooManyRequests { retry_after: RetryAfter(wait) }
    }

    /// Takes back one of what [`SourceLimiter::charge`] has counted for `source`.
    pub fn refund(&self, source: IpAddr) {
        let Limited { limit, limiter } = &mut *self.lock();
        if let Some(windows) = limiter.under(*limit) {
            windows.refund(source);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Limited> {
        self.limited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
