//! `GET /root`: the newest root and its block.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::indexer::RootResponse;

use super::error::IndexerError;
use super::state::Indexer;
use crate::http::{Request, Response, json};

/// The newest root
///
/// The answer also has the block that made the root. Its hashes commit to every earlier block and
/// result.
#[utoipa::path(
    get, path = "/root", tag = "indexer",
    responses((status = 200, description = "The newest root", body = RootResponse)),
)]
pub async fn root(indexer: Arc<Indexer>, _: Request) -> Result<Response, IndexerError> {
    let snapshot = indexer.snapshot();
    let tip = snapshot.tip();
    let answer = RootResponse {
        root: tip.root,
        leaf_count: snapshot.next_leaf_index().0,
        height: tip.seal.height,
        block_hash: tip.seal.hash,
        result_hash: tip.result_hash,
        timestamp: tip.seal.time,
    };
    Ok(json(StatusCode::OK, &answer))
}
