//! Where an actor can be reached, also after it was restarted.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use ractor::rpc::CallResult;
use ractor::{ActorRef, Message, RpcReplyPort};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Why a call got no answer. In all cases but [`CallError::NoAnswer`] the actor has not seen the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// As many calls are inside as may be.
    #[error("too many calls are waiting")]
    Overloaded,
    /// The actor is not running and did not come back in time.
    #[error("the actor is restarting")]
    Restarting,
    /// The actor stopped, or took too long, with the message in its mailbox or in work.
    #[error("the actor did not answer")]
    NoAnswer,
}

/// The place of one actor. Its mailbox is unbounded, so what is inside is counted here and bounded.
pub(crate) struct Slot<M> {
    name: String,
    occupant: watch::Sender<Option<ActorRef<M>>>,
    inside: AtomicUsize,
    limit: AtomicUsize,
    starts: AtomicU64,
}

impl<M: Message> Slot<M> {
    /// An empty slot for the actor `name`; at most `limit` calls wait for answers at a time.
    pub fn new(name: String, limit: usize) -> Self {
        Self {
            name,
            occupant: watch::Sender::new(None),
            inside: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit),
            starts: AtomicU64::new(0),
        }
    }

    /// The actor's name in the actor registry.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Changes how many calls may wait for answers at a time.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Calls waiting for answers.
    pub fn inside(&self) -> usize {
        self.inside.load(Ordering::Relaxed)
    }

    /// A starting actor takes its place. Messages sent from now on wait in its mailbox until it has started, so an actor that
    /// loads state should come here first and misses nothing.
    pub fn occupy(&self, actor: ActorRef<M>) {
        self.starts.fetch_add(1, Ordering::Relaxed);
        self.occupant.send_replace(Some(actor));
    }

    /// Starts after the first.
    pub fn restarts(&self) -> u64 {
        self.starts.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// Sends a message if the actor is there. What must not be lost is durable elsewhere and found at its start.
    pub fn cast(&self, message: M) {
        let occupant = self.occupant.borrow().clone();
        if let Some(actor) = occupant
            && let Err(error) = actor.cast(message)
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
        let _inside = self.enter()?;
        self.probe(message, deadline).await
    }

    /// Like [`Slot::call`], but never refused for overload.
    pub async fn probe<R: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<R>) -> M,
        deadline: Instant,
    ) -> Result<R, CallError> {
        let actor = self.running(deadline).await?;
        let patience = deadline.saturating_duration_since(Instant::now());
        match actor.call(message, Some(patience)).await {
            Ok(CallResult::Success(answer)) => Ok(answer),
            Ok(CallResult::Timeout | CallResult::SenderError) => Err(CallError::NoAnswer),
            // It stopped between our look and the send.
            Err(_) => Err(CallError::Restarting),
        }
    }

    /// The actor, once it runs.
    async fn running(&self, deadline: Instant) -> Result<ActorRef<M>, CallError> {
        let is_alive = |occupant: &Option<ActorRef<M>>| {
            occupant.as_ref().is_some_and(|actor| actor.get_status() <= ractor::ActorStatus::Running)
        };
        let mut occupant = self.occupant.subscribe();
        match timeout_at(deadline, occupant.wait_for(is_alive)).await {
            Ok(Ok(actor)) => actor.clone().ok_or(CallError::Restarting),
            _ => Err(CallError::Restarting),
        }
    }

    fn enter(&self) -> Result<Inside<'_, M>, CallError> {
        let inside = Inside { slot: self };
        if self.inside.fetch_add(1, Ordering::Relaxed) >= self.limit.load(Ordering::Relaxed) {
            Err(CallError::Overloaded)
        } else {
            Ok(inside)
        }
    }
}

/// One call inside; leaving is its drop.
struct Inside<'slot, M: Message> {
    slot: &'slot Slot<M>,
}

impl<M: Message> Drop for Inside<'_, M> {
    fn drop(&mut self) {
        self.slot.inside.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How long a call waits for an actor that restarts, unless its caller has less time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
