//! Several daemons as replicas of one journal, in etcd.
//!
//! | module | what it holds |
//! |---|---|
//! | `etcd` | the members of etcd, one of which is asked at a time; the keys of a cluster, and what their values look like |
//! | `journal` | the journal: appends that only the leader can make, entries as they come |
//! | `election` | who leads: the replica whose lease keeps the leader's key alive |
//! | `connection` | what a replica asks the others: the leader, and those that may hold a message of the bridge |
//! | `interface` | what a replica answers the others |
//! | `copies` | a copy of a data folder: the replica that makes it, and the one that gets it |
//! | `membership` | how a data folder becomes a replica |
//! | `registration` | how far each replica is; what of the journal can be forgotten |
//! | `start` | what the configuration names; the parts that make a daemon a replica |
//!
//! A cluster's data is in the stores of its replicas. etcd has the last part of the journal, and
//! says who leads.

mod connection;
mod copies;
mod election;
mod etcd;
mod interface;
mod journal;
mod membership;
mod registration;
mod start;
#[cfg(test)]
mod tests;

pub use connection::{ClusterPeers, ReplicaClient, ReplicaSender, ToLeader};
pub use copies::{AnnouncedCopy, Copies, CopyError};
pub use election::EtcdElection;
pub use etcd::{Asked, ClusterRecord, Etcd, EtcdAccess, EtcdError, EtcdTls, EtcdUser, LeaderRecord, ReplicaRecord};
pub use interface::{ClusterInterface, ClusterInterfaceError, routes};
pub use journal::EtcdJournal;
pub use membership::MembershipError;
pub use registration::{ClusterView, Registration, RemovedError, SILENT_AFTER, SeenReplica};
pub use start::{BoundReplica, ClusterSetupError, PreparedCluster, StartingReplica};
