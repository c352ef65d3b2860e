//! What a service is started with: its store, what an embedder replaces of the rest, and its
//! settings; and why it did not start, or ended.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use selfsame_protocol::registry::RuleParameters;
use selfsame_storage::{EmbeddedLedger, Forward, GroupCommit, Journal, Ledger, Records, Replica, Store, StoreError};

use super::leadership::Election;
use crate::bridge::handle::BridgeSettings;
use crate::bridge::peers::BridgePeers;
use crate::chain::contracts::ChainSettings;
use crate::clock::{Clock, Random, SystemClock, SystemRandom};
use crate::events::handle::EventSettings;
use crate::groups::handle::GroupError;
use crate::groups::settings::GroupSettings;
use crate::registry::batcher::BatchLimits;
use crate::registry::request_tracker::AdmissionLimits;
use crate::sign_in::handle::SignInSettings;
use crate::sign_in::signing_keys::SigningError;
use crate::sign_in::subjects::SubjectConflicts;
use crate::support::notify::Announcer;
use crate::support::replica::{ForwardedWrites, Forwarding, Freshness, LeaderConnection};
use crate::support::surroundings::Surroundings;
use crate::support::tasks::Blocking;
use crate::verification::settings::VerificationSettings;

/// What makes a service one of several replicas.
#[derive(Clone)]
pub struct ClusterParts {
    /// What all replicas have in common.
    pub journal: Arc<dyn Journal>,
    /// Says when this replica leads; without it, the embedder calls
    /// [`crate::Service::lead`].
    pub election: Option<Arc<dyn Election>>,
    /// How this replica asks the one that leads. Without it, it refuses what only the leader may
    /// decide.
    pub leader: Option<Arc<dyn LeaderConnection>>,
    /// How old answers about access tokens may be: without news of the journal for longer, this
    /// replica gives none.
    pub staleness: Duration,
    /// How the message bridge asks the other replicas. Without it, a replica knows its own messages
    /// alone.
    pub bridge_peers: Option<Arc<dyn BridgePeers>>,
}

/// What a service is started with. A clone starts the same service again.
///
/// Settings and store have no default. The blocks go to the ledger in the store, the time is the
/// system's and the random bytes are the operating system's, unless a method of this type replaces
/// them.
#[derive(Clone)]
pub struct ServiceParts {
    settings: Settings,
    store: Store,
    ledger: Option<Arc<dyn Ledger>>,
    cluster: Option<ClusterParts>,
    records: Option<Arc<dyn Records>>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    /// Tells the receivers of events. Every service that a clone starts has the same receivers.
    announcer: Announcer,
}

/// A service whose store is open, before its actors start.
pub(crate) struct OpenedService {
    pub surroundings: Surroundings,
    pub settings: Settings,
    pub store: Store,
    pub ledger: Arc<dyn Ledger>,
    /// The embedder's records; `None` for those in the store.
    pub records: Option<Arc<dyn Records>>,
    pub cluster: Option<JoinedCluster>,
    pub group_commit: GroupCommit,
    /// The committing thread; `None` in a simulation, which calls the committer itself.
    pub committing: Option<JoinHandle<()>>,
}

/// The cluster of a service that is one of several replicas.
pub(crate) struct JoinedCluster {
    /// The store's place in the journal.
    pub replica: Arc<Replica>,
    /// Who elects the leader; `None` when the embedder does.
    pub election: Option<Arc<dyn Election>>,
    /// Where the leader is asked; without it, what another replica has to decide is refused.
    pub forwarding: Option<Arc<Forwarding>>,
    /// How fresh what the replica reads is.
    pub freshness: Arc<Freshness>,
    /// How the message bridge asks the other replicas.
    pub bridge_peers: Option<Arc<dyn BridgePeers>>,
}

impl ServiceParts {
    /// A service with these settings and this store, and the defaults for everything else.
    pub fn new(settings: Settings, store: Store) -> Self {
        Self {
            settings,
            store,
            ledger: None,
            cluster: None,
            records: None,
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            announcer: Announcer::default(),
        }
    }

    /// Keeps the blocks in this ledger. A replica has the ledger in its store: with
    /// [`ServiceParts::replica_of`] as well, the start fails with [`ServiceError::Parts`].
    pub fn ledger(mut self, ledger: Arc<dyn Ledger>) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// Makes the service one of several whose stores have the same journal. Everything that it
    /// acknowledges is in the journal. It leads when the election says so, and has the leader
    /// decide otherwise.
    pub fn replica_of(mut self, cluster: ClusterParts) -> Self {
        self.cluster = Some(cluster);
        self
    }

    /// Keeps the records of sign-in (transactions, codes, tokens, sessions, signing keys) and the
    /// key that signs the heads of the registry here, instead of in the store. Nonces that relying
    /// parties signed stay in the store, where they are written together with nullifiers. Records
    /// that the store has from an earlier start are not moved.
    ///
    /// A replica's records are in its journal: with [`ServiceParts::replica_of`] as well, the start
    /// fails with [`ServiceError::Parts`].
    pub fn records(mut self, records: Arc<dyn Records>) -> Self {
        self.records = Some(records);
        self
    }

    /// Reads the time from this clock instead of the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Takes ids and secrets from this source instead of the operating system's. For real clients
    /// it must not be predictable.
    pub fn random(mut self, random: Arc<dyn Random>) -> Self {
        self.random = random;
        self
    }

    /// Who tells what happens in the services that are started with these parts.
    pub(crate) fn announcer(&self) -> &Announcer {
        &self.announcer
    }

    /// [`Settings::instance`] of the service.
    pub fn instance(&self) -> &str {
        &self.settings.instance
    }

    /// Opens what the service writes to, and starts the committing thread.
    ///
    /// # Errors
    /// [`ServiceError::Parts`] for a replica with a ledger or records of its own, and
    /// [`ServiceError::Store`], also while another service runs on the store
    /// ([`StoreError::Claimed`]).
    pub(crate) fn open(self) -> Result<OpenedService, ServiceError> {
        let Self { settings, store, ledger, cluster, records, clock, random, announcer } = self;
        if cluster.is_some() && ledger.is_some() {
            return Err(ServiceError::Parts { reason: "a replica keeps its blocks in the ledger of its own store" });
        }
        if cluster.is_some() && records.is_some() {
            return Err(ServiceError::Parts { reason: "the records of a replica are in its journal" });
        }
        let claim = store.claim(&settings.instance)?;
        // Before the committing thread, which would hold the claim for a moment after an error.
        let ledger = match ledger {
            Some(ledger) => ledger,
            None => Arc::new(EmbeddedLedger::open(store.clone())?),
        };
        let cluster = cluster.map(|cluster| JoinedCluster::join(&store, cluster)).transpose()?;
        let (group_commit, committing) = match &cluster {
            Some(cluster) => {
                let replica = Arc::clone(&cluster.replica);
                GroupCommit::start_on_journal(store.clone(), claim, replica, cluster.forward())?
            }
            None => GroupCommit::start_claimed(store.clone(), claim)?,
        };
        let instance = settings.instance.as_str().into();
        let surroundings = Surroundings { instance, clock, random, blocking: Blocking::Threads, announcer };
        let committing = Some(committing);
        Ok(OpenedService { surroundings, settings, store, ledger, records, cluster, group_commit, committing })
    }
}

impl JoinedCluster {
    /// Makes a store one of the replicas of a journal.
    pub fn join(store: &Store, cluster: ClusterParts) -> Result<Self, StoreError> {
        let ClusterParts { journal, election, leader, staleness, bridge_peers } = cluster;
        let replica = Arc::new(Replica::open(store, journal)?);
        let forwarding = leader.map(|leader| Forwarding::new(leader, Arc::clone(&replica)));
        let freshness = Arc::new(Freshness::new(staleness));
        Ok(Self { replica, election, forwarding, freshness, bridge_peers })
    }

    /// How the group commit asks the leader to decide.
    pub fn forward(&self) -> Option<Arc<dyn Forward>> {
        let forwarding = self.forwarding.clone()?;
        Some(Arc::new(ForwardedWrites(forwarding)))
    }
}

// The settings of a service, among them how often actors are restarted, and when one counts as
// stuck.

/// The settings of a service.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Prefix of all actor names, so that several services can run in one process.
    pub instance: String,
    /// The rule parameters that new blocks carry.
    pub rules: RuleParameters,
    /// Limits of a block.
    pub batch: BatchLimits,
    /// Limits of admission.
    pub limits: AdmissionLimits,
    /// Settings of proof verification.
    pub verification: VerificationSettings,
    /// Settings of sign-in.
    pub sign_in: SignInSettings,
    /// Settings of the message bridge.
    pub bridge: BridgeSettings,
    /// Settings of groups.
    pub groups: GroupSettings,
    /// Settings of events and webhooks.
    pub events: EventSettings,
    /// The chains that trusted data is followed from.
    pub chains: Vec<ChainSettings>,
    /// How often actors are restarted, and when one counts as stuck.
    pub supervision: SupervisionSettings,
}

impl Settings {
    /// The default settings, under an instance name.
    pub fn for_instance(instance: impl Into<String>) -> Self {
        Self {
            instance: instance.into(),
            rules: RuleParameters::default(),
            batch: BatchLimits::default(),
            limits: AdmissionLimits::default(),
            verification: VerificationSettings::default(),
            sign_in: SignInSettings::default(),
            bridge: BridgeSettings::default(),
            groups: GroupSettings::default(),
            events: EventSettings::default(),
            chains: Vec::new(),
            supervision: SupervisionSettings::default(),
        }
    }
}

/// An actor that has given no answer for this long makes the service not ready, by default.
pub const UNREADY_AFTER: Duration = Duration::from_secs(10);

/// An actor that has given no answer for this long has failed the service, by default.
pub const STUCK_AFTER: Duration = Duration::from_secs(30);

/// How often actors are restarted, and when one counts as stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupervisionSettings {
    /// The most restarts of its actors that the supervisor of a group makes within `window`. At the
    /// next failure within it the supervisor gives up, which is a failure of the group.
    pub actor_restarts: usize,
    /// The most restarts of its children that the root makes within `window`: of the groups and of
    /// the actors outside of groups, counted together. At the next failure within it the service
    /// ends. Within one window the registry's actors are therefore restarted at most
    /// (`group_restarts` + 1) × `actor_restarts` times, by as many successive supervisors.
    pub group_restarts: usize,
    /// The time within which restarts are counted.
    pub window: Duration,
    /// How long a supervisor waits before the first restart within `window`. Before each further
    /// one it waits twice as long as before the last.
    pub first_pause: Duration,
    /// The longest that a supervisor waits before a restart.
    pub longest_pause: Duration,
    /// An actor that has given no answer for this long or longer makes the service not ready.
    pub unready_after: Duration,
    /// An actor that has given no answer for this long or longer has failed the service.
    pub stuck_after: Duration,
}

impl Default for SupervisionSettings {
    /// Restarts at once: an actor that is down keeps calls waiting.
    fn default() -> Self {
        Self {
            actor_restarts: 10,
            group_restarts: 3,
            window: Duration::from_secs(60),
            first_pause: Duration::ZERO,
            longest_pause: Duration::ZERO,
            unready_after: UNREADY_AFTER,
            stuck_after: STUCK_AFTER,
        }
    }
}

impl SupervisionSettings {
    /// How long to wait before the `number`th restart within a window, counted from one.
    pub(super) fn pause(&self, number: usize) -> Duration {
        let doublings = u32::try_from(number.saturating_sub(1)).unwrap_or(u32::MAX);
        let factor = 2u32.checked_pow(doublings).unwrap_or(u32::MAX);
        self.first_pause.saturating_mul(factor).min(self.longest_pause)
    }
}

// Why a service did not start, or ended.

/// Why a service did not start, or ended by itself.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ServiceError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Signing keys are stored and cannot be read, for example because the key that they were
    /// encrypted with is missing. [`crate::revoke_stored_keys`] removes them.
    #[error("{0}")]
    SigningKeys(SigningError),
    /// Clients say otherwise than the store which subjects their new accounts get. A replica checks
    /// it after its start ([`crate::SignInHandle::check_subjects_of_replica`]).
    #[error(transparent)]
    Subjects(#[from] SubjectConflicts),
    /// The settings of groups contradict what the store has of them.
    #[error("{0}")]
    Groups(GroupError),
    /// [`crate::ServiceParts`] that exclude each other.
    #[error("the parts of the service contradict each other: {reason}")]
    Parts {
        /// Which of them do.
        reason: &'static str,
    },
    /// An actor could not be started, usually because a service of the same instance name is
    /// running.
    #[error("the supervision tree of instance `{instance}` did not start: {reason}")]
    Start {
        /// [`crate::Settings::instance`] of the service.
        instance: String,
        /// Error text of the actor that did not start.
        reason: String,
    },
    /// Actors failed more often than their supervisors restart them.
    #[error("the supervisors gave up, actors failed too often: {reason}")]
    GaveUp {
        /// Why the root of the supervision tree ended.
        reason: String,
    },
    /// An actor gave no answer for [`crate::SupervisionSettings::stuck_after`]; or a verifier
    /// worker's batch, or a commit (`group-commit`), took as long; or the task that detects these
    /// failures panicked (`heartbeat`).
    #[error("{actor} is stuck")]
    Stuck {
        /// The actor's name in the actor registry, `group-commit` or `heartbeat`.
        actor: String,
    },
    /// The store takes no writes after an error, though its disk takes them again. A start after
    /// the store was opened again heals it; nothing that was acknowledged is lost.
    #[error("the store takes no writes although its disk does; opening it again mends that: {error}")]
    WritesRefused {
        /// The error after which the store takes no writes.
        error: StoreError,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let seconds = Duration::from_secs;
        let settings = SupervisionSettings {
            first_pause: seconds(1),
            longest_pause: seconds(5),
            ..SupervisionSettings::default()
        };
        let pauses = [1, 2, 3, 4, 40].map(|number| settings.pause(number));
        assert_eq!(pauses, [seconds(1), seconds(2), seconds(4), seconds(5), seconds(5)]);
        assert_eq!(SupervisionSettings::default().pause(7), Duration::ZERO, "by default there is no pause");
    }
}
