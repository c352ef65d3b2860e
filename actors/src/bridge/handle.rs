//! The message bridge's handle, for front-ends and embedders: settings, errors, the requests of the
//! service itself, and the calls.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use ractor::RpcReplyPort;
use selfsame_protocol::bridge::entries::{EntryError, EntryLimits, OwnRequest, Retrieved, holders};
use selfsame_protocol::bridge::{EntryId, Message, ResponseStatus};
use selfsame_protocol::rate_limit::RateLimit;
use selfsame_protocol::time::RetryAfter;
use selfsame_storage::{Metrics, StoreError};
use tokio::time::{Instant, timeout, timeout_at};

use super::message_bridge::{BridgeState, EntryKind, FoundRequest, MessageBridgeMessage, NewEntry, TakenResponse};
use super::peers::{Answer, BridgePeers, Question, QuestionKind};
use crate::support::replica::LeaderError;
use crate::support::slot::{CallError, RESTART_PATIENCE};
use crate::support::source_limits::{FollowerLimits, TooManyRequests, register_refusals};

// The settings of the message bridge.

/// The settings of the message bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgeSettings {
    /// Lifetime and room of the messages.
    pub limits: EntryLimits,
    /// Limit, by source address (IPv6 by /64), of messages that are handed in and of requests that
    /// are fetched; `None` is off.
    pub per_source: Option<RateLimit>,
    /// The most answers that one source address (IPv6: a /64) waits for at a time.
    pub followers_per_source: usize,
    /// The most calls that may wait for the actor at a time.
    pub waiting_calls: usize,
}

impl Default for BridgeSettings {
    fn default() -> Self {
        Self { limits: EntryLimits::default(), per_source: None, followers_per_source: 256, waiting_calls: 1024 }
    }
}

// Why the bridge does not take or give a message.

/// Why the bridge does not take or give a message.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BridgeError {
    /// The rules of the entries do not allow it.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The source address waits for as many answers as it may.
    #[error(transparent)]
    TooMany(#[from] TooManyRequests),
    /// The actor is restarting, stopping or overloaded. A message that was handed in may be kept,
    /// and one that was asked for may be lost.
    #[error("the message bridge cannot be asked ({reason}); try again in {retry_after}")]
    Unavailable {
        /// Why the actor cannot be asked.
        reason: String,
        /// Time until another attempt may succeed.
        retry_after: RetryAfter,
    },
}

impl From<CallError> for BridgeError {
    fn from(error: CallError) -> Self {
        Self::Unavailable { reason: error.to_string(), retry_after: RetryAfter::SOON }
    }
}

impl From<StoreError> for BridgeError {
    fn from(error: StoreError) -> Self {
        Self::Unavailable { reason: error.to_string(), retry_after: RetryAfter::SOON }
    }
}

// The requests of the service itself, which are made each time that they are fetched.

/// Makes a request of the service, each time that it is fetched: a proof request that was signed a
/// while ago, or whose nonce another authenticator has used, is refused by the nodes behind
/// authenticators.
pub trait RequestSealer: Send + Sync + 'static {
    /// The request for an authenticator that fetches it now.
    fn seal(self: Arc<Self>) -> BoxFuture<'static, Result<Message, SealError>>;

    /// The request for a page that shows what it asks for. It uses nothing up.
    fn show(self: Arc<Self>) -> BoxFuture<'static, Result<Message, SealError>>;
}

/// Why a request is not made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SealError {
    /// What it asks for was answered, or is over.
    #[error("it was answered, or is over")]
    Over,
    /// It cannot be made now.
    #[error("{reason}; try again in {retry_after}")]
    Unavailable {
        /// Why it cannot be made.
        reason: String,
        /// Time until another attempt may succeed.
        retry_after: RetryAfter,
    },
}

// The handle.

/// How long another replica may take, besides the time that its caller waits for a change.
const PEER_PATIENCE: Duration = Duration::from_secs(5);

/// How many ids a replica draws until it holds the entry itself. With ten replicas, none of so many
/// ids is its own once in 800 times; the holder is then asked.
const DRAWS: usize = 64;

/// The message bridge. Cheap to clone. The handle stays valid when its actor restarts; the messages
/// that the actor held are lost then.
#[derive(Clone)]
pub struct BridgeHandle {
    state: Arc<BridgeState>,
}

/// What the bridge holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgeStatistics {
    /// Requests and answers that are kept.
    pub entries: usize,
    /// Their bytes, as the limits count them.
    pub bytes: usize,
}

/// How far a request is, with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolledResponse {
    /// How far the request is.
    pub status: ResponseStatus,
    /// The answer, when the request is answered. It is handed out once.
    pub response: Option<Message>,
}

impl BridgeHandle {
    pub(crate) fn new(state: Arc<BridgeState>) -> Self {
        Self { state }
    }

    /// Counts a message that a source address hands in, or a request that it fetches, against the
    /// limit of its source. A front-end calls this before.
    ///
    /// # Errors
    /// [`BridgeError::TooMany`] beyond the limit; it is not counted.
    pub fn charge_source(&self, source: IpAddr) -> Result<(), BridgeError> {
        Ok(self.state.per_source.charge(source, self.state.clock.now())?)
    }

    /// Keeps an application's request under `id`, or under a random id. Returns the id.
    ///
    /// # Errors
    /// [`BridgeError`]; that the id is taken when it is in use.
    pub async fn create_request(
        &self,
        id: Option<EntryId>,
        message: Message,
        source: Option<IpAddr>,
    ) -> Result<EntryId, BridgeError> {
        let id = id.unwrap_or_else(|| self.held_id(EntryId::from_random_bytes));
        let kind = QuestionKind::CreateRequest { message, flow: self.random_bytes() };
        self.ask(Question { id: id.clone(), source, kind }).await?;
        Ok(id)
    }

    /// Keeps an answer that belongs to no request, under a random id. Returns the id.
    ///
    /// # Errors
    /// [`BridgeError`].
    pub async fn create_response(&self, message: Message, source: Option<IpAddr>) -> Result<EntryId, BridgeError> {
        let id = self.held_id(EntryId::from_random_bytes);
        let kind = QuestionKind::CreateResponse { message };
        self.ask(Question { id: id.clone(), source, kind }).await?;
        Ok(id)
    }

    /// A random id for a request of the service itself, which this replica holds: the others have
    /// no message to take its answers with.
    pub fn own_request_id(&self) -> EntryId {
        self.held_id(EntryId::of_service)
    }

    /// Keeps a request of the service itself for `lifetime`, under an id of
    /// [`BridgeHandle::own_request_id`]. Authenticators fetch and answer the request as any other,
    /// through every replica, and each that fetches it gets what `sealer` makes then; its answers
    /// are for [`BridgeHandle::await_own_response`] alone. It counts for the `source` of the person
    /// that it is for, apart from the messages of clients.
    ///
    /// # Errors
    /// [`BridgeError`]; that the id is taken when it is in use.
    pub async fn create_own_request(
        &self,
        id: EntryId,
        sealer: Arc<dyn RequestSealer>,
        source: Option<IpAddr>,
        lifetime: Duration,
    ) -> Result<(), BridgeError> {
        let own = OwnRequest { flow: self.random_bytes(), source, lifetime };
        self.call(|reply| MessageBridgeMessage::KeepOwn { id, own, sealer, reply }).await??;
        Ok(())
    }

    /// How far a request of the service is, as soon as that is not what the caller has `seen`, or
    /// after `wait`; `None` when there is no such request. It takes the answer. The request takes
    /// no further answer until this is called again; from then on it can be fetched and answered
    /// again.
    ///
    /// # Errors
    /// [`BridgeError::Unavailable`].
    pub async fn await_own_response(
        &self,
        id: &EntryId,
        seen: ResponseStatus,
        wait: Duration,
    ) -> Result<Option<PolledResponse>, BridgeError> {
        let deadline = Instant::now() + wait;
        loop {
            let TakenResponse { response, changes } =
                self.call(|reply| MessageBridgeMessage::TakeOwnResponse(id.clone(), reply)).await?;
            let Some((status, response)) = response else { return Ok(None) };
            let polled = PolledResponse { status, response };
            let Some(mut changes) = changes.filter(|_| status == seen) else { return Ok(Some(polled)) };
            // The channel is closed when the actor stops; the next read then finds nothing.
            if timeout_at(deadline, changes.changed()).await.is_err() {
                return Ok(Some(polled));
            }
        }
    }

    /// Removes a request of the service, so that no authenticator gets it any more.
    pub fn remove_own_request(&self, id: EntryId) {
        self.state.slot.cast(MessageBridgeMessage::RemoveOwn(id));
    }

    /// Keeps the first answer to a request.
    ///
    /// # Errors
    /// [`BridgeError`], when there is no such request, or it has an answer.
    pub async fn answer(&self, id: EntryId, message: Message, source: Option<IpAddr>) -> Result<(), BridgeError> {
        self.ask(Question { id, source, kind: QuestionKind::Answer { message } }).await.map(drop)
    }

    /// Takes a request: a client's once, one of the service each time. `None` when no such request
    /// waits.
    ///
    /// # Errors
    /// [`BridgeError::Unavailable`].
    pub async fn take_request(&self, id: EntryId) -> Result<Option<Retrieved>, BridgeError> {
        match self.ask(Question { id, source: None, kind: QuestionKind::TakeRequest }).await? {
            Answer::Request { message, flow } => Ok(Some(Retrieved { message, flow })),
            _ => Ok(None),
        }
    }

    /// A request that was not taken, without taking it, for a page that shows what it asks for;
    /// `None` when no such request waits, or it is longer than those that can be read.
    ///
    /// # Errors
    /// [`BridgeError::Unavailable`].
    pub async fn read_request(&self, id: EntryId) -> Result<Option<Message>, BridgeError> {
        match self.ask(Question { id, source: None, kind: QuestionKind::ReadRequest }).await? {
            Answer::ShownRequest(message) => Ok(Some(message)),
            _ => Ok(None),
        }
    }

    /// How far a request is, without taking anything; `None` for an id that has no request.
    ///
    /// # Errors
    /// [`BridgeError::Unavailable`].
    pub async fn status(&self, id: EntryId) -> Result<Option<ResponseStatus>, BridgeError> {
        match self.ask(Question { id, source: None, kind: QuestionKind::Status }).await? {
            Answer::Status(status) => Ok(Some(status)),
            _ => Ok(None),
        }
    }

    /// How far a client's request is; takes its answer, once. `None` when there is no such request,
    /// also for one of the service.
    ///
    /// # Errors
    /// [`BridgeError::Unavailable`].
    pub async fn take_response(&self, id: EntryId) -> Result<Option<PolledResponse>, BridgeError> {
        self.poll(id, None, None).await
    }

    /// The same when the request is further than it is now, or after `wait`.
    ///
    /// # Errors
    /// [`BridgeError::TooMany`] when `source` waits for as many answers as it may;
    /// [`BridgeError::Unavailable`].
    pub async fn await_response(
        &self,
        id: EntryId,
        source: Option<IpAddr>,
        wait: Duration,
    ) -> Result<Option<PolledResponse>, BridgeError> {
        self.poll(id, source, Some(wait)).await
    }

    /// What this service keeps.
    pub fn statistics(&self) -> BridgeStatistics {
        let BridgeState { entries, bytes, .. } = &*self.state;
        BridgeStatistics { entries: entries.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) }
    }

    /// Adds the numbers of the bridge to `metrics`.
    pub(crate) fn register(&self, metrics: &mut Metrics) {
        let BridgeState { per_source, followers, refused_full, refused_of_source, .. } = &*self.state;
        let help = "Messages that the message bridge refused because all together leave no room";
        metrics.add("selfsame_bridge_refused_full", help, refused_full.clone());
        register_refusals(metrics, "bridge_per_source", "bridge", &per_source.refused);
        register_refusals(metrics, "memory_mib", "bridge", refused_of_source);
        register_refusals(metrics, "followers_per_source", "bridge", &followers.refused_of_source);
        let bridge = self.clone();
        metrics.add_group(move |samples| {
            let BridgeStatistics { entries, bytes } = bridge.statistics();
            let help = "Requests and answers that the message bridge keeps";
            samples.gauge("selfsame_bridge_entries", help, entries)?;
            let help = "What the entries of the message bridge take, in bytes, as its limit counts them";
            samples.gauge("selfsame_bridge_bytes", help, bytes)
        });
    }

    /// Changes the settings, from the next message on.
    pub fn set_settings(&self, settings: BridgeSettings) {
        self.state.slot.set_limit(settings.waiting_calls);
        self.state.per_source.set(settings.per_source);
        self.state.settings.store(Arc::new(settings));
        self.state.slot.cast(MessageBridgeMessage::SetLimits(settings.limits));
    }

    /// Answers a message of another replica's bridge.
    pub(crate) async fn answer_replica(&self, message: &[u8]) -> Vec<u8> {
        let answer = match serde_json::from_slice(message) {
            Ok(question) => self.answer_here(question).await,
            Err(error) => Answer::Unavailable {
                reason: format!("the question cannot be read: {error}"),
                retry_after: RetryAfter::SOON.0,
            },
        };
        serde_json::to_vec(&answer).unwrap_or_default()
    }

    async fn poll(
        &self,
        id: EntryId,
        source: Option<IpAddr>,
        wait: Option<Duration>,
    ) -> Result<Option<PolledResponse>, BridgeError> {
        match self.ask(Question { id, source, kind: QuestionKind::TakeResponse { wait } }).await? {
            Answer::Response { status, response } => Ok(Some(PolledResponse { status, response })),
            _ => Ok(None),
        }
    }

    /// Asks the holder of an entry, and the other replicas when it does not have it.
    async fn ask(&self, question: Question) -> Result<Answer, BridgeError> {
        let Some(peers) = &self.state.peers else { return self.answer_here(question).await.into_result() };
        let mut answer = Answer::Nothing;
        for replica in holders(&question.id, with_own(peers.as_ref())) {
            let found = match replica == peers.own_name() {
                true => self.answer_here(question.clone()).await,
                false => match ask_peer(peers.as_ref(), &replica, &question).await {
                    Ok(found) => found,
                    // It has nothing of the question, and the next one can hold the entry.
                    Err(unreached) if question.kind.creates() => {
                        answer = unreached;
                        continue;
                    }
                    Err(unreached) => unreached,
                },
            };
            if question.kind.creates() || !(found.is_nothing() || matches!(found, Answer::Unavailable { .. })) {
                return found.into_result();
            }
            // A replica that does not answer may have the entry, so it is not certain that there is
            // none.
            if !matches!(answer, Answer::Unavailable { .. }) {
                answer = found;
            }
        }
        if answer.is_nothing() && peers.running().is_none() {
            answer = Answer::Unavailable {
                reason: "the other replicas are not known yet".to_owned(),
                retry_after: RetryAfter::SOON.0,
            };
        }
        answer.into_result()
    }

    /// Answers from the entries of this service.
    async fn answer_here(&self, Question { id, source, kind }: Question) -> Answer {
        let kept = |message, kind| NewEntry { id: id.clone(), message, source, kind };
        let answered = match kind {
            QuestionKind::CreateRequest { message, flow } => {
                self.keep(kept(message, EntryKind::Request { flow })).await
            }
            QuestionKind::CreateResponse { message } => self.keep(kept(message, EntryKind::Response)).await,
            QuestionKind::Answer { message } => self.keep(kept(message, EntryKind::Answer)).await,
            QuestionKind::TakeRequest => self.take(id).await,
            QuestionKind::ReadRequest => self.show(id).await,
            QuestionKind::Status => {
                let status = self.call(|reply| MessageBridgeMessage::Status(id, reply)).await;
                status.map(|status| status.map_or(Answer::Nothing, Answer::Status))
            }
            QuestionKind::TakeResponse { wait: None } => self.read(id, false).await.map(|taken| taken.response.into()),
            QuestionKind::TakeResponse { wait: Some(wait) } => self.follow(id, source, Instant::now() + wait).await,
        };
        answered.unwrap_or_else(Answer::from)
    }

    async fn take(&self, id: EntryId) -> Result<Answer, BridgeError> {
        let found = self.call(|reply| MessageBridgeMessage::TakeRequest(id, reply)).await?;
        let Some(Retrieved { message, flow }) = found else { return Ok(Answer::Nothing) };
        Ok(match message {
            FoundRequest::Message(message) => Answer::Request { message, flow },
            FoundRequest::Sealer(sealer) => {
                sealed(sealer.seal().await)?.map_or(Answer::Nothing, |message| Answer::Request { message, flow })
            }
        })
    }

    async fn show(&self, id: EntryId) -> Result<Answer, BridgeError> {
        let shown = match self.call(|reply| MessageBridgeMessage::ReadRequest(id, reply)).await? {
            Some(FoundRequest::Message(message)) => Some(message),
            Some(FoundRequest::Sealer(sealer)) => sealed(sealer.show().await)?,
            None => None,
        };
        Ok(shown.map_or(Answer::Nothing, Answer::ShownRequest))
    }

    /// The state of a request when it is further than it is now, or at the deadline.
    async fn follow(&self, id: EntryId, source: Option<IpAddr>, deadline: Instant) -> Result<Answer, BridgeError> {
        let limit = self.state.settings.load().followers_per_source;
        let _permit = FollowerLimits::enter(&self.state.followers, id.clone(), source, limit)?;
        let mut seen = None;
        loop {
            let TakenResponse { response, changes } = self.read(id.clone(), true).await?;
            let status = response.as_ref().map(|(status, _)| *status);
            let Some(mut changes) = changes.filter(|_| seen.is_none() || seen == status) else {
                return Ok(response.into());
            };
            seen = status;
            // The channel is closed when the actor stops; the next read then finds nothing.
            if timeout_at(deadline, changes.changed()).await.is_err() {
                return Ok(response.into());
            }
        }
    }

    async fn keep(&self, kept: NewEntry) -> Result<Answer, BridgeError> {
        self.call(|reply| MessageBridgeMessage::Keep(kept, reply)).await??;
        Ok(Answer::Kept)
    }

    async fn read(&self, id: EntryId, follows: bool) -> Result<TakenResponse, BridgeError> {
        self.call(|reply| MessageBridgeMessage::TakeResponse { id, follows, reply }).await
    }

    async fn call<R: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<R>) -> MessageBridgeMessage,
    ) -> Result<R, BridgeError> {
        Ok(self.state.slot.call(message, Instant::now() + RESTART_PATIENCE).await?)
    }

    /// A random id of an entry that this service holds itself; `make` makes one from random bytes.
    fn held_id(&self, make: fn([u8; 16]) -> EntryId) -> EntryId {
        let draw = || make(self.random_bytes());
        let Some(peers) = &self.state.peers else { return draw() };
        let replicas = with_own(peers.as_ref());
        let is_held = |id: &EntryId| holders(id, replicas.clone()).first().is_some_and(|name| name == peers.own_name());
        (0..DRAWS).map(|_| draw()).find(is_held).unwrap_or_else(draw)
    }

    fn random_bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.state.random.fill(&mut bytes);
        bytes
    }
}

impl From<Option<(ResponseStatus, Option<Message>)>> for Answer {
    fn from(response: Option<(ResponseStatus, Option<Message>)>) -> Self {
        response.map_or(Self::Nothing, |(status, response)| Self::Response { status, response })
    }
}

/// What was made of a request of the service; `None` when it is over.
fn sealed(made: Result<Message, SealError>) -> Result<Option<Message>, BridgeError> {
    match made {
        Ok(message) => Ok(Some(message)),
        Err(SealError::Over) => Ok(None),
        Err(SealError::Unavailable { reason, retry_after }) => Err(BridgeError::Unavailable { reason, retry_after }),
    }
}

/// The replicas that run. A replica that others do not see yet holds its own entries.
fn with_own(peers: &dyn BridgePeers) -> Vec<String> {
    let mut running = peers.running().unwrap_or_default();
    if !running.iter().any(|name| name == peers.own_name()) {
        running.push(peers.own_name().to_owned());
    }
    running
}

/// Asks another replica.
///
/// # Errors
/// The replica certainly did not get the question.
async fn ask_peer(peers: &dyn BridgePeers, replica: &str, question: &Question) -> Result<Answer, Answer> {
    let wait = match question.kind {
        QuestionKind::TakeResponse { wait } => wait.unwrap_or_default(),
        _ => Duration::ZERO,
    };
    let message = serde_json::to_vec(question).unwrap_or_default();
    let mut is_unsent = false;
    let reason = match timeout(wait + PEER_PATIENCE, peers.send(replica, message)).await {
        Ok(Ok(answer)) => match serde_json::from_slice(&answer) {
            Ok(answer) => return Ok(answer),
            Err(error) => format!("the answer of replica {replica} cannot be read: {error}"),
        },
        Ok(Err(error)) => {
            is_unsent = matches!(error, LeaderError::Unsent(_));
            format!("replica {replica}: {error}")
        }
        Err(_) => format!("replica {replica} gave no answer in time"),
    };
    tracing::debug!(reason, "a replica's message bridge cannot be asked");
    let reason = "another replica gave no answer".to_owned();
    let answer = Answer::Unavailable { reason, retry_after: RetryAfter::SOON.0 };
    if is_unsent { Err(answer) } else { Ok(answer) }
}
