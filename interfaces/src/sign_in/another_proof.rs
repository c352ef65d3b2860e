//! Another proof for the same sign-in, at an application whose people have had legacy proofs: `POST
//! /authorize/{transaction}/go-on` asks for it, and `GET /authorize/{transaction}/older` is the
//! question about an older credential that comes before one of them.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_actors::{CompletionSecrets, NextProof, SignInError};
use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
use serde_json::json as value;

use super::SignIn;
use super::authorize::user_agent;
use super::browser::{accepts_json, read_form, refuse_fetch_ahead, see_other};
use super::error::SignInEndpointError;
use super::page;
use super::person::{BrowserSignIn, DIGITS, form, problem, to_new_sign_in, unknown};
use super::schema::{GoOnForm, NewCode, TransactionPath};
use super::transaction::{RETURN, transaction_id};
use crate::http::{Request, Response, json};

/// The field that says which proof comes next.
const NEXT: &str = "next";

/// The value of that field with which the person goes on without the proof that was to be attached.
const WITHOUT: &str = "without";

/// The question about an older credential
///
/// Tells the person before an authenticator is asked for a proof of one, which it may not give
/// again for a year.
#[utoipa::path(
    get, path = "/authorize/{transaction}/older", tag = "sign-in", operation_id = "older_credential_page",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction")),
    security(("transactionCookie" = [])),
    responses(
        (status = 200, description = "The page", content_type = "text/html", body = String),
        (status = 404, description = "There is no such sign-in, or it asks for no newer credential, or it was begun elsewhere: `not_found`"),
    ),
)]
pub async fn older_page(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    refuse_fetch_ahead(&request)?;
    let seen = match transaction_id(&request) {
        Ok(id) => BrowserSignIn::look_up(&sign_in, &request, id).await.map_err(SignInEndpointError::from),
        Err(error) => Err(error),
    };
    let frame = sign_in.frame(&request);
    match seen {
        Ok(seen) if seen.secret.is_none() && !accepts_json(&request) => Ok(seen.elsewhere(&sign_in, &frame)),
        Ok(seen) if seen.secret.is_some() && seen.view.asked.may_be_older => {
            let at = |part: &str| frame.path(&format!("/authorize/{}{part}", seen.id));
            Ok(page::older_credential(&frame, &seen.view.asked, &at("/go-on"), &at("")))
        }
        Ok(_) => unknown(&sign_in, &request, SignInError::no_transaction("it asks for no newer credential").into()),
        Err(error) => unknown(&sign_in, &request, error),
    }
}

/// Go on with another proof
///
/// Begins again with the same request of the application, in the browser that began it, and asks
/// for another proof. After an accepted proof it needs what the completion needs. With `without`
/// the legacy proof of before completes the sign-in, and no proof is attached.
#[utoipa::path(
    post, path = "/authorize/{transaction}/go-on", tag = "sign-in", operation_id = "go_on",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction")),
    request_body(content = GoOnForm, content_type = "application/x-www-form-urlencoded"),
    security(("transactionSecret" = []), ("transactionCookie" = [])),
    responses(
        (status = 200, description = "To a program (`Accept: application/json`): the page of the new sign-in, or with `without` the completion", body = NewCode),
        (status = 303, description = "To the page of the new sign-in, with its cookie, or with `without` to the completion", headers(("Location" = String, description = "The page"))),
        (status = 400, description = "Another site sent the request, or the sign-in does not go on so, or `return` or `digits` is missing or wrong: `invalid_request`"),
        (status = 404, description = "There is no such sign-in, or it was completed or is over, or it was begun elsewhere: `not_found`"),
        (status = 429, description = "Too many sign-ins from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn go_on(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInEndpointError> {
    let fields = match read_form(&mut request, &[NEXT, RETURN, DIGITS]).await {
        Ok(fields) => fields,
        Err(error) => {
            sign_in.handle.charge_source(request.source())?;
            return Err(error);
        }
    };
    if fields.get(NEXT) == Some(WITHOUT) {
        return go_on_without(&sign_in, &request).await;
    }
    let begun = async {
        let (id, secret) = form(&sign_in, &request).await?;
        // A sign-in that is not there comes before what is wrong with the form.
        sign_in.handle.view(id)?;
        let next = match fields.get(NEXT).unwrap_or_default() {
            "" => NextProof::Needed,
            "attached" => NextProof::Attached,
            "older" => NextProof::OlderCredential,
            _ => {
                let detail = "next must be attached, older or without, or be left out for the proof that is needed";
                return Err(SignInRejection::of(NEXT, ErrorKind::InvalidRequest, detail).into());
            }
        };
        let given = |name: &str| fields.get(name).map(str::trim).filter(|given| !given.is_empty());
        let shown = CompletionSecrets { return_secret: given(RETURN), digits: given(DIGITS) };
        let (source, user_agent) = (Some(request.source()), user_agent(&request));
        Ok(sign_in.handle.go_on(id, &secret, shown, next, source, user_agent.as_deref()).await?)
    };
    match begun.await {
        Ok(begun) => Ok(to_new_sign_in(&sign_in, &request, &begun)),
        Err(error) => problem(&sign_in, &request, error, None, false).await,
    }
}

/// Completes a sign-in without the proof that was to be attached.
async fn go_on_without(sign_in: &SignIn, request: &Request) -> Result<Response, SignInEndpointError> {
    let ended = async {
        let (id, secret) = form(sign_in, request).await?;
        sign_in.handle.go_on_without(id, &secret).await?;
        Ok(id)
    };
    match ended.await {
        Ok(id) => {
            let complete = sign_in.frame(request).path(&format!("/authorize/{id}/complete"));
            Ok(match accepts_json(request) {
                true => json(StatusCode::OK, &value!({"location": complete})),
                false => see_other(&complete),
            })
        }
        Err(error) => problem(sign_in, request, error, None, false).await,
    }
}
