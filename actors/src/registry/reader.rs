//! What every part of the registry may read: snapshots, records, blocks and marks.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use selfsame_protocol::B256;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::ledger::{Block, Outcome, RequestId, Seal};
use selfsame_protocol::registry::RuleParameters;
use selfsame_storage::{
    AppliedBlock, Counter, FaultScope, GroupCommit, LedgerReader, Metrics, Place, RequestRecord, Samples, Snapshot,
    Store, StoreError,
};

use super::blocks::OwnBlocks;
use super::open_requests::{OpenOperations, RecoveredSigners};
use super::publication::Publication;
use super::request_tracker::AdmissionLimits;
use super::waiters::{BlockHashes, RequestProgress};
use crate::clock::Clock;
use crate::support::tasks::Blocking;

/// Counts since the start.
#[derive(Default)]
pub(crate) struct Counters {
    pub accepted: Counter,
    pub finalized: Counter,
    pub failed: Counter,
    pub open_requests: AtomicUsize,
}

impl Counters {
    /// Adds them to `metrics`. How many are open is read with what else is.
    pub(super) fn register(&self, metrics: &mut Metrics) {
        let help = "Requests by the state that they came to";
        let Self { accepted, finalized, failed, open_requests: _ } = self;
        for (state, count) in [("accepted", accepted), ("finalized", finalized), ("failed", failed)] {
            metrics.add_series("selfsame_registry_requests", help, [("state", state)], count.clone());
        }
    }

    pub(super) fn record_outcomes(&self, outcomes: &[Outcome]) {
        let applied = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Applied { .. })).count();
        self.finalized.inc_by(applied as u64);
        self.failed.inc_by((outcomes.len() - applied) as u64);
    }
}

/// Where a read of the store looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// In memory alone, on a thread that must not block.
    Memory,
    /// Also on the disk.
    Disk,
}

/// What every part of the registry may read.
pub(crate) struct Reader {
    pub(super) store: Store,
    pub(super) ledger: Arc<dyn LedgerReader>,
    /// The ledger's height of which its listeners were last notified. A question to the ledger
    /// itself may wait for a disk.
    pub(super) ledger_height: AtomicU64,
    pub(super) block_hashes: BlockHashes,
    pub publication: Publication,
    pub counters: Counters,
    pub operations: OpenOperations,
    pub signers: RecoveredSigners,
    pub(super) own_blocks: OwnBlocks,
    pub limits: ArcSwap<AdmissionLimits>,
    pub rules: RuleParameters,
    pub clock: Arc<dyn Clock>,
    /// Runs blocking work that needs no order.
    pub blocking: Blocking,
    /// Dropped last, so that the committing thread ends after every use of the store: see
    /// [`crate::Service::stop`].
    pub(super) _group_commit: GroupCommit,
}

impl Reader {
    /// The registry that signatures are made for.
    pub fn domain(&self) -> RegistryDomain {
        self.store.domain()
    }

    /// The scope in which the registry's fault points are passed.
    #[inline]
    pub fn fault_scope(&self) -> FaultScope {
        self.store.fault_scope()
    }

    /// The newest published snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.publication.snapshot()
    }

    /// Writes how the store does.
    pub fn write_store_metrics(&self, samples: &mut Samples<'_>) -> fmt::Result {
        self.store.write_metrics(samples)
    }

    /// A request's record.
    ///
    /// # Errors
    /// [`StoreError::NotInMemory`], if only memory is read.
    pub fn request(&self, request_id: &RequestId, reads: Reads) -> Result<Option<RequestRecord>, StoreError> {
        match reads {
            Reads::Memory => self.store.request_in_memory(request_id),
            Reads::Disk => self.store.request(request_id),
        }
    }

    /// The result of an applied block.
    pub fn applied_block(&self, height: u64) -> Result<Option<AppliedBlock>, StoreError> {
        self.store.applied_block(height)
    }

    /// A request's record, and how far the request is; `None` when the request is unknown or its
    /// record has expired. A request is final when the block that it is in was applied: the very
    /// block, not another one of the same height.
    ///
    /// # Errors
    /// [`StoreError::NotInMemory`], if only memory is read; [`StoreError::LedgerDiverged`] when
    /// another block was applied at the height where the ledger has the request.
    pub fn progress(
        &self,
        request_id: &RequestId,
        reads: Reads,
    ) -> Result<Option<(RequestRecord, RequestProgress)>, StoreError> {
        // The height is read first. Then the record is that from after the published block, and a
        // request in it whose record has no failure was applied.
        let published = self.publication.height();
        let Some(record) = self.request(request_id, reads)? else { return Ok(None) };
        let height = match &record.failure {
            Some(failure) => Some(failure.height),
            None => self.place(request_id, reads)?.map(|place| place.height),
        };
        let progress = match height {
            None => RequestProgress::Waiting,
            Some(height) if height > published => RequestProgress::Submitted { height },
            Some(height) => {
                if record.failure.is_none() {
                    self.block_hash(height, reads)?;
                }
                RequestProgress::Final { height }
            }
        };
        Ok(Some((record, progress)))
    }

    /// The hash of a block that a request is in.
    ///
    /// # Errors
    /// [`StoreError::NotInMemory`], if only memory is read; [`StoreError::LedgerDiverged`] when the
    /// block at this height was applied, and the ledger has another one in its place.
    pub fn block_hash(&self, height: u64, reads: Reads) -> Result<B256, StoreError> {
        match (self.block_hashes.get(height), reads) {
            (Some(hash), _) => return Ok(hash),
            (None, Reads::Memory) => return Err(StoreError::NotInMemory),
            (None, Reads::Disk) => {}
        }
        let missing = || StoreError::Missing { family: "blocks", what: format!("block {height}") };
        if height > self.publication.height() {
            // Not kept for later calls: it is compared when the block was applied.
            return self.ledger.hash_at(height)?.ok_or_else(missing);
        }
        let hash = self.store.applied_block_hash(height)?.ok_or_else(missing)?;
        if self.ledger.height_of(&hash)? != Some(height) {
            return Err(StoreError::LedgerDiverged { height });
        }
        self.block_hashes.put(height, hash);
        Ok(hash)
    }

    /// Checks that the ledger has the last applied block: not only a block of its height.
    ///
    /// # Errors
    /// [`StoreError::LedgerDiverged`], and those of the ledger.
    pub fn check_ledger_has(&self, applied: &Seal) -> Result<(), StoreError> {
        match applied.height == 0 || self.height_of(&applied.hash)? == Some(applied.height) {
            true => Ok(()),
            false => {
                // They were compared with the ledger as it was.
                self.block_hashes.clear();
                Err(StoreError::LedgerDiverged { height: applied.height })
            }
        }
    }

    /// A request's block and its position in that block.
    ///
    /// # Errors
    /// [`StoreError::NotInMemory`], if only memory is read.
    pub fn place(&self, request_id: &RequestId, reads: Reads) -> Result<Option<Place>, StoreError> {
        match reads {
            Reads::Memory => self.ledger.place_in_memory(request_id),
            Reads::Disk => self.ledger.place(request_id),
        }
    }

    /// The block at a height.
    pub fn block(&self, height: u64) -> Result<Option<Block>, StoreError> {
        self.ledger.block(height)
    }

    /// The height of the block with this hash.
    pub fn height_of(&self, block_hash: &B256) -> Result<Option<u64>, StoreError> {
        self.ledger.height_of(block_hash)
    }

    /// The ledger's height of which its listeners were last notified.
    pub fn ledger_height(&self) -> u64 {
        self.ledger_height.load(Ordering::Relaxed)
    }

    /// Height of the ledger's last block, of which its listeners may not have been notified yet.
    pub fn sealed_height(&self) -> u64 {
        self.ledger.head().height
    }

    /// The block of the ledger that follows `seal`.
    ///
    /// # Errors
    /// [`StoreError::UnfitBlock`] when it is not the next one of this registry.
    pub(super) fn ledgers_block_after(&self, seal: &Seal) -> Result<Option<Arc<Block>>, StoreError> {
        let height = seal.height + 1;
        let Some(block) = self.block(height)? else { return Ok(None) };
        let unfit = |reason| StoreError::UnfitBlock { height, reason };
        if !block.belongs_to(&self.domain()) {
            return Err(unfit("it belongs to another registry, its header names another chain or contract"));
        }
        if !block.follows(seal) {
            return Err(unfit("it does not follow the last applied block, or its header does not fit its operations"));
        }
        Ok(Some(Arc::new(block)))
    }

    pub(super) fn note_ledger_height(&self, height: u64) {
        self.ledger_height.fetch_max(height, Ordering::Relaxed);
    }
}
