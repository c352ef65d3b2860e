//! Services of a run.

use std::convert::Infallible;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use selfsame_storage::{Committer, EmbeddedLedger, EmbeddedRecords, GroupCommit, Ledger, Store, StoreError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::run::Run;
use crate::clock::Clock;
use crate::supervision::service::Service;
use crate::supervision::start::{ClusterParts, JoinedCluster, OpenedService, ServiceError, Settings};
use crate::support::notify::Announcer;
use crate::support::surroundings::Surroundings;
use crate::support::tasks::Blocking;

/// How often a committer that has nothing to do looks again before it counts as idle.
const LOOKS: u32 = 64;

/// How many times longer an idle committer waits at most before it looks again.
const IDLE_FACTOR: u32 = 32;

impl Run {
    /// A service on a store, to be started. The instance name becomes unique: many histories are
    /// played in one process.
    pub fn service(&self, settings: Settings, store: &Store) -> NewService {
        NewService::new(self.clone(), settings, store.clone())
    }
}

/// A service that is about to be started in a run ([`Run::service`]). By default its ledger is that
/// of its own store, with the faults of the run, and its clock that of the history.
#[must_use = "a service runs once `start` was called"]
pub struct NewService {
    run: Run,
    settings: Settings,
    store: Store,
    ledger: Option<Arc<dyn Ledger>>,
    clock: Arc<dyn Clock>,
    cluster: Option<ClusterParts>,
    supervisor: Option<ActorCell>,
}

impl NewService {
    fn new(run: Run, settings: Settings, store: Store) -> Self {
        let clock = Arc::new(run.clock().clone());
        let settings = Settings { instance: unique_instance(&settings.instance), ..settings };
        Self { run, settings, store, ledger: None, clock, cluster: None, supervisor: None }
    }

    /// The instance name that the service will have, which is unique in this process.
    pub fn instance(&self) -> &str {
        &self.settings.instance
    }

    /// Takes another ledger than that of the store. For one with faults see [`Run::faulty_ledger`].
    pub fn ledger(self, ledger: Arc<dyn Ledger>) -> Self {
        Self { ledger: Some(ledger), ..self }
    }

    /// Takes another clock, such as one that is ahead
    /// ([`super::SimulatedClock::ahead_by`]).
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Makes the service a replica of a journal, such as a
    /// [`MemoryJournal`](selfsame_storage::MemoryJournal), which has faults of its own; those of
    /// the run's commits do not strike.
    pub fn replica_of(self, cluster: ClusterParts) -> Self {
        Self { cluster: Some(cluster), ..self }
    }

    /// Takes this supervisor for the service's root. Without one, the end of the root is ignored.
    pub fn supervisor(self, supervisor: ActorCell) -> Self {
        Self { supervisor: Some(supervisor), ..self }
    }

    /// Starts the service, and the deaths of its actors.
    ///
    /// # Errors
    /// Those of [`Service::start`].
    pub async fn start(self) -> Result<SimulatedService, ServiceError> {
        let Self { run, settings, store, ledger, clock, cluster, supervisor } = self;
        let instance = settings.instance.clone();
        let ledger = match ledger {
            Some(ledger) => ledger,
            None => own_ledger(&run, &store, cluster.is_some())?,
        };
        let cluster = cluster.map(|cluster| JoinedCluster::join(&store, cluster)).transpose()?;
        let (group_commit, committer) = match &cluster {
            Some(cluster) => {
                GroupCommit::manual_on_journal(store.clone(), Arc::clone(&cluster.replica), cluster.forward())
            }
            None => GroupCommit::manual(store.clone()),
        };
        run.add_committer(committer.clone());
        let committing = match &cluster {
            Some(_) => run.spawn(commit_to_journal(committer.clone(), run.clone())),
            None => run.spawn(commit(committer.clone(), run.clone())),
        };
        let supervisor = match supervisor {
            Some(supervisor) => supervisor,
            None => {
                let failed = |error: ractor::SpawnErr| ServiceError::Start {
                    instance: instance.clone(),
                    reason: error.to_string(),
                };
                Actor::spawn(None, IgnoringSupervisor, ()).await.map_err(failed)?.0.get_cell()
            }
        };
        let faults = run.faults().clone();
        let surroundings = Surroundings {
            instance: instance.as_str().into(),
            clock,
            random: Arc::new(run.random().clone()),
            blocking: Blocking::Inline(Arc::new(move || faults.work_time())),
            announcer: Announcer::default(),
        };
        let opened = OpenedService {
            surroundings,
            settings,
            store: store.clone(),
            ledger,
            records: None,
            cluster,
            group_commit: group_commit.clone(),
            committing: None,
        };
        let started = Service::start_opened(opened, supervisor, watch::channel(None)).await;
        let service = match started {
            Ok(service) => Arc::new(service),
            Err(error) => {
                committing.abort();
                return Err(error);
            }
        };
        let named = |actor: &&str| ((*actor).to_owned(), format!("{instance}/{actor}"));
        run.kill_some(SimulatedService::ACTORS.iter().map(named).collect());
        Ok(SimulatedService { service, run, instance, store, group_commit, committer, committing })
    }
}

/// A service of a run. It goes on when this is dropped, until the run ends.
pub struct SimulatedService {
    service: Arc<Service>,
    run: Run,
    instance: String,
    store: Store,
    group_commit: GroupCommit,
    committer: Committer,
    committing: JoinHandle<()>,
}

impl Deref for SimulatedService {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}

impl SimulatedService {
    /// The actors that die by chance, by their names below that of the service.
    pub const ACTORS: &[&str] = &[
        "registry",
        "registry/tree-maintainer",
        "registry/batcher",
        "registry/request-tracker",
        "session-registry",
        "verifier",
        "event-sender",
        "message-bridge",
    ];

    /// The service's instance name, which is unique in this process.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The service, for tasks of the run.
    pub fn share(&self) -> Arc<Service> {
        Arc::clone(&self.service)
    }

    /// The records of the service's store, written by the service's group commit.
    pub fn records(&self) -> EmbeddedRecords {
        EmbeddedRecords::new(self.store.clone(), self.group_commit.clone())
    }

    /// Kills one of the service's actors, by its name below that of the service. Returns whether it
    /// was running.
    pub fn kill(&self, actor: &str) -> bool {
        self.run.kill_named(actor, format!("{}/{actor}", self.instance))
    }

    /// Ends the service as the end of a process does, while the run goes on. What was not committed
    /// is lost. When this returns, another service can be started on the store.
    pub async fn die(self) {
        self.committing.abort();
        self.committer.drop_queued();
        self.service.root().kill();
        self.service.stop_actors().await;
        // Blocking work of the dead process has ended by then, and what it handed in is lost too.
        tokio::time::sleep(self.run.faults().rates.work_delay + Duration::from_millis(2)).await;
        self.committer.drop_queued();
    }
}

/// An instance name that is unique in this process.
fn unique_instance(name: &str) -> String {
    static STARTS: AtomicU64 = AtomicU64::new(0);
    format!("{name}@{}", STARTS.fetch_add(1, Ordering::Relaxed))
}

/// The ledger of a store, with the faults of the run unless it follows a journal.
fn own_ledger(run: &Run, store: &Store, is_replica: bool) -> Result<Arc<dyn Ledger>, StoreError> {
    let ledger = Arc::new(EmbeddedLedger::open(store.clone())?);
    Ok(if is_replica { ledger } else { Arc::new(run.faulty_ledger(ledger)) })
}

/// Takes the place of the committing thread.
async fn commit(committer: Committer, run: Run) {
    let faults = run.faults();
    let mut looks = 0;
    loop {
        let delay = faults.rates.commit_delay;
        run.random().pause(if looks < LOOKS { delay } else { delay * IDLE_FACTOR }).await;
        let how = faults.commit_outcome();
        let name = how.name();
        if committer.commit_queued(how) {
            run.note(format!("commit: {name}"));
            looks = 0;
        } else {
            looks += 1;
        }
    }
}

/// Takes the place of a replica's committing thread. A group whose outcome is unknown is attempted
/// again before another one is taken.
async fn commit_to_journal(committer: Committer, run: Run) {
    let delay = run.faults().rates.commit_delay;
    let mut taken = None;
    loop {
        run.random().pause(delay).await;
        if let Some(group) = taken.take().or_else(|| committer.take_queued()) {
            if run.random().once_in(3) {
                run.random().pause(delay).await;
            }
            taken = committer.attempt(group).await;
        }
    }
}

/// A supervisor that ignores every event. Nothing sends it a message.
struct IgnoringSupervisor;

impl Actor for IgnoringSupervisor {
    type Msg = Infallible;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Infallible>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Infallible>,
        _: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}
