//! Several daemons as replicas of one journal, in etcd.
//!
//! | module | what it holds |
//! |---|---|
//! | `etcd` | the members of etcd, one of which is asked at a time |
//! | `keys` | the keys of a cluster in etcd, and what their values look like |
//! | `journal` | the journal: appends that only the leader can make, entries as they come |
//! | `election` | who leads: the replica whose lease keeps the leader's key alive |
//!
//! A cluster's data is in the stores of its replicas. etcd has the last part of the journal, and
//! says who leads.

mod election;
mod etcd;
mod journal;
mod keys;
#[cfg(test)]
mod tests;

pub use election::EtcdElection;
pub use etcd::{Asked, Etcd, EtcdAccess, EtcdError, EtcdTls, EtcdUser};
pub use journal::EtcdJournal;
