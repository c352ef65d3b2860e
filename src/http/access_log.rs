//! The access log: a line for each request that was answered.

use std::time::Duration;

use hyper::{Method, StatusCode, Version};
use schemars::JsonSchema;
use selfsame_protocol::net::network_text;
use serde::{Deserialize, Serialize};

use super::source::Source;

/// The log target of the access log.
const TARGET: &str = "access";

/// Whether there is a line for each request, and how it names the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccessLog {
    /// Only failures of the service have a line; at the level debug every request has one.
    #[default]
    Off,
    /// Every request has a line, with the network of its source: the /24 of an IPv4 address, the
    /// /48 of an IPv6 address.
    Network,
    /// Every request has a line, with the address of its source.
    Address,
}

/// A request that was answered.
pub(super) struct Answered<'a> {
    pub method: &'a Method,
    pub version: Version,
    pub status: StatusCode,
    /// Length of the answer's body in bytes; `None` when it is not known yet.
    pub bytes: Option<u64>,
    pub elapsed: Duration,
    pub source: Source,
}

impl AccessLog {
    /// Writes the line of a request, inside its span, which has its id, its interface and its
    /// route. The line contains no path, query, body or credential.
    pub(super) fn write(self, answered: &Answered<'_>) {
        let Answered { method, version, status, bytes, elapsed, source } = *answered;
        let (status_code, micros) = (status.as_u16(), elapsed.as_micros() as u64);
        // Overload is counted in the metrics; by default it is not logged request by request.
        let is_failure = status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE;
        let source = match self {
            Self::Off if is_failure => {
                return tracing::warn!(%method, status = status_code, micros, "answered");
            }
            Self::Off => return tracing::debug!(%method, status = status_code, micros, "answered"),
            Self::Network => text(source, network_text),
            Self::Address => text(source, |address| address.to_string()),
        };
        if is_failure {
            tracing::warn!(target: TARGET, %method, status = status_code, micros, bytes, ?version, source, "answered");
        } else {
            tracing::info!(target: TARGET, %method, status = status_code, micros, bytes, ?version, source, "answered");
        }
    }
}

/// `unix` for a unix socket, otherwise the text of the address.
pub(super) fn text(source: Source, of_address: impl Fn(std::net::IpAddr) -> String) -> String {
    match source {
        Source::Address(address) => of_address(address),
        Source::UnixSocket => "unix".to_owned(),
    }
}
