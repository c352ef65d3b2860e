//! When a replica has last had news of its journal.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use selfsame_storage::ReplicaError;
use tokio::time::Instant;

/// How fresh what a replica reads is.
pub(crate) struct Freshness {
    /// The store has everything that the journal had at this time.
    current_at: Mutex<Option<Instant>>,
    /// How old an answer may be that must not be old.
    limit: Duration,
}

impl Freshness {
    /// Nothing is known yet.
    pub fn new(limit: Duration) -> Self {
        Self { current_at: Mutex::default(), limit }
    }

    /// Notes that the store has everything that the journal had at a time.
    pub fn note(&self, current_at: Instant) {
        *self.current_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(current_at);
    }

    /// How long ago that was last so; `None` while it was never.
    pub fn age(&self) -> Option<Duration> {
        self.current_at.lock().unwrap_or_else(PoisonError::into_inner).map(|time| time.elapsed())
    }

    /// Refuses a read that must not be old.
    ///
    /// # Errors
    /// [`ReplicaError::Stale`].
    pub fn check(&self) -> Result<(), ReplicaError> {
        match self.age() {
            Some(age) if age <= self.limit => Ok(()),
            _ => Err(ReplicaError::Stale { limit: self.limit }),
        }
    }
}
