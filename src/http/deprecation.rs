//! Endpoints that the registry's next rules do not have: since when, and until when.
//!
//! The public gateway sends the same two headers (`world-id-protocol`,
//! `services/common/src/axum/server_layers/deprecation.rs`).

use hyper::header::{HeaderName, HeaderValue};

use super::response::Response;

/// The header that says since when an endpoint is deprecated (RFC 9745).
const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");

/// The value of `Deprecation`: 2026-07-27, 00:00 UTC, as Unix seconds.
pub const DEPRECATED_SINCE: &str = "@1785110400";

/// The header that says when an endpoint is expected to end (RFC 8594).
const SUNSET: HeaderName = HeaderName::from_static("sunset");

/// The value of `Sunset`.
pub const ENDS: &str = "Tue, 27 Jul 2027 00:00:00 GMT";

/// Says in an answer that its endpoint is deprecated.
pub(super) fn mark(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(DEPRECATION, HeaderValue::from_static(DEPRECATED_SINCE));
    headers.insert(SUNSET, HeaderValue::from_static(ENDS));
    response
}
