//! `GET /block/{id}`: a block of the ledger.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::gateway::{BlockResponse, GatewayErrorCode, ServiceApiError};
use selfsame_protocol::{B256, number};

use super::error::GatewayError;
use super::state::Gateway;
use crate::http::{Request, Response, json};

/// A block
///
/// Header, result and the ids of its requests. Block 1 is the first. Each header has the hash of
/// the header before it, and each result the hash of the result before it.
#[utoipa::path(
    get, path = "/block/{id}", tag = "gateway",
    params(("id" = String, Path, pattern = "^(0x[0-9a-fA-F]{64}|0x[0-9a-fA-F]{1,16}|[0-9]{1,19})$", example = "1", description = "The block's height, or its hash (0x and 64 hex digits)")),
    responses(
        (status = 200, description = "The block", body = BlockResponse),
        (status = 400, description = "Neither a height nor a hash", body = ServiceApiError<GatewayErrorCode>),
        (status = 404, description = "No such block", body = ServiceApiError<GatewayErrorCode>),
    ),
)]
pub async fn block(gateway: Arc<Gateway>, request: Request) -> Result<Response, GatewayError> {
    let id = request.param("id")?;
    let found = match hash(&id) {
        Some(hash) => gateway.registry.reading(move |registry| registry.block_by_hash(&hash)).await?,
        None => {
            let height = number::parse(&id).map_err(|error| GatewayError::Parameter {
                field: "block",
                problem: format!("neither a hash (0x and 64 hex digits) nor a height: {error}"),
            })?;
            gateway.registry.reading(move |registry| registry.block(height)).await?
        }
    };
    let found = found.ok_or_else(|| GatewayError::NotFound(format!("the ledger has no block {id}")))?;
    let answer = BlockResponse {
        request_ids: found.block.entries.iter().map(|entry| entry.request_id).collect(),
        block: found.block.header.into(),
        result: found.result.map(Into::into),
    };
    Ok(json(StatusCode::OK, &answer))
}

fn hash(text: &str) -> Option<B256> {
    text.strip_prefix("0x").filter(|digits| digits.len() == 64)?.parse().ok()
}
