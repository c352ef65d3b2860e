//! The metrics of webhooks.

use std::fmt;

use selfsame_actors::{DeliveryCounts, EventsHandle};

use super::samples::Samples;

/// Writes them, for each webhook of the configuration.
pub(super) fn write(events: &EventsHandle, samples: &mut Samples<'_>) -> fmt::Result {
    let webhooks = events.counts();
    if webhooks.is_empty() {
        return Ok(());
    }
    let of = |value: fn(&DeliveryCounts) -> u64| {
        webhooks.iter().map(move |(id, counts)| ([("webhook", id.as_str())], value(counts)))
    };
    let help = "Webhooks that were accepted";
    samples.counters("selfsame_webhook_delivered", help, of(|counts| counts.delivered))?;
    let help = "Attempts to send a webhook that failed";
    samples.counters("selfsame_webhook_failed", help, of(|counts| counts.failed))?;
    let help = "Events that are being sent, or wait for another attempt";
    samples.gauges("selfsame_webhook_waiting", help, of(|counts| counts.waiting))?;
    let help = "Events that a webhook has not accepted in all attempts";
    samples.gauges("selfsame_webhook_dead_letters", help, of(|counts| counts.dead))?;
    let help = "Events that were given up, and are not kept as dead letters";
    samples.gauges("selfsame_webhook_events_lost", help, of(|counts| counts.lost))
}
