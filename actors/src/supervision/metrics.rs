//! Every number that a service counts, in one list.
//!
//! The list is [`Service::report_metrics`], with a section for each group. An embedder gives the
//! numbers to the metrics of its own program; the daemon writes them for Prometheus. Nothing is
//! counted twice for it: each number is read from its owner when it is asked for.

use selfsame_storage::{CommitMeasurements, HistogramSnapshot, StoreStatistics};

use super::health::ActorHealth;
use super::replication::ReplicaStatus;
use super::service::Service;
use crate::bridge::handle::BridgeHandle;
use crate::chain::handle::{ChainStatus, SourceData, SourceStatus};
use crate::events::handle::{DeliveryCounts, EventsHandle};
use crate::registry::handle::{RegistryHandle, RegistryStatistics};
use crate::registry::open_requests::RegistryMeasurements;
use crate::sign_in::handle::SignInHandle;
use crate::verification::handle::{VerdictKey, VerificationHandle, VerifierMeasurements, VerifierStatistics};

impl Service {
    /// Gives every number of the service to `sink`, each metric once with all its samples.
    ///
    /// Reads atomics, the newest snapshot and RocksDB's own counts; takes well under a millisecond,
    /// and does not wait for an actor. Call it as often as the numbers are looked at.
    pub fn report_metrics(&self, sink: &mut dyn MetricsSink) {
        let mut reporter = Reporter::new(self.instance(), sink);
        report_actors(&self.actors(), &mut reporter);
        if let Some(status) = self.replica_status() {
            report_cluster(&status, &mut reporter);
        }
        report_registry(&self.registry(), &mut reporter);
        // What cannot be read is left out.
        if let Ok(statistics) = self.registry().store_statistics() {
            report_store(&statistics, &mut reporter);
        }
        report_verifier(&self.verification(), &mut reporter);
        report_sign_in(&self.sign_in(), &mut reporter);
        report_bridge(&self.bridge(), &mut reporter);
        report_webhooks(&self.events(), &mut reporter);
        report_chains(&self.chain().status(self.now()), &mut reporter);
        report_source_limits(&self.source_limit_refusals(), &mut reporter);
    }
}

// The metrics of the actors.

/// Reports the metrics of this section.
pub(super) fn report_actors(actors: &[ActorHealth], reporter: &mut Reporter<'_>) {
    let of = |value: fn(&ActorHealth) -> f64| {
        actors.iter().map(move |health| ([("actor", actor_label(&health.name))], value(health)))
    };
    let restarts = actors.iter().map(|health| ([("actor", actor_label(&health.name))], health.restarts));
    reporter.counters("selfsame_actor_restarts", "Starts of an actor after its first", restarts);
    let help = "Calls that wait for an actor's answer";
    let waiting_calls =
        actors.iter().map(|health| ([("actor", actor_label(&health.name))], health.waiting_calls as u64));
    reporter.gauges("selfsame_actor_waiting_calls", help, waiting_calls);
    let help = "Time since an actor last answered; of a verifier worker, time since it took its present batch";
    reporter.gauges("selfsame_actor_silent_seconds", help, of(|health| health.silent_for.as_secs_f64()));
    let help = "Time that the last question waited in an actor's mailbox; it is asked once a second";
    reporter.gauges("selfsame_actor_mailbox_wait_seconds", help, of(|health| health.mailbox_wait.as_secs_f64()));
}

/// An actor's name without that of the instance, and without the number of its start, so that each
/// restart has the same label.
fn actor_label(name: &str) -> &str {
    let name = name.split_once('/').map_or(name, |(_, name)| name);
    name.rsplit_once('.').map_or(name, |(name, _)| name)
}

// The metrics of a replica.

/// Reports the metrics of this section.
pub(super) fn report_cluster(status: &ReplicaStatus, reporter: &mut Reporter<'_>) {
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

// The metrics of the registry, and of the commits.

/// Reports the metrics of this section.
pub(super) fn report_registry(registry: &RegistryHandle, reporter: &mut Reporter<'_>) {
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

// The metrics of RocksDB.

/// Reports the metrics of this section.
pub(super) fn report_store(statistics: &StoreStatistics, reporter: &mut Reporter<'_>) {
    let levels: Vec<_> = (0..statistics.level_bytes.len()).map(|level| level.to_string()).collect();
    let by_level = std::iter::zip(&levels, &statistics.level_bytes);
    let by_level = by_level.map(|(level, bytes)| ([("level", level.as_str())], *bytes));
    reporter.gauges("selfsame_store_level_bytes", "Bytes in the files of a level of RocksDB", by_level);
    let help = "Bytes in RocksDB's write buffers";
    reporter.gauge("selfsame_store_write_buffer_bytes", help, statistics.write_buffer_bytes);
    let help = "Bytes in RocksDB's cache of blocks";
    reporter.gauge("selfsame_store_block_cache_bytes", help, statistics.block_cache_bytes);
    let help = "Bytes that RocksDB's compactions still have to rewrite, an estimate";
    reporter.gauge("selfsame_store_pending_compaction_bytes", help, statistics.pending_compaction_bytes);
    let help = "Compactions of RocksDB that run now";
    reporter.gauge("selfsame_store_running_compactions", help, statistics.running_compactions);
    let help = "1 while RocksDB has stopped writes until its compactions catch up";
    reporter.gauge("selfsame_store_write_stopped", help, u64::from(statistics.is_write_stopped));
    let help = "Failures of RocksDB's background work";
    reporter.counter("selfsame_store_background_errors", help, statistics.background_errors);
}

// The metrics of the verifier.

/// Reports the metrics of this section.
pub(super) fn report_verifier(verification: &VerificationHandle, reporter: &mut Reporter<'_>) {
    let VerifierStatistics { proofs_inside, queue, sign_in_proofs_inside, sign_in_queue, good, bad } =
        verification.statistics();
    let results = [([("result", "good")], good), ([("result", "bad")], bad)];
    let help = "Proofs whose pairing was checked, by whether they hold";
    reporter.counters("selfsame_verifier_checked_proofs", help, results);
    let queues = |requests: usize, sign_ins: usize| {
        [([("queue", "verification")], requests as u64), ([("queue", "sign_in")], sign_ins as u64)]
    };
    let help = "Proofs that wait for a worker or are being checked";
    reporter.gauges("selfsame_verifier_proofs_inside", help, queues(proofs_inside, sign_in_proofs_inside));
    let help = "The most proofs that may wait or be checked";
    reporter.gauges("selfsame_verifier_proofs_inside_limit", help, queues(queue, sign_in_queue));

    let VerifierMeasurements { batch_proofs, wait_seconds, check_seconds, verdicts } = verification.measurements();
    let verdicts = verdicts.iter().map(|(VerdictKey { environment, kind, outcome }, count)| {
        ([("environment", *environment), ("kind", *kind), ("outcome", *outcome)], *count)
    });
    let help = "Proofs by what came of them: verified, or the code of the error";
    reporter.counters("selfsame_verifier_verdicts", help, verdicts);
    reporter.histogram("selfsame_verifier_batch_proofs", "Proofs that were checked together", &batch_proofs);
    let help = "Time that a proof waited for a worker";
    reporter.histogram("selfsame_verifier_wait_duration_seconds", help, &wait_seconds);
    let help = "Time that a worker took for a batch";
    reporter.histogram("selfsame_verifier_check_duration_seconds", help, &check_seconds);
}

// The metrics of sign-in. The daemon counts the events of sign-ins in its audit trail.

/// Reports the metrics of this section.
pub(super) fn report_sign_in(sign_in: &SignInHandle, reporter: &mut Reporter<'_>) {
    let help = "Authorization requests for a code with neither code_challenge nor nonce";
    let statistics = sign_in.statistics();
    reporter.counter("selfsame_sign_in_unprotected_code_requests", help, statistics.unprotected_code_requests);
    let help = "Sign-ins begun since the start that expired before a person answered them";
    reporter.counter("selfsame_sign_in_expired_unanswered", help, statistics.expired_unanswered);
    let Some(promoted_at) = sign_in.current_key_promoted_at() else { return };
    let help = "When the key that signs ID tokens began to sign, in Unix time";
    reporter.gauge("selfsame_sign_in_current_key_promoted_timestamp_seconds", help, promoted_at.0);
}

// The metrics of the message bridge.

/// Reports the metrics of this section.
pub(super) fn report_bridge(bridge: &BridgeHandle, reporter: &mut Reporter<'_>) {
    let statistics = bridge.statistics();
    let help = "Requests and answers that the message bridge keeps";
    reporter.gauge("selfsame_bridge_entries", help, statistics.entries as u64);
    let help = "What the entries of the message bridge take, in bytes, as its limit counts them";
    reporter.gauge("selfsame_bridge_bytes", help, statistics.bytes as u64);
    let help = "Messages that the message bridge refused because all together leave no room";
    reporter.counter("selfsame_bridge_refused_full", help, statistics.refused_full);
}

// The metrics of webhooks.

/// Reports them, for each webhook of the settings.
pub(super) fn report_webhooks(events: &EventsHandle, reporter: &mut Reporter<'_>) {
    let webhooks = events.counts();
    if webhooks.is_empty() {
        return;
    }
    let of = |value: fn(&DeliveryCounts) -> u64| {
        webhooks.iter().map(move |(id, counts)| ([("webhook", id.as_str())], value(counts)))
    };
    let help = "Webhooks that were accepted";
    reporter.counters("selfsame_webhook_delivered", help, of(|counts| counts.delivered));
    let help = "Attempts to send a webhook that failed";
    reporter.counters("selfsame_webhook_failed", help, of(|counts| counts.failed));
    let help = "Events that are being sent, or wait for another attempt";
    reporter.gauges("selfsame_webhook_waiting", help, of(|counts| counts.waiting));
    let help = "Events that a webhook has not accepted in all attempts";
    reporter.gauges("selfsame_webhook_dead_letters", help, of(|counts| counts.dead));
    let help = "Events that were given up, and are not kept as dead letters";
    reporter.gauges("selfsame_webhook_events_lost", help, of(|counts| counts.lost));
}

// The metrics of what is followed from chains.

/// Reports the metrics of this section.
pub(super) fn report_chains(chains: &[ChainStatus], reporter: &mut Reporter<'_>) {
    let sources: Vec<&SourceStatus> = chains.iter().flat_map(|chain| &chain.sources).collect();
    let ages = |age: fn(&SourceStatus) -> Option<u64>| {
        sources.iter().filter_map(move |source| Some(([("source", source.name.as_str())], age(source)?)))
    };
    let help = "Age of the last block at which a contract's data was complete";
    reporter.gauges("selfsame_chain_confirmed_age_seconds", help, ages(|source| source.confirmed_seconds_ago));
    let help = "Age of a contract's newest root";
    reporter.gauges("selfsame_chain_newest_root_age_seconds", help, ages(newest_root_age));
    let flags = |flag: fn(&SourceStatus) -> bool| {
        sources.iter().map(move |source| ([("source", source.name.as_str())], u64::from(flag(source))))
    };
    let help = "1 while a contract's data is unread or too old, so that proofs are refused";
    reporter.gauges("selfsame_chain_stale", help, flags(|source| !source.is_usable()));
    let help = "1 while the last look at a contract failed";
    reporter.gauges("selfsame_chain_failing", help, flags(|source| source.failure.is_some()));
    let help = "1 while a contract runs code that was not accepted";
    reporter.gauges("selfsame_chain_alarm", help, flags(|source| source.alarm.is_some()));
    let reorganizations = sources.iter().map(|source| ([("source", source.name.as_str())], source.reorganizations));
    reporter.counters("selfsame_chain_reorganizations", "Reorganizations that were followed", reorganizations);
}

fn newest_root_age(source: &SourceStatus) -> Option<u64> {
    match source.data {
        SourceData::Roots { newest_root_seconds_ago, .. } => newest_root_seconds_ago,
        _ => None,
    }
}

// The metrics of the limits of one source, and of one application.

/// How many requests a limit of one source, or of one application, refused since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLimitRefusals {
    /// The name of the limit.
    pub limit: &'static str,
    /// The requests that it is for.
    pub endpoints: &'static str,
    /// How many it refused.
    pub refused: u64,
}

impl Service {
    /// What the limits of one source refused. A front-end has limits of its own, which it counts
    /// itself.
    pub fn source_limit_refusals(&self) -> [SourceLimitRefusals; 12] {
        let registry = self.registry().source_refusals();
        let verification = self.verification().source_refusals();
        let sign_in = self.sign_in().source_refusals();
        let bridge = self.bridge().statistics();
        [
            ("per_source", "gateway", registry.operations),
            ("per_source", "receipts", registry.receipts),
            ("verifications_per_source", "verification", verification.per_source),
            ("verifications_per_application", "verification", verification.per_application),
            ("verifier_queue", "verification", verification.queue),
            ("sign_ins_per_source", "sign-in", sign_in.per_source),
            ("verifier_queue", "sign-in", verification.sign_in_queue),
            ("open_sign_ins", "sign-in", sign_in.open_sign_ins),
            ("followers_per_source", "sign-in", sign_in.followers),
            ("bridge_per_source", "bridge", bridge.refused_rate),
            ("memory_mib", "bridge", bridge.refused_of_source),
            ("followers_per_source", "bridge", bridge.refused_followers),
        ]
        .map(|(limit, endpoints, refused)| SourceLimitRefusals { limit, endpoints, refused })
    }
}

/// Reports the metrics of this section.
pub(super) fn report_source_limits(refusals: &[SourceLimitRefusals], reporter: &mut Reporter<'_>) {
    let values = refusals.iter().map(|SourceLimitRefusals { limit, endpoints, refused }| {
        ([("limit", *limit), ("endpoints", *endpoints)], *refused)
    });
    let help = "Requests and connections refused by the limit of one source or application";
    reporter.counters("selfsame_source_limit_refusals", help, values);
}

// What a metric is, and who takes it.

/// A metric: what its samples count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric<'a> {
    /// [`crate::Settings::instance`] of the service. It is in no label: a program with several
    /// services adds it.
    pub instance: &'a str,
    /// The name in OpenMetrics: lower-case letters, digits and `_`, with the unit at the end. A
    /// counter's name has no `_total`; exporters for Prometheus append it.
    pub name: &'static str,
    /// What is counted, for people.
    pub help: &'static str,
    /// The unit of the values; `None` for plain numbers.
    pub unit: Option<MetricUnit>,
    /// How the values behave.
    pub kind: MetricKind,
}

/// How the values of a metric behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows, from zero at the start of the service.
    Counter,
    /// A number that grows and shrinks.
    Gauge,
    /// How often values fell into ranges since the start.
    Histogram,
}

/// The unit of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    /// Seconds, of a length of time or, in a name with `_timestamp_`, since 1970.
    Seconds,
    /// Bytes.
    Bytes,
}

impl MetricUnit {
    /// The unit that a name ends with.
    fn of(name: &str) -> Option<Self> {
        match name.rsplit_once('_')?.1 {
            "seconds" => Some(Self::Seconds),
            "bytes" => Some(Self::Bytes),
            _ => None,
        }
    }
}

/// One value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricSample<'a> {
    /// What distinguishes the value from others of the metric: pairs of name and value. No text of
    /// a client is in them.
    pub labels: &'a [(&'static str, &'a str)],
    /// The value.
    pub value: MetricValue<'a>,
}

/// A value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricValue<'a> {
    /// A whole number, of a counter or a gauge.
    Integer(u64),
    /// A gauge that is no whole number.
    Real(f64),
    /// The ranges of a histogram with their counts.
    Histogram(&'a HistogramSnapshot),
}

impl From<u64> for MetricValue<'_> {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for MetricValue<'_> {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// Takes the metrics of a service; see [`crate::Service::report_metrics`].
pub trait MetricsSink {
    /// Takes a metric with its samples: one without labels, or one for each combination of labels,
    /// which may be no sample at all.
    fn take(&mut self, metric: &Metric<'_>, samples: &[MetricSample<'_>]);
}

/// The labels of one sample, as pairs of name and value.
type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

/// Describes the metrics of one service to a sink.
pub(super) struct Reporter<'s> {
    instance: &'s str,
    sink: &'s mut dyn MetricsSink,
}

impl<'s> Reporter<'s> {
    pub fn new(instance: &'s str, sink: &'s mut dyn MetricsSink) -> Self {
        Self { instance, sink }
    }

    /// A number that only grows.
    pub fn counter(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.counters(name, help, [([], value)]);
    }

    /// Counters that differ in their labels.
    pub fn counters<'a, const N: usize>(
        &mut self,
        name: &'static str,
        help: &'static str,
        values: impl IntoIterator<Item = (Labels<'a, N>, u64)>,
    ) {
        self.report(MetricKind::Counter, name, help, values);
    }

    /// A number that grows and shrinks.
    pub fn gauge<'a>(&mut self, name: &'static str, help: &'static str, value: impl Into<MetricValue<'a>>) {
        self.gauges(name, help, [([], value)]);
    }

    /// Gauges that differ in their labels.
    pub fn gauges<'a, const N: usize>(
        &mut self,
        name: &'static str,
        help: &'static str,
        values: impl IntoIterator<Item = (Labels<'a, N>, impl Into<MetricValue<'a>>)>,
    ) {
        self.report(MetricKind::Gauge, name, help, values);
    }

    /// Counts by ranges.
    pub fn histogram(&mut self, name: &'static str, help: &'static str, histogram: &HistogramSnapshot) {
        self.report(MetricKind::Histogram, name, help, [([], MetricValue::Histogram(histogram))]);
    }

    fn report<'a, const N: usize>(
        &mut self,
        kind: MetricKind,
        name: &'static str,
        help: &'static str,
        values: impl IntoIterator<Item = (Labels<'a, N>, impl Into<MetricValue<'a>>)>,
    ) {
        let metric = Metric { instance: self.instance, name, help, unit: MetricUnit::of(name), kind };
        let values: Vec<_> = values.into_iter().map(|(labels, value)| (labels, value.into())).collect();
        let samples: Vec<_> = values.iter().map(|(labels, value)| MetricSample { labels, value: *value }).collect();
        self.sink.take(&metric, &samples);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_names_the_actor_and_neither_the_instance_nor_the_start() {
        assert_eq!(actor_label("selfsame-0/registry/batcher"), "registry/batcher");
        assert_eq!(actor_label("selfsame-0/verifier/worker-1.17"), "verifier/worker-1");
        assert_eq!(actor_label("alone"), "alone");
    }
}
