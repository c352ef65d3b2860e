//! The registry from outside: one handle for writing and reading.

use std::collections::VecDeque;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use selfsame_protocol::B256;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::gateway::{GatewayRequestState, GatewayStatusResponse, check_request, transaction_hash};
use selfsame_protocol::ledger::{
    Block, BlockReceipts, BlockResult, Outcome, Receipt, RequestId, is_valid_root, recover_signer,
};
use selfsame_protocol::rate_limit::{RateLimit, SlidingWindows};
use selfsame_protocol::registry::{RuleParameters, RuleViolation, check_stateless};
use selfsame_protocol::signature::SignatureFault;
use selfsame_storage::{GroupCommit, Ledger, Snapshot, Store, StoreError};
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::clock::{Clock, Random};
use crate::registry::batcher::{BatchLimits, BatcherMessage};
use crate::registry::publication::Publication;
use crate::registry::request_tracker::{Candidate, RequestTrackerMessage};
use crate::registry::submission::{RateLimitScope, Submission, SubmitError};
use crate::registry::tree_maintainer::TreeMaintainerMessage;
use crate::supervision::heartbeat::UNREADY_AFTER;
use crate::support::blocking::Blocking;
use crate::support::retry::Step;
use crate::support::serial_blocking::Turns;
use crate::support::slot::{PATIENCE, Slot};

/// How many blocks are kept with their receipts: a few megabytes each, where blocks are large.
const BLOCKS_WITH_RECEIPTS: usize = 4;

/// What the registry's actors and handles share. Nothing in here is the only copy of anything acknowledged.
pub(crate) struct Shared {
    pub store: Store,
    pub ledger: Arc<dyn Ledger>,
    /// The ledger's height as far as its listeners were told: asking the ledger itself may wait for a disk.
    pub ledger_height: AtomicU64,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub publication: Publication,
    pub batch_limits: BatchLimits,
    pub limits: ArcSwap<AdmissionLimits>,
    pub counters: Counters,
    /// Requests of each source within the window.
    pub per_source: Mutex<RateLimiter<IpAddr>>,
    /// Whether a wake is on its way to the batcher: requests that become durable together send one.
    pub batcher_woken: AtomicBool,
    /// The tree maintainer's work on the store.
    pub applying: Turns,
    pub applying_step: Step,
    /// The batcher's work on the ledger.
    pub sealing: Turns,
    pub sealing_step: Step,
    /// Where other blocking work is done.
    pub blocking: Blocking,
    /// Turns of those who read much.
    pub reading: Arc<Semaphore>,
    /// Blocks that were read last for a receipt, newest first.
    pub receipts: Mutex<VecDeque<(u64, Arc<BlockReceipts>)>>,
    pub tree_maintainer: Slot<TreeMaintainerMessage>,
    pub batcher: Slot<BatcherMessage>,
    pub request_tracker: Slot<RequestTrackerMessage>,
    /// Dropped last: when the committing thread has ended for want of it, nobody else here has the store open any more.
    pub group_commit: GroupCommit,
}

impl Shared {
    fn steps(&self) -> impl Iterator<Item = &Step> {
        [&self.sealing_step, &self.applying_step].into_iter()
    }
}

/// What bounds admission. Can be changed while the service runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Open requests before new ones are refused.
    pub queue_length: usize,
    /// Calls that may wait for an actor's answer at a time.
    pub calls_inside: usize,
    /// Clients that may wait for final states at a time.
    pub status_waiters: usize,
    /// Limit of requests by source address (IPv6 by /64); `None` is off.
    pub per_source: Option<RateLimit>,
    /// Limit of accepted requests by account; `None` is off.
    pub per_leaf_index: Option<RateLimit>,
    /// How long final requests keep their status.
    pub request_retention: Duration,
    /// How long an idempotency key stands for its request.
    pub idempotency_retention: Duration,
}

impl Default for AdmissionLimits {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        Self {
            queue_length: 100_000,
            calls_inside: 4096,
            status_waiters: 10_000,
            per_source: None,
            per_leaf_index: None,
            request_retention: day,
            idempotency_retention: day,
        }
    }
}

/// Sliding windows under a limit that may change or be off.
pub(crate) struct RateLimiter<Key> {
    windows: Option<SlidingWindows<Key>>,
}

impl<Key: Eq + Hash> RateLimiter<Key> {
    /// Keys whose events are counted at a time.
    const MAX_KEYS: usize = 100_000;

    pub fn new() -> Self {
        Self { windows: None }
    }

    /// The windows under `limit`; a new limit starts counting anew.
    pub fn under(&mut self, limit: Option<RateLimit>) -> Option<&mut SlidingWindows<Key>> {
        if self.windows.as_ref().map(SlidingWindows::limit) != limit {
            self.windows = limit.map(|limit| SlidingWindows::new(limit, Self::MAX_KEYS));
        }
        self.windows.as_mut()
    }
}

/// Counts since the start.
#[derive(Default)]
pub(crate) struct Counters {
    pub accepted: AtomicU64,
    pub finalized: AtomicU64,
    pub failed: AtomicU64,
    pub open_requests: AtomicUsize,
}

impl Counters {
    pub fn applied(&self, outcomes: &[Outcome]) {
        let applied = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Applied { .. })).count();
        self.finalized.fetch_add(applied as u64, Ordering::Relaxed);
        self.failed.fetch_add((outcomes.len() - applied) as u64, Ordering::Relaxed);
    }
}

/// How the registry is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RegistryStatistics {
    /// Requests accepted since the start.
    pub accepted: u64,
    /// Requests finalized since the start.
    pub finalized: u64,
    /// Requests failed since the start.
    pub failed: u64,
    /// Requests that are open.
    pub open_requests: usize,
    /// How many may be.
    pub queue_length: usize,
    /// Clients waiting for a final state.
    pub status_waiters: usize,
    /// Height of the ledger.
    pub ledger_height: u64,
    /// Height of the published state.
    pub applied_height: u64,
    /// Accounts.
    pub accounts: u64,
}

/// A block with what applying it gave.
#[derive(Clone, Debug)]
pub struct LedgerBlock {
    pub block: Block,
    /// `None` while the block waits to be applied.
    pub result: Option<BlockResult>,
}

/// The registry, for front-ends and embedders. Cheap to clone; finds its actors again after they were restarted.
#[derive(Clone)]
pub struct RegistryHandle {
    pub(crate) shared: Arc<Shared>,
}

impl RegistryHandle {
    /// Accepts a request. When this returns it is durable: it will become final, also if the process dies now.
    ///
    /// Checks in this order: limit by source, rules that need no state, signature, idempotency key, queue, locks, rules on the
    /// published state, limit by account. Without an idempotency key a full queue comes before the signature.
    pub async fn submit(&self, submission: Submission) -> Result<GatewayStatusResponse, SubmitError> {
        let Submission { operation, source, idempotency_key } = submission;
        if let Some(step) = self.shared.steps().find_map(Step::failing) {
            return Err(SubmitError::Unavailable { reason: format!("the registry is read-only: {step} fails") });
        }
        self.charge_source(source)?;
        check_request(&operation)?;
        check_stateless(&operation, &self.shared.batch_limits.rules)?;
        // Once more by the tracker, exactly. Here it spares a flood the signature, which costs far more than all the rest; a key may
        // stand for a request that has its place already.
        let limit = self.shared.limits.load().queue_length;
        if idempotency_key.is_none() && self.shared.counters.open_requests.load(Ordering::Relaxed) >= limit {
            return Err(SubmitError::QueueFull { limit });
        }
        let signer = recover_signer(&operation, &self.shared.store.domain());
        match signer {
            Some(Err(SignatureFault::HighS)) => return Err(RuleViolation::ECDSAInvalidSignatureS.into()),
            Some(Err(SignatureFault::Invalid)) => return Err(RuleViolation::ECDSAInvalidSignature.into()),
            Some(Ok(_)) | None => {}
        }
        let kind = operation.kind();
        let has_key = idempotency_key.is_some();
        let candidate = Box::new(Candidate { operation, signer, idempotency_key });
        let admit = |reply| RequestTrackerMessage::Admit(candidate, reply);
        let admitted = self.shared.request_tracker.call(admit, Instant::now() + PATIENCE).await;
        let request_id = admitted.map_err(|error| SubmitError::Unavailable { reason: error.to_string() })??;
        if has_key {
            // The key may stand for an earlier request; if its commit failed in the meantime, nothing was accepted.
            let reason = || "an earlier request with this Idempotency-Key was not recorded".to_owned();
            return self.status(&request_id)?.ok_or_else(|| SubmitError::Unavailable { reason: reason() });
        }
        Ok(GatewayStatusResponse { request_id, kind, status: GatewayRequestState::Queued })
    }

    fn charge_source(&self, source: Option<IpAddr>) -> Result<(), SubmitError> {
        let limit = self.shared.limits.load().per_source;
        let mut limiter = self.shared.per_source.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(windows), Some(source)) = (limiter.under(limit), source) else { return Ok(()) };
        let source = network_of(source);
        let now = self.shared.clock.now();
        let scope = RateLimitScope::Source;
        windows.check(&source, now).map_err(|retry_after| SubmitError::RateLimited { scope, retry_after })?;
        windows.charge(source, now);
        Ok(())
    }

    /// A request's state; `None` when there is no such request, or its record has expired.
    ///
    /// States only move forward, and a final one is shown only once [`RegistryHandle::snapshot`] shows its effects.
    pub fn status(&self, request_id: &RequestId) -> Result<Option<GatewayStatusResponse>, StoreError> {
        let Some(record) = self.shared.store.request(request_id)? else { return Ok(None) };
        let submitted = |hash: &B256| GatewayRequestState::Submitted { tx_hash: transaction_hash(hash) };
        let status = match record.final_state {
            Some(end) if end.height > self.shared.publication.height() => submitted(&end.block_hash),
            Some(end) => match end.outcome {
                Outcome::Applied { .. } => {
                    GatewayRequestState::Finalized { tx_hash: transaction_hash(&end.block_hash) }
                }
                Outcome::Failed { code, .. } => {
                    GatewayRequestState::Failed { error: end.message, error_code: Some(code) }
                }
            },
            None => match self.shared.ledger.place(request_id)? {
                Some(place) => submitted(&place.block_hash),
                None if record.sequence <= self.shared.publication.batching() => GatewayRequestState::Batching,
                None => GatewayRequestState::Queued,
            },
        };
        Ok(Some(GatewayStatusResponse { request_id: *request_id, kind: record.kind, status }))
    }

    /// A request's state once it is final, or as it is at `deadline`.
    ///
    /// # Errors
    /// [`WaitError::TooMany`] when as many wait as may.
    pub async fn wait_until_final(
        &self,
        request_id: &RequestId,
        deadline: Instant,
    ) -> Result<Option<GatewayStatusResponse>, WaitError> {
        // What is over already takes nobody's place.
        let status = self.status(request_id)?;
        if is_over(&status) {
            return Ok(status);
        }
        let waiter = self.shared.publication.waiters.register(*request_id).ok_or(WaitError::TooMany)?;
        loop {
            let bell = waiter.bell();
            let status = self.status(request_id)?;
            if is_over(&status) {
                return Ok(status);
            }
            if timeout_at(deadline, bell).await.is_err() {
                return Ok(self.status(request_id)?);
            }
        }
    }

    /// The registry as readers see it: accounts, addresses, tree and roots of one block. Never waits.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.publication.snapshot()
    }

    /// Whether a root is the newest, or was replaced within the validity window.
    pub fn is_valid_root(&self, root: &B256) -> Result<bool, StoreError> {
        let record = self.snapshot().root(root)?;
        let window = self.rules().root_validity_window;
        Ok(is_valid_root(record.as_ref(), self.shared.clock.unix_seconds(), window))
    }

    /// Does what reads and computes much, [`RegistryHandle::receipt`] and [`RegistryHandle::block`], off the async threads; no more
    /// of it at a time than there are cores, so that it leaves room for what is quick.
    pub async fn reading<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let turn = Arc::clone(&self.shared.reading).acquire_owned().await.map_err(|_| StoreError::Closing)?;
        let handle = self.clone();
        let read = move || {
            // It is over when this is over, also if nobody waits for it any more.
            let _turn = turn;
            work(&handle)
        };
        self.shared.blocking.run(read).await.unwrap_or(Err(StoreError::Panicked))
    }

    /// The receipt of a final request; `None` when it is unknown or not final yet. Receipts never expire. Blocks the thread: see
    /// [`RegistryHandle::reading`].
    pub fn receipt(&self, request_id: &RequestId) -> Result<Option<Receipt>, StoreError> {
        let Some(place) = self.shared.ledger.place(request_id)? else { return Ok(None) };
        if place.height > self.shared.publication.height() {
            return Ok(None);
        }
        let receipts = self.receipts_of(place.height)?;
        Ok(receipts.and_then(|receipts| receipts.receipt(place.position)))
    }

    /// The receipts of a block. They are usually asked for one after the other, as soon as there are any.
    fn receipts_of(&self, height: u64) -> Result<Option<Arc<BlockReceipts>>, StoreError> {
        let lock = || self.shared.receipts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, receipts)) = lock().iter().find(|(kept, _)| *kept == height) {
            return Ok(Some(Arc::clone(receipts)));
        }
        let block = self.shared.ledger.block(height)?;
        let Some((block, applied)) = block.zip(self.shared.store.applied_block(height)?) else { return Ok(None) };
        let receipts = Arc::new(BlockReceipts::new(block, applied.result, applied.outcomes));
        let mut kept = lock();
        // Somebody else may have been quicker.
        if kept.iter().all(|(kept, _)| *kept != height) {
            kept.truncate(BLOCKS_WITH_RECEIPTS - 1);
            kept.push_front((height, Arc::clone(&receipts)));
        }
        Ok(Some(receipts))
    }

    /// The block at a height, counted from 1. Blocks the thread: see [`RegistryHandle::reading`].
    pub fn block(&self, height: u64) -> Result<Option<LedgerBlock>, StoreError> {
        let Some(block) = self.shared.ledger.block(height)? else { return Ok(None) };
        let is_published = height <= self.shared.publication.height();
        let applied = if is_published { self.shared.store.applied_block(height)? } else { None };
        Ok(Some(LedgerBlock { block, result: applied.map(|applied| applied.result) }))
    }

    /// The block with a hash.
    pub fn block_by_hash(&self, hash: &B256) -> Result<Option<LedgerBlock>, StoreError> {
        match self.shared.ledger.height_of(hash)? {
            Some(height) => self.block(height),
            None => Ok(None),
        }
    }

    /// The registry that signatures are made for.
    pub fn domain(&self) -> RegistryDomain {
        self.shared.store.domain()
    }

    /// The rule parameters that new blocks carry.
    pub fn rules(&self) -> RuleParameters {
        self.shared.batch_limits.rules
    }

    /// Changes what bounds admission from now on.
    pub fn set_limits(&self, limits: AdmissionLimits) {
        self.shared.tree_maintainer.set_limit(limits.calls_inside);
        self.shared.batcher.set_limit(limits.calls_inside);
        self.shared.request_tracker.set_limit(limits.calls_inside);
        self.shared.publication.waiters.set_limit(limits.status_waiters);
        self.shared.limits.store(Arc::new(limits));
    }

    /// What keeps the service from writing at the moment; empty when nothing does. It is tried again and again, and gone when it
    /// works.
    pub fn troubles(&self) -> Vec<String> {
        let committing = self.shared.group_commit.trouble().map(|error| format!("committing fails: {error}"));
        let busy = self.shared.group_commit.busy_for();
        let stuck = (busy >= UNREADY_AFTER).then(|| format!("a commit has been taking {} s", busy.as_secs()));
        committing.into_iter().chain(stuck).chain(self.shared.steps().filter_map(Step::trouble)).collect()
    }

    /// How the registry is doing.
    pub fn statistics(&self) -> RegistryStatistics {
        let counters = &self.shared.counters;
        let snapshot = self.snapshot();
        RegistryStatistics {
            accepted: counters.accepted.load(Ordering::Relaxed),
            finalized: counters.finalized.load(Ordering::Relaxed),
            failed: counters.failed.load(Ordering::Relaxed),
            open_requests: counters.open_requests.load(Ordering::Relaxed),
            queue_length: self.shared.limits.load().queue_length,
            status_waiters: self.shared.publication.waiters.count(),
            ledger_height: self.shared.ledger_height.load(Ordering::Relaxed),
            applied_height: snapshot.tip().seal.height,
            accounts: snapshot.next_leaf_index() - 1,
        }
    }
}

/// Whether nothing more will happen: the request is final, or there is none.
fn is_over(status: &Option<GatewayStatusResponse>) -> bool {
    status.as_ref().is_none_or(|status| status.status.is_final())
}

/// Why a wait for a final state ended early.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WaitError {
    #[error("too many clients are waiting for final states; poll without ?wait, or try again")]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whom a source address counts as: an IPv6 /64 is one household, and a mapped IPv4 address is that address.
pub fn network_of(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => std::net::Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_counted_by_network() {
        let table = [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),
        ];
        for (source, network) in table {
            let parse = |text: &str| text.parse::<IpAddr>().expect("an address");
            assert_eq!(network_of(parse(source)), parse(network));
        }
    }
}
