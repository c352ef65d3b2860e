//! Makes the record of an event that is written with its cause.

use std::sync::Arc;
use std::time::Duration;

use selfsame_protocol::events::record::RecordedEvent;
use selfsame_protocol::events::{EventId, EventKind};
use selfsame_protocol::time::UnixMillis;
use selfsame_storage::UnloggedKey;

use super::messages::EventSenderMessage;
use super::state::EventsState;

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
