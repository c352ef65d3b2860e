//! The follower of one contract: an actor that takes a step after each interval, later after
//! failures, and at once when a proof names a root that is unknown.
//!
//! A step runs in a task of its own, so that the actor answers while a node does not.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tracing::{Instrument, Span};

use super::error::ChainError;
use super::messages::FollowerMessage;
use super::progress::Step;
use super::state::FollowedSource;
use crate::support::slot::{Opened, Traced, actor_span};
use crate::support::tasks::OwnedTask;

/// The longest time that a step may take.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// The longest time between two steps after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The shortest time between a step and the next one that an unknown root causes; of a contract
/// that is asked seldom, a quarter of its interval.
const SHORTEST_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The actor.
pub(crate) struct Follower;

/// State of a follower.
pub(crate) struct FollowerState {
    shared: Arc<FollowedSource>,
    /// The step that runs. It ends with the actor.
    running: Option<OwnedTask>,
    /// The callers that wait for the end of the step.
    looking: Vec<RpcReplyPort<bool>>,
    /// Whether a step follows the running one at once.
    again: bool,
    /// What the last step did; `None` after a failure and before the first one.
    last: Option<Step>,
    /// Failed steps since the last good one.
    failures: u32,
    /// When the last step ended.
    ended: Option<Instant>,
    timer: Option<JoinHandle<Result<(), ractor::MessagingErr<Traced<FollowerMessage>>>>>,
}

impl Actor for Follower {
    type Msg = Traced<FollowerMessage>;
    type State = FollowerState;
    type Arguments = Arc<FollowedSource>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        shared: Arc<FollowedSource>,
    ) -> Result<FollowerState, ActorProcessingErr> {
        shared.slot.occupy(myself.clone());
        fault_point!(shared.fault_scope, ChainFollowerStart);
        shared.slot.cast(FollowerMessage::Poll);
        let (running, timer, ended, last) = (None, None, None, None);
        Ok(FollowerState { shared, running, looking: Vec::new(), again: false, last, failures: 0, ended, timer })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut FollowerState,
    ) -> Result<(), ActorProcessingErr> {
        let Opened { span, caller, message } = message.open(state.shared.slot.name());
        async {
            fault_point!(state.shared.fault_scope, ChainFollowerHandle);
            state.handle(message, &myself);
            Ok(())
        }
        .instrument(span)
        .instrument(caller)
        .await
    }
}

impl FollowerState {
    /// Handles a message without waiting. An error of `send` means that the caller no longer waits.
    fn handle(&mut self, message: FollowerMessage, myself: &ActorRef<Traced<FollowerMessage>>) {
        match message {
            FollowerMessage::Ping(reply) => drop(reply.send(())),
            FollowerMessage::Poll if self.running.is_some() => self.again = true,
            FollowerMessage::Poll => self.begin_step(),
            FollowerMessage::Look(reply) => self.look(reply),
            FollowerMessage::Stepped(outcome) => self.finish_step(outcome, myself),
        }
    }

    fn look(&mut self, reply: RpcReplyPort<bool>) {
        let interval = SHORTEST_LOOK_INTERVAL.max(self.shared.interval() / 4);
        let was_just_looked_at = self.ended.is_some_and(|ended| ended.elapsed() < interval);
        // After a failure the next step waits: unknown roots must not flood a node that fails.
        // While old blocks are read, the newest root is not known for a long time.
        let cannot_be_now = self.failures > 0 || self.last == Some(Step::More);
        if cannot_be_now || (was_just_looked_at && self.running.is_none()) {
            drop(reply.send(!cannot_be_now));
            return;
        }
        self.looking.retain(|waiting| !waiting.is_closed());
        self.looking.push(reply);
        self.begin_step();
    }

    fn begin_step(&mut self) {
        if self.running.is_some() {
            return;
        }
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
        let shared = Arc::clone(&self.shared);
        // Not below the span of a caller that looks: a step serves all.
        let span = actor_span(&Span::none(), shared.slot.name());
        let step = tokio::spawn(async move { timeout(STEP_LIMIT, shared.step()).await }.instrument(span));
        self.running = Some(OwnedTask(step.abort_handle()));
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let outcome = match step.await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => Err(ChainError::Overdue(STEP_LIMIT)),
                Err(error) if error.is_cancelled() => return,
                Err(_) => Err(ChainError::Panicked),
            };
            shared.slot.cast(FollowerMessage::Stepped(outcome));
        });
    }

    fn finish_step(&mut self, outcome: Result<Step, ChainError>, myself: &ActorRef<Traced<FollowerMessage>>) {
        self.running = None;
        self.ended = Some(Instant::now());
        self.shared.record(&outcome, self.failures);
        let interval = self.shared.interval();
        let pause = match outcome {
            Ok(Step::More) => Duration::ZERO,
            Ok(Step::Done) => interval,
            Err(_) => (interval * 2_u32.saturating_pow(self.failures.min(10))).min(LONGEST_PAUSE.max(interval)),
        };
        self.failures = if outcome.is_ok() { 0 } else { self.failures.saturating_add(1) };
        self.last = outcome.ok();
        let was_looked_at = self.last == Some(Step::Done);
        self.looking.drain(..).for_each(|reply| drop(reply.send(was_looked_at)));
        let pause = if std::mem::take(&mut self.again) { Duration::ZERO } else { pause };
        if pause.is_zero() {
            self.begin_step();
        } else {
            self.timer = Some(myself.send_after(pause, || FollowerMessage::Poll.into()));
        }
    }
}
