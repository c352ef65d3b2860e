//! The events as receivers get them: the payloads, the signatures of webhooks, and the schedule by
//! which a failed delivery is tried again.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use utoipa::ToSchema;

use super::record::{AccountLinkedEvent, Cause, LogEntry, RecordedEvent, TrustedRootEvent, VerificationEvent};
use super::{EventId, EventKind};
use crate::gateway::GatewayRequestState;
use crate::groups::names::{Day, GroupId, MemberNumber};
use crate::ids::{LeafIndex, Nullifier};
use crate::ledger::{Block, BlockResult, Outcome, RequestId};
use crate::number;
use crate::registry::OperationKind;
use crate::time::{UnixMillis, UnixSeconds};

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
    /// Identifies the event: two deliveries with one id are the same event.
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
    /// Of `account.linked`.
    #[schema(title = "account.linked")]
    Account(AccountData<'a>),
    /// Of `member.joined`, `member.replaced` and `member.removed`.
    #[schema(title = "member.joined, member.replaced, member.removed")]
    Member(MemberData<'a>),
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
    /// The session's id; `null` when the request named none.
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
    /// `verified` for an integrity bundle that holds, `not_checked` for one that no keys were
    /// configured for; `null` for a request without a bundle.
    pub integrity: Option<&'static str>,
    /// The score of the first verified proof of Selfie Check, which the integrity bundle binds;
    /// `null` without one.
    pub sybil_score: Option<u64>,
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

/// An account of an application to which current proofs were attached. For 30 days its person can
/// undo it.
#[derive(Serialize, ToSchema)]
pub struct AccountData<'a> {
    /// Id of the application.
    pub app_id: &'a str,
    /// The account's subject, as in ID tokens.
    pub sub: String,
    /// Whether another person's proofs were attached before: neither signs in then, and the
    /// operator has to choose.
    pub disputed: bool,
}

/// A member of a group. The event's timestamp is the beginning of the day.
#[derive(Serialize, ToSchema)]
pub struct MemberData<'a> {
    /// Id of the group.
    pub group: GroupId,
    /// The member number.
    pub member: &'a MemberNumber,
    /// The day on which it happened, in UTC.
    pub day: Day,
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
        Cause::Recorded(id, RecordedEvent::AccountLinked(event)) => {
            let AccountLinkedEvent { app_id, subject, is_disputed } = event;
            let data = AccountData { app_id, sub: format!("{subject:#x}"), disputed: *is_disputed };
            let told = of(*id, EventKind::AccountLinked, entry.time, EventData::Account(data));
            vec![Event { app_id: Some(app_id.clone()), ..told }]
        }
        Cause::Recorded(id, RecordedEvent::Member(event)) => {
            let data = MemberData { group: event.group, member: &event.member, day: event.day };
            vec![of(*id, event.kind(), entry.time, EventData::Member(data))]
        }
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
        integrity: event.integrity.name(),
        sybil_score: event.sybil_score,
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

// When a webhook that failed is sent again.

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// The waits after the first attempt and those after it, in seconds (Standard Webhooks,
/// "Deliverability and reliability"). After the last one a message is a dead letter.
const WAITS: [u64; 9] = [5, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];

/// How many times a message is sent before it is a dead letter.
pub const MOST_ATTEMPTS: u32 = WAITS.len() as u32 + 1;

/// The wait after this many failed attempts, at least 1; `None` when there is no further attempt.
/// `chance` lengthens it by up to a fifth, so that the messages of an outage do not come back all
/// at once. A receiver that asks for a longer wait gets it, up to a day.
pub fn wait_after(attempts: u32, chance: u32, asked: Option<Duration>) -> Option<Duration> {
    let wait = Duration::from_secs(*WAITS.get(usize::try_from(attempts).ok()?.checked_sub(1)?)?);
    let spread = wait.mul_f64(0.2 * f64::from(chance) / f64::from(u32::MAX));
    let longest = Duration::from_secs(24 * HOUR);
    Some((wait + spread).max(asked.unwrap_or_default().min(longest)))
}

// The secrets of webhooks and their signatures, by the Standard Webhooks specification 1.0.0: the
// symmetric scheme `v1`, HMAC-SHA256 over the message's id, its time and its body.

/// What the text of a secret begins with.
const PREFIX: &str = "whsec_";

/// The fewest and the most bytes of a secret (Standard Webhooks, "Signature scheme").
const LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

/// A secret that the sender and the receiver of webhooks share. Its text is `whsec_` and base64.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WebhookSecret")
    }
}

/// A text that is not a secret of a webhook. It is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookSecretError {
    /// It is of another form.
    #[error("a webhook's secret is whsec_ and base64, as in: printf 'whsec_%s\\n' \"$(openssl rand -base64 32)\"")]
    Form,
    /// It has too few or too many bytes.
    #[error("a webhook's secret has 24 to 64 bytes, and this one has {0}")]
    Length(usize),
}

impl FromStr for WebhookSecret {
    type Err = WebhookSecretError;

    fn from_str(text: &str) -> Result<Self, WebhookSecretError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(WebhookSecretError::Form)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| WebhookSecretError::Form)?;
        if LENGTHS.contains(&bytes.len()) { Ok(Self(bytes)) } else { Err(WebhookSecretError::Length(bytes.len())) }
    }
}

/// The value of the header `webhook-signature`: a signature with each secret, with spaces between
/// them. A receiver accepts a message when one of them is right, so that a secret can be replaced
/// without a gap.
pub fn signatures(secrets: &[WebhookSecret], id: EventId, sent_at: UnixSeconds, body: &[u8]) -> String {
    let head = format!("{id}.{}.", sent_at.0);
    let sign = |secret: &WebhookSecret| {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &secret.0));
        context.update(head.as_bytes());
        context.update(body);
        format!("v1,{}", STANDARD.encode(context.sign()))
    };
    secrets.iter().map(sign).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    mod schedule {
        use super::super::*;

        #[test]
        fn waits_grow_until_the_last_attempt() {
            let wait = |attempts| wait_after(attempts, 0, None).map(|wait| wait.as_secs());
            assert_eq!(wait(1), Some(5));
            assert_eq!(wait(4), Some(2 * HOUR));
            assert_eq!(wait(MOST_ATTEMPTS - 1), Some(24 * HOUR));
            assert_eq!(wait(MOST_ATTEMPTS), None);
            assert_eq!(wait(0), None);
        }

        #[test]
        fn chance_and_the_receiver_lengthen_a_wait() {
            assert_eq!(wait_after(1, u32::MAX, None), Some(Duration::from_secs(6)));
            assert_eq!(wait_after(1, 0, Some(Duration::from_secs(100))), Some(Duration::from_secs(100)));
            assert_eq!(wait_after(2, 0, Some(Duration::from_secs(1))), Some(Duration::from_secs(300)));
            assert_eq!(wait_after(1, 0, Some(Duration::MAX)), Some(Duration::from_secs(86_400)));
        }
    }

    mod signature {
        use super::super::*;

        const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

        #[test]
        fn a_message_is_signed_with_each_secret() {
            let id = EventId(*b"0123456789abcdef");
            let other = format!("whsec_{}", STANDARD.encode([7; 32]));
            let secrets = [SECRET.parse().expect("a secret"), other.parse().expect("a secret")];
            let signed = signatures(&secrets, id, UnixSeconds(1_614_265_330), br#"{"test": 2432232314}"#);
            // Computed with Python's `hmac`, over the body behind
            // `evt_30313233343536373839616263646566.1614265330.`.
            let expected = ["v1,sPVJXddEFucFOwkTcHuGBIolRb4AR5V/ArS6omyG23o=", "v1,"];
            let parts: Vec<&str> = signed.split(' ').collect();
            assert_eq!(parts.len(), 2);
            assert_eq!(parts[0], expected[0]);
            assert!(parts[1].starts_with(expected[1]) && parts[1] != parts[0]);
        }

        #[test]
        fn a_secret_has_its_form_and_length() {
            let of = |length| format!("whsec_{}", STANDARD.encode(vec![1; length]));
            assert_eq!(of(23).parse::<WebhookSecret>(), Err(WebhookSecretError::Length(23)));
            assert!(of(24).parse::<WebhookSecret>().is_ok() && of(64).parse::<WebhookSecret>().is_ok());
            assert_eq!(of(65).parse::<WebhookSecret>(), Err(WebhookSecretError::Length(65)));
            for text in ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS*"] {
                assert!(text.parse::<WebhookSecret>().is_err(), "{text}");
            }
            assert_eq!(format!("{:?}", SECRET.parse::<WebhookSecret>()), "Ok(WebhookSecret)");
        }
    }
}
