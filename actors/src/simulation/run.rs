//! One life of the process, and what all lives of a history share: the time, the random numbers,
//! the log of what happens.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use ractor::registry::where_is;
use selfsame_storage::{Committer, Ledger};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::faults::{FaultRates, Faults, FaultyLedger};
use crate::clock::{Clock, Random};

/// The panic of a task.
#[derive(Default)]
struct TaskPanic {
    payload: Mutex<Option<Box<dyn Any + Send>>>,
    happened: Notify,
}

/// One life of the process: what services, and the actors of an embedder, are started in. Clones
/// are the same run, for tasks and actors.
#[derive(Clone)]
pub struct Run {
    random: SeededRandom,
    clock: SimulatedClock,
    log: EventLog,
    faults: Faults,
    committers: Arc<Mutex<Vec<Committer>>>,
    panic: Arc<TaskPanic>,
    /// A number that no other run of this process has.
    number: u64,
}

impl Run {
    pub(super) fn new(rates: FaultRates, random: SeededRandom, clock: SimulatedClock, log: EventLog) -> Self {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let (faults, number) = (Faults::new(rates, random.clone()), RUNS.fetch_add(1, Ordering::Relaxed));
        Self { random, clock, log, faults, committers: Arc::default(), panic: Arc::default(), number }
    }

    /// The random numbers that everything in the history draws from.
    pub fn random(&self) -> &SeededRandom {
        &self.random
    }

    /// The time.
    pub fn clock(&self) -> &SimulatedClock {
        &self.clock
    }

    /// The log of the history.
    pub fn log(&self) -> &EventLog {
        &self.log
    }

    /// Notes an event in the log.
    pub fn note(&self, event: impl Into<String>) {
        self.log.note(event);
    }

    /// Spawns a task. When it panics, the run ends with that panic: a check in a task fails the
    /// play. The panic of a task of [`tokio::spawn`] is lost unless its handle is awaited.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        let ended = Arc::clone(&self.panic);
        tokio::spawn(async move {
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                ended.payload.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
                ended.happened.notify_one();
            }
        })
    }

    /// The panic of the first task that panics. Waits until a task does.
    pub(super) async fn task_panic(&self) -> Box<dyn Any + Send> {
        loop {
            self.panic.happened.notified().await;
            if let Some(panic) = self.panic.payload.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return panic;
            }
        }
    }

    /// A ledger with the faults of this run. The ledger of a service's own store has them already,
    /// unless the service is started with another ledger.
    pub fn faulty_ledger(&self, ledger: Arc<dyn Ledger>) -> FaultyLedger {
        FaultyLedger::new(ledger, self.faults.clone())
    }

    /// The name for an actor of the embedder in this run: ractor's registry of names is one for the
    /// whole process, in which many histories are played.
    pub fn name(&self, actor: &str) -> String {
        format!("{actor}@{}", self.number)
    }

    /// Kills the actor that is registered as [`Run::name`] of this name. Returns whether there was
    /// one.
    pub fn kill(&self, actor: &str) -> bool {
        self.kill_named(actor, self.name(actor))
    }

    /// Kills some of these actors, registered as [`Run::name`] of these names, at times that the
    /// seed chooses: at most [`FaultRates::deaths`].
    pub fn kill_by_chance(&self, actors: impl IntoIterator<Item = impl Into<String>>) {
        let named = |actor: String| (actor.clone(), self.name(&actor));
        self.kill_some(actors.into_iter().map(Into::into).map(named).collect());
    }

    /// Ends all faults of this run, deaths included.
    pub fn end_faults(&self) {
        self.faults.end();
        self.note("the faults end");
    }

    /// Kills the actor with a name in ractor's registry; the log has the first name.
    pub(super) fn kill_named(&self, actor: &str, name: String) -> bool {
        let Some(cell) = where_is(name) else { return false };
        self.note(format!("kill {actor}"));
        cell.kill();
        true
    }

    /// As [`Run::kill_by_chance`], for actors with their names in the log and in ractor's registry.
    pub(super) fn kill_some(&self, actors: Vec<(String, String)>) {
        if actors.is_empty() {
            return;
        }
        let run = self.clone();
        self.spawn(async move {
            for _ in 0..run.random.below(run.faults.rates.deaths + 1) {
                run.random.pause(run.faults.rates.pause).await;
                if run.faults.are_over() {
                    return;
                }
                let (actor, name) = run.random.pick(&actors).clone();
                run.kill_named(&actor, name);
            }
        });
    }

    pub(super) fn jump_by_chance(&self) {
        let run = self.clone();
        let FaultRates { jumps, longest_jump, pause, .. } = run.faults.rates;
        self.spawn(async move {
            for _ in 0..run.random.below(jumps + 1) {
                run.random.pause(pause).await;
                if run.faults.are_over() {
                    return;
                }
                let by = run.random.time_below(longest_jump);
                run.note(format!("{} s pass", by.as_secs()));
                run.clock.jump(by);
            }
        });
    }

    pub(super) fn faults(&self) -> &Faults {
        &self.faults
    }

    pub(super) fn add_committer(&self, committer: Committer) {
        self.committers().push(committer);
    }

    /// Drops what is handed in and not committed.
    pub(super) fn drop_uncommitted(&self) {
        self.committers().iter().for_each(Committer::drop_queued);
    }

    fn committers(&self) -> MutexGuard<'_, Vec<Committer>> {
        self.committers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("number", &self.number).field("rates", &self.faults.rates).finish_non_exhaustive()
    }
}

// The time of a simulation.

/// The simulated time since the Unix epoch. During a run it passes as the paused time of the run's
/// runtime does; between runs it stands still. Clones show the same time.
#[derive(Clone, Debug)]
pub struct SimulatedClock {
    reading: Arc<Mutex<Reading>>,
    /// How far this clock is ahead of the simulation's own.
    ahead: Duration,
}

#[derive(Debug)]
struct Reading {
    /// The time at `since`; outside of a run the time that the clock stands at.
    shown: Duration,
    since: Option<Instant>,
}

impl Reading {
    fn now(&self) -> Duration {
        self.shown + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl SimulatedClock {
    pub(super) fn stopped_at(shown: Duration) -> Self {
        Self { reading: Arc::new(Mutex::new(Reading { shown, since: None })), ahead: Duration::ZERO }
    }

    /// A clock that is always `by` ahead of this one: that of another machine, which is set
    /// otherwise.
    #[must_use]
    pub fn ahead_by(&self, by: Duration) -> Self {
        Self { reading: Arc::clone(&self.reading), ahead: self.ahead + by }
    }

    /// Lets time pass during which the machine sleeps: the clock, and all that are ahead of it, go
    /// forward, and timers do not. Records expire by the clock; actors delete what has expired when
    /// their timers say so, so let some time pass after a jump.
    pub fn jump(&self, by: Duration) {
        self.reading().shown += by;
    }

    /// Goes on with the time of the runtime that this is called in.
    pub(super) fn resume(&self) {
        self.reading().since = Some(Instant::now());
    }

    /// Stands still from now on.
    pub(super) fn stop(&self) {
        let mut reading = self.reading();
        reading.shown = reading.now();
        reading.since = None;
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Duration {
        self.reading().now() + self.ahead
    }
}

// The random numbers of a simulation.

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

// The log of a simulation.

/// The events of a history in their order. Clones write to the same log.
#[derive(Clone, Debug, Default)]
pub struct EventLog(Arc<Mutex<Vec<String>>>);

impl EventLog {
    /// Notes an event. Leave out of it what differs between two plays of a seed, such as the unique
    /// names of actors.
    pub fn note(&self, event: impl Into<String>) {
        self.lock().push(event.into());
    }

    /// The events so far.
    pub fn events(&self) -> Vec<String> {
        self.lock().clone()
    }

    /// How many events there are so far.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
