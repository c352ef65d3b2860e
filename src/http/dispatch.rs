//! The life of one request, from its head to the head of its answer.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Version};
#[cfg(feature = "fault-injection")]
use selfsame_actors::faults::{FaultPoint, pass};

use super::refusal::Refusal;
use super::request::{Request, RequestBody};
use super::request_id::{RequestId, X_REQUEST_ID};
use super::response::Response;
use super::router::Target;
use super::server::InFlight;

/// Header fields of a request: what hyper allows of HTTP/1. Small ones cost far more memory than they have bytes.
const MOST_FIELDS: usize = 100;

/// How long a client should wait when too many requests are open.
const OVERLOADED: Duration = Duration::from_secs(1);

/// Answers a request: always, and always in the style of the interface that its path belongs to.
pub(super) async fn answer(in_flight: InFlight, request: hyper::Request<Incoming>) -> Response {
    let started = Instant::now();
    let connection = in_flight.connection();
    let server = &connection.server;
    let (head, body) = request.into_parts();
    let body = RequestBody::new(body, &head);
    let id = RequestId::of(&head.headers, || (server.random)());
    let target = server.site.target(head.uri.path());
    let cors = target.cors();
    let origin = cors.and_then(|_| head.headers.get(ORIGIN).cloned());
    let (method, version) = (head.method.clone(), head.version);

    let request = Request { head, body, id: id.clone(), pattern: target.pattern, connection: connection.clone() };
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

    let status = response.status();
    if let Some(cors) = cors {
        cors.grant(origin.as_ref(), response.headers_mut());
    }
    // Whoever is told so was, or may have been, interrupted in the middle of a body.
    if version < Version::HTTP_2 && (is_interrupted || status == StatusCode::PAYLOAD_TOO_LARGE) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if method == Method::HEAD {
        leave_out_body(&mut response);
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

/// RFC 9112, section 3.2: an HTTP/1.1 request has exactly one `Host`. (All other framing is hyper's to check.)
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
    if status.is_server_error() {
        event!(warn);
    } else {
        event!(debug);
    }
}
