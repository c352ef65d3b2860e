//! Sliding windows: at most a given number of events in any period of a given length.
//!
//! Buckets that refill (GCRA, which the crate `governor` implements) keep one number for each key,
//! but admit up to twice the limit in a window, and the configuration promises at most the limit in
//! any window. So the times of the events are kept here, in bounded memory for each key
//! (`docs/adr/0012-own-sliding-windows.md`).

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;
use std::time::Duration;

use crate::net::{network_of, prefix_of};

/// A limit: at most `count` events in any period of the length `window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The most events; 0 refuses every event.
    pub count: usize,
    /// Length of the period. An event counts for exactly this time.
    pub window: Duration,
}

/// Into how many parts a window is divided. Events of a key in the same part are one entry, so that
/// a key takes bounded memory under every limit: a window touches at most 32 parts.
const PARTS: u64 = 30;

/// How often in a window the keys whose window has passed are looked for, while as many keys are
/// held as there may be.
const DROPS: u32 = 16;

/// Events of many keys under one limit. The caller passes the time of a clock that does not go
/// back.
///
/// Events in the same 30th of the window share an entry with the time of the newest; an event
/// counts for the window, and for at most this much longer. A key has at most 32 entries of 16
/// bytes, so 100,000 keys take at most about 60 MB. Keys whose window has passed are dropped once
/// in a window, and more often while `max_keys` keys are held. In that state events of further keys
/// are neither refused nor counted: the other keys keep their limits, and a flood of keys locks out
/// none.
#[derive(Debug)]
pub struct SlidingWindows<Key> {
    limit: RateLimit,
    max_keys: usize,
    events: HashMap<Key, VecDeque<Events>>,
    /// The time of the last search for keys to drop.
    last_drop: Duration,
}

/// Events of one key that leave the window together.
#[derive(Debug)]
struct Events {
    /// Time of the last of them, in nanoseconds.
    last: u64,
    count: u64,
}

impl<Key: Eq + Hash> SlidingWindows<Key> {
    /// Windows without events, for at most `max_keys` keys.
    pub fn new(limit: RateLimit, max_keys: usize) -> Self {
        Self { limit, max_keys, events: HashMap::new(), last_drop: Duration::ZERO }
    }

    /// The limit.
    pub fn limit(&self) -> RateLimit {
        self.limit
    }

    /// Checks that `count` more events of `key` at `now` stay within the limit. Counts nothing.
    ///
    /// # Errors
    /// The time from `now` until the events would stay within the limit; the window, when the limit
    /// is smaller than `count`.
    pub fn check(&mut self, key: &Key, count: usize, now: Duration) -> Result<(), Duration> {
        let RateLimit { count: most, window } = self.limit;
        let Some(free_before) = most.checked_sub(count) else { return Err(window) };
        let Some(events) = self.events.get_mut(key) else { return Ok(()) };
        let (now, window) = (nanoseconds(now), nanoseconds(window));
        drop_passed(events, now, window);
        let mut surplus = events.iter().map(|events| events.count).sum::<u64>().saturating_sub(free_before as u64);
        // The events that have to leave the window before the new ones fit.
        for leaving in events {
            if surplus == 0 {
                break;
            }
            surplus = surplus.saturating_sub(leaving.count);
            if surplus == 0 {
                return Err(Duration::from_nanos(leaving.last.saturating_add(window).saturating_sub(now)));
            }
        }
        Ok(())
    }

    /// Counts events of `key` at `now`, which [`SlidingWindows::check`] has allowed, if the key is
    /// held or there is room for another one.
    pub fn charge(&mut self, key: Key, count: usize, now: Duration) {
        if count == 0 {
            return;
        }
        self.drop_passed_keys(now);
        if self.events.len() >= self.max_keys && !self.events.contains_key(&key) {
            return;
        }
        let (now, window) = (nanoseconds(now), nanoseconds(self.limit.window));
        let part = (window / PARTS).max(1);
        let events = self.events.entry(key).or_default();
        drop_passed(events, now, window);
        match events.back_mut() {
            Some(newest) if newest.last / part == now / part || now <= newest.last => {
                newest.count += count as u64;
                newest.last = newest.last.max(now);
            }
            _ => events.push_back(Events { last: now, count: count as u64 }),
        }
    }

    /// Removes the newest event of `key`, so that it does not count.
    pub fn refund(&mut self, key: &Key) {
        if let Some(events) = self.events.get_mut(key)
            && let Some(newest) = events.back_mut()
        {
            newest.count -= 1;
            if newest.count == 0 {
                events.pop_back();
            }
        }
    }

    /// Drops the keys whose window has passed, once in a window, and more often while there is no
    /// room for another key.
    fn drop_passed_keys(&mut self, now: Duration) {
        let window = self.limit.window;
        let pause = if self.events.len() < self.max_keys { window } else { window / DROPS };
        if now < self.last_drop.saturating_add(pause) {
            return;
        }
        self.last_drop = now;
        let (now, window) = (nanoseconds(now), nanoseconds(window));
        self.events.retain(|_, events| events.back().is_some_and(|events| events.last.saturating_add(window) > now));
        self.events.shrink_to_fit();
    }
}

/// Drops the events that have left the window. An event counts for exactly `window`. All times are
/// in nanoseconds.
fn drop_passed(events: &mut VecDeque<Events>, now: u64, window: u64) {
    while events.front().is_some_and(|events| events.last.saturating_add(window) <= now) {
        events.pop_front();
    }
}

/// The nanoseconds of a time or a length; of more than 584 years, the most that there are.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How many times the limit of one source the networks around it may use.
#[derive(Clone, Copy, Debug)]
pub struct NetworkMultiples {
    /// A /56 of IPv6, which some providers give to a household.
    pub household: usize,
    /// A /48 of IPv6, which a customer or the user of a tunnel has; a /24 of IPv4.
    pub customer: usize,
    /// All sources together; `None` when the caller has a limit for all.
    pub all: Option<usize>,
}

impl NetworkMultiples {
    /// For rates: a network may do a few times as much as a source, and all together as much as
    /// 4096 sources.
    pub const RATE: Self = Self { household: 4, customer: 16, all: Some(4096) };
    /// For quarters of something that is limited as a whole: a household has a quarter, a customer
    /// three of them.
    pub const QUARTERS: Self = Self { household: 1, customer: 3, all: None };
}

/// Events of source addresses, limited for each source (IPv4: an address, IPv6: a /64), for the
/// networks around it, and for all together.
///
/// Every event is counted for its network and for all, so that a client with many addresses is
/// refused and does not push other sources out of the table. When there is no room for a new
/// source, its events count only for the networks that have room, and for all. With 100,000
/// networks of each size all tables together take at most about 180 MB.
#[derive(Debug)]
pub struct SourceWindows {
    limit: RateLimit,
    of_network: [SlidingWindows<IpAddr>; 3],
    of_all: Option<SlidingWindows<()>>,
}

impl SourceWindows {
    /// Windows without events under a limit of each source, for at most `max_keys` networks of each
    /// size.
    pub fn new(limit: RateLimit, multiples: NetworkMultiples, max_keys: usize) -> Self {
        let times = |multiple: usize| RateLimit { count: limit.count.saturating_mul(multiple), ..limit };
        let windows = |multiple| SlidingWindows::new(times(multiple), max_keys);
        Self {
            limit,
            of_network: [windows(1), windows(multiples.household), windows(multiples.customer)],
            of_all: multiples.all.map(|multiple| SlidingWindows::new(times(multiple), 1)),
        }
    }

    /// The limit of each source.
    pub fn limit(&self) -> RateLimit {
        self.limit
    }

    /// Checks that `count` more events of `source` at `now` stay within all limits. Counts nothing.
    ///
    /// # Errors
    /// The time from `now` until the events would stay within the limits; the window, when the
    /// limit of a source is smaller than `count`.
    pub fn check(&mut self, source: IpAddr, count: usize, now: Duration) -> Result<(), Duration> {
        let networks = networks_of(source);
        for (windows, network) in std::iter::zip(&mut self.of_network, networks) {
            windows.check(&network, count, now)?;
        }
        self.of_all.as_mut().map_or(Ok(()), |windows| windows.check(&(), count, now))
    }

    /// Counts events of `source` at `now`, which [`SourceWindows::check`] has allowed.
    pub fn charge(&mut self, source: IpAddr, count: usize, now: Duration) {
        for (windows, network) in std::iter::zip(&mut self.of_network, networks_of(source)) {
            windows.charge(network, count, now);
        }
        if let Some(windows) = &mut self.of_all {
            windows.charge((), count, now);
        }
    }

    /// Removes the newest event of `source`, so that it does not count.
    pub fn refund(&mut self, source: IpAddr) {
        for (windows, network) in std::iter::zip(&mut self.of_network, networks_of(source)) {
            windows.refund(&network);
        }
        if let Some(windows) = &mut self.of_all {
            windows.refund(&());
        }
    }
}

/// The networks that an event of a source counts for: its own, its household's, its customer's. An
/// IPv4 address is a source and a household. The network of a source has the same networks.
pub fn networks_of(source: IpAddr) -> [IpAddr; 3] {
    let own = network_of(source);
    match own {
        IpAddr::V4(_) => [own, own, prefix_of(own, 24)],
        IpAddr::V6(_) => [own, prefix_of(own, 56), prefix_of(own, 48)],
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
            assert_eq!(windows.check(&"a", 1, seconds(now)), Ok(()));
            windows.charge("a", 1, seconds(now));
        }
        assert_eq!(windows.check(&"a", 1, seconds(5)), Err(seconds(5)));
        assert_eq!(windows.check(&"b", 1, seconds(5)), Ok(()));
        assert_eq!(windows.check(&"a", 1, seconds(9)), Err(seconds(1)));
        assert_eq!(windows.check(&"a", 1, seconds(10)), Ok(()));
        windows.charge("a", 1, seconds(10));
        assert_eq!(windows.check(&"a", 1, seconds(10)), Err(seconds(4)));
    }

    #[test]
    fn a_charge_that_was_given_back_does_not_count() {
        let mut windows = SlidingWindows::new(RateLimit { count: 2, window: seconds(10) }, 100);
        for now in [0, 4, 5] {
            windows.charge("a", 1, seconds(now));
        }
        windows.refund(&"a");
        windows.refund(&"b");
        assert_eq!(windows.check(&"a", 1, seconds(5)), Err(seconds(5)));
        windows.refund(&"a");
        assert_eq!(windows.check(&"a", 1, seconds(5)), Ok(()));
    }

    #[test]
    fn checking_does_not_charge() {
        let mut windows = SlidingWindows::new(RateLimit { count: 1, window: seconds(10) }, 100);
        for _ in 0..5 {
            assert_eq!(windows.check(&1, 1, seconds(0)), Ok(()));
        }
    }

    #[test]
    fn events_of_further_keys_are_neither_refused_nor_counted_until_others_have_left() {
        let mut windows = SlidingWindows::new(RateLimit { count: 1, window: seconds(16) }, 3);
        for key in 0..3 {
            assert_eq!(windows.check(&key, 1, seconds(0)), Ok(()));
            windows.charge(key, 1, seconds(0));
        }
        for _ in 0..10 {
            assert_eq!(windows.check(&3, 1, seconds(5)), Ok(()));
            windows.charge(3, 1, seconds(5));
        }
        assert_eq!(windows.events.len(), 3);
        assert_eq!(windows.check(&0, 1, seconds(5)), Err(seconds(11)), "a key that is held keeps its limit");
        assert_eq!(windows.check(&0, 1, seconds(16)), Ok(()));
        assert_eq!(windows.check(&3, 1, seconds(16)), Ok(()));
        windows.charge(3, 1, seconds(16));
        assert_eq!(windows.events.len(), 1);
        assert_eq!(windows.check(&3, 1, seconds(16)), Err(seconds(16)));
    }

    #[test]
    fn several_events_count_at_once() {
        let mut windows = SlidingWindows::new(RateLimit { count: 20, window: seconds(60) }, 3);
        assert_eq!(windows.check(&1, 21, seconds(0)), Err(seconds(60)));
        for (count, now) in [(16, 0), (3, 10)] {
            assert_eq!(windows.check(&1, count, seconds(now)), Ok(()));
            windows.charge(1, count, seconds(now));
        }
        assert_eq!(windows.check(&1, 1, seconds(20)), Ok(()));
        assert_eq!(windows.check(&1, 2, seconds(20)), Err(seconds(40)));
        assert_eq!(windows.check(&1, 17, seconds(20)), Err(seconds(40)));
        assert_eq!(windows.check(&1, 18, seconds(20)), Err(seconds(50)));
        assert_eq!(windows.check(&1, 17, seconds(60)), Ok(()));
        assert_eq!(windows.check(&1, 0, seconds(20)), Ok(()));
    }

    #[test]
    fn a_key_takes_bounded_memory() {
        let mut windows = SlidingWindows::new(RateLimit { count: 100_000, window: seconds(128) }, 3);
        for number in 0..100_000 {
            let now = Duration::from_millis(number * 2);
            assert_eq!(windows.check(&1, 1, now), Ok(()));
            windows.charge(1, 1, now);
        }
        assert!(windows.events[&1].capacity() <= 32, "{}", windows.events[&1].capacity());
        assert_eq!(size_of::<Events>(), 16);
        // Of 200 s the last 128 s count, and at most a 30th of them more.
        let count: u64 = windows.events[&1].iter().map(|events| events.count).sum();
        assert!((64_000..=66_200).contains(&count), "{count}");
    }

    #[test]
    fn keys_whose_window_has_passed_take_no_memory_also_when_there_is_room() {
        let mut windows = SlidingWindows::new(RateLimit { count: 1, window: seconds(10) }, 10_000);
        for key in 0..1000 {
            windows.charge(key, 1, seconds(100));
        }
        windows.charge(0, 1, seconds(109));
        assert_eq!(windows.events.len(), 1000);
        windows.charge(0, 1, seconds(110));
        assert_eq!(windows.events.len(), 1);
        assert!(windows.events.capacity() < 100, "{}", windows.events.capacity());
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn of_sources(count: usize, max_keys: usize) -> SourceWindows {
        SourceWindows::new(RateLimit { count, window: seconds(60) }, NetworkMultiples::RATE, max_keys)
    }

    /// How many events are allowed, of one from each source.
    fn allowed(windows: &mut SourceWindows, sources: impl Iterator<Item = String>) -> usize {
        let mut allowed = 0;
        for source in sources.map(|source| address(&source)) {
            if windows.check(source, 1, seconds(0)).is_ok() {
                windows.charge(source, 1, seconds(0));
                allowed += 1;
            }
        }
        allowed
    }

    #[test]
    fn networks_are_limited_as_a_whole() {
        #[rustfmt::skip]
        let table: [(&str, Vec<String>, usize); 6] = [
            ("one /64", (0..99).map(|host| format!("2001:db8::{host:x}")).collect(), 2),
            ("one /56", (0..99).map(|net| format!("2001:db8:0:{net:x}::1")).collect(), 8),
            ("one /48", (0..99).map(|net| format!("2001:db8:0:{net:x}00::1")).collect(), 32),
            ("many /48", (0..99).map(|net| format!("2001:db8:{net:x}::1")).collect(), 99),
            ("one /24", (0..99).map(|host| format!("192.0.2.{host}")).collect(), 32),
            ("many /24", (0..99).map(|net| format!("192.0.{net}.1")).collect(), 99),
        ];
        for (name, sources, expected) in table {
            assert_eq!(allowed(&mut of_sources(2, 1000), sources.into_iter()), expected, "{name}");
        }
    }

    #[test]
    fn a_flood_of_sources_does_not_open_the_windows() {
        let mut windows = of_sources(1, 100);
        let flood = || (0..20_000_u32).map(|number| format!("2001:db8:{number:x}::1"));
        assert_eq!(allowed(&mut windows, flood()), 4096, "all sources together are limited");
        assert_eq!(windows.check(address("192.0.2.1"), 1, seconds(0)), Err(seconds(60)));
        assert_eq!(windows.check(address("192.0.2.1"), 1, seconds(60)), Ok(()));
        // A few networks with many addresses leave the others alone.
        let mut windows = of_sources(1, 100);
        let two = (0..2000_u32).map(|number| format!("2001:db8:{:x}:{:x}00::1", number % 2, number % 256));
        assert_eq!(allowed(&mut windows, two), 32);
        assert_eq!(windows.check(address("192.0.2.1"), 1, seconds(0)), Ok(()));
    }

    #[test]
    fn a_refund_counts_for_all_networks() {
        let mut windows = of_sources(1, 100);
        for _ in 0..5000 {
            assert_eq!(windows.check(address("192.0.2.1"), 1, seconds(0)), Ok(()));
            windows.charge(address("192.0.2.1"), 1, seconds(0));
            windows.refund(address("192.0.2.1"));
        }
        assert_eq!(windows.check(address("192.0.2.1"), 2, seconds(0)), Err(seconds(60)));
    }
}
