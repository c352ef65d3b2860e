//! The metrics of the message bridge.

use std::fmt;

use selfsame_actors::BridgeHandle;

use super::samples::Samples;

/// Writes them.
pub(super) fn write(bridge: &BridgeHandle, samples: &mut Samples<'_>) -> fmt::Result {
    let statistics = bridge.statistics();
    let help = "Requests and answers that the message bridge keeps";
    samples.gauge("selfsame_bridge_entries", help, statistics.entries as u64)?;
    let help = "What the entries of the message bridge take, in bytes, as its limit counts them";
    samples.gauge("selfsame_bridge_bytes", help, statistics.bytes as u64)?;
    let help = "Messages that the message bridge refused because all together leave no room";
    samples.counter("selfsame_bridge_refused_full", help, statistics.refused_full)
}
