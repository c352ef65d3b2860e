//! The parts that make a daemon a replica, from its configuration.

use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use selfsame_actors::{BridgePeers, ClusterParts, Random, Service};
use selfsame_protocol::address;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_storage::{Membership, Store};
use tokio_rustls::TlsAcceptor;

use super::connection::{ReplicaClient, ToLeader};
use super::election::EtcdElection;
use super::etcd::Etcd;
use super::journal::EtcdJournal;
use super::keys::LeaderRecord;
use super::membership::{Joining, MembershipError};
use super::peers::ClusterPeers;
use super::registration::{ClusterView, Registration, RemovedError};
use super::setup::PreparedCluster;
use crate::config::Cluster;

/// A daemon that is about to become a replica.
pub struct StartingReplica {
    section: Cluster,
    etcd: Arc<Etcd>,
    client: ReplicaClient,
    secret: Option<Arc<str>>,
    acceptor: Option<TlsAcceptor>,
}

/// A daemon whose store is a replica, and whose address is known.
pub struct BoundReplica {
    parts: ClusterParts,
    view: Arc<ClusterView>,
    registration: Registration,
    peers: Arc<ClusterPeers>,
}

impl StartingReplica {
    /// The replica of a configuration. No connection is made yet.
    pub fn new(section: &Cluster, prepared: PreparedCluster) -> Self {
        let PreparedCluster { access, secret, acceptor, connector } = prepared;
        let client = ReplicaClient { secret: secret.clone(), connector };
        Self { section: section.clone(), etcd: Arc::new(Etcd::new(&access)), client, secret, acceptor }
    }

    /// The section of the configuration.
    pub fn section(&self) -> &Cluster {
        &self.section
    }

    /// What callers of the cluster interface show; `None` when their certificates say who they are.
    pub fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }

    /// How the cluster interface speaks TLS; `None` for plain HTTP.
    pub fn acceptor(&self) -> Option<TlsAcceptor> {
        self.acceptor.clone()
    }

    /// Opens the store of the data folder as that of a replica of the cluster; `open` opens it for
    /// a registry. The configured one must be the cluster's; with `keeps_contract` its contract was
    /// chosen at random, and is not compared.
    ///
    /// # Errors
    /// [`MembershipError`] says why the store is not one of this cluster; the errors of `open`.
    pub async fn open_store<E: From<MembershipError>>(
        &self,
        data: &Path,
        random: &dyn Random,
        (domain, keeps_contract): (RegistryDomain, bool),
        open: impl AsyncFn(RegistryDomain) -> Result<Store, E>,
    ) -> Result<(Store, Membership), E> {
        let name = self.section.name.as_str();
        let joining = Joining { etcd: &self.etcd, client: &self.client, name, data, random };
        let standing = joining.before_opening(domain).await?;
        let domain = match standing.domain() {
            Some(of_cluster) => {
                check_registry(of_cluster, domain, keeps_contract)?;
                of_cluster
            }
            None => domain,
        };
        let mut store = open(domain).await?;
        let mut membership = joining.after_opening(&store, standing).await?;
        if joining.is_left_behind(&store).await? {
            tracing::warn!("the journal no longer has what this replica lacks; the store of another one is copied");
            drop(store);
            joining.copy_again().await?;
            store = open(domain).await?;
            membership = store.membership().map_err(MembershipError::from)?.unwrap_or(membership);
        }
        Ok((store, membership))
    }

    /// Registers the replica, which listens at `address`.
    ///
    /// # Errors
    /// [`MembershipError::NameTaken`].
    pub async fn bind(&self, membership: &Membership, address: String) -> Result<BoundReplica, MembershipError> {
        let Cluster { name, journal_retention, etcd_quota_mib, .. } = &self.section;
        let etcd = &self.etcd;
        let limits = (*journal_retention, etcd_quota_mib << 20);
        let registration =
            Registration::begin(Arc::clone(etcd), name.as_str(), address.clone(), membership, limits).await?;
        let record = LeaderRecord { name: name.to_string(), address };
        let election = EtcdElection::new(Arc::clone(etcd), record);
        let view = registration.view();
        let election = Arc::new(election.with_successors(move || view.has_successor()));
        let peers = Arc::new(ClusterPeers::new(self.client.clone(), registration.view()));
        let parts = ClusterParts {
            journal: Arc::new(EtcdJournal::new(Arc::clone(etcd))),
            leader: Some(Arc::new(ToLeader::new(self.client.clone(), Arc::clone(&election)))),
            election: Some(election),
            staleness: self.section.staleness,
            bridge_peers: Some(Arc::clone(&peers) as Arc<dyn BridgePeers>),
        };
        Ok(BoundReplica { parts, view: registration.view(), registration, peers })
    }
}

fn check_registry(
    of_cluster: RegistryDomain,
    configured: RegistryDomain,
    keeps_contract: bool,
) -> Result<(), MembershipError> {
    let has_contract = keeps_contract || configured.verifying_contract == of_cluster.verifying_contract;
    if configured.chain_id == of_cluster.chain_id && has_contract {
        return Ok(());
    }
    let text = |domain: RegistryDomain, has_contract| match has_contract {
        true => format!("{} on chain {}", address::text(&domain.verifying_contract), domain.chain_id),
        false => format!("chain {}", domain.chain_id),
    };
    Err(MembershipError::OtherRegistry { expected: text(of_cluster, true), found: text(configured, !keeps_contract) })
}

impl BoundReplica {
    /// The parts of the service, what the replica sees of its cluster, and what waits for the
    /// moment at which the replica must end.
    pub fn into_parts(
        self,
    ) -> (ClusterParts, Arc<ClusterView>, impl FnOnce(Arc<Service>) -> BoxFuture<'static, RemovedError>) {
        let Self { parts, view, registration, peers } = self;
        let run = async move |service: Arc<Service>| {
            tokio::select! {
                removed = registration.run(service) => removed,
                never = peers.watch() => match never {},
            }
        };
        (parts, view, move |service| run(service).boxed())
    }
}
