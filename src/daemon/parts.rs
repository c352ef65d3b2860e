//! The daemon's parts, as the operator interface asks for them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use selfsame_actors::ChainNode;
use selfsame_cluster::{ClusterView, SILENT_AFTER};
use selfsame_interfaces::operator::{
    BackupHealth, BackupRefusal, BackupStatistics, ChainNodeCounters, DaemonParts, LostLines, SeenCluster, SeenReplica,
};
use selfsame_protocol::operator::Backup;

use crate::backup::BackupError;
use crate::backup::jobs::{Backups, BeginError, BegunBy};
use crate::chain::JsonRpcNode;
use crate::logging;

/// The parts that the operator interface shows.
pub(super) struct OperatorParts {
    pub backups: Arc<Backups>,
    /// The nodes of the followed chains, each with the name of its chain.
    pub nodes: Vec<(String, Arc<JsonRpcNode>)>,
    /// What this replica sees of its cluster, and how old answers about tokens may be; `None` for a
    /// daemon that is alone.
    pub cluster: Option<(Arc<ClusterView>, Duration)>,
}

impl DaemonParts for OperatorParts {
    fn lost_lines(&self) -> LostLines {
        let losses = logging::losses();
        LostLines {
            ordinary: losses.ordinary,
            audit_or_error: losses.audit_or_error,
            degraded_since: losses.degraded_since,
        }
    }

    fn chain_nodes(&self) -> Vec<ChainNodeCounters> {
        let counters = |(chain, node): &(String, Arc<JsonRpcNode>)| {
            let counted = node.counters();
            ChainNodeCounters {
                chain: chain.clone(),
                node: node.name().to_owned(),
                requests: counted.requests,
                received_bytes: counted.bytes_received,
            }
        };
        self.nodes.iter().map(counters).collect()
    }

    fn backups(&self) -> Vec<Backup> {
        self.backups.known()
    }

    fn backup_health(&self) -> BackupHealth {
        self.backups.health()
    }

    fn backup_statistics(&self) -> BackupStatistics {
        self.backups.statistics()
    }

    fn begin_backup(&self, folder: &Path) -> Result<Backup, BackupRefusal> {
        self.backups.begin(folder, BegunBy::Operator).map_err(|error| {
            let text = error.to_string();
            match error {
                BeginError::Busy(_) => BackupRefusal::Busy(text),
                BeginError::Refused(BackupError::Target { .. } | BackupError::File { .. }) => {
                    BackupRefusal::Folder(text)
                }
                BeginError::Refused(BackupError::Stopped) => BackupRefusal::Stopping(text),
                BeginError::Refused(_) => BackupRefusal::Failed(text),
            }
        })
    }

    fn backup_ended(&self, id: u64) -> BoxFuture<'_, ()> {
        self.backups.wait_until_ended(id).boxed()
    }

    fn cluster(&self) -> Option<SeenCluster> {
        let (view, staleness) = self.cluster.as_ref()?;
        let replicas = view.replicas().into_iter().map(|seen| {
            let silent_for = seen.changed_at.elapsed();
            let record = seen.record;
            SeenReplica {
                silent_for,
                is_running: silent_for < SILENT_AFTER,
                unreached: view.unreached(&record.name).filter(|(time, _)| *time >= SILENT_AFTER),
                name: record.name,
                address: record.address,
                version: record.version,
                position: record.position,
                synced: record.synced,
                height: record.height,
            }
        });
        let (name, staleness, is_known) = (view.name().to_owned(), *staleness, view.is_known());
        Some(SeenCluster { name, staleness, is_known, replicas: replicas.collect() })
    }

    fn remove_replica(&self, name: String) -> BoxFuture<'_, Result<bool, String>> {
        async move {
            let Some((view, _)) = &self.cluster else { return Ok(false) };
            let refused = |error| format!("the cluster's data in etcd cannot be changed: {error}");
            view.remove(&name).await.map_err(refused)
        }
        .boxed()
    }
}
