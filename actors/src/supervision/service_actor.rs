//! A service as an actor, which an embedder's supervisor starts, restarts and stops like its own
//! actors.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use tokio::sync::{broadcast, watch};

use super::messages::ServiceMessage;
use super::service::Service;
use super::start::{ServiceError, ServiceParts};
use super::supervisor::reason_of_end;
use crate::support::notify::ServiceEvent;
use crate::support::tasks::OwnedTask;

/// How long the start of a service waits for the actors of one before it, which were killed with
/// their supervisor.
const PREDECESSOR_PATIENCE: Duration = Duration::from_secs(5);

/// A service that an embedder's supervisor starts as its child, and starts again when it ends.
///
/// [`ServiceChild::spawn`] has the form that supervisors take: it can be called any number of
/// times, one after another, and each starts the service on the same store under the same names.
/// Clones stand for the same child.
#[derive(Clone)]
pub struct ServiceChild {
    inner: Arc<Child>,
}

struct Child {
    parts: ServiceParts,
    /// The service that was started last, until it has ended.
    service: watch::Sender<Option<Arc<Service>>>,
}

impl ServiceChild {
    /// A child that is started with these parts, again after each end. Nothing is started yet.
    pub fn new(parts: ServiceParts) -> Self {
        Self { inner: Arc::new(Child { parts, service: watch::Sender::new(None) }) }
    }

    /// The name of the actor: `<instance>/service`.
    pub fn name(&self) -> String {
        format!("{}/service", self.inner.parts.instance())
    }

    /// Starts the service as an actor that is linked to `supervisor`. Returns when the service
    /// runs. Other actors call the service by messages to its actor.
    ///
    /// A service of this child that was killed or has failed ends first: its actors, its tasks and
    /// its committing thread. What was handed in to it is durable then, or was refused.
    ///
    /// # Errors
    /// [`SpawnErr`] with the [`ServiceError`]; no part of the service is left, so a later call can
    /// succeed.
    pub async fn spawn(&self, supervisor: ActorCell) -> Result<ActorRef<ServiceMessage>, SpawnErr> {
        Ok(Actor::spawn_linked(Some(self.name()), ServiceActor, self.clone(), supervisor).await?.0)
    }

    /// The service that runs now; `None` while none does. What its handles hand in after its end is
    /// refused; take them from the next one.
    pub fn service(&self) -> Option<Arc<Service>> {
        self.inner.service.borrow().clone()
    }

    /// The service that runs now, or the next one.
    pub async fn running(&self) -> Arc<Service> {
        let mut services = self.inner.service.subscribe();
        loop {
            if let Some(service) = services.borrow_and_update().clone() {
                return service;
            }
            if services.changed().await.is_err() {
                // The sender is a part of this child.
                std::future::pending::<()>().await;
            }
        }
    }

    /// What happens in the services of this child from now on, across their restarts; see
    /// [`Service::subscribe`].
    pub fn subscribe(&self) -> broadcast::Receiver<ServiceEvent> {
        self.inner.parts.announcer().subscribe()
    }

    /// Starts the service under its actor.
    async fn start(&self, myself: ActorCell) -> Result<Arc<Service>, ActorProcessingErr> {
        let Child { parts, service } = &*self.inner;
        let predecessor = service.send_replace(None);
        if let Some(predecessor) = predecessor
            && !predecessor.retire().await
        {
            // It is looked for again at the next start.
            service.send_replace(Some(predecessor));
            return Err("the service before this one has not ended: a write takes long".into());
        }
        if let Some(root) = ractor::registry::where_is(format!("{}/root", parts.instance())) {
            let _ = root.wait(Some(PREDECESSOR_PATIENCE)).await;
        }
        let started = Arc::new(Service::start_linked(parts.clone(), myself).await?);
        service.send_replace(Some(Arc::clone(&started)));
        parts.announcer().announce(|| ServiceEvent::Started);
        Ok(started)
    }
}

/// The actor of a service; see [`ServiceChild`].
///
/// It answers [`ServiceMessage`]s. It fails when the supervisors of the service gave up or an actor
/// is stuck, so that the embedder's supervisor starts the service again. When it is stopped, it
/// stops the service. When it is killed, the service's actors are killed with it, and what was
/// handed in to the service becomes durable.
pub struct ServiceActor;

/// State of the actor.
pub struct ServiceActorState {
    child: ServiceChild,
    service: Arc<Service>,
    /// Tells the actor when the service ends by itself.
    _watching: OwnedTask,
}

impl Drop for ServiceActorState {
    /// An actor that is killed gets no message before its end.
    fn drop(&mut self) {
        self.service.abandon();
    }
}

impl Actor for ServiceActor {
    type Msg = ServiceMessage;
    type State = ServiceActorState;
    type Arguments = ServiceChild;

    async fn pre_start(
        &self,
        myself: ActorRef<ServiceMessage>,
        child: ServiceChild,
    ) -> Result<ServiceActorState, ActorProcessingErr> {
        let service = child.start(myself.get_cell()).await?;
        let watched = Arc::clone(&service);
        let watching = tokio::spawn(async move {
            // An actor that has ended needs no message.
            let _ = myself.cast(ServiceMessage::Failed(watched.failed().await));
        });
        Ok(ServiceActorState { child, service, _watching: OwnedTask(watching.abort_handle()) })
    }

    async fn handle(
        &self,
        _: ActorRef<ServiceMessage>,
        message: ServiceMessage,
        state: &mut ServiceActorState,
    ) -> Result<(), ActorProcessingErr> {
        let service = &state.service;
        match message {
            // With a handle alone: a service ends whether or not its answers have come.
            ServiceMessage::Registry(message) => drop(tokio::spawn(message.answer(service.registry()))),
            ServiceMessage::Verification(message) => drop(tokio::spawn(message.answer(service.verification()))),
            ServiceMessage::SignIn(message) => drop(tokio::spawn(message.answer(service.sign_in()))),
            ServiceMessage::Health(reply) => drop(reply.send(service.actors())),
            ServiceMessage::Failures(reply) => drop(reply.send(service.failures())),
            ServiceMessage::Failed(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<ServiceMessage>,
        event: SupervisionEvent,
        state: &mut ServiceActorState,
    ) -> Result<(), ActorProcessingErr> {
        let root = state.service.root().get_id();
        let is_of_root = event.actor_id() == Some(root);
        match reason_of_end(event) {
            Some(reason) if is_of_root => Err(ServiceError::GaveUp { reason }.into()),
            _ => Ok(()),
        }
    }

    async fn post_stop(
        &self,
        _: ActorRef<ServiceMessage>,
        state: &mut ServiceActorState,
    ) -> Result<(), ActorProcessingErr> {
        state.child.inner.service.send_replace(None);
        state.service.retire().await;
        Ok(())
    }
}
