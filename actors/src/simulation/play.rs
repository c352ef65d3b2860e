//! The history of one seed, and playing many of them.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use selfsame_protocol::eip712::RegistryDomain;
use selfsame_storage::{MemoryDisk, OpenOptions, Resources, Store, StoreError};

use super::faults::FaultRates;
use super::run::{EventLog, Run, SeededRandom, SimulatedClock};

// The history of one seed.

/// The time at which a history begins, since the Unix epoch.
const START: Duration = Duration::from_secs(1_800_000_000);

/// The time from the end of a run to the next one.
const RESTART_TIME: Duration = Duration::from_secs(1);

/// Cache of a store, in bytes. A history reads little, and many are played at the same time.
const STORE_CACHE: usize = 1 << 20;

/// A history whose time, chance and faults follow from a seed.
#[derive(Debug)]
pub struct Simulation {
    seed: u64,
    random: SeededRandom,
    clock: SimulatedClock,
    log: EventLog,
    runs: u64,
}

impl Simulation {
    /// The history of a seed, before its first run.
    pub fn from_seed(seed: u64) -> Self {
        Self {
            seed,
            random: SeededRandom::from_seed(seed),
            clock: SimulatedClock::stopped_at(START),
            log: EventLog::default(),
            runs: 0,
        }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The random numbers that everything in the history draws from.
    pub fn random(&self) -> &SeededRandom {
        &self.random
    }

    /// The time, which stands still between runs.
    pub fn clock(&self) -> &SimulatedClock {
        &self.clock
    }

    /// The log of the history.
    pub fn log(&self) -> &EventLog {
        &self.log
    }

    /// The events so far.
    pub fn events(&self) -> Vec<String> {
        self.log.events()
    }

    /// How many runs there were.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Makes a store on a simulated disk of its own. The store stays open from run to run, with
    /// everything that was committed. To open it anew, take a [`MemoryDisk`] and [`Store::open`].
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn new_store(&self, domain: RegistryDomain) -> Result<Store, StoreError> {
        let in_memory = Some(MemoryDisk::new()?);
        // With the smallest write buffers, flushes and compactions happen within a history.
        let write_buffer = Resources::LEAST_WRITE_BUFFER;
        let resources = Resources { block_cache: STORE_CACHE, write_buffer, ..Resources::default() };
        let options = OpenOptions { in_memory, resources, ..OpenOptions::new(domain) };
        Store::open(Path::new("/simulated"), &options)
    }

    /// Plays a run: one life of the process. It ends when `life` returns: what it started is
    /// dropped, wherever it is, and what was not committed by then is lost.
    ///
    /// # Panics
    /// With the panic of a task ([`Run::spawn`]); and when the operating system gives no resources
    /// for a runtime.
    #[expect(clippy::expect_used, reason = "without a runtime there is no simulation")]
    pub fn run<T>(&mut self, rates: FaultRates, life: impl AsyncFnOnce(&Run) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime needs few resources");
        self.runs += 1;
        self.log.note("a run begins");
        let run = Run::new(rates, self.random.clone(), self.clock.clone(), self.log.clone());
        let outcome = runtime.block_on(async {
            self.clock.resume();
            run.jump_by_chance();
            let outcome = tokio::select! {
                biased;
                panic = run.task_panic() => resume_unwind(panic),
                outcome = life(&run) => outcome,
            };
            run.drop_uncommitted();
            self.clock.stop();
            outcome
        });
        self.log.note("the process ends");
        self.clock.jump(RESTART_TIME);
        outcome
    }
}

// Plays many seeds.

/// How many of the last events a [`Failure`] shows.
const SHOWN: usize = 60;

/// What was played without a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaySummary {
    /// Histories.
    pub histories: u64,
    /// Their runs.
    pub runs: u64,
    /// Their events.
    pub events: u64,
}

impl fmt::Display for PlaySummary {
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
pub fn play_seeds(seeds: Range<u64>, play: impl Fn(&mut Simulation) + Sync) -> PlaySummary {
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

fn search(seeds: Range<u64>, play: impl Fn(&mut Simulation) + Sync) -> Result<PlaySummary, Failure> {
    let next = AtomicU64::new(seeds.start);
    let outcome = Mutex::new(Ok(PlaySummary::default()));
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

fn play_one(seed: u64, play: impl Fn(&mut Simulation)) -> Result<PlaySummary, Failure> {
    let mut simulation = Simulation::from_seed(seed);
    let played = catch_unwind(AssertUnwindSafe(|| play(&mut simulation)));
    let events = simulation.events();
    match played {
        Ok(()) => Ok(PlaySummary { histories: 1, runs: simulation.runs(), events: events.len() as u64 }),
        Err(panic) => Err(Failure { seed, message: message_of(panic.as_ref()), events }),
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}
