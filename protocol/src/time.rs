//! Points in time and waits, as types.

use std::fmt;
use std::time::Duration;

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
}
