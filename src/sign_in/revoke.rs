//! `POST /revoke`: makes an access token invalid (RFC 7009).

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use selfsame_protocol::sign_in::error::SignInRejection;

use super::brute_force::guard;
use super::error::SignInEndpointError;
use super::form::{authenticate, read_form};
use super::state::SignIn;
use crate::http::{Request, Response, empty};

const KNOWN: [&str; 4] = ["token", "token_type_hint", "client_id", "client_secret"];

/// Revokes an access token of the calling client. Every other token gets the same answer, so that a
/// client learns nothing about the tokens of others. `token_type_hint` has no effect: access tokens
/// are the only tokens that can be revoked.
pub async fn revoke(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    guard(&sign_in, request.source(), revoke_token(&sign_in, request)).await
}

async fn revoke_token(sign_in: &SignIn, mut request: Request) -> Result<Response, SignInEndpointError> {
    let form = read_form(&mut request, &KNOWN).await?;
    let client = authenticate(&sign_in.handle, &request, &form, true)?;
    let token = form.get("token").ok_or_else(|| SignInRejection::required("token"))?;
    sign_in.handle.revoke_token(&client.client.id, token).await?;
    let mut response = empty(StatusCode::OK);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
