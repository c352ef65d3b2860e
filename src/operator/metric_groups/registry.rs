//! The metrics of the registry, and of the commits.

use std::fmt;

use selfsame_actors::{CommitMeasurements, RegistryHandle, RegistryMeasurements, RegistryStatistics};

use super::samples::Samples;

/// Writes them.
pub(super) fn write(registry: &RegistryHandle, samples: &mut Samples<'_>) -> fmt::Result {
    let statistics = registry.statistics();
    let RegistryStatistics { accepted, finalized, failed, open_requests, queue_length, .. } = statistics;
    let states = [("accepted", accepted), ("finalized", finalized), ("failed", failed)];
    let help = "Requests by the state that they came to";
    let values = states.map(|(state, count)| ([("state", state)], count));
    samples.counters("selfsame_registry_requests", help, values)?;
    samples.gauge("selfsame_registry_open_requests", "Requests accepted and not final", open_requests as u64)?;
    let help = "The most requests that may be open";
    samples.gauge("selfsame_registry_open_requests_limit", help, queue_length as u64)?;
    let help = "Clients that wait for a final state";
    samples.gauge("selfsame_registry_status_waiters", help, statistics.status_waiters as u64)?;
    let help = "Height of the last sealed block";
    samples.gauge("selfsame_registry_ledger_height", help, statistics.ledger_height)?;
    let help = "Height of the last applied block";
    samples.gauge("selfsame_registry_applied_height", help, statistics.applied_height)?;
    samples.gauge("selfsame_registry_accounts", "Accounts", statistics.accounts)?;
    let last_block = registry.snapshot().tip().seal.time;
    let help = "Time of the last applied block, in Unix time; 0 before the first";
    samples.gauge("selfsame_registry_last_block_timestamp_seconds", help, last_block.0)?;

    let measured = registry.measurements();
    let RegistryMeasurements { final_seconds, block_operations, seal_seconds, apply_seconds, oldest_open } = &measured;
    let help = "Age of the oldest request that is not final; 0 when there is none";
    let oldest = oldest_open.unwrap_or_default().as_secs_f64();
    samples.gauge("selfsame_registry_oldest_open_request_age_seconds", help, oldest)?;
    let help = "Time from the admission of a request to its published final state";
    samples.histogram("selfsame_registry_request_duration_seconds", help, final_seconds)?;
    samples.histogram("selfsame_registry_block_operations", "Operations in a block", block_operations)?;
    let help = "Time to seal a block and to append it to the ledger, with the sync";
    samples.histogram("selfsame_registry_block_seal_duration_seconds", help, seal_seconds)?;
    let help = "Time to apply a block and to publish the new state";
    samples.histogram("selfsame_registry_block_apply_duration_seconds", help, apply_seconds)?;

    let CommitMeasurements { seconds, changes } = registry.commits();
    let help = "Time of a synced write of the group commit";
    samples.histogram("selfsame_store_commit_duration_seconds", help, &seconds)?;
    samples.histogram("selfsame_store_commit_changes", "Changes that shared a synced write", &changes)
}
