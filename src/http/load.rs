//! What the clients of a listener hold (connections, open requests, bodies, answers), counted for
//! all clients together and for each source.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use selfsame_protocol::net::network_of;

/// What a listener's clients hold at the moment.
#[derive(Default)]
pub(super) struct Load {
    sources: Mutex<HashMap<IpAddr, Arc<SourceLoad>>>,
    requests: AtomicUsize,
    body_bytes: AtomicUsize,
    answer_bytes: AtomicUsize,
}

/// What one source holds.
#[derive(Default)]
struct SourceLoad {
    connections: AtomicUsize,
    requests: AtomicUsize,
    answer_bytes: AtomicUsize,
}

/// One connection of a source, until it is dropped.
pub(super) struct ConnectionPermit {
    load: Arc<Load>,
    source: IpAddr,
    of_source: Arc<SourceLoad>,
    is_proxy: bool,
}

impl Load {
    /// Counts another connection of a source; `None` when it has as many as `limit` allows. Proxies
    /// have no limit.
    pub(super) fn enter(load: &Arc<Self>, source: IpAddr, limit: usize, is_proxy: bool) -> Option<ConnectionPermit> {
        let source = network_of(source);
        let mut sources = load.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let of_source = Arc::clone(sources.entry(source).or_default());
        if !is_proxy && of_source.connections.load(Ordering::Relaxed) >= limit {
            return None;
        }
        of_source.connections.fetch_add(1, Ordering::Relaxed);
        Some(ConnectionPermit { load: Arc::clone(load), source, of_source, is_proxy })
    }

    /// Takes room for a piece of a body, in bytes; `false` when there is not enough. The caller
    /// gives back what it took.
    pub(super) fn take_body_bytes(&self, count: usize, limit: usize) -> bool {
        let has_room = self.body_bytes.fetch_add(count, Ordering::Relaxed).saturating_add(count) <= limit;
        if !has_room {
            self.give_body_bytes_back(count);
        }
        has_room
    }

    /// Gives room for bodies back.
    pub(super) fn give_body_bytes_back(&self, count: usize) {
        self.body_bytes.fetch_sub(count, Ordering::Relaxed);
    }
}

impl ConnectionPermit {
    /// What all clients of the listener hold.
    pub(super) fn load(&self) -> &Arc<Load> {
        &self.load
    }

    /// Counts another open request of the connection.
    pub(super) fn request_begins(&self) {
        self.load.requests.fetch_add(1, Ordering::Relaxed);
        self.of_source.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes an open request from the count, when it is answered or given up.
    pub(super) fn request_ends(&self) {
        self.load.requests.fetch_sub(1, Ordering::Relaxed);
        self.of_source.requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes room for an answer that the client has not taken, in bytes; `false` when there is not
    /// enough. The caller gives back what it took. A source may have a quarter of `limit`, a
    /// trusted proxy all of it.
    pub(super) fn take_answer_bytes(&self, count: usize, limit: usize) -> bool {
        let taken = self.load.answer_bytes.fetch_add(count, Ordering::Relaxed).saturating_add(count);
        let of_source = self.of_source.answer_bytes.fetch_add(count, Ordering::Relaxed).saturating_add(count);
        let has_room = taken <= limit && (self.is_proxy || of_source <= limit.div_ceil(4));
        if !has_room {
            self.give_answer_bytes_back(count);
        }
        has_room
    }

    /// Gives room for an answer back.
    pub(super) fn give_answer_bytes_back(&self, count: usize) {
        self.load.answer_bytes.fetch_sub(count, Ordering::Relaxed);
        self.of_source.answer_bytes.fetch_sub(count, Ordering::Relaxed);
    }

    /// Whether all clients have at most `limit` open requests, and the source at most a quarter of
    /// it; a trusted proxy may have all.
    pub(super) fn is_within_limit(&self, limit: usize) -> bool {
        let has_room = self.load.requests.load(Ordering::Relaxed) <= limit;
        has_room && (self.is_proxy || self.of_source.requests.load(Ordering::Relaxed) <= limit.div_ceil(4))
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut sources = self.load.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if self.of_source.connections.fetch_sub(1, Ordering::Relaxed) == 1 {
            sources.remove(&self.source);
        }
    }
}
