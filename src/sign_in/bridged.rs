//! Sign-in for authenticators that know only the message bridge: the proof request of a sign-in is
//! put on this service's own bridge, as one of the public client kits, and the answer that comes
//! back there is judged as any other.
//!
//! A task for each such sign-in waits for the answer. When the bridge loses the request, because
//! its actor has restarted or its time has passed, the task puts it there again, under the same id
//! and key, so that the code on the page stays good.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use selfsame_actors::{
    BridgeError, BridgeHandle, Clock, NewTransaction, PolledResponse, Progress, ProofRequest, Random, SignInError,
    SignInHandle,
};
use selfsame_protocol::bridge::cipher::{CipherError, RequestKey};
use selfsame_protocol::bridge::connector::Connector;
use selfsame_protocol::bridge::sign_in::{AskedCurrent, AskedProof, BridgeAnswer, BridgeSignIn};
use selfsame_protocol::bridge::{EntryId, Message, ResponseStatus};
use selfsame_protocol::net::authority;
use selfsame_protocol::sign_in::proof_request::{AnswerMode, SignInRequest};
use selfsame_protocol::time::RetryAfter;
use selfsame_protocol::verification::ProofKind;
use tokio::time::Instant;
use tracing::Instrument;
use zeroize::Zeroizing;

use super::wallet_links::BridgedProof;
use crate::http::{AuditTrail, Shutdown};

/// How long one question, to the bridge or about the sign-in, waits for a change.
const WAIT: Duration = Duration::from_secs(25);

/// The pause after the bridge could not be asked.
const PAUSE: Duration = Duration::from_secs(1);

/// The most answers of one sign-in that are judged. The person can scan the code again after a
/// proof that is not accepted.
const MOST_ANSWERS: u32 = 5;

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

/// What an answer leads to.
enum Judged {
    /// The sign-in is answered.
    Ended,
    /// Another answer can come.
    Open,
}

impl OwnBridge {
    /// Puts the proof request of a sign-in on the bridge, and follows the answer. Returns the
    /// connector URI.
    ///
    /// # Errors
    /// The bridge has no room for the request, or cannot be asked; or the request cannot be signed.
    pub async fn offer(
        self: &Arc<Self>,
        sign_in: &SignInHandle,
        begun: &NewTransaction,
        asked: &ProofRequest,
        opened: SignInRequest,
        (proof, source): (&BridgedProof, IpAddr),
    ) -> Result<String, SignInError> {
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
        let id = self.put(None, &key, &request, source).await.map_err(unavailable)?;
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
        tokio::spawn(bridged.follow_until_shutdown().in_current_span());
        Ok(uri)
    }

    /// Puts a request on the bridge, under `id` or an id of the bridge's choice.
    async fn put(
        &self,
        id: Option<EntryId>,
        key: &RequestKey,
        request: &str,
        source: IpAddr,
    ) -> Result<EntryId, PutError> {
        let mut iv = [0; 12];
        self.random.fill(&mut iv);
        let message = key.seal(request.as_bytes(), iv)?;
        Ok(self.handle.create_request(id, message, Some(source)).await?)
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

    /// Waits for answers until the sign-in has ended. Then no authenticator gets the request any
    /// more.
    async fn follow(&self) {
        let id = &self.connector.id;
        let (mut answers, mut is_opened) = (0, false);
        let mut ended = pin!(self.ended());
        loop {
            // The bridge hands an answer out once, so no question is given up before its answer
            // while the sign-in waits for one.
            let polled = tokio::select! {
                biased;
                () = &mut ended => break,
                polled = self.poll() => polled,
            };
            let message = match polled {
                Ok(Some(polled)) => {
                    if polled.status == ResponseStatus::Retrieved && !is_opened {
                        is_opened = self.open().await;
                    }
                    polled.response
                }
                Ok(None) => {
                    let Connector { id, key, .. } = &self.connector;
                    let put = self.bridge.put(Some(id.clone()), key, &self.request, self.source);
                    if let Err(error) = put.await {
                        tracing::debug!(%error, "a sign-in's request cannot be put on the bridge again");
                        tokio::time::sleep(PAUSE).await;
                    }
                    None
                }
                Err(error) => {
                    tracing::debug!(%error, "the answer to a sign-in cannot be fetched from the bridge");
                    tokio::time::sleep(PAUSE).await;
                    None
                }
            };
            if let Some(message) = message {
                answers += 1;
                match self.judge(&message).await {
                    Judged::Ended => return,
                    Judged::Open if answers == MOST_ANSWERS => return self.refuse("refused").await,
                    Judged::Open => {}
                }
            }
        }
        if let Err(error) = self.bridge.handle.take_request(id.clone()).await {
            tracing::debug!(%error, "the request of a sign-in that has ended stays on the bridge");
        }
    }

    /// How far the request is, when that changes.
    async fn poll(&self) -> Result<Option<PolledResponse>, BridgeError> {
        let (bridge, id) = (&self.bridge.handle, &self.connector.id);
        match bridge.await_response(id.clone(), None, WAIT).await {
            // Others who know the id hold as many questions as there may be.
            Err(BridgeError::TooMany(_)) => {
                tokio::time::sleep(PAUSE).await;
                bridge.take_response(id.clone()).await
            }
            polled => polled,
        }
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

    fn is_under_way(&self) -> bool {
        self.sign_in.progress(self.begun.id, &self.begun.secret).is_ok_and(|progress| progress.is_waiting())
    }

    /// Tells the browser that an authenticator has the request.
    async fn open(&self) -> bool {
        let opened = self.sign_in.open_request(self.begun.id, self.opened.clone()).await;
        opened.inspect_err(|error| tracing::debug!(%error, "a sign-in is not shown as opened")).is_ok()
    }

    async fn judge(&self, message: &Message) -> Judged {
        // Who knows the id can hand a message in, but only who has the key says something.
        let Ok(text) = self.connector.key.open(message) else { return Judged::Open };
        match BridgeAnswer::read(&text, self.kind) {
            Ok(BridgeAnswer::Refusal { code }) => {
                tracing::debug!(code, "an authenticator refused a sign-in over the bridge");
                self.refuse("refused_by_person").await;
                Judged::Ended
            }
            Ok(BridgeAnswer::Proof(proof)) => self.answer(&proof).await,
            Err(error) => {
                self.note("refused", Some(&error.to_string()));
                Judged::Open
            }
        }
    }

    /// Gives the proof to the sign-in, as often as the service cannot judge it now.
    async fn answer(&self, proof: &serde_json::Value) -> Judged {
        loop {
            match self.sign_in.answer(self.begun.id, proof, AnswerMode::CrossDevice, Some(self.source)).await {
                Ok(_) => {
                    self.note("success", None);
                    return Judged::Ended;
                }
                Err(SignInError::Unavailable { retry_after, .. }) if self.is_under_way() => {
                    tokio::time::sleep(retry_after.0).await;
                }
                Err(error @ (SignInError::Store(_) | SignInError::Signing(_))) if self.is_under_way() => {
                    tracing::error!(%error, "a proof from the bridge cannot be judged now");
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => {
                    self.note("refused", Some(&error.to_string()));
                    return Judged::Open;
                }
            }
        }
    }

    /// Ends the sign-in without a proof.
    async fn refuse(&self, outcome: &'static str) {
        match self.sign_in.refuse(self.begun.id).await {
            Ok(()) => self.note(outcome, None),
            // Another answer came first, or the sign-in has expired.
            Err(error) => tracing::debug!(%error, "a refusal over the bridge came too late"),
        }
    }

    fn note(&self, outcome: &'static str, reason: Option<&str>) {
        self.bridge.audit.write_own(EVENT, outcome, &self.begun.id.to_string(), reason);
    }
}

/// The bridge cannot do its part now.
pub fn unavailable(error: impl std::fmt::Display) -> SignInError {
    let reason = format!("the message bridge is not available ({error})");
    SignInError::Unavailable { reason, retry_after: RetryAfter::SOON }
}
