//! Every rule about settings that already have the right type.
//!
//! A broken rule is the key's path and a message, which names the value, what is wrong with it and
//! what would be right.

mod cluster;
mod webhooks;

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::net::SocketAddr;
use std::time::Duration;

use selfsame_protocol::Address;
use selfsame_protocol::net::is_loopback_host;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::identity::hash_text;
use selfsame_protocol::verification::request::{MOST_RESPONSES, SIGN_IN_ACTION};
use selfsame_protocol::verification::roots::check_identifiers as check_root_identifiers;
use selfsame_storage::Resources;

use super::chains::{Chain, ContractKind};
use super::cluster::Cluster;
use super::sections::{Action, App, CreateAccount, CrossDevice, Environment, LegacyIdentifier, ProofKind, RateLimit};
use super::traces::{CollectorUrl, Traces};
use super::values::{RelyingPartyId, StagingKey};
use super::whole::Config;
use crate::http::check_socket_path;
use crate::interface::Interface;

/// A key's path and what is wrong with it.
pub(super) type InvalidSetting = (String, String);

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Years of 365.25 days, as `humantime` reads and writes them.
const TEN_YEARS: Duration = Duration::from_secs(3_652 * 24 * 3600 + 12 * 3600);

/// The longest time for an answer of a node: a step asks several nodes within a minute.
const LONGEST_ROUND_TRIP: Duration = Duration::from_secs(15);

/// The upper bound, inclusive, of every count of things that are held in memory.
const MAX_COUNT: usize = 10_000_000;

/// The least memory of the message bridge, in MiB. A source's quarter has room for the greatest
/// message.
const LEAST_BRIDGE_MEMORY: usize = 32;

/// The least cache of the store, in MiB. The parts of indexes that are always in it have room.
const LEAST_CACHE: usize = 8;

/// The least number of open files of the store: enough for the files that one compaction reads.
const LEAST_OPEN_FILES: usize = 64;

/// The rules about single settings.
pub(super) fn check_settings(config: &Config) -> Vec<InvalidSetting> {
    [
        check_counts(config),
        check_durations(config),
        check_addresses(config),
        check_others(config),
        cluster::check_cluster(config),
        check_features(config, cfg!(feature = "otlp")),
    ]
    .concat()
}

/// The rules about the lists, whose entries refer to each other.
pub(super) fn check_lists(config: &Config) -> Vec<InvalidSetting> {
    [
        check_apps(config),
        check_actions(config),
        check_issuers(config),
        check_issuer_keys(config),
        check_relying_parties(config),
        check_trusted_roots(config),
        check_chains(config),
        webhooks::check_webhooks(config),
    ]
    .concat()
}

fn check_counts(config: &Config) -> Vec<InvalidSetting> {
    let Config { registry, batcher, limits, storage, verifier, .. } = config;
    let rate = |limit: &Option<RateLimit>| limit.map(|limit| limit.requests as usize);
    [
        ("registry.max_authenticators", Some(registry.max_authenticators as usize), 7),
        ("batcher.max_operations", Some(batcher.max_operations), 10_000),
        ("limits.max_connections", Some(limits.max_connections), MAX_COUNT),
        ("limits.max_connections_per_source", Some(limits.max_connections_per_source), MAX_COUNT),
        ("limits.in_flight", Some(limits.in_flight), MAX_COUNT),
        ("limits.queue_length", Some(limits.queue_length), MAX_COUNT),
        ("limits.status_waiters", Some(limits.status_waiters), MAX_COUNT),
        ("limits.per_source.requests", rate(&limits.per_source), 100_000),
        ("limits.per_leaf_index.requests", rate(&limits.per_leaf_index), 100_000),
        ("limits.verifications_per_source.requests", rate(&limits.verifications_per_source), 100_000),
        ("limits.verifications_per_application.requests", rate(&limits.verifications_per_application), 100_000),
        ("limits.sign_ins_per_source.requests", rate(&limits.sign_ins_per_source), 100_000),
        ("limits.bridge_per_source.requests", rate(&limits.bridge_per_source), 100_000),
        ("limits.followers_per_source", Some(limits.followers_per_source), MAX_COUNT),
        ("limits.open_sign_ins", Some(limits.open_sign_ins), MAX_COUNT),
        ("storage.cache_mib", storage.cache_mib, 1 << 20),
        ("storage.write_buffer_kib", Some(storage.write_buffer_kib), 1 << 20),
        ("storage.log_mib", Some(storage.log_mib), 4096),
        ("storage.background_jobs", storage.background_jobs, 256),
        ("storage.open_files", storage.open_files, MAX_COUNT),
        ("bridge.memory_mib", Some(config.bridge.memory_mib), 1 << 20),
        ("backup.keep", Some(config.backup.keep), 10_000),
        ("cluster.etcd_quota_mib", config.cluster.as_ref().map(|cluster| cluster.etcd_quota_mib as usize), 1 << 20),
        ("verifier.workers", verifier.workers, 1024),
        ("verifier.queue", Some(verifier.queue), MAX_COUNT),
    ]
    .into_iter()
    .filter_map(|(key, count, most)| {
        // All proofs of one request are queued and counted together, so there must be room for
        // them.
        let holds_a_request = [
            "verifier.queue",
            "limits.verifications_per_source.requests",
            "limits.verifications_per_application.requests",
        ]
        .contains(&key);
        let least = match key {
            "bridge.memory_mib" => LEAST_BRIDGE_MEMORY,
            "storage.cache_mib" => LEAST_CACHE,
            "storage.write_buffer_kib" => Resources::LEAST_WRITE_BUFFER >> 10,
            "storage.background_jobs" => 2,
            "storage.open_files" => LEAST_OPEN_FILES,
            _ if holds_a_request => MOST_RESPONSES,
            _ => 1,
        };
        let count = count.filter(|count| !(least..=most).contains(count))?;
        Some(invalid_setting(key, format!("{count} is out of range; give {least} to {most}")))
    })
    .collect()
}

fn check_durations(config: &Config) -> Vec<InvalidSetting> {
    let Config { registry, batcher, limits, sign_in, .. } = config;
    let window = |limit: &Option<RateLimit>| limit.map_or(SECOND, |limit| limit.window);
    let of_cluster = |choose: fn(&Cluster) -> Duration| config.cluster.as_ref().map_or(HOUR, choose);
    let ranges = [
        ("registry.root_validity_window", registry.root_validity_window, Duration::ZERO, TEN_YEARS),
        ("registry.recovery_agent_update_cooldown", registry.recovery_agent_update_cooldown, Duration::ZERO, TEN_YEARS),
        ("registry.request_retention", registry.request_retention, SECOND, TEN_YEARS),
        ("batcher.min_wait", batcher.min_wait, Duration::ZERO, batcher.max_wait.min(10 * SECOND)),
        ("batcher.max_wait", batcher.max_wait, Duration::ZERO, 10 * SECOND),
        ("limits.request_timeout", limits.request_timeout, MILLISECOND, HOUR),
        ("limits.header_timeout", limits.header_timeout, MILLISECOND, HOUR),
        ("limits.idle_timeout", limits.idle_timeout, MILLISECOND, HOUR),
        ("limits.shutdown_grace", limits.shutdown_grace, Duration::ZERO, HOUR),
        ("operator.drain_delay", config.operator.drain_delay, Duration::ZERO, HOUR),
        ("limits.idempotency_retention", limits.idempotency_retention, SECOND, TEN_YEARS),
        ("limits.per_source.window", window(&limits.per_source), SECOND, DAY),
        ("limits.per_leaf_index.window", window(&limits.per_leaf_index), SECOND, DAY),
        ("limits.verifications_per_source.window", window(&limits.verifications_per_source), SECOND, DAY),
        ("limits.verifications_per_application.window", window(&limits.verifications_per_application), SECOND, DAY),
        ("limits.sign_ins_per_source.window", window(&limits.sign_ins_per_source), SECOND, DAY),
        ("limits.bridge_per_source.window", window(&limits.bridge_per_source), SECOND, DAY),
        ("cluster.staleness", of_cluster(|cluster| cluster.staleness), SECOND, HOUR),
        ("cluster.journal_retention", of_cluster(|cluster| cluster.journal_retention), 10 * SECOND, 7 * DAY),
        ("bridge.lifetime", config.bridge.lifetime, SECOND, DAY),
        ("events.repeat_window", config.events.repeat_window, Duration::ZERO, 30 * DAY),
        ("events.retention", config.events.retention, HOUR, TEN_YEARS),
        ("backup.every", config.backup.every.unwrap_or(HOUR), 60 * SECOND, TEN_YEARS),
        ("sign_in.transaction_lifetime", sign_in.transaction_lifetime, SECOND, HOUR),
        ("sign_in.code_lifetime", sign_in.code_lifetime, SECOND, HOUR),
        ("sign_in.session_lifetime", sign_in.session_lifetime, SECOND, TEN_YEARS),
        ("sign_in.key_rotation", sign_in.key_rotation, HOUR, TEN_YEARS),
    ];
    let text = humantime::format_duration;
    let out_of_range = ranges.into_iter().filter(|(_, value, least, most)| value < least || value > most).map(
        |(key, value, least, most)| {
            invalid_setting(key, format!("{} is out of range; give {} to {}", text(value), text(least), text(most)))
        },
    );
    // The first two are parameters of the registry's rules, whose clock counts whole seconds.
    let fractions = ranges[..2].iter().filter(|(_, value, ..)| value.subsec_nanos() != 0).map(|(key, value, ..)| {
        invalid_setting(*key, format!("{} is not a whole number of seconds; write it without fractions", text(*value)))
    });
    out_of_range.chain(fractions).collect()
}

fn check_addresses(config: &Config) -> Vec<InvalidSetting> {
    let mut found = Vec::new();
    for (interface, address) in config.listen.iter() {
        let key = || format!("listen.{}", interface.listen_key());
        let is_loopback = address.ip().to_canonical().is_loopback();
        if config.dev && !is_loopback {
            let message = format!("{address} is not loopback; with --dev listen on 127.0.0.1 or [::1]");
            found.push(invalid_setting(key(), message));
        } else if interface == Interface::Operator {
            found.extend(check_operator_address(config, *address).map(|message| invalid_setting(key(), message)));
        } else if let Some(url_key) = interface.url_key() {
            found.extend(check_public_address(config, interface, *address, url_key));
        }
    }
    found
}

/// The operator interface shows keys of the service and changes what it trusts. Its token must not
/// cross a network by plain HTTP.
fn check_operator_address(config: &Config, address: SocketAddr) -> Option<String> {
    let shares = config.listen.iter().find(|(other, listened)| *other != Interface::Operator && **listened == address);
    let is_plain = shares.is_none() && !address.ip().to_canonical().is_loopback() && config.tls.is_none();
    let problem = match shares {
        _ if config.operator.allow_public && is_plain && !config.insecure_http => {
            return Some(format!(
                "{address} is plain HTTP for other machines, who can read the operator's token on the way; set [tls], or \
                 insecure_http = true"
            ));
        }
        _ if config.operator.allow_public || config.dev => return None,
        Some((other, _)) => format!("{address} is also the address of {}", other.listen_key()),
        None if address.ip().to_canonical().is_loopback() => return None,
        None => format!("{address} is not loopback, so other machines can reach the operator interface"),
    };
    Some(format!("{problem}; listen on 127.0.0.1 with a port of its own, or set operator.allow_public = true"))
}

/// Whether clients know an address to call, and whether it is safe to call it.
fn check_public_address(
    config: &Config,
    interface: Interface,
    address: SocketAddr,
    url_key: &str,
) -> Option<InvalidSetting> {
    let url = config.urls[interface].as_deref();
    let ip = address.ip().to_canonical();
    if url.is_none() && ip.is_unspecified() {
        let message = format!(
            "is missing; listen.{} is every address of this machine, so set the URL that clients call",
            interface.listen_key()
        );
        return Some(invalid_setting(format!("urls.{url_key}"), message));
    }
    let is_plain = url.map_or(config.tls.is_none(), |url| url.starts_with("http://"));
    // A loopback URL says nothing about an address that other machines reach too.
    let is_here = ip.is_loopback() && url.is_none_or(is_loopback_url);
    if !is_plain || is_here || config.insecure_http {
        return None;
    }
    let message = "is plain HTTP for clients on other machines, who can be read and changed on the way; set [tls], or the \
                   https URL of the proxy in front, or insecure_http = true";
    let key = if url.is_some() { format!("urls.{url_key}") } else { format!("listen.{}", interface.listen_key()) };
    Some(invalid_setting(key, message))
}

/// Clients of the message bridge keep the origin of its URL alone.
fn check_bridge_url(config: &Config) -> Option<InvalidSetting> {
    let url = config.urls[Interface::Bridge].as_deref()?;
    let has_path = url.parse::<http::Uri>().is_ok_and(|url| url.path() != "/");
    let message = || format!("{url:?} has a path, which clients drop; give the bridge a host or a port of its own");
    has_path.then(|| invalid_setting("urls.bridge_url", message()))
}

/// A connector URI names the address of the bridge. Where sign-in is for other machines, their
/// authenticators have to reach the bridge, too.
fn check_bridge_of_sign_in(config: &Config) -> Option<InvalidSetting> {
    let is_local = |interface: Interface| match config.urls[interface].as_deref() {
        Some(url) => is_loopback_url(url),
        None => config.listen[interface].ip().to_canonical().is_loopback(),
    };
    let is_broken = config.signs_in_over_bridge() && !is_local(Interface::SignIn) && is_local(Interface::Bridge);
    is_broken.then(|| {
        let problem = match &config.urls[Interface::Bridge] {
            Some(url) => format!("{url:?} is this machine"),
            None => "is missing, so the bridge's address is this machine".to_owned(),
        };
        let message = format!(
            "{problem}, and sign-in is for other machines; with wallet_link = \"bridge\" set the URL at which \
             authenticators reach the message bridge"
        );
        invalid_setting("urls.bridge_url", message)
    })
}

/// Whether the host of a URL is this machine.
fn is_loopback_url(url: &str) -> bool {
    url.parse::<http::Uri>().is_ok_and(|url| is_loopback_host(url.host().unwrap_or_default()))
}

/// Whether the operating system can bind the operator's socket to its path.
fn check_operator_socket(config: &Config) -> Option<InvalidSetting> {
    let error = check_socket_path(&config.operator_socket()?).err()?;
    Some(invalid_setting("operator.socket", format!("{error}, or \"off\"")))
}

fn check_others(config: &Config) -> Vec<InvalidSetting> {
    let found = [
        (config.data_dir.as_os_str().is_empty(), invalid_setting("data_dir", "is empty; give the path of a folder")),
        (
            config.registry.verifying_contract == Some(Address::ZERO),
            invalid_setting(
                "registry.verifying_contract",
                "is the zero address; give an address that no other deployment has, or leave the key out for a random one",
            ),
        ),
        (
            config.registry.create_account == CreateAccount::Token
                && config.registry.create_account_token_hash.is_none(),
            invalid_setting("registry.create_account_token_hash", "is missing; create_account = \"token\" needs it"),
        ),
        (
            config.backup.every.is_some() && config.backup.folder.is_none(),
            invalid_setting("backup.folder", "is missing; backup.every needs it: a folder that exists, best on another disk"),
        ),
        (
            config.traces.collector.as_ref().is_some_and(CollectorUrl::is_plain_http_to_another_machine)
                && !config.insecure_http,
            invalid_setting(
                "traces.collector",
                "is plain HTTP to another machine, so others on the way could read the traces; give an https URL, a \
                 collector on this machine, or set insecure_http = true",
            ),
        ),
        (
            is_slower(config.limits.verifications_per_application, config.limits.verifications_per_source),
            invalid_setting(
                "limits.verifications_per_application",
                "allows fewer proofs than limits.verifications_per_source, so an application that shows its secret would \
                 lose by it; give at least as many",
            ),
        ),
        (config.registry.chain_id == 0, invalid_setting("registry.chain_id", "0 is not a chain id; give 1 or more")),
    ]
    .into_iter()
    .filter_map(|(is_broken, rule)| is_broken.then_some(rule));
    let of_bridge = check_bridge_url(config).into_iter().chain(check_bridge_of_sign_in(config));
    found.chain(check_operator_socket(config)).chain(of_bridge).collect()
}

/// Whether `one` allows fewer requests in the same time than `other`. No limit allows any number.
fn is_slower(one: Option<RateLimit>, other: Option<RateLimit>) -> bool {
    let Some(one) = one else { return false };
    let most = |limit: RateLimit, window: Duration| u128::from(limit.requests) * window.as_nanos();
    other.is_some_and(|other| most(one, other.window) < most(other, one.window))
}

/// The settings of sections whose feature this program was built without. `has_otlp` says whether
/// it was built with the feature `otlp`.
pub(super) fn check_features(config: &Config, has_otlp: bool) -> Vec<InvalidSetting> {
    let (Traces { collector, one_in }, default) = (&config.traces, Traces::default());
    let keys = [("traces.collector", *collector != default.collector), ("traces.one_in", *one_in != default.one_in)];
    let message = "cannot be used: this program was built without the feature otlp; leave the key out";
    let is_refused = |(key, is_set): (&str, bool)| (is_set && !has_otlp).then(|| invalid_setting(key, message));
    keys.into_iter().filter_map(is_refused).collect()
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
    }
    found
}

/// Why `cross_device = "deny"` is refused.
const DENY_IN_VAIN: &str = "\"deny\" does not keep a relay out here: it holds only where each accepted wallet answers \
                            the service's own signed request alone, as those of the simulator's credentials do \
                            (proof = \"current\" with the simulator's key in verifier.keys.staging). Wallets of other \
                            credentials answer the same statement when any page asks for it, and whoever gets the \
                            answer can post it as one of the browser's own device. Leave it out, or set \
                            cross_device_deny_despite_relays = true";

/// Whether the sign-in of an application takes proofs that reach a relay, although it denies other
/// devices.
fn is_deny_in_vain(config: &Config, app: &App) -> bool {
    let is_simulated = app.proof == ProofKind::Current
        && app.sign_in_environment() == Environment::Staging
        && config.verifier.keys.staging.current == StagingKey::Simulator;
    app.signs_in() && app.cross_device == CrossDevice::Deny && !app.cross_device_deny_despite_relays && !is_simulated
}

/// Checks a list of accepted credentials: not empty, and each one that a legacy proof or an issuer
/// of the configuration has.
fn check_identifiers(config: &Config, key: String, accepted: Option<&[String]>) -> Option<InvalidSetting> {
    let accepted = accepted?;
    let mut known: Vec<&str> = LegacyIdentifier::ALL.into_iter().map(LegacyIdentifier::name).collect();
    known.extend(config.issuers.iter().flat_map(|issuer| issuer.identifiers()));
    if accepted.is_empty() {
        return Some(invalid_setting(key, "is empty; name the credentials that count, or leave the key out for all"));
    }
    let unknown = accepted.iter().find(|identifier| !known.contains(&identifier.as_str()))?;
    known.sort_unstable();
    known.dedup();
    let message =
        format!("{unknown:?} is not a credential of [[issuers]] or of legacy proofs; known are {}", known.join(", "));
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
fn takes_legacy(config: &Config, app: &App, action: &Action) -> bool {
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
        if party.signing_key == Some(Address::ZERO) {
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
        if let Some(first) = roots.first_before((root.root, root.environment, root.kind), index) {
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
        if !(MILLISECOND..=LONGEST_ROUND_TRIP).contains(&chain.request_timeout) {
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

fn invalid_setting(key: impl Into<String>, message: impl Into<String>) -> InvalidSetting {
    (key.into(), message.into())
}

fn unknown_app(id: &str) -> String {
    format!("{id:?} is not the id of an application in [[apps]]")
}

/// The entries of a list by the value that must be unique among them.
struct Seen<T> {
    list: &'static str,
    first: HashMap<T, usize>,
}

impl<T: Eq + Hash> Seen<T> {
    fn new(list: &'static str) -> Self {
        Self { list, first: HashMap::new() }
    }

    /// Records the entry. Returns the path of the first entry with the same value, when this is not
    /// the first.
    fn first_before(&mut self, value: T, index: usize) -> Option<String> {
        let first = *self.first.entry(value).or_insert(index);
        (first < index).then(|| format!("{}[{first}]", self.list))
    }
}
