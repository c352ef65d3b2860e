//! The supervision tree: which actors there are, and which supervisor restarts them.
//!
//! [`Tree`] is the one list of the actors: the supervisors start from it, and the heartbeat watches it.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorRef, SpawnErr};
use ractor_supervisor::{
    ChildSpec, Restart, SpawnFn, Supervisor, SupervisorArguments, SupervisorMsg, SupervisorOptions, SupervisorStrategy,
};

use crate::registry::batcher::Batcher;
use crate::registry::request_tracker::RequestTracker;
use crate::registry::state::RegistryState;
use crate::registry::tree_maintainer::TreeMaintainer;
use crate::sign_in::session_registry::SessionRegistry;
use crate::sign_in::state::SignInState;
use crate::support::slot::{MonitoredSlot, Ping, Slot};
use crate::verification::pool::VerifierPool;
use crate::verification::state::VerifierState;

/// Restarts of its actors within [`RESTART_WINDOW`] that a group's supervisor makes before it gives up.
const MAX_RESTARTS: usize = 10;

/// Restarts of whole groups that the root makes within the same time: so at most 3 × 10 restarts happen before the service ends.
const MAX_GROUP_RESTARTS: usize = 3;

/// See [`MAX_RESTARTS`].
pub(super) const RESTART_WINDOW: Duration = Duration::from_secs(60);

/// An actor of the tree: how its supervisor starts it, and where it is reached.
struct Child {
    spec: ChildSpec,
    slot: Arc<dyn MonitoredSlot>,
}

/// The actors.
pub(super) struct Tree {
    instance: String,
    /// One group, restarted together: when one fails, those after it are restarted too.
    registry: [Child; 3],
    /// Each restarted on its own.
    others: [Child; 2],
}

impl Tree {
    pub fn new(
        instance: String,
        registry: &RegistryState,
        verifier: &Arc<VerifierState>,
        sign_in: &Arc<SignInState>,
    ) -> Self {
        let slots = &registry.slots;
        Self {
            instance,
            registry: [
                child(&slots.tree_maintainer, &registry.applier, || TreeMaintainer),
                child(&slots.batcher, &registry.sealer, || Batcher),
                child(&slots.request_tracker, &registry.admitter, || RequestTracker),
            ],
            others: [
                child(&verifier.pool, verifier, || VerifierPool),
                child(&sign_in.session_registry, sign_in, || SessionRegistry),
            ],
        }
    }

    /// The slots of all actors.
    pub fn slots(&self) -> impl Iterator<Item = Arc<dyn MonitoredSlot>> {
        self.registry.iter().chain(&self.others).map(|child| Arc::clone(&child.slot))
    }

    /// Starts the root (one for one) over the registry's group (rest for one) and the other actors.
    pub async fn spawn(&self, supervisor: ActorCell) -> Result<ActorRef<SupervisorMsg>, SpawnErr> {
        let actors: Vec<ChildSpec> = self.registry.iter().map(|child| child.spec.clone()).collect();
        let group = spec(format!("{}/registry", self.instance), move |supervisor, name| {
            let arguments = supervise(actors.clone(), SupervisorStrategy::RestForOne, MAX_RESTARTS);
            async move { Ok(Supervisor::spawn_linked(name, Supervisor, arguments, supervisor).await?.0.get_cell()) }
        });
        let others = self.others.iter().map(|child| child.spec.clone());
        let children = std::iter::once(group).chain(others).collect();
        let arguments = supervise(children, SupervisorStrategy::OneForOne, MAX_GROUP_RESTARTS);
        let name = format!("{}/root", self.instance);
        Ok(Supervisor::spawn_linked(name, Supervisor, arguments, supervisor).await?.0)
    }
}

/// An actor under the name of its slot, started with a share of `arguments`.
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
