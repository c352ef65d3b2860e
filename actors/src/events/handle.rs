//! The handle of events, for front-ends and embedders: settings, errors, what the sender of events
//! shares with it and is told by it, and the calls.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use ractor::RpcReplyPort;
use selfsame_protocol::events::delivery::Event;
use selfsame_protocol::events::record::EventPosition;
use selfsame_protocol::events::{Audience, EventId, EventKind};
use selfsame_protocol::time::UnixMillis;
use selfsame_storage::{EventRecords, FaultScope, Metrics, ReceiverKey, ReceiverRecord, StoreError};
use tokio::sync::watch;
use tokio::time::Instant;

use super::log::{event_at, read_events};
use super::receiver::{DeliveryCounts, ReceiverSettings, SendFailure, WebhookTransport};
use crate::clock::{Clock, Random};
use crate::registry::handle::RegistryHandle;
use crate::support::slot::{CallError, Ping, RESTART_PATIENCE, Slot};
use crate::support::surroundings::Surroundings;
use crate::support::tasks::{Blocking, RetriedStep};

// The settings of events.

/// The settings of events. By default there are no receivers and no streams, and nothing is
/// recorded.
#[derive(Clone)]
pub struct EventSettings {
    /// Whether events are recorded for streams, of all kinds.
    pub streams: bool,
    /// For how long a nullifier that is verified for the same action again makes no other event.
    pub repeat_window: Duration,
    /// How long the log keeps an event. A receiver that is further behind loses it.
    pub retention: Duration,
    /// Who gets webhooks. Each has an id of its own.
    pub receivers: Vec<Arc<ReceiverSettings>>,
    /// How webhooks are posted; `None` posts none.
    pub transport: Option<Arc<dyn WebhookTransport>>,
}

impl Default for EventSettings {
    fn default() -> Self {
        Self {
            streams: false,
            repeat_window: Duration::from_hours(6),
            retention: Duration::from_hours(7 * 24),
            receivers: Vec::new(),
            transport: None,
        }
    }
}

impl fmt::Debug for EventSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { streams, repeat_window, retention, receivers, transport: _ } = self;
        formatter
            .debug_struct("EventSettings")
            .field("streams", streams)
            .field("repeat_window", repeat_window)
            .field("retention", retention)
            .field("receivers", receivers)
            .finish_non_exhaustive()
    }
}

impl EventSettings {
    /// Whether events of this kind are told. `app_id` is the application that an event is
    /// about; `None` for events about none.
    pub fn wants(&self, kind: EventKind, app_id: Option<&str>) -> bool {
        self.streams || self.receivers.iter().any(|receiver| receiver.wants(kind, app_id))
    }

    /// Whether blocks have events that are told.
    pub(crate) fn wants_blocks(&self) -> bool {
        EventKind::ALL.into_iter().any(|kind| kind.follows_from_blocks() && self.wants(kind, None))
    }

    /// Whether anything is recorded at all.
    pub(crate) fn wants_anything(&self) -> bool {
        self.streams || !self.receivers.is_empty()
    }
}

// Why a question about events has no answer.

/// Why a question about events has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EventError {
    /// No receiver has this id.
    #[error("there is no webhook {id:?}; `webhooks` of the configuration has their ids")]
    NoSuchReceiver {
        /// The id.
        id: String,
    },
    /// Another replica sends the webhooks.
    #[error("another replica leads and sends the webhooks; ask that one")]
    NotLeading,
    /// The actor is restarting, stopping or overloaded.
    #[error("the sender of events cannot be asked: {0}")]
    Unavailable(String),
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<CallError> for EventError {
    fn from(error: CallError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

// What the sender of events and its handle share.

/// The most calls that wait for the actor.
const WAITING_CALLS: usize = 16;

/// What the sender of events and its handle share.
pub(crate) struct EventsState {
    pub slot: Arc<Slot<EventSenderMessage>>,
    pub fault_scope: FaultScope,
    pub settings: ArcSwap<EventSettings>,
    /// The height when these settings came into force: blocks are told from then on, unless they
    /// were told before.
    pub since: AtomicU64,
    pub records: EventRecords,
    pub registry: RegistryHandle,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub blocking: Blocking,
    /// Grows when the log may have new records.
    pub logged: watch::Sender<u64>,
    /// Whether reading or writing the records works.
    pub working: RetriedStep,
    /// By the id of the receiver, which counts without the lock of the map.
    counts: Mutex<BTreeMap<String, Arc<Mutex<DeliveryCounts>>>>,
    /// What is kept for each configured receiver, by its id. Thousands of dead letters may be, and
    /// the operator's list of what needs attention is made every few seconds.
    undelivered: Mutex<BTreeMap<String, Arc<Undelivered>>>,
}

/// What is kept for a receiver, as of one state of its record: each write of what is kept counts
/// the record's revision.
pub(super) struct Undelivered {
    record: Option<ReceiverRecord>,
    waiting: usize,
    dead: usize,
    /// When the last attempt of the oldest dead letter failed.
    oldest_dead: Option<UnixMillis>,
    /// Why the newest attempt failed, of those that wait.
    last_failure: Option<String>,
}

impl EventsState {
    pub fn new(
        surroundings: &Surroundings,
        settings: EventSettings,
        records: EventRecords,
        registry: RegistryHandle,
    ) -> Self {
        let Surroundings { clock, random, blocking, .. } = surroundings.clone();
        Self {
            slot: Arc::new(Slot::new(surroundings.name_of("event-sender"), Some(WAITING_CALLS))),
            fault_scope: surroundings.fault_scope(),
            settings: ArcSwap::from_pointee(settings),
            since: AtomicU64::new(registry.height()),
            records,
            registry,
            clock,
            random,
            blocking,
            logged: watch::Sender::new(0),
            working: RetriedStep::new("telling of events"),
            counts: Mutex::default(),
            undelivered: Mutex::default(),
        }
    }

    /// Works with other settings from now on.
    pub fn set_settings(&self, settings: EventSettings) {
        let before = self.settings.load_full();
        if !before.wants_blocks() {
            self.since.store(self.registry.height(), Ordering::Relaxed);
        }
        // Otherwise, what is being sent goes on as it was begun.
        let is_other = (before.streams, before.retention, &before.receivers)
            != (settings.streams, settings.retention, &settings.receivers);
        self.settings.store(Arc::new(settings));
        if !is_other {
            return;
        }
        self.slot.cast(EventSenderMessage::SettingsChanged);
    }

    /// Wakes those who follow the log.
    pub fn tell_logged(&self) {
        self.logged.send_modify(|count| *count += 1);
    }

    /// What became of the webhooks to a receiver since the start.
    pub fn counts(&self, receiver: &str) -> DeliveryCounts {
        *self.counts_of(receiver).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is kept for a receiver. Reads its record, and the rest only when that has changed.
    pub(super) fn undelivered(&self, id: &str) -> Result<Arc<Undelivered>, StoreError> {
        let key = ReceiverKey::new(id);
        // Before the rest: what is newer than the record is read again with the next one.
        let record = self.records.receiver(key)?;
        if let Some(known) = self.lock_undelivered().get(id).filter(|known| known.record == record) {
            return Ok(Arc::clone(known));
        }
        let deliveries = self.records.deliveries(key, None, usize::MAX)?;
        let (waiting, dead): (Vec<_>, Vec<_>) =
            deliveries.into_iter().map(|(_, delivery)| delivery).partition(|delivery| delivery.next_attempt.is_some());
        let newest = waiting.iter().max_by_key(|delivery| delivery.failed_at);
        let undelivered = Arc::new(Undelivered {
            record,
            waiting: waiting.len(),
            dead: dead.len(),
            oldest_dead: dead.iter().map(|delivery| delivery.failed_at).min(),
            last_failure: newest.map(|delivery| delivery.failure.clone()),
        });
        self.lock_undelivered().insert(id.to_owned(), Arc::clone(&undelivered));
        Ok(undelivered)
    }

    fn lock_undelivered(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Undelivered>>> {
        self.undelivered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the receiver of an id counts, also after its actor was started again.
    pub fn counts_of(&self, receiver: &str) -> Arc<Mutex<DeliveryCounts>> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get(receiver) {
            Some(known) => Arc::clone(known),
            None => Arc::clone(counts.entry(receiver.to_owned()).or_default()),
        }
    }
}

// Messages to the sender of events.

/// A message to the sender of events.
pub(crate) enum EventSenderMessage {
    /// Look for what there is to do.
    Work,
    /// Something happened, or time has passed: look soon.
    Wake,
    /// An attempt has ended.
    Sent { receiver: ReceiverKey, position: EventPosition, outcome: Result<(), SendFailure> },
    /// Work with the new settings.
    SettingsChanged,
    /// Send the dead letters of a receiver again; says how many.
    RetryDeadLetters(String, RpcReplyPort<Result<usize, EventError>>),
    /// Remove the dead letters of a receiver; says how many.
    DiscardDeadLetters(String, RpcReplyPort<Result<usize, EventError>>),
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

impl Ping for EventSenderMessage {
    fn ping(reply: RpcReplyPort<()>) -> Self {
        Self::Ping(reply)
    }
}

// The handle.

/// The most dead letters that are handed out at a time.
const MOST_DEAD_LETTERS: usize = 100;

/// The events of a service. Cheap to clone. The handle stays valid when its actor restarts.
#[derive(Clone)]
pub struct EventsHandle {
    pub(super) state: Arc<EventsState>,
}

/// Events of the log, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPage {
    /// The events with their positions.
    pub events: Vec<(EventPosition, Event)>,
    /// From where on to read next.
    pub next: EventPosition,
    /// Whether events between the wanted position and the first one were forgotten.
    pub has_gap: bool,
    /// Whether there are no more for now.
    pub is_end: bool,
}

/// How a receiver of webhooks is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverStatus {
    /// Its settings.
    pub settings: Arc<ReceiverSettings>,
    /// Records of the log that are not done with, at least; one of a block has many events.
    pub behind: u64,
    /// Events that were not accepted and are sent again.
    pub waiting: usize,
    /// Events that are not sent any more, until the operator wants them to be.
    pub dead: usize,
    /// When the last attempt of the oldest of them failed; `None` when there are none.
    pub oldest_dead: Option<UnixMillis>,
    /// Events that were given up and are not kept.
    pub lost: u64,
    /// What became of its webhooks since the start.
    pub counts: DeliveryCounts,
    /// Why the last attempt that failed did, of those that wait; `None` when none waits.
    pub last_failure: Option<String>,
}

/// An event that a receiver has not accepted in all attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its position, which orders dead letters.
    pub position: EventPosition,
    /// Its id and kind, if it can still be made.
    pub event: Option<(EventId, EventKind)>,
    /// How often it was sent.
    pub attempts: u32,
    /// When the last attempt failed.
    pub failed_at: UnixMillis,
    /// Why it failed.
    pub failure: String,
}

impl EventsHandle {
    pub(crate) fn new(state: Arc<EventsState>) -> Self {
        Self { state }
    }

    /// Whether events are recorded for streams.
    pub fn has_streams(&self) -> bool {
        self.state.settings.load().streams
    }

    /// Tells when the log has new events. Subscribe before reading.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.state.logged.subscribe()
    }

    /// Wakes those who follow the log: it came from another replica.
    pub(crate) fn tell_logged(&self) {
        self.state.tell_logged();
    }

    /// The position behind the newest event.
    ///
    /// # Errors
    /// [`EventError::Store`].
    pub async fn end(&self) -> Result<EventPosition, EventError> {
        let records = self.state.records.clone();
        let progress = self.blocking(move || records.progress()).await?;
        Ok(EventPosition::start_of(progress.unwrap_or_default().last + 1))
    }

    /// At most `limit` events that an audience may see, from a position on.
    ///
    /// # Errors
    /// [`EventError::Store`].
    pub async fn read(&self, audience: &Audience, from: EventPosition, limit: usize) -> Result<EventPage, EventError> {
        let (state, audience) = (Arc::clone(&self.state), audience.clone());
        let may_see = move |event: &Event| audience.may_see(event.kind, event.app_id.as_deref());
        let read = move || read_events(&state.records, &state.registry, from, limit, may_see);
        let read = self.blocking(read).await?;
        Ok(EventPage {
            events: read.events.into_iter().map(|read| (read.position, read.event)).collect(),
            next: read.next,
            has_gap: read.forgotten > 0,
            is_end: read.is_end,
        })
    }

    /// How the receivers of webhooks are doing, in the order of the configuration.
    ///
    /// # Errors
    /// [`EventError::Store`].
    pub async fn receivers(&self) -> Result<Vec<ReceiverStatus>, EventError> {
        let (state, settings) = (Arc::clone(&self.state), self.state.settings.load_full());
        if settings.receivers.is_empty() {
            return Ok(Vec::new());
        }
        let read = move || {
            let last = state.records.progress()?.unwrap_or_default().last;
            let is_configured =
                |id: &String, _: &mut Arc<Undelivered>| settings.receivers.iter().any(|of| of.id == *id);
            state.lock_undelivered().retain(is_configured);
            settings.receivers.iter().map(|settings| status(&state, settings, last)).collect()
        };
        self.blocking(read).await
    }

    /// What became of the webhooks to each receiver, in the order of the configuration.
    pub fn counts(&self) -> Vec<(String, DeliveryCounts)> {
        let settings = self.state.settings.load();
        settings.receivers.iter().map(|receiver| (receiver.id.clone(), self.state.counts(&receiver.id))).collect()
    }

    /// Adds the numbers of each webhook of the settings to `metrics`.
    pub(crate) fn register(&self, metrics: &mut Metrics) {
        let events = self.clone();
        metrics.add_group(move |samples| {
            let webhooks = events.counts();
            if webhooks.is_empty() {
                return Ok(());
            }
            let of = |value: fn(&DeliveryCounts) -> u64| {
                webhooks.iter().map(move |(id, counts)| ([("webhook", id.as_str())], value(counts)))
            };
            let help = "Webhooks that were accepted";
            samples.counters("selfsame_webhook_delivered", help, of(|counts| counts.delivered))?;
            let help = "Attempts to send a webhook that failed";
            samples.counters("selfsame_webhook_failed", help, of(|counts| counts.failed))?;
            let help = "Events that are being sent, or wait for another attempt";
            samples.gauges("selfsame_webhook_waiting", help, of(|counts| counts.waiting))?;
            let help = "Events that a webhook has not accepted in all attempts";
            samples.gauges("selfsame_webhook_dead_letters", help, of(|counts| counts.dead))?;
            let help = "Events that were given up, and are not kept as dead letters";
            samples.gauges("selfsame_webhook_events_lost", help, of(|counts| counts.lost))
        });
    }

    /// The dead letters of a receiver behind a position, at most a hundred, the oldest first.
    ///
    /// # Errors
    /// [`EventError::NoSuchReceiver`] and [`EventError::Store`].
    pub async fn dead_letters(&self, id: &str, after: Option<EventPosition>) -> Result<Vec<DeadLetter>, EventError> {
        self.ensure_known(id)?;
        let (state, key) = (Arc::clone(&self.state), ReceiverKey::new(id));
        let read = move || {
            let deliveries = state.records.deliveries(key, after, usize::MAX)?;
            let dead = deliveries.into_iter().filter(|(_, delivery)| delivery.next_attempt.is_none());
            dead.take(MOST_DEAD_LETTERS)
                .map(|(position, delivery)| {
                    let event = event_at(&state.registry, &delivery.entry, position.index)?;
                    Ok(DeadLetter {
                        position,
                        event: event.map(|event| (event.id, event.kind)),
                        attempts: delivery.attempts,
                        failed_at: delivery.failed_at,
                        failure: delivery.failure,
                    })
                })
                .collect()
        };
        self.blocking(read).await
    }

    /// Sends the dead letters of a receiver again, as if they had never been sent: a thousand at
    /// most. Returns how many.
    ///
    /// # Errors
    /// [`EventError`]; [`EventError::NotLeading`] at a replica that does not send.
    pub async fn retry_dead_letters(&self, id: &str) -> Result<usize, EventError> {
        self.ensure_known(id)?;
        let id = id.to_owned();
        self.call(|reply| EventSenderMessage::RetryDeadLetters(id, reply)).await
    }

    /// Removes the dead letters of a receiver. Returns how many there were.
    ///
    /// # Errors
    /// [`EventError`]; [`EventError::NotLeading`] at a replica that does not send.
    pub async fn discard_dead_letters(&self, id: &str) -> Result<usize, EventError> {
        self.ensure_known(id)?;
        let id = id.to_owned();
        self.call(|reply| EventSenderMessage::DiscardDeadLetters(id, reply)).await
    }

    /// Changes the settings. Webhooks that are being sent are sent again.
    pub fn set_settings(&self, settings: EventSettings) {
        self.state.set_settings(settings);
    }

    fn ensure_known(&self, id: &str) -> Result<(), EventError> {
        let settings = self.state.settings.load();
        let is_known = settings.receivers.iter().any(|receiver| receiver.id == id);
        if is_known { Ok(()) } else { Err(EventError::NoSuchReceiver { id: id.to_owned() }) }
    }

    async fn call(
        &self,
        message: impl FnOnce(RpcReplyPort<Result<usize, EventError>>) -> EventSenderMessage,
    ) -> Result<usize, EventError> {
        self.state.slot.call(message, Instant::now() + RESTART_PATIENCE).await?
    }

    async fn blocking<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, EventError> {
        Ok(self.state.blocking.run(work).await.unwrap_or(Err(StoreError::Panicked))?)
    }
}

fn status(state: &EventsState, settings: &Arc<ReceiverSettings>, last: u64) -> Result<ReceiverStatus, StoreError> {
    let undelivered = state.undelivered(&settings.id)?;
    let Undelivered { record, waiting, dead, oldest_dead, last_failure } = &*undelivered;
    Ok(ReceiverStatus {
        settings: Arc::clone(settings),
        behind: record.as_ref().map_or(0, |record| (last + 1).saturating_sub(record.next.sequence)),
        waiting: *waiting,
        dead: *dead,
        oldest_dead: *oldest_dead,
        lost: record.as_ref().map_or(0, |record| record.lost),
        counts: state.counts(&settings.id),
        last_failure: last_failure.clone(),
    })
}
