//! `GET` and `POST /authorize`: where a sign-in begins.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::header::{ACCEPT, CACHE_CONTROL, COOKIE, HeaderValue, LOCATION, SET_COOKIE};
use hyper::{Method, StatusCode};
use selfsame_actors::{Begun, SignInFailure, TRANSACTION_LIFETIME};
use selfsame_protocol::sign_in::error::{ErrorKind, SignInError};
use selfsame_protocol::sign_in::response::{Delivery, Target};
use selfsame_protocol::sign_in::{AuthorizationRequest, AuthorizeRefusal, Parameters};
use serde_json::json as value;

use super::SignIn;
use super::error::SignInFault;
use super::form::read_form;
use super::page;
use crate::http::{Request, Response, empty, json};

/// Checks an authorization request, keeps it, and shows the page; programs get its JSON form.
pub async fn authorize(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInFault> {
    let wants_json = accepts_json(&request);
    let source = request.source();
    if let Err(refused) = sign_in.handle.charge_source(source) {
        return if wants_json { Err(refused.into()) } else { Ok(page::too_many(sign_in.root(), &refused)) };
    }
    let parameters = match *request.method() == Method::POST {
        true => read_form(&mut request, &[]).await?,
        false => request.query().map(|(name, value)| (name.into_owned(), value.into_owned())).collect(),
    };
    // A program keeps no session.
    let session = if wants_json { None } else { cookie(&request, SESSION_COOKIE) };
    match begin(&sign_in, &parameters, session, source).await {
        Ok(Begin::Shown { begun, client_name }) => shown(&sign_in, &begun, &client_name, wants_json),
        Ok(Begin::Known(delivery)) => Ok(delivered(&sign_in, delivery)),
        Err(NotBegun::Refused(refusal)) if wants_json => Err(refusal.error().clone().into()),
        Err(NotBegun::Refused(AuthorizeRefusal::Shown(error))) => {
            Ok(page::error(sign_in.root(), StatusCode::BAD_REQUEST, &error))
        }
        Err(NotBegun::Refused(AuthorizeRefusal::Sent { target, error })) => Ok(sent(&sign_in, &target, &error)),
        Err(NotBegun::Failed { failure, .. }) if wants_json => Err(failure.into()),
        Err(NotBegun::Failed { failure: SignInFailure::TooMany(refused), .. }) => {
            Ok(page::too_many(sign_in.root(), &refused))
        }
        Err(NotBegun::Failed { target, failure }) => Ok(sent(&sign_in, &target, &told(failure))),
    }
}

/// Why a request does not go on.
enum NotBegun {
    /// It is wrong.
    Refused(AuthorizeRefusal),
    /// It is good, and could not be done.
    Failed { target: Target, failure: SignInFailure },
}

/// How a good request goes on.
enum Begin {
    /// The person is asked.
    Shown { begun: Begun, client_name: String },
    /// The browser's session knows the person.
    Known(Delivery),
}

async fn begin(
    sign_in: &SignIn,
    parameters: &Parameters,
    session: Option<&str>,
    source: IpAddr,
) -> Result<Begin, NotBegun> {
    let client = parameters.get("client_id").and_then(|id| sign_in.handle.client(id));
    let known = client.as_ref().map(|client| &client.client);
    let request = AuthorizationRequest::read(parameters, |_| known).map_err(NotBegun::Refused)?;
    let target = request.target.clone();
    let client_name = client.map(|client| client.name.clone()).unwrap_or_default();
    let begun = begin_good(sign_in, request, client_name, session, source).await;
    begun.map_err(|failure| NotBegun::Failed { target, failure })
}

async fn begin_good(
    sign_in: &SignIn,
    request: AuthorizationRequest,
    client_name: String,
    session: Option<&str>,
    source: IpAddr,
) -> Result<Begin, SignInFailure> {
    let expected = sign_in.handle.expected_subject(&request).await?;
    if let Some(session) = session
        && let Some(person) = sign_in.handle.known_person(&request, expected.as_deref(), session)?
    {
        return Ok(Begin::Known(sign_in.handle.grant_known(request, person).await?));
    }
    if request.is_silent {
        let detail = "the person has to sign in: nobody this request is about is signed in in this browser";
        return Err(SignInError::of("prompt", ErrorKind::LoginRequired, detail).into());
    }
    let begun = sign_in.handle.begin(request, expected, Some(source)).await?;
    Ok(Begin::Shown { begun, client_name })
}

/// A failure in the words that the client is told.
fn told(failure: SignInFailure) -> SignInError {
    match failure {
        SignInFailure::Refused(error) => error,
        SignInFailure::Unavailable { .. } | SignInFailure::TooMany(_) => {
            SignInError::new(ErrorKind::TemporarilyUnavailable, failure.to_string())
        }
        SignInFailure::Store(error) => {
            tracing::error!(%error, "the store failed");
            SignInError::new(ErrorKind::TemporarilyUnavailable, "the state cannot be read or written at the moment")
        }
        SignInFailure::Signing(_) | SignInFailure::Proof(_) => {
            tracing::error!(error = %failure, "a sign-in could not begin");
            SignInError::new(ErrorKind::ServerError, "an internal error")
        }
    }
}

/// Whether the caller is a program that wants JSON.
pub fn accepts_json(request: &Request) -> bool {
    names(request, "application/json")
}

/// Whether the caller shows pages to a person.
pub fn accepts_html(request: &Request) -> bool {
    names(request, "text/html") && !accepts_json(request)
}

/// Whether `Accept` names a type, not only by a wildcard.
fn names(request: &Request, content_type: &str) -> bool {
    let accepted = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepted.flat_map(|list| list.split(',')).map(|accepted| accepted.split(';').next().unwrap_or(""));
    types.any(|accepted| accepted.trim().eq_ignore_ascii_case(content_type))
}

fn shown(sign_in: &SignIn, begun: &Begun, client_name: &str, wants_json: bool) -> Result<Response, SignInFault> {
    let issuer = &sign_in.handle.provider().issuer;
    let request_url = format!("{issuer}/authorize/{}/request", begun.id);
    if wants_json {
        let answer = value!({
            "transaction": begun.id.to_string(),
            "request_url": request_url,
            "expires_at": begun.expires_at,
            "secret": begun.secret,
        });
        return Ok(json(StatusCode::OK, &answer));
    }
    let proof_request = sign_in.handle.proof_request(begun.id)?;
    let mut response = page::sign_in(sign_in.root(), begun, &request_url, client_name, proof_request.scopes);
    // Each transaction has a cookie of its own, so that several can be under way in one browser.
    let path = format!("/authorize/{}", begun.id);
    set_cookie(sign_in, &mut response, TRANSACTION_COOKIE, &begun.secret, &path, TRANSACTION_LIFETIME);
    Ok(response)
}

/// Gives a browser a secret for a path of ours: no script reads it, no other site's form sends it.
pub fn set_cookie(sign_in: &SignIn, response: &mut Response, name: &str, secret: &str, path: &str, seconds: u64) {
    let secure = if sign_in.handle.provider().issuer.starts_with("https:") { "; Secure" } else { "" };
    let path = format!("{}{path}", sign_in.root());
    let path = if path.is_empty() { "/" } else { &path };
    let cookie = format!("{name}={secret}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}

/// The value of a cookie.
pub fn cookie<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    let cookies = request.headers().get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(given, _)| *given == name).map(|(_, value)| value)
}

/// The cookie that has a transaction's secret.
pub const TRANSACTION_COOKIE: &str = "selfsame_transaction";

/// The cookie that has a browser session's.
pub const SESSION_COOKIE: &str = "selfsame_session";

/// An error on its way to the client.
fn sent(sign_in: &SignIn, target: &Target, error: &SignInError) -> Response {
    let fields = vec![("error", error.kind.standard_code().to_owned()), ("error_description", error.detail.clone())];
    delivered(sign_in, target.deliver(fields, &sign_in.handle.provider().issuer))
}

/// A response that sends the browser on.
pub fn delivered(sign_in: &SignIn, delivery: Delivery) -> Response {
    match delivery {
        Delivery::Redirect { location } => {
            let mut response = empty(StatusCode::SEE_OTHER);
            let headers = response.headers_mut();
            // Registered URIs are printable ASCII, and what is behind them is encoded.
            if let Ok(location) = HeaderValue::from_str(&location) {
                headers.insert(LOCATION, location);
            }
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Delivery::Post { action, fields } => page::form_post(sign_in.root(), &action, &fields),
    }
}
