//! `POST /request`, `GET` and `HEAD /request/{request_id}`: the requests of applications.

use std::sync::Arc;

use hyper::header::HeaderName;
use hyper::{Method, StatusCode};
use selfsame_protocol::bridge::{
    BridgeErrorCode, CreateRequest, CreatedRequest, EntryId, Message, RequestAnswer, ResponseStatus,
};
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::json::from_object;

use super::error::{BodyErrors, BridgeEndpointError, SharedErrors};
use super::{BODY_LIMIT, Bridge};
use crate::http::{Request, Response, exists, json};

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
        (status = 400, description = "The body is malformed", body = ServiceApiError<BridgeErrorCode>),
        (status = 409, description = "The id is taken", body = ServiceApiError<BridgeErrorCode>),
        BodyErrors, SharedErrors,
    ),
)]
pub async fn create(bridge: Arc<Bridge>, mut request: Request) -> Result<Response, BridgeEndpointError> {
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
        (status = 400, description = "The id is malformed", body = ServiceApiError<BridgeErrorCode>),
        (status = 404, description = "There is no such request, or it was taken", body = ServiceApiError<BridgeErrorCode>),
        SharedErrors,
    ),
)]
pub async fn take(bridge: Arc<Bridge>, request: Request) -> Result<Response, BridgeEndpointError> {
    let id: EntryId = request.param("request_id")?.parse()?;
    if *request.method() == Method::HEAD {
        return look(bridge, id).await;
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
pub async fn look(bridge: Arc<Bridge>, id: EntryId) -> Result<Response, BridgeEndpointError> {
    // A request of a sign-in is made anew for each that fetches it.
    match bridge.handle.status(id.clone()).await? {
        Some(status) if id.is_of_service() || status == ResponseStatus::Initialized => Ok(exists()),
        _ => Err(BridgeEndpointError::NotFound),
    }
}
