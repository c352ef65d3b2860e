//! The metrics by group, a file for each.
//!
//! What the front-end counts is in its own counters ([`crate::http::Metrics`]). All other numbers
//! are read from their owners when they are asked for; those of the actors are listed in their
//! crate ([`Service::report_metrics`]).

mod backups;
mod chain_nodes;
mod cluster;
mod disk;
mod process;
mod samples;
mod service;
mod text;

use std::sync::Arc;

pub use chain_nodes::FollowedNode;
pub use disk::{DiskRoom, Room};
use prometheus_client::registry::Registry;
use selfsame_actors::Service;
pub(super) use service::take_over_source_limits;
pub(super) use text::prometheus;

use super::own_cluster::OwnCluster;
use crate::backup::jobs::Backups;
use crate::build::Build;
use crate::logging;

/// Where the numbers are read.
pub(super) struct Sources {
    pub service: Arc<Service>,
    pub backups: Arc<Backups>,
    pub nodes: Vec<FollowedNode>,
    /// The room on the disk of the data folder. The caller reads it before the metrics are written.
    pub disk: Arc<DiskRoom>,
    /// The program that runs.
    pub build: Build,
    /// The cluster that the daemon is a replica of; `None` when it is alone.
    pub cluster: Option<OwnCluster>,
}

/// Adds the groups to `metrics`.
pub(super) fn register(metrics: &mut Registry, sources: Sources) {
    let Sources { service, backups, nodes, disk, build, cluster } = sources;
    samples::register(metrics, move |samples| process::write_build(build, samples));
    samples::register(metrics, process::write);
    samples::register(metrics, |samples| process::write_log_losses(logging::losses(), samples));
    samples::register(metrics, move |samples| service::write(&service, samples));
    samples::register(metrics, move |samples| cluster::write(cluster.as_ref(), samples));
    samples::register(metrics, move |samples| disk.write(samples));
    samples::register(metrics, move |samples| chain_nodes::write(&nodes, samples));
    samples::register(metrics, move |samples| backups::write(&backups.statistics(), samples));
}
