//! What leads to accounts: the forms of the page at `/session`, with its confirmation, with which a
//! person who is signed in gets a sign-in code or a link, or makes all others forget the account;
//! `GET` and `POST /authorize/{transaction}/code`, where a code is typed; and `GET` and `POST
//! /session/link/{link}`, which another device opens.

use std::sync::Arc;

use selfsame_actors::{LinkEnd, LinkedAccount, NewTransaction, SignInCode, SignInError, UsedLink};
use selfsame_protocol::sign_in::pointers::InvalidSignInCode;
use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
use zeroize::Zeroizing;

use super::SignIn;
use super::authorize::user_agent;
use super::browser::{accepts_json, is_same_origin, pointers_cookie, read_form, refuse_fetch_ahead, set_pointers};
use super::error::SignInEndpointError;
use super::logout::{
    APPLICATION, CONFIRMATION, charge, is_confirmed, live_session, render_session, render_session_after,
};
use super::page::{self, Application, CodeProblem, CodeQuestion};
use super::person::{BrowserSignIn, form, problem, to_new_sign_in, unknown};
use super::schema::{AccountForm, CodeForm, NewCode, TransactionPath};
use super::transaction::transaction_id;
use crate::http::{AuditOutcome, Request, Response};

/// What a form of `/session` is about: an account that the browser is signed in to.
pub(super) struct SignedIn {
    pub session: String,
    pub client_id: String,
    client_name: String,
}

/// Reads a form of `/session`. The answer in its place, when the form is of another session or of
/// another site, or the browser is no longer signed in there: the page with the present state.
pub(super) async fn signed_in(
    sign_in: &SignIn,
    request: &mut Request,
) -> Result<Result<SignedIn, Response>, SignInEndpointError> {
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
/// Ends all that led to the account before: the memory of other browsers, sign-in codes, passkeys
/// and links. This browser goes on remembering it, if it did, and no browser is signed out. The
/// proof of this browser's sign-in has to be less than an hour old.
#[utoipa::path(
    post, path = "/session/forget-others", tag = "sign-in", operation_id = "forget_others", security(("sessionCookie" = []), ()),
    request_body(content = AccountForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "The page of `/session`, which says whether it is done", content_type = "text/html", body = String),
        (status = 400, description = "`invalid_content_type`, `invalid_request`"),
        (status = 429, description = "Too many requests about accounts from this address, see Retry-After: `rate_limit`"),
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
        Err(error) => not_signed_in(&sign_in, &request, error).await,
    }
}

/// The page with the present state, when the proof of the sign-in is too old, or the sign-in has
/// ended since it was looked for.
pub(super) async fn not_signed_in(
    sign_in: &SignIn,
    request: &Request,
    error: SignInError,
) -> Result<Response, SignInEndpointError> {
    let error = SignInEndpointError::from(error);
    if error.rejection().is_none_or(|rejection| rejection.kind != ErrorKind::LoginRequired) {
        return Err(error);
    }
    request.audit().rejected(&error);
    render_session(sign_in, request).await
}

// Sign-in codes.

/// Make a sign-in code
///
/// Shows a new code, once, which finds the account in browsers that do not remember it. A sign-in
/// still needs a proof. Earlier codes stay good.
#[utoipa::path(
    post, path = "/session/code", tag = "sign-in", operation_id = "make_sign_in_code", security(("sessionCookie" = []), ()),
    request_body(content = AccountForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "The page with the code, or that of `/session`", content_type = "text/html", body = String),
        (status = 400, description = "As many codes were made of the account as can be, or `invalid_content_type`, `invalid_request`"),
        (status = 429, description = "Too many requests about accounts from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn make_code(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInEndpointError> {
    let known = match signed_in(&sign_in, &mut request).await? {
        Ok(known) => known,
        Err(response) => return Ok(response),
    };
    match sign_in.handle.make_sign_in_code(&known.session, &known.client_id).await {
        Ok(code) => {
            request.audit().outcome(AuditOutcome::CodeMade);
            Ok(page::code_made(&sign_in.frame(&request), &known.client_name, &code))
        }
        Err(error) => not_signed_in(&sign_in, &request, error).await,
    }
}

/// The field with a sign-in code, and what a rejection of one names.
const CODE: &str = "code";

/// The page that asks for a sign-in code
#[utoipa::path(
    get, path = "/authorize/{transaction}/code", tag = "sign-in", operation_id = "sign_in_code_page",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction")),
    security(("transactionCookie" = [])),
    responses(
        (status = 200, description = "The page", content_type = "text/html", body = String),
        (status = 404, description = "There is no such sign-in, or it takes no code, or it was begun elsewhere: `not_found`"),
    ),
)]
pub async fn code_page(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    refuse_fetch_ahead(&request)?;
    let seen = match transaction_id(&request) {
        Ok(id) => BrowserSignIn::look_up(&sign_in, &request, id).await.map_err(SignInEndpointError::from),
        Err(error) => Err(error),
    };
    match seen {
        Ok(seen) if seen.secret.is_none() && !accepts_json(&request) => {
            Ok(seen.elsewhere(&sign_in, &sign_in.frame(&request)))
        }
        Ok(seen) if seen.secret.is_some() && seen.takes_codes() => {
            Ok(ask_for_code(&sign_in, &request, &seen, "", None))
        }
        Ok(_) => unknown(&sign_in, &request, SignInError::no_transaction("it takes no sign-in code").into()),
        Err(error) => unknown(&sign_in, &request, error),
    }
}

fn ask_for_code(
    sign_in: &SignIn,
    request: &Request,
    seen: &BrowserSignIn,
    typed: &str,
    problem: Option<CodeProblem>,
) -> Response {
    let frame = sign_in.frame(request);
    let sign_in_page = frame.path(&format!("/authorize/{}", seen.id));
    let action = frame.path(&format!("/authorize/{}/code", seen.id));
    let application = &seen.view.asked.app_name;
    let passkey = seen.passkey_form(sign_in, &frame);
    let question = CodeQuestion { application, action: &action, sign_in_page: &sign_in_page, typed, passkey, problem };
    page::code_question(&frame, &question)
}

/// Ask for the account of a sign-in code
///
/// Begins again with the same request of the application, and asks for a proof of the account that
/// the code leads to. A wrong code is counted against its source.
#[utoipa::path(
    post, path = "/authorize/{transaction}/code", tag = "sign-in", operation_id = "use_sign_in_code",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction")),
    request_body(content = CodeForm, content_type = "application/x-www-form-urlencoded"),
    security(("transactionSecret" = []), ("transactionCookie" = [])),
    responses(
        (status = 200, description = "To a program (`Accept: application/json`): the page of the new sign-in", body = NewCode),
        (status = 303, description = "To the page of the new sign-in, with its cookie", headers(("Location" = String, description = "The page"))),
        (status = 400, description = "The code is wrong, another site sent the request, the application expects one person, or the sign-in was answered: `invalid_request`"),
        (status = 404, description = "There is no such sign-in, or it was completed, or it was begun elsewhere: `not_found`"),
        (status = 429, description = "Too many sign-ins or wrong codes from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn use_code(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInEndpointError> {
    let typed = Zeroizing::new(match read_form(&mut request, &[CODE]).await {
        Ok(form) => form.get(CODE).unwrap_or_default().to_owned(),
        Err(error) => {
            sign_in.handle.charge_source(request.source())?;
            return Err(error);
        }
    });
    let begun = async {
        let (id, secret) = form(&sign_in, &request).await?;
        let code: SignInCode = typed.parse().map_err(|error: InvalidSignInCode| {
            SignInRejection::of(CODE, ErrorKind::InvalidRequest, error.to_string())
        })?;
        let user_agent = user_agent(&request);
        let source = Some(request.source());
        Ok(sign_in.handle.begin_with_code(id, &secret, &code, source, user_agent.as_deref()).await?)
    };
    let is_code = typed.parse::<SignInCode>().is_ok();
    let wrong = if is_code { CodeProblem::Unknown } else { CodeProblem::Malformed };
    // What is longer than the field takes is not shown again.
    let shown = if typed.len() <= LONGEST_TYPED { &*typed } else { "" };
    to_account(&sign_in, &request, begun.await, CODE, shown, wrong).await
}

/// Answers a person who used a pointer: with the new sign-in that asks for its account, or with the
/// page that asks for a code, which says what is `wrong`. A rejection that names `field` counts as
/// a guess.
pub(super) async fn to_account(
    sign_in: &SignIn,
    request: &Request,
    begun: Result<NewTransaction, SignInEndpointError>,
    field: &str,
    shown: &str,
    wrong: CodeProblem,
) -> Result<Response, SignInEndpointError> {
    let error = match begun {
        Ok(begun) => return Ok(to_new_sign_in(sign_in, request, &begun)),
        Err(error) => error,
    };
    if error.rejection().is_none_or(|rejection| rejection.attribute != Some(field)) {
        return problem(sign_in, request, error, None, false).await;
    }
    sign_in.handle.charge_source(request.source())?;
    if accepts_json(request) {
        return Err(error);
    }
    request.audit().rejected(&error);
    let seen = BrowserSignIn::look_up(sign_in, request, transaction_id(request)?).await?;
    Ok(ask_for_code(sign_in, request, &seen, shown, Some(wrong)))
}

/// The longest code that is shown again after it was wrong, in bytes.
const LONGEST_TYPED: usize = 64;

// Links.

/// Make a link for another device
///
/// Shows a link and its QR code, good once within five minutes: the browser that opens it remembers
/// the account. A sign-in still needs a proof.
#[utoipa::path(
    post, path = "/session/link", tag = "sign-in", operation_id = "make_account_link", security(("sessionCookie" = []), ()),
    request_body(content = AccountForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "The page with the link, or that of `/session`", content_type = "text/html", body = String),
        (status = 400, description = "`invalid_content_type`, `invalid_request`"),
        (status = 429, description = "Too many requests about accounts from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn make_link(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInEndpointError> {
    let known = match signed_in(&sign_in, &mut request).await? {
        Ok(known) => known,
        Err(response) => return Ok(response),
    };
    match sign_in.handle.make_link(&known.session, &known.client_id).await {
        Ok(link) => {
            request.audit().outcome(AuditOutcome::LinkMade);
            let url = Zeroizing::new(format!("{}/session/link/{}", sign_in.handle.provider().issuer, link.secret));
            Ok(page::link_made(&sign_in.frame(&request), &known.client_name, &url))
        }
        Err(error) => not_signed_in(&sign_in, &request, error).await,
    }
}

/// The page of a link for another device
///
/// Names the application, and asks before this browser remembers the account. Nothing changes.
#[utoipa::path(
    get, path = "/session/link/{link}", tag = "sign-in", operation_id = "account_link_page",
    params(("link" = String, Path, description = "The secret of the link", pattern = "^[A-Za-z0-9_-]{43}$")),
    responses(
        (status = 200, description = "The page", content_type = "text/html", body = String),
        (status = 404, description = "A page: there is no such link", content_type = "text/html", body = String),
        (status = 410, description = "A page: the link was used, or is no longer valid", content_type = "text/html", body = String),
        (status = 429, description = "Too many links that do not exist from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn link_page(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    refuse_fetch_ahead(&request)?;
    let link = Zeroizing::new(request.param("link")?.to_string());
    ask_about_link(&sign_in, &request, &link).await
}

async fn ask_about_link(sign_in: &SignIn, request: &Request, link: &str) -> Result<Response, SignInEndpointError> {
    let frame = sign_in.frame(request);
    match sign_in.handle.linked_account(link, Some(request.source())).await? {
        Ok(account) => {
            let action = frame.path(request.path());
            Ok(page::link_question(&frame, &account.client_name, &action))
        }
        Err(end) => link_ended(sign_in, request, end),
    }
}

/// The page of a link that leads nowhere. An unknown one counts as a guess.
fn link_ended(sign_in: &SignIn, request: &Request, end: LinkEnd) -> Result<Response, SignInEndpointError> {
    if end == LinkEnd::Unknown {
        sign_in.handle.charge_source(request.source())?;
    }
    Ok(page::link_ended(&sign_in.frame(request), end))
}

/// Remember the account of a link
///
/// Makes this browser remember the account, and uses the link up. It brings no session.
#[utoipa::path(
    post, path = "/session/link/{link}", tag = "sign-in", operation_id = "use_account_link",
    params(("link" = String, Path, description = "The secret of the link", pattern = "^[A-Za-z0-9_-]{43}$")),
    responses(
        (status = 200, description = "A page: this browser remembers the account; or that asks again, when another site sent the request", content_type = "text/html", body = String),
        (status = 404, description = "A page: there is no such link", content_type = "text/html", body = String),
        (status = 410, description = "A page: the link was used, or is no longer valid", content_type = "text/html", body = String),
        (status = 429, description = "Too many requests about accounts from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn use_link(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    refuse_fetch_ahead(&request)?;
    if let Some(limited) = charge(&sign_in, &request)? {
        return Ok(limited);
    }
    let link = Zeroizing::new(request.param("link")?.to_string());
    if !is_same_origin(&sign_in, &request) {
        request.audit().outcome(AuditOutcome::Asked);
        return ask_about_link(&sign_in, &request, &link).await;
    }
    let cookie = pointers_cookie(&sign_in, &request).await?;
    match sign_in.handle.use_link(&link, &cookie, Some(request.source())).await? {
        Ok(UsedLink { account: LinkedAccount { client_id, client_name }, pointers }) => {
            request.audit().client(&client_id);
            request.audit().outcome(AuditOutcome::LinkUsed);
            let links = sign_in.appearance.app_links(&client_id);
            let application = Application::new(&client_id, &client_name, &links, &sign_in.handle.provider().issuer);
            let mut response = page::link_used(&sign_in.frame(&request), &application);
            pointers.into_iter().for_each(|secret| set_pointers(&sign_in, &mut response, &secret));
            Ok(response)
        }
        Err(end) => link_ended(&sign_in, &request, end),
    }
}
