//! The daemon: it joins store, actors and interfaces.
//!
//! [`Daemon::start`] opens the store, binds the addresses and starts the actors. [`Daemon::run`]
//! serves until its caller stops it or the actors fail; it holds every step of the shutdown, in
//! order.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use alloy_primitives::hex;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use prometheus_client::registry::Registry as MetricsRegistry;
use selfsame_actors::{
    BatchLimits, Clock, Random, RegistryHandle, Service, ServiceError, ServiceParts, Settings, SignInHandle,
    VerificationHandle,
};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::operator::{Restored, TOKEN_FILE};
use selfsame_protocol::operator_call::CallNonce;
use selfsame_protocol::registry::RuleParameters;
use selfsame_protocol::{Address, address, keccak256};
use selfsame_storage::{Membership, OpenOptions, Restoration, Store, StoreError, replaced_store};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::backup::jobs::{Backups, Schedule};
use crate::backup::make::{Original, time_text};
use crate::backup::{BackupError, check_data_folder};
use crate::chains::FollowedChain;
use crate::cluster::{self, ClusterInterface, Copies, MembershipError, RemovedError, StartingReplica};
use crate::config::{Cluster, Config, OperatorSocket, StagingKey};
use crate::data_files::{AUDIT_KEY, SIMULATOR_SEED, SecretFileError, make_folder, make_private, secret_file};
use crate::http::{
    AuditTrail, BoundUnixSocket, Listener, RouteError, Server, SharedConnections, ShutdownTrigger, UnixSocketError,
    descriptor_limit, most_connections, shutdown,
};
use crate::interface::{Interface, PerInterface};
use crate::operator::{self, OwnCluster, ReloadRequest};
use crate::prepared::{Prepared, Problems};
use crate::process::Build;
use crate::reloading::{Reloading, StartParts, admission_limits};
use crate::servers::{ForReplicas, Listeners, METRICS_PREFIX, ServerParts, Servers, servers};
use crate::{bridge, sign_in, verification};

/// How many requests to read the configuration again may wait.
const WAITING_RELOADS: usize = 8;

/// Why the daemon does not start, or ends before its caller stops it.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The data folder, or the store's folder in it, cannot be created or made durable, or the mode
    /// of the store's folder cannot be set.
    #[error("data_dir: {call} of {}: {error}", path.display())]
    DataFolder {
        /// Path of the folder.
        path: PathBuf,
        /// The system calls of the step that failed.
        call: &'static str,
        /// The operating system's error.
        error: io::Error,
    },
    /// The data folder is a backup, or was not completed.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The data folder was used before, and its store is gone.
    #[error(
        "{} is there, so this data folder had a store, and {} has none: it was removed, or its disk is not mounted. Put it \
         back, or restore a backup into another folder; to begin with an empty registry, remove {} and {} first",
        left.display(),
        folder.display(),
        TOKEN_FILE,
        AUDIT_KEY
    )]
    StoreLost {
        /// The file that is left.
        left: PathBuf,
        /// The store's folder.
        folder: PathBuf,
    },
    /// The store or its ledger cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The actors cannot start, or they ended before the shutdown.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// An address cannot be listened on.
    #[error("listen.{interface}: cannot listen on {address}: {error}")]
    Listen {
        /// Key in `[listen]` of the first interface at the address.
        interface: &'static str,
        /// The address that is configured.
        address: SocketAddr,
        /// The operating system's error.
        error: io::Error,
    },
    /// A socket that the service manager passed cannot be used.
    #[error("a socket of the service manager cannot be used: {0}")]
    Inherited(io::Error),
    /// The service manager listens on an address that no interface has.
    #[error(
        "the service manager passes a socket at {address}, where no interface listens; set the address in [listen], or \
         remove it from the socket unit"
    )]
    StraySocket {
        /// The address of the socket.
        address: SocketAddr,
    },
    /// The unix socket of the operator interface cannot be listened on.
    #[error("operator.socket: {}{}", .0, socket_remedy(.0))]
    Socket(#[from] UnixSocketError),
    /// The daemon is no replica of its cluster.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// The daemon is no replica any more.
    #[error(transparent)]
    Removed(#[from] RemovedError),
    /// The address for the other replicas cannot be listened on.
    #[error("cluster.listen: cannot listen on {address}: {error}")]
    ClusterListen {
        /// The address that is configured.
        address: SocketAddr,
        /// The operating system's error.
        error: io::Error,
    },
    /// The routes of an interface contradict each other: an error in the program.
    #[error(transparent)]
    Routes(#[from] RouteError),
    /// The configuration names something that cannot be used.
    #[error(transparent)]
    Prepare(#[from] Problems),
    /// A file of secrets in the data folder cannot be read or created.
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    /// The server of an address ended before the shutdown; the text is its panic, if it panicked.
    #[error("a server ended by itself: {}", .0.as_deref().unwrap_or("it did not panic"))]
    Server(Option<String>),
}

/// What an operator can do when the operating system refuses a socket; the other errors say it.
fn socket_remedy(error: &UnixSocketError) -> &'static str {
    match error {
        UnixSocketError::Refused { .. } => {
            "; name a path on a file system that has sockets, or set operator.socket = \"off\""
        }
        _ => "",
    }
}

/// How long the store may take at a stop to write its log into files. What is not written then, the
/// next start reads from the log.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a stop waits for the end of the task that keeps a replica registered. A task that hangs
/// does not end.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(1);

/// A started daemon: its addresses are bound, and it does not serve yet.
pub struct Daemon {
    store: Store,
    service: Arc<Service>,
    servers: Vec<(Server, Listener)>,
    addresses: PerInterface<SocketAddr>,
    served: PerInterface<bool>,
    shutdown: ShutdownTrigger,
    drain: Drain,
    reloading: Reloading,
    reload_requests: Option<mpsc::Receiver<ReloadRequest>>,
    backups: Arc<Backups>,
    /// What else runs until the shutdown: what the operator's page needs, and the scheduled
    /// backups, if there are any.
    background: Vec<BoxFuture<'static, ()>>,
    /// Returns when the daemon is no replica any more; `None` for one that is alone.
    removal: Option<BoxFuture<'static, RemovedError>>,
}

/// The time between the signal to stop and the stop. Meanwhile `/ready` says that the daemon is
/// about to stop.
struct Drain {
    flag: Arc<AtomicBool>,
    delay: Duration,
}

impl Drain {
    async fn wait(self) {
        self.flag.store(true, Ordering::Relaxed);
        tokio::time::sleep(self.delay).await;
    }
}

/// The folder of the store in the data folder.
pub fn store_folder(data: &Path) -> PathBuf {
    data.join("store")
}

impl Daemon {
    /// Reads what the configuration names, opens the store, binds the addresses and starts the
    /// actors. When this returns, clients can connect; [`Daemon::run`] answers them.
    pub async fn start(config: &Config, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Result<Self, DaemonError> {
        let prepared = Prepared::read(config, clock.unix_seconds())?;
        Self::start_prepared(config, prepared, Vec::new(), Build::default(), clock, random).await
    }

    /// The same with what [`Prepared::read`] has read for the configuration, with sockets that the
    /// service manager listens on already, in place of those at the same addresses, and with the
    /// build that the status names.
    pub async fn start_prepared(
        config: &Config,
        prepared: Prepared,
        inherited: Vec<std::net::TcpListener>,
        build: Build,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Result<Self, DaemonError> {
        let Prepared { tls, keys, key_cipher, appearance, wallet_links, webhooks, chains: followed, cluster } =
            prepared;
        check_data_folder(&config.data_dir)?;
        make_folders(&config.data_dir)?;
        let replica = config.cluster.as_ref().zip(cluster).map(|(section, read)| StartingReplica::new(section, read));
        let (store, membership) = open_store(config, random.as_ref(), replica.as_ref()).await?;
        let restored = store.restoration()?.as_ref().map(restored);
        let token = secret_file(&config.data_dir.join(TOKEN_FILE), random.as_ref())?;
        let audit_key = keccak256(secret_file(&config.data_dir.join(AUDIT_KEY), random.as_ref())?).0;
        let simulator_seed = simulator_seed(config, random.as_ref())?;
        let seed = simulator_seed.as_deref().unwrap_or_default();
        let verification = verification::setup::settings(config, &keys, seed);
        let listeners = bind(config, inherited).await?;
        let addresses = PerInterface::from_fn(|interface| listeners.bound_address(config.listen[interface]));
        let served = PerInterface::from_fn(|interface| listeners.0.contains_key(&config.listen[interface]));
        let socket = bind_operator_socket(config).await?;
        let urls = config.public_urls(&addresses);
        let original = Original { store: store.clone(), data: config.data_dir.clone(), key: key_cipher.clone() };
        let sign_in = sign_in::setup::settings(config, &urls[Interface::SignIn], key_cipher);
        let chains = followed.iter().map(|chain| chain.settings.clone()).collect();
        let bridge = bridge::settings(config);
        let events = webhooks.settings(config);
        let settings = Settings { verification, sign_in, bridge, events, chains, ..settings(config) };
        let domain = store.domain();
        let mut metrics = MetricsRegistry::default();
        let own_metrics = metrics.sub_registry_with_prefix(METRICS_PREFIX);
        let audit = Arc::new(AuditTrail::register(audit_key, Arc::clone(&clock), own_metrics));
        let copies = Copies::new(original.clone(), Arc::clone(&clock), Arc::clone(&random));
        let backups = Arc::new(Backups::new(original, Arc::clone(&clock), Arc::clone(&audit)));
        let service_parts =
            ServiceParts::new(settings, store.clone()).clock(Arc::clone(&clock)).random(Arc::clone(&random));
        let (service, running) = match replica.zip(membership) {
            None => (Service::start(service_parts).await?, None),
            Some((replica, membership)) => {
                let (listener, address) = bind_for_replicas(replica.section()).await?;
                let bound = replica.bind(&membership, replica.section().url(address)).await?;
                let (parts, view, run) = bound.into_parts();
                let service = Service::start(service_parts.replica_of(parts));
                (service.await?, Some((replica, listener, view, run)))
            }
        };
        let service = Arc::new(service);
        let (mut own_cluster, mut removal, mut for_replicas) = (None, None, None);
        if let Some((replica, listener, seen, run)) = running {
            let interface = ClusterInterface::new(Arc::clone(&service), replica.secret(), copies);
            for_replicas = Some(ForReplicas { listener, routes: cluster::routes(interface), tls: replica.acceptor() });
            removal = Some(run(Arc::clone(&service)));
            own_cluster = Some(OwnCluster { view: seen, staleness: replica.section().staleness });
        }
        let (shutdown, when_shutdown) = shutdown();
        let (certificate, tls) = tls.unzip();
        let now = clock.unix_seconds();
        let serves_bridge = served[Interface::Bridge];
        let connections = shared_connections(config, &store)?;
        let most_connections = connections.most_of_listener();
        let parts =
            StartParts { simulator_seed, certificate, appearance, wallet_links, serves_bridge, most_connections };
        let reloading = Reloading::new(config, &service, parts, now);
        let (reloads, reload_requests) = mpsc::channel(WAITING_RELOADS);
        let schedule = backup_schedule(config, domain);
        let scheduled_backups = schedule
            .map(|schedule| schedule.run(Arc::clone(&backups), Arc::clone(&clock), when_shutdown.clone()).boxed());
        let draining = Arc::<AtomicBool>::default();
        let mut instance = CallNonce([0; 32]);
        random.fill(&mut instance.0);
        let operator = operator::Setup {
            service: Arc::clone(&service),
            clock: Arc::clone(&clock),
            hosts: config.operator.hosts.clone(),
            token,
            instance,
            simulation: Arc::clone(&reloading.simulation),
            is_development: config.dev,
            ready_needs_chains: config.operator.ready_needs_chains,
            draining: Arc::clone(&draining),
            data: config.data_dir.clone(),
            nodes: followed.into_iter().flat_map(FollowedChain::into_nodes).collect(),
            reloads,
            reload_status: reloading.status.clone(),
            backups: Arc::clone(&backups),
            restored,
            build,
            cluster: own_cluster,
            certificate: reloading.certificate.clone(),
        };
        let parts = ServerParts {
            urls,
            random,
            metrics,
            audit,
            shutdown: when_shutdown,
            connections,
            tls,
            reloading: &reloading,
            for_replicas,
        };
        let Servers { servers, sampling } = servers(config, operator, listeners, socket, parts)?;
        let reload_requests = Some(reload_requests);
        let drain = Drain { flag: draining, delay: config.operator.drain_delay };
        Ok(Self {
            store,
            service,
            servers,
            addresses,
            served,
            shutdown,
            drain,
            reloading,
            reload_requests,
            backups,
            background: scheduled_backups.into_iter().chain([sampling]).collect(),
            removal,
        })
    }

    /// The addresses that the interfaces are bound to.
    pub fn addresses(&self) -> PerInterface<SocketAddr> {
        self.addresses
    }

    /// Whether an interface is served. All are, except the message bridge when another program has
    /// its default address.
    pub fn serves(&self, interface: Interface) -> bool {
        self.served[interface]
    }

    /// The settings that can change while the daemon runs.
    pub fn reloading(&self) -> Reloading {
        self.reloading.clone()
    }

    /// The requests of the operator to read the configuration again, at the first call. Without a
    /// receiver they are refused.
    pub fn take_reload_requests(&mut self) -> Option<mpsc::Receiver<ReloadRequest>> {
        self.reload_requests.take()
    }

    /// Proof verification, for other parts of this process.
    pub fn verification(&self) -> VerificationHandle {
        self.service.verification()
    }

    /// The name of its service in this process, for plans of faults.
    pub fn instance(&self) -> &str {
        self.service.instance()
    }

    /// Sign-in, for other parts of this process.
    pub fn sign_in(&self) -> SignInHandle {
        self.service.sign_in()
    }

    /// The registry, for other parts of this process.
    pub fn registry(&self) -> RegistryHandle {
        self.service.registry()
    }

    /// Serves until `stop` resolves, then finishes what is in flight (for at most
    /// `limits.shutdown_grace`), stops the actors, writes the store's log into files, for at most
    /// ten seconds, and closes the store.
    ///
    /// # Errors
    /// [`DaemonError::Service`] when the actors end before the shutdown (their supervisors gave up,
    /// or an actor is stuck), [`DaemonError::Server`] when the server of an address does.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), DaemonError> {
        let Self { store, service, servers, shutdown, drain, reloading, reload_requests, backups, .. } = self;
        let Self { background, removal, .. } = self;
        drop((reloading, reload_requests));
        // A task of its own: a poll of it that hangs hides neither a failure nor the stop.
        let mut removal = removal.map(tokio::spawn);
        let removed = async {
            match &mut removal {
                Some(removal) => removal.await,
                None => std::future::pending().await,
            }
        };
        let mut serving = JoinSet::new();
        for (server, listener) in servers {
            serving.spawn(server.run(listener));
        }
        for task in background {
            serving.spawn(task);
        }
        let outcome = tokio::select! {
            () = stop.then(|()| drain.wait()) => Ok(()),
            error = service.failed() => Err(error.into()),
            removed = removed => Err(match removed {
                Ok(removed) => removed.into(),
                Err(error) => DaemonError::Server(Some(error.to_string())),
            }),
            // A server, and what runs beside it, end before the shutdown only when they panic.
            Some(ended) = serving.join_next() => Err(DaemonError::Server(ended.err().map(|error| error.to_string()))),
        };
        if let Some(removal) = removal.filter(|removal| !removal.is_finished()) {
            // It holds the service.
            removal.abort();
            let _ = tokio::time::timeout(REMOVAL_TIMEOUT, removal).await;
        }
        backups.begin_to_stop();
        shutdown.trigger();
        while let Some(ended) = serving.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a server ended abnormally");
            }
        }
        // A backup holds the store.
        backups.stop().await;
        match Arc::try_unwrap(service) {
            Ok(service) => service.stop().await,
            // A handler that outlived the grace time still holds the service and may read the
            // store.
            Err(service) => service.stop_actors().await,
        }
        flush(store).await;
        outcome
    }
}

/// Writes the store's log into files, so that the next start does not have to read it.
async fn flush(store: Store) {
    let flushed = Store::clone(&store);
    let mut flushing = tokio::task::spawn_blocking(move || flushed.flush());
    match tokio::time::timeout(FLUSH_TIMEOUT, &mut flushing).await {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(error))) => tracing::warn!(%error, "the log of the store was not written into files at the stop"),
        Ok(Err(_panicked)) => tracing::warn!("writing the log of the store into files panicked"),
        Err(_elapsed) => {
            store.stop_flushing();
            tracing::info!("the log of the store is too long to be written into files at the stop; the start reads it");
        }
    }
}

/// Creates the data folder and the store's folder in it, both with mode 0700. An existing data
/// folder keeps its mode, because it may be a folder such as /var/lib. The store's folder gets its
/// mode in any case, because it belongs to the daemon.
fn make_folders(data: &Path) -> Result<(), DaemonError> {
    let refused = |path: &Path, call| {
        let path = path.to_owned();
        move |error| DaemonError::DataFolder { path, call, error }
    };
    let store = store_folder(data);
    make_folder(&store).map_err(refused(&store, MAKE))?;
    // The data folder exists now. This call makes its name durable, also when an interrupted start
    // created the folder.
    make_folder(data).map_err(refused(data, MAKE))?;
    make_private(&store).map_err(refused(&store, "chmod"))
}

/// The system calls that make a folder.
const MAKE: &str = "mkdir or fsync";

/// The operator's socket, if it is configured or its default place allows one. At its default place
/// a data folder on a file system without sockets (some of containers' and of networks) or without
/// modes is no reason not to start: the commands then reach the daemon by its address.
async fn bind_operator_socket(config: &Config) -> Result<Option<BoundUnixSocket>, DaemonError> {
    let Some(path) = config.operator_socket() else { return Ok(None) };
    match BoundUnixSocket::bind(&path).await {
        Ok(socket) => Ok(Some(socket)),
        Err(error @ UnixSocketError::Refused { .. }) if config.operator.socket == OperatorSocket::InDataFolder => {
            let message = "the operator interface has no unix socket, so commands need --operator URL; set operator.socket to \
                           a path on another file system, or to \"off\"";
            tracing::warn!(%error, message);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// The connections that all listeners together may have. Logs a warning when an address may have
/// fewer than are configured.
fn shared_connections(config: &Config, store: &Store) -> Result<Arc<SharedConnections>, DaemonError> {
    let (limit, files) = (descriptor_limit(), store.open_files()?);
    let most = most_connections(limit, files);
    let connections = SharedConnections::new(most);
    let (configured, possible) = (config.limits.max_connections, connections.most_of_listener());
    if possible < configured {
        let message = "fewer connections are possible than limits.max_connections says; raise the limit of open files \
                       (LimitNOFILE of systemd, --ulimit nofile of a container)";
        tracing::warn!(limit, configured, possible, of_all_addresses = most, message);
    }
    Ok(connections)
}

/// Opens the store; that of a replica may be copied first. Without a configured contract, a new
/// store gets a random one: signatures that are made for one deployment must not be valid in
/// another.
async fn open_store(
    config: &Config,
    random: &dyn Random,
    replica: Option<&StartingReplica>,
) -> Result<(Store, Option<Membership>), DaemonError> {
    let mut random_contract = Address::ZERO;
    random.fill(random_contract.as_mut_slice());
    let domain = RegistryDomain {
        chain_id: config.registry.chain_id,
        verifying_contract: config.registry.verifying_contract.unwrap_or(random_contract),
    };
    let keeps_contract = config.registry.verifying_contract.is_none();
    let folder = store_folder(&config.data_dir);
    let open = async |domain: RegistryDomain| {
        check_store_is_not_lost(&config.data_dir)?;
        let resources = config.storage.resources();
        let options = OpenOptions { keeps_contract, resources, ..OpenOptions::new(domain) };
        let folder = folder.clone();
        let opened = tokio::task::spawn_blocking(move || Store::open(&folder, &options)).await;
        Ok::<_, DaemonError>(opened.unwrap_or(Err(StoreError::Panicked))?)
    };
    let (store, membership) = match replica {
        Some(replica) => {
            let (store, membership) =
                replica.open_store(&config.data_dir, random, (domain, keeps_contract), open).await?;
            (store, Some(membership))
        }
        None => {
            let store = open(domain).await?;
            if let Some(Membership { cluster, .. }) = store.membership()? {
                return Err(MembershipError::NotAlone { path: folder, cluster: hex::encode(cluster) }.into());
            }
            (store, None)
        }
    };
    if keeps_contract && store.domain() == domain {
        let verifying_contract = address::text(&random_contract);
        tracing::info!(verifying_contract, "the registry of this new store has a random contract address");
    }
    Ok((store, membership))
}

/// Refuses to make a store in a data folder that had one. The files of secrets are made after the
/// store, at the first start.
fn check_store_is_not_lost(data: &Path) -> Result<(), DaemonError> {
    let folder = store_folder(data);
    let has_files = match std::fs::read_dir(&folder) {
        // RocksDB makes its lock and its own log first.
        Ok(files) => files.flatten().any(|file| !matches!(file.file_name().to_str(), Some("LOCK" | "LOG"))),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    // A rebuild keeps the old store beside the folder, and says so.
    if has_files || replaced_store(&folder).exists() {
        return Ok(());
    }
    let left = [TOKEN_FILE, AUDIT_KEY].map(|name| data.join(name)).into_iter().find(|path| path.exists());
    left.map_or(Ok(()), |left| Err(DaemonError::StoreLost { left, folder }))
}

/// Listens for the other replicas.
async fn bind_for_replicas(section: &Cluster) -> Result<(TcpListener, SocketAddr), DaemonError> {
    let refused = |error| DaemonError::ClusterListen { address: section.listen, error };
    let listener = TcpListener::bind(section.listen).await.map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    Ok((listener, bound))
}

/// When backups are made; `None` when the configuration does not say it.
fn backup_schedule(config: &Config, domain: RegistryDomain) -> Option<Schedule> {
    let section = &config.backup;
    let (every, folder) = (section.every?, section.folder.as_ref()?);
    // The path of an existing folder can be made absolute; another one is refused at each backup.
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
    Some(Schedule { every, keep: section.keep, folder, domain })
}

/// What `/status` says about a restored store; also logged.
fn restored(mark: &Restoration) -> Restored {
    let Restoration { height, block_hash, backup_made_at, restored_at, confirmation, .. } = *mark;
    let is_loss_accepted = confirmation.is_some_and(|confirmation| confirmation.is_loss_accepted);
    let (backup_made_at, restored_at) = (time_text(backup_made_at), time_text(restored_at));
    tracing::warn!(height, %block_hash, backup_made_at, restored_at, is_loss_accepted, "the store was restored from a backup");
    Restored { height, block_hash, backup_made_at, restored_at, is_loss_accepted }
}

/// The seed of the simulator's secrets; `None` when no verification key is the simulator's.
fn simulator_seed(config: &Config, random: &dyn Random) -> Result<Option<String>, SecretFileError> {
    let keys = &config.verifier.keys.staging;
    if ![&keys.legacy, &keys.current].contains(&&StagingKey::Simulator) {
        return Ok(None);
    }
    match &config.verifier.simulator_seed {
        Some(seed) => Ok(Some(seed.clone())),
        None => secret_file(&config.data_dir.join(SIMULATOR_SEED), random).map(Some),
    }
}

fn settings(config: &Config) -> Settings {
    Settings {
        rules: RuleParameters {
            max_authenticators: config.registry.max_authenticators,
            recovery_agent_update_cooldown: config.registry.recovery_agent_update_cooldown.as_secs(),
            root_validity_window: config.registry.root_validity_window.as_secs(),
            commitment_check: config.registry.commitment_check,
        },
        batch: BatchLimits {
            max_operations: config.batcher.max_operations,
            min_wait: config.batcher.min_wait,
            max_wait: config.batcher.max_wait,
        },
        limits: admission_limits(config),
        ..Settings::for_instance(instance_name())
    }
}

/// A unique name for each daemon of this process, because tests run several.
fn instance_name() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};

    static STARTED: AtomicU64 = AtomicU64::new(0);
    format!("selfsame-{}", STARTED.fetch_add(1, Ordering::Relaxed))
}

/// Whether an interface can be left out whose address cannot be bound: the message bridge, at its
/// default address, which another program has, where sign-in does not use it. The bridge came later
/// than the other interfaces, and an upgrade must not keep a daemon from starting.
fn can_do_without(config: &Config, interface: Interface, address: SocketAddr, error: &io::Error) -> bool {
    let default = SocketAddr::from((Ipv4Addr::LOCALHOST, interface.default_port()));
    let is_taken = address == default && error.kind() == io::ErrorKind::AddrInUse;
    interface == Interface::Bridge && is_taken && !config.signs_in_over_bridge()
}

async fn bind(config: &Config, inherited: Vec<std::net::TcpListener>) -> Result<Listeners, DaemonError> {
    let mut passed = HashMap::new();
    for listener in inherited {
        let address = listener.local_addr().map_err(DaemonError::Inherited)?;
        listener.set_nonblocking(true).map_err(DaemonError::Inherited)?;
        passed.insert(address, listener);
    }
    let mut listeners = BTreeMap::new();
    for (interface, address) in config.listen.iter() {
        let refused = |error| DaemonError::Listen { interface: interface.listen_key(), address: *address, error };
        if let Entry::Vacant(entry) = listeners.entry(*address) {
            let listener = match passed.remove(address) {
                Some(listener) => TcpListener::from_std(listener).map_err(refused)?,
                None => match TcpListener::bind(address).await {
                    Err(error) if can_do_without(config, interface, *address, &error) => {
                        let message =
                            "another program has this address, so the message bridge is not served; set listen.bridge";
                        tracing::warn!(%address, message);
                        continue;
                    }
                    bound => bound.map_err(refused)?,
                },
            };
            let bound = listener.local_addr().map_err(refused)?;
            entry.insert((listener, bound));
        }
    }
    // Clients could connect to it, and nothing would answer them.
    match passed.into_keys().min() {
        Some(address) => Err(DaemonError::StraySocket { address }),
        None => Ok(Listeners(listeners)),
    }
}
