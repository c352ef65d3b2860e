//! The service: the supervision tree and what embedders hold of it.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use ractor_supervisor::{
    ChildSpec, Restart, SpawnFn, Supervisor, SupervisorArguments, SupervisorMsg, SupervisorOptions, SupervisorStrategy,
};
use selfsame_protocol::registry::RuleParameters;
use selfsame_storage::{EmbeddedRecords, GroupCommit, Ledger, Store, StoreError};
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;

use crate::clock::{Clock, Random};
use crate::registry::batcher::{BatchLimits, Batcher};
use crate::registry::handle::{AdmissionLimits, Counters, RateLimiter, RegistryHandle, Shared};
use crate::registry::publication::Publication;
use crate::registry::request_tracker::RequestTracker;
use crate::registry::tree_maintainer::{TreeMaintainer, TreeMaintainerMessage, catch_up};
use crate::sign_in::handle::{SignInHandle, SignInSettings, SignInShared};
use crate::sign_in::session_registry::SessionRegistry;
use crate::supervision::heartbeat::{ActorHealth, Heartbeat};
use crate::support::blocking::Blocking;
use crate::support::retry::Step;
use crate::support::serial_blocking::Turns;
use crate::support::slot::Slot;
use crate::verification::handle::{VerificationHandle, VerificationSettings, VerifierShared};
use crate::verification::pool::VerifierPool;

/// Restarts of its actors within [`RESTART_WINDOW`] that a group's supervisor makes before it gives up.
const MAX_RESTARTS: usize = 10;

/// Restarts of whole groups that the root makes within the same time. Few: a group's supervisor that gave up has tried already,
/// and the two numbers multiply.
const MAX_GROUP_RESTARTS: usize = 3;

const RESTART_WINDOW: Duration = Duration::from_secs(60);

/// How long stopping waits for an actor (it may be stuck), and for handles that others still hold.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// The settings of a service.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Prefix of all actor names: two services can live in one process.
    pub instance: String,
    /// The rule parameters that new blocks carry.
    pub rules: RuleParameters,
    /// The most operations in a block.
    pub max_operations: usize,
    /// How long the first request of a block waits for company.
    pub max_wait: Duration,
    /// What bounds admission.
    pub limits: AdmissionLimits,
    /// How proofs are verified.
    pub verification: VerificationSettings,
    /// How people sign in.
    pub sign_in: SignInSettings,
}

impl Settings {
    /// The defaults of the embedded service, under a name of its own.
    pub fn named(instance: impl Into<String>) -> Self {
        Self {
            instance: instance.into(),
            rules: RuleParameters::default(),
            max_operations: 1024,
            max_wait: Duration::from_millis(5),
            limits: AdmissionLimits::default(),
            verification: VerificationSettings::default(),
            sign_in: SignInSettings::default(),
        }
    }
}

/// Why a service did not start, or ended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ServiceError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An actor could not be started: usually a second service under the same instance name.
    #[error("the supervision tree of instance `{instance}` did not start: {reason}")]
    Start { instance: String, reason: String },
    /// Actors failed more often than supervisors restart them.
    #[error("the supervisors gave up, actors failed too often within {} s: {reason}", RESTART_WINDOW.as_secs())]
    GaveUp { reason: String },
    /// An actor gave no answer for [`crate::STUCK_AFTER`]; or a verifier worker's batch, or a commit (`group-commit`), took as long;
    /// or what looks for these failed itself (`heartbeat`).
    #[error("{actor} is stuck")]
    Stuck { actor: String },
}

/// A running service. Dropping it does not stop it; [`Service::stop`] does.
pub struct Service {
    registry: RegistryHandle,
    verification: VerificationHandle,
    sign_in: SignInHandle,
    root: ActorRef<SupervisorMsg>,
    heartbeat: Arc<Heartbeat>,
    failure: watch::Receiver<Option<ServiceError>>,
    guardian: Option<ActorCell>,
    watching: tokio::task::JoinHandle<()>,
    committing: Mutex<Option<JoinHandle<()>>>,
}

impl Service {
    /// Starts a service that stands on its own. [`Service::failed`] tells when it ends by itself.
    pub async fn start(
        settings: Settings,
        store: Store,
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Result<Self, ServiceError> {
        let (failed, failure) = watch::channel(None);
        let refused = start_error(&settings);
        let name = format!("{}/guardian", settings.instance);
        let (guardian, _) = Actor::spawn(Some(name), Guardian, failed.clone()).await.map_err(refused)?;
        let guardian = guardian.get_cell();
        let machinery = Machinery::threads(&store)?;
        let outcome = (failed, failure);
        let mut service =
            Self::start_under(settings, store, ledger, clock, random, guardian.clone(), outcome, machinery).await?;
        service.guardian = Some(guardian);
        Ok(service)
    }

    /// Starts a service under an embedder's supervisor, which gets the supervision events of the service's root. The service
    /// never ends its host.
    pub async fn start_linked(
        settings: Settings,
        store: Store,
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        supervisor: ActorCell,
    ) -> Result<Self, ServiceError> {
        let machinery = Machinery::threads(&store)?;
        Self::start_under(settings, store, ledger, clock, random, supervisor, watch::channel(None), machinery).await
    }

    #[expect(clippy::too_many_arguments, reason = "the ways to start differ only in the supervisor and the machinery")]
    pub(crate) async fn start_under(
        settings: Settings,
        store: Store,
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        supervisor: ActorCell,
        (failed, failure): (watch::Sender<Option<ServiceError>>, watch::Receiver<Option<ServiceError>>),
        machinery: Machinery,
    ) -> Result<Self, ServiceError> {
        let Machinery { group_commit, committing, blocking } = machinery;
        let publication = Publication::new(store.snapshot()?, store.last_sequence()?, settings.limits.status_waiters);
        let slot_name = |actor: &str| format!("{}/registry/{actor}", settings.instance);
        let shared = Arc::new(Shared {
            group_commit,
            publication,
            batch_limits: BatchLimits {
                max_operations: settings.max_operations,
                max_wait: settings.max_wait,
                rules: settings.rules,
            },
            limits: ArcSwap::from_pointee(settings.limits),
            counters: Counters::default(),
            per_source: Mutex::new(RateLimiter::new()),
            batcher_woken: false.into(),
            applying: Turns::new(blocking.clone()),
            applying_step: Step::new("applying a block"),
            sealing: Turns::new(blocking.clone()),
            sealing_step: Step::new("sealing a block"),
            blocking,
            reading: Arc::new(Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from))),
            receipts: Mutex::default(),
            tree_maintainer: Slot::new(slot_name("tree-maintainer"), settings.limits.calls_inside),
            batcher: Slot::new(slot_name("batcher"), settings.limits.calls_inside),
            request_tracker: Slot::new(slot_name("request-tracker"), settings.limits.calls_inside),
            store,
            ledger_height: 0.into(),
            ledger,
            clock,
            random,
        });
        let follower = Arc::downgrade(&shared);
        shared.ledger.listen(Box::new(move |height| {
            if let Some(shared) = follower.upgrade() {
                shared.ledger_height.fetch_max(height, Ordering::Relaxed);
                shared.tree_maintainer.cast(TreeMaintainerMessage::Follow);
            }
        }));
        let ledger = Arc::clone(&shared.ledger);
        let height = shared.blocking.run(move || ledger.head().height).await;
        let height = height.map_err(|_| ServiceError::Store(StoreError::Panicked))?;
        shared.ledger_height.fetch_max(height, Ordering::Relaxed);
        let registry = RegistryHandle { shared: Arc::clone(&shared) };
        let random = Arc::clone(&shared.random);
        let verifier = Arc::new(VerifierShared::new(&settings.instance, &settings.verification, random));
        let verification = VerificationHandle::new(
            settings.verification.clone(),
            Arc::clone(&verifier),
            registry.clone(),
            shared.store.clone(),
            Arc::clone(&shared.clock),
            shared.group_commit.clone(),
        )?;
        let records = EmbeddedRecords::new(shared.store.clone(), shared.group_commit.clone());
        let sign_in = SignInHandle::new(
            &settings.instance,
            settings.sign_in.clone(),
            Arc::new(records),
            verification.clone(),
            Arc::clone(&shared.clock),
            Arc::clone(&shared.random),
        );
        catch_up(&shared).await;
        let root = spawn_root(&settings, &shared, &verifier, &sign_in.shared, supervisor).await;
        let root = root.map_err(start_error(&settings))?;
        let heartbeat = Arc::new(Heartbeat::new(shared, verifier, Arc::clone(&sign_in.shared)));
        let watch = Arc::clone(&heartbeat);
        let watching = tokio::spawn(async move {
            // Should it panic itself, nobody would notice stuck actors any more.
            let watching = AssertUnwindSafe(watch.watch()).catch_unwind().await;
            let actor = watching.unwrap_or_else(|_| "heartbeat".to_owned());
            failed.send_replace(Some(ServiceError::Stuck { actor }));
        });
        Ok(Self {
            registry,
            verification,
            sign_in,
            root,
            heartbeat,
            failure,
            guardian: None,
            watching,
            committing: Mutex::new(committing),
        })
    }

    /// The registry's handle.
    pub fn registry(&self) -> RegistryHandle {
        self.registry.clone()
    }

    /// Proof verification's handle.
    pub fn verification(&self) -> VerificationHandle {
        self.verification.clone()
    }

    /// Sign-in's handle.
    pub fn sign_in(&self) -> SignInHandle {
        self.sign_in.clone()
    }

    /// How the actors are doing.
    pub fn actors(&self) -> Vec<ActorHealth> {
        self.heartbeat.health()
    }

    /// The root of the supervision tree.
    pub fn root(&self) -> ActorCell {
        self.root.get_cell()
    }

    /// Waits until the service ends by itself, and says why: its supervisors gave up, or an actor is stuck.
    pub async fn failed(&self) -> ServiceError {
        let mut failure = self.failure.clone();
        loop {
            if let Some(error) = failure.borrow_and_update().clone() {
                return error;
            }
            if failure.changed().await.is_err() {
                // Linked to an embedder's supervisor, which is told of everything else.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Stops the actors. Callers waiting for answers are refused, and so are later ones; reading goes on.
    pub async fn stop_actors(&self) {
        self.watching.abort();
        for cell in [Some(self.root.get_cell()), self.guardian.clone()].into_iter().flatten() {
            if let Err(error) = cell.stop_and_wait(None, Some(STOP_PATIENCE)).await {
                tracing::debug!(%error, "an actor had stopped before");
            }
        }
    }

    /// Stops the actors, then waits until everything that was handed in is durable and the store is no longer used.
    pub async fn stop(self) {
        self.stop_actors().await;
        drop((self.registry, self.verification, self.sign_in, self.heartbeat));
        let committing = self.committing.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = committing {
            // The thread ends when the last handle is gone.
            let joined = spawn_blocking(move || thread.join());
            if tokio::time::timeout(STOP_PATIENCE, joined).await.is_err() {
                tracing::debug!("handles of the registry outlive the service");
            }
        }
    }
}

/// What does the blocking work.
pub(crate) struct Machinery {
    pub group_commit: GroupCommit,
    /// The committing thread; `None` where somebody commits by hand.
    pub committing: Option<JoinHandle<()>>,
    pub blocking: Blocking,
}

impl Machinery {
    fn threads(store: &Store) -> Result<Self, StoreError> {
        let (group_commit, committing) = GroupCommit::start(store.clone())?;
        Ok(Self { group_commit, committing: Some(committing), blocking: Blocking::Threads })
    }
}

fn start_error(settings: &Settings) -> impl Fn(SpawnErr) -> ServiceError + use<> {
    let instance = settings.instance.clone();
    move |error| ServiceError::Start { instance: instance.clone(), reason: error.to_string() }
}

/// Root (one for one) over the registry (rest for one), the verifier pool and the session registry.
async fn spawn_root(
    settings: &Settings,
    shared: &Arc<Shared>,
    verifier: &Arc<VerifierShared>,
    sign_in: &Arc<SignInShared>,
    supervisor: ActorCell,
) -> Result<ActorRef<SupervisorMsg>, SpawnErr> {
    let registry = vec![
        child(shared.tree_maintainer.name(), shared, || TreeMaintainer),
        child(shared.batcher.name(), shared, || Batcher),
        child(shared.request_tracker.name(), shared, || RequestTracker),
    ];
    let registry = ChildSpec {
        id: format!("{}/registry", settings.instance),
        restart: Restart::Permanent,
        spawn_fn: SpawnFn::new(move |supervisor, name| {
            let arguments = supervise(registry.clone(), SupervisorStrategy::RestForOne, MAX_RESTARTS);
            async move {
                let (actor, _) = Supervisor::spawn_linked(name, Supervisor, arguments, supervisor).await?;
                Ok(actor.get_cell())
            }
        }),
        backoff_fn: None,
        reset_after: None,
    };
    let verifier = child(verifier.pool.name(), verifier, || VerifierPool);
    let session_registry = child(sign_in.session_registry.name(), sign_in, || SessionRegistry);
    let arguments =
        supervise(vec![registry, verifier, session_registry], SupervisorStrategy::OneForOne, MAX_GROUP_RESTARTS);
    let name = format!("{}/root", settings.instance);
    Ok(Supervisor::spawn_linked(name, Supervisor, arguments, supervisor).await?.0)
}

fn supervise(child_specs: Vec<ChildSpec>, strategy: SupervisorStrategy, max_restarts: usize) -> SupervisorArguments {
    let options = SupervisorOptions { strategy, max_restarts, max_window: RESTART_WINDOW, reset_after: None };
    SupervisorArguments { child_specs, options }
}

fn child<A, S>(name: &str, shared: &Arc<S>, actor: fn() -> A) -> ChildSpec
where
    A: Actor<Arguments = Arc<S>>,
    S: Send + Sync + 'static,
{
    let shared = Arc::clone(shared);
    ChildSpec {
        id: name.to_owned(),
        restart: Restart::Permanent,
        spawn_fn: SpawnFn::new(move |supervisor, name| {
            let shared = Arc::clone(&shared);
            async move {
                let (actor, _) = Supervisor::spawn_linked(name, actor(), shared, supervisor).await?;
                Ok(actor.get_cell())
            }
        }),
        backoff_fn: None,
        reset_after: None,
    }
}

/// Stands above the root of a service that has no other supervisor, to learn why it ended.
struct Guardian;

impl Actor for Guardian {
    type Msg = ();
    type State = watch::Sender<Option<ServiceError>>;
    type Arguments = watch::Sender<Option<ServiceError>>;

    async fn pre_start(&self, _: ActorRef<()>, failed: Self::Arguments) -> Result<Self::State, ActorProcessingErr> {
        Ok(failed)
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        event: SupervisionEvent,
        failed: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let reason = match event {
            SupervisionEvent::ActorFailed(_, error) => error.to_string(),
            SupervisionEvent::ActorTerminated(_, _, reason) => reason.unwrap_or_else(|| "it was stopped".to_owned()),
            _ => return Ok(()),
        };
        failed.send_replace(Some(ServiceError::GaveUp { reason }));
        Ok(())
    }
}
