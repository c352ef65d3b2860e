//! The metrics of the registry, and of the commits.

use selfsame_storage::CommitMeasurements;

use super::sink::Reporter;
use crate::registry::handle::{RegistryHandle, RegistryStatistics};
use crate::registry::open_operations::RegistryMeasurements;

/// Reports them.
pub(super) fn report(registry: &RegistryHandle, reporter: &mut Reporter<'_>) {
    let statistics = registry.statistics();
    let RegistryStatistics { accepted, finalized, failed, open_requests, queue_length, .. } = statistics;
    let states = [("accepted", accepted), ("finalized", finalized), ("failed", failed)];
    let help = "Requests by the state that they came to";
    let values = states.map(|(state, count)| ([("state", state)], count));
    reporter.counters("selfsame_registry_requests", help, values);
    reporter.gauge("selfsame_registry_open_requests", "Requests accepted and not final", open_requests as u64);
    let help = "The most requests that may be open";
    reporter.gauge("selfsame_registry_open_requests_limit", help, queue_length as u64);
    let help = "Clients that wait for a final state";
    reporter.gauge("selfsame_registry_status_waiters", help, statistics.status_waiters as u64);
    let help = "Height of the last sealed block";
    reporter.gauge("selfsame_registry_ledger_height", help, statistics.ledger_height);
    let help = "Height of the last applied block";
    reporter.gauge("selfsame_registry_applied_height", help, statistics.applied_height);
    reporter.gauge("selfsame_registry_accounts", "Accounts", statistics.accounts);
    let last_block = registry.snapshot().tip().seal.time;
    let help = "Time of the last applied block, in Unix time; 0 before the first";
    reporter.gauge("selfsame_registry_last_block_timestamp_seconds", help, last_block.0);

    let measured = registry.measurements();
    let RegistryMeasurements { final_seconds, block_operations, seal_seconds, apply_seconds, oldest_open } = &measured;
    let help = "Age of the oldest request that is not final; 0 when there is none";
    let oldest = oldest_open.unwrap_or_default().as_secs_f64();
    reporter.gauge("selfsame_registry_oldest_open_request_age_seconds", help, oldest);
    let help = "Time from the admission of a request to its published final state";
    reporter.histogram("selfsame_registry_request_duration_seconds", help, final_seconds);
    reporter.histogram("selfsame_registry_block_operations", "Operations in a block", block_operations);
    let help = "Time to seal a block and to append it to the ledger, with the sync";
    reporter.histogram("selfsame_registry_block_seal_duration_seconds", help, seal_seconds);
    let help = "Time to apply a block and to publish the new state";
    reporter.histogram("selfsame_registry_block_apply_duration_seconds", help, apply_seconds);

    let CommitMeasurements { seconds, changes } = registry.commits();
    let help = "Time of a synced write of the group commit";
    reporter.histogram("selfsame_store_commit_duration_seconds", help, &seconds);
    reporter.histogram("selfsame_store_commit_changes", "Changes that shared a synced write", &changes);
}
