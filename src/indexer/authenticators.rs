//! `POST /authenticators`: an account's authenticators.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::indexer::{AuthenticatorsResponse, IndexerErrorCode, LeafIndexQuery};

use super::error::IndexerError;
use super::query::{account, leaf_index};
use super::state::Indexer;
use crate::http::{Request, Response, json};

/// Authenticators of an account
///
/// Public keys and addresses slot by slot, two lists of one length; null in both where an
/// authenticator was removed.
#[utoipa::path(
    post, path = "/authenticators", tag = "indexer", request_body = LeafIndexQuery,
    responses(
        (status = 200, description = "The authenticators", body = AuthenticatorsResponse, example = json!({"authenticator_pubkeys":["0x800b41c1ebf9e053d97498a268e2697470098183f200cb42009e64678f96a703"],"authenticator_addresses":["0x71a4fb49dcddadfed612b153b000fbab994ed6af"],"offchain_signer_commitment":"0x25621ac3b8119fa030714e263a607e3ce2c1a9c28e1fcd2109b976b64c4c5758","recovery_counter":"0x0"})),
        (status = 400, description = "Malformed, or leaf 0", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"invalid_leaf_index","message":"leaf_index: leaf 0 is reserved and belongs to no account"})),
        (status = 404, description = "No such account", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"not_found","message":"no account has leaf index 0x9"})),
    ),
)]
pub async fn authenticators(indexer: Arc<Indexer>, mut request: Request) -> Result<Response, IndexerError> {
    let leaf_index = leaf_index(&mut request).await?;
    let account = account(&indexer, leaf_index, IndexerError::NotFound).await?;
    let answer = AuthenticatorsResponse {
        authenticator_pubkeys: account.public_keys(),
        authenticator_addresses: account.addresses(),
        offchain_signer_commitment: account.commitment,
        recovery_counter: account.recovery_counter,
    };
    Ok(json(StatusCode::OK, &answer))
}
