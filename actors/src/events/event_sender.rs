//! The actor: it puts events into the log, and sends webhooks.
//!
//! It keeps nothing that is not in the store but what it is doing at the moment. When it ends, what
//! it was sending is sent again. While another replica leads, it does nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use selfsame_protocol::events::delivery::{Event, signatures};
use selfsame_protocol::events::record::EventPosition;
use selfsame_storage::{LogProgress, ReceiverKey, StoreError};
use tokio::time::Instant;
use tracing::Instrument;

use super::handle::{EventError, EventSenderMessage, EventSettings, EventsState};
use super::log::{self, WorkError, event_at, read_events, written};
use super::receiver::{AttemptOutcome, Receiver, ReceiverSettings, SendFailure, WebhookMessage};
use crate::support::slot::{OpenedMessage, TracedMessage};
use crate::support::tasks::OwnedTask;

/// Time between two looks at what is due.
const INTERVAL: Duration = Duration::from_secs(1);

/// Looks at what is due between two looks at what the log may forget.
const LOOKS_PER_SWEEP: u32 = 60;

/// The first pause after a failure, and how often it is doubled after further ones.
const LEAST_PAUSE: Duration = Duration::from_millis(250);
const MOST_DOUBLINGS: u32 = 8;

/// The most records of a removed receiver that are deleted together, and the most of the log.
const DELETED_AT_ONCE: usize = 500;

/// The actor.
pub(crate) struct EventSender;

/// State of the actor.
pub(crate) struct EventSenderState {
    shared: Arc<EventsState>,
    myself: ActorRef<TracedMessage<EventSenderMessage>>,
    /// What is stored, and what is being sent; `None` before it is loaded.
    loaded: Option<LoadedReceivers>,
    /// Whether a message to work is in the mailbox.
    is_scheduled: bool,
    looks: u32,
    pauses: Pauses,
    _waking: OwnedTask,
}

/// Pauses after failures, each twice as long as the one before. Without them, receivers would get
/// the same webhooks again and again while the store cannot be written.
#[derive(Default)]
struct Pauses {
    failures: u32,
    until: Option<Instant>,
}

impl Pauses {
    fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    fn begin(&mut self, now: Instant) {
        self.until = Some(now + LEAST_PAUSE * 2_u32.pow(self.failures.min(MOST_DOUBLINGS)));
        self.failures = self.failures.saturating_add(1);
    }
}

struct LoadedReceivers {
    /// The receivers of the settings that this was loaded for.
    configured: Vec<Arc<ReceiverSettings>>,
    /// `None` while events were never recorded.
    progress: Option<LogProgress>,
    receivers: BTreeMap<ReceiverKey, Receiver>,
}

impl Actor for EventSender {
    type Msg = TracedMessage<EventSenderMessage>;
    type State = EventSenderState;
    type Arguments = Arc<EventsState>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        shared: Arc<EventsState>,
    ) -> Result<EventSenderState, ActorProcessingErr> {
        shared.slot.occupy(myself.clone());
        fault_point!(shared.fault_scope, EventSenderStart);
        myself.send_interval(INTERVAL, || EventSenderMessage::Wake.into());
        shared.slot.cast(EventSenderMessage::Wake);
        let waking = OwnedTask(tokio::spawn(wake_at_blocks(Arc::clone(&shared))).abort_handle());
        Ok(EventSenderState {
            shared,
            myself,
            loaded: None,
            is_scheduled: false,
            looks: 0,
            pauses: Pauses::default(),
            _waking: waking,
        })
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut EventSenderState,
    ) -> Result<(), ActorProcessingErr> {
        let OpenedMessage { span, caller, message } = message.open(state.shared.slot.name());
        async {
            fault_point!(state.shared.fault_scope, EventSenderHandle);
            state.handle(message).await;
            Ok(())
        }
        .instrument(span)
        .instrument(caller)
        .await
    }
}

/// Wakes the actor at each published block, while blocks are told.
async fn wake_at_blocks(shared: Arc<EventsState>) {
    let mut height = shared.registry.height();
    loop {
        shared.registry.wait_for_height(height + 1).await;
        height = shared.registry.height();
        if shared.settings.load().wants_blocks() {
            shared.slot.cast(EventSenderMessage::Wake);
            // A replica may have had the block's record before the block.
            shared.tell_logged();
        }
    }
}

impl EventSenderState {
    async fn handle(&mut self, message: EventSenderMessage) {
        match message {
            EventSenderMessage::Ping(reply) => drop(reply.send(())),
            EventSenderMessage::Wake => self.schedule(),
            EventSenderMessage::Work => {
                self.is_scheduled = false;
                self.work_unless_paused().await;
            }
            EventSenderMessage::Sent { receiver, position, outcome } => {
                self.sent(receiver, position, outcome);
                self.schedule();
            }
            EventSenderMessage::SettingsChanged => {
                self.loaded = None;
                self.work_unless_paused().await;
            }
            EventSenderMessage::RetryDeadLetters(id, reply) => {
                let retried = self.retry_dead(&id).await;
                drop(reply.send(retried));
                self.schedule();
            }
            EventSenderMessage::DiscardDeadLetters(id, reply) => {
                let discarded = self.discard_dead(&id).await;
                drop(reply.send(discarded));
            }
        }
    }

    /// Works after the messages that are in the mailbox: the outcomes that are there are written
    /// together.
    fn schedule(&mut self) {
        if !self.is_scheduled {
            self.is_scheduled = true;
            let _ = self.myself.cast(EventSenderMessage::Work.into());
        }
    }

    async fn work_unless_paused(&mut self) {
        if self.pauses.is_over(Instant::now()) {
            let worked = self.work().await;
            self.note(worked);
        }
    }

    /// After a failure, what is stored is read again: the failed write may have been made.
    fn note(&mut self, worked: Result<(), WorkError>) {
        match worked {
            Ok(()) => {
                self.pauses = Pauses::default();
                self.shared.working.record_success();
            }
            Err(error) => {
                self.shared.working.record_failure(&error);
                self.loaded = None;
                self.pauses.begin(Instant::now());
            }
        }
    }

    async fn work(&mut self) -> Result<(), WorkError> {
        if !self.shared.records.leads() {
            self.loaded = None;
            return Ok(());
        }
        let mut loaded = self.take_loaded().await?;
        let mut has_more = false;
        if let Some(progress) = &mut loaded.progress {
            has_more = log::log(&self.shared, progress).await?;
            self.looks += 1;
            if self.looks >= LOOKS_PER_SWEEP {
                let is_done = sweep(&self.shared, *progress).await?;
                self.looks = if is_done { 0 } else { LOOKS_PER_SWEEP };
            }
        }
        for receiver in loaded.receivers.values_mut() {
            has_more |= self.send(receiver).await?;
            write(&self.shared, receiver).await?;
        }
        self.loaded = Some(loaded);
        if has_more {
            self.schedule();
        }
        Ok(())
    }

    /// What is loaded, of the present settings.
    async fn take_loaded(&mut self) -> Result<LoadedReceivers, WorkError> {
        let configured = self.shared.settings.load().receivers.clone();
        match self.loaded.take().filter(|loaded| loaded.configured == configured) {
            Some(loaded) => Ok(loaded),
            None => load(&self.shared).await,
        }
    }

    /// Sends what a receiver may get now; says whether the log has more for it.
    async fn send(&self, receiver: &mut Receiver) -> Result<bool, WorkError> {
        let mut has_more = false;
        if self.shared.settings.load().transport.is_none() {
            return Ok(has_more);
        }
        if let Some((from, limit)) = receiver.wants_events() {
            let (shared, settings) = (Arc::clone(&self.shared), Arc::clone(&receiver.settings));
            let read = move || {
                let is_wanted = |event: &Event| settings.wants(event.kind, event.app_id.as_deref());
                read_events(&shared.records, &shared.registry, from, limit, is_wanted)
            };
            let read = self.blocking(read).await?;
            if read.forgotten > 0 {
                tracing::warn!(
                    webhook = receiver.settings.id,
                    records = read.forgotten,
                    "events were lost: they are too old"
                );
            }
            has_more = !read.is_end;
            receiver.take(read);
        }
        for (position, entry) in receiver.due(self.shared.clock.unix_millis(), self.shared.registry.height()) {
            let shared = Arc::clone(&self.shared);
            match self.blocking(move || event_at(&shared.registry, &entry, position.index)).await? {
                Some(event) => self.begin(receiver, position, event),
                None => receiver.lose(position),
            }
        }
        while let Some(read) = receiver.next_ready() {
            self.begin(receiver, read.position, read.event);
        }
        Ok(has_more)
    }

    /// Begins an attempt.
    fn begin(&self, receiver: &mut Receiver, position: EventPosition, event: Event) {
        let settings = self.shared.settings.load();
        let Some(transport) = &settings.transport else { return };
        let sent_at = self.shared.clock.unix_seconds();
        let signature = signatures(&receiver.settings.secrets, event.id, sent_at, event.body.as_bytes());
        let message = WebhookMessage { id: event.id, sent_at, signature, body: event.body };
        let posting = transport.post(&receiver.settings, message);
        let (slot, key) = (Arc::clone(&self.shared.slot), receiver.key());
        let attempt = async move {
            let outcome = posting.await;
            slot.cast(EventSenderMessage::Sent { receiver: key, position, outcome });
        };
        receiver.began(position, OwnedTask(tokio::spawn(attempt.in_current_span()).abort_handle()));
    }

    fn sent(&mut self, key: ReceiverKey, position: EventPosition, outcome: Result<(), SendFailure>) {
        let receiver = self.loaded.as_mut().and_then(|loaded| loaded.receivers.get_mut(&key));
        let Some(receiver) = receiver else { return };
        let mut chance = [0; 32];
        self.shared.random.fill(&mut chance);
        let chance = u32::from_be_bytes([chance[0], chance[1], chance[2], chance[3]]);
        let now = self.shared.clock.unix_millis();
        let failure = outcome.as_ref().err().map(ToString::to_string);
        let ended = receiver.ended(position, outcome, now, chance);
        let webhook = &*receiver.settings.id;
        match ended {
            Some(AttemptOutcome::Delivered) => {
                let mut counts = receiver.counts();
                counts.delivered += 1;
                counts.last_delivered = Some(now);
            }
            Some(AttemptOutcome::Failed) => {
                tracing::info!(webhook, %position, failure, "a webhook was not accepted and is sent again later");
                receiver.counts().failed += 1;
            }
            Some(AttemptOutcome::Dead) => {
                tracing::warn!(webhook, %position, failure, "a webhook was not accepted and is a dead letter now");
                receiver.counts().failed += 1;
            }
            None => {}
        }
    }

    async fn retry_dead(&mut self, id: &str) -> Result<usize, EventError> {
        let shared = Arc::clone(&self.shared);
        let receiver = self.receiver(id).await?;
        let (records, key) = (shared.records.clone(), receiver.key());
        let read = shared.blocking.run(move || records.deliveries(key, None, usize::MAX)).await;
        let now = shared.clock.unix_millis();
        let mut revived = 0;
        for (position, delivery) in read.unwrap_or(Err(StoreError::Panicked))? {
            if delivery.next_attempt.is_none() && receiver.revive(position, delivery, now) {
                revived += 1;
            }
        }
        self.write_now(id).await?;
        Ok(revived)
    }

    async fn discard_dead(&mut self, id: &str) -> Result<usize, EventError> {
        let discarded = self.receiver(id).await?.discard_dead();
        self.write_now(id).await?;
        Ok(discarded)
    }

    async fn receiver(&mut self, id: &str) -> Result<&mut Receiver, EventError> {
        if !self.shared.records.leads() {
            return Err(EventError::NotLeading);
        }
        let loaded = self.take_loaded().await.map_err(|error| EventError::Unavailable(error.to_string()))?;
        let loaded = self.loaded.insert(loaded);
        loaded.receivers.get_mut(&ReceiverKey::new(id)).ok_or_else(|| EventError::NoSuchReceiver { id: id.to_owned() })
    }

    async fn write_now(&mut self, id: &str) -> Result<(), EventError> {
        let shared = Arc::clone(&self.shared);
        let worked = write(&shared, self.receiver(id).await?).await;
        let failure = worked.as_ref().err().map(ToString::to_string);
        self.note(worked);
        failure.map_or(Ok(()), |failure| Err(EventError::Unavailable(failure)))
    }

    async fn blocking<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, WorkError> {
        Ok(self.shared.blocking.run(work).await.map_err(|_| WorkError::Panicked)??)
    }
}

/// Writes what has changed at a receiver.
async fn write(shared: &EventsState, receiver: &mut Receiver) -> Result<(), WorkError> {
    while let Some(write) = receiver.next_write() {
        written(|decided| shared.records.write_receiver(&write, decided)).await?;
    }
    let (waiting, dead, lost) = receiver.numbers();
    let mut counts = receiver.counts();
    (counts.waiting, counts.dead, counts.lost) = (waiting as u64, dead as u64, lost);
    Ok(())
}

/// Reads what is stored.
async fn load(shared: &Arc<EventsState>) -> Result<LoadedReceivers, WorkError> {
    let reading = Arc::clone(shared);
    let stored =
        shared.blocking.run(move || Ok::<_, StoreError>((reading.records.progress()?, reading.records.receivers()?)));
    let (progress, stored) = stored.await.map_err(|_| WorkError::Panicked)??;
    let EventSettings { receivers: configured, .. } = &*shared.settings.load_full();
    let mut stored: BTreeMap<ReceiverKey, _> = stored.into_iter().collect();
    let progress = log::begin(shared, progress).await?;
    let beginning = EventPosition::start_of(progress.unwrap_or_default().last + 1);
    let mut receivers = BTreeMap::new();
    for settings in configured {
        let key = ReceiverKey::new(&settings.id);
        let records = shared.records.clone();
        let deliveries = shared.blocking.run(move || records.deliveries(key, None, usize::MAX));
        let deliveries = deliveries.await.map_err(|_| WorkError::Panicked)??;
        let mut receiver = Receiver::new(
            Arc::clone(settings),
            shared.counts_of(&settings.id),
            stored.remove(&key),
            beginning,
            deliveries,
        );
        // A new one begins here, also when what comes next fails.
        write(shared, &mut receiver).await?;
        receivers.insert(key, receiver);
    }
    Ok(LoadedReceivers { configured: configured.clone(), progress, receivers })
}

/// Removes the records of the log that are older than the retention, and receivers that are no
/// longer configured and have been behind the log since. Says whether it is done: one call removes
/// a bounded number.
async fn sweep(shared: &Arc<EventsState>, progress: LogProgress) -> Result<bool, WorkError> {
    let retention = shared.settings.load().retention;
    let oldest = shared.clock.unix_millis().minus(retention);
    let records = shared.records.clone();
    let read = shared.blocking.run(move || records.log_from(0, DELETED_AT_ONCE)).await;
    let old = read.map_err(|_| WorkError::Panicked)??.into_iter().take_while(|(_, entry)| entry.time < oldest);
    let old: Vec<u64> = old.map(|(sequence, _)| sequence).collect();
    if !old.is_empty() {
        written(|decided| shared.records.forget(&old, decided)).await?;
        return Ok(old.len() < DELETED_AT_ONCE);
    }
    let reading = Arc::clone(shared);
    let stale = move || {
        let first = reading.records.log_from(0, 1)?.first().map_or(progress.last + 1, |(sequence, _)| *sequence);
        let settings = reading.settings.load_full();
        let is_configured = |id: &str| settings.receivers.iter().any(|receiver| receiver.id == id);
        let stored = reading.records.receivers()?.into_iter().map(|(_, record)| record);
        Ok::<_, StoreError>(
            stored.into_iter().find(|record| !is_configured(&record.id) && record.next.sequence < first),
        )
    };
    let stale = shared.blocking.run(stale).await.map_err(|_| WorkError::Panicked)??;
    let Some(record) = stale else { return Ok(true) };
    tracing::info!(webhook = record.id, "a webhook that is no longer configured is forgotten");
    let (sender, removed) = tokio::sync::oneshot::channel();
    let removing = Arc::clone(shared);
    let remove = move |decided| {
        drop(sender.send(removing.records.remove_receiver(&record, DELETED_AT_ONCE, decided)));
    };
    written(remove).await?;
    removed.await.map_err(|_| WorkError::Panicked)??;
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_each_failure_up_to_a_minute() {
        let mut pauses = Pauses::default();
        let mut now = Instant::now();
        assert!(pauses.is_over(now));
        let mut lengths = Vec::new();
        for _ in 0..12 {
            pauses.begin(now);
            assert!(!pauses.is_over(now));
            let until = pauses.until.expect("a pause");
            lengths.push((until - now).as_millis());
            now = until;
            assert!(pauses.is_over(now));
        }
        assert_eq!(lengths, [250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 64_000, 64_000, 64_000]);
    }
}
