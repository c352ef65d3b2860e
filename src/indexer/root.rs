//! `GET /root`: where the registry stands.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::indexer::RootResponse;

use super::Indexer;
use super::error::IndexerError;
use crate::http::{Request, Response, json};

/// The newest root
///
/// With the block that made it. The hashes commit to every block and result before.
#[utoipa::path(
    get, path = "/root", tag = "indexer",
    responses((status = 200, description = "The newest root", body = RootResponse)),
)]
pub async fn root(indexer: Arc<Indexer>, _: Request) -> Result<Response, IndexerError> {
    let snapshot = indexer.snapshot();
    let tip = snapshot.tip();
    let answer = RootResponse {
        root: tip.root,
        leaf_count: snapshot.next_leaf_index(),
        height: tip.seal.height,
        block_hash: tip.seal.hash,
        result_hash: tip.result_hash,
        timestamp: tip.seal.time,
    };
    Ok(json(StatusCode::OK, &answer))
}
