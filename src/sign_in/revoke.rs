//! `POST /revoke`: makes an access token invalid (RFC 7009).

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue};

use super::brute_force::guard;
use super::error::SignInEndpointError;
use super::form::read_token_request;
use super::state::SignIn;
use crate::http::{Request, Response, empty};

/// Revokes an access token of the calling client. Every other token gets the same answer, so that a
/// client learns nothing about the tokens of others. Access tokens are the only tokens that can be
/// revoked.
pub async fn revoke(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    guard(&sign_in, request.source(), revoke_token(&sign_in, request)).await
}

async fn revoke_token(sign_in: &SignIn, mut request: Request) -> Result<Response, SignInEndpointError> {
    let (client, token) = read_token_request(&sign_in.handle, &mut request, true).await?;
    sign_in.handle.revoke_token(&client.client.id, &token).await?;
    let mut response = empty(StatusCode::OK);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
