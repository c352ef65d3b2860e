//! `GET` and `POST /authorize`: the beginning of a sign-in.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::header::USER_AGENT;
use hyper::{Method, StatusCode};
use selfsame_actors::{
    Authorization, AuthorizationError, AuthorizationOrigin, BegunSignIn, NewTransaction, ProofRequest, SignInError,
    TooManyRequests, TransactionId,
};
use selfsame_protocol::sign_in::Parameters;
use selfsame_protocol::sign_in::response::{Delivery, ErrorBody};
use serde_json::json as value;

use super::SignIn;
use super::bridged::Offer;
use super::browser::{
    accepts_json, read_form, redirect_error, refuse_fetch_ahead, remove_transaction, respond_delivery, session_secrets,
    set_transaction, surplus_transactions,
};
use super::error::SignInEndpointError;
use super::page::{self, Application, Frame, State};
use super::schema::{AuthorizationParameters, TransactionStart};
use super::wallet_links::Way;
use crate::http::{AuditNotes, Request, Response, json};

/// Begin a sign-in
///
/// Checks an authorization request, stores it as a transaction, and answers with the sign-in page;
/// a program gets JSON instead.
#[utoipa::path(
    get, path = "/authorize", tag = "sign-in", operation_id = "authorize",
    params(AuthorizationParameters),
    responses(
        (status = 200, description = "The page with the code and the link for an authenticator; to a program (`Accept: application/json`) the same as JSON. Also the authorization response by `form_post`", content((String = "text/html"), (TransactionStart = "application/json"))),
        (status = 303, description = "The authorization response of a browser whose session answers the request, or an error, at the redirect URI", headers(("Location" = String, description = "The redirect URI with the response"))),
        (status = 400, description = "An error that is not redirected, as a page; to a program every error", content((String = "text/html"), (ErrorBody = "application/json"))),
        (status = 429, description = "Too many sign-ins from this address, see Retry-After: `rate_limit`", content((String = "text/html"), (ErrorBody = "application/json"))),
    ),
)]
pub async fn authorize(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInEndpointError> {
    refuse_fetch_ahead(&request)?;
    let (wants_json, audit) = (accepts_json(&request), request.audit().clone());
    let source = request.source();
    let user_agent =
        request.headers().get(USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let surplus = surplus_transactions(&sign_in, &request);
    let mut frame = sign_in.frame(&request);
    let outcome = match sign_in.handle.charge_source(source) {
        Err(too_many) => Err(BeginError::TooMany(too_many)),
        Ok(()) => {
            let parameters = match *request.method() == Method::POST {
                true => read_form(&mut request, &[]).await?,
                false => request.query().map(|(name, value)| (name.into_owned(), value.into_owned())).collect(),
            };
            frame = sign_in.frame_in(&request, parameters.get("ui_locales"));
            // A program has no session.
            let sessions = if wants_json { Vec::new() } else { session_secrets(&sign_in, &request) };
            if let Some(client) = parameters.get("client_id").and_then(|id| sign_in.handle.client(id)) {
                audit.client(&client.client.id);
            }
            let sessions = sessions.into_iter().map(str::to_owned).collect();
            let origin = AuthorizationOrigin { source: Some(source), user_agent, sessions };
            let begun = begin(&sign_in, &parameters, &origin, source, !wants_json).await;
            begun.map_err(BeginError::Authorization)
        }
    };
    if let Ok(Outcome::ProofRequested(begun)) = &outcome {
        audit.concerns(begun.sign_in.transaction.id.to_string());
    }
    match outcome {
        Ok(Outcome::ProofRequested(begun)) => Ok(match &begun.wallet_link {
            Some(wallet_link) => transaction_page(&sign_in, &frame, &begun, wallet_link, &surplus),
            None => transaction_json(&sign_in, &begun.sign_in.transaction),
        }),
        Ok(Outcome::SessionUsed(delivery)) => {
            audit.outcome("granted_from_session");
            Ok(respond_delivery(&frame, delivery))
        }
        Err(error) if wants_json => Err(error.error().into()),
        Err(error) => Ok(error.render(&frame, &audit)),
    }
}

/// The outcome of a valid authorization request.
enum Outcome {
    /// A transaction began: the person is asked for a proof.
    ProofRequested(Box<Begun>),
    /// The browser's session identifies the person: the response for the application is ready.
    SessionUsed(Delivery),
}

/// A sign-in that began.
struct Begun {
    sign_in: BegunSignIn,
    /// The link that opens an authenticator; `None` for a program.
    wallet_link: Option<String>,
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
    fn render(self, frame: &Frame<'_>, audit: &AuditNotes) -> Response {
        let target = if let Self::Authorization(refused) = &self { refused.target.clone() } else { None };
        let error = SignInEndpointError::from(self.error());
        audit.rejected(&error);
        match (target, error) {
            (_, SignInEndpointError::Failed(SignInError::TooMany(too_many))) => {
                page::too_many(frame, too_many.retry_after, None)
            }
            (Some(target), error) => redirect_error(frame, &target, &error.to_client_error()),
            (None, error) => page::error(frame, StatusCode::BAD_REQUEST, &error.to_client_error(), None),
        }
    }
}

/// Begins the sign-in. A browser gets a link for an authenticator, a program does not.
async fn begin(
    sign_in: &SignIn,
    parameters: &Parameters,
    origin: &AuthorizationOrigin,
    source: IpAddr,
    is_browser: bool,
) -> Result<Outcome, AuthorizationError> {
    let begun = match sign_in.handle.authorize(parameters, origin).await? {
        Authorization::Granted(delivery) => return Ok(Outcome::SessionUsed(delivery)),
        Authorization::ProofRequested(begun) => *begun,
    };
    let wallet_link = match is_browser {
        true => match wallet_link(sign_in, &begun.transaction, &begun.asked, source).await {
            Ok(link) => Some(link),
            Err(error) => return Err(AuthorizationError { target: Some(begun.target), error }),
        },
        false => None,
    };
    Ok(Outcome::ProofRequested(Box::new(Begun { sign_in: begun, wallet_link })))
}

/// The link that opens an authenticator for a sign-in that began.
async fn wallet_link(
    sign_in: &SignIn,
    transaction: &NewTransaction,
    asked: &ProofRequest,
    source: IpAddr,
) -> Result<String, SignInError> {
    let proof = match sign_in.links.way(&asked.app_id, &request_url(sign_in, transaction)) {
        Way::Link(link) => return Ok(link),
        Way::Bridge(proof) => proof,
    };
    let offer = Offer { sign_in: &sign_in.handle, begun: transaction, asked, proof: &proof, source };
    let offered = sign_in.bridge.offer(offer).await;
    if offered.is_err() {
        // The sign-in has no page, so no person can answer it.
        if let Err(error) = sign_in.handle.abandon(transaction, Some(source)).await {
            tracing::warn!(%error, "a sign-in without a page counts as open until it expires");
        }
    }
    offered
}

fn request_url(sign_in: &SignIn, begun: &NewTransaction) -> String {
    format!("{}/authorize/{}/request", sign_in.handle.provider().issuer, begun.id)
}

fn transaction_json(sign_in: &SignIn, begun: &NewTransaction) -> Response {
    let answer = value!({
        "transaction": begun.id.to_string(),
        "request_url": request_url(sign_in, begun),
        "expires_at": begun.expires_at,
        "secret": begun.secret,
    });
    json(StatusCode::OK, &answer)
}

fn transaction_page(
    sign_in: &SignIn,
    frame: &Frame<'_>,
    begun: &Begun,
    wallet_link: &str,
    surplus: &[TransactionId],
) -> Response {
    let BegunSignIn { transaction, asked, .. } = &begun.sign_in;
    let lifetime = sign_in.handle.transaction_lifetime();
    let shown = page::SignInPage {
        transaction: &transaction.id.to_string(),
        application: Application {
            id: &asked.app_id,
            name: &asked.app_name,
            home: None,
            initiate: None,
            fallback: None,
        },
        scopes: asked.scopes,
        short_link: wallet_link,
        state: State::Waiting,
        expires_at: transaction.expires_at,
        now: asked.initiator.time,
        extensions_left: 0,
        allows_cross_device: asked.allows_cross_device,
        scans_in_app: true,
    };
    let mut response = page::sign_in(frame, &shown);
    set_transaction(sign_in, &mut response, transaction.id, &transaction.secret, lifetime.as_secs());
    surplus.iter().for_each(|id| remove_transaction(sign_in, &mut response, *id));
    response
}
