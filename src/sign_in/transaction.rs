//! `/authorize/{transaction}/…`: the proof request, its answer, the progress, also as a stream, the
//! completion and the cancelling of a sign-in.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use selfsame_actors::{
    CompletedTransaction, FollowerPermit, InvalidTransactionId, IssuedItem, Progress, ProofRequest, SessionCookie,
    TransactionId,
};
use selfsame_protocol::json::from_object;
use selfsame_protocol::net::authority;
use selfsame_protocol::sign_in::proof_request::{AnswerMode, CrossDevice, RequestForms, SignInRequest};
use selfsame_protocol::sign_in::response::{Delivery, ErrorBody, ErrorKind, SignInRejection};
use serde_json::json as value;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::browser::{
    accepts_html, accepts_json, is_same_origin, refuse_fetch_ahead, remove_transaction, respond_delivery,
    session_cookie, set_session, transaction_secrets,
};
use super::error::SignInEndpointError;
use super::schema::{AcceptedAnswer, PostedResponse, ProgressEvent, ProofAnswer, TransactionPath, TransactionProgress};
use super::{SignIn, page};
use crate::http::{HEARTBEAT, Request, Response, Shutdown, StreamLife, challenge, event_stream, exists, json};

/// The longest body of an authenticator's answer, in bytes.
const BODY_LIMIT: usize = 64 * 1024;

/// How long the progress of a transaction is held back while its state does not change, in seconds.
const HOLD: u64 = 25;

/// The parameter of a return URL that carries its secret.
const RETURN: &str = "return";

/// The parameter with which the person goes on from the page about an authenticator's failure.
const ONWARD: &str = "onward";

/// Time limit of the progress route, instead of the request timeout: 10 seconds more than `HOLD`.
pub const TIME_LIMIT: Duration = Duration::from_secs(HOLD + 10);

/// The proof request
///
/// What the authenticator answers. Each call gets a request with a nonce of its own, until there
/// were eight; an answer to any of them counts. A browser gets a page that says what the address is
/// for. Scripts of every origin may read it.
#[utoipa::path(
    get, path = "/authorize/{transaction}/request", tag = "sign-in", operation_id = "read_proof_request",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction, from the address of the proof request")),
    responses(
        (status = 200, description = "The request, in its plain and its signed form; to a browser a page", content((RequestForms = "application/json"), (String = "text/html"))),
        (status = 404, description = "No such sign-in is under way: `not_found`", body = ErrorBody),
    ),
)]
pub async fn request(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    refuse_fetch_ahead(&request)?;
    let is_person = accepts_html(&request);
    let (id, asked) = match asked(&sign_in, &request).await {
        Ok(asked) => asked,
        Err(error) => {
            let unknown = error.rejection().filter(|rejection| is_person && rejection.kind == ErrorKind::NotFound);
            return match unknown {
                Some(unknown) => Ok(page::unknown_code(&sign_in.frame(&request), unknown, None)),
                None => Err(error),
            };
        }
    };
    if is_person {
        let url = format!("{}/authorize/{id}/request", sign_in.handle.provider().issuer);
        let frame = sign_in.frame(&request);
        let wallet_link = sign_in.links.link(&asked.app_id, &url);
        return Ok(page::for_authenticators(&frame, &url, &wallet_link, asked.allows_cross_device));
    }
    // A look takes no challenge.
    if *request.method() == Method::HEAD {
        return Ok(exists());
    }
    let forms = sign_in.handle.open_request(id, sign_in_request(&sign_in, id, asked)).await?;
    Ok(json(StatusCode::OK, &forms))
}

/// The transaction that the path names, and the proof that it asks for.
async fn asked(sign_in: &SignIn, request: &Request) -> Result<(TransactionId, ProofRequest), SignInEndpointError> {
    let id = transaction_id(request)?;
    sign_in.handle.await_given(IssuedItem::Transaction(id), Some(request.source())).await?;
    Ok((id, sign_in.handle.proof_request(id)?))
}

/// A transaction's proof request, as authenticators get it.
fn sign_in_request(sign_in: &SignIn, id: TransactionId, asked: ProofRequest) -> SignInRequest {
    SignInRequest {
        app_id: asked.app_id,
        app_name: asked.app_name,
        action: asked.action.to_owned(),
        signal: asked.signal,
        nonce: asked.nonce,
        protocol_versions: vec![asked.proof.protocol_version().to_owned()],
        environment: asked.environment,
        scopes: asked.scopes.text(),
        expires_at: asked.expires_at,
        answer_url: format!("{}/authorize/{id}/proof", sign_in.handle.provider().issuer),
        redirect_host: authority(&asked.redirect_uri).to_owned(),
        initiator: asked.initiator,
        cross_device: if asked.allows_cross_device { CrossDevice::Allow } else { CrossDevice::Deny },
    }
}

/// Answer the proof request
///
/// A verification request with exactly one proof, or the person's refusal. An authenticator on the
/// browser's own device gets the address that it has to open there. Scripts of every origin may
/// answer.
#[utoipa::path(
    post, path = "/authorize/{transaction}/proof", tag = "sign-in", operation_id = "answer_proof_request",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction, from the address of the proof request")),
    request_body = ProofAnswer,
    responses(
        (status = 200, description = "The answer is accepted", body = AcceptedAnswer),
        (status = 400, description = "Malformed, not accepted, or answered before: `invalid_content_type`, `invalid_request`, `cross_device_denied`", body = ErrorBody),
        (status = 404, description = "No such sign-in is under way: `not_found`", body = ErrorBody),
        (status = 429, description = "Too many answers from this address, see Retry-After: `rate_limit`", body = ErrorBody),
    ),
)]
pub async fn proof(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInEndpointError> {
    let id = transaction_id(&request)?;
    let source = request.source();
    sign_in.handle.charge_source(source)?;
    let body = request.read_json(BODY_LIMIT).await?;
    let wrong = |detail: &str| SignInRejection::new(ErrorKind::InvalidRequest, detail);
    let mut body: Map<String, Value> =
        from_object(&body).map_err(|error| wrong(&error.to_string()).with_reason("the body is not a JSON object"))?;
    if let Some(error) = body.get("error") {
        if error != "access_denied" {
            return Err(wrong("error must be access_denied").into());
        }
        sign_in.handle.refuse(id).await?;
        request.audit().outcome("refused_by_person");
        return Ok(json(StatusCode::OK, &value!({"success": true})));
    }
    let mode = AnswerMode::read(body.remove("mode").as_ref())?;
    let returned = sign_in.handle.answer(id, &Value::Object(body), mode, Some(source)).await?;
    let issuer = &sign_in.handle.provider().issuer;
    Ok(json(
        StatusCode::OK,
        &match returned {
            Some(secret) => {
                value!({"success": true, "return_url": format!("{issuer}/authorize/{id}/complete?{RETURN}={secret}")})
            }
            None => value!({"success": true}),
        },
    ))
}

/// The progress of the sign-in
///
/// For clients that cannot follow the events. The answer is held back while the state does not
/// change, for at most 25 seconds.
#[utoipa::path(
    get, path = "/authorize/{transaction}/progress", tag = "sign-in", operation_id = "progress",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction, from the address of the proof request")),
    security(("transactionSecret" = []), ("transactionCookie" = [])),
    responses(
        (status = 200, description = "The state", body = TransactionProgress),
        (status = 404, description = "No such sign-in is under way, or a wrong secret: `not_found`", body = ErrorBody),
        (status = 429, description = "Too many followers, see Retry-After: `rate_limit`", body = ErrorBody),
    ),
)]
pub async fn progress(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    let NewFollower { id, secret, progress: seen, permit: _permit } = follower(&sign_in, &request).await?;
    let deadline = Instant::now() + Duration::from_secs(HOLD);
    let progress = tokio::select! {
        progress = sign_in.handle.follow(id, &secret, seen, deadline) => progress?,
        () = request.shutdown().triggered() => sign_in.handle.progress(id, &secret)?,
    };
    Ok(json(StatusCode::OK, &state(progress)))
}

/// A client that may follow a transaction.
pub(super) struct NewFollower {
    pub id: TransactionId,
    pub secret: String,
    /// The progress at the beginning.
    pub progress: Progress,
    pub permit: FollowerPermit<TransactionId>,
}

/// Counts a client that wants to follow a transaction, against the limits of its source and of the
/// transaction. A client without the transaction's secret gets an error.
pub(super) async fn follower(sign_in: &SignIn, request: &Request) -> Result<NewFollower, SignInEndpointError> {
    let source = request.source();
    sign_in.handle.charge_source(source)?;
    let id = transaction_id(request)?;
    let secret = secret(sign_in, request, id).await?;
    sign_in.handle.await_given(IssuedItem::Transaction(id), Some(source)).await?;
    let progress = sign_in.handle.progress(id, &secret)?;
    let permit = sign_in.handle.enter_follower(id, Some(source))?;
    Ok(NewFollower { id, secret, progress, permit })
}

/// The progress as JSON.
pub(super) fn state(progress: Progress) -> Value {
    match progress {
        Progress::Waiting => value!({"state": "waiting"}),
        Progress::Opened => value!({"state": "waiting", "opened": true}),
        Progress::Answered => value!({"state": "answered"}),
        Progress::AnsweredOnSameDevice => value!({"state": "answered", "same_device": true}),
        Progress::Over => value!({"state": "over"}),
    }
}

/// Complete the sign-in
///
/// Sends the browser back to the application, once. When the authenticator gave no proof, a person
/// is told why first, on a page that leads on with `onward`. Only a failed completion is counted
/// against its source: there are no more successful ones than sign-ins, which are counted.
#[utoipa::path(
    get, path = "/authorize/{transaction}/complete", tag = "sign-in", operation_id = "complete",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction, from the address of the proof request"), ("return" = Option<String>, Query, pattern = "^[A-Za-z0-9_-]{43}$", description = "The secret of the return URL, after a proof from the same device"), ("onward" = Option<String>, Query, description = "The person has seen why there was no proof")),
    security(("transactionSecret" = []), ("transactionCookie" = [])),
    responses(
        (status = 200, description = "The response by `form_post`: a page that posts itself, to a program its address and fields; or a page that says why the authenticator gave no proof", content((String = "text/html"), (PostedResponse = "application/json"))),
        (status = 303, description = "The response, at the redirect URI", headers(("Location" = String, description = "The redirect URI with the response"))),
        (status = 400, description = "Not answered yet, or `return` is missing or wrong: `invalid_request`", content((ErrorBody = "application/json"), (String = "text/html"))),
        (status = 404, description = "No such sign-in is under way, a wrong secret, or completed before: `not_found`", content((ErrorBody = "application/json"), (String = "text/html"))),
        (status = 429, description = "Too many failed completions from this address, see Retry-After: `rate_limit`", content((ErrorBody = "application/json"), (String = "text/html"))),
    ),
)]
pub async fn complete(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    refuse_fetch_ahead(&request)?;
    let (is_person, audit, source) = (accepts_html(&request), request.audit().clone(), request.source());
    let frame = sign_in.frame(&request);
    let path = frame.path(request.path());
    let error = match complete_transaction(&sign_in, request).await {
        Ok(response) => return Ok(response),
        Err(error) => error,
    };
    let Some(rejection) = error.rejection() else { return Err(error) };
    match sign_in.handle.charge_source(source) {
        Err(too_many) if is_person => Ok(page::too_many(&frame, too_many.retry_after, None)),
        Err(too_many) => Err(too_many.into()),
        Ok(()) if is_person => {
            audit.rejected(&error);
            let is_early = rejection.kind == ErrorKind::InvalidRequest;
            let status = if is_early { StatusCode::BAD_REQUEST } else { StatusCode::NOT_FOUND };
            let problem = match rejection.attribute {
                // Without the secret of the return URL this path can never succeed.
                Some(RETURN) => "problem-return",
                _ if is_early => "problem-unanswered",
                _ => "problem-over",
            };
            let again = (problem == "problem-unanswered").then_some(path.as_str());
            Ok(page::cannot_continue(&frame, status, problem, rejection, again, None))
        }
        Ok(()) => Err(error),
    }
}

async fn complete_transaction(sign_in: &SignIn, request: Request) -> Result<Response, SignInEndpointError> {
    let id = transaction_id(&request)?;
    let secret = secret(sign_in, &request, id).await?;
    if accepts_html(&request)
        && request.query_parameter(ONWARD)?.is_none()
        && let Some(failure) = sign_in.handle.failure(id, &secret).await?
    {
        request.audit().outcome("shown_why_no_proof");
        let frame = sign_in.frame(&request);
        let path = frame.path(request.path());
        let onward = format!("{path}{}{ONWARD}=1", if path.contains('?') { '&' } else { '?' });
        return Ok(page::no_proof(&frame, failure, &onward));
    }
    let is_browser = transaction_secrets(sign_in, &request, id).contains(&secret.as_str());
    let session = match is_browser {
        true => session_cookie(sign_in, &request).await?,
        false => SessionCookie::Unwanted,
    };
    let returned = request.query_parameter(RETURN)?;
    sign_in.handle.await_given(IssuedItem::Transaction(id), Some(request.source())).await?;
    let completed = sign_in.handle.complete(id, &secret, returned.as_deref(), session).await?;
    let CompletedTransaction { delivery, new_session } = completed;
    let mut response = deliver(sign_in, &request, delivery);
    if let Some(session) = new_session {
        set_session(sign_in, &mut response, &session);
    }
    if is_browser {
        remove_transaction(sign_in, &mut response, id);
    }
    Ok(response)
}

/// Sends the browser back to the application. A program gets what a form would post.
pub(super) fn deliver(sign_in: &SignIn, request: &Request, delivery: Delivery) -> Response {
    match delivery {
        Delivery::Post { action, fields } if accepts_json(request) => {
            let fields: serde_json::Map<String, Value> =
                fields.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
            json(StatusCode::OK, &value!({"action": action, "fields": fields}))
        }
        delivery => respond_delivery(&sign_in.frame(request), delivery),
    }
}

/// The transaction that the path names, also for the audit event.
pub(super) fn transaction_id(request: &Request) -> Result<TransactionId, SignInEndpointError> {
    let not_found = |_: InvalidTransactionId| {
        let detail = "no such sign-in is under way; it may have expired";
        SignInRejection::new(ErrorKind::NotFound, detail).with_reason("the id is malformed")
    };
    let id: TransactionId = request.param("transaction")?.parse().map_err(not_found)?;
    request.audit().concerns(id.to_string());
    Ok(id)
}

/// The transaction's secret: from a program's Bearer header, or from a cookie. When there are
/// several, the one that fits: a proxy may add a header, and a site next to this one a cookie.
pub(super) async fn secret(
    sign_in: &SignIn,
    request: &Request,
    id: TransactionId,
) -> Result<String, SignInEndpointError> {
    let authorization = request.authorization(challenge::ACCESS_TOKEN)?;
    let bearer = authorization.as_ref().and_then(|authorization| authorization.bearer());
    let mut secrets = bearer.into_iter().chain(transaction_secrets(sign_in, request, id));
    let missing = || SignInRejection::new(ErrorKind::NotFound, "this sign-in was begun in another browser");
    let first = secrets.next().ok_or_else(missing)?;
    let others: Vec<&str> = secrets.collect();
    if others.is_empty() {
        return Ok(first.to_owned());
    }
    sign_in.handle.await_given(IssuedItem::Transaction(id), Some(request.source())).await?;
    let fits = |secret: &&str| sign_in.handle.progress(id, secret).is_ok();
    Ok(others.into_iter().find(fits).unwrap_or(first).to_owned())
}

// `POST /authorize/{transaction}/cancel`: the person ends the sign-in on its page.

/// Why a person's request to cancel is rejected, for the page about it.
struct Refused {
    /// The key of the text.
    problem: &'static str,
    error: SignInEndpointError,
}

/// Cancel a sign-in, on its page
///
/// Ends it, and sends the browser back to the application with `access_denied`, once. Like the
/// forms of the other pages, the request counts only when no other site sent it; the transaction's
/// cookie is `SameSite=Lax`, so a form of another site comes without it.
#[utoipa::path(
    post, path = "/authorize/{transaction}/cancel", tag = "sign-in", operation_id = "cancel",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction, from the address of the proof request")),
    security(("transactionSecret" = []), ("transactionCookie" = [])),
    responses(
        (status = 200, description = "A page that posts the response to the application; for a program (`form_post`) what it posts", content((String = "text/html"), (PostedResponse = "application/json"))),
        (status = 303, description = "To the application, with `access_denied`", headers(("Location" = String, description = "The redirect URI"))),
        (status = 400, description = "Another site sent the request, or the sign-in was answered: `invalid_request`", content((String = "text/html"), (ErrorBody = "application/json"))),
        (status = 404, description = "There is no such sign-in, or it has ended, or it was begun elsewhere: `not_found`", content((String = "text/html"), (ErrorBody = "application/json"))),
        (status = 429, description = "Too many requests from this address, see Retry-After: `rate_limit`", content((String = "text/html"), (ErrorBody = "application/json"))),
    ),
)]
pub async fn cancel(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    let frame = sign_in.frame(&request);
    if let Err(too_many) = sign_in.handle.charge_source(request.source()) {
        return match accepts_html(&request) {
            true => Ok(page::too_many(&frame, too_many.retry_after, None)),
            false => Err(too_many.into()),
        };
    }
    let Refused { problem, error } = match cancel_transaction(&sign_in, &request).await {
        Ok(delivery) => {
            request.audit().outcome("cancelled_by_person");
            let mut response = deliver(&sign_in, &request, delivery);
            if let Ok(id) = transaction_id(&request)
                && !transaction_secrets(&sign_in, &request, id).is_empty()
            {
                remove_transaction(&sign_in, &mut response, id);
            }
            return Ok(response);
        }
        Err(refused) => refused,
    };
    match error.rejection().filter(|_| accepts_html(&request)) {
        Some(rejection) => {
            request.audit().rejected(&error);
            let status = match rejection.kind {
                ErrorKind::NotFound => StatusCode::NOT_FOUND,
                _ => StatusCode::BAD_REQUEST,
            };
            Ok(page::cannot_continue(&frame, status, problem, rejection, None, None))
        }
        None => Err(error),
    }
}

async fn cancel_transaction(sign_in: &SignIn, request: &Request) -> Result<Delivery, Refused> {
    let refused = |problem| move |error| Refused { problem, error };
    let id = transaction_id(request).map_err(refused("problem-over"))?;
    if !is_same_origin(sign_in, request) {
        let detail = "another site sent this request; cancel on the page of the sign-in";
        return Err(Refused {
            problem: "problem-elsewhere",
            error: SignInRejection::new(ErrorKind::InvalidRequest, detail).into(),
        });
    }
    let secret = secret(sign_in, request, id).await.map_err(refused("problem-over"))?;
    let cancelling = async {
        sign_in.handle.await_given(IssuedItem::Transaction(id), Some(request.source())).await?;
        sign_in.handle.cancel(id, &secret).await
    };
    cancelling.await.map_err(|error| {
        let error = SignInEndpointError::from(error);
        let is_over = error.rejection().is_some_and(|rejection| rejection.kind == ErrorKind::NotFound);
        Refused { problem: if is_over { "problem-over" } else { "problem-answered" }, error }
    })
}

// `GET /authorize/{transaction}/events`: the progress of a transaction, as server-sent events.

/// The progress of the sign-in, as a stream
///
/// Sends events with `{"state": …}`: one at once, and one when the state changes. The state of the
/// last event is `answered` or `over`, unless the stream ends for its time or the shutdown.
#[utoipa::path(
    get, path = "/authorize/{transaction}/events", tag = "sign-in", operation_id = "events",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction, from the address of the proof request")),
    security(("transactionSecret" = []), ("transactionCookie" = [])),
    responses(
        (status = 200, description = "Server-sent events", content_type = "text/event-stream", body = ProgressEvent),
        (status = 404, description = "No such sign-in is under way, or a wrong secret: `not_found`", body = ErrorBody),
        (status = 429, description = "Too many followers, see Retry-After: `rate_limit`", body = ErrorBody),
    ),
)]
pub async fn progress_events(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    let NewFollower { id, secret, progress, permit } = follower(&sign_in, &request).await?;
    let (shutdown, life) = (request.shutdown().clone(), StreamLife::begin(&request));
    let follower = Follower { sign_in, id, secret, shutdown, life, _permit: permit };
    Ok(event_stream((follower, Next::Send(progress)), async |(follower, next)| {
        let (piece, next) = follower.piece(next).await?;
        Some((piece, (follower, next)))
    }))
}

/// A client that follows a transaction.
struct Follower {
    sign_in: Arc<SignIn>,
    id: TransactionId,
    secret: String,
    shutdown: Shutdown,
    life: StreamLife,
    _permit: FollowerPermit<TransactionId>,
}

/// What the stream does next.
enum Next {
    Send(Progress),
    /// Waits for progress after this one.
    Wait(Progress),
    End,
}

impl Follower {
    /// The next piece of the stream and the step after it; `None` at the end.
    async fn piece(&self, next: Next) -> Option<(Bytes, Next)> {
        let progress = match next {
            Next::Send(progress) => progress,
            Next::End => return None,
            Next::Wait(seen) => {
                let deadline = (Instant::now() + HEARTBEAT).min(self.life.end());
                let followed = tokio::select! {
                    followed = self.sign_in.handle.follow(self.id, &self.secret, seen, deadline) => followed,
                    () = self.shutdown.triggered() => return None,
                };
                match followed {
                    Ok(progress) if progress == seen && Instant::now() >= self.life.end() => return None,
                    Ok(progress) if progress == seen => {
                        return Some((Bytes::from_static(b":\n\n"), Next::Wait(seen)));
                    }
                    Ok(progress) => progress,
                    // The stream ends, and the page connects again.
                    Err(error) => {
                        tracing::error!(%error, "a transaction cannot be followed");
                        return None;
                    }
                }
            }
        };
        let event = format!("data: {}\n\n", state(progress));
        Some((event.into(), if progress.is_waiting() { Next::Wait(progress) } else { Next::End }))
    }
}
