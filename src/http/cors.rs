//! Cross-origin access for browsers (the CORS protocol of the Fetch standard). An interface without
//! a [`Cors`] grants no such access.

use std::sync::Arc;

use arc_swap::ArcSwap;
use hyper::StatusCode;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, HeaderMap, HeaderValue, VARY,
};

use super::response::{Response, empty};

/// The origins that an interface allows, which can change while it is served. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct AllowedOrigins(Arc<ArcSwap<Vec<HeaderValue>>>);

impl AllowedOrigins {
    /// Allows these origins, from now on and alone.
    pub fn replace(&self, origins: Vec<HeaderValue>) {
        self.0.store(Arc::new(origins));
    }
}

/// Which origins may read an interface's answers. Credentials (cookies) are never allowed across
/// origins.
#[derive(Clone, Debug)]
pub enum Cors {
    /// Every origin.
    Any,
    /// Exactly these, compared byte for byte.
    Origins(AllowedOrigins),
}

impl Cors {
    /// Whether there is an origin that may read answers. Without one, an interface answers as one
    /// without a [`Cors`].
    pub(super) fn allows_any_origin(&self) -> bool {
        match self {
            Self::Any => true,
            Self::Origins(AllowedOrigins(origins)) => !origins.load().is_empty(),
        }
    }

    /// The answer to `OPTIONS` on a path that takes the methods in `allow`; [`Cors::grant`]
    /// completes it.
    pub(super) fn preflight(allow: &HeaderValue) -> Response {
        let mut response = empty(StatusCode::NO_CONTENT);
        let headers = response.headers_mut();
        headers.insert(ALLOW, allow.clone());
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, allow.clone());
        headers.insert(
            ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static(
                "Accept-Idkit-Flow-Id, Authorization, Content-Type, Idempotency-Key, Prefer, X-Request-Id, \
                 X-Selfsame-Height",
            ),
        );
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        response
    }

    /// Marks an answer as readable for the request's origin, if that is allowed.
    pub(super) fn grant(&self, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
        let granted = match self {
            // The value is the same for every origin, so that a shared cache may give the answer to
            // each of them.
            Self::Any => Some(HeaderValue::from_static("*")),
            Self::Origins(AllowedOrigins(origins)) => {
                headers.append(VARY, HeaderValue::from_static("Origin"));
                origin.filter(|origin| origins.load().contains(origin)).cloned()
            }
        };
        if let Some(granted) = granted {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, granted);
            headers.insert(
                ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static("Retry-After, X-Request-Id, X-Selfsame-Height"),
            );
        }
    }
}
