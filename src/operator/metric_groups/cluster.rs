//! The metrics of the cluster that the daemon is a replica of.

use std::fmt;

use selfsame_actors::Service;

use super::samples::Samples;
use crate::cluster::SeenReplica;
use crate::operator::own_cluster::OwnCluster;

/// Writes them; none for a daemon that is alone.
pub(super) fn write(cluster: Option<&OwnCluster>, service: &Service, samples: &mut Samples<'_>) -> fmt::Result {
    let Some((OwnCluster { view, .. }, status)) = cluster.zip(service.replica_status()) else { return Ok(()) };
    let is_leading = u64::from(status.leading.is_some());
    samples.gauge("selfsame_cluster_leading", "1 while this replica leads", is_leading)?;
    let has_leader = u64::from(matches!(status.leader, Some(Ok(_))));
    samples.gauge("selfsame_cluster_has_leader", "1 while this replica knows who leads", has_leader)?;
    samples.gauge(
        "selfsame_cluster_position",
        "The last entry of the journal that the store has",
        status.position.0,
    )?;
    if let Some(end) = status.end {
        samples.gauge("selfsame_cluster_journal_end", "The last entry of the journal at the last look", end.0)?;
    }
    if let Some(age) = status.staleness {
        let help = "Time since the store was seen to have everything that the journal has";
        samples.gauge("selfsame_cluster_staleness_seconds", help, age.as_secs_f64())?;
    }
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
