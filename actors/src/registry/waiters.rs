//! People who wait for a request to become final.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use selfsame_protocol::ledger::{Block, RequestId};
use tokio::sync::Notify;

/// Who waits for which request. Bounded.
pub(crate) struct Waiters {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    limit: usize,
    count: usize,
    /// All waiters of a request share one bell; it goes when the last of them does.
    bells: HashMap<RequestId, (Arc<Notify>, usize)>,
}

/// A registered waiter; dropping it ends the wait.
pub(crate) struct Waiter<'all> {
    all: &'all Waiters,
    request_id: RequestId,
    bell: Arc<Notify>,
}

impl Waiters {
    pub fn new(limit: usize) -> Self {
        Self { waiting: Mutex::new(Waiting { limit, ..Waiting::default() }) }
    }

    /// Registers a waiter; `None` when there are as many as may be. Register first, then look at the state: so nothing that
    /// happens in between is missed.
    pub fn register(&self, request_id: RequestId) -> Option<Waiter<'_>> {
        let mut waiting = self.lock();
        if waiting.count >= waiting.limit {
            return None;
        }
        waiting.count += 1;
        let (bell, sharing) = waiting.bells.entry(request_id).or_default();
        *sharing += 1;
        Some(Waiter { all: self, request_id, bell: Arc::clone(bell) })
    }

    /// Changes how many may wait.
    pub fn set_limit(&self, limit: usize) {
        self.lock().limit = limit;
    }

    /// How many wait.
    pub fn count(&self) -> usize {
        self.lock().count
    }

    /// Wakes everybody who waits for a request of this block.
    pub fn wake(&self, block: &Block) {
        let waiting = self.lock();
        if waiting.count == 0 {
            return;
        }
        for entry in &block.entries {
            if let Some((bell, _)) = waiting.bells.get(&entry.request_id) {
                bell.notify_waiters();
            }
        }
    }

    /// Wakes everybody to look again.
    pub fn wake_all(&self) {
        self.lock().bells.values().for_each(|(bell, _)| bell.notify_waiters());
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter<'_> {
    /// Rings when it is time to look again; only rings after this call count, so make it before looking.
    pub fn bell(&self) -> tokio::sync::futures::Notified<'_> {
        self.bell.notified()
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.all.lock();
        waiting.count -= 1;
        if let Some((_, sharing)) = waiting.bells.get_mut(&self.request_id) {
            *sharing -= 1;
            if *sharing == 0 {
                waiting.bells.remove(&self.request_id);
            }
        }
    }
}
