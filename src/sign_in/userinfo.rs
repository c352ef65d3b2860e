//! `GET` and `POST /userinfo`: the claims about the person of an access token.

use std::sync::Arc;

use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, StatusCode};
use selfsame_actors::{IssuedItem, SignInError};
use selfsame_protocol::sign_in::response::{ErrorBody, ErrorKind, SignInRejection};

use super::brute_force::count_failure;
use super::error::SignInEndpointError;
use super::form::{is_form, read_form};
use super::schema::Claims;
use super::state::SignIn;
use crate::http::{Authorization, Rejection, Request, Response, challenge, json, reject};

/// The claims of the token's person and scopes
///
/// Also by POST, with the token as the form field `access_token` or in the header.
#[utoipa::path(
    get, path = "/userinfo", tag = "sign-in", operation_id = "userinfo", security(("accessToken" = [])),
    responses(
        (status = 200, description = "The claims", body = Claims),
        (status = 400, description = "`invalid_request`", body = ErrorBody),
        (status = 401, description = "The token is missing (`unauthenticated`) or not valid (`invalid_token`)", body = ErrorBody),
        (status = 429, description = "Too many wrong tokens from this address, see Retry-After: `rate_limit`", body = ErrorBody),
    ),
)]
pub async fn userinfo(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    let source = request.source();
    claims(&sign_in, request).await.map_err(|error| count_failure(&sign_in, source, error)).or_else(|error| {
        // RFC 6750, section 3: every rejection says how to authenticate.
        let is_malformed = match &error {
            SignInEndpointError::Http(rejection) => matches!(rejection, Rejection::BadRequest(_)),
            error => error.rejection().is_some_and(|rejection| rejection.kind == ErrorKind::InvalidRequest),
        };
        if !is_malformed {
            return Err(error);
        }
        let mut response = reject(error);
        let challenge = HeaderValue::from_static(challenge::ACCESS_TOKEN_MALFORMED);
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        Ok(response)
    })
}

async fn claims(sign_in: &SignIn, mut request: Request) -> Result<Response, SignInEndpointError> {
    let source = request.source();
    let token = access_token(&mut request).await?;
    sign_in.handle.await_given(IssuedItem::Token(&token), Some(source)).await?;
    let live =
        sign_in.handle.live_token(&token).map_err(SignInError::from)?.ok_or_else(|| {
            SignInRejection::new(ErrorKind::InvalidToken, "the access token is unknown or has expired")
        })?;
    let claims = sign_in.handle.provider().person_claims(&live.token.person, live.token.scopes);
    Ok(json(StatusCode::OK, &claims))
}

/// The token of the header, or of a posted form (RFC 6750, sections 2.1 and 2.2); a request with
/// both is rejected.
async fn access_token(request: &mut Request) -> Result<String, SignInEndpointError> {
    let missing =
        || SignInRejection::new(ErrorKind::TokenMissing, "the access token is missing; send it as a Bearer header");
    let header = match request.authorization(challenge::ACCESS_TOKEN_MALFORMED)? {
        None => None,
        Some(Authorization::Bearer(token)) if !token.is_empty() => Some(token.into_owned()),
        Some(_) => return Err(missing().into()),
    };
    let form = match *request.method() == Method::POST && is_form(request)? {
        true => read_form(request, &["access_token"]).await?.get("access_token").map(str::to_owned),
        false => None,
    };
    match (header, form) {
        (Some(_), Some(_)) => {
            let detail = "the access token is given in the header and in the form; use one of them";
            Err(SignInEndpointError::Unreadable(SignInRejection::new(ErrorKind::InvalidRequest, detail)))
        }
        (Some(token), None) | (None, Some(token)) => Ok(token),
        (None, None) => Err(missing().into()),
    }
}
