//! The registry indexer: inclusion proofs and account data, each answer from one snapshot of the
//! registry.
//!
//! The routes and their description come first, then the errors and what queries have in common,
//! then a section for each endpoint. Every route also answers under `/compat`, for the published
//! client library of wallets; only the inclusion proof differs there.

use std::sync::Arc;

use hyper::{Method, StatusCode};
use selfsame_actors::RegistryHandle;
use selfsame_protocol::Address;
use selfsame_protocol::commitment::SlotError;
use selfsame_protocol::gateway::{ServiceApiError, meanings};
use selfsame_protocol::ids::{LeafIndex, Nonce};
use selfsame_protocol::indexer::{
    AddressQuery, AuthenticatorPubkeysResponse, AuthenticatorsResponse, CompatInclusionProofResponse,
    InclusionProofResponse, IndexerErrorCode, LeafIndexQuery, PackedAccountResponse, PendingRecoveryAgentResponse,
    RecoveryAgentResponse, RootResponse, SignatureNonceResponse, compat_inclusion_proof_json, inclusion_proof_json,
};
use selfsame_protocol::json::{BodyError, from_object};
use selfsame_protocol::registry::{Account, RegistryView};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::InclusionPath;
use selfsame_storage::{Snapshot, SnapshotReads, StoreError};
use serde::de::DeserializeOwned;
use utoipa::{Modify, OpenApi};

use crate::http::{Cors, ErrorCodes, InterfaceError, Rejection, Request, Response, Router, Routes, json, written_json};
use crate::interface::Interface;
use crate::openapi::{self, HasRegistry, await_height, describe_height};

/// The indexer's routes.
pub fn routes(registry: RegistryHandle, openapi: openapi::Document, cors: Option<Cors>) -> Routes {
    let get = Method::GET;
    let post = Method::POST;
    let compat_openapi = openapi.clone();
    Router::<Indexer, IndexerError>::new(Interface::Indexer.name(), Arc::new(Indexer { registry }))
        .cors(cors)
        .reserve(&["/health"])
        .before(await_height)
        .route(post.clone(), "/inclusion-proof", inclusion_proof)
        .route(post.clone(), "/packed-account", packed_account)
        .route(post.clone(), "/signature-nonce", signature_nonce)
        .route(post.clone(), "/authenticator-pubkeys", authenticator_pubkeys)
        .route(post.clone(), "/authenticators", authenticators)
        .route(post.clone(), "/recovery-agent", recovery_agent)
        .route(post.clone(), "/pending-recovery-agent", pending_recovery_agent)
        .deprecated()
        .route(get.clone(), "/root", root)
        .route(get.clone(), "/health", |_, _| openapi::health())
        .route(get.clone(), "/openapi.json", move |_, _| openapi::answer(openapi.clone()))
        .route(post.clone(), "/compat/inclusion-proof", compat_inclusion_proof)
        .route(post.clone(), "/compat/packed-account", packed_account)
        .route(post.clone(), "/compat/signature-nonce", signature_nonce)
        .route(post.clone(), "/compat/authenticator-pubkeys", authenticator_pubkeys)
        .route(post.clone(), "/compat/authenticators", authenticators)
        .route(post.clone(), "/compat/recovery-agent", recovery_agent)
        .route(post, "/compat/pending-recovery-agent", pending_recovery_agent)
        .deprecated()
        .route(get.clone(), "/compat/root", root)
        .route(get.clone(), "/compat/health", |_, _| openapi::health())
        .route(get, "/compat/openapi.json", move |_, _| openapi::answer(compat_openapi.clone()))
        .into()
}

/// The indexer's description.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Registry indexer",
        version = "0.1.4",
        description = "Merkle inclusion proofs and account data. Each answer is made from one version of the registry: root, \
            siblings and keys always belong together, and every answer contains all requests that the gateway shows as finalized. Every \
            route also answers under `/compat`, where inclusion proofs show public keys as affine coordinates."
    ),
    paths(
        inclusion_proof,
        compat_inclusion_proof,
        packed_account,
        signature_nonce,
        authenticator_pubkeys,
        authenticators,
        recovery_agent,
        pending_recovery_agent,
        root,
        openapi::health,
        openapi::answer,
    ),
    modifiers(&Compat, &Shared, &Deprecated)
)]
pub struct Description;

/// Describes the routes under `/compat` that answer like the routes of the same name without it.
struct Compat;

impl Modify for Compat {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let described: Vec<String> = description.paths.paths.keys().cloned().collect();
        for path in &described {
            let again = format!("/compat{path}");
            if !path.starts_with("/compat") && !described.contains(&again) {
                openapi::describe_alias(description, path, again);
            }
        }
    }
}

/// Says which endpoints the registry's next rules do not have.
struct Deprecated;

impl Modify for Deprecated {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        for path in ["/pending-recovery-agent", "/compat/pending-recovery-agent"] {
            openapi::describe_deprecation(description, path);
        }
    }
}

/// Describes what all endpoints have in common.
struct Shared;

impl Modify for Shared {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        describe_height(description);
        openapi::describe_errors::<IndexerError>(
            description,
            "ServiceApiError_IndexerErrorCode",
            openapi::NO_ERROR_PAGES,
        );
        openapi::describe_codes(description, "IndexerErrorCode", meanings::<IndexerErrorCode>());
    }
}

// What the indexer's handlers share.

/// The registry, as the indexer reads it.
struct Indexer {
    /// Gives the snapshots.
    pub registry: RegistryHandle,
}

impl Indexer {
    /// The snapshot of the registry from which one answer is made.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.registry.snapshot()
    }
}

impl HasRegistry for Indexer {
    fn registry(&self) -> &RegistryHandle {
        &self.registry
    }
}

// The errors of the indexer and its answers to them.

/// A rejected request to the indexer.
#[derive(Debug, thiserror::Error)]
enum IndexerError {
    /// The request was rejected for a reason that all interfaces share: path, method, size, content
    /// type, time.
    #[error(transparent)]
    Http(#[from] Rejection),
    /// The body is not a JSON object with the fields of the query.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// Leaf 0 is reserved.
    #[error("leaf_index: leaf 0 is reserved and belongs to no account")]
    InvalidLeafIndex,
    /// The leaf index is not assigned, at an endpoint that calls this `not_found`.
    #[error("no account has leaf index {0:#x}")]
    NotFound(LeafIndex),
    /// The leaf index is not assigned, at an endpoint that calls this `account_does_not_exist`.
    #[error("no account has leaf index {0:#x}")]
    NoSuchAccount(LeafIndex),
    /// The address is not an authenticator, or was revoked by a recovery.
    #[error("{0:#x} is not an authenticator of any account")]
    NoSuchAuthenticator(Address),
    /// A stored public key cannot be shown as a point.
    #[error(transparent)]
    InvalidAuthenticatorPubkey(#[from] SlotError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl InterfaceError for IndexerError {
    fn reason(&self) -> String {
        match self {
            Self::Http(rejection) => rejection.reason(),
            Self::Body(error) => error.reason(),
            other => other.to_string(),
        }
    }

    fn into_response(self) -> Response {
        let (status, code) = match &self {
            Self::Http(rejection) => return ErrorCodes::INDEXER.respond(rejection),
            Self::Store(error) => {
                // The log has the details for the operator; the client gets an internal error.
                tracing::error!(%error, "the store failed");
                return ErrorCodes::INDEXER.respond(&Rejection::Internal);
            }
            Self::Body(_) => (StatusCode::BAD_REQUEST, IndexerErrorCode::BadRequest),
            Self::InvalidLeafIndex => (StatusCode::BAD_REQUEST, IndexerErrorCode::InvalidLeafIndex),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, IndexerErrorCode::NotFound),
            Self::NoSuchAccount(_) | Self::NoSuchAuthenticator(_) => {
                (StatusCode::BAD_REQUEST, IndexerErrorCode::AccountDoesNotExist)
            }
            Self::InvalidAuthenticatorPubkey(_) => (StatusCode::CONFLICT, IndexerErrorCode::InvalidAuthenticatorPubkey),
        };
        json(status, &ServiceApiError { code, message: self.to_string() })
    }
}

// Bodies of queries, and the account that they ask for.

/// The longest body of a query, in bytes.
const BODY_LIMIT: usize = 64 * 1024;

/// Reads the body as a query.
async fn query<T: DeserializeOwned>(request: &mut Request) -> Result<T, IndexerError> {
    Ok(from_object(&request.read_json(BODY_LIMIT).await?)?)
}

/// Reads the body's leaf index, which must not be the reserved one.
async fn leaf_index(request: &mut Request) -> Result<LeafIndex, IndexerError> {
    match query::<LeafIndexQuery>(request).await?.leaf_index {
        LeafIndex(0) => Err(IndexerError::InvalidLeafIndex),
        leaf_index => Ok(leaf_index),
    }
}

/// The account at a leaf index; `missing` is this endpoint's error when there is no such account.
async fn account(
    indexer: &Indexer,
    leaf_index: LeafIndex,
    missing: fn(LeafIndex) -> IndexerError,
) -> Result<Account, IndexerError> {
    let account = indexer.registry.read(move |reads| reads.account(leaf_index)).await?;
    account.ok_or_else(|| missing(leaf_index))
}

// `POST /inclusion-proof`: proof that an account is in the registry, with its public keys; also in
// the form of the published client library.

/// Inclusion proof of an account
///
/// The siblings lead from the account's commitment, which is the hash of its public keys, to the
/// root.
#[utoipa::path(
    post, path = "/inclusion-proof", tag = "indexer", request_body = LeafIndexQuery,
    responses(
        (status = 200, description = "The proof and the account's public keys", body = InclusionProofResponse),
        (status = 400, description = "Malformed (`bad_request`), or leaf 0 (`invalid_leaf_index`)", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"invalid_leaf_index","message":"leaf_index: leaf 0 is reserved and belongs to no account"})),
        (status = 404, description = "No such account: `not_found`", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"not_found","message":"no account has leaf index 0x9"})),
    ),
)]
async fn inclusion_proof(indexer: Arc<Indexer>, mut request: Request) -> Result<Response, IndexerError> {
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
        (status = 400, description = "Malformed (`bad_request`), or leaf 0 (`invalid_leaf_index`)", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"invalid_leaf_index","message":"leaf_index: leaf 0 is reserved and belongs to no account"})),
        (status = 404, description = "No such account: `not_found`", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"not_found","message":"no account has leaf index 0x9"})),
        (status = 409, description = "A stored public key is not a point of the curve", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"invalid_authenticator_pubkey","message":"the public key of slot 0 does not decode: no point of the curve has its y coordinate"})),
    ),
)]
async fn compat_inclusion_proof(indexer: Arc<Indexer>, mut request: Request) -> Result<Response, IndexerError> {
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

// `POST /packed-account`: the account that an authenticator belongs to.

/// The packed account data of an authenticator
///
/// Recovery counter (32 bits) ‖ pubkey id (32 bits) ‖ leaf index (192 bits). An address that a
/// recovery revoked is not an authenticator any more.
#[utoipa::path(
    post, path = "/packed-account", tag = "indexer", request_body = AddressQuery,
    responses(
        (status = 200, description = "The packed data", body = PackedAccountResponse, example = json!({"packed_account_data":"0x1000000000000000000000000000000000000000000000001"})),
        (status = 400, description = "Malformed (`bad_request`), or no authenticator (`account_does_not_exist`)", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"account_does_not_exist","message":"0x71a4fb49dcddadfed612b153b000fbab994ed6af is not an authenticator of any account"})),
    ),
)]
async fn packed_account(indexer: Arc<Indexer>, mut request: Request) -> Result<Response, IndexerError> {
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

// `POST /signature-nonce`: the nonce for an account's next signature.

/// The nonce for the next signature
///
/// The next signed operation on the account must carry it.
#[utoipa::path(
    post, path = "/signature-nonce", tag = "indexer", request_body = LeafIndexQuery,
    responses(
        (status = 200, description = "The nonce", body = SignatureNonceResponse, example = json!({"signature_nonce":"0x0"})),
        (status = 400, description = "Malformed (`bad_request`), leaf 0 (`invalid_leaf_index`), or no such account (`account_does_not_exist`)", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"account_does_not_exist","message":"no account has leaf index 0x9"})),
    ),
)]
async fn signature_nonce(indexer: Arc<Indexer>, mut request: Request) -> Result<Response, IndexerError> {
    let leaf_index = leaf_index(&mut request).await?;
    let account = account(&indexer, leaf_index, IndexerError::NoSuchAccount).await?;
    let answer = SignatureNonceResponse { signature_nonce: Nonce::from(account.nonce) };
    Ok(json(StatusCode::OK, &answer))
}

// `POST /authenticator-pubkeys`: an account's public keys.

/// Public keys of an account
///
/// Slot by slot; null where an authenticator was removed.
#[utoipa::path(
    post, path = "/authenticator-pubkeys", tag = "indexer", request_body = LeafIndexQuery,
    responses(
        (status = 200, description = "Public keys and commitment", body = AuthenticatorPubkeysResponse, example = json!({"authenticator_pubkeys":["0x800b41c1ebf9e053d97498a268e2697470098183f200cb42009e64678f96a703"],"offchain_signer_commitment":"0x25621ac3b8119fa030714e263a607e3ce2c1a9c28e1fcd2109b976b64c4c5758"})),
        (status = 400, description = "Malformed (`bad_request`), or leaf 0 (`invalid_leaf_index`)", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"invalid_leaf_index","message":"leaf_index: leaf 0 is reserved and belongs to no account"})),
        (status = 404, description = "No such account: `not_found`", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"not_found","message":"no account has leaf index 0x9"})),
    ),
)]
async fn authenticator_pubkeys(indexer: Arc<Indexer>, mut request: Request) -> Result<Response, IndexerError> {
    let leaf_index = leaf_index(&mut request).await?;
    let account = account(&indexer, leaf_index, IndexerError::NotFound).await?;
    let answer = AuthenticatorPubkeysResponse {
        authenticator_pubkeys: account.public_keys(),
        offchain_signer_commitment: account.commitment,
    };
    Ok(json(StatusCode::OK, &answer))
}

// `POST /authenticators`: an account's authenticators.

/// Authenticators of an account
///
/// Public keys and addresses slot by slot, two lists of one length; null in both where an
/// authenticator was removed.
#[utoipa::path(
    post, path = "/authenticators", tag = "indexer", request_body = LeafIndexQuery,
    responses(
        (status = 200, description = "The authenticators", body = AuthenticatorsResponse, example = json!({"authenticator_pubkeys":["0x800b41c1ebf9e053d97498a268e2697470098183f200cb42009e64678f96a703"],"authenticator_addresses":["0x71a4fb49dcddadfed612b153b000fbab994ed6af"],"offchain_signer_commitment":"0x25621ac3b8119fa030714e263a607e3ce2c1a9c28e1fcd2109b976b64c4c5758","recovery_counter":"0x0"})),
        (status = 400, description = "Malformed (`bad_request`), or leaf 0 (`invalid_leaf_index`)", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"invalid_leaf_index","message":"leaf_index: leaf 0 is reserved and belongs to no account"})),
        (status = 404, description = "No such account: `not_found`", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"not_found","message":"no account has leaf index 0x9"})),
    ),
)]
async fn authenticators(indexer: Arc<Indexer>, mut request: Request) -> Result<Response, IndexerError> {
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

// `POST /recovery-agent`: the address that may recover an account.

/// The recovery agent of an account
///
/// The zero address when the account has no recovery agent.
#[utoipa::path(
    post, path = "/recovery-agent", tag = "indexer", request_body = LeafIndexQuery,
    responses(
        (status = 200, description = "The recovery agent", body = RecoveryAgentResponse, example = json!({"recovery_agent":"0x3ca415a58925e09eb0a4c53fef9ed0311f13a514"})),
        (status = 400, description = "Malformed (`bad_request`), leaf 0 (`invalid_leaf_index`), or no such account (`account_does_not_exist`)", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"account_does_not_exist","message":"no account has leaf index 0x9"})),
    ),
)]
async fn recovery_agent(indexer: Arc<Indexer>, mut request: Request) -> Result<Response, IndexerError> {
    let leaf_index = leaf_index(&mut request).await?;
    let account = account(&indexer, leaf_index, IndexerError::NoSuchAccount).await?;
    let answer = RecoveryAgentResponse { recovery_agent: account.recovery_agent };
    Ok(json(StatusCode::OK, &answer))
}

// `POST /pending-recovery-agent`: the recovery agent that waits for its cooldown.

/// The pending recovery agent of an account
///
/// Both fields are zero when no update is pending.
#[utoipa::path(
    post, path = "/pending-recovery-agent", tag = "indexer", request_body = LeafIndexQuery,
    responses(
        (status = 200, description = "The pending recovery agent", body = PendingRecoveryAgentResponse, example = json!({"pending_recovery_agent":"0xebeef42dd191f869c6fd80ceba222a8e4126f00f","execute_after":"0x6b49d200"})),
        (status = 400, description = "Malformed (`bad_request`), leaf 0 (`invalid_leaf_index`), or no such account (`account_does_not_exist`)", body = ServiceApiError<IndexerErrorCode>, example = json!({"code":"account_does_not_exist","message":"no account has leaf index 0x9"})),
    ),
)]
async fn pending_recovery_agent(indexer: Arc<Indexer>, mut request: Request) -> Result<Response, IndexerError> {
    let leaf_index = leaf_index(&mut request).await?;
    let account = account(&indexer, leaf_index, IndexerError::NoSuchAccount).await?;
    let (pending_recovery_agent, execute_after) = account
        .pending_recovery_agent
        .map_or((Address::ZERO, UnixSeconds(0)), |pending| (pending.agent, pending.execute_after));
    let answer = PendingRecoveryAgentResponse { pending_recovery_agent, execute_after };
    Ok(json(StatusCode::OK, &answer))
}

// `GET /root`: the newest root and its block.

/// The newest root
///
/// The answer also has the block that made the root. Its hashes commit to every earlier block and
/// result.
#[utoipa::path(
    get, path = "/root", tag = "indexer",
    responses((status = 200, description = "The newest root", body = RootResponse)),
)]
async fn root(indexer: Arc<Indexer>, _: Request) -> Result<Response, IndexerError> {
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
