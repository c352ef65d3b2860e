//! The metrics by group, a file for each.
//!
//! What the front-end counts is in its own counters ([`crate::http::Metrics`]). All other numbers
//! are read from their owners when they are asked for.

mod backups;
mod bridge;
mod chains;
mod cluster;
mod process;
mod registry;
mod samples;
mod sign_in;
mod source_limits;
mod store;
mod supervision;
mod text;
mod verifier;
mod webhooks;

use std::path::PathBuf;
use std::sync::Arc;

pub use chains::FollowedNode;
use prometheus_client::registry::Registry;
use selfsame_actors::{Clock, Service};
pub use source_limits::SourceLimitMetrics;
pub(super) use text::prometheus;

use super::own_cluster::OwnCluster;
use crate::backup::jobs::Backups;
use crate::build::Build;

/// Where the numbers are read.
pub(super) struct Sources {
    pub service: Arc<Service>,
    pub clock: Arc<dyn Clock>,
    pub backups: Arc<Backups>,
    pub nodes: Vec<FollowedNode>,
    /// The data folder.
    pub data: PathBuf,
    /// The program that runs.
    pub build: Build,
    /// The cluster that the daemon is a replica of; `None` when it is alone.
    pub cluster: Option<OwnCluster>,
}

/// Adds the groups to `metrics`.
pub(super) fn register(metrics: &mut Registry, sources: Sources) {
    let Sources { service, clock, backups, nodes, data, build, cluster } = sources;
    let (registry, verification, sign_in, chain) =
        (service.registry(), service.verification(), service.sign_in(), service.chain());
    let (message_bridge, events) = (service.bridge(), service.events());
    let store = registry.clone();
    samples::register(metrics, move |samples| process::write_build(build, samples));
    samples::register(metrics, process::write);
    let replica = Arc::clone(&service);
    samples::register(metrics, move |samples| supervision::write(&service, samples));
    samples::register(metrics, move |samples| cluster::write(cluster.as_ref(), &replica, samples));
    samples::register(metrics, move |samples| registry::write(&registry, samples));
    samples::register(metrics, move |samples| store::write(&store, &data, samples));
    samples::register(metrics, move |samples| verifier::write(&verification, samples));
    samples::register(metrics, move |samples| sign_in::write(&sign_in, samples));
    samples::register(metrics, move |samples| bridge::write(&message_bridge, samples));
    samples::register(metrics, move |samples| webhooks::write(&events, samples));
    samples::register(metrics, move |samples| chains::write(&chain.status(clock.unix_seconds()), samples));
    samples::register(metrics, move |samples| chains::write_nodes(&nodes, samples));
    samples::register(metrics, move |samples| backups::write(&backups.statistics(), samples));
}
