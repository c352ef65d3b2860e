//! What the operator is shown of groups, and asks for: wire types of the operator interface, for
//! the daemon and for its commands.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::names::{Day, GroupId, MemberNumber, RollName};
use super::records::{MemberRecord, RollRecord, Standing};
use crate::tree::Root;

/// How a group is doing: a member of `groups` in `/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListedGroup {
    /// Its id.
    pub id: GroupId,
    /// Its name, for people.
    #[schema(example = "Members of the cooperative")]
    pub name: String,
    /// Positions that were ever given.
    pub size: u32,
    /// Members with a leaf in the tree.
    pub members: u32,
    /// Member numbers that were ever invited.
    pub invited: u32,
    /// Links that were neither used nor ended by a newer one. They may have expired.
    pub open_links: u32,
    /// Roots that proofs may be made against.
    pub live_roots: usize,
    /// The rolls, in the order of their names.
    pub rolls: Vec<ListedRoll>,
    /// Why the group cannot be changed at the moment; null when it can.
    pub failure: Option<String>,
}

/// A roll of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListedRoll {
    /// Its name.
    pub name: RollName,
    /// The day on which it was taken.
    pub taken_on: Day,
    /// Positions that it has.
    pub size: u32,
    /// Members who may be counted.
    pub members: u32,
    /// Its root, which members can compare.
    pub root: Root,
}

impl ListedRoll {
    /// A roll as it is shown.
    pub fn new(name: RollName, record: &RollRecord) -> Self {
        let RollRecord { taken_on, size, members, root, .. } = *record;
        Self { name, taken_on, size, members, root }
    }
}

/// The answer of `GET /groups/{id}/rolls`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RollList {
    /// The rolls, in the order of their names.
    pub rolls: Vec<ListedRoll>,
}

/// The body of `POST /groups/{id}/rolls`, and of `/rolls/remove` with its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedRoll {
    /// The name of the roll.
    pub name: RollName,
}

/// The body of `POST /groups/{id}/members/remove`, and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedMember {
    /// The member number.
    pub member: MemberNumber,
}

/// The answer of `GET /groups/{id}/members`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberList {
    /// Every member number that was ever invited, in the order of its bytes.
    pub members: Vec<ListedMember>,
}

/// A member number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListedMember {
    /// The number.
    pub member: MemberNumber,
    /// How it stands.
    pub standing: ListedStanding,
    /// The day of the first invitation.
    pub invited_on: Day,
    /// The day of the last joining, replacement, leaving or removal; that of the invitation before.
    pub changed_on: Day,
    /// Whether the number has a link that was neither used nor ended. It may have expired.
    pub has_link: bool,
}

impl ListedMember {
    /// A member as it is shown: without position and leaf, which would say which leaf is whose.
    pub fn new(member: MemberNumber, record: &MemberRecord) -> Self {
        Self {
            member,
            standing: record.standing.into(),
            invited_on: record.invited_on,
            changed_on: record.changed_on,
            has_link: record.open_code.is_some(),
        }
    }
}

/// How a member number stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, ToSchema)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ListedStanding {
    /// Invited, and never joined.
    Invited,
    /// Has a leaf in the tree.
    Member,
    /// Has left; the leaf goes within the hour.
    Leaving,
    /// Has left.
    Left,
    /// Was removed by the operator.
    Removed,
}

impl ListedStanding {
    /// Its name in JSON and for people.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl From<Standing> for ListedStanding {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Invited => Self::Invited,
            Standing::Member => Self::Member,
            Standing::Leaving => Self::Leaving,
            Standing::Left => Self::Left,
            Standing::Removed => Self::Removed,
        }
    }
}
