//! The log of a simulation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The events of a history in their order. Clones write to the same log.
#[derive(Clone, Debug, Default)]
pub struct EventLog(Arc<Mutex<Vec<String>>>);

impl EventLog {
    /// Notes an event. Leave out of it what differs between two plays of a seed, such as the unique
    /// names of actors.
    pub fn note(&self, event: impl Into<String>) {
        self.lock().push(event.into());
    }

    /// The events so far.
    pub fn events(&self) -> Vec<String> {
        self.lock().clone()
    }

    /// How many events there are so far.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
