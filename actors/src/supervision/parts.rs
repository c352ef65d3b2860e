//! What a service is started with: its store and ledger, time and chance, the group commit and the
//! threads.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use selfsame_storage::{Forward, GroupCommit, Journal, Ledger, Replica, Store, StoreError};

use super::election::Election;
use super::settings::Settings;
use crate::bridge::peers::BridgePeers;
use crate::clock::{Clock, Random};
use crate::support::blocking::Blocking;
use crate::support::forwarding::{ForwardedWrites, Forwarding, LeaderConnection};
use crate::support::freshness::Freshness;

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

/// The parts that a service is started with.
pub(crate) struct Parts {
    pub settings: Settings,
    pub store: Store,
    pub ledger: Arc<dyn Ledger>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
}

/// The group commit, and where blocking work runs.
pub(crate) struct BlockingParts {
    pub group_commit: GroupCommit,
    /// The committing thread; `None` in a simulation, which calls the committer itself.
    pub committing: Option<JoinHandle<()>>,
    pub blocking: Blocking,
    /// The store's place in its journal, if it has one.
    pub replica: Option<Arc<Replica>>,
    /// Who elects the leader of the journal's replicas; `None` when the embedder does.
    pub election: Option<Arc<dyn Election>>,
    /// Where the leader is asked; without it, what another replica has to decide is refused.
    pub forwarding: Option<Arc<Forwarding>>,
    /// How fresh what the replica reads is; `None` without a journal.
    pub freshness: Option<Arc<Freshness>>,
    /// How the message bridge asks the other replicas.
    pub bridge_peers: Option<Arc<dyn BridgePeers>>,
}

impl BlockingParts {
    pub fn with_threads(store: &Store) -> Result<Self, StoreError> {
        let (group_commit, committing) = GroupCommit::start(store.clone())?;
        Ok(Self {
            group_commit,
            committing: Some(committing),
            blocking: Blocking::Threads,
            replica: None,
            election: None,
            forwarding: None,
            freshness: None,
            bridge_peers: None,
        })
    }

    pub fn with_journal(store: &Store, cluster: ClusterParts) -> Result<Self, StoreError> {
        let ClusterParts { journal, election, leader, staleness, bridge_peers } = cluster;
        let replica = Arc::new(Replica::open(store, journal)?);
        let forwarding = leader.map(|leader| Forwarding::new(leader, Arc::clone(&replica)));
        let forward = forwarding.clone().map(|forwarding| Arc::new(ForwardedWrites(forwarding)) as Arc<dyn Forward>);
        let (group_commit, committing) = GroupCommit::start_on_journal(store.clone(), Arc::clone(&replica), forward)?;
        Ok(Self {
            group_commit,
            committing: Some(committing),
            blocking: Blocking::Threads,
            replica: Some(replica),
            election,
            forwarding,
            freshness: Some(Arc::new(Freshness::new(staleness))),
            bridge_peers,
        })
    }
}
