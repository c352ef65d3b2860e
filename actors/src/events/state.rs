//! What the sender of events and its handle share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use selfsame_protocol::time::UnixMillis;
use selfsame_storage::{EventRecords, FaultScope};
use tokio::sync::watch;

use super::messages::EventSenderMessage;
use super::settings::EventSettings;
use crate::clock::{Clock, Random};
use crate::registry::handle::RegistryHandle;
use crate::support::slot::Slot;
use crate::support::tasks::{Blocking, RetriedStep};

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
    counts: Mutex<BTreeMap<String, DeliveryCounts>>,
}

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

/// The parts of [`EventsState`].
pub(crate) struct EventsParts {
    pub settings: EventSettings,
    pub records: EventRecords,
    pub registry: RegistryHandle,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub blocking: Blocking,
}

impl EventsState {
    pub fn new(instance: &str, parts: EventsParts) -> Self {
        let EventsParts { settings, records, registry, clock, random, blocking } = parts;
        Self {
            slot: Arc::new(Slot::new(format!("{instance}/event-sender"), Some(WAITING_CALLS))),
            fault_scope: FaultScope::of_instance(instance),
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
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(receiver).copied().unwrap_or_default()
    }

    /// Counts what became of a webhook.
    pub fn count(&self, receiver: &str, change: impl FnOnce(&mut DeliveryCounts)) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        change(counts.entry(receiver.to_owned()).or_default());
    }
}
