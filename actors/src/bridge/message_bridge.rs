//! The actor: it holds the entries of the bridge, so that each message is handed out once and the
//! first answer wins, whatever comes at the same time.
//!
//! The entries are in memory alone. A restart loses them: applications and authenticators then find
//! no request, and begin again.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use selfsame_protocol::bridge::entries::{Entries, EntryError, RequestText, Retrieved};
use selfsame_protocol::bridge::{EntryId, Message, ResponseStatus};
use tracing::Instrument;

use super::messages::{FoundRequest, Kept, KeptKind, MessageBridgeMessage, TakenResponse};
use super::sealer::RequestSealer;
use super::state::BridgeState;
use crate::support::notify::Notifiers;
use crate::support::slot::{Opened, Traced};

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
    type Msg = Traced<MessageBridgeMessage>;
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
        let Opened { span, caller, message } = message.open(state.shared.slot.name());
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

    fn keep(&mut self, Kept { id, message, source, kind }: Kept, now: Duration) -> Result<(), EntryError> {
        let kept = match kind {
            KeptKind::Request { flow } => self.entries.insert_request(id.clone(), message, flow, source, now),
            KeptKind::Answer => self.entries.answer(&id, message, source, now),
            KeptKind::Response => self.entries.insert_response(id.clone(), message, source, now),
        };
        self.finish_keeping(&id, kept)
    }

    /// Wakes those who wait for a change of an entry, or counts why there was none.
    fn finish_keeping(&self, id: &EntryId, kept: Result<(), EntryError>) -> Result<(), EntryError> {
        match kept {
            Ok(()) => self.followers.notify(id),
            Err(EntryError::Full) => drop(self.shared.refused_full.fetch_add(1, Ordering::Relaxed)),
            Err(EntryError::SourceFull) => drop(self.shared.refused_of_source.fetch_add(1, Ordering::Relaxed)),
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
