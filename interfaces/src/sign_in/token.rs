//! What applications call: the discovery document and the keys, tokens and what they stand for, and
//! the events of an application as a stream.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::header::{CACHE_CONTROL, HeaderValue, PRAGMA, WWW_AUTHENTICATE};
use hyper::{Method, StatusCode};
use selfsame_actors::{IssuedItem, SignInClient, SignInError};
use selfsame_protocol::events::Audience;
use selfsame_protocol::events::delivery::EventBody;
use selfsame_protocol::sign_in::authorize::Parameters;
use selfsame_protocol::sign_in::discovery::Discovery;
use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
use serde_json::json as value;

use super::SignIn;
use super::browser::{authenticate, is_form, read_form, read_token_request};
use super::error::{SignInEndpointError, count_failure};
use super::schema::{AboutToken, Claims, Introspection, KeySet, TokenAnswer, TokenRequest};
use crate::http::{AuditOutcome, Authorization, Rejection, Request, Response, challenge, empty, json, reject};

// `GET /.well-known/openid-configuration`, `GET /.well-known/oauth-authorization-server` and `GET
// /jwks`.

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
        (status = 400, description = "`invalid_content_type`, `invalid_request`, `invalid_grant_type`, `required`, `invalid_grant`"),
        (status = 401, description = "The client's credentials are missing or wrong: `unauthenticated`"),
        (status = 429, description = "Too many wrong secrets from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn token(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInEndpointError> {
    let source = request.source();
    let failed = |error| count_failure(&sign_in, source, error);
    let (client, form) = read_exchange(&sign_in, &mut request).await.map_err(failed)?;
    let outcome = exchange(&sign_in, &client, &form, source).await;
    if matches!(&outcome, Err(SignInEndpointError::Failed(SignInError::CodeReused(_)))) {
        request.audit().alarm(AuditOutcome::CodeReused);
    }
    if client.client.is_public { outcome.map_err(failed) } else { outcome }
}

/// The calling client and its form.
async fn read_exchange(
    sign_in: &SignIn,
    request: &mut Request,
) -> Result<(Arc<SignInClient>, Parameters), SignInEndpointError> {
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

// `POST /introspect`: whether an access token is active (RFC 7662).

/// Describe an access token
///
/// Describes an active token of the calling client. Every other token, another client's included,
/// gets the answer for an inactive token.
#[utoipa::path(
    post, path = "/introspect", tag = "sign-in", operation_id = "introspect", security(("client" = []), ()),
    request_body(content = AboutToken, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "The token is active; or, where the operator has chosen the form of RFC 7662, whether it is", body = Introspection),
        (status = 400, description = "`invalid_content_type`, `invalid_request`, `required`"),
        (status = 401, description = "The client's credentials are missing or wrong (`unauthenticated`), or the token is not active (`invalid_token`, with `\"active\":false`)"),
        (status = 429, description = "Too many wrong secrets from this address, see Retry-After: `rate_limit`"),
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

// `POST /revoke`: makes an access token invalid (RFC 7009).

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
        (status = 400, description = "`invalid_content_type`, `invalid_request`, `required`, `unsupported_token_type`"),
        (status = 401, description = "The client's credentials are missing or wrong: `unauthenticated`"),
        (status = 429, description = "Too many wrong secrets from this address, see Retry-After: `rate_limit`"),
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

// `GET` and `POST /userinfo`: the claims about the person of an access token.

/// The claims of the token's person and scopes
///
/// Also by POST, with the token as the form field `access_token` or in the header.
#[utoipa::path(
    get, path = "/userinfo", tag = "sign-in", operation_id = "userinfo", security(("accessToken" = [])),
    responses(
        (status = 200, description = "The claims", body = Claims),
        (status = 400, description = "`invalid_request`"),
        (status = 401, description = "The token is missing (`unauthenticated`) or not valid (`invalid_token`)"),
        (status = 429, description = "Too many wrong tokens from this address, see Retry-After: `rate_limit`"),
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

// `GET /application/events`: what happens about an application, as server-sent events.

/// The events of an application, as a stream
///
/// Sends the application's verifications and new roots as server-sent events: `id` is the event's
/// position, `event` its type, `data` what a webhook would get. A client that connects again sends
/// the last `id` as `Last-Event-ID`. An event of the type `gap` says that some are no longer kept.
#[utoipa::path(
    get, path = "/application/events", tag = "sign-in", operation_id = "application_events", security(("client" = [])),
    params(
        ("after" = Option<String>, Query, pattern = "^[0-9]{1,19}\\.[0-9]{1,10}$", description = "Begin behind the event at this position; by default with the next one that happens"),
        ("types" = Option<String>, Query, description = "The types of events, with commas between them; all by default"),
    ),
    responses(
        (status = 200, description = "Server-sent events", content_type = "text/event-stream", body = EventBody<'static>),
        (status = 400, description = "A parameter is malformed: `invalid_request`"),
        (status = 401, description = "The client's credentials are missing or wrong: `unauthenticated`"),
        (status = 404, description = "The operator has turned streams off: `not_found`"),
        (status = 429, description = "Too many wrong secrets from this address, or too many streams, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn application_events(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    let client = authenticate(&sign_in.handle, &request, &Parameters::default(), false)
        .map_err(|error| count_failure(&sign_in, request.source(), error))?;
    let audience = Audience::Application(client.client.id.clone());
    Ok(sign_in.streams.begin(&request, audience).await?)
}
