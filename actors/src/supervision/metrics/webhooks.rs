//! The metrics of webhooks.

use super::sink::Reporter;
use crate::events::handle::{DeliveryCounts, EventsHandle};

/// Reports them, for each webhook of the settings.
pub(super) fn report(events: &EventsHandle, reporter: &mut Reporter<'_>) {
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
