//! The request tracker: admits requests, one after the other.
//!
//! It holds the locks of the open requests in memory, checks a submission against the rules on the
//! published state, and hands it to the group commit. The group commit sends the answer when the
//! request is durable, so the mailbox never waits for a disk.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::ledger::{Entry, IdPlace, RequestId};
use selfsame_protocol::net::network_of;
use selfsame_protocol::rate_limit::RateLimit;
use selfsame_protocol::registry::{self, Lock, Operation, Overlay, RecoveredSigner};
use selfsame_protocol::time::{RetryAfter, UnixSeconds};
use selfsame_protocol::{B256, keccak256};
use selfsame_storage::{GroupCommit, IdempotencyKey, IdempotencyRecord, OnDurable, RequestWriter, StoreError};
use tokio::sync::oneshot;
use tracing::{Instrument, Span};

use super::actors::{RequestTrackerMessage, SweepProgress};
use super::open_requests::{hash_operation, log_step};
use super::reader::{Reader, Reads};
use super::submit::{RateLimitScope, Submission, SubmitError};
use super::waiters::RequestProgress;
use super::wakeup::Wakeup;
use crate::clock::Random;
use crate::support::slot::{OpenedMessage, Slot, TracedMessage};
use crate::support::source_limits::RateLimiter;
use crate::support::tasks::RETRY_INTERVAL;

/// How often expired records are deleted.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// The most requests, and the most idempotency keys, that the tracker deletes while it handles one
/// message, each in one commit. Admission waits until both commits end.
const SWEEP_BATCH: usize = 1000;

/// The answer to a submission.
type Admission = Result<RequestId, SubmitError>;

/// Limits of admission. They can be changed while the service runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// The most open requests. Further requests are refused.
    pub queue_length: usize,
    /// Calls that may wait for one actor's answer at a time.
    pub waiting_calls: usize,
    /// Clients that may wait for final states at a time.
    pub status_waiters: usize,
    /// Limit of requests by source address (IPv6 by /64); `None` is off.
    pub per_source: Option<RateLimit>,
    /// Limit of accepted requests by account; `None` is off.
    pub per_leaf_index: Option<RateLimit>,
    /// How long the record of a final request is kept.
    pub request_retention: Duration,
    /// How long an idempotency key stands for its request.
    pub idempotency_retention: Duration,
}

impl Default for AdmissionLimits {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        Self {
            queue_length: 100_000,
            waiting_calls: 4096,
            status_waiters: 10_000,
            per_source: None,
            per_leaf_index: None,
            request_retention: day,
            idempotency_retention: day,
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
    /// The right of the request tracker in `slot`, with what wakes the batcher.
    pub fn new(
        reader: Arc<Reader>,
        slot: Arc<Slot<RequestTrackerMessage>>,
        batcher: Arc<Wakeup>,
        random: Arc<dyn Random>,
        group_commit: GroupCommit,
    ) -> Self {
        let writer = RequestWriter::new(reader.store.clone(), group_commit);
        Self { reader, slot, batcher, random, last_id: Mutex::default(), writer }
    }

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

/// The actor.
pub(crate) struct RequestTracker;

/// State of the tracker. After a restart the tracker reads the open requests and their locks from
/// the store, and the counts of the limit by account start from zero.
pub(crate) struct RequestTrackerState {
    admitter: Arc<Admitter>,
    /// Locks of open requests and the requests that hold them.
    locks: HashMap<Lock, RequestId>,
    open: HashMap<RequestId, OpenRequest>,
    /// Idempotency keys of open requests that this tracker admitted. Their records were handed to
    /// the group commit and may not be readable yet.
    open_keys: HashMap<B256, IdempotencyRecord>,
    /// Admitted requests of each account within the limit's window.
    per_account: RateLimiter<LeafIndex>,
    last_sequence: u64,
}

/// A request that is not final.
struct OpenRequest {
    sequence: u64,
    operation_hash: B256,
    locks: Vec<Lock>,
    /// Hash of its idempotency key; `None` when it has none, or was loaded from the store.
    key_hash: Option<B256>,
}

impl OpenRequest {
    /// A request that was loaded from the store.
    fn of(sequence: u64, operation: &Operation) -> Self {
        let (operation_hash, locks) = (hash_operation(operation), operation.locks());
        Self { sequence, operation_hash, locks, key_hash: None }
    }

    /// The account that the request changes.
    fn leaf_index(&self) -> Option<LeafIndex> {
        self.locks.iter().find_map(|lock| match lock {
            Lock::LeafIndex(leaf_index) => Some(*leaf_index),
            Lock::Address(_) => None,
        })
    }
}

impl Actor for RequestTracker {
    type Msg = TracedMessage<RequestTrackerMessage>;
    type State = RequestTrackerState;
    type Arguments = Arc<Admitter>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        admitter: Arc<Admitter>,
    ) -> Result<RequestTrackerState, ActorProcessingErr> {
        // The tracker occupies the slot before it loads the state, so that the notification of a
        // block that is applied meanwhile reaches this mailbox.
        admitter.slot.occupy(myself.clone());
        fault_point!(admitter.reader.fault_scope(), RequestTrackerStart);
        // A predecessor may have handed in requests.
        admitter.settle().await;
        let blocking = admitter.reader.blocking.clone();
        let state = blocking.run(move || RequestTrackerState::load(admitter)).await??;
        myself.send_interval(SWEEP_INTERVAL, || RequestTrackerMessage::Sweep.into());
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut RequestTrackerState,
    ) -> Result<(), ActorProcessingErr> {
        let OpenedMessage { span, caller, message } = message.open(state.admitter.slot.name());
        async {
            fault_point!(state.admitter.reader.fault_scope(), RequestTrackerHandle);
            match message {
                RequestTrackerMessage::Ping(reply) => drop(reply.send(())),
                RequestTrackerMessage::Admit(submission, signer, reply) => {
                    state.admit(*submission, signer, &caller, reply);
                }
                RequestTrackerMessage::Applied(block) => {
                    block.entries.iter().for_each(|entry| drop(state.close(&entry.request_id)));
                }
                RequestTrackerMessage::NotDurable(request_id) => state.resolve_failed_commit(request_id, &myself),
                RequestTrackerMessage::Reload(reply) => drop(reply.send(state.reload().await?)),
                RequestTrackerMessage::Sweep => state.sweep(SweepProgress::default(), &myself).await?,
                RequestTrackerMessage::ContinueSweep(swept) => state.sweep(swept, &myself).await?,
            }
            Ok(())
        }
        .instrument(span)
        .instrument(caller.clone())
        .await
    }
}

impl RequestTrackerState {
    fn load(admitter: Arc<Admitter>) -> Result<Self, StoreError> {
        let (queued, last_sequence) = admitter.load()?;
        let mut locks = HashMap::new();
        let mut open = HashMap::new();
        for (sequence, Entry { request_id, operation }) in queued {
            let request = OpenRequest::of(sequence, &operation);
            locks.extend(request.locks.iter().map(|lock| (*lock, request_id)));
            open.insert(request_id, request);
        }
        admitter.reader.operations.begin_again(open.keys().copied());
        // Those of requests that are no longer open would stay for ever.
        admitter.reader.signers.clear();
        admitter.reader.publication.mark_durable(last_sequence);
        let state =
            Self { admitter, locks, open, open_keys: HashMap::new(), per_account: RateLimiter::new(), last_sequence };
        state.count_open_requests();
        Ok(state)
    }

    /// Reads the open requests again: another replica has admitted some since. The counts of the
    /// limit by account are this service's own and stay.
    async fn reload(&mut self) -> Result<Result<(), StoreError>, ActorProcessingErr> {
        let admitter = Arc::clone(&self.admitter);
        let loaded = self.admitter.reader.blocking.run(move || Self::load(admitter)).await?;
        Ok(loaded.map(|loaded| {
            let Self { locks, open, open_keys, last_sequence, .. } = loaded;
            (self.locks, self.open, self.open_keys, self.last_sequence) = (locks, open, open_keys, last_sequence);
        }))
    }

    fn count_open_requests(&self) {
        self.admitter.reader.counters.open_requests.store(self.open.len(), Ordering::Relaxed);
    }

    /// Admits or refuses a submission. A refusal is answered here, unless it rests on a request
    /// that is not durable yet; an admitted request is answered by the group commit.
    fn admit(
        &mut self,
        submission: Submission,
        signer: RecoveredSigner,
        caller: &Span,
        reply: RpcReplyPort<Admission>,
    ) {
        if !self.admitter.leads() {
            let reason = "another replica admits requests".to_owned();
            return drop(reply.send(Err(SubmitError::Unavailable { reason })));
        }
        let operation_hash = hash_operation(&submission.operation);
        let key_hash = submission.idempotency_key.as_deref().map(|key| hash_key(key, &signer, submission.source));
        let checked = match self.known_request(key_hash, operation_hash) {
            Ok(Some(known)) => return self.answer_when_durable(known, reply),
            Ok(None) => self.check_admission(&submission.operation, signer, operation_hash),
            Err(error) => Err(error),
        };
        match checked {
            Ok(()) => {
                self.admitter.reader.signers.keep(operation_hash, signer);
                self.accept(submission.operation, key_hash, operation_hash, caller, reply);
            }
            Err(SubmitError::Duplicate { lock, same_as }) => self.refuse_when_durable(lock, same_as, reply),
            // An error of `send` means that the caller no longer waits.
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    /// The request that the hash of an idempotency key stands for. `None` when the key is new, its
    /// retention is over, or its request is no longer recorded.
    fn known_request(&self, key_hash: Option<B256>, operation_hash: B256) -> Result<Option<RequestId>, SubmitError> {
        let Some(key_hash) = key_hash else { return Ok(None) };
        let reader = &self.admitter.reader;
        let known = match self.open_keys.get(&key_hash) {
            Some(record) => Some(*record),
            None => self.admitter.idempotency(&key_hash)?,
        };
        let retention = reader.limits.load().idempotency_retention.as_secs();
        let now = reader.clock.unix_seconds();
        match known.filter(|record| now < record.accepted_at.plus(retention)) {
            None => Ok(None),
            Some(record) if record.body_hash != operation_hash => Err(SubmitError::IdempotencyKeyReused),
            Some(IdempotencyRecord { request_id, .. }) => {
                let is_kept =
                    self.open.contains_key(&request_id) || reader.request(&request_id, Reads::Disk)?.is_some();
                Ok(is_kept.then_some(request_id))
            }
        }
    }

    /// Checks whether a new request is admitted: queue, locks, rules, limit by account.
    fn check_admission(
        &mut self,
        operation: &Operation,
        signer: RecoveredSigner,
        operation_hash: B256,
    ) -> Result<(), SubmitError> {
        let reader = Arc::clone(&self.admitter.reader);
        let limits = **reader.limits.load();
        let limit = limits.queue_length;
        if self.open.len() >= limit {
            return Err(SubmitError::QueueFull { limit });
        }
        for lock in operation.locks() {
            let Some(holder) = self.locks.get(&lock).copied() else { continue };
            if !self.is_final(&holder)? {
                let is_same = self.open.get(&holder).is_some_and(|open| open.operation_hash == operation_hash);
                return Err(SubmitError::Duplicate { lock, same_as: is_same.then_some(holder) });
            }
        }
        let snapshot = reader.snapshot();
        let now = reader.clock.now();
        let time = UnixSeconds(now.as_secs()).max(snapshot.tip().seal.time);
        registry::apply(operation, signer, &reader.rules, time, &mut Overlay::new(snapshot.as_ref()))??;
        let windows = self.per_account.under(limits.per_leaf_index);
        if let (Some(windows), Some(leaf_index)) = (windows, operation.leaf_index()) {
            let scope = RateLimitScope::LeafIndex;
            let limited = |wait| SubmitError::RateLimited { scope, retry_after: RetryAfter(wait) };
            windows.check(&leaf_index, 1, now).map_err(limited)?;
            // The charge comes after the signature and the rules, so that other clients cannot use
            // up the account's limit. An account without room in the windows passes uncounted: this
            // limit protects the account, and the limit by source protects the service.
            windows.charge(leaf_index, 1, now);
        }
        Ok(())
    }

    /// Whether a request that holds a lock is final for its client, although this tracker has not
    /// been notified yet.
    fn is_final(&self, request_id: &RequestId) -> Result<bool, StoreError> {
        let progress = self.admitter.reader.progress(request_id, Reads::Disk)?;
        Ok(matches!(progress, Some((_, RequestProgress::Final { .. }))))
    }

    fn accept(
        &mut self,
        operation: Operation,
        key_hash: Option<B256>,
        operation_hash: B256,
        caller: &Span,
        reply: RpcReplyPort<Admission>,
    ) {
        let request_id = self.admitter.new_request_id();
        let idempotency: Option<IdempotencyKey> = key_hash.map(|key_hash| {
            let accepted_at = self.admitter.reader.clock.unix_seconds();
            (key_hash, IdempotencyRecord { request_id, body_hash: operation_hash, accepted_at })
        });
        self.last_sequence += 1;
        let sequence = self.last_sequence;
        let open = OpenRequest { sequence, operation_hash, locks: operation.locks(), key_hash };
        self.locks.extend(open.locks.iter().map(|lock| (*lock, request_id)));
        self.open.insert(request_id, open);
        self.open_keys.extend(idempotency);
        self.count_open_requests();
        let operations = &self.admitter.reader.operations;
        operations.begin(request_id, caller);

        let (admitter, span) = (Arc::clone(&self.admitter), operations.span(&request_id));
        let durable = move |result: Result<(), StoreError>| {
            let _entered = span.entered();
            match result {
                Ok(()) => {
                    admitter.reader.counters.accepted.inc();
                    admitter.mark_durable(sequence);
                    log_step(&Span::current(), admitter.slot.name(), || {
                        tracing::debug!(sequence, "admitted a request")
                    });
                    drop(reply.send(Ok(request_id)));
                }
                Err(error) => {
                    admitter.slot.cast(RequestTrackerMessage::NotDurable(request_id));
                    drop(reply.send(Err(SubmitError::of_commit(request_id, &error))));
                }
            }
        };
        self.admitter.admit(sequence, Entry { request_id, operation }, idempotency, Box::new(durable));
    }

    /// Answers with the earlier request `known` once everything that was handed in until now is
    /// durable, or with the error of that commit.
    fn answer_when_durable(&self, known: RequestId, reply: RpcReplyPort<Admission>) {
        let durable = move |result: Result<(), StoreError>| {
            let result = result.map(|()| known).map_err(|error| SubmitError::of_commit(known, &error));
            drop(reply.send(result));
        };
        self.admitter.after_admitted(Box::new(durable));
    }

    /// Refuses a request for the lock that an open one holds, once that one is durable. When its
    /// commit fails, it was never in the way.
    fn refuse_when_durable(&self, lock: Lock, same_as: Option<RequestId>, reply: RpcReplyPort<Admission>) {
        let reader = Arc::clone(&self.admitter.reader);
        let holder = self.locks.get(&lock).copied();
        let is_durable =
            move || holder.is_none_or(|holder| matches!(reader.request(&holder, Reads::Disk), Ok(Some(_))));
        let refusal = move |is_durable| match is_durable {
            true => SubmitError::Duplicate { lock, same_as },
            false => SubmitError::Unavailable { reason: "a request that was in the way was not recorded".to_owned() },
        };
        if is_durable() {
            return drop(reply.send(Err(refusal(true))));
        }
        let settled = move |_| drop(reply.send(Err(refusal(is_durable()))));
        self.admitter.after_admitted(Box::new(settled));
    }

    /// Closes a request whose commit failed, unless the store has it: a failed sync may have
    /// written it. A request that was written is treated as admitted.
    fn resolve_failed_commit(
        &mut self,
        request_id: RequestId,
        myself: &ActorRef<TracedMessage<RequestTrackerMessage>>,
    ) {
        match self.admitter.reader.request(&request_id, Reads::Disk) {
            Ok(Some(_)) => {
                if let Some(open) = self.open.get(&request_id) {
                    self.admitter.mark_durable(open.sequence);
                }
            }
            Ok(None) => {
                // The account's limit gets the charge back.
                let closed = self.close(&request_id);
                let limit = self.admitter.reader.limits.load().per_leaf_index;
                let windows = self.per_account.under(limit);
                if let (Some(windows), Some(leaf_index)) = (windows, closed.and_then(|closed| closed.leaf_index())) {
                    windows.refund(&leaf_index);
                }
            }
            // The store cannot be read, so it is open whether the request was written. Until that
            // is clear, the request keeps its locks.
            Err(_) => {
                drop(myself.send_after(RETRY_INTERVAL, move || RequestTrackerMessage::NotDurable(request_id).into()))
            }
        }
    }

    /// Releases what an open request holds.
    fn close(&mut self, request_id: &RequestId) -> Option<OpenRequest> {
        let closed = self.open.remove(request_id)?;
        self.admitter.reader.operations.end(request_id);
        self.admitter.reader.signers.forget(&closed.operation_hash);
        if let Some(key_hash) = closed.key_hash
            && self.open_keys.get(&key_hash).is_some_and(|record| record.request_id == *request_id)
        {
            self.open_keys.remove(&key_hash);
        }
        for lock in &closed.locks {
            if self.locks.get(lock) == Some(request_id) {
                self.locks.remove(lock);
            }
        }
        self.count_open_requests();
        Some(closed)
    }

    /// Deletes at most [`SWEEP_BATCH`] expired records of each kind. A further message deletes the
    /// rest, so that a day's requests do not block the mailbox.
    async fn sweep(
        &mut self,
        swept: SweepProgress,
        myself: &ActorRef<TracedMessage<RequestTrackerMessage>>,
    ) -> Result<(), ActorProcessingErr> {
        let admitter = Arc::clone(&self.admitter);
        // A key that was used again keeps its new record: the commit of that record may still be
        // waiting, and a deletion after it would remove the record.
        let open_keys = std::mem::take(&mut self.open_keys);
        let sweeping = move || {
            let swept = admitter.sweep(swept, SWEEP_BATCH, |key_hash| open_keys.contains_key(key_hash));
            (open_keys, swept)
        };
        let (open_keys, swept) = self.admitter.reader.blocking.run(sweeping).await?;
        self.open_keys = open_keys;
        match swept {
            Ok(Some(swept)) => myself.cast(RequestTrackerMessage::ContinueSweep(swept).into())?,
            Ok(None) => {}
            // Expired records count as absent already; the next sweep deletes them.
            Err(error) => tracing::error!(%error, "expired requests cannot be deleted"),
        }
        Ok(())
    }
}

/// Hash of an idempotency key and of the client whose key it is, so that the keys of different
/// clients do not meet: the signer, who may change networks between two attempts; the network of
/// the source (IPv6: its /64), when the operation has no signature.
fn hash_key(key: &str, signer: &RecoveredSigner, source: Option<IpAddr>) -> B256 {
    let client = match (signer, source) {
        (Some(Ok(address)), _) => format!("signer {address}"),
        (_, Some(source)) => format!("source {}", network_of(source)),
        (_, None) => "no source".to_owned(),
    };
    // The client's text has no line break, so that the texts of different pairs differ.
    keccak256(format!("{client}\n{key}"))
}
