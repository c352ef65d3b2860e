//! `POST /revoke`: makes an access token invalid (RFC 7009).

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use selfsame_actors::IssuedItem;
use selfsame_protocol::sign_in::response::ErrorBody;

use super::brute_force::count_failure;
use super::error::SignInEndpointError;
use super::form::read_token_request;
use super::schema::AboutToken;
use super::state::SignIn;
use crate::http::{Request, Response, empty};

/// Revoke an access token
///
/// Revokes an access token of the calling client. Every other token gets the same answer, so that a
/// client learns nothing about the tokens of others. Access tokens are the only tokens that can be
/// revoked.
#[utoipa::path(
    post, path = "/revoke", tag = "sign-in", operation_id = "revoke", security(("client" = []), ()),
    request_body(content = AboutToken, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "The token is not valid any more, or never was"),
        (status = 400, description = "`invalid_content_type`, `invalid_request`, `required`, `unsupported_token_type`", body = ErrorBody),
        (status = 401, description = "The client's credentials are missing or wrong: `unauthenticated`", body = ErrorBody),
        (status = 429, description = "Too many wrong secrets from this address, see Retry-After: `rate_limit`", body = ErrorBody),
    ),
)]
pub async fn revoke(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInEndpointError> {
    let source = request.source();
    let read = read_token_request(&sign_in.handle, &mut request, true).await;
    let (client, token) = read.map_err(|error| count_failure(&sign_in, source, error))?;
    sign_in.handle.await_given(IssuedItem::Token(&token), client.client.is_public.then_some(source)).await?;
    sign_in.handle.revoke_token(&client.client.id, &token).await?;
    let mut response = empty(StatusCode::OK);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
