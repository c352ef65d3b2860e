//! A receiver of webhooks: who it is, how it is posted to, and how far it is: what is being sent,
//! what waits for another attempt, what has to be written.
//!
//! An event is sent for the first time in the order of the log, several at a time. One that was not
//! accepted gets a record and waits for its next attempt; the others go on. The stored position of
//! the receiver is before every event that is not settled, so that a process that ends forgets
//! none; what was sent after that position is sent again, with the same id.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use selfsame_protocol::events::delivery::{WebhookSecret, wait_after};
use selfsame_protocol::events::record::{Cause, EventPosition, LogEntry};
use selfsame_protocol::events::{Audience, EventId, EventKind};
use selfsame_protocol::time::{UnixMillis, UnixSeconds};
use selfsame_storage::{DeliveryRecord, ReceiverKey, ReceiverRecord, ReceiverWrite};

use super::log::{Read, ReadEvent};
use crate::support::tasks::OwnedTask;

// Who gets webhooks, and how they are posted.

/// A receiver of webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverSettings {
    /// Its id. How far it is, is kept under this id.
    pub id: String,
    /// Where webhooks are posted.
    pub url: String,
    /// What webhooks are signed with: each with all of these.
    pub secrets: Vec<WebhookSecret>,
    /// The kinds of events that it gets.
    pub kinds: Vec<EventKind>,
    /// Whose events it gets.
    pub audience: Audience,
}

impl ReceiverSettings {
    /// Whether it gets an event.
    pub fn wants(&self, kind: EventKind, app_id: Option<&str>) -> bool {
        self.kinds.contains(&kind) && self.audience.may_see(kind, app_id)
    }
}

/// A signed webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookMessage {
    /// The header `webhook-id`.
    pub id: EventId,
    /// The header `webhook-timestamp`.
    pub sent_at: UnixSeconds,
    /// The header `webhook-signature`.
    pub signature: String,
    /// The body, in JSON.
    pub body: String,
}

/// Why a webhook was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SendFailure {
    /// What went wrong, in words.
    pub reason: String,
    /// How long the receiver asks to wait.
    pub retry_after: Option<Duration>,
    /// Whether the receiver wants no more of this: there is no further attempt.
    pub is_final: bool,
}

/// Posts webhooks. The daemon's implementation uses HTTP.
pub trait WebhookTransport: Send + Sync + 'static {
    /// Posts one webhook, within a time that the implementation bounds. Success means that the
    /// receiver has accepted it. The future may be dropped at any moment.
    fn post(&self, receiver: &ReceiverSettings, message: WebhookMessage)
    -> BoxFuture<'static, Result<(), SendFailure>>;
}

// How far a receiver is.

/// The most webhooks that are sent to a receiver at a time.
const AT_ONCE: usize = 8;

/// The most of these that are further attempts while others wait for their first.
const REPEATED_AT_ONCE: usize = 4;

/// The most events of a receiver that are being sent or wait for another attempt. While there are
/// as many, no other event is sent for the first time.
const MOST_OPEN: usize = 1000;

/// The most dead letters that are kept for a receiver. The oldest make room.
const MOST_DEAD: usize = 10_000;

/// The most records that are written together, and the most that are removed together.
const WRITTEN_AT_ONCE: usize = 64;
const REMOVED_AT_ONCE: usize = 1000;

/// The longest text of a failure that is kept, in bytes.
const FAILURE_TEXT: usize = 200;

/// What became of the webhooks to a receiver since the start, and how it is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCounts {
    /// Webhooks that it accepted.
    pub delivered: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Events that are being sent, or wait for another attempt; not since the start, but now.
    pub waiting: u64,
    /// Dead letters that are kept now.
    pub dead: u64,
    /// Events that were given up and are not kept.
    pub lost: u64,
    /// When it accepted one last.
    pub last_delivered: Option<UnixMillis>,
}

/// How far a receiver is.
pub(super) struct Receiver {
    pub settings: Arc<ReceiverSettings>,
    counts: Arc<Mutex<DeliveryCounts>>,
    /// As it is in the store; `None` for a new one.
    stored: Option<ReceiverRecord>,
    /// From where on events are read.
    next: EventPosition,
    lost: u64,
    /// Events that were read and wait for their first attempt.
    ready: VecDeque<ReadEvent>,
    sending: BTreeMap<EventPosition, Attempt>,
    /// Events that wait for another attempt.
    waiting: BTreeMap<EventPosition, DeliveryRecord>,
    dead: BTreeSet<EventPosition>,
    /// Records that differ from the stored ones.
    unwritten: BTreeMap<EventPosition, Option<DeliveryRecord>>,
}

/// An event that is being sent.
struct Attempt {
    entry: LogEntry,
    /// Attempts before this one.
    attempts: u32,
    /// Whether the store has a record of it: it was sent before.
    has_record: bool,
    /// The attempt; `None` until it has begun.
    task: Option<OwnedTask>,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptOutcome {
    Delivered,
    Failed,
    Dead,
}

impl Receiver {
    /// A receiver as it is in the store. Without a record, it is new and begins at `beginning`.
    pub fn new(
        settings: Arc<ReceiverSettings>,
        counts: Arc<Mutex<DeliveryCounts>>,
        stored: Option<ReceiverRecord>,
        beginning: EventPosition,
        deliveries: Vec<(EventPosition, DeliveryRecord)>,
    ) -> Self {
        let next = stored.as_ref().map_or(beginning, |record| record.next);
        let lost = stored.as_ref().map_or(0, |record| record.lost);
        let (waiting, dead): (Vec<_>, Vec<_>) =
            deliveries.into_iter().partition(|(_, delivery)| delivery.next_attempt.is_some());
        Self {
            settings,
            counts,
            stored,
            next,
            lost,
            ready: VecDeque::new(),
            sending: BTreeMap::new(),
            waiting: waiting.into_iter().collect(),
            dead: dead.into_iter().map(|(position, _)| position).collect(),
            unwritten: BTreeMap::new(),
        }
    }

    /// What became of its webhooks.
    pub fn counts(&self) -> MutexGuard<'_, DeliveryCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn key(&self) -> ReceiverKey {
        ReceiverKey::new(&self.settings.id)
    }

    /// Where to read events from, and how many; `None` when there are enough.
    pub fn wants_events(&self) -> Option<(EventPosition, usize)> {
        let room = MOST_OPEN.saturating_sub(self.waiting.len() + self.sending.len());
        (self.ready.is_empty() && room > 0).then_some((self.next, room.min(256)))
    }

    /// Takes events that were read.
    pub fn take(&mut self, read: Read) {
        self.lost += read.forgotten;
        self.next = read.next;
        let Self { waiting, dead, ready, .. } = self;
        // After a restart: these were sent before, and have their records.
        let is_new = |event: &ReadEvent| !waiting.contains_key(&event.position) && !dead.contains(&event.position);
        ready.extend(read.events.into_iter().filter(is_new));
    }

    /// The events to send again now. They count as being sent. Those of blocks above `height` wait:
    /// a replica that has just begun to lead may have to apply their blocks first.
    pub fn due(&mut self, now: UnixMillis, height: u64) -> Vec<(EventPosition, LogEntry)> {
        let repeated = self.sending.values().filter(|sending| sending.has_record).count();
        let most = if self.ready.is_empty() { AT_ONCE } else { REPEATED_AT_ONCE };
        let room = AT_ONCE.saturating_sub(self.sending.len()).min(most.saturating_sub(repeated));
        let is_due = |delivery: &DeliveryRecord| {
            let is_applied = !matches!(delivery.entry.cause, Cause::Block(of) if of > height);
            is_applied && delivery.next_attempt.is_some_and(|time| time <= now)
        };
        let due = self.waiting.iter().filter(|(_, delivery)| is_due(delivery)).map(|(position, _)| *position);
        let due: Vec<EventPosition> = due.take(room).collect();
        let begin = |position| {
            let delivery = self.waiting.remove(&position)?;
            let entry = delivery.entry.clone();
            let sending = Attempt { entry: delivery.entry, attempts: delivery.attempts, has_record: true, task: None };
            self.sending.insert(position, sending);
            Some((position, entry))
        };
        due.into_iter().filter_map(begin).collect()
    }

    /// The next event to send for the first time. It counts as being sent.
    pub fn next_ready(&mut self) -> Option<ReadEvent> {
        // Places are kept for further attempts that are due.
        let first = self.sending.values().filter(|sending| !sending.has_record).count();
        let most = if self.waiting.is_empty() { AT_ONCE } else { AT_ONCE - REPEATED_AT_ONCE };
        if self.sending.len() >= AT_ONCE || first >= most {
            return None;
        }
        let event = self.ready.pop_front()?;
        let sending = Attempt { entry: event.entry.clone(), attempts: 0, has_record: false, task: None };
        self.sending.insert(event.position, sending);
        Some(event)
    }

    /// Keeps the task of an attempt, which ends with this receiver.
    pub fn began(&mut self, position: EventPosition, task: OwnedTask) {
        if let Some(sending) = self.sending.get_mut(&position) {
            sending.task = Some(task);
        }
    }

    /// Gives an event up that cannot be made any more.
    pub fn lose(&mut self, position: EventPosition) {
        self.sending.remove(&position);
        self.unwritten.insert(position, None);
        self.lost += 1;
    }

    /// Takes the outcome of an attempt; `None` when no such attempt is known.
    pub fn ended(
        &mut self,
        position: EventPosition,
        outcome: Result<(), SendFailure>,
        now: UnixMillis,
        chance: u32,
    ) -> Option<AttemptOutcome> {
        let Attempt { entry, attempts, has_record, .. } = self.sending.remove(&position)?;
        let Err(failure) = outcome else {
            if has_record {
                self.unwritten.insert(position, None);
            }
            return Some(AttemptOutcome::Delivered);
        };
        let attempts = attempts.saturating_add(1);
        let wait = if failure.is_final { None } else { wait_after(attempts, chance, failure.retry_after) };
        let next_attempt = wait.map(|wait| now.plus(wait));
        let reason = failure.reason;
        let reason = reason[..reason.floor_char_boundary(FAILURE_TEXT)].to_owned();
        let delivery = DeliveryRecord { entry, attempts, next_attempt, failed_at: now, failure: reason };
        self.unwritten.insert(position, Some(delivery.clone()));
        if next_attempt.is_some() {
            self.waiting.insert(position, delivery);
            return Some(AttemptOutcome::Failed);
        }
        self.dead.insert(position);
        if self.dead.len() > MOST_DEAD
            && let Some(oldest) = self.dead.pop_first()
        {
            self.unwritten.insert(oldest, None);
            self.lost += 1;
        }
        Some(AttemptOutcome::Dead)
    }

    /// Events that are being sent or wait for another attempt, dead letters, events that were given
    /// up.
    pub fn numbers(&self) -> (usize, usize, u64) {
        (self.waiting.len() + self.sending.len(), self.dead.len(), self.lost)
    }

    /// Sends a dead letter again, as if it had never been sent; whether there is room for it.
    pub fn revive(&mut self, position: EventPosition, delivery: DeliveryRecord, now: UnixMillis) -> bool {
        if self.waiting.len() + self.sending.len() >= MOST_OPEN || !self.dead.remove(&position) {
            return false;
        }
        let delivery = DeliveryRecord { attempts: 0, next_attempt: Some(now), ..delivery };
        self.unwritten.insert(position, Some(delivery.clone()));
        self.waiting.insert(position, delivery);
        true
    }

    /// Removes all dead letters; says how many there were.
    pub fn discard_dead(&mut self) -> usize {
        let dead = std::mem::take(&mut self.dead);
        self.unwritten.extend(dead.iter().map(|position| (*position, None)));
        dead.len()
    }

    /// What differs from the store; `None` when nothing does. The write has to be made, or the
    /// receiver to be loaded again.
    pub fn next_write(&mut self) -> Option<ReceiverWrite> {
        let mut written = 0;
        let first_of_rest = self.unwritten.iter().zip(0..).find(|((_, record), index)| {
            written += usize::from(record.is_some());
            written > WRITTEN_AT_ONCE || *index >= REMOVED_AT_ONCE
        });
        let rest = match first_of_rest.map(|((position, _), _)| *position) {
            Some(first_of_rest) => self.unwritten.split_off(&first_of_rest),
            None => BTreeMap::new(),
        };
        let deliveries: Vec<_> = std::mem::replace(&mut self.unwritten, rest).into_iter().collect();
        let first_times = self.sending.iter().filter(|(_, sending)| !sending.has_record).map(|(position, _)| *position);
        let unsettled = first_times.chain(self.ready.front().map(|event| event.position));
        let unsettled = unsettled.chain(self.unwritten.keys().next().copied());
        let settled = unsettled.fold(self.next, EventPosition::min);
        // What is written of further attempts is behind the position that is stored.
        let next = self.stored.as_ref().map_or(settled, |stored| stored.next.max(settled));
        let is_same = self.stored.as_ref().is_some_and(|stored| (stored.next, stored.lost) == (next, self.lost));
        if deliveries.is_empty() && is_same {
            return None;
        }
        let revision = self.stored.as_ref().map_or(0, |stored| stored.revision) + 1;
        let after = ReceiverRecord { id: self.settings.id.clone(), next, lost: self.lost, revision };
        let before = self.stored.replace(after.clone());
        Some(ReceiverWrite { before, after, deliveries })
    }
}
