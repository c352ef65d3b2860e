//! Plays many seeds.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::history::Simulation;

/// How many of the last events a [`Failure`] shows.
const SHOWN: usize = 60;

/// What was played without a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// Histories.
    pub histories: u64,
    /// Their runs.
    pub runs: u64,
    /// Their events.
    pub events: u64,
}

impl fmt::Display for Played {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { histories, runs, events } = self;
        write!(f, "{histories} histories, {runs} runs, {events} events")
    }
}

/// A history whose play panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed that repeats it.
    pub seed: u64,
    /// The message of the panic.
    pub message: String,
    /// The events before it.
    pub events: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, message, events } = self;
        let last = &events[events.len().saturating_sub(SHOWN)..];
        write!(f, "seed {seed} fails: {message}\nits last events:\n  {}", last.join("\n  "))
    }
}

/// Plays these seeds on all cores.
///
/// # Panics
/// When a play panics: with the [`Failure`], whose seed repeats the history.
#[track_caller]
#[expect(clippy::panic, reason = "a check of a history fails by a panic, and so do many")]
pub fn play_seeds(seeds: Range<u64>, play: impl Fn(&mut Simulation) + Sync) -> Played {
    match search(seeds, play) {
        Ok(played) => played,
        Err(failure) => panic!("{failure}"),
    }
}

/// Plays these seeds on all cores until one fails, and returns the failure of the first that does;
/// `None` when no play panics. For tests that plant a mistake and show that the checks find it.
pub fn find_failure(seeds: Range<u64>, play: impl Fn(&mut Simulation) + Sync) -> Option<Failure> {
    search(seeds, play).err()
}

fn search(seeds: Range<u64>, play: impl Fn(&mut Simulation) + Sync) -> Result<Played, Failure> {
    let next = AtomicU64::new(seeds.start);
    let outcome = Mutex::new(Ok(Played::default()));
    let outcome_now = || outcome.lock().unwrap_or_else(PoisonError::into_inner);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds.end) {
                    let one = play_one(seed, &play);
                    let mut outcome = outcome_now();
                    match (&mut *outcome, one) {
                        (Ok(all), Ok(one)) => {
                            all.histories += one.histories;
                            all.runs += one.runs;
                            all.events += one.events;
                        }
                        (Ok(_), Err(failure)) => *outcome = Err(failure),
                        // Whichever thread is faster, the first seed that fails is returned.
                        (Err(first), Err(failure)) if failure.seed < first.seed => *outcome = Err(failure),
                        (Err(_), _) => {}
                    }
                    if outcome.is_err() {
                        return;
                    }
                }
            });
        }
    });
    outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn play_one(seed: u64, play: impl Fn(&mut Simulation)) -> Result<Played, Failure> {
    let mut simulation = Simulation::from_seed(seed);
    let played = catch_unwind(AssertUnwindSafe(|| play(&mut simulation)));
    let events = simulation.events();
    match played {
        Ok(()) => Ok(Played { histories: 1, runs: simulation.runs(), events: events.len() as u64 }),
        Err(panic) => Err(Failure { seed, message: message_of(panic.as_ref()), events }),
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}
