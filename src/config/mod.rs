//! The daemon's configuration: read from a TOML file and environment variables, checked as a whole,
//! then plain typed values.
//!
//! | module | what it holds |
//! |---|---|
//! | this one | [`Config`]: all sections, and what a reload changes |
//! | [`sections`] | the sections as types, with defaults |
//! | `directory` | who asks for proofs and signs in, and what is trusted: `[[apps]]` to `[[trusted_roots]]` |
//! | `integrity` | `[[integrity]]`: whose word counts for the apps and devices of people |
//! | [`chains`] | `[[chains]]`: what is followed from public contracts, with presets |
//! | `cluster` | `[cluster]`: the replicas that this daemon is one of |
//! | `pages` | `[sign_in.page]`: whose pages end users see, and the links to authenticators |
//! | `outgoing` | `[events]`, `[[webhooks]]` and `[traces]`: what is sent to others |
//! | `addresses` | `[listen]` and `[urls]`, and the other URLs |
//! | [`values`] | the types of single values: how they are read, written and described |
//! | `tree` | the settings of file and variables, before they have types |
//! | `load` | from file and variables to a [`Config`]; why it cannot be loaded; what `--dev` adds and prints |
//! | `check` | every rule about values that have the right type |
//! | `dump` | the effective configuration as text |
//! | `schema` | the configuration file as a JSON Schema, for editors |
//!
//! `docs/configuration/` describes every key.

mod addresses;
pub mod chains;
mod check;
mod cluster;
mod directory;
mod dump;
mod groups;
mod integrity;
mod load;
mod outgoing;
mod pages;
mod schema;
pub mod sections;
#[cfg(test)]
mod tests;
mod tree;
pub mod values;

use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use selfsame_interfaces::interface::{Interface, PerInterface, PublicUrls};
use selfsame_protocol::commitment::PublicKey;
use selfsame_protocol::operator::SOCKET_FILE;
use selfsame_protocol::sign_in::passkeys::{PasskeyDomain, PasskeyDomainError};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

pub use addresses::{ApplicationPage, BaseUrl, Origin, RedirectUri, check_redirect_uri};
pub use chains::{Block, Chain, Contract, ContractKind, OnUpgrade};
pub use cluster::{Cluster, KeyPrefix, ReplicaName};
pub use directory::*;
pub use dump::Dump;
pub use groups::{AwaitedRoll, Group, Sources};
pub use integrity::{Integrity, KeySetUrl};
pub use load::{ConfigError, Loaded, Origins, Position, SettingError, Source, settings_of_this_process};
pub use outgoing::{CollectorUrl, Events, Traces, Webhook, WebhookUrl};
pub use pages::{
    AuthenticatorApp, AuthenticatorName, Colour, ConnectorBase, ContactUrl, DomainName, PageUrl, ServiceName,
    SignInPage, WalletLink,
};
pub use schema::schema;
pub use sections::*;
pub use values::{
    HIDDEN, InactiveStatus, Network, OperatorSocket, ProductionKey, RelyingPartyId, SecretHash, StagingKey, TimeSpan,
};

/// The whole configuration, checked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Whether the daemon was started with `--dev`; not a key.
    #[serde(skip)]
    pub dev: bool,
    /// The folder that holds the store and the operator's token.
    pub data_dir: PathBuf,
    /// The address and port of each interface. Interfaces with the same address share it.
    #[serde(deserialize_with = "addresses::listen", serialize_with = "addresses::write_listen")]
    #[schemars(with = "addresses::Listen")]
    pub listen: PerInterface<SocketAddr>,
    /// The base URL of each public interface as clients see it; by default `http://`, or `https://`
    /// with `[tls]`, and the bound address.
    #[serde(deserialize_with = "addresses::urls", serialize_with = "addresses::write_urls")]
    #[schemars(with = "addresses::Urls")]
    pub urls: PerInterface<Option<String>>,
    /// Certificate and private key; without them plain HTTP is served.
    pub tls: Option<Tls>,
    /// The domain that authenticators sign for, and the parameters of the rules.
    pub registry: Registry,
    /// When a block is closed.
    pub batcher: Batcher,
    /// What one client, or all clients together, may ask for.
    pub limits: Limits,
    /// What the store may take of the machine.
    pub storage: Storage,
    /// Who may call the operator interface.
    pub operator: Operator,
    /// The replicas that this daemon is one of; without the section it is alone.
    pub cluster: Option<Cluster>,
    /// Backups at regular times.
    pub backup: Backup,
    /// Whether clients on other machines may be served plain HTTP.
    pub insecure_http: bool,
    /// The daemon's log.
    pub log: Log,
    /// Where traces of requests are sent.
    pub traces: Traces,
    /// The origins from which browsers may call.
    pub cors: Cors,
    /// Lifetimes and constants of the sign-in interface.
    pub sign_in: SignIn,
    /// How long, and how many, messages the message bridge keeps.
    pub bridge: Bridge,
    /// The web wallet of members.
    pub wallet: Wallet,
    /// Streams of events, and how long events are kept.
    pub events: Events,
    /// The addresses that are told of events.
    pub webhooks: Vec<Webhook>,
    /// The worker threads that check proofs, and their keys.
    pub verifier: Verifier,
    /// The communities whose members prove that they are members.
    pub groups: Vec<Group>,
    /// The applications, which are also the OAuth clients.
    pub apps: Vec<App>,
    /// The actions that need a setting. The first verified proof of another action creates it.
    pub actions: Vec<Action>,
    /// The issuers of credentials.
    pub issuers: Vec<Issuer>,
    /// The attestation issuers by whose keys integrity bundles are judged.
    pub integrity: Vec<Integrity>,
    /// The relying parties that differ from the derived default.
    pub relying_parties: Vec<RelyingParty>,
    /// The roots that proofs may be made against.
    pub trusted_roots: Vec<TrustedRoot>,
    /// The public contracts that trusted roots and keys are followed from.
    pub chains: Vec<Chain>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            dev: false,
            data_dir: PathBuf::from("selfsame-data"),
            listen: addresses::default_listen(),
            urls: PerInterface::default(),
            tls: None,
            registry: Registry::default(),
            batcher: Batcher::default(),
            limits: Limits::default(),
            storage: Storage::default(),
            operator: Operator::default(),
            cluster: None,
            backup: Backup::default(),
            insecure_http: false,
            log: Log::default(),
            traces: Traces::default(),
            cors: Cors::default(),
            sign_in: SignIn::default(),
            bridge: Bridge::default(),
            wallet: Wallet::default(),
            events: Events::default(),
            webhooks: Vec::new(),
            verifier: Verifier::default(),
            groups: Vec::new(),
            apps: Vec::new(),
            actions: Vec::new(),
            issuers: Vec::new(),
            integrity: Vec::new(),
            relying_parties: Vec::new(),
            trusted_roots: Vec::new(),
            chains: Vec::new(),
        }
    }
}

impl Config {
    /// The base URL of each interface: the configured one, or else the bound address (for a
    /// configured port 0 the system chooses the port).
    pub fn public_urls(&self, bound: &PerInterface<SocketAddr>) -> PublicUrls {
        PerInterface::from_fn(|interface| {
            let scheme = if self.tls.is_some() && interface.is_public() { "https" } else { "http" };
            self.urls[interface].clone().unwrap_or_else(|| format!("{scheme}://{}", bound[interface]))
        })
    }

    /// The path of the operator interface's unix socket; `None` when it is turned off.
    pub fn operator_socket(&self) -> Option<PathBuf> {
        match &self.operator.socket {
            OperatorSocket::InDataFolder => Some(self.data_dir.join(SOCKET_FILE)),
            OperatorSocket::At(path) => Some(path.clone()),
            OperatorSocket::Off => None,
        }
    }

    /// The application's relying party id at the verification interface: the id of its
    /// `[[relying_parties]]` entry, else the id that is derived from its own.
    pub fn relying_party_id(&self, app_id: &str) -> RelyingPartyId {
        let entry = self.relying_parties.iter().find(|party| party.app_id == app_id);
        entry.map_or_else(|| RelyingPartyId::derived_from(app_id), RelyingParty::rp_id)
    }

    /// The domain that browsers keep passkeys for, of an issuer at the configured address.
    ///
    /// # Errors
    /// Why there are none.
    pub fn passkey_domain(&self) -> Result<PasskeyDomain, PasskeyDomainError> {
        self.passkey_domain_at(&self.public_urls(&self.listen)[Interface::SignIn])
    }

    /// The same for an issuer at `id_url`.
    ///
    /// # Errors
    /// Why there are none.
    pub fn passkey_domain_at(&self, id_url: &str) -> Result<PasskeyDomain, PasskeyDomainError> {
        PasskeyDomain::new(id_url, self.sign_in.passkey_domain.as_ref().map(DomainName::as_str))
    }

    /// Whether sign-in uses the message bridge for an application.
    pub fn signs_in_over_bridge(&self) -> bool {
        let links = self.apps.iter().map(|app| app.wallet_link.as_ref()).chain([self.sign_in.wallet_link.as_ref()]);
        links.flatten().any(|link| *link == WalletLink::Bridge)
    }

    /// The relying party's OPRF public key, which current proofs to an application need.
    pub fn oprf_public_key(&self, app_id: &str) -> Option<PublicKey> {
        self.relying_parties
            .iter()
            .find(|party| party.app_id == app_id)
            .and_then(|party| party.oprf_public_key)
            .map(|key| key.0)
    }

    /// The environments of an application in which the OPRF public key of its relying party is
    /// followed from a chain: those of its `[[relying_parties]]` entry without a key.
    pub fn follows_oprf_key_in(&self, app: &App) -> Vec<Environment> {
        let entry = self.relying_parties.iter().find(|party| party.app_id == app.id);
        if entry.is_none_or(|party| party.oprf_public_key.is_some()) {
            return Vec::new();
        }
        let environments = app.environments().into_iter();
        environments.filter(|environment| self.follows(ContractKind::OprfKeys, *environment)).collect()
    }

    /// Whether a contract of a kind is followed for an environment.
    pub fn follows(&self, kind: ContractKind, environment: Environment) -> bool {
        self.chains.iter().any(|chain| chain.follows(kind, environment))
    }

    /// Whether current proofs to an application can be verified: its relying party has an OPRF
    /// public key, or may get one from a chain.
    pub fn takes_current_proofs(&self, app: &App) -> bool {
        self.oprf_public_key(&app.id).is_some() || !self.follows_oprf_key_in(app).is_empty()
    }

    /// Whether the verification interface accepts legacy proofs to an application: by default while
    /// it takes no current ones. The legacy and the current proof of one person have unrelated
    /// nullifiers, so an application that accepts both can count the person twice.
    pub fn accepts_legacy(&self, app: &App) -> bool {
        app.accept_legacy.unwrap_or_else(|| !self.takes_current_proofs(app))
    }

    /// The configuration after a reload: this one with what of `new` needs no restart.
    ///
    /// # Errors
    /// What was read again needs other settings that changed, too: the chains, which only a restart
    /// takes over.
    pub fn with_reloaded(&self, new: Self) -> Result<Reloaded, ConfigError> {
        let mut reloaded = self.clone();
        for setting in &TAKEN_OVER {
            (setting.take)(&mut reloaded, &new);
        }
        // Listeners that speak TLS take over other files; plain HTTP stays plain HTTP.
        if self.tls.is_some() != new.tls.is_some() {
            reloaded.tls.clone_from(&self.tls);
        }
        reloaded.check_again()?;
        // With the old chains, an application whose OPRF key is to be followed would count persons
        // by legacy proofs again.
        let differs = |app: &App| reloaded.accepts_legacy(app) != new.accepts_legacy(app);
        if let Some(index) = new.apps.iter().position(differs) {
            let message = "its OPRF key is followed from a chain that a restart adds; restart the daemon".to_owned();
            let key = format!("apps[{index}]");
            return Err(ConfigError::Invalid(vec![SettingError { key, message, source: Source::Default }]));
        }
        let (changed, needs_restart) = (self.difference(&reloaded)?, reloaded.difference(&new)?);
        Ok(Reloaded { config: reloaded, changed, needs_restart })
    }

    /// The names of the settings that differ: the keys of sections, and at the top level the keys
    /// that are no section, a list, or a section that may be left out. Those of [`TAKEN_OVER`] come
    /// first, in its order.
    fn difference(&self, other: &Self) -> Result<Vec<String>, ConfigError> {
        let (mut names, own, others) = (Vec::new(), self.comparable()?, other.comparable()?);
        for (name, value) in in_both(&own, &others) {
            match value {
                (Some(Value::Table(own)), Some(Value::Table(others))) if !OPTIONAL_SECTIONS.contains(&name) => {
                    let keys = in_both(own, others).filter(|(_, (own, other))| own != other);
                    names.extend(keys.map(|(key, _)| format!("{name}.{key}")));
                }
                (own, other) if own != other => names.push(name.to_owned()),
                _ => {}
            }
        }
        names.sort_by_key(|name| TAKEN_OVER.iter().position(|setting| setting.covers(name)).unwrap_or(usize::MAX));
        Ok(names)
    }

    /// The settings as a dump has them, with a fingerprint of each secret.
    fn comparable(&self) -> Result<Table, ConfigError> {
        values::with_fingerprints(|| Table::try_from(self)).map_err(ConfigError::Unwritable)
    }
}

/// The keys of two tables of the same type in its order, each with its values there. A table has no
/// key without a value.
fn in_both<'a>(
    first: &'a Table,
    second: &'a Table,
) -> impl Iterator<Item = (&'a str, (Option<&'a Value>, Option<&'a Value>))> {
    let mut keys: Vec<&str> = first.keys().map(String::as_str).collect();
    let mut next = 0;
    for key in second.keys() {
        match keys.iter().position(|known| known == key) {
            Some(found) => next = found + 1,
            None => {
                keys.insert(next, key);
                next += 1;
            }
        }
    }
    keys.into_iter().map(|key| (key, (first.get(key), second.get(key))))
}

/// The sections that may be left out. Their keys have meaning together, so that a difference names
/// the section.
const OPTIONAL_SECTIONS: [&str; 2] = ["tls", "cluster"];

/// A setting that a running daemon takes over from a configuration that was read again.
struct TakenOver {
    /// The setting: a key at the top level, or one of a section.
    name: &'static str,
    take: fn(&mut Config, &Config),
}

impl TakenOver {
    /// Whether a name is that of the setting, or of a key in it.
    fn covers(&self, name: &str) -> bool {
        name.strip_prefix(self.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

macro_rules! taken_over {
    ($($section:ident $(. $key:ident)?),* $(,)?) => {
        [$(TakenOver {
            name: concat!(stringify!($section) $(, ".", stringify!($key))?),
            take: |running, new| running.$section$(.$key)?.clone_from(&new.$section$(.$key)?),
        }),*]
    };
}

/// What a reload takes over; every other setting waits for a restart. `Reloading::apply` and what
/// stands beside its call hand each of them to the parts that use it.
const TAKEN_OVER: [TakenOver; 16] = taken_over![
    limits,
    bridge,
    events,
    webhooks,
    cors,
    groups,
    apps,
    actions,
    issuers,
    integrity,
    relying_parties,
    trusted_roots,
    tls,
    registry.create_account,
    registry.create_account_token_hash,
    operator.invitation_token_hash,
];

/// A configuration that was read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// What is in force from now on.
    pub config: Config,
    /// The keys of the settings that changed.
    pub changed: Vec<String>,
    /// The keys of the settings that differ, and wait for a restart.
    pub needs_restart: Vec<String>,
}
