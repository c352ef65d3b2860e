//! An event that happens once, and the threads that wait for it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// An event that happens once: the end of a step.
#[derive(Debug, Default)]
pub(super) struct End {
    has_come: Mutex<bool>,
    threads: Condvar,
}

impl End {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.has_come.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The event happens; later calls change nothing.
    pub fn come(&self) {
        *self.lock() = true;
        self.threads.notify_all();
    }

    /// Whether the event has happened.
    pub fn has_come(&self) -> bool {
        *self.lock()
    }

    /// Blocks the thread until the event has happened. It uses no executor, so a thread may call it
    /// that runs one.
    pub fn block_until_come(&self) {
        let waiting = self.threads.wait_while(self.lock(), |has_come| !*has_come);
        drop(waiting.unwrap_or_else(PoisonError::into_inner));
    }
}
