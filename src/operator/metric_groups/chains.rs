//! The metrics of what is followed from chains.

use std::fmt;
use std::sync::Arc;

use selfsame_actors::{ChainNode, ChainStatus, SourceData, SourceStatus};

use super::samples::Samples;
use crate::chain::JsonRpcNode;

/// A node whose counters the metrics show, with the name of its chain.
pub type FollowedNode = (String, Arc<JsonRpcNode>);

/// Writes those of the followed contracts.
pub(super) fn write(chains: &[ChainStatus], samples: &mut Samples<'_>) -> fmt::Result {
    let sources: Vec<&SourceStatus> = chains.iter().flat_map(|chain| &chain.sources).collect();
    let ages = |age: fn(&SourceStatus) -> Option<u64>| {
        sources.iter().filter_map(move |source| Some(([("source", source.name.as_str())], age(source)?)))
    };
    let help = "Age of the last block at which a contract's data was complete";
    samples.gauges("selfsame_chain_confirmed_age_seconds", help, ages(|source| source.confirmed_seconds_ago))?;
    let help = "Age of a contract's newest root";
    samples.gauges("selfsame_chain_newest_root_age_seconds", help, ages(newest_root_age))?;
    let flags = |flag: fn(&SourceStatus) -> bool| {
        sources.iter().map(move |source| ([("source", source.name.as_str())], u64::from(flag(source))))
    };
    let help = "1 while a contract's data is unread or too old, so that proofs are refused";
    samples.gauges("selfsame_chain_stale", help, flags(|source| !source.is_usable()))?;
    let help = "1 while the last look at a contract failed";
    samples.gauges("selfsame_chain_failing", help, flags(|source| source.failure.is_some()))?;
    let help = "1 while a contract runs code that was not accepted";
    samples.gauges("selfsame_chain_alarm", help, flags(|source| source.alarm.is_some()))?;
    let reorganizations = sources.iter().map(|source| ([("source", source.name.as_str())], source.reorganizations));
    samples.counters("selfsame_chain_reorganizations", "Reorganizations that were followed", reorganizations)
}

fn newest_root_age(source: &SourceStatus) -> Option<u64> {
    match source.data {
        SourceData::Roots { newest_root_seconds_ago, .. } => newest_root_seconds_ago,
        _ => None,
    }
}

/// Writes those of the nodes that are asked.
pub(super) fn write_nodes(nodes: &[FollowedNode], samples: &mut Samples<'_>) -> fmt::Result {
    let of = |value: fn(&JsonRpcNode) -> u64| {
        let labels = |chain, node| [("chain", chain), ("node", node)];
        nodes.iter().map(move |(chain, node)| (labels(chain.as_str(), node.name()), value(node)))
    };
    samples.counters("selfsame_chain_node_requests", "HTTP requests to a node", of(|node| node.counters().requests))?;
    let help = "Bytes of a node's answers";
    samples.counters("selfsame_chain_node_received_bytes", help, of(|node| node.counters().bytes_received))
}
