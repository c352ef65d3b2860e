//! The registry gateway: requests that change accounts, their states, blocks and receipts.
//!
//! | file | endpoint |
//! |---|---|
//! | `operations.rs` | the eight operations, and the two that registry version v1 does not have |
//! | `status.rs` | `GET /status/{request_id}` |
//! | `receipt.rs` | `GET /receipt/{request_id}` |
//! | `block.rs` | `GET /block/{height or hash}` |
//! | `head.rs` | `GET /head` |
//! | `is_valid_root.rs` | `GET /is-valid-root` |
//! | `config.rs` | `GET /config` |
//! | `creation.rs` | who may create accounts |
//! | `error.rs` | the errors, as status and body |

mod block;
mod config;
pub mod creation;
mod error;
mod head;
mod is_valid_root;
mod operations;
mod receipt;
mod state;
mod status;

use std::sync::Arc;

use error::GatewayError;
use hyper::Method;
pub use state::Gateway;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::height::{await_height, describe_height};
use crate::http::{Cors, Router, Routes, WAITING_LIMIT};
use crate::interface::Interface;
use crate::{health, openapi};

/// The gateway's routes.
pub fn routes(gateway: Gateway, openapi: openapi::Document, cors: Option<Cors>) -> Routes {
    let get = Method::GET;
    let post = Method::POST;
    Router::<Gateway, GatewayError>::new(Interface::Gateway.name(), Arc::new(gateway))
        .cors(cors)
        .reserve(&["/health"])
        .before(await_height)
        .route(post.clone(), "/create-account", operations::create_account)
        .route(post.clone(), "/update-authenticator", operations::update_authenticator)
        .route(post.clone(), "/insert-authenticator", operations::insert_authenticator)
        .route(post.clone(), "/remove-authenticator", operations::remove_authenticator)
        .route(post.clone(), "/recover-account", operations::recover_account)
        .route(post.clone(), "/initiate-recovery-agent-update", operations::initiate_recovery_agent_update)
        .deprecated()
        .route(post.clone(), "/cancel-recovery-agent-update", operations::cancel_recovery_agent_update)
        .deprecated()
        .route(post.clone(), "/execute-recovery-agent-update", operations::execute_recovery_agent_update)
        .deprecated()
        .route(post.clone(), "/update-recovery-agent", operations::update_recovery_agent)
        .route(post, "/revert-recovery-agent-update", operations::revert_recovery_agent_update)
        .route_within(WAITING_LIMIT, get.clone(), "/status/{request_id}", status::status)
        .route(get.clone(), "/receipt/{request_id}", receipt::receipt)
        .route(get.clone(), "/block/{id}", block::block)
        .route(get.clone(), "/head", head::head)
        .route(get.clone(), "/is-valid-root", is_valid_root::is_valid_root)
        .route(get.clone(), "/config", config::config)
        .route(get.clone(), "/health", |_, _| health::health())
        .route(get, "/openapi.json", move |_, _| openapi::answer(openapi.clone()))
        .into()
}

/// The gateway's description.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Registry gateway",
        version = "0.1.4",
        description = "Accepts requests that change accounts. An accepted request is durable before it is answered; it is \
            put into a block, and its state becomes `finalized` or `failed`. Numbers are numeric strings: decimal digits, \
            or `0x` and hex digits."
    ),
    paths(
        operations::create_account,
        operations::update_authenticator,
        operations::insert_authenticator,
        operations::remove_authenticator,
        operations::recover_account,
        operations::initiate_recovery_agent_update,
        operations::update_recovery_agent,
        operations::cancel_recovery_agent_update,
        operations::execute_recovery_agent_update,
        operations::revert_recovery_agent_update,
        status::status,
        receipt::receipt,
        block::block,
        head::head,
        is_valid_root::is_valid_root,
        config::config,
        health::health,
        openapi::answer,
    ),
    modifiers(&CreationToken, &Shared, &Links, &Deprecated)
)]
pub struct Description;

/// Says which endpoints the registry's next rules do not have.
struct Deprecated;

impl Modify for Deprecated {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        for path in
            ["/initiate-recovery-agent-update", "/cancel-recovery-agent-update", "/execute-recovery-agent-update"]
        {
            openapi::describe_deprecation(description, path);
        }
    }
}

/// Describes what may be needed to create an account.
struct CreationToken;

impl Modify for CreationToken {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let mut token = Http::new(HttpAuthScheme::Bearer);
        token.description =
            Some("The operator's token, where `/config` says that `create_account` needs one".to_owned());
        description
            .components
            .get_or_insert_default()
            .add_security_scheme("creationToken", SecurityScheme::Http(token));
    }
}

/// Describes what all endpoints have in common.
struct Shared;

impl Modify for Shared {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        describe_height(description);
        openapi::describe_rejections::<GatewayError>(description, "ServiceApiError_GatewayErrorCode");
    }
}

/// Describes how a client goes on from an accepted request.
struct Links;

impl Modify for Links {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let accepted: Vec<String> =
            ACCEPTING.iter().map(|path| path.trim_start_matches('/').replace('-', "_")).collect();
        let request_id = ("request_id", "$response.body#/request_id");
        for operation in &accepted {
            openapi::describe_link(description, operation, ("state", "status"), request_id);
            openapi::describe_link(description, operation, ("receipt", "receipt"), request_id);
        }
    }
}

/// The paths whose answer has the id of an accepted request.
const ACCEPTING: [&str; 8] = [
    "/create-account",
    "/update-authenticator",
    "/insert-authenticator",
    "/remove-authenticator",
    "/recover-account",
    "/initiate-recovery-agent-update",
    "/cancel-recovery-agent-update",
    "/execute-recovery-agent-update",
];
