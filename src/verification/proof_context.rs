//! `POST /api/v4/proof-context/{id}`: who asks for a proof, for the authenticator that shows it.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_actors::VerificationError;
use selfsame_protocol::json::from_object;
use selfsame_protocol::verification::answer::{ContextAction, ContextRequest, ContextResponse, VerificationErrorBody};
use selfsame_protocol::verification::directory::{ActionKey, AdmissionError};
use serde_json::Value;

use super::error::{Lookup, VerifyError};
use super::schema::ContextBody;
use super::state::Endpoint;
use crate::http::{Request, Response, json};

/// The longest body of a request, in bytes.
const BODY_LIMIT: usize = 64 * 1024;

/// Who asks for a proof
///
/// What an authenticator shows before it asks the person. The name, the URLs and the description
/// are those that the operator registered; an action that nobody configured has no description.
#[utoipa::path(
    post, path = "/api/v4/proof-context/{id}", tag = "verification",
    params(("id" = String, Path, pattern = "^(rp_[0-9a-fA-F]{16}|app_[A-Za-z0-9_-]{1,128})$", example = "rp_6765160973bf7042", description = "`rp_` and 16 hex digits, or the application's `app_…` id")),
    request_body(content = ContextBody),
    responses(
        (status = 200, description = "The application, and the action that the body names", body = ContextResponse, example = json!({"app_id":"app_969d38c8ba9adf22a4ac3b2d4400575a","rp_id":"rp_6765160973bf7042","name":"Example","is_verified":true,"verified_app_logo":"","unverified_app_logo":"","integration_url":"https://app.example","action":{"action":"vote","description":"","environment":"production"}})),
        (status = 400, description = "`validation_error`, `invalid_request`, `not_registered`, `rp_not_active`", body = VerificationErrorBody, example = json!({"success":false,"code":"not_registered","detail":"there is no relying party \"app_other\"; register its application, or use the id it was given","attribute":null})),
        (status = 404, description = "The application is not active: `not_found`", body = VerificationErrorBody),
    ),
)]
pub async fn proof_context(endpoint: Arc<Endpoint>, mut request: Request) -> Result<Response, VerifyError> {
    let body = request.read_json(BODY_LIMIT).await?;
    let ContextRequest { action, environment } = ContextRequest::read(&from_object::<Value>(&body)?)?;
    let id = request.param("id")?;
    let party = endpoint.verification.relying_party(&id).map_err(|error| Lookup::ProofContext.failed(error))?;
    let app_id = || party.app_id.clone();
    if !party.is_active {
        let inactive = AdmissionError::InactiveRelyingParty { rp_id: party.rp_id, app_id: app_id() };
        return Err(VerificationError::from(inactive).into());
    }
    if !party.has_active_application {
        return Err(VerificationError::from(AdmissionError::InactiveApplication { app_id: app_id() }).into());
    }
    let action = match action {
        None => None,
        Some(action) => {
            let key = ActionKey::new(&party.app_id, environment, &action);
            let description = endpoint.verification.action_description(&key);
            Some(ContextAction { action, description, environment: environment.name() })
        }
    };
    let logo = (endpoint.logo_url)(&party.app_id).unwrap_or_default();
    let answer = ContextResponse {
        app_id: app_id(),
        rp_id: party.rp_id.to_string(),
        name: party.name.clone(),
        is_verified: true,
        verified_app_logo: logo.clone(),
        unverified_app_logo: logo,
        integration_url: party.integration_url.clone().unwrap_or_default(),
        action,
    };
    Ok(json(StatusCode::OK, &answer))
}
