//! Answers: their body type and the few ways to make one.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::StatusCode;
use hyper::body::{Frame, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
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
