//! Passkeys as ways to accounts: `POST /session/passkey`, whose page makes one, and `POST
//! /authorize/{transaction}/passkey`, where one is used.

use std::sync::Arc;

use selfsame_actors::{InvalidPasskeyHandle, PasskeyHandle};
use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
use zeroize::Zeroizing;

use super::SignIn;
use super::authorize::user_agent;
use super::browser::read_form;
use super::error::SignInEndpointError;
use super::page::{self, CodeProblem};
use super::person::form;
use super::pointers::{not_signed_in, signed_in, to_account};
use super::schema::{AccountForm, NewCode, PasskeyForm, TransactionPath};
use crate::http::{AuditOutcome, Request, Response};

/// Make a passkey
///
/// Shows a page whose button makes a passkey, which finds the account in browsers that do not
/// remember it. A sign-in still needs a proof. The service keeps nothing of the passkey; a second
/// one in the same keychain replaces the first.
#[utoipa::path(
    post, path = "/session/passkey", tag = "sign-in", operation_id = "make_passkey", security(("sessionCookie" = []), ()),
    request_body(content = AccountForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "The page that makes the passkey, or that of `/session`", content_type = "text/html", body = String),
        (status = 400, description = "There are no passkeys here, or `invalid_content_type`, `invalid_request`"),
        (status = 429, description = "Too many requests about accounts from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn make_passkey(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInEndpointError> {
    let known = match signed_in(&sign_in, &mut request).await? {
        Ok(known) => known,
        Err(response) => return Ok(response),
    };
    match sign_in.handle.make_passkey(&known.session, &known.client_id).await {
        Ok(passkey) => {
            request.audit().outcome(AuditOutcome::PasskeyMade);
            Ok(page::passkey_made(&sign_in.frame(&request), &passkey))
        }
        Err(error) => not_signed_in(&sign_in, &request, error).await,
    }
}

/// The field with the user handle of a passkey, and what a rejection of one names.
const HANDLE: &str = "handle";

/// Ask for the account of a passkey
///
/// Begins again with the same request of the application, and asks for a proof of the account that
/// the passkey leads to. A passkey that leads to no account of the application is counted against
/// its source.
#[utoipa::path(
    post, path = "/authorize/{transaction}/passkey", tag = "sign-in", operation_id = "use_passkey",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction")),
    request_body(content = PasskeyForm, content_type = "application/x-www-form-urlencoded"),
    security(("transactionSecret" = []), ("transactionCookie" = [])),
    responses(
        (status = 200, description = "To a program (`Accept: application/json`): the page of the new sign-in", body = NewCode),
        (status = 303, description = "To the page of the new sign-in, with its cookie", headers(("Location" = String, description = "The page"))),
        (status = 400, description = "The passkey leads to no account of the application, there are no passkeys here, another site sent the request, the application expects one person, or the sign-in was answered: `invalid_request`"),
        (status = 404, description = "There is no such sign-in, or it was completed, or it was begun elsewhere: `not_found`"),
        (status = 429, description = "Too many sign-ins or wrong passkeys from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn use_passkey(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInEndpointError> {
    let given = Zeroizing::new(match read_form(&mut request, &[HANDLE]).await {
        Ok(form) => form.get(HANDLE).unwrap_or_default().to_owned(),
        Err(error) => {
            sign_in.handle.charge_source(request.source())?;
            return Err(error);
        }
    });
    let begun = async {
        let (id, secret) = form(&sign_in, &request).await?;
        let handle: PasskeyHandle = given.parse().map_err(|error: InvalidPasskeyHandle| {
            SignInRejection::of(HANDLE, ErrorKind::InvalidRequest, error.to_string())
        })?;
        let user_agent = user_agent(&request);
        let source = Some(request.source());
        Ok(sign_in.handle.begin_with_passkey(id, &secret, &handle, source, user_agent.as_deref()).await?)
    };
    to_account(&sign_in, &request, begun.await, HANDLE, "", CodeProblem::UnknownPasskey).await
}
