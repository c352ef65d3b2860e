//! Settings of groups.

use selfsame_protocol::groups::names::{GroupId, RollName};
use selfsame_protocol::groups::wire::RollAction;
use selfsame_protocol::rate_limit::RateLimit;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::{Environment, LegacyIdentifier};

/// Settings of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// The groups, in the order of the configuration.
    pub groups: Vec<GroupDefinition>,
    /// Whether a new sealed copy needs a permit. It needs none only while the service runs for
    /// development.
    pub needs_permit: bool,
    /// Limit, by source address (IPv6 by /64), of joinings, replacements, leavings and writes of
    /// sealed copies; `None` is off.
    pub per_source: Option<RateLimit>,
}

impl Default for GroupSettings {
    /// No groups.
    fn default() -> Self {
        Self { groups: Vec::new(), needs_permit: true, per_source: None }
    }
}

/// A group as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDefinition {
    /// Its id, which is also the name of its credential.
    pub id: GroupId,
    /// Its name, for people.
    pub name: String,
    /// The environment in which its proofs count.
    pub environment: Environment,
    /// The public name under which pages made with client kits ask for its proofs.
    pub legacy_identifier: Option<LegacyIdentifier>,
    /// For how many days a link is good.
    pub link_days: u32,
    /// Rolls that are taken by themselves.
    pub rolls: Vec<AwaitedRoll>,
    /// The actions that count a roll of the group.
    pub actions: Vec<CountedRoll>,
}

/// A roll that is taken when its moment comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedRoll {
    /// Its name.
    pub name: RollName,
    /// When it is taken.
    pub at: UnixSeconds,
}

/// An action that counts a roll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedRoll {
    /// The roll.
    pub roll: RollName,
    /// The action, as wallets find it.
    pub action: RollAction,
}
