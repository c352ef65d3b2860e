//! The batcher: turns the durable queue into sealed blocks, by size and age.

use std::fmt::Display;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use selfsame_protocol::ledger::Block;
use selfsame_protocol::time::ClockStep;
use selfsame_storage::{LedgerError, StoreError};
use tokio::time::Instant;
use tracing::Instrument;

use super::messages::BatcherMessage;
use super::state::Sealer;
use crate::support::retry::RETRY_INTERVAL;
use crate::support::traced::Traced;

/// The most sealed blocks that wait to be applied. The batcher seals a block while the one before
/// is applied, but not a third, so that the next block takes the requests that come in the
/// meantime.
const BLOCKS_AHEAD: u64 = 2;

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

/// The actor.
pub(crate) struct Batcher;

/// State of the batcher. After a restart the batcher reads the sequence numbers from the store.
pub(crate) struct BatcherState {
    sealer: Arc<Sealer>,
    /// Requests up to this sequence number are in blocks.
    sealed: u64,
    /// Requests up to this sequence number may be in a block that this batcher has not sealed.
    /// Before the batcher seals such a request, it looks the request up in the ledger.
    uncertain: u64,
    /// When the oldest waiting request was first seen.
    waiting_since: Option<Instant>,
    /// Sealing failed, and a [`BatcherMessage::Retry`] is on its way. Wake-ups before it are
    /// ignored.
    awaits_retry: bool,
}

impl Actor for Batcher {
    type Msg = Traced<BatcherMessage>;
    type State = BatcherState;
    type Arguments = Arc<Sealer>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        sealer: Arc<Sealer>,
    ) -> Result<BatcherState, ActorProcessingErr> {
        sealer.wakeup.slot.occupy(myself.clone());
        fault_point!(BatcherStart);
        // Waits for the block that a killed predecessor is sealing. Its requests count as
        // uncertain.
        sealer.work.until_idle().await;
        let uncertain = sealer.last_sequence()?;
        let oldest = sealer.queued_after(0, 1)?;
        let sealed = oldest.first().map_or(uncertain, |(oldest, _)| oldest - 1);
        myself.cast(BatcherMessage::Wake.into())?;
        Ok(BatcherState { sealer, sealed, uncertain, waiting_since: None, awaits_retry: false })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        Traced { span, message }: Self::Msg,
        state: &mut BatcherState,
    ) -> Result<(), ActorProcessingErr> {
        async {
            fault_point!(BatcherHandle);
            match message {
                BatcherMessage::Ping(reply) => drop(reply.send(())),
                BatcherMessage::Wake if state.awaits_retry => {}
                BatcherMessage::Retry => {
                    state.awaits_retry = false;
                    state.wake(&myself).await?;
                }
                BatcherMessage::Wake => state.wake(&myself).await?,
            }
            Ok(())
        }
        .instrument(span)
        .await
    }
}

impl BatcherState {
    /// Seals a block when one is due.
    async fn wake(&mut self, myself: &ActorRef<Traced<BatcherMessage>>) -> Result<(), ActorProcessingErr> {
        let sealer = Arc::clone(&self.sealer);
        sealer.wakeup.take();
        let durable = sealer.reader.publication.durable().max(self.uncertain);
        let waiting = durable.saturating_sub(self.sealed) as usize;
        if waiting == 0 {
            return Ok(());
        }
        let limits = sealer.limits;
        let since = *self.waiting_since.get_or_insert_with(|| {
            // `now` is read before the timer starts. Otherwise the timer could fire before
            // `max_wait` has passed since `now`, and no later wake-up would come.
            let now = Instant::now();
            myself.send_after(limits.max_wait, || BatcherMessage::Wake.into());
            now
        });
        let is_due = waiting >= limits.max_operations || since.elapsed() >= limits.max_wait;
        let ahead = sealer.reader.ledger_height().saturating_sub(sealer.reader.publication.height());
        if !is_due || ahead >= BLOCKS_AHEAD {
            // The timer, or the next applied block, wakes this actor again.
            return Ok(());
        }
        self.waiting_since = None;
        let (sealed, uncertain) = (self.sealed, self.uncertain);
        match self.sealer.work.run(move || seal(&sealer, sealed, durable, uncertain)).await? {
            Ok(sealed) => {
                self.sealed = sealed;
                self.sealer.step.record_success();
            }
            Err(error) => {
                // Any of these requests may be in a block: in another appender's, or in this one,
                // because an append that returns an error may have been written.
                self.sealed = 0;
                self.uncertain = durable;
                if let Some(failure) = error.failure() {
                    self.sealer.step.record_failure(failure);
                    self.awaits_retry = true;
                    myself.send_after(RETRY_INTERVAL, || BatcherMessage::Retry.into());
                    return Ok(());
                }
            }
        }
        if self.sealer.reader.publication.durable().max(self.uncertain) > self.sealed {
            myself.cast(BatcherMessage::Wake.into())?;
        }
        Ok(())
    }
}

/// Seals the requests after sequence number `after`, up to and including `durable`, into a block.
/// Returns the sequence number up to which all requests are in blocks.
///
/// Requests after `durable` are left out: when the append fails, the batcher treats the requests up
/// to `durable` as uncertain, and the block must not hold others.
fn seal(sealer: &Sealer, after: u64, durable: u64, uncertain: u64) -> Result<u64, SealError> {
    blocking_fault_point!(BatcherSeal);
    let started = std::time::Instant::now();
    // The head is read before the queue: when another block is appended in the meantime, the append
    // is refused and the batcher reads both again. `durable` was read before the queue too: a
    // request up to it that is not in the queue has been applied.
    let head = sealer.head();
    let limits = &sealer.limits;
    let mut queued = sealer.queued_after(after, limits.max_operations)?;
    queued.retain(|(sequence, _)| *sequence <= durable);
    let last = match queued.last() {
        Some((last, _)) if queued.len() == limits.max_operations => *last,
        _ => durable,
    };
    let mut entries = Vec::with_capacity(queued.len());
    for (sequence, entry) in queued {
        let is_sealed = sequence <= uncertain && sealer.reader.place(&entry.request_id)?.is_some();
        if !is_sealed {
            entries.push(entry);
        }
    }
    sealer.reader.publication.mark_batching(last);
    if !entries.is_empty() {
        let reader = &sealer.reader;
        let now = sealer.block_time(head.time)?;
        let block = Block::seal(&head, reader.domain(), now, reader.rules, entries);
        sealer.append(&block)?;
        blocking_fault_point!(BatcherSealed);
        reader.operations.seal_seconds.observe_duration(started.elapsed());
        reader.operations.record_sealed(&block);
        tracing::debug!(height = block.header.height, operations = block.header.count, "sealed a block");
    }
    Ok(last)
}
