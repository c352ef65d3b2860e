//! Where an actor can be reached, even after a restart, and the messages to it, which carry the
//! span of their caller.

use std::time::Duration;

use futures_util::future::BoxFuture;
use ractor::rpc::CallResult;
use ractor::{ActorRef, RpcReplyPort};
use tokio::time::{Instant, timeout_at};
use tracing::Span;

use super::occupancy::{Ended, Occupancy};
use super::waiting_calls::WaitingCalls;

/// How long a call waits for an actor that restarts, unless its caller has less time.
pub(crate) const RESTART_PATIENCE: Duration = Duration::from_secs(5);

/// Why a call got no answer. In all cases but [`CallError::NoAnswer`] the actor did not get the
/// message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// As many calls wait for answers as the slot's limit allows.
    #[error("too many calls are waiting")]
    Overloaded,
    /// The actor was not running before the deadline, or stopped just before the message was sent.
    #[error("the actor is restarting")]
    Restarting,
    /// The service of the actor has ended, and nothing starts the actor again.
    #[error("the service has ended")]
    Ended,
    /// The actor stopped, or did not answer before the deadline. It may have handled the message.
    #[error("the actor did not answer")]
    NoAnswer,
}

/// A message that asks its actor for an answer, to show that the actor is not stuck.
pub(crate) trait Ping: Send + 'static {
    /// The message; the actor answers it as soon as it handles it.
    fn ping(reply: RpcReplyPort<()>) -> Self;
}

/// Where one actor is reached. Its mailbox has no bound, so the calls that wait for answers are
/// counted here.
pub(crate) struct Slot<M> {
    name: String,
    occupancy: Occupancy<ActorRef<TracedMessage<M>>>,
    waiting_calls: WaitingCalls,
}

impl<M: Send + 'static> Slot<M> {
    /// An empty slot for the actor `name`. At most `limit` calls wait for answers at a time; with
    /// `None` the callers limit their calls themselves.
    pub fn new(name: String, limit: Option<usize>) -> Self {
        let waiting_calls = WaitingCalls::new(limit.unwrap_or(usize::MAX));
        Self { name, occupancy: Occupancy::new(), waiting_calls }
    }

    /// The actor's name in the actor registry.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Changes how many calls may wait for answers at a time.
    pub fn set_limit(&self, limit: usize) {
        self.waiting_calls.set_limit(limit);
    }

    /// Registers a starting actor. Messages that are sent from now on wait in its mailbox until it
    /// has started. An actor that loads state therefore calls this first and misses no message.
    pub fn occupy(&self, actor: ActorRef<TracedMessage<M>>) {
        self.occupancy.occupy(actor);
    }

    /// Sends a message if an actor is registered. A sender keeps what must not be lost in the
    /// store, where the actor finds it when it starts.
    pub fn cast(&self, message: M) {
        if let Some(actor) = self.occupancy.occupant()
            && let Err(error) = actor.cast(message.into())
        {
            tracing::debug!(actor = self.name, %error, "a message to a stopped actor was dropped");
        }
    }

    /// Sends a message that carries a reply port and waits for the answer until `deadline`.
    pub async fn call<R: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<R>) -> M,
        deadline: Instant,
    ) -> Result<R, CallError> {
        let _waiting = self.waiting_calls.begin().ok_or(CallError::Overloaded)?;
        self.ask(message, deadline).await
    }

    async fn ask<R: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<R>) -> M,
        deadline: Instant,
    ) -> Result<R, CallError> {
        let actor = self.wait_until_running(deadline).await?;
        let patience = deadline.saturating_duration_since(Instant::now());
        match actor.call(|reply| TracedMessage::call(message(reply)), Some(patience)).await {
            Ok(CallResult::Success(answer)) => Ok(answer),
            Ok(CallResult::Timeout | CallResult::SenderError) => Err(CallError::NoAnswer),
            // The actor stopped after `running` returned it and before the message was sent.
            Err(_) => Err(CallError::Restarting),
        }
    }

    /// The actor, once it runs.
    async fn wait_until_running(&self, deadline: Instant) -> Result<ActorRef<TracedMessage<M>>, CallError> {
        let is_running = |actor: &ActorRef<TracedMessage<M>>| actor.get_status() <= ractor::ActorStatus::Running;
        let occupant = self.occupancy.occupant().filter(|actor| is_running(actor));
        let actor = match occupant {
            Some(actor) => actor,
            None => timeout_at(deadline, self.occupancy.wait_until_running(is_running))
                .await
                .map_err(|_| CallError::Restarting)?
                .map_err(|Ended| CallError::Ended)?,
        };
        Ok(ActorRef::clone(&actor))
    }
}

/// A slot as the heartbeat sees it, for every type of message.
pub(crate) trait MonitoredSlot: Send + Sync {
    /// The actor's name in the actor registry.
    fn name(&self) -> &str;

    /// Number of starts after the first.
    fn restarts(&self) -> u64;

    /// Calls that wait for answers.
    fn waiting_calls(&self) -> usize;

    /// Asks the actor for an answer. The ping does not count as a waiting call, and the limit does
    /// not refuse it.
    fn ping(&self, deadline: Instant) -> BoxFuture<'_, Result<(), CallError>>;

    /// Nothing starts the actor again: calls that wait for a start fail at once.
    fn end(&self);
}

impl<M: Ping> MonitoredSlot for Slot<M> {
    fn name(&self) -> &str {
        &self.name
    }

    fn restarts(&self) -> u64 {
        self.occupancy.restarts()
    }

    fn waiting_calls(&self) -> usize {
        self.waiting_calls.count()
    }

    fn ping(&self, deadline: Instant) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(self.ask(M::ping, deadline))
    }

    fn end(&self) {
        self.occupancy.end();
    }
}

// The spans that the log lines of actors are in.
//
// Each line that an actor logs is in a span `actor` with the fields `instance` and `actor`, so
// that the lines of two services in one process can be told apart. The span lasts as long as the
// handling of one message: what collects the events of a span until its end keeps nothing for
// longer. The span of a call is a child of its caller's, and so its lines have the id of the
// client's request too. The caller's span is entered as well, because a layer that leaves the
// spans of actors out looks for the next one among those that are entered. When no subscriber
// wants the spans, one atomic read is made for each.

/// The target of the spans, by which a subscriber can leave them out.
pub const ACTOR_SPANS: &str = "selfsame_actors::actor";

/// A message with the span of its caller.
///
/// A notification carries no span, because the work that it starts serves many requests.
pub(crate) struct TracedMessage<M> {
    caller: Span,
    message: M,
}

impl<M> TracedMessage<M> {
    /// The message of a call, with the caller's span.
    pub fn call(message: M) -> Self {
        Self { caller: Span::current(), message }
    }

    /// The message alone.
    pub fn into_message(self) -> M {
        self.message
    }

    /// The message, the span that an actor handles it in, and the caller's.
    pub fn open(self, actor: &str) -> OpenedMessage<M> {
        OpenedMessage { span: actor_span(&self.caller, actor), caller: self.caller, message: self.message }
    }
}

/// A message that its actor handles.
pub(crate) struct OpenedMessage<M> {
    /// What the actor does for the message happens in this span.
    pub span: Span,
    /// The span of the caller; one without effect for a notification.
    pub caller: Span,
    pub message: M,
}

impl<M> From<M> for TracedMessage<M> {
    /// A notification.
    fn from(message: M) -> Self {
        Self { caller: Span::none(), message }
    }
}

/// A span for what an actor does, below `parent` if that has an effect. `name` is the actor's name
/// in the actor registry, which begins with that of its instance. The span has the level of errors,
/// as that of the client's request, so that every line has it.
pub(crate) fn actor_span(parent: &Span, name: &str) -> Span {
    // The fields are made only when a subscriber wants the span.
    tracing::error_span!(
        target: ACTOR_SPANS,
        parent: parent,
        "actor",
        instance = split(name).0,
        actor = split(name).1
    )
}

/// The name of an actor's instance, and its name in that.
fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("", name))
}
