//! `GET /health`, the same at every interface: shows that the process answers. `GET /ready` of the
//! operator interface says whether the daemon can do its work.

use hyper::StatusCode;
use selfsame_protocol::gateway::HealthResponse;

use crate::http::{Response, json};

/// Whether the process answers
#[utoipa::path(
    get, path = "/health", tag = "service",
    responses((status = 200, description = "The process answers", body = HealthResponse, example = json!({"success":true}))),
)]
pub async fn health<E>() -> Result<Response, E> {
    Ok(json(StatusCode::OK, &HealthResponse { success: true }))
}
