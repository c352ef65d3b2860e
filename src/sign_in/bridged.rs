//! Sign-in for authenticators that know only the message bridge: the proof request of a sign-in is
//! put on this service's own bridge, as one of the public client kits, and the answer that comes
//! back there is judged as any other.
//!
//! A task for each such sign-in waits for the answers. The request is an entry of the service's own
//! ([`selfsame_protocol::bridge::entries`]): only this task gets what is handed in there, and no
//! client can put another request in its place. When the bridge loses it, because its actor has
//! restarted, the task puts it there again, under the same id and key, so that the code on the page
//! stays good.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use selfsame_actors::{
    BridgeError, BridgeHandle, Clock, NewTransaction, PolledResponse, Progress, ProofRequest, Random, SignInError,
    SignInHandle,
};
use selfsame_protocol::bridge::cipher::{CipherError, RequestKey};
use selfsame_protocol::bridge::connector::Connector;
use selfsame_protocol::bridge::entries::EntryError;
use selfsame_protocol::bridge::rejection::is_of_person;
use selfsame_protocol::bridge::sign_in::{AskedCurrent, AskedProof, BridgeAnswer, BridgeSignIn};
use selfsame_protocol::bridge::{EntryId, Message, ResponseStatus};
use selfsame_protocol::net::authority;
use selfsame_protocol::printable::to_printable;
use selfsame_protocol::sign_in::proof_request::{AnswerMode, SignInRequest};
use selfsame_protocol::time::{RetryAfter, UnixSeconds};
use selfsame_protocol::verification::ProofKind;
use tokio::time::Instant;
use tracing::Instrument;
use zeroize::Zeroizing;

use super::wallet_links::BridgedProof;
use crate::http::{AuditTrail, Shutdown};

/// How long one question, to the bridge or about the sign-in, waits for a change.
const WAIT: Duration = Duration::from_secs(25);

/// The pause before a step is tried again that failed for a reason which passes.
const PAUSE: Duration = Duration::from_secs(1);

/// The most answers of one sign-in, made with its key, that are not accepted. The person can scan
/// the code again after each but the last one.
const MOST_ANSWERS: u32 = 5;

/// Why an event is noted whose write was reported as failed.
const UNCERTAIN: &str = "the store reported a failure, and the sign-in is answered";

/// The name of the audit event.
const EVENT: &str = "sign_in_answered";

/// Puts proof requests on the service's own bridge.
pub struct OwnBridge {
    /// The bridge.
    pub handle: BridgeHandle,
    /// Its public origin.
    pub url: String,
    /// Draws keys and initialization vectors.
    pub random: Arc<dyn Random>,
    /// When requests are made.
    pub clock: Arc<dyn Clock>,
    /// Where answers are noted.
    pub audit: Arc<AuditTrail>,
    /// Ends the tasks that wait for answers.
    pub shutdown: Shutdown,
}

/// A sign-in that began, for the bridge.
pub struct Offer<'a> {
    /// Where the sign-in is answered.
    pub sign_in: &'a SignInHandle,
    /// The sign-in.
    pub begun: &'a NewTransaction,
    /// The proof that it asks for.
    pub asked: &'a ProofRequest,
    /// That proof in a request on the bridge.
    pub proof: &'a BridgedProof,
    /// What an authenticator of the service's own kind would get.
    pub opened: SignInRequest,
    /// The address of the browser.
    pub source: IpAddr,
}

/// A sign-in whose request is on the bridge.
struct BridgedSignIn {
    bridge: Arc<OwnBridge>,
    sign_in: SignInHandle,
    begun: NewTransaction,
    /// What an authenticator of the service's own kind would get; opening it tells the browser that
    /// an authenticator has the request.
    opened: SignInRequest,
    kind: ProofKind,
    source: IpAddr,
    connector: Connector,
    /// The request, before it is encrypted.
    request: String,
}

/// Why a request is not put on the bridge.
#[derive(Debug, thiserror::Error)]
enum PutError {
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    #[error(transparent)]
    Cipher(#[from] CipherError),
}

/// What a message leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    /// The sign-in is answered, or over.
    Ended,
    /// Its sender has the key, and it is not accepted. Another answer can come.
    NotAccepted,
    /// Its sender does not have the key.
    WithoutKey,
}

/// What comes next on the bridge.
enum Next {
    /// A message was handed in.
    Message(Message),
    /// The sign-in does not wait for one any more.
    Over,
    /// Another request has the id of the sign-in's. What an authenticator would get is not the
    /// sign-in's request.
    Replaced,
}

/// How a step of the sign-in ended.
enum Settled<T> {
    /// It was taken.
    Taken(T),
    /// The sign-in is answered, and a write of the step was reported as failed, which may be the
    /// answer.
    Uncertain,
    /// The sign-in was answered in another way, or is over.
    Over,
    /// It is refused.
    Rejected(SignInError),
}

/// What the task knows of the request on the bridge.
struct Watched {
    /// How far the request was at the last look.
    status: ResponseStatus,
    /// Whether the browser knows that an authenticator has the request.
    is_opened: bool,
}

impl OwnBridge {
    /// Puts the proof request of a sign-in on the bridge, and follows the answer. Returns the
    /// connector URI.
    ///
    /// # Errors
    /// The bridge has no room for the request, or cannot be asked; or the request cannot be signed.
    pub async fn offer(self: &Arc<Self>, offer: Offer<'_>) -> Result<String, SignInError> {
        let Offer { sign_in, begun, asked, proof, opened, source } = offer;
        let description = format!("Sign in to {} ({})", asked.app_name, authority(&asked.redirect_uri));
        let request = BridgeSignIn {
            app_id: &asked.app_id,
            description: &description,
            action: asked.action,
            environment: asked.environment,
            signal: &asked.signal,
            asked: match proof {
                BridgedProof::Legacy(level) => AskedProof::Legacy(*level),
                BridgedProof::Current(party) => AskedProof::Current(AskedCurrent {
                    id: &begun.id.to_string(),
                    party,
                    nonce: asked.nonce,
                    created_at: self.clock.unix_seconds(),
                    expires_at: asked.expires_at,
                }),
            },
        };
        let request = request.to_request().map_err(unavailable)?.to_string();
        let key = RequestKey::new(self.random_key());
        let id = self.put(None, &key, &request, source, begun.expires_at).await.map_err(unavailable)?;
        let base = format!("{}/connect", sign_in.provider().issuer);
        let connector = Connector { id, key, bridge: self.url.clone(), return_to: None };
        let uri = connector.to_uri(&base);
        let bridged = BridgedSignIn {
            bridge: Arc::clone(self),
            sign_in: sign_in.clone(),
            begun: begun.clone(),
            opened,
            kind: asked.proof,
            source,
            connector,
            request,
        };
        // The task outlives the request of the browser, so it is not a part of its span.
        let span = tracing::error_span!(parent: None, "bridged_sign_in", transaction = %begun.id);
        span.follows_from(tracing::Span::current());
        tokio::spawn(bridged.follow_until_shutdown().instrument(span));
        Ok(uri)
    }

    /// Puts a request on the bridge until the sign-in expires, under `id` or an id of the bridge's
    /// choice.
    async fn put(
        &self,
        id: Option<EntryId>,
        key: &RequestKey,
        request: &str,
        source: IpAddr,
        expires_at: UnixSeconds,
    ) -> Result<EntryId, PutError> {
        let lifetime = Duration::from_secs(expires_at.0.saturating_sub(self.clock.unix_seconds().0));
        let mut iv = [0; 12];
        self.random.fill(&mut iv);
        let message = key.seal(request.as_bytes(), iv)?;
        Ok(self.handle.create_own_request(id, message, Some(source), lifetime).await?)
    }

    fn random_key(&self) -> Zeroizing<[u8; 32]> {
        let mut key = Zeroizing::new([0; 32]);
        self.random.fill(key.as_mut_slice());
        key
    }
}

impl BridgedSignIn {
    /// The sign-in may outlive the service, but its request on the bridge does not.
    async fn follow_until_shutdown(self) {
        tokio::select! {
            () = self.follow() => {}
            () = self.bridge.shutdown.triggered() => {}
        }
    }

    /// Judges messages until the sign-in has ended. Then no authenticator gets the request any
    /// more.
    async fn follow(&self) {
        let mut watched = Watched { status: ResponseStatus::Initialized, is_opened: false };
        let mut not_accepted = 0;
        loop {
            let message = match self.next(&mut watched).await {
                Next::Message(message) => message,
                Next::Over => break,
                Next::Replaced => {
                    self.refuse("refused", Some("another request has its id on the message bridge")).await;
                    break;
                }
            };
            match self.judge(&message).await {
                Judged::Ended => break,
                // It costs its sender a call, and this task a moment. A pause would keep out the
                // answer of the authenticator, because the request is closed until the next look.
                Judged::WithoutKey => {}
                Judged::NotAccepted => {
                    not_accepted += 1;
                    if not_accepted == MOST_ANSWERS {
                        self.refuse("refused", Some("no answer over the bridge was accepted")).await;
                        break;
                    }
                }
            }
        }
        self.bridge.handle.remove_own_request(self.connector.id.clone());
    }

    /// Waits for a message. The bridge hands each out once, so no question is given up before its
    /// answer while the sign-in waits for one.
    async fn next(&self, watched: &mut Watched) -> Next {
        tokio::select! {
            biased;
            () = self.ended() => Next::Over,
            next = self.next_on_bridge(watched) => next,
        }
    }

    /// Asks the bridge until it has a message, or the sign-in cannot go on there.
    async fn next_on_bridge(&self, watched: &mut Watched) -> Next {
        loop {
            let polled = self.bridge.handle.await_own_response(&self.connector.id, watched.status, WAIT).await;
            match polled {
                Ok(Some(PolledResponse { response: Some(message), .. })) => {
                    // It is so again when the bridge is asked the next time.
                    watched.status = ResponseStatus::Initialized;
                    return Next::Message(message);
                }
                Ok(Some(PolledResponse { status, response: None })) => self.show_opened(status, watched).await,
                // The bridge has removed it with the sign-in's time.
                Ok(None) if self.bridge.clock.unix_seconds() >= self.begun.expires_at => return Next::Over,
                Ok(None) => match self.put_again().await {
                    Ok(()) => watched.status = ResponseStatus::Initialized,
                    Err(PutError::Bridge(BridgeError::Entry(EntryError::Taken))) => return Next::Replaced,
                    Err(error) => {
                        tracing::debug!(%error, "a sign-in's request cannot be put on the bridge again");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                Err(error) => {
                    tracing::debug!(%error, "the answer to a sign-in cannot be fetched from the bridge");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Tells the browser, once, that an authenticator has the request. When that fails, the status
    /// counts as not seen, and the next look tries again.
    async fn show_opened(&self, status: ResponseStatus, watched: &mut Watched) {
        if status == ResponseStatus::Retrieved && !watched.is_opened {
            let opened = self.sign_in.open_request(self.begun.id, self.opened.clone()).await;
            if let Err(error) = opened {
                tracing::debug!(%error, "a sign-in is not shown as opened");
                return tokio::time::sleep(PAUSE).await;
            }
            watched.is_opened = true;
        }
        watched.status = status;
    }

    /// Puts the request on the bridge again, which has lost it.
    async fn put_again(&self) -> Result<(), PutError> {
        let Connector { id, key, .. } = &self.connector;
        let put = self.bridge.put(Some(id.clone()), key, &self.request, self.source, self.begun.expires_at);
        put.await.map(drop)
    }

    /// Waits until the sign-in no longer waits for an answer.
    async fn ended(&self) {
        let mut seen = Progress::Waiting;
        loop {
            let NewTransaction { id, secret, .. } = &self.begun;
            match self.sign_in.follow(*id, secret, seen, Instant::now() + WAIT).await {
                Ok(progress) if progress.is_waiting() => seen = progress,
                Ok(_) => return,
                Err(error) => {
                    tracing::debug!(%error, "a sign-in cannot be followed");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn judge(&self, message: &Message) -> Judged {
        // A client that knows the id can hand a message in; only the key shows that it saw the
        // code.
        let Ok(text) = self.connector.key.open(message) else { return Judged::WithoutKey };
        match BridgeAnswer::read(&text, self.kind) {
            Ok(BridgeAnswer::Refusal { code }) if is_of_person(&code) => {
                self.refuse("refused_by_person", None).await;
                Judged::Ended
            }
            Ok(BridgeAnswer::Refusal { code }) => {
                self.refuse("refused_by_wallet", Some(&to_printable(&code))).await;
                Judged::Ended
            }
            Ok(BridgeAnswer::Proof(proof)) => self.answer(&proof).await,
            Err(error) => {
                self.note("refused", Some(&error.to_string()));
                Judged::NotAccepted
            }
        }
    }

    /// Gives the proof to the sign-in.
    async fn answer(&self, proof: &serde_json::Value) -> Judged {
        let (id, source) = (self.begun.id, Some(self.source));
        match self.settle(|| self.sign_in.answer(id, proof, AnswerMode::CrossDevice, source)).await {
            Settled::Taken(_) => self.note("success", None),
            Settled::Uncertain => self.note("success", Some(UNCERTAIN)),
            Settled::Over => {}
            Settled::Rejected(error) => {
                self.note("refused", Some(&error.to_string()));
                return Judged::NotAccepted;
            }
        }
        Judged::Ended
    }

    /// Ends the sign-in without a proof.
    async fn refuse(&self, outcome: &'static str, reason: Option<&str>) {
        match self.settle(|| self.sign_in.refuse(self.begun.id)).await {
            Settled::Taken(()) => self.note(outcome, reason),
            Settled::Uncertain => self.note(outcome, reason.or(Some(UNCERTAIN))),
            Settled::Over => {}
            // Another answer came first, or the sign-in has expired.
            Settled::Rejected(error) => tracing::debug!(%error, "a refusal over the bridge came too late"),
        }
    }

    /// Takes a step of the sign-in, again and again while the service cannot take it now. A write
    /// that is reported as failed may be durable, so the progress is looked at before each further
    /// attempt, which would be rejected as a second answer.
    async fn settle<T, Step>(&self, step: impl Fn() -> Step) -> Settled<T>
    where
        Step: Future<Output = Result<T, SignInError>>,
    {
        let mut is_uncertain = false;
        loop {
            let (error, pause) = match step().await {
                Ok(taken) => return Settled::Taken(taken),
                Err(error) => match pause_after(&error) {
                    Some(pause) => (error, pause),
                    None => return Settled::Rejected(error),
                },
            };
            tracing::debug!(%error, "an answer from the bridge cannot be settled now");
            is_uncertain |= matches!(error, SignInError::Store(_));
            tokio::time::sleep(pause).await;
            // A progress that cannot be read says nothing about the sign-in.
            match self.sign_in.progress(self.begun.id, &self.begun.secret) {
                Ok(Progress::Answered) if is_uncertain => return Settled::Uncertain,
                Ok(progress) if !progress.is_waiting() => return Settled::Over,
                _ if self.bridge.clock.unix_seconds() > self.begun.expires_at => return Settled::Over,
                _ => {}
            }
        }
    }

    fn note(&self, outcome: &'static str, reason: Option<&str>) {
        self.bridge.audit.write_own(EVENT, outcome, &self.begun.id.to_string(), reason);
    }
}

/// How long to wait before a step that failed is tried again; `None` when it would fail again.
fn pause_after(error: &SignInError) -> Option<Duration> {
    match error {
        SignInError::Unavailable { retry_after, .. } => Some(retry_after.0),
        SignInError::TooMany(too_many) => Some(too_many.retry_after.0),
        SignInError::Store(_) | SignInError::Signing(_) => Some(PAUSE),
        SignInError::Rejected(_) | SignInError::CodeReused(_) | SignInError::Proof(_) => None,
    }
}

/// The bridge cannot do its part now.
pub fn unavailable(error: impl std::fmt::Display) -> SignInError {
    let reason = format!("the message bridge is not available ({error})");
    SignInError::Unavailable { reason, retry_after: RetryAfter::SOON }
}
