//! One life of the process.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use ractor::registry::where_is;
use selfsame_storage::{Committer, Ledger};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::clock::SimulatedClock;
use super::events::EventLog;
use super::faults::{FaultRates, Faults};
use super::ledger::FaultyLedger;
use super::random::SeededRandom;

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
