//! Several services as replicas of one journal, in etcd.
//!
//! | module | what it holds |
//! |---|---|
//! | `etcd` | the members of etcd, one of which is asked at a time; the keys of a cluster, and what their values look like |
//! | `journal` | the journal: appends that only the leader can make, entries as they come |
//! | `election` | who leads: the replica whose lease keeps the leader's key alive |
//! | `membership` | how a data folder becomes a replica |
//! | `registration` | how far each replica is; what of the journal can be forgotten |
//!
//! A cluster's data is in the stores of its replicas. etcd has the last part of the journal, and
//! says who leads. How the replicas reach each other is the daemon's matter: this crate knows no
//! HTTP, and a replica that needs a copy of another one's data folder is given a function that
//! fetches it ([`FetchCopy`]).

mod election;
mod etcd;
mod journal;
mod membership;
mod registration;
#[cfg(test)]
mod tests;

pub use election::EtcdElection;
pub use etcd::{
    Asked, ClusterRecord, Etcd, EtcdAccess, EtcdError, EtcdTls, EtcdUser, Keys, LeaderRecord, ReplicaRecord,
};
pub use journal::EtcdJournal;
pub use membership::{FetchCopy, FetchError, Joining, MembershipError, Standing};
pub use registration::{ClusterView, Registration, RemovedError, SILENT_AFTER, SeenReplica};
