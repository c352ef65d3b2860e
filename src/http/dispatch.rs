//! The life of one request, from its head to the head of its answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderValue, ORIGIN, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Version};
#[cfg(feature = "fault-injection")]
use selfsame_actors::faults::{FaultPoint, pass};

use super::connection::InFlight;
use super::refusal::Refusal;
use super::request::{Request, RequestBody};
use super::request_id::{RequestId, X_REQUEST_ID};
use super::response::Response;
use super::router::Target;

/// Header fields of a request: what hyper allows of HTTP/1. Small ones cost far more memory than they have bytes.
const MOST_FIELDS: usize = 100;

/// How long a client should wait when too many requests are open.
const OVERLOADED: Duration = Duration::from_secs(1);

/// Answers a request: always, and always in the style of the interface that its path belongs to.
pub(super) async fn answer(mut in_flight: InFlight, request: hyper::Request<Incoming>) -> Response {
    let started = Instant::now();
    let connection = Arc::clone(in_flight.connection());
    let server = &connection.server;
    let (head, body) = request.into_parts();
    let body = RequestBody::new(body, &head);
    let id = RequestId::of(&head.headers, || (server.random)());
    let target = server.site.target(head.uri.path());
    let cors = target.cors();
    let origin = cors.and_then(|_| head.headers.get(ORIGIN).cloned());
    let (method, version) = (head.method.clone(), head.version);
    let is_plainly_framed = is_plainly_framed(&head.headers);

    let request = Request { head, body, id: id.clone(), pattern: target.pattern, connection: Arc::clone(&connection) };
    let request_timeout = server.limits.load().request_timeout;
    let handled = match in_flight.is_within_limit() {
        true => handle(&target, request, request_timeout).await,
        false => Err(Refusal::Unavailable { retry_after: OVERLOADED }),
    };
    #[cfg(feature = "fault-injection")]
    let handled = match pass(FaultPoint::HttpAnswer).await {
        Ok(()) => handled,
        Err(_) => Err(Refusal::Internal),
    };
    // An interface may answer a timeout with another status than ours.
    let is_interrupted = matches!(handled, Err(Refusal::Timeout));
    let mut response = handled.unwrap_or_else(target.interface.refuse);
    if method == Method::HEAD {
        leave_out_body(&mut response);
    }
    let length = response.body().exact_length().unwrap_or_default();
    if !in_flight.take_answer(usize::try_from(length).unwrap_or(usize::MAX)) {
        response = (target.interface.refuse)(Refusal::Unavailable { retry_after: OVERLOADED });
    }

    let status = response.status();
    if let Some(cors) = cors {
        cors.grant(origin.as_ref(), response.headers_mut());
    }
    // Whoever is told so was, or may have been, interrupted in the middle of a body, or sees its end elsewhere.
    let is_at_odds = is_interrupted || status == StatusCode::PAYLOAD_TOO_LARGE || !is_plainly_framed;
    if version < Version::HTTP_2 && is_at_odds {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let elapsed = started.elapsed();
    target.metrics.observe(status, elapsed);
    log(&method, &target, status, elapsed, &id);
    response.headers_mut().insert(X_REQUEST_ID, id.into_header_value());
    response.body_mut().hold(in_flight);
    response
}

/// Finds the handler and runs it within its time.
async fn handle(target: &Target<'_>, request: Request, request_timeout: Duration) -> Result<Response, Refusal> {
    require_host(&request.head)?;
    if !is_plainly_framed(&request.head.headers) {
        let detail = "the header transfer-encoding has other codings than chunked, which alone is understood";
        return Err(Refusal::BadRequest(detail.to_owned()));
    }
    let fields = request.head.headers.len();
    if fields > MOST_FIELDS {
        return Err(Refusal::BadRequest(format!("there are {fields} header fields, at most {MOST_FIELDS} are read")));
    }
    if *request.method() == Method::OPTIONS
        && let Some(response) = target.preflight()
    {
        return Ok(response);
    }
    let route = target.route(request.method(), request.path())?;
    let id = request.id().clone();

    // A panicking handler takes its request with it and leaves the connection alone. What handlers share is snapshots
    // and actors, neither of which a panic out here leaves half changed; that makes asserting unwind safety sound.
    let handling = AssertUnwindSafe(async { (route.handler)(request).await }).catch_unwind();
    match tokio::time::timeout(route.time_limit.unwrap_or(request_timeout), handling).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(_panic)) => {
            tracing::error!(request_id = id.as_str(), route = target.pattern, "a handler panicked");
            Err(Refusal::Internal)
        }
        Err(_elapsed) => Err(Refusal::Timeout),
    }
}

/// Whether a body's transfer coding, if there is one, is `chunked` alone. hyper overlooks codings in front of it, which a proxy
/// may take for something else: two opinions on where a request ends let one be smuggled.
fn is_plainly_framed(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    codings.next().is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked")) && codings.next().is_none()
}

/// RFC 9112, section 3.2: an HTTP/1.1 request has exactly one `Host`. (The rest of the framing is hyper's to check.)
fn require_host(head: &Parts) -> Result<(), Refusal> {
    match head.headers.get_all(HOST).iter().count() {
        1 => Ok(()),
        0 if head.version != Version::HTTP_11 => Ok(()),
        count => Err(Refusal::BadRequest(format!("the header host is given {count} times, it must be there once"))),
    }
}

/// `HEAD` is answered with the headers of `GET`, the body's length among them.
fn leave_out_body(response: &mut Response) {
    let body = std::mem::take(response.body_mut());
    if let Some(length) = body.exact_length() {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert(length.into());
    }
}

/// The access log: no body, query, address or credential is in it.
fn log(method: &Method, target: &Target<'_>, status: StatusCode, elapsed: Duration, id: &RequestId) {
    macro_rules! event {
        ($level:ident) => {
            tracing::$level!(
                interface = target.interface.name,
                %method,
                route = target.pattern,
                status = status.as_u16(),
                micros = elapsed.as_micros() as u64,
                request_id = id.as_str(),
                "answered"
            )
        };
    }
    // Overload is not told of request by request, in the metrics it is counted.
    if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE {
        event!(warn);
    } else {
        event!(debug);
    }
}
