//! The metrics of a replica.

use super::sink::Reporter;
use crate::supervision::replication::ReplicaStatus;

/// Reports them.
pub(super) fn report(status: &ReplicaStatus, reporter: &mut Reporter<'_>) {
    let is_leading = u64::from(status.leading.is_some());
    reporter.gauge("selfsame_cluster_leading", "1 while this replica leads", is_leading);
    let has_leader = u64::from(matches!(status.leader, Some(Ok(_))));
    reporter.gauge("selfsame_cluster_has_leader", "1 while this replica knows who leads", has_leader);
    reporter.gauge("selfsame_cluster_position", "The last entry of the journal that the store has", status.position.0);
    if let Some(end) = status.end {
        reporter.gauge("selfsame_cluster_journal_end", "The last entry of the journal at the last look", end.0);
    }
    if let Some(age) = status.staleness {
        let help = "Time since the store was seen to have everything that the journal has";
        reporter.gauge("selfsame_cluster_staleness_seconds", help, age.as_secs_f64());
    }
}
