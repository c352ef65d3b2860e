//! The calls that wait for an answer of an actor, counted and limited.

use crate::sync::{AtomicUsize, Ordering};

/// How many calls wait. The count guards no other memory, so its operations are relaxed.
pub(crate) struct WaitingCalls {
    count: AtomicUsize,
    /// The most calls that may wait at a time, inclusive.
    limit: AtomicUsize,
}

/// A call that waits for its answer; counted until it is dropped.
pub(crate) struct WaitingCall<'all> {
    calls: &'all WaitingCalls,
}

impl WaitingCalls {
    /// No call waits, and at most `limit` calls may wait at a time.
    pub fn new(limit: usize) -> Self {
        Self { count: AtomicUsize::new(0), limit: AtomicUsize::new(limit) }
    }

    /// Counts a call; `None` when as many calls wait as the limit allows. A refused call is counted
    /// for a moment, too: a call that comes in that moment may be refused in place of it.
    pub fn begin(&self) -> Option<WaitingCall<'_>> {
        let call = WaitingCall { calls: self };
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        (before < self.limit.load(Ordering::Relaxed)).then_some(call)
    }

    /// Calls that wait.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Changes how many calls may wait at a time. Calls that wait stay.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.calls.count.fetch_sub(1, Ordering::Relaxed);
    }
}
