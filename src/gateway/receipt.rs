//! `GET /receipt/{request_id}`: the proof of a request's outcome.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::gateway::{GatewayErrorCode, ServiceApiError};
use selfsame_protocol::ledger::{Receipt, RequestId};

use super::error::GatewayError;
use super::state::Gateway;
use super::status::request_id;
use crate::height::with_height;
use crate::http::{Request, Response, json};

/// The receipt of a final request
///
/// Shows that the operation is in a block and its outcome in the block's result. A client that has
/// the hash of this or any later block and result can check the whole receipt. Receipts never
/// expire.
#[utoipa::path(
    get, path = "/receipt/{request_id}", tag = "gateway",
    params(("request_id" = RequestId, Path, description = "The id that the request was answered with, with or without `gw_`")),
    responses(
        (status = 200, description = "The receipt", body = Receipt),
        (status = 404, description = "No such request, or it is not final yet", body = ServiceApiError<GatewayErrorCode>),
        (status = 429, description = "Too many receipts of different blocks from this address, see Retry-After: `rate_limit_exceeded`", body = ServiceApiError<GatewayErrorCode>),
    ),
)]
pub async fn receipt(gateway: Arc<Gateway>, request: Request) -> Result<Response, GatewayError> {
    let request_id = request_id(&request)?;
    let source = Some(request.source());
    gateway.registry.await_request(&request_id, source).await?;
    let receipt = gateway.registry.reading(move |registry| registry.receipt(&request_id, source)).await?;
    let receipt = receipt.ok_or_else(|| {
        GatewayError::NotFound(format!("request {request_id} is unknown, or not in an applied block yet"))
    })?;
    let height = Some(receipt.block.header.height);
    Ok(with_height(json(StatusCode::OK, &receipt), height))
}
