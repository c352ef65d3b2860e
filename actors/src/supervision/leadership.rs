//! The leadership of replicas: the election, and the actor that takes part in it, and leads while
//! this replica is elected.
//!
//! The work is a task, so that the actor answers while the election does not.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use selfsame_storage::{StoreError, Term};
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep};
use tracing::{Instrument, Span};

use super::replication::{LeadError, ReplicationState};
use crate::support::slot::{OpenedMessage, Ping, Slot, TracedMessage, actor_span};
use crate::support::tasks::OwnedTask;

// Who leads the replicas of a journal.

/// Why an election gave no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("who leads cannot be decided: {0}")]
pub struct ElectionError(pub String);

/// Gives out the leadership of a journal to one replica at a time.
///
/// The journal takes the appends of a leadership's term from the moment when it is given out until
/// it ends, and of no other term meanwhile. A replica that finds out late that its leadership ended
/// can therefore do no harm.
pub trait Election: Send + Sync + 'static {
    /// Waits until this replica leads. When the future is dropped, it may lead all the same, until
    /// a time-out.
    ///
    /// # Errors
    /// Those who decide cannot be reached. The caller tries again.
    fn campaign(&self) -> BoxFuture<'_, Result<Box<dyn Leadership>, ElectionError>>;

    /// The name of the replica that leads; `None` when none does.
    ///
    /// # Errors
    /// Those who decide cannot be reached.
    fn leader(&self) -> BoxFuture<'_, Result<Option<String>, ElectionError>>;

    /// Whether another replica runs that could lead in place of this one. Without one, a leader
    /// that cannot do its work keeps the leadership: an election would change nothing.
    fn has_successor(&self) -> bool;
}

/// A leadership that was given out.
pub trait Leadership: Send + Sync + 'static {
    /// Its term.
    fn term(&self) -> Term;

    /// Keeps the leadership for as long as the future is polled. Returns why it ended, or may have
    /// ended.
    fn keep(&self) -> BoxFuture<'_, ElectionError>;

    /// Gives the leadership up, so that another replica can lead at once. Without this it ends by a
    /// time-out.
    fn resign(&self) -> BoxFuture<'_, ()>;
}

// The actor of a replica.

/// A replica with more entries than this to apply does not stand for election: no client could
/// write until it has applied them.
const MOST_BEHIND: u64 = 1000;

/// Time until a replica that is behind looks again.
const BEHIND_INTERVAL: Duration = Duration::from_millis(500);

/// Time until a replica whose election had no outcome tries again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Time for which a replica that could not lead does not stand for election.
const ABSTENTION: Duration = Duration::from_secs(5);

/// A leader that could not write, seal or apply blocks for this long gives the leadership up, and
/// so does one whose disk has given no answer for this long.
const FAILING_LIMIT: Duration = Duration::from_secs(10);

/// Time for which the others do not count on a replica that could not do a leader's work. Without
/// it, replicas with the same trouble would pass the leadership around.
const UNFIT_TIME: Duration = Duration::from_secs(300);

/// Time between two looks at whether this replica still leads.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// A message to the leadership actor.
pub(crate) enum LeadershipMessage {
    /// The task ended: because this replica was withdrawn, or with a panic.
    Ended(Result<(), JoinError>),
    /// Do not stand for election any more, give the leadership up, and answer then.
    Withdraw(RpcReplyPort<()>),
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

impl Ping for LeadershipMessage {
    fn ping(reply: RpcReplyPort<()>) -> Self {
        Self::Ping(reply)
    }
}

/// What the actor works with.
pub(crate) struct Candidate {
    pub slot: Arc<Slot<LeadershipMessage>>,
    state: Arc<ReplicationState>,
    election: Arc<dyn Election>,
    is_candidate: watch::Sender<bool>,
}

/// Why this replica does not lead any more, or did not begin to.
#[derive(Debug, thiserror::Error)]
enum NotLeading {
    #[error(transparent)]
    Election(#[from] ElectionError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the leadership ended: {0}")]
    Ended(ElectionError),
    #[error(transparent)]
    Lead(#[from] LeadError),
    #[error("another replica began to lead, or this one was told to step down")]
    SteppedDown,
    #[error("its store could not be written: {0}")]
    FailedWrite(StoreError),
    #[error("for {seconds} s: {0}", seconds = FAILING_LIMIT.as_secs())]
    Failing(String),
    #[error("the disk has given no answer for {} s", .0.as_secs())]
    Hanging(Duration),
}

impl NotLeading {
    /// How long this replica does not stand for election then.
    fn pause(&self) -> Duration {
        match self {
            Self::Election(_) | Self::Store(_) | Self::Ended(_) => RETRY_INTERVAL,
            Self::Lead(_) | Self::SteppedDown | Self::FailedWrite(_) | Self::Failing(_) | Self::Hanging(_) => {
                ABSTENTION
            }
        }
    }

    /// Whether this replica was elected and could not do a leader's work.
    fn is_unfitness(&self) -> bool {
        match self {
            Self::FailedWrite(_) | Self::Failing(_) | Self::Hanging(_) => true,
            Self::Lead(LeadError::Store(error)) => matches!(error, StoreError::Database(_)),
            _ => false,
        }
    }
}

impl Candidate {
    pub fn new(slot: Arc<Slot<LeadershipMessage>>, state: Arc<ReplicationState>, election: Arc<dyn Election>) -> Self {
        Self { slot, state, election, is_candidate: watch::Sender::new(true) }
    }

    /// Takes part in elections until this replica is withdrawn.
    async fn run(self: Arc<Self>) {
        let mut is_known = false;
        while *self.is_candidate.borrow() {
            let Err(error) = self.lead_once().await else { continue };
            if error.is_unfitness() {
                self.state.note_unfit_until(Instant::now() + UNFIT_TIME);
            }
            // While the election cannot be held, the texts differ by the member of etcd at most.
            let is_undecided = matches!(error, NotLeading::Election(_) | NotLeading::Store(_));
            if !(is_undecided && is_known) {
                tracing::warn!(%error, "this replica does not lead");
            }
            is_known = is_undecided;
            tokio::select! {
                () = sleep(error.pause()) => {}
                () = self.withdrawn() => {}
            }
        }
    }

    /// Waits until this replica is elected, and leads until it no longer can.
    async fn lead_once(&self) -> Result<(), NotLeading> {
        let elected = async {
            self.await_recent_state().await?;
            Ok::<_, NotLeading>(self.election.campaign().await?)
        };
        let leadership: Box<dyn Leadership> = tokio::select! {
            elected = elected => elected?,
            () = self.withdrawn() => return Ok(()),
        };
        let outcome = tokio::select! {
            biased;
            ended = leadership.keep() => Err(NotLeading::Ended(ended)),
            error = self.lead(leadership.term()) => Err(error),
            () = self.withdrawn() => Ok(()),
        };
        self.state.replica.step_down();
        leadership.resign().await;
        outcome
    }

    async fn await_recent_state(&self) -> Result<(), NotLeading> {
        let replica = &self.state.replica;
        while replica.end().await.map_err(StoreError::from)?.0 > replica.position().0 + MOST_BEHIND
            || self.state.busy_for() >= FAILING_LIMIT
        {
            sleep(BEHIND_INTERVAL).await;
        }
        Ok(())
    }

    /// Leads in a term; returns when this replica found that it does not, or should not.
    async fn lead(&self, term: Term) -> NotLeading {
        let leading = async {
            if let Err(error) = self.state.lead(term).await {
                return error.into();
            }
            while self.state.replica.leading() == Some(term) {
                sleep(CHECK_INTERVAL).await;
            }
            self.state.replica.failed_write().map_or(NotLeading::SteppedDown, NotLeading::FailedWrite)
        };
        tokio::select! {
            biased;
            outcome = leading => outcome,
            // Also before this replica leads: a disk that gives no answer keeps it from that, too.
            failing = self.failing() => failing,
        }
    }

    /// Returns when this replica could not do a leader's work for a while, and another one runs.
    async fn failing(&self) -> NotLeading {
        let mut failing_since = None;
        loop {
            let failure = self.state.registry.failures().into_iter().next();
            let failure = failure.map(|reason| (*failing_since.get_or_insert_with(Instant::now), reason));
            let busy = self.state.busy_for();
            let not_leading = match failure {
                _ if busy >= FAILING_LIMIT => Some(NotLeading::Hanging(busy)),
                Some((since, reason)) if since.elapsed() >= FAILING_LIMIT => Some(NotLeading::Failing(reason)),
                Some(_) => None,
                None => {
                    failing_since = None;
                    None
                }
            };
            if let Some(not_leading) = not_leading.filter(|_| self.election.has_successor()) {
                return not_leading;
            }
            sleep(CHECK_INTERVAL).await;
        }
    }

    async fn withdrawn(&self) {
        // The sender is in `self`.
        let _ = self.is_candidate.subscribe().wait_for(|is_candidate| !is_candidate).await;
    }
}

/// The actor.
pub(crate) struct LeadershipActor;

/// State of the actor.
pub(crate) struct LeadershipState {
    candidate: Arc<Candidate>,
    /// A leadership that it has when the actor fails ends by a time-out.
    _task: OwnedTask,
    withdrawing: Vec<RpcReplyPort<()>>,
    has_ended: bool,
}

impl Actor for LeadershipActor {
    type Msg = TracedMessage<LeadershipMessage>;
    type State = LeadershipState;
    type Arguments = Arc<Candidate>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        candidate: Arc<Candidate>,
    ) -> Result<LeadershipState, ActorProcessingErr> {
        candidate.slot.occupy(myself);
        fault_point!(candidate.state.store.fault_scope(), LeadershipStart);
        // One before this may have led.
        candidate.state.replica.step_down();
        let span = actor_span(&Span::none(), candidate.slot.name());
        let task = tokio::spawn(Arc::clone(&candidate).run().instrument(span));
        let running = OwnedTask(task.abort_handle());
        let slot = Arc::clone(&candidate.slot);
        tokio::spawn(async move {
            let ended = task.await;
            slot.cast(LeadershipMessage::Ended(ended));
        });
        Ok(LeadershipState { candidate, _task: running, withdrawing: Vec::new(), has_ended: false })
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut LeadershipState,
    ) -> Result<(), ActorProcessingErr> {
        let OpenedMessage { span, caller, message } = message.open(state.candidate.slot.name());
        async {
            fault_point!(state.candidate.state.store.fault_scope(), LeadershipHandle);
            state.handle(message)
        }
        .instrument(span)
        .instrument(caller)
        .await
    }
}

impl LeadershipState {
    /// Handles a message without waiting. An error of `send` means that the caller no longer waits.
    fn handle(&mut self, message: LeadershipMessage) -> Result<(), ActorProcessingErr> {
        match message {
            LeadershipMessage::Ping(reply) => drop(reply.send(())),
            LeadershipMessage::Withdraw(reply) => {
                self.candidate.is_candidate.send_replace(false);
                self.withdrawing.push(reply);
            }
            LeadershipMessage::Ended(Ok(())) => self.has_ended = true,
            // It is that of an actor before this one.
            LeadershipMessage::Ended(Err(error)) if error.is_cancelled() => {}
            LeadershipMessage::Ended(Err(error)) => return Err(error.into()),
        }
        if self.has_ended {
            self.withdrawing.drain(..).for_each(|reply| drop(reply.send(())));
        }
        Ok(())
    }
}
