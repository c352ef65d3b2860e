//! From the configuration to a replica: the passwords, secrets and certificates that `[cluster]`
//! names are read, and the parts are made.

use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use selfsame_actors::{BridgePeers, ClusterParts, Random, Service};
use selfsame_cluster::{
    ClusterView, Etcd, EtcdAccess, EtcdElection, EtcdJournal, EtcdTls, EtcdUser, Joining, LeaderRecord,
    MembershipError, Registration, RemovedError,
};
use selfsame_interfaces::http::{Certificate, TlsError};
use selfsame_interfaces::pem::{self, AuthoritiesError, PemError, root_certificates};
use selfsame_protocol::address;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_storage::{Membership, Store};
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::connection::{ClusterPeers, ReplicaClient, ToLeader};
use super::copies::fetch_copy;
use crate::backup::STORE;
use crate::config::Cluster;
use crate::data_files::{SecretFileError, read_secret};

// What `[cluster]` names, read: passwords, secrets and certificates.

/// Why a cluster cannot be taken part in as it is configured.
#[derive(Debug, thiserror::Error)]
pub enum ClusterSetupError {
    /// A file of a secret cannot be read.
    #[error("cluster.{key}: {error}")]
    Secret {
        /// The key that names the file.
        key: &'static str,
        /// What is wrong with it.
        error: SecretFileError,
    },
    /// A file of certificates cannot be used.
    #[error("cluster.{key}: {error}")]
    Authorities {
        /// The key that names the file.
        key: &'static str,
        /// What is wrong with it.
        error: AuthoritiesError,
    },
    /// A file in PEM cannot be used.
    #[error("cluster.{key}: {error}")]
    Pem {
        /// The key that names the file.
        key: &'static str,
        /// What is wrong with it.
        error: PemError,
    },
    /// The certificate of the replica cannot be used.
    #[error("cluster, where {0}")]
    Certificate(#[from] TlsError),
    /// The TLS library refuses the settings.
    #[error("cluster: TLS cannot be set up: {0}")]
    Tls(String),
}

/// How a replica reaches etcd and the other replicas, and how they reach it.
pub struct PreparedCluster {
    /// How etcd is reached.
    pub access: EtcdAccess,
    /// What the replicas show to each other; `None` when their certificates do.
    pub secret: Option<Arc<str>>,
    /// How this replica speaks TLS with those that call it; `None` for plain HTTP.
    pub acceptor: Option<TlsAcceptor>,
    /// How it speaks TLS with those that it calls; `None` for plain HTTP.
    pub connector: Option<TlsConnector>,
}

impl PreparedCluster {
    /// Reads what the section names. Opens no connection.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn read(cluster: &Cluster) -> Result<Self, ClusterSetupError> {
        let authorities = cluster.authorities.as_deref();
        let identity = cluster.certificate.as_deref().zip(cluster.private_key.as_deref());
        let (mut listening, mut calling) = (None, None);
        if let Some((chain, key)) = identity {
            let roots = root_certificates(authorities);
            let roots = roots.map_err(|error| ClusterSetupError::Authorities { key: "authorities", error })?;
            listening = Some(acceptor(chain, key, authorities.is_some().then(|| roots.clone()))?);
            calling = Some(connector(roots, chain, key)?);
        }
        Ok(Self {
            access: access(cluster)?,
            secret: secret("secret_file", cluster.secret_file.as_deref())?.map(Into::into),
            acceptor: listening,
            connector: calling,
        })
    }
}

fn access(cluster: &Cluster) -> Result<EtcdAccess, ClusterSetupError> {
    let password = secret("etcd_password_file", cluster.etcd_password_file.as_deref())?;
    let user = cluster.etcd_user.clone().zip(password);
    let authorities = cluster.etcd_authorities.as_deref();
    let authorities = authorities.map(|path| certificates("etcd_authorities", path)).transpose()?;
    let identity = match (&cluster.etcd_certificate, &cluster.etcd_private_key) {
        (Some(chain), Some(key)) => {
            let key_error = pem_error("etcd_private_key");
            pem::private_key(key).map_err(&key_error)?;
            Some((certificates("etcd_certificate", chain)?, text(key).map_err(key_error)?))
        }
        _ => None,
    };
    let has_tls = cluster.etcd.iter().any(|url| url.starts_with("https://"));
    Ok(EtcdAccess {
        endpoints: cluster.etcd.clone(),
        prefix: cluster.prefix.to_string(),
        user: user.map(|(name, password)| EtcdUser { name, password }),
        tls: has_tls.then_some(EtcdTls { authorities, identity }),
    })
}

fn secret(key: &'static str, path: Option<&Path>) -> Result<Option<String>, ClusterSetupError> {
    path.map(read_secret).transpose().map_err(|error| ClusterSetupError::Secret { key, error })
}

/// The text of a file that has certificates: the client of etcd reads it again, and its errors do
/// not name the file.
fn certificates(key: &'static str, path: &Path) -> Result<String, ClusterSetupError> {
    pem::certificates(path).and_then(|_| text(path)).map_err(pem_error(key))
}

fn text(path: &Path) -> Result<String, PemError> {
    std::fs::read_to_string(path).map_err(|error| PemError { path: path.to_owned(), problem: error.to_string() })
}

fn pem_error(key: &'static str) -> impl Fn(PemError) -> ClusterSetupError {
    move |error| ClusterSetupError::Pem { key, error }
}

/// TLS for the listener. With `clients`, only callers with a certificate that descends from these.
fn acceptor(chain: &Path, key: &Path, clients: Option<RootCertStore>) -> Result<TlsAcceptor, ClusterSetupError> {
    let certificate = Certificate::load(chain, key)?;
    let verifier = clients.map(|roots| {
        let provider = Arc::new(default_provider());
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()
    });
    let verifier = verifier.transpose().map_err(|error| ClusterSetupError::Tls(error.to_string()))?;
    Ok(match verifier {
        Some(verifier) => certificate.acceptor_for_clients(verifier)?,
        None => certificate.acceptor()?,
    })
}

/// TLS with the other replicas, whose certificates descend from `roots`. This one shows its own.
fn connector(roots: RootCertStore, chain_path: &Path, key_path: &Path) -> Result<TlsConnector, ClusterSetupError> {
    let refused = |error: tokio_rustls::rustls::Error| ClusterSetupError::Tls(error.to_string());
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(refused)?.with_root_certificates(roots);
    let chain = pem::certificates(chain_path).map_err(pem_error("certificate"))?;
    let key = pem::private_key(key_path).map_err(pem_error("private_key"))?;
    let mut config = builder.with_client_auth_cert(chain, key).map_err(refused)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

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
        let fetch = |address: String, cluster: String, store: [u8; 16]| {
            async move { fetch_copy(&self.client, &address, data, (&cluster, store)).await }.boxed()
        };
        let folder = data.join(STORE);
        let joining = Joining { etcd: &self.etcd, fetch: &fetch, name, store: &folder, random };
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
        let limits = (**journal_retention, etcd_quota_mib << 20);
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
            staleness: *self.section.staleness,
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
