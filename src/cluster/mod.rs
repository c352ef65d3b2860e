//! Several daemons as replicas of one journal, in etcd.
//!
//! | module | what it holds |
//! |---|---|
//! | `etcd` | the members of etcd, one of which is asked at a time |
//! | `keys` | the keys of a cluster in etcd, and what their values look like |
//! | `journal` | the journal: appends that only the leader can make, entries as they come |
//! | `election` | who leads: the replica whose lease keeps the leader's key alive |
//! | `connection`, `interface` | what the replicas ask each other: the caller, and who answers |
//! | `peers` | the other replicas, as the message bridge calls them |
//! | `copies`, `fetching` | a copy of a data folder: the replica that makes it, and the one that gets it |
//! | `membership` | how a data folder becomes a replica |
//! | `registration` | how far each replica is; what of the journal can be forgotten |
//! | `setup`, `start` | what the configuration names; the parts that make a daemon a replica |
//!
//! A cluster's data is in the stores of its replicas. etcd has the last part of the journal, and
//! says who leads.

mod connection;
mod copies;
mod election;
mod etcd;
mod fetching;
mod interface;
mod journal;
mod keys;
mod membership;
mod peers;
mod registration;
mod setup;
mod start;
#[cfg(test)]
mod tests;

pub use connection::{ReplicaClient, ReplicaSender, ToLeader};
pub use copies::{AnnouncedCopy, Copies, CopyError};
pub use election::EtcdElection;
pub use etcd::{Asked, Etcd, EtcdAccess, EtcdError, EtcdTls, EtcdUser};
pub use interface::{ClusterInterface, ClusterInterfaceError, routes};
pub use journal::EtcdJournal;
pub use keys::{ClusterRecord, LeaderRecord, ReplicaRecord};
pub use membership::MembershipError;
pub use peers::ClusterPeers;
pub use registration::{ClusterView, Registration, RemovedError, SILENT_AFTER, SeenReplica};
pub use setup::{ClusterSetupError, PreparedCluster};
pub use start::{BoundReplica, StartingReplica};
