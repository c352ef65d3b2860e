//! What is stored of groups: the group, its members, codes, leaves, roots, rolls and sealed copies.
//!
//! Members, codes and sealed copies have days, no times. Nothing stored says which sealed copy is
//! which member's.

use super::names::{Day, FieldNumber, GroupId, GroupKey, MemberNumber, RollName, SecretHash};
use super::wire::SealedContent;
use crate::time::UnixSeconds;
use crate::tree::Root;
use crate::{B256, encode_enum, encode_fields};

/// A group as a whole. Every write of the group compares it and counts its revision, so that of two
/// writers one reads again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRecord {
    /// The group key.
    pub group_key: GroupKey,
    /// Counts the writes of the group.
    pub revision: u64,
    /// Counts its roots; 0 for the root of the empty tree.
    pub version: u64,
    /// Positions that were ever given.
    pub size: u32,
    /// Leaves that are not 0.
    pub members: u32,
    /// Member numbers that were ever invited.
    pub invited: u32,
    /// Codes that were not used and not ended. They may have expired.
    pub open_codes: u32,
    /// The root.
    pub root: Root,
}

encode_fields!(GroupRecord {
    group_key, revision, version, size, members, invited, open_codes, root
} version 1 of "group");

impl GroupRecord {
    /// A group without members.
    pub fn new(group_key: GroupKey) -> Self {
        let root = super::tree::root_of_pages(&[]);
        Self { group_key, revision: 0, version: 0, size: 0, members: 0, invited: 0, open_codes: 0, root }
    }
}

/// A member number of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberKey {
    /// The group.
    pub group: GroupId,
    /// The number.
    pub member: MemberNumber,
}

encode_fields!(MemberKey { group, member });

/// How a member number stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Standing {
    /// Invited, and never joined.
    Invited,
    /// Has a live leaf.
    Member,
    /// Has left; the leaf is still in the tree, and goes within the hour.
    Leaving,
    /// Has left.
    Left,
    /// Was removed by the operator.
    Removed,
}

encode_enum!(Standing { Invited = 0, Member = 1, Leaving = 2, Left = 3, Removed = 4 } of "a standing");

impl Standing {
    /// Its name, for people.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What is stored of a member number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRecord {
    /// How it stands.
    pub standing: Standing,
    /// The day of the first invitation.
    pub invited_on: Day,
    /// The day of the last joining, replacement, leaving or removal; that of the invitation before.
    pub changed_on: Day,
    /// The position, once it was given. It stays the number's for ever.
    pub position: Option<u32>,
    /// The last leaf.
    pub leaf: Option<FieldNumber>,
    /// The newest enrolment nullifier.
    pub enrolment: Option<FieldNumber>,
    /// The hash of the present replacement secret.
    pub replacement_hash: Option<SecretHash>,
    /// The day on which the member last replaced the leaf without a code.
    pub replaced_on: Option<Day>,
    /// The hash of the code that is open.
    pub open_code: Option<SecretHash>,
}

encode_fields!(MemberRecord {
    standing, invited_on, changed_on, position, leaf, enrolment, replacement_hash, replaced_on, open_code
} version 1 of "member");

impl MemberRecord {
    /// A number that is invited.
    pub fn invited(today: Day) -> Self {
        Self {
            standing: Standing::Invited,
            invited_on: today,
            changed_on: today,
            position: None,
            leaf: None,
            enrolment: None,
            replacement_hash: None,
            replaced_on: None,
            open_code: None,
        }
    }

    /// The live leaf.
    pub fn live_leaf(&self) -> Option<FieldNumber> {
        self.leaf.filter(|_| self.standing == Standing::Member)
    }
}

/// A code, by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeRecord {
    /// The group.
    pub group: GroupId,
    /// The member number that it is for.
    pub member: MemberNumber,
    /// Its last day.
    pub expires_on: Day,
    /// The leaf that it brought, once it was used.
    pub used_for: Option<FieldNumber>,
    /// The sealed copy that was made with it and is not kept yet.
    pub copy: Option<CopyId>,
}

encode_fields!(CodeRecord { group, member, expires_on, used_for, copy } version 1 of "code");

/// An enrolment nullifier of a group. Its record is the member number that has it, or ever had it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EnrolmentKey {
    /// The group.
    pub group: GroupId,
    /// The nullifier.
    pub nullifier: FieldNumber,
}

encode_fields!(EnrolmentKey { group, nullifier });

/// Numbered parts of a group: leaves by page, roots by version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartKey {
    /// The group.
    pub group: GroupId,
    /// The number.
    pub number: u64,
}

encode_fields!(PartKey { group, number });

/// A leaf as it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredLeaf {
    /// The commitment, or 0.
    pub leaf: FieldNumber,
    /// The first version that has it there.
    pub since: u64,
}

encode_fields!(StoredLeaf { leaf, since });

/// The leaves of a page, as far as positions are given, and its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRecord {
    /// The leaves.
    pub leaves: Vec<StoredLeaf>,
    /// The root of the page.
    pub root: FieldNumber,
}

encode_fields!(PageRecord { leaves, root } version 1 of "page of a group");

/// A root that proofs may be made against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveRootRecord {
    /// The root.
    pub root: Root,
    /// Positions that its tree has.
    pub size: u32,
    /// When another root took its place; `None` for the newest.
    pub replaced_at: Option<UnixSeconds>,
}

encode_fields!(LiveRootRecord { root, size, replaced_at } version 1 of "live root");

/// A page of a group from a version on. Its record is the root that the page has from then on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageRootKey {
    /// The group.
    pub group: GroupId,
    /// The page, counted from 0.
    pub page: u32,
    /// The first version that has the root.
    pub since: u64,
}

encode_fields!(PageRootKey { group, page, since });

/// A roll of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RollKey {
    /// The group.
    pub group: GroupId,
    /// Its name.
    pub name: RollName,
}

encode_fields!(RollKey { group, name });

/// The list of members of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollRecord {
    /// The day on which it was taken.
    pub taken_on: Day,
    /// Positions that it has.
    pub size: u32,
    /// Leaves in it that are not 0.
    pub members: u32,
    /// Its root.
    pub root: Root,
    /// The roots of its pages.
    pub page_roots: Vec<FieldNumber>,
}

encode_fields!(RollRecord { taken_on, size, members, root, page_roots } version 1 of "roll");

/// A page of rolls, by its root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RollPageKey {
    /// The group.
    pub group: GroupId,
    /// The root of the page.
    pub root: FieldNumber,
}

encode_fields!(RollPageKey { group, root });

/// The leaves of a page of a roll, as far as positions were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollPageRecord {
    /// The leaves.
    pub leaves: Vec<FieldNumber>,
}

encode_fields!(RollPageRecord { leaves } version 1 of "page of a roll");

/// A roll whose time is in the configuration, from when it was first seen there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwaitedRollRecord {
    /// When it is taken.
    pub at: UnixSeconds,
    /// Whether it was taken; it may have been removed since.
    pub is_taken: bool,
}

encode_fields!(AwaitedRollRecord { at, is_taken } version 1 of "awaited roll");

/// The id of a sealed copy: random.
pub type CopyId = B256;

/// A sealed copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedRecord {
    /// What is sealed; the service cannot open it.
    pub content: SealedContent,
    /// Counts the writes, from 1 on.
    pub version: u64,
    /// The hashes of its handles.
    pub handles: Vec<SecretHash>,
    /// The hash of its write key.
    pub write_key_hash: SecretHash,
    /// The day on which it was made.
    pub made_on: Day,
    /// Whether it is kept: a joining or a replacement named it. Another copy is deleted a day after
    /// it was made.
    pub is_kept: bool,
    /// The hash of the code that permitted it, while it is not kept.
    pub made_with: Option<SecretHash>,
}

encode_fields!(SealedRecord {
    content, version, handles, write_key_hash, made_on, is_kept, made_with
} version 1 of "sealed copy");
