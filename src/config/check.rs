//! Every rule about settings that already have the right type: here those about single settings, in
//! [`lists`] those about the lists.
//!
//! A broken rule is the key's path and a message, which names the value, what is wrong with it and
//! what would be right.

mod groups;
pub(super) mod lists;

use std::net::SocketAddr;
use std::time::Duration;

use selfsame_protocol::Address;
use selfsame_protocol::net::{is_loopback_host, origin_of};
use selfsame_protocol::sign_in::passkeys::PasskeyDomainError;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::request::MOST_RESPONSES;
use selfsame_storage::Resources;

use super::Config;
use super::cluster::Cluster;
use super::outgoing::{CollectorUrl, Traces};
use super::sections::{CreateAccount, RateLimit, SignIn, Wallet};
use super::values::{ContractAddress, TimeSpan};
use selfsame_interfaces::http::check_socket_path;
use selfsame_interfaces::interface::Interface;

/// A key's path and what is wrong with it.
pub(super) type InvalidSetting = (String, String);

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Years of 365.25 days, as `humantime` reads and writes them.
const TEN_YEARS: Duration = Duration::from_secs(3_652 * 24 * 3600 + 12 * 3600);

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
        check_cluster(config),
        check_features(config, cfg!(feature = "otlp"), cfg!(feature = "web-wallet")),
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
        ("limits.groups_per_source.requests", rate(&limits.groups_per_source), 100_000),
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
    let window = |limit: &Option<RateLimit>| limit.map_or(SECOND, |limit| *limit.window);
    let of_cluster =
        |choose: fn(&Cluster) -> TimeSpan| config.cluster.as_ref().map_or(HOUR, |cluster| *choose(cluster));
    let ranges = [
        ("registry.root_validity_window", *registry.root_validity_window, Duration::ZERO, TEN_YEARS),
        (
            "registry.recovery_agent_update_cooldown",
            *registry.recovery_agent_update_cooldown,
            Duration::ZERO,
            TEN_YEARS,
        ),
        ("registry.request_retention", *registry.request_retention, SECOND, TEN_YEARS),
        ("batcher.min_wait", *batcher.min_wait, Duration::ZERO, batcher.max_wait.min(10 * SECOND)),
        ("batcher.max_wait", *batcher.max_wait, Duration::ZERO, 10 * SECOND),
        ("limits.request_timeout", *limits.request_timeout, MILLISECOND, HOUR),
        ("limits.header_timeout", *limits.header_timeout, MILLISECOND, HOUR),
        ("limits.idle_timeout", *limits.idle_timeout, MILLISECOND, HOUR),
        ("limits.shutdown_grace", *limits.shutdown_grace, Duration::ZERO, HOUR),
        ("operator.drain_delay", *config.operator.drain_delay, Duration::ZERO, HOUR),
        ("limits.idempotency_retention", *limits.idempotency_retention, SECOND, TEN_YEARS),
        ("limits.per_source.window", window(&limits.per_source), SECOND, DAY),
        ("limits.per_leaf_index.window", window(&limits.per_leaf_index), SECOND, DAY),
        ("limits.verifications_per_source.window", window(&limits.verifications_per_source), SECOND, DAY),
        ("limits.verifications_per_application.window", window(&limits.verifications_per_application), SECOND, DAY),
        ("limits.sign_ins_per_source.window", window(&limits.sign_ins_per_source), SECOND, DAY),
        ("limits.bridge_per_source.window", window(&limits.bridge_per_source), SECOND, DAY),
        ("limits.groups_per_source.window", window(&limits.groups_per_source), SECOND, DAY),
        ("cluster.staleness", of_cluster(|cluster| cluster.staleness), SECOND, HOUR),
        ("cluster.journal_retention", of_cluster(|cluster| cluster.journal_retention), 10 * SECOND, 7 * DAY),
        ("bridge.lifetime", *config.bridge.lifetime, SECOND, DAY),
        ("events.repeat_window", *config.events.repeat_window, Duration::ZERO, 30 * DAY),
        ("events.retention", *config.events.retention, HOUR, TEN_YEARS),
        ("backup.every", config.backup.every.map_or(HOUR, |span| *span), 60 * SECOND, TEN_YEARS),
        ("sign_in.transaction_lifetime", *sign_in.transaction_lifetime, SECOND, HOUR),
        ("sign_in.code_lifetime", *sign_in.code_lifetime, SECOND, HOUR),
        ("sign_in.session_lifetime", *sign_in.session_lifetime, SECOND, TEN_YEARS),
        ("sign_in.key_rotation", *sign_in.key_rotation, HOUR, TEN_YEARS),
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

/// Links to members have their page behind the URL, and passkeys belong to its host.
fn check_wallet_url(config: &Config) -> Option<InvalidSetting> {
    let url = config.urls[Interface::Wallet].as_deref()?;
    let has_path = url.parse::<http::Uri>().is_ok_and(|url| url.path() != "/");
    let message = || format!("{url:?} has a path; give the wallet interface a host or a port of its own");
    has_path.then(|| invalid_setting("urls.wallet_url", message()))
}

/// A wallet keeps the secrets of a member for its origin, so no page of another interface may have
/// it; and the links of members have to lead there from their own machines.
fn check_wallet_of_groups(config: &Config) -> Option<InvalidSetting> {
    if config.groups.is_empty() || config.dev {
        return None;
    }
    let urls = config.public_urls(&config.listen);
    let origin = |interface: Interface| origin_of(&urls[interface]);
    let wallet = origin(Interface::Wallet);
    let same = Interface::ALL.into_iter().find(|other| {
        let shares = config.listen[*other] == config.listen[Interface::Wallet] || origin(*other) == wallet;
        *other != Interface::Wallet && shares
    });
    if let Some(other) = same {
        let message = format!(
            "with [[groups]] the wallet interface needs an origin of its own, and {} has the same; give it another port, \
             or another host",
            other.listen_key()
        );
        return Some(invalid_setting("urls.wallet_url", message));
    }
    let is_local = |interface: Interface| match config.urls[interface].as_deref() {
        Some(url) => is_loopback_url(url),
        None => config.listen[interface].ip().to_canonical().is_loopback(),
    };
    let is_broken = !is_local(Interface::SignIn) && is_local(Interface::Wallet);
    is_broken.then(|| {
        let message = "is this machine, and sign-in is for other machines; with [[groups]] set the URL at which members \
                       reach the wallet interface";
        invalid_setting("urls.wallet_url", message)
    })
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
            config.registry.verifying_contract == Some(ContractAddress(Address::ZERO)),
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
        (
            has_wrong_dates(config),
            invalid_setting(
                "sign_in.current_alone_since",
                "is before 1970, or not before legacy_ends_at; give a time at which new people could make no legacy \
                 proofs any more, and others still could",
            ),
        ),
    ]
    .into_iter()
    .filter_map(|(is_broken, rule)| is_broken.then_some(rule));
    let of_bridge = check_bridge_url(config).into_iter().chain(check_bridge_of_sign_in(config));
    let of_urls = of_bridge.chain(check_wallet_url(config)).chain(check_wallet_of_groups(config));
    found.chain(check_operator_socket(config)).chain(of_urls).chain(check_passkey_domain(config)).collect()
}

/// Whether no credential could be told to be of a person without a legacy account.
fn has_wrong_dates(config: &Config) -> bool {
    let SignIn { current_alone_since, legacy_ends_at, .. } = &config.sign_in;
    let (since, end) = (current_alone_since.unix_seconds(), legacy_ends_at.unix_seconds());
    since == UnixSeconds(0) || since >= end
}

/// Whether pages of sign-in can use passkeys of the domain that is set.
fn check_passkey_domain(config: &Config) -> Option<InvalidSetting> {
    config.sign_in.passkey_domain.as_ref()?;
    let error = config.passkey_domain().err()?;
    let remedy = match error {
        PasskeyDomainError::Foreign { .. } => "",
        PasskeyDomainError::Address { .. } | PasskeyDomainError::PlainHttp { .. } => {
            "; set urls.id_url to an https URL with a domain, or leave the key out"
        }
    };
    Some(invalid_setting("sign_in.passkey_domain", format!("{error}{remedy}")))
}

/// Whether `one` allows fewer requests in the same time than `other`. No limit allows any number.
fn is_slower(one: Option<RateLimit>, other: Option<RateLimit>) -> bool {
    let Some(one) = one else { return false };
    let most = |limit: RateLimit, window: TimeSpan| u128::from(limit.requests) * window.as_nanos();
    other.is_some_and(|other| most(one, other.window) < most(other, one.window))
}

/// The settings of sections whose feature this program was built without. The flags say whether it
/// was built with the features `otlp` and `web-wallet`.
pub(super) fn check_features(config: &Config, has_otlp: bool, has_web_wallet: bool) -> Vec<InvalidSetting> {
    let (Traces { collector, one_in }, default) = (&config.traces, Traces::default());
    let keys = [
        ("traces.collector", *collector != default.collector, "otlp", has_otlp),
        ("traces.one_in", *one_in != default.one_in, "otlp", has_otlp),
        ("wallet.moved_from", config.wallet != Wallet::default(), "web-wallet", has_web_wallet),
    ];
    let refused = |(key, is_set, feature, has_feature): (&str, bool, &str, bool)| {
        let message =
            || format!("cannot be used: this program was built without the feature {feature}; leave the key out");
        (is_set && !has_feature).then(|| invalid_setting(key, message()))
    };
    keys.into_iter().filter_map(refused).collect()
}

fn invalid_setting(key: impl Into<String>, message: impl Into<String>) -> InvalidSetting {
    (key.into(), message.into())
}

// The rules about `[cluster]`.

/// Whether others on the way can read what is sent to a URL.
fn is_plain_http_to_another_machine(url: &str) -> bool {
    url.parse::<http::Uri>()
        .is_ok_and(|url| url.scheme_str() == Some("http") && !url.host().is_some_and(is_loopback_host))
}

/// Every rule that is broken.
pub(super) fn check_cluster(config: &Config) -> Vec<InvalidSetting> {
    let Some(cluster) = &config.cluster else { return Vec::new() };
    let Cluster { etcd, etcd_user, etcd_password_file, etcd_certificate, etcd_private_key, .. } = cluster;
    let Cluster { listen, address, secret_file, certificate, private_key, authorities, .. } = cluster;
    let ip = listen.ip().to_canonical();
    let url = cluster.url(**listen);
    let is_http = url.starts_with("http://");
    let plain_etcd = etcd.iter().find(|url| is_plain_http_to_another_machine(url));
    let taken = config.listen.iter().find(|(_, other)| **other == **listen && listen.port() != 0);
    let mut found = Vec::new();
    let mut add = |is_broken: bool, key: &str, message: String| {
        if is_broken {
            found.push(invalid_setting(format!("cluster.{key}"), message));
        }
    };
    add(etcd.is_empty(), "etcd", "is empty; give the URLs of the members of etcd".to_owned());
    if let Some(url) = plain_etcd {
        let message = format!(
            "{url} is plain HTTP to another machine, so others on the way could read and change the journal; give an \
             https URL, or set insecure_http = true"
        );
        add(!config.insecure_http, "etcd", message);
    }
    for (one, name, other, needed) in [
        (etcd_user.is_some(), "etcd_user", etcd_password_file.is_some(), "etcd_password_file"),
        (etcd_certificate.is_some(), "etcd_certificate", etcd_private_key.is_some(), "etcd_private_key"),
        (certificate.is_some(), "certificate", private_key.is_some(), "private_key"),
    ] {
        add(one && !other, needed, format!("is missing; cluster.{name} needs it"));
        add(other && !one, name, format!("is missing; cluster.{needed} needs it"));
    }
    add(
        authorities.is_some() && certificate.is_none(),
        "certificate",
        "is missing; with cluster.authorities each replica shows a certificate".to_owned(),
    );
    add(
        secret_file.is_none() && authorities.is_none(),
        "secret_file",
        "is missing; give a file with a secret that all replicas have, or certificates with cluster.authorities"
            .to_owned(),
    );
    add(
        config.dev && !ip.is_loopback(),
        "listen",
        format!("{listen} is not loopback; with --dev listen on 127.0.0.1 or [::1]"),
    );
    if let Some((interface, _)) = taken {
        let message = format!("{listen} is the address of listen.{}; give it another port", interface.listen_key());
        add(true, "listen", message);
    }
    add(
        address.is_none() && ip.is_unspecified(),
        "address",
        "is missing; cluster.listen is every address of this machine, so set the URL that the other replicas call"
            .to_owned(),
    );
    add(
        is_http && certificate.is_some(),
        "address",
        format!("{url} is plain HTTP, and cluster.listen speaks TLS with cluster.certificate; write https"),
    );
    add(
        certificate.is_none() && !ip.is_loopback() && !config.insecure_http,
        "listen",
        "is plain HTTP for other machines, who can read and change what the replicas say to each other; set \
         cluster.certificate, or insecure_http = true"
            .to_owned(),
    );
    found
}
