//! The rules about the lists, whose entries refer to each other: applications, actions, issuers,
//! attestation issuers, relying parties, trusted roots, chains and webhooks.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::Duration;

use selfsame_protocol::Address;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::identity::{RequestedEnvironment, hash_text};
use selfsame_protocol::verification::integrity::{GREATEST_SCORE, GREATEST_TOLERANCE};
use selfsame_protocol::verification::request::SIGN_IN_ACTION;
use selfsame_protocol::verification::roots::check_identifiers as check_root_identifiers;

use super::groups::{self, check_groups};
use super::{DAY, HOUR, InvalidSetting, MILLISECOND, SECOND, invalid_setting};
use crate::config::Config;
use crate::config::chains::{Chain, ContractKind};
use crate::config::directory::{Action, App};
use crate::config::sections::{CrossDevice, Environment, LegacyIdentifier, ProofKind, SubjectKind};
use crate::config::values::{AccountAddress, RelyingPartyId, StagingKey};

/// The least time between two regular reads of the keys of an attestation issuer.
const MINUTE: Duration = Duration::from_secs(60);

/// The longest time for an answer of a node: a step asks several nodes within a minute.
const LONGEST_ROUND_TRIP: Duration = Duration::from_secs(15);

/// The rules about the lists, whose entries refer to each other.
pub(in crate::config) fn check_lists(config: &Config) -> Vec<InvalidSetting> {
    [
        check_groups(config),
        check_apps(config),
        check_actions(config),
        check_issuers(config),
        check_issuer_keys(config),
        check_integrity(config),
        check_relying_parties(config),
        check_trusted_roots(config),
        check_chains(config),
        check_webhooks(config),
    ]
    .concat()
}

/// The most secrets of one application: the old one and the new one while it is changed.
const MOST_SECRETS: usize = 2;

fn check_apps(config: &Config) -> Vec<InvalidSetting> {
    let mut found = Vec::new();
    let mut ids = Seen::new("apps");
    for (index, app) in config.apps.iter().enumerate() {
        let key = |name: &str| format!("apps[{index}].{name}");
        if let Some(first) = ids.first_before(&app.id, index) {
            found.push(invalid_setting(key("id"), format!("{} is the id of {first} already; ids are unique", app.id)));
        }
        if app.client_secret_hash.is_some() && !app.client_secret_hashes.is_empty() {
            let message = "stands beside client_secret_hash; write both hashes in this list";
            found.push(invalid_setting(key("client_secret_hashes"), message));
        }
        if app.client_secret_hashes.len() > MOST_SECRETS {
            let count = app.client_secret_hashes.len();
            let message = format!("has {count} hashes; keep at most {MOST_SECRETS}, the old secret and the new one");
            found.push(invalid_setting(key("client_secret_hashes"), message));
        }
        match (app.secret_hashes().next(), app.public) {
            (Some(_), true) => {
                let message = "a public client has no secret; leave out client_secret_hash or public = true";
                found.push(invalid_setting(key("public"), message));
            }
            (None, false) if !app.redirect_uris.is_empty() => {
                let message = "is missing; an application that signs people in has one (`selfsame app new` prints it) \
                               or is public = true";
                found.push(invalid_setting(key("client_secret_hash"), message));
            }
            _ => {}
        }
        if app.environments().is_empty() {
            found.push(invalid_setting(key("environments"), NO_ENVIRONMENT));
        } else if is_deny_in_vain(config, app) {
            found.push(invalid_setting(key("cross_device"), DENY_IN_VAIN));
        }
        found.extend(check_identifiers(config, key("accepted_identifiers"), app.accepted_identifiers.as_deref()));
        if let Some(without) = environment_without_keys(config, app.require_integrity, &app.environments()) {
            found.push(invalid_setting(key("require_integrity"), without));
        }
        found.extend(groups::check_environments(
            config,
            key("accepted_identifiers"),
            app.accepted_identifiers.as_deref(),
            &app.environments(),
        ));
        found.extend(groups::check_sign_in(config, app, index));
        found.extend(check_initiation(app).map(|message| invalid_setting(key("initiate_login_uri"), message)));
        if app.subject == Some(SubjectKind::Derived) && app.subject() != SubjectKind::Derived {
            let message = format!(
                "\"derived\" is for accounts, and the subject of proof = {:?} is its nullifier; leave it out, or set \
                 proof = \"account\"",
                app.proof.name()
            );
            found.push(invalid_setting(key("subject"), message));
        }
    }
    found
}

/// Why an address at which the application begins a sign-in is refused: the service gives it the
/// parameter `iss` (OpenID Connect Core 1.0, section 4).
fn check_initiation(app: &App) -> Option<String> {
    let uri = app.initiate_login_uri.as_ref()?.as_str();
    let (_, query) = uri.split_once('?')?;
    let has_issuer = form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "iss");
    has_issuer.then(|| format!("{uri:?} has the parameter iss, which the service adds itself; write it without"))
}

/// Why `cross_device = "deny"` is refused.
const DENY_IN_VAIN: &str = "\"deny\" does not keep a relay out here: it holds only where each accepted wallet answers \
                            the service's own signed request alone, as those of groups of [[groups]] and those of the \
                            simulator's credentials do (proof = \"current\" with the simulator's key in \
                            verifier.keys.staging). Wallets of other credentials answer the same statement when any \
                            page asks for it, and that page can post the answer as one of the browser's own device. \
                            Leave it out, or set cross_device_deny_despite_relays = true";

/// Whether the sign-in of an application takes proofs that reach a relay, although it denies other
/// devices.
fn is_deny_in_vain(config: &Config, app: &App) -> bool {
    let is_simulated = app.proof.kind() == ProofKind::Current
        && app.sign_in_environment() == Environment::Staging
        && config.verifier.keys.staging.current == StagingKey::Simulator;
    let is_of_members = app.proof.kind() == ProofKind::Legacy && !config.sign_in_sources(app).has_public;
    let is_denied = app.signs_in() && app.cross_device == CrossDevice::Deny;
    is_denied && !app.cross_device_deny_despite_relays && !is_simulated && !is_of_members
}

/// Checks a list of accepted credentials: not empty, and each one that a legacy proof, an issuer or
/// a group of the configuration has.
fn check_identifiers(config: &Config, key: String, accepted: Option<&[String]>) -> Option<InvalidSetting> {
    let accepted = accepted?;
    let mut known: Vec<&str> = LegacyIdentifier::ALL.into_iter().map(LegacyIdentifier::name).collect();
    known.extend(config.issuers.iter().flat_map(|issuer| issuer.identifiers()));
    known.extend(config.groups.iter().map(|group| group.id.as_str()));
    if accepted.is_empty() {
        return Some(invalid_setting(key, "is empty; name the credentials that count, or leave the key out for all"));
    }
    let unknown = accepted.iter().find(|identifier| !known.contains(&identifier.as_str()))?;
    known.sort_unstable();
    known.dedup();
    let message = format!(
        "{unknown:?} is not a credential of [[issuers]] or of legacy proofs, nor a group; known are {}",
        known.join(", ")
    );
    Some(invalid_setting(key, message))
}

const NO_ENVIRONMENT: &str = "is empty; name \"production\", \"staging\" or both";

fn check_actions(config: &Config) -> Vec<InvalidSetting> {
    let mut found = Vec::new();
    let mut actions = Seen::new("actions");
    for (index, action) in config.actions.iter().enumerate() {
        let key = |name: &str| format!("actions[{index}].{name}");
        match config.apps.iter().find(|app| app.id == action.app_id) {
            None => found.push(invalid_setting(key("app_id"), unknown_app(&action.app_id))),
            Some(app) if !app.environments().contains(&action.environment) => {
                let accepted: Vec<_> = app.environments().iter().map(|environment| environment.name()).collect();
                let given = action.environment.name();
                let message = format!("{} does not accept {given}, only {}", app.id, accepted.join(", "));
                found.push(invalid_setting(key("environment"), message));
            }
            Some(app) if action.genesis_issued_at_min.is_some() && takes_legacy(config, app, action) => {
                let message = "is for current proofs, and the action accepts legacy ones, which show no time of issue; \
                               set accept_legacy = false";
                found.push(invalid_setting(key("genesis_issued_at_min"), message));
            }
            Some(app) if counts_persons_twice(config, app, action) => {
                let message = format!(
                    "{} limits an action that accepts legacy and current proofs, so one person can reach the limit with \
                     each; set accept_legacy = false, or counts_kinds_separately = true to count them separately",
                    action.max_verifications
                );
                found.push(invalid_setting(key("max_verifications"), message));
            }
            Some(_) => {}
        }
        if action.action.is_empty() {
            found.push(invalid_setting(key("action"), "is empty; give the action's text"));
        }
        if hash_text(&action.action) == hash_text(SIGN_IN_ACTION) {
            let message = format!("{:?} is the action of sign-ins; choose another text", action.action);
            found.push(invalid_setting(key("action"), message));
        }
        found.extend(check_identifiers(config, key("accepted_identifiers"), action.accepted_identifiers.as_deref()));
        if let Some(without) = environment_without_keys(config, action.require_integrity, &[action.environment]) {
            found.push(invalid_setting(key("require_integrity"), without));
        }
        found.extend(check_scores(action).map(|(name, message)| invalid_setting(key(name), message)));
        found.extend(groups::check_environments(
            config,
            key("accepted_identifiers"),
            action.accepted_identifiers.as_deref(),
            &[action.environment],
        ));
        if let Some(app) = config.apps.iter().find(|app| app.id == action.app_id) {
            found.extend(groups::check_action(config, app, action, index));
        }
        // Texts with the same hash are the same action: `0x` and hex digits stand for bytes.
        if let Some(first) =
            actions.first_before((&action.app_id, hash_text(&action.action), action.environment), index)
        {
            let message = format!("{:?} of this application and environment is {first} already", action.action);
            found.push(invalid_setting(key("action"), message));
        }
    }
    found
}

/// Whether an action accepts legacy proofs.
pub(super) fn takes_legacy(config: &Config, app: &App, action: &Action) -> bool {
    config.accepts_legacy(app) && action.accept_legacy
}

/// Whether an action has a limit that a person can reach with legacy and with current proofs.
fn counts_persons_twice(config: &Config, app: &App, action: &Action) -> bool {
    let accepts_both = takes_legacy(config, app, action) && config.takes_current_proofs(app);
    action.max_verifications > 0 && accepts_both && !action.counts_kinds_separately
}

fn check_issuers(config: &Config) -> Vec<InvalidSetting> {
    let mut found = Vec::new();
    let mut issuers = Seen::new("issuers");
    for (index, issuer) in config.issuers.iter().enumerate() {
        let key = |name: &str| format!("issuers[{index}].{name}");
        let environments: HashSet<Environment> = issuer.environments().iter().copied().collect();
        if environments.is_empty() {
            found.push(invalid_setting(key("environments"), NO_ENVIRONMENT));
        }
        let twice = environments.iter().find_map(|environment| issuers.first_before((issuer.id, *environment), index));
        if let Some(first) = twice {
            let message = format!("{} is the id of {first} already; ids are unique in an environment", issuer.id);
            found.push(invalid_setting(key("id"), message));
        }
        let identifiers = issuer.identifiers();
        if identifiers.is_empty() || identifiers.contains(&"") {
            let message = format!("issuer {} has to name the identifiers of its proofs: [\"passport\"]", issuer.id);
            found.push(invalid_setting(key("identifiers"), message));
        }
    }
    found
}

/// Whether every issuer has a key: a configured one, or one that is followed.
fn check_issuer_keys(config: &Config) -> Vec<InvalidSetting> {
    let mut found = Vec::new();
    for (index, issuer) in config.issuers.iter().enumerate().filter(|(_, issuer)| issuer.public_key.is_none()) {
        let missing = issuer.environments().iter().find(|own| !config.follows(ContractKind::Issuers, **own));
        found.extend(missing.map(|environment| {
            let message = format!(
                "is missing, and no chain is followed for the issuers of {}; give the key that signs its credentials",
                environment.name()
            );
            invalid_setting(format!("issuers[{index}].public_key"), message)
        }));
    }
    found
}

/// Why a requirement of an integrity bundle is refused: nothing could be judged in one of the
/// environments.
fn environment_without_keys(config: &Config, is_required: bool, environments: &[Environment]) -> Option<String> {
    let has_keys = |environment: Environment| {
        config.integrity.iter().any(|entry| entry.environments.contains(&environment.into()))
    };
    let without = environments.iter().find(|environment| is_required && !has_keys(**environment))?.name();
    Some(format!(
        "needs the keys of an attestation issuer for {without}, and no entry of [[integrity]] has that environment; every \
         request would be refused"
    ))
}

/// Why the bounds of an action's scores are refused, and which.
fn check_scores(action: &Action) -> Option<(&'static str, String)> {
    let bounds = [("min_sybil_score", action.min_sybil_score), ("max_sybil_score", action.max_sybil_score)];
    if let Some((name, Some(bound))) = bounds.iter().find(|(_, bound)| bound.is_some_and(|it| it > GREATEST_SCORE)) {
        return Some((name, format!("{bound} is out of range; give 0 to {GREATEST_SCORE}")));
    }
    let [(_, Some(min)), (name, Some(max))] = bounds else { return None };
    (min > max).then(|| (name, format!("{max} is below min_sybil_score, {min}: no score is between them")))
}

/// The longest name of an attestation issuer, in bytes.
const LONGEST_ISSUER: usize = 256;

fn check_integrity(config: &Config) -> Vec<InvalidSetting> {
    let mut found = Vec::new();
    let mut environments = Seen::new("integrity");
    for (index, entry) in config.integrity.iter().enumerate() {
        let key = |name: &str| format!("integrity[{index}].{name}");
        if !(1..=LONGEST_ISSUER).contains(&entry.issuer.len()) {
            let message = "is empty or too long; give the name that tokens have in iss, such as attestation.example";
            found.push(invalid_setting(key("issuer"), message));
        }
        if entry.environments.is_empty() {
            let message = "is empty; name \"production\", \"staging\", \"sandbox\" or several of them";
            found.push(invalid_setting(key("environments"), message));
        }
        for environment in &entry.environments {
            if let Some(first) = environments.first_before(*environment, index) {
                let message = format!("has {}, as {first} does; an environment has one issuer", environment.name());
                found.push(invalid_setting(key("environments"), message));
            }
        }
        let given = [entry.jwks.is_some(), entry.jwks_file.is_some(), entry.simulator];
        if given.into_iter().filter(|is_given| *is_given).count() != 1 {
            let message = "needs exactly one of jwks, jwks_file and simulator = true, which say where its keys are";
            found.push(invalid_setting(key("jwks"), message));
        }
        if let Some(url) = entry.jwks.as_ref().filter(|url| url.is_plain_http_to_another_machine()) {
            let message = format!(
                "{url} is plain HTTP to another machine, so that others on the way could vouch for any app; use https"
            );
            found.push(invalid_setting(key("jwks"), message));
        }
        if entry.simulator && entry.environments.contains(&RequestedEnvironment::Production) {
            let message = "is not for production: everybody can make bundles of the simulator";
            found.push(invalid_setting(key("simulator"), message));
        }
        let staging = &config.verifier.keys.staging;
        if entry.simulator && ![&staging.legacy, &staging.current].contains(&&StagingKey::Simulator) {
            let message = "needs the simulator's seed: set a key of verifier.keys.staging to \"simulator\"";
            found.push(invalid_setting(key("simulator"), message));
        }
        if entry.authorities.is_some() && entry.jwks.is_none() {
            found.push(invalid_setting(key("authorities"), "is for jwks alone"));
        }
        let bounds = [
            ("refresh", *entry.refresh, MINUTE, DAY),
            ("clock_tolerance", *entry.clock_tolerance, Duration::ZERO, Duration::from_secs(GREATEST_TOLERANCE)),
        ];
        for (name, value, least, most) in bounds {
            if !(least..=most).contains(&value) {
                let text = humantime::format_duration;
                let message = format!("{} is out of range; give {} to {}", text(value), text(least), text(most));
                found.push(invalid_setting(key(name), message));
            }
        }
    }
    found
}

fn check_relying_parties(config: &Config) -> Vec<InvalidSetting> {
    let mut found = Vec::new();
    let mut apps = Seen::new("relying_parties");
    let mut ids: HashMap<RelyingPartyId, &str> = HashMap::new();
    let entries = &config.relying_parties;
    // Applications without an entry have the id that is derived from theirs.
    for app in config.apps.iter().filter(|app| entries.iter().all(|entry| entry.app_id != app.id)) {
        ids.insert(RelyingPartyId::derived_from(&app.id), &app.id);
    }
    for (index, party) in entries.iter().enumerate() {
        let key = |name: &str| format!("relying_parties[{index}].{name}");
        if config.apps.iter().all(|app| app.id != party.app_id) {
            found.push(invalid_setting(key("app_id"), unknown_app(&party.app_id)));
        }
        if let Some(first) = apps.first_before(&party.app_id, index) {
            let message = format!("{} has {first} already; an application has one relying party", party.app_id);
            found.push(invalid_setting(key("app_id"), message));
        } else if let Some(owner) = ids.insert(party.rp_id(), &party.app_id) {
            let message = format!("{} is the id of {owner} already; ids are unique", party.rp_id());
            found.push(invalid_setting(key("rp_id"), message));
        }
        if party.signing_key == Some(AccountAddress(Address::ZERO)) {
            found.push(invalid_setting(key("signing_key"), "is the zero address, which belongs to no key".to_owned()));
        }
        if party.require_signed_requests && party.signing_key.is_none() {
            let message = "needs signing_key, the address of the key that signs the requests";
            found.push(invalid_setting(key("require_signed_requests"), message.to_owned()));
        }
        if party.require_signal_nonce && !party.require_signed_requests {
            let message = "needs require_signed_requests = true: the signal is compared with the signed nonce";
            found.push(invalid_setting(key("require_signal_nonce"), message.to_owned()));
        }
    }
    found
}

fn check_trusted_roots(config: &Config) -> Vec<InvalidSetting> {
    let mut found = Vec::new();
    let mut roots: Seen<(Root, Environment, ProofKind)> = Seen::new("trusted_roots");
    for (index, root) in config.trusted_roots.iter().enumerate() {
        let key = format!("trusted_roots[{index}].root");
        if let Some(first) = roots.first_before((root.root.root(), root.environment, root.kind), index) {
            found.push(invalid_setting(key, format!("is {first} already, of the same environment and kind")));
        }
        if let Err(error) = check_root_identifiers(root.kind, &root.identifiers) {
            found.push(invalid_setting(format!("trusted_roots[{index}].identifiers"), error.to_string()));
        }
    }
    found
}

fn check_chains(config: &Config) -> Vec<InvalidSetting> {
    let mut found = Vec::new();
    let mut names = Seen::new("chains");
    for (index, chain) in config.chains.iter().enumerate() {
        let key = |name: &str| format!("chains[{index}].{name}");
        if !is_plain_name(&chain.name) {
            let message = format!("{:?} is not a name: 1 to 64 lower-case letters, digits and -", chain.name);
            found.push(invalid_setting(key("name"), message));
        }
        if let Some(first) = names.first_before(&chain.name, index) {
            found.push(invalid_setting(key("name"), format!("{} is the name of {first} already", chain.name)));
        }
        if chain.chain_id().is_none_or(|chain_id| chain_id == 0) {
            found.push(invalid_setting(key("chain_id"), "is missing; give the number of the chain, or a preset"));
        }
        match (chain.rpc.len(), &chain.rpc_file) {
            (0, None) => found.push(invalid_setting(key("rpc"), "is missing; give the URL of a node, or rpc_file")),
            (1.., Some(_)) => {
                found.push(invalid_setting(key("rpc_file"), "is given beside rpc; give one of them"));
            }
            (nodes, None) if !(1..=nodes).contains(&chain.agree(nodes)) => {
                let message = format!("{} nodes cannot agree among {nodes}; give 1 to {nodes}", chain.agree(nodes));
                found.push(invalid_setting(key("agree"), message));
            }
            _ => {}
        }
        if !(MILLISECOND..=LONGEST_ROUND_TRIP).contains(&*chain.request_timeout) {
            found.push(invalid_setting(key("request_timeout"), "is out of range; give 1ms to 15s"));
        }
        found.extend(check_contracts(chain, index));
    }
    found.extend(check_followed_once(config));
    found
}

/// Each contract is followed once: the records of what was read are kept by contract.
fn check_followed_once(config: &Config) -> Vec<InvalidSetting> {
    let mut followed = HashMap::new();
    let contracts = config.chains.iter().enumerate().flat_map(|(index, chain)| {
        chain.contracts().into_iter().flatten().map(move |contract| (index, chain, contract))
    });
    contracts
        .filter_map(|(index, chain, contract)| {
            let name = format!("{}/{}", chain.name, contract.name);
            // A contract without an address is where the verifier of its environment says.
            let located = contract.address.is_none().then_some((contract.kind, contract.environment));
            let first = followed.insert((chain.chain_id(), contract.address, located), name.clone())?;
            let message = format!("{name} is the contract of {first} already; follow it once");
            Some(invalid_setting(format!("chains[{index}].contracts"), message))
        })
        .collect()
}

fn check_contracts(chain: &Chain, chain_index: usize) -> Vec<InvalidSetting> {
    let mut found = Vec::new();
    let mut names = HashSet::new();
    let key = |index: usize, name: &str| format!("chains[{chain_index}].contracts[{index}].{name}");
    for (index, entry) in chain.contracts.iter().enumerate() {
        if !is_plain_name(&entry.name) || !names.insert(&entry.name) {
            let message = format!(
                "{:?} is not a name of its own: 1 to 64 lower-case letters, digits and -, once in the chain",
                entry.name
            );
            found.push(invalid_setting(key(index, "name"), message));
        }
    }
    let contracts = chain.contracts();
    let mut verified = HashSet::new();
    if contracts.is_empty() {
        found
            .push(invalid_setting(format!("chains[{chain_index}].contracts"), "is empty; give a contract or a preset"));
    }
    for contract in contracts {
        let contract = match contract {
            Ok(contract) => contract,
            Err((index, missing)) => {
                found.push(invalid_setting(key(index, missing), "is missing"));
                continue;
            }
        };
        // Contracts of a preset have no entry unless one changes them.
        let index = chain.contracts.iter().position(|entry| entry.name == contract.name).unwrap_or_default();
        let is_legacy = matches!(contract.kind, ContractKind::IdentityManager | ContractKind::Bridge);
        if is_legacy == contract.identifiers.is_empty() {
            let message = if is_legacy {
                "is missing; name the credentials that all members of the tree have: [\"orb\"]"
            } else {
                "is for legacy trees only"
            };
            found.push(invalid_setting(key(index, "identifiers"), message));
        }
        let durations = [
            ("interval", contract.interval, SECOND, HOUR),
            ("fresh_for", contract.fresh_for, SECOND, DAY),
            ("stale_after", contract.stale_after, SECOND, 7 * DAY),
            ("reach", contract.reach, HOUR, 30 * DAY),
        ];
        for (name, value, least, most) in durations {
            if !(least..=most).contains(&value) {
                let text = humantime::format_duration;
                let message = format!("{} is out of range; give {} to {}", text(value), text(least), text(most));
                found.push(invalid_setting(key(index, name), message));
            }
        }
        let (bound, bounded) = match contract.kind.has_roots() {
            true => ("fresh_for", contract.fresh_for),
            false => ("stale_after", contract.stale_after),
        };
        if contract.kind != ContractKind::Verifier && !contract.proof_verifiers.is_empty() {
            found.push(invalid_setting(key(index, "proof_verifiers"), "is for verifiers only"));
        }
        if contract.kind == ContractKind::Verifier && !verified.insert(contract.environment) {
            let message =
                format!("{} has a verifier already; follow one in each environment", contract.environment.name());
            found.push(invalid_setting(key(index, "kind"), message));
        }
        if contract.interval * 2 > bounded || contract.fresh_for > contract.stale_after {
            let message = format!(
                "is too short; give at least two intervals for {bound}, and no less to stale_after than to fresh_for"
            );
            found.push(invalid_setting(key(index, bound), message));
        }
        if !(1..=100_000).contains(&contract.blocks_per_request) {
            let message = format!("{} is out of range; give 1 to 100000", contract.blocks_per_request);
            found.push(invalid_setting(key(index, "blocks_per_request"), message));
        }
    }
    found
}

fn is_plain_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

fn unknown_app(id: &str) -> String {
    format!("{id:?} is not the id of an application in [[apps]]")
}

/// The entries of a list by the value that must be unique among them.
pub(super) struct Seen<T> {
    list: &'static str,
    first: HashMap<T, usize>,
}

impl<T: Eq + Hash> Seen<T> {
    pub fn new(list: &'static str) -> Self {
        Self { list, first: HashMap::new() }
    }

    /// Records the entry. Returns the path of the first entry with the same value, when this is not
    /// the first.
    pub fn first_before(&mut self, value: T, index: usize) -> Option<String> {
        let first = *self.first.entry(value).or_insert(index);
        (first < index).then(|| format!("{}[{first}]", self.list))
    }
}

// The rules about `[events]` and `[[webhooks]]`.

/// The most webhooks.
const MOST_WEBHOOKS: usize = 100;

pub(super) fn check_webhooks(config: &Config) -> Vec<InvalidSetting> {
    let mut found = Vec::new();
    if config.webhooks.len() > MOST_WEBHOOKS {
        let message = format!("has {} entries; give at most {MOST_WEBHOOKS}", config.webhooks.len());
        found.push(invalid_setting("webhooks", message));
    }
    let mut ids = Seen::new("webhooks");
    for (index, webhook) in config.webhooks.iter().enumerate() {
        let key = |name: &str| format!("webhooks[{index}].{name}");
        if !is_plain_name(&webhook.id) {
            let message = format!("{:?} is not a name: 1 to 64 of a to z, 0 to 9 and -", webhook.id);
            found.push(invalid_setting(key("id"), message));
        }
        if let Some(first) = ids.first_before(&webhook.id, index) {
            let message = format!("{:?} is the id of {first} already; ids are unique", webhook.id);
            found.push(invalid_setting(key("id"), message));
        }
        if webhook.url.is_plain_http_to_another_machine() && !webhook.allow_plain_http {
            let message = format!(
                "{} is plain HTTP to another machine, so that others on the way can read and change events; use https, or set \
                 allow_plain_http = true",
                webhook.url.uri()
            );
            found.push(invalid_setting(key("url"), message));
        }
        if webhook.events.is_empty() {
            found.push(invalid_setting(key("events"), "is empty; name the events that are posted"));
        }
        let mut kinds = Seen::new("events");
        for (position, kind) in webhook.events.iter().enumerate() {
            if kinds.first_before(*kind, position).is_some() {
                found.push(invalid_setting(key("events"), format!("has {:?} twice", kind.name())));
            }
        }
        let Some(app_id) = &webhook.app_id else { continue };
        if config.apps.iter().all(|app| app.id != *app_id) {
            found.push(invalid_setting(key("app_id"), unknown_app(app_id)));
        }
        for kind in webhook.events.iter().filter(|kind| !kind.is_for_applications()) {
            let message = format!(
                "{:?} is about no application; leave it out, or leave out app_id for a webhook of the operator",
                kind.name()
            );
            found.push(invalid_setting(key("events"), message));
        }
    }
    found
}
