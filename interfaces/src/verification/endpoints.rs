//! The endpoints: proofs are checked for relying parties, and authenticators are told who asks for
//! one and how a relying party or an application stands.

use std::borrow::Cow;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use selfsame_actors::{SeenNullifier, Verification, VerificationError};
use selfsame_protocol::address;
use selfsame_protocol::json::from_object;
use selfsame_protocol::verification::Environment;
use selfsame_protocol::verification::answer::{
    AppStatusResponse, AttestationAudienceResponse, ContextAction, ContextRequest, ContextResponse,
    PartyStatusResponse, SESSION_VERIFIED, VERIFIED, VERIFIED_AGAIN, VerificationErrorBody, VerificationResponse,
    VerificationResponse2,
};
use selfsame_protocol::verification::directory::{ActionKey, AdmissionError, RelyingParty};
use selfsame_protocol::verification::request::{VerificationRequest, Version2Request};
use serde_json::Value;

use super::error::{Lookup, VerifyError};
use super::schema::{ContextBody, RequestBody, RequestBody2};
use super::{Caller, Endpoint};
use crate::http::{AuditNotes, AuditOutcome, Request, Response, json};

// `POST /api/v4/verify/{rp_id}`: checks proofs for a relying party.

/// Verify proofs
///
/// The body is a legacy request (`protocol_version` 3.0), a uniqueness request (4.0), a session
/// request (4.0 with a `session_id`), or a request with uniqueness proofs that are bound to a
/// session (4.0 with a `session_id` and `proof_type` `uniqueness`). The answer is 200 when at least
/// one proof verified; `results` has an entry for each proof. A nullifier that was seen before for
/// the same application, action and environment is also answered 200: the message says so, and
/// `created_at` is the first time.
///
/// The server of an application can show its secret. The limits then count the application, and not
/// the address that it relays strangers' proofs from.
#[utoipa::path(
    post, path = "/api/v4/verify/{rp_id}", tag = "verification", security(("client" = []), ()),
    params(("rp_id" = String, Path, pattern = "^(rp_[0-9a-fA-F]{16}|app_[A-Za-z0-9_-]{1,128})$", example = "rp_6765160973bf7042", description = "`rp_` and 16 hex digits, or the application's `app_…` id")),
    request_body(content = RequestBody, examples(
        ("Legacy" = (value = json!({"protocol_version":"3.0","nonce":"0x1","action":"verify-user","environment":"staging","responses":[{"identifier":"orb","merkle_root":"0x05ef13d87fbc71b618d65906be465af463bfedff9561282901de2de9f78bc777","nullifier":"0x022de8edbfa1fbb8148fee9c613079d43c6b8c1a1c6b19ba41b67e79a313054d","proof":"[[\"0x1\",\"0x2\"],[[\"0x3\",\"0x4\"],[\"0x5\",\"0x6\"]],[\"0x7\",\"0x8\"]]","signal_hash":"0x00c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a4","max_age":604800}]}))),
        ("Uniqueness" = (value = json!({"protocol_version":"4.0","nonce":"0x1","action":"verify-user","responses":[{"identifier":"proof_of_human","issuer_schema_id":1,"nullifier":"0x2a","expires_at_min":1796000000,"proof":["0x1","0x2","0x3","0x4","0x5"]}]}))),
        ("Uniqueness bound to a session" = (value = json!({"protocol_version":"4.0","proof_type":"uniqueness","nonce":"0x1","action":"verify-user","session_id":"session_000000000000000000000000000000000000000000000000000000000000002a0100000000000000000000000000000000000000000000000000000000000000","responses":[{"identifier":"proof_of_human","issuer_schema_id":1,"nullifier":"0x2a","expires_at_min":1796000000,"proof":["0x1","0x2","0x3","0x4","0x5"]}]}))),
        ("Session" = (value = json!({"protocol_version":"4.0","nonce":"0x1","session_id":"session_000000000000000000000000000000000000000000000000000000000000002a0100000000000000000000000000000000000000000000000000000000000000","responses":[{"identifier":"proof_of_human","issuer_schema_id":1,"session_nullifier":["0x2a","0x0200000000000000000000000000000000000000000000000000000000000007"],"expires_at_min":1796000000,"proof":["0x1","0x2","0x3","0x4","0x5"]}]}))),
    )),
    responses(
        (status = 200, description = "At least one proof verified", body = VerificationResponse, example = json!({"success":true,"protocol_version":"3.0","action":"verify-user","nullifier":"0x022de8edbfa1fbb8148fee9c613079d43c6b8c1a1c6b19ba41b67e79a313054d","created_at":"2026-07-01T00:00:00.000Z","environment":"staging","results":[{"identifier":"orb","success":true,"nullifier":"0x022de8edbfa1fbb8148fee9c613079d43c6b8c1a1c6b19ba41b67e79a313054d"}],"message":"Proof verified successfully"})),
        (status = 400, description = "Malformed, not acceptable, or no proof verified: `validation_error`, `protocol_version_not_allowed`, `invalid_request`, `app_not_migrated`, `rp_not_active`, `configuration_error`, `invalid_action`, `legacy_proofs_not_accepted`, `rp_signature_required`, `invalid_rp_signature`, `invalid_timestamp`, `timestamp_too_far_in_future`, `rp_signature_expired`, `duplicate_nonce`, `invalid_signal`, `all_verifications_failed`, `environment_mismatch`, `max_verifications_reached`", body = VerificationErrorBody, example = json!({"success":false,"code":"all_verifications_failed","detail":"no proof of the request verified; results says why for each","attribute":null,"app_id":"app_staging_169e21f6afc84b304749830067809632","results":[{"identifier":"orb","success":false,"code":"invalid_merkle_root","detail":"merkle_root is not a known root of staging; ask for a new proof"}]})),
        (status = 401, description = "The credentials of the application are wrong: `unauthenticated`"),
        (status = 403, description = "The path names another application than the credentials: `forbidden`; the integrity bundle is missing or does not hold: `integrity_verification_failed`"),
        (status = 404, description = "The application is not active: `not_found`"),
        (status = 429, description = "Rate limit exceeded, see Retry-After: `rate_limit_exceeded`"),
    ),
)]
pub async fn verify(endpoint: Arc<Endpoint>, mut request: Request) -> Result<Response, VerifyError> {
    let deadline = endpoint.verification.deadline();
    let malformed = |_| AdmissionError::InvalidRelyingPartyId { path: request.path().to_owned() };
    let rp_id = request.param("rp_id").map_err(malformed).map_err(VerificationError::from).map(Cow::into_owned);
    let caller = Caller::identify(&endpoint, &request, rp_id.as_deref().unwrap_or_default())?;
    let groups = endpoint.verification.known_groups();
    let asked = caller.read(&mut request, |body| VerificationRequest::read_with(body, &groups)).await?;
    let rp_id = rp_id?;
    caller.charge(&endpoint, &rp_id, asked.rp_signature, asked.proofs.count()).await?;
    let environment = asked.environment.name();
    let action = asked.proofs.action().map(str::to_owned);
    let session_id = asked.proofs.session_id().map(|session_id| session_id.text.clone());
    let audit = request.audit();
    audit.concerns(rp_id.as_str());
    let verification = endpoint.verification.verify(Some(request.source()), &rp_id, asked, deadline).await?;
    tell(audit, &verification);
    let Verification { kind, results, nullifier, is_reuse, integrity, .. } = verification;
    let message = match (&action, is_reuse) {
        (None, _) => SESSION_VERIFIED,
        (Some(_), false) => VERIFIED,
        (Some(_), true) => VERIFIED_AGAIN,
    };
    let answer = VerificationResponse {
        success: true,
        protocol_version: kind.protocol_version(),
        session_id,
        action,
        nullifier: nullifier.map(|seen| seen.nullifier),
        created_at: nullifier.map(|SeenNullifier { created_at, .. }| created_at.to_iso_8601()),
        environment,
        integrity: integrity.name(),
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
        audit.outcome(AuditOutcome::SuccessAgain);
    }
}

// `POST /api/v2/verify/{app_id}`: checks a legacy proof for an application, for servers that were
// written for the public interface before `protocol_version`.

/// Verify a legacy proof, in the form of version 2
///
/// The same checks and records as for a legacy request of `/api/v4/verify/{rp_id}`, whose answers
/// also name the protocol version and take signed nonces. The environment is staging for ids that
/// begin with `app_staging_`, production for others, unless the application does not have it. A
/// nullifier that was seen before is answered 200 while the action allows it; `uses` counts the
/// requests. An action without a setting counts a person once.
#[utoipa::path(
    post, path = "/api/v2/verify/{app_id}", tag = "verification", operation_id = "verify_version_2",
    security(("client" = []), ()),
    params(("app_id" = String, Path, pattern = "^app_[A-Za-z0-9_-]{1,128}$", example = "app_staging_169e21f6afc84b304749830067809632", description = "The application's `app_…` id")),
    request_body(content = RequestBody2),
    responses(
        (status = 200, description = "The proof verified", body = VerificationResponse2, example = json!({"uses":1,"success":true,"action":"verify-user","max_uses":1,"nullifier_hash":"0x022de8edbfa1fbb8148fee9c613079d43c6b8c1a1c6b19ba41b67e79a313054d","created_at":"2026-07-01T00:00:00.000Z","verification_level":"orb","message":"Proof verified successfully"})),
        (status = 400, description = "Malformed, not acceptable, or the proof did not verify: `validation_error`, `invalid_request`, `invalid_format`, `invalid_action`, `rp_not_active`, `configuration_error`, `legacy_proofs_not_accepted`, `rp_signature_required`, `invalid_merkle_root`, `root_too_old`, `invalid_proof`, `invalid_signal`, `identifier_not_accepted`, `max_verifications_reached`", body = VerificationErrorBody, example = json!({"success":false,"code":"invalid_merkle_root","detail":"merkle_root is not a known root of staging; ask for a new proof","attribute":null,"app_id":"app_staging_169e21f6afc84b304749830067809632"})),
        (status = 401, description = "The credentials of the application are wrong: `unauthenticated`"),
        (status = 403, description = "The path names another application than the credentials: `forbidden`; the application or the action takes only results with an integrity bundle, which this version has none of: `integrity_verification_failed`"),
        (status = 404, description = "There is no such application, or it is not active: `not_found`"),
        (status = 429, description = "Rate limit exceeded, see Retry-After: `rate_limit_exceeded`"),
    ),
)]
pub async fn verify_version_2(endpoint: Arc<Endpoint>, mut request: Request) -> Result<Response, VerifyError> {
    let deadline = endpoint.verification.deadline();
    let app_id = request.param("app_id")?.into_owned();
    let caller = Caller::identify(&endpoint, &request, &app_id)?;
    // A request of this version has no signature that could count for its application.
    if let Caller::Source { at_limit: Some(too_many), .. } = &caller {
        return Err((*too_many).into());
    }
    let groups = endpoint.verification.known_groups();
    let asked = caller.read(&mut request, |body| Version2Request::read(body, &groups)).await?;
    caller.charge(&endpoint, &app_id, None, 1).await?;
    let audit = request.audit();
    audit.concerns(app_id.as_str());
    let party = endpoint.verification.application(&app_id).ok_or(VerifyError::NoSuchApplication { app_id })?;
    let (action, verification_level) = (asked.action.clone(), asked.item.identifier);
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
        verification_level: verification_level.name().to_owned(),
        message: VERIFIED,
    };
    Ok(json(StatusCode::OK, &answer))
}

// `POST /api/v4/proof-context/{id}`: who asks for a proof, for the authenticator that shows it.

/// The longest body of a request, in bytes.
const BODY_LIMIT: usize = 64 * 1024;

/// Who asks for a proof
///
/// What an authenticator shows before it asks the person. The name, the URLs and the description
/// are those that the operator registered; an action without a setting has no description.
#[utoipa::path(
    post, path = "/api/v4/proof-context/{id}", tag = "verification",
    params(("id" = String, Path, pattern = "^(rp_[0-9a-fA-F]{16}|app_[A-Za-z0-9_-]{1,128})$", example = "rp_6765160973bf7042", description = "`rp_` and 16 hex digits, or the application's `app_…` id")),
    request_body(content = ContextBody),
    responses(
        (status = 200, description = "The application, and the action that the body names", body = ContextResponse, example = json!({"app_id":"app_969d38c8ba9adf22a4ac3b2d4400575a","rp_id":"rp_6765160973bf7042","name":"Example","is_verified":true,"verified_app_logo":"","unverified_app_logo":"","integration_url":"https://app.example","action":{"action":"vote","description":"","environment":"production"}})),
        (status = 400, description = "`validation_error`, `invalid_request`, `not_registered`, `rp_not_active`", body = VerificationErrorBody, example = json!({"success":false,"code":"not_registered","detail":"there is no relying party \"app_other\"; register its application, or use the id it was given","attribute":null})),
        (status = 404, description = "The application is not active: `not_found`"),
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
        signing_key: party.signing.map(|rule| address::text(&rule.signer)),
        require_signed_requests: party.signing.is_some_and(|rule| rule.is_required),
        action,
    };
    Ok(json(StatusCode::OK, &answer))
}

// `GET /api/v4/rp-status/{rp_id}`: how a relying party stands in both environments.

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
        (status = 404, description = "There is no such relying party: `not_found`"),
    ),
)]
pub async fn rp_status(endpoint: Arc<Endpoint>, request: Request) -> Result<Response, VerifyError> {
    let rp_id = request.param("rp_id")?;
    let failed = |error| Lookup::RpStatus.failed(error);
    if rp_id.starts_with("app_") {
        return Err(failed(AdmissionError::InvalidRelyingPartyId { path: rp_id.into_owned() }));
    }
    let party = endpoint.verification.relying_party(&rp_id).map_err(failed)?;
    Ok(json(StatusCode::OK, &standings(&endpoint, &party)))
}

fn standings(endpoint: &Endpoint, party: &RelyingParty) -> PartyStatusResponse {
    let standing = |environment| endpoint.verification.standing(party, environment).name();
    let has_staging = party.environments.contains(&Environment::Staging);
    PartyStatusResponse {
        production_status: standing(Environment::Production),
        staging_status: has_staging.then(|| standing(Environment::Staging)),
    }
}

// `GET /api/v4/app-status/{id}`: whether an authenticator may show an application as verified.

/// How long caches keep the answer, in seconds, and how long while the service is away.
const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=5, stale-if-error=300");

/// Whether an application is verified
///
/// An application is verified while the operator of the service has registered it and serves it.
#[utoipa::path(
    get, path = "/api/v4/app-status/{id}", tag = "verification",
    params(("id" = String, Path, pattern = "^(rp_[0-9a-fA-F]{16}|app_[A-Za-z0-9_-]{1,128})$", example = "rp_6765160973bf7042", description = "`rp_` and 16 hex digits, or the application's `app_…` id")),
    responses(
        (status = 200, description = "Whether it is", body = AppStatusResponse, example = json!({"verified":true})),
        (status = 400, description = "`invalid_id`", body = VerificationErrorBody, example = json!({"success":false,"code":"invalid_id","detail":"\"x\" is neither a relying-party id (rp_ and 16 hex digits) nor an application id (app_…)","attribute":"id"})),
        (status = 404, description = "There is no such application: `not_found`"),
    ),
)]
pub async fn app_status(endpoint: Arc<Endpoint>, request: Request) -> Result<Response, VerifyError> {
    let id = request.param("id")?;
    let party = endpoint.verification.relying_party(&id).map_err(|error| Lookup::AppStatus.failed(error))?;
    let mut response = json(StatusCode::OK, &AppStatusResponse { verified: party.has_active_application });
    response.headers_mut().insert(CACHE_CONTROL, CACHED);
    Ok(response)
}

// `GET /api/v4/attestation-audience/{id}`: how an application stands, for an attestation issuer.

/// How an application stands, for an attestation issuer
///
/// An attestation issuer asks before it gives out a token for an application's relying party.
#[utoipa::path(
    get, path = "/api/v4/attestation-audience/{id}", tag = "verification",
    params(("id" = String, Path, pattern = "^(rp_[0-9a-fA-F]{16}|app_[A-Za-z0-9_-]{1,128})$", example = "rp_6765160973bf7042", description = "`rp_` and 16 hex digits, or the application's `app_…` id")),
    responses(
        (status = 200, description = "The application, its relying party, and how it stands in both environments", body = AttestationAudienceResponse, example = json!({"app_id":"app_969d38c8ba9adf22a4ac3b2d4400575a","rp_id":"rp_6765160973bf7042","production_registration_status":"registered","staging_registration_status":null,"verified":true})),
        (status = 400, description = "`invalid_id`", body = VerificationErrorBody, example = json!({"success":false,"code":"invalid_id","detail":"\"x\" is neither a relying-party id (rp_ and 16 hex digits) nor an application id (app_…)","attribute":"id"})),
        (status = 404, description = "There is no such application: `not_found`"),
    ),
)]
pub async fn attestation_audience(endpoint: Arc<Endpoint>, request: Request) -> Result<Response, VerifyError> {
    let id = request.param("id")?;
    let party = endpoint.verification.relying_party(&id).map_err(|error| Lookup::AppStatus.failed(error))?;
    let standings = standings(&endpoint, &party);
    let answer = AttestationAudienceResponse {
        app_id: party.app_id.clone(),
        rp_id: party.rp_id.to_string(),
        production_registration_status: standings.production_status,
        staging_registration_status: standings.staging_status,
        verified: party.has_active_application,
    };
    let mut response = json(StatusCode::OK, &answer);
    response.headers_mut().insert(CACHE_CONTROL, CACHED);
    Ok(response)
}
