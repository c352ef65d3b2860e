//! `POST /pending-recovery-agent`: the recovery agent that waits for its cooldown.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::Address;
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::indexer::{IndexerErrorCode, LeafIndexQuery, PendingRecoveryAgentResponse};
use selfsame_protocol::time::UnixSeconds;

use super::error::IndexerError;
use super::query::{account, leaf_index};
use super::state::Indexer;
use crate::http::{Request, Response, json};

/// The pending recovery agent of an account
///
/// Both fields are zero when no update is pending.
#[utoipa::path(
    post, path = "/pending-recovery-agent", tag = "indexer", request_body = LeafIndexQuery,
    responses(
        (status = 200, description = "The pending recovery agent", body = PendingRecoveryAgentResponse, example = json!({"pending_recovery_agent":"0xebeef42dd191f869c6fd80ceba222a8e4126f00f","execute_after":"0x6b49d200"})),
        (status = 400, description = "Malformed, leaf 0, or no such account", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"account_does_not_exist","message":"no account has leaf index 0x9"})),
    ),
)]
pub async fn pending_recovery_agent(indexer: Arc<Indexer>, mut request: Request) -> Result<Response, IndexerError> {
    let leaf_index = leaf_index(&mut request).await?;
    let account = account(&indexer, leaf_index, IndexerError::NoSuchAccount).await?;
    let (pending_recovery_agent, execute_after) = account
        .pending_recovery_agent
        .map_or((Address::ZERO, UnixSeconds(0)), |pending| (pending.agent, pending.execute_after));
    let answer = PendingRecoveryAgentResponse { pending_recovery_agent, execute_after };
    Ok(json(StatusCode::OK, &answer))
}
