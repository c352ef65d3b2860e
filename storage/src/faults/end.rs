//! An event that happens once, and the threads and tasks that wait for it.

use std::pin::pin;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// An event that happens once: the end of a step.
#[derive(Debug, Default)]
pub(super) struct End {
    has_come: Mutex<bool>,
    threads: Condvar,
    tasks: Notify,
}

impl End {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.has_come.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The event happens; later calls change nothing.
    pub fn come(&self) {
        *self.lock() = true;
        self.threads.notify_all();
        self.tasks.notify_waiters();
    }

    /// Blocks the thread until the event has happened. It uses no executor, so a thread may call it
    /// that runs one.
    pub fn block_until_come(&self) {
        let waiting = self.threads.wait_while(self.lock(), |has_come| !*has_come);
        drop(waiting.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until the event has happened.
    pub async fn until_come(&self) {
        let mut notified = pin!(self.tasks.notified());
        // Registered before the look, so the event is not missed.
        notified.as_mut().enable();
        let has_come = *self.lock();
        if !has_come {
            notified.await;
        }
    }
}
