//! What is sent to others: `[events]` and `[[webhooks]]` say who is told of what happens,
//! `[traces]` where traces of requests go.

use std::fmt::{self, Display};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;

use http::Uri;
use schemars::JsonSchema;
use selfsame_actors::EventSettings;
use selfsame_protocol::events::EventKind;
use selfsame_protocol::net::is_loopback_host;
use serde::{Deserialize, Serialize};

use super::addresses::web_url;
use super::values::{TimeSpan, as_text};

/// `[events]`: streams of events, and how long events are kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Events {
    /// Whether events are recorded for the streams of the operator and of applications.
    pub streams: bool,
    /// For how long a nullifier that is verified for the same action again makes no other event and
    /// no webhook; 0s tells of each.
    pub repeat_window: TimeSpan,
    /// How long an event is kept. A webhook that is further behind loses it.
    pub retention: TimeSpan,
}

impl Default for Events {
    fn default() -> Self {
        let EventSettings { streams, repeat_window, retention, .. } = EventSettings::default();
        Self { streams, repeat_window: repeat_window.into(), retention: retention.into() }
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
    pub app_id: Option<String>,
    /// The PEM file of the certificate authorities that the address is trusted by; by default the
    /// system's.
    pub authorities: Option<PathBuf>,
    /// Whether events may be posted over plain HTTP to another machine.
    #[serde(default)]
    pub allow_plain_http: bool,
}

/// The URL that events are posted to.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", extend("pattern" = "^https?://[^#]+$"))]
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

impl Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

as_text!(WebhookUrl);

// `[traces]`: where traces of requests are sent.

/// `[traces]`: where traces of requests are sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Traces {
    /// The collector; without it no traces are recorded.
    pub collector: Option<CollectorUrl>,
    /// Of how many requests one is recorded, unless a trusted proxy has decided it.
    pub one_in: NonZeroU64,
}

impl Default for Traces {
    fn default() -> Self {
        Self { collector: None, one_in: NonZeroU64::MIN }
    }
}

/// The URL of a collector that takes traces by OTLP over HTTP, without `/v1/traces`.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", extend("pattern" = "^https?://[^?#]+$"))]
pub struct CollectorUrl(Uri);

impl CollectorUrl {
    /// The path that OTLP/HTTP has for traces, below that of the URL.
    const PATH: &str = "/v1/traces";

    /// Where the traces are posted.
    pub fn traces_url(&self) -> String {
        format!("{}{}", self.0.to_string().trim_end_matches('/'), Self::PATH)
    }

    /// Whether others on the way can read what is sent.
    pub(super) fn is_plain_http_to_another_machine(&self) -> bool {
        self.0.scheme_str() == Some("http") && !self.0.host().is_some_and(is_loopback_host)
    }
}

impl FromStr for CollectorUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri = web_url(text)?;
        if uri.query().is_some() {
            return Err(format!("{text:?} has a query; write it like http://127.0.0.1:4318"));
        }
        if uri.path().trim_end_matches('/').ends_with(Self::PATH) {
            return Err(format!("{text:?} ends with {}, which is added to it; leave it out", Self::PATH));
        }
        Ok(Self(uri))
    }
}

impl Display for CollectorUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

as_text!(CollectorUrl);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_collector_is_the_base_of_its_paths() {
        for (text, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://collector.example/otlp", "https://collector.example/otlp/v1/traces"),
        ] {
            assert_eq!(text.parse::<CollectorUrl>().unwrap().traces_url(), expected);
        }
        for text in ["127.0.0.1:4318", "grpc://a", "http://a/v1/traces", "http://a/?key=1", ""] {
            assert!(text.parse::<CollectorUrl>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn plain_http_is_for_this_machine() {
        for (text, expected) in [
            ("http://127.0.0.1:4318", false),
            ("http://[::1]:4318", false),
            ("http://localhost:4318", false),
            ("https://collector.example", false),
            ("http://collector.example", true),
        ] {
            assert_eq!(text.parse::<CollectorUrl>().unwrap().is_plain_http_to_another_machine(), expected, "{text}");
        }
    }
}
