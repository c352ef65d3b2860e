//! The tree maintainer: applies blocks. It has the only [`Applier`], which the service uses before
//! the actor starts, so it is the only writer of accounts, addresses, tree and roots.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use selfsame_protocol::ledger::{Block, BlockEffects, Entry, Outcome, apply_block_with};
use selfsame_storage::{AllCores, BlockWriter, GroupCommit, StoreError};
use tracing::Instrument;

use super::actors::{BatcherMessage, RegistrySlots, RequestTrackerMessage, TreeMaintainerMessage};
use super::reader::Reader;
use crate::support::notify::{Announcer, ServiceEvent};
use crate::support::slot::{OpenedMessage, Slot, TracedMessage};
use crate::support::tasks::{RETRY_INTERVAL, RetriedStep, SerialBlocking};

/// Time from one look at the ledger without a notification to the next.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Time from one line about the heights to the next, while blocks are applied at the start.
const CATCH_UP_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The right to commit applied blocks and to publish them.
pub(crate) struct Applier {
    pub reader: Arc<Reader>,
    pub slot: Arc<Slot<TreeMaintainerMessage>>,
    pub batcher: Arc<Slot<BatcherMessage>>,
    pub request_tracker: Arc<Slot<RequestTrackerMessage>>,
    /// Runs the applying, one block after the other.
    pub work: SerialBlocking,
    pub step: Arc<RetriedStep>,
    announcer: Announcer,
    writer: BlockWriter,
    /// Dropped last, as in [`Reader`].
    _group_commit: GroupCommit,
}

impl Applier {
    /// The right to commit to the store of `reader`.
    pub fn new(reader: Arc<Reader>, slots: &RegistrySlots, announcer: Announcer, group_commit: GroupCommit) -> Self {
        let writer = BlockWriter::new(reader.store.clone());
        Self {
            work: SerialBlocking::new(reader.blocking.clone()),
            reader,
            slot: Arc::clone(&slots.tree_maintainer),
            batcher: Arc::clone(&slots.batcher),
            request_tracker: Arc::clone(&slots.request_tracker),
            step: Arc::new(RetriedStep::new("applying a block")),
            announcer,
            writer,
            _group_commit: group_commit,
        }
    }

    /// Publishes the stored state: a predecessor may have failed between its commit and its
    /// publication.
    pub fn publish_stored(&self) -> Result<(), StoreError> {
        self.reader.publication.publish(self.reader.store.snapshot()?);
        self.reader.publication.waiters.notify_all();
        Ok(())
    }

    /// Applies the block after the last applied one, if there is one, and publishes the new state.
    /// Blocks the thread.
    ///
    /// # Errors
    /// [`StoreError::UnfitBlock`] when the ledger has a block that is not the next one of this
    /// registry: an embedder's ledger may have several appenders. Its unsigned operations would
    /// otherwise count here.
    pub fn apply_next(&self) -> Result<Option<Arc<Block>>, StoreError> {
        let Reader { store, publication, .. } = &*self.reader;
        let snapshot = publication.snapshot();
        let seal = snapshot.tip().seal;
        // What this service has sealed and appended itself is not read and checked again.
        let own = self.reader.own_blocks.after(&seal);
        let block = match &own {
            Some(own) => Arc::clone(&own.block),
            None => match self.reader.ledgers_block_after(&seal)? {
                Some(block) => block,
                None => return Ok(None),
            },
        };
        let started = Instant::now();
        let signers = self.reader.signers.signers_of(&block.entries, &store.domain());
        let effects: BlockEffects = apply_block_with(&AllCores, &block, &signers, snapshot.as_ref(), snapshot.tip())?;
        blocking_fault_point!(store.fault_scope(), TreeMaintainerApply);
        match own {
            Some(own) => self.writer.commit_queued(&block, &effects, &own.sequences)?,
            None => self.writer.commit(&block, &effects)?,
        }
        // The outcomes are counted before the publication, so that a client that has seen a final
        // state finds it in the statistics.
        self.reader.counters.record_outcomes(&effects.outcomes);
        // The notification of the block may have been lost.
        self.reader.note_ledger_height(block.header.height);
        publication.publish(store.snapshot()?);
        self.announce_outcomes(&block, &effects.outcomes);
        self.reader.operations.apply_seconds.observe_duration(started.elapsed());
        self.reader.operations.record_published(self.slot.name(), &block, &effects.outcomes);
        tracing::debug!(
            height = block.header.height,
            operations = block.header.count,
            micros = started.elapsed().as_micros() as u64,
            root = %effects.tip.root,
            "applied a block"
        );
        Ok(Some(block))
    }

    /// Tells embedders what became of the requests of a published block.
    fn announce_outcomes(&self, block: &Block, outcomes: &[Outcome]) {
        if !self.announcer.has_receivers() {
            return;
        }
        let height = block.header.height;
        for (Entry { request_id, .. }, outcome) in block.entries.iter().zip(outcomes) {
            let (request_id, outcome) = (*request_id, outcome.clone());
            self.announcer.announce(|| ServiceEvent::RequestFinal { request_id, height, outcome });
        }
    }

    /// The same after a check that the ledger has the last applied block. A ledger that lost blocks
    /// and got others in their place would otherwise be noticed only when it has more blocks than
    /// were applied; until then the requests in them would stay open.
    pub fn check_and_apply_next(&self) -> Result<Option<Arc<Block>>, StoreError> {
        self.reader.check_ledger_has(&self.reader.publication.snapshot().tip().seal)?;
        self.apply_next()
    }

    /// Applies every block that the ledger has, before the service answers its first caller.
    ///
    /// A sealed block is synced, an applied block is not: a loss of power may remove applied blocks
    /// that clients have seen. After this function they are applied again. When applying fails, the
    /// tree maintainer retries. Many blocks are left only when the ledger is not that of the store;
    /// their heights are logged every ten seconds.
    ///
    /// # Errors
    /// [`StoreError::LedgerDiverged`] when the ledger does not have the last applied block. Another
    /// failure of the ledger keeps the registry read-only until the tree maintainer's retries have
    /// made the comparison.
    pub async fn catch_up(self: &Arc<Self>) -> Result<(), StoreError> {
        let applier = Arc::clone(self);
        let compared = self.work.run(move || applier.check_and_apply_next()).await;
        match compared.unwrap_or(Err(StoreError::Panicked)) {
            Err(error @ StoreError::LedgerDiverged { .. }) => return Err(error),
            Err(error) => {
                self.step.record_failure(&error);
                return Ok(());
            }
            Ok(_) => {}
        }
        let mut logged = Instant::now();
        while self.reader.publication.height() < self.reader.ledger_height() {
            if logged.elapsed() >= CATCH_UP_LOG_INTERVAL {
                let (height, last) = (self.reader.publication.height(), self.reader.ledger_height());
                tracing::info!(height, last, "applying sealed blocks");
                logged = Instant::now();
            }
            let applier = Arc::clone(self);
            match self.work.run(move || applier.apply_next()).await {
                Ok(Ok(Some(_))) => {}
                Ok(Ok(None)) => break,
                Ok(Err(error)) => {
                    self.step.record_failure(&error);
                    break;
                }
                Err(_) => {
                    self.step.record_failure(&StoreError::Panicked);
                    break;
                }
            }
        }
        Ok(())
    }
}

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
    type Msg = TracedMessage<TreeMaintainerMessage>;
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
        let OpenedMessage { span, caller, message } = message.open(state.applier.slot.name());
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
        myself: &ActorRef<TracedMessage<TreeMaintainerMessage>>,
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
