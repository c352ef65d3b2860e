//! The program's own supervisor: it starts services and the actors in front of them, and starts
//! each again when it ends.

use selfsame_actors::ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent, pg};
use selfsame_actors::{RegistryActor, ServiceChild, SignInActor, VerificationActor};

/// The process groups of an instance's actors, by which other actors find them.
pub fn group(instance: &str, part: &str) -> String {
    format!("{instance}/{part}/members")
}

/// The supervisor. Its arguments are the services with their instance names.
pub struct Host;

pub type Services = Vec<(&'static str, ServiceChild)>;

impl Actor for Host {
    type Msg = ();
    type State = Services;
    type Arguments = Services;

    async fn pre_start(&self, _: ActorRef<()>, services: Services) -> Result<Services, ActorProcessingErr> {
        Ok(services)
    }

    async fn post_start(&self, myself: ActorRef<()>, services: &mut Services) -> Result<(), ActorProcessingErr> {
        for (instance, service) in services {
            start(&myself, instance, service).await?;
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
        // The actors in front of a service end with it, and are started with the next one.
        match services.iter().find(|(_, service)| Some(service.name()) == name) {
            Some((instance, service)) => start(&myself, instance, service).await,
            None => Ok(()),
        }
    }
}

/// Starts a service, and the actors in front of it under its own actor: when the service ends, so
/// do they.
async fn start(host: &ActorRef<()>, instance: &str, service: &ServiceChild) -> Result<(), ActorProcessingErr> {
    let above = service.spawn(host.get_cell()).await?;
    let running = service.running().await;
    let (registry, _) = Actor::spawn_linked(None, RegistryActor, running.registry(), above.clone()).await?;
    let (verification, _) = Actor::spawn_linked(None, VerificationActor, running.verification(), above.clone()).await?;
    let (sign_in, _) = Actor::spawn_linked(None, SignInActor, running.sign_in(), above).await?;
    pg::join(group(instance, "registry"), vec![registry.get_cell()]);
    pg::join(group(instance, "verification"), vec![verification.get_cell()]);
    pg::join(group(instance, "sign-in"), vec![sign_in.get_cell()]);
    Ok(())
}
