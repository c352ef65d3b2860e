//! `GET` and `POST /logout` (OpenID Connect RP-Initiated Logout 1.0), and `GET` and `POST
//! /session`: the end of a browser's session.
//!
//! A request with an ID token of a person whom the session holds ends the session at once. Every
//! other request shows a page that asks. Its form carries a confirmation that is derived from the
//! session's secret, so another site cannot make it.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::header::{CACHE_CONTROL, HeaderValue, LOCATION};
use hyper::{Method, StatusCode};
use selfsame_actors::{BrowserCookie, IssuedItem, SessionSignIn, SignInError};
use selfsame_protocol::sign_in::Parameters;
use selfsame_protocol::sign_in::logout::{IdTokenHint, LogoutRequest};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::SignIn;
use super::browser::{
    accepts_html, accepts_json, is_same_origin, live_session_secret, pointers_cookie, pointers_secrets, read_form,
    refuse_fetch_ahead, remove_pointers, remove_session, session_secrets,
};
use super::error::SignInEndpointError;
use super::page::{self, Frame};
use super::schema::{Confirmation, LogoutParameters};
use crate::http::{AuditOutcome, Request, Response, empty};

/// The field of a page's form that shows that the form is of this browser's session.
pub(super) const CONFIRMATION: &str = "confirmation";

/// The field of a form that ends the sign-in to one application alone.
pub(super) const APPLICATION: &str = "application";

/// The field of a form that makes the browser forget its accounts: a confirmation of its own.
const FORGET: &str = "forget";

/// The parameters that the page's form repeats.
const REPEATED: [&str; 4] = ["id_token_hint", "client_id", "post_logout_redirect_uri", "state"];

/// Sign out
///
/// Ends the session of the browser, or asks the person first (OpenID Connect RP-Initiated Logout
/// 1.0).
#[utoipa::path(
    get, path = "/logout", tag = "sign-in", operation_id = "logout", params(LogoutParameters),
    security(("sessionCookie" = []), ()),
    responses(
        (status = 200, description = "A page that asks, or says that the session has ended", content_type = "text/html", body = String),
        (status = 303, description = "The session has ended", headers(("Location" = String, description = "The `post_logout_redirect_uri`"))),
        (status = 400, description = "Nothing has ended: `required`, `invalid_client_id`, `invalid_redirect_uri`, `invalid_request`"),
        (status = 429, description = "Too many requests from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn logout(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInEndpointError> {
    refuse_fetch_ahead(&request)?;
    if let Some(limited) = charge(&sign_in, &request)? {
        return Ok(limited);
    }
    let wants_json = accepts_json(&request);
    let parameters = match *request.method() == Method::POST {
        true => read_form(&mut request, &[]).await?,
        false => request.query().map(|(name, value)| (name.into_owned(), value.into_owned())).collect(),
    };
    let hint = match parameters.get("id_token_hint") {
        Some(token) => sign_in.handle.read_hint(token).await?,
        None => None,
    };
    let registered = |id: &str| Some(sign_in.handle.client(id)?.client.post_logout_redirect_uris.clone());
    match LogoutRequest::read(&parameters, hint, registered).map_err(SignInEndpointError::from) {
        Ok(logout) => end_session_or_ask(&sign_in, &request, &parameters, logout).await,
        Err(error) if wants_json => Err(error),
        Err(error) => {
            request.audit().rejected(&error);
            Ok(page::sign_out_error(&frame(&sign_in, &request, &parameters), &error.to_client_error()))
        }
    }
}

async fn end_session_or_ask(
    sign_in: &SignIn,
    request: &Request,
    parameters: &Parameters,
    LogoutRequest { hint, redirect }: LogoutRequest,
) -> Result<Response, SignInEndpointError> {
    let Some((secret, sign_ins)) = live_session(sign_in, request).await? else {
        // A browser sends no cookie with a form of another site, so this browser may have a
        // session. The page's form is same-origin, so the browser sends the cookie with it.
        if *request.method() == Method::POST && !is_same_origin(sign_in, request) {
            return Ok(render_question(sign_in, request, parameters, None));
        }
        request.audit().outcome(AuditOutcome::NoSession);
        return Ok(signed_out(sign_in, request, parameters, redirect.as_deref()));
    };
    let is_known = |hint: &IdTokenHint| {
        sign_ins.iter().any(|known| known.client_id == hint.client_id && known.subject == hint.subject)
    };
    if is_confirmed(sign_in, request, parameters, secret) || hint.as_ref().is_some_and(is_known) {
        end_sessions(sign_in, request).await?;
        return Ok(signed_out(sign_in, request, parameters, redirect.as_deref()));
    }
    Ok(render_question(sign_in, request, parameters, Some(secret)))
}

/// Ends the sessions of all session cookies that the browser sent: the person signs out of this
/// browser.
async fn end_sessions(sign_in: &SignIn, request: &Request) -> Result<(), SignInError> {
    for secret in session_secrets(sign_in, request) {
        sign_in.handle.end_session(secret).await?;
    }
    Ok(())
}

/// Ends the browser's sign-ins to one application. Returns whether others are left.
async fn end_sessions_at(sign_in: &SignIn, request: &Request, application: &str) -> Result<bool, SignInError> {
    let mut has_others = false;
    for secret in session_secrets(sign_in, request) {
        has_others |= sign_in.handle.end_session_at(secret, application).await?;
    }
    Ok(has_others)
}

/// The secret of the browser's session and the sign-ins in it; `None` when there are none.
pub(super) async fn live_session<'r>(
    sign_in: &SignIn,
    request: &'r Request,
) -> Result<Option<(&'r str, Vec<SessionSignIn>)>, SignInError> {
    let Some(secret) = live_session_secret(sign_in, request).await? else { return Ok(None) };
    sign_in.handle.await_given(IssuedItem::Session(secret), Some(request.source())).await?;
    let sign_ins = sign_in.handle.session_sign_ins(secret)?;
    Ok(if sign_ins.is_empty() { None } else { Some((secret, sign_ins)) })
}

/// The page that shows where the browser is signed in
#[utoipa::path(
    get, path = "/session", tag = "sign-in", operation_id = "session", security(("sessionCookie" = []), ()),
    responses((status = 200, description = "The page", content_type = "text/html", body = String)),
)]
pub async fn session(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    refuse_fetch_ahead(&request)?;
    render_session(&sign_in, &request).await
}

/// The page with the present state.
pub(super) async fn render_session(sign_in: &SignIn, request: &Request) -> Result<Response, SignInEndpointError> {
    render_session_after(sign_in, request, None).await
}

/// The same after all others have forgotten the account at the application with this name.
pub(super) async fn render_session_after(
    sign_in: &SignIn,
    request: &Request,
    forgotten_at: Option<&str>,
) -> Result<Response, SignInEndpointError> {
    let live = live_session(sign_in, request).await?;
    let (secret, sign_ins) = live.unwrap_or_default();
    let remembered = match pointers_cookie(sign_in, request).await? {
        BrowserCookie::HostOnly(secret) | BrowserCookie::Plain(secret)
            if sign_in.handle.remembers_accounts(&secret)? =>
        {
            Some(forgetting(&secret))
        }
        _ => None,
    };
    let shown = page::SessionPage {
        sign_ins: &sign_ins,
        confirmation: &confirmation(secret),
        remembered: remembered.as_deref(),
        forgotten_at,
        has_passkeys: sign_in.handle.passkey_domain().is_some(),
        now: sign_in.bridge.clock.unix_seconds(),
    };
    Ok(page::session(&sign_in.frame(request), &shown))
}

/// Forgets the accounts of this browser, when a form of this service in this browser asks for it.
async fn forget_accounts(sign_in: &SignIn, request: &Request, given: &str) -> Result<Response, SignInEndpointError> {
    let is_right = |secret: &&str| bool::from(given.as_bytes().ct_eq(forgetting(secret).as_bytes()));
    let secrets = pointers_secrets(sign_in, request);
    let is_confirmed = is_same_origin(sign_in, request) && secrets.iter().any(is_right);
    if !is_confirmed {
        request.audit().outcome(AuditOutcome::Asked);
        return render_session(sign_in, request).await;
    }
    for secret in secrets {
        sign_in.handle.await_given(IssuedItem::Pointers(secret), Some(request.source())).await?;
        sign_in.handle.forget_browser(secret).await?;
    }
    request.audit().outcome(AuditOutcome::AccountsForgotten);
    let mut response = render_session(sign_in, request).await?;
    remove_pointers(sign_in, &mut response);
    Ok(response)
}

/// End the session, or the sign-in to one application, from the buttons of that page
#[utoipa::path(
    post, path = "/session", tag = "sign-in", operation_id = "end_session", security(("sessionCookie" = []), ()),
    request_body(content = Confirmation, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "A page: the session has ended, or the state after the request", content_type = "text/html", body = String),
        (status = 400, description = "`invalid_content_type`, `invalid_request`"),
        (status = 429, description = "Too many requests from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn end_session(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInEndpointError> {
    refuse_fetch_ahead(&request)?;
    if let Some(limited) = charge(&sign_in, &request)? {
        return Ok(limited);
    }
    let form = read_form(&mut request, &[CONFIRMATION, APPLICATION, FORGET]).await?;
    if let Some(given) = form.get(FORGET) {
        return forget_accounts(&sign_in, &request, given).await;
    }
    let Some((secret, sign_ins)) = live_session(&sign_in, &request).await? else {
        request.audit().outcome(AuditOutcome::NoSession);
        return render_session(&sign_in, &request).await;
    };
    if is_confirmed(&sign_in, &request, &form, secret) {
        match form.get(APPLICATION) {
            None => end_sessions(&sign_in, &request).await?,
            Some(application) if sign_ins.iter().any(|known| known.client_id == application) => {
                request.audit().client(application);
                if end_sessions_at(&sign_in, &request, application).await? {
                    return render_session(&sign_in, &request).await;
                }
            }
            // Another tab has ended it: the person sees the present state.
            Some(_) => {
                request.audit().outcome(AuditOutcome::NoSession);
                return render_session(&sign_in, &request).await;
            }
        }
        return Ok(signed_out(&sign_in, &request, &form, None));
    }
    // The form is of another session, or of another site: the person sees the present state.
    request.audit().outcome(AuditOutcome::Asked);
    render_session(&sign_in, &request).await
}

/// Counts a request to sign out against its source; the answer to a browser whose source is past
/// its limit.
pub(super) fn charge(sign_in: &SignIn, request: &Request) -> Result<Option<Response>, SignInEndpointError> {
    match sign_in.handle.charge_source(request.source()) {
        Ok(()) => Ok(None),
        Err(too_many) if accepts_html(request) => {
            Ok(Some(page::too_many(&sign_in.frame(request), too_many.retry_after, None)))
        }
        Err(too_many) => Err(too_many.into()),
    }
}

/// Whether a form was sent by a page of this service in the browser of this session.
pub(super) fn is_confirmed(sign_in: &SignIn, request: &Request, form: &Parameters, secret: &str) -> bool {
    let given = form.get(CONFIRMATION).unwrap_or_default();
    let is_right: bool = given.as_bytes().ct_eq(confirmation(secret).as_bytes()).into();
    *request.method() == Method::POST && is_right && is_same_origin(sign_in, request)
}

/// The confirmation of a session: it can be computed from the session's secret, and does not reveal
/// it.
fn confirmation(secret: &str) -> String {
    derived("end of the browser session ", secret)
}

/// The same for the accounts that the browser remembers.
fn forgetting(secret: &str) -> String {
    derived("end of the browser's pointers ", secret)
}

fn derived(purpose: &str, secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::new().chain_update(purpose).chain_update(secret).finalize())
}

/// What the pages for a request have in common. The language is that of `ui_locales` (RP-Initiated
/// Logout 1.0, section 2).
fn frame<'s>(sign_in: &'s SignIn, request: &Request, parameters: &Parameters) -> Frame<'s> {
    match parameters.get("ui_locales") {
        Some(wished) => sign_in.frame_in(request, Some(wished)),
        None => sign_in.frame(request),
    }
}

/// The page that asks whether to sign out; `secret` is that of the browser's session. Without it
/// the page only sends the request again, this time from this service.
fn render_question(sign_in: &SignIn, request: &Request, parameters: &Parameters, secret: Option<&str>) -> Response {
    request.audit().outcome(AuditOutcome::Asked);
    let mut fields: Vec<(&str, &str)> =
        REPEATED.into_iter().filter_map(|name| Some((name, parameters.get(name)?))).collect();
    let frame = frame(sign_in, request, parameters);
    let Some(secret) = secret else { return page::sign_out_from_elsewhere(&frame, &fields) };
    let confirmation = confirmation(secret);
    fields.push((CONFIRMATION, &confirmation));
    page::sign_out(&frame, &fields)
}

/// Sends the browser on, or says that it is signed out. Removes the cookie that the request
/// brought.
fn signed_out(sign_in: &SignIn, request: &Request, parameters: &Parameters, redirect: Option<&str>) -> Response {
    let mut response = match redirect.map(HeaderValue::from_str) {
        // Registered URIs are printable ASCII, and the state behind them is encoded.
        Some(Ok(location)) => {
            let mut response = empty(StatusCode::SEE_OTHER);
            response.headers_mut().insert(LOCATION, location);
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        _ => page::signed_out(&frame(sign_in, request, parameters)),
    };
    if !session_secrets(sign_in, request).is_empty() {
        remove_session(sign_in, &mut response);
    }
    response
}
