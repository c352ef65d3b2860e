//! The registry's state, split by right. Each actor is started with the type that has its right.
//!
//! | type | the right | its holder |
//! |---|---|---|
//! | [`Reader`] (`reader.rs`) | reads snapshots, records, blocks and marks | every part of the registry |
//! | [`Admitter`] | admits requests and deletes expired ones | the request tracker |
//! | [`Sealer`] | appends blocks to the ledger | the batcher |
//! | [`Applier`] | commits applied blocks and publishes them | the tree maintainer, and the service while it starts |
//!
//! The writers of the store ([`RequestWriter`], [`BlockWriter`]) and the [`Ledger`] are private
//! fields, so that no other file can use them. This state holds no only copy of anything that was
//! acknowledged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use selfsame_protocol::B256;
use selfsame_protocol::ledger::{Block, BlockEffects, Entry, IdPlace, Outcome, RequestId, Seal, apply_block_with};
use selfsame_protocol::registry::RuleParameters;
use selfsame_protocol::time::{ClockGuard, ClockStep, UnixSeconds};
use selfsame_storage::{
    AllCores, BlockWriter, GroupCommit, IdempotencyKey, IdempotencyRecord, Ledger, LedgerError, LedgerReader,
    OnDurable, RequestWriter, Store, StoreError,
};
use tokio::sync::oneshot;
use tracing::Span;

use super::blocks::{OwnBlock, OwnBlocks};
use super::limits::{AdmissionLimits, BatchLimits};
use super::messages::{BatcherMessage, RequestTrackerMessage, SealedBlock, SweepProgress, TreeMaintainerMessage};
use super::open_requests::{OpenOperations, RecoveredSigners};
use super::publication::Publication;
use super::reader::{Counters, Reader};
use super::waiters::BlockHashes;
use super::wakeup::Wakeup;
use crate::clock::{Clock, Random};
use crate::support::notify::{Announcer, ServiceEvent};
use crate::support::slot::{Slot, actor_span};
use crate::support::tasks::{Blocking, RetriedStep, SerialBlocking};

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

/// The right to admit requests and to delete expired ones.
pub(crate) struct Admitter {
    pub reader: Arc<Reader>,
    pub slot: Arc<Slot<RequestTrackerMessage>>,
    batcher: Arc<Wakeup>,
    random: Arc<dyn Random>,
    /// That of the last request id.
    last_id: Mutex<IdPlace>,
    writer: RequestWriter,
}

impl Admitter {
    /// A new request's id, which comes after those that this has made before.
    pub fn new_request_id(&self) -> RequestId {
        let mut random = [0; 8];
        self.random.fill(&mut random);
        let mut last = self.last_id.lock().unwrap_or_else(PoisonError::into_inner);
        *last = last.next(self.reader.clock.unix_millis());
        RequestId::from_place(*last, random)
    }

    /// See [`RequestWriter::admit`].
    pub fn admit(&self, sequence: u64, entry: Entry, idempotency: Option<IdempotencyKey>, durable: OnDurable) {
        self.writer.admit(sequence, entry, idempotency, durable);
    }

    /// See [`RequestWriter::after_admitted`].
    pub fn after_admitted(&self, durable: OnDurable) {
        self.writer.after_admitted(durable);
    }

    /// Marks admitted requests up to `sequence` as durable, and wakes the batcher.
    pub fn mark_durable(&self, sequence: u64) {
        self.batcher.mark_durable(&self.reader.publication, sequence);
    }

    /// Whether this service admits requests, or another replica does.
    pub fn leads(&self) -> bool {
        self.writer.leads()
    }

    /// Waits until everything that was handed in is durable or refused.
    pub async fn settle(&self) {
        let (settled, settling) = oneshot::channel();
        self.after_admitted(Box::new(move |_| settled.send(()).unwrap_or_default()));
        // Commits may fail at the moment. The store then shows which requests were written.
        let _ = settling.await;
    }

    /// Every open request with its sequence number, and the greatest sequence number in the store.
    pub fn load(&self) -> Result<(Vec<(u64, Entry)>, u64), StoreError> {
        Ok((self.reader.store.open_requests()?, self.reader.store.last_sequence()?))
    }

    /// The record of an idempotency key, also when its retention is over.
    pub fn idempotency(&self, key_hash: &B256) -> Result<Option<IdempotencyRecord>, StoreError> {
        self.reader.store.idempotency(key_hash)
    }

    /// Deletes final requests and idempotency keys whose retention is over, at most `limit` of each
    /// after `swept`. Returns the position of the sweep; `None` when no expired record was left.
    /// Blocks the thread.
    pub fn sweep(
        &self,
        mut swept: SweepProgress,
        limit: usize,
        is_in_use: impl Fn(&B256) -> bool,
    ) -> Result<Option<SweepProgress>, StoreError> {
        let now = self.reader.clock.unix_seconds();
        let limits = **self.reader.limits.load();
        let requests_before = now.minus(limits.request_retention.as_secs());
        let keys_before = now.minus(limits.idempotency_retention.as_secs());
        let has_swept = self.writer.sweep_requests(requests_before, self.reader.ledger.as_ref(), limit)?;
        let keys = self.writer.sweep_idempotency_keys(keys_before, swept.keys, limit, is_in_use)?;
        swept.keys = keys.or(swept.keys);
        Ok((has_swept || keys.is_some()).then_some(swept))
    }
}

/// Tells the batcher the outcome of what was handed in. When it is dropped without an outcome, as
/// by a committing thread that panics, it tells an error.
struct Told {
    slot: Arc<Slot<BatcherMessage>>,
    message: Option<MessageOf>,
}

type MessageOf = Box<dyn FnOnce(Result<(), LedgerError>) -> BatcherMessage + Send>;

impl Told {
    fn tell(mut self, outcome: Result<(), LedgerError>) {
        self.send(outcome);
    }

    fn send(&mut self, outcome: Result<(), LedgerError>) {
        if let Some(message) = self.message.take() {
            self.slot.cast(message(outcome));
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.send(Err(StoreError::Panicked.into()));
    }
}

/// The right to append blocks to the ledger.
pub(crate) struct Sealer {
    pub reader: Arc<Reader>,
    pub wakeup: Arc<Wakeup>,
    pub limits: BatchLimits,
    /// Runs the sealing, one block after the other.
    pub work: SerialBlocking,
    pub step: Arc<RetriedStep>,
    clock_guard: Mutex<ClockGuard>,
    ledger: Arc<dyn Ledger>,
    attempts: AtomicU64,
    /// Dropped last, as in [`Reader`].
    group_commit: GroupCommit,
}

impl Sealer {
    /// The time for a block that follows one of the time `last_block`.
    ///
    /// # Errors
    /// The clock was set far forward.
    pub fn block_time(&self, last_block: UnixSeconds) -> Result<UnixSeconds, ClockStep> {
        let mut guard = self.clock_guard.lock().unwrap_or_else(PoisonError::into_inner);
        let clock = &self.reader.clock;
        let (now, passed) = (clock.now(), clock.passed());
        guard.check(now, passed, last_block)?;
        Ok(UnixSeconds(now.as_secs()))
    }

    /// The ledger's last block, which the next one is linked to. Blocks the thread.
    ///
    /// # Errors
    /// [`StoreError::LedgerDiverged`] when the ledger does not have the last applied block: a block
    /// that is sealed on this end would be taken for one that was applied long ago.
    pub fn head(&self) -> Result<Seal, StoreError> {
        let applied = self.reader.publication.snapshot().tip().seal;
        let head = self.ledger.head();
        // A block of this service was sealed on an end that had been compared.
        if head != applied && !self.reader.own_blocks.has(&head) {
            self.reader.check_ledger_has(&applied)?;
        }
        Ok(head)
    }

    /// Hands a block, whose sealing began at `started`, to the ledger ([`Ledger::append`]); the
    /// batcher gets the outcome as a message. `sequences` are those of the block's requests.
    /// Returns the number of this attempt. May block the thread.
    pub fn append(&self, block: Block, sequences: Vec<u64>, started: Instant) -> u64 {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        let ended = move |appended| BatcherMessage::Sealed(SealedBlock { attempt, appended });
        let told = Told { slot: Arc::clone(&self.wakeup.slot), message: Some(Box::new(ended)) };
        let (reader, block) = (Arc::clone(&self.reader), Arc::new(block));
        let appended = {
            let block = Arc::clone(&block);
            move |appended: Result<(), LedgerError>| {
                // This is not in the batcher's task.
                let _entered = actor_span(&Span::none(), told.slot.name()).entered();
                // Here and not by the batcher: the block may be applied before it has the message.
                if appended.is_ok() {
                    reader.own_blocks.keep(OwnBlock { block: Arc::clone(&block), sequences });
                    reader.operations.seal_seconds.observe_duration(started.elapsed());
                    reader.operations.record_sealed(told.slot.name(), &block);
                    let height = block.header.height;
                    reader.note_ledger_height(height);
                    tracing::debug!(height, operations = block.header.count, "sealed a block");
                }
                told.tell(appended);
            }
        };
        self.ledger.append(&block, &self.group_commit, Box::new(appended));
        attempt
    }

    /// Whether this service seals blocks, or another replica does.
    pub fn leads(&self) -> bool {
        self.group_commit.leads()
    }

    /// Tells the batcher when everything that was handed in until now is durable or refused.
    pub fn settle(&self) {
        let settled = |_: Result<(), LedgerError>| BatcherMessage::Settled;
        let told = Told { slot: Arc::clone(&self.wakeup.slot), message: Some(Box::new(settled)) };
        self.group_commit.settle(Box::new(move |result| told.tell(result.map_err(LedgerError::from))));
    }

    /// Up to `limit` queued requests with sequence numbers above `after`, in order.
    pub fn queued_after(&self, after: u64, limit: usize) -> Result<Vec<(u64, Entry)>, StoreError> {
        self.reader.store.queued_after(after, limit)
    }

    /// The greatest sequence number that was ever given to a request.
    pub fn last_sequence(&self) -> Result<u64, StoreError> {
        self.reader.store.last_sequence()
    }
}

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

/// Time from one line about the heights to the next, while blocks are applied at the start.
const CATCH_UP_LOG_INTERVAL: Duration = Duration::from_secs(10);

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
        let admitter = Admitter {
            reader: Arc::clone(&reader),
            slot: Arc::clone(&slots.request_tracker),
            batcher: Arc::clone(&wakeup),
            random,
            last_id: Mutex::default(),
            writer: RequestWriter::new(store.clone(), group_commit.clone()),
        };
        let sealer = Sealer {
            reader: Arc::clone(&reader),
            wakeup,
            limits: batch,
            work: SerialBlocking::new(blocking.clone()),
            step: Arc::new(RetriedStep::new("sealing a block")),
            clock_guard: Mutex::new(ClockGuard::new(reader.clock.now(), reader.clock.passed())),
            ledger,
            attempts: 0.into(),
            group_commit: group_commit.clone(),
        };
        let applier = Applier {
            reader: Arc::clone(&reader),
            slot: Arc::clone(&slots.tree_maintainer),
            batcher: Arc::clone(&slots.batcher),
            request_tracker: Arc::clone(&slots.request_tracker),
            work: SerialBlocking::new(blocking),
            step: Arc::new(RetriedStep::new("applying a block")),
            announcer,
            writer: BlockWriter::new(store),
            _group_commit: group_commit,
        };
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
