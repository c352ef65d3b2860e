//! Which actor occupies a slot, and the calls that wait for one.

use std::pin::pin;
use std::sync::Arc;

use crate::sync::{ArcSwapOption, AtomicBool, AtomicU64, Notify, Ordering};

/// The actor of a slot: `None` before the first one starts. A restart replaces it.
pub(crate) struct Occupancy<A> {
    occupant: ArcSwapOption<A>,
    /// Wakes the calls that wait for an actor, in the order in which they came, so that a
    /// simulation repeats.
    changed: Notify,
    starts: AtomicU64,
    /// The service has ended; no actor comes any more.
    has_ended: AtomicBool,
}

/// No actor comes any more, and the last one does not run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended;

impl<A> Occupancy<A> {
    /// Without an actor.
    pub fn new() -> Self {
        Self {
            occupant: ArcSwapOption::empty(),
            changed: Notify::new(),
            starts: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
        }
    }

    /// Registers a starting actor, and wakes the calls that wait for one.
    pub fn occupy(&self, actor: A) {
        self.starts.fetch_add(1, Ordering::Relaxed);
        self.occupant.store(Some(Arc::new(actor)));
        self.changed.notify_waiters();
    }

    /// The actor that was registered last, which may have stopped.
    pub fn occupant(&self) -> Option<Arc<A>> {
        self.occupant.load_full()
    }

    /// The actor that was registered last, once there is one that `is_running`.
    ///
    /// # Errors
    /// No actor comes any more.
    pub async fn wait_until_running(&self, is_running: impl Fn(&A) -> bool) -> Result<Arc<A>, Ended> {
        loop {
            // It is registered before the look, so no actor that comes after it is missed.
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(actor) = self.occupant().filter(|actor| is_running(actor)) {
                return Ok(actor);
            }
            if self.has_ended.load(Ordering::Acquire) {
                return Err(Ended);
            }
            changed.await;
        }
    }

    /// No actor comes any more: calls that wait for one fail at once.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Number of actors after the first.
    pub fn restarts(&self) -> u64 {
        self.starts.load(Ordering::Relaxed).saturating_sub(1)
    }
}
