//! The settings of events.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use selfsame_protocol::events::EventKind;

use super::transport::{ReceiverSettings, WebhookTransport};

/// The settings of events. By default there are no receivers and no streams, and nothing is
/// recorded.
#[derive(Clone)]
pub struct EventSettings {
    /// Whether events are recorded for streams, of all kinds.
    pub streams: bool,
    /// For how long a nullifier that is verified for the same action again makes no other event.
    pub repeat_window: Duration,
    /// How long the log keeps an event. A receiver that is further behind loses it.
    pub retention: Duration,
    /// Who gets webhooks. Each has an id of its own.
    pub receivers: Vec<Arc<ReceiverSettings>>,
    /// How webhooks are posted; `None` posts none.
    pub transport: Option<Arc<dyn WebhookTransport>>,
}

impl Default for EventSettings {
    fn default() -> Self {
        Self {
            streams: false,
            repeat_window: Duration::from_hours(6),
            retention: Duration::from_hours(7 * 24),
            receivers: Vec::new(),
            transport: None,
        }
    }
}

impl fmt::Debug for EventSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { streams, repeat_window, retention, receivers, transport: _ } = self;
        formatter
            .debug_struct("EventSettings")
            .field("streams", streams)
            .field("repeat_window", repeat_window)
            .field("retention", retention)
            .field("receivers", receivers)
            .finish_non_exhaustive()
    }
}

impl EventSettings {
    /// Whether events of this kind are told. `app_id` is the application that an event is
    /// about; `None` for events about none.
    pub fn wants(&self, kind: EventKind, app_id: Option<&str>) -> bool {
        self.streams || self.receivers.iter().any(|receiver| receiver.wants(kind, app_id))
    }

    /// Whether blocks have events that are told.
    pub(crate) fn wants_blocks(&self) -> bool {
        EventKind::ALL.into_iter().any(|kind| kind.follows_from_blocks() && self.wants(kind, None))
    }

    /// Whether anything is recorded at all.
    pub(crate) fn wants_anything(&self) -> bool {
        self.streams || !self.receivers.is_empty()
    }
}
