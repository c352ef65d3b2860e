//! `GET` and `POST /userinfo`: the claims about the person of an access token.

use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, StatusCode};
use selfsame_actors::{Given, SignInError};
use selfsame_protocol::sign_in::error::{ErrorBody, ErrorKind, SignInRejection};

use super::brute_force::guard;
use super::error::SignInEndpointError;
use super::form::{is_form, read_form};
use super::schema::Claims;
use super::state::SignIn;
use crate::http::{Request, Response, json, reject};

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
    guard(&sign_in, request.source(), claims(&sign_in, request)).await.or_else(|error| match error.rejection() {
        // RFC 6750, section 3: every rejection says how to authenticate.
        Some(rejection) if rejection.kind == ErrorKind::InvalidRequest => {
            let mut response = reject(error);
            let challenge = HeaderValue::from_static(r#"Bearer realm="selfsame", error="invalid_request""#);
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            Ok(response)
        }
        _ => Err(error),
    })
}

async fn claims(sign_in: &SignIn, mut request: Request) -> Result<Response, SignInEndpointError> {
    let token = access_token(&mut request).await?;
    sign_in.handle.await_given(Given::Token(&token)).await.map_err(SignInError::from)?;
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
    let header = match request.header(&AUTHORIZATION)? {
        None => None,
        Some(header) => {
            let (scheme, token) = header.split_once(' ').unwrap_or_default();
            if !scheme.eq_ignore_ascii_case("bearer") {
                return Err(missing().into());
            }
            Some(token.trim().to_owned())
        }
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
