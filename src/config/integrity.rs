//! `[[integrity]]`: the attestation issuers by whose keys integrity bundles are judged.

use std::fmt::{self, Display};
use std::path::PathBuf;
use std::str::FromStr;

use http::Uri;
use schemars::JsonSchema;
use selfsame_protocol::net::is_loopback_host;
use selfsame_protocol::verification::identity::RequestedEnvironment;
use serde::{Deserialize, Serialize};

use super::addresses::web_url;
use super::values::{TimeSpan, as_text};

/// `[[integrity]]`: an attestation issuer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Integrity {
    /// Its name, as its tokens have it in `iss`.
    pub issuer: String,
    /// The environments whose bundles are judged by its keys; no other entry may have them.
    pub environments: Vec<RequestedEnvironment>,
    /// Where its key set is fetched.
    pub jwks: Option<KeySetUrl>,
    /// In place of `jwks`: the file of its key set.
    pub jwks_file: Option<PathBuf>,
    /// In place of `jwks`: the issuer of the development wallet, whose key follows from the
    /// simulator's public seed. Not for production.
    #[serde(default)]
    pub simulator: bool,
    /// The PEM file of the certificate authorities that the address is trusted by; by default the
    /// system's.
    pub authorities: Option<PathBuf>,
    /// From which age on the keys are read again.
    #[serde(default = "one_hour")]
    pub refresh: TimeSpan,
    /// How far the clocks of devices may be ahead, and how long after its end a token is good.
    #[serde(default = "thirty_seconds")]
    pub clock_tolerance: TimeSpan,
}

fn one_hour() -> TimeSpan {
    TimeSpan::from_secs(3600)
}

fn thirty_seconds() -> TimeSpan {
    TimeSpan::from_secs(30)
}

/// The URL of a key set.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", extend("pattern" = "^https?://[^#]+$"))]
pub struct KeySetUrl(Uri);

impl KeySetUrl {
    /// Whether others on the way can change what is read: they could vouch for any app.
    pub(super) fn is_plain_http_to_another_machine(&self) -> bool {
        self.0.scheme_str() == Some("http") && !self.0.host().is_some_and(is_loopback_host)
    }

    /// The address.
    pub fn uri(&self) -> &Uri {
        &self.0
    }
}

impl FromStr for KeySetUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        web_url(text).map(Self)
    }
}

impl Display for KeySetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

as_text!(KeySetUrl);
