//! Messages to the message bridge.

use std::net::IpAddr;
use std::sync::Arc;

use ractor::RpcReplyPort;
use selfsame_protocol::bridge::entries::{EntryError, EntryLimits, OwnRequest, Retrieved};
use selfsame_protocol::bridge::{EntryId, Message, ResponseStatus};
use tokio::sync::watch;

use super::sealer::RequestSealer;
use crate::support::slot::Ping;

/// A message to the message bridge.
pub(crate) enum MessageBridgeMessage {
    /// Keep what was handed in.
    Keep(Kept, RpcReplyPort<Result<(), EntryError>>),
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
pub(crate) struct Kept {
    pub id: EntryId,
    pub message: Message,
    pub source: Option<IpAddr>,
    pub kind: KeptKind,
}

/// What a message is.
pub(crate) enum KeptKind {
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
