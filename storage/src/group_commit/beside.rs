//! Writes of a service that do not go through its committing thread: entries of the journal that a
//! replica applies, its syncs, sweeps.
//!
//! They run on threads of their own, which continue when the task that began them is aborted. So
//! the claim on the store is released only after the last of them, and none begins after that.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::StoreError;
use crate::store::StoreClaim;

/// The writes beside the commits. The handles of a group commit and its thread share it.
#[derive(Default)]
pub(super) struct BesideCommits {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    running: usize,
    is_closed: bool,
}

/// A write that runs; it also ends when the writer panics.
struct Running<'a>(&'a BesideCommits);

impl BesideCommits {
    /// Runs a write.
    ///
    /// # Errors
    /// [`StoreError::Closing`] after [`BesideCommits::close`]; nothing is written then.
    pub fn run<T>(&self, write: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let _running = self.begin()?;
        write()
    }

    fn begin(&self) -> Result<Running<'_>, StoreError> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(StoreError::Closing);
        }
        state.running += 1;
        Ok(Running(self))
    }

    /// Refuses writes from now on, and waits for those that run. Blocks the thread.
    fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        while state.running > 0 {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
        self.0.ended.notify_all();
    }
}

/// The claim of a service on its store. When it is dropped, the claim is released as soon as
/// nothing of the service writes any more.
pub(super) struct HeldClaim<'a> {
    pub beside: &'a BesideCommits,
    /// Released after the drop of this has waited.
    pub _claim: Option<StoreClaim>,
}

impl Drop for HeldClaim<'_> {
    fn drop(&mut self) {
        self.beside.close();
    }
}
