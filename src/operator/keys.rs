//! `GET /keys`: the keys that ID tokens are signed with; `POST /keys/rotate`: promotes the next
//! one; `POST /keys/revoke`: removes one at once.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use hyper::StatusCode;
use selfsame_actors::KeyState;
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::json::from_object;
use selfsame_protocol::operator::{Key, Revoke, Rotate};

use super::error::OperatorError;
use super::state::Operator;
use crate::http::{Request, Response, json};

const BODY_LIMIT: usize = 4096;

fn key(KeyState { id, state, published_at }: KeyState) -> Key {
    let published_at = UNIX_EPOCH + published_at.since_epoch();
    Key { kid: id, state: state.to_owned(), published_at: humantime::format_rfc3339_seconds(published_at).to_string() }
}

/// The signing keys
///
/// The signing keys, oldest first.
#[utoipa::path(
    get, path = "/keys", tag = "operator", operation_id = "list_keys", security(("operatorToken" = [])),
    responses(
        (status = 200, description = "The keys", body = Vec<Key>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn list(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let keys: Vec<Key> = operator.service.sign_in().signing_keys().await?.into_iter().map(key).collect();
    Ok(json(StatusCode::OK, &keys))
}

/// Promote the next key
///
/// Promotes the next key and publishes a new one behind it.
#[utoipa::path(
    post, path = "/keys/rotate", tag = "operator", operation_id = "rotate_keys", security(("operatorToken" = [])),
    request_body = Rotate,
    responses(
        (status = 200, description = "The keys after the change", body = Vec<Key>),
        (status = 400, description = "Malformed, or without `now` the next key is published for less than 3600 s: `bad_request`", body = ServiceApiError<String>),
        (status = 503, description = "The leader of the cluster cannot be asked, or the daemon is overloaded: `unavailable`", body = ServiceApiError<String>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn rotate(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let body = request.read_json(BODY_LIMIT).await?;
    let Rotate { now } = from_object(&body)?;
    let sign_in = operator.service.sign_in();
    sign_in.rotate_keys(now).await??;
    let keys: Vec<Key> = sign_in.signing_keys().await?.into_iter().map(key).collect();
    if let Some(current) = keys.iter().find(|key| key.state == "current") {
        request.audit().concerns(current.kid.as_str());
    }
    Ok(json(StatusCode::OK, &keys))
}

/// Remove a key at once
///
/// Removes a key at once, and ends the sign-ins when the body says so.
#[utoipa::path(
    post, path = "/keys/revoke", tag = "operator", operation_id = "revoke_key", security(("operatorToken" = [])),
    request_body = Revoke,
    responses(
        (status = 200, description = "The keys after the change", body = Vec<Key>),
        (status = 400, description = "Malformed, or no key has the id: `bad_request`", body = ServiceApiError<String>),
        (status = 503, description = "The leader of the cluster cannot be asked, or the daemon is overloaded: `unavailable`", body = ServiceApiError<String>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn revoke(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let body = request.read_json(BODY_LIMIT).await?;
    let Revoke { kid, end_sessions } = from_object(&body)?;
    let audit = request.audit();
    let sign_in = operator.service.sign_in();
    sign_in.revoke_key(&kid, end_sessions).await??;
    // Only now is the text known to be the id of a key. It could be a token that was pasted.
    audit.concerns(kid.as_str());
    if end_sessions {
        audit.outcome("success_sessions_ended");
    }
    let keys: Vec<Key> = sign_in.signing_keys().await?.into_iter().map(key).collect();
    Ok(json(StatusCode::OK, &keys))
}
