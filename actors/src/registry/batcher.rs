//! The batcher: turns the durable queue into sealed blocks, by size and age.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use selfsame_protocol::ledger::{Block, Entry};
use selfsame_protocol::registry::RuleParameters;
use selfsame_storage::LedgerError;
use tokio::time::Instant;

use crate::registry::handle::Shared;
use crate::support::retry::RETRY;

/// Sealed blocks that may wait to be applied: while one is being applied the next is sealed, and no more, so that a block
/// takes as many requests as have come in the meantime.
const BLOCKS_AHEAD: u64 = 2;

/// What the batcher is told.
pub(crate) enum BatcherMessage {
    /// There may be something to do: a request became durable, a block was applied, a waiting time is over.
    Wake,
    /// Sealing failed a while ago; try again.
    Retry,
    /// Answer, to show that you are not stuck.
    Ping(RpcReplyPort<()>),
}

/// How requests become blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchLimits {
    /// The most operations in a block.
    pub max_operations: usize,
    /// How long the first request of a block waits for company.
    pub max_wait: Duration,
    /// The rule parameters that new blocks carry.
    pub rules: RuleParameters,
}

/// The actor.
pub(crate) struct Batcher;

/// What the batcher remembers; all of it can be found again in queue and ledger.
pub(crate) struct BatcherState {
    shared: Arc<Shared>,
    /// Requests up to this sequence number are in blocks.
    sealed: u64,
    /// Requests up to this sequence number may be in a block that this batcher has not sealed: look before sealing them.
    uncertain: u64,
    /// When the oldest waiting request was first seen.
    waiting_since: Option<Instant>,
    /// Sealing failed and rests: wakes in the meantime change nothing.
    is_resting: bool,
}

impl Actor for Batcher {
    type Msg = BatcherMessage;
    type State = BatcherState;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        shared: Arc<Shared>,
    ) -> Result<BatcherState, ActorProcessingErr> {
        shared.batcher.occupy(myself.clone());
        fault_point!(BatcherStart);
        // What a predecessor is sealing at the moment is among the uncertain ones.
        shared.sealing.idle().await;
        let uncertain = shared.store.last_sequence()?;
        let oldest = shared.store.queued_after(0, 1)?;
        let sealed = oldest.first().map_or(uncertain, |(oldest, _)| oldest - 1);
        myself.cast(BatcherMessage::Wake)?;
        Ok(BatcherState { shared, sealed, uncertain, waiting_since: None, is_resting: false })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut BatcherState,
    ) -> Result<(), ActorProcessingErr> {
        fault_point!(BatcherHandle);
        match message {
            BatcherMessage::Ping(reply) => drop(reply.send(())),
            BatcherMessage::Wake if state.is_resting => {}
            BatcherMessage::Retry => {
                state.is_resting = false;
                state.wake(&myself).await?;
            }
            BatcherMessage::Wake => state.wake(&myself).await?,
        }
        Ok(())
    }
}

impl BatcherState {
    async fn wake(&mut self, myself: &ActorRef<BatcherMessage>) -> Result<(), ActorProcessingErr> {
        // A swap, not a store: whoever set the flag before us also marked what we read next.
        self.shared.batcher_woken.swap(false, Ordering::AcqRel);
        let durable = self.shared.publication.durable().max(self.uncertain);
        let waiting = durable.saturating_sub(self.sealed) as usize;
        if waiting == 0 {
            return Ok(());
        }
        let limits = self.shared.batch_limits;
        let since = *self.waiting_since.get_or_insert_with(|| {
            // The time before the timer: a wake that came a moment too early would be the last one.
            let now = Instant::now();
            myself.send_after(limits.max_wait, || BatcherMessage::Wake);
            now
        });
        let is_due = waiting >= limits.max_operations || since.elapsed() >= limits.max_wait;
        // An applied block wakes us again.
        let ahead = self.shared.ledger_height.load(Ordering::Relaxed).saturating_sub(self.shared.publication.height());
        if !is_due || ahead >= BLOCKS_AHEAD {
            return Ok(());
        }
        self.waiting_since = None;
        let (shared, sealed, uncertain) = (Arc::clone(&self.shared), self.sealed, self.uncertain);
        match self.shared.sealing.run(move || seal(&shared, sealed, durable, uncertain)).await? {
            Ok(sealed) => {
                self.sealed = sealed;
                self.shared.sealing_step.succeeded();
            }
            Err(LedgerError::NotNext { .. }) => {
                // Somebody else appended: what we thought unsealed may be in that block.
                self.sealed = 0;
                self.uncertain = durable;
            }
            Err(LedgerError::Store(error)) => {
                // The block may be there all the same.
                self.sealed = 0;
                self.uncertain = durable;
                self.shared.sealing_step.failed(error);
                self.is_resting = true;
                myself.send_after(RETRY, || BatcherMessage::Retry);
                return Ok(());
            }
        }
        if self.shared.publication.durable().max(self.uncertain) > self.sealed {
            myself.cast(BatcherMessage::Wake)?;
        }
        Ok(())
    }
}

/// Seals the requests behind sequence number `after`, up to `durable`, into a block. Returns the sequence number up to which all are
/// in blocks.
///
/// None beyond `durable`: if nobody knows afterwards whether the block was written, it is these alone that may be in it.
fn seal(shared: &Shared, after: u64, durable: u64, uncertain: u64) -> Result<u64, LedgerError> {
    blocking_fault_point!(BatcherSeal);
    // The head before the queue: if it moves while we read, the append is refused and we look again. The mark before the queue:
    // what is up to the mark and not in the queue has been applied.
    let head = shared.ledger.head();
    let limits = &shared.batch_limits;
    let mut queued = shared.store.queued_after(after, limits.max_operations)?;
    queued.retain(|(sequence, _)| *sequence <= durable);
    let last = match queued.last() {
        Some((last, _)) if queued.len() == limits.max_operations => *last,
        _ => durable,
    };
    let mut entries = Vec::with_capacity(queued.len());
    for (sequence, request) in queued {
        let is_sealed = sequence <= uncertain && shared.ledger.place(&request.request_id)?.is_some();
        if !is_sealed {
            entries.push(Entry { request_id: request.request_id, operation: request.operation });
        }
    }
    shared.publication.mark_batching(last);
    if !entries.is_empty() {
        let block = Block::seal(&head, shared.clock.unix_seconds(), limits.rules, entries);
        shared.ledger.append(&block)?;
        blocking_fault_point!(BatcherSealed);
        tracing::debug!(height = block.header.height, operations = block.header.count, "sealed a block");
    }
    Ok(last)
}
