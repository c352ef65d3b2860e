//! Groups, the rolls that actions count, and how often a person of a group can count.

use super::{check_problems, load};
use crate::config::{Group, Sources};

/// A group of staging with a public name, and one without; an application of staging that verifies.
const GROUPS: &str = "
    [[groups]]
    id = 'members'
    name = 'Members of the cooperative'
    environment = 'staging'
    legacy_identifier = 'device'
    [[groups]]
    id = 'board'
    name = 'Board'
    environment = 'staging'
    [[apps]]
    id = 'app_staging_a'
";

#[test]
fn each_wrong_group_is_refused_with_its_reason() {
    let with = |more: &str| load(&format!("{more}\n{GROUPS}"));
    let group = |settings: &str| load(&format!("{GROUPS}[[groups]]\n{settings}\n"));
    let cases: &[(&str, &[&str])] = &[
        ("name = 'x'", &["groups[2]: the key id is missing"]),
        ("id = 'x'", &["groups[2]: the key name is missing"]),
        (
            "id = 'Members'\nname = 'x'",
            &["groups[2].id: \"Members\" must have 1 to 32 characters", "lower-case letter"],
        ),
        ("id = ''\nname = 'x'", &["groups[2].id: \"\" must have 1 to 32 characters"]),
        ("id = 'board'\nname = 'x'", &["groups[2].id: board is the id of groups[1] already; ids are unique"]),
        (
            "id = 'orb'\nname = 'x'",
            &["groups[2].id: \"orb\" is a public credential; choose another id", "legacy_identifier = \"orb\""],
        ),
        ("id = 'passport'\nname = 'x'", &["groups[2].id: \"passport\" is a credential of an issuer"]),
        ("id = 'proof_of_human'\nname = 'x'", &["groups[2].id: \"proof_of_human\" is a credential of an issuer"]),
        ("id = 'x'\nname = ' '", &["groups[2].name: \" \" is no name; give 1 to 200 bytes"]),
        ("id = 'x'\nname = 'a\\b'\nlegacy_identifier = 'iris'", &["groups[2].legacy_identifier: \"iris\"", "\"orb\""]),
        (
            "id = 'x'\nname = 'x'\nenvironment = 'staging'\nlegacy_identifier = 'device'",
            &["groups[2].legacy_identifier: \"device\" is that of groups[0] already", "one group's in an environment"],
        ),
        ("id = 'x'\nname = 'x'\nlink_days = 0", &["groups[2].link_days: 0 is out of range; give 1 to 365"]),
        ("id = 'x'\nname = 'x'\nlink_days = 366", &["groups[2].link_days: 366 is out of range; give 1 to 365"]),
        (
            "id = 'x'\nname = 'x'\nrolls = [{ name = 'May', at = 2026-05-01T00:00:00Z }]",
            &["groups[2].rolls[0].name: \"May\" must have 1 to 64 characters"],
        ),
        (
            "id = 'x'\nname = 'x'\nrolls = [{ name = 'may', at = 'soon' }]",
            &["groups[2].rolls[0].at: \"soon\"", "2026-01-31T12:00:00Z"],
        ),
        (
            "id = 'x'\nname = 'x'\nrolls = [{ name = 'a', at = 2026-05-01T00:00:00Z }, { name = 'a', at = 2026-06-01T00:00:00Z }]",
            &["groups[2].rolls[1].name: a is the name of another roll of the group; names are unique"],
        ),
    ];
    for (settings, parts) in cases {
        check_problems(group(settings), &[parts]);
    }
    // The same public name in the other environment is another one.
    group("id = 'x'\nname = 'x'\nlegacy_identifier = 'device'").expect("another environment");
    // An issuer may have any name, also a group's.
    let key = super::CERTAIN_KEY;
    let issuer = format!("issuers = [{{ id = 5, identifiers = ['board'], public_key = {key} }}]");
    check_problems(with(&issuer), &[&["groups[1].id: \"board\" is a credential of an issuer; choose another id"]]);
    let named = |environment: &str| {
        with(&format!(
            "issuers = [{{ id = 5, identifiers = ['device'], public_key = {key}, environments = ['{environment}'] }}]"
        ))
    };
    check_problems(
        named("staging"),
        &[&[
            "groups[0].legacy_identifier: \"device\" is that of issuers[0] in staging as well",
            "leave issuers[0] out",
        ]],
    );
    named("production").expect("another environment");
    // Who has roots of the public name there.
    let root = |environment: &str, identifier: &str| {
        format!(
            "trusted_roots = [{{ root = '1', kind = 'legacy', time = 2026-01-31T12:00:00Z, environment = '{environment}', \
             identifiers = ['{identifier}'] }}]"
        )
    };
    check_problems(
        with(&root("staging", "device")),
        &[&["groups[0].legacy_identifier: \"device\" is that of trusted_roots[0] in staging as well", "count as two"]],
    );
    for (environment, identifier) in [("production", "device"), ("staging", "orb")] {
        with(&root(environment, identifier)).unwrap_or_else(|error| panic!("{environment} {identifier}: {error}"));
    }
    let contract = |identifier: &str| {
        format!(
            "[[chains]]\nname = 'c'\nchain_id = 1\nrpc = ['https://node.example']\ncontracts = [{{ name = 'own', kind = \
             'bridge', address = '0x00000000000000000000000000000000000000Fe', environment = 'staging', identifiers = \
             ['{identifier}'] }}]"
        )
    };
    check_problems(
        with(&contract("device")),
        &[&[
            "groups[0].legacy_identifier: \"device\" is that of the contract c/own in staging as well",
            "or leave the contract c/own out",
        ]],
    );
    with(&contract("orb")).expect("another public name");
}

#[test]
fn an_application_and_an_action_name_groups_of_their_own_environment() {
    let app = |accepted: &str| load(&format!("{GROUPS}[[apps]]\nid = 'app_b'\n{accepted}\n"));
    check_problems(
        app("accepted_identifiers = ['others']"),
        &[&["apps[1].accepted_identifiers: \"others\" is not a credential", "nor a group", "board", "members"]],
    );
    check_problems(
        app("accepted_identifiers = ['members']"),
        &[&[
            "apps[1].accepted_identifiers: \"members\" is a group of staging, and proofs of production are taken here",
        ]],
    );
    app("accepted_identifiers = ['members']\nenvironments = ['staging', 'production']").expect("its own environment");
    let action = "[[actions]]\napp_id = 'app_b'\naction = 'vote'\naccepted_identifiers = ['board']";
    check_problems(
        app(&format!("environments = ['staging', 'production']\n{action}")),
        &[&["actions[0].accepted_identifiers: \"board\" is a group of staging, and proofs of production"]],
    );
}

#[test]
fn an_action_with_a_roll_takes_one_group_alone_by_legacy_proofs() {
    let action = |settings: &str| {
        load(&format!(
            "{GROUPS}[[actions]]\napp_id = 'app_staging_a'\nenvironment = 'staging'\naction = 'vote'\n{settings}\n"
        ))
    };
    let one = "accepted_identifiers = ['members']\n";
    for settings in [one, "accepted_identifiers = ['device']\n", "accepted_identifiers = ['device', 'members']\n"] {
        action(&format!("{settings}roll = '2026-assembly'\nmax_verifications = 1")).expect("one group");
    }
    let cases: &[(&str, &[&str])] = &[
        ("roll = 'Assembly'", &["actions[0].roll: \"Assembly\" must have 1 to 64 characters"]),
        (
            "roll = 'r'",
            &["actions[0].roll: r is a roll of one group, and the action takes public credentials", "one group alone"],
        ),
        (
            "accepted_identifiers = ['members', 'board']\nroll = 'r'",
            &["actions[0].roll: r is a roll of one group", "takes the group members and the group board"],
        ),
        (
            "accepted_identifiers = ['members', 'orb']\nroll = 'r'",
            &["actions[0].roll: r is a roll of one group", "takes public credentials and the group members"],
        ),
        (
            "accepted_identifiers = ['members']\naccept_legacy = false\nroll = 'r'",
            &["actions[0].roll: r is a roll of a group", "accepts none", "accept_legacy = true"],
        ),
    ];
    for (settings, parts) in cases {
        check_problems(action(settings), &[parts]);
    }
}

#[test]
fn a_limit_counts_each_member_once_unless_the_configuration_says_otherwise() {
    let action = |settings: &str| {
        load(&format!(
            "{GROUPS}[[actions]]\napp_id = 'app_staging_a'\nenvironment = 'staging'\naction = 'vote'\n{settings}\n"
        ))
    };
    let new_seeds: &[&str] = &[
        "actions[0].max_verifications: 1 limits an action that takes the members of members",
        "name a roll, or set counts_new_seeds = true",
    ];
    let sources: &[&str] = &[
        "actions[0].max_verifications: limits an action that takes public credentials and the group members",
        "counts_sources_separately = true",
    ];
    let one = "accepted_identifiers = ['members']\n";
    let two = "accepted_identifiers = ['device', 'orb']\n";
    check_problems(action(&format!("{one}max_verifications = 1")), &[new_seeds]);
    check_problems(action(&format!("{two}max_verifications = 1")), &[new_seeds, sources]);
    check_problems(action(&format!("{two}max_verifications = 1\ncounts_new_seeds = true")), &[sources]);
    for settings in [
        one.to_owned(),
        two.to_owned(),
        "max_verifications = 1".to_owned(),
        format!("{one}max_verifications = 1\nroll = 'r'"),
        format!("{one}max_verifications = 1\ncounts_new_seeds = true"),
        format!("{one}max_verifications = 1\naccept_legacy = false"),
        format!("{two}max_verifications = 1\ncounts_new_seeds = true\ncounts_sources_separately = true"),
    ] {
        action(&settings).unwrap_or_else(|error| panic!("{settings}: {error}"));
    }
}

#[test]
fn a_sign_in_takes_one_source_of_credentials_and_a_group_by_legacy_proofs() {
    let app = |settings: &str| {
        load(&format!(
            "{GROUPS}[[apps]]\nid = 'app_staging_b'\npublic = true\nredirect_uris = ['https://b.example/']\n{settings}\n"
        ))
    };
    let cases: &[(&str, &[&str])] = &[
        (
            "accepted_identifiers = ['members', 'board']",
            &["apps[1].accepted_identifiers: an application that takes the group members and the group board"],
        ),
        (
            "accepted_identifiers = ['members', 'orb']",
            &["apps[1].accepted_identifiers: an application that takes public credentials and the group members"],
        ),
        (
            "accepted_identifiers = ['device']\nproof = 'account'",
            &["apps[1].proof: \"account\" is for public credentials", "the group members", "proof = \"legacy\""],
        ),
        (
            "accepted_identifiers = ['board']\nproof = 'current'",
            &["apps[1].proof: \"current\" is for public credentials"],
        ),
    ];
    for (settings, parts) in cases {
        check_problems(app(settings), &[parts]);
    }
    for settings in [
        "accepted_identifiers = ['members']",
        "accepted_identifiers = ['device', 'members']",
        "accepted_identifiers = ['members', 'orb']\ncounts_sources_separately = true",
        "accepted_identifiers = ['orb']\nproof = 'account'",
        "proof = 'account'",
    ] {
        app(settings).unwrap_or_else(|error| panic!("{settings}: {error}"));
    }
    // Verification takes each of them, and does not count persons by itself.
    load(&GROUPS.replace("id = 'app_staging_a'", "id = 'app_staging_a'\naccepted_identifiers = ['members', 'orb']"))
        .expect("an application that only verifies");
}

#[test]
fn a_group_is_a_source_only_where_it_is_named() {
    let sources = |accepted: &str| {
        let config = load(&format!("{GROUPS}{accepted}\n")).expect("it loads");
        let Sources { groups, has_public } = config.sign_in_sources(&config.apps[0]);
        let ids: Vec<String> = groups.iter().map(|group: &&Group| group.id.to_string()).collect();
        (ids.join(" "), has_public)
    };
    for (accepted, expected) in [
        ("", ("", true)),
        ("accepted_identifiers = ['members']", ("members", false)),
        ("accepted_identifiers = ['device']", ("members", false)),
        ("accepted_identifiers = ['orb', 'face']", ("", true)),
        ("accepted_identifiers = ['board', 'orb']", ("board", true)),
    ] {
        let (groups, has_public) = sources(accepted);
        assert_eq!((groups.as_str(), has_public), expected, "{accepted}");
    }
}

#[test]
fn a_reload_takes_over_groups() {
    let old = load(GROUPS).expect("it loads");
    let new = load(&GROUPS.replace("'Board'", "'The board'")).expect("it loads");
    let reloaded = old.with_reloaded(new.clone()).expect("it is taken over");
    assert_eq!((reloaded.changed, reloaded.needs_restart), (vec!["groups".to_owned()], Vec::<String>::new()));
    assert_eq!(reloaded.config, new);
}
