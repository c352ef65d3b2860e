//! Puts unlogged events and applied blocks into the log.

use std::sync::atomic::Ordering;

use selfsame_protocol::events::record::{Cause, LogEntry};
use selfsame_storage::{Decision, LogProgress, LogWrite, OnDecided, StoreError};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::state::EventsState;

/// The most unlogged events, and the most blocks, of one write.
const EVENTS: usize = 128;
const BLOCKS: u64 = 256;

/// How long a write may take before it counts as failed.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// Why the sender of events begins again with what is stored.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum WorkError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another sender, which was thought to have ended, has written.
    #[error("the records of events were changed by another sender")]
    Changed,
    /// A write is not decided in time; it may be made later.
    #[error("writing the records of events takes too long")]
    TooLong,
    /// Reading them failed in a way that is a mistake of the program.
    #[error("reading the records of events panicked")]
    Panicked,
}

/// Makes a write, and waits for its decision.
pub(super) async fn written(write: impl FnOnce(OnDecided)) -> Result<(), WorkError> {
    let (sender, decision) = oneshot::channel();
    write(Box::new(move |decided| drop(sender.send(decided))));
    let decision = timeout_at(Instant::now() + PATIENCE, decision).await.map_err(|_| WorkError::TooLong)?;
    match decision.unwrap_or(Err(StoreError::Panicked))? {
        Decision::Written => Ok(()),
        Decision::Changed => Err(WorkError::Changed),
    }
}

/// Brings the log's progress in line with what is wanted: blocks are logged from the moment on in
/// which they are told.
pub(super) async fn begin(state: &EventsState, stored: Option<LogProgress>) -> Result<Option<LogProgress>, WorkError> {
    let settings = state.settings.load_full();
    if stored.is_none() && !settings.wants_anything() {
        return Ok(None);
    }
    let before = stored.unwrap_or_default();
    let has_blocks = settings.wants_blocks();
    let height = if before.has_blocks { before.height } else { state.since.load(Ordering::Relaxed) };
    let after = LogProgress { has_blocks, height, ..before };
    if stored != Some(after) && (stored.is_none() || before.has_blocks != has_blocks) {
        let write = LogWrite { before: stored, after, entries: Vec::new(), logged: Vec::new() };
        written(|decided| state.records.append(&write, decided)).await?;
        return Ok(Some(after));
    }
    Ok(stored)
}

/// Logs what is not in the log yet, up to a bound; says whether there may be more.
pub(super) async fn log(state: &EventsState, progress: &mut LogProgress) -> Result<bool, WorkError> {
    let records = state.records.clone();
    let unlogged = state.blocking.run(move || records.unlogged(EVENTS)).await.map_err(|_| WorkError::Panicked)??;
    let newest = state.registry.height().min(progress.height + BLOCKS).max(progress.height);
    let height = if progress.has_blocks { newest } else { progress.height };
    if unlogged.is_empty() && height <= progress.height {
        return Ok(false);
    }
    let now = state.clock.unix_millis();
    let (logged, events): (Vec<_>, Vec<_>) = unlogged.into_iter().unzip();
    let recorded = logged.iter().zip(events);
    let recorded = recorded.map(|(key, event)| LogEntry { time: key.time, cause: Cause::Recorded(key.id, event) });
    let blocks = (progress.height + 1..=height).map(|height| LogEntry { time: now, cause: Cause::Block(height) });
    let entries: Vec<(u64, LogEntry)> = (progress.last + 1..).zip(recorded.chain(blocks)).collect();
    let last = entries.last().map_or(progress.last, |(sequence, _)| *sequence);
    let after = LogProgress { last, height, ..*progress };
    let is_full = logged.len() == EVENTS || (progress.has_blocks && height < state.registry.height());
    let write = LogWrite { before: Some(*progress), after, entries, logged };
    written(|decided| state.records.append(&write, decided)).await?;
    *progress = after;
    state.tell_logged();
    Ok(is_full)
}
