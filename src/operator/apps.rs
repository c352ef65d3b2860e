//! `GET /apps`: the applications that people sign in to.

use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;

use super::error::OperatorError;
use super::state::Operator;
use crate::http::{Request, Response, json};

#[derive(Debug, Serialize)]
struct App {
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

/// The applications of the configuration that is in force, by id. Secrets are not shown.
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
