//! The part of a service that only a replica has: it follows the journal, and begins and ends to
//! lead.
//!
//! Who leads is decided outside: by an election that the leadership actor takes part in, or by the
//! embedder. All actors run on every replica. Those that decide (request tracker, batcher) refuse
//! or rest while another replica leads, and read the store again before this one does.

use std::fmt;
use std::sync::Mutex as BlockingMutex;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use selfsame_protocol::encoding::{DecodeError, decode, encode};
use selfsame_storage::{
    AppliedEntry, ForwardedDecision, GroupCommit, JournalEntry, Metrics, Position, RecordKind, Replica, Samples, Store,
    StoreError, Term, is_certainly_unwritten,
};
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tracing::{Instrument, Span};

use super::leadership::Election;
use crate::events::handle::EventsHandle;
use crate::groups::group_keeper::GroupKeeperMessage;
use crate::groups::handle::GroupsHandle;
use crate::registry::actors::{BatcherMessage, RegistrySlots, RequestTrackerMessage};
use crate::registry::handle::RegistryHandle;
use crate::registry::reader::Reader;
use crate::registry::submit::{decode_submission, encode_answer};
use crate::sign_in::records::{SignInState, TransactionId};
use crate::sign_in::session_registry::SessionRegistryMessage;
use crate::support::replica::{Answer, Freshness, Question, QuestionKind, decision_content};
use crate::support::slot::{CallError, RESTART_PATIENCE, actor_span};
use crate::support::surroundings::Surroundings;
use crate::support::tasks::{Blocking, RETRY_INTERVAL, RetriedStep};
use crate::verification::handle::VerificationHandle;

/// Time from one sync of the store to the next.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Time from one look at the journal's end to the next.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Why a replica did not begin to lead.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LeadError {
    /// The service's store is no replica of a journal.
    #[error("this service has no journal, and leads always")]
    NoJournal,
    /// The journal or the store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An actor did not get ready in time.
    #[error("{actor} did not get ready: {reason}")]
    Actor {
        /// The actor.
        actor: &'static str,
        /// What its slot answered.
        reason: String,
    },
}

/// What following a journal needs.
pub(crate) struct ReplicationState {
    pub store: Store,
    pub replica: Arc<Replica>,
    pub reader: Arc<Reader>,
    pub slots: RegistrySlots,
    pub registry: RegistryHandle,
    pub sign_in: Arc<SignInState>,
    pub verification: VerificationHandle,
    pub events: EventsHandle,
    pub groups: GroupsHandle,
    pub blocking: Blocking,
    /// Whether the operator's decisions about roots are to be read again. The lock is held while an
    /// entry is applied and told to those who wait for it.
    pub stale_roots: Mutex<bool>,
    /// Who elects the leader; `None` when the embedder does.
    pub election: Option<Arc<dyn Election>>,
    pub following: RetriedStep,
    pub seen: BlockingMutex<Observations>,
    pub freshness: Arc<Freshness>,
    /// Dropped last: see [`crate::Service::stop`].
    pub group_commit: GroupCommit,
}

/// What a replica knows of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// The last entry of the journal that the store has.
    pub position: Position,
    /// The last entry that a power failure of the machine leaves in the store.
    pub synced: Position,
    /// The last entry of the journal at the last look; `None` before the first one.
    pub end: Option<Position>,
    /// The store has everything that the journal had this long ago; `None` while that was never so.
    pub staleness: Option<Duration>,
    /// The term in which this replica leads; `None` when it does not.
    pub leading: Option<Term>,
    /// Why nothing is written for now, as far as this replica was told; `None` when something is.
    pub held: Option<String>,
    /// The name of the replica that leads; an error text when it is not known. `None` when no
    /// replica leads, and without an election.
    pub leader: Option<Result<String, String>>,
    /// It was elected within the last minutes, and could not do a leader's work.
    pub is_unfit: bool,
}

/// What was seen of the journal and the election.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observations {
    end: Option<Position>,
    leader: Option<Result<String, String>>,
    unfit_until: Option<Instant>,
}

/// The running tasks of a replica. They continue when this is dropped, as the service does.
pub(super) struct Replication {
    state: Arc<ReplicationState>,
    tasks: [JoinHandle<()>; 3],
}

impl Replication {
    /// Begins to follow the journal, to look at its end, and to sync the store.
    pub fn start(state: Arc<ReplicationState>, surroundings: &Surroundings) -> Self {
        let span = || actor_span(&Span::none(), &surroundings.name_of("replication"));
        let following = tokio::spawn(Arc::clone(&state).follow().instrument(span()));
        let looking = tokio::spawn(Arc::clone(&state).look().instrument(span()));
        let syncing = tokio::spawn(Arc::clone(&state).sync().instrument(span()));
        Self { state, tasks: [following, looking, syncing] }
    }

    /// Why the journal cannot be followed; `None` while it can.
    pub fn failure(&self) -> Option<String> {
        self.state.following.describe_failure()
    }

    /// The store's place in the journal.
    pub fn replica(&self) -> &Replica {
        &self.state.replica
    }

    /// See [`crate::Service::replica_status`].
    pub fn status(&self) -> ReplicaStatus {
        self.state.status()
    }

    /// Adds the numbers of the replica to `metrics`.
    pub fn register(&self, metrics: &mut Metrics) {
        let state = Arc::clone(&self.state);
        metrics.add_group(move |samples| state.write_metrics(samples));
    }

    /// See [`crate::Service::lead`].
    pub async fn lead(&self, term: Term) -> Result<(), LeadError> {
        self.state.lead(term).await
    }

    /// What following the journal needs.
    pub fn state(&self) -> &ReplicationState {
        &self.state
    }

    /// Ends the tasks.
    pub fn stop(&self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl ReplicationState {
    fn status(&self) -> ReplicaStatus {
        let Observations { end, leader, unfit_until } = lock(&self.seen).clone();
        ReplicaStatus {
            position: self.replica.position(),
            synced: self.replica.synced(),
            end,
            staleness: self.freshness.age(),
            leading: self.replica.leading(),
            held: self.replica.held(),
            leader,
            is_unfit: unfit_until.is_some_and(|until| Instant::now() < until),
        }
    }

    fn write_metrics(&self, samples: &mut Samples<'_>) -> fmt::Result {
        let ReplicaStatus { position, end, staleness, leading, leader, .. } = self.status();
        let is_leading = u64::from(leading.is_some());
        samples.gauge("selfsame_cluster_leading", "1 while this replica leads", is_leading)?;
        let has_leader = u64::from(matches!(leader, Some(Ok(_))));
        samples.gauge("selfsame_cluster_has_leader", "1 while this replica knows who leads", has_leader)?;
        samples.gauge("selfsame_cluster_position", "The last entry of the journal that the store has", position.0)?;
        if let Some(end) = end {
            let help = "The last entry of the journal at the last look";
            samples.gauge("selfsame_cluster_journal_end", help, end.0)?;
        }
        let Some(age) = staleness else { return Ok(()) };
        let help = "Time since the store was seen to have everything that the journal has";
        samples.gauge("selfsame_cluster_staleness_seconds", help, age.as_secs_f64())
    }
}

fn lock(seen: &BlockingMutex<Observations>) -> MutexGuard<'_, Observations> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ready(actor: &'static str, answer: Result<Result<(), StoreError>, CallError>) -> Result<(), LeadError> {
    Ok(answer.map_err(|error| LeadError::Actor { actor, reason: error.to_string() })??)
}

impl ReplicationState {
    /// How long the work on the store that is being done has taken: on a disk that gives no
    /// answer, it does not end.
    pub fn busy_for(&self) -> Duration {
        self.group_commit.busy_for().max(self.replica.busy_for())
    }

    /// Until then, the others do not count on this replica as a leader.
    pub fn note_unfit_until(&self, time: Instant) {
        lock(&self.seen).unfit_until = Some(time);
    }

    /// See [`crate::Service::lead`]. When the future is dropped before it returned, this replica
    /// does not lead.
    pub async fn lead(self: &Arc<Self>, term: Term) -> Result<(), LeadError> {
        let Self { replica, slots, sign_in, group_commit, .. } = &**self;
        // What an earlier leadership handed in has its outcome then.
        let (settled, settling) = oneshot::channel();
        group_commit.settle(Box::new(move |_| settled.send(()).unwrap_or_default()));
        let _ = settling.await;
        self.catch_up().await?;
        let deadline = Instant::now() + RESTART_PATIENCE;
        ready("the request tracker", slots.request_tracker.call(RequestTrackerMessage::Reload, deadline).await)?;
        ready("the batcher", slots.batcher.call(BatcherMessage::Reload, deadline).await)?;
        // It has handled what it was told of the entries then.
        let session_registry = sign_in.session_registry.call(SessionRegistryMessage::Ping, deadline).await;
        ready("the session registry", session_registry.map(Ok))?;
        replica.lead(term);
        slots.batcher.cast(BatcherMessage::Wake);
        tracing::info!(%term, position = %replica.position(), "this replica leads");
        Ok(())
    }

    /// Applies the entries of the journal as they come. A leader gets its own entries, too; its
    /// store has them.
    async fn follow(self: Arc<Self>) {
        loop {
            match self.follow_until_failure().await {
                Ok(()) => {}
                Err(error) => self.following.record_failure(&error),
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    async fn follow_until_failure(self: &Arc<Self>) -> Result<(), StoreError> {
        self.reload_roots(&mut *self.stale_roots.lock().await)?;
        // Entries that do not follow those of the store are not applied.
        self.replica.end().await.map_err(StoreError::from)?;
        let mut entries = self.replica.follow();
        while let Some(entry) = entries.next().await {
            self.apply(entry?).await?;
            self.following.record_success();
        }
        Ok(())
    }

    /// Looks at the journal's end, and at who leads, from time to time.
    async fn look(self: Arc<Self>) {
        // An end that the store does not have yet, and when it was seen.
        let mut awaited: Option<(Instant, Position)> = None;
        loop {
            let looked_at = Instant::now();
            let end = self.replica.end().await;
            let leader = match &self.election {
                Some(election) => election.leader().await.map_err(|error| error.to_string()).transpose(),
                None => None,
            };
            {
                let mut seen = lock(&self.seen);
                seen.leader = leader;
                seen.end = end.as_ref().ok().copied().or(seen.end);
            }
            let is_seen = end.is_ok();
            match end {
                Ok(end) => {
                    awaited.get_or_insert((looked_at, end));
                }
                Err(error) => self.following.record_failure(&error),
            }
            let next_look = Instant::now() + LOOK_INTERVAL;
            if let Some((seen_at, end)) = awaited
                && timeout_at(next_look, self.replica.applied(end)).await.is_ok()
            {
                awaited = None;
                if !*self.stale_roots.lock().await {
                    self.freshness.note(seen_at);
                    // It may have failed, and no entry may come that would show that it works.
                    if is_seen {
                        self.following.record_success();
                    }
                }
            }
            sleep_until(next_look).await;
        }
    }

    /// Applies what the journal has at the moment. When this returns, everyone is told of it.
    async fn catch_up(self: &Arc<Self>) -> Result<(), StoreError> {
        let end = self.replica.end().await?;
        let mut entries = self.replica.follow();
        while self.replica.position() < end {
            match entries.next().await {
                Some(entry) => self.apply(entry?).await?,
                None => entries = self.replica.follow(),
            }
        }
        // The follower may have applied the last one, and tells it while it holds the lock.
        self.reload_roots(&mut *self.stale_roots.lock().await)
    }

    /// Writes an entry to the store, and tells those who wait for what it changes, also when the
    /// future is dropped in between.
    async fn apply(self: &Arc<Self>, entry: JournalEntry) -> Result<(), StoreError> {
        let applying = Arc::clone(self).apply_and_tell(entry);
        tokio::spawn(applying.in_current_span()).await.unwrap_or(Err(StoreError::Panicked))
    }

    async fn apply_and_tell(self: Arc<Self>, entry: JournalEntry) -> Result<(), StoreError> {
        let mut stale_roots = self.stale_roots.lock().await;
        if entry.position <= self.replica.position() {
            return Ok(());
        }
        let state = Arc::clone(&self);
        let apply = move || state.group_commit.beside(|| state.replica.apply(&state.store, &entry));
        let applied = self.blocking.run(apply).await;
        self.tell_while_locked(applied.unwrap_or(Err(StoreError::Panicked))?, &mut stale_roots)
    }

    /// Tells those who wait for it what the store has got from another replica.
    pub async fn tell(&self, applied: AppliedEntry) -> Result<(), StoreError> {
        self.tell_while_locked(applied, &mut *self.stale_roots.lock().await)
    }

    fn tell_while_locked(&self, applied: AppliedEntry, stale_roots: &mut bool) -> Result<(), StoreError> {
        let AppliedEntry { admitted, records, has_root_decisions, has_logged_events, groups } = applied;
        // The ledger has told its listeners of a sealed block.
        if let Some(sequence) = admitted {
            self.reader.publication.mark_durable(sequence);
        }
        for key in records {
            match key.kind {
                RecordKind::Transaction => {
                    let changed = SessionRegistryMessage::Changed(TransactionId::of_key(&key));
                    self.sign_in.session_registry.cast(changed);
                }
                RecordKind::SigningKeys => self.sign_in.session_registry.cast(SessionRegistryMessage::KeysReplaced),
                _ => {}
            }
        }
        if has_logged_events {
            self.events.tell_logged();
        }
        for group in groups {
            self.groups.state.slot.cast(GroupKeeperMessage::Changed(group));
        }
        *stale_roots |= has_root_decisions;
        self.reload_roots(stale_roots)
    }

    /// Reads the operator's decisions about roots, if an entry has changed them.
    fn reload_roots(&self, stale_roots: &mut bool) -> Result<(), StoreError> {
        if *stale_roots {
            self.verification.reload_root_decisions()?;
            *stale_roots = false;
        }
        Ok(())
    }

    /// Syncs the store every second.
    async fn sync(self: Arc<Self>) {
        loop {
            sleep(SYNC_INTERVAL).await;
            let state = Arc::clone(&self);
            let sync = move || state.group_commit.beside(|| state.replica.sync(&state.store));
            if let Err(error) = self.blocking.run(sync).await.unwrap_or(Err(StoreError::Panicked)) {
                tracing::warn!(%error, "the store of this replica cannot be synced");
                // What a leader cannot make durable, another replica should decide.
                self.replica.step_down_after(&error);
            }
        }
    }
}

// What the leader answers the other replicas.

/// The answer of a service that has no journal.
pub(super) fn no_replica() -> Vec<u8> {
    encode(&refusal("the service that was asked has no journal"))
}

/// Answers a message of another replica.
pub(super) async fn answer(state: &ReplicationState, registry: &RegistryHandle, message: &[u8]) -> Vec<u8> {
    // A message that arrives late, after another one began to lead, is refused by the journal.
    let answer = match state.replica.leading() {
        Some(_) => decided(state, registry, message).await,
        None => Ok(refusal("the replica that was asked does not lead")),
    };
    encode(&answer.unwrap_or_else(|error| refusal(&format!("the question cannot be read: {error}"))))
}

async fn decided(state: &ReplicationState, registry: &RegistryHandle, message: &[u8]) -> Result<Answer, DecodeError> {
    let Question { kind, content } = decode(message)?;
    Ok(match kind {
        QuestionKind::Write => {
            let (decided, decision) = oneshot::channel();
            state.group_commit.decide_forwarded(&content, Box::new(move |outcome| drop(decided.send(outcome))))?;
            match decision.await.unwrap_or(Err(StoreError::Panicked)) {
                Ok(ForwardedDecision { decision, position, applied }) => {
                    // The actors of this replica did not ask for this write, and some keep what it
                    // changed. Callers may wait here for what it brings.
                    if let Err(error) = state.tell(applied).await {
                        tracing::error!(%error, "what another replica has written cannot be read");
                    }
                    Answer::Answered { position: position.0, content: decision_content(decision) }
                }
                Err(error) => Answer::Failed { is_certain: is_certainly_unwritten(&error), reason: error.to_string() },
            }
        }
        QuestionKind::Submit => {
            let content = encode_answer(registry.submit_forwarded(decode_submission(&content)?).await);
            // The store has the request, or what it is refused for.
            Answer::Answered { position: state.replica.position().0, content }
        }
    })
}

/// Nothing was done.
fn refusal(reason: &str) -> Answer {
    Answer::Failed { is_certain: true, reason: reason.to_owned() }
}
