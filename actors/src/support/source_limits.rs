//! Limits by source address: of requests, and of clients that follow something.

use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selfsame_protocol::net::network_of;
use selfsame_protocol::rate_limit::{NetworkMultiples, RateLimit, SlidingWindows, SourceWindows};
use selfsame_protocol::shares::Shares;
use selfsame_protocol::time::RetryAfter;
use selfsame_storage::{Counter, Metrics};

/// The most keys whose events are counted at a time, and the most networks of each size. Bounds a
/// [`RateLimiter`] to about 60 MB and a [`SourceLimiter`] to about 180 MB.
const MAX_KEYS: usize = 100_000;

/// Adds what a limit of one source, or of one application, refuses to `metrics`: `limit` is its
/// name, and `endpoints` are the requests that it is for. Front-ends add those of their own limits.
pub fn register_refusals(metrics: &mut Metrics, limit: &str, endpoints: &str, refused: &Counter) {
    let help = "Requests and connections refused by the limit of one source or application.";
    let labels = [("limit", limit), ("endpoints", endpoints)];
    metrics.add_series("selfsame_source_limit_refusals", help, labels, refused.clone());
}

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
    limited: Mutex<SourceWindow>,
    /// The requests that were refused since the start.
    pub refused: Counter,
}

struct SourceWindow {
    limit: Option<RateLimit>,
    limiter: SourceRateLimiter,
}

impl SourceLimiter {
    /// A limiter under `limit`; `None` is off.
    pub fn new(limit: Option<RateLimit>) -> Self {
        let limited = SourceWindow { limit, limiter: SourceRateLimiter::new(NetworkMultiples::RATE) };
        Self { limited: Mutex::new(limited), refused: Counter::default() }
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
        let SourceWindow { limit, limiter } = &mut *self.lock();
        let Some(windows) = limiter.under(*limit) else { return Ok(()) };
        windows.check(source, count, now).map_err(|wait| self.refuse(wait))?;
        windows.charge(source, count, now);
        Ok(())
    }

    fn refuse(&self, wait: Duration) -> TooManyRequests {
        self.refused.inc();
        TooManyRequests { retry_after: RetryAfter(wait) }
    }

    /// Takes back one of what [`SourceLimiter::charge`] has counted for `source`.
    pub fn refund(&self, source: IpAddr) {
        let SourceWindow { limit, limiter } = &mut *self.lock();
        if let Some(windows) = limiter.under(*limit) {
            windows.refund(source);
        }
    }

    fn lock(&self) -> MutexGuard<'_, SourceWindow> {
        self.limited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// How many clients may follow sign-ins, or messages of the bridge, at a time. A follower holds a
// connection for seconds or minutes, so that their number is limited for each of these and for
// each source address.

/// The most followers of one sign-in or message: a page that was opened again before the server
/// noticed the end of its earlier connections, and a program.
const FOLLOWERS_OF_EACH: usize = 4;

/// When a client that was refused may try again. An earlier follower may have ended by then.
const RETRY_AFTER: RetryAfter = RetryAfter(Duration::from_secs(5));

/// The followers at the moment, by what they follow and by source.
pub(crate) struct FollowerLimits<Id> {
    counts: Mutex<Counts<Id>>,
    /// The followers that were refused since the start because their source follows enough.
    pub refused_of_source: Counter,
}

struct Counts<Id> {
    of_each: Shares<Id>,
    of_source: Shares<IpAddr>,
}

impl<Id> Default for FollowerLimits<Id> {
    fn default() -> Self {
        let counts = Counts { of_each: Shares::default(), of_source: Shares::default() };
        Self { counts: Mutex::new(counts), refused_of_source: Counter::default() }
    }
}

impl<Id: Eq + Hash + Clone> FollowerLimits<Id> {
    /// Counts another follower, for as long as the permit is kept. A source (IPv6: a /64) may have
    /// `limit` followers; without a source only the limit of what is followed applies.
    pub fn enter(
        limits: &Arc<Self>,
        id: Id,
        source: Option<IpAddr>,
        limit: usize,
    ) -> Result<FollowerPermit<Id>, TooManyRequests> {
        let source = source.map(network_of);
        let mut counts = limits.lock();
        let is_source_full = !counts.of_source.has_share(1, source.map(|source| (source, limit)));
        if is_source_full {
            limits.refused_of_source.inc();
        }
        if is_source_full || !counts.of_each.has_share(1, [(id.clone(), FOLLOWERS_OF_EACH)]) {
            return Err(TooManyRequests { retry_after: RETRY_AFTER });
        }
        counts.of_each.take(1, [id.clone()]);
        counts.of_source.take(1, source);
        drop(counts);
        Ok(FollowerPermit { limits: Arc::clone(limits), id, source })
    }

    fn lock(&self) -> MutexGuard<'_, Counts<Id>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One follower, until it is dropped.
pub struct FollowerPermit<Id: Eq + Hash + Clone> {
    limits: Arc<FollowerLimits<Id>>,
    id: Id,
    source: Option<IpAddr>,
}

impl<Id: Eq + Hash + Clone> Drop for FollowerPermit<Id> {
    fn drop(&mut self) {
        let mut counts = self.limits.lock();
        counts.of_each.give_back(1, [self.id.clone()]);
        counts.of_source.give_back(1, self.source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_are_limited_by_what_they_follow_and_by_source() {
        let limits = Arc::new(FollowerLimits::<u8>::default());
        let source = |last| Some(IpAddr::from([192, 0, 2, last]));
        let enter = |id: u8, last| FollowerLimits::enter(&limits, id, source(last), 5);
        let mut held: Vec<_> = (0..5).filter_map(|last| enter(1, last).ok()).collect();
        assert_eq!(held.len(), 4, "each has four followers");
        held.extend((2..10).filter_map(|number| enter(number, 0).ok()));
        assert_eq!(held.len(), 8, "one source follows five");
        assert_eq!(limits.refused_of_source.get(), 4);
        assert!(enter(20, 1).is_ok());
        assert!(FollowerLimits::enter(&limits, 30, None, 0).is_ok());
        held.remove(0);
        assert!(enter(1, 0).is_ok());
        drop(held);
        let counts = limits.lock();
        assert_eq!((counts.of_each.keys(), counts.of_source.keys()), (0, 0));
    }
}
