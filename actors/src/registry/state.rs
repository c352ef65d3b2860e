//! The registry's state, split by right. Each actor is started with the type that has its right.
//!
//! | type | the right | its holder |
//! |---|---|---|
//! | [`Reader`] | reads snapshots, records, blocks and marks | every part of the registry |
//! | [`Admitter`] | admits requests and deletes expired ones | the request tracker |
//! | [`Sealer`] | appends blocks to the ledger | the batcher |
//! | [`Applier`] | commits applied blocks and publishes them | the tree maintainer, and the service while it starts |
//!
//! A right stands in the file of its actor. The writers of the store (`RequestWriter`, `BlockWriter`)
//! and the [`Ledger`] are private fields of it, so that no other file can use them. This file makes
//! each right once. The state holds no only copy of anything that was acknowledged.

use std::sync::Arc;

use arc_swap::ArcSwap;
use selfsame_protocol::registry::RuleParameters;
use selfsame_storage::{GroupCommit, Ledger, LedgerReader, Store, StoreError};

use super::batcher::{BatchLimits, Sealer};
use super::blocks::OwnBlocks;
use super::messages::{BatcherMessage, RequestTrackerMessage, TreeMaintainerMessage};
use super::open_requests::{OpenOperations, RecoveredSigners};
use super::publication::Publication;
use super::reader::{Counters, Reader};
use super::request_tracker::{AdmissionLimits, Admitter};
use super::tree_maintainer::Applier;
use super::waiters::BlockHashes;
use super::wakeup::Wakeup;
use crate::clock::{Clock, Random};
use crate::support::notify::Announcer;
use crate::support::slot::Slot;
use crate::support::tasks::Blocking;

/// The slots of the registry's actors.
#[derive(Clone)]
pub(crate) struct RegistrySlots {
    pub tree_maintainer: Arc<Slot<TreeMaintainerMessage>>,
    pub batcher: Arc<Slot<BatcherMessage>>,
    pub request_tracker: Arc<Slot<RequestTrackerMessage>>,
}

impl RegistrySlots {
    /// The slots of an instance. Callers call only the request tracker; at most `waiting_calls`
    /// calls wait for its answers.
    pub fn new(instance: &str, waiting_calls: usize) -> Self {
        let name = |actor: &str| format!("{instance}/registry/{actor}");
        Self {
            tree_maintainer: Arc::new(Slot::new(name("tree-maintainer"), None)),
            batcher: Arc::new(Slot::new(name("batcher"), None)),
            request_tracker: Arc::new(Slot::new(name("request-tracker"), Some(waiting_calls))),
        }
    }
}

/// The parts that the registry is built from.
pub(crate) struct RegistryParts {
    pub instance: String,
    pub rules: RuleParameters,
    pub batch: BatchLimits,
    pub limits: AdmissionLimits,
    pub store: Store,
    pub ledger: Arc<dyn Ledger>,
    pub group_commit: GroupCommit,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub blocking: Blocking,
    pub announcer: Announcer,
}

/// The registry's rights, each constructed once.
pub(crate) struct RegistryState {
    pub reader: Arc<Reader>,
    pub admitter: Arc<Admitter>,
    pub sealer: Arc<Sealer>,
    pub applier: Arc<Applier>,
    pub slots: RegistrySlots,
}

impl RegistryState {
    /// Reads the stored state and listens to the ledger.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn new(parts: RegistryParts) -> Result<Self, StoreError> {
        let RegistryParts {
            instance,
            rules,
            batch,
            limits,
            store,
            ledger,
            group_commit,
            clock,
            random,
            blocking,
            announcer,
        } = parts;
        let slots = RegistrySlots::new(&instance, limits.waiting_calls);
        let publication = Publication::new(store.snapshot()?, store.last_sequence()?, limits.status_waiters);
        let reader = Arc::new(Reader {
            store: store.clone(),
            ledger: Arc::clone(&ledger) as Arc<dyn LedgerReader>,
            ledger_height: 0.into(),
            block_hashes: BlockHashes::default(),
            publication,
            counters: Counters::default(),
            operations: OpenOperations::default(),
            signers: RecoveredSigners::default(),
            own_blocks: OwnBlocks::default(),
            limits: ArcSwap::from_pointee(limits),
            rules,
            clock,
            blocking: blocking.clone(),
            _group_commit: group_commit.clone(),
        });
        let wakeup = Arc::new(Wakeup::new(Arc::clone(&slots.batcher)));
        let request_tracker = Arc::clone(&slots.request_tracker);
        let admitter =
            Admitter::new(Arc::clone(&reader), request_tracker, Arc::clone(&wakeup), random, group_commit.clone());
        let sealer = Sealer::new(Arc::clone(&reader), wakeup, batch, blocking.clone(), ledger, group_commit.clone());
        let applier = Applier::new(Arc::clone(&reader), &slots, blocking, announcer, group_commit);
        let state =
            Self { reader, admitter: Arc::new(admitter), sealer: Arc::new(sealer), applier: Arc::new(applier), slots };
        state.follow_ledger().await?;
        Ok(state)
    }

    /// Notifies the tree maintainer of every new block, and stores the height that the ledger has
    /// now.
    async fn follow_ledger(&self) -> Result<(), StoreError> {
        let (reader, tree_maintainer) = (Arc::downgrade(&self.reader), Arc::clone(&self.slots.tree_maintainer));
        self.reader.ledger.listen(Box::new(move |height| {
            if let Some(reader) = reader.upgrade() {
                reader.note_ledger_height(height);
                tree_maintainer.cast(TreeMaintainerMessage::Follow);
            }
        }));
        let ledger = Arc::clone(&self.reader.ledger);
        let height = self.reader.blocking.run(move || ledger.head().height).await;
        self.reader.note_ledger_height(height.map_err(|_| StoreError::Panicked)?);
        Ok(())
    }
}
