//! The daemon: store, actors and interfaces put together.
//!
//! [`Daemon::start`] opens the store, starts the actors and binds the addresses; [`Daemon::run`] serves until it is told to stop
//! or the actors fail. What happens at the end of a life can be read top to bottom in [`Daemon::run`].

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use prometheus_client::registry::Registry;
use selfsame_actors::{
    AdmissionLimits, Clock, Random, RegistryHandle, Service, ServiceError, Settings, SignInHandle, VerificationHandle,
};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::registry::RuleParameters;
use selfsame_storage::{EmbeddedLedger, OpenOptions, Store, StoreError};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use utoipa::OpenApi;

use crate::config::{Config, Listen, Network, VerificationKey};
use crate::durable_fs::make_folder;
use crate::http::{
    Cors, Interface, InvalidOrigin, Limits, Metrics, RouteError, Server, Shutdown, ShutdownTrigger, Site, TlsError,
    acceptor, shutdown,
};
use crate::secret_file::{OPERATOR_TOKEN, SIMULATOR_SEED, SecretFileError, secret_file};
use crate::verification::setup::SetupError;
use crate::{gateway, indexer, openapi, operator, sign_in, verification};

/// Why the daemon does not start, or ends by itself.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The data folder cannot be made.
    #[error("{}: {error}", path.display())]
    DataFolder { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// An address cannot be listened on.
    #[error("listen.{interface}: cannot listen on {address}: {error}")]
    Listen { interface: &'static str, address: SocketAddr, error: io::Error },
    #[error("cors.allowed_origins: {0}")]
    Cors(#[from] InvalidOrigin),
    #[error(transparent)]
    Routes(#[from] RouteError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The verifier's keys cannot be set up.
    #[error(transparent)]
    Verifier(#[from] SetupError),
    /// A file of secrets in the data folder cannot be read or made.
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    /// An address is not served any more.
    #[error("a server ended by itself: {}", .0.as_deref().unwrap_or("it did not panic"))]
    Server(Option<String>),
}

/// A started daemon, its addresses bound, not serving yet.
pub struct Daemon {
    service: Arc<Service>,
    servers: Vec<(Server, TcpListener)>,
    addresses: Addresses,
    shutdown: ShutdownTrigger,
    reloading: Reloading,
}

/// The settings that can change while the daemon runs.
#[derive(Clone)]
pub struct Reloading {
    registry: RegistryHandle,
    verification: VerificationHandle,
    sign_in: SignInHandle,
    simulation: Arc<ArcSwapOption<operator::Simulation>>,
    limits: Arc<ArcSwap<Limits>>,
    trusted_proxies: Arc<ArcSwap<Vec<Network>>>,
}

impl Reloading {
    fn new(config: &Config, service: &Service, simulator_seed: Option<String>) -> Self {
        let simulation = simulator_seed.map(|seed| Arc::new(operator::Simulation::new(config, seed)));
        Self {
            registry: service.registry(),
            verification: service.verification(),
            sign_in: service.sign_in(),
            simulation: Arc::new(ArcSwapOption::new(simulation)),
            limits: Arc::new(ArcSwap::from_pointee(limits(config))),
            trusted_proxies: Arc::new(ArcSwap::from_pointee(config.limits.trusted_proxies.clone())),
        }
    }

    /// Takes over limits, applications, actions, issuers and relying parties of a configuration that was read again.
    pub fn take_over(&self, config: &Config) {
        match verification::setup::directory(config) {
            Ok(directory) => self.verification.set_directory(directory),
            // Checked with the rest of the configuration before.
            Err(error) => tracing::error!(%error, "the relying parties stay as they are"),
        }
        self.sign_in.set_clients(sign_in::setup::clients(config));
        let sign_ins_per_source = config.limits.sign_ins_per_source.map(crate::config::RateLimit::limit);
        self.sign_in.limit_sources(sign_ins_per_source, config.limits.open_sign_ins);
        self.simulation.rcu(|simulation| simulation.as_ref().map(|simulation| Arc::new(simulation.over(config))));
        self.verification.limit_sources(config.limits.verifications_per_source.map(crate::config::RateLimit::limit));
        self.registry.set_limits(admission_limits(config));
        self.limits.store(Arc::new(limits(config)));
        self.trusted_proxies.store(Arc::new(config.limits.trusted_proxies.clone()));
    }
}

/// The addresses that the interfaces are bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub sign_in: SocketAddr,
    pub verify: SocketAddr,
    pub gateway: SocketAddr,
    pub indexer: SocketAddr,
    pub operator: SocketAddr,
}

impl Addresses {
    /// These addresses as configuration has them; there ports may have been 0.
    pub fn listen(&self) -> Listen {
        let Self { sign_in, verify, gateway, indexer, operator } = *self;
        Listen { sign_in, verify, gateway, indexer, operator }
    }
}

/// The folder of the store in the data folder.
pub fn store_folder(data: &Path) -> PathBuf {
    data.join("store")
}

impl Daemon {
    /// Opens the store, starts the actors, binds the addresses. When this returns, clients can connect.
    pub async fn start(config: &Config, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Result<Self, DaemonError> {
        make_folders(&config.data_dir)
            .map_err(|error| DaemonError::DataFolder { path: config.data_dir.clone(), error })?;
        let domain = RegistryDomain {
            chain_id: config.registry.chain_id,
            verifying_contract: config.registry.verifying_contract,
        };
        let store = Store::open(&store_folder(&config.data_dir), &OpenOptions::new(domain))?;
        let ledger = Arc::new(EmbeddedLedger::open(store.clone())?);
        let token = secret_file(&config.data_dir.join(OPERATOR_TOKEN), random.as_ref())?;
        let simulator_seed = simulator_seed(config, random.as_ref())?;
        let verification = verification::setup::settings(config, simulator_seed.as_deref().unwrap_or_default())?;
        let listeners = bind(&config.listen).await?;
        let addresses = Addresses {
            sign_in: listeners.bound(config.listen.sign_in),
            verify: listeners.bound(config.listen.verify),
            gateway: listeners.bound(config.listen.gateway),
            indexer: listeners.bound(config.listen.indexer),
            operator: listeners.bound(config.listen.operator),
        };
        let id_url = config.public_urls(&addresses.listen()).id_url;
        let sign_in = sign_in::setup::settings(config, &id_url);
        let settings = Settings { verification, sign_in, ..settings(config) };
        let service = Service::start(settings, store, ledger, Arc::clone(&clock), Arc::clone(&random)).await?;
        let service = Arc::new(service);
        let (shutdown, when_shutdown) = shutdown();
        let reloading = Reloading::new(config, &service, simulator_seed);
        let operator = operator::Setup {
            service: Arc::clone(&service),
            clock: Arc::clone(&clock),
            token,
            simulation: Arc::clone(&reloading.simulation),
        };
        let servers = servers(config, operator, listeners, &random, &when_shutdown, &reloading)?;
        Ok(Self { service, servers, addresses, shutdown, reloading })
    }

    /// Where the interfaces are served.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// The settings that can change while the daemon runs.
    pub fn reloading(&self) -> Reloading {
        self.reloading.clone()
    }

    /// Proof verification, for whoever shares this process.
    pub fn verification(&self) -> VerificationHandle {
        self.service.verification()
    }

    /// Sign-in, for whoever shares this process.
    pub fn sign_in(&self) -> SignInHandle {
        self.service.sign_in()
    }

    /// The registry, for whoever shares this process.
    pub fn registry(&self) -> RegistryHandle {
        self.service.registry()
    }

    /// Serves until `stop` resolves, then finishes what is in flight (for at most `limits.shutdown_grace`), stops the actors and
    /// closes the store.
    ///
    /// # Errors
    /// When the actors end by themselves (their supervisors gave up, or one is stuck), or the server of an address does.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), DaemonError> {
        let Self { service, servers, shutdown, reloading, .. } = self;
        drop(reloading);
        let mut serving = JoinSet::new();
        for (server, listener) in servers {
            serving.spawn(server.run(listener));
        }
        let outcome = tokio::select! {
            () = stop => Ok(()),
            error = service.failed() => Err(error.into()),
            // None ends before the shutdown but by a panic.
            Some(ended) = serving.join_next() => Err(DaemonError::Server(ended.err().map(|error| error.to_string()))),
        };
        shutdown.trigger();
        while let Some(ended) = serving.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a server ended abnormally");
            }
        }
        match Arc::try_unwrap(service) {
            Ok(service) => service.stop().await,
            // A request that outlived the grace time still reads.
            Err(service) => service.stop_actors().await,
        }
        outcome
    }
}

/// Makes the data folder and the store's folder in it, each for its owner alone. An existing data folder is left as it is (it may
/// be anything, /var/lib say); the store's folder is ours.
fn make_folders(data: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let store = store_folder(data);
    make_folder(&store)?;
    // It is there by now; so is its name, if a start that was cut off has made it.
    make_folder(data)?;
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o700))
}

/// What the simulator's secrets are made from, if any key is the simulator's.
fn simulator_seed(config: &Config, random: &dyn Random) -> Result<Option<String>, SecretFileError> {
    let keys = &config.verifier.keys.staging;
    if ![&keys.legacy, &keys.current].contains(&&VerificationKey::Simulator) {
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
        max_operations: config.batcher.max_operations,
        max_wait: config.batcher.max_wait,
        limits: admission_limits(config),
        ..Settings::named(instance_name())
    }
}

fn admission_limits(config: &Config) -> AdmissionLimits {
    AdmissionLimits {
        queue_length: config.limits.queue_length,
        calls_inside: config.limits.in_flight,
        status_waiters: config.limits.status_waiters,
        per_source: config.limits.per_source.map(crate::config::RateLimit::limit),
        per_leaf_index: config.limits.per_leaf_index.map(crate::config::RateLimit::limit),
        request_retention: config.registry.request_retention,
        idempotency_retention: config.limits.idempotency_retention,
    }
}

/// A name of its own for each daemon in this process: tests run several.
fn instance_name() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};

    static STARTED: AtomicU64 = AtomicU64::new(0);
    format!("selfsame-{}", STARTED.fetch_add(1, Ordering::Relaxed))
}

/// One listener for each address that is configured; several interfaces may share one.
struct Listeners(BTreeMap<SocketAddr, (TcpListener, SocketAddr)>);

impl Listeners {
    /// The address that is really listened on for a configured one (its port may be 0).
    fn bound(&self, configured: SocketAddr) -> SocketAddr {
        self.0.get(&configured).map_or(configured, |(_, bound)| *bound)
    }
}

async fn bind(listen: &Listen) -> Result<Listeners, DaemonError> {
    let mut listeners = BTreeMap::new();
    for (interface, address) in [
        ("sign_in", listen.sign_in),
        ("verify", listen.verify),
        ("gateway", listen.gateway),
        ("indexer", listen.indexer),
        ("operator", listen.operator),
    ] {
        let refused = |error| DaemonError::Listen { interface, address, error };
        if let Entry::Vacant(place) = listeners.entry(address) {
            let listener = TcpListener::bind(address).await.map_err(refused)?;
            let bound = listener.local_addr().map_err(refused)?;
            place.insert((listener, bound));
        }
    }
    Ok(Listeners(listeners))
}

/// Whether more than the operator's interface is at an address.
fn is_public(listen: &Listen, address: SocketAddr) -> bool {
    [listen.sign_in, listen.verify, listen.gateway, listen.indexer].contains(&address)
}

/// A server for each listener, with the interfaces that share its address.
fn servers(
    config: &Config,
    operator: operator::Setup,
    listeners: Listeners,
    random: &Arc<dyn Random>,
    shutdown: &Shutdown,
    reloading: &Reloading,
) -> Result<Vec<(Server, TcpListener)>, DaemonError> {
    let mut registry = Registry::default();
    let metrics = Metrics::register(registry.sub_registry_with_prefix("selfsame"));
    let cors = Cors::from_origins(&config.cors.allowed_origins)?;
    let descriptions = |address| {
        let verify = (config.listen.verify == address).then(verification::Description::openapi);
        let gateway = (config.listen.gateway == address).then(gateway::Description::openapi);
        let indexer = (config.listen.indexer == address).then(indexer::Description::openapi);
        openapi::document(verify.into_iter().chain(gateway).chain(indexer))
    };
    let handle = operator.service.registry();
    let verification = operator.service.verification();
    let mut interfaces: Vec<(SocketAddr, Interface)> = vec![
        (config.listen.sign_in, sign_in::interface(operator.service.sign_in())),
        (config.listen.verify, verification::interface(verification, descriptions(config.listen.verify), cors.clone())),
        (config.listen.gateway, gateway::interface(handle.clone(), descriptions(config.listen.gateway), cors.clone())),
        (config.listen.indexer, indexer::interface(handle, descriptions(config.listen.indexer), cors)),
        (config.listen.operator, operator::interface(operator, registry)),
    ];
    let tls = config.tls.as_ref().map(|tls| acceptor(&tls.certificate, &tls.private_key)).transpose()?;
    let mut servers = Vec::new();
    for (address, (listener, _)) in listeners.0 {
        let here = interfaces.extract_if(.., |(configured, _)| *configured == address).map(|(_, interface)| interface);
        let site = Site::new(here, &metrics)?;
        let trusted = Arc::clone(&reloading.trusted_proxies);
        let random = Arc::clone(random);
        let server = Server {
            site,
            limits: Arc::clone(&reloading.limits),
            trusted_proxy: Box::new(move |address| trusted.load().iter().any(|network| network.contains(address))),
            random: Box::new(move || {
                let mut bytes = [0; 16];
                random.fill(&mut bytes);
                bytes
            }),
            metrics: metrics.clone(),
            shutdown: shutdown.clone(),
            tls: if is_public(&config.listen, address) { tls.clone() } else { None },
        };
        servers.push((server, listener));
    }
    Ok(servers)
}

fn limits(config: &Config) -> Limits {
    Limits {
        connections: config.limits.max_connections,
        connections_per_source: config.limits.max_connections_per_source,
        header_timeout: config.limits.header_timeout,
        idle_timeout: config.limits.idle_timeout,
        request_timeout: config.limits.request_timeout,
        grace: config.limits.shutdown_grace,
        ..Limits::default()
    }
}
