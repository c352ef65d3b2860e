//! `GET /.well-known/openid-configuration`, `GET /.well-known/oauth-authorization-server` and `GET
//! /jwks`.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use selfsame_protocol::sign_in::discovery::Discovery;
use serde_json::json as value;

use super::error::SignInEndpointError;
use super::schema::KeySet;
use super::state::SignIn;
use crate::http::{Request, Response, json};

/// How long clients may cache both answers. A new key is published for longer than this before it
/// signs.
const MAX_AGE: &str = "public, max-age=900";

/// The provider's metadata (OpenID Connect Discovery, RFC 8414)
#[utoipa::path(
    get, path = "/.well-known/openid-configuration", tag = "sign-in", operation_id = "openid_configuration",
    responses((status = 200, description = "The metadata", body = Discovery)),
)]
pub async fn discovery(sign_in: Arc<SignIn>, _: Request) -> Result<Response, SignInEndpointError> {
    let handle = &sign_in.handle;
    let document = Discovery::of(&handle.provider().issuer, &handle.signing_algorithms());
    Ok(make_cacheable(json(StatusCode::OK, &document)))
}

/// The public parts of the signing keys
#[utoipa::path(
    get, path = "/jwks", tag = "sign-in", operation_id = "jwks",
    responses((status = 200, description = "The key set (RFC 7517), oldest first", body = KeySet)),
)]
pub async fn jwks(sign_in: Arc<SignIn>, _: Request) -> Result<Response, SignInEndpointError> {
    let keys = sign_in.handle.published_keys().await?;
    Ok(make_cacheable(json(StatusCode::OK, &value!({ "keys": keys }))))
}

fn make_cacheable(mut response: Response) -> Response {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(MAX_AGE));
    response
}
