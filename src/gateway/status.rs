//! `GET /status/{request_id}`: the state of a request, at once or when it is final.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::gateway::{GatewayErrorCode, GatewayStatusResponse, ServiceApiError};
use selfsame_protocol::ledger::RequestId;
use tokio::time::Instant;

use super::error::GatewayError;
use super::state::Gateway;
use crate::height::with_height;
use crate::http::{Request, Response, json};

/// The state of a request
///
/// States only move forward: `queued`, `batching`, `submitted`, then `finalized` or `failed`. A
/// final state is shown only when every read already sees its effects; its answer has the header
/// `X-Selfsame-Height`, the height of its block. In a cluster, a read at another replica with this
/// header waits for the block. The records of final
/// requests are kept for the configured retention, 24 hours by default; receipts stay.
#[utoipa::path(
    get, path = "/status/{request_id}", tag = "gateway",
    params(
        ("request_id" = RequestId, Path, description = "The id that the request was answered with, with or without `gw_`"),
        ("wait" = Option<u64>, Query, minimum = 0, maximum = 60, description = "Hold the answer until the state is final, for at most this number of seconds (0 to 60, 0 by default)"),
    ),
    responses(
        (status = 200, description = "The state", body = GatewayStatusResponse, example = json!({"request_id":"gw_0189b2f4-6c0e-4c62-9d0a-0242ac120002","kind":"create_account","status":{"state":"finalized","tx_hash":"0x9f2c1a0f5b8e4d7c6a3b2e1d0c9f8e7d6c5b4a39281706f5e4d3c2b1a0f9e8d7"}})),
        (status = 400, description = "`wait` is malformed or too long", body = ServiceApiError<GatewayErrorCode>, example = json!({"code":"bad_request","message":"wait: must be a number of seconds from 0 to 60"})),
        (status = 404, description = "No such request", body = ServiceApiError<GatewayErrorCode>, example = json!({"code":"not_found","message":"no request gw_0189b2f4-6c0e-4c62-9d0a-0242ac120002 is known"})),
    ),
)]
pub async fn status(gateway: Arc<Gateway>, request: Request) -> Result<Response, GatewayError> {
    let request_id = request_id(&request)?;
    let wait = request.wait()?.unwrap_or_default();
    gateway.registry.await_request(&request_id, Some(request.source())).await?;
    let status = if wait.is_zero() {
        gateway.registry.read_status(&request_id).await?
    } else {
        let deadline = Instant::now() + wait;
        tokio::select! {
            status = gateway.registry.wait_until_final(&request_id, deadline) => status?,
            () = request.shutdown().triggered() => gateway.registry.read_status(&request_id).await?,
        }
    };
    let status = status.ok_or_else(|| GatewayError::NotFound(format!("no request {request_id} is known")))?;
    let height = if status.status.is_final() { gateway.registry.final_height(&request_id)? } else { None };
    Ok(with_height(json(StatusCode::OK, &status), height))
}

/// The request id of the path. A text that is not a request id is answered like an unknown id.
pub fn request_id(request: &Request) -> Result<RequestId, GatewayError> {
    request.param("request_id")?.parse().map_err(|error| GatewayError::NotFound(format!("request_id: {error}")))
}
