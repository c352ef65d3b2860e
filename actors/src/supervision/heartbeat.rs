//! Noticing an actor that is stuck rather than dead: each is asked for an answer every second.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ractor::{Message, RpcReplyPort};
use selfsame_storage::Changes;
use tokio::time::Instant;

use crate::registry::batcher::BatcherMessage;
use crate::registry::handle::Shared;
use crate::registry::request_tracker::RequestTrackerMessage;
use crate::registry::tree_maintainer::TreeMaintainerMessage;
use crate::sign_in::handle::SignInShared;
use crate::sign_in::session_registry::SessionRegistryMessage;
use crate::support::slot::Slot;
use crate::verification::handle::VerifierShared;
use crate::verification::pool::VerifierPoolMessage;

/// Without an answer for this long, the service is not ready.
pub const UNREADY_AFTER: Duration = Duration::from_secs(10);

/// Without an answer for this long, the service has failed.
pub const STUCK_AFTER: Duration = Duration::from_secs(30);

const INTERVAL: Duration = Duration::from_secs(1);

/// What the thread is called that makes commits, which is no actor.
const COMMITTING_THREAD: &str = "group-commit";

/// How an actor is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActorHealth {
    /// Its name in the actor registry.
    pub name: String,
    /// Starts after the first.
    pub restarts: u64,
    /// Calls waiting for its answers.
    pub waiting_calls: usize,
    /// Time since it last answered; of a verifier worker, time since it took the batch that it is busy with.
    pub silent_for: Duration,
}

impl ActorHealth {
    /// Whether it answered lately.
    pub fn is_responsive(&self) -> bool {
        self.silent_for < UNREADY_AFTER
    }
}

/// When each actor last answered.
pub(crate) struct Heartbeat {
    started: Instant,
    shared: Arc<Shared>,
    verifier: Arc<VerifierShared>,
    sign_in: Arc<SignInShared>,
    tree_maintainer: LastAnswer,
    batcher: LastAnswer,
    request_tracker: LastAnswer,
    verifier_pool: LastAnswer,
    session_registry: LastAnswer,
}

/// Milliseconds since the heartbeat began.
#[derive(Default)]
struct LastAnswer(AtomicU64);

impl Heartbeat {
    pub fn new(shared: Arc<Shared>, verifier: Arc<VerifierShared>, sign_in: Arc<SignInShared>) -> Self {
        Self {
            started: Instant::now(),
            shared,
            verifier,
            sign_in,
            tree_maintainer: LastAnswer::default(),
            batcher: LastAnswer::default(),
            request_tracker: LastAnswer::default(),
            verifier_pool: LastAnswer::default(),
            session_registry: LastAnswer::default(),
        }
    }

    /// How the actors are doing now.
    pub fn health(&self) -> Vec<ActorHealth> {
        let Shared { tree_maintainer, batcher, request_tracker, .. } = self.shared.as_ref();
        let mut health = vec![
            self.health_of(tree_maintainer, &self.tree_maintainer),
            self.health_of(batcher, &self.batcher),
            self.health_of(request_tracker, &self.request_tracker),
            self.health_of(&self.verifier.pool, &self.verifier_pool),
            self.health_of(&self.sign_in.session_registry, &self.session_registry),
        ];
        health.extend(self.verifier.workers.iter().map(|worker| {
            let (name, busy) = worker.busy();
            ActorHealth { name, restarts: worker.restarts(), waiting_calls: 0, silent_for: busy }
        }));
        health
    }

    /// Asks until an actor is stuck; returns its name.
    pub async fn watch(&self) -> String {
        let Shared { tree_maintainer, batcher, request_tracker, .. } = self.shared.as_ref();
        tokio::select! {
            // In the same order each time, for simulations.
            biased;
            () = self.ask(tree_maintainer, &self.tree_maintainer, TreeMaintainerMessage::Ping) => tree_maintainer.name(),
            () = self.ask(batcher, &self.batcher, BatcherMessage::Ping) => batcher.name(),
            () = self.ask(request_tracker, &self.request_tracker, RequestTrackerMessage::Ping) => request_tracker.name(),
            () = self.ask(&self.verifier.pool, &self.verifier_pool, VerifierPoolMessage::Ping) => self.verifier.pool.name(),
            () = self.ask(&self.sign_in.session_registry, &self.session_registry, SessionRegistryMessage::Ping) => {
                self.sign_in.session_registry.name()
            }
            worker = self.stuck_worker() => return worker,
            () = self.stuck_commit() => COMMITTING_THREAD,
            never = self.probe_commits() => match never {},
        }
        .to_owned()
    }

    /// While commits fail, makes one every second: so it is noticed when they work again, also if nobody asks for anything.
    async fn probe_commits(&self) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if self.shared.group_commit.trouble().is_some() {
                self.shared.group_commit.commit(Changes::default(), Box::new(|_| {}));
            }
        }
    }

    /// Waits until one group commit has taken too long: a disk that never answers.
    async fn stuck_commit(&self) {
        while self.shared.group_commit.busy_for() < STUCK_AFTER {
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Waits until a verifier worker has been busy with one batch for too long: it is asked for nothing while it works.
    async fn stuck_worker(&self) -> String {
        loop {
            let stuck = self.verifier.workers.iter().map(|worker| worker.busy()).find(|(_, busy)| *busy >= STUCK_AFTER);
            if let Some((name, _)) = stuck {
                return name;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn health_of<M: Message>(&self, slot: &Slot<M>, last: &LastAnswer) -> ActorHealth {
        let last = self.started + Duration::from_millis(last.0.load(Ordering::Relaxed));
        ActorHealth {
            name: slot.name().to_owned(),
            restarts: slot.restarts(),
            waiting_calls: slot.inside(),
            silent_for: last.elapsed(),
        }
    }

    /// Asks one actor every second; returns when it has been silent for too long.
    async fn ask<M: Message>(&self, slot: &Slot<M>, last: &LastAnswer, ping: fn(RpcReplyPort<()>) -> M) {
        loop {
            let asked = Instant::now();
            match slot.probe(ping, asked + STUCK_AFTER).await {
                Ok(()) => last.0.store(self.started.elapsed().as_millis() as u64, Ordering::Relaxed),
                Err(error) => {
                    tracing::warn!(actor = slot.name(), %error, "an actor does not answer");
                    if self.health_of(slot, last).silent_for >= STUCK_AFTER {
                        return;
                    }
                }
            }
            tokio::time::sleep_until(asked + INTERVAL).await;
        }
    }
}
