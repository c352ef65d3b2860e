//! The groups as readers see them, and what the group keeper and its handle share.
//!
//! Readers take what they need of a group under a lock that is never held over a read or write of
//! the disk. The keeper replaces what is there when a step is durable, so an answer comes from one
//! revision, and a root that has ended counts no more from the answer of the removal on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use selfsame_protocol::groth16::EncodedClaim;
use selfsame_protocol::groups::enrolment::LoadedGroup;
use selfsame_protocol::groups::names::{FieldNumber, GroupId, RollName};
use selfsame_protocol::groups::records::RollRecord;
use selfsame_protocol::verification::Environment;
use selfsame_storage::{GroupRecords, Histogram, STEP_SECONDS, StoreError};
use tokio::time::Instant;

use super::group_keeper::GroupKeeperMessage;
use super::settings::{GroupDefinition, GroupSettings};
use crate::clock::{Clock, Random};
use crate::events::log::EventRecorder;
use crate::support::notify::Announcer;
use crate::support::replica::CatchingUp;
use crate::support::slot::Slot;
use crate::support::source_limits::SourceLimiter;
use crate::support::surroundings::Surroundings;
use crate::support::tasks::{Blocking, RetriedStep};

/// The most calls that wait for the keeper at a time.
const WAITING_CALLS: usize = 1024;

/// Checks link proofs with the verification key of an environment.
pub(crate) trait LinkProofs: Send + Sync + 'static {
    /// Whether the proof of a claim holds; a proof that does not decode does not. The error says
    /// why it cannot be checked now.
    fn check(
        &self,
        environment: Environment,
        claim: EncodedClaim,
        source: Option<IpAddr>,
        deadline: Instant,
    ) -> BoxFuture<'_, Result<bool, String>>;
}

/// What the group keeper and its handle share.
pub(crate) struct GroupsState {
    pub slot: Arc<Slot<GroupKeeperMessage>>,
    pub surroundings: Surroundings,
    pub records: GroupRecords,
    pub events: EventRecorder,
    pub groups: ArcSwap<Groups>,
    pub per_source: SourceLimiter,
    pub link_proofs: Arc<dyn LinkProofs>,
    pub catching_up: CatchingUp,
    /// Held while a step is read, decided, written and published, also by a step whose actor ended.
    pub writing: Arc<tokio::sync::Mutex<()>>,
    /// Whether a keeper was started with the service.
    pub has_keeper: bool,
    pub step_seconds: Histogram,
}

/// The configured groups.
pub(crate) struct Groups {
    pub settings: GroupSettings,
    pub definitions: Arc<Vec<GroupDefinition>>,
    by_id: BTreeMap<GroupId, Arc<KeptGroup>>,
}

/// A group as readers see it.
pub(crate) struct KeptGroup {
    pub id: GroupId,
    state: RwLock<Option<GroupState>>,
    /// Why the group cannot be read.
    pub reading: RetriedStep,
}

/// What is known of a group.
pub(crate) struct GroupState {
    pub loaded: Arc<LoadedGroup>,
    pub rolls: BTreeMap<RollName, RollRecord>,
    /// The names of rolls that were taken, also of removed ones that had a time.
    pub is_taken: BTreeSet<RollName>,
}

impl KeptGroup {
    fn new(id: GroupId) -> Self {
        Self { id, state: RwLock::default(), reading: RetriedStep::new("reading a group") }
    }

    /// What readers see; `None` while it cannot be read.
    pub fn read(&self) -> RwLockReadGuard<'_, Option<GroupState>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, Option<GroupState>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the group from the store. `None` is published when it was not made yet.
    pub fn load(&self, records: &GroupRecords) -> Result<bool, StoreError> {
        let read = || {
            let (loaded, rolls) = (records.load(&self.id)?, records.rolls(&self.id)?);
            Ok::<_, StoreError>((loaded, rolls, records.awaited_rolls(&self.id)?))
        };
        match read() {
            Ok((loaded, rolls, awaited)) => {
                let is_there = loaded.is_some();
                let by_time = awaited.into_iter().filter(|(_, awaited)| awaited.is_taken).map(|(name, _)| name);
                let is_taken = rolls.keys().cloned().chain(by_time).collect();
                *self.write() = loaded.map(|loaded| GroupState { loaded: Arc::new(loaded), rolls, is_taken });
                self.reading.record_success();
                Ok(is_there)
            }
            Err(error) => {
                self.reading.record_failure(&error);
                Err(error)
            }
        }
    }
}

impl GroupState {
    /// The rolls that have a page, except one of them.
    pub fn others_with_page(&self, root: FieldNumber, except: &RollName) -> bool {
        self.rolls.iter().any(|(name, roll)| name != except && roll.page_roots.contains(&root))
    }
}

impl Groups {
    /// The groups of settings. What was kept of a group that stays is taken over.
    fn new(settings: GroupSettings, before: Option<&Self>) -> Self {
        let kept = |definition: &GroupDefinition| {
            let known = before.and_then(|before| before.by_id.get(&definition.id)).cloned();
            (definition.id, known.unwrap_or_else(|| Arc::new(KeptGroup::new(definition.id))))
        };
        let by_id = settings.groups.iter().map(kept).collect();
        Self { definitions: Arc::new(settings.groups.clone()), settings, by_id }
    }

    /// A group; `None` when none has the id.
    pub fn get(&self, id: &GroupId) -> Option<&Arc<KeptGroup>> {
        self.by_id.get(id)
    }

    /// A group with its definition.
    pub fn defined(&self, id: &GroupId) -> Option<(&GroupDefinition, &Arc<KeptGroup>)> {
        let definition = self.definitions.iter().find(|definition| definition.id == *id)?;
        Some((definition, self.get(id)?))
    }

    /// All groups, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = (&GroupDefinition, &Arc<KeptGroup>)> {
        self.definitions.iter().filter_map(|definition| Some((definition, self.get(&definition.id)?)))
    }
}

impl GroupsState {
    pub fn new(
        surroundings: &Surroundings,
        settings: GroupSettings,
        records: GroupRecords,
        events: EventRecorder,
        link_proofs: Arc<dyn LinkProofs>,
        catching_up: CatchingUp,
    ) -> Self {
        let has_keeper = !settings.groups.is_empty() || !settings.needs_permit;
        Self {
            slot: Arc::new(Slot::new(surroundings.name_of("group-keeper"), Some(WAITING_CALLS))),
            surroundings: surroundings.clone(),
            records,
            events,
            per_source: SourceLimiter::new(settings.per_source),
            groups: ArcSwap::from_pointee(Groups::new(settings, None)),
            link_proofs,
            catching_up,
            writing: Arc::default(),
            has_keeper,
            step_seconds: Histogram::new(STEP_SECONDS),
        }
    }

    /// Replaces the settings. Groups that are new are read by the keeper.
    pub fn set_settings(&self, settings: GroupSettings) {
        self.per_source.set(settings.per_source);
        let groups = Groups::new(settings, Some(&self.groups.load()));
        self.groups.store(Arc::new(groups));
    }

    /// Reads records where waiting for the disk keeps nothing else waiting.
    pub async fn read_records<T: Send + 'static>(
        &self,
        read: impl FnOnce(&GroupRecords) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let records = self.records.clone();
        self.blocking().run(move || read(&records)).await.unwrap_or(Err(StoreError::Panicked))
    }

    pub fn clock(&self) -> &dyn Clock {
        self.surroundings.clock.as_ref()
    }

    pub fn random(&self) -> &dyn Random {
        self.surroundings.random.as_ref()
    }

    pub fn blocking(&self) -> &Blocking {
        &self.surroundings.blocking
    }

    pub fn announcer(&self) -> &Announcer {
        &self.surroundings.announcer
    }
}
