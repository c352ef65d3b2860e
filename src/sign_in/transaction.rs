//! `/authorize/{transaction}/…`: what an authenticator reads and answers, and how the browser goes on.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::AUTHORIZATION;
use selfsame_actors::{
    Completed, LEGACY_ROOT_AGE, Progress, ProofRequest, SIGN_IN_ACTION, SessionCookie, SignInFailure, TransactionId,
};
use selfsame_protocol::json::from_object;
use selfsame_protocol::number;
use selfsame_protocol::sign_in::error::{ErrorKind, SignInError};
use selfsame_protocol::sign_in::response::Delivery;
use selfsame_protocol::verification::ProofKind;
use selfsame_protocol::verification::hash::hash_text;
use selfsame_protocol::verification::request::{Proofs, VerificationRequest};
use serde_json::{Value, json as value};
use tokio::time::Instant;

use super::SignIn;
use super::authorize::{SESSION_COOKIE, TRANSACTION_COOKIE, accepts_html, accepts_json, cookie, delivered, set_cookie};
use super::error::SignInFault;
use super::page;
use crate::http::{Request, Response, json};

/// The longest body of an answer.
const BODY_LIMIT: usize = 64 * 1024;

/// How long the progress of a transaction is held back while nothing happens, in seconds.
const HOLD: u64 = 25;

/// Holding back is exempt from the request timeout; this bounds it all the same.
pub const TIME_LIMIT: Duration = Duration::from_secs(HOLD + 10);

/// What the authenticator is asked for. A browser is told what the address is for.
pub async fn request(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInFault> {
    let id = transaction_id(&request)?;
    let asked = sign_in.handle.proof_request(id)?;
    let url = format!("{}/authorize/{id}/request", sign_in.handle.provider().issuer);
    if accepts_html(&request) {
        return Ok(page::for_authenticators(sign_in.root(), &url));
    }
    let version = match asked.proof {
        ProofKind::Legacy => "3.0",
        ProofKind::Current => "4.0",
    };
    let answer = value!({
        "app_id": asked.app_id,
        "app_name": asked.app_name,
        "action": asked.action,
        "signal": asked.signal,
        "nonce": number::canonical(asked.nonce),
        "protocol_versions": [version],
        "environment": asked.environment,
        "scopes": asked.scopes.text(),
        "expires_at": asked.expires_at,
        "answered": asked.is_answered,
        "answer_url": format!("{}/authorize/{id}/proof", sign_in.handle.provider().issuer),
    });
    Ok(json(StatusCode::OK, &answer))
}

/// The authenticator's answer: a verification request with exactly one proof, or `{"error":"access_denied"}`.
pub async fn proof(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInFault> {
    let id = transaction_id(&request)?;
    sign_in.handle.charge_source(request.source())?;
    let body = request.read_json(BODY_LIMIT).await?;
    let wrong = |detail: String| SignInError::new(ErrorKind::InvalidRequest, detail);
    let body: Value = from_object(&body).map_err(|error| wrong(error.to_string()))?;
    if let Some(error) = body.get("error") {
        if error != "access_denied" {
            return Err(wrong("error must be access_denied".to_owned()).into());
        }
        sign_in.handle.refuse(id).await?;
        return Ok(json(StatusCode::OK, &value!({"success": true})));
    }
    let asked = sign_in.handle.proof_request(id)?;
    let request = bound_to(&asked, body)?;
    // There is exactly one.
    let named = request.proofs.named();
    let (identifier, nullifier) =
        named.first().map(|(identifier, nullifier)| ((*identifier).to_owned(), nullifier.value)).unwrap_or_default();
    sign_in.handle.answer(id, request, &identifier, nullifier).await?;
    Ok(json(StatusCode::OK, &value!({"success": true})))
}

/// The answer as a request for the transaction's own action, nonce, signal and environment, whatever it says itself.
fn bound_to(asked: &ProofRequest, mut body: Value) -> Result<VerificationRequest, SignInError> {
    let wrong = |attribute: &'static str, detail: String| SignInError::of(attribute, ErrorKind::InvalidRequest, detail);
    let version = match asked.proof {
        ProofKind::Legacy => "3.0",
        ProofKind::Current => "4.0",
    };
    if body["protocol_version"] != version {
        return Err(wrong("protocol_version", format!("protocol_version must be {version:?} for this application")));
    }
    if body.get("session_id").is_some_and(|session| !session.is_null()) {
        return Err(wrong("session_id", "session_id must be left out; a session proof is no sign-in".to_owned()));
    }
    let signal_hash = format!("{:#066x}", hash_text(&asked.signal));
    body["action"] = SIGN_IN_ACTION.into();
    body["nonce"] = number::canonical(asked.nonce).into();
    body["environment"] = asked.environment.name().into();
    match body["responses"].as_array_mut().map(Vec::as_mut_slice) {
        Some([item]) if item.is_object() => {
            item["signal_hash"] = signal_hash.into();
            item["max_age"] = LEGACY_ROOT_AGE.into();
        }
        _ => return Err(wrong("responses", "responses must have exactly one entry, an object".to_owned())),
    }
    let mut request = VerificationRequest::read(&body).map_err(|error| {
        SignInError::of(
            "responses",
            ErrorKind::InvalidRequest,
            format!("{}: {error}", error.attribute.as_deref().unwrap_or("body")),
        )
    })?;
    // The reader wants an action; a legacy sign-in has the empty one.
    if let Proofs::Legacy { action, .. } = &mut request.proofs {
        *action = asked.action.to_owned();
    }
    Ok(request)
}

/// Where the transaction stands, for who cannot follow [`super::events`]; holds the answer back for a while as long as nothing happens.
pub async fn progress(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInFault> {
    let (id, secret) = (transaction_id(&request)?, secret(&request)?);
    let deadline = Instant::now() + Duration::from_secs(HOLD);
    let progress = tokio::select! {
        progress = sign_in.handle.follow(id, &secret, deadline) => progress?,
        () = request.shutdown().triggered() => sign_in.handle.progress(id, &secret)?,
    };
    Ok(json(StatusCode::OK, &value!({"state": state_name(progress)})))
}

/// What pages and programs are told.
pub(super) fn state_name(progress: Progress) -> &'static str {
    match progress {
        Progress::Waiting => "waiting",
        Progress::Answered => "answered",
        Progress::Over => "over",
    }
}

/// Sends the browser back to the application, once.
pub async fn complete(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInFault> {
    let is_person = accepts_html(&request);
    let path = format!("{}{}", sign_in.root(), request.path());
    match completed(&sign_in, request).await {
        Err(SignInFault::Refused(error) | SignInFault::Failed(SignInFailure::Refused(error))) if is_person => {
            let is_early = error.kind == ErrorKind::InvalidRequest;
            let status = if is_early { StatusCode::BAD_REQUEST } else { StatusCode::NOT_FOUND };
            Ok(page::not_yet(sign_in.root(), status, &error, is_early.then_some(path.as_str())))
        }
        other => other,
    }
}

async fn completed(sign_in: &SignIn, request: Request) -> Result<Response, SignInFault> {
    let (id, secret) = (transaction_id(&request)?, secret(&request)?);
    let session = match cookie(&request, SESSION_COOKIE) {
        _ if cookie(&request, TRANSACTION_COOKIE).is_none() => SessionCookie::Unwanted,
        Some(session) => SessionCookie::Given(session),
        None => SessionCookie::Missing,
    };
    let Completed { delivery, new_session } = sign_in.handle.complete(id, &secret, session).await?;
    let mut response = match delivery {
        Delivery::Post { action, fields } if accepts_json(&request) => {
            let fields: serde_json::Map<String, Value> =
                fields.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
            json(StatusCode::OK, &value!({"action": action, "fields": fields}))
        }
        delivery => delivered(sign_in, delivery),
    };
    if let Some(session) = new_session {
        let seconds = sign_in.handle.session_lifetime().as_secs();
        set_cookie(sign_in, &mut response, SESSION_COOKIE, &session, "", seconds);
    }
    Ok(response)
}

pub(super) fn transaction_id(request: &Request) -> Result<TransactionId, SignInFault> {
    let not_found = || SignInError::new(ErrorKind::NotFound, "no such sign-in is under way; it may have expired");
    request.param("transaction")?.parse().map_err(|()| not_found().into())
}

/// The transaction's secret: of its cookie, or as a Bearer header for programs.
pub(super) fn secret(request: &Request) -> Result<String, SignInFault> {
    if let Some(secret) = request.header(&AUTHORIZATION)?.and_then(|header| header.strip_prefix("Bearer ")) {
        return Ok(secret.to_owned());
    }
    let found = cookie(request, TRANSACTION_COOKIE).map(str::to_owned);
    let missing = || SignInError::new(ErrorKind::NotFound, "this sign-in was begun in another browser");
    found.ok_or_else(|| missing().into())
}
