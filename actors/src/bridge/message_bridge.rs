//! The actor: it holds the entries of the bridge, so that each message is handed out once and the
//! first answer wins, whatever comes at the same time.
//!
//! The entries are in memory alone. A restart loses them: applications and authenticators then find
//! no request, and begin again.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use selfsame_protocol::bridge::entries::{Entries, EntryError, EntryLimits, OwnRequest, RequestText, Retrieved};
use selfsame_protocol::bridge::{EntryId, Message, ResponseStatus};
use selfsame_storage::{Counter, FaultScope};
use tokio::sync::watch;
use tracing::Instrument;

use super::handle::{BridgeSettings, RequestSealer};
use super::peers::BridgePeers;
use crate::clock::{Clock, Random};
use crate::support::notify::Notifiers;
use crate::support::slot::{OpenedMessage, Ping, Slot, TracedMessage};
use crate::support::source_limits::{FollowerLimits, SourceLimiter};
use crate::support::surroundings::Surroundings;

// Messages to the message bridge.

/// A message to the message bridge.
pub(crate) enum MessageBridgeMessage {
    /// Keep what was handed in.
    Keep(NewEntry, RpcReplyPort<Result<(), EntryError>>),
    /// Hand a request out: a client's once, the service's each time.
    TakeRequest(EntryId, RpcReplyPort<Option<Retrieved<FoundRequest>>>),
    /// Show a request that can be handed out, and use nothing up.
    ReadRequest(EntryId, RpcReplyPort<Option<FoundRequest>>),
    /// Say how far a request is, and use nothing up.
    Status(EntryId, RpcReplyPort<Option<ResponseStatus>>),
    /// Say how far a request is, and hand its answer out, once. With `follows`, the caller is told
    /// of the next change.
    TakeResponse { id: EntryId, follows: bool, reply: RpcReplyPort<TakenResponse> },
    /// Keep a request of the service itself.
    KeepOwn {
        id: EntryId,
        own: OwnRequest,
        sealer: Arc<dyn RequestSealer>,
        reply: RpcReplyPort<Result<(), EntryError>>,
    },
    /// Say how far a request of the service is, and hand its answer to the service. The service is
    /// told of the next change.
    TakeOwnResponse(EntryId, RpcReplyPort<TakenResponse>),
    /// Remove a request of the service.
    RemoveOwn(EntryId),
    /// Keep to these limits from now on.
    SetLimits(EntryLimits),
    /// Remove what has expired, and followers that no longer wait.
    Sweep,
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

/// A request that can be handed out.
pub(crate) enum FoundRequest {
    /// As a client handed it in.
    Message(Message),
    /// Of the service, by what makes it.
    Sealer(Arc<dyn RequestSealer>),
}

/// What is handed in, and from which source address.
pub(crate) struct NewEntry {
    pub id: EntryId,
    pub message: Message,
    pub source: Option<IpAddr>,
    pub kind: EntryKind,
}

/// What a message is.
pub(crate) enum EntryKind {
    /// A new request, with random bytes that identify its flow.
    Request { flow: [u8; 16] },
    /// An answer to a request.
    Answer,
    /// An answer that belongs to no request.
    Response,
}

/// How far a request is, with its answer; `None` when there is no such request.
pub(crate) struct TakenResponse {
    pub response: Option<(ResponseStatus, Option<Message>)>,
    /// Tells of the next change; `None` when there will be none, or the caller does not follow.
    pub changes: Option<watch::Receiver<()>>,
}

impl Ping for MessageBridgeMessage {
    fn ping(reply: RpcReplyPort<()>) -> Self {
        Self::Ping(reply)
    }
}

// What the message bridge and its handle share.

/// What the message bridge and its handle share.
pub(crate) struct BridgeState {
    pub slot: Arc<Slot<MessageBridgeMessage>>,
    pub fault_scope: FaultScope,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub settings: ArcSwap<BridgeSettings>,
    pub per_source: SourceLimiter,
    pub followers: Arc<FollowerLimits<EntryId>>,
    /// The other replicas; `None` for a service that is alone.
    pub peers: Option<Arc<dyn BridgePeers>>,
    /// Entries and their bytes after the last message.
    pub entries: AtomicUsize,
    pub bytes: AtomicUsize,
    /// Messages since the start that were not kept because there was no room, or because their
    /// source had as many as it may have.
    pub refused_full: Counter,
    pub refused_of_source: Counter,
}

impl BridgeState {
    pub fn new(surroundings: &Surroundings, settings: BridgeSettings, peers: Option<Arc<dyn BridgePeers>>) -> Self {
        let slot = Slot::new(surroundings.name_of("message-bridge"), Some(settings.waiting_calls));
        Self {
            slot: Arc::new(slot),
            fault_scope: surroundings.fault_scope(),
            clock: Arc::clone(&surroundings.clock),
            random: Arc::clone(&surroundings.random),
            settings: ArcSwap::from_pointee(settings),
            per_source: SourceLimiter::new(settings.per_source),
            followers: Arc::default(),
            peers,
            entries: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            refused_full: Counter::default(),
            refused_of_source: Counter::default(),
        }
    }
}

// The actor.

/// Time between two sweeps. Without messages, nothing else removes what has expired.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// The actor.
pub(crate) struct MessageBridge;

/// State of the actor.
pub(crate) struct MessageBridgeState {
    shared: Arc<BridgeState>,
    entries: Entries,
    /// What makes the requests of the service.
    sealers: HashMap<EntryId, Arc<dyn RequestSealer>>,
    followers: Notifiers<EntryId>,
}

impl Actor for MessageBridge {
    type Msg = TracedMessage<MessageBridgeMessage>;
    type State = MessageBridgeState;
    type Arguments = Arc<BridgeState>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        shared: Arc<BridgeState>,
    ) -> Result<MessageBridgeState, ActorProcessingErr> {
        shared.slot.occupy(myself.clone());
        fault_point!(shared.fault_scope, MessageBridgeStart);
        myself.send_interval(SWEEP_INTERVAL, || MessageBridgeMessage::Sweep.into());
        let entries = Entries::new(shared.settings.load().limits);
        let state = MessageBridgeState { shared, entries, sealers: HashMap::new(), followers: Notifiers::default() };
        state.publish();
        Ok(state)
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut MessageBridgeState,
    ) -> Result<(), ActorProcessingErr> {
        let OpenedMessage { span, caller, message } = message.open(state.shared.slot.name());
        async {
            fault_point!(state.shared.fault_scope, MessageBridgeHandle);
            state.handle(message);
            Ok(())
        }
        .instrument(span)
        .instrument(caller)
        .await
    }
}

impl MessageBridgeState {
    /// Handles a message without waiting. A caller that no longer waits uses nothing up. When a
    /// caller has its answer, the statistics show it.
    fn handle(&mut self, message: MessageBridgeMessage) {
        let now = self.shared.clock.passed();
        // Those who wait for a change of an entry learn that it is gone.
        for id in self.entries.expire(now) {
            self.sealers.remove(&id);
            self.followers.notify(&id);
        }
        match message {
            MessageBridgeMessage::Ping(reply) => drop(reply.send(())),
            MessageBridgeMessage::Keep(kept, reply) => {
                let kept = self.keep(kept, now);
                self.publish();
                drop(reply.send(kept));
            }
            MessageBridgeMessage::KeepOwn { id, own, sealer, reply } => {
                let kept = self.entries.insert_own(id.clone(), own, now);
                let kept = self.finish_keeping(&id, kept);
                if kept.is_ok() {
                    self.sealers.insert(id, sealer);
                }
                self.publish();
                drop(reply.send(kept));
            }
            MessageBridgeMessage::TakeOwnResponse(id, reply) => {
                if !reply.is_closed() {
                    let response = self.entries.take_own_response(&id, now);
                    self.answer_follower(id, response, true, reply);
                }
            }
            MessageBridgeMessage::RemoveOwn(id) => {
                self.entries.remove_own(&id);
                self.sealers.remove(&id);
                self.publish();
            }
            MessageBridgeMessage::TakeRequest(id, reply) => {
                if reply.is_closed() {
                    return;
                }
                let taken = self.entries.take_request(&id, now);
                if taken.is_some() {
                    self.followers.notify(&id);
                }
                self.publish();
                drop(reply.send(taken.and_then(|Retrieved { message, flow }| {
                    let message = self.find(&id, message)?;
                    Some(Retrieved { message, flow })
                })));
            }
            MessageBridgeMessage::ReadRequest(id, reply) => {
                if reply.is_closed() {
                    return;
                }
                let shown = match self.entries.read_request(&id, now) {
                    Some(RequestText::OfClient(message)) => Some(FoundRequest::Message(message.clone())),
                    Some(RequestText::OfService) => self.find(&id, RequestText::OfService),
                    None => None,
                };
                drop(reply.send(shown));
            }
            MessageBridgeMessage::Status(id, reply) => drop(reply.send(self.entries.status(&id, now))),
            MessageBridgeMessage::TakeResponse { id, follows, reply } => {
                if !reply.is_closed() {
                    let response = self.entries.take_response(&id, now);
                    self.answer_follower(id, response, follows, reply);
                }
            }
            MessageBridgeMessage::SetLimits(limits) => self.entries.set_limits(limits),
            MessageBridgeMessage::Sweep => {
                self.followers.release_unused();
                self.publish();
            }
        }
    }

    fn find(&self, id: &EntryId, text: RequestText<Message>) -> Option<FoundRequest> {
        match text {
            RequestText::OfClient(message) => Some(FoundRequest::Message(message)),
            RequestText::OfService => self.sealers.get(id).cloned().map(FoundRequest::Sealer),
        }
    }

    fn keep(&mut self, NewEntry { id, message, source, kind }: NewEntry, now: Duration) -> Result<(), EntryError> {
        let kept = match kind {
            EntryKind::Request { flow } => self.entries.insert_request(id.clone(), message, flow, source, now),
            EntryKind::Answer => self.entries.answer(&id, message, source, now),
            EntryKind::Response => self.entries.insert_response(id.clone(), message, source, now),
        };
        self.finish_keeping(&id, kept)
    }

    /// Wakes those who wait for a change of an entry, or counts why there was none.
    fn finish_keeping(&self, id: &EntryId, kept: Result<(), EntryError>) -> Result<(), EntryError> {
        match kept {
            Ok(()) => self.followers.notify(id),
            Err(EntryError::Full) => _ = self.shared.refused_full.inc(),
            Err(EntryError::SourceFull) => _ = self.shared.refused_of_source.inc(),
            Err(EntryError::Taken | EntryError::NoSuchRequest | EntryError::AlreadyAnswered | EntryError::TooLong) => {}
        }
        kept
    }

    /// Answers what was found. A caller that follows is registered when there can be a change.
    fn answer_follower(
        &mut self,
        id: EntryId,
        response: Option<(ResponseStatus, Option<Message>)>,
        follows: bool,
        reply: RpcReplyPort<TakenResponse>,
    ) {
        let will_change = matches!(response, Some((ResponseStatus::Initialized | ResponseStatus::Retrieved, _)));
        let changes = (follows && will_change).then(|| self.followers.register(id));
        self.publish();
        drop(reply.send(TakenResponse { response, changes }));
    }

    /// Shows how much is kept.
    fn publish(&self) {
        self.shared.entries.store(self.entries.count(), Ordering::Relaxed);
        self.shared.bytes.store(self.entries.bytes(), Ordering::Relaxed);
    }
}
