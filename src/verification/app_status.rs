//! `GET /api/v4/app-status/{id}`: whether an authenticator may show an application as verified.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use selfsame_protocol::verification::answer::{AppStatusResponse, VerificationErrorBody};

use super::error::{Lookup, VerifyError};
use super::state::Endpoint;
use crate::http::{Request, Response, json};

/// How long caches keep the answer, in seconds, and how long while the service is away.
const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=5, stale-if-error=300");

/// Whether an application is verified
///
/// It is while the operator of the service has registered it and serves it.
#[utoipa::path(
    get, path = "/api/v4/app-status/{id}", tag = "verification",
    params(("id" = String, Path, pattern = "^(rp_[0-9a-fA-F]{16}|app_[A-Za-z0-9_-]{1,128})$", example = "rp_6765160973bf7042", description = "`rp_` and 16 hex digits, or the application's `app_…` id")),
    responses(
        (status = 200, description = "Whether it is", body = AppStatusResponse, example = json!({"verified":true})),
        (status = 400, description = "`invalid_id`", body = VerificationErrorBody, example = json!({"success":false,"code":"invalid_id","detail":"\"x\" is neither a relying-party id (rp_ and 16 hex digits) nor an application id (app_…)","attribute":"id"})),
        (status = 404, description = "There is no such application: `not_found`", body = VerificationErrorBody),
    ),
)]
pub async fn app_status(endpoint: Arc<Endpoint>, request: Request) -> Result<Response, VerifyError> {
    let id = request.param("id")?;
    let party = endpoint.verification.relying_party(&id).map_err(|error| Lookup::AppStatus.failed(error))?;
    let mut response = json(StatusCode::OK, &AppStatusResponse { verified: party.has_active_application });
    response.headers_mut().insert(CACHE_CONTROL, CACHED);
    Ok(response)
}
