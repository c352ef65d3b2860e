//! Detects actors that are stuck: each is asked for an answer every second.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::select_all;
use selfsame_storage::GroupCommit;
use tokio::time::{Instant, sleep, sleep_until};

use super::settings::SupervisionSettings;
use crate::support::slot::MonitoredSlot;
use crate::verification::state::VerifierState;

const INTERVAL: Duration = Duration::from_secs(1);

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
            sleep_until(asked + INTERVAL).await;
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
            sleep(INTERVAL).await;
        }
    }

    /// Returns when one commit has taken [`SupervisionSettings::stuck_after`], as on a disk that
    /// does not answer.
    async fn stuck_commit(&self) {
        while self.group_commit.busy_for() < self.settings.stuck_after {
            sleep(INTERVAL).await;
        }
    }

    /// While commits fail, makes an empty commit every second, so that the service detects when
    /// commits work again even when no request comes.
    async fn probe_commits(&self) -> Infallible {
        loop {
            sleep(INTERVAL).await;
            if self.group_commit.failure().is_some() {
                self.group_commit.probe();
            }
        }
    }
}
