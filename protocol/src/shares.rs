//! Shares of something that is limited as a whole: what is held of it in all and by each key, so
//! that one client, or one network, leaves room for the others.
//!
//! The rule of the service is that a source may have a quarter ([`quarter`]). The limits are
//! arguments, because a configuration may change them while something is held.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use crate::rate_limit::{NetworkMultiples, networks_of};

/// The share of one source of something that is limited to `limit`: a quarter, rounded up.
pub const fn quarter(limit: usize) -> usize {
    limit.div_ceil(4)
}

/// What is held of something, in all and by key. One holding may count for several keys.
///
/// The holder checks with [`Shares::has_room`] and [`Shares::has_share`], takes, and later gives
/// back the same count for the same keys. A key that holds nothing takes no memory.
#[derive(Clone, Debug)]
pub struct Shares<Key> {
    all: usize,
    of_key: HashMap<Key, usize>,
}

impl<Key> Default for Shares<Key> {
    fn default() -> Self {
        Self { all: 0, of_key: HashMap::new() }
    }
}

impl<Key: Eq + Hash> Shares<Key> {
    /// What is held in all.
    pub fn all(&self) -> usize {
        self.all
    }

    /// Number of keys that hold something.
    pub fn keys(&self) -> usize {
        self.of_key.len()
    }

    /// Whether `count` more are at most `limit` in all.
    pub fn has_room(&self, count: usize, limit: usize) -> bool {
        self.all.saturating_add(count) <= limit
    }

    /// Whether `count` more leave each of the keys within the most that it may hold.
    pub fn has_share(&self, count: usize, keys: impl IntoIterator<Item = (Key, usize)>) -> bool {
        let of = |key| self.of_key.get(&key).copied().unwrap_or_default();
        keys.into_iter().all(|(key, most)| of(key).saturating_add(count) <= most)
    }

    /// Counts `count` more, in all and for each of the keys. Checks nothing.
    pub fn take(&mut self, count: usize, keys: impl IntoIterator<Item = Key>) {
        self.all += count;
        if count > 0 {
            keys.into_iter().for_each(|key| *self.of_key.entry(key).or_default() += count);
        }
    }

    /// Counts `count` less, which [`Shares::take`] has counted for the same keys.
    pub fn give_back(&mut self, count: usize, keys: impl IntoIterator<Item = Key>) {
        self.all -= count;
        for key in keys {
            if let Some(held) = self.of_key.get_mut(&key) {
                *held -= count;
                if *held == 0 {
                    self.of_key.remove(&key);
                }
            }
        }
    }
}

/// A network with the index of its size in what [`networks_of`] returns. Networks of different
/// sizes can have the same address.
type SizedNetwork = (usize, IpAddr);

/// What source addresses hold, counted for the networks around each of them. A holding without a
/// source counts only in all.
#[derive(Clone, Debug, Default)]
pub struct SourceShares(Shares<SizedNetwork>);

impl SourceShares {
    /// What is held in all.
    pub fn all(&self) -> usize {
        self.0.all()
    }

    /// Number of networks that hold something.
    pub fn networks(&self) -> usize {
        self.0.keys()
    }

    /// Whether `count` more are at most `limit` in all.
    pub fn has_room(&self, count: usize, limit: usize) -> bool {
        self.0.has_room(count, limit)
    }

    /// Whether `source` may have `count` more. A source (IPv6: a /64), and the household around it
    /// (IPv6: its /56), may have `share`; a customer (IPv6: a /48, IPv4: a /24) three times as much
    /// ([`NetworkMultiples::QUARTERS`]).
    pub fn has_share(&self, count: usize, source: Option<IpAddr>, share: usize) -> bool {
        let NetworkMultiples { household, customer, .. } = NetworkMultiples::QUARTERS;
        let most = [1, household, customer].map(|multiple| share.saturating_mul(multiple));
        self.0.has_share(count, sized_networks(source).zip(most))
    }

    /// Counts `count` more for `source`. Checks nothing.
    pub fn take(&mut self, count: usize, source: Option<IpAddr>) {
        self.0.take(count, sized_networks(source));
    }

    /// Counts `count` less, which [`SourceShares::take`] has counted for `source`.
    pub fn give_back(&mut self, count: usize, source: Option<IpAddr>) {
        self.0.give_back(count, sized_networks(source));
    }
}

fn sized_networks(source: Option<IpAddr>) -> impl Iterator<Item = SizedNetwork> {
    source.into_iter().flat_map(|source| networks_of(source).into_iter().enumerate())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_quarter_is_rounded_up() {
        let table = [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (1024, 256), (usize::MAX, usize::MAX / 4 + 1)];
        for (limit, expected) in table {
            assert_eq!(quarter(limit), expected, "{limit}");
        }
    }

    #[test]
    fn room_and_share_are_inclusive() {
        let mut shares = Shares::default();
        shares.take(3, ["a"]);
        shares.take(2, ["b", "c"]);
        #[rustfmt::skip]
        let table = [
            // count, limit, has room
            (3, 8, true), (4, 8, false), (0, 5, true), (0, 4, false), (usize::MAX, usize::MAX, true),
        ];
        for (count, limit, expected) in table {
            assert_eq!(shares.has_room(count, limit), expected, "{count} more of {limit}");
        }
        #[rustfmt::skip]
        let table = [
            // count, keys with the most of each, has share
            (1, vec![("a", 4)], true), (2, vec![("a", 4)], false), (1, vec![("a", 4), ("b", 2)], false),
            (1, vec![("a", 4), ("b", 3)], true), (1, vec![("d", 0)], false), (9, vec![], true),
        ];
        for (count, keys, expected) in table {
            assert_eq!(shares.has_share(count, keys.clone()), expected, "{count} more for {keys:?}");
        }
    }

    #[test]
    fn the_networks_of_one_household_or_customer_leave_shares_to_others() {
        type Addresses = fn(u8) -> String;
        #[rustfmt::skip]
        let table: [(&str, Addresses, usize); 6] = [
            ("one /64", |number| format!("2001:db8::{number:x}"), 16),
            ("one /56", |number| format!("2001:db8:0:{number:x}::1"), 16),
            ("one /48", |number| format!("2001:db8:0:{number:x}00::1"), 48),
            ("many /48", |number| format!("2001:db8:{number:x}::1"), 64),
            ("one /24", |number| format!("192.0.2.{number}"), 48),
            ("many /24", |number| format!("192.0.{number}.1"), 64),
        ];
        for (name, address, expected) in table {
            let mut shares = SourceShares::default();
            let mut taken = Vec::new();
            for source in (0..=255).map(|number| address(number).parse().ok()) {
                if shares.has_room(1, 64) && shares.has_share(1, source, quarter(64)) {
                    shares.take(1, source);
                    taken.push(source);
                }
            }
            assert_eq!((taken.len(), shares.all()), (expected, expected), "{name}");
            assert!(shares.has_share(999, None, 0), "without a source only the room of all counts");
            taken.into_iter().for_each(|source| shares.give_back(1, source));
            assert_eq!((shares.all(), shares.networks()), (0, 0), "{name}");
        }
    }

    proptest! {
        /// Steps of holders that check before they take; a step without a count gives back the
        /// oldest holding of its key.
        #[test]
        fn checked_holdings_stay_within_room_and_share(
            limit in 0..40_usize,
            share in 0..20_usize,
            steps in vec((0..4_u8, proptest::option::of(0..12_usize)), 0..100),
        ) {
            let mut shares = Shares::default();
            let mut held: Vec<(u8, usize)> = Vec::new();
            for (key, count) in steps {
                match count {
                    Some(count) if shares.has_room(count, limit) && shares.has_share(count, [(key, share)]) => {
                        shares.take(count, [key]);
                        held.push((key, count));
                    }
                    Some(_) => {}
                    None => if let Some(index) = held.iter().position(|(holder, _)| *holder == key) {
                        shares.give_back(held.remove(index).1, [key]);
                    },
                }
                let of = |key| held.iter().filter(|(holder, _)| *holder == key).map(|(_, count)| count).sum::<usize>();
                prop_assert!(shares.all() <= limit);
                prop_assert_eq!(shares.all(), held.iter().map(|(_, count)| count).sum::<usize>());
                for key in 0..4 {
                    prop_assert!(of(key) <= share);
                    prop_assert!(shares.has_share(0, [(key, of(key))]));
                    prop_assert!(of(key) == 0 || !shares.has_share(0, [(key, of(key) - 1)]));
                }
                prop_assert_eq!(shares.keys(), (0..4).filter(|key| of(*key) > 0).count());
            }
            for (key, count) in held {
                shares.give_back(count, [key]);
            }
            prop_assert_eq!((shares.all(), shares.keys()), (0, 0));
        }
    }
}
