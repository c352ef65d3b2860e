//! The history of one seed.

use std::panic::resume_unwind;
use std::path::Path;
use std::time::Duration;

use selfsame_protocol::eip712::RegistryDomain;
use selfsame_storage::{MemoryDisk, OpenOptions, Resources, Store, StoreError};

use super::clock::SimulatedClock;
use super::events::EventLog;
use super::faults::FaultRates;
use super::random::SeededRandom;
use super::run::Run;

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
