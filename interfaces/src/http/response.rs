//! Answers: their body type and the few ways to make one, the headers for other origins and for
//! endpoints that end, and the rejections that all interfaces share.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::StatusCode;
use hyper::body::{Frame, SizeHint};
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue, RETRY_AFTER, VARY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use selfsame_protocol::time::RetryAfter;
use serde::Serialize;

use super::exchange::Exchange;

/// The answer of a handler.
pub type Response = hyper::Response<Body>;

/// An answer with a JSON body that caches must not store. An answer that may be stored replaces
/// `Cache-Control`.
///
/// A value that cannot be written as JSON is logged and answered with a bare 500.
pub fn json<T: Serialize + ?Sized>(status: StatusCode, value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(text) => written_json(status, text),
        Err(error) => {
            tracing::error!(%error, "an answer could not be written as JSON");
            empty(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

/// The same with a body that is JSON already.
pub fn written_json(status: StatusCode, text: Vec<u8>) -> Response {
    let mut response = content(status, "application/json", text);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // An answer may repeat text of the request. `nosniff` keeps a browser that guesses types from
    // reading it as HTML.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// An answer with a body of the given content type, without `Cache-Control`.
pub fn content(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = hyper::Response::new(Body::from(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// An answer without a body.
pub fn empty(status: StatusCode) -> Response {
    let mut response = hyper::Response::new(Body::default());
    *response.status_mut() = status;
    response
}

/// An answer whose body is sent piece by piece, for example server-sent events.
///
/// Its request is in flight until the body ends, so the body must end within a bounded time and at
/// shutdown.
pub fn stream<B>(status: StatusCode, content_type: &'static str, body: B) -> Response
where
    B: hyper::body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let mut response = content(status, content_type, Bytes::new());
    response.body_mut().content = Content::Stream(body.boxed_unsync());
    response
}

/// The answer to `HEAD` where `GET` would be 200 with JSON and uses something up. It has no length:
/// only `GET` knows it (RFC 9110, section 8.6).
pub fn exists() -> Response {
    let body = StreamBody::new(futures_util::stream::empty::<Result<Frame<Bytes>, Infallible>>());
    let mut response = stream(StatusCode::OK, "application/json", body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The body of an answer: usually one buffer, sometimes a stream.
#[derive(Default)]
pub struct Body {
    content: Content,
    exchange: Option<Exchange>,
}

enum Content {
    Full(Bytes),
    Stream(UnsyncBoxBody<Bytes, Infallible>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Full(Bytes::new())
    }
}

impl Body {
    /// The length in bytes; `None` for a stream of unknown length.
    pub(super) fn exact_length(&self) -> Option<u64> {
        hyper::body::Body::size_hint(self).exact()
    }

    /// Keeps its request in flight until the body is sent or dropped.
    pub(super) fn hold(&mut self, exchange: Exchange) {
        exchange.await_client();
        self.exchange = Some(exchange);
    }
}

/// Keeps the exchange alive until hyper has written the bytes to the socket, also after hyper has
/// dropped the body.
struct BytesInFlight {
    bytes: Bytes,
    _exchange: Exchange,
}

impl AsRef<[u8]> for BytesInFlight {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self { content: Content::Full(bytes), exchange: None }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = match &mut self.content {
            Content::Full(bytes) if bytes.is_empty() => return Poll::Ready(None),
            Content::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                let bytes = match self.exchange.take() {
                    Some(exchange) => Bytes::from_owner(BytesInFlight { bytes, _exchange: exchange }),
                    None => bytes,
                };
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            Content::Stream(stream) => Pin::new(stream).poll_frame(context),
        };
        if let Some(exchange) = &self.exchange {
            match polled {
                Poll::Ready(_) => exchange.await_client(),
                Poll::Pending => exchange.await_answer(),
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Full(bytes) => bytes.is_empty(),
            Content::Stream(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Stream(stream) => stream.size_hint(),
        }
    }
}

// Cross-origin access for browsers (the CORS protocol of the Fetch standard). An interface without
// a [`Cors`] grants no such access.

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

// Endpoints that the registry's next rules do not have: since when, and until when.
//
// The public gateway sends the same two headers (`world-id-protocol`,
// `services/common/src/axum/server_layers/deprecation.rs`).

/// The header that says since when an endpoint is deprecated (RFC 9745).
const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");

/// The value of `Deprecation`: 2026-07-27, 00:00 UTC, as Unix seconds.
pub const DEPRECATED_SINCE: &str = "@1785110400";

/// The header that says when an endpoint is expected to end (RFC 8594).
const SUNSET: HeaderName = HeaderName::from_static("sunset");

/// The value of `Sunset`.
pub const DEPRECATION_ENDS: &str = "Tue, 27 Jul 2027 00:00:00 GMT";

/// Says in an answer that its endpoint is deprecated.
pub(super) fn mark_deprecated(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(DEPRECATION, HeaderValue::from_static(DEPRECATED_SINCE));
    headers.insert(SUNSET, HeaderValue::from_static(DEPRECATION_ENDS));
    response
}

// Why a request is rejected for reasons that all interfaces share.
//
// Each interface has an error type of its own that can hold a [`Rejection`] ([`InterfaceError`]),
// and turns it into answers in one place. [`Rejection::respond`] sets the status and the headers
// that HTTP requires, so that an interface only chooses the body; [`ErrorCodes`] does the rest for
// interfaces whose errors are `{"code","message"}`.

/// The answer to a request that is rejected for a reason that all interfaces share. Its text is for
/// the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// 400: the request breaks HTTP or its own framing.
    #[error("{0}")]
    BadRequest(String),
    /// 400: the header `Authorization` occurs more than once.
    #[error("the header authorization occurs more than once; send it once")]
    RepeatedAuthorization {
        /// How the client can authenticate, as the value of `WWW-Authenticate`.
        challenge: &'static str,
    },
    /// 404: no route for this path.
    #[error("nothing is served at {path}")]
    NotFound {
        /// The path of the request, cut to its first 200 characters.
        path: String,
    },
    /// 405: the path has routes, but not for this method.
    #[error("the method is {method}, this path takes {}", allow.to_str().unwrap_or_default())]
    MethodNotAllowed {
        /// The method of the request.
        method: String,
        /// The methods that the path takes, as the value of `Allow`.
        allow: HeaderValue,
    },
    /// 413: the body is longer than its limit in bytes.
    #[error("the body is longer than {limit} bytes")]
    PayloadTooLarge {
        /// The longest body that is read, in bytes (inclusive).
        limit: usize,
    },
    /// 415: the body's type or encoding is not one that the route reads.
    #[error("{0}")]
    UnsupportedMediaType(String),
    /// 429: the source is past its rate limit.
    #[error("too many requests, try again in {retry_after}")]
    TooManyRequests {
        /// Time until the next request is within the limit: the value of `Retry-After`.
        retry_after: RetryAfter,
    },
    /// 500: the service failed. The reason is in the log and not in the answer.
    #[error("an internal error; the log has it under the X-Request-Id of this answer")]
    Internal,
    /// 503: the part of the service that is needed is overloaded, starting or stopping.
    #[error("not available at the moment, try again in {retry_after}")]
    Unavailable {
        /// Time until another attempt may succeed: the value of `Retry-After`.
        retry_after: RetryAfter,
    },
    /// 504: the answer took longer than the request timeout.
    #[error("the request was not answered in time")]
    Timeout,
}

/// The error type of an interface: a [`Rejection`] converts into it, and it converts into an
/// answer.
pub trait InterfaceError: From<Rejection> + Send + 'static {
    /// Why exactly the request was rejected, for the log. It contains no secret, and of what the
    /// client sent only names of fields.
    fn reason(&self) -> String;

    /// Status, headers and body of the answer.
    fn into_response(self) -> Response;
}

/// The answer to a request that an interface rejects, after its reason is logged.
pub fn reject<E: InterfaceError>(error: E) -> Response {
    tracing::debug!(reason = error.reason(), "rejected");
    error.into_response()
}

impl Rejection {
    /// Why exactly the request was rejected, for the log. It contains nothing that the client sent.
    pub fn reason(&self) -> String {
        match self {
            Self::NotFound { .. } => "no route has this path".to_owned(),
            Self::MethodNotAllowed { .. } => "the path does not take this method".to_owned(),
            Self::UnsupportedMediaType(_) => "the body has another type or encoding than the route reads".to_owned(),
            Self::Internal => "an internal error, which was logged before".to_owned(),
            other => other.to_string(),
        }
    }

    /// The status of this rejection; an interface may answer another one.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) | Self::RepeatedAuthorization { .. } => StatusCode::BAD_REQUEST,
            Self::NotFound { .. } => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::PayloadTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooManyRequests { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// The answer with `body` as JSON, the rejection's status, and the `Allow`, `Retry-After` or
    /// `WWW-Authenticate` that belongs to it.
    pub fn respond<T: Serialize + ?Sized>(&self, body: &T) -> Response {
        let mut response = json(self.status(), body);
        match self {
            Self::MethodNotAllowed { allow, .. } => {
                response.headers_mut().insert(ALLOW, allow.clone());
            }
            Self::TooManyRequests { retry_after } | Self::Unavailable { retry_after } => {
                response.headers_mut().insert(RETRY_AFTER, retry_after.seconds().into());
            }
            Self::RepeatedAuthorization { challenge } => {
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
            }
            _ => {}
        }
        response
    }
}

/// The body `{"code","message"}` of gateway, indexer, bridge and operator errors.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorBody<'a> {
    /// The error code, for programs.
    pub code: &'a str,
    /// The error text, for developers of clients.
    pub message: &'a str,
}

/// The codes of an interface for rejections, for interfaces that answer with [`ErrorBody`].
#[derive(Clone, Copy, Debug)]
pub struct ErrorCodes {
    /// The code of [`Rejection::Unavailable`]. The interfaces have all other codes in common.
    pub unavailable: &'static str,
}

impl ErrorCodes {
    /// The registry gateway's codes.
    pub const GATEWAY: Self = Self { unavailable: "batcher_unavailable" };
    /// The registry indexer's codes.
    pub const INDEXER: Self = Self { unavailable: "internal_server_error" };
    /// The message bridge's codes.
    pub const BRIDGE: Self = Self { unavailable: "bridge_unavailable" };
    /// The wallet interface's codes: those of the bridge, with which wallets talk as well.
    pub const WALLET: Self = Self::BRIDGE;
    /// The operator interface's codes.
    pub const OPERATOR: Self = Self { unavailable: "unavailable" };

    /// The code for a rejection.
    pub fn code(&self, rejection: &Rejection) -> &'static str {
        match rejection {
            Rejection::BadRequest(_)
            | Rejection::RepeatedAuthorization { .. }
            | Rejection::MethodNotAllowed { .. }
            | Rejection::PayloadTooLarge { .. }
            | Rejection::UnsupportedMediaType(_) => "bad_request",
            Rejection::NotFound { .. } => "not_found",
            Rejection::TooManyRequests { .. } => "rate_limit_exceeded",
            Rejection::Internal => "internal_server_error",
            Rejection::Unavailable { .. } => self.unavailable,
            Rejection::Timeout => "request_timeout",
        }
    }

    /// The whole answer to a rejection.
    pub fn respond(&self, rejection: &Rejection) -> Response {
        rejection.respond(&ErrorBody { code: self.code(rejection), message: &rejection.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rejections_have_the_status_and_code_of_gateway_and_indexer() {
        let retry_after = RetryAfter(Duration::from_millis(1500));
        let allow = HeaderValue::from_static("GET, HEAD");
        #[rustfmt::skip]
        let table = [
            (Rejection::BadRequest("x".into()), 400, "bad_request", "bad_request"),
            (Rejection::RepeatedAuthorization { challenge: "Bearer" }, 400, "bad_request", "bad_request"),
            (Rejection::NotFound { path: "/x".into() }, 404, "not_found", "not_found"),
            (Rejection::MethodNotAllowed { method: "PUT".into(), allow }, 405, "bad_request", "bad_request"),
            (Rejection::PayloadTooLarge { limit: 1 }, 413, "bad_request", "bad_request"),
            (Rejection::UnsupportedMediaType("x".into()), 415, "bad_request", "bad_request"),
            (Rejection::TooManyRequests { retry_after }, 429, "rate_limit_exceeded", "rate_limit_exceeded"),
            (Rejection::Internal, 500, "internal_server_error", "internal_server_error"),
            (Rejection::Unavailable { retry_after }, 503, "batcher_unavailable", "internal_server_error"),
            (Rejection::Timeout, 504, "request_timeout", "request_timeout"),
        ];
        for (rejection, status, gateway, indexer) in table {
            let response = ErrorCodes::GATEWAY.respond(&rejection);
            assert_eq!(response.status(), status, "{rejection}");
            assert_eq!(response.headers().contains_key(ALLOW), status == 405, "{rejection}");
            let is_challenged = matches!(rejection, Rejection::RepeatedAuthorization { .. });
            assert_eq!(response.headers().contains_key(WWW_AUTHENTICATE), is_challenged, "{rejection}");
            let wait = response.headers().get(RETRY_AFTER).map(HeaderValue::as_bytes);
            assert_eq!(wait, [429, 503].contains(&status).then_some(b"2" as &[u8]), "{rejection}");
            assert_eq!(ErrorCodes::GATEWAY.code(&rejection), gateway);
            assert_eq!(ErrorCodes::INDEXER.code(&rejection), indexer);
        }
    }
}
