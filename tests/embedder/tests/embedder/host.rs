//! The embedder's own supervisor, on ractor alone: starts the service again when it ends, and tells
//! what it saw.

use selfsame_actors::ServiceChild;
use selfsame_actors::ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::mpsc::UnboundedSender;

/// Starts the child of another, on a supervisor that already runs.
pub struct Host;

pub enum HostMessage {
    Start(ServiceChild),
}

pub struct HostState {
    children: Vec<ServiceChild>,
    ended: UnboundedSender<String>,
}

impl Actor for Host {
    type Msg = HostMessage;
    type State = HostState;
    type Arguments = UnboundedSender<String>;

    async fn pre_start(
        &self,
        _: ActorRef<HostMessage>,
        ended: UnboundedSender<String>,
    ) -> Result<HostState, ActorProcessingErr> {
        Ok(HostState { children: Vec::new(), ended })
    }

    async fn handle(
        &self,
        myself: ActorRef<HostMessage>,
        HostMessage::Start(child): HostMessage,
        state: &mut HostState,
    ) -> Result<(), ActorProcessingErr> {
        child.spawn(myself.get_cell()).await?;
        state.children.push(child);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<HostMessage>,
        event: SupervisionEvent,
        state: &mut HostState,
    ) -> Result<(), ActorProcessingErr> {
        let (SupervisionEvent::ActorFailed(..) | SupervisionEvent::ActorTerminated(..)) = &event else {
            return Ok(());
        };
        let name = event.actor_cell().and_then(|cell| cell.get_name()).unwrap_or_default();
        let child = state.children.iter().find(|child| child.name() == name).cloned();
        // A test may have no use for it.
        drop(state.ended.send(name));
        if let Some(child) = child {
            child.spawn(myself.get_cell()).await?;
        }
        Ok(())
    }
}
