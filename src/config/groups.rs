//! Communities that say who their members are: `[[groups]]`; and which credentials count.

use schemars::JsonSchema;
use selfsame_protocol::groups::names::{GroupId, RollName};
use serde::{Deserialize, Serialize};

use super::directory::{Action, App};
use super::sections::{Environment, LegacyIdentifier};
use super::values::{self, UtcTime, formats};
use super::{Config, Issuer};

/// `[[groups]]`: a community whose members prove that they are members, with the group's own
/// credential.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The group's id, which is also the name of its credential in requests, in
    /// `accepted_identifiers` and in tokens.
    #[serde(deserialize_with = "values::form")]
    #[schemars(with = "formats::GroupId")]
    pub id: GroupId,
    /// The name that people see.
    pub name: String,
    /// The environment in which its members' proofs count.
    #[serde(default)]
    pub environment: Environment,
    /// The public name under which pages that were made with a client kit ask for its proofs. In
    /// the group's environment the name is the group's.
    pub legacy_identifier: Option<LegacyIdentifier>,
    /// For how many days a link of an invitation is good, 1 to 365.
    #[serde(default = "thirty_days")]
    pub link_days: u32,
    /// The rolls that are taken by themselves.
    #[serde(default)]
    pub rolls: Vec<AwaitedRoll>,
}

/// `[[groups.rolls]]`: a list of members that is taken when its moment comes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AwaitedRoll {
    /// The name, by which actions take it.
    #[serde(deserialize_with = "values::form")]
    #[schemars(with = "formats::RollName")]
    pub name: RollName,
    /// When it is taken. Once it was taken, the time changes nothing.
    pub at: UtcTime,
}

fn thirty_days() -> u32 {
    30
}

impl Group {
    /// The names of its credential in its environment, which stand for one another.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.id.as_str()).chain(self.legacy_identifier.map(LegacyIdentifier::name))
    }
}

/// The sources of credentials that count somewhere. A person has another nullifier in each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources<'a> {
    /// The groups.
    pub groups: Vec<&'a Group>,
    /// Whether a public credential counts as well.
    pub has_public: bool,
}

impl<'a> Sources<'a> {
    /// Their number. The public credentials are one.
    pub fn count(&self) -> usize {
        self.groups.len() + usize::from(self.has_public)
    }

    /// The group that is the only source.
    pub fn only_group(&self) -> Option<&'a Group> {
        match (&*self.groups, self.has_public) {
            ([only], false) => Some(only),
            _ => None,
        }
    }

    /// Their names, for a sentence.
    pub fn names(&self) -> String {
        let public = self.has_public.then(|| "public credentials".to_owned());
        let groups = self.groups.iter().map(|group| format!("the group {}", group.id));
        public.into_iter().chain(groups).collect::<Vec<_>>().join(" and ")
    }
}

impl Config {
    /// Whether a credential counts in an environment for all of these lists of accepted
    /// credentials, of which each that is left out accepts every public one. That of a group counts
    /// by its id and by the public name that it has there, and only where a list names it.
    fn credential_counts(&self, environment: Environment, lists: &[Option<&[String]>], name: &str) -> bool {
        let group = self
            .groups
            .iter()
            .find(|group| group.environment == environment && group.names().any(|of_group| of_group == name));
        let is_in = |list: &[String]| match group {
            Some(group) => group.names().any(|name| list.iter().any(|listed| listed == name)),
            None => list.iter().any(|listed| listed == name),
        };
        let is_named = lists.iter().any(Option::is_some);
        (group.is_none() || is_named) && lists.iter().flatten().all(|list| is_in(list))
    }

    /// Whether a credential counts for an application in an environment.
    pub fn counts_for(&self, app: &App, environment: Environment, name: &str) -> bool {
        self.credential_counts(environment, &[app.accepted_identifiers.as_deref()], name)
    }

    /// The sources of the credentials that count for the sign-ins of an application.
    pub fn sign_in_sources(&self, app: &App) -> Sources<'_> {
        self.sources(app.sign_in_environment(), &[app.accepted_identifiers.as_deref()])
    }

    /// The sources of the credentials that count for an action of an application.
    pub fn action_sources(&self, app: &App, action: &Action) -> Sources<'_> {
        let lists = [app.accepted_identifiers.as_deref(), action.accepted_identifiers.as_deref()];
        self.sources(action.environment, &lists)
    }

    fn sources(&self, environment: Environment, lists: &[Option<&[String]>]) -> Sources<'_> {
        let here = |group: &&Group| group.environment == environment;
        let counts = |name: &str| self.credential_counts(environment, lists, name);
        let groups = self.groups.iter().filter(here).filter(|group| counts(group.id.as_str())).collect();
        let is_public = |name: &str| !self.groups.iter().filter(here).any(|group| group.names().any(|of| of == name));
        let is_counted = |name: &str| is_public(name) && counts(name);
        let mut issuers = self.issuers.iter().flat_map(Issuer::identifiers);
        let of_legacy = LegacyIdentifier::ALL.into_iter().any(|identifier| is_counted(identifier.name()));
        let has_public = of_legacy || issuers.any(is_counted);
        Sources { groups, has_public }
    }
}
