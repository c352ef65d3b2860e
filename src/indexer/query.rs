//! Bodies of queries, and the account that they ask for.

use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::indexer::LeafIndexQuery;
use selfsame_protocol::json::from_object;
use selfsame_protocol::registry::{Account, RegistryView};
use serde::de::DeserializeOwned;

use super::error::IndexerError;
use super::state::Indexer;
use crate::http::Request;

/// The longest body of a query, in bytes.
const BODY_LIMIT: usize = 64 * 1024;

/// Reads the body as a query.
pub async fn query<T: DeserializeOwned>(request: &mut Request) -> Result<T, IndexerError> {
    Ok(from_object(&request.read_json(BODY_LIMIT).await?)?)
}

/// Reads the body's leaf index, which must not be the reserved one.
pub async fn leaf_index(request: &mut Request) -> Result<LeafIndex, IndexerError> {
    match query::<LeafIndexQuery>(request).await?.leaf_index {
        LeafIndex(0) => Err(IndexerError::InvalidLeafIndex),
        leaf_index => Ok(leaf_index),
    }
}

/// The account at a leaf index; `missing` is this endpoint's error when there is no such account.
pub async fn account(
    indexer: &Indexer,
    leaf_index: LeafIndex,
    missing: fn(LeafIndex) -> IndexerError,
) -> Result<Account, IndexerError> {
    let account = indexer.registry.read(move |reads| reads.account(leaf_index)).await?;
    account.ok_or_else(|| missing(leaf_index))
}
