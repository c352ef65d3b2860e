//! The published state, and marks of how far the registry has processed the requests.

use std::sync::Arc;

use selfsame_protocol::ledger::Tip;
use selfsame_storage::{Reached, Snapshot};

use super::waiters::Waiters;
use crate::sync::{ArcSwap, AtomicU64, Ordering, watch};

/// The published snapshot, and the marks that request states are read from. Every mark only grows.
pub(crate) struct Publication {
    snapshot: ArcSwap<Snapshot>,
    /// Requests up to this sequence number have been taken into a batch.
    batching: AtomicU64,
    /// Requests up to this sequence number are durable.
    durable: AtomicU64,
    /// Height of `snapshot`, for those who wait for a block.
    heights: Reached,
    /// Tip of `snapshot`, for embedders.
    tip: watch::Sender<Tip>,
    /// The clients that wait for final states.
    pub waiters: Waiters,
}

impl Publication {
    /// Starts from a stored state: every open request counts as taken into a batch, and as durable.
    /// At most `waiters` clients wait at a time.
    pub fn new(snapshot: Snapshot, last_sequence: u64, waiters: usize) -> Self {
        let heights = Reached::new(snapshot.tip().seal.height);
        let tip = watch::Sender::new(*snapshot.tip());
        Self {
            snapshot: ArcSwap::from_pointee(snapshot),
            heights,
            tip,
            batching: AtomicU64::new(last_sequence),
            durable: AtomicU64::new(last_sequence),
            waiters: Waiters::new(waiters),
        }
    }

    /// The newest published snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Height of the newest published block.
    pub fn height(&self) -> u64 {
        self.snapshot.load().tip().seal.height
    }

    /// Publishes a snapshot unless a newer one is published: the blocking work of a tree maintainer
    /// that was killed may end after its successor has published.
    pub fn publish(&self, snapshot: Snapshot) {
        let snapshot = Arc::new(snapshot);
        self.snapshot.rcu(|current| {
            let is_newer = snapshot.tip().seal.height >= current.tip().seal.height;
            Arc::clone(if is_newer { &snapshot } else { current })
        });
        let published = *self.snapshot.load().tip();
        self.tip.send_if_modified(|tip| {
            let is_newer = published.seal.height > tip.seal.height;
            if is_newer {
                *tip = published;
            }
            is_newer
        });
        self.heights.advance(published.seal.height);
    }

    /// The tip of the published snapshot, and those that follow.
    pub fn watch_tip(&self) -> watch::Receiver<Tip> {
        self.tip.subscribe()
    }

    /// Waits until a block is published.
    pub async fn wait_for_height(&self, height: u64) {
        self.heights.wait_for(height).await;
    }

    /// The sequence number up to which requests have been taken into a batch.
    pub fn batching(&self) -> u64 {
        self.batching.load(Ordering::Acquire)
    }

    /// Marks requests up to `sequence` as taken into a batch.
    pub fn mark_batching(&self, sequence: u64) {
        self.batching.fetch_max(sequence, Ordering::AcqRel);
    }

    /// The sequence number up to which requests are durable.
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Marks requests up to `sequence` as durable.
    pub fn mark_durable(&self, sequence: u64) {
        self.durable.fetch_max(sequence, Ordering::AcqRel);
    }
}
