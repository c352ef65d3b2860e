//! The records of events: what waits to be put in order, how far the log is, how far receivers are.

use selfsame_protocol::events::EventId;
use selfsame_protocol::events::record::{EventPosition, LogEntry};
use selfsame_protocol::time::UnixMillis;
use selfsame_protocol::{B256, encode_fields, keccak256};

/// The key of an event that is not in the log yet: when it happened, and its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnloggedKey {
    /// When it happened.
    pub time: UnixMillis,
    /// Its id.
    pub id: EventId,
}

encode_fields!(UnloggedKey { time, id });

/// How far the log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogProgress {
    /// The number of the last record; 0 before the first.
    pub last: u64,
    /// The height of the last block whose events are in the log.
    pub height: u64,
    /// Whether blocks are logged. While they are not, `height` stays behind.
    pub has_blocks: bool,
}

encode_fields!(LogProgress { last, height, has_blocks } version 1 of "progress of the log of events");

/// A receiver of webhooks: a hash of its id in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReceiverKey {
    hash: B256,
}

encode_fields!(ReceiverKey { hash });

impl ReceiverKey {
    /// The key of the receiver with this id.
    pub fn new(id: &str) -> Self {
        Self { hash: keccak256(id) }
    }
}

/// How far a receiver is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiverRecord {
    /// Its id in the configuration.
    pub id: String,
    /// Every event before this one was delivered, has a [`DeliveryRecord`], or was not for this
    /// receiver.
    pub next: EventPosition,
    /// Events that were given up without being kept as dead letters, because there were too many.
    pub lost: u64,
    /// Grows with each write, so that a late write of another sender is noticed.
    pub revision: u64,
}

encode_fields!(ReceiverRecord { id, next, lost, revision } version 1 of "receiver of webhooks");

/// An event that was sent to a receiver and not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// The record of the log that the event is in. The log may forget it earlier.
    pub entry: LogEntry,
    /// Attempts so far.
    pub attempts: u32,
    /// When it is sent again; `None` for a dead letter.
    pub next_attempt: Option<UnixMillis>,
    /// When the last attempt failed.
    pub failed_at: UnixMillis,
    /// Why it failed, in words.
    pub failure: String,
}

encode_fields!(DeliveryRecord { entry, attempts, next_attempt, failed_at, failure } version 1 of "delivery");
