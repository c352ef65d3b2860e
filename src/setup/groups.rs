//! Makes the settings of groups from the configuration.

use selfsame_actors::{AwaitedRoll, CountedRoll, GroupDefinition, GroupSettings};
use selfsame_interfaces::interface::{Interface, PublicUrls};
use selfsame_interfaces::web_wallet::{IS_BUILT_IN, ReadSimulation, WebWallet};
use selfsame_protocol::groups::names::{FieldNumber, GroupId};
use selfsame_protocol::groups::wire::RollAction;
use selfsame_protocol::verification::identity::external_nullifier;
use selfsame_protocol::verification::roots::{RootKey, TrustedRoot, TrustedRoots};
use selfsame_protocol::verification::{Environment, LegacyIdentifier};

use crate::config::{self, Config, Group, RateLimit};

/// The groups, each with the actions that count a roll of it.
pub fn group_settings(config: &Config) -> GroupSettings {
    GroupSettings {
        groups: config.groups.iter().map(|group| definition(config, group)).collect(),
        needs_permit: !config.dev,
        per_source: config.limits.groups_per_source.map(RateLimit::limit),
    }
}

/// The roots that are trusted for a public name which a group has in their environment, with the
/// name and the group. The configuration has none, so they were added by command.
pub fn hidden_roots(config: &Config, trusted: &TrustedRoots) -> Vec<(RootKey, LegacyIdentifier, GroupId)> {
    let group_of = |environment: Environment, identifier: LegacyIdentifier| {
        let has_name = |group: &&Group| (group.environment, group.legacy_identifier) == (environment, Some(identifier));
        config.groups.iter().find(has_name).map(|group| group.id)
    };
    let hidden = |root: TrustedRoot| {
        let identifiers = root.trust.identifiers.into_iter();
        identifiers
            .filter_map(move |identifier| Some((root.key, identifier, group_of(root.key.environment, identifier)?)))
    };
    match config.groups.is_empty() {
        true => Vec::new(),
        false => trusted.to_vec().into_iter().flat_map(hidden).collect(),
    }
}

/// Whether the web wallet's page is served: where groups are configured, and for development; and
/// only where no other interface has its address, because a page of theirs would have the secrets
/// that it keeps.
pub fn serves_web_wallet(config: &Config) -> bool {
    let own = config.listen[Interface::Wallet];
    let has_own_address = config.listen.iter().filter(|(_, address)| **address == own).count() == 1;
    IS_BUILT_IN && has_own_address && (config.dev || !config.groups.is_empty())
}

/// The web wallet's page, for a daemon whose interfaces have these URLs. It plays the simulator's
/// person only for development.
pub fn web_wallet(config: &Config, urls: &PublicUrls, simulation: ReadSimulation) -> Option<WebWallet> {
    let operator = config.sign_in.page.service_name.as_ref().map(ToString::to_string);
    let simulation = config.dev.then_some(simulation);
    serves_web_wallet(config).then(|| WebWallet::new(urls, operator, simulation)).flatten()
}

fn definition(config: &Config, group: &Group) -> GroupDefinition {
    let awaited = |roll: &config::AwaitedRoll| AwaitedRoll { name: roll.name.clone(), at: roll.at.unix_seconds() };
    let counted = |action: &config::Action| {
        let app = config.apps.iter().find(|app| app.id == action.app_id)?;
        let is_of_group = config.action_sources(app, action).only_group() == Some(group);
        let roll = action.roll.clone().filter(|_| is_of_group)?;
        let number = FieldNumber(external_nullifier(&action.app_id, &action.action));
        Some(CountedRoll { roll, action: RollAction { app_id: action.app_id.clone(), external_nullifier: number } })
    };
    GroupDefinition {
        id: group.id,
        name: group.name.clone(),
        environment: group.environment,
        legacy_identifier: group.legacy_identifier,
        link_days: group.link_days,
        rolls: group.rolls.iter().map(awaited).collect(),
        actions: config.actions.iter().filter_map(counted).collect(),
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;
    use selfsame_protocol::time::UnixSeconds;
    use selfsame_protocol::tree::Root;
    use selfsame_protocol::verification::ProofKind;
    use selfsame_protocol::verification::roots::RootTrust;

    use super::*;

    #[test]
    fn a_group_has_its_awaited_rolls_and_the_actions_that_count_one() {
        let text = "
            [[groups]]
            id = 'members'
            name = 'Members of the cooperative'
            legacy_identifier = 'device'
            rolls = [{ name = '2026-12-01', at = '2026-12-01T12:00:00Z' }]
            [[groups]]
            id = 'others'
            name = 'Others'
            link_days = 7
            [[apps]]
            id = 'app_vote'
            [[actions]]
            app_id = 'app_vote'
            action = 'board'
            accepted_identifiers = ['device']
            roll = '2026-12-01'
            [[actions]]
            app_id = 'app_vote'
            action = 'survey'
            accepted_identifiers = ['members']
        ";
        let mut config: Config = toml::from_str(text).unwrap();
        let GroupSettings { groups, needs_permit, per_source } = group_settings(&config);
        assert!(needs_permit && per_source.is_none());
        let [members, others] = groups.as_slice() else { panic!("{groups:?}") };
        assert_eq!((members.link_days, others.link_days), (30, 7));
        let rolls: Vec<_> = members.rolls.iter().map(|roll| (roll.name.as_str(), roll.at)).collect();
        assert_eq!(rolls, [("2026-12-01", UnixSeconds(1_796_126_400))]);
        let counted: Vec<_> =
            members.actions.iter().map(|counted| (counted.roll.as_str(), counted.action.clone())).collect();
        let external_nullifier = FieldNumber(external_nullifier("app_vote", "board"));
        let board = RollAction { app_id: "app_vote".to_owned(), external_nullifier };
        assert_eq!(counted, [("2026-12-01", board)]);
        assert_eq!((&others.rolls[..], &others.actions[..]), (&[][..], &[][..]));
        config.dev = true;
        assert!(!group_settings(&config).needs_permit);
    }

    #[test]
    fn roots_that_a_group_hides_are_found_by_name_and_environment() {
        use LegacyIdentifier::{Device, Orb};

        let text = "groups = [{ id = 'members', name = 'M', environment = 'staging', legacy_identifier = 'device' }]";
        let config: Config = toml::from_str(text).unwrap();
        let root = |number: u64, environment, identifiers: &[LegacyIdentifier]| TrustedRoot {
            key: RootKey { environment, kind: ProofKind::Legacy, root: Root::from_number(U256::from(number)) },
            trust: RootTrust { time: UnixSeconds(1), identifiers: identifiers.to_vec() },
        };
        let hidden = root(1, Environment::Staging, &[Orb, Device]);
        let others = [root(2, Environment::Production, &[Device]), root(3, Environment::Staging, &[Orb])];
        let trusted = TrustedRoots::new(others.into_iter().chain([hidden.clone()]), []);
        assert_eq!(hidden_roots(&config, &trusted), [(hidden.key, Device, "members".parse().unwrap())]);
        assert_eq!(hidden_roots(&Config::default(), &trusted), []);
    }
}
