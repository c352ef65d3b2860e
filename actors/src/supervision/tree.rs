//! The supervision tree: which actors there are, and which supervisor restarts them.
//!
//! [`Tree`] is the only list of the actors: the supervisors start from it, and the heartbeat
//! watches its slots.

use std::sync::Arc;

use ractor::{Actor, ActorCell, ActorRef, SpawnErr};
use tracing::{Instrument, Span};

use super::leadership::{Candidate, LeadershipActor};
use super::start::SupervisionSettings;
use super::supervisor::{ChildSpec, Strategy, Supervisor, SupervisorArguments, SupervisorMessage};
use crate::bridge::message_bridge::{BridgeState, MessageBridge};
use crate::chain::follower::{ChainState, Follower};
use crate::events::event_sender::EventSender;
use crate::events::handle::EventsState;
use crate::groups::group_keeper::GroupKeeper;
use crate::groups::kept::GroupsState;
use crate::registry::actors::RegistryState;
use crate::registry::batcher::Batcher;
use crate::registry::request_tracker::RequestTracker;
use crate::registry::tree_maintainer::TreeMaintainer;
use crate::sign_in::records::SignInState;
use crate::sign_in::session_registry::SessionRegistry;
use crate::support::slot::{MonitoredSlot, Ping, Slot, actor_span};
use crate::support::surroundings::Surroundings;
use crate::verification::pool::{VerifierPool, VerifierState};

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
    pub groups: &'a Arc<GroupsState>,
    /// `None` for a service without an election.
    pub candidate: Option<&'a Arc<Candidate>>,
}

/// All actors of a service, grouped by supervisor.
pub(super) struct Tree {
    surroundings: Surroundings,
    settings: SupervisionSettings,
    /// The registry's group, in the order of its start. When an actor fails, it and those after it
    /// are restarted.
    registry: [Child; 3],
    /// The followers of contracts, each restarted separately by a supervisor of their own.
    chain: Vec<Child>,
    /// Actors that are restarted separately.
    others: Vec<Child>,
}

impl Tree {
    pub fn new(
        surroundings: &Surroundings,
        settings: SupervisionSettings,
        registry: &RegistryState,
        chain: &ChainState,
        others: OtherActors<'_>,
    ) -> Self {
        let OtherActors { verifier, sign_in, bridge, events, groups, candidate } = others;
        let slots = &registry.slots;
        Self {
            surroundings: surroundings.clone(),
            settings,
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
            .chain(groups.has_keeper.then(|| child(&groups.slot, groups, || GroupKeeper)))
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
    pub async fn spawn(&self, supervisor: ActorCell) -> Result<ActorRef<SupervisorMessage>, SpawnErr> {
        let registry = self.group("registry", &self.registry, Strategy::RestForOne);
        let chain = (!self.chain.is_empty()).then(|| self.group("chain", &self.chain, Strategy::OneForOne));
        let others = self.others.iter().map(|child| child.spec.clone());
        let arguments = SupervisorArguments {
            children: std::iter::once(registry).chain(chain).chain(others).collect(),
            strategy: Strategy::OneForOne,
            most_restarts: self.settings.group_restarts,
            settings: self.settings,
            announcer: self.surroundings.announcer.clone(),
        };
        let name = self.surroundings.name_of("root");
        Ok(Actor::spawn_linked(Some(name), Supervisor, arguments, supervisor).await?.0)
    }

    /// A supervisor of actors.
    fn group(&self, name: &str, actors: &[Child], strategy: Strategy) -> ChildSpec {
        let children: Vec<ChildSpec> = actors.iter().map(|child| child.spec.clone()).collect();
        let (settings, announcer) = (self.settings, self.surroundings.announcer.clone());
        ChildSpec::new(self.surroundings.name_of(name), move |name, supervisor| {
            let children = children.clone();
            let announcer = announcer.clone();
            let most_restarts = settings.actor_restarts;
            let arguments = SupervisorArguments { children, strategy, most_restarts, settings, announcer };
            async move { Ok(Actor::spawn_linked(Some(name), Supervisor, arguments, supervisor).await?.0.get_cell()) }
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
    let spec = ChildSpec::new(slot.name().to_owned(), move |name, supervisor| {
        let arguments = Arc::clone(&arguments);
        // The start of an actor is in its span, although its supervisor waits for it.
        let span = actor_span(&Span::none(), &name);
        async move { Ok(Actor::spawn_linked(Some(name), actor(), arguments, supervisor).await?.0.get_cell()) }
            .instrument(span)
    });
    Child { spec, slot: Arc::clone(slot) as Arc<dyn MonitoredSlot> }
}
