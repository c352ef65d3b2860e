//! What makes a daemon a replica: how it reaches the others and they reach it. The journal, the
//! election and the membership are in the crate `selfsame-cluster`.
//!
//! | module | what it holds |
//! |---|---|
//! | `connection` | what a replica asks the others: the leader, and those that may hold a message of the bridge |
//! | `interface` | what a replica answers the others |
//! | `copies` | a copy of a data folder: the replica that makes it, and the one that gets it |
//! | `start` | what the configuration names; the parts that make a daemon a replica |

mod connection;
mod copies;
mod interface;
mod start;

pub use connection::{ClusterPeers, ReplicaClient, ReplicaSender, ToLeader};
pub use copies::{AnnouncedCopy, Copies, CopyError};
pub use interface::{ClusterInterface, ClusterInterfaceError, routes};
pub use start::{BoundReplica, ClusterSetupError, PreparedCluster, StartingReplica};
