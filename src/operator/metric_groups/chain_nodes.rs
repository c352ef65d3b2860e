//! The metrics of the nodes of chains.

use std::fmt;
use std::sync::Arc;

use selfsame_actors::ChainNode;

use super::samples::Samples;
use crate::chain::JsonRpcNode;

/// A node whose counters the metrics show, with the name of its chain.
pub type FollowedNode = (String, Arc<JsonRpcNode>);

/// Writes them.
pub(super) fn write(nodes: &[FollowedNode], samples: &mut Samples<'_>) -> fmt::Result {
    let of = |value: fn(&JsonRpcNode) -> u64| {
        let labels = |chain, node| [("chain", chain), ("node", node)];
        nodes.iter().map(move |(chain, node)| (labels(chain.as_str(), node.name()), value(node)))
    };
    samples.counters("selfsame_chain_node_requests", "HTTP requests to a node", of(|node| node.counters().requests))?;
    let help = "Bytes of a node's answers";
    samples.counters("selfsame_chain_node_received_bytes", help, of(|node| node.counters().bytes_received))
}
