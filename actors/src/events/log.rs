//! The log of events: the record of an event that is written with its cause, unlogged events and
//! applied blocks put in order, and the events read in that order.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use selfsame_protocol::events::delivery::{AppliedEntries, Event, events_of};
use selfsame_protocol::events::record::{Cause, EventPosition, LogEntry, RecordedEvent};
use selfsame_protocol::events::{EventId, EventKind};
use selfsame_protocol::time::UnixMillis;
use selfsame_storage::{Decision, EventRecords, LogProgress, LogWrite, OnDecided, StoreError, UnloggedKey};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::handle::{EventSenderMessage, EventsState};
use crate::registry::handle::RegistryHandle;

// Makes the record of an event that is written with its cause.

/// Makes records of the events that are told to a receiver or on streams.
#[derive(Clone)]
pub(crate) struct EventRecorder {
    state: Arc<EventsState>,
}

impl EventRecorder {
    pub fn new(state: Arc<EventsState>) -> Self {
        Self { state }
    }

    /// Whether such events are told.
    pub fn wants(&self, kind: EventKind, app_id: Option<&str>) -> bool {
        self.state.settings.load().wants(kind, app_id)
    }

    /// For how long a nullifier that is verified for the same action again makes no other event.
    pub fn repeat_window(&self) -> Duration {
        self.state.settings.load().repeat_window
    }

    /// The record of an event of this kind; `None` when such events are not told.
    pub fn record(
        &self,
        kind: EventKind,
        app_id: Option<&str>,
        now: UnixMillis,
        event: impl FnOnce() -> RecordedEvent,
    ) -> Option<(UnloggedKey, RecordedEvent)> {
        self.wants(kind, app_id).then(|| (UnloggedKey { time: now, id: self.new_id(now) }, event()))
    }

    /// Has the actor look for the events that were written. Without this call it finds them too, a
    /// second later.
    pub fn written(&self) {
        self.state.slot.cast(EventSenderMessage::Wake);
    }

    /// An id of its own: the time and 80 random bits. Ids of later events are greater.
    fn new_id(&self, now: UnixMillis) -> EventId {
        let mut random = [0; 32];
        self.state.random.fill(&mut random);
        let mut id = [0; 16];
        id[..6].copy_from_slice(&now.0.to_be_bytes()[2..]);
        id[6..].copy_from_slice(&random[..10]);
        EventId(id)
    }
}

// Puts unlogged events and applied blocks into the log.

/// The most unlogged events, and the most blocks, of one write.
const EVENTS_OF_A_WRITE: usize = 128;
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
    let unlogged =
        state.blocking.run(move || records.unlogged(EVENTS_OF_A_WRITE)).await.map_err(|_| WorkError::Panicked)??;
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
    let is_full = logged.len() == EVENTS_OF_A_WRITE || (progress.has_blocks && height < state.registry.height());
    let write = LogWrite { before: Some(*progress), after, entries, logged };
    written(|decided| state.records.append(&write, decided)).await?;
    *progress = after;
    state.tell_logged();
    Ok(is_full)
}

// Reads events from the log.

/// Records of the log that are read at a time.
const RECORDS: usize = 64;

/// The most events of one record that are made at a time.
const EVENTS_OF_A_RECORD: u32 = 1024;

/// Events in their order.
pub(crate) struct Read {
    /// The events that were asked for.
    pub events: Vec<ReadEvent>,
    /// From where on to read next.
    pub next: EventPosition,
    /// Records of the log that were forgotten before they were read.
    pub forgotten: u64,
    /// Whether the log was read to its end.
    pub is_end: bool,
}

/// An event, where it is, and the record that it is in.
pub(crate) struct ReadEvent {
    pub position: EventPosition,
    pub entry: LogEntry,
    pub event: Event,
}

/// Reads events from `from` on until there are `limit` of those that are wanted, or some records
/// were read. Blocks the thread.
pub(crate) fn read_events(
    records: &EventRecords,
    registry: &RegistryHandle,
    from: EventPosition,
    limit: usize,
    is_wanted: impl Fn(&Event) -> bool,
) -> Result<Read, StoreError> {
    let entries = records.log_from(from.sequence, RECORDS)?;
    let mut read = Read { events: Vec::new(), next: from, forgotten: 0, is_end: entries.len() < RECORDS };
    for (sequence, entry) in entries {
        if sequence > read.next.sequence {
            if read.next.sequence != 0 {
                read.forgotten += sequence - read.next.sequence;
            }
            read.next = EventPosition::start_of(sequence);
        }
        loop {
            let Some(events) = events_at(registry, &entry, read.next.index, EVENTS_OF_A_RECORD)? else {
                // A replica gets the record before it has applied the block.
                read.is_end = true;
                return Ok(read);
            };
            let count = events.len();
            for event in events {
                let position = read.next;
                read.next = position.next();
                if is_wanted(&event) {
                    read.events.push(ReadEvent { position, entry: entry.clone(), event });
                }
                if read.events.len() >= limit {
                    read.is_end = false;
                    return Ok(read);
                }
            }
            if count < EVENTS_OF_A_RECORD as usize {
                break;
            }
        }
        read.next = EventPosition::start_of(sequence + 1);
    }
    Ok(read)
}

/// The event at a position of a record; `None` when the record has none there, or its block is not
/// applied yet.
pub(crate) fn event_at(registry: &RegistryHandle, entry: &LogEntry, index: u32) -> Result<Option<Event>, StoreError> {
    Ok(events_at(registry, entry, index, 1)?.and_then(|events| events.into_iter().next()))
}

/// Some events of a record, from an index on; `None` when its block is not applied yet.
fn events_at(
    registry: &RegistryHandle,
    entry: &LogEntry,
    from: u32,
    most: u32,
) -> Result<Option<Vec<Event>>, StoreError> {
    let range = from..from.saturating_add(most);
    let Cause::Block(height) = entry.cause else { return Ok(Some(events_of(entry, None, range))) };
    let Some((block, applied)) = registry.applied_block(height)? else { return Ok(None) };
    let applied = AppliedEntries { block: &block, result: &applied.result, outcomes: &applied.outcomes };
    Ok(Some(events_of(entry, Some(applied), range)))
}
