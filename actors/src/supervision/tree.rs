//! The supervision tree: which actors there are, and which supervisor restarts them.
//!
//! [`Tree`] is the only list of the actors: the supervisors start from it, and the heartbeat
//! watches its slots.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorRef, SpawnErr};
use ractor_supervisor::{
    ChildSpec, Restart, SpawnFn, Supervisor, SupervisorArguments, SupervisorMsg, SupervisorOptions, SupervisorStrategy,
};

use super::leadership::{Candidate, LeadershipActor};
use crate::bridge::message_bridge::MessageBridge;
use crate::bridge::state::BridgeState;
use crate::chain::follower::Follower;
use crate::chain::state::ChainState;
use crate::events::event_sender::EventSender;
use crate::events::state::EventsState;
use crate::registry::batcher::Batcher;
use crate::registry::request_tracker::RequestTracker;
use crate::registry::state::RegistryState;
use crate::registry::tree_maintainer::TreeMaintainer;
use crate::sign_in::session_registry::SessionRegistry;
use crate::sign_in::state::SignInState;
use crate::support::slot::{MonitoredSlot, Ping, Slot};
use crate::verification::pool::VerifierPool;
use crate::verification::state::VerifierState;

/// The most restarts of its actors that the supervisor of a group makes within [`RESTART_WINDOW`].
/// At the next failure within the window it gives up.
const MAX_RESTARTS: usize = 10;

/// The most restarts of its children (the groups, the verifier pool, the session registry, the
/// message bridge, the event sender, the leadership actor; counted together) that the root makes
/// within [`RESTART_WINDOW`]. At the next failure within the window the service ends. Within one
/// window the registry's actors are therefore restarted at most 4 × 10 times: 10 times by each of
/// four successive supervisors of the group.
const MAX_GROUP_RESTARTS: usize = 3;

/// The time within which restarts are counted.
pub(super) const RESTART_WINDOW: Duration = Duration::from_secs(60);

/// An actor of the tree: how its supervisor starts it, and where it is reached.
struct Child {
    spec: ChildSpec,
    slot: Arc<dyn MonitoredSlot>,
}

/// The states of the actors that are restarted separately.
pub(super) struct OtherActors<'a> {
    pub verifier: &'a Arc<VerifierState>,
    pub sign_in: &'a Arc<SignInState>,
    pub bridge: &'a Arc<BridgeState>,
    pub events: &'a Arc<EventsState>,
    /// `None` for a service without an election.
    pub candidate: Option<&'a Arc<Candidate>>,
}

/// All actors of a service, grouped by supervisor.
pub(super) struct Tree {
    instance: String,
    /// The registry's group, in the order of its start. When an actor fails, it and those after it
    /// are restarted.
    registry: [Child; 3],
    /// The followers of contracts, each restarted separately by a supervisor of their own.
    chain: Vec<Child>,
    /// Actors that are restarted separately.
    others: Vec<Child>,
}

impl Tree {
    pub fn new(instance: String, registry: &RegistryState, chain: &ChainState, others: OtherActors<'_>) -> Self {
        let OtherActors { verifier, sign_in, bridge, events, candidate } = others;
        let slots = &registry.slots;
        Self {
            instance,
            registry: [
                child(&slots.tree_maintainer, &registry.applier, || TreeMaintainer),
                child(&slots.batcher, &registry.sealer, || Batcher),
                child(&slots.request_tracker, &registry.admitter, || RequestTracker),
            ],
            chain: chain.sources().map(|source| child(&source.slot, source, || Follower)).collect(),
            others: [
                child(&verifier.pool, verifier, || VerifierPool),
                child(&sign_in.session_registry, sign_in, || SessionRegistry),
                child(&bridge.slot, bridge, || MessageBridge),
                child(&events.slot, events, || EventSender),
            ]
            .into_iter()
            .chain(candidate.map(|candidate| child(&candidate.slot, candidate, || LeadershipActor)))
            .collect(),
        }
    }

    /// The slots of all actors.
    pub fn slots(&self) -> impl Iterator<Item = Arc<dyn MonitoredSlot>> {
        self.registry.iter().chain(&self.chain).chain(&self.others).map(|child| Arc::clone(&child.slot))
    }

    /// Starts the root (one for one), which supervises the registry's group (rest for one), the
    /// followers of contracts (one for one) if there are any, and the other actors.
    pub async fn spawn(&self, supervisor: ActorCell) -> Result<ActorRef<SupervisorMsg>, SpawnErr> {
        let registry = self.group("registry", &self.registry, SupervisorStrategy::RestForOne);
        let chain = (!self.chain.is_empty()).then(|| self.group("chain", &self.chain, SupervisorStrategy::OneForOne));
        let others = self.others.iter().map(|child| child.spec.clone());
        let children = std::iter::once(registry).chain(chain).chain(others).collect();
        let arguments = supervise(children, SupervisorStrategy::OneForOne, MAX_GROUP_RESTARTS);
        let name = format!("{}/root", self.instance);
        Ok(Supervisor::spawn_linked(name, Supervisor, arguments, supervisor).await?.0)
    }
}

impl Tree {
    /// A supervisor of actors.
    fn group(&self, name: &str, actors: &[Child], strategy: SupervisorStrategy) -> ChildSpec {
        let actors: Vec<ChildSpec> = actors.iter().map(|child| child.spec.clone()).collect();
        spec(format!("{}/{name}", self.instance), move |supervisor, name| {
            let arguments = supervise(actors.clone(), strategy, MAX_RESTARTS);
            async move { Ok(Supervisor::spawn_linked(name, Supervisor, arguments, supervisor).await?.0.get_cell()) }
        })
    }
}

/// An actor with the name of its slot. Each of its starts gets a clone of `arguments`.
fn child<A, M, S>(slot: &Arc<Slot<M>>, arguments: &Arc<S>, actor: fn() -> A) -> Child
where
    A: Actor<Arguments = Arc<S>>,
    M: Ping,
    S: Send + Sync + 'static,
{
    let arguments = Arc::clone(arguments);
    let spec = spec(slot.name().to_owned(), move |supervisor, name| {
        let arguments = Arc::clone(&arguments);
        async move { Ok(Supervisor::spawn_linked(name, actor(), arguments, supervisor).await?.0.get_cell()) }
    });
    Child { spec, slot: Arc::clone(slot) as Arc<dyn MonitoredSlot> }
}

fn spec<Spawning>(id: String, spawn: impl Fn(ActorCell, String) -> Spawning + Send + Sync + 'static) -> ChildSpec
where
    Spawning: Future<Output = Result<ActorCell, SpawnErr>> + Send + 'static,
{
    ChildSpec { id, restart: Restart::Permanent, spawn_fn: SpawnFn::new(spawn), backoff_fn: None, reset_after: None }
}

fn supervise(child_specs: Vec<ChildSpec>, strategy: SupervisorStrategy, max_restarts: usize) -> SupervisorArguments {
    let options = SupervisorOptions { strategy, max_restarts, max_window: RESTART_WINDOW, reset_after: None };
    SupervisorArguments { child_specs, options }
}
