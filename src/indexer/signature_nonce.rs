//! `POST /signature-nonce`: the nonce for an account's next signature.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::ids::Nonce;
use selfsame_protocol::indexer::{IndexerErrorCode, LeafIndexQuery, SignatureNonceResponse};

use super::error::IndexerError;
use super::query::{account, leaf_index};
use super::state::Indexer;
use crate::http::{Request, Response, json};

/// The nonce for the next signature
///
/// The next signed operation on the account must carry it.
#[utoipa::path(
    post, path = "/signature-nonce", tag = "indexer", request_body = LeafIndexQuery,
    responses(
        (status = 200, description = "The nonce", body = SignatureNonceResponse, example = json!({"signature_nonce":"0x0"})),
        (status = 400, description = "Malformed, leaf 0, or no such account", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"account_does_not_exist","message":"no account has leaf index 0x9"})),
    ),
)]
pub async fn signature_nonce(indexer: Arc<Indexer>, mut request: Request) -> Result<Response, IndexerError> {
    let leaf_index = leaf_index(&mut request).await?;
    let account = account(&indexer, leaf_index, IndexerError::NoSuchAccount).await?;
    let answer = SignatureNonceResponse { signature_nonce: Nonce::from(account.nonce) };
    Ok(json(StatusCode::OK, &answer))
}
