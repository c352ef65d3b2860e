//! `GET /is-valid-root`: whether proofs against a root can still be accepted.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::gateway::{GatewayErrorCode, ServiceApiError, ValidRootResponse};
use selfsame_protocol::number;
use selfsame_protocol::tree::Root;

use super::error::GatewayError;
use super::state::Gateway;
use crate::http::{Request, Response, json};

/// Whether a root is valid
///
/// The newest root is valid. A replaced root stays valid for the validity window, counted from its
/// replacement.
#[utoipa::path(
    get, path = "/is-valid-root", tag = "gateway",
    params(("root" = String, Query, pattern = "^(0x[0-9a-fA-F]{1,64}|[0-9]{1,77})$", example = "0x228ffdf6570d757e6ebc79516241b636bdceed0996036242d00fdd61050975a2", description = "The root, as a numeric string")),
    responses(
        (status = 200, description = "The answer", body = ValidRootResponse, example = json!({"valid":true})),
        (status = 400, description = "The root is missing or malformed", body = ServiceApiError<GatewayErrorCode>),
    ),
)]
pub async fn is_valid_root(gateway: Arc<Gateway>, request: Request) -> Result<Response, GatewayError> {
    let refused = |problem: String| GatewayError::Parameter { field: "root", problem };
    let root = request.query_parameter("root")?.ok_or_else(|| refused("the query parameter is missing".to_owned()))?;
    let root = number::parse::<Root>(&root).map_err(|error| refused(error.to_string()))?;
    let valid = gateway.registry.is_valid_root(root)?;
    Ok(json(StatusCode::OK, &ValidRootResponse { valid }))
}
