//! The daemon: it joins store, actors and interfaces.
//!
//! [`Daemon::start`] opens the store, binds the addresses and starts the actors. [`Daemon::run`]
//! serves until its caller stops it or the actors fail; it holds every step of the shutdown, in
//! order.

mod opening;
mod parts;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use prometheus_client::registry::Registry as MetricsRegistry;
use selfsame_actors::{
    BatchLimits, Clock, GroupsHandle, Random, RegistryHandle, Service, ServiceError, ServiceParts, Settings,
    SettledOrigin, SignInHandle, VerificationHandle, VerificationSettings, WalletOriginError,
};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::keccak256;
use selfsame_protocol::operator::{Restored, Simulation, TOKEN_FILE};
use selfsame_protocol::operator_call::CallNonce;
use selfsame_protocol::registry::RuleParameters;
use selfsame_storage::{Restoration, Store, StoreError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use opening::{bind, bind_for_replicas, bind_operator_socket, make_folders, open_store, shared_connections};
use parts::OperatorParts;
use selfsame_cluster::{MembershipError, RemovedError};
use selfsame_interfaces::http::{
    AuditTrail, Listener, RouteError, Server, Shutdown, ShutdownTrigger, UnixSocketError, shutdown,
};
use selfsame_interfaces::interface::{Interface, PerInterface, PublicUrls};
use selfsame_interfaces::operator::{self, Build, ReloadRequest, time_text};
use selfsame_interfaces::web_wallet::{ReadSimulation, origin_text};

use crate::backup::jobs::{Backups, Schedule};
use crate::backup::make::Original;
use crate::backup::{BackupError, check_data_folder};
use crate::chains::FollowedChain;
use crate::cluster::{self, ClusterInterface, Copies, StartingReplica};
use crate::config::{Config, Origin, StagingKey};
use crate::data_files::{AUDIT_KEY, SIMULATOR_SEED, SecretFileError, secret_file};
use crate::prepared::{Prepared, Problems};
use crate::reloading::{Reloading, StartParts, admission_limits};
use crate::servers::{ForReplicas, METRICS_PREFIX, ServerParts, Servers, servers};
use crate::setup;

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
    /// The web wallet has another origin than members' passkeys.
    #[error("urls.wallet_url: {0}")]
    WalletOrigin(#[from] WalletOriginError),
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
        let Prepared { tls, keys, key_cipher, appearance, wallet_links, webhooks, attestation_issuers, .. } = prepared;
        let (followed, cluster) = (prepared.chains, prepared.cluster);
        check_data_folder(&config.data_dir)?;
        make_folders(&config.data_dir)?;
        let replica = config.cluster.as_ref().zip(cluster).map(|(section, read)| StartingReplica::new(section, read));
        let (store, membership) = open_store(config, random.as_ref(), replica.as_ref()).await?;
        let restored = store.restoration()?.as_ref().map(restored);
        let token = secret_file(&config.data_dir.join(TOKEN_FILE), random.as_ref())?;
        let audit_key = keccak256(secret_file(&config.data_dir.join(AUDIT_KEY), random.as_ref())?).0;
        let simulator_seed = simulator_seed(config, random.as_ref())?;
        let seed = simulator_seed.as_deref().unwrap_or_default();
        let attestation_issuers = attestation_issuers.settings(simulator_seed.as_deref());
        let verification =
            VerificationSettings { attestation_issuers, ..setup::verification::settings(config, &keys, seed) };
        let listeners = bind(config, inherited)?;
        let addresses = PerInterface::from_fn(|interface| listeners.bound_address(config.listen[interface]));
        let served = PerInterface::from_fn(|interface| listeners.0.contains_key(&config.listen[interface]));
        let socket = bind_operator_socket(config).await?;
        let urls = config.public_urls(&addresses);
        let original = Original { store: store.clone(), data: config.data_dir.clone(), key: key_cipher.clone() };
        let sign_in = setup::sign_in::settings(config, &urls[Interface::SignIn], key_cipher);
        let chains = followed.iter().map(|chain| chain.settings.clone()).collect();
        let bridge = setup::bridge(config);
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
                let (listener, address) = bind_for_replicas(replica.section())?;
                let bound = replica.bind(&membership, replica.section().url(address)).await?;
                let (parts, view, run) = bound.into_parts();
                let service = Service::start(service_parts.replica_of(parts)).await?;
                if let Err(conflicts) = service.sign_in().check_subjects_of_replica().await? {
                    service.stop().await;
                    return Err(ServiceError::from(conflicts).into());
                }
                (service, Some((replica, listener, view, run)))
            }
        };
        let serves_web_wallet = served[Interface::Wallet] && setup::groups::serves_web_wallet(config);
        let is_settled = match serves_web_wallet && !config.dev {
            true => settle_at_start(config, &urls, &service).await,
            false => Ok(true),
        };
        let is_settled = match is_settled {
            Ok(is_settled) => is_settled,
            Err(error) => {
                service.stop().await;
                return Err(error.into());
            }
        };
        let service = Arc::new(service);
        let (mut own_cluster, mut removal, mut for_replicas) = (None, None, None);
        if let Some((replica, listener, seen, run)) = running {
            let interface = ClusterInterface::new(Arc::clone(&service), replica.secret(), copies);
            for_replicas = Some(ForReplicas { listener, routes: cluster::routes(interface), tls: replica.acceptor() });
            removal = Some(run(Arc::clone(&service)));
            own_cluster = Some((seen, *replica.section().staleness));
        }
        service.verification().begin_to_read_keys();
        let (shutdown, when_shutdown) = shutdown();
        let (certificate, tls) = tls.unzip();
        let now = clock.unix_seconds();
        let (serves_bridge, serves_wallet) = (served[Interface::Bridge], served[Interface::Wallet]);
        let connections = shared_connections(config, &store)?;
        let most_connections = connections.most_of_listener();
        let mut background = Vec::new();
        if !is_settled {
            let (config, urls) = (config.clone(), urls.clone());
            background.push(settle_later(config, urls, Arc::clone(&service), when_shutdown.clone()).boxed());
        }
        let wallet_links = match serves_web_wallet {
            true => wallet_links.with_web_wallet(&urls[Interface::Wallet]),
            false => wallet_links,
        };
        let parts = StartParts {
            simulator_seed,
            certificate,
            appearance,
            wallet_links,
            serves_bridge,
            serves_wallet,
            most_connections,
        };
        let reloading = Reloading::new(config, &service, parts, now);
        let simulation = read_simulation(Arc::clone(&reloading.simulation), service.registry());
        let web_wallet = setup::groups::web_wallet(config, &urls, simulation);
        let (reloads, reload_requests) = mpsc::channel(WAITING_RELOADS);
        let schedule = backup_schedule(config, domain);
        let scheduled_backups = schedule
            .map(|schedule| schedule.run(Arc::clone(&backups), Arc::clone(&clock), when_shutdown.clone()).boxed());
        let draining = Arc::<AtomicBool>::default();
        let mut instance = CallNonce([0; 32]);
        random.fill(&mut instance.0);
        let parts = OperatorParts {
            backups: Arc::clone(&backups),
            nodes: followed.into_iter().flat_map(FollowedChain::into_nodes).collect(),
            cluster: own_cluster,
        };
        let operator = operator::Setup {
            service: Arc::clone(&service),
            clock: Arc::clone(&clock),
            hosts: config.operator.hosts.clone(),
            token,
            invitation_token: Arc::clone(&reloading.invitation_token),
            wallet_url: urls[Interface::Wallet].clone(),
            instance,
            simulation: Arc::clone(&reloading.simulation),
            is_development: config.dev,
            ready_needs_chains: config.operator.ready_needs_chains,
            draining: Arc::clone(&draining),
            data: config.data_dir.clone(),
            reloads,
            reload_status: reloading.status.clone(),
            parts: Arc::new(parts),
            restored,
            build,
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
            web_wallet,
            for_replicas,
        };
        let Servers { servers, sampling } = servers(config, operator, listeners, socket, parts)?;
        let reload_requests = Some(reload_requests);
        let drain = Drain { flag: draining, delay: *config.operator.drain_delay };
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
            background: scheduled_backups.into_iter().chain([sampling]).chain(background).collect(),
            removal,
        })
    }

    /// The addresses that the interfaces are bound to.
    pub fn addresses(&self) -> PerInterface<SocketAddr> {
        self.addresses
    }

    /// Whether an interface is served. All are, except the message bridge and the wallet interface
    /// when another program has their default address and they are not needed.
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

    /// Groups, for other parts of this process.
    pub fn groups(&self) -> GroupsHandle {
        self.service.groups()
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

/// When backups are made; `None` when the configuration does not say it.
fn backup_schedule(config: &Config, domain: RegistryDomain) -> Option<Schedule> {
    let section = &config.backup;
    let (every, folder) = (*section.every?, section.folder.as_ref()?);
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

/// How long a replica may take at the start to compare the web wallet's origin with the store's,
/// and the time between two later attempts.
const SETTLING_INTERVAL: Duration = Duration::from_secs(5);

/// Compares the web wallet's origin with the store's, and writes the first one.
async fn settle_wallet_origin(config: &Config, urls: &PublicUrls, service: &Service) -> Result<(), WalletOriginError> {
    // The configuration has no other URLs than those of the web.
    let Some(origin) = origin_text(&urls[Interface::Wallet]) else { return Ok(()) };
    let moved_from = config.wallet.moved_from.as_ref().map(Origin::as_str);
    match service.groups().settle_wallet_origin(&origin, moved_from).await? {
        SettledOrigin::Known => {}
        SettledOrigin::New => tracing::info!(
            origin,
            "the web wallet is served for the first time; members' passkeys belong to this origin from now on, so keep it"
        ),
        SettledOrigin::Moved => tracing::warn!(
            origin,
            moved_from,
            "the web wallet has moved; members' passkeys belong to this origin from now on, and those of the old one need \
             their recovery codes"
        ),
    }
    Ok(())
}

/// The same at the start; whether it was done. For a replica it is done later when the cluster
/// cannot be asked yet.
async fn settle_at_start(config: &Config, urls: &PublicUrls, service: &Service) -> Result<bool, WalletOriginError> {
    let settling = settle_wallet_origin(config, urls, service);
    if config.cluster.is_none() {
        return settling.await.map(|()| true);
    }
    match tokio::time::timeout(SETTLING_INTERVAL, settling).await {
        Ok(Ok(())) => Ok(true),
        Ok(Err(error @ WalletOriginError::Other { .. })) => Err(error),
        Ok(Err(WalletOriginError::Store(_))) | Err(_) => Ok(false),
    }
}

/// The same for a replica whose cluster could not be asked at the start. The conflict of a replica
/// that serves already is an error in the log: the other replicas serve the right page.
async fn settle_later(config: Config, urls: PublicUrls, service: Arc<Service>, shutdown: Shutdown) {
    loop {
        tokio::select! {
            () = shutdown.triggered() => return,
            () = tokio::time::sleep(SETTLING_INTERVAL) => {}
        }
        match settle_wallet_origin(&config, &urls, &service).await {
            Err(WalletOriginError::Store(_)) => {}
            Err(error) => {
                tracing::error!(%error, "this replica serves the web wallet at another origin than the cluster");
                break;
            }
            Ok(()) => break,
        }
    }
    drop(service);
    shutdown.triggered().await;
}

/// Reads what the pages of the web wallet need to play the simulator's person.
fn read_simulation(simulation: Arc<ArcSwapOption<Simulation>>, registry: RegistryHandle) -> ReadSimulation {
    Arc::new(move || {
        let mut simulated = serde_json::to_value(&*simulation.load_full()?).ok()?;
        let root = serde_json::to_value(registry.snapshot().tip().root).ok()?;
        simulated.as_object_mut()?.insert("root".to_owned(), root);
        Some(simulated)
    })
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
            min_wait: *config.batcher.min_wait,
            max_wait: *config.batcher.max_wait,
        },
        limits: admission_limits(config),
        groups: setup::groups::group_settings(config),
        ..Settings::for_instance(instance_name())
    }
}

/// A unique name for each daemon of this process, because tests run several.
fn instance_name() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};

    static STARTED: AtomicU64 = AtomicU64::new(0);
    format!("selfsame-{}", STARTED.fetch_add(1, Ordering::Relaxed))
}
