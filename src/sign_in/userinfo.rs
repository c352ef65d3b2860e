//! `GET` and `POST /userinfo`: what an access token's person is called.

use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, StatusCode};
use selfsame_actors::SignInFailure;
use selfsame_protocol::sign_in::error::{ErrorKind, SignInError};

use super::SignIn;
use super::brute_force::guard;
use super::error::SignInFault;
use super::form::{is_form, read_form};
use crate::http::{InterfaceError, Request, Response, json};

/// The claims of the token's person and scopes.
pub async fn userinfo(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInFault> {
    match guard(&sign_in, request.source(), claims(&sign_in, request)).await {
        // RFC 6750, section 3: whoever gets no further is told how to authenticate.
        Err(SignInFault::Refused(error)) if error.kind == ErrorKind::InvalidRequest => {
            let mut response = SignInFault::Refused(error).into_response();
            let challenge = HeaderValue::from_static(r#"Bearer realm="selfsame", error="invalid_request""#);
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            Ok(response)
        }
        other => other,
    }
}

async fn claims(sign_in: &SignIn, mut request: Request) -> Result<Response, SignInFault> {
    let token = access_token(&mut request).await?;
    let live = sign_in
        .handle
        .live_token(&token)
        .map_err(SignInFailure::from)?
        .ok_or_else(|| SignInError::new(ErrorKind::InvalidToken, "the access token is unknown or has expired"))?;
    let claims = sign_in.handle.provider().person_claims(&live.token.person, live.token.scopes);
    Ok(json(StatusCode::OK, &claims))
}

/// The token of the header, or of a posted form (RFC 6750, sections 2.1 and 2.2); two of them are one too many.
async fn access_token(request: &mut Request) -> Result<String, SignInFault> {
    let missing =
        || SignInError::new(ErrorKind::TokenMissing, "the access token is missing; send it as a Bearer header");
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
            Err(SignInError::new(ErrorKind::InvalidRequest, detail).into())
        }
        (Some(token), None) | (None, Some(token)) => Ok(token),
        (None, None) => Err(missing().into()),
    }
}
