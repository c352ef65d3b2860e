//! What other actors ask of a service: the messages to its actor, by the part that answers them.
//!
//! Answers come in any order: a request that waits for its commit, a proof that is being checked or
//! a person who has not answered does not keep the next message waiting. What the actor has taken
//! goes on without a caller: it may be on its way to the disk.

use std::net::IpAddr;
use std::time::Duration;

use ractor::RpcReplyPort;
use selfsame_protocol::gateway::GatewayStatusResponse;
use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::ledger::{RequestId, Tip};
use selfsame_protocol::registry::{Account, RegistryView};
use selfsame_protocol::sign_in::Parameters;
use selfsame_protocol::sign_in::proof_request::AnswerMode;
use selfsame_protocol::sign_in::response::Delivery;
use selfsame_protocol::sign_in::transaction::Progress;
use selfsame_protocol::verification::request::VerificationRequest;
use selfsame_protocol::verification::roots::{RootKey, TrustedRoot};
use selfsame_storage::StoreError;
use serde_json::Value;
use tokio::time::Instant;

use super::health::ActorHealth;
use super::start::ServiceError;
use crate::registry::handle::{RegistryHandle, WaitError};
use crate::registry::submit::{Submission, SubmitError};
use crate::sign_in::authorization::{Authorization, AuthorizationError, AuthorizationOrigin};
use crate::sign_in::completion::{CompletedTransaction, CompletionSecrets};
use crate::sign_in::handle::{SignInError, SignInHandle};
use crate::sign_in::records::{IssuedItem, TransactionId};
use crate::sign_in::sessions::BrowserCookies;
use crate::sign_in::signing_keys::PublicJwk;
use crate::sign_in::tokens::{LiveToken, TokenResponse};
use crate::sign_in::transactions::{AnswerBinding, ProofRequest};
use crate::verification::handle::{Verification, VerificationHandle};
use crate::verification::refusals::VerificationError;

/// The longest wait that a message can ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// A message to the actor of a service ([`crate::ServiceChild`]).
///
/// A message of a part becomes one by `into`: `call_t!(service, |reply| RegistryMessage::Tip {
/// reply }.into(), 1000)`.
pub enum ServiceMessage {
    /// For the registry.
    Registry(RegistryMessage),
    /// For proof verification.
    Verification(VerificationMessage),
    /// For sign-in.
    SignIn(SignInMessage),
    /// Answer with the health of the service's actors.
    Health(RpcReplyPort<Vec<ActorHealth>>),
    /// Answer with the failures that keep the service from writing, a sentence each; see
    /// [`crate::Service::failures`].
    Failures(RpcReplyPort<Vec<String>>),
    /// The service ended by itself; see [`crate::Service::failed`]. The actor fails with this
    /// error, and its supervisor starts it again.
    Failed(ServiceError),
}

impl From<RegistryMessage> for ServiceMessage {
    fn from(message: RegistryMessage) -> Self {
        Self::Registry(message)
    }
}

impl From<VerificationMessage> for ServiceMessage {
    fn from(message: VerificationMessage) -> Self {
        Self::Verification(message)
    }
}

impl From<SignInMessage> for ServiceMessage {
    fn from(message: SignInMessage) -> Self {
        Self::SignIn(message)
    }
}

/// A question to the registry, or a request for it.
pub enum RegistryMessage {
    /// Submit a request; see [`RegistryHandle::submit`]. When it is answered with success, the
    /// request is durable.
    Submit {
        /// The request.
        submission: Box<Submission>,
        /// Takes the request's id and state.
        reply: RpcReplyPort<Result<GatewayStatusResponse, SubmitError>>,
    },
    /// Answer with a request's state; see [`RegistryHandle::status`].
    Status {
        /// The request.
        request_id: RequestId,
        /// Takes the state; `None` when the request is unknown or its record has expired.
        reply: RpcReplyPort<Result<Option<GatewayStatusResponse>, StoreError>>,
    },
    /// Answer with a request's state when it is final, or as it is when the time is over; see
    /// [`RegistryHandle::wait_until_final`].
    WaitUntilFinal {
        /// The request.
        request_id: RequestId,
        /// How long to wait; at most an hour.
        patience: Duration,
        /// Takes the state; `None` when the request is unknown or its record has expired.
        reply: RpcReplyPort<Result<Option<GatewayStatusResponse>, WaitError>>,
    },
    /// Answer with the tip of the published state.
    Tip {
        /// Takes the tip.
        reply: RpcReplyPort<Tip>,
    },
    /// Answer with an account of the published state.
    Account {
        /// The account's leaf index.
        leaf_index: LeafIndex,
        /// Takes the account; `None` when the leaf has none.
        reply: RpcReplyPort<Result<Option<Account>, StoreError>>,
    },
}

impl RegistryMessage {
    pub(super) async fn answer(self, registry: RegistryHandle) {
        match self {
            Self::Submit { submission, reply } => send(reply, registry.submit(*submission).await),
            Self::Status { request_id, reply } => send(reply, registry.read_status(&request_id).await),
            Self::WaitUntilFinal { request_id, patience, reply } => {
                send(reply, registry.wait_until_final(&request_id, deadline(patience)).await);
            }
            Self::Tip { reply } => send(reply, *registry.snapshot().tip()),
            Self::Account { leaf_index, reply } => {
                send(reply, registry.reading(move |registry| registry.snapshot().account(leaf_index)).await);
            }
        }
    }
}

/// A question to proof verification, or a change of the roots that it trusts.
pub enum VerificationMessage {
    /// Check the proofs of an application's request; see [`VerificationHandle::verify`]. When it is
    /// answered with success, the nullifiers are recorded durably.
    Verify {
        /// Id of the relying party, or of its application.
        relying_party: String,
        /// The request. [`VerificationRequest::read`] makes it from the JSON that applications send
        /// to the verification endpoint.
        request: Box<VerificationRequest>,
        /// The client's address, for its share of the verifier; `None` has no such bound.
        source: Option<IpAddr>,
        /// How long it may take; at most [`crate::VerificationLimits::time_limit`], and an hour.
        patience: Duration,
        /// Takes what was verified.
        reply: RpcReplyPort<Result<Verification, VerificationError>>,
    },
    /// Trust a root from now on, durably; see [`VerificationHandle::trust_root`].
    TrustRoot {
        /// The root.
        root: TrustedRoot,
        /// Takes the outcome.
        reply: RpcReplyPort<Result<(), StoreError>>,
    },
    /// Take a trusted root back; see [`VerificationHandle::remove_root`].
    RemoveRoot {
        /// The root.
        root: RootKey,
        /// Takes whether it was trusted.
        reply: RpcReplyPort<Result<bool, StoreError>>,
    },
}

impl VerificationMessage {
    pub(super) async fn answer(self, verification: VerificationHandle) {
        match self {
            Self::Verify { relying_party, request, source, patience, reply } => {
                let deadline = deadline(patience).min(verification.deadline());
                send(reply, verification.verify(source, &relying_party, *request, deadline).await);
            }
            Self::TrustRoot { root, reply } => send(reply, verification.trust_root(root).await),
            Self::RemoveRoot { root, reply } => send(reply, verification.remove_root(root).await),
        }
    }
}

/// A step of a sign-in. The limits of source addresses that a front-end counts
/// ([`SignInHandle::charge_source`]) are not counted here.
pub enum SignInMessage {
    /// Begin a sign-in, or answer from the browser's session; see [`SignInHandle::authorize`].
    Authorize {
        /// The parameters of the authorization request.
        parameters: Parameters,
        /// Where the request came from.
        origin: AuthorizationOrigin,
        /// Takes the transaction, or the response for the application.
        reply: RpcReplyPort<Result<Authorization, AuthorizationError>>,
    },
    /// Answer with the proof that a transaction asks for; see [`SignInHandle::proof_request`].
    ProofRequest {
        /// The transaction.
        transaction: TransactionId,
        /// Takes the proof request.
        reply: RpcReplyPort<Result<ProofRequest, SignInError>>,
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
        reply: RpcReplyPort<Result<AnswerBinding, SignInError>>,
    },
    /// Accept a person's refusal; see [`SignInHandle::refuse`].
    Refuse {
        /// The transaction.
        transaction: TransactionId,
        /// Takes the outcome.
        reply: RpcReplyPort<Result<(), SignInError>>,
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
        reply: RpcReplyPort<Result<Progress, SignInError>>,
    },
    /// End a transaction for the browser or program that began it; see [`SignInHandle::cancel`].
    Cancel {
        /// The transaction.
        transaction: TransactionId,
        /// The transaction's secret.
        secret: String,
        /// Takes the response for the application.
        reply: RpcReplyPort<Result<Delivery, SignInError>>,
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
        /// The cookies of the browser.
        browser: Box<BrowserCookies>,
        /// Takes the response for the application.
        reply: RpcReplyPort<Result<CompletedTransaction, SignInError>>,
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
        reply: RpcReplyPort<Result<TokenResponse, SignInError>>,
    },
    /// Answer with the record of an access token; see [`SignInHandle::live_token`].
    LiveToken {
        /// The token.
        token: String,
        /// Takes the record; `None` when the token is unknown, expired or revoked.
        reply: RpcReplyPort<Result<Option<LiveToken>, SignInError>>,
    },
    /// Revoke an access token of a client; see [`SignInHandle::revoke_token`].
    RevokeToken {
        /// The client.
        client_id: String,
        /// The token.
        token: String,
        /// Takes the outcome.
        reply: RpcReplyPort<Result<(), SignInError>>,
    },
    /// End a browser's session; see [`SignInHandle::end_session`].
    EndSession {
        /// The session's secret.
        session: String,
        /// Takes the outcome.
        reply: RpcReplyPort<Result<(), SignInError>>,
    },
    /// Answer with the public parts of the signing keys; see [`SignInHandle::published_keys`].
    PublishedKeys {
        /// Takes the keys, the oldest first.
        reply: RpcReplyPort<Result<Vec<PublicJwk>, SignInError>>,
    },
}

impl SignInMessage {
    pub(super) async fn answer(self, sign_in: SignInHandle) {
        match self {
            Self::Authorize { parameters, origin, reply } => send(reply, sign_in.authorize(&parameters, &origin).await),
            Self::ProofRequest { transaction, reply } => send(reply, proof_request(&sign_in, transaction).await),
            Self::Answer { transaction, body, mode, source, reply } => {
                send(reply, sign_in.answer(transaction, &body, mode, source).await);
            }
            Self::Refuse { transaction, reply } => send(reply, sign_in.refuse(transaction).await),
            Self::Follow { transaction, secret, seen, patience, source, reply } => {
                send(reply, follow(&sign_in, transaction, &secret, (seen, deadline(patience)), source).await);
            }
            Self::Cancel { transaction, secret, reply } => send(reply, sign_in.cancel(transaction, &secret).await),
            Self::Complete { transaction, secret, return_secret, digits, browser, reply } => {
                let shown = CompletionSecrets { return_secret: return_secret.as_deref(), digits: digits.as_deref() };
                send(reply, sign_in.complete(transaction, &secret, shown, &browser).await);
            }
            Self::Authenticate { client_id, secret, reply } => {
                send(reply, is_authentic(&sign_in, &client_id, secret.as_deref()));
            }
            Self::Exchange { client_id, code, redirect_uri, code_verifier, reply } => {
                let tokens = sign_in.exchange(&client_id, &code, redirect_uri.as_deref(), code_verifier.as_deref());
                send(reply, tokens.await);
            }
            Self::LiveToken { token, reply } => send(reply, live_token(&sign_in, &token).await),
            Self::RevokeToken { client_id, token, reply } => {
                send(reply, sign_in.revoke_token(&client_id, &token).await);
            }
            Self::EndSession { session, reply } => send(reply, sign_in.end_session(&session).await),
            Self::PublishedKeys { reply } => send(reply, sign_in.published_keys().await),
        }
    }
}

/// Sends an answer. A caller that no longer waits has dropped its end.
fn send<R>(reply: RpcReplyPort<R>, answer: R) {
    let _ = reply.send(answer);
}

/// When a wait that begins now ends. A caller may state any time, also one beyond all that an
/// instant can be.
fn deadline(patience: Duration) -> Instant {
    Instant::now() + patience.min(LONGEST_WAIT)
}

async fn proof_request(sign_in: &SignInHandle, transaction: TransactionId) -> Result<ProofRequest, SignInError> {
    sign_in.await_given(IssuedItem::Transaction(transaction), None).await?;
    sign_in.proof_request(transaction, None)
}

async fn follow(
    sign_in: &SignInHandle,
    transaction: TransactionId,
    secret: &str,
    (seen, deadline): (Progress, Instant),
    source: Option<IpAddr>,
) -> Result<Progress, SignInError> {
    sign_in.await_given(IssuedItem::Transaction(transaction), source).await?;
    let _following = sign_in.enter_follower(transaction, source)?;
    sign_in.follow(transaction, secret, seen, deadline).await
}

/// Whether a client may act with what it sent.
fn is_authentic(sign_in: &SignInHandle, client_id: &str, secret: Option<&str>) -> bool {
    sign_in.client(client_id).is_some_and(|client| match secret {
        Some(secret) => client.has_any_secret(&[secret]),
        None => client.client.is_public,
    })
}

async fn live_token(sign_in: &SignInHandle, token: &str) -> Result<Option<LiveToken>, SignInError> {
    sign_in.await_given(IssuedItem::Token(token), None).await?;
    Ok(sign_in.live_token(token)?)
}
