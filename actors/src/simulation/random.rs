//! The random numbers of a simulation.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Random;

/// A random number generator (SplitMix64) that repeats its numbers for the same seed. Clones draw
/// from the same stream. It can be predicted, so it is for simulations only.
#[derive(Clone, Debug)]
pub struct SeededRandom(Arc<Mutex<u64>>);

impl SeededRandom {
    /// The stream of a seed.
    pub fn from_seed(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed)))
    }

    /// The next number.
    pub fn draw(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// True once in `times` draws on average; never when `times` is 0.
    pub fn once_in(&self, times: u64) -> bool {
        times > 0 && self.below(times) == 0
    }

    /// One of the items.
    ///
    /// # Panics
    /// When there is no item.
    pub fn pick<'a, T>(&self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// A time below `bound`, in whole microseconds.
    pub fn time_below(&self, bound: Duration) -> Duration {
        Duration::from_micros(self.below(bound.as_micros().try_into().unwrap_or(u64::MAX)))
    }

    /// Lets a random simulated time pass: more than none, and at most `bound` or 1 µs. Tokio rounds
    /// it up to whole milliseconds.
    pub async fn pause(&self, bound: Duration) {
        tokio::time::sleep(self.time_below(bound) + Duration::from_micros(1)).await;
    }
}

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.draw().to_le_bytes()[..chunk.len()]);
        }
    }
}
