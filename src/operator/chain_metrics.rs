//! The metrics of what is followed from chains: their names, and how they follow the status.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use selfsame_actors::{ChainNode, ChainStatus, SourceData, SourceStatus};

use crate::chain::JsonRpcNode;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabel {
    source: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NodeLabel {
    chain: String,
    node: String,
}

/// A node whose counters the metrics show, with the name of its chain.
pub type FollowedNode = (String, Arc<JsonRpcNode>);

/// The numbers of the followed contracts, and of the nodes that are asked.
pub struct ChainMetrics {
    confirmed_age: Family<SourceLabel, Gauge<u64, AtomicU64>>,
    newest_root_age: Family<SourceLabel, Gauge<u64, AtomicU64>>,
    stale: Family<SourceLabel, Gauge<u64, AtomicU64>>,
    failing: Family<SourceLabel, Gauge<u64, AtomicU64>>,
    alarm: Family<SourceLabel, Gauge<u64, AtomicU64>>,
    reorganizations: Family<SourceLabel, Counter>,
    requests: Family<NodeLabel, Counter>,
    received_bytes: Family<NodeLabel, Counter>,
    nodes: Vec<FollowedNode>,
}

impl ChainMetrics {
    /// Makes the metrics and names them.
    pub fn register(registry: &mut Registry, nodes: Vec<FollowedNode>) -> Self {
        let registry = registry.sub_registry_with_prefix("selfsame_chain");
        let mut gauge = |name: &str, help: &str| {
            let gauge = Family::<SourceLabel, Gauge<u64, AtomicU64>>::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        let confirmed_age =
            gauge("confirmed_age_seconds", "Age of the last block at which a contract's data was complete");
        let newest_root_age = gauge("newest_root_age_seconds", "Age of a contract's newest root");
        let stale = gauge("stale", "1 while a contract's data is unread or too old, so that proofs are refused");
        let failing = gauge("failing", "1 while the last look at a contract failed");
        let alarm = gauge("alarm", "1 while a contract runs code that was not accepted");
        let reorganizations = Family::<SourceLabel, Counter>::default();
        registry.register("reorganizations", "Reorganizations that were followed", reorganizations.clone());
        let [requests, received_bytes] = [Family::<NodeLabel, Counter>::default(), Family::default()];
        registry.register("node_requests", "HTTP requests to a node", requests.clone());
        registry.register("node_received_bytes", "Bytes of a node's answers", received_bytes.clone());
        Self { confirmed_age, newest_root_age, stale, failing, alarm, reorganizations, requests, received_bytes, nodes }
    }

    /// Takes over the present numbers.
    pub fn set(&self, chains: &[ChainStatus]) {
        chains.iter().flat_map(|chain| &chain.sources).for_each(|source| self.set_source(source));
        for (chain, node) in &self.nodes {
            let label = NodeLabel { chain: chain.clone(), node: node.name().to_owned() };
            let counters = node.counters();
            self.requests.get_or_create(&label).inner().fetch_max(counters.requests, Ordering::Relaxed);
            self.received_bytes.get_or_create(&label).inner().fetch_max(counters.bytes_received, Ordering::Relaxed);
        }
    }

    fn set_source(&self, source: &SourceStatus) {
        let label = SourceLabel { source: source.name.clone() };
        let newest_root_age = match source.data {
            SourceData::Roots { newest_root_seconds_ago, .. } => newest_root_seconds_ago,
            _ => None,
        };
        for (family, age) in
            [(&self.confirmed_age, source.confirmed_seconds_ago), (&self.newest_root_age, newest_root_age)]
        {
            match age {
                Some(age) => drop(family.get_or_create(&label).set(age)),
                None => drop(family.remove(&label)),
            }
        }
        self.stale.get_or_create(&label).set(u64::from(!source.is_usable()));
        self.failing.get_or_create(&label).set(u64::from(source.failure.is_some()));
        self.alarm.get_or_create(&label).set(u64::from(source.alarm.is_some()));
        self.reorganizations.get_or_create(&label).inner().fetch_max(source.reorganizations, Ordering::Relaxed);
    }
}
