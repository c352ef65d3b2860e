//! The metrics of the message bridge.

use super::sink::Reporter;
use crate::bridge::handle::BridgeHandle;

/// Reports them.
pub(super) fn report(bridge: &BridgeHandle, reporter: &mut Reporter<'_>) {
    let statistics = bridge.statistics();
    let help = "Requests and answers that the message bridge keeps";
    reporter.gauge("selfsame_bridge_entries", help, statistics.entries as u64);
    let help = "What the entries of the message bridge take, in bytes, as its limit counts them";
    reporter.gauge("selfsame_bridge_bytes", help, statistics.bytes as u64);
    let help = "Messages that the message bridge refused because all together leave no room";
    reporter.counter("selfsame_bridge_refused_full", help, statistics.refused_full);
}
