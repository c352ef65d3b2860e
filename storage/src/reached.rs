//! A number that only grows, and those who wait until it has reached another one.

use crate::sync::{Mutex, MutexGuard, PoisonError, oneshot};

/// A number that only grows: a position of a journal, the height of a block.
///
/// Those who wait are woken in the order in which they came, so that a simulation repeats.
#[derive(Debug, Default)]
pub struct Reached(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    number: u64,
    waiting: Vec<(u64, oneshot::Sender<()>)>,
}

impl Reached {
    /// A number that has got so far.
    pub fn new(number: u64) -> Self {
        Self(Mutex::new(State { number, waiting: Vec::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number is at least this from now on.
    pub fn advance(&self, number: u64) {
        let mut state = self.state();
        state.number = state.number.max(number);
        let reached = state.number;
        for (_, waiting) in state.waiting.extract_if(.., |(wanted, _)| *wanted <= reached) {
            // Who no longer waits has dropped the other end.
            let _ = waiting.send(());
        }
    }

    /// Waits until the number is at least this.
    pub async fn wait_for(&self, number: u64) {
        let reached = {
            let mut state = self.state();
            if state.number >= number {
                return;
            }
            state.waiting.retain(|(_, waiting)| !waiting.is_closed());
            let (waiting, reached) = oneshot::channel();
            state.waiting.push((number, waiting));
            reached
        };
        // The sender is in `self`.
        let _ = reached.await;
    }
}

#[cfg(test)]
impl Reached {
    /// How many wait, or have given up and are not forgotten yet.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting.len()
    }
}
