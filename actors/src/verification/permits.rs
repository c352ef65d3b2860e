//! The permits of proofs that wait or are checked: bounded for all, for each source, and for the
//! networks around it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use selfsame_protocol::rate_limit::{NetworkMultiples, networks_of};

/// Where a proof comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    /// Whether it answers a sign-in.
    pub is_sign_in: bool,
    /// The network of its client (IPv6: its /64); `None` when the caller names no source.
    pub network: Option<IpAddr>,
}

/// The permits of one kind of request. No request waits for a permit.
pub(crate) struct Permits {
    limit: usize,
    /// The most permits of a network of each size, as [`networks_of`] orders them.
    most: [usize; 3],
    taken: Mutex<Taken>,
    refused_of_source: AtomicU64,
}

#[derive(Default)]
struct Taken {
    all: usize,
    of_network: HashMap<SizedNetwork, usize>,
}

/// A network with the index of its size in what [`networks_of`] returns. Networks of different
/// sizes can have the same address.
type SizedNetwork = (usize, IpAddr);

fn sized_networks_of(source: IpAddr) -> impl Iterator<Item = SizedNetwork> {
    networks_of(source).into_iter().enumerate()
}

impl Permits {
    /// Permits for `limit` proofs. One source (IPv6: one /64), and the household around it (IPv6:
    /// its /56), may have a quarter of them, but at least `largest_request`; a customer (IPv6: a
    /// /48, IPv4: a /24) three times as many.
    pub fn new(limit: usize, largest_request: usize) -> Self {
        let quarter = limit.div_ceil(4).max(largest_request);
        let NetworkMultiples { household, customer, .. } = NetworkMultiples::QUARTERS;
        let most = [1, household, customer].map(|quarters| quarter.saturating_mul(quarters));
        Self { limit, most, taken: Mutex::default(), refused_of_source: AtomicU64::new(0) }
    }

    /// Takes a permit for each of `count` proofs of a request; `None` when there are not enough for
    /// all of them. A request without a source has only the limit of all.
    pub fn take(permits: &Arc<Self>, source: Option<IpAddr>, count: usize) -> Option<Vec<ProofPermit>> {
        let mut taken = permits.lock();
        if taken.all + count > permits.limit {
            return None;
        }
        let networks = || source.into_iter().flat_map(sized_networks_of);
        let has_room = |network @ (size, _): SizedNetwork| {
            taken.of_network.get(&network).copied().unwrap_or_default() + count <= permits.most[size]
        };
        if !networks().all(has_room) {
            permits.refused_of_source.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        for network in networks() {
            *taken.of_network.entry(network).or_default() += count;
        }
        taken.all += count;
        drop(taken);
        Some((0..count).map(|_| ProofPermit { permits: Arc::clone(permits), source }).collect())
    }

    /// How many permits are taken.
    pub fn taken(&self) -> usize {
        self.lock().all
    }

    /// How many requests were refused since the start because their source has its share of the
    /// permits.
    pub fn refused_of_source(&self) -> u64 {
        self.refused_of_source.load(Ordering::Relaxed)
    }

    /// How many permits there are.
    pub fn limit(&self) -> usize {
        self.limit
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permit of one proof, given back when it is dropped.
pub(crate) struct ProofPermit {
    permits: Arc<Permits>,
    source: Option<IpAddr>,
}

impl Drop for ProofPermit {
    fn drop(&mut self) {
        let mut taken = self.permits.lock();
        taken.all -= 1;
        for network in self.source.into_iter().flat_map(sized_networks_of) {
            if let Entry::Occupied(mut count) = taken.of_network.entry(network) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_takes_a_quarter_of_the_permits() {
        let permits = Arc::new(Permits::new(64, 16));
        let take = |third, count| Permits::take(&permits, Some(IpAddr::from([192, 0, third, 1])), count);
        let of_one = take(1, 16).expect("a quarter");
        assert!(take(1, 1).is_none());
        let of_others: Vec<_> = (2..5).map(|third| take(third, 16).expect("a quarter")).collect();
        assert_eq!(permits.taken(), 64);
        assert!(take(9, 1).is_none() && Permits::take(&permits, None, 1).is_none());
        assert_eq!(permits.refused_of_source(), 1, "the others found no permit of all");
        drop(of_one);
        assert!(Permits::take(&permits, None, 17).is_none());
        let without_source = Permits::take(&permits, None, 16).expect("as many as are left");
        drop((of_others, without_source));
        assert_eq!(permits.taken(), 0);
        assert!(permits.lock().of_network.is_empty());
        // The largest request fits also where it is more than a quarter.
        let small = Arc::new(Permits::new(16, 16));
        assert!(Permits::take(&small, Some(IpAddr::from([192, 0, 2, 1])), 16).is_some());
    }

    #[test]
    fn the_networks_of_one_household_or_customer_leave_permits_to_others() {
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
            let permits = Arc::new(Permits::new(64, 1));
            let take = |number| Permits::take(&permits, address(number).parse().ok(), 1);
            let taken: Vec<_> = (0..=255).filter_map(take).collect();
            assert_eq!(taken.len(), expected, "{name}");
            drop(taken);
            assert_eq!((permits.taken(), permits.lock().of_network.len()), (0, 0), "{name}");
        }
    }
}
