//! The groups whose members' proofs count: their ids are names of credentials, and a group can have
//! the name of a public credential in its environment, under which client kits ask for its proofs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::identity::{Environment, LegacyCredential, LegacyIdentifier};
use crate::groups::names::GroupId;

/// The ids of groups that a request can name; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownGroups(Arc<HashSet<GroupId>>);

impl FromIterator<GroupId> for KnownGroups {
    fn from_iter<Ids: IntoIterator<Item = GroupId>>(ids: Ids) -> Self {
        Self(Arc::new(ids.into_iter().collect()))
    }
}

impl KnownGroups {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The credential with a name: a public one, or that of a group; `None` when there is neither.
    pub fn credential(&self, name: &str) -> Option<LegacyCredential> {
        if let Some(identifier) = LegacyIdentifier::from_name(name) {
            return Some(LegacyCredential::Public(identifier));
        }
        let id = name.parse().ok().filter(|id| self.0.contains(id));
        id.map(LegacyCredential::Group)
    }
}

/// A group as verification knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedGroup {
    /// Its id.
    pub id: GroupId,
    /// The environment in which its proofs count.
    pub environment: Environment,
    /// The public name that it has there as well.
    pub legacy_identifier: Option<LegacyIdentifier>,
}

/// Groups by their names.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupNames {
    known: KnownGroups,
    groups: HashMap<GroupId, VerifiedGroup>,
    by_public_name: HashMap<(Environment, LegacyIdentifier), GroupId>,
}

impl GroupNames {
    pub fn new(groups: impl IntoIterator<Item = VerifiedGroup>) -> Self {
        let groups: HashMap<_, _> = groups.into_iter().map(|group| (group.id, group)).collect();
        let public_name = |group: &VerifiedGroup| Some(((group.environment, group.legacy_identifier?), group.id));
        Self {
            known: groups.keys().copied().collect(),
            by_public_name: groups.values().filter_map(public_name).collect(),
            groups,
        }
    }

    pub fn known(&self) -> &KnownGroups {
        &self.known
    }

    /// The group whose members prove with a credential in an environment: a group's id stands for
    /// the group in its own environment alone.
    pub fn group_of(&self, environment: Environment, credential: LegacyCredential) -> Option<GroupId> {
        match credential {
            LegacyCredential::Public(identifier) => self.by_public_name.get(&(environment, identifier)).copied(),
            LegacyCredential::Group(id) => {
                self.groups.get(&id).filter(|group| group.environment == environment).map(|group| group.id)
            }
        }
    }

    /// The names of a group in its environment, which stand for one another.
    pub fn names_of(&self, id: GroupId) -> impl Iterator<Item = &str> {
        self.groups.get(&id).into_iter().flat_map(|group| {
            let public = group.legacy_identifier.map(LegacyIdentifier::name);
            std::iter::once(group.id.as_str()).chain(public)
        })
    }
}

#[cfg(test)]
mod tests {
    use Environment::{Production, Staging};
    use LegacyCredential::{Group, Public};
    use LegacyIdentifier::{Device, Orb};

    use super::*;

    fn id(text: &str) -> GroupId {
        text.parse().expect("an id")
    }

    #[test]
    fn a_group_is_found_by_its_id_and_its_public_name_in_its_environment_alone() {
        let group =
            |name: &str, environment, legacy_identifier| VerifiedGroup { id: id(name), environment, legacy_identifier };
        let names = GroupNames::new([
            group("members", Production, Some(Device)),
            group("testers", Staging, Some(Device)),
            group("plain", Production, None),
        ]);
        for (environment, credential, expected) in [
            (Production, Group(id("members")), Some("members")),
            (Staging, Group(id("members")), None),
            (Production, Public(Device), Some("members")),
            (Staging, Public(Device), Some("testers")),
            (Production, Public(Orb), None),
            (Production, Group(id("plain")), Some("plain")),
            (Production, Group(id("nobody")), None),
        ] {
            let found = names.group_of(environment, credential);
            assert_eq!(found, expected.map(id), "{environment:?} {credential:?}");
        }
        assert_eq!(names.names_of(id("members")).collect::<Vec<_>>(), ["members", "device"]);
        assert_eq!(names.names_of(id("plain")).collect::<Vec<_>>(), ["plain"]);
        assert_eq!(names.names_of(id("nobody")).count(), 0);
    }

    #[test]
    fn only_public_names_and_ids_of_known_groups_are_credentials() {
        let known: KnownGroups = [id("members")].into_iter().collect();
        for (groups, name, expected) in [
            (&known, "orb", Some(Public(Orb))),
            (&known, "members", Some(Group(id("members")))),
            (&known, "Members", None),
            (&known, "others", None),
            (&known, "", None),
            (&KnownGroups::default(), "members", None),
            (&KnownGroups::default(), "device", Some(Public(Device))),
        ] {
            assert_eq!(groups.credential(name), expected, "{name:?}");
        }
    }
}
