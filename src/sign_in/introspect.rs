//! `POST /introspect`: whether an access token is active (RFC 7662).

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_actors::{IssuedItem, SignInError};
use selfsame_protocol::sign_in::response::{ErrorBody, ErrorKind, SignInRejection};
use serde_json::json as value;

use super::brute_force::count_failure;
use super::error::SignInEndpointError;
use super::form::read_token_request;
use super::schema::{AboutToken, Introspection};
use super::state::SignIn;
use crate::http::{Request, Response, json};

/// Describe an access token
///
/// Describes an active token of the calling client. Every other token, another client's included,
/// gets the answer for an inactive token.
#[utoipa::path(
    post, path = "/introspect", tag = "sign-in", operation_id = "introspect", security(("client" = []), ()),
    request_body(content = AboutToken, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "The token is active; or, where the operator has chosen the form of RFC 7662, whether it is", body = Introspection),
        (status = 400, description = "`invalid_content_type`, `invalid_request`, `required`", body = ErrorBody),
        (status = 401, description = "The client's credentials are missing or wrong (`unauthenticated`), or the token is not active (`invalid_token`, with `\"active\":false`)", body = ErrorBody),
        (status = 429, description = "Too many wrong secrets from this address, see Retry-After: `rate_limit`", body = ErrorBody),
    ),
)]
pub async fn introspect(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInEndpointError> {
    let source = request.source();
    let read = read_token_request(&sign_in.handle, &mut request, false).await;
    // The token is not a guess of the client, which has shown its secret.
    let (client, token) = read.map_err(|error| count_failure(&sign_in, source, error))?;
    sign_in.handle.await_given(IssuedItem::Token(&token), None).await?;
    let live = sign_in.handle.live_token(&token).map_err(SignInError::from)?;
    let Some(live) = live.filter(|live| live.token.client_id == client.client.id) else {
        if sign_in.handle.answers_inactive_tokens_plainly() {
            return Ok(json(StatusCode::OK, &value!({"active": false})));
        }
        let detail = "the token is unknown or has expired";
        return Err(SignInEndpointError::Inactive(SignInRejection::of("token", ErrorKind::InvalidToken, detail)));
    };
    let answer = value!({
        "active": true,
        "client_id": live.token.client_id,
        "exp": live.expires_at,
        "iat": live.token.issued_at,
        "iss": sign_in.handle.provider().issuer,
        "scope": live.token.scopes.text(),
        "sub": live.token.person.subject(),
        "token_type": "Bearer",
    });
    Ok(json(StatusCode::OK, &answer))
}
