//! Supervisors: one starts its children in their order, and starts those again that end; the
//! guardian is the supervisor of a service that has no embedder's.
//!
//! They are built on the supervision events of ractor alone, so that they compile with every set of
//! ractor's features.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{Instrument, Span};

use super::start::{ServiceError, SupervisionSettings};
use crate::support::notify::{Announcer, ServiceEvent};
use crate::support::slot::actor_span;

/// How long is waited for the end of an actor that was killed. One that blocks its thread takes
/// longer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Which children are started again when one ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// That one alone.
    OneForOne,
    /// That one and those after it, which depend on it.
    RestForOne,
}

/// A child: its name in the actor registry, and how it is started under a supervisor.
#[derive(Clone)]
pub(super) struct ChildSpec {
    name: String,
    spawn: Arc<Spawn>,
}

type Spawn = dyn Fn(String, ActorCell) -> BoxFuture<'static, Result<ActorCell, SpawnErr>> + Send + Sync;

impl ChildSpec {
    /// A child that `spawn` starts, with this name and the supervisor that it is linked to.
    pub fn new<Spawning>(name: String, spawn: impl Fn(String, ActorCell) -> Spawning + Send + Sync + 'static) -> Self
    where
        Spawning: Future<Output = Result<ActorCell, SpawnErr>> + Send + 'static,
    {
        Self { name, spawn: Arc::new(move |name, supervisor| Box::pin(spawn(name, supervisor))) }
    }
}

/// What a supervisor is started with.
pub(super) struct SupervisorArguments {
    /// The children, in the order of their start.
    pub children: Vec<ChildSpec>,
    pub strategy: Strategy,
    /// The most restarts within the window of `settings`.
    pub most_restarts: usize,
    pub settings: SupervisionSettings,
    /// Tells embedders which children ended.
    pub announcer: Announcer,
}

/// Why a supervisor ended.
#[derive(Debug, thiserror::Error)]
#[error("`{child}` ended ({reason}), and its supervisor had made {restarts} restarts within {} s", within.as_secs())]
struct GaveUp {
    child: String,
    reason: String,
    restarts: usize,
    within: Duration,
}

/// A message of a supervisor to itself.
pub(crate) enum SupervisorMessage {
    /// The pause after the end of a child is over.
    StartAgain {
        /// The child's place in the order.
        child: usize,
    },
}

/// The actor.
pub(super) struct Supervisor;

/// State of a supervisor.
pub(super) struct SupervisorState {
    arguments: SupervisorArguments,
    /// The actor of each child; `None` while it is not started.
    running: Vec<Option<ActorCell>>,
    /// When restarts were made, within the window.
    restarts: VecDeque<Instant>,
}

impl Actor for Supervisor {
    type Msg = SupervisorMessage;
    type State = SupervisorState;
    type Arguments = SupervisorArguments;

    async fn pre_start(
        &self,
        _: ActorRef<SupervisorMessage>,
        arguments: SupervisorArguments,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        let running = arguments.children.iter().map(|_| None).collect();
        Ok(SupervisorState { arguments, running, restarts: VecDeque::new() })
    }

    async fn post_start(
        &self,
        myself: ActorRef<SupervisorMessage>,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        state.start(0..state.running.len(), &myself).instrument(span(&myself)).await
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMessage>,
        SupervisorMessage::StartAgain { child }: SupervisorMessage,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        // The end of a child before it may have had it started meanwhile.
        if state.running[child].is_some() {
            return Ok(());
        }
        let last = match state.arguments.strategy {
            Strategy::OneForOne => child + 1,
            Strategy::RestForOne => state.running.len(),
        };
        let starting_again = async {
            for later in (child..last).rev() {
                state.end(later, &myself).await;
            }
            state.start(child..last, &myself).await
        };
        starting_again.instrument(span(&myself)).await
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMessage>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        // Others than the present children are of no interest.
        let child = event.actor_id().and_then(|id| state.child(id));
        match child.zip(reason_of_end(event)) {
            Some((child, reason)) => state.restart(child, reason, &myself).instrument(span(&myself)).await,
            None => Ok(()),
        }
    }
}

impl SupervisorState {
    /// The place of a running child.
    fn child(&self, id: ActorId) -> Option<usize> {
        self.running.iter().position(|running| running.as_ref().is_some_and(|cell| cell.get_id() == id))
    }

    /// Starts children in their order. The start of one that fails is the end of that child.
    async fn start(
        &mut self,
        children: Range<usize>,
        myself: &ActorRef<SupervisorMessage>,
    ) -> Result<(), ActorProcessingErr> {
        for child in children {
            let ChildSpec { name, spawn } = &self.arguments.children[child];
            // The children of a supervisor that was killed may be about to end.
            if let Some(predecessor) = ractor::registry::where_is(name.clone()) {
                let _ = predecessor.wait(Some(PATIENCE)).await;
            }
            match spawn(name.clone(), myself.get_cell()).await {
                Ok(cell) => self.running[child] = Some(cell),
                Err(error) => {
                    self.restart(child, error.to_string(), myself).await?;
                    // Those after it are started with it.
                    if self.arguments.strategy == Strategy::RestForOne {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Kills a child if it runs. Its name is free for a successor when this returns, unless it
    /// blocks its thread; the start of a successor fails then, and is made again.
    async fn end(&mut self, child: usize, myself: &ActorRef<SupervisorMessage>) {
        if let Some(cell) = self.running[child].take() {
            cell.unlink(myself.get_cell());
            if let Err(error) = cell.kill_and_wait(Some(PATIENCE)).await {
                tracing::debug!(actor = self.arguments.children[child].name, %error, "an actor does not end");
            }
        }
    }

    /// A child ended: has it started again after a pause, or gives up and ends the others.
    async fn restart(
        &mut self,
        child: usize,
        reason: String,
        myself: &ActorRef<SupervisorMessage>,
    ) -> Result<(), ActorProcessingErr> {
        let SupervisorArguments { children, most_restarts, settings, announcer, .. } = &self.arguments;
        let name = children[child].name.clone();
        self.running[child] = None;
        let now = Instant::now();
        while self.restarts.front().is_some_and(|restart| now.duration_since(*restart) >= settings.window) {
            self.restarts.pop_front();
        }
        if self.restarts.len() >= *most_restarts {
            let gave_up = GaveUp { child: name, reason, restarts: self.restarts.len(), within: settings.window };
            for other in (0..self.running.len()).rev() {
                self.end(other, myself).await;
            }
            return Err(gave_up.into());
        }
        self.restarts.push_back(now);
        let pause = settings.pause(self.restarts.len());
        tracing::warn!(actor = name, reason, "an actor ended and is started again");
        announcer.announce(|| ServiceEvent::ActorEnded { actor: name, reason });
        if pause.is_zero() {
            myself.cast(SupervisorMessage::StartAgain { child })?;
        } else {
            myself.send_after(pause, move || SupervisorMessage::StartAgain { child });
        }
        Ok(())
    }
}

/// The span of what a supervisor does.
fn span(myself: &ActorRef<SupervisorMessage>) -> Span {
    actor_span(&Span::none(), myself.get_name().as_deref().unwrap_or_default())
}

/// Why an actor ended; `None` when the event is another one.
pub(super) fn reason_of_end(event: SupervisionEvent) -> Option<String> {
    match event {
        SupervisionEvent::ActorFailed(_, error) => Some(error.to_string()),
        SupervisionEvent::ActorTerminated(_, _, reason) => Some(reason.unwrap_or_else(|| "it was stopped".to_owned())),
        _ => None,
    }
}

// The supervisor of a service that has no embedder's supervisor.

/// The actor: reports why the root of the supervision tree ended. Nothing sends it a message.
pub(super) struct Guardian;

impl Actor for Guardian {
    type Msg = Infallible;
    type State = watch::Sender<Option<ServiceError>>;
    type Arguments = watch::Sender<Option<ServiceError>>;

    async fn pre_start(
        &self,
        _: ActorRef<Infallible>,
        failed: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(failed)
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Infallible>,
        event: SupervisionEvent,
        failed: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(reason) = reason_of_end(event) {
            failed.send_replace(Some(ServiceError::GaveUp { reason }));
        }
        Ok(())
    }
}
