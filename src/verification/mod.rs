//! The verification interface: checks proofs for relying parties.
//!
//! | file | what it is |
//! |---|---|
//! | `endpoint.rs` | `POST /api/v4/verify/{rp_id}` |
//! | `version_2.rs` | `POST /api/v2/verify/{app_id}` |
//! | `caller.rs` | who asks, and is held to a limit |
//! | `proof_context.rs` | `POST /api/v4/proof-context/{id}` |
//! | `rp_status.rs` | `GET /api/v4/rp-status/{rp_id}` |
//! | `app_status.rs` | `GET /api/v4/app-status/{id}` |
//! | `schema.rs` | the bodies of requests, as the description has them |
//! | `error.rs` | the errors, as status and body |
//! | `setup.rs` | from the configuration to keys, relying parties and issuers |

mod app_status;
mod caller;
mod endpoint;
mod error;
mod proof_context;
mod rp_status;
mod schema;
pub mod setup;
mod state;
mod version_2;

use std::sync::Arc;

use error::VerifyError;
use hyper::Method;
use selfsame_actors::Service;
use state::{Endpoint, LogoUrl};
use utoipa::{Modify, OpenApi};

use crate::http::{Cors, Router, Routes};
use crate::interface::Interface;
use crate::{health, openapi};

/// The routes of the verification interface.
pub fn routes(service: &Service, logo_url: LogoUrl, openapi: openapi::Document, cors: Option<Cors>) -> Routes {
    let endpoint = Endpoint { verification: service.verification(), guesses: service.sign_in(), logo_url };
    Router::<Endpoint, VerifyError>::new(Interface::Verification.name(), Arc::new(endpoint))
        .cors(cors)
        .reserve(&["/health"])
        .route(Method::POST, "/api/v4/verify/{rp_id}", endpoint::verify)
        .audited("proofs_verified")
        .route(Method::POST, "/api/v2/verify/{app_id}", version_2::verify)
        .audited("proofs_verified")
        .route(Method::POST, "/api/v4/proof-context/{id}", proof_context::proof_context)
        .route(Method::GET, "/api/v4/rp-status/{rp_id}", rp_status::rp_status)
        .route(Method::GET, "/api/v4/app-status/{id}", app_status::app_status)
        .route(Method::GET, "/health", |_, _| health::health())
        .route(Method::GET, "/openapi.json", move |_, _| openapi::answer(openapi.clone()))
        .into()
}

/// The interface's description.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Proof verification",
        version = "4.0.0",
        description = "Checks proofs of personhood for relying parties: legacy proofs (protocol version 3.0), uniqueness proofs \
            and session proofs (4.0). Errors say in `code` what is wrong, in `attribute` where, and in `detail` what would be right."
    ),
    paths(
        endpoint::verify, version_2::verify, proof_context::proof_context, rp_status::rp_status, app_status::app_status,
        health::health, openapi::answer
    ),
    modifiers(&Security, &Shared)
)]
pub struct Description;

/// Describes how applications authenticate.
struct Security;

impl Modify for Security {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        openapi::describe_client_credentials(description);
    }
}

/// Describes what all endpoints have in common.
struct Shared;

impl Modify for Shared {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        openapi::describe_rejections::<VerifyError>(description, "VerificationErrorBody");
    }
}
