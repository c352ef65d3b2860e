//! The random numbers and the clock of a simulation; the seed determines both.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::{Clock, Random};

/// A random number generator (SplitMix64) that repeats its numbers for the same seed. Clones draw
/// from the same stream.
#[derive(Clone)]
pub(super) struct SeededRandom(Arc<Mutex<u64>>);

impl SeededRandom {
    pub fn from_seed(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed)))
    }

    pub fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True with probability 1 / `times`.
    pub fn once_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a, T>(&self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// Lets a random simulated time below `bound` pass.
    pub async fn pause(&self, bound: Duration) {
        let microseconds = self.below(bound.as_micros() as u64);
        tokio::time::sleep(Duration::from_micros(microseconds)).await;
    }
}

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// The runtime's simulated time as time since the Unix epoch.
pub(super) struct SimulatedClock {
    start: Duration,
    created_at: Instant,
}

impl SimulatedClock {
    /// A clock that is at `start` now.
    pub fn starting_at(start: Duration) -> Self {
        Self { start, created_at: Instant::now() }
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Duration {
        self.start + self.created_at.elapsed()
    }
}
