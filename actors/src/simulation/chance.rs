//! Chance and time of a simulation: both come from its seed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::{Clock, Random};

/// Chance that repeats (SplitMix64). Clones draw from the same stream.
#[derive(Clone)]
pub(super) struct Chance(Arc<Mutex<u64>>);

impl Chance {
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

    /// True once in `times`, on average.
    pub fn once_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a, T>(&self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// Simulated time passes: less than `bound`.
    pub async fn pause(&self, bound: Duration) {
        let microseconds = self.below(bound.as_micros() as u64);
        tokio::time::sleep(Duration::from_micros(microseconds)).await;
    }
}

impl Random for Chance {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// The runtime's simulated time, shown as time since the Unix epoch.
pub(super) struct SimulatedClock {
    shown: Duration,
    began: Instant,
}

impl SimulatedClock {
    /// A clock that shows `shown` now.
    pub fn showing(shown: Duration) -> Self {
        Self { shown, began: Instant::now() }
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Duration {
        self.shown + self.began.elapsed()
    }
}
