//! The message bridge: encrypted requests of applications for authenticators, and their encrypted
//! answers.
//!
//! The routes and the description come first, then the errors, the endpoints of requests and
//! those of answers.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use selfsame_actors::{BridgeError, BridgeHandle, PolledResponse};
use selfsame_protocol::bridge::entries::EntryError;
use selfsame_protocol::bridge::{
    BridgeErrorCode, CreateRequest, CreatedRequest, EntryId, InvalidEntryId, Message, RequestAnswer, ResponseAnswer,
    ResponseStatus,
};
use selfsame_protocol::gateway::{ServiceApiError, meanings};
use selfsame_protocol::json::{BodyError, from_object};
use selfsame_protocol::time::RetryAfter;
use utoipa::{IntoResponses, Modify, OpenApi};

use crate::http::{
    Cors, ErrorCodes, InterfaceError, LONGEST_WAIT, Rejection, Request, Response, Router, Routes, WAITING_LIMIT, empty,
    exists, json,
};
use crate::interface::Interface;
use crate::openapi;

/// What the bridge's handlers share.
pub struct Bridge {
    /// Keeps the messages.
    pub handle: BridgeHandle,
}

/// The longest body, in bytes: that of the public bridge.
const BODY_LIMIT: usize = 5 << 20;

/// The bridge's routes. Scripts of every origin may call them: applications' pages do.
pub fn routes(handle: BridgeHandle, openapi: openapi::Document) -> Routes {
    let (get, post) = (Method::GET, Method::POST);
    Router::<Bridge, BridgeEndpointError>::new(Interface::Bridge.name(), Arc::new(Bridge { handle }))
        .cors(Some(Cors::Any))
        .reserve(&["/health"])
        .route(post.clone(), "/request", create_request)
        .route(get.clone(), "/request/{request_id}", take_request)
        .route(post, "/response", create_response)
        .route(Method::PUT, "/response/{request_id}", answer_request)
        .route_within(WAITING_LIMIT, get.clone(), "/response/{request_id}", take_response)
        .route(get.clone(), "/health", |_, _| openapi::health())
        .route(get, "/openapi.json", move |_, _| openapi::answer(openapi.clone()))
        .into()
}

/// The bridge's description.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Message bridge",
        version = "0.1.4",
        description = "Carries encrypted requests of applications to authenticators, and their encrypted answers back. A request \
            is handed out once; its first answer is taken, and handed out once. Everything is kept in memory, for a quarter of an \
            hour after its last change by default; a restart of the service loses it."
    ),
    paths(
        create_request,
        take_request,
        look_at_request,
        create_response,
        answer_request,
        take_response,
        look_at_response,
        openapi::health,
        openapi::answer,
    ),
    components(schemas(ServiceApiError<BridgeErrorCode>, BridgeErrorCode)),
    modifiers(&Shared, &Links)
)]
pub struct Description;

/// Describes what all endpoints have in common.
struct Shared;

impl Modify for Shared {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        openapi::describe_errors::<BridgeEndpointError>(
            description,
            "ServiceApiError_BridgeErrorCode",
            openapi::NO_ERROR_PAGES,
        );
        openapi::describe_codes(description, "BridgeErrorCode", meanings::<BridgeErrorCode>());
    }
}

/// Describes what is called with the id of a request.
struct Links;

impl Modify for Links {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let request_id = ("request_id", "$response.body#/request_id");
        for to in ["take_request", "answer_request", "take_response"] {
            openapi::describe_link(description, "create_request", (to, to), request_id);
        }
        openapi::describe_link(description, "create_response", ("take_response", "take_response"), request_id);
    }
}

// The errors of the bridge and its answers to them.

/// When a client may try again that has too many messages here.
const ROOM_RETRY: RetryAfter = RetryAfter(std::time::Duration::from_secs(30));

/// A rejected request to the bridge.
#[derive(Debug, thiserror::Error)]
enum BridgeEndpointError {
    /// The request was rejected for a reason that all interfaces share.
    #[error(transparent)]
    Http(#[from] Rejection),
    /// The body is not a message.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The id in the path is not one.
    #[error("request_id: {0}")]
    Id(#[from] InvalidEntryId),
    /// Nothing is kept under the id.
    #[error("nothing is kept under this id; it was handed out, or has expired")]
    NotFound,
    /// The bridge refuses it.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
}

impl InterfaceError for BridgeEndpointError {
    fn reason(&self) -> String {
        match self {
            Self::Http(rejection) => rejection.reason(),
            Self::Body(error) => error.reason(),
            other => other.to_string(),
        }
    }

    fn into_response(self) -> Response {
        let (status, code) = match &self {
            Self::Http(rejection) => return ErrorCodes::BRIDGE.respond(rejection),
            Self::Body(_) | Self::Id(_) => (StatusCode::BAD_REQUEST, BridgeErrorCode::BadRequest),
            Self::NotFound => (StatusCode::NOT_FOUND, BridgeErrorCode::NotFound),
            Self::Bridge(BridgeError::Entry(error)) => match error {
                EntryError::Taken => (StatusCode::CONFLICT, BridgeErrorCode::RequestIdTaken),
                EntryError::AlreadyAnswered => (StatusCode::CONFLICT, BridgeErrorCode::AlreadyAnswered),
                EntryError::TooLong => (StatusCode::PAYLOAD_TOO_LARGE, BridgeErrorCode::BadRequest),
                // As the public bridge answers it.
                EntryError::NoSuchRequest => (StatusCode::BAD_REQUEST, BridgeErrorCode::NoSuchRequest),
                EntryError::SourceFull => {
                    return ErrorCodes::BRIDGE.respond(&Rejection::TooManyRequests { retry_after: ROOM_RETRY });
                }
                EntryError::Full => {
                    return ErrorCodes::BRIDGE.respond(&Rejection::Unavailable { retry_after: ROOM_RETRY });
                }
            },
            Self::Bridge(BridgeError::TooMany(too_many)) => {
                let retry_after = too_many.retry_after;
                return ErrorCodes::BRIDGE.respond(&Rejection::TooManyRequests { retry_after });
            }
            Self::Bridge(BridgeError::Unavailable { retry_after, .. }) => {
                return ErrorCodes::BRIDGE.respond(&Rejection::Unavailable { retry_after: *retry_after });
            }
        };
        json(status, &ServiceApiError { code, message: self.to_string() })
    }
}

/// The errors that all routes share, as `/openapi.json` describes them.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "describes the answers that BridgeEndpointError makes")]
enum SharedErrors {
    /// The source address has as much here as it may, see Retry-After: `rate_limit_exceeded`
    #[response(status = 429)]
    TooMany,
    /// An error of the service; the log has it under the X-Request-Id of the answer:
    /// `internal_server_error`
    #[response(status = 500)]
    Internal,
    /// No room, or overloaded, see Retry-After: `bridge_unavailable`
    #[response(status = 503)]
    Unavailable,
    /// The answer took longer than the request timeout: `request_timeout`
    #[response(status = 504)]
    TimedOut,
}

/// The further errors of routes with a body, as `/openapi.json` describes them.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "describes the answers that BridgeEndpointError makes")]
enum BodyErrors {
    /// The body is longer than 5 MiB, or the answer to a sign-in longer than 64 KiB: `bad_request`
    #[response(status = 413)]
    TooLong,
    /// The body is not JSON by its Content-Type: `bad_request`
    #[response(status = 415)]
    OtherMediaType,
}

// `POST /request`, `GET` and `HEAD /request/{request_id}`: the requests of applications.

/// Set to `true` by authenticators that read the id of the flow.
const ACCEPT_IDKIT_FLOW_ID: HeaderName = HeaderName::from_static("accept-idkit-flow-id");

/// Keep a request for an authenticator
///
/// An id can be given; letters count in lower case. Other keys of the body are ignored.
#[utoipa::path(
    post, path = "/request", tag = "bridge", operation_id = "create_request",
    request_body(content = CreateRequest, example = json!({"iv":"AAECAwQFBgcICQoL","payload":"AAECAwQFBgcICQoLDA0ODw=="})),
    responses(
        (status = 200, description = "It is kept", body = CreatedRequest, example = json!({"request_id":"4ab2c0b2-5f4e-4e2b-9f0c-0f5b8f7f8a51"})),
        (status = 400, description = "The body is malformed: `bad_request`"),
        (status = 409, description = "The id is taken: `request_id_taken`"),
        BodyErrors, SharedErrors,
    ),
)]
async fn create_request(bridge: Arc<Bridge>, mut request: Request) -> Result<Response, BridgeEndpointError> {
    bridge.handle.charge_source(request.source())?;
    let CreateRequest { iv, payload, request_id } = from_object(&request.read_json(BODY_LIMIT).await?)?;
    let request_id = bridge.handle.create_request(request_id, Message { iv, payload }, Some(request.source())).await?;
    Ok(json(StatusCode::OK, &CreatedRequest { request_id }))
}

/// Take a request
///
/// A request is handed out once. From then on there is a full lifetime for its answer. The request
/// of a sign-in is made for each that fetches it.
#[utoipa::path(
    get, path = "/request/{request_id}", tag = "bridge", operation_id = "take_request",
    params(
        ("request_id" = EntryId, Path, description = "The id of the request"),
        ("accept-idkit-flow-id" = Option<String>, Header, description = "`true` for an answer with `idkit_flow_id`"),
    ),
    responses(
        (status = 200, description = "The request", body = RequestAnswer),
        (status = 400, description = "The id is malformed: `bad_request`"),
        (status = 404, description = "There is no such request, or it was taken: `not_found`"),
        SharedErrors,
    ),
)]
async fn take_request(bridge: Arc<Bridge>, request: Request) -> Result<Response, BridgeEndpointError> {
    let id: EntryId = request.param("request_id")?.parse()?;
    if *request.method() == Method::HEAD {
        return look_at_request(bridge, id).await;
    }
    bridge.handle.charge_source(request.source())?;
    let has_flow = request.header(&ACCEPT_IDKIT_FLOW_ID)?.is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let taken = bridge.handle.take_request(id).await?.ok_or(BridgeEndpointError::NotFound)?;
    Ok(json(StatusCode::OK, &RequestAnswer::new(taken.message, has_flow.then_some(taken.flow))))
}

/// Whether a request can be taken
///
/// Nothing is used up.
#[utoipa::path(
    head, path = "/request/{request_id}", tag = "bridge", operation_id = "look_at_request",
    params(("request_id" = EntryId, Path, description = "The id of the request")),
    responses(
        (status = 200, description = "It can be taken"),
        (status = 400, description = "The id is malformed"),
        (status = 404, description = "There is no such request, or it was taken"),
    ),
)]
async fn look_at_request(bridge: Arc<Bridge>, id: EntryId) -> Result<Response, BridgeEndpointError> {
    // A request of a sign-in is made anew for each that fetches it.
    match bridge.handle.status(id.clone()).await? {
        Some(status) if id.is_of_service() || status == ResponseStatus::Initialized => Ok(exists()),
        _ => Err(BridgeEndpointError::NotFound),
    }
}

// `POST /response`, `PUT`, `GET` and `HEAD /response/{request_id}`: the answers of authenticators.

/// RFC 7240: preferences of a client, among them `wait`.
const PREFER: HeaderName = HeaderName::from_static("prefer");

/// Keep an answer that belongs to no request
#[utoipa::path(
    post, path = "/response", tag = "bridge", operation_id = "create_response",
    request_body(content = Message, example = json!({"iv":"AAECAwQFBgcICQoL","payload":"AAECAwQFBgcICQoLDA0ODw=="})),
    responses(
        (status = 201, description = "It is kept", body = CreatedRequest, example = json!({"request_id":"4ab2c0b2-5f4e-4e2b-9f0c-0f5b8f7f8a51"})),
        (status = 400, description = "The body is malformed: `bad_request`"),
        BodyErrors, SharedErrors,
    ),
)]
async fn create_response(bridge: Arc<Bridge>, mut request: Request) -> Result<Response, BridgeEndpointError> {
    bridge.handle.charge_source(request.source())?;
    let message: Message = from_object(&request.read_json(BODY_LIMIT).await?)?;
    let request_id = bridge.handle.create_response(message, Some(request.source())).await?;
    Ok(json(StatusCode::CREATED, &CreatedRequest { request_id }))
}

/// Answer a request
///
/// The first answer is taken. The request need not have been taken before; it cannot be afterwards.
#[utoipa::path(
    put, path = "/response/{request_id}", tag = "bridge", operation_id = "answer_request",
    params(("request_id" = EntryId, Path, description = "The id of the request")),
    request_body(content = Message, example = json!({"iv":"AAECAwQFBgcICQoL","payload":"AAECAwQFBgcICQoLDA0ODw=="})),
    responses(
        (status = 201, description = "The answer is kept"),
        (status = 400, description = "The id or the body is malformed (`bad_request`), or there is no such request (`no_such_request`)"),
        (status = 409, description = "The request has an answer: `already_answered`"),
        BodyErrors, SharedErrors,
    ),
)]
async fn answer_request(bridge: Arc<Bridge>, mut request: Request) -> Result<Response, BridgeEndpointError> {
    let id: EntryId = request.param("request_id")?.parse()?;
    bridge.handle.charge_source(request.source())?;
    let message: Message = from_object(&request.read_json(BODY_LIMIT).await?)?;
    bridge.handle.answer(id, message, Some(request.source())).await?;
    let mut response = empty(StatusCode::CREATED);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// How far a request is, and its answer
///
/// The answer is handed out once. With `wait`, or the header `Prefer: wait=25` (RFC 7240), the
/// request is held until its status is another one than at the beginning.
#[utoipa::path(
    get, path = "/response/{request_id}", tag = "bridge", operation_id = "take_response",
    params(
        ("request_id" = EntryId, Path, description = "The id of the request"),
        ("wait" = Option<u64>, Query, minimum = 0, maximum = 60, description = "Hold the answer until the status changes, for at most this number of seconds (0 by default)"),
        ("Prefer" = Option<String>, Header, description = "`wait=25` does the same; more than 60 count as 60"),
    ),
    responses(
        (status = 200, description = "How far the request is, with its answer once it is completed", body = ResponseAnswer, example = json!({"status":"retrieved","response":null})),
        (status = 400, description = "The id or `wait` is malformed: `bad_request`"),
        (status = 404, description = "There is no such request, or its answer was taken: `not_found`"),
        SharedErrors,
    ),
)]
async fn take_response(bridge: Arc<Bridge>, request: Request) -> Result<Response, BridgeEndpointError> {
    let id: EntryId = request.param("request_id")?.parse()?;
    if *request.method() == Method::HEAD {
        return look_at_response(bridge, id).await;
    }
    let wait = wait(&request)?;
    let polled = if wait.is_zero() {
        bridge.handle.take_response(id).await?
    } else {
        tokio::select! {
            biased;
            polled = bridge.handle.await_response(id.clone(), Some(request.source()), wait) => polled?,
            () = request.shutdown().triggered() => bridge.handle.take_response(id).await?,
        }
    };
    let PolledResponse { status, response } = polled.ok_or(BridgeEndpointError::NotFound)?;
    Ok(json(StatusCode::OK, &ResponseAnswer { status, response }))
}

/// Whether there is a request, or an answer to it
///
/// Nothing is used up.
#[utoipa::path(
    head, path = "/response/{request_id}", tag = "bridge", operation_id = "look_at_response",
    params(("request_id" = EntryId, Path, description = "The id of the request")),
    responses(
        (status = 200, description = "There is"),
        (status = 400, description = "The id is malformed"),
        (status = 404, description = "There is no such request, or its answer was taken"),
    ),
)]
async fn look_at_response(bridge: Arc<Bridge>, id: EntryId) -> Result<Response, BridgeEndpointError> {
    // The answers to requests of the service are for the service alone.
    match bridge.handle.status(id.clone()).await? {
        Some(_) if !id.is_of_service() => Ok(exists()),
        _ => Err(BridgeEndpointError::NotFound),
    }
}

/// How long the client wants to wait. The parameter is a demand, and checked; the header is a wish
/// (RFC 7240), of which what cannot be read is ignored.
fn wait(request: &Request) -> Result<Duration, Rejection> {
    if let Some(wait) = request.wait()? {
        return Ok(wait);
    }
    Ok(request.list(&PREFER).find_map(preferred_wait).unwrap_or_default())
}

/// The time of a preference `wait=25`, at most the longest wait.
fn preferred_wait(preference: &str) -> Option<Duration> {
    let (name, value) = preference.split(';').next()?.split_once('=')?;
    let value = value.trim().trim_matches('"');
    let is_wait = name.trim().eq_ignore_ascii_case("wait") && value.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = is_wait.then(|| value.parse().ok()).flatten()?;
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preference_to_wait_is_read_as_rfc_7240_writes_it() {
        #[rustfmt::skip]
        let table = [
            ("wait=25", Some(25)),
            (" Wait = 7", Some(7)),
            ("wait=\"5\"", Some(5)),
            ("wait=10; reason=page", Some(10)),
            ("wait=100", Some(60)),
            ("wait=0", Some(0)),
            ("wait=99999999999999999999", None),
            ("wait=-1", None),
            ("wait=+1", None),
            ("wait=", None),
            ("wait", None),
            ("respond-async", None),
        ];
        for (preference, expected) in table {
            assert_eq!(preferred_wait(preference), expected.map(Duration::from_secs), "{preference}");
        }
    }
}
