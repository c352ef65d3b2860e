//! `POST /recovery-agent`: the address that may recover an account.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::indexer::{IndexerErrorCode, LeafIndexQuery, RecoveryAgentResponse};

use super::error::IndexerError;
use super::query::{account, leaf_index};
use super::state::Indexer;
use crate::http::{Request, Response, json};

/// The recovery agent of an account
///
/// The zero address when the account has no recovery agent.
#[utoipa::path(
    post, path = "/recovery-agent", tag = "indexer", request_body = LeafIndexQuery,
    responses(
        (status = 200, description = "The recovery agent", body = RecoveryAgentResponse, example = json!({"recovery_agent":"0x3ca415a58925e09eb0a4c53fef9ed0311f13a514"})),
        (status = 400, description = "Malformed, leaf 0, or no such account", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"account_does_not_exist","message":"no account has leaf index 0x9"})),
    ),
)]
pub async fn recovery_agent(indexer: Arc<Indexer>, mut request: Request) -> Result<Response, IndexerError> {
    let leaf_index = leaf_index(&mut request).await?;
    let account = account(&indexer, leaf_index, IndexerError::NoSuchAccount).await?;
    let answer = RecoveryAgentResponse { recovery_agent: account.recovery_agent };
    Ok(json(StatusCode::OK, &answer))
}
