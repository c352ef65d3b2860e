//! How many clients may follow transactions at a time. A follower holds a connection for minutes,
//! so that their number is limited for each transaction and for each source address.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selfsame_protocol::net::network_of;
use selfsame_protocol::time::RetryAfter;

use super::ids::TransactionId;
use crate::support::rate::TooManyRequests;

/// The most followers of one transaction: a page that was opened again before the server noticed
/// the end of its earlier connections, and a program.
const FOLLOWERS_OF_TRANSACTION: usize = 4;

/// When a client that was refused may try again. An earlier follower may have ended by then.
const RETRY_AFTER: RetryAfter = RetryAfter(Duration::from_secs(5));

/// The followers at the moment, by transaction and by source.
#[derive(Default)]
pub(crate) struct FollowerLimits {
    counts: Mutex<Counts>,
    refused_of_source: AtomicU64,
}

#[derive(Default)]
struct Counts {
    of_transaction: HashMap<TransactionId, usize>,
    of_source: HashMap<IpAddr, usize>,
}

impl FollowerLimits {
    /// Counts another follower, for as long as the permit is kept. A source (IPv6: a /64) may have
    /// `limit` followers; without a source only the transaction's limit applies.
    pub fn enter(
        limits: &Arc<Self>,
        id: TransactionId,
        source: Option<IpAddr>,
        limit: usize,
    ) -> Result<FollowerPermit, TooManyRequests> {
        let source = source.map(network_of);
        let mut counts = limits.lock();
        let of_transaction = counts.of_transaction.get(&id).copied().unwrap_or_default();
        let of_source = source.and_then(|source| counts.of_source.get(&source).copied()).unwrap_or_default();
        let is_source_full = source.is_some() && of_source >= limit;
        if is_source_full {
            limits.refused_of_source.fetch_add(1, Ordering::Relaxed);
        }
        if of_transaction >= FOLLOWERS_OF_TRANSACTION || is_source_full {
            return Err(TooManyRequests { retry_after: RETRY_AFTER });
        }
        *counts.of_transaction.entry(id).or_default() += 1;
        if let Some(source) = source {
            *counts.of_source.entry(source).or_default() += 1;
        }
        drop(counts);
        Ok(FollowerPermit { limits: Arc::clone(limits), id, source })
    }

    /// How many followers were refused since the start because their source follows enough.
    pub fn refused_of_source(&self) -> u64 {
        self.refused_of_source.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One follower of a transaction, until it is dropped.
pub struct FollowerPermit {
    limits: Arc<FollowerLimits>,
    id: TransactionId,
    source: Option<IpAddr>,
}

impl Drop for FollowerPermit {
    fn drop(&mut self) {
        let mut counts = self.limits.lock();
        release(&mut counts.of_transaction, &self.id);
        if let Some(source) = &self.source {
            release(&mut counts.of_source, source);
        }
    }
}

/// Counts one less. A key without followers is removed.
fn release<Key: Eq + Hash>(counts: &mut HashMap<Key, usize>, key: &Key) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_are_limited_by_transaction_and_by_source() {
        let limits = Arc::new(FollowerLimits::default());
        let source = |last| Some(IpAddr::from([192, 0, 2, last]));
        let id = |number: u8| -> TransactionId { format!("{number:02x}").repeat(16).parse().expect("an id") };
        let enter = |number, last| FollowerLimits::enter(&limits, id(number), source(last), 5);
        let mut held: Vec<_> = (0..5).filter_map(|last| enter(1, last).ok()).collect();
        assert_eq!(held.len(), 4, "one transaction has four followers");
        held.extend((2..10).filter_map(|number| enter(number, 0).ok()));
        assert_eq!(held.len(), 8, "one source follows five transactions");
        assert_eq!(limits.refused_of_source(), 4);
        assert!(enter(20, 1).is_ok());
        assert!(FollowerLimits::enter(&limits, id(30), None, 0).is_ok());
        held.remove(0);
        assert!(enter(1, 0).is_ok());
        drop(held);
        let counts = limits.lock();
        assert!(counts.of_transaction.is_empty() && counts.of_source.is_empty());
    }
}
