//! The rules about groups: their names, and how often a person of a group can count.

use std::collections::HashSet;

use selfsame_protocol::verification::LegacyIdentifier;

use super::lists::{Seen, takes_legacy};
use super::{InvalidSetting, invalid_setting};
use crate::config::directory::{Action, App};
use crate::config::groups::{Group, Sources};
use crate::config::sections::ProofKind;
use crate::config::{Config, Issuer};

/// The most groups.
const MOST_GROUPS: usize = 1000;

/// The longest name of a group, in bytes.
const LONGEST_NAME: usize = 200;

/// The longest validity of links, in days.
const MOST_LINK_DAYS: u32 = 365;

/// The rules about `[[groups]]`.
pub(super) fn check_groups(config: &Config) -> Vec<InvalidSetting> {
    let mut found = Vec::new();
    if config.groups.len() > MOST_GROUPS {
        let message = format!("has {} entries; give at most {MOST_GROUPS}", config.groups.len());
        found.push(invalid_setting("groups", message));
    }
    let (mut ids, mut public) = (Seen::new("groups"), Seen::new("groups"));
    for (index, group) in config.groups.iter().enumerate() {
        let key = |name: &str| format!("groups[{index}].{name}");
        if let Some(first) = ids.first_before(group.id, index) {
            let message = format!("{} is the id of {first} already; ids are unique", group.id);
            found.push(invalid_setting(key("id"), message));
        }
        found.extend(check_id(config, group).map(|message| invalid_setting(key("id"), message)));
        if let Some(identifier) = group.legacy_identifier {
            let name = identifier.name();
            if let Some(first) = public.first_before((group.environment, identifier), index) {
                let message =
                    format!("{name:?} is that of {first} already; a public name is one group's in an environment");
                found.push(invalid_setting(key("legacy_identifier"), message));
            }
            found.extend(check_public_name(config, group, identifier).map(|owner| {
                let message = format!(
                    "{name:?} is that of {owner} in {} as well, so that a person could count as two; choose another \
                     public name, or leave {owner} out",
                    group.environment.name()
                );
                invalid_setting(key("legacy_identifier"), message)
            }));
        }
        let name = &group.name;
        if name.trim().is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            let message = format!("{name:?} is no name; give 1 to {LONGEST_NAME} bytes without control characters");
            found.push(invalid_setting(key("name"), message));
        }
        if !(1..=MOST_LINK_DAYS).contains(&group.link_days) {
            let message = format!("{} is out of range; give 1 to {MOST_LINK_DAYS}", group.link_days);
            found.push(invalid_setting(key("link_days"), message));
        }
        let mut rolls = HashSet::new();
        for (position, roll) in group.rolls.iter().enumerate() {
            if !rolls.insert(&roll.name) {
                let message = format!("{} is the name of another roll of the group; names are unique", roll.name);
                found.push(invalid_setting(format!("groups[{index}].rolls[{position}].name"), message));
            }
        }
    }
    found
}

/// Why an id cannot be a group's: it is the name of another credential.
fn check_id(config: &Config, group: &Group) -> Option<String> {
    let id = group.id.as_str();
    if LegacyIdentifier::from_name(id).is_some() {
        return Some(format!("{id:?} is a public credential; choose another id, and set legacy_identifier = {id:?}"));
    }
    let is_of = |issuer: &Issuer| issuer.identifiers().contains(&id);
    let is_public = Issuer::PUBLIC.iter().any(|(_, identifiers)| identifiers.contains(&id));
    let is_taken = is_public || config.issuers.iter().any(is_of);
    is_taken.then(|| format!("{id:?} is a credential of an issuer; choose another id"))
}

/// What in the configuration takes other proofs of a public name in a group's environment: roots
/// that are trusted for it, or an issuer of credentials of that name.
fn check_public_name(config: &Config, group: &Group, identifier: LegacyIdentifier) -> Option<String> {
    let of_configuration = config.trusted_roots.iter().position(|root| {
        (root.environment, root.kind) == (group.environment, ProofKind::Legacy)
            && root.identifiers.contains(&identifier)
    });
    if let Some(index) = of_configuration {
        return Some(format!("trusted_roots[{index}]"));
    }
    let of_issuer = config.issuers.iter().position(|issuer| {
        issuer.environments().contains(&group.environment) && issuer.identifiers().contains(&identifier.name())
    });
    if let Some(index) = of_issuer {
        return Some(format!("issuers[{index}]"));
    }
    let contracts = config
        .chains
        .iter()
        .flat_map(|chain| chain.contracts().into_iter().flatten().map(move |contract| (&chain.name, contract)));
    let publishes = |(chain, contract): (&String, crate::config::Contract)| {
        let is_of = contract.environment == group.environment && contract.identifiers.contains(&identifier);
        is_of.then(|| format!("the contract {chain}/{}", contract.name))
    };
    contracts.into_iter().find_map(publishes)
}

/// The credentials of groups that an application or an action accepts, and that are of other
/// environments than its own.
pub(super) fn check_environments(
    config: &Config,
    key: String,
    accepted: Option<&[String]>,
    environments: &[crate::config::Environment],
) -> Option<InvalidSetting> {
    let is_named = |group: &&Group| accepted.is_some_and(|list| list.iter().any(|name| name == group.id.as_str()));
    let group = config.groups.iter().filter(is_named).find(|group| !environments.contains(&group.environment))?;
    let names: Vec<&str> = environments.iter().map(|environment| environment.name()).collect();
    let message = format!(
        "{:?} is a group of {}, and proofs of {} are taken here; leave it out, or change the environment",
        group.id.as_str(),
        group.environment.name(),
        names.join(" and ")
    );
    Some(invalid_setting(key, message))
}

/// The rules about the sign-ins of an application that takes the credential of a group.
pub(super) fn check_sign_in(config: &Config, app: &App, index: usize) -> Vec<InvalidSetting> {
    let sources = config.sign_in_sources(app);
    let key = |name: &str| format!("apps[{index}].{name}");
    let Some(group) = sources.groups.first().filter(|_| app.signs_in()) else { return Vec::new() };
    let mut found = Vec::new();
    if app.proof.kind() != ProofKind::Legacy {
        let message = format!(
            "{:?} is for public credentials, and accepted_identifiers name the group {}, whose members prove with legacy \
             proofs each time; set proof = \"legacy\"",
            app.proof.name(),
            group.id
        );
        found.push(invalid_setting(key("proof"), message));
    }
    if sources.count() > 1 && !app.counts_sources_separately {
        found.push(invalid_setting(key("accepted_identifiers"), several_sources("an application", &sources)));
    }
    found
}

fn several_sources(what: &str, sources: &Sources<'_>) -> String {
    format!(
        "{what} that takes {}: one person has another nullifier with each, and counts once with each; accept one of them, \
         or set counts_sources_separately = true",
        sources.names()
    )
}

/// The rules about an action that takes the credential of a group, or a roll.
pub(super) fn check_action(config: &Config, app: &App, action: &Action, index: usize) -> Vec<InvalidSetting> {
    let key = |name: &str| format!("actions[{index}].{name}");
    let mut found = Vec::new();
    let sources = config.action_sources(app, action);
    let takes_legacy = takes_legacy(config, app, action);
    if let Some(roll) = &action.roll {
        if sources.only_group().is_none() {
            let message = format!(
                "{roll} is a roll of one group, and the action takes {}; name one group alone in accepted_identifiers",
                if sources.count() == 0 { "no credential".to_owned() } else { sources.names() }
            );
            found.push(invalid_setting(key("roll"), message));
        } else if !takes_legacy {
            let message = format!(
                "{roll} is a roll of a group, whose members prove with legacy proofs, and the action accepts none; set \
                 accept_legacy = true for the application and the action"
            );
            found.push(invalid_setting(key("roll"), message));
        }
    }
    let takes_group = takes_legacy && !sources.groups.is_empty();
    if takes_group && action.max_verifications > 0 && action.roll.is_none() && !action.counts_new_seeds {
        let message = format!(
            "{} limits an action that takes the members of {}, and a member with a new seed can reach the limit again; \
             name a roll, or set counts_new_seeds = true",
            action.max_verifications,
            sources.groups.iter().map(|group| group.id.to_string()).collect::<Vec<_>>().join(" and ")
        );
        found.push(invalid_setting(key("max_verifications"), message));
    }
    if takes_group && action.max_verifications > 0 && sources.count() > 1 && !action.counts_sources_separately {
        found.push(invalid_setting(key("max_verifications"), several_sources("limits an action", &sources)));
    }
    found
}
