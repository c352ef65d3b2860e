//! The registry's actors as the rest of the service sees them: the messages to them, their slots,
//! and the state, which gives each of them its right.
//!
//! | type | the right | its holder |
//! |---|---|---|
//! | [`Reader`] | reads snapshots, records, blocks and marks | every part of the registry |
//! | [`Admitter`] | admits requests and deletes expired ones | the request tracker |
//! | [`Sealer`] | appends blocks to the ledger | the batcher |
//! | [`Applier`] | commits applied blocks and publishes them | the tree maintainer, and the service while it starts |
//!
//! A right stands in the file of its actor. The writers of the store (`RequestWriter`,
//! `BlockWriter`) and the [`Ledger`] are private fields of it, so that no other file can use them.
//! This file makes each right once. The state holds no only copy of anything that was acknowledged.

use std::sync::Arc;

use arc_swap::ArcSwap;
use ractor::RpcReplyPort;
use selfsame_protocol::ledger::{Block, RequestId};
use selfsame_protocol::registry::{RecoveredSigner, RuleParameters};
use selfsame_storage::{GroupCommit, Ledger, LedgerError, LedgerReader, Store, StoreError, SweepPosition};

use super::batcher::{BatchLimits, Sealer};
use super::blocks::OwnBlocks;
use super::open_requests::{OpenOperations, RecoveredSigners};
use super::publication::Publication;
use super::reader::{Counters, Reader};
use super::request_tracker::{AdmissionLimits, Admitter};
use super::submit::{Submission, SubmitError};
use super::tree_maintainer::Applier;
use super::waiters::BlockHashes;
use super::wakeup::Wakeup;
use crate::support::slot::{Ping, Slot};
use crate::support::surroundings::Surroundings;

// Messages to the registry's actors.

/// A message to the tree maintainer.
pub(crate) enum TreeMaintainerMessage {
    /// The ledger has blocks that are not applied yet.
    Follow,
    /// Applying failed a while ago; retry.
    Retry,
    /// Some time has passed: look at the ledger without a notification, and whether it still has
    /// what was applied.
    Look,
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

/// A message to the batcher.
pub(crate) enum BatcherMessage {
    /// There may be requests to seal: a request became durable, a block was applied, or the time
    /// that a request may wait is over.
    Wake,
    /// Sealing failed a while ago; retry.
    Retry,
    /// What a predecessor handed in is durable or refused.
    Settled,
    /// This replica is about to lead: read the queue again.
    Reload(RpcReplyPort<Result<(), StoreError>>),
    /// An attempt to seal a block ended.
    Sealed(SealedBlock),
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

/// How an attempt to seal a block ended.
pub(crate) struct SealedBlock {
    /// The number of the attempt.
    pub attempt: u64,
    /// The outcome of the append.
    pub appended: Result<(), LedgerError>,
}

/// A message to the request tracker.
pub(crate) enum RequestTrackerMessage {
    /// Check a submission, and make it durable when it is admitted. The signer is what its
    /// signature recovers to.
    Admit(Box<Submission>, RecoveredSigner, RpcReplyPort<Result<RequestId, SubmitError>>),
    /// A block was applied: its requests are final and hold no locks any more.
    Applied(Arc<Block>),
    /// This replica is about to lead: read the open requests again.
    Reload(RpcReplyPort<Result<(), StoreError>>),
    /// The commit that admitted a request failed.
    NotDurable(RequestId),
    /// Delete expired requests and idempotency keys.
    Sweep,
    /// Continue a sweep after the last record that it looked at.
    ContinueSweep(SweepProgress),
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

/// The last idempotency key that a sweep looked at; `None` before the first. How far requests are
/// deleted is in the store.
#[derive(Clone, Copy, Default)]
pub(crate) struct SweepProgress {
    pub keys: Option<SweepPosition>,
}

impl Ping for TreeMaintainerMessage {
    fn ping(reply: RpcReplyPort<()>) -> Self {
        Self::Ping(reply)
    }
}

impl Ping for BatcherMessage {
    fn ping(reply: RpcReplyPort<()>) -> Self {
        Self::Ping(reply)
    }
}

impl Ping for RequestTrackerMessage {
    fn ping(reply: RpcReplyPort<()>) -> Self {
        Self::Ping(reply)
    }
}

// The slots of the actors, and the state.

/// The slots of the registry's actors.
#[derive(Clone)]
pub(crate) struct RegistrySlots {
    pub tree_maintainer: Arc<Slot<TreeMaintainerMessage>>,
    pub batcher: Arc<Slot<BatcherMessage>>,
    pub request_tracker: Arc<Slot<RequestTrackerMessage>>,
}

impl RegistrySlots {
    /// The slots of a service. Callers call only the request tracker; at most `waiting_calls`
    /// calls wait for its answers.
    pub fn new(surroundings: &Surroundings, waiting_calls: usize) -> Self {
        let name = |actor: &str| surroundings.name_of(&format!("registry/{actor}"));
        Self {
            tree_maintainer: Arc::new(Slot::new(name("tree-maintainer"), None)),
            batcher: Arc::new(Slot::new(name("batcher"), None)),
            request_tracker: Arc::new(Slot::new(name("request-tracker"), Some(waiting_calls))),
        }
    }
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
    pub async fn new(
        surroundings: &Surroundings,
        (rules, batch, limits): (RuleParameters, BatchLimits, AdmissionLimits),
        (store, group_commit): (Store, GroupCommit),
        ledger: Arc<dyn Ledger>,
    ) -> Result<Self, StoreError> {
        let Surroundings { clock, random, blocking, announcer, .. } = surroundings.clone();
        let slots = RegistrySlots::new(surroundings, limits.waiting_calls);
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
            blocking,
            _group_commit: group_commit.clone(),
        });
        let wakeup = Arc::new(Wakeup::new(Arc::clone(&slots.batcher)));
        let request_tracker = Arc::clone(&slots.request_tracker);
        let admitter =
            Admitter::new(Arc::clone(&reader), request_tracker, Arc::clone(&wakeup), random, group_commit.clone());
        let sealer = Sealer::new(Arc::clone(&reader), wakeup, batch, ledger, group_commit.clone());
        let applier = Applier::new(Arc::clone(&reader), &slots, announcer, group_commit);
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
