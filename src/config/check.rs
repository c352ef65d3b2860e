//! Every rule about settings that already have the right type.
//!
//! A finding is the key's path and what is wrong with it. Messages name the value and what would be right.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::Duration;

use alloy_primitives::{U256, uint};
use http::Uri;
use selfsame_protocol::commitment::{self, PublicKeyError};
use selfsame_protocol::verification::hash::hash_text;
use selfsame_protocol::verification::request::MOST_RESPONSES;

use super::sections::{Environment, ProofKind, PublicKey};
use super::values::VerificationKey;
use super::{Config, RelyingPartyId};

/// A key's path and what is wrong with it.
pub(super) type Finding = (String, String);

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Of 365.25 days, as durations are read and written.
const TEN_YEARS: Duration = Duration::from_secs(3_652 * 24 * 3600 + 12 * 3600);

/// The upper bound of every count of things that are held in memory.
const MOST: usize = 10_000_000;

/// Modulus of the BN254 scalar field, which roots and the coordinates of keys are elements of.
const FIELD_MODULUS: U256 = uint!(21888242871839275222246405745257275088548364400416034343698204186575808495617_U256);

/// The rules about settings that stand for themselves.
pub(super) fn settings(config: &Config) -> Vec<Finding> {
    [counts(config), durations(config), addresses(config), others(config)].concat()
}

/// The rules about the lists, whose entries refer to each other.
pub(super) fn lists(config: &Config) -> Vec<Finding> {
    [apps(config), actions(config), issuers(config), relying_parties(config), trusted_roots(config)].concat()
}

fn counts(config: &Config) -> Vec<Finding> {
    let Config { registry, batcher, limits, verifier, .. } = config;
    let rate = |limit: &Option<super::RateLimit>| limit.map(|limit| limit.requests as usize);
    [
        ("registry.max_authenticators", Some(registry.max_authenticators as usize), 7),
        ("batcher.max_operations", Some(batcher.max_operations), 10_000),
        ("limits.max_connections", Some(limits.max_connections), MOST),
        ("limits.max_connections_per_source", Some(limits.max_connections_per_source), MOST),
        ("limits.in_flight", Some(limits.in_flight), MOST),
        ("limits.queue_length", Some(limits.queue_length), MOST),
        ("limits.status_waiters", Some(limits.status_waiters), MOST),
        ("limits.per_source.requests", rate(&limits.per_source), 100_000),
        ("limits.per_leaf_index.requests", rate(&limits.per_leaf_index), 100_000),
        ("limits.verifications_per_source.requests", rate(&limits.verifications_per_source), 100_000),
        ("limits.sign_ins_per_source.requests", rate(&limits.sign_ins_per_source), 100_000),
        ("limits.open_sign_ins", Some(limits.open_sign_ins), MOST),
        ("verifier.workers", verifier.workers, 1024),
        ("verifier.queue", Some(verifier.queue), MOST),
    ]
    .into_iter()
    .filter_map(|(key, count, most)| {
        // The proofs of one request are inside together.
        let least = if key == "verifier.queue" { MOST_RESPONSES } else { 1 };
        let count = count.filter(|count| !(least..=most).contains(count))?;
        Some(finding(key, format!("{count} is out of range; give {least} to {most}")))
    })
    .collect()
}

fn durations(config: &Config) -> Vec<Finding> {
    let Config { registry, batcher, limits, sign_in, .. } = config;
    let window = |limit: &Option<super::RateLimit>| limit.map_or(SECOND, |limit| limit.window);
    let ranges = [
        ("registry.root_validity_window", registry.root_validity_window, Duration::ZERO, TEN_YEARS),
        ("registry.recovery_agent_update_cooldown", registry.recovery_agent_update_cooldown, Duration::ZERO, TEN_YEARS),
        ("registry.request_retention", registry.request_retention, SECOND, TEN_YEARS),
        ("batcher.max_wait", batcher.max_wait, Duration::ZERO, 10 * SECOND),
        ("limits.request_timeout", limits.request_timeout, MILLISECOND, HOUR),
        ("limits.header_timeout", limits.header_timeout, MILLISECOND, HOUR),
        ("limits.idle_timeout", limits.idle_timeout, MILLISECOND, HOUR),
        ("limits.shutdown_grace", limits.shutdown_grace, Duration::ZERO, HOUR),
        ("limits.idempotency_retention", limits.idempotency_retention, SECOND, TEN_YEARS),
        ("limits.per_source.window", window(&limits.per_source), SECOND, DAY),
        ("limits.per_leaf_index.window", window(&limits.per_leaf_index), SECOND, DAY),
        ("limits.verifications_per_source.window", window(&limits.verifications_per_source), SECOND, DAY),
        ("limits.sign_ins_per_source.window", window(&limits.sign_ins_per_source), SECOND, DAY),
        ("sign_in.code_lifetime", sign_in.code_lifetime, SECOND, HOUR),
        ("sign_in.session_lifetime", sign_in.session_lifetime, SECOND, TEN_YEARS),
        ("sign_in.key_rotation", sign_in.key_rotation, HOUR, TEN_YEARS),
    ];
    let text = humantime::format_duration;
    let out_of_range = ranges.into_iter().filter(|(_, value, least, most)| value < least || value > most).map(
        |(key, value, least, most)| {
            finding(key, format!("{} is out of range; give {} to {}", text(value), text(least), text(most)))
        },
    );
    // The clock of the rules, which the first two belong to, counts whole seconds.
    let broken = ranges[..2].iter().filter(|(_, value, ..)| value.subsec_nanos() != 0).map(|(key, value, ..)| {
        finding(*key, format!("{} is not a whole number of seconds; write it without fractions", text(*value)))
    });
    out_of_range.chain(broken).collect()
}

fn addresses(config: &Config) -> Vec<Finding> {
    let Config { listen, urls, cors, .. } = config;
    let mut found = Vec::new();
    let listening = [
        ("sign_in", listen.sign_in),
        ("verify", listen.verify),
        ("gateway", listen.gateway),
        ("indexer", listen.indexer),
        ("operator", listen.operator),
    ];
    for (key, address) in listening {
        if config.dev && !address.ip().to_canonical().is_loopback() {
            let message = format!("{address} is not loopback; with --dev listen on 127.0.0.1 or [::1]");
            found.push(finding(format!("listen.{key}"), message));
        }
    }
    let public = [
        ("id_url", &urls.id_url),
        ("portal_url", &urls.portal_url),
        ("gateway_url", &urls.gateway_url),
        ("indexer_url", &urls.indexer_url),
    ];
    for (key, url) in public {
        let wrong = url.as_deref().and_then(|url| base_url(url).err());
        found.extend(wrong.map(|message| finding(format!("urls.{key}"), message)));
    }
    for (index, text) in cors.allowed_origins.iter().enumerate() {
        let wrong = origin(text).err();
        found.extend(wrong.map(|message| finding(format!("cors.allowed_origins[{index}]"), message)));
    }
    found
}

fn others(config: &Config) -> Vec<Finding> {
    let keys = &config.verifier.keys.production;
    let status = config.sign_in.introspection_inactive_status;
    let simulator = "the simulator's secrets are public, so it is never a key of production; only \
                     verifier.keys.staging may name it";
    let data_dir = "is empty; give the path of a folder";
    [
        (config.data_dir.as_os_str().is_empty(), finding("data_dir", data_dir)),
        (config.registry.chain_id == 0, finding("registry.chain_id", "0 is not a chain id; give 1 or more")),
        (
            ![200, 401].contains(&status),
            finding("sign_in.introspection_inactive_status", format!("{status} is neither 401 nor 200")),
        ),
        (keys.legacy == VerificationKey::Simulator, finding("verifier.keys.production.legacy", simulator)),
        (keys.current == VerificationKey::Simulator, finding("verifier.keys.production.current", simulator)),
    ]
    .into_iter()
    .filter_map(|(broken, finding)| broken.then_some(finding))
    .collect()
}

fn apps(config: &Config) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut ids = Seen::new("apps");
    for (index, app) in config.apps.iter().enumerate() {
        let key = |name: &str| format!("apps[{index}].{name}");
        if !is_app_id(&app.id) {
            let right = "app_ and 1 to 128 letters, digits, - or _";
            found.push(finding(key("id"), format!("{:?} is not an application id: {right}", app.id)));
        }
        if let Some(first) = ids.first_before(&app.id, index) {
            found.push(finding(key("id"), format!("{} is the id of {first} already; ids are unique", app.id)));
        }
        match (&app.client_secret_hash, app.public) {
            (Some(_), true) => {
                let message = "a public client has no secret; leave out client_secret_hash or public = true";
                found.push(finding(key("public"), message));
            }
            (None, false) if !app.redirect_uris.is_empty() => {
                let message = "is missing; an application that signs people in has one (`selfsame app new` prints it) \
                               or is public = true";
                found.push(finding(key("client_secret_hash"), message));
            }
            _ => {}
        }
        for (position, uri) in app.redirect_uris.iter().enumerate() {
            let wrong = redirect_uri(uri).err();
            found.extend(wrong.map(|message| finding(key(&format!("redirect_uris[{position}]")), message)));
        }
        if app.environments().is_empty() {
            found.push(finding(key("environments"), NO_ENVIRONMENT));
        }
    }
    found
}

const NO_ENVIRONMENT: &str = "is empty; name \"production\", \"staging\" or both";

fn actions(config: &Config) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut actions = Seen::new("actions");
    for (index, action) in config.actions.iter().enumerate() {
        let key = |name: &str| format!("actions[{index}].{name}");
        match config.apps.iter().find(|app| app.id == action.app_id) {
            None => found.push(finding(key("app_id"), unknown_app(&action.app_id))),
            Some(app) if !app.environments().contains(&action.environment) => {
                let accepted: Vec<_> = app.environments().iter().map(|environment| environment.name()).collect();
                let given = action.environment.name();
                let message = format!("{} does not accept {given}, only {}", app.id, accepted.join(", "));
                found.push(finding(key("environment"), message));
            }
            Some(_) => {}
        }
        if action.action.is_empty() {
            found.push(finding(key("action"), "is empty; give the action's text"));
        }
        // Texts that stand for the same bytes are the same action.
        if let Some(first) =
            actions.first_before((&action.app_id, hash_text(&action.action), action.environment), index)
        {
            let message = format!("{:?} of this application and environment is {first} already", action.action);
            found.push(finding(key("action"), message));
        }
    }
    found
}

fn issuers(config: &Config) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut issuers = Seen::new("issuers");
    for (index, issuer) in config.issuers.iter().enumerate() {
        let key = |name: &str| format!("issuers[{index}].{name}");
        let environments: HashSet<Environment> = issuer.environments().iter().copied().collect();
        if environments.is_empty() {
            found.push(finding(key("environments"), NO_ENVIRONMENT));
        }
        let twice = environments.iter().find_map(|environment| issuers.first_before((issuer.id, *environment), index));
        if let Some(first) = twice {
            let message = format!("{} is the id of {first} already; ids are unique in an environment", issuer.id);
            found.push(finding(key("id"), message));
        }
        let identifiers = issuer.identifiers();
        if identifiers.is_empty() || identifiers.contains(&"") {
            let message = format!("issuer {} has to name the identifiers of its proofs: [\"passport\"]", issuer.id);
            found.push(finding(key("identifiers"), message));
        }
        found.extend(public_key(&issuer.public_key, &key("public_key")));
    }
    found
}

fn relying_parties(config: &Config) -> Vec<Finding> {
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
            found.push(finding(key("app_id"), unknown_app(&party.app_id)));
        }
        if let Some(first) = apps.first_before(&party.app_id, index) {
            let message = format!("{} has {first} already; an application has one relying party", party.app_id);
            found.push(finding(key("app_id"), message));
        } else if let Some(owner) = ids.insert(party.rp_id(), &party.app_id) {
            let message = format!("{} is the id of {owner} already; ids are unique", party.rp_id());
            found.push(finding(key("rp_id"), message));
        }
        found.extend(party.oprf_public_key.iter().flat_map(|point| public_key(point, &key("oprf_public_key"))));
    }
    found
}

fn trusted_roots(config: &Config) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut roots: Seen<(U256, Environment, ProofKind)> = Seen::new("trusted_roots");
    for (index, root) in config.trusted_roots.iter().enumerate() {
        let key = format!("trusted_roots[{index}].root");
        if root.root >= FIELD_MODULUS {
            found.push(finding(key.clone(), "is not below the modulus of the BN254 scalar field"));
        }
        if let Some(first) = roots.first_before((root.root, root.environment, root.kind), index) {
            found.push(finding(key, format!("is {first} already, of the same environment and kind")));
        }
    }
    found
}

fn finding(key: impl Into<String>, message: impl Into<String>) -> Finding {
    (key.into(), message.into())
}

fn unknown_app(id: &str) -> String {
    format!("{id:?} is not the id of an application in [[apps]]")
}

/// The entries of a list by what has to be unique among them.
struct Seen<T> {
    list: &'static str,
    first: HashMap<T, usize>,
}

impl<T: Eq + Hash> Seen<T> {
    fn new(list: &'static str) -> Self {
        Self { list, first: HashMap::new() }
    }

    /// Notes the entry; the path of the one that had the same value before it.
    fn first_before(&mut self, value: T, index: usize) -> Option<String> {
        let first = *self.first.entry(value).or_insert(index);
        (first < index).then(|| format!("{}[{first}]", self.list))
    }
}

fn is_app_id(id: &str) -> bool {
    id.strip_prefix("app_").is_some_and(|rest| {
        (1..=128).contains(&rest.len())
            && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    })
}

/// A point that can be a key.
fn public_key(point: &PublicKey, key: &str) -> Vec<Finding> {
    let too_large = |(name, coordinate): (&str, U256)| {
        let message = "is not below the modulus of the BN254 scalar field";
        (coordinate >= FIELD_MODULUS).then(|| finding(format!("{key}.{name}"), message))
    };
    let wrong = commitment::PublicKey::from_coordinates(&point.x, &point.y).err().and_then(|error| {
        let message = match error {
            // Said of the coordinate itself.
            PublicKeyError::NotCanonical => return None,
            PublicKeyError::Identity => "is the identity of the curve, which is nobody's key",
            PublicKeyError::NotOnCurve => "is not a point of BabyJubJub; give the affine coordinates of a public key",
            PublicKeyError::NotInSubgroup => {
                "is a point of BabyJubJub outside its prime-order subgroup, which is nobody's key"
            }
        };
        Some(finding(key, message))
    });
    [("x", point.x), ("y", point.y)].into_iter().filter_map(too_large).chain(wrong).collect()
}

/// Splits an absolute http or https URL of printable ASCII without user, password and fragment.
fn web_url(text: &str) -> Result<Uri, String> {
    let wrong =
        |reason: &str| format!("{text:?} {reason}; write it like https://id.example or https://id.example/path");
    if !text.starts_with("https://") && !text.starts_with("http://") {
        return Err(wrong("does not begin with https:// or http://"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong("has characters other than printable ASCII"));
    }
    if text.contains('#') {
        return Err(wrong("has a fragment"));
    }
    let uri: Uri = text.parse().map_err(|_| wrong("is not a URL"))?;
    let authority = uri.authority().ok_or_else(|| wrong("has no host"))?;
    if authority.as_str().contains('@') {
        return Err(wrong("has a user in it"));
    }
    if authority.host().is_empty() || (authority.as_str() != authority.host() && uri.port_u16().is_none()) {
        return Err(wrong("has no proper host and port"));
    }
    Ok(uri)
}

/// The address of an interface: paths are appended to it as text.
fn base_url(text: &str) -> Result<(), String> {
    let uri = web_url(text)?;
    if uri.query().is_some() || text.ends_with('?') {
        return Err(format!("{text:?} has a query; write it without"));
    }
    if text.ends_with('/') {
        return Err(format!("{text:?} ends with a slash; write {:?}", text.trim_end_matches('/')));
    }
    Ok(())
}

/// An origin exactly as a browser sends it, because it is compared as text.
fn origin(text: &str) -> Result<(), String> {
    if text == "*" {
        return Err("\"*\" is not an origin; name every origin, like https://wallet.example".to_owned());
    }
    let uri = web_url(text)?;
    let scheme = uri.scheme_str().unwrap_or_default();
    let host = uri.host().unwrap_or_default().to_ascii_lowercase();
    let right = match uri.port_u16() {
        Some(port) if (scheme, port) != ("https", 443) && (scheme, port) != ("http", 80) => {
            format!("{scheme}://{host}:{port}")
        }
        _ => format!("{scheme}://{host}"),
    };
    if text == right { Ok(()) } else { Err(format!("{text:?} is not an origin as browsers send it; write {right:?}")) }
}

/// A redirect URI: https, or http to this machine (spec page "Sign-in").
fn redirect_uri(text: &str) -> Result<(), String> {
    let uri = web_url(text)?;
    let local = matches!(uri.host(), Some("localhost" | "127.0.0.1" | "[::1]"));
    if uri.scheme_str() == Some("http") && !local {
        return Err(format!("{text:?} is http; write https, or http only to localhost, 127.0.0.1 or [::1]"));
    }
    Ok(())
}
