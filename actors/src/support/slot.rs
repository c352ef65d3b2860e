//! Where an actor can be reached, even after a restart.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::future::BoxFuture;
use ractor::rpc::CallResult;
use ractor::{ActorRef, RpcReplyPort};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::traced::Traced;

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
    occupant: ArcSwapOption<ActorRef<Traced<M>>>,
    /// Wakes the calls that wait for an actor, in the order in which they came, so that a
    /// simulation repeats.
    occupied: Notify,
    waiting_calls: AtomicUsize,
    /// The most calls that may wait for answers at a time.
    limit: AtomicUsize,
    starts: AtomicU64,
    /// The service has ended; no actor comes any more.
    has_ended: AtomicBool,
}

impl<M: Send + 'static> Slot<M> {
    /// An empty slot for the actor `name`. At most `limit` calls wait for answers at a time; with
    /// `None` the callers limit their calls themselves.
    pub fn new(name: String, limit: Option<usize>) -> Self {
        Self {
            name,
            occupant: ArcSwapOption::empty(),
            occupied: Notify::new(),
            waiting_calls: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit.unwrap_or(usize::MAX)),
            starts: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
        }
    }

    /// Changes how many calls may wait for answers at a time.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Registers a starting actor. Messages that are sent from now on wait in its mailbox until it
    /// has started. An actor that loads state therefore calls this first and misses no message.
    pub fn occupy(&self, actor: ActorRef<Traced<M>>) {
        self.starts.fetch_add(1, Ordering::Relaxed);
        self.occupant.store(Some(Arc::new(actor)));
        self.occupied.notify_waiters();
    }

    /// Sends a message if an actor is registered. A sender keeps what must not be lost in the
    /// store, where the actor finds it when it starts.
    pub fn cast(&self, message: M) {
        if let Some(actor) = self.occupant.load_full()
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
        let _waiting = WaitingCall::begin(self)?;
        self.ask(message, deadline).await
    }

    async fn ask<R: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<R>) -> M,
        deadline: Instant,
    ) -> Result<R, CallError> {
        let actor = self.wait_until_running(deadline).await?;
        let patience = deadline.saturating_duration_since(Instant::now());
        match actor.call(|reply| Traced::call(message(reply)), Some(patience)).await {
            Ok(CallResult::Success(answer)) => Ok(answer),
            Ok(CallResult::Timeout | CallResult::SenderError) => Err(CallError::NoAnswer),
            // The actor stopped after `running` returned it and before the message was sent.
            Err(_) => Err(CallError::Restarting),
        }
    }

    /// The actor, once it runs.
    async fn wait_until_running(&self, deadline: Instant) -> Result<ActorRef<Traced<M>>, CallError> {
        loop {
            // It is registered before the look, so no actor that comes after it is missed.
            let mut occupied = pin!(self.occupied.notified());
            occupied.as_mut().enable();
            let occupant = self.occupant.load_full();
            if let Some(actor) = occupant.filter(|actor| actor.get_status() <= ractor::ActorStatus::Running) {
                return Ok(ActorRef::clone(&actor));
            }
            if self.has_ended.load(Ordering::Acquire) {
                return Err(CallError::Ended);
            }
            timeout_at(deadline, occupied).await.map_err(|_| CallError::Restarting)?;
        }
    }
}

/// A call that waits for its answer; counted until it is dropped.
struct WaitingCall<'slot, M> {
    slot: &'slot Slot<M>,
}

impl<'slot, M> WaitingCall<'slot, M> {
    fn begin(slot: &'slot Slot<M>) -> Result<Self, CallError> {
        let waiting = Self { slot };
        if slot.waiting_calls.fetch_add(1, Ordering::Relaxed) >= slot.limit.load(Ordering::Relaxed) {
            Err(CallError::Overloaded)
        } else {
            Ok(waiting)
        }
    }
}

impl<M> Drop for WaitingCall<'_, M> {
    fn drop(&mut self) {
        self.slot.waiting_calls.fetch_sub(1, Ordering::Relaxed);
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
        self.starts.load(Ordering::Relaxed).saturating_sub(1)
    }

    fn waiting_calls(&self) -> usize {
        self.waiting_calls.load(Ordering::Relaxed)
    }

    fn ping(&self, deadline: Instant) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(self.ask(M::ping, deadline))
    }

    fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        self.occupied.notify_waiters();
    }
}
