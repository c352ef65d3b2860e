//! What the message bridge and its handle share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use arc_swap::ArcSwap;
use selfsame_protocol::bridge::EntryId;
use selfsame_storage::FaultScope;

use super::messages::MessageBridgeMessage;
use super::peers::BridgePeers;
use super::settings::BridgeSettings;
use crate::clock::{Clock, Random};
use crate::support::slot::Slot;
use crate::support::source_limits::{FollowerLimits, SourceLimiter};

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
    pub refused_full: AtomicU64,
    pub refused_of_source: AtomicU64,
}

impl BridgeState {
    pub fn new(
        instance: &str,
        settings: BridgeSettings,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        peers: Option<Arc<dyn BridgePeers>>,
    ) -> Self {
        let slot = Slot::new(format!("{instance}/message-bridge"), Some(settings.waiting_calls));
        Self {
            slot: Arc::new(slot),
            fault_scope: FaultScope::of_instance(instance),
            clock,
            random,
            settings: ArcSwap::from_pointee(settings),
            per_source: SourceLimiter::new(settings.per_source),
            followers: Arc::default(),
            peers,
            entries: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            refused_full: AtomicU64::new(0),
            refused_of_source: AtomicU64::new(0),
        }
    }
}
