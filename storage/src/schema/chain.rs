//! The records of what is followed from chains.

use selfsame_protocol::chain::contracts::{FollowedKey, Header, WindowStart};
use selfsame_protocol::chain::deployment::Deployment;
use selfsame_protocol::chain::followed::KeyOwner;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::{B256, encode_fields};

/// A followed contract: a hash of everything that makes its history another one, such as the chain
/// and the contract's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId {
    /// The hash.
    pub hash: B256,
}

encode_fields!(SourceId { hash });

/// From where on the roots of a contract are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownFrom {
    /// The first block whose logs were read.
    pub block: u64,
    /// Every root that was published at this time or later is known.
    pub time: UnixSeconds,
}

encode_fields!(KnownFrom { block, time });

/// How far a contract's roots were followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootSourceRecord {
    /// From where on.
    pub known_from: KnownFrom,
    /// The last block whose logs were read.
    pub read: Header,
    /// The newest block at which the history was complete; `None` before the first one.
    pub confirmed: Option<Header>,
    /// For how many seconds the contract accepts a root that is no longer the newest, and from when
    /// it counts them; `None` before it was asked.
    pub rule: Option<(u64, WindowStart)>,
}

encode_fields!(RootSourceRecord { known_from, read, confirmed, rule } version 2 of "source of roots");

/// The keys of a contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySourceRecord {
    /// The newest block at which they were read.
    pub confirmed: Header,
    /// The keys of the followed owners.
    pub keys: Vec<(KeyOwner, FollowedKey)>,
}

encode_fields!(KeySourceRecord { confirmed, keys } version 1 of "source of keys");

/// Where the contracts of a deployment are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeploymentRecord {
    /// The newest block at which the verifier was asked.
    pub confirmed: Header,
    /// What it answered.
    pub deployment: Deployment,
}

encode_fields!(DeploymentRecord { confirmed, deployment } version 1 of "deployment");
