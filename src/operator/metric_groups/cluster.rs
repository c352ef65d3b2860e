//! The metrics of what the replicas of the cluster publish.

use std::fmt;

use super::samples::Samples;
use crate::cluster::SeenReplica;
use crate::operator::own_cluster::OwnCluster;

/// Writes them; none for a daemon that is alone. What this replica knows itself is among the
/// numbers of its service.
pub(super) fn write(cluster: Option<&OwnCluster>, samples: &mut Samples<'_>) -> fmt::Result {
    let Some(OwnCluster { view, .. }) = cluster else { return Ok(()) };
    let replicas = view.replicas();
    let of = |value: fn(&SeenReplica) -> u64| {
        replicas.iter().map(move |replica| ([("replica", replica.record.name.as_str())], value(replica)))
    };
    let help = "The last entry of the journal that a replica has published to have";
    samples.gauges("selfsame_cluster_replica_position", help, of(|replica| replica.record.position))?;
    let help = "The last entry that a power failure leaves in a replica's store";
    samples.gauges("selfsame_cluster_replica_synced", help, of(|replica| replica.record.synced))?;
    let help = "Height of the newest block that a replica has applied";
    samples.gauges("selfsame_cluster_replica_height", help, of(|replica| replica.record.height))?;
    let help = "Time since a replica has published anything, in whole seconds";
    let silent = of(|replica| replica.changed_at.elapsed().as_secs());
    samples.gauges("selfsame_cluster_replica_silent_seconds", help, silent)
}
