//! How a data folder becomes a replica of a cluster.
//!
//! | store | `<prefix>/cluster` in etcd | what the start does |
//! |---|---|---|
//! | none | none | founds the cluster, with a new store |
//! | of a daemon that was alone | none | founds the cluster, with its data |
//! | none | there | copies the data folder of another replica |
//! | a replica's of this cluster | there | goes on; when the journal no longer has what it lacks, copies |
//! | anything else | | refuses, and says what would be right |
//!
//! The cluster's key is written before the founder's store says that it is a replica. A founder
//! that is killed in between finds its own name in the key, and no replica beside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::hex;
use etcd_client::{Client, Compare, CompareOp, GetOptions, Txn, TxnOp};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use selfsame_actors::Random;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_storage::{Journal, JournalError, Membership, Position, Store, StoreError};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use super::etcd::{ClusterRecord, Etcd, EtcdError, ReplicaRecord};
use super::journal::EtcdJournal;

/// How long etcd is waited for when the daemon starts.
const ETCD_PATIENCE: Duration = Duration::from_secs(20);

/// How long a new replica waits for another one that it can copy.
const PEER_PATIENCE: Duration = Duration::from_secs(60);

/// Time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// How long a question to etcd waits for its answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The extension of the folder of a store that was left behind, beside that of the store.
const BEHIND: &str = "behind";

/// Why a daemon is no replica of the cluster.
#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    /// etcd gives no answer.
    #[error("the cluster cannot be joined without etcd: {0}")]
    Etcd(#[from] EtcdError),
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store is a replica of another cluster.
    #[error(
        "the store is a replica of cluster {found}, and etcd has cluster {expected} below this prefix; check cluster.etcd \
         and cluster.prefix, or start with an empty data folder to join this cluster"
    )]
    OtherCluster {
        /// The cluster of the store.
        found: String,
        /// The cluster in etcd.
        expected: String,
    },
    /// etcd has lost the cluster.
    #[error(
        "the store is a replica of cluster {cluster}, and etcd has none below this prefix; check cluster.etcd and \
         cluster.prefix. If etcd has lost its data: make the replica that led last alone with `selfsame cluster leave`, \
         start it, and start the others with empty data folders"
    )]
    LostCluster {
        /// The cluster of the store.
        cluster: String,
    },
    /// The store has data that the cluster lacks.
    #[error(
        "the store belongs to a daemon that was alone, and the cluster has data of its own; to join it, start with an \
         empty data folder"
    )]
    HasData,
    /// The cluster has another registry.
    #[error("the cluster's registry is {expected}, and [registry] names {found}; write the cluster's")]
    OtherRegistry {
        /// The registry of the cluster.
        expected: String,
        /// The configured one.
        found: String,
    },
    /// No other replica can be copied.
    #[error("no replica of the cluster could be copied: {0}")]
    NoPeer(String),
    /// Another replica has the name.
    #[error("another replica of the cluster runs under the name {name}; give each one its own cluster.name")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The store is a replica, and the daemon is not configured as one.
    #[error(
        "the store in {} is a replica of cluster {cluster}, and the configuration has no [cluster]: what it wrote alone \
         would be lost to the others. To make it the store of a daemon that is alone: selfsame cluster leave",
        path.display()
    )]
    NotAlone {
        /// The store's folder.
        path: PathBuf,
        /// The cluster of the store.
        cluster: String,
    },
    /// A folder or file in the data folder cannot be changed.
    #[error("{}: {error}", path.display())]
    Folder {
        /// The path.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
}

/// Why a copy did not arrive.
#[derive(Debug)]
pub enum FetchError {
    /// The other replica did not send it. Another one may.
    Peer(String),
    /// This one cannot keep it.
    Local {
        /// Where it cannot be kept.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
}

/// Copies the data folder of the replica at an address to that of this one, which has no store. The
/// store becomes a replica of the cluster with this id, with an id of its own. When this fails, the
/// data folder has no store.
pub type FetchCopy<'a> = dyn Fn(String, String, [u8; 16]) -> BoxFuture<'a, Result<(), FetchError>> + Send + Sync + 'a;

/// What a daemon needs to become a replica.
pub struct Joining<'a> {
    /// The members of etcd.
    pub etcd: &'a Arc<Etcd>,
    /// Fetches a copy from the replica at an address; then come the id of the cluster and that of
    /// the copied store.
    pub fetch: &'a FetchCopy<'a>,
    /// The name of this replica.
    pub name: &'a str,
    /// The folder of the store, which is in the data folder.
    pub store: &'a Path,
    /// Where ids are taken from.
    pub random: &'a dyn Random,
}

/// What the cluster is, and whether this data folder begins it.
pub struct Standing {
    /// The cluster; `None` when etcd gives no answer, and the store is a replica.
    record: Option<ClusterRecord>,
    /// Whether this replica is the first one.
    founds: bool,
}

impl Standing {
    /// The registry of the cluster, if it is known.
    pub fn domain(&self) -> Option<RegistryDomain> {
        let record = self.record.as_ref()?;
        Some(RegistryDomain { chain_id: record.chain_id, verifying_contract: record.verifying_contract })
    }
}

impl Joining<'_> {
    /// Finds the cluster, or begins it with the registry `domain`. Copies the data folder of
    /// another replica when this one has no store.
    ///
    /// # Errors
    /// [`MembershipError`] says why this data folder does not become a replica.
    pub async fn before_opening(&self, domain: RegistryDomain) -> Result<Standing, MembershipError> {
        self.end_interrupted_copy()?;
        let has_store = self.has_store();
        let found = match self.find().await {
            // A replica answers reads from its store, also without etcd.
            Err(error) if has_store => {
                tracing::warn!(%error, "etcd does not say which cluster this is");
                return Ok(Standing { record: None, founds: false });
            }
            found => found?,
        };
        let (record, founds) = match found {
            Some(record) if has_store => (record, false),
            Some(record) if self.is_unfinished_founder(&record).await? => (record, true),
            Some(record) => {
                self.copy(&record).await?;
                (record, false)
            }
            // Its store says whether it was a replica.
            None if has_store => return Ok(Standing { record: None, founds: true }),
            None => {
                let record = self.new_record(domain, self.random_id());
                match self.found(&record).await? {
                    None => (record, true),
                    Some(other) => {
                        self.copy(&other).await?;
                        (other, false)
                    }
                }
            }
        };
        Ok(Standing { record: Some(record), founds })
    }

    /// Makes an opened store a replica, or checks that it is one.
    ///
    /// # Errors
    /// [`MembershipError`] says why the store is not one of this cluster.
    pub async fn after_opening(&self, store: &Store, standing: Standing) -> Result<Membership, MembershipError> {
        let Standing { record, founds } = standing;
        let membership = store.membership()?;
        match (record, membership) {
            (Some(record), Some(membership)) if record.id == hex::encode(membership.cluster) => Ok(membership),
            (Some(record), Some(membership)) => {
                Err(MembershipError::OtherCluster { found: hex::encode(membership.cluster), expected: record.id })
            }
            (Some(record), None) if founds || self.is_unfinished_founder(&record).await? => self.join(store, &record),
            (Some(_), None) => Err(MembershipError::HasData),
            // etcd gave no answer.
            (None, Some(membership)) if !founds => Ok(membership),
            (None, None) if !founds => Err(EtcdError::NoMember.into()),
            // A founder that has written nothing founds the cluster again.
            (None, Some(membership)) if store.journal_position()? > Position::default() => {
                Err(MembershipError::LostCluster { cluster: hex::encode(membership.cluster) })
            }
            (None, membership) => {
                let id = membership.map_or_else(|| self.random_id(), |membership| hex::encode(membership.cluster));
                let record = self.new_record(store.domain(), id);
                match self.found(&record).await? {
                    None => self.join(store, &record),
                    Some(_) => Err(MembershipError::HasData),
                }
            }
        }
    }

    /// Whether the journal no longer has what the store lacks; `false` while etcd gives no answer.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn is_left_behind(&self, store: &Store) -> Result<bool, MembershipError> {
        let position = store.journal_position()?;
        Ok(is_truncated(&EtcdJournal::new(Arc::clone(self.etcd)), position).await)
    }

    /// Puts the store that was left behind aside, and copies that of another replica. The store
    /// must be closed.
    ///
    /// # Errors
    /// [`MembershipError::NoPeer`]: no other replica could be copied. The old store is there again.
    pub async fn copy_again(&self) -> Result<(), MembershipError> {
        let record = self.find().await?.ok_or(EtcdError::NoMember)?;
        let (store, behind) = (self.store, self.store.with_extension(BEHIND));
        std::fs::rename(store, &behind).map_err(at(store))?;
        if let Err(error) = self.copy(&record).await {
            std::fs::rename(&behind, store).map_err(at(&behind))?;
            return Err(error);
        }
        std::fs::remove_dir_all(&behind).map_err(at(&behind))
    }

    /// Ends what a kill has interrupted in [`Joining::copy_again`]. With a complete copy, the store
    /// that was put aside is removed; without, it becomes the store again.
    fn end_interrupted_copy(&self) -> Result<(), MembershipError> {
        let behind = self.store.with_extension(BEHIND);
        match (behind.exists(), self.has_store()) {
            (false, _) => Ok(()),
            (true, true) => std::fs::remove_dir_all(&behind).map_err(at(&behind)),
            (true, false) => std::fs::rename(&behind, self.store).map_err(at(&behind)),
        }
    }

    fn has_store(&self) -> bool {
        self.store.join("CURRENT").exists()
    }

    fn random_bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes);
        bytes
    }

    fn random_id(&self) -> String {
        hex::encode(self.random_bytes())
    }

    fn new_record(&self, domain: RegistryDomain, id: String) -> ClusterRecord {
        let RegistryDomain { chain_id, verifying_contract } = domain;
        ClusterRecord { id, founder: self.name.to_owned(), chain_id, verifying_contract }
    }

    /// What etcd has of the cluster.
    async fn find(&self) -> Result<Option<ClusterRecord>, EtcdError> {
        let deadline = Instant::now() + ETCD_PATIENCE;
        loop {
            match read::<ClusterRecord>(self.etcd, self.etcd.keys().cluster()).await {
                Err(error) if Instant::now() < deadline && !matches!(error, EtcdError::Foreign { .. }) => {
                    tracing::debug!(%error, "waiting for etcd");
                    sleep(RETRY_INTERVAL).await;
                }
                found => return found,
            }
        }
    }

    /// Writes the cluster's key, unless another replica has; then returns what that one wrote.
    async fn found(&self, record: &ClusterRecord) -> Result<Option<ClusterRecord>, EtcdError> {
        let key = self.etcd.keys().cluster();
        let value = serde_json::to_vec(record).unwrap_or_default();
        let transaction = Txn::new()
            .when([Compare::create_revision(key.clone(), CompareOp::Equal, 0)])
            .and_then([TxnOp::put(key.clone(), value, None)]);
        self.etcd.ask(PATIENCE, async |client| client.kv_client().txn(transaction).await).await?;
        let written = read::<ClusterRecord>(self.etcd, key).await?;
        Ok(written.filter(|written| written != record))
    }

    /// Whether this replica began the cluster and was stopped before anyone else knew of it.
    async fn is_unfinished_founder(&self, record: &ClusterRecord) -> Result<bool, EtcdError> {
        let is_founder = record.founder == self.name;
        Ok(is_founder && replicas(self.etcd).await?.is_empty())
    }

    fn join(&self, store: &Store, record: &ClusterRecord) -> Result<Membership, MembershipError> {
        let mut cluster = [0; 16];
        hex::decode_to_slice(&record.id, &mut cluster)
            .map_err(|_| EtcdError::Foreign { key: self.etcd.keys().cluster() })?;
        let membership = Membership { cluster, store: self.random_bytes() };
        store.join_cluster(&membership)?;
        tracing::info!(cluster = record.id, "this data folder is a replica of the cluster now");
        Ok(membership)
    }

    /// Copies the data folder of another replica.
    async fn copy(&self, record: &ClusterRecord) -> Result<(), MembershipError> {
        let deadline = Instant::now() + PEER_PATIENCE;
        loop {
            let mut problems = Vec::new();
            let peers = replicas(self.etcd).await?;
            for peer in peers.iter().filter(|peer| peer.name != self.name) {
                let store_id = self.random_bytes();
                match (self.fetch)(peer.address.clone(), record.id.clone(), store_id).await {
                    Ok(()) => {
                        tracing::info!(replica = peer.name, "the data folder is a copy of another replica's");
                        return Ok(());
                    }
                    Err(FetchError::Local { path, error }) => return Err(MembershipError::Folder { path, error }),
                    Err(FetchError::Peer(problem)) => {
                        problems.push(format!("{} at {}: {problem}", peer.name, peer.address))
                    }
                }
            }
            if Instant::now() >= deadline {
                let none = || "no other one is registered in etcd".to_owned();
                let problem = if problems.is_empty() { none() } else { problems.join("; ") };
                return Err(MembershipError::NoPeer(problem));
            }
            sleep(RETRY_INTERVAL).await;
        }
    }
}

/// Whether the journal lacks the entry after a position, and has later ones. `false` while etcd
/// gives no answer.
pub async fn is_truncated(journal: &EtcdJournal, position: Position) -> bool {
    match journal.head().await {
        Ok((end, _)) if end > position => {}
        _ => return false,
    }
    matches!(timeout(PATIENCE, journal.follow(position).next()).await, Ok(Some(Err(JournalError::Truncated(_)))))
}

/// What etcd has of the replicas.
///
/// # Errors
/// etcd gives no answer, or a value is not one of this program's.
pub async fn replicas(etcd: &Etcd) -> Result<Vec<ReplicaRecord>, EtcdError> {
    let prefix = etcd.keys().replicas();
    let options = GetOptions::new().with_prefix();
    let question = async |client: Client| client.kv_client().get(prefix, Some(options)).await;
    let found = etcd.ask(PATIENCE, question).await?;
    let records = found.kvs().iter().map(|pair| {
        let key = || String::from_utf8_lossy(pair.key()).into_owned();
        serde_json::from_slice(pair.value()).map_err(|_| EtcdError::Foreign { key: key() })
    });
    records.collect()
}

/// The value of a key, as JSON; `None` when there is none.
///
/// # Errors
/// etcd gives no answer, or the value is not one of this program's.
pub async fn read<T: DeserializeOwned>(etcd: &Etcd, key: String) -> Result<Option<T>, EtcdError> {
    let question = async |client: Client| client.kv_client().get(key.clone(), None).await;
    let found = etcd.ask(PATIENCE, question).await?;
    let value = found.kvs().first().map(|pair| serde_json::from_slice(pair.value()));
    value.transpose().map_err(|_| EtcdError::Foreign { key })
}

/// Names the path of an error of the file system.
fn at(path: &Path) -> impl FnOnce(std::io::Error) -> MembershipError {
    let path = path.to_owned();
    move |error| MembershipError::Folder { path, error }
}
