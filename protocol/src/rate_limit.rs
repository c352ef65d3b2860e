//! Sliding windows: at most a given number of events in any period of a given length.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

/// A limit: at most `count` events in any period of the length `window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The most events; 0 refuses every event.
    pub count: usize,
    /// Length of the period. An event counts for exactly this time.
    pub window: Duration,
}

/// Events of many keys under one limit. The caller passes the time of a clock that does not go
/// back.
///
/// The limit is exact, because the time of each event in the window is kept. Memory is bounded by
/// `max_keys` times the limit's count. When `max_keys` keys are held, [`SlidingWindows::charge`]
/// drops the keys whose window has passed, at most 16 times in a window. While there is still no
/// room, the events of new keys are not counted and therefore allowed, so that a flood of new keys
/// does not lock out other sources and costs little.
#[derive(Debug)]
pub struct SlidingWindows<Key> {
    limit: RateLimit,
    max_keys: usize,
    events: HashMap<Key, VecDeque<Duration>>,
    /// The earliest time of the next search for keys to drop.
    next_drop: Duration,
}

impl<Key: Eq + Hash> SlidingWindows<Key> {
    /// Windows without events, for at most `max_keys` keys.
    pub fn new(limit: RateLimit, max_keys: usize) -> Self {
        Self { limit, max_keys, events: HashMap::new(), next_drop: Duration::ZERO }
    }

    /// The limit.
    pub fn limit(&self) -> RateLimit {
        self.limit
    }

    /// Checks that another event of `key` at `now` stays within the limit. Does not count the
    /// event.
    ///
    /// # Errors
    /// The time from `now` until the event would stay within the limit.
    pub fn check(&mut self, key: &Key, now: Duration) -> Result<(), Duration> {
        let Some(times) = self.events.get_mut(key) else {
            return if self.limit.count == 0 { Err(self.limit.window) } else { Ok(()) };
        };
        drop_passed(times, now, self.limit.window);
        if times.len() < self.limit.count {
            return Ok(());
        }
        // The event that has to leave the window before another fits.
        let leaving = times.len() - self.limit.count;
        Err(times
            .get(leaving)
            .map_or(self.limit.window, |time| time.saturating_add(self.limit.window).saturating_sub(now)))
    }

    /// Removes the newest event of `key`, so that it does not count.
    pub fn refund(&mut self, key: &Key) {
        if let Some(times) = self.events.get_mut(key) {
            times.pop_back();
        }
    }

    /// Counts an event of `key` at `now`, unless there is no room for a new key.
    pub fn charge(&mut self, key: Key, now: Duration) {
        if self.events.len() >= self.max_keys && !self.events.contains_key(&key) {
            let window = self.limit.window;
            if now < self.next_drop {
                return;
            }
            self.next_drop = now.saturating_add(window / 16);
            self.events.retain(|_, times| times.back().is_some_and(|last| last.saturating_add(window) > now));
            if self.events.len() >= self.max_keys {
                return;
            }
        }
        self.events.entry(key).or_default().push_back(now);
    }
}

/// Drops the events that have left the window. An event counts for exactly `window`.
fn drop_passed(times: &mut VecDeque<Duration>, now: Duration, window: Duration) {
    while times.front().is_some_and(|time| time.saturating_add(window) <= now) {
        times.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_window_slides() {
        let mut windows = SlidingWindows::new(RateLimit { count: 2, window: seconds(10) }, 100);
        for now in [0, 4] {
            assert_eq!(windows.check(&"a", seconds(now)), Ok(()));
            windows.charge("a", seconds(now));
        }
        assert_eq!(windows.check(&"a", seconds(5)), Err(seconds(5)));
        assert_eq!(windows.check(&"b", seconds(5)), Ok(()));
        assert_eq!(windows.check(&"a", seconds(9)), Err(seconds(1)));
        assert_eq!(windows.check(&"a", seconds(10)), Ok(()));
        windows.charge("a", seconds(10));
        assert_eq!(windows.check(&"a", seconds(10)), Err(seconds(4)));
    }

    #[test]
    fn a_charge_that_was_given_back_does_not_count() {
        let mut windows = SlidingWindows::new(RateLimit { count: 2, window: seconds(10) }, 100);
        for now in [0, 4, 5] {
            windows.charge("a", seconds(now));
        }
        windows.refund(&"a");
        windows.refund(&"b");
        assert_eq!(windows.check(&"a", seconds(5)), Err(seconds(5)));
        windows.refund(&"a");
        assert_eq!(windows.check(&"a", seconds(5)), Ok(()));
    }

    #[test]
    fn checking_does_not_charge() {
        let mut windows = SlidingWindows::new(RateLimit { count: 1, window: seconds(10) }, 100);
        for _ in 0..5 {
            assert_eq!(windows.check(&1, seconds(0)), Ok(()));
        }
    }

    #[test]
    fn the_number_of_keys_in_memory_is_bounded() {
        let mut windows = SlidingWindows::new(RateLimit { count: 1, window: seconds(10) }, 3);
        for key in 0..1000 {
            windows.charge(key, seconds(0));
        }
        assert_eq!(windows.events.len(), 3);
        windows.charge(1000, seconds(10));
        assert_eq!(windows.events.len(), 1);
        assert_eq!(windows.check(&1000, seconds(10)), Err(seconds(10)));
    }

    #[test]
    fn expired_keys_are_dropped_at_most_once_in_an_interval() {
        let mut windows = SlidingWindows::new(RateLimit { count: 1, window: seconds(16) }, 2);
        for key in [0, 1, 2] {
            windows.charge(key, seconds(0));
        }
        windows.charge(0, seconds(1));
        // The window of key 1 has passed and a drop is due, so key 3 gets its room. Key 4 has to
        // wait for the next drop.
        windows.charge(3, seconds(16));
        windows.charge(4, seconds(16));
        assert_eq!(windows.events.len(), 2);
        assert_eq!(windows.check(&3, seconds(16)), Err(seconds(16)));
        assert_eq!(windows.check(&4, seconds(16)), Ok(()));
        windows.charge(5, Duration::from_millis(16_999));
        assert_eq!(windows.check(&5, seconds(17)), Ok(()));
        windows.charge(5, seconds(17));
        assert_eq!(windows.check(&5, seconds(17)), Err(seconds(16)));
    }
}
