//! `GET /apps`: the applications that people sign in to.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::gateway::ServiceApiError;
use serde::Serialize;
use utoipa::ToSchema;

use super::error::OperatorError;
use super::state::Operator;
use crate::http::{Request, Response, json};

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Application)]
struct App {
    /// Its id, `app_…`.
    id: String,
    /// The name that people see.
    name: String,
    /// The environment of the proofs that it accepts.
    environment: &'static str,
    /// The kind of proof that it accepts.
    proof: &'static str,
    /// Whether it has no secret.
    public: bool,
}

/// The applications
///
/// The applications of the configuration that is in force, by id. Secrets are not shown.
#[utoipa::path(
    get, path = "/apps", tag = "operator", operation_id = "apps", security(("operatorToken" = [])),
    responses(
        (status = 200, description = "The applications", body = Vec<App>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn apps(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let clients = operator.service.sign_in().clients();
    let apps = clients.iter().map(|client| App {
        id: client.client.id.clone(),
        name: client.name.clone(),
        environment: client.environment.name(),
        proof: client.proof.name(),
        public: client.secrets.is_empty(),
    });
    Ok(json(StatusCode::OK, &apps.collect::<Vec<_>>()))
}
