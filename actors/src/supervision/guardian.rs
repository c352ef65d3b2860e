//! The supervisor of a service that has no embedder's supervisor.

use std::convert::Infallible;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::watch;

use super::error::ServiceError;
use super::supervisor::reason_of_end;

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
