//! Waking the batcher when requests become durable.

use std::sync::Arc;

use super::actors::BatcherMessage;
use super::publication::Publication;
use crate::support::slot::Slot;
use crate::sync::{AtomicBool, Ordering};

/// Wakes the batcher. Requests that become durable together send one message.
pub(crate) struct Wakeup {
    pub slot: Arc<Slot<BatcherMessage>>,
    is_pending: AtomicBool,
}

impl Wakeup {
    /// Wakes the batcher of `slot`.
    pub fn new(slot: Arc<Slot<BatcherMessage>>) -> Self {
        Self { slot, is_pending: AtomicBool::new(false) }
    }

    /// Marks requests up to `sequence` as durable, and wakes the batcher unless an earlier wake-up
    /// was not taken yet.
    pub fn mark_durable(&self, publication: &Publication, sequence: u64) {
        publication.mark_durable(sequence);
        if !self.is_pending.swap(true, Ordering::AcqRel) {
            self.slot.cast(BatcherMessage::Wake);
        }
    }

    /// Marks the wake-up as taken, and returns the sequence number up to which requests are
    /// durable. `swap(AcqRel)` pairs with the `swap` in [`Wakeup::mark_durable`], so every mark
    /// before a wake-up is visible to the reads that follow. A mark after them sends a new one.
    pub fn take(&self, publication: &Publication) -> u64 {
        self.is_pending.swap(false, Ordering::AcqRel);
        publication.durable()
    }
}
