//! `POST /packed-account`: the account that an authenticator belongs to.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::indexer::{AddressQuery, IndexerErrorCode, PackedAccountResponse};
use selfsame_protocol::registry::RegistryView;
use selfsame_storage::SnapshotReads;

use super::error::IndexerError;
use super::query::query;
use super::state::Indexer;
use crate::http::{Request, Response, json};

/// The packed account data of an authenticator
///
/// Recovery counter (32 bits) ‖ pubkey id (32 bits) ‖ leaf index (192 bits). An address that a
/// recovery revoked is not an authenticator any more.
#[utoipa::path(
    post, path = "/packed-account", tag = "indexer", request_body = AddressQuery,
    responses(
        (status = 200, description = "The packed data", body = PackedAccountResponse, example = json!({"packed_account_data":"0x1000000000000000000000000000000000000000000000001"})),
        (status = 400, description = "Malformed, or no authenticator", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"account_does_not_exist","message":"0x71a4fb49dcddadfed612b153b000fbab994ed6af is not an authenticator of any account"})),
    ),
)]
pub async fn packed_account(indexer: Arc<Indexer>, mut request: Request) -> Result<Response, IndexerError> {
    let AddressQuery { authenticator_address } = query(&mut request).await?;
    let unknown = || IndexerError::NoSuchAuthenticator(authenticator_address);
    let find = move |reads: SnapshotReads<'_>| {
        let Some(packed) = reads.packed_account(authenticator_address)? else { return Ok(None) };
        let account = reads.account(packed.leaf_index)?;
        Ok(account.filter(|account| packed.recovery_counter >= account.recovery_counter).map(|_| packed))
    };
    let packed = indexer.registry.read(find).await?.ok_or_else(unknown)?;
    Ok(json(StatusCode::OK, &PackedAccountResponse { packed_account_data: packed.to_number() }))
}
