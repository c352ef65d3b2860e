//! What the gateway answers without a change: the state and the receipt of a request, a block, the
//! signed head, whether a root can still be accepted, and what a client needs to sign.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::gateway::{
    BlockResponse, ConfigResponse, GatewayErrorCode, GatewayStatusResponse, ServiceApiError, ValidRootResponse,
};
use selfsame_protocol::ledger::{Receipt, RequestId, SignedHead};
use selfsame_protocol::tree::{self, Root};
use selfsame_protocol::{B256, number};
use tokio::time::Instant;

use super::{Gateway, GatewayError};
use crate::http::{Request, Response, json};
use crate::openapi::with_height;

// `GET /status/{request_id}`: the state of a request, at once or when it is final.

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
        (status = 400, description = "`wait` is malformed or too long: `bad_request`", body = ServiceApiError<GatewayErrorCode>, example = json!({"code":"bad_request","message":"wait: must be a number of seconds from 0 to 60"})),
        (status = 404, description = "No such request, or the id is malformed: `not_found`", body = ServiceApiError<GatewayErrorCode>, example = json!({"code":"not_found","message":"no request gw_0189b2f4-6c0e-4c62-9d0a-0242ac120002 is known"})),
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

// `GET /receipt/{request_id}`: the proof of a request's outcome.

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
        (status = 404, description = "No such request, or it is not final yet: `not_found`"),
        (status = 429, description = "Too many receipts of different blocks from this address, see Retry-After: `rate_limit_exceeded`"),
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

// `GET /block/{id}`: a block of the ledger.

/// A block
///
/// Header, result and the ids of its requests. Block 1 is the first. Each header has the hash of
/// the header before it, and each result the hash of the result before it.
#[utoipa::path(
    get, path = "/block/{id}", tag = "gateway",
    params(("id" = String, Path, pattern = "^(0x[0-9a-fA-F]{64}|0x[0-9a-fA-F]{1,16}|[0-9]{1,19})$", example = "1", description = "The block's height, or its hash (0x and 64 hex digits)")),
    responses(
        (status = 200, description = "The block", body = BlockResponse),
        (status = 400, description = "Neither a height nor a hash: `bad_request`"),
        (status = 404, description = "No such block: `not_found`"),
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

// `GET /head`: the signed head of the registry.

/// The signed head
///
/// The newest applied block, with the registry's signature (Ed25519). Clients pin the key at their
/// first contact, and keep the newest head: two heads that state different things about one height
/// prove that the registry has shown two histories.
#[utoipa::path(
    get, path = "/head", tag = "gateway",
    responses((status = 200, description = "The head", body = SignedHead)),
)]
pub async fn head(gateway: Arc<Gateway>, _: Request) -> Result<Response, GatewayError> {
    let signed = gateway.registry.signed_head().await?;
    Ok(json(StatusCode::OK, signed.as_ref()))
}

// `GET /is-valid-root`: whether proofs against a root can still be accepted.

/// Whether a root is valid
///
/// The newest root is valid. A replaced root stays valid for the validity window, counted from its
/// replacement.
#[utoipa::path(
    get, path = "/is-valid-root", tag = "gateway",
    params(("root" = String, Query, pattern = "^(0x[0-9a-fA-F]{1,64}|[0-9]{1,77})$", example = "0x228ffdf6570d757e6ebc79516241b636bdceed0996036242d00fdd61050975a2", description = "The root, as a numeric string")),
    responses(
        (status = 200, description = "The answer", body = ValidRootResponse, example = json!({"valid":true})),
        (status = 400, description = "The root is missing or malformed: `bad_request`"),
    ),
)]
pub async fn is_valid_root(gateway: Arc<Gateway>, request: Request) -> Result<Response, GatewayError> {
    let refused = |problem: String| GatewayError::Parameter { field: "root", problem };
    let root = request.query_parameter("root")?.ok_or_else(|| refused("the query parameter is missing".to_owned()))?;
    let root = number::parse::<Root>(&root).map_err(|error| refused(error.to_string()))?;
    let valid = gateway.registry.is_valid_root(root)?;
    Ok(json(StatusCode::OK, &ValidRootResponse { valid }))
}

// `GET /config`: what a client needs to sign for this registry.

/// The registry's parameters
///
/// Chain id and registry address form the EIP-712 domain (name `WorldIDRegistry`, version `1.0`)
/// that clients sign requests for.
#[utoipa::path(
    get, path = "/config", tag = "gateway",
    responses((status = 200, description = "The parameters", body = ConfigResponse)),
)]
pub async fn config(gateway: Arc<Gateway>, _: Request) -> Result<Response, GatewayError> {
    let domain = gateway.registry.domain();
    let rules = gateway.registry.rules();
    let answer = ConfigResponse {
        chain_id: domain.chain_id,
        registry_address: domain.verifying_contract,
        registry_version: "v1".to_owned(),
        max_authenticators: rules.max_authenticators,
        tree_depth: tree::DEPTH as u32,
        root_validity_window: rules.root_validity_window,
        create_account: gateway.creation.load().describe(),
    };
    Ok(json(StatusCode::OK, &answer))
}
