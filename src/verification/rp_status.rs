//! `GET /api/v4/rp-status/{rp_id}`: how a relying party stands in both environments.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::verification::Environment;
use selfsame_protocol::verification::answer::{PartyStatusResponse, VerificationErrorBody};
use selfsame_protocol::verification::directory::AdmissionError;

use super::error::{Lookup, VerifyError};
use super::state::Endpoint;
use crate::http::{Request, Response, json};

/// How a relying party stands
///
/// `registered`, `deactivated`, or `pending` when it is not served in the environment yet. Where
/// the service follows a registry of relying parties, both the registry and the configuration have
/// to serve it.
#[utoipa::path(
    get, path = "/api/v4/rp-status/{rp_id}", tag = "verification",
    params(("rp_id" = String, Path, pattern = "^rp_[0-9a-fA-F]{16}$", example = "rp_6765160973bf7042", description = "`rp_` and 16 hex digits")),
    responses(
        (status = 200, description = "Its status in production, and in staging if its application accepts proofs of staging", body = PartyStatusResponse, example = json!({"production_status":"registered","staging_status":null})),
        (status = 400, description = "`invalid_rp_id`", body = VerificationErrorBody, example = json!({"success":false,"code":"invalid_rp_id","detail":"\"app_a\" is not a relying-party id: rp_ and 16 hex digits","attribute":"rp_id"})),
        (status = 404, description = "There is no such relying party: `not_found`", body = VerificationErrorBody),
    ),
)]
pub async fn rp_status(endpoint: Arc<Endpoint>, request: Request) -> Result<Response, VerifyError> {
    let rp_id = request.param("rp_id")?;
    let failed = |error| Lookup::RpStatus.failed(error);
    if rp_id.starts_with("app_") {
        return Err(failed(AdmissionError::InvalidRelyingPartyId { path: rp_id.into_owned() }));
    }
    let party = endpoint.verification.relying_party(&rp_id).map_err(failed)?;
    let standing = |environment| endpoint.verification.standing(&party, environment).name();
    let has_staging = party.environments.contains(&Environment::Staging);
    let answer = PartyStatusResponse {
        production_status: standing(Environment::Production),
        staging_status: has_staging.then(|| standing(Environment::Staging)),
    };
    Ok(json(StatusCode::OK, &answer))
}
