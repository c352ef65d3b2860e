//! What leads to accounts: `POST /session/forget-others`, with which a person who is signed in makes
//! all others forget an account.
//!
//! The forms are those of the page at `/session`, with its confirmation.

use std::sync::Arc;

use selfsame_protocol::sign_in::response::{ErrorBody, ErrorKind};

use super::SignIn;
use super::browser::{pointers_cookie, read_form, refuse_fetch_ahead, set_pointers};
use super::error::SignInEndpointError;
use super::logout::{
    APPLICATION, CONFIRMATION, charge, is_confirmed, live_session, render_session, render_session_after,
};
use super::schema::AccountForm;
use crate::http::{AuditOutcome, Request, Response};

/// What a form of `/session` is about: an account that the browser is signed in to.
struct SignedIn {
    session: String,
    client_id: String,
    client_name: String,
}

/// Reads a form of `/session`. The answer in its place, when the form is of another session or of
/// another site, or the browser is no longer signed in there: the page with the present state.
async fn signed_in(sign_in: &SignIn, request: &mut Request) -> Result<Result<SignedIn, Response>, SignInEndpointError> {
    refuse_fetch_ahead(request)?;
    if let Some(limited) = charge(sign_in, request)? {
        return Ok(Err(limited));
    }
    let form = read_form(request, &[CONFIRMATION, APPLICATION]).await?;
    let application = form.get(APPLICATION).unwrap_or_default();
    let found = live_session(sign_in, request).await?.and_then(|(session, sign_ins)| {
        let known = sign_ins.into_iter().find(|known| known.has_account && known.client_id == application)?;
        Some((session.to_owned(), known))
    });
    let Some((session, known)) = found else {
        request.audit().outcome(AuditOutcome::NoSession);
        return Ok(Err(render_session(sign_in, request).await?));
    };
    if !is_confirmed(sign_in, request, &form, &session) {
        request.audit().outcome(AuditOutcome::Asked);
        return Ok(Err(render_session(sign_in, request).await?));
    }
    request.audit().client(&known.client_id);
    Ok(Ok(SignedIn { session, client_id: known.client_id, client_name: known.client_name }))
}

/// Make all others forget an account
///
/// No pointer to the account that was made before is worth anything then: those of other browsers,
/// sign-in codes and links. This browser goes on remembering it, if it did. The proof of this
/// browser's sign-in has to be less than an hour old. No browser is signed out.
#[utoipa::path(
    post, path = "/session/forget-others", tag = "sign-in", operation_id = "forget_others", security(("sessionCookie" = [])),
    request_body(content = AccountForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "The page of `/session`, which says whether it is done", content_type = "text/html", body = String),
        (status = 400, description = "`invalid_content_type`, `invalid_request`", body = ErrorBody),
        (status = 429, description = "Too many requests from this address, see Retry-After: `rate_limit`", content((String = "text/html"), (ErrorBody = "application/json"))),
    ),
)]
pub async fn forget_others(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInEndpointError> {
    let known = match signed_in(&sign_in, &mut request).await? {
        Ok(known) => known,
        Err(response) => return Ok(response),
    };
    let cookie = pointers_cookie(&sign_in, &request).await?;
    match sign_in.handle.forget_others(&known.session, &known.client_id, &cookie).await {
        Ok(pointers) => {
            request.audit().outcome(AuditOutcome::OthersForgotten);
            let mut response = render_session_after(&sign_in, &request, Some(&known.client_name)).await?;
            pointers.into_iter().for_each(|secret| set_pointers(&sign_in, &mut response, &secret));
            Ok(response)
        }
        Err(error) => {
            let error = SignInEndpointError::from(error);
            // The proof is too old, or the sign-in has ended: the page says so.
            if error.rejection().is_none_or(|rejection| rejection.kind != ErrorKind::LoginRequired) {
                return Err(error);
            }
            request.audit().rejected(&error);
            render_session(&sign_in, &request).await
        }
    }
}
