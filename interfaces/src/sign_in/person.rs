//! What a person's browser does with a sign-in under way: its page, more time, a new code, the
//! completion and the cancelling.
//!
//! The cookie of the transaction decides what a browser sees and may do. A browser without it
//! learns where the sign-in began, and how to begin anew, and nothing of it is carried over.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_actors::{
    BeforeCompletion, BrowserCookies, CompletedTransaction, CompletionSecrets, IssuedItem, NewTransaction, NextPerson,
    NextProof, ProofRequest, SignInError, TransactionId, TransactionState, TransactionView,
};
use selfsame_protocol::sign_in::proof_request::{SignInProof, WalletFailure};
use selfsame_protocol::sign_in::response::{Delivery, ErrorKind, SignInRejection};
use selfsame_protocol::sign_in::transaction::DigitCheck;
use serde_json::Value;
use serde_json::json as value;

use super::SignIn;
use super::appearance::AppLinks;
use super::authorize::{to_sign_in, user_agent};
use super::browser::{
    MOST_TRANSACTIONS, accepts_html, accepts_json, is_same_origin, pointers_cookie, refuse_fetch_ahead, remove_surplus,
    respond_delivery, see_other, session_cookie, set_pointers, set_session, set_transaction, transaction_secrets,
    transactions,
};
use super::error::SignInEndpointError;
use super::page::{self, Application, Frame, PasskeyForm, SignInPage, State};
use super::schema::{MoreTime, NewCode, PostedResponse, TransactionPath};
use super::transaction::{RETURN, secret, transaction_id};
use super::wallet_links::Way;
use crate::http::{AuditOutcome, Request, Response, json};

/// The parameter with which the person goes on from the page about an authenticator's failure.
const ONWARD: &str = "onward";

/// The parameter with which the person says whether this browser is to remember the account: `yes`
/// or `no`, or [`ONLY_THIS`].
const REMEMBER: &str = "remember";

/// The answer with which this browser is to remember the account, and all others are to forget it.
const ONLY_THIS: &str = "only";

/// The parameter with which the person goes on from the page about attached proofs.
const ATTACHED: &str = "attached";

/// The parameter with the digits that the authenticator shows.
pub(super) const DIGITS: &str = "digits";

/// What a page shows of a sign-in: the transaction, and the application's addresses.
pub(super) struct BrowserSignIn {
    pub id: TransactionId,
    pub view: TransactionView,
    links: Arc<AppLinks>,
    /// The transaction's secret, when this browser has it.
    pub secret: Option<String>,
}

impl BrowserSignIn {
    /// Looks a transaction up for a browser.
    pub async fn look_up(sign_in: &SignIn, request: &Request, id: TransactionId) -> Result<Self, SignInError> {
        sign_in.handle.await_given(IssuedItem::Transaction(id), Some(request.source())).await?;
        let view = sign_in.handle.view(id)?;
        let fits = |secret: &&str| sign_in.handle.progress(id, secret).is_ok();
        let secret = transaction_secrets(sign_in, request, id).into_iter().find(fits).map(str::to_owned);
        Ok(Self { id, links: sign_in.appearance.app_links(&view.asked.app_id), view, secret })
    }

    pub fn application(&self, sign_in: &SignIn) -> Application<'_> {
        let ProofRequest { app_id, app_name, .. } = &self.view.asked;
        Application::new(app_id, app_name, &self.links, &sign_in.handle.provider().issuer)
    }

    /// Whether a sign-in code can say which account it asks for. Where the application expects one
    /// person, it asks for that account already; where a proof is to be attached, a legacy proof
    /// has said whose account it is.
    pub(super) fn takes_codes(&self) -> bool {
        self.view.asked.proof == SignInProof::Account && !self.view.expects_person && !self.view.attaches
    }

    /// The form that says by a passkey which account it asks for, where there are passkeys.
    pub(super) fn passkey_form(&self, sign_in: &SignIn, frame: &Frame<'_>) -> Option<PasskeyForm> {
        let domain = sign_in.handle.passkey_domain().filter(|_| self.takes_codes())?.as_str().to_owned();
        Some(PasskeyForm { domain, action: frame.path(&format!("/authorize/{}/passkey", self.id)) })
    }

    /// Whether it asks for a proof of an account, and another person may answer in its place.
    fn may_be_another_person(&self) -> bool {
        self.view.asks_for_account && !self.view.expects_person
    }

    pub fn state(&self, was_wrong: bool) -> State {
        match self.view.progress.state {
            TransactionState::Waiting => State::Waiting,
            TransactionState::Opened => State::Opened,
            TransactionState::Refused(_) => State::Refused,
            TransactionState::AnsweredWithDigits => State::Digits { was_wrong },
            TransactionState::AnsweredOnSameDevice => State::AnsweredHere,
            TransactionState::Over => State::Over,
            // The page of the sign-in then goes on by itself.
            TransactionState::Answered | TransactionState::Done => State::Done,
        }
    }

    /// The page of the sign-in.
    fn page(&self, sign_in: &SignIn, frame: &Frame<'_>, was_wrong: bool) -> Response {
        let Self { id, view: TransactionView { asked, progress, short_id, is_continued, attaches, .. }, .. } = self;
        let is_ours = matches!(sign_in.links.way(&asked.app_id, asked.kind, &sign_in.request_url(*id)), Way::Link(_));
        page::sign_in(
            frame,
            &SignInPage {
                transaction: &id.to_string(),
                application: self.application(sign_in),
                scopes: asked.scopes,
                short_link: &sign_in.short_url(*short_id),
                state: self.state(was_wrong),
                expires_at: progress.ends_at,
                now: sign_in.bridge.clock.unix_seconds(),
                extensions_left: progress.extensions_left,
                allows_cross_device: asked.allows_cross_device,
                scans_in_app: is_ours,
                may_be_another_person: self.may_be_another_person(),
                takes_codes: self.takes_codes(),
                passkey: self.passkey_form(sign_in, frame),
                may_be_older: asked.may_be_older,
                is_continued: *is_continued,
                attaches: *attaches,
                joining_page: sign_in.links.joining_page(&asked.app_id, asked.kind),
            },
        )
    }

    /// The page for a browser in which the sign-in did not begin.
    pub(super) fn elsewhere(&self, sign_in: &SignIn, frame: &Frame<'_>) -> Response {
        let (application, now) = (self.application(sign_in), sign_in.bridge.clock.unix_seconds());
        let initiator = Some(&self.view.asked.initiator);
        page::elsewhere(frame, StatusCode::NOT_FOUND, Some(&application), initiator, now)
    }
}

// `GET /authorize/{transaction}`: the page of a sign-in.

/// The page of a sign-in
///
/// Shows the code and the button for an authenticator, how far the sign-in is, and what a person
/// can do then. An answered sign-in goes on by itself.
#[utoipa::path(
    get, path = "/authorize/{transaction}", tag = "sign-in", operation_id = "sign_in_page",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction")),
    security(("transactionCookie" = [])),
    responses(
        (status = 200, description = "The page", content_type = "text/html", body = String),
        (status = 303, description = "The sign-in is answered: to its completion", headers(("Location" = String, description = "The address of the completion"))),
        (status = 404, description = "A page: there is no such sign-in any more, or it was begun in another browser; to a program `not_found`"),
    ),
)]
pub async fn sign_in_page(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    refuse_fetch_ahead(&request)?;
    let frame = sign_in.frame(&request);
    let seen = match transaction_id(&request) {
        Ok(id) => BrowserSignIn::look_up(&sign_in, &request, id).await.map_err(SignInEndpointError::from),
        Err(error) => Err(error),
    };
    let seen = match seen {
        Ok(seen) => seen,
        Err(error) => return unknown(&sign_in, &request, error),
    };
    Ok(match (&seen.secret, seen.view.progress.state) {
        (None, _) if accepts_json(&request) => {
            return Err(SignInError::no_transaction("the program has no cookie of it").into());
        }
        (None, _) => seen.elsewhere(&sign_in, &frame),
        (Some(_), TransactionState::Answered) => see_other(&frame.path(&format!("/authorize/{}/complete", seen.id))),
        (Some(_), _) => {
            let mut response = seen.page(&sign_in, &frame, false);
            remove_surplus(&sign_in, &mut response, &transactions(&sign_in, &request), MOST_TRANSACTIONS);
            response
        }
    })
}

/// The answer about a sign-in that there is not: a page for a person. Ids are not guessed, so who
/// asks for one that does not exist is slowed down.
pub(super) fn unknown(
    sign_in: &SignIn,
    request: &Request,
    error: SignInEndpointError,
) -> Result<Response, SignInEndpointError> {
    let Some(rejection) = error.rejection().filter(|rejection| rejection.kind == ErrorKind::NotFound) else {
        return Err(error);
    };
    sign_in.handle.charge_source(request.source())?;
    if accepts_json(request) {
        return Err(error);
    }
    request.audit().rejected(&error);
    Ok(page::unknown_code(&sign_in.frame(request), rejection, None))
}

// Completion.

/// Complete the sign-in
///
/// Sends the browser back to the application. The same secret gets the same response again until
/// the code in it was used or has expired, because browsers repeat a request whose answer was lost.
/// Before it come the pages that a person has to see: why the authenticator gave no proof, which
/// leads on with `onward`; whether this browser, or this one alone, is to remember the account,
/// which leads on with `remember`; the question for another proof. Only a failed completion is
/// counted against its source.
#[utoipa::path(
    get, path = "/authorize/{transaction}/complete", tag = "sign-in", operation_id = "complete",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction"), ("return" = Option<String>, Query, pattern = "^[A-Za-z0-9_-]{43}$", description = "The secret of the return URL, after a proof from the same device"), ("digits" = Option<String>, Query, pattern = "^[0-9]{3}$", description = "The digits that the authenticator shows, after a proof with `digits`; three different wrong ones end the sign-in"), ("onward" = Option<String>, Query, description = "The person has seen why there was no proof"), ("attached" = Option<String>, Query, description = "The person has seen what there is to say about current proofs that are attached to the account, or may be"), ("remember" = Option<String>, Query, pattern = "^(yes|no|only)$", description = "Whether this browser is to remember the account; `only`: and all others are to forget it, from a page of this service alone")),
    security(("transactionSecret" = []), ("transactionCookie" = [])),
    responses(
        (status = 200, description = "The response by `form_post`: a page that posts itself, to a program its address and fields; or a page that says why the authenticator gave no proof, or asks whether the browser is to remember the account", content((String = "text/html"), (PostedResponse = "application/json"))),
        (status = 303, description = "The response, at the redirect URI", headers(("Location" = String, description = "The redirect URI with the response"))),
        (status = 400, description = "Not answered yet, or `return` or `digits` is missing or wrong: `invalid_request`"),
        (status = 404, description = "No such sign-in is under way, a wrong secret, or completed before, and its code was used or has expired: `not_found`"),
        (status = 429, description = "Too many failed completions from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn complete(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    refuse_fetch_ahead(&request)?;
    let error = match complete_transaction(&sign_in, &request).await {
        Ok(response) => return Ok(response),
        Err(error) => error,
    };
    if error.rejection().is_none() {
        return Err(error);
    }
    sign_in.handle.charge_source(request.source())?;
    let was_wrong = request.query_parameter(DIGITS)?.is_some();
    let path = sign_in.frame(&request).path(request.path());
    problem(&sign_in, &request, error, Some(&path), was_wrong).await
}

async fn complete_transaction(sign_in: &SignIn, request: &Request) -> Result<Response, SignInEndpointError> {
    let id = transaction_id(request)?;
    let secret = secret(sign_in, request, id).await?;
    sign_in.handle.await_given(IssuedItem::Transaction(id), Some(request.source())).await?;
    let is_browser = transaction_secrets(sign_in, request, id).contains(&secret.as_str());
    let (returned, digits) = (request.query_parameter(RETURN)?, request.query_parameter(DIGITS)?);
    let digits = digits.as_deref().map(str::trim);
    let shown = CompletionSecrets { return_secret: returned.as_deref(), digits };
    let remember = request.query_parameter(REMEMBER)?;
    // A link of another site makes nothing forgotten.
    let is_answer = |said: &&str| match *said {
        ONLY_THIS => is_same_origin(sign_in, request),
        said => ["yes", "no"].contains(&said),
    };
    let remember = remember.as_deref().filter(is_answer);
    let cookies = match is_browser {
        true => BrowserCookies {
            session: session_cookie(sign_in, request).await?,
            pointers: pointers_cookie(sign_in, request).await?,
            remembers: [Some("yes"), Some(ONLY_THIS)].contains(&remember),
            forgets_others: remember == Some(ONLY_THIS),
        },
        false => BrowserCookies::NONE,
    };
    if accepts_html(request) {
        let frame = sign_in.frame(request);
        let path = frame.path(request.path());
        let onward = |query: &str| format!("{path}{}{query}", if path.contains('?') { '&' } else { '?' });
        // A link of another site hides nothing from the person.
        let has_seen_attached = request.query_parameter(ATTACHED)?.is_some() && is_same_origin(sign_in, request);
        let seen = if has_seen_attached { format!("{ATTACHED}=seen&") } else { String::new() };
        // It goes into links.
        let is_secret = |text: &&str| {
            text.len() == 43 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        let returned = returned.as_deref().filter(is_secret).unwrap_or_default();
        let before = sign_in.handle.before_completion(id, &secret, shown, &cookies.pointers, has_seen_attached).await?;
        match before {
            Some(BeforeCompletion::AnotherProof) => {
                request.audit().outcome(AuditOutcome::AnotherProofAsked);
                let (source, user_agent) = (Some(request.source()), user_agent(request));
                let next = NextProof::Needed;
                let begun = sign_in.handle.go_on(id, &secret, shown, next, source, user_agent.as_deref()).await?;
                return Ok(to_new_sign_in(sign_in, request, &begun));
            }
            Some(BeforeCompletion::AboutAttached { application, about }) => {
                request.audit().outcome(AuditOutcome::Asked);
                let action = frame.path(&format!("/authorize/{id}/go-on"));
                let typed = digits.filter(|digits| DigitCheck::is_try(digits)).unwrap_or_default();
                let shown = page::ShownSecrets { returned, digits: typed };
                let query = shown.query();
                let onward = onward(&format!("{query}{ATTACHED}=seen"));
                return Ok(page::about_attached(&frame, &application, about, &action, &onward, &shown));
            }
            Some(BeforeCompletion::NoProof(failure)) if request.query_parameter(ONWARD)?.is_none() => {
                request.audit().outcome(AuditOutcome::ShownWhyNoProof);
                let seen = BrowserSignIn::look_up(sign_in, request, id).await?;
                let at = |form: &str| frame.path(&format!("/authorize/{id}/{form}"));
                let another_person = seen.may_be_another_person().then(|| at("another-person"));
                let is_lost = failure == WalletFailure::NullifierReplayed
                    && sign_in.handle.may_have_lost_first(id, &transactions(sign_in, request))?;
                let has_accounts = seen.view.asked.proof == SignInProof::Account;
                let code = seen.takes_codes().then(|| at("code"));
                let (new_code, passkey) = (&at("new-code"), seen.passkey_form(sign_in, &frame));
                let older = seen.view.asked.may_be_older.then(|| at("older"));
                let signs_in = seen.view.attaches;
                let again =
                    page::Again { new_code, another_person, has_accounts, is_lost, code, passkey, older, signs_in };
                let (application, onward) = (&seen.view.asked.app_name, onward(&format!("{ONWARD}=1")));
                return Ok(page::no_proof(&frame, failure, application, &onward, &again));
            }
            Some(BeforeCompletion::AskToRemember { application, was_found }) if remember.is_none() => {
                request.audit().outcome(AuditOutcome::Asked);
                let typed = digits.filter(|digits| DigitCheck::is_try(digits));
                let with_digits = typed.map(|digits| format!("{DIGITS}={digits}&")).unwrap_or_default();
                let onward = onward(&format!("{with_digits}{seen}{REMEMBER}="));
                return Ok(page::ask_to_remember(&frame, &application, &onward, was_found));
            }
            Some(BeforeCompletion::AccountFound { application }) if remember.is_none() => {
                request.audit().outcome(AuditOutcome::Asked);
                let onward = onward(&format!("{RETURN}={returned}&{seen}{REMEMBER}="));
                return Ok(page::account_found(&frame, &application, &onward));
            }
            _ => {}
        }
    }
    let completed = sign_in.handle.complete(id, &secret, shown, &cookies).await?;
    let CompletedTransaction { delivery, new_session, pointers, is_repeated } = completed;
    let mut response = deliver(sign_in, request, delivery);
    // Cookies without the prefix `__Host-` may be another browser's.
    if is_browser && (!is_repeated || sign_in.has_host_cookies()) {
        new_session.into_iter().for_each(|secret| set_session(sign_in, &mut response, &secret));
        pointers.into_iter().for_each(|secret| set_pointers(sign_in, &mut response, &secret));
    }
    Ok(response)
}

/// Sends the browser back to the application. A program gets what a form would post.
fn deliver(sign_in: &SignIn, request: &Request, delivery: Delivery) -> Response {
    match delivery {
        Delivery::Post { action, fields } if accepts_json(request) => {
            let fields: serde_json::Map<String, Value> =
                fields.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
            json(StatusCode::OK, &value!({"action": action, "fields": fields}))
        }
        delivery => respond_delivery(&sign_in.frame(request), delivery),
    }
}

/// The answer to a person whose step is rejected: the page of the sign-in where that says what is
/// next, otherwise a page that says why, with a way on. A program gets the error.
pub(super) async fn problem(
    sign_in: &SignIn,
    request: &Request,
    error: SignInEndpointError,
    again: Option<&str>,
    was_wrong: bool,
) -> Result<Response, SignInEndpointError> {
    let Some(rejection) = error.rejection().filter(|_| accepts_html(request)) else { return Err(error) };
    request.audit().rejected(&error);
    let frame = sign_in.frame(request);
    let seen = match transaction_id(request) {
        Ok(id) => BrowserSignIn::look_up(sign_in, request, id).await.ok(),
        Err(_) => None,
    };
    let Some(seen) = seen else { return Ok(page::unknown_code(&frame, rejection, None)) };
    let application = seen.application(sign_in);
    let status = if rejection.kind == ErrorKind::NotFound { StatusCode::NOT_FOUND } else { StatusCode::BAD_REQUEST };
    let on_its_page = |status| {
        let mut response = seen.page(sign_in, &frame, was_wrong);
        *response.status_mut() = status;
        response
    };
    Ok(match (&seen.secret, seen.view.progress.state) {
        _ if rejection.attribute == Some(ORIGIN) => {
            page::cannot_continue(&frame, status, "problem-elsewhere", rejection, None, Some(&application))
        }
        (None, _) => seen.elsewhere(sign_in, &frame),
        (
            Some(_),
            TransactionState::Over
            | TransactionState::Done
            | TransactionState::AnsweredWithDigits
            | TransactionState::AnsweredOnSameDevice,
        ) => on_its_page(status),
        (Some(_), TransactionState::Answered) => {
            page::cannot_continue(&frame, status, "problem-answered", rejection, None, Some(&application))
        }
        (Some(_), _) => {
            page::cannot_continue(&frame, status, "problem-unanswered", rejection, again, Some(&application))
        }
    })
}

// The forms of the page: cancelling, more time, a new code.

/// What a rejection names when another site sent a form.
pub(super) const ORIGIN: &str = "Origin";

/// A form of the sign-in's page: the transaction, and its secret. Like the forms of the other
/// pages, it counts only when no other site sent it; the transaction's cookie is `SameSite=Lax`, so
/// a form of another site comes without it.
pub(super) async fn form(sign_in: &SignIn, request: &Request) -> Result<(TransactionId, String), SignInEndpointError> {
    sign_in.handle.charge_source(request.source())?;
    let id = transaction_id(request)?;
    if !is_same_origin(sign_in, request) {
        let detail = "another site sent this request; use the page of the sign-in";
        return Err(SignInRejection::of(ORIGIN, ErrorKind::InvalidRequest, detail).into());
    }
    let secret = secret(sign_in, request, id).await?;
    sign_in.handle.await_given(IssuedItem::Transaction(id), Some(request.source())).await?;
    Ok((id, secret))
}

/// Cancel a sign-in, on its page
///
/// Ends the sign-in, also after its time, and sends the browser back to the application with
/// `access_denied`; the same secret gets the same response again.
#[utoipa::path(
    post, path = "/authorize/{transaction}/cancel", tag = "sign-in", operation_id = "cancel",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction")),
    security(("transactionSecret" = []), ("transactionCookie" = [])),
    responses(
        (status = 200, description = "A page that posts the response to the application; for a program (`form_post`) what it posts", content((String = "text/html"), (PostedResponse = "application/json"))),
        (status = 303, description = "To the application, with `access_denied`", headers(("Location" = String, description = "The redirect URI"))),
        (status = 400, description = "Another site sent the request, or the sign-in was answered: `invalid_request`"),
        (status = 404, description = "There is no such sign-in, or it was completed, or it was begun elsewhere: `not_found`"),
        (status = 429, description = "Too many requests from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn cancel(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    let cancelled = async {
        let (id, secret) = form(&sign_in, &request).await?;
        Ok(sign_in.handle.cancel(id, &secret).await?)
    };
    match cancelled.await {
        Ok(delivery) => {
            request.audit().outcome(AuditOutcome::CancelledByPerson);
            Ok(deliver(&sign_in, &request, delivery))
        }
        Err(error) => problem(&sign_in, &request, error, None, false).await,
    }
}

/// More time for a sign-in
///
/// Its time begins anew, twice at most, while it waits for an answer.
#[utoipa::path(
    post, path = "/authorize/{transaction}/more-time", tag = "sign-in", operation_id = "more_time",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction")),
    security(("transactionSecret" = []), ("transactionCookie" = [])),
    responses(
        (status = 200, description = "To a script (`Accept: application/json`): when it ends now", body = MoreTime),
        (status = 303, description = "To the page of the sign-in", headers(("Location" = String, description = "The page"))),
        (status = 400, description = "Another site sent the request, or the sign-in gets no more time: `invalid_request`"),
        (status = 404, description = "There is no such sign-in, or it was begun elsewhere: `not_found`"),
        (status = 429, description = "Too many requests from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn more_time(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    let extended = async {
        let (id, secret) = form(&sign_in, &request).await?;
        Ok((id, sign_in.handle.extend(id, &secret).await?))
    };
    match extended.await {
        Ok((_, progress)) if accepts_json(&request) => {
            let (ends_at, left) = (progress.ends_at, progress.extensions_left);
            Ok(json(StatusCode::OK, &value!({"expires_at": ends_at, "extensions_left": left})))
        }
        Ok((id, _)) => Ok(to_sign_in(&sign_in.frame(&request), id)),
        // The page of the sign-in says what there is to do in place of it.
        Err(error) if is_about_time(&error) && accepts_html(&request) => {
            Ok(to_sign_in(&sign_in.frame(&request), transaction_id(&request)?))
        }
        Err(error) => problem(&sign_in, &request, error, None, false).await,
    }
}

/// Whether a sign-in gets no more time, and nothing else is wrong.
fn is_about_time(error: &SignInEndpointError) -> bool {
    let is_about_time = |rejection: &SignInRejection| {
        rejection.kind == ErrorKind::InvalidRequest && rejection.attribute != Some(ORIGIN)
    };
    error.rejection().is_some_and(is_about_time)
}

/// A new code for a sign-in that ended, or whose authenticator gave no proof
///
/// Begins again with the same request of the application, in the browser that began it.
#[utoipa::path(
    post, path = "/authorize/{transaction}/new-code", tag = "sign-in", operation_id = "new_code",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction")),
    security(("transactionSecret" = []), ("transactionCookie" = [])),
    responses(
        (status = 200, description = "To a script (`Accept: application/json`): the page of the new sign-in", body = NewCode),
        (status = 303, description = "To the page of the new sign-in, with its cookie", headers(("Location" = String, description = "The page"))),
        (status = 400, description = "Another site sent the request: `invalid_request`"),
        (status = 404, description = "There is no such sign-in, or it was completed, or it was begun elsewhere: `not_found`"),
        (status = 429, description = "Too many sign-ins from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn new_code(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    begin_anew(&sign_in, &request, NextPerson::Same).await
}

/// The same sign-in for another person
///
/// Begins again without the account that this browser remembers. The person who answers is signed
/// in.
#[utoipa::path(
    post, path = "/authorize/{transaction}/another-person", tag = "sign-in", operation_id = "another_person",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction")),
    security(("transactionSecret" = []), ("transactionCookie" = [])),
    responses(
        (status = 200, description = "To a script (`Accept: application/json`): the page of the new sign-in", body = NewCode),
        (status = 303, description = "To the page of the new sign-in, with its cookie", headers(("Location" = String, description = "The page"))),
        (status = 400, description = "Another site sent the request, or the sign-in was answered: `invalid_request`"),
        (status = 404, description = "There is no such sign-in, or it was completed, or it was begun elsewhere: `not_found`"),
        (status = 429, description = "Too many sign-ins from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn another_person(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    begin_anew(&sign_in, &request, NextPerson::Another).await
}

/// Sends a browser to a transaction that takes the place of its former one.
async fn begin_anew(sign_in: &SignIn, request: &Request, next: NextPerson) -> Result<Response, SignInEndpointError> {
    let begun = async {
        let (id, secret) = form(sign_in, request).await?;
        let (source, user_agent) = (Some(request.source()), user_agent(request));
        let transactions = transactions(sign_in, request);
        Ok(sign_in.handle.begin_anew(id, &secret, next, &transactions, source, user_agent.as_deref()).await?)
    };
    match begun.await {
        Ok(begun) => Ok(to_new_sign_in(sign_in, request, &begun)),
        Err(error) => problem(sign_in, request, error, None, false).await,
    }
}

/// Sends a browser, or a script of its page, to a sign-in that takes the place of its former one.
pub(super) fn to_new_sign_in(sign_in: &SignIn, request: &Request, begun: &NewTransaction) -> Response {
    request.audit().concerns(begun.id.to_string());
    let frame = sign_in.frame(request);
    let mut response = match accepts_json(request) {
        true => json(StatusCode::OK, &value!({"location": frame.path(&format!("/authorize/{}", begun.id))})),
        false => to_sign_in(&frame, begun.id),
    };
    set_transaction(sign_in, &mut response, begun, &transactions(sign_in, request));
    response
}
