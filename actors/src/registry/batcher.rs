//! The batcher: turns the durable queue into sealed blocks, by size and age.
//!
//! A block costs more than its operations: a commit, the path to the root, a snapshot. So it pays
//! to wait for others where others come. A batcher that has little to do does not wait: a lone
//! request is final as soon as the disk and the hash allow.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use selfsame_protocol::ledger::{Block, Entry, Seal};
use selfsame_protocol::time::{ClockGuard, ClockStep, UnixSeconds};
use selfsame_storage::{GroupCommit, Ledger, LedgerError, ReplicaError, StoreError};
use tokio::time::Instant;
use tracing::{Instrument, Span};

use super::actors::{BatcherMessage, SealedBlock};
use super::blocks::{BLOCKS_AHEAD, OwnBlock};
use super::reader::{Reader, Reads};
use super::wakeup::Wakeup;
use crate::support::slot::{OpenedMessage, Slot, TracedMessage, actor_span};
use crate::support::tasks::{RETRY_INTERVAL, RetriedStep, SerialBlocking};

/// A block of at most this many operations is a sign of little load: a wait would have gained
/// little.
const SMALL_BLOCK: usize = 16;

/// Why a block is not sealed.
#[derive(Debug, thiserror::Error)]
enum SealError {
    /// The ledger refused it, or the store cannot be read or written.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The service's clock cannot be right.
    #[error(transparent)]
    Clock(#[from] ClockStep),
}

impl SealError {
    /// What to tell operators until sealing works again; `None` when the next attempt is to be made
    /// at once, because another block was appended.
    fn failure(&self) -> Option<&dyn Display> {
        match self {
            // Another replica seals blocks now.
            Self::Ledger(LedgerError::Store(StoreError::Replica(ReplicaError::NotLeading))) => None,
            Self::Ledger(LedgerError::Store(error)) => Some(error),
            Self::Ledger(_) => None,
            Self::Clock(step) => Some(step),
        }
    }
}

impl From<StoreError> for SealError {
    fn from(error: StoreError) -> Self {
        Self::Ledger(error.into())
    }
}

/// Limits of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// The most operations in a block, inclusive.
    pub max_operations: usize,
    /// How long the first request of a block waits for others, at least, before the batcher seals
    /// it: while it has little to do.
    pub min_wait: Duration,
    /// How long the first request of a block waits for others, at most, unless blocks wait to be
    /// applied.
    pub max_wait: Duration,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self { max_operations: 1024, min_wait: Duration::ZERO, max_wait: Duration::from_millis(5) }
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
    /// The right to append to `ledger`.
    pub fn new(
        reader: Arc<Reader>,
        wakeup: Arc<Wakeup>,
        limits: BatchLimits,
        ledger: Arc<dyn Ledger>,
        group_commit: GroupCommit,
    ) -> Self {
        let clock_guard = Mutex::new(ClockGuard::new(reader.clock.now(), reader.clock.passed()));
        Self {
            work: SerialBlocking::new(reader.blocking.clone()),
            reader,
            wakeup,
            limits,
            step: Arc::new(RetriedStep::new("sealing a block")),
            clock_guard,
            ledger,
            attempts: 0.into(),
            group_commit,
        }
    }

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
    pub fn append(&self, block: Block, sequences: Vec<u64>, started: std::time::Instant) -> u64 {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        let ended = move |appended| BatcherMessage::Sealed(SealedBlock { attempt, appended });
        let told = OutcomeReport { slot: Arc::clone(&self.wakeup.slot), message: Some(Box::new(ended)) };
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
        let told = OutcomeReport { slot: Arc::clone(&self.wakeup.slot), message: Some(Box::new(settled)) };
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

/// Tells the batcher the outcome of what was handed in. When it is dropped without an outcome, as
/// by a committing thread that panics, it tells an error.
struct OutcomeReport {
    slot: Arc<Slot<BatcherMessage>>,
    message: Option<MessageOf>,
}

type MessageOf = Box<dyn FnOnce(Result<(), LedgerError>) -> BatcherMessage + Send>;

impl OutcomeReport {
    fn tell(mut self, outcome: Result<(), LedgerError>) {
        self.send(outcome);
    }

    fn send(&mut self, outcome: Result<(), LedgerError>) {
        if let Some(message) = self.message.take() {
            self.slot.cast(message(outcome));
        }
    }
}

impl Drop for OutcomeReport {
    fn drop(&mut self) {
        self.send(Err(StoreError::Panicked.into()));
    }
}

/// The actor.
pub(crate) struct Batcher;

/// State of the batcher. After a restart the batcher reads the sequence numbers from the store.
pub(crate) struct BatcherState {
    sealer: Arc<Sealer>,
    /// Whether what a predecessor handed in is durable or refused. Nothing is sealed before.
    is_settled: bool,
    /// The block that is being appended. No other is sealed meanwhile.
    appending: Option<Appending>,
    /// Requests up to this sequence number are in blocks.
    sealed: u64,
    /// Requests up to this sequence number may be in a block that this batcher has not sealed.
    /// Before the batcher seals such a request, it looks the request up in the ledger.
    uncertain: u64,
    /// When the oldest waiting request was first seen.
    waiting_since: Option<Instant>,
    /// When the last block was sealed, if it had more than [`SMALL_BLOCK`] operations.
    large_block_at: Option<Instant>,
    /// The time of the last timer that was set.
    timer_at: Option<Instant>,
    /// Sealing failed, and a [`BatcherMessage::Retry`] is on its way. Wake-ups before it are
    /// ignored.
    awaits_retry: bool,
}

/// A block that was handed to the ledger.
struct Appending {
    /// The number of the attempt, which its outcome has, too.
    attempt: u64,
    /// Requests up to this sequence number are in blocks when it is appended.
    last: u64,
    /// Requests up to this sequence number may be in it.
    durable: u64,
}

impl Actor for Batcher {
    type Msg = TracedMessage<BatcherMessage>;
    type State = BatcherState;
    type Arguments = Arc<Sealer>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        sealer: Arc<Sealer>,
    ) -> Result<BatcherState, ActorProcessingErr> {
        sealer.wakeup.slot.occupy(myself.clone());
        fault_point!(sealer.reader.fault_scope(), BatcherStart);
        Ok(BatcherState::load(sealer).await?)
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut BatcherState,
    ) -> Result<(), ActorProcessingErr> {
        let OpenedMessage { span, caller, message } = message.open(state.sealer.wakeup.slot.name());
        async {
            fault_point!(state.sealer.reader.fault_scope(), BatcherHandle);
            match message {
                BatcherMessage::Ping(reply) => drop(reply.send(())),
                BatcherMessage::Wake if state.awaits_retry => {}
                BatcherMessage::Retry => {
                    state.awaits_retry = false;
                    state.wake(&myself).await?;
                }
                BatcherMessage::Wake => state.wake(&myself).await?,
                BatcherMessage::Settled => {
                    state.is_settled = true;
                    state.wake(&myself).await?;
                }
                BatcherMessage::Reload(reply) => {
                    let reloaded = BatcherState::load(Arc::clone(&state.sealer)).await;
                    drop(reply.send(reloaded.map(|reloaded| *state = reloaded)));
                }
                BatcherMessage::Sealed(sealed) => state.end_attempt(sealed, &myself).await?,
            }
            Ok(())
        }
        .instrument(span)
        .instrument(caller)
        .await
    }
}

impl BatcherState {
    /// Reads how far the queue is sealed.
    async fn load(sealer: Arc<Sealer>) -> Result<Self, StoreError> {
        // Waits for the block that a killed predecessor prepares, and is told when what that one
        // handed in is decided. Its requests count as uncertain.
        sealer.work.until_idle().await;
        sealer.settle();
        // What a predecessor failed at may not be left to do: then nothing else would end its
        // failure.
        sealer.step.record_success();
        let uncertain = sealer.last_sequence()?;
        let oldest = sealer.queued_after(0, 1)?;
        let sealed = oldest.first().map_or(uncertain, |(oldest, _)| oldest - 1);
        Ok(Self {
            sealer,
            is_settled: false,
            appending: None,
            sealed,
            uncertain,
            waiting_since: None,
            large_block_at: None,
            timer_at: None,
            awaits_retry: false,
        })
    }

    /// Seals a block when one is due.
    async fn wake(&mut self, myself: &ActorRef<TracedMessage<BatcherMessage>>) -> Result<(), ActorProcessingErr> {
        let sealer = Arc::clone(&self.sealer);
        let durable = sealer.wakeup.take(&sealer.reader.publication);
        if !sealer.leads() {
            // The begin of a leadership wakes this actor again. Until then nothing is left to do.
            sealer.step.record_success();
            return Ok(());
        }
        if !self.is_settled || self.appending.is_some() {
            // The end of what is being written wakes this actor again.
            return Ok(());
        }
        let durable = durable.max(self.uncertain);
        let waiting = durable.saturating_sub(self.sealed) as usize;
        if waiting == 0 {
            return Ok(());
        }
        // `now` is read before a timer starts. Otherwise the timer could fire before the wait has
        // passed since `now`, and no later wake-up would come.
        let now = Instant::now();
        let since = *self.waiting_since.get_or_insert(now);
        let ahead = sealer.reader.ledger_height().saturating_sub(sealer.reader.publication.height());
        let due_at = due_at(&sealer.limits, since, self.large_block_at, ahead > 0);
        let is_due = waiting >= sealer.limits.max_operations || now >= due_at;
        if !is_due || ahead >= BLOCKS_AHEAD as u64 {
            // The timer, or the next applied block, wakes this actor again.
            if !is_due && self.timer_at != Some(due_at) {
                self.timer_at = Some(due_at);
                myself.send_after(due_at - now, || BatcherMessage::Wake.into());
            }
            return Ok(());
        }
        self.waiting_since = None;
        self.large_block_at = (waiting > SMALL_BLOCK).then_some(now);
        let range = Range { after: self.sealed, durable, uncertain: self.uncertain };
        match self.sealer.work.run(move || seal(&sealer, range)).await? {
            Ok(Sealing::Nothing { last }) => self.continue_after(last, myself),
            Ok(Sealing::Appending(appending)) => {
                self.appending = Some(appending);
                Ok(())
            }
            Err(error) => self.fail(durable, &error, myself),
        }
    }

    /// An attempt to append a block ended. Those of predecessors are of no interest: what they
    /// handed in is decided before this actor reads the queue.
    async fn end_attempt(
        &mut self,
        SealedBlock { attempt, appended }: SealedBlock,
        myself: &ActorRef<TracedMessage<BatcherMessage>>,
    ) -> Result<(), ActorProcessingErr> {
        let Some(appending) = self.appending.take_if(|appending| appending.attempt == attempt) else { return Ok(()) };
        let Appending { last, durable, .. } = appending;
        match appended {
            Ok(()) => {
                fault_point!(self.sealer.reader.fault_scope(), BatcherSealed);
                self.continue_after(last, myself)
            }
            Err(error) => self.fail(durable, &error.into(), myself),
        }
    }

    /// Requests up to `last` are in blocks: seals the next ones.
    fn continue_after(
        &mut self,
        last: u64,
        myself: &ActorRef<TracedMessage<BatcherMessage>>,
    ) -> Result<(), ActorProcessingErr> {
        self.sealed = last;
        self.sealer.step.record_success();
        self.wake_for_the_rest(myself)
    }

    /// Sealing requests up to `durable` failed. Any of them may be in a block: in another
    /// appender's, or in this one, because an append that returns an error may have been written.
    fn fail(
        &mut self,
        durable: u64,
        error: &SealError,
        myself: &ActorRef<TracedMessage<BatcherMessage>>,
    ) -> Result<(), ActorProcessingErr> {
        self.sealed = 0;
        self.uncertain = durable;
        match error.failure() {
            Some(failure) => {
                self.sealer.step.record_failure(failure);
                self.awaits_retry = true;
                myself.send_after(RETRY_INTERVAL, || BatcherMessage::Retry.into());
                Ok(())
            }
            None => self.wake_for_the_rest(myself),
        }
    }

    fn wake_for_the_rest(&self, myself: &ActorRef<TracedMessage<BatcherMessage>>) -> Result<(), ActorProcessingErr> {
        if self.sealer.reader.publication.durable().max(self.uncertain) > self.sealed {
            myself.cast(BatcherMessage::Wake.into())?;
        }
        Ok(())
    }
}

/// When requests that wait since a time are to be sealed, if no more than they come.
/// `large_block_at` is when the last block was sealed, if it had more than [`SMALL_BLOCK`]
/// operations; `is_behind` says that a sealed block waits to be applied, whose end wakes the
/// batcher.
fn due_at(limits: &BatchLimits, since: Instant, large_block_at: Option<Instant>, is_behind: bool) -> Instant {
    let BatchLimits { min_wait, max_wait, .. } = *limits;
    let is_busy = is_behind || large_block_at.is_some_and(|large_block_at| since < large_block_at + max_wait);
    since + if is_busy { max_wait } else { min_wait.min(max_wait) }
}

/// The requests that may be sealed, by their sequence numbers.
struct Range {
    /// Those up to here, inclusive, are in blocks.
    after: u64,
    /// Those up to here, inclusive, are durable.
    durable: u64,
    /// Those up to here, inclusive, may be in blocks.
    uncertain: u64,
}

/// What came of an attempt to seal.
enum Sealing {
    /// All requests up to `last` were in blocks already.
    Nothing {
        /// A sequence number.
        last: u64,
    },
    /// A block was handed to the ledger.
    Appending(Appending),
}

/// Seals the requests of a range into a block, and hands it to the ledger.
///
/// Requests after `durable` are left out: when the append fails, the batcher treats the requests up
/// to `durable` as uncertain, and the block must not hold others.
fn seal(sealer: &Sealer, Range { after, durable, uncertain }: Range) -> Result<Sealing, SealError> {
    blocking_fault_point!(sealer.reader.fault_scope(), BatcherSeal);
    let started = std::time::Instant::now();
    // The head is read before the queue: when another block is appended in the meantime, the append
    // is refused and the batcher reads both again. `durable` was read before the queue too: a
    // request up to it that is not in the queue has been applied.
    let head = sealer.head()?;
    let limits = &sealer.limits;
    let mut queued = sealer.queued_after(after, limits.max_operations)?;
    queued.retain(|(sequence, _)| *sequence <= durable);
    let last = match queued.last() {
        Some((last, _)) if queued.len() == limits.max_operations => *last,
        _ => durable,
    };
    let (mut sequences, mut entries) = (Vec::with_capacity(queued.len()), Vec::with_capacity(queued.len()));
    for (sequence, entry) in queued {
        let is_sealed = sequence <= uncertain && sealer.reader.place(&entry.request_id, Reads::Disk)?.is_some();
        if !is_sealed {
            sequences.push(sequence);
            entries.push(entry);
        }
    }
    sealer.reader.publication.mark_batching(last);
    if entries.is_empty() {
        return Ok(Sealing::Nothing { last });
    }
    let reader = &sealer.reader;
    let now = sealer.block_time(head.time)?;
    let block = Block::seal(&head, reader.domain(), now, reader.rules, entries);
    let attempt = sealer.append(block, sequences, started);
    Ok(Sealing::Appending(Appending { attempt, last, durable }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn requests_wait_for_others_only_where_others_come() {
        let ms = Duration::from_millis;
        let limits = BatchLimits { min_wait: ms(1), max_wait: ms(5), ..BatchLimits::default() };
        let since = Instant::now() + ms(1000);
        let cases = [
            ("nothing is going on", None, false, ms(1)),
            ("a block waits to be applied", None, true, ms(5)),
            ("a large block was sealed a moment ago", Some(ms(4)), false, ms(5)),
            ("a large block was sealed long ago", Some(ms(5)), false, ms(1)),
        ];
        for (case, large_block_before, is_behind, expected) in cases {
            let large_block_at = large_block_before.map(|before| since - before);
            assert_eq!(due_at(&limits, since, large_block_at, is_behind) - since, expected, "{case}");
        }
        // The configuration refuses it; an embedder's settings may have it.
        let limits = BatchLimits { min_wait: ms(9), ..limits };
        assert_eq!(due_at(&limits, since, None, false) - since, ms(5));
    }
}
