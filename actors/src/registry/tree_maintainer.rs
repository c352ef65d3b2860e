//! The tree maintainer: applies blocks. It has the only [`Applier`], which the service uses before
//! the actor starts, so it is the only writer of accounts, addresses, tree and roots.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use selfsame_protocol::ledger::Block;
use selfsame_storage::StoreError;
use tracing::Instrument;

use super::messages::{BatcherMessage, RequestTrackerMessage, TreeMaintainerMessage};
use super::state::Applier;
use crate::support::slot::{Opened, Traced};
use crate::support::tasks::RETRY_INTERVAL;

/// Time from one look at the ledger without a notification to the next.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// The actor.
pub(crate) struct TreeMaintainer;

/// State of the tree maintainer. The registry's state is in the store.
pub(crate) struct TreeMaintainerState {
    applier: Arc<Applier>,
    /// Applying failed, and a [`TreeMaintainerMessage::Retry`] is on its way. Notifications before
    /// it are ignored.
    awaits_retry: bool,
}

impl Actor for TreeMaintainer {
    type Msg = Traced<TreeMaintainerMessage>;
    type State = TreeMaintainerState;
    type Arguments = Arc<Applier>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        applier: Arc<Applier>,
    ) -> Result<TreeMaintainerState, ActorProcessingErr> {
        applier.slot.occupy(myself.clone());
        fault_point!(applier.reader.fault_scope(), TreeMaintainerStart);
        // A predecessor may still be in its last commit, or may have failed before it published or
        // notified.
        applier.work.until_idle().await;
        applier.publish_stored()?;
        myself.cast(TreeMaintainerMessage::Look.into())?;
        myself.send_interval(LOOK_INTERVAL, || TreeMaintainerMessage::Look.into());
        Ok(TreeMaintainerState { applier, awaits_retry: false })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut TreeMaintainerState,
    ) -> Result<(), ActorProcessingErr> {
        let Opened { span, caller, message } = message.open(state.applier.slot.name());
        async {
            fault_point!(state.applier.reader.fault_scope(), TreeMaintainerHandle);
            match message {
                TreeMaintainerMessage::Ping(reply) => drop(reply.send(())),
                TreeMaintainerMessage::Follow | TreeMaintainerMessage::Look if state.awaits_retry => {}
                TreeMaintainerMessage::Retry => {
                    state.awaits_retry = false;
                    state.follow(&myself, Applier::check_and_apply_next).await?;
                }
                TreeMaintainerMessage::Look => state.follow(&myself, Applier::check_and_apply_next).await?,
                // After a failure the ledger may be another one.
                TreeMaintainerMessage::Follow if state.applier.step.failing().is_some() => {
                    state.follow(&myself, Applier::check_and_apply_next).await?;
                }
                TreeMaintainerMessage::Follow => state.follow(&myself, Applier::apply_next).await?,
            }
            Ok(())
        }
        .instrument(span)
        .instrument(caller)
        .await
    }
}

impl TreeMaintainerState {
    /// Applies the next block, if there is one.
    async fn follow(
        &mut self,
        myself: &ActorRef<Traced<TreeMaintainerMessage>>,
        apply: fn(&Applier) -> Result<Option<Arc<Block>>, StoreError>,
    ) -> Result<(), ActorProcessingErr> {
        let applier = Arc::clone(&self.applier);
        match self.applier.work.run(move || apply(&applier)).await? {
            Ok(Some(block)) => {
                self.applier.step.record_success();
                fault_point!(self.applier.reader.fault_scope(), TreeMaintainerPublished);
                self.applier.reader.publication.waiters.notify_block(&block);
                self.applier.batcher.cast(BatcherMessage::Wake);
                self.applier.request_tracker.cast(RequestTrackerMessage::Applied(block));
                // The actor applies one block per message, so that it answers pings between blocks.
                myself.cast(TreeMaintainerMessage::Follow.into())?;
            }
            Ok(None) => self.applier.step.record_success(),
            // The store has a later block than the published snapshot. After a restart the actor
            // publishes the stored state.
            Err(error @ StoreError::StaleCommit { .. }) => return Err(error.into()),
            Err(error) => {
                self.applier.step.record_failure(&error);
                self.awaits_retry = true;
                myself.send_after(RETRY_INTERVAL, || TreeMaintainerMessage::Retry.into());
            }
        }
        Ok(())
    }
}
