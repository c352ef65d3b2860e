//! Watches a service: its actors, each of which is asked for an answer every second, so that one
//! that is stuck is found; its store; and the receivers of its events are told when it cannot
//! write, or an actor gives no answer.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::select_all;
use selfsame_storage::{GroupCommit, Healing, Metrics, Samples, Store, StoreError};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until};

use super::start::{ServiceError, SupervisionSettings};
use crate::support::notify::{Announcer, ServiceEvent};
use crate::support::slot::MonitoredSlot;
use crate::verification::pool::VerifierState;

/// Time from one question to the next.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// The name of the thread that makes commits. The heartbeat watches it like an actor.
const COMMITTING_THREAD: &str = "group-commit";

/// Health of an actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActorHealth {
    /// Its name in the actor registry.
    pub name: String,
    /// Number of starts after the first.
    pub restarts: u64,
    /// Calls that wait for its answers.
    pub waiting_calls: usize,
    /// Time since the actor last answered; of a verifier worker, time since it took its present
    /// batch, and zero while it is idle.
    pub silent_for: Duration,
    /// How long the last answered question waited in its mailbox; of a verifier worker zero.
    pub mailbox_wait: Duration,
    /// Whether it has been silent for less than [`SupervisionSettings::unready_after`].
    pub is_responsive: bool,
}

/// When each actor last answered.
pub(super) struct Heartbeat {
    started: Instant,
    actors: Vec<Pulse>,
    verifier: Arc<VerifierState>,
    group_commit: GroupCommit,
    settings: SupervisionSettings,
}

/// An actor, and when it last answered in milliseconds since the heartbeat began.
struct Pulse {
    slot: Arc<dyn MonitoredSlot>,
    last_answer: AtomicU64,
    /// How long that answer took, in microseconds.
    answer_micros: AtomicU64,
}

impl Heartbeat {
    /// Watches these actors, the verifier's workers and the committing thread.
    pub fn new(
        actors: impl IntoIterator<Item = Arc<dyn MonitoredSlot>>,
        verifier: Arc<VerifierState>,
        group_commit: GroupCommit,
        settings: SupervisionSettings,
    ) -> Self {
        let actors =
            actors.into_iter().map(|slot| Pulse { slot, last_answer: 0.into(), answer_micros: 0.into() }).collect();
        Self { started: Instant::now(), actors, verifier, group_commit, settings }
    }

    /// The health of the actors now.
    pub fn health(&self) -> Vec<ActorHealth> {
        let health = |name, restarts, waiting_calls, silent_for, mailbox_wait| {
            let is_responsive = silent_for < self.settings.unready_after;
            ActorHealth { name, restarts, waiting_calls, silent_for, mailbox_wait, is_responsive }
        };
        let actors = self.actors.iter().map(|pulse| {
            let (slot, answer) = (&pulse.slot, pulse.answer_micros.load(Ordering::Relaxed));
            let (name, silent_for) = (slot.name().to_owned(), self.silent_for(pulse));
            health(name, slot.restarts(), slot.waiting_calls(), silent_for, Duration::from_micros(answer))
        });
        let workers = self.verifier.workers.iter().map(|worker| {
            let (name, silent_for) = worker.busy();
            health(name, worker.restarts(), 0, silent_for, Duration::ZERO)
        });
        actors.chain(workers).collect()
    }

    /// Adds the numbers of the actors to `metrics`.
    pub fn register(self: &Arc<Self>, metrics: &mut Metrics) {
        let heartbeat = Arc::clone(self);
        metrics.add_group(move |samples| write_metrics(&heartbeat.health(), samples));
    }

    /// The service has ended: calls to its actors fail at once.
    pub fn end_calls(&self) {
        self.actors.iter().for_each(|pulse| pulse.slot.end());
    }

    /// How long the present commit has taken; `None` below
    /// [`SupervisionSettings::unready_after`].
    pub fn delayed_commit(&self) -> Option<Duration> {
        Some(self.group_commit.busy_for()).filter(|busy| *busy >= self.settings.unready_after)
    }

    /// Asks the actors until one is stuck, and returns its name.
    pub async fn watch(&self) -> String {
        let asked = self.actors.iter().map(|pulse| Box::pin(self.ask(pulse)));
        tokio::select! {
            // The branches are polled in the same order each time, so that simulations repeat.
            biased;
            (stuck, ..) = select_all(asked) => stuck,
            worker = self.stuck_worker() => worker,
            () = self.stuck_commit() => COMMITTING_THREAD.to_owned(),
            never = self.probe_commits() => match never {},
        }
    }

    fn silent_for(&self, pulse: &Pulse) -> Duration {
        (self.started + Duration::from_millis(pulse.last_answer.load(Ordering::Relaxed))).elapsed()
    }

    /// Asks one actor every second. Returns its name when it has given no answer for
    /// [`SupervisionSettings::stuck_after`].
    async fn ask(&self, pulse: &Pulse) -> String {
        loop {
            let asked = Instant::now();
            match pulse.slot.ping(asked + self.settings.stuck_after).await {
                Ok(()) => {
                    pulse.last_answer.store(self.started.elapsed().as_millis() as u64, Ordering::Relaxed);
                    pulse.answer_micros.store(asked.elapsed().as_micros() as u64, Ordering::Relaxed);
                }
                Err(error) => {
                    tracing::warn!(actor = pulse.slot.name(), %error, "an actor does not answer");
                    if self.silent_for(pulse) >= self.settings.stuck_after {
                        return pulse.slot.name().to_owned();
                    }
                }
            }
            sleep_until(asked + HEARTBEAT_INTERVAL).await;
        }
    }

    /// Returns the name of a verifier worker that has been busy with one batch for
    /// [`SupervisionSettings::stuck_after`].
    /// Workers are not pinged: a worker answers no message while it checks a batch.
    async fn stuck_worker(&self) -> String {
        loop {
            let mut busy = self.verifier.workers.iter().map(|worker| worker.busy());
            let stuck = busy.find(|(_, busy)| *busy >= self.settings.stuck_after);
            if let Some((name, _)) = stuck {
                return name;
            }
            sleep(HEARTBEAT_INTERVAL).await;
        }
    }

    /// Returns when one commit has taken [`SupervisionSettings::stuck_after`], as on a disk that
    /// does not answer.
    async fn stuck_commit(&self) {
        while self.group_commit.busy_for() < self.settings.stuck_after {
            sleep(HEARTBEAT_INTERVAL).await;
        }
    }

    /// While commits fail, makes an empty commit every second, so that the service detects when
    /// commits work again even when no request comes.
    async fn probe_commits(&self) -> Infallible {
        loop {
            sleep(HEARTBEAT_INTERVAL).await;
            if self.group_commit.failure().is_some() {
                self.group_commit.probe();
            }
        }
    }
}

// Watches the store: one that takes no writes after an error has to be opened again, when its disk
// takes writes again; one whose folder is gone writes what no later start would find.
//
// RocksDB resumes by itself after few errors, and has no call that makes it resume. Until the
// cause is gone the service reads; then it ends, and the next start opens the store.

/// Time from one look to the next.
const STORE_INTERVAL: Duration = Duration::from_secs(1);

/// How long RocksDB may take to resume, when it may, since the disk takes writes again. It looks
/// for room every five seconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// The looks in a row that have to find other files at the store's path, and the time between them:
/// short, because what is acknowledged meanwhile is not found by the next start.
const REPLACED_LOOKS: u32 = 3;
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// Watches one store.
pub(super) struct StoreWatch {
    store: Store,
    /// Why the store takes no writes, as of the last look; `None` when it does.
    refusal: Mutex<Option<StoreError>>,
}

/// What one look at the store finds.
enum Look {
    TakesWrites,
    /// The store's path leads to other files than those that are open.
    Replaced(StoreError),
    /// Why the store refuses writes, what ends that, and whether the disk takes writes.
    Refuses {
        error: StoreError,
        healing: Healing,
        disk: Result<(), StoreError>,
    },
}

impl StoreWatch {
    /// Watches this store. One in memory has no disk that could fail.
    pub fn new(store: Store) -> Self {
        Self { store, refusal: Mutex::default() }
    }

    /// Why the store takes no writes, a sentence; `None` when it does.
    pub fn failure(&self) -> Option<String> {
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        refusal.as_ref().map(|error| format!("the store takes no writes: {error}"))
    }

    /// Looks every second until the service has to end, and returns why.
    pub async fn watch(&self) -> ServiceError {
        if self.store.folder().is_none() {
            return std::future::pending().await;
        }
        let (mut refusing, mut replaced_looks) = (RefusedWrites::default(), 0);
        loop {
            sleep(if replaced_looks > 0 { SECOND_LOOK } else { STORE_INTERVAL }).await;
            let store = self.store.clone();
            // A disk that does not answer keeps this task waiting; a commit is then stuck, too.
            let Ok(look) = spawn_blocking(move || look(&store)).await else { continue };
            let refusal = match &look {
                Look::TakesWrites => None,
                Look::Replaced(error) | Look::Refuses { error, .. } => Some(error.clone()),
            };
            *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
            if let Look::Replaced(error) = look {
                replaced_looks += 1;
                if replaced_looks >= REPLACED_LOOKS {
                    tracing::error!(%error, "the service ends");
                    return ServiceError::Store(error);
                }
                continue;
            }
            replaced_looks = 0;
            if let Some(error) = refusing.judge(look, Instant::now()) {
                return ServiceError::WritesRefused { error };
            }
        }
    }
}

/// Looks at the store once. Blocks the thread.
fn look(store: &Store) -> Look {
    if let Err(error) = store.check_files() {
        return Look::Replaced(error);
    }
    match store.refused_write() {
        None => Look::TakesWrites,
        Some(error) => Look::Refuses { healing: error.healing(), disk: store.try_disk(&error), error },
    }
}

/// What the looks so far have found.
#[derive(Default)]
struct RefusedWrites {
    is_known: bool,
    /// Since when the disk takes writes and the store does not.
    disk_writable_since: Option<Instant>,
}

impl RefusedWrites {
    /// Adds a look. Returns the store's error when the store has to be opened again: the disk takes
    /// writes, and RocksDB does not resume by itself.
    fn judge(&mut self, look: Look, now: Instant) -> Option<StoreError> {
        let (error, healing, disk) = match look {
            Look::TakesWrites | Look::Replaced(_) => {
                if self.is_known {
                    tracing::info!("the store takes writes again");
                }
                *self = Self::default();
                return None;
            }
            Look::Refuses { error, healing, disk } => (error, healing, disk),
        };
        if !std::mem::replace(&mut self.is_known, true) {
            let disk = disk.as_ref().map_or_else(ToString::to_string, |()| "it takes writes".to_owned());
            tracing::error!(%error, disk, "the store takes no writes; reads go on");
        }
        if disk.is_err() {
            self.disk_writable_since = None;
            return None;
        }
        let since = *self.disk_writable_since.get_or_insert(now);
        let is_over = match healing {
            Healing::ByItself => now.duration_since(since) >= PATIENCE,
            Healing::ByNewStart => true,
            Healing::Never => false,
        };
        is_over.then_some(error)
    }
}

// Tells the receivers of a service's events when it cannot write, or an actor gives no answer.

/// Time from one look to the next.
const TROUBLE_INTERVAL: Duration = Duration::from_secs(1);

/// Looks every second for what is wrong (`failures`, a sentence each) and tells what began and what
/// ended.
pub(super) async fn tell_troubles(announcer: Announcer, failures: impl Fn() -> Vec<String>) -> Infallible {
    let mut known = BTreeSet::new();
    loop {
        sleep(TROUBLE_INTERVAL).await;
        known = tell_changes(&announcer, known, failures().into_iter().collect());
    }
}

/// Tells the difference of two looks, and returns the later one.
fn tell_changes(announcer: &Announcer, before: BTreeSet<String>, now: BTreeSet<String>) -> BTreeSet<String> {
    for reason in now.difference(&before).cloned() {
        announcer.announce(|| ServiceEvent::TroubleBegan { reason });
    }
    for reason in before.difference(&now).cloned() {
        announcer.announce(|| ServiceEvent::TroubleEnded { reason });
    }
    now
}

/// The actors that give no answer, a sentence each. The sentence stays the same while the silence
/// lasts.
pub(super) fn silent_actors(actors: &[ActorHealth]) -> impl Iterator<Item = String> + '_ {
    let silent = actors.iter().filter(|actor| !actor.is_responsive);
    silent.map(|actor| format!("{} gives no answer", actor.name))
}

fn write_metrics(actors: &[ActorHealth], samples: &mut Samples<'_>) -> fmt::Result {
    let counts = |count: fn(&ActorHealth) -> u64| {
        actors.iter().map(move |health| ([("actor", actor_label(&health.name))], count(health)))
    };
    let seconds = |time: fn(&ActorHealth) -> Duration| {
        actors.iter().map(move |health| ([("actor", actor_label(&health.name))], time(health).as_secs_f64()))
    };
    let help = "Starts of an actor after its first";
    samples.counters("selfsame_actor_restarts", help, counts(|health| health.restarts))?;
    let help = "Calls that wait for an actor's answer";
    samples.gauges("selfsame_actor_waiting_calls", help, counts(|health| health.waiting_calls as u64))?;
    let help = "Time since an actor last answered; of a verifier worker, time since it took its present batch";
    samples.gauges("selfsame_actor_silent_seconds", help, seconds(|health| health.silent_for))?;
    let help = "Time that the last question waited in an actor's mailbox; it is asked once a second";
    samples.gauges("selfsame_actor_mailbox_wait_seconds", help, seconds(|health| health.mailbox_wait))
}

/// An actor's name without that of the instance, and without the number of its start, so that each
/// restart has the same label.
fn actor_label(name: &str) -> &str {
    let name = name.split_once('/').map_or(name, |(_, name)| name);
    name.rsplit_once('.').map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    mod store_watch {
        use std::path::PathBuf;

        use super::super::*;

        fn refuses(healing: Healing, is_disk_good: bool) -> Look {
            let disk = StoreError::Folder { path: PathBuf::from("store"), reason: "no room".to_owned() };
            Look::Refuses { error: StoreError::Closing, healing, disk: if is_disk_good { Ok(()) } else { Err(disk) } }
        }

        /// Seconds of looks until the service ends, of at most 100; the disk is good from the
        /// second 50 on.
        fn ends_after(healing: Healing) -> Option<u64> {
            let (mut refusing, began) = (RefusedWrites::default(), Instant::now());
            let mut look =
                |second| refusing.judge(refuses(healing, second >= 50), began + Duration::from_secs(second)).is_some();
            (0..100).find(|second| look(*second))
        }

        #[test]
        fn a_service_ends_when_the_disk_takes_writes_and_the_store_does_not_resume() {
            assert_eq!(ends_after(Healing::ByNewStart), Some(50));
            assert_eq!(ends_after(Healing::ByItself), Some(60));
            assert_eq!(ends_after(Healing::Never), None);
        }

        #[test]
        fn the_time_to_resume_begins_again_when_the_disk_fails_again() {
            let (mut refusing, began) = (RefusedWrites::default(), Instant::now());
            let mut ends = |look, second| refusing.judge(look, began + Duration::from_secs(second)).is_some();
            assert!(!ends(refuses(Healing::ByItself, true), 0));
            assert!(!ends(refuses(Healing::ByItself, false), 9));
            assert!(!ends(refuses(Healing::ByItself, true), 10));
            assert!(!ends(Look::TakesWrites, 15));
            assert!(!ends(refuses(Healing::ByItself, true), 20));
            assert!(!ends(refuses(Healing::ByItself, true), 29));
            assert!(ends(refuses(Healing::ByItself, true), 30));
        }
    }

    mod troubles {
        use super::super::*;

        #[test]
        fn each_trouble_is_told_once_when_it_begins_and_once_when_it_ends() {
            let announcer = Announcer::default();
            let mut events = announcer.subscribe();
            let look = |reasons: &[&str]| reasons.iter().map(|reason| (*reason).to_owned()).collect::<BTreeSet<_>>();
            let mut known = BTreeSet::new();
            for now in [&["a"][..], &["a", "b"], &["b"], &["b"], &[]] {
                known = tell_changes(&announcer, known, look(now));
            }
            let mut told = Vec::new();
            while let Ok(event) = events.try_recv() {
                told.push(event);
            }
            let began = |reason: &str| ServiceEvent::TroubleBegan { reason: reason.to_owned() };
            let ended = |reason: &str| ServiceEvent::TroubleEnded { reason: reason.to_owned() };
            assert_eq!(told, [began("a"), began("b"), ended("a"), ended("b")]);
        }
    }
}
