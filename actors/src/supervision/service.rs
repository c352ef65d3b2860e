//! The running service: the supervision tree, and the handles that embedders take from it.

use std::convert::Infallible;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::FutureExt;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::registry::Registry;
use ractor::{Actor, ActorCell, ActorRef, SpawnErr};
use selfsame_storage::{
    ChainRecords, CollectedMetrics, EmbeddedRecords, EventRecords, GroupCommit, GroupRecords, Metrics, Position,
    Records, Term, VerificationRecords,
};
use tokio::sync::{broadcast, watch};
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tracing::{Instrument, Span};

use super::health::{ActorHealth, Heartbeat, StoreWatch, silent_actors, tell_troubles};
use super::leadership::{Candidate, LeadershipMessage};
use super::replication::{self, LeadError, ReplicaStatus, Replication, ReplicationState};
use super::start::{JoinedCluster, OpenedService, ServiceError, ServiceParts, Settings};
use super::supervisor::{Guardian, SupervisorMessage};
use super::tree::{OtherActors, Tree};
use crate::bridge::handle::BridgeHandle;
use crate::bridge::message_bridge::BridgeState;
use crate::chain::follower::ChainState;
use crate::chain::handle::ChainHandle;
use crate::events::handle::{EventsHandle, EventsState};
use crate::events::log::EventRecorder;
use crate::groups::handle::GroupsHandle;
use crate::groups::kept::GroupsState;
use crate::registry::actors::RegistryState;
use crate::registry::handle::RegistryHandle;
use crate::registry::head_signer::HeadSigner;
use crate::sign_in::handle::{SignInError, SignInHandle};
use crate::sign_in::keys::publish_stored;
use crate::sign_in::records::SignInState;
use crate::sign_in::subjects::find_conflicts;
use crate::support::notify::{Announcer, ServiceEvent};
use crate::support::replica::CatchingUp;
use crate::support::slot::{Slot, actor_span};
use crate::support::surroundings::Surroundings;
use crate::support::tasks::RetriedStep;
use crate::verification::handle::VerificationHandle;
use crate::verification::link_proofs::PooledLinkProofs;
use crate::verification::pool::VerifierState;
use crate::verification::roots::TrustedSources;

/// How long [`Service::stop`] waits for an actor, which may be stuck, and again for handles that
/// other parts of the process still hold.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A running service. A service continues to run when it is dropped; [`Service::stop`] stops it.
pub struct Service {
    instance: String,
    metrics: Arc<Metrics>,
    registry: RegistryHandle,
    verification: VerificationHandle,
    sign_in: SignInHandle,
    bridge: BridgeHandle,
    groups: GroupsHandle,
    events: EventsHandle,
    chain: ChainHandle,
    root: ActorRef<SupervisorMessage>,
    heartbeat: Arc<Heartbeat>,
    store_watch: Arc<StoreWatch>,
    failure: watch::Receiver<Option<ServiceError>>,
    guardian: Option<ActorCell>,
    watching: tokio::task::JoinHandle<()>,
    troubles: tokio::task::JoinHandle<Infallible>,
    announcer: Announcer,
    replication: Option<Replication>,
    /// Where the leadership actor is reached, if there is one.
    leadership: Option<Arc<Slot<LeadershipMessage>>>,
    group_commit: GroupCommit,
    /// The committing thread, until it is joined; `None` in a simulation.
    committing: Mutex<Option<JoinHandle<()>>>,
}

/// Where the reason is noted why the service ended by itself, and read.
type Outcome = (watch::Sender<Option<ServiceError>>, watch::Receiver<Option<ServiceError>>);

impl Service {
    /// Starts a service without an embedder's supervisor. [`Service::failed`] returns when the
    /// service ends by itself.
    ///
    /// # Errors
    /// [`ServiceError::Parts`], [`ServiceError::Store`], [`ServiceError::SigningKeys`] and
    /// [`ServiceError::Start`].
    pub async fn start(parts: ServiceParts) -> Result<Self, ServiceError> {
        let mut opened = parts.open()?;
        let outcome = watch::channel(None);
        let (refused, name) = (start_error(&opened.settings), opened.surroundings.name_of("guardian"));
        let guardian = match Actor::spawn(Some(name), Guardian, outcome.0.clone()).await {
            Ok((guardian, _)) => guardian.get_cell(),
            Err(error) => {
                // The claim on the store is released when the thread ends.
                let committing = opened.committing.take();
                drop(opened);
                join(committing).await;
                return Err(refused(error));
            }
        };
        match Self::start_opened(opened, guardian.clone(), outcome).await {
            Ok(mut service) => {
                service.guardian = Some(guardian);
                Ok(service)
            }
            Err(error) => {
                // A later start under the same instance name needs the name.
                let _ = guardian.stop_and_wait(None, Some(STOP_TIMEOUT)).await;
                Err(error)
            }
        }
    }

    /// Starts a service under an embedder's supervisor, which gets the supervision events of the
    /// service's root. The service never ends the process.
    ///
    /// # Errors
    /// [`ServiceError::Parts`], [`ServiceError::Store`], [`ServiceError::SigningKeys`] and
    /// [`ServiceError::Start`].
    pub async fn start_linked(parts: ServiceParts, supervisor: ActorCell) -> Result<Self, ServiceError> {
        Self::start_opened(parts.open()?, supervisor, watch::channel(None)).await
    }

    /// Starts a service under a supervisor. After an error no part of it is left: the store can be
    /// used again.
    pub(crate) async fn start_opened(
        mut opened: OpenedService,
        supervisor: ActorCell,
        outcome: Outcome,
    ) -> Result<Self, ServiceError> {
        let committing = opened.committing.take();
        match Self::assemble(opened, supervisor, outcome).await {
            Ok(mut service) => {
                service.committing = Mutex::new(committing);
                Ok(service)
            }
            Err(error) => {
                join(committing).await;
                Err(error)
            }
        }
    }

    /// Makes the parts of a service, and starts its actors last.
    async fn assemble(
        opened: OpenedService,
        supervisor: ActorCell,
        (failed, failure): Outcome,
    ) -> Result<Self, ServiceError> {
        let OpenedService { surroundings, settings, store, ledger, records, cluster, group_commit, committing: _ } =
            opened;
        let refused = start_error(&settings);
        let Settings {
            instance,
            rules,
            batch,
            limits,
            verification,
            sign_in,
            bridge,
            groups,
            events,
            chains,
            supervision,
        } = settings;
        store.set_fault_scope(surroundings.fault_scope());
        let catching_up = CatchingUp::new(cluster.as_ref().map(|cluster| Arc::clone(&cluster.replica)));
        let freshness = cluster.as_ref().map(|cluster| Arc::clone(&cluster.freshness));
        let bridge_peers = cluster.as_ref().and_then(|cluster| cluster.bridge_peers.clone());
        let forwarding = cluster.as_ref().and_then(|cluster| cluster.forwarding.clone());
        let key_cipher = sign_in.key_cipher.clone();
        let embedded: Arc<dyn Records> = Arc::new(EmbeddedRecords::new(store.clone(), group_commit.clone()));
        let (records, also_swept) = match records {
            Some(records) => (records, Some(embedded)),
            None => (embedded, None),
        };
        let sign_in_state = SignInState::new(
            &surroundings,
            sign_in,
            (Arc::clone(&records), also_swept),
            freshness,
            catching_up.clone(),
        );
        let sign_in_state = Arc::new(sign_in_state);
        // Without the keys the service could sign nothing, and every sign-in would end in an error.
        publish_stored(&sign_in_state).map_err(|error| match error {
            SignInError::Store(error) => ServiceError::Store(error),
            SignInError::Signing(error) => ServiceError::SigningKeys(error),
            error => ServiceError::Start { instance: instance.clone(), reason: error.to_string() },
        })?;
        // What the store of a replica says may be old.
        if cluster.is_none() {
            find_conflicts(&sign_in_state, sign_in_state.clients.load().values().map(Arc::as_ref))??;
        }
        let bridge_state = Arc::new(BridgeState::new(&surroundings, bridge, bridge_peers));
        let written = (store.clone(), group_commit.clone());
        let state = RegistryState::new(&surroundings, (rules, batch, limits), written, ledger).await?;
        let random = Arc::clone(&surroundings.random);
        let head_signer = HeadSigner::new(Arc::clone(&state.reader), records, random, key_cipher);
        let registry = RegistryHandle::new(&state, head_signer, group_commit.clone(), forwarding, catching_up.clone());
        let store_watch = Arc::new(StoreWatch::new(store.clone()));
        let chain_records = Arc::new(ChainRecords::new(store.clone(), group_commit.clone()));
        let chain_state = Arc::new(ChainState::load(&surroundings, chains, &chain_records)?);
        let chain = ChainHandle::new(Arc::clone(&chain_state));
        let event_records = EventRecords::new(store.clone(), group_commit.clone());
        let events_state = Arc::new(EventsState::new(&surroundings, events, event_records, registry.clone()));
        let events = EventsHandle::new(Arc::clone(&events_state));
        let verifier = Arc::new(VerifierState::new(&surroundings, &verification));
        let group_records = GroupRecords::new(store.clone(), group_commit.clone());
        let recorder = EventRecorder::new(Arc::clone(&events_state));
        let link_proofs = Arc::new(PooledLinkProofs::new(Arc::clone(&verifier), &verification));
        let groups_state =
            Arc::new(GroupsState::new(&surroundings, groups, group_records, recorder, link_proofs, catching_up));
        let groups = GroupsHandle::new(Arc::clone(&groups_state));
        if cluster.is_none() {
            groups.check_awaited(&groups_state.groups.load().settings).map_err(ServiceError::Groups)?;
        }
        let leads = cluster.is_none();
        groups_state.read_missing(leads).await;
        let verification = VerificationHandle::new(
            &surroundings,
            verification,
            Arc::clone(&verifier),
            TrustedSources { registry: registry.clone(), chain: chain.clone(), groups: Arc::new(groups.clone()) },
            VerificationRecords::new(store.clone(), group_commit.clone()),
            EventRecorder::new(Arc::clone(&events_state)),
        )?;
        let sign_in = SignInHandle::new(Arc::clone(&sign_in_state), verification.clone());
        state.applier.catch_up().await?;
        let replication = cluster.map(|JoinedCluster { replica, election, freshness, .. }| {
            Arc::new(ReplicationState {
                store,
                replica,
                reader: Arc::clone(&state.reader),
                slots: state.slots.clone(),
                registry: registry.clone(),
                sign_in: Arc::clone(&sign_in_state),
                verification: verification.clone(),
                events: events.clone(),
                groups: groups.clone(),
                blocking: surroundings.blocking.clone(),
                stale_roots: tokio::sync::Mutex::default(),
                election,
                following: RetriedStep::new("following the journal"),
                seen: Mutex::default(),
                freshness,
                group_commit: group_commit.clone(),
            })
        });
        let candidate = replication.as_ref().and_then(|state| {
            let election = state.election.clone()?;
            let slot = Arc::new(Slot::new(surroundings.name_of("leadership"), None));
            Some(Arc::new(Candidate::new(slot, Arc::clone(state), election)))
        });
        let leadership = candidate.as_ref().map(|candidate| Arc::clone(&candidate.slot));
        let tree = Tree::new(
            &surroundings,
            supervision,
            &state,
            &chain_state,
            OtherActors {
                verifier: &verifier,
                sign_in: &sign_in_state,
                bridge: &bridge_state,
                events: &events_state,
                groups: &groups_state,
                candidate: candidate.as_ref(),
            },
        );
        let root = tree.spawn(supervisor).await.map_err(refused)?;
        let running = replication.clone().map(|state| Replication::start(state, &surroundings));
        let heartbeat = Arc::new(Heartbeat::new(tree.slots(), verifier, group_commit.clone(), supervision));
        let span = actor_span(&Span::none(), &surroundings.name_of("heartbeat"));
        let watching =
            tokio::spawn(watch_service(Arc::clone(&heartbeat), Arc::clone(&store_watch), failed).instrument(span));
        let Surroundings { clock, announcer, .. } = surroundings;
        let troubles = tokio::spawn(tell_troubles(announcer.clone(), {
            let (registry, heartbeat) = (registry.clone(), Arc::clone(&heartbeat));
            let store_watch = Arc::clone(&store_watch);
            move || troubles(&registry, &heartbeat, &store_watch, replication.as_deref())
        }));
        let bridge = BridgeHandle::new(bridge_state);
        let mut metrics = Metrics::default();
        heartbeat.register(&mut metrics);
        if let Some(replication) = &running {
            replication.register(&mut metrics);
        }
        registry.register(&mut metrics);
        verification.register(&mut metrics);
        sign_in.register(&mut metrics);
        bridge.register(&mut metrics);
        events.register(&mut metrics);
        groups.register(&mut metrics);
        chain.register(&mut metrics, clock);
        Ok(Self {
            instance,
            metrics: Arc::new(metrics),
            registry,
            verification,
            sign_in,
            bridge,
            events,
            groups,
            chain,
            root,
            heartbeat,
            store_watch,
            failure,
            guardian: None,
            watching,
            troubles,
            announcer,
            replication: running,
            leadership,
            group_commit,
            committing: Mutex::default(),
        })
    }

    /// [`Settings::instance`] of the service.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The metrics of the service, for a registry of `prometheus-client` ([`CollectedMetrics`]):
    /// the numbers that the daemon shows at `/metrics`, without those of its process, its HTTP
    /// front-end and its backups. They are a handle of the service: while a caller holds them, the
    /// store is in use.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Writes the metrics of the service in the OpenMetrics text format, without the end mark
    /// `# EOF`.
    ///
    /// Reads atomics, the newest snapshot and RocksDB's own counts; takes well under a millisecond,
    /// and does not wait for an actor. Call it as often as the numbers are looked at.
    ///
    /// # Errors
    /// Those of `text`; a `String` has none.
    pub fn report_metrics(&self, text: &mut impl fmt::Write) -> fmt::Result {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(CollectedMetrics(vec![self.metrics()])));
        encode_registry(text, &registry)
    }

    /// The registry's handle.
    pub fn registry(&self) -> RegistryHandle {
        self.registry.clone()
    }

    /// The handle of proof verification.
    pub fn verification(&self) -> VerificationHandle {
        self.verification.clone()
    }

    /// The handle of sign-in.
    pub fn sign_in(&self) -> SignInHandle {
        self.sign_in.clone()
    }

    /// The handle of the message bridge.
    pub fn bridge(&self) -> BridgeHandle {
        self.bridge.clone()
    }

    /// The handle of groups.
    pub fn groups(&self) -> GroupsHandle {
        self.groups.clone()
    }

    /// The handle of events.
    pub fn events(&self) -> EventsHandle {
        self.events.clone()
    }

    /// What is followed from chains.
    pub fn chain(&self) -> ChainHandle {
        self.chain.clone()
    }

    /// The health of the actors.
    pub fn actors(&self) -> Vec<ActorHealth> {
        self.heartbeat.health()
    }

    /// The failures that keep the service from writing, a sentence each; empty when it can write.
    pub fn failures(&self) -> Vec<String> {
        let delayed = self.heartbeat.delayed_commit();
        let delayed = delayed.map(|delay| format!("a commit has been taking {} s", delay.as_secs()));
        let following = self.replication.as_ref().and_then(Replication::failure);
        let refused = self.store_watch.failure();
        delayed.into_iter().chain(refused).chain(following).chain(self.registry.failures()).collect()
    }

    /// What happens in the service from now on. An event is told when it has happened; a receiver
    /// that falls behind by 1024 events loses the oldest of them, and learns from
    /// [`broadcast::error::RecvError::Lagged`] how many. An actor that dies may leave one untold,
    /// so what must not be missed is read from the store: [`RegistryHandle::follow`] has every
    /// request that became final, [`Service::events`] the log of events.
    pub fn subscribe(&self) -> broadcast::Receiver<ServiceEvent> {
        self.announcer.subscribe()
    }

    /// Begins to lead a journal's replicas in this term: to admit requests, to seal blocks, to
    /// decide conditional writes. Before, the store gets everything that the journal has. The
    /// service stops leading when it finds that another one began, or with [`Service::step_down`].
    ///
    /// Call it when the journal accepts appends of this term.
    ///
    /// # Errors
    /// [`LeadError`]: the service does not lead.
    pub async fn lead(&self, term: Term) -> Result<(), LeadError> {
        self.replication.as_ref().ok_or(LeadError::NoJournal)?.lead(term).await
    }

    /// Stops leading. What is being written may still become durable. With an election, the
    /// leadership is given up, and this replica does not stand for some seconds.
    pub fn step_down(&self) {
        if let Some(replication) = &self.replication {
            replication.replica().step_down();
        }
    }

    /// Writes nothing to the journal for this reason, or something again. For embedders whose
    /// engine runs out of room: it is told to every replica, and the leader goes on to lead.
    pub fn hold_writes(&self, reason: Option<String>) {
        if let Some(replication) = &self.replication {
            replication.replica().hold(reason);
        }
    }

    /// The term in which this replica leads, as far as it knows; `None` when it does not, and
    /// without a journal.
    pub fn leading(&self) -> Option<Term> {
        self.replication.as_ref()?.replica().leading()
    }

    /// What this replica knows of the journal and of who leads; `None` without a journal.
    pub fn replica_status(&self) -> Option<ReplicaStatus> {
        self.replication.as_ref().map(Replication::status)
    }

    /// Answers a message that another replica sent to this one as the leader
    /// ([`crate::LeaderConnection`]).
    pub async fn answer_replica(&self, message: &[u8]) -> Vec<u8> {
        match &self.replication {
            Some(replication) => replication::answer(replication.state(), &self.registry, message).await,
            None => replication::no_replica(),
        }
    }

    /// Answers a message of another replica's message bridge
    /// ([`crate::BridgePeers`]).
    pub async fn answer_bridge(&self, message: &[u8]) -> Vec<u8> {
        self.bridge.answer_replica(message).await
    }

    /// How far this replica has the journal; `None` without a journal.
    pub fn position(&self) -> Option<Position> {
        Some(self.replication.as_ref()?.replica().position())
    }

    /// The root of the supervision tree.
    pub fn root(&self) -> ActorCell {
        self.root.get_cell()
    }

    /// Waits until the service ends by itself, and returns why: its supervisors gave up, an actor
    /// is stuck, or the store has to be opened again. With [`Service::start_linked`] it does not
    /// return when the supervisors give up; the embedder's supervisor gets that event.
    pub async fn failed(&self) -> ServiceError {
        let mut failure = self.failure.clone();
        loop {
            if let Some(error) = failure.borrow_and_update().clone() {
                return error;
            }
            if failure.changed().await.is_err() {
                // All senders are dropped: the service was stopped, and reports no further failure.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Stops the actors. Calls that wait for answers return errors, and so do later calls; reads
    /// continue. A replica that leads gives the leadership up first.
    pub async fn stop_actors(&self) {
        self.watching.abort();
        self.troubles.abort();
        if let Some(leadership) = &self.leadership
            && let Err(error) = leadership.call(LeadershipMessage::Withdraw, Instant::now() + STOP_TIMEOUT).await
        {
            tracing::debug!(%error, "the leadership was not given up, and ends by a time-out");
        }
        self.replication.iter().for_each(Replication::stop);
        for cell in [Some(self.root.get_cell()), self.guardian.clone()].into_iter().flatten() {
            if let Err(error) = cell.stop_and_wait(None, Some(STOP_TIMEOUT)).await {
                tracing::debug!(%error, "an actor had stopped before");
            }
        }
        self.heartbeat.end_calls();
    }

    /// Stops the actors. Then waits, for at most 5 s, until everything that was handed in is
    /// durable and no part of the process uses the store. A clone of a handle that the embedder
    /// still holds keeps the store in use.
    pub async fn stop(self) {
        self.stop_actors().await;
        drop((
            self.metrics,
            self.replication,
            self.registry,
            self.verification,
            self.sign_in,
            self.bridge,
            self.groups,
            self.events,
            self.chain,
            self.heartbeat,
            self.store_watch,
            self.group_commit,
        ));
        // The thread ends when the last handle of the group commit is dropped. Every part that uses
        // the store holds such a handle.
        let committing = self.committing.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !join(committing).await {
            tracing::warn!(
                "the store is still in use after the stop: the process holds a clone of a handle of the service"
            );
        }
    }

    /// Stops everything of the service, although handles of it may be held elsewhere: what is
    /// handed in through them from now on is refused. Returns whether all that was handed in before
    /// is durable, so that another service can be started on the store.
    pub(super) async fn retire(&self) -> bool {
        self.stop_actors().await;
        self.group_commit.close();
        let committing = self.committing.lock().unwrap_or_else(PoisonError::into_inner).take();
        join(committing).await
    }

    /// Ends what no supervisor ends: the heartbeat, the tasks of a replica, the committing thread.
    pub(super) fn abandon(&self) {
        self.watching.abort();
        self.troubles.abort();
        self.replication.iter().for_each(Replication::stop);
        self.heartbeat.end_calls();
        self.group_commit.close();
    }
}

/// Waits for the end of the committing thread, and returns whether it came in time.
async fn join(committing: Option<JoinHandle<()>>) -> bool {
    let Some(thread) = committing else { return true };
    tokio::time::timeout(STOP_TIMEOUT, spawn_blocking(move || thread.join())).await.is_ok()
}

/// What is wrong now, a sentence each, which stays the same while the trouble lasts.
fn troubles(
    registry: &RegistryHandle,
    heartbeat: &Heartbeat,
    store_watch: &StoreWatch,
    replica: Option<&ReplicationState>,
) -> Vec<String> {
    let commit = heartbeat.delayed_commit().map(|_| "a commit takes long".to_owned());
    let following = replica.and_then(|replica| replica.following.describe_failure());
    let health = heartbeat.health();
    let commit = commit.into_iter().chain(store_watch.failure());
    commit.chain(following).chain(registry.failures()).chain(silent_actors(&health)).collect()
}

/// Watches the actors and the store until the service has to end. A panic of the watch is reported
/// like a stuck actor, because without it stuck actors would stay undetected.
async fn watch_service(heartbeat: Arc<Heartbeat>, store: Arc<StoreWatch>, failed: watch::Sender<Option<ServiceError>>) {
    let watching = async {
        tokio::select! {
            // The branches are polled in the same order each time, so that simulations repeat.
            biased;
            actor = heartbeat.watch() => ServiceError::Stuck { actor },
            error = store.watch() => error,
        }
    };
    let watched = AssertUnwindSafe(watching).catch_unwind().await;
    failed.send_replace(Some(watched.unwrap_or_else(|_| ServiceError::Stuck { actor: "heartbeat".to_owned() })));
}

fn start_error(settings: &Settings) -> impl Fn(SpawnErr) -> ServiceError + use<> {
    let instance = settings.instance.clone();
    move |error| ServiceError::Start { instance: instance.clone(), reason: error.to_string() }
}
