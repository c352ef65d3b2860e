//! The connections of all listeners of a process, which share its file descriptors: how many there
//! may be ([`most_connections`]), and who makes room ([`SharedConnections`]).
//!
//! When they have as many as they may, the connections that have been idle for longest are closed
//! for new ones. So clients that do nothing keep no client out, and the store always finds a
//! descriptor for its files: RocksDB does not resume when it finds none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// Time from one search for idle connections to the next, while there is no room.
const SEARCH_INTERVAL: Duration = Duration::from_millis(100);

/// The share of all connections that a search closes at most, if they are idle. More than one, so
/// that not every new connection has to search.
const CLOSED_AT_ONCE: usize = 64;

/// How long a connection is idle at least before it is closed for another one, in milliseconds:
/// time for the TLS handshake and the first request of a client that is far away.
const LEAST_IDLE: u64 = 1000;

/// The least number of descriptors that connections leave to the store, to listeners, and to what
/// the daemon calls.
const LEAST_RESERVED: u64 = 1024;

/// The share of the limit that is reserved at most, as a divisor and a factor: three quarters. With
/// a limit of 1024 that leaves 256 connections, and 768 descriptors, enough for a store of 20 GiB.
const MOST_RESERVED: (u64, u64) = (4, 3);

/// Raises the limit of open files as far as the process may. Shells and containers often begin with
/// 1024, which the connections or the files of a large store exceed.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // A kernel that refuses it leaves the limit as it is.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    }
}

/// The most file descriptors that the process may have; `None` without a limit.
pub fn descriptor_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// The most connections that all listeners together may have, beside a store with so many files:
/// the limit less 1024, or less twice the files where that is more, as the store grows. At least a
/// quarter of the limit.
pub fn most_connections(limit: Option<u64>, files_of_store: u64) -> usize {
    let Some(limit) = limit else { return usize::MAX };
    let (divisor, factor) = MOST_RESERVED;
    let reserved = LEAST_RESERVED.max(files_of_store.saturating_mul(2)).min(limit / divisor * factor);
    usize::try_from(limit - reserved).unwrap_or(usize::MAX)
}

/// The connections of all listeners.
pub struct SharedConnections {
    most: usize,
    permits: Arc<Semaphore>,
    began: Instant,
    open: Mutex<HashMap<u64, Arc<Occupancy>>>,
    next: AtomicU64,
}

/// What one connection does.
#[derive(Default)]
struct Occupancy {
    open_requests: AtomicUsize,
    /// When its last request ended, or when it was accepted, in milliseconds since the process
    /// began to serve.
    idle_since: AtomicU64,
    is_to_close: AtomicBool,
    closing: Notify,
}

impl SharedConnections {
    /// At most so many connections at once, at least one.
    pub fn new(most: usize) -> Arc<Self> {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Arc::new(Self {
            most,
            permits: Arc::new(Semaphore::new(most)),
            began: Instant::now(),
            open: Mutex::default(),
            next: AtomicU64::new(0),
        })
    }

    /// The most connections of one listener: half of all, rounded up, so that a flood at one
    /// address leaves room at the others.
    pub fn most_of_listener(&self) -> usize {
        self.most.div_ceil(2)
    }

    /// Waits for room for another connection. While there is none, connections that are idle are
    /// asked to close.
    pub(super) async fn enter(self: Arc<Self>) -> SharedPermit {
        let permit = match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.wait_for_room().await,
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let occupancy = Arc::<Occupancy>::default();
        SharedPermit { connections: self, number, occupancy, _permit: permit }
    }

    async fn wait_for_room(&self) -> OwnedSemaphorePermit {
        loop {
            self.close_idle();
            if let Ok(Ok(permit)) = timeout(SEARCH_INTERVAL, Arc::clone(&self.permits).acquire_owned()).await {
                return permit;
            }
        }
    }

    /// Asks those to close that have been idle for longest.
    fn close_idle(&self) {
        let (now, open) = (self.now(), self.lock());
        let idle = open.values().filter(|occupancy| {
            occupancy.open_requests.load(Ordering::Relaxed) == 0 && !occupancy.is_to_close.load(Ordering::Relaxed)
        });
        let idle = idle.map(|occupancy| (occupancy.idle_since.load(Ordering::Relaxed), occupancy));
        let mut idle: Vec<_> = idle.filter(|(since, _)| now.saturating_sub(*since) >= LEAST_IDLE).collect();
        idle.sort_unstable_by_key(|(since, _)| *since);
        for (_, occupancy) in idle.into_iter().take(self.most.div_ceil(CLOSED_AT_ONCE)) {
            occupancy.is_to_close.store(true, Ordering::Relaxed);
            occupancy.closing.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Occupancy>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}

/// Room for one connection, until it is dropped.
pub(super) struct SharedPermit {
    connections: Arc<SharedConnections>,
    number: u64,
    occupancy: Arc<Occupancy>,
    _permit: OwnedSemaphorePermit,
}

impl SharedPermit {
    /// A connection was accepted: it is idle from now on.
    pub(super) fn accept(&self) {
        self.occupancy.idle_since.store(self.connections.now(), Ordering::Relaxed);
        self.connections.lock().insert(self.number, Arc::clone(&self.occupancy));
    }

    pub(super) fn begin_request(&self) {
        self.occupancy.open_requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end_request(&self) {
        self.occupancy.idle_since.store(self.connections.now(), Ordering::Relaxed);
        self.occupancy.open_requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// Waits until the connection has to make room.
    pub(super) async fn wait_for_close(&self) {
        self.occupancy.closing.notified().await;
    }
}

impl Drop for SharedPermit {
    fn drop(&mut self) {
        self.connections.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn connections_leave_descriptors_to_the_store() {
        for (limit, files, connections) in [
            (Some(65_536), 100, 65_536 - 1024),
            (Some(65_536), 2_000, 65_536 - 4_000),
            (Some(4_096), 100, 3_072),
            (Some(1_024), 10, 256),
            (Some(1_024), 10_000, 256),
            (Some(0), 0, 0),
            (None, 0, usize::MAX),
        ] {
            assert_eq!(most_connections(limit, files), connections, "{limit:?}, {files} files");
        }
    }

    fn is_asked_to_close(permit: &SharedPermit) -> bool {
        permit.wait_for_close().now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_was_idle_for_longest_makes_room() {
        let connections = SharedConnections::new(3);
        let mut open = Vec::new();
        for _ in 0..3 {
            let permit = Arc::clone(&connections).enter().await;
            permit.accept();
            open.push(permit);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        // The first has a request, and the third had one last.
        open[0].begin_request();
        open[2].begin_request();
        open[2].end_request();
        let mut entering = Box::pin(Arc::clone(&connections).enter());
        assert!(entering.as_mut().now_or_never().is_none());
        assert_eq!(open.iter().map(is_asked_to_close).collect::<Vec<_>>(), [false, true, false]);
        drop(open.remove(1));
        let fourth = entering.await;
        fourth.accept();
        drop(open);
        drop(fourth);
        assert!(connections.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_becomes_idle_later_makes_room_too() {
        let connections = SharedConnections::new(1);
        let busy = Arc::clone(&connections).enter().await;
        busy.accept();
        busy.begin_request();
        let entering = tokio::spawn(Arc::clone(&connections).enter());
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!is_asked_to_close(&busy));
        busy.end_request();
        busy.wait_for_close().await;
        drop(busy);
        entering.await.expect("no panic");
    }
}
