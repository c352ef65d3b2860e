//! `GET /blocks`: the newest blocks.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_actors::LedgerBlock;
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::ledger::Tip;

use super::error::OperatorError;
use super::newest_blocks::{NEWEST, Summary};
use super::state::Operator;
use crate::http::{Request, Response, json};

fn summary(LedgerBlock { block, result }: LedgerBlock) -> Option<Summary> {
    let result = result?;
    Some(Summary {
        height: block.header.height,
        hash: result.block_hash.to_string(),
        time: block.header.time.0,
        operations: block.header.count,
        root: result.root_after.to_string(),
    })
}

/// The newest blocks
///
/// The newest applied blocks, the newest first.
#[utoipa::path(
    get, path = "/blocks", tag = "operator", operation_id = "blocks", security(("operatorToken" = [])),
    responses(
        (status = 200, description = "At most 20 blocks", body = Vec<Summary>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn blocks(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let registry = operator.service.registry();
    let Tip { seal, .. } = *registry.snapshot().tip();
    let first = (operator.newest_blocks.height() + 1).max((seal.height + 1).saturating_sub(NEWEST as u64));
    let later = registry.reading(move |registry| {
        let blocks = (first..=seal.height).filter_map(|height| registry.block(height).transpose());
        blocks.map(|block| block.map(summary)).collect::<Result<Vec<_>, _>>()
    });
    let later = later.await?.into_iter().flatten().collect();
    Ok(json(StatusCode::OK, &operator.newest_blocks.add(later)))
}
