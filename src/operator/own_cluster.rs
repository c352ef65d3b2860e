//! The cluster that the daemon is a replica of.

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::ClusterView;

/// A cluster as its replica knows it.
#[derive(Clone)]
pub struct OwnCluster {
    /// What the replica sees of the others.
    pub view: Arc<ClusterView>,
    /// How old answers about tokens may be.
    pub staleness: Duration,
}
