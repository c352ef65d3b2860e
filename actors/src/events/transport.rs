//! Who gets webhooks, and how they are posted.

use std::time::Duration;

use futures_util::future::BoxFuture;
use selfsame_protocol::events::delivery::WebhookSecret;
use selfsame_protocol::events::{Audience, EventId, EventKind};
use selfsame_protocol::time::UnixSeconds;

/// A receiver of webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverSettings {
    /// Its id. How far it is, is kept under this id.
    pub id: String,
    /// Where webhooks are posted.
    pub url: String,
    /// What webhooks are signed with: each with all of these.
    pub secrets: Vec<WebhookSecret>,
    /// The kinds of events that it gets.
    pub kinds: Vec<EventKind>,
    /// Whose events it gets.
    pub audience: Audience,
}

impl ReceiverSettings {
    /// Whether it gets an event.
    pub fn wants(&self, kind: EventKind, app_id: Option<&str>) -> bool {
        self.kinds.contains(&kind) && self.audience.may_see(kind, app_id)
    }
}

/// A signed webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookMessage {
    /// The header `webhook-id`.
    pub id: EventId,
    /// The header `webhook-timestamp`.
    pub sent_at: UnixSeconds,
    /// The header `webhook-signature`.
    pub signature: String,
    /// The body, in JSON.
    pub body: String,
}

/// Why a webhook was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SendFailure {
    /// What went wrong, in words.
    pub reason: String,
    /// How long the receiver asks to wait.
    pub retry_after: Option<Duration>,
    /// Whether the receiver wants no more of this: there is no further attempt.
    pub is_final: bool,
}

/// Posts webhooks. The daemon's implementation uses HTTP.
pub trait WebhookTransport: Send + Sync + 'static {
    /// Posts one webhook, within a time that the implementation bounds. Success means that the
    /// receiver has accepted it. The future may be dropped at any moment.
    fn post(&self, receiver: &ReceiverSettings, message: WebhookMessage)
    -> BoxFuture<'static, Result<(), SendFailure>>;
}
