//! The verification interface: checks proofs for relying parties.
//!
//! | file | what it is |
//! |---|---|
//! | `endpoint.rs` | `POST /api/v4/verify/{rp_id}` |
//! | `schema.rs` | the body of a request, as the description has it |
//! | `error.rs` | the errors, as status and body |
//! | `setup.rs` | from the configuration to keys, relying parties and issuers |

mod endpoint;
mod error;
mod schema;
pub mod setup;
mod state;

use std::sync::Arc;

use error::VerifyError;
use hyper::Method;
use selfsame_actors::VerificationHandle;
use state::Endpoint;
use utoipa::{Modify, OpenApi};

use crate::http::{Cors, Router, Routes};
use crate::interface::Interface;
use crate::{health, openapi};

/// The routes of the verification interface.
pub fn routes(verification: VerificationHandle, openapi: openapi::Document, cors: Option<Cors>) -> Routes {
    Router::<Endpoint, VerifyError>::new(Interface::Verification.name(), Arc::new(Endpoint { verification }))
        .cors(cors)
        .reserve(&["/health"])
        .route(Method::POST, "/api/v4/verify/{rp_id}", endpoint::verify)
        .audited("proofs_verified")
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
    paths(endpoint::verify, health::health, openapi::answer),
    modifiers(&Shared)
)]
pub struct Description;

/// Describes what all endpoints have in common.
struct Shared;

impl Modify for Shared {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        openapi::describe_rejections::<VerifyError>(description, "VerificationErrorBody");
    }
}
