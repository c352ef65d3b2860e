//! `POST /api/v2/verify/{app_id}`: checks a legacy proof for an application, for servers that were
//! written for the public interface before `protocol_version`.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_actors::{Verification, VerificationError};
use selfsame_protocol::verification::answer::{VERIFIED, VerificationErrorBody, VerificationResponse2};
use selfsame_protocol::verification::request::Version2Request;

use super::caller::Caller;
use super::endpoint::tell;
use super::error::VerifyError;
use super::schema::RequestBody2;
use super::state::Endpoint;
use crate::http::{Request, Response, json};

/// Verify a legacy proof, in the form of version 2
///
/// The same checks and records as for a legacy request of `/api/v4/verify/{rp_id}`, whose answers
/// also name the protocol version and take signed nonces. The environment is staging for ids that
/// begin with `app_staging_`, production for others, unless the application does not have it. A
/// nullifier that was seen before is answered 200 while the action allows it; `uses` counts the
/// requests. An action that nobody configured counts a person once.
#[utoipa::path(
    post, path = "/api/v2/verify/{app_id}", tag = "verification", operation_id = "verify_version_2",
    security(("client" = []), ()),
    params(("app_id" = String, Path, pattern = "^app_[A-Za-z0-9_-]{1,128}$", example = "app_staging_169e21f6afc84b304749830067809632", description = "The application's `app_…` id")),
    request_body(content = RequestBody2),
    responses(
        (status = 200, description = "The proof verified", body = VerificationResponse2, example = json!({"uses":1,"success":true,"action":"verify-user","max_uses":1,"nullifier_hash":"0x022de8edbfa1fbb8148fee9c613079d43c6b8c1a1c6b19ba41b67e79a313054d","created_at":"2026-07-01T00:00:00.000Z","verification_level":"orb","message":"Proof verified successfully"})),
        (status = 400, description = "Malformed, not acceptable, or the proof did not verify: `validation_error`, `invalid_request`, `invalid_format`, `invalid_action`, `rp_not_active`, `configuration_error`, `legacy_proofs_not_accepted`, `rp_signature_required`, `invalid_merkle_root`, `root_too_old`, `invalid_proof`, `invalid_signal`, `identifier_not_accepted`, `max_verifications_reached`", body = VerificationErrorBody, example = json!({"success":false,"code":"invalid_merkle_root","detail":"merkle_root is not a known root of staging; ask for a new proof","attribute":null,"app_id":"app_staging_169e21f6afc84b304749830067809632"})),
        (status = 401, description = "The credentials of the application are wrong: `unauthenticated`", body = VerificationErrorBody),
        (status = 403, description = "The path names another application than the credentials: `forbidden`", body = VerificationErrorBody),
        (status = 404, description = "There is no such application, or it is not active: `not_found`", body = VerificationErrorBody),
        (status = 429, description = "Rate limit exceeded, see Retry-After: `rate_limit_exceeded`", body = VerificationErrorBody),
    ),
)]
pub async fn verify(endpoint: Arc<Endpoint>, mut request: Request) -> Result<Response, VerifyError> {
    let deadline = endpoint.verification.deadline();
    let app_id = request.param("app_id")?.into_owned();
    let caller = Caller::identify(&endpoint, &request, &app_id)?;
    // A request of this version has no signature that could count for its application.
    if let Caller::Source { at_limit: Some(too_many), .. } = &caller {
        return Err((*too_many).into());
    }
    let asked = caller.read(&mut request, Version2Request::read).await?;
    caller.charge(&endpoint, &app_id, None, 1).await?;
    let audit = request.audit();
    audit.concerns(app_id.as_str());
    let party = endpoint.verification.application(&app_id).ok_or(VerifyError::NoSuchApplication { app_id })?;
    let (action, verification_level) = (asked.action.clone(), asked.item.identifier.name());
    let asked = asked.into_request(party.usual_environment());
    let verified = endpoint.verification.verify(Some(request.source()), &party.app_id, asked, deadline).await;
    let verification = verified.map_err(|error| match error {
        VerificationError::AllFailed { app_id, results } => VerifyError::ProofFailed { app_id, results },
        VerificationError::MaxVerifications { app_id, limit } => VerifyError::CountedOut { app_id, limit },
        error => error.into(),
    })?;
    tell(audit, &verification);
    let Verification { nullifier, max_verifications, .. } = verification;
    // Each verified proof that is not of a session has one.
    let seen = nullifier.ok_or_else(|| VerificationError::Unavailable { reason: "nothing was recorded".to_owned() })?;
    let answer = VerificationResponse2 {
        uses: seen.verifications,
        success: true,
        action,
        max_uses: max_verifications,
        nullifier_hash: seen.nullifier,
        created_at: seen.created_at.to_iso_8601(),
        verification_level,
        message: VERIFIED,
    };
    Ok(json(StatusCode::OK, &answer))
}
