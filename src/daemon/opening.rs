//! What a start opens: the data folder and the store in it, the unix socket, and the addresses.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use alloy_primitives::hex;
use selfsame_actors::Random;
use selfsame_cluster::MembershipError;
use selfsame_interfaces::http::{
    BoundUnixSocket, SharedConnections, UnixSocketError, bind_tcp, descriptor_limit, most_connections,
};
use selfsame_interfaces::interface::Interface;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::operator::TOKEN_FILE;
use selfsame_protocol::{Address, address};
use selfsame_storage::{Membership, OpenOptions, Store, StoreError, replaced_store};
use tokio::net::TcpListener;

use super::{DaemonError, store_folder};
use crate::cluster::StartingReplica;
use crate::config::{Cluster, Config, OperatorSocket};
use crate::data_files::{AUDIT_KEY, make_folder, make_private};
use crate::servers::Listeners;

/// Creates the data folder and the store's folder in it, both with mode 0700. An existing data
/// folder keeps its mode, because it may be a folder such as /var/lib. The store's folder gets its
/// mode in any case, because it belongs to the daemon.
pub(super) fn make_folders(data: &Path) -> Result<(), DaemonError> {
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
pub(super) async fn bind_operator_socket(config: &Config) -> Result<Option<BoundUnixSocket>, DaemonError> {
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
pub(super) fn shared_connections(config: &Config, store: &Store) -> Result<Arc<SharedConnections>, DaemonError> {
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
pub(super) async fn open_store(
    config: &Config,
    random: &dyn Random,
    replica: Option<&StartingReplica>,
) -> Result<(Store, Option<Membership>), DaemonError> {
    let mut random_contract = Address::ZERO;
    random.fill(random_contract.as_mut_slice());
    let domain = RegistryDomain {
        chain_id: config.registry.chain_id,
        verifying_contract: config.registry.verifying_contract.map_or(random_contract, |contract| contract.0),
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
pub(super) fn bind_for_replicas(section: &Cluster) -> Result<(TcpListener, SocketAddr), DaemonError> {
    let refused = |error| DaemonError::ClusterListen { address: *section.listen, error };
    let listener = bind_tcp(*section.listen).map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    Ok((listener, bound))
}

/// Whether an interface can be left out whose address cannot be bound, because another program has
/// it and it is the default one: the message bridge where sign-in does not use it, and the wallet
/// interface without groups. Both came later than the other interfaces, and an upgrade must not
/// keep a daemon from starting.
fn can_do_without(config: &Config, interface: Interface, address: SocketAddr, error: &io::Error) -> bool {
    let default = SocketAddr::from((Ipv4Addr::LOCALHOST, interface.default_port()));
    let is_taken = address == default && error.kind() == io::ErrorKind::AddrInUse;
    match interface {
        Interface::Bridge => is_taken && !config.signs_in_over_bridge(),
        Interface::Wallet => is_taken && config.groups.is_empty(),
        _ => false,
    }
}

pub(super) fn bind(config: &Config, inherited: Vec<std::net::TcpListener>) -> Result<Listeners, DaemonError> {
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
                None => match bind_tcp(*address) {
                    Err(error) if can_do_without(config, interface, *address, &error) => {
                        let (key, name) = (interface.listen_key(), interface.name());
                        tracing::warn!(
                            %address,
                            "another program has this address, so the {name} interface is not served; set listen.{key}"
                        );
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
