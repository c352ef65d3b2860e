//! `[[chains]]`: presets and the entries that change them.

use std::time::Duration;

use selfsame_protocol::verification::{Environment, LegacyIdentifier};

use super::{CERTAIN_KEY, check_problems, load};
use crate::config::{Block, Contract, ContractKind};

const NODE: &str = "rpc = ['https://node.example/a-secret-key']";

fn contracts(text: &str) -> Vec<Contract> {
    let config = load(text).unwrap();
    config.chains[0].contracts().into_iter().map(Result::unwrap).collect()
}

#[test]
fn presets_name_the_contracts_of_the_public_deployments() {
    for (preset, chain_id, environment, expected) in [
        ("ethereum", 1, Environment::Production, "orb document secure-document"),
        ("sepolia", 11_155_111, Environment::Staging, "orb secure-document"),
        ("world-chain", 480, Environment::Production, "verifier registry issuers oprf-keys"),
        ("world-chain-staging", 480, Environment::Staging, "verifier registry issuers oprf-keys"),
    ] {
        let text = format!("[[chains]]\nname = 'c'\npreset = '{preset}'\n{NODE}");
        let config = load(&text).unwrap();
        assert_eq!((config.chains[0].chain_id(), config.chains[0].agree(1)), (Some(chain_id), 1));
        let contracts = contracts(&text);
        let names: Vec<&str> = contracts.iter().map(|contract| contract.name.as_str()).collect();
        assert_eq!(names.join(" "), expected);
        assert!(contracts.iter().all(|contract| contract.environment == environment));
        for contract in contracts {
            let is_legacy = contract.kind == ContractKind::IdentityManager;
            assert_eq!(is_legacy, !contract.identifiers.is_empty(), "{}", contract.name);
            let seconds = match contract.kind {
                ContractKind::Registry => 3,
                ContractKind::Issuers | ContractKind::OprfKeys => 30,
                ContractKind::Verifier => 600,
                _ => 12,
            };
            assert_eq!(contract.interval, Duration::from_secs(seconds));
        }
    }
}

#[test]
fn an_entry_changes_a_contract_of_the_preset_or_adds_one() {
    let contracts = contracts(&format!(
        "
        [[chains]]
        name = 'c'
        preset = 'ethereum'
        {NODE}
        [[chains.contracts]]
        name = 'document'
        enabled = false
        [[chains.contracts]]
        name = 'orb'
        block = 'finalized'
        interval = '1m'
        [[chains.contracts]]
        name = 'bridge'
        kind = 'bridge'
        address = '0x00000000000000000000000000000000000000FF'
        environment = 'production'
        identifiers = ['orb', 'face']
        "
    ));
    let names: Vec<&str> = contracts.iter().map(|contract| contract.name.as_str()).collect();
    assert_eq!(names, ["orb", "secure-document", "bridge"]);
    let [orb, _, bridge] = &contracts[..] else { panic!("three contracts") };
    assert_eq!((orb.block, orb.interval), (Block::Finalized, Duration::from_secs(60)));
    assert_eq!(orb.fresh_for, Duration::from_secs(1800), "a final block is known to be old");
    assert_eq!(orb.identifiers, [LegacyIdentifier::Orb]);
    assert_eq!((bridge.kind, bridge.block), (ContractKind::Bridge, Block::Latest));
    assert_eq!(bridge.identifiers, [LegacyIdentifier::Orb, LegacyIdentifier::Face]);
}

/// An entry with an address counts before the verifier's word, and the verifier's word before the
/// preset.
#[test]
fn the_verifier_says_where_contracts_are_that_no_entry_places() {
    let chain = format!("[[chains]]\nname = 'c'\npreset = 'world-chain'\n{NODE}\n");
    let own = "address = '0x00000000000000000000000000000000000000FF'";
    let entry = |name: &str, rest: &str| format!("[[chains.contracts]]\nname = '{name}'\n{rest}\n");
    let places = |text: String| -> Vec<(ContractKind, bool)> {
        contracts(&text).into_iter().map(|contract| (contract.kind, contract.address.is_some())).collect()
    };
    use ContractKind::{Issuers, OprfKeys, Registry, RelyingParties, Verifier};
    let preset = places(chain.clone());
    assert_eq!(preset, [(Verifier, true), (Registry, false), (Issuers, false), (OprfKeys, false)]);
    let pinned = places(chain.clone() + &entry("issuers", own));
    assert_eq!(pinned, [(Verifier, true), (Registry, false), (Issuers, true), (OprfKeys, false)]);
    let unverified = places(chain.clone() + &entry("verifier", "enabled = false"));
    assert_eq!(unverified, [(Registry, true), (Issuers, true), (OprfKeys, true)]);
    let parties = places(chain.clone() + &entry("relying-parties", "enabled = true"));
    assert_eq!(parties.last(), Some(&(RelyingParties, true)));
    // Without a preset.
    let chain = format!("[[chains]]\nname = 'c'\nchain_id = 7\n{NODE}\n");
    let verifier = entry("v", &format!("kind = 'verifier'\nenvironment = 'staging'\n{own}"));
    let registry = entry("r", "kind = 'registry'\nenvironment = 'staging'");
    assert_eq!(places(chain + &verifier + &registry), [(Verifier, true), (Registry, false)]);
}

/// One node of several that lies is outvoted, also when the operator left `agree` out.
#[test]
fn more_than_half_of_the_nodes_agree_unless_the_setting_says_otherwise() {
    for (nodes, agree, expected) in
        [(1, "", 1), (2, "", 2), (3, "", 2), (4, "", 3), (5, "", 3), (3, "agree = 1", 1), (3, "agree = 3", 3)]
    {
        let urls: Vec<String> = (0..nodes).map(|node| format!("https://node-{node}.example/")).collect();
        let text = format!("[[chains]]\nname = 'c'\npreset = 'ethereum'\nrpc = {urls:?}\n{agree}");
        let config = load(&text).unwrap();
        let followed = crate::chains::followed_chain(&config, &config.chains[0]).unwrap();
        assert_eq!(followed.settings.agree, expected, "{nodes} nodes, {agree:?}");
    }
}

#[test]
fn errors_in_chains_name_the_key() {
    let chain = |rest: &str| format!("[[chains]]\nname = 'c'\n{rest}");
    let contract = |rest: &str| chain(&format!("chain_id = 1\n{NODE}\n[[chains.contracts]]\nname = 'a'\n{rest}"));
    let address = "address = '0x00000000000000000000000000000000000000FF'\nenvironment = 'staging'";
    let registry = format!("kind = 'registry'\n{address}");
    let other = "0x00000000000000000000000000000000000000EE";
    let cases: [(String, &[&str]); 23] = [
        (chain("preset = 'ethereum'"), &["chains[0].rpc: is missing"]),
        (chain(&format!("preset = 'ethereum'\n{NODE}\nrpc_file = 'x'")), &["chains[0].rpc_file: ", "beside rpc"]),
        (chain(&format!("preset = 'ethereum'\n{NODE}\nagree = 2")), &["chains[0].agree: 2 nodes", "give 1 to 1"]),
        (chain(&format!("preset = 'ethereum'\n{NODE}\nagree = 0")), &["chains[0].agree: 0 nodes"]),
        (chain("preset = 'ethereum'\nrpc = ['ftp://node.example/a-secret-key']"), &["chains[0].rpc[0]: "]),
        (chain(&format!("preset = 'other'\n{NODE}")), &["chains[0].preset: ", "world-chain"]),
        (chain(&format!("preset = 'ethereum'\n{NODE}\nrequest_timeout = '16s'")), &["request_timeout: ", "15s"]),
        (format!("[[chains]]\nname = 'C c'\npreset = 'ethereum'\n{NODE}"), &["chains[0].name: \"C c\" is not a name"]),
        (chain(&format!("chain_id = 1\n{NODE}")), &["chains[0].contracts: is empty"]),
        (chain(&format!("{NODE}\n[[chains.contracts]]\nname = 'a'\n{registry}")), &["chains[0].chain_id: is missing"]),
        (contract(address), &["chains[0].contracts[0].kind: is missing"]),
        (contract("kind = 'registry'\nenvironment = 'staging'"), &["chains[0].contracts[0].address: is missing"]),
        (contract(&format!("kind = 'bridge'\n{address}")), &["contracts[0].identifiers: is missing", "[\"orb\"]"]),
        (contract(&format!("{registry}\nidentifiers = ['orb']")), &["identifiers: is for legacy trees only"]),
        (contract(&format!("{registry}\ninterval = '1ms'")), &["contracts[0].interval: 1ms is out of range"]),
        (contract(&format!("{registry}\ninterval = '40s'")), &["contracts[0].fresh_for: ", "two intervals"]),
        (contract(&format!("{registry}\nstale_after = '30s'")), &["contracts[0].fresh_for: ", "stale_after"]),
        (contract(&format!("{registry}\nblocks_per_request = 0")), &["blocks_per_request: 0 is out of range"]),
        (
            contract(&format!("{registry}\n[[chains.contracts]]\nname = 'b'\n{registry}")),
            &["chains[0].contracts: c/b is the contract of c/a already"],
        ),
        (contract(&format!("{registry}\nproof_verifiers = ['{other}']")), &["proof_verifiers: is for verifiers only"]),
        (contract(&format!("{registry}\nimplementations = ['0x1']")), &["implementations", "40 hex digits"]),
        (contract(&format!("{registry}\non_upgrade = 'ignore'")), &["contracts[0].on_upgrade: ", "stop"]),
        (
            contract(&format!(
                "kind = 'verifier'\n{address}\n[[chains.contracts]]\nname = 'b'\nkind = 'verifier'\n\
                 environment = 'staging'\naddress = '{other}'"
            )),
            &["contracts[1].kind: staging has a verifier already"],
        ),
    ];
    for (text, parts) in cases {
        check_problems(load(&text), &[parts]);
    }
    let shown = format!("{:?}", load(&chain(&format!("preset = 'ethereum'\n{NODE}"))).unwrap());
    assert!(!shown.contains("a-secret-key"), "{shown}");
}

#[test]
fn an_issuer_has_a_configured_or_a_followed_key() {
    let issuer = "[[issuers]]\nid = 1\nenvironments = ['production']\n";
    check_problems(load(issuer), &[&["issuers[0].public_key: is missing", "issuers of production"]]);
    let chain = format!("[[chains]]\nname = 'c'\npreset = 'world-chain'\n{NODE}\n");
    assert!(load(&format!("{chain}{issuer}")).is_ok());
    let staging = chain.replace("world-chain", "world-chain-staging");
    check_problems(load(&format!("{staging}{issuer}")), &[&["issuers[0].public_key: is missing"]]);
}

#[test]
fn an_application_with_a_followed_oprf_key_takes_current_proofs_by_default() {
    let app = "[[apps]]\nid = 'app_a'\n[[relying_parties]]\napp_id = 'app_a'\n";
    let chain = format!("[[chains]]\nname = 'c'\npreset = 'world-chain'\n{NODE}\n");
    let accepts_legacy = |text: &str| {
        let config = load(text).unwrap();
        config.accepts_legacy(&config.apps[0])
    };
    assert!(accepts_legacy(app));
    assert!(!accepts_legacy(&format!("{chain}{app}")));
    // Without an entry of its relying party, no key is followed.
    assert!(accepts_legacy(&format!("{chain}[[apps]]\nid = 'app_a'\n")));
    let limited = "[[actions]]\napp_id = 'app_a'\naction = 'vote'\nmax_verifications = 1\n";
    let both = app.replace("id = 'app_a'\n[[", "id = 'app_a'\naccept_legacy = true\n[[");
    check_problems(load(&format!("{chain}{both}{limited}")), &[&["actions[0].max_verifications: "]]);

    // A reload does not take over the chain, so the application would count persons by legacy
    // proofs.
    let before = load(&format!("{app}oprf_public_key = {CERTAIN_KEY}\n")).unwrap();
    let error = before.with_reloaded(load(&format!("{chain}{app}")).unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("apps[0]: ") && error.contains("restart the daemon"), "{error}");
    let issuer = "[[issuers]]\nid = 1\nenvironments = ['production']\n";
    let error = before.with_reloaded(load(&format!("{chain}{issuer}")).unwrap()).unwrap_err().to_string();
    assert!(error.contains("issuers[0].public_key: is missing"), "{error}");
}
