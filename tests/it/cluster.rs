//! Clusters: daemons as replicas, with members of etcd, all processes of their own on loopback.
//!
//! They need the program `etcd`, so they are ignored unless they are asked for: `make
//! test-cluster`.
//!
//! | file | contents |
//! |---|---|
//! | `members.rs` | members of etcd, which are killed and paused |
//! | `proxy.rs` | connections that are cut, and connections that say nothing any more |
//! | `replicas.rs` | three replicas, each behind proxies of its own, and one address in front of all |
//! | `joining.rs` | founding, joining, leaving, names |
//! | `reading.rs` | a client that goes from one replica to another one |
//! | `accounts.rs` | accounts of sign-in, and what leads to them, from one replica to another one |
//! | `bridge.rs` | the message bridge at several replicas |
//! | `groups.rs` | groups: what an entry of etcd cannot hold at once |
//! | `upgrading.rs` | one replica after the other is restarted while clients write |
//! | `disturbances.rs` | what is done to a cluster under load |
//! | `torture.rs` | clients of all four interfaces at work while a cluster is disturbed |

mod accounts;
mod bridge;
mod disturbances;
mod groups;
mod joining;
#[expect(dead_code, reason = "unit tests use the rest")]
#[path = "../../cluster/src/tests/members.rs"]
mod members;
mod proxy;
mod reading;
mod replicas;
mod torture;
mod upgrading;

// The names that `members.rs` has from the daemon's crate.
pub use selfsame_cluster::{Etcd, EtcdAccess, EtcdElection, EtcdTls, LeaderRecord};

/// A replica that others need not reach.
fn leader_record(name: &str) -> LeaderRecord {
    LeaderRecord { name: name.to_owned(), address: "http://127.0.0.1:1".to_owned() }
}
