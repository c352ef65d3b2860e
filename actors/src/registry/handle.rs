//! The registry's handle, for writing and reading.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use selfsame_protocol::B256;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::gateway::{GatewayRequestState, GatewayStatusResponse, transaction_hash};
use selfsame_protocol::ledger::{Block, BlockReceipts, BlockResult, RequestId, SignedHead, is_valid_root};
use selfsame_protocol::registry::RuleParameters;
use selfsame_protocol::tree::Root;
use selfsame_storage::{
    AppliedBlock, GroupCommit, HistogramSnapshot, Metrics, Samples, Snapshot, SnapshotReads, StoreError,
};
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use super::actors::{RegistryState, RequestTrackerMessage};
use super::head_signer::{HeadSigner, HeadSigningError};
use super::publication::Publication;
use super::reader::{Reader, Reads};
use super::request_tracker::AdmissionLimits;
use super::waiters::RequestProgress;
use crate::support::replica::{AwaitError, CatchingUp, Forwarding, NotCaughtUp};
use crate::support::slot::Slot;
use crate::support::source_limits::{SourceLimiter, TooManyRequests, register_refusals};
use crate::support::tasks::{BoundedBlocking, RetriedStep};

/// How long it is waited for a sealed block to be applied.
const CATCH_UP_PATIENCE: Duration = Duration::from_secs(1);

/// How long a read waits for a block that another replica has named.
const HEIGHT_PATIENCE: Duration = Duration::from_secs(2);

/// The most reads of the disk at a time, for each core. A disk answers many at a time.
const DISK_READS: usize = 8;

/// Statistics of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RegistryStatistics {
    /// Requests accepted since the start.
    pub accepted: u64,
    /// Requests finalized since the start.
    pub finalized: u64,
    /// Requests failed since the start.
    pub failed: u64,
    /// Requests that are not final.
    pub open_requests: usize,
    /// The most requests that may be open.
    pub queue_length: usize,
    /// Clients waiting for a final state.
    pub status_waiters: usize,
    /// Height of the ledger.
    pub ledger_height: u64,
    /// Height of the published state.
    pub applied_height: u64,
    /// Number of accounts.
    pub accounts: u64,
}

/// A block with the result of applying it.
#[derive(Clone, Debug)]
pub struct LedgerBlock {
    /// The block as it is in the ledger.
    pub block: Block,
    /// The result of applying it; `None` while the block waits to be applied.
    pub result: Option<BlockResult>,
}

/// Why a wait for a final state ended early.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WaitError {
    /// As many clients wait as [`AdmissionLimits::status_waiters`] allows.
    #[error("too many clients are waiting for final states; poll without ?wait, or try again")]
    TooMany,
    /// The request's state could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a block that a caller has named is not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeightError {
    /// No replica has sealed a block of this height.
    #[error("there is no such block yet; the newest is {newest}")]
    NoSuchBlock {
        /// The height of the newest block of the journal.
        newest: u64,
    },
    /// The source has asked for too much that does not exist.
    #[error(transparent)]
    TooMany(TooManyRequests),
    /// The block is not shown in time.
    #[error("this replica does not show the block in time")]
    Late,
}

/// The registry, for front-ends and embedders. Cheap to clone. The handle stays valid when the
/// actors restart.
#[derive(Clone)]
pub struct RegistryHandle {
    pub(super) inner: Arc<Inner>,
}

/// What the clones of a handle share.
pub(super) struct Inner {
    pub(super) reader: Arc<Reader>,
    pub(super) request_tracker: Arc<Slot<RequestTrackerMessage>>,
    pub(super) per_source: SourceLimiter,
    /// Receipts that are computed. Apart from the requests, so that reading does not use up their
    /// limit.
    pub(super) receipts_per_source: SourceLimiter,
    /// The steps that make the registry read-only while they fail.
    pub(super) steps: [Arc<RetriedStep>; 2],
    pub(super) group_commit: GroupCommit,
    /// Takes requests to the replica that leads, while it is another one.
    pub(super) forwarding: Option<Arc<Forwarding>>,
    catching_up: CatchingUp,
    head_signer: HeadSigner,
    /// Permits for work that reads much, one per core.
    reading: Arc<Semaphore>,
    /// Reads what is not in memory.
    reading_disk: BoundedBlocking,
    /// Recovers signatures.
    pub(super) recovering: BoundedBlocking,
    /// The blocks that were last read for receipts, newest first.
    pub(super) receipts: Mutex<VecDeque<(u64, Arc<BlockReceipts>)>>,
}

impl RegistryHandle {
    pub(crate) fn new(
        state: &RegistryState,
        head_signer: HeadSigner,
        group_commit: GroupCommit,
        forwarding: Option<Arc<Forwarding>>,
        catching_up: CatchingUp,
    ) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            inner: Arc::new(Inner {
                per_source: SourceLimiter::new(state.reader.limits.load().per_source),
                receipts_per_source: SourceLimiter::new(state.reader.limits.load().per_source),
                reader: Arc::clone(&state.reader),
                request_tracker: Arc::clone(&state.slots.request_tracker),
                steps: [Arc::clone(&state.sealer.step), Arc::clone(&state.applier.step)],
                group_commit,
                forwarding,
                catching_up,
                head_signer,
                reading: Arc::new(Semaphore::new(cores)),
                reading_disk: BoundedBlocking::new(state.reader.blocking.clone(), DISK_READS * cores),
                recovering: BoundedBlocking::new(state.reader.blocking.clone(), cores),
                receipts: Mutex::default(),
            }),
        }
    }

    /// A request's state; `None` when the request is unknown or its record has expired. Reads the
    /// store on the calling thread.
    ///
    /// States only move forward, and a final state is returned only once
    /// [`RegistryHandle::snapshot`] shows its effects.
    pub fn status(&self, request_id: &RequestId) -> Result<Option<GatewayStatusResponse>, StoreError> {
        self.status_by(request_id, Reads::Disk)
    }

    /// The same for a thread that must not block: what is not in memory is read on another one.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn read_status(&self, request_id: &RequestId) -> Result<Option<GatewayStatusResponse>, StoreError> {
        let (handle, id) = (self.clone(), *request_id);
        let in_memory = || self.status_by(request_id, Reads::Memory);
        self.memory_first(in_memory, move || handle.status(&id)).await
    }

    /// Reads on this thread what is in memory, and on a thread that may block what is not.
    async fn memory_first<R: Send + 'static>(
        &self,
        in_memory: impl FnOnce() -> Result<R, StoreError>,
        on_disk: impl FnOnce() -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        if !self.inner.reader.blocking.has_threads() {
            return on_disk();
        }
        match in_memory() {
            Err(StoreError::NotInMemory) => {
                self.inner.reading_disk.run(on_disk).await.unwrap_or(Err(StoreError::Panicked))
            }
            done => done,
        }
    }

    /// The status with reads of this kind.
    fn status_by(&self, request_id: &RequestId, reads: Reads) -> Result<Option<GatewayStatusResponse>, StoreError> {
        let reader = &self.inner.reader;
        let Some((record, progress)) = reader.progress(request_id, reads)? else { return Ok(None) };
        let tx_hash = |height| reader.block_hash(height, reads).map(|hash| transaction_hash(&hash));
        let status = match progress {
            RequestProgress::Waiting if record.sequence <= reader.publication.batching() => {
                GatewayRequestState::Batching
            }
            RequestProgress::Waiting => GatewayRequestState::Queued,
            RequestProgress::Submitted { height } => GatewayRequestState::Submitted { tx_hash: tx_hash(height)? },
            RequestProgress::Final { height } => match record.failure {
                None => GatewayRequestState::Finalized { tx_hash: tx_hash(height)? },
                Some(failure) => GatewayRequestState::Failed { error: failure.message, error_code: Some(failure.code) },
            },
        };
        Ok(Some(GatewayStatusResponse { request_id: *request_id, kind: record.kind, status }))
    }

    /// A request's state once it is final, or as it is at `deadline`.
    ///
    /// # Errors
    /// [`WaitError::TooMany`] when as many clients wait as [`AdmissionLimits::status_waiters`]
    /// allows; [`WaitError::Store`] when the state cannot be read.
    pub async fn wait_until_final(
        &self,
        request_id: &RequestId,
        deadline: Instant,
    ) -> Result<Option<GatewayStatusResponse>, WaitError> {
        // A request that is final needs no waiter.
        let status = self.read_status(request_id).await?;
        if is_over(&status) {
            return Ok(status);
        }
        let waiters = &self.inner.reader.publication.waiters;
        let mut waiter = waiters.register(*request_id).ok_or(WaitError::TooMany)?;
        loop {
            let status = self.read_status(request_id).await?;
            if is_over(&status) {
                return Ok(status);
            }
            if timeout_at(deadline, waiter.changed()).await.is_err() {
                return Ok(self.read_status(request_id).await?);
            }
        }
    }

    /// The published state: accounts, addresses, tree and roots after one block. Returns at once.
    /// Reads from the snapshot read the store on the calling thread.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.inner.reader.snapshot()
    }

    /// Reads the published state, for a thread that must not block: at once what is in memory. When
    /// something is on the disk alone, `read` is called again on a thread that may block, so it
    /// must do nothing but read.
    ///
    /// # Errors
    /// Those of `read`, and [`StoreError::Panicked`] when it panics on the other thread.
    pub async fn read<R: Send + 'static>(
        &self,
        read: impl Fn(SnapshotReads<'_>) -> Result<R, StoreError> + Send + Sync + 'static,
    ) -> Result<R, StoreError> {
        let (read, snapshot) = (Arc::new(read), self.snapshot());
        let (again, pinned) = (Arc::clone(&read), Arc::clone(&snapshot));
        self.memory_first(|| read(snapshot.in_memory()), move || again(pinned.on_disk())).await
    }

    /// Whether other replicas show the registry, too.
    pub(crate) fn is_replica(&self) -> bool {
        self.inner.catching_up.is_replica()
    }

    /// Waits for the record of a request that another replica may have accepted, when this one
    /// lacks it. Returns at once when there is one, and for a service that is alone. What no
    /// replica has is counted for `source`, if it is known.
    ///
    /// # Errors
    /// The store cannot be read; or the journal gave no answer, so it is not known whether there is
    /// such a request; or the source has asked for too much that does not exist.
    pub async fn await_request(&self, request_id: &RequestId, source: Option<IpAddr>) -> Result<(), AwaitError> {
        if !self.is_replica() {
            return Ok(());
        }
        let is_known = |reader: &Reader, id: &RequestId, reads| {
            Ok(reader.request(id, reads)?.is_some() || reader.place(id, reads)?.is_some())
        };
        let (reader, id) = (Arc::clone(&self.inner.reader), *request_id);
        let in_memory = || is_known(&self.inner.reader, request_id, Reads::Memory);
        if !self.memory_first(in_memory, move || is_known(&reader, &id, Reads::Disk)).await? {
            let now = self.inner.reader.clock.now();
            self.inner.catching_up.find_for(source, now).await?;
            // What has come a moment ago is in memory.
            if in_memory().unwrap_or(false) {
                self.inner.catching_up.found(source);
            }
        }
        Ok(())
    }

    /// Waits until this replica shows the block of a height that another replica has named, for at
    /// most two seconds. Returns at once when it does, and for a service that is alone, which shows
    /// every block that it has named.
    ///
    /// A height that no block of the journal has is refused, and counted for `source` like other
    /// things that do not exist.
    ///
    /// # Errors
    /// See [`HeightError`].
    pub async fn await_height(&self, height: u64, source: Option<IpAddr>) -> Result<(), HeightError> {
        if !self.is_replica() || self.height() >= height {
            return Ok(());
        }
        let deadline = Instant::now() + HEIGHT_PATIENCE;
        let reader = &self.inner.reader;
        let is_sealed = || reader.sealed_height() >= height;
        if !is_sealed() {
            let now = reader.clock.now();
            self.inner.catching_up.find_for(source, now).await.map_err(|error| match error {
                AwaitError::TooMany(error) => HeightError::TooMany(error),
                AwaitError::Store(_) => HeightError::Late,
            })?;
            // The store has what the journal has, so a block of this height would be in it.
            if !is_sealed() {
                return Err(HeightError::NoSuchBlock { newest: reader.sealed_height() });
            }
            self.inner.catching_up.found(source);
        }
        timeout_at(deadline, self.wait_for_height(height)).await.map_err(|_| HeightError::Late)
    }

    /// Waits until this replica has applied what the journal has now. Returns at once for a service
    /// that is alone.
    ///
    /// # Errors
    /// It takes too long.
    pub(crate) async fn catch_up(&self) -> Result<(), NotCaughtUp> {
        self.inner.catching_up.catch_up().await?;
        // The tree maintainer may still apply the last block, of which it may hear only now.
        let sealed = self.inner.reader.sealed_height();
        timeout(CATCH_UP_PATIENCE, self.wait_for_height(sealed)).await.map_err(|_| NotCaughtUp)
    }

    /// Whether a root is the newest, or was replaced within the validity window (in seconds, the
    /// last second included).
    pub fn is_valid_root(&self, root: Root) -> Result<bool, StoreError> {
        let record = self.snapshot().root(root)?;
        let window = self.rules().root_validity_window;
        Ok(is_valid_root(record.as_ref(), self.inner.reader.clock.unix_seconds(), window))
    }

    /// Whether a root is or was the newest of the registry.
    pub(crate) fn has_root(&self, root: Root) -> Result<bool, StoreError> {
        Ok(self.snapshot().root(root)?.is_some())
    }

    /// Runs work that reads and computes much ([`RegistryHandle::receipt`],
    /// [`RegistryHandle::block`]) off the async threads. At most one such piece of work per core
    /// runs at a time, so that other calls keep their share of the processor.
    pub async fn reading<R: Send + 'static, E: From<StoreError> + Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<R, E> + Send + 'static,
    ) -> Result<R, E> {
        let permit = Arc::clone(&self.inner.reading).acquire_owned().await.map_err(|_| StoreError::Closing)?;
        let handle = self.clone();
        let read = move || {
            // The permit is released when the work ends, even when the caller no longer waits.
            let _permit = permit;
            work(&handle)
        };
        self.inner.reader.blocking.run(read).await.unwrap_or(Err(StoreError::Panicked.into()))
    }

    /// The block at a height, counted from 1; `None` beyond the ledger's height. Blocks the thread:
    /// see [`RegistryHandle::reading`].
    pub fn block(&self, height: u64) -> Result<Option<LedgerBlock>, StoreError> {
        let reader = &self.inner.reader;
        let Some(block) = reader.block(height)? else { return Ok(None) };
        let is_published = height <= reader.publication.height();
        let applied = if is_published { reader.applied_block(height)? } else { None };
        Ok(Some(LedgerBlock { block, result: applied.map(|applied| applied.result) }))
    }

    /// The block at a height, and what applying it gave; `None` while it is not applied. Blocks the
    /// thread.
    pub(crate) fn applied_block(&self, height: u64) -> Result<Option<(Block, AppliedBlock)>, StoreError> {
        let reader = &self.inner.reader;
        if height > reader.publication.height() {
            return Ok(None);
        }
        Ok(reader.block(height)?.zip(reader.applied_block(height)?))
    }

    /// The block with a hash; `None` when the ledger has no such block. Blocks the thread: see
    /// [`RegistryHandle::reading`].
    pub fn block_by_hash(&self, hash: &B256) -> Result<Option<LedgerBlock>, StoreError> {
        match self.inner.reader.height_of(hash)? {
            Some(height) => self.block(height),
            None => Ok(None),
        }
    }

    /// Height of the published state.
    pub fn height(&self) -> u64 {
        self.inner.reader.publication.height()
    }

    /// The published state and its marks.
    pub(super) fn publication(&self) -> &Publication {
        &self.inner.reader.publication
    }

    /// Waits until the published state has a block.
    pub async fn wait_for_height(&self, height: u64) {
        self.inner.reader.publication.wait_for_height(height).await;
    }

    /// Height of the block that made a request final; `None` when the request is not final, or its
    /// record has expired. Reads the store on the calling thread.
    pub fn final_height(&self, request_id: &RequestId) -> Result<Option<u64>, StoreError> {
        Ok(match self.inner.reader.progress(request_id, Reads::Disk)? {
            Some((_, RequestProgress::Final { height })) => Some(height),
            _ => None,
        })
    }

    /// Hash of the result of the block at a height; `None` when it is not applied here. Reads the
    /// store on the calling thread.
    pub fn result_hash(&self, height: u64) -> Result<Option<B256>, StoreError> {
        let reader = &self.inner.reader;
        if height > reader.publication.height() {
            return Ok(None);
        }
        Ok(reader.applied_block(height)?.map(|applied| applied.result.hash()))
    }

    /// The newest applied block, signed with the registry's key. A block is signed at most once, at
    /// the first call after it was published. The first call on a new store makes the key.
    ///
    /// # Errors
    /// The key cannot be read or decrypted, or could not be written.
    pub async fn signed_head(&self) -> Result<Arc<SignedHead>, HeadSigningError> {
        self.inner.head_signer.signed_head().await
    }

    /// The registry that signatures are made for.
    pub fn domain(&self) -> RegistryDomain {
        self.inner.reader.domain()
    }

    /// The rule parameters that new blocks carry.
    pub fn rules(&self) -> RuleParameters {
        self.inner.reader.rules
    }

    /// Changes the limits of admission, from the next request on.
    pub fn set_limits(&self, limits: AdmissionLimits) {
        self.inner.request_tracker.set_limit(limits.waiting_calls);
        self.inner.reader.publication.waiters.set_limit(limits.status_waiters);
        self.inner.per_source.set(limits.per_source);
        self.inner.receipts_per_source.set(limits.per_source);
        self.inner.reader.limits.store(Arc::new(limits));
    }

    /// The failures that keep the service from writing, a sentence each; empty when it can write.
    /// The service retries each failing step until the step succeeds.
    pub fn failures(&self) -> Vec<String> {
        let committing = self.inner.group_commit.failure().map(|error| format!("committing fails: {error}"));
        let steps = self.inner.steps.iter().filter_map(|step| step.describe_failure());
        committing.into_iter().chain(steps).collect()
    }

    /// Adds the numbers of the registry, of its store and of the commits to `metrics`.
    pub(crate) fn register(&self, metrics: &mut Metrics) {
        let Inner { reader, per_source, receipts_per_source, group_commit, .. } = &*self.inner;
        reader.counters.register(metrics);
        reader.operations.register(metrics);
        group_commit.register(metrics);
        register_refusals(metrics, "per_source", "gateway", &per_source.refused);
        register_refusals(metrics, "per_source", "receipts", &receipts_per_source.refused);
        let registry = self.clone();
        metrics.add_group(move |samples| registry.write_metrics(samples));
    }

    /// Writes what is not counted, but known.
    fn write_metrics(&self, samples: &mut Samples<'_>) -> fmt::Result {
        let (reader, snapshot) = (&self.inner.reader, self.snapshot());
        let open = reader.counters.open_requests.load(Ordering::Relaxed);
        samples.gauge("selfsame_registry_open_requests", "Requests accepted and not final", open)?;
        let help = "The most requests that may be open";
        samples.gauge("selfsame_registry_open_requests_limit", help, reader.limits.load().queue_length)?;
        let help = "Age of the oldest request that is not final; 0 when there is none";
        let oldest = reader.operations.oldest().unwrap_or_default().as_secs_f64();
        samples.gauge("selfsame_registry_oldest_open_request_age_seconds", help, oldest)?;
        let help = "Clients that wait for a final state";
        samples.gauge("selfsame_registry_status_waiters", help, reader.publication.waiters.count())?;
        let help = "Height of the last sealed block";
        samples.gauge("selfsame_registry_ledger_height", help, reader.ledger_height())?;
        let last = &snapshot.tip().seal;
        samples.gauge("selfsame_registry_applied_height", "Height of the last applied block", last.height)?;
        samples.gauge("selfsame_registry_accounts", "Accounts", snapshot.next_leaf_index().0 - 1)?;
        let help = "Time of the last applied block, in Unix time; 0 before the first";
        samples.gauge("selfsame_registry_last_block_timestamp_seconds", help, last.time.0)?;
        reader.write_store_metrics(samples)
    }

    /// The seconds from the admission of requests to their published final state, since the start.
    pub fn final_seconds(&self) -> HistogramSnapshot {
        self.inner.reader.operations.final_seconds()
    }

    /// The seconds that the commits since the start took.
    pub fn commit_seconds(&self) -> HistogramSnapshot {
        self.inner.group_commit.commit_seconds()
    }

    /// Statistics of the registry.
    pub fn statistics(&self) -> RegistryStatistics {
        let reader = &self.inner.reader;
        let snapshot = self.snapshot();
        RegistryStatistics {
            accepted: reader.counters.accepted.get(),
            finalized: reader.counters.finalized.get(),
            failed: reader.counters.failed.get(),
            open_requests: reader.counters.open_requests.load(Ordering::Relaxed),
            queue_length: reader.limits.load().queue_length,
            status_waiters: reader.publication.waiters.count(),
            ledger_height: reader.ledger_height(),
            applied_height: snapshot.tip().seal.height,
            accounts: snapshot.next_leaf_index().0 - 1,
        }
    }
}

/// Whether the state no longer changes: the request is final, or unknown.
fn is_over(status: &Option<GatewayStatusResponse>) -> bool {
    status.as_ref().is_none_or(|status| status.status.is_final())
}
