//! Sign-in's handle as an actor: other actors send it messages, supervise and monitor it, and put
//! it into process groups.

use std::net::IpAddr;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use selfsame_protocol::sign_in::Parameters;
use selfsame_protocol::sign_in::proof_request::AnswerMode;
use selfsame_protocol::sign_in::response::{Delivery, ErrorBody};
use selfsame_protocol::sign_in::transaction::Progress;
use selfsame_storage::StoreError;
use serde_json::Value;
use tokio::time::Instant;

use super::authorization::{Authorization, AuthorizationError, AuthorizationOrigin};
use super::completion::{CompletedTransaction, Shown};
use super::handle::{SignInError, SignInHandle};
use super::records::{IssuedItem, TransactionId};
use super::sessions::SessionCookie;
use super::signing_keys::PublicJwk;
use super::tokens::{LiveToken, TokenResponse};
use super::transactions::{AnswerBinding, ProofRequest};
use crate::support::source_limits::TooManyRequests;

/// The longest wait for the progress of a transaction.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// A step of a sign-in, with a port for its answer.
///
/// The answers come in any order: a step that waits for its commit or for a person does not keep
/// the next message waiting. The limits of source addresses that a front-end counts
/// ([`SignInHandle::charge_source`]) are not counted here.
pub enum SignInMessage {
    /// Begin a sign-in, or answer from the browser's session; see [`SignInHandle::authorize`].
    Authorize {
        /// The parameters of the authorization request, each name as often as it was sent.
        parameters: Vec<(String, String)>,
        /// Where the request came from.
        origin: AuthorizationOrigin,
        /// Takes the transaction, or the response for the application.
        reply: RpcReplyPort<Result<Authorization, AuthorizationCallError>>,
    },
    /// Answer with the proof that a transaction asks for; see [`SignInHandle::proof_request`].
    ProofRequest {
        /// The transaction.
        transaction: TransactionId,
        /// Takes the proof request.
        reply: RpcReplyPort<Result<ProofRequest, SignInCallError>>,
    },
    /// Accept a person's proof; see [`SignInHandle::answer`].
    Answer {
        /// The transaction.
        transaction: TransactionId,
        /// A verification request with one proof, in its JSON form.
        body: Box<Value>,
        /// How the authenticator got the request.
        mode: AnswerMode,
        /// The authenticator's address, for its share of the verifier.
        source: Option<IpAddr>,
        /// Takes what ties the answer to the browser.
        reply: RpcReplyPort<Result<AnswerBinding, SignInCallError>>,
    },
    /// Accept a person's refusal; see [`SignInHandle::refuse`].
    Refuse {
        /// The transaction.
        transaction: TransactionId,
        /// Takes the outcome.
        reply: RpcReplyPort<Result<(), SignInCallError>>,
    },
    /// Answer when the progress of a transaction is another one than `seen`, or with `seen` when
    /// the time is over; see [`SignInHandle::follow`]. A transaction has at most four followers.
    Follow {
        /// The transaction.
        transaction: TransactionId,
        /// The transaction's secret.
        secret: String,
        /// The progress that the caller knows.
        seen: Progress,
        /// How long to wait; at most an hour.
        patience: Duration,
        /// The address of the browser or program, for its limit of followers.
        source: Option<IpAddr>,
        /// Takes the progress.
        reply: RpcReplyPort<Result<Progress, SignInCallError>>,
    },
    /// End a transaction for the browser or program that began it; see [`SignInHandle::cancel`].
    Cancel {
        /// The transaction.
        transaction: TransactionId,
        /// The transaction's secret.
        secret: String,
        /// Takes the response for the application.
        reply: RpcReplyPort<Result<Delivery, SignInCallError>>,
    },
    /// Give out the response to an answered transaction; see [`SignInHandle::complete`].
    Complete {
        /// The transaction.
        transaction: TransactionId,
        /// The transaction's secret.
        secret: String,
        /// The secret of the return URL, if the caller came by it.
        return_secret: Option<String>,
        /// The digits that the person typed, if there are any.
        digits: Option<String>,
        /// The session of the browser.
        session: OwnedSessionCookie,
        /// Takes the response for the application.
        reply: RpcReplyPort<Result<CompletedTransaction, SignInCallError>>,
    },
    /// Answer whether a client has this secret; without a secret, whether it is a public client.
    Authenticate {
        /// The client.
        client_id: String,
        /// Its secret, if it sent one.
        secret: Option<String>,
        /// Takes the answer; an unknown client has no secret.
        reply: RpcReplyPort<bool>,
    },
    /// Exchange an authorization code for tokens, for a client that the caller has authenticated;
    /// see [`SignInHandle::exchange`].
    Exchange {
        /// The client.
        client_id: String,
        /// The code.
        code: String,
        /// The redirect URI of the token request.
        redirect_uri: Option<String>,
        /// The PKCE verifier of the token request.
        code_verifier: Option<String>,
        /// Takes the tokens.
        reply: RpcReplyPort<Result<TokenResponse, SignInCallError>>,
    },
    /// Answer with the record of an access token; see [`SignInHandle::live_token`].
    LiveToken {
        /// The token.
        token: String,
        /// Takes the record; `None` when the token is unknown, expired or revoked.
        reply: RpcReplyPort<Result<Option<LiveToken>, SignInCallError>>,
    },
    /// Revoke an access token of a client; see [`SignInHandle::revoke_token`].
    RevokeToken {
        /// The client.
        client_id: String,
        /// The token.
        token: String,
        /// Takes the outcome.
        reply: RpcReplyPort<Result<(), SignInCallError>>,
    },
    /// End a browser's session; see [`SignInHandle::end_session`].
    EndSession {
        /// The session's secret.
        session: String,
        /// Takes the outcome.
        reply: RpcReplyPort<Result<(), SignInCallError>>,
    },
    /// Answer with the public parts of the signing keys; see [`SignInHandle::published_keys`].
    PublishedKeys {
        /// Takes the keys, the oldest first.
        reply: RpcReplyPort<Result<Vec<PublicJwk>, SignInCallError>>,
    },
}

/// The session cookie of the caller that completes a transaction, as a message has it; see
/// [`SessionCookie`].
#[derive(Clone, PartialEq, Eq)]
pub enum OwnedSessionCookie {
    /// See [`SessionCookie::HostOnly`].
    HostOnly(String),
    /// See [`SessionCookie::Plain`].
    Plain(String),
    /// See [`SessionCookie::Missing`].
    Missing,
    /// See [`SessionCookie::Unwanted`].
    Unwanted,
}

impl std::fmt::Debug for OwnedSessionCookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_cookie().fmt(f)
    }
}

impl OwnedSessionCookie {
    fn as_cookie(&self) -> SessionCookie<'_> {
        match self {
            Self::HostOnly(secret) => SessionCookie::HostOnly(secret),
            Self::Plain(secret) => SessionCookie::Plain(secret),
            Self::Missing => SessionCookie::Missing,
            Self::Unwanted => SessionCookie::Unwanted,
        }
    }
}

/// Why a step was not answered with success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignInCallError {
    /// The step is refused. The body is the one that the sign-in interface answers.
    #[error("{}", .0.detail)]
    Rejected(ErrorBody),
    /// A code that has given a token was used again; the token is revoked.
    #[error("{}", .0.detail)]
    CodeReused(ErrorBody),
    /// The proof does not hold.
    #[error("{detail}")]
    Proof {
        /// The code of the failed check, as in the results of the verification endpoint.
        code: String,
        /// What is wrong with the proof, and what would be right.
        detail: String,
    },
    /// The source address has used up a limit.
    #[error(transparent)]
    TooMany(#[from] TooManyRequests),
    /// The step cannot be taken now. After a write that failed, it may have been taken all the
    /// same.
    #[error("{reason}")]
    Unavailable {
        /// Why.
        reason: String,
        /// How long to wait before another attempt.
        retry_after: Duration,
    },
}

/// Why no sign-in begins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct AuthorizationCallError {
    /// The error as the application gets it at its redirect URI; `None` when it is shown on a page,
    /// because the redirect URI is not known to be one of a registered client.
    pub delivery: Option<Delivery>,
    /// Why.
    pub error: SignInCallError,
}

impl From<SignInError> for SignInCallError {
    fn from(error: SignInError) -> Self {
        match error {
            SignInError::Rejected(rejection) => Self::Rejected(rejection.body()),
            SignInError::CodeReused(rejection) => Self::CodeReused(rejection.body()),
            SignInError::Proof(failed) => Self::Proof { code: failed.code().to_owned(), detail: failed.to_string() },
            SignInError::TooMany(error) => Self::TooMany(error),
            SignInError::Unavailable { reason, retry_after } => {
                Self::Unavailable { reason, retry_after: retry_after.0 }
            }
            SignInError::Signing(_) | SignInError::Store(_) => Self::Unavailable {
                reason: error.to_string(),
                retry_after: selfsame_protocol::time::RetryAfter::SOON.0,
            },
        }
    }
}

impl From<StoreError> for SignInCallError {
    fn from(error: StoreError) -> Self {
        SignInError::from(error).into()
    }
}

/// The actor. It is started with the handle of a service, and has no state of its own: what it has
/// taken continues when it is killed, and is answered.
pub struct SignInActor;

impl Actor for SignInActor {
    type Msg = SignInMessage;
    type State = SignInHandle;
    type Arguments = SignInHandle;

    async fn pre_start(
        &self,
        _: ActorRef<SignInMessage>,
        handle: SignInHandle,
    ) -> Result<SignInHandle, ActorProcessingErr> {
        Ok(handle)
    }

    async fn handle(
        &self,
        _: ActorRef<SignInMessage>,
        message: SignInMessage,
        handle: &mut SignInHandle,
    ) -> Result<(), ActorProcessingErr> {
        drop(tokio::spawn(answer(handle.clone(), message)));
        Ok(())
    }
}

/// Answers a message. A caller that no longer waits does not stop it: its records may be on their
/// way to the disk.
async fn answer(handle: SignInHandle, message: SignInMessage) {
    match message {
        SignInMessage::Authorize { parameters, origin, reply } => {
            send(reply, authorize(&handle, parameters, &origin).await);
        }
        SignInMessage::ProofRequest { transaction, reply } => send(reply, proof_request(&handle, transaction).await),
        SignInMessage::Answer { transaction, body, mode, source, reply } => {
            answered(reply, handle.answer(transaction, &body, mode, source).await);
        }
        SignInMessage::Refuse { transaction, reply } => answered(reply, handle.refuse(transaction).await),
        SignInMessage::Follow { transaction, secret, seen, patience, source, reply } => {
            // A caller may state any time, also one beyond all that an instant can be.
            let deadline = Instant::now() + patience.min(LONGEST_WAIT);
            answered(reply, follow(&handle, transaction, &secret, (seen, deadline), source).await);
        }
        SignInMessage::Cancel { transaction, secret, reply } => {
            answered(reply, handle.cancel(transaction, &secret).await);
        }
        SignInMessage::Complete { transaction, secret, return_secret, digits, session, reply } => {
            let shown = Shown { return_secret: return_secret.as_deref(), digits: digits.as_deref() };
            let completed = handle.complete(transaction, &secret, shown, session.as_cookie());
            answered(reply, completed.await);
        }
        SignInMessage::Authenticate { client_id, secret, reply } => {
            send(reply, is_authentic(&handle, &client_id, secret.as_deref()));
        }
        SignInMessage::Exchange { client_id, code, redirect_uri, code_verifier, reply } => {
            let tokens = handle.exchange(&client_id, &code, redirect_uri.as_deref(), code_verifier.as_deref());
            answered(reply, tokens.await);
        }
        SignInMessage::LiveToken { token, reply } => send(reply, live_token(&handle, &token).await),
        SignInMessage::RevokeToken { client_id, token, reply } => {
            answered(reply, handle.revoke_token(&client_id, &token).await);
        }
        SignInMessage::EndSession { session, reply } => answered(reply, handle.end_session(&session).await),
        SignInMessage::PublishedKeys { reply } => answered(reply, handle.published_keys().await),
    }
}

/// Sends an answer. A caller that no longer waits has dropped its end.
fn send<R>(reply: RpcReplyPort<R>, answer: R) {
    let _ = reply.send(answer);
}

/// Sends the outcome of a step.
fn answered<R>(reply: RpcReplyPort<Result<R, SignInCallError>>, outcome: Result<R, SignInError>) {
    let _ = reply.send(outcome.map_err(SignInCallError::from));
}

async fn authorize(
    handle: &SignInHandle,
    parameters: Vec<(String, String)>,
    origin: &AuthorizationOrigin,
) -> Result<Authorization, AuthorizationCallError> {
    let parameters: Parameters = parameters.into_iter().collect();
    handle.authorize(&parameters, origin).await.map_err(|AuthorizationError { target, error }| {
        let issuer = &handle.provider().issuer;
        let delivery = target.map(|target| target.deliver_error(&error.to_rejection(), issuer));
        AuthorizationCallError { delivery, error: error.into() }
    })
}

async fn proof_request(handle: &SignInHandle, transaction: TransactionId) -> Result<ProofRequest, SignInCallError> {
    handle.await_given(IssuedItem::Transaction(transaction), None).await?;
    Ok(handle.proof_request(transaction)?)
}

async fn follow(
    handle: &SignInHandle,
    transaction: TransactionId,
    secret: &str,
    (seen, deadline): (Progress, Instant),
    source: Option<IpAddr>,
) -> Result<Progress, SignInError> {
    handle.await_given(IssuedItem::Transaction(transaction), source).await?;
    let _following = handle.enter_follower(transaction, source)?;
    handle.follow(transaction, secret, seen, deadline).await
}

/// Whether a client may act with what it sent.
fn is_authentic(handle: &SignInHandle, client_id: &str, secret: Option<&str>) -> bool {
    handle.client(client_id).is_some_and(|client| match secret {
        Some(secret) => client.has_any_secret(&[secret]),
        None => client.client.is_public,
    })
}

async fn live_token(handle: &SignInHandle, token: &str) -> Result<Option<LiveToken>, SignInCallError> {
    handle.await_given(IssuedItem::Token(token), None).await?;
    Ok(handle.live_token(token)?)
}
