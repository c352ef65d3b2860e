//! `GET /head`: the signed head of the registry.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::ledger::SignedHead;

use super::error::GatewayError;
use super::state::Gateway;
use crate::http::{Request, Response, json};

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
