//! `POST /response`, `PUT`, `GET` and `HEAD /response/{request_id}`: the answers of authenticators.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use selfsame_actors::PolledResponse;
use selfsame_protocol::bridge::{BridgeErrorCode, CreatedRequest, EntryId, Message, ResponseAnswer};
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::json::from_object;

use super::error::{BodyErrors, BridgeEndpointError, SharedErrors};
use super::{BODY_LIMIT, Bridge};
use crate::http::{LONGEST_WAIT, Rejection, Request, Response, empty, exists, json};

/// RFC 7240: preferences of a client, among them `wait`.
const PREFER: HeaderName = HeaderName::from_static("prefer");

/// Keep an answer that belongs to no request
#[utoipa::path(
    post, path = "/response", tag = "bridge", operation_id = "create_response",
    request_body(content = Message, example = json!({"iv":"AAECAwQFBgcICQoL","payload":"AAECAwQFBgcICQoLDA0ODw=="})),
    responses(
        (status = 201, description = "It is kept", body = CreatedRequest, example = json!({"request_id":"4ab2c0b2-5f4e-4e2b-9f0c-0f5b8f7f8a51"})),
        (status = 400, description = "The body is malformed", body = ServiceApiError<BridgeErrorCode>),
        BodyErrors, SharedErrors,
    ),
)]
pub async fn create(bridge: Arc<Bridge>, mut request: Request) -> Result<Response, BridgeEndpointError> {
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
        (status = 400, description = "The id or the body is malformed (`bad_request`), or there is no such request (`no_such_request`)", body = ServiceApiError<BridgeErrorCode>),
        (status = 409, description = "The request has an answer", body = ServiceApiError<BridgeErrorCode>),
        BodyErrors, SharedErrors,
    ),
)]
pub async fn answer(bridge: Arc<Bridge>, mut request: Request) -> Result<Response, BridgeEndpointError> {
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
        (status = 400, description = "The id or `wait` is malformed", body = ServiceApiError<BridgeErrorCode>),
        (status = 404, description = "There is no such request, or its answer was taken", body = ServiceApiError<BridgeErrorCode>),
        SharedErrors,
    ),
)]
pub async fn take(bridge: Arc<Bridge>, request: Request) -> Result<Response, BridgeEndpointError> {
    let id: EntryId = request.param("request_id")?.parse()?;
    if *request.method() == Method::HEAD {
        return look(bridge, id).await;
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
pub async fn look(bridge: Arc<Bridge>, id: EntryId) -> Result<Response, BridgeEndpointError> {
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
