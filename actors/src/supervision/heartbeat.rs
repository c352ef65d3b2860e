//! Detects actors that are stuck: each is asked for an answer every second.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::select_all;
use selfsame_storage::GroupCommit;
use tokio::time::{Instant, sleep, sleep_until};

use crate::support::slot::MonitoredSlot;
use crate::verification::state::VerifierState;

/// The service is not ready when an actor has given no answer for this long or longer.
pub const UNREADY_AFTER: Duration = Duration::from_secs(10);

/// The service has failed when an actor has given no answer for this long or longer.
pub const STUCK_AFTER: Duration = Duration::from_secs(30);

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
}

impl ActorHealth {
    /// Whether the actor has answered within [`UNREADY_AFTER`] (exclusive).
    pub fn is_responsive(&self) -> bool {
        self.silent_for < UNREADY_AFTER
    }
}

/// When each actor last answered.
pub(super) struct Heartbeat {
    started: Instant,
    actors: Vec<Pulse>,
    verifier: Arc<VerifierState>,
    group_commit: GroupCommit,
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
    ) -> Self {
        let actors =
            actors.into_iter().map(|slot| Pulse { slot, last_answer: 0.into(), answer_micros: 0.into() }).collect();
        Self { started: Instant::now(), actors, verifier, group_commit }
    }

    /// The health of the actors now.
    pub fn health(&self) -> Vec<ActorHealth> {
        let actors = self.actors.iter().map(|pulse| ActorHealth {
            name: pulse.slot.name().to_owned(),
            restarts: pulse.slot.restarts(),
            waiting_calls: pulse.slot.waiting_calls(),
            silent_for: self.silent_for(pulse),
            mailbox_wait: Duration::from_micros(pulse.answer_micros.load(Ordering::Relaxed)),
        });
        let workers = self.verifier.workers.iter().map(|worker| {
            let (name, silent_for) = worker.busy();
            ActorHealth {
                name,
                restarts: worker.restarts(),
                waiting_calls: 0,
                silent_for,
                mailbox_wait: Duration::ZERO,
            }
        });
        actors.chain(workers).collect()
    }

    /// How long the present commit has taken; `None` below [`UNREADY_AFTER`].
    pub fn delayed_commit(&self) -> Option<Duration> {
        Some(self.group_commit.busy_for()).filter(|busy| *busy >= UNREADY_AFTER)
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
    /// [`STUCK_AFTER`].
    async fn ask(&self, pulse: &Pulse) -> String {
        loop {
            let asked = Instant::now();
            match pulse.slot.ping(asked + STUCK_AFTER).await {
                Ok(()) => {
                    pulse.last_answer.store(self.started.elapsed().as_millis() as u64, Ordering::Relaxed);
                    pulse.answer_micros.store(asked.elapsed().as_micros() as u64, Ordering::Relaxed);
                }
                Err(error) => {
                    tracing::warn!(actor = pulse.slot.name(), %error, "an actor does not answer");
                    if self.silent_for(pulse) >= STUCK_AFTER {
                        return pulse.slot.name().to_owned();
                    }
                }
            }
            sleep_until(asked + INTERVAL).await;
        }
    }

    /// Returns the name of a verifier worker that has been busy with one batch for [`STUCK_AFTER`].
    /// Workers are not pinged: a worker answers no message while it checks a batch.
    async fn stuck_worker(&self) -> String {
        loop {
            let stuck = self.verifier.workers.iter().map(|worker| worker.busy()).find(|(_, busy)| *busy >= STUCK_AFTER);
            if let Some((name, _)) = stuck {
                return name;
            }
            sleep(INTERVAL).await;
        }
    }

    /// Returns when one commit has taken [`STUCK_AFTER`], as on a disk that does not answer.
    async fn stuck_commit(&self) {
        while self.group_commit.busy_for() < STUCK_AFTER {
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
