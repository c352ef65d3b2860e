//! The request tracker: admits requests, one after the other.
//!
//! It holds the locks of the open requests in memory, judges a request by the rules on the published state, and hands it to the
//! group commit; the answer goes out from there, when the request is durable. So the mailbox never waits for a disk.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use selfsame_protocol::encoding::encode;
use selfsame_protocol::ledger::{Block, RequestId};
use selfsame_protocol::registry::{self, Lock, Operation, Overlay};
use selfsame_protocol::signature::SignatureFault;
use selfsame_protocol::{Address, B256, keccak256};
use selfsame_storage::{Admission, Changes, IdempotencyRecord, StoreError};

use crate::registry::batcher::BatcherMessage;
use crate::registry::handle::{RateLimiter, Shared};
use crate::registry::submission::{RateLimitScope, SubmitError};
use crate::support::retry::RETRY;

/// A request that is not final.
struct OpenRequest {
    operation_hash: B256,
    /// Of its idempotency key, if it has one and was admitted by this tracker.
    key_hash: Option<B256>,
}

/// How far a sweep has come.
#[derive(Clone, Copy, Default)]
pub(crate) struct Swept {
    requests: Option<(u64, RequestId)>,
    keys: Option<(u64, B256)>,
}

/// How often expired records are deleted.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Records deleted in one commit, and while a message is handled: admission waits as long.
const SWEEP_BATCH: usize = 1000;

/// A request that passed every check which needs no lock.
pub(crate) struct Candidate {
    pub operation: Operation,
    /// What its signature recovers to.
    pub signer: Option<Result<Address, SignatureFault>>,
    pub idempotency_key: Option<String>,
}

/// A request whose commit failed, by everything that is remembered of it.
pub(crate) struct Failed {
    request_id: RequestId,
    sequence: u64,
    operation: Operation,
}

/// The answer to a candidate.
pub(crate) type Admitted = Result<RequestId, SubmitError>;

/// What the request tracker is told.
pub(crate) enum RequestTrackerMessage {
    /// Judge a request and make it durable.
    Admit(Box<Candidate>, RpcReplyPort<Admitted>),
    /// A block was applied: its requests are final and hold no locks any more.
    Applied(Arc<Block>),
    /// A request's commit failed.
    NotDurable(Box<Failed>),
    /// Delete what has expired.
    Sweep,
    /// Delete more of it.
    SweepOn(Swept),
    /// Answer, to show that you are not stuck.
    Ping(RpcReplyPort<()>),
}

/// The actor.
pub(crate) struct RequestTracker;

/// What the tracker remembers; all of it is found again in the store.
pub(crate) struct RequestTrackerState {
    shared: Arc<Shared>,
    /// Locks of open requests and who holds them.
    locks: HashMap<Lock, RequestId>,
    open: HashMap<RequestId, OpenRequest>,
    /// Idempotency keys of open requests: handed to the group commit and possibly not readable yet.
    open_keys: HashMap<B256, IdempotencyRecord>,
    /// Requests of each account within the window.
    per_account: RateLimiter<u64>,
    last_sequence: u64,
}

impl Actor for RequestTracker {
    type Msg = RequestTrackerMessage;
    type State = RequestTrackerState;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        shared: Arc<Shared>,
    ) -> Result<RequestTrackerState, ActorProcessingErr> {
        // First the place, then the state: a block applied while we load is told to our mailbox.
        shared.request_tracker.occupy(myself.clone());
        fault_point!(RequestTrackerStart);
        let blocking = shared.blocking.clone();
        let state = blocking.run(move || RequestTrackerState::load(shared)).await??;
        myself.send_interval(SWEEP_INTERVAL, || RequestTrackerMessage::Sweep);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut RequestTrackerState,
    ) -> Result<(), ActorProcessingErr> {
        fault_point!(RequestTrackerHandle);
        match message {
            RequestTrackerMessage::Ping(reply) => drop(reply.send(())),
            RequestTrackerMessage::Admit(candidate, reply) => state.admit(*candidate, reply),
            RequestTrackerMessage::Applied(block) => {
                for entry in &block.entries {
                    state.close(&entry.request_id, &entry.operation);
                }
            }
            RequestTrackerMessage::NotDurable(failed) => state.forget(failed, &myself),
            RequestTrackerMessage::Sweep => state.sweep(Swept::default(), &myself).await?,
            RequestTrackerMessage::SweepOn(swept) => state.sweep(swept, &myself).await?,
        }
        Ok(())
    }
}

impl RequestTrackerState {
    fn load(shared: Arc<Shared>) -> Result<Self, StoreError> {
        // What a predecessor handed in is durable or refused behind this, whether or not anything can be written at the moment.
        if let Err(StoreError::Closing) = shared.group_commit.barrier() {
            return Err(StoreError::Closing);
        }
        let mut locks = HashMap::new();
        let mut open = HashMap::new();
        for request in shared.store.open_requests()? {
            let operation_hash = operation_hash(&request.operation);
            open.insert(request.request_id, OpenRequest { operation_hash, key_hash: None });
            locks.extend(request.operation.locks().into_iter().map(|lock| (lock, request.request_id)));
        }
        let last_sequence = shared.store.last_sequence()?;
        shared.publication.mark_durable(last_sequence);
        shared.counters.open_requests.store(open.len(), Ordering::Relaxed);
        let per_account = RateLimiter::new();
        Ok(Self { shared, locks, open, open_keys: HashMap::new(), per_account, last_sequence })
    }

    /// Judges a request. A refusal is answered here; an accepted one is answered by the group commit.
    fn admit(&mut self, candidate: Candidate, reply: RpcReplyPort<Admitted>) {
        let operation_hash = operation_hash(&candidate.operation);
        let verdict = match self.known_key(candidate.idempotency_key.as_deref(), operation_hash) {
            Ok(Some(known)) => return self.answer_when_durable(known, reply),
            Ok(None) => self.judge(&candidate, operation_hash),
            Err(error) => Err(error),
        };
        match verdict {
            Ok(()) => self.accept(candidate, operation_hash, reply),
            // A caller that has gone needs no answer.
            Err(refusal) => drop(reply.send(Err(refusal))),
        }
    }

    /// The request that an idempotency key stands for, if it was used lately for the same operation.
    fn known_key(&self, key: Option<&str>, operation_hash: B256) -> Result<Option<RequestId>, SubmitError> {
        let Some(key) = key else { return Ok(None) };
        let key_hash = keccak256(key);
        let known = match self.open_keys.get(&key_hash) {
            Some(record) => Some(*record),
            None => self.shared.store.idempotency(&key_hash)?,
        };
        let retention = self.shared.limits.load().idempotency_retention.as_secs();
        let now = self.shared.clock.unix_seconds();
        match known.filter(|record| now < record.accepted_at.saturating_add(retention)) {
            None => Ok(None),
            Some(record) if record.body_hash != operation_hash => Err(SubmitError::IdempotencyKeyReused),
            Some(IdempotencyRecord { request_id, .. }) => {
                let is_kept = self.open.contains_key(&request_id) || self.shared.store.request(&request_id)?.is_some();
                Ok(is_kept.then_some(request_id))
            }
        }
    }

    fn judge(&mut self, candidate: &Candidate, operation_hash: B256) -> Result<(), SubmitError> {
        let limits = **self.shared.limits.load();
        let limit = limits.queue_length;
        if self.open.len() >= limit {
            return Err(SubmitError::QueueFull { limit });
        }
        let operation = &candidate.operation;
        for lock in operation.locks() {
            let Some(holder) = self.locks.get(&lock).copied() else { continue };
            if !self.is_final(&holder)? {
                let is_same = self.open.get(&holder).is_some_and(|open| open.operation_hash == operation_hash);
                return Err(SubmitError::Duplicate { lock, same_as: is_same.then_some(holder) });
            }
        }
        let snapshot = self.shared.publication.snapshot();
        let now = self.shared.clock.now();
        let rules = &self.shared.batch_limits.rules;
        let time = now.as_secs().max(snapshot.tip().seal.time);
        registry::apply(operation, candidate.signer, rules, time, &mut Overlay::new(snapshot.as_ref()))??;
        let windows = self.per_account.under(limits.per_leaf_index);
        if let (Some(windows), Some(leaf_index)) = (windows, operation.leaf_index()) {
            let scope = RateLimitScope::LeafIndex;
            windows.check(&leaf_index, now).map_err(|retry_after| SubmitError::RateLimited { scope, retry_after })?;
            // Charged only here, behind the signature: strangers cannot lock an account out.
            windows.charge(leaf_index, now);
        }
        Ok(())
    }

    /// Whether a request that holds a lock has become final for its client, though we have not been told yet.
    fn is_final(&self, request_id: &RequestId) -> Result<bool, StoreError> {
        let final_state = self.shared.store.request(request_id)?.and_then(|record| record.final_state);
        Ok(final_state.is_some_and(|state| state.height <= self.shared.publication.height()))
    }

    fn accept(&mut self, candidate: Candidate, operation_hash: B256, reply: RpcReplyPort<Admitted>) {
        let mut random = [0; 16];
        self.shared.random.fill(&mut random);
        let request_id = RequestId::from_random(random);
        let Candidate { operation, idempotency_key, .. } = candidate;
        let locks = operation.locks();
        let idempotency = idempotency_key.map(|key| {
            let accepted_at = self.shared.clock.unix_seconds();
            (keccak256(key), IdempotencyRecord { request_id, body_hash: operation_hash, accepted_at })
        });
        self.last_sequence += 1;
        self.locks.extend(locks.iter().map(|lock| (*lock, request_id)));
        let key_hash = idempotency.map(|(key_hash, _)| key_hash);
        self.open.insert(request_id, OpenRequest { operation_hash, key_hash });
        self.open_keys.extend(idempotency);
        self.shared.counters.open_requests.store(self.open.len(), Ordering::Relaxed);

        let sequence = self.last_sequence;
        let changes = Admission { request_id, sequence, operation: operation.clone(), locks, idempotency }.changes();
        let shared = Arc::clone(&self.shared);
        let durable = move |result: Result<(), StoreError>| match result {
            Ok(()) => {
                shared.publication.mark_durable(sequence);
                shared.counters.accepted.fetch_add(1, Ordering::Relaxed);
                if !shared.batcher_woken.swap(true, Ordering::AcqRel) {
                    shared.batcher.cast(BatcherMessage::Wake);
                }
                drop(reply.send(Ok(request_id)));
            }
            Err(error) => {
                let failed = Failed { request_id, sequence, operation };
                shared.request_tracker.cast(RequestTrackerMessage::NotDurable(Box::new(failed)));
                drop(reply.send(Err(error.into())));
            }
        };
        self.shared.group_commit.commit(changes, Box::new(durable));
    }

    /// Answers with a request that was accepted before, behind everything that was handed in until now.
    fn answer_when_durable(&self, known: RequestId, reply: RpcReplyPort<Admitted>) {
        let durable = move |result: Result<(), StoreError>| {
            drop(reply.send(result.map(|()| known).map_err(SubmitError::from)));
        };
        self.shared.group_commit.commit(Changes::default(), Box::new(durable));
    }

    /// Forgets a request whose commit failed; unless it was written all the same, which a failed sync leaves open: then it is one
    /// like any other, whatever its client was told.
    fn forget(&mut self, failed: Box<Failed>, myself: &ActorRef<RequestTrackerMessage>) {
        let Failed { request_id, sequence, operation } = failed.as_ref();
        match self.shared.store.request(request_id) {
            Ok(Some(_)) => {
                self.shared.publication.mark_durable(*sequence);
                self.shared.batcher.cast(BatcherMessage::Wake);
            }
            Ok(None) => {
                self.close(request_id, operation);
                // Nobody has had anything for it.
                let limit = self.shared.limits.load().per_leaf_index;
                if let (Some(windows), Some(leaf_index)) = (self.per_account.under(limit), operation.leaf_index()) {
                    windows.give_back(&leaf_index);
                }
            }
            // Nobody knows yet; until somebody does it keeps its locks.
            Err(_) => drop(myself.send_after(RETRY, || RequestTrackerMessage::NotDurable(failed))),
        }
    }

    fn close(&mut self, request_id: &RequestId, operation: &Operation) {
        let Some(OpenRequest { key_hash, .. }) = self.open.remove(request_id) else { return };
        if let Some(key_hash) = key_hash
            && self.open_keys.get(&key_hash).is_some_and(|record| record.request_id == *request_id)
        {
            self.open_keys.remove(&key_hash);
        }
        for lock in operation.locks() {
            if self.locks.get(&lock) == Some(request_id) {
                self.locks.remove(&lock);
            }
        }
        self.shared.counters.open_requests.store(self.open.len(), Ordering::Relaxed);
    }

    /// Deletes some of what has expired, and the rest by further messages: a day's requests would take long.
    async fn sweep(
        &mut self,
        mut swept: Swept,
        myself: &ActorRef<RequestTrackerMessage>,
    ) -> Result<(), ActorProcessingErr> {
        let now = self.shared.clock.unix_seconds();
        let limits = **self.shared.limits.load();
        let requests_before = now.saturating_sub(limits.request_retention.as_secs());
        let keys_before = now.saturating_sub(limits.idempotency_retention.as_secs());
        let store = self.shared.store.clone();
        // A key that was used anew, in a commit that is on its way, is not to be deleted behind it.
        let open_keys = std::mem::take(&mut self.open_keys);
        let sweeping = move || {
            let is_in_use = |key_hash: &B256| open_keys.contains_key(key_hash);
            let swept = (|| {
                let requests = store.sweep_requests(requests_before, swept.requests, SWEEP_BATCH)?;
                swept.requests = requests.or(swept.requests);
                let keys = store.sweep_idempotency_keys(keys_before, swept.keys, SWEEP_BATCH, is_in_use)?;
                swept.keys = keys.or(swept.keys);
                Ok::<_, StoreError>((requests.is_some() || keys.is_some()).then_some(swept))
            })();
            (open_keys, swept)
        };
        let (open_keys, swept) = self.shared.blocking.run(sweeping).await?;
        self.open_keys = open_keys;
        match swept {
            Ok(Some(swept)) => myself.cast(RequestTrackerMessage::SweepOn(swept))?,
            Ok(None) => {}
            // What has expired is as good as gone; it can wait for the next sweep.
            Err(error) => tracing::error!(%error, "expired requests cannot be deleted"),
        }
        Ok(())
    }
}

/// Identifies an operation: kind and all fields.
fn operation_hash(operation: &Operation) -> B256 {
    keccak256(encode(operation))
}
