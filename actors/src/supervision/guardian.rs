//! The supervisor of a service that has no embedder's supervisor.

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::watch;

use super::error::ServiceError;

/// The actor: reports why the root of the supervision tree ended.
pub(super) struct Guardian;

/// A message to the guardian. Nothing sends one.
pub(crate) enum GuardianMessage {}

#[cfg(feature = "cluster")]
impl ractor::Message for GuardianMessage {}

impl Actor for Guardian {
    type Msg = GuardianMessage;
    type State = watch::Sender<Option<ServiceError>>;
    type Arguments = watch::Sender<Option<ServiceError>>;

    async fn pre_start(
        &self,
        _: ActorRef<GuardianMessage>,
        failed: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(failed)
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<GuardianMessage>,
        event: SupervisionEvent,
        failed: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(reason) = reason_of_end(event) {
            failed.send_replace(Some(ServiceError::GaveUp { reason }));
        }
        Ok(())
    }
}

/// Why an actor ended; `None` when the event is another one.
pub(super) fn reason_of_end(event: SupervisionEvent) -> Option<String> {
    match event {
        SupervisionEvent::ActorFailed(_, error) => Some(error.to_string()),
        SupervisionEvent::ActorTerminated(_, _, reason) => Some(reason.unwrap_or_else(|| "it was stopped".to_owned())),
        _ => None,
    }
}
