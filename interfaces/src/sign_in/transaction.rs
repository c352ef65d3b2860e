//! `/authorize/{transaction}/…` for authenticators and for those that wait: the proof request, its
//! answer, and the progress, also as a stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use selfsame_actors::{
    AnswerBinding, FollowerPermit, InvalidTransactionId, IssuedItem, OpeningId, Progress, ProofRequest, TransactionId,
    TransactionState,
};
use selfsame_protocol::json::from_object;
use selfsame_protocol::net::authority;
use selfsame_protocol::sign_in::openings::InvalidShortId;
use selfsame_protocol::sign_in::proof_request::{AnswerMode, CrossDevice, NoProof, RequestForms, SignInRequest};
use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
use serde_json::json as value;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::bridged::outcome_of;
use super::browser::{accepts_html, refuse_fetch_ahead, see_other, transaction_secrets};
use super::error::SignInEndpointError;
use super::schema::{AcceptedAnswer, ProgressEvent, ProofAnswer, TransactionPath, TransactionProgress};
use super::{SignIn, page};
use crate::http::{HEARTBEAT, Request, Response, Shutdown, StreamLife, challenge, event_stream, exists, json};

/// The longest body of an authenticator's answer, in bytes.
const BODY_LIMIT: usize = 64 * 1024;

/// How long the progress of a transaction is held back while its state does not change, unless the
/// client says otherwise.
const HOLD: Duration = Duration::from_secs(25);

/// The stream's sign of life. A comment would not reach the script of a page.
const ALIVE: Bytes = Bytes::from_static(b"event: alive\ndata: {}\n\n");

/// The parameter of the address of a proof request that names an opening of the short page.
pub(super) const OPENING: &str = "opening";

/// The parameter of a return URL that carries its secret.
pub(super) const RETURN: &str = "return";

/// The proof request
///
/// What the authenticator answers. Each call gets a request with a nonce of its own, until there
/// were eight; an answer to any of them counts. A browser is sent to the short page, which offers
/// authenticators. Scripts of every origin may read it.
#[utoipa::path(
    get, path = "/authorize/{transaction}/request", tag = "sign-in", operation_id = "read_proof_request",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction"), ("opening" = Option<String>, Query, pattern = "^[a-z2-7]{16}$", description = "The opening of the short page in another browser, from the address of the proof request")),
    responses(
        (status = 200, description = "The request, in its plain and its signed form", body = RequestForms),
        (status = 303, description = "To a browser: the short page", headers(("Location" = String, description = "The short page"))),
        (status = 404, description = "No such sign-in is under way: `not_found`"),
    ),
)]
pub async fn request(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    refuse_fetch_ahead(&request)?;
    let is_person = accepts_html(&request);
    let (id, opening, asked) = match asked(&sign_in, &request).await {
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
        let short_id = sign_in.handle.view(id)?.short_id;
        return Ok(see_other(&sign_in.frame(&request).path(&format!("/s/{short_id}"))));
    }
    // A look takes no challenge.
    if *request.method() == Method::HEAD {
        return Ok(exists());
    }
    let forms = sign_in.handle.open_request(id, opening, sign_in_request(&sign_in, id, asked)).await?;
    Ok(json(StatusCode::OK, &forms))
}

/// The transaction that the path names, the opening that the query names, and the proof that is
/// asked for there.
async fn asked(
    sign_in: &SignIn,
    request: &Request,
) -> Result<(TransactionId, Option<OpeningId>, ProofRequest), SignInEndpointError> {
    let id = transaction_id(request)?;
    let malformed = |error: InvalidShortId| {
        let detail = format!("opening must be as the address of the request has it, or be left out: {error}");
        SignInRejection::of(OPENING, ErrorKind::InvalidRequest, detail)
    };
    let opening = request.query_parameter(OPENING)?.map(|text| text.parse().map_err(malformed)).transpose()?;
    // Its request may be signed each time.
    if opening.is_some() {
        sign_in.handle.charge_source(request.source())?;
    }
    sign_in.handle.await_given(IssuedItem::Transaction(id), Some(request.source())).await?;
    Ok((id, opening, sign_in.handle.proof_request(id, opening)?))
}

/// A transaction's proof request, as authenticators get it.
fn sign_in_request(sign_in: &SignIn, id: TransactionId, asked: ProofRequest) -> SignInRequest {
    let (proof_type, session_id) = asked.session.members();
    SignInRequest {
        app_id: asked.app_id,
        app_name: asked.app_name,
        action: asked.action.to_owned(),
        signal: asked.signal,
        nonce: asked.nonce,
        protocol_versions: vec![asked.kind.protocol_version().to_owned()],
        environment: asked.environment,
        scopes: asked.scopes.text(),
        expires_at: asked.expires_at,
        answer_url: format!("{}/authorize/{id}/proof", sign_in.handle.provider().issuer),
        redirect_host: authority(&asked.redirect_uri).to_owned(),
        initiator: asked.initiator,
        cross_device: if asked.allows_cross_device { CrossDevice::Allow } else { CrossDevice::Deny },
        proof_type,
        session_id,
        genesis_issued_at_min: asked.issued_since,
        identifier: asked.identifier,
    }
}

/// Answer the proof request
///
/// A verification request with exactly one proof, or the code that says why there is none. The
/// answer has the address to open for an authenticator on the browser's own device, and the digits
/// to show for one that the short page of another device opened. Scripts of every origin may
/// answer.
#[utoipa::path(
    post, path = "/authorize/{transaction}/proof", tag = "sign-in", operation_id = "answer_proof_request",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction")),
    request_body = ProofAnswer,
    responses(
        (status = 200, description = "The answer is accepted", body = AcceptedAnswer),
        (status = 400, description = "Malformed, not accepted, or answered before: `invalid_content_type`, `invalid_request`, `cross_device_denied`"),
        (status = 404, description = "No such sign-in is under way: `not_found`"),
        (status = 429, description = "Too many answers from this address, see Retry-After: `rate_limit`"),
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
    if let Some(why) = NoProof::read(&body)? {
        sign_in.handle.give_up(id, &why).await?;
        request.audit().outcome(outcome_of(&why));
        if let Some(reason) = why.reason() {
            request.audit().reason(|| reason);
        }
        return Ok(json(StatusCode::OK, &value!({"success": true})));
    }
    let mode = AnswerMode::read(body.remove("mode").as_ref(), body.remove("digits").as_ref())?;
    let binding = sign_in.handle.answer(id, &Value::Object(body), mode, Some(source)).await?;
    let issuer = &sign_in.handle.provider().issuer;
    Ok(json(
        StatusCode::OK,
        &match binding {
            AnswerBinding::Secret => value!({"success": true}),
            AnswerBinding::ReturnUrl(secret) => {
                value!({"success": true, "return_url": format!("{issuer}/authorize/{id}/complete?{RETURN}={secret}")})
            }
            AnswerBinding::Digits(digits) => value!({"success": true, "digits": digits}),
        },
    ))
}

/// The progress of the sign-in
///
/// For clients that cannot follow the events, or do not trust them. The answer is held back while
/// the state does not change, for `wait` seconds.
#[utoipa::path(
    get, path = "/authorize/{transaction}/progress", tag = "sign-in", operation_id = "progress",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction"), ("wait" = Option<u64>, Query, description = "How long to hold the answer back, in seconds: at most 60, otherwise 25")),
    security(("transactionSecret" = []), ("transactionCookie" = [])),
    responses(
        (status = 200, description = "The state", body = TransactionProgress),
        (status = 404, description = "No such sign-in is under way, or a wrong secret: `not_found`"),
        (status = 429, description = "Too many followers, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn progress(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    let wait = request.wait()?.unwrap_or(HOLD);
    let NewFollower { id, secret, progress: seen, permit: _permit } = follower(&sign_in, &request).await?;
    let deadline = Instant::now() + wait;
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

/// The progress as JSON.
pub(super) fn state(progress: Progress) -> Value {
    let Progress { state, ends_at, extensions_left } = progress;
    let waiting = value!({"state": "waiting", "expires_at": ends_at, "extensions_left": extensions_left});
    let with = |mut value: Value, name: &str, member: Value| {
        value[name] = member;
        value
    };
    match state {
        TransactionState::Waiting => waiting,
        TransactionState::Opened => with(waiting, "opened", true.into()),
        TransactionState::Refused(count) => with(with(waiting, "opened", true.into()), "refused", count.into()),
        TransactionState::Answered => value!({"state": "answered"}),
        TransactionState::AnsweredOnSameDevice => value!({"state": "answered", "same_device": true}),
        TransactionState::AnsweredWithDigits => value!({"state": "answered", "digits": true}),
        TransactionState::Over => value!({"state": "over"}),
        TransactionState::Done => value!({"state": "over", "done": true}),
    }
}

// `GET /authorize/{transaction}/events`: the progress of a transaction, as server-sent events.

/// The progress of the sign-in, as a stream
///
/// Sends events with `{"state": …}`: one at once, and one when the state changes; every 15 seconds
/// an event `alive` shows a script that the stream still comes through. The last state is `over`,
/// or `answered` where the completion needs no more than the secret, unless the stream ends for its
/// time or the shutdown.
#[utoipa::path(
    get, path = "/authorize/{transaction}/events", tag = "sign-in", operation_id = "events",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction")),
    security(("transactionSecret" = []), ("transactionCookie" = [])),
    responses(
        (status = 200, description = "Server-sent events", content_type = "text/event-stream", body = ProgressEvent),
        (status = 404, description = "No such sign-in is under way, or a wrong secret: `not_found`"),
        (status = 429, description = "Too many followers, see Retry-After: `rate_limit`"),
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
                        return Some((ALIVE, Next::Wait(seen)));
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
        Some((event.into(), if progress.can_change() { Next::Wait(progress) } else { Next::End }))
    }
}
