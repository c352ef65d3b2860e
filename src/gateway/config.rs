//! `GET /config`: what a client needs to sign for this registry.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::gateway::ConfigResponse;
use selfsame_protocol::tree;

use super::error::GatewayError;
use super::state::Gateway;
use crate::http::{Request, Response, json};

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
