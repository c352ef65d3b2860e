//! Sign-in for authenticators that know only the message bridge: the proof request of a sign-in is
//! put on this service's own bridge, as one of the public client kits, and the answer that comes
//! back there is judged as any other.
//!
//! Each time that a person opens the short page of the sign-in, where the wallets are, it has a
//! request of its own there, and a task that waits for the answers. The request is an entry of the
//! service's own ([`selfsame_protocol::bridge::entries`]): only this task gets what is handed in
//! there, and no client can put another request in its place. Each time that it is fetched it is
//! made anew, with another of the sign-in's challenges, signed and encrypted at that moment: the
//! nodes behind authenticators take a nonce once and no request that is minutes old. When the
//! bridge loses it, because its actor has restarted, the task puts it there again, under the same
//! id and key, so that the code on the page stays good.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use selfsame_actors::{
    BridgeError, BridgeHandle, Clock, OpeningId, PolledResponse, ProofRequest, Random, RequestSealer, SealError,
    SignInError, SignInHandle, TransactionId,
};
use selfsame_protocol::bridge::connector::{Connector, RequestKey};
use selfsame_protocol::bridge::entries::EntryError;
use selfsame_protocol::bridge::sign_in::{
    AskedCurrent, AskedProof, BridgeAnswer, BridgeSignIn, challenge_of, request_id,
};
use selfsame_protocol::bridge::{Message, ResponseStatus};
use selfsame_protocol::net::authority;
use selfsame_protocol::number::padded;
use selfsame_protocol::sign_in::openings::Challenge;
use selfsame_protocol::sign_in::proof_request::{AnswerMode, NoProof};
use selfsame_protocol::sign_in::transaction::{Progress, TransactionState};
use selfsame_protocol::time::{RetryAfter, UnixSeconds};
use tokio::time::Instant;
use tracing::Instrument;
use zeroize::Zeroizing;

use super::wallet_links::BridgedProof;
use crate::http::{AuditOutcome, AuditTrail, Shutdown};

/// How long one question, to the bridge or about the sign-in, waits for a change.
const WAIT: Duration = Duration::from_secs(25);

/// The shortest time that one question to the bridge waits.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);

/// The pause before a step is tried again that failed for a reason which passes.
const PAUSE: Duration = Duration::from_secs(1);

/// The most proofs of one sign-in, sent with its key, that are not accepted. The person can scan
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
    /// The base of the connector URIs of sign-ins.
    pub connector_base: String,
    /// Draws keys and initialization vectors.
    pub random: Arc<dyn Random>,
    /// When requests are made.
    pub clock: Arc<dyn Clock>,
    /// Where answers are noted.
    pub audit: Arc<AuditTrail>,
    /// Ends the tasks that wait for answers.
    pub shutdown: Shutdown,
}

/// A sign-in that waits for an answer, for the bridge.
pub struct Offer<'a> {
    /// Where the sign-in is answered.
    pub sign_in: &'a SignInHandle,
    /// The sign-in.
    pub id: TransactionId,
    /// The opening of its short page in a browser elsewhere.
    pub opening: Option<OpeningId>,
    /// The proof that it asks for.
    pub asked: &'a ProofRequest,
    /// That proof in a request on the bridge.
    pub proof: &'a BridgedProof,
    /// The address of the browser.
    pub source: IpAddr,
    /// Where a wallet on the browser's own device sends the person afterwards.
    pub return_to: Option<String>,
}

/// A sign-in whose request is on the bridge.
struct BridgedSignIn {
    bridge: Arc<OwnBridge>,
    sign_in: SignInHandle,
    id: TransactionId,
    opening: Option<OpeningId>,
    asked: ProofRequest,
    /// When the bridge removes its request, in Unix seconds.
    there_until: AtomicU64,
    proof: BridgedProof,
    source: IpAddr,
    connector: Connector,
}

/// What a message leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    /// The sign-in is answered, or over.
    Ended,
    /// Its sender has the key, and its proof is not accepted. Another answer can come.
    NotAccepted,
    /// Nothing shows that its sender has the key: it was made with another one, or it is no answer,
    /// such as the request itself.
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

impl OwnBridge {
    /// Puts the proof request of a sign-in on the bridge, and follows the answer. Returns the
    /// connector URI.
    ///
    /// # Errors
    /// The bridge has no room for the request, or cannot be asked.
    pub async fn offer(self: &Arc<Self>, offer: Offer<'_>) -> Result<String, SignInError> {
        let Offer { sign_in, id: transaction, opening, asked, proof, source, return_to } = offer;
        let (id, key) = (self.handle.own_request_id(), RequestKey::new(self.random_key()));
        let connector = Connector { id, key, bridge: self.url.clone(), return_to };
        let uri = connector.to_uri(&self.connector_base);
        let bridged = Arc::new(BridgedSignIn {
            bridge: Arc::clone(self),
            sign_in: sign_in.clone(),
            id: transaction,
            opening,
            asked: asked.clone(),
            there_until: AtomicU64::new(0),
            proof: proof.clone(),
            source,
            connector,
        });
        // What the task takes is counted before there is one.
        bridged.put().await.map_err(unavailable)?;
        // The task outlives the request of the browser, so it is not a part of its span.
        let span = tracing::error_span!(parent: None, "bridged_sign_in", %transaction);
        span.follows_from(tracing::Span::current());
        tokio::spawn(bridged.follow_until_shutdown().instrument(span));
        Ok(uri)
    }

    fn random_key(&self) -> Zeroizing<[u8; 32]> {
        let mut key = Zeroizing::new([0; 32]);
        self.random.fill(key.as_mut_slice());
        key
    }
}

impl RequestSealer for BridgedSignIn {
    fn seal(self: Arc<Self>) -> BoxFuture<'static, Result<Message, SealError>> {
        async move {
            let challenge = self.sign_in.take_challenge(self.id, self.opening).await.map_err(|error| match error {
                SignInError::Rejected(_) => SealError::Over,
                error => unsealed(&error, pause_after(&error).unwrap_or(PAUSE)),
            })?;
            self.seal_with(challenge)
        }
        .boxed()
    }

    fn show(self: Arc<Self>) -> BoxFuture<'static, Result<Message, SealError>> {
        async move {
            let challenge = self.sign_in.newest_challenge(self.id).map_err(|_| SealError::Over)?;
            self.seal_with(challenge)
        }
        .boxed()
    }
}

fn unsealed(error: &impl std::fmt::Display, pause: Duration) -> SealError {
    SealError::Unavailable { reason: error.to_string(), retry_after: RetryAfter(pause) }
}

impl BridgedSignIn {
    /// The request with a challenge, made and encrypted now.
    fn seal_with(&self, challenge: Challenge) -> Result<Message, SealError> {
        let Self { asked, bridge, id: transaction, .. } = self;
        let description = format!("Sign in to {} ({})", asked.app_name, authority(&asked.redirect_uri));
        let id = request_id(&transaction.to_string(), challenge.number);
        let request = BridgeSignIn {
            app_id: &asked.app_id,
            description: &description,
            action: asked.action,
            environment: asked.environment,
            signal: &asked.signal,
            asked: match &self.proof {
                BridgedProof::Legacy(level) => AskedProof::Legacy(*level),
                BridgedProof::Current(party) => AskedProof::Current(AskedCurrent {
                    id: &id,
                    party,
                    nonce: challenge.nonce,
                    session: &asked.session,
                    genesis_issued_at_min: asked.issued_since,
                    identifier: asked.identifier.as_deref(),
                    created_at: bridge.clock.unix_seconds(),
                    expires_at: self.ends_at(),
                }),
            },
        };
        let request = request.to_request().map_err(|error| unsealed(&error, PAUSE))?.to_string();
        let mut iv = [0; 12];
        bridge.random.fill(&mut iv);
        self.connector.key.seal(request.as_bytes(), iv).map_err(|error| unsealed(&error, PAUSE))
    }

    /// Until when the request can be answered: the person may have asked for more time.
    fn ends_at(&self) -> UnixSeconds {
        self.sign_in.view(self.id).map_or(self.asked.expires_at, |view| view.asked.expires_at)
    }

    /// Puts the request on the bridge until the sign-in ends.
    async fn put(self: &Arc<Self>) -> Result<(), BridgeError> {
        let ends_at = self.ends_at();
        let left = ends_at.0.saturating_sub(self.bridge.clock.unix_seconds().0);
        let (id, lifetime) = (self.connector.id.clone(), Duration::from_secs(left));
        let sealer: Arc<dyn RequestSealer> = Arc::<Self>::clone(self);
        self.bridge.handle.create_own_request(id, sealer, Some(self.source), lifetime).await?;
        self.there_until.store(ends_at.0, Ordering::Relaxed);
        Ok(())
    }

    /// How long one question to the bridge waits: not longer than the request is there, so that it
    /// is put there again at once when the sign-in got more time.
    fn wait(&self) -> Duration {
        let left = self.there_until.load(Ordering::Relaxed).saturating_sub(self.bridge.clock.unix_seconds().0);
        WAIT.min(Duration::from_secs(left)).max(SHORTEST_WAIT)
    }

    /// The sign-in may outlive the service, but its request on the bridge does not.
    async fn follow_until_shutdown(self: Arc<Self>) {
        tokio::select! {
            () = self.follow() => {}
            () = self.bridge.shutdown.triggered() => {}
        }
    }

    /// Judges messages until the sign-in has ended. Then no authenticator gets the request any
    /// more.
    async fn follow(self: &Arc<Self>) {
        let mut not_accepted = 0;
        loop {
            let message = match self.next().await {
                Next::Message(message) => message,
                Next::Over => break,
                Next::Replaced => {
                    let reason = "another request has its id on the message bridge";
                    Box::pin(self.refuse(AuditOutcome::Refused, Some(reason))).await;
                    break;
                }
            };
            // Boxed, as every step that few pages take: what waits here is the room of each page.
            match Box::pin(self.judge(message)).await {
                Judged::Ended => break,
                // It costs its sender a call, and this task a moment. A pause would keep out the
                // answer of the authenticator, because the request takes none until the next look.
                Judged::WithoutKey => {}
                Judged::NotAccepted => {
                    not_accepted += 1;
                    if not_accepted == MOST_ANSWERS {
                        let reason = "no answer over the bridge was accepted";
                        Box::pin(self.refuse(AuditOutcome::Refused, Some(reason))).await;
                        break;
                    }
                }
            }
        }
        self.bridge.handle.remove_own_request(self.connector.id.clone());
    }

    /// Waits for a message. The bridge hands each out once, so no question is given up before its
    /// answer while the sign-in waits for one.
    async fn next(self: &Arc<Self>) -> Next {
        tokio::select! {
            biased;
            () = self.ended() => Next::Over,
            next = self.next_on_bridge() => next,
        }
    }

    /// Asks the bridge until it has a message, or the sign-in cannot go on there.
    async fn next_on_bridge(self: &Arc<Self>) -> Next {
        let mut seen = ResponseStatus::Initialized;
        loop {
            match self.bridge.handle.await_own_response(&self.connector.id, seen, self.wait()).await {
                Ok(Some(PolledResponse { response: Some(message), .. })) => return Next::Message(message),
                Ok(Some(PolledResponse { status, response: None })) => seen = status,
                // The bridge has removed it with the sign-in's time.
                Ok(None) if self.bridge.clock.unix_seconds() >= self.ends_at() => return Next::Over,
                // The bridge has lost it.
                Ok(None) => match Box::pin(self.put()).await {
                    Ok(()) => seen = ResponseStatus::Initialized,
                    Err(BridgeError::Entry(EntryError::Taken)) => return Next::Replaced,
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

    /// Waits until the sign-in takes no answer, also none that comes late.
    async fn ended(&self) {
        let mut seen = Progress::NONE;
        loop {
            match self.sign_in.watch(self.id, seen, Instant::now() + WAIT).await {
                Ok(progress) if progress.is_waiting() => seen = progress,
                Ok(_) => match self.sign_in.takes_late_proof(self.id) {
                    true => tokio::time::sleep(WAIT).await,
                    false => return,
                },
                Err(error) => {
                    tracing::debug!(%error, "a sign-in cannot be followed");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn judge(&self, message: Message) -> Judged {
        // A client that knows the id can hand a message in; only the key shows that it saw the
        // code.
        let Ok(text) = self.connector.key.open(&message) else { return Judged::WithoutKey };
        let read = BridgeAnswer::read(&text, self.asked.kind, &self.asked.session);
        // The proof may wait for the verifier, and then takes as little memory as it can.
        drop((message, text));
        match read {
            Ok(BridgeAnswer::Refusal { code }) => {
                self.give_up(&NoProof::of_code(&code)).await;
                Judged::Ended
            }
            Ok(BridgeAnswer::Proof { mut body, request_id }) => {
                let number = request_id.and_then(|id| challenge_of(&self.id.to_string(), &id));
                if let Some(challenge) = number.and_then(|number| self.sign_in.challenge(self.id, number)) {
                    body["nonce"] = padded(&challenge.nonce.into()).into();
                }
                self.answer(&body).await
            }
            // The request has the same key, so it opens, too, when a stranger hands it back.
            Err(error) => {
                tracing::debug!(%error, "a message for a sign-in is no answer");
                Judged::WithoutKey
            }
        }
    }

    /// Gives the proof to the sign-in.
    async fn answer(&self, proof: &serde_json::Value) -> Judged {
        let (id, source) = (self.id, Some(self.source));
        match self.settle(|| self.sign_in.answer(id, proof, AnswerMode::CrossDevice, source)).await {
            Settled::Taken(_) => self.note(AuditOutcome::Success, None),
            Settled::Uncertain => self.note(AuditOutcome::Success, Some(UNCERTAIN)),
            Settled::Over => {}
            Settled::Rejected(error) => {
                self.note(AuditOutcome::Refused, Some(&error.to_string()));
                return Judged::NotAccepted;
            }
        }
        Judged::Ended
    }

    /// Ends the sign-in because the wallet gives no proof.
    async fn give_up(&self, why: &NoProof) {
        let step = || self.sign_in.give_up(self.id, why);
        self.end(outcome_of(why), why.reason().as_deref(), step).await;
    }

    /// Ends the sign-in without a proof.
    async fn refuse(&self, outcome: AuditOutcome, reason: Option<&str>) {
        self.end(outcome, reason, || self.sign_in.refuse(self.id)).await;
    }

    /// Ends the sign-in by this step.
    async fn end<Step>(&self, outcome: AuditOutcome, reason: Option<&str>, step: impl Fn() -> Step)
    where
        Step: Future<Output = Result<(), SignInError>>,
    {
        match self.settle(step).await {
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
            match self.sign_in.view(self.id).map(|view| view.progress) {
                Ok(Progress { state: TransactionState::Answered, .. }) if is_uncertain => return Settled::Uncertain,
                Ok(progress) if !progress.is_waiting() && !self.sign_in.takes_late_proof(self.id) => {
                    return Settled::Over;
                }
                Err(SignInError::Rejected(_)) => return Settled::Over,
                _ => {}
            }
        }
    }

    fn note(&self, outcome: AuditOutcome, reason: Option<&str>) {
        self.bridge.audit.write_own(EVENT, outcome, &self.id.to_string(), reason);
    }
}

/// How the audit trail has an answer without a proof.
pub(super) fn outcome_of(why: &NoProof) -> AuditOutcome {
    match why {
        NoProof::Refused => AuditOutcome::RefusedByPerson,
        NoProof::Failed { .. } => AuditOutcome::RefusedByWallet,
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
