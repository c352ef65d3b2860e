//! `POST /inclusion-proof`: proof that an account is in the registry, with its public keys; also in
//! the form of the published client library.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::indexer::{
    CompatInclusionProofResponse, InclusionProofResponse, IndexerErrorCode, LeafIndexQuery,
    compat_inclusion_proof_json, inclusion_proof_json,
};
use selfsame_protocol::registry::{Account, RegistryView};
use selfsame_protocol::tree::InclusionPath;
use selfsame_storage::SnapshotReads;

use super::error::IndexerError;
use super::query::leaf_index;
use super::state::Indexer;
use crate::http::{Request, Response, written_json};

/// Inclusion proof of an account
///
/// The siblings lead from the account's commitment, which is the hash of its public keys, to the
/// root.
#[utoipa::path(
    post, path = "/inclusion-proof", tag = "indexer", request_body = LeafIndexQuery,
    responses(
        (status = 200, description = "The proof and the account's public keys", body = InclusionProofResponse),
        (status = 400, description = "Malformed, or leaf 0", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"invalid_leaf_index","message":"leaf_index: leaf 0 is reserved and belongs to no account"})),
        (status = 404, description = "No such account", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"not_found","message":"no account has leaf index 0x9"})),
    ),
)]
pub async fn inclusion_proof(indexer: Arc<Indexer>, mut request: Request) -> Result<Response, IndexerError> {
    let (path, account) = find(&indexer, &mut request).await?;
    Ok(written_json(StatusCode::OK, inclusion_proof_json(&path, &account)))
}

/// Inclusion proof of an account, keys as coordinates
///
/// The form of the published client library of wallets: public keys are affine coordinates in
/// decimal, and trailing nulls are left out.
#[utoipa::path(
    post, path = "/compat/inclusion-proof", tag = "indexer", request_body = LeafIndexQuery,
    responses(
        (status = 200, description = "The proof and the account's public keys", body = CompatInclusionProofResponse),
        (status = 400, description = "Malformed, or leaf 0", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"invalid_leaf_index","message":"leaf_index: leaf 0 is reserved and belongs to no account"})),
        (status = 404, description = "No such account", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"not_found","message":"no account has leaf index 0x9"})),
        (status = 409, description = "A stored public key is not a point of the curve", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"invalid_authenticator_pubkey","message":"the public key of slot 0 does not decode: no point of the curve has its y coordinate"})),
    ),
)]
pub async fn compat_inclusion_proof(indexer: Arc<Indexer>, mut request: Request) -> Result<Response, IndexerError> {
    let (path, account) = find(&indexer, &mut request).await?;
    let slots = account.decoded_keys()?;
    Ok(written_json(StatusCode::OK, compat_inclusion_proof_json(&path, &slots)))
}

/// Reads path and account from one snapshot, so that they belong together also while blocks are
/// applied.
async fn find(indexer: &Indexer, request: &mut Request) -> Result<(InclusionPath, Account), IndexerError> {
    let leaf_index = leaf_index(request).await?;
    let find = move |reads: SnapshotReads<'_>| match reads.account(leaf_index)? {
        Some(account) => Ok(Some((reads.inclusion_path(leaf_index)?, account))),
        None => Ok(None),
    };
    indexer.registry.read(find).await?.ok_or(IndexerError::NotFound(leaf_index))
}
