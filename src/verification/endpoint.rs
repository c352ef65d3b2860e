//! `POST /api/v4/verify/{rp_id}`: checks proofs for a relying party.

use std::borrow::Cow;
use std::sync::Arc;

use hyper::StatusCode;
use selfsame_actors::{SeenNullifier, Verification, VerificationError};
use selfsame_protocol::verification::answer::{
    SESSION_VERIFIED, VERIFIED, VERIFIED_AGAIN, VerificationErrorBody, VerificationResponse,
};
use selfsame_protocol::verification::directory::AdmissionError;
use selfsame_protocol::verification::request::{Proofs, VerificationRequest};

use super::caller::Caller;
use super::error::VerifyError;
use super::schema::RequestBody;
use super::state::Endpoint;
use crate::http::{AuditNotes, Request, Response, json};

/// Verify proofs
///
/// The body is a legacy request (`protocol_version` 3.0), a uniqueness request (4.0), or a session
/// request (4.0 with a `session_id`). The answer is 200 when at least one proof verified; `results`
/// has an entry for each proof. A nullifier that was seen before for the same application, action
/// and environment is also answered 200: the message says so, and `created_at` is the first time.
///
/// The server of an application can show its secret. The limits then count the application, and not
/// the address that it relays strangers' proofs from.
#[utoipa::path(
    post, path = "/api/v4/verify/{rp_id}", tag = "verification", security(("client" = []), ()),
    params(("rp_id" = String, Path, pattern = "^(rp_[0-9a-fA-F]{16}|app_[A-Za-z0-9_-]{1,128})$", example = "rp_6765160973bf7042", description = "`rp_` and 16 hex digits, or the application's `app_…` id")),
    request_body(content = RequestBody, examples(
        ("Legacy" = (value = json!({"protocol_version":"3.0","nonce":"0x1","action":"verify-user","environment":"staging","responses":[{"identifier":"orb","merkle_root":"0x05ef13d87fbc71b618d65906be465af463bfedff9561282901de2de9f78bc777","nullifier":"0x022de8edbfa1fbb8148fee9c613079d43c6b8c1a1c6b19ba41b67e79a313054d","proof":"[[\"0x1\",\"0x2\"],[[\"0x3\",\"0x4\"],[\"0x5\",\"0x6\"]],[\"0x7\",\"0x8\"]]","signal_hash":"0x00c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a4","max_age":604800}]}))),
        ("Uniqueness" = (value = json!({"protocol_version":"4.0","nonce":"0x1","action":"verify-user","responses":[{"identifier":"proof_of_human","issuer_schema_id":1,"nullifier":"0x2a","expires_at_min":1796000000,"proof":["0x1","0x2","0x3","0x4","0x5"]}]}))),
        ("Session" = (value = json!({"protocol_version":"4.0","nonce":"0x1","session_id":"session_000000000000000000000000000000000000000000000000000000000000002a0100000000000000000000000000000000000000000000000000000000000000","responses":[{"identifier":"proof_of_human","issuer_schema_id":1,"session_nullifier":["0x2a","0x0200000000000000000000000000000000000000000000000000000000000007"],"expires_at_min":1796000000,"proof":["0x1","0x2","0x3","0x4","0x5"]}]}))),
    )),
    responses(
        (status = 200, description = "At least one proof verified", body = VerificationResponse, example = json!({"success":true,"protocol_version":"3.0","action":"verify-user","nullifier":"0x022de8edbfa1fbb8148fee9c613079d43c6b8c1a1c6b19ba41b67e79a313054d","created_at":"2026-07-01T00:00:00.000Z","environment":"staging","results":[{"identifier":"orb","success":true,"nullifier":"0x022de8edbfa1fbb8148fee9c613079d43c6b8c1a1c6b19ba41b67e79a313054d"}],"message":"Proof verified successfully"})),
        (status = 400, description = "Malformed, not acceptable, or no proof verified: `validation_error`, `protocol_version_not_allowed`, `invalid_request`, `app_not_migrated`, `rp_not_active`, `configuration_error`, `invalid_action`, `legacy_proofs_not_accepted`, `rp_signature_required`, `invalid_rp_signature`, `invalid_timestamp`, `timestamp_too_far_in_future`, `rp_signature_expired`, `duplicate_nonce`, `invalid_signal`, `all_verifications_failed`, `environment_mismatch`, `max_verifications_reached`", body = VerificationErrorBody, example = json!({"success":false,"code":"all_verifications_failed","detail":"no proof of the request verified; results says why for each","attribute":null,"app_id":"app_staging_169e21f6afc84b304749830067809632","results":[{"identifier":"orb","success":false,"code":"invalid_merkle_root","detail":"merkle_root is not a known root of staging; ask for a new proof"}]})),
        (status = 401, description = "The credentials of the application are wrong: `unauthenticated`", body = VerificationErrorBody),
        (status = 403, description = "The path names another application than the credentials: `forbidden`", body = VerificationErrorBody),
        (status = 404, description = "The application is not active: `not_found`", body = VerificationErrorBody),
        (status = 429, description = "Rate limit exceeded, see Retry-After: `rate_limit_exceeded`", body = VerificationErrorBody),
    ),
)]
pub async fn verify(endpoint: Arc<Endpoint>, mut request: Request) -> Result<Response, VerifyError> {
    let deadline = endpoint.verification.deadline();
    let malformed = |_| AdmissionError::InvalidRelyingPartyId { path: request.path().to_owned() };
    let rp_id = request.param("rp_id").map_err(malformed).map_err(VerificationError::from).map(Cow::into_owned);
    let caller = Caller::identify(&endpoint, &request, rp_id.as_deref().unwrap_or_default())?;
    let asked = caller.read(&mut request, VerificationRequest::read).await?;
    let rp_id = rp_id?;
    caller.charge(&endpoint, &rp_id, asked.rp_signature, asked.proofs.count()).await?;
    let environment = asked.environment.name();
    let (action, session_id) = match &asked.proofs {
        Proofs::Legacy { action, .. } | Proofs::Uniqueness { action, .. } => (Some(action.clone()), None),
        Proofs::Session { session_id, .. } => (None, Some(session_id.text.clone())),
    };
    let audit = request.audit();
    audit.concerns(rp_id.as_str());
    let verification = endpoint.verification.verify(Some(request.source()), &rp_id, asked, deadline).await?;
    tell(audit, &verification);
    let Verification { kind, results, nullifier, is_reuse, .. } = verification;
    let message = match (&session_id, is_reuse) {
        (Some(_), _) => SESSION_VERIFIED,
        (None, false) => VERIFIED,
        (None, true) => VERIFIED_AGAIN,
    };
    let answer = VerificationResponse {
        success: true,
        protocol_version: kind.protocol_version(),
        session_id,
        action,
        nullifier: nullifier.map(|seen| seen.nullifier),
        created_at: nullifier.map(|SeenNullifier { created_at, .. }| created_at.to_iso_8601()),
        environment,
        results,
        message,
    };
    Ok(json(StatusCode::OK, &answer))
}

/// Tells the audit trail whose proof verified.
pub(super) fn tell(audit: &AuditNotes, verification: &Verification) {
    audit.client(&verification.app_id);
    if let Some(seen) = &verification.nullifier {
        audit.person(seen.nullifier.0.to_be_bytes());
    }
    if verification.is_reuse {
        audit.outcome("success_again");
    }
}
