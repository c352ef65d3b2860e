//! `POST /token`: exchanges an authorization code for tokens.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{HeaderValue, PRAGMA};
use selfsame_actors::{IssuedItem, SignInClient, SignInError};
use selfsame_protocol::sign_in::Parameters;
use selfsame_protocol::sign_in::response::{ErrorBody, ErrorKind, SignInRejection};

use super::brute_force::count_failure;
use super::error::SignInEndpointError;
use super::form::{authenticate, read_form};
use super::schema::{TokenAnswer, TokenRequest};
use super::state::SignIn;
use crate::http::{Request, Response, json};

const KNOWN: [&str; 6] = ["grant_type", "code", "redirect_uri", "code_verifier", "client_id", "client_secret"];

/// Exchange a code
///
/// The checks run in this order: form, client, grant type, code. The client authenticates by HTTP
/// Basic or in the form; a public client names itself in the form.
#[utoipa::path(
    post, path = "/token", tag = "sign-in", operation_id = "token", security(("client" = []), ()),
    request_body(content = TokenRequest, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "The tokens", body = TokenAnswer),
        (status = 400, description = "`invalid_content_type`, `invalid_request`, `invalid_grant_type`, `required`, `invalid_grant`", body = ErrorBody),
        (status = 401, description = "The client's credentials are missing or wrong: `unauthenticated`", body = ErrorBody),
        (status = 429, description = "Too many wrong secrets from this address, see Retry-After: `rate_limit`", body = ErrorBody),
    ),
)]
pub async fn token(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInEndpointError> {
    let source = request.source();
    let failed = |error| count_failure(&sign_in, source, error);
    let (client, form) = read(&sign_in, &mut request).await.map_err(failed)?;
    let outcome = exchange(&sign_in, &client, &form, source).await;
    if matches!(&outcome, Err(SignInEndpointError::Failed(SignInError::CodeReused(_)))) {
        request.audit().alarm("code_reused");
    }
    if client.client.is_public { outcome.map_err(failed) } else { outcome }
}

/// The calling client and its form.
async fn read(sign_in: &SignIn, request: &mut Request) -> Result<(Arc<SignInClient>, Parameters), SignInEndpointError> {
    let form = read_form(request, &KNOWN).await?;
    let client = authenticate(&sign_in.handle, request, &form, true)?;
    Ok((client, form))
}

async fn exchange(
    sign_in: &SignIn,
    client: &SignInClient,
    form: &Parameters,
    source: IpAddr,
) -> Result<Response, SignInEndpointError> {
    match form.get("grant_type") {
        Some("authorization_code") => {}
        Some(other) => {
            let shown: String = other.chars().take(80).collect();
            let detail = format!("grant_type must be authorization_code, not '{shown}'");
            let rejection = SignInRejection::of("grant_type", ErrorKind::UnsupportedGrantType, detail);
            return Err(rejection.with_reason("grant_type is another than authorization_code").into());
        }
        None => {
            let detail = "grant_type is missing; it must be authorization_code";
            return Err(SignInRejection::of("grant_type", ErrorKind::MissingGrantType, detail).into());
        }
    }
    let code = form.get("code").ok_or_else(|| SignInRejection::required("code"))?;
    // After a right secret nothing is counted: strangers choose what an application's server sends.
    let counted = client.client.is_public.then_some(source);
    sign_in.handle.await_given(IssuedItem::Code(code), counted).await?;
    let (redirect_uri, verifier) = (form.get("redirect_uri"), form.get("code_verifier"));
    let tokens = sign_in.handle.exchange(&client.client.id, code, redirect_uri, verifier).await?;
    let mut response = json(StatusCode::OK, &tokens);
    // RFC 6749, section 5.1.
    response.headers_mut().insert(PRAGMA, HeaderValue::from_static("no-cache"));
    Ok(response)
}
