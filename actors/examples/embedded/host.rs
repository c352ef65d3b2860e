//! The program's own supervisor: it starts services, and each again when it ends.

use selfsame_actors::ServiceChild;
use selfsame_actors::ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

/// The supervisor. Its arguments are the services.
pub struct Host;

pub type Services = Vec<ServiceChild>;

impl Actor for Host {
    type Msg = ();
    type State = Services;
    type Arguments = Services;

    async fn pre_start(&self, _: ActorRef<()>, services: Services) -> Result<Services, ActorProcessingErr> {
        Ok(services)
    }

    async fn post_start(&self, myself: ActorRef<()>, services: &mut Services) -> Result<(), ActorProcessingErr> {
        for service in services {
            service.spawn(myself.get_cell()).await?;
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<()>,
        event: SupervisionEvent,
        services: &mut Services,
    ) -> Result<(), ActorProcessingErr> {
        let (SupervisionEvent::ActorFailed(..) | SupervisionEvent::ActorTerminated(..)) = &event else {
            return Ok(());
        };
        let name = event.actor_cell().and_then(|cell| cell.get_name());
        if let Some(service) = services.iter().find(|service| Some(service.name()) == name) {
            service.spawn(myself.get_cell()).await?;
        }
        Ok(())
    }
}
