//! The border through which long work says how far it is, and learns that it has to stop.
//!
//! Nothing here knows the time or a terminal: a caller that shows progress decides how often.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::StoreError;

/// A part of long work, with a count of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Phase {
    /// What is done, as a text for a person: "comparing with the blocks".
    pub name: &'static str,
    /// What is counted, in the plural: "records".
    pub unit: &'static str,
}

/// Follows long work. Several threads call it, so that phases can overlap.
pub trait Progress: Sync {
    /// Of `phase`, `done` of `total` units are done. `total` can be an estimate, and `done` end
    /// below or above it. Called often.
    fn report(&self, phase: Phase, done: u64, total: u64);

    /// Whether the work has to stop. It is asked between two steps, and the work then ends with
    /// [`StoreError::Stopped`].
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Follows nothing, and never stops the work.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn report(&self, _: Phase, _: u64, _: u64) {}
}

/// Ends with [`StoreError::Stopped`] when the work has to stop.
pub(crate) fn ensure_wanted(progress: &dyn Progress) -> Result<(), StoreError> {
    if progress.is_stopped() { Err(StoreError::Stopped) } else { Ok(()) }
}

/// Counts the units of a phase on several threads.
pub(crate) struct Counter<'a> {
    progress: &'a dyn Progress,
    phase: Phase,
    total: u64,
    done: AtomicU64,
}

impl<'a> Counter<'a> {
    /// Units from one report to the next.
    const STEP: u64 = 1024;

    pub(crate) fn new(progress: &'a dyn Progress, phase: Phase, total: u64) -> Self {
        progress.report(phase, 0, total);
        Self { progress, phase, total, done: AtomicU64::new(0) }
    }

    /// Counts one unit.
    ///
    /// # Errors
    /// [`StoreError::Stopped`] when the work has to stop.
    pub(crate) fn add_one(&self) -> Result<(), StoreError> {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(Self::STEP) {
            self.progress.report(self.phase, done, self.total);
        }
        ensure_wanted(self.progress)
    }

    /// Reports the end of the phase: an estimated total is replaced by the count.
    pub(crate) fn finish(&self) {
        let done = self.done.load(Ordering::Relaxed);
        self.progress.report(self.phase, done, done);
    }
}

/// Work on several threads: when one part fails, the others stop.
pub(crate) struct Together<'a> {
    progress: &'a dyn Progress,
    has_failed: AtomicBool,
}

impl<'a> Together<'a> {
    pub(crate) fn new(progress: &'a dyn Progress) -> Self {
        Self { progress, has_failed: AtomicBool::new(false) }
    }

    /// Runs two parts. When both fail, the error is that of the part which failed by itself.
    pub(crate) fn join<A: Send, B: Send>(
        &self,
        first: impl FnOnce() -> Result<A, StoreError> + Send,
        second: impl FnOnce() -> Result<B, StoreError> + Send,
    ) -> Result<(A, B), StoreError> {
        let noted = |failed: bool| {
            if failed {
                self.has_failed.store(true, Ordering::Relaxed);
            }
        };
        let (first, second) =
            rayon::join(|| first().inspect_err(|_| noted(true)), || second().inspect_err(|_| noted(true)));
        match (first, second) {
            (Ok(first), Ok(second)) => Ok((first, second)),
            (Err(StoreError::Stopped), Err(error)) | (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }
}

impl Progress for Together<'_> {
    fn report(&self, phase: Phase, done: u64, total: u64) {
        self.progress.report(phase, done, total);
    }

    fn is_stopped(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed) || self.progress.is_stopped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_fails_stops_the_other_and_gives_the_error() {
        let together = Together::new(&NoProgress);
        let wait = || {
            while !together.is_stopped() {
                std::thread::yield_now();
            }
            Err::<(), _>(StoreError::Stopped)
        };
        // One thread runs the parts one after the other, so the waiting one has to be the second.
        let fail = || Err::<(), _>(StoreError::Closing);
        let error = together.join(fail, wait).expect_err("both fail");
        assert!(matches!(error, StoreError::Closing), "{error}");
    }
}
