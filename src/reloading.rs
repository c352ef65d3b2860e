//! The settings that can change while the daemon runs, and how they are taken over.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use hyper::header::HeaderValue;
use selfsame_actors::{
    AdmissionLimits, BridgeHandle, ChainHandle, EventsHandle, GroupError, GroupsHandle, RegistryHandle, Service,
    SignInError, SignInHandle, SubjectConflicts, VerificationHandle,
};
use selfsame_interfaces::gateway::CreationPolicy;
use selfsame_interfaces::http::{AllowedOrigins, Certificate, Limits, TlsError};
use selfsame_interfaces::operator::ReloadStatus;
use selfsame_interfaces::sign_in::appearance::Appearance;
use selfsame_interfaces::sign_in::wallet_links::WalletLinks;
use selfsame_protocol::client_secret::ClientSecret;
use selfsame_protocol::number;
use selfsame_protocol::operator::Simulation;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::StoreError;

use crate::config::sections::Registry;
use crate::config::{App, Config, CreateAccount, Network, Origin, RateLimit, SecretHash};
use crate::integrity::AttestationIssuers;
use crate::webhooks::Webhooks;
use crate::{chains, setup};

/// The settings that can change while the daemon runs.
#[derive(Clone)]
pub struct Reloading {
    registry: RegistryHandle,
    verification: VerificationHandle,
    sign_in: SignInHandle,
    bridge: BridgeHandle,
    events: EventsHandle,
    chain: ChainHandle,
    groups: GroupsHandle,
    pub(crate) simulation: Arc<ArcSwapOption<Simulation>>,
    pub(crate) creation: Arc<ArcSwap<CreationPolicy>>,
    pub(crate) invitation_token: Arc<ArcSwapOption<ClientSecret>>,
    pub(crate) limits: Arc<ArcSwap<Limits>>,
    pub(crate) trusted_proxies: Arc<ArcSwap<Vec<Network>>>,
    pub(crate) origins: AllowedOrigins,
    pub(crate) certificate: Option<Arc<Certificate>>,
    pub(crate) appearance: Arc<Appearance>,
    pub(crate) wallet_links: Arc<WalletLinks>,
    serves_bridge: bool,
    serves_wallet: bool,
    /// The most connections that an address may have, whatever is configured.
    most_connections: usize,
    pub(crate) status: ReloadStatus,
}

/// What was read at the start besides the configuration itself.
pub(crate) struct StartParts {
    /// The seed of the simulator's secrets; `None` when no verification key is the simulator's.
    pub simulator_seed: Option<String>,
    /// The certificate of the listeners; `None` for plain HTTP.
    pub certificate: Option<Arc<Certificate>>,
    /// Whose pages end users see.
    pub appearance: Appearance,
    /// How authenticators are opened.
    pub wallet_links: WalletLinks,
    /// Whether the message bridge is served.
    pub serves_bridge: bool,
    /// Whether the wallet interface is served.
    pub serves_wallet: bool,
    /// The most connections that an address may have: the descriptors allow no more.
    pub most_connections: usize,
}

/// Why this process cannot take over a configuration.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReloadError {
    /// An application signs in over the message bridge, which was left out at the start.
    #[error(
        "wallet_link = \"bridge\" needs the message bridge, which is not served, because another program had the address \
         of listen.bridge at the start; restart the daemon when the address is free, or with another listen.bridge"
    )]
    BridgeNotServed,
    /// There are groups, and the wallet interface was left out at the start.
    #[error(
        "[[groups]] need the wallet interface, which is not served, because another program had the address of \
         listen.wallet at the start; restart the daemon when the address is free, or with another listen.wallet"
    )]
    WalletNotServed,
    /// It says otherwise than the store which subjects new accounts get.
    #[error(transparent)]
    Subjects(#[from] SubjectConflicts),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] SignInError),
    /// The operator's decisions about roots cannot be read.
    #[error(transparent)]
    Roots(#[from] StoreError),
    /// Its groups cannot be taken over.
    #[error("groups: {0}")]
    Groups(#[from] GroupError),
}

impl Reloading {
    /// The settings at the start, from `config`.
    pub(crate) fn new(config: &Config, service: &Service, parts: StartParts, now: UnixSeconds) -> Self {
        let StartParts { simulator_seed, certificate, appearance, wallet_links, most_connections, .. } = parts;
        let (serves_bridge, serves_wallet) = (parts.serves_bridge, parts.serves_wallet);
        let origins = AllowedOrigins::default();
        origins.replace(allowed_origins(config));
        warn_of_hidden_roots(config, &service.verification());
        let simulation = simulator_seed.map(|seed| Arc::new(setup::simulation(config, seed)));
        Self {
            registry: service.registry(),
            verification: service.verification(),
            sign_in: service.sign_in(),
            bridge: service.bridge(),
            events: service.events(),
            chain: service.chain(),
            groups: service.groups(),
            simulation: Arc::new(ArcSwapOption::new(simulation)),
            creation: Arc::new(ArcSwap::from_pointee(creation_policy(config))),
            invitation_token: Arc::new(ArcSwapOption::new(invitation_token(config))),
            limits: Arc::new(ArcSwap::from_pointee(limits(config, most_connections))),
            trusted_proxies: Arc::new(ArcSwap::from_pointee(config.limits.trusted_proxies.clone())),
            origins,
            certificate,
            appearance: Arc::new(appearance),
            wallet_links: Arc::new(wallet_links),
            serves_bridge,
            serves_wallet,
            most_connections,
            status: ReloadStatus::started_at(now),
        }
    }

    /// Checks that this process can take over a configuration.
    ///
    /// # Errors
    /// See [`ReloadError`].
    pub fn check(&self, config: &Config) -> Result<(), ReloadError> {
        if !self.serves_bridge && config.signs_in_over_bridge() {
            return Err(ReloadError::BridgeNotServed);
        }
        if !self.serves_wallet && !config.groups.is_empty() {
            return Err(ReloadError::WalletNotServed);
        }
        self.sign_in.check_subjects(&setup::sign_in::clients(config))??;
        self.groups.check_settings(&setup::groups::group_settings(config))?;
        Ok(())
    }

    /// Whether the store knows that an application has accepted a legacy proof. When the store
    /// cannot be read, nothing is known.
    pub fn knows_legacy_history(&self, app: &App) -> bool {
        self.sign_in.has_legacy_history(&app.id, app.sign_in_environment()).unwrap_or(false)
    }

    /// Takes over the settings of a configuration that was read again, as [`Config::with_reloaded`]
    /// returns it: limits, who may create accounts, who may invite, origins, the bridge, groups,
    /// applications, actions, issuers, relying parties and trusted roots.
    ///
    /// # Errors
    /// The groups cannot be taken over, and nothing was; or the operator's decisions about roots
    /// cannot be read, and nothing but the groups was taken over.
    pub fn apply(&self, config: &Config) -> Result<(), ReloadError> {
        self.groups.set_settings(setup::groups::group_settings(config))?;
        self.verification.set_configured_roots(setup::verification::trusted_roots(config))?;
        self.verification.set_directory(setup::verification::directory(config));
        self.verification.set_limits(setup::verification::limits(config));
        chains::follow_owners(config, &self.chain);
        self.sign_in.set_clients(setup::sign_in::clients(config));
        self.sign_in.set_limits(setup::sign_in::limits(config));
        let simulated = |old: &Arc<Simulation>| Arc::new(setup::simulation(config, old.seed.clone()));
        self.simulation.rcu(|simulation| simulation.as_ref().map(simulated));
        self.bridge.set_settings(setup::bridge(config));
        self.registry.set_limits(admission_limits(config));
        self.creation.store(Arc::new(creation_policy(config)));
        self.invitation_token.store(invitation_token(config));
        self.limits.store(Arc::new(limits(config, self.most_connections)));
        self.trusted_proxies.store(Arc::new(config.limits.trusted_proxies.clone()));
        self.origins.replace(allowed_origins(config));
        warn_of_hidden_roots(config, &self.verification);
        Ok(())
    }

    /// Takes over the certificate of a new configuration, where the listeners speak TLS. Returns
    /// whether it is another one.
    pub fn replace_certificate(&self, new: Option<&Certificate>) -> bool {
        self.certificate.as_ref().zip(new).is_some_and(|(current, new)| current.replace(new))
    }

    /// Takes over the logos and the links of a new configuration's applications.
    pub fn replace_logos_and_links(&self, logos: &Appearance, links: &WalletLinks) {
        self.appearance.replace_apps(logos);
        self.wallet_links.replace_apps(links);
    }

    /// Takes over the webhooks and streams of a new configuration.
    pub fn replace_webhooks(&self, new: Webhooks, config: &Config) {
        self.events.set_settings(new.settings(config));
    }

    /// Takes over the attestation issuers of a new configuration. Those with the same source keep
    /// the keys that were read.
    pub fn replace_attestation_issuers(&self, new: AttestationIssuers) {
        let simulation = self.simulation.load();
        let seed = simulation.as_ref().map(|simulation| simulation.seed.as_str());
        self.verification.set_attestation_issuers(new.settings(seed));
        self.verification.begin_to_read_keys();
    }

    /// What came of the last reload, for the operator interface.
    pub fn status(&self) -> &ReloadStatus {
        &self.status
    }

    /// Reads the certificate of the listeners again when its files were changed.
    pub fn reload_changed_certificate(&self) {
        if let Some(certificate) = &self.certificate {
            match certificate.reload_if_changed() {
                Ok(false) => {}
                Ok(true) => log_reload(Ok(())),
                Err(error) => log_reload(Err(error)),
            }
        }
    }
}

/// Warns of the operator's roots that no proof can use any more: their public name is a group's.
fn warn_of_hidden_roots(config: &Config, verification: &VerificationHandle) {
    for (root, identifier, group) in setup::groups::hidden_roots(config, &verification.trusted_roots()) {
        tracing::warn!(
            root = %number::canonical(root.root),
            environment = root.environment.name(),
            identifier = identifier.name(),
            group = group.as_str(),
            "a root that was added by command is trusted for a public name that a group has in its environment, so that \
             it does not count for this name: proofs that name it are members' of the group; take the root back, or \
             give the group another legacy_identifier"
        );
    }
}

fn log_reload(reloaded: Result<(), TlsError>) {
    match reloaded {
        Ok(()) => tracing::info!("the certificate was read again"),
        Err(error) => tracing::error!(%error, "the new certificate cannot be used; the old one stays in use"),
    }
}

/// The limits of admission.
pub(crate) fn admission_limits(config: &Config) -> AdmissionLimits {
    AdmissionLimits {
        queue_length: config.limits.queue_length,
        waiting_calls: config.limits.in_flight,
        status_waiters: config.limits.status_waiters,
        per_source: config.limits.per_source.map(RateLimit::limit),
        per_leaf_index: config.limits.per_leaf_index.map(RateLimit::limit),
        request_retention: *config.registry.request_retention,
        idempotency_retention: *config.limits.idempotency_retention,
    }
}

/// Who may create accounts.
fn creation_policy(config: &Config) -> CreationPolicy {
    let Registry { create_account, create_account_token_hash: token, .. } = &config.registry;
    match create_account {
        CreateAccount::Open => CreationPolicy::Open,
        // The configuration is refused when the hash is missing; no token has this one.
        CreateAccount::Token => {
            let no_token = ClientSecret { salt: [0; 16], digest: [0; 32] };
            CreationPolicy::Token(token.as_ref().map_or(no_token, SecretHash::client_secret))
        }
    }
}

/// The token of programs that invite.
fn invitation_token(config: &Config) -> Option<Arc<ClientSecret>> {
    config.operator.invitation_token_hash.as_ref().map(|hash| Arc::new(hash.client_secret()))
}

fn allowed_origins(config: &Config) -> Vec<HeaderValue> {
    config.cors.allowed_origins.iter().cloned().map(Origin::into_header_value).collect()
}

/// The limits of every listener, with no more connections than the descriptors allow.
fn limits(config: &Config, most_connections: usize) -> Limits {
    Limits {
        connections: config.limits.max_connections.min(most_connections),
        connections_per_source: config.limits.max_connections_per_source,
        header_timeout: *config.limits.header_timeout,
        idle_timeout: *config.limits.idle_timeout,
        request_timeout: *config.limits.request_timeout,
        grace: *config.limits.shutdown_grace,
        forwarded_header: config.limits.forwarded_header,
        ..Limits::default()
    }
}
