//! Answers that are streams of server-sent events (HTML, "Server-sent events").

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use http_body_util::StreamBody;
use hyper::StatusCode;
use hyper::body::Frame;
use hyper::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use tokio::time::Instant;
use tracing::{Instrument, Span};

use super::request::Request;
use super::response::{Response, stream};

/// Something is sent at least this often, so that proxies and browsers keep the connection open.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// A stream ends after this time; clients then connect again.
const LONGEST: Duration = Duration::from_secs(300);

/// The same while more than half of the listener's connections or requests are taken.
const LONGEST_WHEN_HALF_FULL: Duration = Duration::from_secs(30);

/// Makes nginx forward each event at once.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// How long a stream lasts.
pub struct StreamLife {
    began: Instant,
    is_half_full: Box<dyn Fn() -> bool + Send + Sync>,
}

impl StreamLife {
    /// The life of a stream that begins now, as the answer to a request.
    pub fn begin(request: &Request) -> Self {
        Self { began: Instant::now(), is_half_full: Box::new(request.is_listener_half_full()) }
    }

    /// When the stream ends. It ends sooner while the listener is half full.
    pub fn end(&self) -> Instant {
        self.began + if (self.is_half_full)() { LONGEST_WHEN_HALF_FULL } else { LONGEST }
    }
}

/// A stream of the pieces that `next` makes from a state, until it makes none. Each piece is whole
/// events, or a comment.
pub fn event_stream<State, Piece>(state: State, next: impl Fn(State) -> Piece + Send + Sync + 'static) -> Response
where
    State: Send + 'static,
    Piece: Future<Output = Option<(Bytes, State)>> + Send + 'static,
{
    let span = Span::current();
    let pieces = unfold(state, move |state| {
        let piece = next(state);
        let piece = async move { piece.await.map(|(piece, state)| (Ok::<_, Infallible>(Frame::data(piece)), state)) };
        piece.instrument(span.clone())
    });
    let mut response = stream(StatusCode::OK, "text/event-stream", StreamBody::new(pieces));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}
