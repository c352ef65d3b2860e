//! `GET` and `POST /authorize`: the beginning of a sign-in.

use std::sync::Arc;

use hyper::header::USER_AGENT;
use hyper::{Method, StatusCode};
use selfsame_actors::{
    Authorization, AuthorizationError, AuthorizationOrigin, NewTransaction, SignInError, TooManyRequests, TransactionId,
};
use serde_json::json as value;

use super::SignIn;
use super::browser::{
    accepts_json, pointers_secrets, read_form, redirect_error, refuse_fetch_ahead, respond_delivery, see_other,
    session_secrets, set_transaction, transactions,
};
use super::error::SignInEndpointError;
use super::page::{self, Application, Frame};
use super::schema::{AuthorizationParameters, TransactionStart};
use crate::http::{AuditNotes, AuditOutcome, Request, Response, json};

/// Begin a sign-in
///
/// Checks an authorization request, stores it as a transaction, and sends the browser to its page,
/// or to that of an open one for the same request; a program gets JSON instead.
#[utoipa::path(
    get, path = "/authorize", tag = "sign-in", operation_id = "authorize",
    params(AuthorizationParameters),
    responses(
        (status = 200, description = "To a program (`Accept: application/json`) the sign-in that began; to a browser the authorization response by `form_post`", content((String = "text/html"), (TransactionStart = "application/json"))),
        (status = 303, description = "To the page of the sign-in, with its cookie; or the authorization response of a browser whose session answers the request, or an error, at the redirect URI", headers(("Location" = String, description = "The page, or the redirect URI with the response"))),
        (status = 400, description = "An error that is not redirected, as a page; to a program every error"),
        (status = 429, description = "Too many sign-ins from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn authorize(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInEndpointError> {
    refuse_fetch_ahead(&request)?;
    let (wants_json, audit) = (accepts_json(&request), request.audit().clone());
    let source = request.source();
    let user_agent = user_agent(&request);
    // A program has no cookies.
    let known = if wants_json { Vec::new() } else { transactions(&sign_in, &request) };
    let mut frame = sign_in.frame(&request);
    let mut client_and_links = None;
    let outcome = match sign_in.handle.charge_source(source) {
        Err(too_many) => Err(BeginError::TooMany(too_many)),
        Ok(()) => {
            let parameters = match *request.method() == Method::POST {
                true => read_form(&mut request, &[]).await?,
                false => request.query().map(|(name, value)| (name.into_owned(), value.into_owned())).collect(),
            };
            frame = sign_in.frame_in(&request, parameters.get("ui_locales"));
            let sessions = if wants_json { Vec::new() } else { session_secrets(&sign_in, &request) };
            if let Some(client) = parameters.get("client_id").and_then(|id| sign_in.handle.client(id)) {
                audit.client(&client.client.id);
                client_and_links = Some((Arc::clone(&client), sign_in.appearance.app_links(&client.client.id)));
            }
            let sessions = sessions.into_iter().map(str::to_owned).collect();
            let pointers = if wants_json { Vec::new() } else { pointers_secrets(&sign_in, &request) };
            let pointers = pointers.into_iter().map(str::to_owned).collect();
            let transactions = known.clone();
            let origin = AuthorizationOrigin { source: Some(source), user_agent, transactions, sessions, pointers };
            sign_in.handle.authorize(&parameters, &origin).await.map_err(BeginError::Authorization)
        }
    };
    match outcome {
        Ok(Authorization::ProofRequested(begun)) => {
            audit.concerns(begun.transaction.id.to_string());
            Ok(match wants_json {
                true => transaction_json(&sign_in, &begun.transaction),
                false => {
                    let mut response = to_sign_in(&frame, begun.transaction.id);
                    set_transaction(&sign_in, &mut response, &begun.transaction, &known);
                    response
                }
            })
        }
        Ok(Authorization::UnderWay(id)) => {
            audit.concerns(id.to_string());
            audit.outcome(AuditOutcome::AlreadyUnderWay);
            Ok(to_sign_in(&frame, id))
        }
        Ok(Authorization::Granted(delivery)) => {
            audit.outcome(AuditOutcome::GrantedFromSession);
            Ok(respond_delivery(&frame, delivery))
        }
        Err(error) if wants_json => Err(error.error().into()),
        Err(error) => {
            let application = client_and_links.as_ref().map(|(client, links)| {
                Application::new(&client.client.id, &client.name, links, &sign_in.handle.provider().issuer)
            });
            Ok(error.render(&frame, &audit, application.as_ref()))
        }
    }
}

/// The browser's own words about itself.
pub(super) fn user_agent(request: &Request) -> Option<String> {
    request.headers().get(USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Sends the browser to the page of a sign-in, so that a reload, the button "back" and a discarded
/// tab stay in it.
pub(super) fn to_sign_in(frame: &Frame<'_>, id: TransactionId) -> Response {
    see_other(&frame.path(&format!("/authorize/{id}")))
}

/// Why no sign-in begins.
enum BeginError {
    /// The source is past its rate limit.
    TooMany(TooManyRequests),
    /// The request is refused.
    Authorization(AuthorizationError),
}

impl BeginError {
    fn error(self) -> SignInError {
        match self {
            Self::TooMany(error) => error.into(),
            Self::Authorization(AuthorizationError { error, .. }) => error,
        }
    }

    /// The answer for a browser, after the reason is logged.
    fn render(self, frame: &Frame<'_>, audit: &AuditNotes, application: Option<&Application<'_>>) -> Response {
        let target = if let Self::Authorization(refused) = &self { refused.target.clone() } else { None };
        let error = SignInEndpointError::from(self.error());
        audit.rejected(&error);
        match (target, error) {
            (_, SignInEndpointError::Failed(SignInError::TooMany(too_many))) => {
                page::too_many(frame, too_many.retry_after, application)
            }
            (Some(target), error) => redirect_error(frame, &target, &error.to_client_error()),
            (None, error) => page::error(frame, StatusCode::BAD_REQUEST, &error.to_client_error(), application),
        }
    }
}

fn transaction_json(sign_in: &SignIn, begun: &NewTransaction) -> Response {
    let answer = value!({
        "transaction": begun.id.to_string(),
        "request_url": sign_in.request_url(begun.id),
        "short_url": sign_in.short_url(begun.short_id),
        "expires_at": begun.expires_at,
        "secret": begun.secret,
    });
    json(StatusCode::OK, &answer)
}
