//! The events of a stored record, as receivers get them.

use std::ops::Range;

use serde::Serialize;
use utoipa::ToSchema;

use super::record::{Cause, LogEntry, RecordedEvent, TrustedRootEvent, VerificationEvent};
use super::{EventId, EventKind};
use crate::gateway::GatewayRequestState;
use crate::ids::{LeafIndex, Nullifier};
use crate::ledger::{Block, BlockResult, Outcome, RequestId};
use crate::number;
use crate::registry::OperationKind;
use crate::time::UnixMillis;

/// An event and its form for receivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its id.
    pub id: EventId,
    /// Its kind.
    pub kind: EventKind,
    /// The application that it is about; `None` when it is about none.
    pub app_id: Option<String>,
    /// The body of a webhook, and the data of a server-sent event: an [`EventBody`] in JSON.
    pub body: String,
}

/// The body of an event (Standard Webhooks, "Payload structure", with the id).
#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
pub struct EventBody<'a> {
    /// Identifies the event. Whatever comes twice with an id is the same event.
    #[schema(pattern = "^evt_[0-9a-f]{32}$", example = "evt_019b1c7e2f003ad1f0c2f9f7a2b0c4d1")]
    pub id: String,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: EventKind,
    /// When it happened (ISO 8601).
    #[schema(example = "2026-07-01T00:00:00.000Z")]
    pub timestamp: String,
    /// The particulars.
    pub data: EventData<'a>,
}

/// The particulars of an event, by its type.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum EventData<'a> {
    /// Of `verification.succeeded`.
    #[schema(title = "verification.succeeded")]
    Verification(VerificationData<'a>),
    /// Of `request.finalized` and `request.failed`.
    #[schema(title = "request.finalized, request.failed")]
    Request(RequestData),
    /// Of `root.added`.
    #[schema(title = "root.added")]
    Root(RootData),
}

/// What a verification has shown.
#[derive(Serialize, ToSchema)]
pub struct VerificationData<'a> {
    /// Id of the application.
    pub app_id: &'a str,
    /// Id of its relying party.
    pub rp_id: String,
    /// The environment of the proofs.
    pub environment: &'static str,
    /// The protocol version of the proofs, 3.0 or 4.0.
    pub protocol_version: &'static str,
    /// The action's text; `null` for a session.
    pub action: Option<&'a str>,
    /// The session's id; `null` when the request was for an action.
    pub session_id: Option<&'a str>,
    /// The nonce that the proofs bind; `null` for proofs of version 3.0, which bind none.
    pub nonce: Option<String>,
    /// The credentials that verified.
    pub identifiers: &'a [String],
    /// The first verified nullifier, as the answer has it; `null` for a session.
    pub nullifier: Option<Nullifier>,
    /// In how many requests the nullifier has been verified, with this one.
    pub uses: Option<u64>,
    /// When the nullifier was first verified (ISO 8601).
    pub created_at: Option<String>,
    /// Whether the sender of the request said that the person's app completed the presence check.
    /// Nothing binds it to the proofs.
    pub user_presence_completed: bool,
}

/// What became of a request to the registry. `request_id`, `kind` and `status` are as in
/// `GET /status/{request_id}`, except that the error of a failed request is only the rule's name.
#[derive(Serialize, ToSchema)]
pub struct RequestData {
    /// Id of the request.
    pub request_id: RequestId,
    /// The operation's kind.
    pub kind: OperationKind,
    /// The final state.
    pub status: GatewayRequestState,
    /// Height of the block that the request is in.
    pub block_height: u64,
    /// Leaf index of the account that the request created or changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub leaf_index: Option<LeafIndex>,
}

/// A root that proofs may be made against.
#[derive(Serialize, ToSchema)]
pub struct RootData {
    /// The root.
    pub root: String,
    /// `registry` for the newest root of the registry's tree, `operator` for a root that the
    /// operator trusts.
    pub source: &'static str,
    /// Height of the block that gave the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_height: Option<u64>,
    /// The environment of the proofs against a root of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<&'static str>,
    /// The protocol version of the proofs against a root of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<&'static str>,
}

/// An applied block, as far as its events need it.
#[derive(Clone, Copy, Debug)]
pub struct AppliedEntries<'a> {
    /// The block.
    pub block: &'a Block,
    /// Its result.
    pub result: &'a BlockResult,
    /// What became of each of its requests, in their order.
    pub outcomes: &'a [Outcome],
}

/// The events of a record of the log with an index in `range`, in their order. `applied` is the
/// block when the record is of one; without it, such a record has no events.
pub fn events_of(entry: &LogEntry, applied: Option<AppliedEntries<'_>>, range: Range<u32>) -> Vec<Event> {
    match &entry.cause {
        Cause::Block(_) => applied.map(|applied| block_events(applied, range)).unwrap_or_default(),
        Cause::Recorded(..) if range.start > 0 => Vec::new(),
        Cause::Recorded(id, RecordedEvent::Verification(event)) => vec![verification_event(*id, entry.time, event)],
        Cause::Recorded(id, RecordedEvent::TrustedRoot(event)) => vec![trusted_root_event(*id, entry.time, event)],
    }
}

fn verification_event(id: EventId, time: UnixMillis, event: &VerificationEvent) -> Event {
    let data = VerificationData {
        app_id: &event.app_id,
        rp_id: event.rp_id.to_string(),
        environment: event.environment.name(),
        protocol_version: event.kind.protocol_version(),
        action: Some(&*event.action).filter(|action| !action.is_empty()),
        session_id: Some(&*event.session_id).filter(|session_id| !session_id.is_empty()),
        nonce: event.nonce.map(number::canonical),
        identifiers: &event.identifiers,
        nullifier: event.nullifier.map(|verified| verified.nullifier),
        uses: event.nullifier.map(|verified| verified.uses),
        created_at: event.nullifier.map(|verified| verified.first_verified_at.to_iso_8601()),
        user_presence_completed: event.user_presence_completed,
    };
    let app_id = Some(event.app_id.clone());
    Event { app_id, ..of(id, EventKind::VerificationSucceeded, time, EventData::Verification(data)) }
}

fn trusted_root_event(id: EventId, time: UnixMillis, event: &TrustedRootEvent) -> Event {
    let data = RootData {
        root: number::canonical(event.root),
        source: "operator",
        block_height: None,
        environment: Some(event.environment.name()),
        protocol_version: Some(event.kind.protocol_version()),
    };
    of(id, EventKind::RootAdded, time, EventData::Root(data))
}

/// An event for each request of the block, in their order, then one for its root if that is new.
fn block_events(AppliedEntries { block, result, outcomes }: AppliedEntries<'_>, range: Range<u32>) -> Vec<Event> {
    let time = UnixMillis(block.header.time.0.saturating_mul(1000));
    let height = block.header.height;
    let (first, most) = (range.start as usize, range.len());
    let requests = block.entries.iter().zip(outcomes).zip(0..).skip(first).take(most);
    let requests = requests.map(|((entry, outcome), index)| {
        let (kind, status, leaf_index) = match outcome {
            Outcome::Applied { leaf_index } => {
                let tx_hash = format!("{:#x}", result.block_hash);
                (EventKind::RequestFinalized, GatewayRequestState::Finalized { tx_hash }, Some(*leaf_index))
            }
            Outcome::Failed { rule, code } => {
                let error_code = Some(*code);
                (EventKind::RequestFailed, GatewayRequestState::Failed { error: rule.clone(), error_code }, None)
            }
        };
        let data = RequestData {
            request_id: entry.request_id,
            kind: entry.operation.kind(),
            status,
            block_height: height,
            leaf_index,
        };
        of(EventId::of_block(&result.block_hash, index), kind, time, EventData::Request(data))
    });
    let mut events: Vec<Event> = requests.collect();
    let index = u32::try_from(block.entries.len()).unwrap_or(u32::MAX);
    if result.root_before != result.root_after && range.contains(&index) {
        let data = RootData {
            root: number::canonical(result.root_after),
            source: "registry",
            block_height: Some(height),
            environment: None,
            protocol_version: None,
        };
        let id = EventId::of_block(&result.block_hash, index);
        events.push(of(id, EventKind::RootAdded, time, EventData::Root(data)));
    }
    events
}

fn of(id: EventId, kind: EventKind, time: UnixMillis, data: EventData<'_>) -> Event {
    let body = EventBody { id: id.to_string(), kind, timestamp: time.to_iso_8601(), data };
    // Every field of the body has a form in JSON.
    Event { id, kind, app_id: None, body: serde_json::to_string(&body).unwrap_or_default() }
}
