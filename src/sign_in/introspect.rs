//! `POST /introspect`: whether an access token is active (RFC 7662).

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_actors::{Given, SignInError};
use selfsame_protocol::sign_in::error::{ErrorKind, SignInRejection};
use serde_json::json as value;

use super::brute_force::guard;
use super::error::SignInEndpointError;
use super::form::read_token_request;
use super::state::SignIn;
use crate::http::{Request, Response, json};

/// Describes an active token of the calling client. Every other token, another client's included,
/// gets the answer for an inactive token.
pub async fn introspect(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    guard(&sign_in, request.source(), describe(&sign_in, request)).await
}

async fn describe(sign_in: &SignIn, mut request: Request) -> Result<Response, SignInEndpointError> {
    let (client, token) = read_token_request(&sign_in.handle, &mut request, false).await?;
    sign_in.handle.await_given(Given::Token(&token)).await.map_err(SignInError::from)?;
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
