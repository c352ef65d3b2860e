//! One request as a handler sees it, its body as it is received, and answers that are streams,
//! which a request asks for.

use std::borrow::Cow;
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream::unfold;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, COOKIE, EXPECT, HeaderMap, HeaderName, HeaderValue,
};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Version};
use percent_encoding::percent_decode_str;
use selfsame_protocol::time::RetryAfter;
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use tracing::{Instrument, Span};

use super::audit::AuditNotes;
use super::dispatch::RequestId;
use super::exchange::{Client, Shutdown, Source};
use super::load::{BodyPermit, Limits};
use super::response::{Rejection, Response, stream};

/// How many bytes of an unread body are read and discarded, so that the client can read its answer.
const DISCARDED_BYTES: usize = 4 * 1024 * 1024;
/// How long this may take.
const DISCARD_TIME: Duration = Duration::from_secs(2);

/// The longest time that a client can ask to hold an answer.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Time limit of a route whose answers are held, in place of the request timeout: the longest wait
/// and ten seconds more.
pub const WAITING_LIMIT: Duration = LONGEST_WAIT.saturating_add(Duration::from_secs(10));

/// One request. A handler gets it when its route is found.
pub struct Request {
    pub(super) head: Parts,
    pub(super) body: RequestBody,
    pub(super) id: RequestId,
    pub(super) pattern: &'static str,
    pub(super) source: Source,
    pub(super) client: Arc<Client>,
    pub(super) audit: AuditNotes,
    /// SHA-256 of the only body that may be read; `None` for any body.
    pub(super) signed_body: Option<[u8; 32]>,
}

impl Request {
    /// The method; a `HEAD` request reaches the handler of `GET`, and its answer's body is left out
    /// afterwards.
    pub fn method(&self) -> &Method {
        &self.head.method
    }

    /// The path, still percent-encoded.
    pub fn path(&self) -> &str {
        self.head.uri.path()
    }

    /// The path and the query, as they were sent.
    pub fn target(&self) -> &str {
        self.head.uri.path_and_query().map_or_else(|| self.path(), |target| target.as_str())
    }

    /// Has [`Request::read_body`] refuse every body but the one with this SHA-256.
    pub fn expect_body(&mut self, hash: [u8; 32]) {
        self.signed_body = Some(hash);
    }

    /// The authority of the request's target: `:authority` of HTTP/2.
    pub fn authority(&self) -> Option<&str> {
        self.head.uri.authority().map(|authority| authority.as_str())
    }

    /// All headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// A header that may be given once, as text. A header that is given twice or is not ASCII text
    /// is a [`Rejection::BadRequest`].
    pub fn header(&self, name: &HeaderName) -> Result<Option<&str>, Rejection> {
        let mut values = self.head.headers.get_all(name).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(Rejection::BadRequest(format!("the header {name} occurs more than once; send it once")));
        }
        let text = value.to_str().map_err(|_| Rejection::BadRequest(format!("the header {name} is not ASCII text")))?;
        Ok(Some(text))
    }

    /// The elements of a header that is a list (RFC 9110, section 5.6.1), of all lines of this
    /// name. An element that is not UTF-8 is left out, and the others count.
    pub fn list(&self, name: &HeaderName) -> impl Iterator<Item = &str> {
        elements(&self.head.headers, name, b',')
    }

    /// The names and values of the request's cookies, in their order. A cookie that is not UTF-8 is
    /// left out: a site next to this one can set a cookie that browsers send here.
    pub fn cookies(&self) -> impl Iterator<Item = (&str, &str)> {
        elements(&self.head.headers, &COOKIE, b';').filter_map(|pair| pair.split_once('='))
    }

    /// The path segment that stands for `{name}` in the route's pattern, percent-decoded. For a
    /// name that the pattern does not have it is empty.
    pub fn param(&self, name: &str) -> Result<Cow<'_, str>, Rejection> {
        let is_named = |segment: &str| segment.strip_prefix('{').and_then(|s| s.strip_suffix('}')) == Some(name);
        let mut segments = self.pattern.split('/').zip(self.path().split('/'));
        let value = segments.find_map(|(pattern, value)| is_named(pattern).then_some(value)).unwrap_or_default();
        percent_decode_str(value)
            .decode_utf8()
            .map_err(|_| Rejection::BadRequest(format!("{name} in the path is not UTF-8 after percent-decoding")))
    }

    /// The pairs of the query, decoded, in their order; a name may occur more than once.
    pub fn query(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        form_urlencoded::parse(self.head.uri.query().unwrap_or_default().as_bytes())
    }

    /// The value of a query parameter that may be given once, decoded. A parameter that is given
    /// twice is a [`Rejection::BadRequest`].
    pub fn query_parameter(&self, name: &str) -> Result<Option<Cow<'_, str>>, Rejection> {
        let mut values = self.query().filter(|(given, _)| given == name).map(|(_, value)| value);
        let value = values.next();
        if values.next().is_some() {
            return Err(Rejection::BadRequest(format!(
                "the query parameter {name} occurs more than once; send it once"
            )));
        }
        Ok(value)
    }

    /// How long the client asks to hold the answer until there is news: the query parameter `wait`,
    /// in whole seconds; `None` without it. A route that uses it has the limit [`WAITING_LIMIT`].
    ///
    /// # Errors
    /// [`Rejection::BadRequest`] for a text that is no number, or more than [`LONGEST_WAIT`].
    pub fn wait(&self) -> Result<Option<Duration>, Rejection> {
        let Some(value) = self.query_parameter("wait")? else { return Ok(None) };
        let longest = LONGEST_WAIT.as_secs();
        let seconds = value.parse().ok().filter(|seconds| *seconds <= longest && !value.starts_with('+'));
        let refused =
            || Rejection::BadRequest(format!("wait: it must be a whole number of seconds from 0 to {longest}"));
        Ok(Some(seconds.map(Duration::from_secs).ok_or_else(refused)?))
    }

    /// The id that the answer carries as `X-Request-Id`.
    pub fn id(&self) -> &RequestId {
        &self.id
    }

    /// The client's address; see [`super::source_address`]. Through a unix socket it is the
    /// loopback address.
    pub fn source(&self) -> IpAddr {
        self.source.address()
    }

    /// Whether the request came through a unix socket, which browsers cannot call.
    pub fn is_from_unix_socket(&self) -> bool {
        self.source == Source::UnixSocket
    }

    /// Whether more than half of the listener's connections or open requests are taken. A handler
    /// that keeps its client waiting for a long time can then end early.
    pub fn is_listener_half_full(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let client = Arc::clone(&self.client);
        move || client.is_listener_half_full()
    }

    /// What this request's audit event says; without effect on a route that is not audited.
    pub fn audit(&self) -> &AuditNotes {
        &self.audit
    }

    /// The signal that the server is about to stop. A handler that waits for long must wait for
    /// this signal too.
    pub fn shutdown(&self) -> &Shutdown {
        self.client.shutdown()
    }

    /// Reads the whole body, once, up to `limit` bytes; trailers are ignored.
    ///
    /// # Errors
    /// [`Rejection::PayloadTooLarge`] when the body is longer than `limit`, before it is read if
    /// its length is announced; [`Rejection::UnsupportedMediaType`] when it is compressed;
    /// [`Rejection::BadRequest`] when it ends early or is not the one of
    /// [`Request::expect_body`]; [`Rejection::Unavailable`] when the bodies of
    /// all requests leave no room for it.
    pub async fn read_body(&mut self, limit: usize) -> Result<Bytes, Rejection> {
        if self.body.announced_length() > limit as u64 {
            return Err(Rejection::PayloadTooLarge { limit });
        }
        match self.header(&CONTENT_ENCODING)? {
            Some(encoding) if !encoding.eq_ignore_ascii_case("identity") => Err(Rejection::UnsupportedMediaType(
                format!("the content encoding is {encoding:?}, only an unencoded body is read"),
            )),
            _ => {
                let limits = Arc::clone(&self.client.limits());
                let body = self.body.read(limit, &limits).await?;
                match self.signed_body {
                    Some(signed) if Sha256::digest(&body).as_slice() != signed => {
                        Err(Rejection::BadRequest("the body is not the one that was signed".to_owned()))
                    }
                    _ => Ok(body),
                }
            }
        }
    }

    /// [`Request::read_body`] of a body whose content type must be `application/json`. The text
    /// itself is not checked.
    pub async fn read_json(&mut self, limit: usize) -> Result<Bytes, Rejection> {
        let body = self.read_body(limit).await?;
        self.check_content_type("application/json")?;
        Ok(body)
    }

    /// Checks that the content type is `expected`, in any case and with any parameters: JSON is
    /// UTF-8 whatever `charset` says (RFC 8259, section 11).
    pub fn check_content_type(&self, expected: &str) -> Result<(), Rejection> {
        match self.header(&CONTENT_TYPE)? {
            Some(found) if is_content_type(found, expected) => Ok(()),
            Some(found) => {
                Err(Rejection::UnsupportedMediaType(format!("the content type is {found:?}, it must be {expected}")))
            }
            None => Err(Rejection::UnsupportedMediaType(format!("the content type is missing, it must be {expected}"))),
        }
    }
}

fn is_content_type(found: &str, expected: &str) -> bool {
    found.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case(expected))
}

/// The elements between `separator`s of all lines of a header, trimmed. An element that is not
/// UTF-8 is left out.
fn elements<'h>(headers: &'h HeaderMap, name: &HeaderName, separator: u8) -> impl Iterator<Item = &'h str> {
    let lines = headers.get_all(name).into_iter();
    let elements = lines.flat_map(move |line| line.as_bytes().split(move |byte| *byte == separator));
    elements.filter_map(|element| Some(std::str::from_utf8(element).ok()?.trim()))
}

/// The body of a request while it is received.
///
/// Closing the socket of a client that still sends resets the connection, and the client may lose
/// the answer. So the rest of an HTTP/1 body is read and discarded for a short time when this value
/// is dropped; if the body ends in that time, the connection stays open. HTTP/2 can refuse the rest
/// of one stream and does not need this.
pub(super) struct RequestBody {
    /// `None` when the body is read to its end.
    unread: Option<ReceivedBody>,
    /// Whether the client sends the body now; with `Expect: 100-continue` it waits until the body
    /// is read.
    is_sending: bool,
    version: Version,
    /// What it takes of the listener's room for bodies.
    permit: BodyPermit,
}

impl RequestBody {
    pub(super) fn new(incoming: ReceivedBody, head: &Parts, permit: BodyPermit) -> Self {
        let unread = Some(incoming).filter(|incoming| !incoming.is_end_stream());
        let is_sending = unread.is_some() && !head.headers.contains_key(EXPECT);
        Self { unread, is_sending, version: head.version, permit }
    }

    /// `Content-Length`, or 0 when there is none.
    fn announced_length(&self) -> u64 {
        self.unread.as_ref().map_or(0, |incoming| incoming.size_hint().lower())
    }

    async fn read(&mut self, limit: usize, limits: &Limits) -> Result<Bytes, Rejection> {
        self.is_sending = true;
        let Some(first) = self.next().await? else { return Ok(Bytes::new()) };
        if first.len() > limit {
            return Err(Rejection::PayloadTooLarge { limit });
        }
        self.take(first.len(), limits)?;
        if self.unread.is_none() {
            return Ok(first);
        }
        // The buffer grows with the bytes that arrive and not with the announced length, which
        // costs the client nothing.
        let mut body = BytesMut::from(first);
        while let Some(data) = self.next().await? {
            if body.len() + data.len() > limit {
                return Err(Rejection::PayloadTooLarge { limit });
            }
            self.take(data.len(), limits)?;
            body.extend_from_slice(&data);
        }
        Ok(body.freeze())
    }

    /// Takes room for another piece of the body.
    fn take(&mut self, count: usize, limits: &Limits) -> Result<(), Rejection> {
        let has_room = self.permit.take(count, limits);
        if has_room { Ok(()) } else { Err(Rejection::Unavailable { retry_after: RetryAfter::SOON }) }
    }

    /// The next piece; at the end `unread` becomes `None`.
    async fn next(&mut self) -> Result<Option<Bytes>, Rejection> {
        while let Some(incoming) = &mut self.unread {
            let frame = incoming.frame().await;
            if frame.is_none() || incoming.is_end_stream() {
                self.unread = None;
            }
            match frame {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(_)) => {
                    self.unread = None;
                    return Err(Rejection::BadRequest("the body ended early or its framing is broken".to_owned()));
                }
                None => {}
            }
        }
        Ok(None)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let Some(unread) = self.unread.take() else { return };
        if self.version < Version::HTTP_2
            && self.is_sending
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(discard(unread));
        }
    }
}

async fn discard(mut body: ReceivedBody) {
    let mut left = DISCARDED_BYTES;
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    // The result is ignored, because nothing waits for it.
    let _ = tokio::time::timeout(DISCARD_TIME, reading).await;
}

// The body of a request as it is received, from our own server or from a host's.

/// The body of a request. That of our own server is not boxed, because most requests have one.
pub(super) enum ReceivedBody {
    /// From our own server.
    OfHyper(Incoming),
    /// From the host's server, or made by one of its layers. Handlers share their request while
    /// they wait, and not every body can be shared; only its reader locks it.
    OfHost(Mutex<UnsyncBoxBody<Bytes, Unreadable>>),
}

/// The body ended early or its framing is broken. The client's mistake says no more.
#[derive(Debug)]
pub(super) struct Unreadable;

impl ReceivedBody {
    /// The body of a request that a host was sent.
    pub fn of_host<B: Body<Data = Bytes> + Send + 'static>(body: B) -> Self {
        Self::OfHost(Mutex::new(body.map_err(|_| Unreadable).boxed_unsync()))
    }
}

impl Body for ReceivedBody {
    type Data = Bytes;
    type Error = Unreadable;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Unreadable>>> {
        match self.get_mut() {
            Self::OfHyper(body) => {
                Pin::new(body).poll_frame(context).map(|frame| frame.map(|frame| frame.map_err(|_| Unreadable)))
            }
            Self::OfHost(body) => {
                let body = body.get_mut().unwrap_or_else(PoisonError::into_inner);
                Pin::new(body).poll_frame(context)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::OfHyper(body) => body.is_end_stream(),
            Self::OfHost(body) => body.lock().unwrap_or_else(PoisonError::into_inner).is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::OfHyper(body) => body.size_hint(),
            Self::OfHost(body) => body.lock().unwrap_or_else(PoisonError::into_inner).size_hint(),
        }
    }
}

// Answers that are streams of server-sent events (HTML, "Server-sent events").

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_match_in_any_case_and_with_any_parameters() {
        #[rustfmt::skip]
        let table = [
            ("application/json", true),
            ("Application/JSON", true),
            ("application/json;", true),
            ("application/json; charset=utf-8", true),
            ("application/json ;charset=\"UTF-8\"; profile=x", true),
            ("application/json; charset=utf8", true),
            ("application/json; charset='utf-8'", true),
            ("application/json; charset=latin1", true),
            ("application/json; charset", true),
            ("application/jsonx", false),
            ("text/plain", false),
            ("text/plain; application/json", false),
            ("", false),
        ];
        for (found, expected) in table {
            assert_eq!(is_content_type(found, "application/json"), expected, "{found:?}");
        }
    }

    #[test]
    fn a_bad_element_of_a_list_costs_that_element_only() {
        #[rustfmt::skip]
        let table: [(&[&[u8]], &[&str]); 5] = [
            (&[b"a=1; b=2"], &["a=1", "b=2"]),
            (&[b"a=1;user=Jos\xe9;b=2"], &["a=1", "b=2"]),
            (&[b"user=Jos\xc3\xa9; b=2"], &["user=Jos\u{e9}", "b=2"]),
            (&[b"a=1", b"\xff", b"b=2"], &["a=1", "b=2"]),
            (&[], &[]),
        ];
        for (lines, expected) in table {
            let line = |line: &&[u8]| (COOKIE, hyper::header::HeaderValue::from_bytes(line).expect("a header value"));
            let headers: HeaderMap = lines.iter().map(line).collect();
            assert_eq!(elements(&headers, &COOKIE, b';').collect::<Vec<_>>(), expected, "{lines:?}");
        }
    }
}
