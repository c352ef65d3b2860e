//! Reads events from the log.

use selfsame_protocol::events::delivery::{AppliedEntries, Event, events_of};
use selfsame_protocol::events::record::{Cause, EventPosition, LogEntry};
use selfsame_storage::{EventRecords, StoreError};

use crate::registry::handle::RegistryHandle;

/// Records of the log that are read at a time.
const RECORDS: usize = 64;

/// The most events of one record that are made at a time.
const EVENTS: u32 = 1024;

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
            let Some(events) = events_at(registry, &entry, read.next.index, EVENTS)? else {
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
            if count < EVENTS as usize {
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
