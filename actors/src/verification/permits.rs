//! The places of proofs that wait or are checked: bounded for all and for each source.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use selfsame_protocol::net::network_of;

/// Where a proof comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    /// Whether it answers a sign-in.
    pub is_sign_in: bool,
    /// The network of its client (IPv6: its /64); `None` for an embedder's own requests.
    pub network: Option<IpAddr>,
}

/// The permits of one kind of request. No request waits for a permit.
pub(crate) struct Permits {
    limit: usize,
    of_source: usize,
    taken: Mutex<Taken>,
    refused_of_source: AtomicU64,
}

#[derive(Default)]
struct Taken {
    all: usize,
    of_source: HashMap<IpAddr, usize>,
}

impl Permits {
    /// Permits for `limit` proofs. One source (IPv6: one /64) may have a quarter of them, but at
    /// least `largest_request`.
    pub fn new(limit: usize, largest_request: usize) -> Self {
        let of_source = limit.div_ceil(4).max(largest_request);
        Self { limit, of_source, taken: Mutex::default(), refused_of_source: AtomicU64::new(0) }
    }

    /// Takes a permit for each of `count` proofs of a request; `None` when there are not enough for
    /// all of them. A request without a source has only the limit of all.
    pub fn take(permits: &Arc<Self>, source: Option<IpAddr>, count: usize) -> Option<Vec<ProofPermit>> {
        let source = source.map(network_of);
        let mut taken = permits.lock();
        if taken.all + count > permits.limit {
            return None;
        }
        if let Some(source) = source {
            let of_source = taken.of_source.get(&source).copied().unwrap_or_default() + count;
            if of_source > permits.of_source {
                permits.refused_of_source.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            taken.of_source.insert(source, of_source);
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
        if let Some(source) = &self.source
            && let Some(of_source) = taken.of_source.get_mut(source)
        {
            *of_source -= 1;
            if *of_source == 0 {
                taken.of_source.remove(source);
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
        let take = |last, count| Permits::take(&permits, Some(IpAddr::from([192, 0, 2, last])), count);
        let of_one = take(1, 16).expect("a quarter");
        assert!(take(1, 1).is_none());
        let of_others: Vec<_> = (2..5).map(|last| take(last, 16).expect("a quarter")).collect();
        assert_eq!(permits.taken(), 64);
        assert!(take(9, 1).is_none() && Permits::take(&permits, None, 1).is_none());
        assert_eq!(permits.refused_of_source(), 1, "the others found no permit of all");
        drop(of_one);
        assert!(Permits::take(&permits, None, 17).is_none());
        let of_nobody = Permits::take(&permits, None, 16).expect("as many as are left");
        drop((of_others, of_nobody));
        assert_eq!(permits.taken(), 0);
        assert!(permits.lock().of_source.is_empty());
        // The largest request fits also where it is more than a quarter.
        let small = Arc::new(Permits::new(16, 16));
        assert!(Permits::take(&small, Some(IpAddr::from([192, 0, 2, 1])), 16).is_some());
    }
}
