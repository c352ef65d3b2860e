//! Points in time and waits, as types.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::number::{Number, integer_type};

/// A point in time: whole seconds since the Unix epoch. A number in JSON, eight bytes in records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = u64, example = 1_798_761_600)]
pub struct UnixSeconds(pub u64);

/// A point in time: milliseconds since the Unix epoch. Eight bytes in records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub u64);

integer_type!(UnixSeconds);
integer_type!(UnixMillis);

/// How far the clock may be set forward while blocks are sealed. A correction is smaller.
pub const LONGEST_CLOCK_STEP: Duration = Duration::from_secs(300);

/// Finds out that a clock was set far forward, by comparing it with the time that passes. The time
/// of a block cannot be taken back: a block from the future ends every waiting period at once, and
/// the blocks after it have its time until the real time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockGuard {
    /// What the clock showed when no time had passed, by its latest accepted setting.
    origin: Duration,
}

/// The clock was set forward by so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the clock was set forward by {} seconds while the service ran; correct it, or restart the service if the new time is \
     right",
    .0.as_secs()
)]
pub struct ClockStep(pub Duration);

impl ClockGuard {
    /// Accepts the clock as it is: it shows `now` (since the Unix epoch), and `passed` is the time
    /// since some fixed moment.
    pub fn new(now: Duration, passed: Duration) -> Self {
        Self { origin: now.saturating_sub(passed) }
    }

    /// Checks the clock before a block after one of the time `last_block` is sealed. A clock that
    /// was set back and forward again is accepted, and so is a time that is close to the last
    /// block's.
    ///
    /// # Errors
    /// The clock was set forward by more than [`LONGEST_CLOCK_STEP`].
    pub fn check(&mut self, now: Duration, passed: Duration, last_block: UnixSeconds) -> Result<(), ClockStep> {
        let origin = now.saturating_sub(passed);
        let step = origin.saturating_sub(self.origin);
        if step > LONGEST_CLOCK_STEP && now > last_block.since_epoch() + LONGEST_CLOCK_STEP {
            return Err(ClockStep(step));
        }
        self.origin = self.origin.max(origin);
        Ok(())
    }
}

impl UnixSeconds {
    /// The greatest time: the expiry of a record that does not expire.
    pub const NEVER: Self = Self(u64::MAX);

    /// The time since the Unix epoch.
    pub fn since_epoch(self) -> Duration {
        Duration::from_secs(self.0)
    }

    /// This time plus `seconds`; at most [`UnixSeconds::NEVER`].
    pub fn plus(self, seconds: u64) -> Self {
        Self(self.0.saturating_add(seconds))
    }

    /// This time minus `seconds`; at least the epoch.
    pub fn minus(self, seconds: u64) -> Self {
        Self(self.0.saturating_sub(seconds))
    }

    /// The last multiple of `seconds` that is not later.
    pub fn rounded_down(self, seconds: u64) -> Self {
        Self(self.0 - self.0 % seconds.max(1))
    }

    /// The seconds that have passed since `earlier`; 0 when it is later.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl UnixMillis {
    /// The time since the Unix epoch.
    pub fn since_epoch(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// The time as interfaces show it (ISO 8601, RFC 3339), such as `2027-01-01T00:00:00.000Z`.
    pub fn to_iso_8601(self) -> String {
        humantime::format_rfc3339_millis(UNIX_EPOCH + self.since_epoch()).to_string()
    }

    /// This time plus a wait, in whole milliseconds.
    pub fn plus(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
    }

    /// This time minus a while, in whole milliseconds; not before the Unix epoch.
    pub fn minus(self, wait: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// For fields that are numeric strings: `#[serde(with = "number")]`.
impl Number for UnixSeconds {
    const BITS: u32 = 64;
    fn widen(self) -> crate::U256 {
        self.0.widen()
    }
    fn narrow(value: crate::U256) -> Option<Self> {
        Number::narrow(value).map(Self)
    }
}

/// How long a client must wait before it tries again: the value of `Retry-After` (RFC 9110, section
/// 10.2.3) in whole seconds, rounded up, at least 1. `Display` writes `7 s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RetryAfter(pub Duration);

impl RetryAfter {
    /// One second: for overload, which passes quickly.
    pub const SOON: Self = Self(Duration::from_secs(1));

    /// The number in the header, in seconds.
    pub fn seconds(self) -> u64 {
        self.0.as_secs().saturating_add(u64::from(self.0.subsec_nanos() > 0)).max(1)
    }
}

impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.seconds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_up_to_whole_seconds() {
        for (milliseconds, expected) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (60_000, 60)] {
            assert_eq!(RetryAfter(Duration::from_millis(milliseconds)).seconds(), expected);
        }
        assert_eq!(RetryAfter(Duration::MAX).seconds(), u64::MAX);
        assert_eq!(RetryAfter(Duration::from_millis(1500)).to_string(), "2 s");
    }

    #[test]
    fn a_clock_that_was_set_far_forward_is_refused() {
        let seconds = Duration::from_secs;
        // Each row: what the clock shows, how much time has passed, the last block's time, and how
        // far the clock was set forward if it is refused.
        let rows = [
            (1_000_000, 50, 0, None),
            (1_000_100, 150, 1_000_000, None),
            // A correction.
            (1_000_400, 160, 1_000_100, None),
            // The clock is set forward by an hour, and goes on.
            (1_004_010, 170, 1_000_400, Some(3600)),
            (1_004_110, 270, 1_000_400, Some(3600)),
            // It is set right again.
            (1_000_520, 280, 1_000_400, None),
            // It is set back, and forward again.
            (900_000, 290, 1_000_520, None),
            (1_000_540, 300, 1_000_520, None),
            // The last block is from the same time, so there is nothing to keep from happening.
            (1_004_140, 300, 1_004_000, None),
        ];
        let mut guard = ClockGuard::new(seconds(1_000_000), seconds(50));
        for (now, passed, last_block, expected) in rows {
            let checked = guard.check(seconds(now), seconds(passed), UnixSeconds(last_block));
            assert_eq!(checked.err(), expected.map(|step| ClockStep(seconds(step))), "{now}");
        }
    }
}
