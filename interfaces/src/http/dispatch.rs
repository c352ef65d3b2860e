//! One request, from its head to the head of its answer; its name in answers and logs.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use alloy_primitives::hex;
use futures_util::FutureExt;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, STRICT_TRANSPORT_SECURITY,
    TRANSFER_ENCODING,
};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Version};
#[cfg(feature = "fault-injection")]
use selfsame_actors::faults::{FaultPoint, FaultScope, pass};
use selfsame_protocol::time::RetryAfter;
use tracing::{Instrument, error_span, field};

use super::audit::{AccessLog, Answered, AuditOutcome, AuditTrail, AuditedRequest};
use super::exchange::{Exchange, name_of};
use super::request::{ReceivedBody, Request, RequestBody};
use super::response::{Rejection, Response};
use super::router::{Route, Site, Target};
use crate::trace_context;

/// The most header fields of a request, which is also hyper's limit for HTTP/1. A small field takes
/// far more memory than it has bytes.
const MOST_FIELDS: usize = 100;

/// For a year browsers call the host by HTTPS only.
const STRICT_TRANSPORT: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Answers the requests of a listener.
pub(super) struct Dispatcher {
    pub site: Site,
    pub ids: RequestIds,
    pub audit: Arc<AuditTrail>,
    pub access_log: AccessLog,
    /// Whether the log has said that a trusted proxy does not name its clients.
    pub has_warned: AtomicBool,
}

/// Paths that proxies call for themselves.
const PROBES: [&str; 2] = ["/health", "/ready"];

impl Dispatcher {
    /// Answers every request in the style of the interface that its path belongs to.
    ///
    /// Everything that happens for the request is logged inside a span with its id, from here to
    /// the actors and the disk. The span has the level of errors, so that every log filter that
    /// passes an error also passes its id.
    pub async fn answer(&self, exchange: Exchange, head: Parts, body: ReceivedBody) -> Response {
        let target = self.site.target(head.uri.path());
        let id = self.ids.of(&head.headers);
        let (interface, route) = (target.interface.name, target.pattern);
        let span = error_span!("request", interface, route, request_id = id.as_str(), trace_id = field::Empty);
        if let Some(parent) = exchange.traceparent(&head.headers) {
            trace_context::continue_trace(&span, parent);
            span.record("trace_id", hex::encode(parent.trace_id));
        } else if let Some(recorded) = trace_context::of(&span) {
            span.record("trace_id", hex::encode(recorded.trace_id));
        }
        if exchange.is_unnamed() && !target.interface.is_called_directly && !PROBES.contains(&target.pattern) {
            span.in_scope(|| self.warn_of_unnamed_clients(&exchange));
        }
        answer(&target, (&self.audit, self.access_log), id, exchange, head, body).instrument(span).await
    }

    /// Says once for each listener that a trusted proxy does not name its clients. Either the proxy
    /// writes another header, or it passes a client's own header on.
    fn warn_of_unnamed_clients(&self, exchange: &Exchange) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            let header = name_of(exchange.client().limits().forwarded_header).as_str();
            tracing::warn!(
                proxy = %exchange.client().peer().address(),
                header,
                "a trusted proxy sent a request without the header that names its clients, so they count as one source \
                 and have no shares; let the proxy append to this header, or set limits.forwarded_header"
            );
        }
    }
}

async fn answer(
    target: &Target<'_>,
    (trail, access_log): (&AuditTrail, AccessLog),
    id: RequestId,
    mut exchange: Exchange,
    head: Parts,
    body: ReceivedBody,
) -> Response {
    let started = Instant::now();
    let client = Arc::clone(exchange.client());
    // The route comes first, because its body counts as reserved.
    let is_within_limits = exchange.is_within_limits(target.is_reserved());
    let body = RequestBody::new(body, &head, exchange.body_permit());
    let cors = target.cors();
    let origin = cors.and_then(|_| head.headers.get(ORIGIN).cloned());
    let (method, version) = (head.method.clone(), head.version);
    let has_supported_framing = has_supported_framing(&head.headers);

    let request_timeout = client.limits().request_timeout;
    let source = exchange.source();
    let logged_source = (!target.interface.hides_sources).then_some(source);
    // The route is found before anything is refused, so that a refused request has its event too.
    let route = target.route(&method, head.uri.path());
    let mut audited = match &route {
        Ok(Route { audited: Some(route), .. }) => Some(AuditedRequest::new(trail, route, logged_source)),
        _ => None,
    };
    let audit = audited.as_ref().map(|audited| audited.notes.clone()).unwrap_or_default();
    let request = Request {
        signed_body: None,
        head,
        body,
        id: id.clone(),
        pattern: target.pattern,
        source,
        client: Arc::clone(&client),
        audit: audit.clone(),
    };
    let error_page = target.interface.error_page(&request);
    let page = |response| match &error_page {
        Some(page) => page(response),
        None => response,
    };
    let handled = match is_within_limits {
        true => handle(target, route, request, request_timeout).await,
        false => {
            audit.outcome(AuditOutcome::Limited);
            Err(Rejection::Unavailable { retry_after: RetryAfter::SOON })
        }
    };
    if let Err(rejection) = &handled {
        audit.reason(|| rejection.reason());
    }
    #[cfg(feature = "fault-injection")]
    let handled = match pass(&FaultScope::PROCESS, FaultPoint::HttpAnswer).await {
        Ok(()) => handled,
        Err(_) => Err(Rejection::Internal),
    };
    // The status does not show a timeout: an interface may answer it with another status than 504.
    let is_interrupted = matches!(handled, Err(Rejection::Timeout));
    let mut response = page(handled.unwrap_or_else(target.interface.reject));
    if method == Method::HEAD {
        leave_out_body(&mut response);
    }
    let length = response.body().exact_length().unwrap_or_default();
    if !exchange.take_answer(usize::try_from(length).unwrap_or(usize::MAX)) {
        response = page((target.interface.reject)(Rejection::Unavailable { retry_after: RetryAfter::SOON }));
    }

    let status = response.status();
    if let Some(audited) = &mut audited {
        audited.status = Some(status);
    }
    if let Some(cors) = cors {
        cors.grant(origin.as_ref(), response.headers_mut());
    }
    // The connection may be out of step with the client (a body is half read, or its end is
    // disputed), so HTTP/1 must close it. A connection in the reserve gives its place to the next;
    // with HTTP/2 the end of the exchange closes it.
    let is_out_of_step = is_interrupted || status == StatusCode::PAYLOAD_TOO_LARGE || !has_supported_framing;
    let must_close = is_out_of_step || client.is_reserved();
    if version < Version::HTTP_2 && must_close {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if target.interface.is_https {
        response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, STRICT_TRANSPORT);
    }
    let elapsed = started.elapsed();
    target.metrics.observe(status, elapsed);
    let bytes = response.body().exact_length();
    access_log.write(&Answered { method: &method, version, status, bytes, elapsed, source: logged_source });
    response.headers_mut().insert(X_REQUEST_ID, id.into_header_value());
    response.body_mut().hold(exchange);
    response
}

/// Checks the head and runs the route's handler within its time.
async fn handle(
    target: &Target<'_>,
    route: Result<&Route, Rejection>,
    request: Request,
    request_timeout: Duration,
) -> Result<Response, Rejection> {
    check_host(&request.head)?;
    if !has_supported_framing(&request.head.headers) {
        let detail = "the header transfer-encoding has other codings than chunked; only chunked is supported";
        return Err(Rejection::BadRequest(detail.to_owned()));
    }
    let fields = request.head.headers.len();
    if fields > MOST_FIELDS {
        return Err(Rejection::BadRequest(format!("there are {fields} header fields, at most {MOST_FIELDS} are read")));
    }
    if *request.method() == Method::OPTIONS
        && let Some(response) = target.preflight()
    {
        return Ok(response);
    }
    let route = route?;

    // A panic in a handler ends its request and not the connection. `AssertUnwindSafe` is sound:
    // handlers share only snapshots and actors' handles, and a panic in a handler leaves neither
    // half changed.
    let handling = AssertUnwindSafe(async { (route.handler)(request).await }).catch_unwind();
    match tokio::time::timeout(route.time_limit.unwrap_or(request_timeout), handling).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(_panic)) => {
            tracing::error!("a handler panicked");
            Err(Rejection::Internal)
        }
        Err(_elapsed) => Err(Rejection::Timeout),
    }
}

/// Whether a body's transfer coding, if there is one, is `chunked` alone. hyper ignores codings
/// before it. A proxy that does not ignore them may see another end of the request, which allows
/// request smuggling.
fn has_supported_framing(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    codings.next().is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked")) && codings.next().is_none()
}

/// RFC 9112, section 3.2: an HTTP/1.1 request has exactly one `Host`. hyper checks the rest of the
/// framing.
fn check_host(head: &Parts) -> Result<(), Rejection> {
    match head.headers.get_all(HOST).iter().count() {
        1 => Ok(()),
        0 if head.version != Version::HTTP_11 => Ok(()),
        count => Err(Rejection::BadRequest(format!("the header host occurs {count} times; send it once"))),
    }
}

/// Removes the body of an answer to `HEAD`, which has the headers of `GET` with the body's length.
fn leave_out_body(response: &mut Response) {
    let body = std::mem::take(response.body_mut());
    if let Some(length) = body.exact_length() {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert(length.into());
    }
}

// `X-Request-Id`: the name of one request in answers and logs.

/// The header that carries the id in both directions.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that a client may choose, in bytes.
const MAX_LENGTH: usize = 128;

/// The client's own id when it is 1 to 128 characters of `[A-Za-z0-9._-]`, otherwise a random UUID
/// (version 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// The id as the value of [`X_REQUEST_ID`].
    pub fn into_header_value(self) -> HeaderValue {
        self.0
    }

    fn from_random(bytes: [u8; 16]) -> Self {
        let uuid = uuid::Builder::from_random_bytes(bytes).into_uuid();
        let mut text = uuid::Uuid::encode_buffer();
        let text = uuid.hyphenated().encode_lower(&mut text);
        Self(HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("-")))
    }
}

/// Fills bytes with random ones.
pub type FillRandom = Box<dyn Fn(&mut [u8]) + Send + Sync>;

/// Finds or makes the id of each request.
pub(super) struct RequestIds {
    random: FillRandom,
    /// Random bytes that no id has used yet.
    unused: Mutex<Vec<[u8; 16]>>,
}

impl RequestIds {
    /// How many ids one call of the random source is for. A call for each would be a system call
    /// for each request, which is a fortieth of the cost of a small read.
    const AT_ONCE: usize = 64;

    pub(super) fn new(random: FillRandom) -> Self {
        Self { random, unused: Mutex::default() }
    }

    /// The id in a request's headers; a random one when the client sent no valid id.
    pub(super) fn of(&self, headers: &HeaderMap) -> RequestId {
        match headers.get(X_REQUEST_ID) {
            Some(value) if is_acceptable(value.as_bytes()) => RequestId(value.clone()),
            _ => RequestId::from_random(self.next()),
        }
    }

    fn next(&self) -> [u8; 16] {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        if unused.is_empty() {
            unused.resize(Self::AT_ONCE, [0; 16]);
            (self.random)(unused.as_flattened_mut());
        }
        unused.pop().unwrap_or_default()
    }
}

fn is_acceptable(id: &[u8]) -> bool {
    (1..=MAX_LENGTH).contains(&id.len())
        && id.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENERATED: &str = "00000000-0000-4000-8000-000000000000";

    #[test]
    fn every_generated_id_has_random_bytes_of_its_own() {
        let calls = std::sync::Arc::new(Mutex::new(0_u8));
        let ids = RequestIds::new({
            let calls = std::sync::Arc::clone(&calls);
            Box::new(move |bytes| {
                let mut calls = calls.lock().unwrap();
                *calls += 1;
                for (index, byte) in bytes.iter_mut().enumerate() {
                    *byte = if index % 16 == 0 { *calls } else { (index / 16) as u8 };
                }
            })
        });
        let count = 3 * RequestIds::AT_ONCE;
        let distinct: std::collections::HashSet<_> =
            (0..count).map(|_| ids.of(&HeaderMap::new()).as_str().to_owned()).collect();
        assert_eq!(distinct.len(), count);
        assert_eq!(*calls.lock().unwrap(), 3);
    }

    fn id_for(value: Option<&[u8]>) -> String {
        let mut headers = HeaderMap::new();
        if let Some(value) = value {
            headers.insert(X_REQUEST_ID, HeaderValue::from_bytes(value).unwrap());
        }
        RequestIds::new(Box::new(|bytes| bytes.fill(0))).of(&headers).as_str().to_owned()
    }

    #[test]
    fn a_valid_request_id_is_kept_and_any_other_is_replaced() {
        let longest = "a".repeat(128);
        let too_long = "a".repeat(129);
        for kept in ["a", "A.b_c-9", longest.as_str()] {
            assert_eq!(id_for(Some(kept.as_bytes())), kept);
        }
        for replaced in [b"" as &[u8], b"a b", b"a/b", b"\xff", too_long.as_bytes()] {
            assert_eq!(id_for(Some(replaced)), GENERATED, "{replaced:?}");
        }
        assert_eq!(id_for(None), GENERATED);
    }
}
