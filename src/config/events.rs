//! `[events]` and `[[webhooks]]`: who is told of what happens.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::Uri;
use schemars::JsonSchema;
use selfsame_actors::EventSettings;
use selfsame_protocol::events::EventKind;
use selfsame_protocol::net::is_loopback_host;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::urls::web_url;
use super::{formats, values, written};

/// `[events]`: streams of events, and how long events are kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Events {
    /// Whether events are recorded for the streams of the operator and of applications.
    pub streams: bool,
    /// For how long a nullifier that is verified for the same action again makes no other event and
    /// no webhook; 0s tells of each.
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub repeat_window: Duration,
    /// How long an event is kept. A webhook that is further behind loses it.
    #[serde(deserialize_with = "values::duration", serialize_with = "written::duration")]
    #[schemars(with = "formats::Duration")]
    pub retention: Duration,
}

impl Default for Events {
    fn default() -> Self {
        let EventSettings { streams, repeat_window, retention, .. } = EventSettings::default();
        Self { streams, repeat_window, retention }
    }
}

/// `[[webhooks]]`: an address that is told of events.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Its name in commands, metrics and logs. What was delivered is kept under this name.
    pub id: String,
    /// Where events are posted.
    pub url: WebhookUrl,
    /// The file of the secrets that events are signed with, one in a line: `whsec_` and base64.
    /// Two while the secret is replaced.
    pub secret_file: PathBuf,
    /// The events that are posted.
    pub events: Vec<EventKind>,
    /// The application whose verifications are posted; without it, those of all applications.
    #[serde(default)]
    pub app_id: Option<String>,
    /// The PEM file of the certificate authorities that the address is trusted by; by default the
    /// system's.
    #[serde(default)]
    pub authorities: Option<PathBuf>,
    /// Whether events may be posted over plain HTTP to another machine.
    #[serde(default)]
    pub allow_plain_http: bool,
}

/// An address that events are posted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookUrl(Uri);

impl WebhookUrl {
    /// Whether others on the way can read and change what is posted.
    pub(super) fn is_plain_http_to_another_machine(&self) -> bool {
        self.0.scheme_str() == Some("http") && !self.0.host().is_some_and(is_loopback_host)
    }

    /// The address.
    pub fn uri(&self) -> &Uri {
        &self.0
    }
}

impl FromStr for WebhookUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        web_url(text).map(Self)
    }
}

impl<'de> Deserialize<'de> for WebhookUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for WebhookUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}
