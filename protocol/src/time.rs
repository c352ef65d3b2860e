//! Points in time and waits, as types.

use std::fmt;
use std::time::Duration;

/// How long a client has to wait before it tries again, as `Retry-After` carries it (RFC 9110, section 10.2.3): whole seconds, rounded up,
/// at least 1. Shown as `7 s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RetryAfter(pub Duration);

impl RetryAfter {
    /// One second: for overload, which passes quickly.
    pub const SOON: Self = Self(Duration::from_secs(1));

    /// The number in the header.
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
    fn waits_are_rounded_up_to_whole_seconds() {
        for (milliseconds, expected) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (60_000, 60)] {
            assert_eq!(RetryAfter(Duration::from_millis(milliseconds)).seconds(), expected);
        }
        assert_eq!(RetryAfter(Duration::MAX).seconds(), u64::MAX);
        assert_eq!(RetryAfter(Duration::from_millis(1500)).to_string(), "2 s");
    }
}
