//! How many sign-ins may be open at a time.

use std::net::IpAddr;
use std::time::Duration;

use selfsame_protocol::rate_limit::{NetworkMultiples, RateLimit, SlidingWindows, SourceWindows};
use selfsame_protocol::time::RetryAfter;

use super::error::SignInError;
use crate::support::source_limits::{RateLimiter, SourceRateLimiter, TooManyRequests};

/// The sign-ins that were begun within a transaction's lifetime: all of them, and those of each
/// source address. Their number is limited because each has a record and any client can begin one.
pub(super) struct OpenSignIns {
    /// How long a sign-in counts as open, even after it was completed, because its record is stored
    /// for that time: the lifetime of a transaction.
    open_for: Duration,
    all: RateLimiter<()>,
    of_source: SourceRateLimiter,
}

impl OpenSignIns {
    /// No sign-in is open. `open_for` is the lifetime of a transaction.
    pub fn new(open_for: Duration) -> Self {
        Self { open_for, all: RateLimiter::new(), of_source: SourceRateLimiter::new(NetworkMultiples::QUARTERS) }
    }

    /// Counts a sign-in that `source` begins at `now` (time since the Unix epoch), if fewer than
    /// `limit` are open. A source, also a /56 of IPv6, may have a quarter of the limit (rounded
    /// up), and a /48 or a /24 of IPv4 three quarters, so that they cannot use up all of it.
    pub fn open(&mut self, source: Option<IpAddr>, limit: usize, now: Duration) -> Result<(), SignInError> {
        if let (Some(source), Some(windows)) = (source, self.of_source(limit)) {
            let retry = |wait| TooManyRequests { retry_after: RetryAfter(wait) };
            windows.check(source, 1, now).map_err(retry)?;
        }
        if let Some(windows) = self.all(limit) {
            let reason = || "too many sign-ins are under way".to_owned();
            let retry = |wait| SignInError::Unavailable { reason: reason(), retry_after: RetryAfter(wait) };
            windows.check(&(), 1, now).map_err(retry)?;
            windows.charge((), 1, now);
        }
        if let (Some(source), Some(windows)) = (source, self.of_source(limit)) {
            windows.charge(source, 1, now);
        }
        Ok(())
    }

    /// Takes back the last sign-in of `source`, which was not recorded, or whose record is deleted.
    pub fn refund(&mut self, source: Option<IpAddr>, limit: usize) {
        if let Some(windows) = self.all(limit) {
            windows.refund(&());
        }
        if let (Some(source), Some(windows)) = (source, self.of_source(limit)) {
            windows.refund(source);
        }
    }

    fn all(&mut self, limit: usize) -> Option<&mut SlidingWindows<()>> {
        self.all.under(Some(RateLimit { count: limit, window: self.open_for }))
    }

    fn of_source(&mut self, limit: usize) -> Option<&mut SourceWindows> {
        self.of_source.under(Some(RateLimit { count: limit.div_ceil(4), window: self.open_for }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN_FOR: Duration = Duration::from_secs(300);

    #[test]
    fn a_source_can_open_a_quarter_of_the_sign_ins() {
        let mut open = OpenSignIns::new(OPEN_FOR);
        let [one, two] = ["192.0.2.1", "192.0.2.2"].map(|text| Some(text.parse().expect("an address")));
        let at = Duration::from_secs(1_800_000_000);
        assert!(open.open(one, 8, at).is_ok() && open.open(one, 8, at).is_ok());
        assert!(matches!(open.open(one, 8, at), Err(SignInError::TooMany(_))));
        open.refund(one, 8);
        assert!(open.open(one, 8, at).is_ok());
        assert!(open.open(two, 8, at).is_ok() && open.open(two, 8, at).is_ok());
        // A sign-in without a source is limited only by the total.
        for _ in 0..4 {
            open.open(None, 8, at).expect("fewer than eight are open");
        }
        assert!(matches!(open.open(None, 8, at), Err(SignInError::Unavailable { .. })));
        assert!(open.open(one, 8, at + OPEN_FOR).is_ok(), "they have expired");
    }
}
