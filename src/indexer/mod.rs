//! The registry indexer: inclusion proofs and account data, each answer from one snapshot of the
//! registry.
//!
//! Every route also answers under `/compat`, for the published client library of wallets; only the
//! inclusion proof differs there (`inclusion_proof.rs`).

mod authenticator_pubkeys;
mod authenticators;
mod error;
mod inclusion_proof;
mod packed_account;
mod pending_recovery_agent;
mod query;
mod recovery_agent;
mod root;
mod signature_nonce;
mod state;

use std::sync::Arc;

use error::IndexerError;
use hyper::Method;
use selfsame_actors::RegistryHandle;
use state::Indexer;
use utoipa::{Modify, OpenApi};

use crate::height::{await_height, describe_height};
use crate::http::{Cors, Router, Routes};
use crate::interface::Interface;
use crate::{health, openapi};

/// The indexer's routes.
pub fn routes(registry: RegistryHandle, openapi: openapi::Document, cors: Option<Cors>) -> Routes {
    let get = Method::GET;
    let post = Method::POST;
    let compat_openapi = openapi.clone();
    Router::<Indexer, IndexerError>::new(Interface::Indexer.name(), Arc::new(Indexer { registry }))
        .cors(cors)
        .reserve(&["/health"])
        .before(await_height)
        .route(post.clone(), "/inclusion-proof", inclusion_proof::inclusion_proof)
        .route(post.clone(), "/packed-account", packed_account::packed_account)
        .route(post.clone(), "/signature-nonce", signature_nonce::signature_nonce)
        .route(post.clone(), "/authenticator-pubkeys", authenticator_pubkeys::authenticator_pubkeys)
        .route(post.clone(), "/authenticators", authenticators::authenticators)
        .route(post.clone(), "/recovery-agent", recovery_agent::recovery_agent)
        .route(post.clone(), "/pending-recovery-agent", pending_recovery_agent::pending_recovery_agent)
        .deprecated()
        .route(get.clone(), "/root", root::root)
        .route(get.clone(), "/health", |_, _| health::health())
        .route(get.clone(), "/openapi.json", move |_, _| openapi::answer(openapi.clone()))
        .route(post.clone(), "/compat/inclusion-proof", inclusion_proof::compat_inclusion_proof)
        .route(post.clone(), "/compat/packed-account", packed_account::packed_account)
        .route(post.clone(), "/compat/signature-nonce", signature_nonce::signature_nonce)
        .route(post.clone(), "/compat/authenticator-pubkeys", authenticator_pubkeys::authenticator_pubkeys)
        .route(post.clone(), "/compat/authenticators", authenticators::authenticators)
        .route(post.clone(), "/compat/recovery-agent", recovery_agent::recovery_agent)
        .route(post, "/compat/pending-recovery-agent", pending_recovery_agent::pending_recovery_agent)
        .deprecated()
        .route(get.clone(), "/compat/root", root::root)
        .route(get.clone(), "/compat/health", |_, _| health::health())
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
        inclusion_proof::inclusion_proof,
        inclusion_proof::compat_inclusion_proof,
        packed_account::packed_account,
        signature_nonce::signature_nonce,
        authenticator_pubkeys::authenticator_pubkeys,
        authenticators::authenticators,
        recovery_agent::recovery_agent,
        pending_recovery_agent::pending_recovery_agent,
        root::root,
        health::health,
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
        openapi::describe_rejections::<IndexerError>(description, "ServiceApiError_IndexerErrorCode");
    }
}
